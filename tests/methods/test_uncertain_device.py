"""Devices whose probabilities are not known exactly: posteriors against grids and importance samplers of plain NumPy."""

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import betainc, logsumexp
from scipy.stats import beta
from tabulated import each_row

import ldpbayes as lb
from ldpbayes.collections import Cells
from ldpbayes.collections.devices import with_outcomes
from ldpbayes.errors import ArgumentError, InfeasibleError
from ldpbayes.inference.ends import ends_of_weighted_draws
from ldpbayes.inference.newton import find_mode
from ldpbayes.inference.target import Target
from ldpbayes.inference.weighted import WEIGHTING
from ldpbayes.methods.forms import Apart
from ldpbayes.methods.problem import problem_of
from ldpbayes.protocols import (
    Channel,
    Uncertain,
    christofides,
    crosswise,
    direct,
    forced_response,
    kuk,
    triangular,
    unrelated_question,
    warner,
)

GELMAN = Channel(validated=[[399, 19], [2, 103]], answers=["negative", "positive"])


def survey(device, counts, labels=("no", "yes")):
    return lb.Collection(labels, [lb.Tally(device, np.arange(len(counts)), counts)])


def rows(result, name="distribution"):
    table = result["summary"].to_dataset().sel(target=name)
    return {key: table[key].values for key in ("mean", "sd", "lower", "upper")}


@pytest.fixture(scope="module")
def gelman():
    """The fit of 50 positive reports of 3,330 behind the test of Santa Clara."""
    return lb.fit(survey(GELMAN, [3280, 50]), "flat", random_seed=1)


def by_grid(channels, counts, alpha, size=1500, most=1.0):
    """Return (mean, sd, quantiles, log-evidence) of P_1 by a grid up to ``most``, and equally likely channels (N, b, 2)."""
    edges = most * betainc(1.5, 1.5, np.linspace(0, 1, size + 1))  # denser at the ends
    p, prior = (edges[1:] + edges[:-1]) / 2, np.diff(beta(alpha[1], alpha[0]).cdf(edges))
    q = np.moveaxis(channels, 0, -1)
    logs = [logsumexp(np.log(q[:, 0] * (1 - x) + q[:, 1] * x).T @ counts) - np.log(len(channels)) for x in p]
    log_mass = np.array(logs) + np.log(prior)
    mass = np.exp(log_mass - log_mass.max())
    cdf, mass = np.append(0, mass.cumsum()) / mass.sum(), mass / mass.sum()
    mean = mass @ p
    return mean, np.sqrt(mass @ (p - mean) ** 2), np.interp([0.025, 0.5, 0.975], cdf, edges), logsumexp(log_mass)


def middles(law, size):
    """Return the quantiles of a Beta law in the middle of equal shares of its probability."""
    return beta(*law.concentrations).ppf((np.arange(size) + 0.5) / size)


def channels_of(device, sizes):
    """Return equally likely channels of a device with one or two uncertain probabilities."""
    each = [middles(law, size) for (_, law), size in zip(device.law.unknowns, sizes, strict=True)]
    theta = [x.ravel() for x in np.meshgrid(*each)]
    return device.law.channel([np.stack([x, 1 - x], axis=1) for x in theta])


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([[399, 19], [2, 103]], (0.01037, 0.00460, 0.00128, 0.01054, 0.01886)),
        pytest.param([[3308, 27], [16, 130]], (0.01248, 0.00304, 0.00667, 0.01236, 0.01862), marks=pytest.mark.calibrate),
    ],
)
def test_a_test_that_was_validated(counts, expected):
    """50 of 3,330 positive in Santa Clara: flat Beta priors of the prevalence, sensitivity and specificity."""
    data = survey(Channel(validated=counts), [3280, 50])
    result = lb.fit(data, "flat", random_seed=1)
    mean, sd, (low, middle, high), log_evidence = by_grid(
        channels_of(data.tallies[0].protocol, (250, 16)), [3280, 50], (1, 1), 300, 0.05
    )
    table = rows(result)
    assert result.attrs["method"] == "quadrature"
    found = [table[key][1] for key in ("mean", "sd", "lower", "upper")]
    np.testing.assert_allclose(found, [mean, sd, low, high], atol=5e-5)
    np.testing.assert_allclose(found, np.delete(expected, 3), atol=1e-4)
    half = lb.fit(data, "flat", random_seed=1, ci_prob=0.5)  # ends of 50 % about the median
    assert rows(half)["lower"][1] < middle < rows(half)["upper"][1]
    assert float(result["exact"]["log_evidence"]) == pytest.approx(log_evidence, abs=2e-3)


DESIGNS = [
    (warner(Uncertain.counted([70, 30])), [600, 400]),
    (crosswise(Uncertain((12, 36))), [70, 130]),
    (triangular(Uncertain((30, 70))), [50, 350]),
    (unrelated_question(Uncertain((70, 30)), Uncertain((25, 75))), [800, 200]),
    (kuk(0.8, Uncertain((20, 80))), [700, 300]),
    (kuk(Uncertain((80, 20)), Uncertain((20, 80))), [700, 300]),
    (forced_response(Uncertain((75, 25)), [1, 1]), [80, 120]),
    (forced_response(Uncertain((75, 25)), Uncertain((2, 5))), [80, 120]),
    (christofides(Uncertain((3, 7))), [30, 70]),
    (Channel(validated=[[400, 19], [0, 103]]), [3000, 30]),
    (Channel(validated=[[2, 1], [1, 2]]), [60, 40]),
]


@pytest.mark.sampled(3)  # their laws are of three kinds: one probability, two, and a column of a table each
@pytest.mark.parametrize(("device", "counts"), DESIGNS, ids=lambda value: getattr(value, "design", None))
def test_designs_with_uncertain_probabilities(device, counts):
    """Quadrature, and weighted draws over outcomes, against a grid of P and of quantiles of the laws."""
    one = len(device.law.unknowns) == 1
    mean, sd, (low, _, high), log_evidence = by_grid(channels_of(device, (4000,) if one else (90, 90)), counts, (1, 2), 400)
    result = lb.fit(survey(device, counts), [1.0, 2.0], random_seed=1)
    table, tolerance = rows(result), 0.02 * sd
    assert result.attrs["method"] == "quadrature"
    found = [table[key][1] for key in ("mean", "sd", "lower", "upper")]
    assert float(np.abs(np.subtract(found, [mean, sd, low, high])).max()) < tolerance
    assert float(result["exact"]["log_evidence"]) == pytest.approx(log_evidence, abs=0.01)
    drawn = result["posterior"]["distribution"].values[..., 1]
    assert abs(drawn.mean() - mean) < 5 * sd / np.sqrt(drawn.size)
    assert abs(np.quantile(drawn, 0.975) - high) < 0.2 * sd


def test_probabilities_of_the_device_are_reported(gelman):
    """Where reports say little of the device its law stays: the posterior of sensitivity is nearly Beta(104, 20)."""
    result, exact = gelman, gelman["exact"].to_dataset()
    assert exact["quantity"].values.tolist() == ["negative given no", "positive given yes"]
    assert exact["derived_mean"].values[1] == pytest.approx(104 / 124, abs=0.003)
    assert exact["derived_mean"].values[0] > 400 / 403  # few positives say that the test is specific
    draws = result["posterior"]["positive given yes"].values
    assert draws.std() == pytest.approx(float(exact["derived_sd"][1]), rel=0.05)
    assert "Beta(104, 20)" in result.attrs["prior"]


def test_weighted_draws_agree_with_quadrature(gelman):
    exact, drawn = gelman, lb.fit(survey(GELMAN, [3280, 50]), "flat", method="weighted", random_seed=2)
    sd = rows(exact)["sd"]
    assert (np.abs(rows(exact)["mean"] - rows(drawn)["mean"]) < 0.08 * sd).all()
    np.testing.assert_allclose(rows(drawn)["sd"], sd, rtol=0.06)


@pytest.mark.parametrize(
    ("known", "uncertain"),
    [
        (warner(0.7), warner(Uncertain((7e6, 3e6)))),
        (unrelated_question(0.7, 0.2), unrelated_question(Uncertain((7e6, 3e6)), Uncertain((2e9, 8e9)))),
        pytest.param(
            Channel([[0.9, 0.2], [0.1, 0.8]]), Channel(validated=[[9e6, 2e6], [1e6, 8e6]]), marks=pytest.mark.calibrate
        ),
    ],
)
def test_a_law_like_a_point_is_the_known_design(known, uncertain):
    exact, near = (rows(lb.fit(survey(device, [300, 200]), "jeffreys", random_seed=1)) for device in (known, uncertain))
    for key in exact:
        np.testing.assert_allclose(near[key], exact[key], atol=1e-4)


def test_three_categories_against_importance_weights():
    """P and the columns drawn from their laws, weighted by the likelihood of the reports."""
    device, counts = Channel(validated=[[40, 3, 1], [5, 30, 4], [1, 2, 25]]), np.array([150, 90, 60])
    result = lb.fit(survey(device, counts, "abc"), "flat", random_seed=1)
    rng, size = np.random.default_rng(0), 200_000
    p, q = rng.dirichlet(np.ones(3), size), device.law.channel(device.law.sample(size, rng))
    log_weight = np.log(np.einsum("nyx,nx->ny", q, p)) @ counts
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    mean = weight @ p
    sd, table = np.sqrt(weight @ (p - mean) ** 2), rows(result)
    assert 1 / (weight**2).sum() > 1000  # errors of .03 sd
    assert (np.abs(table["mean"] - mean) < 0.1 * sd).all()
    np.testing.assert_allclose(table["sd"], sd, rtol=0.08)
    assert result["posterior"]["0 given a"].mean() == pytest.approx(weight @ q[:, 0, 0], abs=0.01)


def test_cells_share_one_device():
    """One θ for all cells: P of each cell by its grid at every θ, weighted by the evidence of all cells."""
    counts = {"north": [950, 50], "south": [1970, 30], "west": [600, 200]}
    cells = lb.Cells({key: survey(GELMAN, n) for key, n in counts.items()}, by="region")
    result = lb.fit(cells, "flat", random_seed=1)
    channels = channels_of(GELMAN, (100, 20))
    p = (np.arange(1000) + 0.5) / 1000
    moments, evidence = [], np.zeros(len(channels))
    for n in counts.values():
        logs = np.log(channels[:, :, :1] * (1 - p) + channels[:, :, 1:] * p)
        logs = n[0] * logs[:, 0] + n[1] * logs[:, 1]
        evidence += logsumexp(logs, axis=1)
        mass = np.exp(logs - logs.max(axis=1, keepdims=True))
        mass /= mass.sum(axis=1, keepdims=True)
        moments.append((mass @ p, mass @ p**2))
    weight = np.exp(evidence - evidence.max())
    weight /= weight.sum()
    mean = np.array([weight @ first for first, _ in moments])
    sd = np.sqrt([weight @ second for _, second in moments] - mean**2)
    table = rows(result)
    assert (np.abs(table["mean"][:, 1] - mean) < 0.1 * sd).all()
    np.testing.assert_allclose(table["sd"][:, 1], sd, rtol=0.08)
    assert result["posterior"]["positive given yes"].dims == ("chain", "draw")  # of all cells
    assert result["posterior"]["positive given yes"].mean() == pytest.approx(weight @ channels[:, 1, 1], abs=0.004)


def of_two_cells(trials, counts):
    """Return two surveys through one spinner, tried so often, and the posterior of its share and P(yes), by a grid."""
    device = warner(Uncertain.counted(trials))
    cells = lb.Cells({f"g{c}": survey(device, n) for c, n in enumerate(counts)})
    spin, p = ((np.arange(size) + 0.5) / size for size in (1500, 1000))
    each = [beta.logpdf(spin, trials[0] + 1, trials[1] + 1)]
    of_p = []
    for no, yes in counts:
        rate = spin[:, None] * p + (1 - spin[:, None]) * (1 - p)
        log = yes * np.log(rate) + no * np.log1p(-rate)
        each.append(logsumexp(log, axis=1))
        of_p.append(np.exp(log - each[-1][:, None]))
    weight = np.exp(sum(each) - logsumexp(sum(each)))
    mean = [weight @ given @ p for given in of_p]
    sd = [np.sqrt(weight @ given @ p**2 - m**2) for given, m in zip(of_p, mean, strict=True)]
    return cells, weight[spin < 0.5].sum(), mean, sd


def test_answers_that_a_device_may_exchange_are_a_mode_of_all_cells():
    """Few trials of a spinner leave it open whether it points at the trait: a tenth of the posterior has yes for no."""
    cells, share, mean, sd = of_two_cells([3, 1], [(140, 60), (250, 150)])
    assert share > 0.05
    found = lb.fit(cells, "flat", random_seed=1, estimates=False)
    yes = found["summary"].sel(category="yes", target="distribution")
    assert found.attrs["converged"]
    np.testing.assert_allclose(yes["mean"], mean, atol=0.05 * min(sd))
    np.testing.assert_allclose(yes["sd"], sd, rtol=0.05)


@pytest.mark.parametrize(
    ("device", "pairs"),
    [
        (warner(Uncertain.counted([90, 10])), []),
        (warner(Uncertain.counted([3, 1])), [(0, 1)]),
        (Channel(validated=[[20, 1, 0], [0, 2, 1], [0, 2, 3]]), [(1, 2)]),
    ],
    ids=["many trials", "few", "of two of three"],
)
def test_which_answers_the_law_of_a_device_may_exchange(device, pairs):
    """Searches for exchanged modes start there alone: twenty well-tried answers have 190 pairs, and none of them counts."""
    assert device.device_law().exchangeable(2048) == pairs


def test_draws_of_one_mode_are_not_trusted():
    """Of three and more thousand answers draws went to one mode alone, and were accepted."""
    cells, share, *_ = of_two_cells([5, 2], [(1400, 600), (1100, 900)])
    problem = problem_of(with_outcomes(cells), "flat")
    target = Target(problem.prior, Apart(problem.likelihoods))
    mode, *_ = find_mode(target, np.zeros(problem.prior.n_unknowns))
    (other, _), *rest = target.others(mode, WEIGHTING.deep)
    assert not rest and share > 0.02
    one, two = (
        problem.prior.to_simplex(z + 0.01 * np.random.default_rng(1).normal(size=(500, mode.size))) for z in (mode, other)
    )
    assert "share" in target.unseen(one, WEIGHTING.deep)
    assert not target.unseen(np.concatenate([one, two]), WEIGHTING.deep)


def test_a_known_device_beside_an_uncertain_one():
    """Some are asked directly, others through a device that was tried: P by the grid of both."""
    device = warner(Uncertain.counted([70, 30]))
    tallies = [lb.Tally(device, [0, 1], [600, 400], "device"), lb.Tally(direct(), [0, 1], [80, 20], "asked")]
    result = lb.fit(lb.Collection(["no", "yes"], tallies), "flat", random_seed=1)
    q = channels_of(device, (4000,))
    both = np.concatenate([q, np.broadcast_to(np.eye(2), q.shape)], axis=1)
    mean, sd, (low, _, high), _ = by_grid(both, [600, 400, 80, 20], (1, 1))
    np.testing.assert_allclose(
        [rows(result)[key][1] for key in ("mean", "sd", "lower", "upper")], [mean, sd, low, high], atol=3e-4
    )


def test_two_uncertain_devices_have_a_probability_each():
    first, second = warner(Uncertain((70, 30))), warner(Uncertain((60, 40)))
    tallies = [lb.Tally(first, [0, 1], [60, 40], "a"), lb.Tally(second, [0, 1], [55, 45], "b")]
    result = lb.fit(lb.Collection(["no", "yes"], tallies), "flat", random_seed=1)
    assert {"p, a", "p, b"} <= set(result["posterior"].data_vars)
    assert result.attrs["method"] == "quadrature"
    same = [lb.Tally(first, [0, 1], [60, 40], "a"), lb.Tally(first, [0, 1], [55, 45], "b")]
    assert "p" in lb.fit(lb.Collection(["no", "yes"], same), "flat", random_seed=1)["posterior"]


def test_a_report_that_never_comes():
    """A zero of the matrix says so, and the column has a law over the others."""
    device = Channel([[0.9, 0], [0.1, 1]], validated=[[95, 0], [5, 40]])
    assert device.matrix.tolist() == [[96 / 102, 0.0], [6 / 102, 1.0]]
    assert len(device.law.unknowns) == 1
    mean, *_ = by_grid(channels_of(device, (4000,)), [60, 40], (1, 1))
    assert rows(lb.fit(survey(device, [60, 40]), "flat", random_seed=1))["mean"][1] == pytest.approx(mean, abs=2e-4)


@each_row(
    "call, error, named",
    [
        (lambda: Uncertain((1,)), ArgumentError, "concentrations"),
        (lambda: Uncertain.counted([-1, 3]), ArgumentError, "counts"),
        (lambda: warner(Uncertain((1, 2, 3))), ArgumentError, "p must"),
        (lambda: warner({"law": [1, 2]}), ArgumentError, "p must"),
        (lambda: warner([90, 30]), ArgumentError, "counted"),
        (lambda: kuk(0.8, Uncertain((1, 2)), cards=3), ArgumentError, "cards"),
        (lambda: Channel(validated=[1, 2]), ArgumentError, "validated"),
        (lambda: Channel([[0.9, 0], [0.1, 1]], validated=[[9, 1], [1, 9]]), ArgumentError, "validated"),
        (lambda: Channel(np.eye(2), validated=np.ones((3, 2))), ArgumentError, "validated"),
        (lambda: lb.estimators.MLE()(survey(GELMAN, [9, 1])), InfeasibleError, "known()"),
        (lambda: lb.estimators.Oracle()(survey(GELMAN, [9, 1])), InfeasibleError, "known()"),
        (lambda: lb.protocols.compose(GELMAN, warner(0.7)), InfeasibleError, "known()"),
        (lambda: lb.fit(survey(GELMAN, [9, 1]).with_noncompliers({"no-sayer": "negative"})), InfeasibleError, "known()"),
    ],
)
def test_what_is_refused(call, error, named):
    with pytest.raises(error) as caught:
        call()
    assert named in str(caught.value)


@pytest.mark.calibrate
def test_a_prior_over_all_cells_goes_with_a_device_that_trials_fix():
    """With a million trials of each kind the hierarchical fit is that of the known device."""
    counts = np.array([[900_000, 200_000], [100_000, 800_000]])
    cells = [[70, 30], [55, 45], [64, 36]]

    def fitted(device):
        tallies = {
            name: lb.Collection(["no", "yes"], [lb.Tally(device, [0, 1], n)]) for name, n in zip("abc", cells, strict=True)
        }
        return lb.fit(lb.Cells(tallies, by="group"), "hierarchical", random_seed=1)["summary"].to_dataset()

    tried, known = fitted(Channel(validated=counts)), fitted(Channel(counts / counts.sum(axis=0)))
    of_p = {"target": "distribution"}
    np.testing.assert_allclose(
        tried["mean"].sel(of_p), known["mean"].sel(of_p), atol=0.1 * float(known["sd"].sel(of_p).min())
    )


def test_a_device_that_is_taken_as_known_stays_its_design():
    law = Uncertain.counted([70, 30])
    for design in (
        crosswise(law, answers=["B", "A"]),
        kuk(law, Uncertain.counted([40, 60])),
        warner(law),
        unrelated_question(0.7, law),
        christofides(law),
        christofides(Uncertain.counted([7, 3, 5])),
        forced_response(0.75, law),
        forced_response(law, [1, 1, 0], answers=["a", "b", "c"]),
    ):
        known = design.known()
        assert known.design == design.design and known.device_law() is None
        again = lb.make_protocol(known.design, list("abc")[: known.n_categories], known.parameters())
        assert again == known and hash(again) == hash(known) and known.answers == design.answers
        np.testing.assert_allclose(again.matrix, design.matrix, atol=1e-15)


def test_a_device_whose_mean_is_no_design_is_a_channel_when_taken_as_known():
    known = warner(Uncertain.counted([5, 5])).known()
    assert known.design == "channel" and (known.matrix == 0.5).all()


def by_prior(device, cells, draws, seed=0):
    """Return (draws of P (N, cells), their weights) of the second category, drawn from the prior of P and of the device."""
    rng, p, logs = np.random.default_rng(seed), [], []
    for _ in range(0, draws, 100_000):
        channel = device.law.channel(device.law.sample(100_000, rng))
        share = rng.random((100_000, len(cells)))
        of = channel[:, :, :1] * (1 - share[:, None]) + channel[:, :, 1:] * share[:, None]
        logs.append(np.einsum("sbc,cb->s", np.log(of), np.array(cells)))
        p.append(share)
    weights = np.exp(np.concatenate(logs) - np.max(np.concatenate(logs)))
    return np.concatenate(p), weights / weights.sum()


@pytest.mark.parametrize("seeds", [(0,), pytest.param((1, 2, 3), marks=pytest.mark.calibrate)])
@pytest.mark.parametrize(
    ("trials", "cells"),
    [
        ([[47, 5], [8, 6], [5, 29]], [[549, 116, 135]]),
        ([[13, 0], [1, 56], [0, 0], [6, 4]], [[27, 15, 1, 17], [41, 406, 5, 48]]),
    ],
)
def test_ends_of_a_share_that_may_be_zero(trials, cells, seeds):
    """Where P is near zero, the column of those without is what reports are, and that of those with it as its trials are.

    This part is thin and far from the mode. A proposal about the mode has no draws there, so that the errors of the ends
    cannot know of it: the lower end was .036 with an error of .001, where .021 is right.
    """
    device = Channel(validated=trials)
    p, weights = by_prior(device, cells, 500_000 * (1 + len(seeds)))
    reference = ends_of_weighted_draws(p, weights, 0.95)
    made = [survey(device, counts) for counts in cells]
    data = made[0] if len(made) == 1 else Cells(dict(zip("uv", made, strict=True)), by="town")
    sd = np.sqrt(weights @ (p - weights @ p) ** 2)
    for seed in seeds:
        result = lb.fit(data, "flat", random_seed=seed)
        rows = result["summary"].to_dataset().sel(target="distribution")
        ends = [rows[name].values.reshape(len(cells), 2)[:, 1] for name in ("lower", "upper", "lower_error", "upper_error")]
        assert result.attrs["method"] == "weighted" and result.attrs["converged"]
        assert (np.abs(ends[:2] - reference[:2]) < 4 * np.hypot(ends[2:], reference[2:])).all()
        assert (np.array(ends[2:]) < 0.1 * sd).all()


@pytest.mark.parametrize("prior", ["flat", "learnt", "smooth", "floor"])
def test_every_named_prior_has_a_gradient_beside_a_device(prior):
    """Of the smooth prior a setting had the name of a method: fits through an uncertain device ended in a traceback."""
    device = Channel(validated=[[40, 3, 1], [5, 30, 4], [1, 2, 25]])
    problem = problem_of(with_outcomes(survey(device, [150, 90, 60], ["a", "b", "c"])), prior)
    target = Target(problem.prior, Apart(problem.likelihoods))
    z = np.random.default_rng(1).normal(0, 0.5, problem.prior.n_unknowns)
    slope, steps = target.value_and_gradient(z)[1], 1e-5 * np.eye(z.size)
    by_differences = [(target.value_and_gradient(z + h)[0] - target.value_and_gradient(z - h)[0]) / 2e-5 for h in steps]
    np.testing.assert_allclose(slope, by_differences, rtol=1e-4, atol=1e-5)
    assert problem.prior.ordered == (prior == "smooth")


def test_integrals_stay_where_reports_have_weights():
    """Two seeds print the same numbers; with equal weights they are those of the sample without any."""
    device, n = Channel(validated=[[118, 9], [42, 31]], answers=["no", "yes"]), 600
    rng = np.random.default_rng(1)
    table = {"answer": rng.choice(["no", "yes"], n), "w": rng.choice([1.0, 4.0], n), "one": np.ones(n)}
    frame = pa.table(table)
    ask = {"report": "answer", "categories": ["no", "yes"]}
    first, second = (lb.fit(lb.read(frame, device, weights="w", **ask), "flat", random_seed=k)["summary"] for k in (1, 2))
    assert np.array_equal(first["mean"], second["mean"], equal_nan=True) and np.nanmax(first["mcse"]) == 0
    same = lb.fit(lb.read(frame, device, weights="one", **ask), "flat", random_seed=1)["summary"]
    plain = lb.fit(lb.read(frame, device, **ask), "flat", random_seed=1)["summary"]
    for name in ("mean", "sd", "lower", "upper"):
        p = plain[name].sel(target="distribution").values
        np.testing.assert_allclose(same[name].sel(target="distribution").values, p, rtol=0.01)
