"""Ends of intervals come from the best source at hand, and every number of the summary has its error."""

import pathlib

import numpy as np
import pytest
from scipy.stats import beta

import ldpbayes as lb
from ldpbayes import answers
from ldpbayes.errors import ArgumentError
from ldpbayes.inference.ends import ends_of_draws
from ldpbayes.protocols import UnaryEncoding
from ldpbayes.result import saving

OLD = sorted((pathlib.Path(__file__).parent.parent / "data").glob("result_0.1.0_*.nc"))[::2]


def of_target(tree, target="distribution"):
    return tree["summary"].to_dataset().sel(target=target)


@pytest.fixture(scope="module")
def empties():
    """Seven categories share sixty nearly open reports; thirty-three are empty, so that they are exchangeable."""
    counts = np.zeros(40, dtype=int)
    counts[:7] = [12, 11, 10, 9, 8, 6, 4]
    return lb.Collection([f"c{x}" for x in range(40)], lb.Tally(lb.GRR(40, 6.0), np.arange(40), counts))


def test_exchangeable_categories_have_the_same_ends(empties):
    with_draws, without = lb.fit(empties, random_seed=1, draws=500), lb.fit(empties, draws=0)
    assert with_draws.attrs["prior"].startswith("learnt")
    for name in ("lower", "upper"):
        ends = of_target(with_draws)[name].values
        np.testing.assert_allclose(ends[7:], ends[7], rtol=1e-9)
        np.testing.assert_allclose(ends, of_target(without)[name].values, rtol=1e-4, atol=1e-9)
        error = of_target(with_draws)[f"{name}_error"].values
        assert ((error > 0) & (error < 1e-3 * of_target(with_draws)["sd"].values)).all()


def test_ends_of_the_mixture_are_those_of_many_draws(empties):
    tree = lb.fit(empties, random_seed=2, draws=5000)
    p = tree["posterior"]["distribution"].values.reshape(-1, 40)
    lower, upper, low_error, up_error = ends_of_draws(p, 0.95, np.full(40, float(len(p))))
    found = of_target(tree)
    assert (np.abs(found["lower"].values - lower) < 5 * low_error + 1e-6).all()
    assert (np.abs(found["upper"].values - upper) < 5 * up_error + 1e-6).all()


def test_stated_errors_of_ends_are_those_of_repetition():
    """Quantiles of 400 draws from four beta laws, 600 times: the root mean square error is the stated one."""
    rng, laws = np.random.default_rng(3), [beta(0.5, 20), beta(3, 3), beta(40, 2), beta(200, 200)]
    draws = np.stack([law.rvs((600, 400), random_state=rng) for law in laws], axis=-1)
    found = np.array([ends_of_draws(one, 0.95, np.full(4, 400.0)) for one in draws])
    truth = np.array([[law.ppf(level) for law in laws] for level in (0.025, 0.975)])
    for end in (0, 1):
        off = np.sqrt(((found[:, end] - truth[end]) ** 2).mean(axis=0))
        stated = np.sqrt((found[:, end + 2] ** 2).mean(axis=0))
        assert (np.abs(stated / off - 1) < 0.25).all()


@pytest.mark.calibrate
def test_two_seeds_differ_by_the_errors_of_their_ends():
    """Weighted draws: ends of two seeds, over the root of the sum of their squared errors."""
    rng, protocol = np.random.default_rng(4), UnaryEncoding.optimized(30, 1.0)
    p = np.r_[1 / np.arange(1, 7), np.zeros(24)]
    data = lb.Collection(
        [f"c{x}" for x in range(30)], lb.Tally(protocol, *protocol.simulate(rng.multinomial(2000, p / p.sum()), rng))
    )
    first, second = (of_target(lb.fit(data, random_seed=seed, draws=500, estimates=False)) for seed in (1, 2))
    z = (first["upper"] - second["upper"]) / np.hypot(first["upper_error"], second["upper_error"])
    assert (first["upper_error"] > 0).all() and 0.6 < np.sqrt((z.values**2).mean()) < 1.5


def test_every_interval_of_a_summary_has_errors(empties):
    derived = lb.Collection(
        ["no", "yes"],
        lb.Tally(lb.GRR(2, 1.0), [0, 1], [60, 40]),
        derived=[lb.collections.Derived("odds", ("yes",), ("no", "yes"))],
    )
    for tree in (lb.fit(derived, random_seed=1, draws=200), lb.fit(empties, draws=0), lb.fit(derived, 0.5, draws=100)):
        held = tree["summary"].data_vars
        for name in [name for name in held if name.endswith("lower") or name.endswith("upper")]:
            assert np.isfinite(held[f"{name}_error"].values).all(), name
    facts = lb.show(lb.fit(derived, random_seed=1, draws=200)).facts
    assert {"lower_error", "upper_error"} <= set(facts["distribution"])


@pytest.mark.parametrize("path", OLD, ids=lambda path: path.stem)
def test_results_without_errors_stay_readable(path, monkeypatch):
    monkeypatch.setattr(saving, "_read_elsewhere", lambda path: None)  # which tests/test_result.py has, and takes time
    tree = lb.load(path)
    assert "lower_error" not in tree["summary"].data_vars and lb.show(tree).tables


def test_ends_without_draws_are_those_of_the_mixture_where_few_cells_share_a_hyperparameter():
    """Averages of the quantiles given each concentration were up to 0.33 sd away from those of 20,000 draws."""
    rng, protocol = np.random.default_rng(1), lb.GRR(10, 1.5)
    tallies = [lb.Tally(protocol, *protocol.simulate(rng.multinomial(100, rng.dirichlet(np.ones(10))), rng)) for _ in "xy"]
    cells = lb.Cells({key: lb.Collection("abcdefghij", tally) for key, tally in zip("xy", tallies, strict=True)})
    known = lb.fit(cells, "learnt", draws=5000, random_seed=1, estimates=False)
    draws = known["posterior"]["distribution"].values.reshape(-1, 20)
    lower, upper, low_error, up_error = ends_of_draws(draws, 0.95, np.full(20, float(len(draws))))
    found = of_target(lb.fit(cells, "learnt", draws=0, estimates=False))
    off = 0.01 * found["sd"].values.ravel()  # of the interpolation
    assert (np.abs(found["lower"].values.ravel() - lower) < 5 * low_error + off).all()
    assert (np.abs(found["upper"].values.ravel() - upper) < 5 * up_error + off).all()


@pytest.mark.parametrize(
    "protocol, n, prior",
    [(lb.GRR(4, 2.0), 15, "jeffreys"), (lb.GRR(4, 0.3), 40, "jeffreys"), (UnaryEncoding.optimized(4, 1.0), 300, "learnt")],
    ids=["few", "weak", "unary"],
)
def test_sums_and_contrasts_without_draws_are_off_by_no_more_than_they_say(protocol, n, prior):
    """Against 10,000 draws: mean and sd to five Monte Carlo errors, ends within their error and four of those."""
    p = np.array([0.48, 0.24, 0.16, 0.12])
    tally = lb.Tally(protocol, *protocol.simulate(np.round(n * p).astype(int), np.random.default_rng(1)))
    data = lb.Collection("abcd", tally)
    moments = lb.fit(data, prior, draws=0, estimates=False)
    draws = lb.fit(data, prior, draws=2500, random_seed=1, estimates=False)
    asked = [lambda one: answers.category_sum(one, ["a", "b"])]
    for pair in (("a", "b"), ("b", "d"), (["a", "b"], ["c", "d"])):
        asked.append(lambda one, pair=pair: answers.contrast(one, *pair))
    asked.append(lambda one: answers.contrast(one, "a", "b", other=draws))
    for ask in asked:
        found, known = ask(moments), ask(draws)
        sd = float(known["sd"])
        assert abs(float(found["mean"] - known["mean"])) < 0.05 * sd + 5 * float(known["mcse"]), found.attrs["question"]
        assert float(found["sd"]) == pytest.approx(sd, rel=0.08)
        for end in ("lower", "upper"):
            allowed = float(found[f"{end}_error"]) + 4 * float(known[f"{end}_error"]) + 0.05 * sd
            assert abs(float(found[end] - known[end])) < allowed, (found.attrs["question"], end)
        if "probability_positive" in found:
            error = float(found["probability_mcse"]) + 4 * float(known["probability_mcse"])
            assert abs(float(found["probability_positive"] - known["probability_positive"])) < error + 0.01
    with pytest.raises(ArgumentError, match="needs draws"):
        answers.contrast(moments, "a", "b", target="frequency")


def test_a_difference_that_is_certain_has_a_sentence_without_draws():
    data = lb.Collection(["a", "b", "c"], lb.Tally(lb.GRR(3, 3.0), [0, 1, 2], [9000, 500, 500]))
    found = lb.answers.contrast(lb.fit(data, "jeffreys", draws=0), "b", "a")
    assert "of a by 0.985" in found.attrs["sentence"] and "above 0.999" in found.attrs["sentence"]
