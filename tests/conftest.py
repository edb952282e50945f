"""Fits that several test files share: NUTS is compiled once per structure and every collection sampled once."""

import gc
import os
import pathlib
from collections import Counter

import numpy as np
import pytest

from ldpbayes import GRR, NUTS, Collection, Tally, read_collection

#: What `make test` may lack, as the reasons of skipped tests name it: these are counted and named, and limit nothing.
OPTIONAL = ("pyspark", "Java", "selenium", "Chromium or chromedriver")
#: More tests than this that are skipped for another reason fail the run: none may hide that nothing is tested.
MAX_SKIPPED = 20


#: Where the garbage collector would walk over a million lasting objects at every turn, it is asked to look less often.
GC_THRESHOLD = (20_000, 20, 20)


def pytest_collection(session):
    """Nothing that collection makes is garbage: do not look for any."""
    gc.disable()


#: Files that take ten seconds or more, the longest first: whoever begins with them ends together with the others.
LONGEST = (
    "test_net.py",
    "test_docs.py",
    "regression/test_posterior.py",
    "mend/test_08_channels_with_zeros.py",
    "test_spark.py",
    "test_result.py",
    "test_readme.py",
    "test_study.py",
    "posteriors/test_joint.py",
    "test_engines_agree.py",
    "priors/test_contract.py",
    "protocols/test_contract.py",
    "posteriors/test_nuts.py",
    "mend/test_04_asymmetric_mixtures.py",
    "posteriors/test_mixture.py",
    "posteriors/test_quadrature.py",
    "test_fit_cells.py",
    "test_cli_cells.py",
    "test_legacy.py",
    "posteriors/test_tally_states.py",
    "posteriors/test_expansion.py",
    "theory/test_bounds.py",
    "posteriors/test_shared.py",
    "test_faults.py",
    "test_fuzz.py",
    "posteriors/test_pair_slice.py",
    "posteriors/test_mend_engines.py",
    "test_sources.py",
    "test_crosscheck.py",
)


def pytest_collection_modifyitems(items):
    """Long files first, and where files are handed out in the order of the tests that is how they start."""
    rank = {pathlib.Path(__file__).parent / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path, len(rank)))


def pytest_collection_finish(session):
    """What is there after collection stays until the end: the garbage collector need not visit it again."""
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLD)
    gc.enable()


def pytest_sessionfinish(session):
    """Say what was not tested for want of an optional dependency, and fail a run that skips more than that."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter else []
    reasons = [report.longrepr[2].removeprefix("Skipped: ") for report in skipped]
    lacking = Counter(name for reason in reasons for name in OPTIONAL if reason.startswith(f"{name} is not installed"))
    if lacking:
        named = ", ".join(f"{name} (skips {count})" for name, count in lacking.items())
        reporter.write_line(f"\nNot tested, because an optional dependency is not installed: {named}.")
    other = len(reasons) - lacking.total()
    if other > MAX_SKIPPED:
        reporter.write_line(f"\n{other} tests were skipped for other reasons; at most {MAX_SKIPPED} may be.", red=True)
        session.exitstatus = 1


#: Tables of the command line are as wide as they need to be, also where the terminal states another width.
os.environ["COLUMNS"] = "160"

DATA = pathlib.Path(__file__).parents[1] / "data"


@pytest.fixture(scope="session")
def nigeria():
    """A forced-response survey: two categories, 2,435 answers."""
    return read_collection(DATA / "rr_nigeria.toml")


@pytest.fixture(scope="session")
def eriksson():
    """Ten categories of which half are never forced, 102 answers."""
    return read_collection(DATA / "rr_eriksson_cheating.toml")


@pytest.fixture(scope="session")
def minarets():
    """Two forms, three latent categories: rows that are not separable."""
    return read_collection(DATA / "rr_minarets.toml")


@pytest.fixture(scope="session")
def grr10():
    """1,000 simulated reports of GRR over ten categories with a geometric distribution."""
    rng = np.random.default_rng(20)
    p = 0.7 ** np.arange(10)
    protocol = GRR(10, epsilon=1.5)
    reports, counts = protocol.simulate(rng.multinomial(1000, p / p.sum()), rng)
    return Collection([f"c{x}" for x in range(10)], Tally(protocol, reports, counts), id="grr10")


@pytest.fixture(scope="session")
def nuts_nigeria(nigeria):
    """The NUTS result of nigeria under the flat prior."""
    return NUTS().posterior(nigeria, "flat", random_seed=1)


@pytest.fixture(scope="session")
def nuts_eriksson(eriksson):
    """The NUTS result of eriksson under Jeffreys' prior."""
    return NUTS().posterior(eriksson, "jeffreys", random_seed=2)


@pytest.fixture(scope="session")
def nuts_grr10(grr10):
    """The NUTS result of grr10 under Jeffreys' prior."""
    return NUTS().posterior(grr10, "jeffreys", random_seed=3)
