"""Fits that several test files share: NUTS is compiled once per structure and every collection sampled once."""

import functools
import gc
import os
import pathlib
import re
from collections import Counter

import continued
import hypothesis
import numpy as np
import pytest

from ldpbayes import GRR, Collection, Tally, fit, read
from ldpbayes.methods import NUTS

ROOT = pathlib.Path(__file__).parents[1]
#: What `make test` may lack, as the reasons of skipped tests name it: these are counted and named, and limit nothing.
OPTIONAL = ("pyspark", "Java", "selenium", "Chromium or chromedriver")
#: More tests than this that are skipped for another reason fail the run: none may hide that nothing is tested.
MAX_SKIPPED = 20


#: Where the garbage collector would walk over a million lasting objects at every turn, it is asked to look less often.
GC_THRESHOLD = (20_000, 20, 20)


#: A run has the same examples as the one before; `make fuzz` looks for new ones.
hypothesis.settings.register_profile("seeded", derandomize="FUZZ_EXAMPLES" not in os.environ)
hypothesis.settings.load_profile("seeded")


def pytest_addoption(parser):
    parser.addoption(
        "--continued", metavar="FILE", help="leave out the tests that passed before on this code; add those that do"
    )


def pytest_configure(config):
    """Read which tests passed before on this code."""
    config.done = set()
    if config.getoption("--continued"):
        config.journal = pathlib.Path(config.getoption("--continued"))
        files = [ROOT / "constraints.txt", *(ROOT / "data").rglob("*.*"), *(ROOT / "ldpbayes").rglob("*.toml")]
        shared = continued.code_of(ROOT / "ldpbayes", ROOT / "tests", files=files)
        config.code = functools.cache(lambda path: continued.code_of_test(ROOT / path, shared))
        config.done = continued.passed(config.journal)
        config.pluginmanager.register(Journal(config))


class Journal:
    """Adds each test that passes to the file of ``--continued``; workers leave that to the process that they report to."""

    def __init__(self, config):
        self.config = config

    def pytest_runtest_logreport(self, report):
        if report.when == "call" and report.passed and not hasattr(self.config, "workerinput"):
            path = report.nodeid.partition("::")[0]
            continued.add(self.config.journal, self.config.code(path), report.nodeid)


def pytest_collection(session):
    """Nothing that collection makes is garbage: do not look for any."""
    gc.disable()


#: Groups of files that one process runs, before all else. The first compiles the package's kernels, which are then on disk
#: for everybody, and the second PyMC's models: two processes that began with the same would both compile it.
GROUPS = ("kernels", "models")


@functools.cache
def _group(path):
    """Return the group that a file's ``pytest.mark.together`` names, or an empty string."""
    stated = re.search(r'^pytestmark = .*mark\.together\("(\w+)"\)', (ROOT / path).read_text(), re.MULTILINE)
    return stated.group(1) if stated else ""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Hand out file by file, except that the files of a group go to one process."""
    from xdist.scheduler import LoadFileScheduling

    class Together(LoadFileScheduling):
        def _split_scope(self, nodeid):
            return _group(nodeid.partition("::")[0]) or super()._split_scope(nodeid)

    return Together(config, log) if config.getvalue("dist") == "loadfile" else None


def _left_to_calibration(items):
    """Yield the items that ``calibrated`` names, and those that ``sampled`` leaves out."""
    seen = Counter()
    for item in items:
        stated, sampled = item.get_closest_marker("calibrated"), item.get_closest_marker("sampled")
        test, _, parameters = item.nodeid.partition("[")
        if stated and parameters.removesuffix("]") in stated.args:
            yield item
        elif sampled and item.get_closest_marker("calibrate") is None:
            if seen[test] % sampled.args[0]:
                yield item
            seen[test] += 1


def _place(item):
    """Return the place of an item's file in the order: groups, files that take five seconds or more, all others."""
    if together := item.get_closest_marker("together"):
        return GROUPS.index(together.args[0])
    return len(GROUPS) + (item.get_closest_marker("long") is None)


def _passed_before(config, items):
    """Return the items that the file of ``--continued`` has, on the code that they would run now."""
    named = {test for test, _ in config.done}
    known = [item for item in items if item.nodeid in named]
    return [item for item in known if (item.nodeid, config.code(item.nodeid.partition("::")[0])) in config.done]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark what ``make calibrate`` has; long files first, for whoever begins with them ends together with the others."""
    for item in list(_left_to_calibration(items)):
        item.add_marker("calibrate")
    before = _passed_before(config, items)
    if before:
        config.hook.pytest_deselected(items=before)
    dropped = {item.nodeid for item in before}
    items[:] = sorted((item for item in items if item.nodeid not in dropped), key=_place)


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

DATA = ROOT / "data"


@pytest.fixture(scope="session")
def nigeria():
    """A forced-response survey: two categories, 2,435 answers."""
    return read(DATA / "rr_nigeria.toml")


@pytest.fixture(scope="session")
def eriksson():
    """Ten categories of which half are never forced, 102 answers."""
    return read(DATA / "rr_eriksson_cheating.toml")


@pytest.fixture(scope="session")
def minarets():
    """Two forms, three latent categories: rows that are not separable."""
    return read(DATA / "rr_minarets.toml")


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
    return fit(nigeria, "flat", NUTS(), random_seed=1, estimates=False)


@pytest.fixture(scope="session")
def nuts_eriksson(eriksson):
    """The NUTS result of eriksson under Jeffreys' prior."""
    return fit(eriksson, "jeffreys", NUTS(), random_seed=2, estimates=False)


@pytest.fixture(scope="session")
def nuts_grr10(grr10):
    """The NUTS result of grr10 under Jeffreys' prior."""
    return fit(grr10, "jeffreys", NUTS(), random_seed=3, estimates=False)


@pytest.fixture
def interpreted():
    """PyTensor evaluates graphs in Python: compiling them costs a clean machine a minute a file."""
    import pytensor

    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        yield
