"""The prior of list experiments: its formula by loops, fits against weighted draws of it, surveys from it, and the rule."""

import itertools
import math

import numpy as np
import pytest
from commands import run
from scipy import stats
from scipy.special import logsumexp, ndtr

from ldpbayes import Cells, Collection, fit, write
from ldpbayes.priors import Lists
from ldpbayes.protocols import ListExperiment
from ldpbayes.result.facts import facts_of

#: How many said so in each group of two lists with one item and with two.
TABLES = [[[2, 1, 1], [1, 2, 1], [0, 1, 0]], [[1, 1, 1, 0], [1, 2, 1, 1]]]
CONTROL, TREATMENT = [[3, 2], [2, 3, 1]], [[2, 3, 1], [1, 2, 2, 1]]
BOTH = Collection.from_lists(ListExperiment((1, 2)), both=TABLES)
SPLIT = Collection.from_lists(ListExperiment((1, 2)), control=CONTROL, treatment=TREATMENT)


@pytest.mark.parametrize("apart", [False, True])
def test_the_formula_by_loops(apart):
    prior, sizes = Lists((1, 2), apart, effect=0.7), (1, 2)
    z = np.random.default_rng(1).standard_normal(prior.n_unknowns)
    share, rest = ndtr(z[0]), iter(z[1:])
    a, b = ([next(rest) for _ in sizes] for _ in range(2))
    r = 0.0 if apart else next(rest)
    beta = [0.7 * next(rest) for _ in sizes]
    tau = math.exp(next(rest))
    numbers = list(itertools.product(range(2), range(3)))
    own = [[next(rest) for _ in range(size + 1)] for size in sizes] if apart else {c: next(rest) for c in numbers}
    delta = [[next(rest) for _ in range(size + 1)] for size in sizes]
    logits = [[], []]
    for c in numbers:
        x = [2 * c[k] / sizes[k] - 1 for k in range(2)]
        log = 0.5 * math.sqrt(2) * r * x[0] * x[1] + tau * (sum(own[k][c[k]] for k in range(2)) if apart else own[c])
        for k, size in enumerate(sizes):
            log += math.log(math.comb(size, c[k])) + size * (0.75 * a[k] * x[k] + 0.5 * b[k] * x[k] ** 2)
        logits[0].append(log)
        logits[1].append(log + sum(beta[k] * x[k] + tau * delta[k][c[k]] for k in range(2)))
    each = [np.exp(log - logsumexp(log)) for log in logits]
    np.testing.assert_allclose(prior.to_simplex(z), np.concatenate([(1 - share) * each[0], share * each[1]]), rtol=1e-9)
    assert next(rest, None) is None
    if apart:
        table = prior.to_simplex(z).reshape(2, 2, 3) / np.array([1 - share, share])[:, None, None]
        np.testing.assert_allclose(table, table.sum(2, keepdims=True) * table.sum(1, keepdims=True), rtol=1e-9)


@pytest.mark.parametrize("survey", [BOTH, SPLIT])
def test_the_rule_takes_it_and_fits_agree_with_weighted_draws_of_the_prior(survey):
    """100,000 draws of the prior, weighted by the likelihood: mean within 5 errors, sd within 4 %, evidence within 4."""
    apart = survey is SPLIT
    result = fit(survey, estimates=False, random_seed=1)
    assert result.attrs["method"] == "weighted" and result.attrs["converged"]
    assert "share 'trait'" in result.attrs["prior_reason"] and "share:trait" in result.attrs["prior_reason"]
    assert ("independent" in result.attrs["prior"]) == apart
    p = Lists((1, 2), apart).sample(100_000, np.random.default_rng(2))
    log = survey.rows.log_likelihood(np.ascontiguousarray(p.T))
    weight, share = np.exp(log - logsumexp(log)), p[:, 6:].sum(axis=1)
    mean, effective = weight @ share, 1 / (weight**2).sum()
    sd = math.sqrt(weight @ (share - mean) ** 2)
    assert effective > 1000
    found = {name: result["summary"][f"derived_{name}"].item() for name in ("mean", "sd")}
    assert abs(found["mean"] - mean) < 5 * sd * math.sqrt(1 / effective + 1 / facts_of(result)["effective_draws"])
    assert abs(found["sd"] / sd - 1) < 0.04
    evidence, error = logsumexp(log) - math.log(len(log)), 1 / math.sqrt(effective)
    assert abs(facts_of(result)["log_evidence"] - evidence) < 4 * math.hypot(error, facts_of(result)["log_evidence_error"])


def test_what_is_scaled_is_the_density_of_its_hyperparameters():
    draws = {name: np.abs(np.random.default_rng(k).normal(size=5)) for k, name in enumerate(("tau", "beta_1", "beta_2"))}
    prior = Lists((1, 2), effect=0.7, deviation=0.4)
    log = stats.halfnorm.logpdf(draws["tau"], scale=0.4)
    log += stats.norm.logpdf(draws["beta_1"], scale=0.7) + stats.norm.logpdf(draws["beta_2"], scale=0.7)
    np.testing.assert_allclose(np.diff(prior.log_hyperprior(draws)), np.diff(log))
    assert set(prior.hyperparameter_names) == set(draws) and prior.log_hyperprior({"tau": draws["tau"]}) is None


def test_cells_and_the_command_line(tmp_path, capsys):
    cells = fit(Cells({"a": SPLIT}), draws=250, random_seed=1, estimates=False)
    assert cells.attrs["method"] == "weighted" and "share 'trait'" in cells.attrs["prior_reason"]
    write(SPLIT, tmp_path / "split.toml")
    status, shown, _ = run(capsys, "fit", tmp_path / "split.toml", "--seed", 1, "--draws", 250)
    assert status == 0 and "trait, smooth" in shown and "method weighted" in shown


def answered(rng, trait, numbers):
    """Return the survey of people who all answer two lists, the sensitive item on the one or the other for every second."""
    tables, most = [], numbers.max(axis=0)
    for k in range(2):
        given = numbers[k::2].copy()
        given[:, k] += trait[k::2]
        tables.append(np.zeros(most + 1 + (np.arange(2) == k), dtype=int))
        np.add.at(tables[k], tuple(given.T), 1)
    return Collection.from_lists(ListExperiment(tuple(most.tolist())), both=tables)


@pytest.mark.parametrize("seed", [pytest.param(0, marks=pytest.mark.calibrate), 2])
def test_fifty_people_need_no_chains(seed):
    """Of a share near zero the reports leave what the prior says of those with the trait: proposals are given the share."""
    rng = np.random.default_rng(seed)
    trait, numbers, group = rng.random(50) < 0.1, rng.binomial(4, 0.3, (2, 50)), rng.integers(0, 4, 50)
    control = [np.bincount(numbers[k][group == 2 * k], minlength=5) for k in range(2)]
    treatment = [np.bincount((numbers[k] + trait)[group == 2 * k + 1], minlength=6) for k in range(2)]
    survey = Collection.from_lists(ListExperiment((4, 4)), control=control, treatment=treatment)
    result = fit(survey, estimates=False, random_seed=seed)
    assert result.attrs["method"] == "weighted" and result.attrs["converged"]


@pytest.mark.calibrate
def test_intervals_cover_where_the_trait_has_nothing_to_do_with_the_items():
    """60 surveys: of a binomial of .95 fewer than 51 have probability .002; under the prior share:trait it was 52 of 60."""
    held = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        numbers = rng.binomial(3, 1 / (1 + np.exp(-0.7 * rng.normal(size=(1000, 1)))), (1000, 2))
        summary = fit(answered(rng, rng.random(1000) < 0.2, numbers), estimates=False, random_seed=1)["summary"]
        held += summary["derived_lower"].item() <= 0.2 <= summary["derived_upper"].item()
    assert held >= 51


@pytest.mark.calibrate
@pytest.mark.filterwarnings("ignore:Do not trust")
@pytest.mark.parametrize("apart", [False, True])
def test_intervals_cover_what_the_prior_draws(apart):
    """100 surveys of 600 people from the prior: fewer than 89 have probability .004 at .95; ranks have the mean ½.

    One in a hundred or so goes to NUTS, and says of itself that it is not to be trusted.
    """
    rng, prior, design, held, ranks = np.random.default_rng(3), Lists((2, 2), apart), ListExperiment((2, 2)), 0, []
    trusted = 0
    for _ in range(100):
        p = prior.sample(1, rng)[0]
        said = {name: rng.multinomial(150 if apart else 300, one.matrix @ p) for name, one in design.channels.items()}
        if apart:
            groups = ([said[f"{group}_{k}"] for k in (1, 2)] for group in ("control", "treatment"))
            survey = Collection.from_lists(design, *groups)
        else:
            survey = Collection.from_lists(design, both=[said["both_1"].reshape(4, 3), said["both_2"].reshape(3, 4)])
        result, share = fit(survey, draws=250, estimates=False, random_seed=1), p[9:].sum()
        low, high = (result["summary"][f"derived_{end}"].item() for end in ("lower", "upper"))
        held += low <= share <= high
        trusted += result.attrs["converged"]
        ranks.append((result["posterior"]["trait"].values < share).mean())
    assert held >= 89 and abs(np.mean(ranks) - 0.5) < 4 / math.sqrt(12 * 100) and trusted >= 97


def test_a_survey_of_which_nearly_all_have_the_trait_is_fitted_without_a_warning():
    """A Newton step from the middle of the prior led to shares of 1e-308."""
    rng, prior, design = np.random.default_rng(3), Lists((2, 2)), ListExperiment((2, 2))
    for _ in range(52):
        p = prior.sample(1, rng)[0]
        said = {name: rng.multinomial(300, one.matrix @ p) for name, one in design.channels.items()}
    survey = Collection.from_lists(design, both=[said["both_1"].reshape(4, 3), said["both_2"].reshape(3, 4)])
    assert fit(survey, draws=250, estimates=False, random_seed=1)["posterior"]["trait"].mean() > 0.9
