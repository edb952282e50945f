"""Progress bars on standard error, and what is kept after Ctrl-C by each method."""

import functools
from types import SimpleNamespace

import numpy as np
import pytest
from cases import neighbours
from conditioned import weighted

from ldpbayes import Cells, Collection, Tally
from ldpbayes.errors import ConvergenceError, DiagnosticWarning, LDPBayesWarning
from ldpbayes.fitting import fit
from ldpbayes.methods import nuts
from ldpbayes.methods.base import Pace, Watch
from ldpbayes.methods.constants import ALLOCATED_TOGETHER as TOGETHER
from ldpbayes.progress import track
from ldpbayes.protocols import GRR
from ldpbayes.protocols.unary import UnaryEncoding
from ldpbayes.result.facts import facts_of
from ldpbayes.road import walk
from ldpbayes.road.methods import METHODS


def interrupting(after):
    """Yield 0, 1, …; Ctrl-C comes instead of number ``after``."""
    for i in range(10**6):
        if i == after:
            raise KeyboardInterrupt
        yield i


def interrupt(monkeypatch, cls, name, after):
    """Make a method of a class raise KeyboardInterrupt at its call number ``after`` and whenever called later."""
    original, calls = getattr(cls, name), []

    def replacement(self, *args):
        calls.append(1)
        if len(calls) > after:
            raise KeyboardInterrupt
        return original(self, *args)

    monkeypatch.setattr(cls, name, replacement)


def collected(protocol, n, seed=1):
    rng = np.random.default_rng(seed)
    truth = rng.multinomial(n, rng.dirichlet(np.full(protocol.n_categories, 2.0)))
    return Collection([f"c{x}" for x in range(protocol.n_categories)], [Tally(protocol, *protocol.simulate(truth, rng))])


@pytest.mark.parametrize("shown", [True, False])
def test_track_yields_everything_and_writes_only_to_standard_error(shown, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal: elsewhere finished bars leave nothing
    assert list(track(range(5), "Counting", shown=shown)) == [0, 1, 2, 3, 4]
    assert list(track(iter("ab"), "Letters", total=2, shown=shown, weight=lambda _: 1)) == ["a", "b"]
    out, err = capsys.readouterr()
    assert not out and ("Counting" in err) == shown


def test_finished_keeps_what_was_done_before_an_interruption():
    watch = Watch()
    assert watch.finished(iter(range(3))) == [0, 1, 2] and not watch.interrupted
    assert watch.finished(interrupting(4), least=4) == [0, 1, 2, 3] and watch.interrupted
    with pytest.raises(KeyboardInterrupt):
        watch.finished(interrupting(4), least=5)


@pytest.mark.parametrize("name", ["exact", "quadrature", "pair_slice"])
def test_every_method_shows_its_progress_on_standard_error(name, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    collection = collected(GRR(3, 1.0), 30)
    fit(collection, "jeffreys", METHODS[name](draws=250), random_seed=1, progressbar=True, estimates=False)
    out, err = capsys.readouterr()
    assert not out and "%" in err


def test_interrupted_surrogate_keeps_the_weighted_blocks(monkeypatch):
    collection = collected(UnaryEncoding.optimized(6, 1.0), 800)
    whole = weighted(collection, "jeffreys", 500)
    interrupt(monkeypatch, type(collection.rows), "log_likelihood", 2)
    found = weighted(collection, "jeffreys", 500)
    assert len(whole.distribution) == 2000 and np.array_equal(found.distribution, whole.distribution[:1000])


def test_interrupted_surrogate_says_so_and_auto_does_not_start_another_method(monkeypatch):
    collection = collected(UnaryEncoding.optimized(12, 1.0), 800)
    assert facts_of(fit(collection, random_seed=1, estimates=False))["interrupted"] == 0
    interrupt(monkeypatch, type(collection.rows), "log_likelihood", 3)
    tree = fit(collection, random_seed=1, estimates=False)
    assert tree.attrs["method"] == "surrogate" and facts_of(tree)["interrupted"] == 1
    assert tree["posterior"]["frequency"].shape == (4, 375, 12)
    assert "375 draws a chain" in tree.attrs["outcome"]


def test_interrupted_surrogate_that_cannot_be_trusted_stops(monkeypatch):
    collection = collected(neighbours(10), 60)
    with pytest.raises(ConvergenceError):
        fit(collection, "jeffreys", METHODS["surrogate"](), random_seed=1, estimates=False)
    interrupt(monkeypatch, type(collection.rows), "log_likelihood", 2)
    with pytest.raises(KeyboardInterrupt, match=r"cannot.*trusted"):
        fit(collection, "jeffreys", "surrogate", random_seed=1, estimates=False)


def test_interrupted_draws_of_frequencies_keep_the_finished_ones(monkeypatch):
    collection = collected(GRR(5, 1.0), 400)
    with monkeypatch.context() as patch:
        interrupt(patch, type(collection.rows.sampler()), "allocate_each", 3)  # draws are allocated in blocks
        tree = fit(collection, method="exact", random_seed=1, estimates=False)
    assert tree["posterior"]["distribution"].shape == (4, 3 * TOGETHER // 4, 5) and facts_of(tree)["interrupted"] == 1
    assert tree["summary"]["mcse"].sel(target="distribution").max() == 0  # the moments do not come from draws
    interrupt(monkeypatch, type(collection.rows.sampler()), "allocate_each", 0)
    with pytest.raises(KeyboardInterrupt):
        fit(collection, method="exact", random_seed=1, estimates=False)


def test_interrupted_chains_are_not_handed_over(monkeypatch):
    collection = collected(UnaryEncoding.optimized(20, 4.0), 60)
    monkeypatch.setattr(
        Watch, "track", lambda _, items, title, *__, **___: _stop(items, 300) if title == "Pair slices" else items
    )
    others = [name for name in METHODS if name not in ("pair_slice", "nuts")]
    with pytest.warns(DiagnosticWarning, match="interrupted after"):
        tree = fit(collection, "jeffreys", random_seed=1, estimates=False, exclude=others)
    assert tree.attrs["method"] == "pair_slice" and facts_of(tree)["interrupted"] == 1


def _stop(items, after):
    for i, item in enumerate(items):
        if i == after:
            raise KeyboardInterrupt
        yield item


def three_cells():
    return Cells({name: collected(GRR(3, 1.0), 30, seed) for seed, name in enumerate("abc")})


def test_cells_one_by_one_have_one_bar_and_a_warning_where_they_take_long(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    fit(three_cells(), "jeffreys", "quadrature", draws=250, random_seed=1, estimates=False, progressbar=True)
    out, err = capsys.readouterr()
    assert not out and "Cells" in err and "100%" in err
    monkeypatch.setattr(walk, "Watch", functools.partial(Watch, long=1e-6))
    with pytest.warns(LDPBayesWarning, match=r"3 cells.*progressbar=True") as said:
        fit(three_cells(), "jeffreys", "quadrature", draws=250, random_seed=1, estimates=False)
    assert said[0].filename == __file__


def test_what_the_first_cell_loads_is_not_taken_for_the_time_of_each(monkeypatch, recwarn):
    """A forecast counts what comes again: the first cell took 100 s, and the others a hundredth of one."""
    seconds, run = [0.0], METHODS["quadrature"].run

    def slow_at_first(*arguments):
        seconds[0] += 0.01 if seconds[0] else 100.0
        return run(*arguments)

    clock = SimpleNamespace(process_time=lambda: seconds[0], monotonic=lambda: seconds[0])
    monkeypatch.setattr(walk, "time", clock)
    monkeypatch.setattr(METHODS["quadrature"], "run", slow_at_first)
    fit(three_cells(), "jeffreys", "quadrature", draws=250, random_seed=1, estimates=False)
    assert not [warning for warning in recwarn if issubclass(warning.category, LDPBayesWarning)]


def test_a_method_that_takes_long_says_so_before_it_starts(monkeypatch):
    """Every method by its plan, at the line of the caller; the No-U-Turn sampler by a chain of a hundred draws, below."""
    order, run = [], METHODS["surrogate"].run
    monkeypatch.setattr(METHODS["surrogate"], "pace", Pace(1000.0, 0.0, 0.0))
    monkeypatch.setattr(METHODS["surrogate"], "run", lambda *arguments: order.append(len(said)) or run(*arguments))
    with pytest.warns(LDPBayesWarning, match=r"surrogate.*1000 s.*progressbar=True") as said:
        fit(collected(GRR(4, 1.0), 60, 1), "jeffreys", "surrogate", random_seed=1, estimates=False)
    assert order == [1] and said[0].filename == __file__


def test_the_last_method_says_how_long_it_takes_and_again_where_its_chains_go_on(monkeypatch):
    """A stand-in for the sampler, whose draws take a second each and are short of effective ones at first."""
    seconds, rng, made = [0.0], np.random.default_rng(1), []

    def sampler(compiled, name, shown, *, draws, tune, chains, **settings):
        seconds[0] += chains * (draws + tune)
        made.append(draws)
        p = rng.dirichlet([6.0, 4.0], (chains, draws))
        if draws == 1000:
            p = p[:, np.arange(draws) // 20]  # every draw stays for twenty
        return {name: p}, {"diverging": np.zeros((chains, draws), bool)}

    monkeypatch.setattr(nuts, "by_nutpie", sampler)
    monkeypatch.setattr(nuts, "_compile", lambda model: None)
    monkeypatch.setattr(nuts, "time", SimpleNamespace(process_time=lambda: seconds[0]))
    with pytest.warns(LDPBayesWarning, match=r"No-U-Turn.*last.*takes") as said:
        fit(collected(GRR(2, 1.0), 60, 1), "jeffreys", "nuts", random_seed=1, estimates=False)
    forecasts = [int(str(w.message).split("about ")[1].split(" s")[0]) for w in said]
    assert forecasts == [8000, 4 * (made[-1] + 1000)]
    assert made[:2] == [50, 1000] and all(w.filename == __file__ for w in said)


def test_interrupted_cells_keep_those_before(monkeypatch):
    whole = fit(three_cells(), "jeffreys", "quadrature", draws=250, random_seed=1, estimates=False)
    interrupt(monkeypatch, METHODS["quadrature"], "run", 2)
    with pytest.warns(DiagnosticWarning, match="interrupted"):
        tree = fit(three_cells(), "jeffreys", "quadrature", draws=250, random_seed=1, estimates=False)
    assert "c: the fit" in tree.attrs["left_out"]
    kept = tree["posterior"]["distribution"]
    assert np.array_equal(kept, whole["posterior"]["distribution"].sel(cell=kept.coords["cell"]))
    interrupt(monkeypatch, METHODS["quadrature"], "run", 0)
    with pytest.raises(KeyboardInterrupt):
        fit(three_cells(), "jeffreys", "quadrature", draws=250, random_seed=1, estimates=False)
