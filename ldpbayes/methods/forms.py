"""The log-likelihoods of all cells in one place: each cell in its cheapest form, for one compiled gradient."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ldpbayes.inference.importance import resample, weigh
from ldpbayes.likelihoods import Summary
from ldpbayes.priors.base import softmax


@dataclass(frozen=True, eq=False)
class Apart:
    """The log-likelihoods of all cells by the likelihoods themselves, which need not write out their rows.

    Attributes
    ----------
    likelihoods : tuple of AbstractLikelihood
        One for each cell.
    """

    likelihoods: Sequence
    arrays: tuple | None = None

    @property
    def visited(self):
        """Numbers that an evaluation visits."""
        return max(entries(self.likelihoods), len(self.likelihoods) * self.likelihoods[0].n_categories)

    def value_and_gradient(self, eta):
        """Return the log-likelihood at P = softmax(eta), eta (cells, a), and its gradient in eta."""
        p = softmax(eta)
        terms = [likelihood.value_and_gradient(q) for likelihood, q in zip(self.likelihoods, p, strict=True)]
        with np.errstate(invalid="ignore"):  # a p that rules a report out has an infinite gradient
            slope = p * np.stack([gradient for _, gradient in terms])
            return sum(value for value, _ in terms), slope - p * slope.sum(axis=1, keepdims=True)

    def log_likelihood(self, p):
        """Return the log-likelihood at draws of P (S, cells, a), with its constants."""
        cells = zip(self.likelihoods, np.moveaxis(p, 1, 0), strict=True)
        return sum(likelihood.log_likelihood(np.ascontiguousarray(q.T)) for likelihood, q in cells)


@dataclass(frozen=True, eq=False)
class Forms(Apart):
    """Arrays that the compiled gradient reads; see inference._kernels.of_logits.

    Attributes
    ----------
    likelihoods : sequence of AbstractLikelihood
        The reports themselves, by which draws are weighed, also where a summary stands in.
    arrays : tuple of arrays
        linear, curvature (cells, a), or none of them; starts, index, base, slope, counts of separable reports; row starts,
        places in the table, counts and the table; no gradient in it.
    expanded : (cells,) bool array
        Which cells stand in by a summary although their reports are there: their draws must be weighted.
    """

    expanded: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))

    @classmethod
    def of(cls, likelihoods, summaries=None):
        """Return the forms of all cells.

        Parameters
        ----------
        likelihoods : sequence of AbstractLikelihood
        summaries : sequence of Summary or None, optional
            In place of a cell's rows; None takes the rows themselves.
        """
        cells, a = len(likelihoods), likelihoods[0].n_categories
        linear, curvature = np.zeros((cells, a)), np.zeros((cells, a))
        forms, rows, counts = [], [np.empty((0, a))], [np.empty(0)]
        starts, row_starts = np.zeros(cells + 1, np.int64), np.zeros(cells + 1, np.int64)
        expanded = np.zeros(cells, bool)
        for c, likelihood in enumerate(likelihoods):
            form, cell_rows = likelihood.separable(), likelihood.rows()
            stand_in = None if summaries is None else summaries[c]
            if form is not None:
                forms.append(form)
                starts[c + 1] = len(form.index)
            elif cell_rows is None or stand_in is not None:
                summary = likelihood if stand_in is None else stand_in
                linear[c], curvature[c] = summary.linear, summary.tangent_curvature
                expanded[c] = cell_rows is not None
            else:
                matrix, count = merged(cell_rows)
                rows.append(matrix)
                counts.append(count)
                row_starts[c + 1] = len(count)
        joined = [
            np.concatenate([np.asarray(getattr(form, name), dtype=float) for form in forms] or [np.empty(0)])
            for name in ("index", "base", "slope", "counts")
        ]
        joined[0] = joined[0].astype(np.int64)
        summed = slice(None if linear.any() or curvature.any() else 0)
        table, weight = np.concatenate(rows), np.concatenate(counts)
        entries = row_starts.cumsum(), np.arange(len(table)), weight, table, np.empty((0, a))
        return cls(likelihoods, (linear[summed], curvature[summed], starts.cumsum(), *joined, *entries), expanded)

    def curvature(self, p):
        """Return minus the diagonal of the Hessian of the log-likelihood of a single cell at p (a,)."""
        _, curvature, _, index, base, slope, counts, _, row, weight, table, _ = self.arrays
        separable = np.bincount(index, counts * (slope / (base + slope * p[index])) ** 2, p.size)
        return curvature.sum(axis=0) + separable + (weight / (table[row] @ p) ** 2) @ table[row] ** 2


def merged(rows):
    """Return (matrix, counts): dense rows scaled to a largest entry of one, with proportional rows joined, in order."""
    matrix = np.ascontiguousarray(rows.dense())
    matrix = matrix / matrix.max(axis=1, keepdims=True)
    order = np.lexsort(matrix.T[::-1])
    matrix, counts = matrix[order], rows.counts[order]
    starts = np.flatnonzero(np.r_[True, (matrix[1:] != matrix[:-1]).any(axis=1)])
    return matrix[starts], np.add.reduceat(counts, starts).astype(float)


def entries(likelihoods):
    """Return the rows × categories of the cells that need rows or a summary."""
    return sum(likelihood.entries for likelihood in likelihoods if likelihood.separable() is None)


def expand(likelihoods, pilots, spreads):
    """Return the Summary that stands in for each cell, or None where the cell needs none."""
    return [
        Summary.of(likelihood, pilot, spread) if likelihood.separable() is None and likelihood.keeps_reports else None
        for likelihood, pilot, spread in zip(likelihoods, pilots, spreads, strict=True)
    ]


def log_weights(likelihoods, summaries, p):
    """Return log-likelihood − summary of each draw and cell, up to a constant a cell; p has shape (S, cells, a).

    Cells without a summary are left out: the shape is (S, cells that have one).
    """
    places = [c for c, summary in enumerate(summaries) if summary is not None]
    out = np.empty((len(p), len(places)))
    for k, c in enumerate(places):
        q = np.ascontiguousarray(p[:, c].T)
        linear, curvature = summaries[c].linear, summaries[c].tangent_curvature
        out[:, k] = likelihoods[c].log_likelihood(q) - linear @ q + 0.5 * curvature @ q**2
    return out


def reweighed(sample, log_ratio, rng):
    """Return (the Outcome resampled within each chain by weights, these weights).

    Parameters
    ----------
    sample : Outcome
        Outcome of chains on stand-ins.
    log_ratio : (chains · draws,) array
        Log of the likelihood over its stand-in.
    rng : numpy.random.Generator
    """
    weights = weigh(sample.distribution.reshape(len(log_ratio), -1), log_ratio)
    weight = weights.weight.reshape(sample.distribution.shape[:2])
    chosen = [resample(chain / max(chain.sum(), np.finfo(float).tiny), rng) for chain in weight]
    pick = np.arange(len(weight))[:, None], np.stack(chosen)
    facts = {"k_hat": weights.k_hat, "weights_effective": weights.effective_sample, "shift_by_weights": weights.shift}
    picked = replace(
        sample,
        distribution=sample.distribution[pick],
        stats={name: values[pick] for name, values in sample.stats.items()},
        hyperparameters={name: values[pick] for name, values in sample.hyperparameters.items()},
        variables={name: (dims, values[pick]) for name, (dims, values) in sample.variables.items()},
        facts=dict(sample.facts) | facts,
        verdict=weights.verdict,
    )
    return picked, weights
