"""A protocol, a wrapper, a prior, a method, a reader and a format of pages are one file each: a copy gets a toy of all.

Nothing else in the copy changes. The tables of the tests (``cases.py`` and ``priorcases.py`` in tests/support, the engines
of ``test_engines_agree.py``, ``test_sources.py``, ``test_pages.py``) each take one line for a real one, and fail without
it.
"""

import pathlib
import shutil
import subprocess
import sys
import textwrap

import pytest

ROOT = pathlib.Path(__file__).parents[1]

PROTOCOL = '''
"""Randomized response that is asked for by another name."""

from dataclasses import dataclass
from typing import ClassVar

from ldpbayes.protocols.base import AbstractProtocol
from ldpbayes.protocols.grr import GRR


@dataclass(frozen=True)
class Toy(AbstractProtocol):
    """Randomized response, delegated."""

    n_categories: int
    epsilon: float
    name: ClassVar[str] = "toy"

    @property
    def inner(self):
        return GRR(self.n_categories, self.epsilon)

    hit_rates = property(lambda self: self.inner.hit_rates)
    n_outputs = property(lambda self: self.n_categories)
    report_format = property(lambda self: self.inner.report_format)

    def list_reports(self):
        return self.inner.all_reports()

    def rows(self, reports, counts):
        return self.inner.rows(reports, counts)

    def randomize(self, values, rng):
        return self.inner.privatize(values, rng)

    def randomize_one(self, value):
        return self.inner.privatize_one(value)
'''

WRAPPER = '''
"""People who are asleep, and report at random."""

import numpy as np

from ldpbayes.collections.derived import Derived
from ldpbayes.collections.noncompliance import extended
from ldpbayes.collections.tally import Tally
from ldpbayes.collections.wrappers.base import AbstractWrapper
from ldpbayes.protocols.noncompliance import Noncompliance, as_law


class Toy(AbstractWrapper):
    """A category of people whose reports are uniform."""

    kind = "toy"
    doubt = "respondents may be asleep"
    name = "sleepers"
    test = "alertness"
    symbol = "σ"
    nobody = "nobody asleep"
    some = "some are asleep"
    share = "the share σ of respondents who are asleep"
    explanation = "P and F are those of the respondents who are awake."
    remedy = "A second channel may identify it, and a prior"
    usual = 0.1

    def shares(self, data):
        return (Derived(self.name, data.laws),)

    def extended(self, draws, data):
        share = draws[self.name].reshape(-1, 1)
        return np.concatenate([(1 - share) * draws["distribution"].reshape(-1, len(data.answers)), share], axis=1)


class ToyChannel(Noncompliance):
    """A channel that some sleep through."""

    name = "toy channel"
    registered = False
    wrapper = "toy"


def with_sleepers(collection):
    """Return the collection with one more category: those who are asleep."""
    tallies = []
    for tally in collection.tallies:
        law = as_law("uniform", tally.protocol, collection.categories)
        tallies.append(Tally.trusted(ToyChannel(tally.protocol, (law,)), tally.reports, tally.counts, tally.name))
    return extended(collection, ("asleep",), tallies)
'''

PRIOR_NAMED = """
    @classmethod
    def named(cls):
        return {"toy": cls}
"""

ENGINE = '''
"""Draws from the prior, weighted by the likelihood: the simplest method for any prior."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ldpbayes.methods.base import AbstractPosterior, Outcome, Preparation


@dataclass(frozen=True)
class Toy(AbstractPosterior):
    """Sampling-importance-resampling from the prior."""

    name: ClassVar[str] = "toy"
    after: ClassVar[str] = "nuts"
    needs: ClassVar[tuple[str, ...]] = ("rows",)

    def prepare(self, problem):
        return Preparation("Draws from the prior, weighted.", 1.0, problem)

    def run(self, plan, rng, watch):
        problem = plan.state
        p = problem.prior.sample(20_000, rng)
        log_weight = problem.likelihood.log_likelihood(p.T)
        weight = np.exp(log_weight - log_weight.max())
        chosen = rng.choice(len(p), self.chains * self.draws, p=weight / weight.sum())
        return Outcome(p[chosen].reshape(self.chains, self.draws, -1), effective=weight.sum() ** 2 / (weight**2).sum())
'''

READER = '''
"""Files with one report a line."""

import pathlib
from typing import ClassVar

import pyarrow

from ldpbayes.sources.stream import AbstractFile


class ToyFile(AbstractFile):
    """One report a line, without a header."""

    suffixes: ClassVar[tuple[str, ...]] = (".toy",)

    def schema(self):
        return pyarrow.schema([("report", pyarrow.string())])

    def rows(self, columns):
        yield pyarrow.table({"report": pathlib.Path(self.source).read_text().split()})
'''

RENDERER = '''
"""Pages in capitals."""

from dataclasses import dataclass
from typing import ClassVar

from ldpbayes.pages.rendering import AbstractRenderer


@dataclass(frozen=True)
class Toy(AbstractRenderer):
    """The title, in capitals."""

    name: ClassVar[str] = "toy"
    suffixes: ClassVar[tuple[str, ...]] = (".toy",)

    def render(self, page):
        return page.title.upper()
'''

USE = '''
import pathlib
import numpy as np
import ldpbayes as lb
from ldpbayes import pages

here = pathlib.Path.cwd()
(here / "answers.toy").write_text("a\\nb\\na\\nc\\na\\n")
(here / "survey.toml").write_text("""
title = "A survey"
categories = ["a", "b", "c"]

[[channels]]
protocol = "toy"
file = "answers.toy"
parameters = { epsilon = 1.0 }
""")
survey = lb.read(here / "survey.toml")
assert survey.tallies[0].protocol.name == "toy" and survey.tallies[0].counts.tolist() == [3, 1, 1]
same = lb.Collection(["a", "b", "c"], lb.Tally(lb.GRR(3, 1.0), [0, 0, 0, 1, 2]))
assert np.array_equal(lb.estimators.MLE()(survey).distribution, lb.estimators.MLE()(same).distribution)

general = lb.fit(survey, "toy", random_seed=1)
toy = lb.fit(survey, "toy", "toy", random_seed=1)
assert general.attrs["prior"] == toy.attrs["prior"] == "logistic-normal with scale 1"
assert general.attrs["method"] == "weighted" and toy.attrs["method"] == "toy"
apart = general["summary"]["mean"] - toy["summary"]["mean"]
assert float(abs(apart).max()) < 0.02, apart
try:
    lb.fit(survey, "toy", "exact")
except lb.errors.InfeasibleError as err:
    assert "needs a Dirichlet prior" in str(err)
else:
    raise AssertionError("exact served a prior that is no Dirichlet")

lb.show(toy).save(here / "page.toy")
assert (here / "page.toy").read_text() == "A SURVEY"
from ldpbayes.collections.wrappers.toy import with_sleepers
from ldpbayes.priors import Compliance
from ldpbayes.result import extended_draws, facts_of

awake = lb.Collection(["a", "b", "c"], lb.Tally(lb.GRR(3, 1.0), [0, 1, 2], [60, 30, 10]))
sleepy, known = with_sleepers(awake), awake.with_noncompliers({"asleep": "uniform"})
one, other = (lb.fit(data, Compliance(gamma=(2, 18)), random_seed=1) for data in (sleepy, known))
assert np.array_equal(one["posterior"]["sleepers"], other["posterior"]["noncompliance"])
assert np.array_equal(extended_draws(one, sleepy), extended_draws(other, known))
assert facts_of(one)["sleepers"].startswith("P and F are those of the respondents who are awake.")
assert any("who are awake" in note for note in one.notes) and "log_evidence" not in one.attrs
cells = lb.fit(lb.Cells({"x": sleepy, "y": sleepy}), Compliance(gamma=(2, 18)), random_seed=1)
assert "Every cell has its own σ." in facts_of(cells)["sleepers"] and "sleepers_sd" in cells["cells"]
print("all six serve")
'''


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the package with one new file in each family."""
    folder = tmp_path_factory.mktemp("copy")
    package = folder / "ldpbayes"
    shutil.copytree(ROOT / "ldpbayes", package, ignore=shutil.ignore_patterns("__pycache__"))
    prior = (ROOT / "tests" / "support" / "priorcases.py").read_text()
    start, stop = (
        prior.index("@dataclass(frozen=True)\nclass LogisticNormal"),
        prior.index("@dataclass(frozen=True, eq=False)"),
    )
    header = "from dataclasses import dataclass\n\nfrom ldpbayes.priors.base import AbstractSoftmax, NormalLaw\n\n\n"
    files = {
        "protocols/toy.py": PROTOCOL,
        "collections/wrappers/toy.py": WRAPPER,
        "priors/toy.py": f'"""A logistic-normal prior."""\n\n{header}{prior[start:stop].rstrip()}\n{PRIOR_NAMED}',
        "methods/toy.py": ENGINE,
        "sources/toy.py": READER,
        "pages/renderers/toy.py": RENDERER,
    }
    for name, text in files.items():
        assert not (package / name).exists()
        (package / name).write_text(textwrap.dedent(text))
    return folder


def test_a_toy_of_each_is_one_file(copy):
    done = subprocess.run([sys.executable, "-c", USE], capture_output=True, text=True, cwd=copy)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "all six serve"
