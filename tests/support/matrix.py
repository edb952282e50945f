"""Every world with every action, through the public door: served, or refused for a reason of statistics.

``python tests/support/matrix.py [WORLD ...]`` (``make matrix``) tries all pairs and some twenty command lines in one
process, and prints the table with the reasons. ``tests/test_matrix.py`` tries a seeded twentieth of them.
"""

import contextlib
import functools
import io
import pathlib
import re
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter

import numpy as np
import pandas as pd
from samples import from_sample

import ldpbayes as lb
from ldpbayes import cli
from ldpbayes.errors import LDPBayesError
from ldpbayes.result import extended_draws

YES_NO = ["no", "yes"]
#: Settings of small fits.
SMALL = dict(draws=100, chains=2, random_seed=1)
CELLS = ("x", "y", "z")

#: Why statistics refuse: what each reason is called, and how its sentences are known. At most twelve.
REASONS = {
    "no report came in": r"at least one channel with reports|has no reports",
    "the method asked for is not one for this posterior": (
        r"method \w+ (needs|is for)|needs three categories|exact posterior needs reports|categories must be at most|"
        r"Tally states must be|chain of tallies needs|Exact draws need whole counts|true tallies can be drawn only"
    ),
    "the draws of the method asked for cannot be trusted": r"draws cannot be trusted",
    "means and intervals alone do not have the dependence between shares": r"needs draws, and this result has moments",
    "nobody is said to deny or to ignore the device": r"made by with_noncompliers",
    "a weighted report is no user": (
        r"no sampling weights|where they are weighted|take no sampling weights|this result has no frequencies"
    ),
    "reports that support no categories at known rates have no fakes' gain": r"have no support counts",
    "fakes are not told from those who ignore the device": r"honest reports and unknown fakes",
    "a summary has no single reports": r"summar\w+ (keeps?|has|have|are|is)|whole reports|needs the (distinct )?reports",
    "a summary far from its pilot cannot stand for its reports": r"cannot stand for its reports",
    "the prior has no moments in closed form": r"Moments without draws need a Dirichlet prior",
    "a cell that was left out has no share": r"cell must be one of x, z, got 'y'|result was fitted to, with shape",
}


def labels(a):
    """Return names of categories."""
    return [f"v{x}" for x in range(a)]


def reported(protocol, a, n, seed, names=None, **texts):
    """Return a Collection of the reports of n users, whose answers follow 1/x."""
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, a + 1)
    reports = protocol.simulate(rng.multinomial(n, share / share.sum()), rng)
    return lb.Collection(names or labels(a), [lb.Tally(protocol, *reports)], **texts)


def both(first, second, a, n, seed, names=None):
    """Return a Collection of two channels."""
    halves = [reported(p, a, n // 2, seed + i, names) for i, p in enumerate((first, second))]
    tallies = [lb.Tally(t.protocol, t.reports, t.counts, name=f"half {i}") for i, h in enumerate(halves) for t in h.tallies]
    return lb.Collection(names or labels(a), tallies)


def sampled(n, seed, **columns):
    """Return a Collection of a survey sample by Warner's design."""
    rng = np.random.default_rng(seed)
    made = {
        "weights": lambda: rng.uniform(0.5, 2.0, n),
        "strata": lambda: np.array(["north", "south"])[rng.integers(0, 2, n)],
    }
    settings = {name: made[name]() for name in columns}
    return from_sample(YES_NO, lb.protocols.warner(0.75), rng.integers(0, 2, n), **settings)


def histories(n, seed):
    """Return a Collection of users who report three times."""
    return reported(lb.protocols.Repeated(lb.GRR(4, 1.0), 3), 4, n, seed)


#: Worlds: n and a seed make a collection.
WORLDS = {
    "survey": lambda n, seed: reported(lb.protocols.warner(0.75), 2, n, seed, YES_NO),
    "direct": lambda n, seed: reported(lb.protocols.direct(2), 2, n, seed, YES_NO),
    "direct and device": lambda n, seed: both(lb.protocols.direct(2), lb.protocols.crosswise(0.25), 2, n, seed, YES_NO),
    "GRR": lambda n, seed: reported(lb.GRR(4, 1.0), 4, n, seed),
    "OUE": lambda n, seed: reported(lb.make_protocol("oue", labels(4), {"epsilon": 1.5}), 4, n, seed),
    "hashing": lambda n, seed: reported(lb.protocols.LocalHashing(4, 1.5), 4, n, seed),
    "two protocols": lambda n, seed: both(lb.GRR(4, 1.0), lb.make_protocol("oue", labels(4), {"epsilon": 1.5}), 4, n, seed),
    "60 categories": lambda n, seed: reported(lb.GRR(60, 3.0), 60, 5 * n, seed),
    "ordered": lambda n, seed: reported(lb.GRR(5, 1.5), 5, n, seed, ordered=True),
    "derived": lambda n, seed: reported(
        lb.GRR(4, 1.0), 4, n, seed, derived=[lb.collections.Derived("first of two", ["v0"], ["v0", "v1"])]
    ),
    "weights": lambda n, seed: sampled(n, seed, weights=True),
    "strata": lambda n, seed: sampled(n, seed, weights=True, strata=True),
    "ignoring": lambda n, seed: both(
        lb.protocols.warner(0.8), lb.protocols.warner(0.3), 2, n, seed, YES_NO
    ).with_noncompliers({"no-sayer": "no"}),
    "deniers": lambda n, seed: WORLDS["direct and device"](n, seed).with_deniers(of="yes", say="no", channel="half 0"),
    "histories": histories,
    "attributes": lambda n, seed: reported(
        lb.protocols.kronecker([lb.protocols.warner(0.8)] * 2, "/"), 4, n, seed, ["no/no", "no/yes", "yes/no", "yes/yes"]
    ),
    "no report": lambda n, seed: lb.Collection(labels(4), [lb.Tally(lb.GRR(4, 1.0), range(4), [0] * 4)]),
    "one report": lambda n, seed: lb.Collection(labels(4), [lb.Tally(lb.GRR(4, 1.0), [2], [1])]),
    "missing": lambda n, seed: reported(lb.GRR(4, 1.0), 4, n, seed, missing=n // 10),
    "summaries": None,  # made of cells
}


def cells_of(world):
    """Return three cells of a world; the last is smaller."""
    if world == "summaries":
        return cells_of("OUE").summaries(np.array([0.4, 0.25, 0.2, 0.15]))
    return lb.Cells({name: WORLDS[world](n, i) for i, (name, n) in enumerate(zip(CELLS, (300, 200, 60), strict=True))})


class Place:
    """A world in one form, with what several actions share made once."""

    def __init__(self, world, form, folder):
        self.world, self.form, self.folder = world, form, pathlib.Path(folder)
        self._fits = {}

    @functools.cached_property
    def data(self):
        """The collection, or the cells."""
        return WORLDS[self.world](300, 1) if self.form == "one" else cells_of(self.world)

    @property
    def labels(self):
        """Its categories."""
        return list(self.data.categories)

    @property
    def cell(self):
        """Settings that name a cell, where there are several."""
        return {} if self.form == "one" else {"cell": CELLS[0]}

    @property
    def channel(self):
        """Settings that name a channel, where there are several."""
        return {"channel": self.data.tallies[0].name} if len(self.data.tallies) > 1 else {}

    def fit(self, prior="default", **settings):
        """Return a fit, made once."""
        key = prior, *sorted(settings.items())
        if key not in self._fits:
            self._fits[key] = lb.fit(self.data, prior, **(SMALL | settings))
        return self._fits[key]


def _observed(place):
    import pymc as pm

    cells = () if place.form == "one" else (len(CELLS),)
    with pm.Model() as model:
        p = pm.Dirichlet("p", np.ones((*cells, len(place.labels))))
        lb.pymc.observe("y", p, place.data)
        return model.point_logps()


def _attached(place):
    import arviz

    posterior, data = place.fit()["posterior"], place.data
    draws = extended_draws(place.fit(), data).reshape(*posterior["distribution"].shape[:-1], -1)
    if place.form == "cells":
        data = data.take(posterior["cell"].values)

    trace = arviz.from_dict({"posterior": {"p": draws}})
    return lb.pymc.attach(trace, data, random_seed=1)


def _written(place):
    folder = place.folder / "written"
    folder.mkdir(exist_ok=True)
    path = folder / ("data.toml" if place.world != "summaries" else "data.parquet")
    lb.write(place.data, path)
    return lb.fit(path, **SMALL)


def _saved(place):
    path = place.folder / "saved.nc"
    lb.save(place.fit(), path)
    return lb.load(path).table()


def _paged(place):
    lb.pages.save(place.fit(), place.folder / "page.html")


def _left_out(place):
    return place.fit().extend("log_likelihood")


def _regressed(place):
    cells = {f"{i}": WORLDS[place.world](300, i) for i in range(2)} if place.form == "one" else dict(place.data)
    return lb.regress(lb.Cells(cells, by="x", categories=place.labels), "answer ~ x", **SMALL)


def _poststratified(place):
    return lb.poststratify(place.fit(), dict(zip(CELLS, (0.5, 0.3, 0.2), strict=True)))


def _methods():
    """Return an action for each posterior method."""
    for name in dir(lb.methods):
        method = getattr(lb.methods, name)
        settings = dict(draws=50, chains=2) | (dict(tune=50) if name == "NUTS" else {})
        prior = {"Weighted": "floor", "HMC": "smooth"}.get(name, "jeffreys")
        yield (
            f"by {name}",
            lambda place, method=method, settings=settings, prior=prior: lb.fit(
                place.data, prior, method=method(**settings), random_seed=1
            ),
        )


#: Actions, by the forms that they are for.
ACTIONS = {
    "fit": lambda m: m.fit(),
    **{f"prior {p}": lambda m, p=p: m.fit(p) for p in ("jeffreys", "learnt", "floor", "smooth", "hierarchical", "days")},
    "no draws": lambda m: m.fit("jeffreys", draws=0),
    **dict(_methods()),
    "check": lambda m: lb.check(m.data, replications=99),
    "crosscheck": lambda m: lb.crosscheck(m.data, random_seed=1, draws=50, chains=2),
    "MLE": lambda m: lb.estimators.MLE()(m.data),
    "oracle": lambda m: lb.estimators.Oracle()(m.data),
    "MAP": lambda m: lb.estimators.MLE(prior="flat")(m.data),
    "show": lambda m: str(lb.show(m.fit())),
    "show data": lambda m: str(lb.show(m.data)),
    "page": _paged,
    "save and load": _saved,
    "write and read": _written,
    "simultaneous": lambda m: lb.answers.simultaneous_intervals(m.fit(), **m.cell),
    "contrast": lambda m: lb.contrast(m.fit(), m.labels[0], m.labels[1], **m.cell),
    "contrast of cells": lambda m: lb.contrast(m.fit(), m.labels[0], m.labels[0], cell="x", other_cell="y"),
    "contrast, no draws": lambda m: lb.contrast(m.fit("jeffreys", draws=0), m.labels[0], m.labels[1], **m.cell),
    "top k": lambda m: lb.answers.probability_in_top(m.fit(), 1, **m.cell),
    "sum": lambda m: lb.answers.category_sum(m.fit(), m.labels[:1], **m.cell),
    "F": lambda m: lb.answers.category_sum(m.fit(), m.labels[:1], target="frequency", **m.cell),
    "entropy": lambda m: lb.answers.entropy(m.fit(), **m.cell),
    "hull": lambda m: lb.robust.contamination_hull(m.data, **m.channel),
    "fakes": lambda m: lb.robust.fakes(m.data, m.labels[0], lift=0.1, **m.channel),
    "sensitivity": lambda m: lb.robust.sensitivity(m.data, m.labels[0], points=5),
    "compliance test": lambda m: lb.robust.compliance_test(m.data),
    "observe": _observed,
    "attach": _attached,
    "leave one out": _left_out,
    "regress": _regressed,
    "poststratify": _poststratified,
    "plot": lambda m: lb.plots.plot_forest(m.fit()),
    "plot predictive": lambda m: (lb.plots.plot_predictive if m.form == "one" else lb.plots.plot_predictive_cells)(
        m.fit(), m.data, draws=20
    ),
    "plot expected": lambda m: lb.plots.plot_expected(m.data, np.full(len(m.labels), 1 / len(m.labels)), draws=20),
}
#: Actions that are for cells only, and for one collection only: there is nothing to do for the others.
OF_CELLS = {"contrast of cells", "poststratify", "prior hierarchical", "prior days"}
OF_ONE = {"plot expected", "fakes", "sensitivity", "compliance test", "hull", "MLE", "oracle", "MAP"}


def command_lines(folder):
    """Yield command lines, as lists of words, on files that are written for them."""
    folder = pathlib.Path(folder)
    lb.write(WORLDS["GRR"](300, 1), folder / "grr.toml")
    lb.write(WORLDS["direct and device"](300, 1), folder / "both.toml")
    lb.write(cells_of("survey"), folder / "cells.toml")
    rng = np.random.default_rng(1)
    frame = {"report": rng.choice(YES_NO, 200), "x": rng.normal(size=200).round(2), "g": rng.choice(list("ab"), 200)}
    pd.DataFrame(frame | {"w": rng.uniform(0.5, 2, 200).round(2)}).to_csv(folder / "rows.csv", index=False)
    warner = "--protocol warner -p p=0.8 --categories no,yes --report report"
    for line in (
        "fit {0}/grr.toml --draws 100",
        "fit {0}/grr.toml --draws 0 --prior jeffreys",
        "fit {0}/grr.toml --draws 100 --prior learnt --json",
        "fit {0}/grr.toml --draws 100 --page {0}/p.html",
        "fit {0}/grr.toml --draws 100 --output {0}/p.nc",
        "fit {0}/grr.toml --explain",
        "fit {0}/both.toml --draws 100 --set noncompliance.careless=uniform --noncompliance-prior 2,18",
        "fit {0}/cells.toml --draws 100",
        "fit {0}/cells.toml --draws 100 --prior hierarchical",
        "fit example:nigeria --draws 100 --top 2",
        "fit {0}/rows.csv " + warner + " --draws 100",
        "fit {0}/rows.csv " + warner + " --draws 100 --by g",
        "fit {0}/rows.csv " + warner + " --draws 100 --set weights=w",
        "check {0}/grr.toml",
        "check {0}/cells.toml",
        "crosscheck {0}/both.toml --draws 100",
        "regress {0}/rows.csv report~x " + warner + " --draws 100",
        "private-groups {0}/rows.csv --value x --report report --protocol warner -p p=0.8 --categories no,yes --draws 50",
        "associate example:wada --draws 100",
        "plan --n-categories 4 --epsilon 1 --users 1000",
        "simulate {0}/sim.toml --n-categories 5 --users 200 -p epsilon=1",
        "protocols --json",
    ):
        yield line.format(folder).split()


def applies(world, form, action):
    """Return whether there is something to do for this form."""
    if form == "one":
        return WORLDS[world] is not None and action not in OF_CELLS
    return action not in OF_ONE


def pairs(worlds=WORLDS):
    """Yield (world, form, action)."""
    for world in worlds:
        for form in ("one", "cells"):
            yield from ((world, form, action) for action in ACTIONS if applies(world, form, action))


def outcome(action, place):
    """Return ("served", ""), ("refused", the sentence) or ("foreign", what was raised and where)."""
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            ACTIONS[action](place)
    except LDPBayesError as refused:
        return "refused", str(refused)
    except Exception as raised:
        where = traceback.extract_tb(raised.__traceback__)[-1]
        return "foreign", f"{type(raised).__name__}: {raised} ({pathlib.Path(where.filename).name}:{where.lineno})"
    finally:
        sys.modules.get("matplotlib.pyplot") and sys.modules["matplotlib.pyplot"].close("all")
    return "served", ""


def reason(sentence):
    """Return the reason of statistics that a refusal gives, or None."""
    return next((name for name, pattern in REASONS.items() if re.search(pattern, sentence)), None)


def main(*worlds):
    """Print the table, the reasons, what is refused for none of them, and the command lines; return the exit status."""
    import matplotlib

    matplotlib.use("agg")
    letters = dict(zip(REASONS, "abcdefghijkl", strict=False)) | {"served": ".", "refused": "?", "foreign": "!"}
    counted, seconds, begun, odd = Counter(), Counter(), time.process_time(), 0
    with tempfile.TemporaryDirectory() as folder:
        for world in worlds or WORLDS:
            for form in ("one", "cells"):
                marks, lines, place = "", [], Place(world, form, folder)
                for action in ACTIONS:
                    if not applies(world, form, action):
                        marks += " "
                        continue
                    start = time.process_time()
                    kind, said = outcome(action, place)
                    seconds[action] += time.process_time() - start
                    why = (reason(said) if kind == "refused" else None) or kind
                    counted[why] += 1
                    marks += letters[why]
                    lines += [f"      {action}: {kind}, {said}"] if why in ("refused", "foreign") else []
                odd += len(lines)
                print("\n".join([f"{world:18} {form:6} {marks} {time.process_time() - begun:6.0f} s", *lines]), flush=True)
        for words in () if worlds else command_lines(folder):
            status, said = commanded(words)
            counted[f"commands that end with {status}"] += 1
            if status not in (0, 1):
                odd += 1
                print(f"      {' '.join(words)}: {said}")
    for name, number in counted.most_common():
        print(f"{letters.get(name, ' ')} {number:5}  {name}")
    print("slowest:", ", ".join(f"{name} {taken:.0f} s" for name, taken in seconds.most_common(8)))
    return bool(odd)


def commanded(words):
    """Return (exit status, what was printed) of a command line in this process."""
    out, err = io.StringIO(), io.StringIO()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            warnings.simplefilter("ignore")
            cli.main(words)
    except SystemExit as stopped:
        return stopped.code or 0, out.getvalue() + err.getvalue()
    except Exception as raised:
        return "foreign", repr(raised)
    return 0, out.getvalue()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
