"""Respondents who were not sampled at random, from arrays: as a table that is read."""

import numpy as np

import ldpbayes as lb
from ldpbayes.regression.fitting import Model, _read
from ldpbayes.regression.formula import Formula


def from_sample(categories, protocol, reports, *, weights=None, strata=None, clusters=None, population_size=None):
    """Return the Collection of reports with sampling weights (equal ones by default), strata and clusters."""
    columns = {"weights": np.ones(len(reports)) if weights is None else weights, "strata": strata, "cluster": clusters}
    columns = {name: np.asarray(entries) for name, entries in columns.items() if entries is not None}
    table = lb.write(np.asarray(reports), None, protocol, categories=list(categories), **columns)
    return lb.read(table, population_size=population_size, **{name: name for name in columns})


def weighted(values, weight):
    """Return mean, sd and 95 % ends of weighted values."""
    order = np.argsort(values, axis=None)
    at, w = values.ravel()[order], weight.ravel()[order]
    mean = w @ at
    return mean, np.sqrt(w @ (at - mean) ** 2), *np.interp([0.025, 0.975], np.cumsum(w) - 0.5 * w, at)


def regression_model(formula, frame, protocol, count=None):
    """Return the Model of a frame with a column of reports, whose categories are "0", "1", …; the calibrations' too."""
    labels = [str(x) for x in range(protocol.n_categories)]
    columns = {"design": None, "count": count, "weights": None}
    design, reports, *_ = _read(Formula.parse(formula), frame, protocol, "report", "refuse", columns, labels)
    return Model.of(design, reports, None, None)
