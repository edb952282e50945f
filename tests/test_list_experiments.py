"""List experiments: against sums over all tallies and a Gibbs sampler, surveys of the prior, files, tests of the design."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from commands import run
from scipy.special import betaln, gammaln, logsumexp
from tabulated import each_row

from ldpbayes import Cells, Collection, check, fit, read, regress, write
from ldpbayes.errors import ArgumentError, DataError
from ldpbayes.estimators import MLE, difference_in_means
from ldpbayes.estimators.derived import with_derived
from ldpbayes.priors import Product, Tree
from ldpbayes.protocols import ListExperiment, item_count
from ldpbayes.result.facts import facts_of

#: The 1991 National Race and Politics Survey, as in Imai (2011).
RACE = [8, 132, 222, 227], [19, 123, 229, 219, 34]
#: Tables of two lists with one item each: with the sensitive item on the first, and on the second.
BOTH = [[4, 2], [5, 6], [0, 3]], [[3, 6, 1], [4, 5, 2]]


def lists(control, treatment, direct=None, **more):
    return Collection.from_lists(ListExperiment(len(control) - 1), control, treatment, direct, **more)


def gibbs(control, treatment, alpha, rng, chains=200, sweeps=700):
    """Return draws of the trait's share: P given the tallies, the tallies given P, over the cells (c, t), written apart."""
    size = len(control)
    p = rng.dirichlet(np.full(2 * size, 1.0), chains).reshape(chains, 2, size)
    kept = []
    for sweep in range(sweeps):
        tally = np.full((chains, 2, size), alpha)
        for c, n in enumerate(control):
            with_it = rng.binomial(n, p[:, 1, c] / p[:, :, c].sum(axis=1))
            tally[:, 1, c] += with_it
            tally[:, 0, c] += n - with_it
        tally[:, 0, 0] += treatment[0]
        tally[:, 1, -1] += treatment[-1]
        for y, n in enumerate(treatment[1:-1], 1):
            with_it = rng.binomial(n, p[:, 1, y - 1] / (p[:, 1, y - 1] + p[:, 0, y]))
            tally[:, 1, y - 1] += with_it
            tally[:, 0, y] += n - with_it
        gamma = rng.standard_gamma(tally)
        p = gamma / gamma.sum(axis=(1, 2), keepdims=True)
        if sweep >= 200:
            kept.append(p[:, 1].sum(axis=1))
    return np.array(kept)


def test_the_survey_of_1991_against_a_gibbs_sampler():
    """Mean, sd and ends within .004 of the sampler's: both have Monte Carlo errors of .001 or less, ends of .002."""
    draws = gibbs(*RACE, 1.0, np.random.default_rng(3))
    result = fit(lists(*RACE), "flat", draws=2000, estimates=False, random_seed=1)
    assert result.attrs["method"] == "pair_slice" and result.attrs["converged"]
    trait = result["posterior"]["trait"].values
    found = np.array([trait.mean(), trait.std(), *np.quantile(trait, [0.025, 0.975])])
    assert np.abs(found - [draws.mean(), draws.std(), *np.quantile(draws, [0.025, 0.975])]).max() < 0.004
    assert np.abs(found - (0.131, 0.036, 0.070, 0.210)).max() < 0.004


def by_hand(control, treatment, direct, blocks, alpha):
    """Return (mean of the trait's share, log-evidence): a sum over all tallies of two items, under a tree prior."""
    logs, means = [], []
    for given in itertools.product(*(range(n + 1) for n in (*control, *treatment[1:-1]))):
        first, second, middle = np.zeros(2), np.zeros(2), given[2:]  # tallies without and with the trait
        first += np.array(control) - given[:2]
        second += given[:2]
        first[0] += treatment[0]
        second[1] += treatment[2]
        second[0] += middle[0]
        first[1] += treatment[1] - middle[0]
        log = sum(math.log(math.comb(n, k)) for n, k in zip((*control, treatment[1]), given, strict=True))
        no, yes = first.sum() + direct[0], second.sum() + direct[1]
        for tallies in (first, second):
            log += (
                gammaln(2 * alpha) - gammaln(2 * alpha + tallies.sum()) + (gammaln(alpha + tallies) - gammaln(alpha)).sum()
            )
        log += betaln(blocks[1] + yes, blocks[0] + no) - betaln(blocks[1], blocks[0])
        logs.append(log)
        means.append((blocks[1] + yes) / (sum(blocks) + no + yes))
    weight = np.exp(np.array(logs) - max(logs))
    return weight @ means / weight.sum(), max(logs) + math.log(weight.sum())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("direct", [(0, 0), (9, 2)])
@pytest.mark.parametrize("shares", [(1.0, 1.0), (6.0, 0.5)])
def test_a_tree_of_blocks_and_direct_questions_against_the_sum_over_all_tallies(shares, direct):
    """4,000 weighted draws: the mean within .01, the log-evidence within six of its errors."""
    survey = lists([3, 5], [2, 6, 1], direct if any(direct) else None)
    mean, log_evidence = by_hand([3, 5], [2, 6, 1], direct, shares, 0.7)
    prior = Tree(((0, 1), (2, 3)), np.array(shares), 0.7)
    tree = fit(survey, prior, estimates=False, random_seed=2)
    assert tree.attrs["converged"] and abs(float(tree["posterior"]["trait"].mean()) - mean) < 0.01
    assert abs(facts_of(tree)["log_evidence"] - log_evidence) < 6 * facts_of(tree)["log_evidence_error"]


def test_a_fit_says_what_its_prior_says_of_the_trait():
    survey = lists(*RACE)
    said = facts_of(fit(survey, "flat", draws=250, random_seed=1))
    assert "gives trait a mean of 0.5, and 95 % between 0.18 and 0.82. That is 8 direct answers" in said["prior_of_shares"]
    # Weights of draws about an expansion of list experiments have a long tail: no factor is stated.
    assert "log_bayes_factor_flat" not in said and "jeffreys, flat" in said["bayes_factors"]
    assert "prior_of_shares" not in facts_of(fit(survey, "share:trait", draws=250, random_seed=1))
    with pytest.raises(ArgumentError, match=r"prior must.*trait"):
        fit(survey, "share:treat")


def test_fifteen_thousand_reports():
    """The mean lies within .004 of that of the sum over all tallies."""
    large = lists(*([12 * n for n in part] for part in RACE))
    result = fit(large, "flat", estimates=False, random_seed=1)
    assert result.attrs["converged"] and abs(result["posterior"]["trait"].values.mean() - 0.1062) < 0.004


# ---- several lists -------------------------------------------------------------------------------------------------------
def dirichlet(tallies, alpha):
    """Return the log chance of tallies in an order, under a Dirichlet of equal concentrations."""
    size, total = len(tallies), sum(tallies)
    return gammaln(size * alpha) - gammaln(size * alpha + total) + sum(gammaln(alpha + t) - gammaln(alpha) for t in tallies)


def chances(control, treatment, alpha):
    """Return log h(M), M = 0 … n, of a list with one item: the reports, with M people who have the trait."""
    logs = [[] for _ in range(sum(control) + sum(treatment) + 1)]
    for a, b, m in itertools.product(*(range(n + 1) for n in (*control, treatment[1]))):
        without = control[0] - a + treatment[0], control[1] - b + m
        beside = a + treatment[1] - m, b + treatment[2]
        log = sum(math.log(math.comb(n, k)) for n, k in ((control[0], a), (control[1], b), (treatment[1], m)))
        logs[sum(beside)].append(log + dirichlet(without, alpha) + dirichlet(beside, alpha))
    return np.array([logsumexp(each) if each else -np.inf for each in logs])


def concluded(log_h, n, prior, direct=(0, 0)):
    """Return (mean, sd, log-evidence) of a share whose carriers among n people have the log chances log_h."""
    m = np.arange(len(log_h))
    b, c = prior[0] + direct[1] + m, prior[1] + direct[0] + n - m
    logs = log_h + betaln(b, c) - betaln(*prior)
    weight = np.exp(logs - logsumexp(logs))
    mean, square = weight @ (b / (b + c)), weight @ (b * (b + 1) / ((b + c) * (b + c + 1)))
    return mean, math.sqrt(square - mean**2), logsumexp(logs)


def near(result, known):
    """Assert that 20,000 draws of the trait agree with (mean, sd, log-evidence) within .05 sd, 5 % and six errors."""
    trait = result["posterior"]["trait"].values
    assert result.attrs["converged"]
    assert abs(trait.mean() - known[0]) < 0.05 * known[1]
    assert abs(trait.std() / known[1] - 1) < 0.05
    assert abs(facts_of(result)["log_evidence"] - known[2]) < 6 * max(facts_of(result)["log_evidence_error"], 1e-3)


@pytest.mark.calibrated("shares0-direct1", "shares1-None")
@pytest.mark.parametrize("direct", [None, (9, 4)])
@pytest.mark.parametrize("shares", [(1.0, 1.0), (0.6, 5.0)])
def test_lists_of_respondents_of_their_own_against_the_sum_over_all_tallies(shares, direct):
    lists = ([7, 9], [5, 9, 3]), ([4, 12], [2, 11, 4])
    logs = [chances(*one, 0.7) for one in lists]
    whole = np.array(
        [logsumexp([logs[0][i] + logs[1][m - i] for i in range(max(m - 33, 0), min(m, 33) + 1)]) for m in range(67)]
    )
    known = concluded(whole, 66, shares, direct or (0, 0))
    survey = Collection.from_lists(ListExperiment((1, 1)), *zip(*lists, strict=True), direct)
    prior = Tree((range(4, 8), range(4)), np.array(shares), [Product((2, 2), 0.7)] * 2)
    near(fit(survey, prior, draws=5000, estimates=False, random_seed=1), known)


@pytest.mark.calibrate  # by NUTS
def test_two_lists_of_each_respondent_against_the_sum_over_all_tallies():
    """The tables name one or two of eight categories: the mean within .05 sd, the sd within 5 %."""
    first, second = (np.array(table) for table in BOTH)
    n, logs = int(first.sum() + second.sum()), [[] for _ in range(int(first.sum() + second.sum()) + 1)]
    for a, b, c, d in itertools.product(*(range(k + 1) for k in (*first[1], *second[:, 1]))):
        beside = np.array([[a, b], first[2]]) + np.array([[c, second[0, 2]], [d, second[1, 2]]])
        without = np.array([first[0], first[1] - [a, b]]) + np.array(
            [[second[0, 0], second[0, 1] - c], [second[1, 0], second[1, 1] - d]]
        )
        log = sum(
            math.log(math.comb(n, k))
            for n, k in zip((*first[1].tolist(), *second[:, 1].tolist()), (a, b, c, d), strict=True)
        )
        logs[beside.sum()].append(log + dirichlet(without.ravel(), 0.5) + dirichlet(beside.ravel(), 0.5))
    whole = np.array([logsumexp(each) if each else -np.inf for each in logs])
    survey = Collection.from_lists(ListExperiment((1, 1)), both=BOTH)
    result = fit(survey, "share:trait", draws=5000, estimates=False, random_seed=2)
    mean, sd, _ = concluded(whole, n, (1.0, 1.0))
    trait = result["posterior"]["trait"].values
    assert result.attrs["converged"] and abs(trait.mean() - mean) < 0.05 * sd and abs(trait.std() / sd - 1) < 0.05


def simulated(rng, sizes, share, n, direct=0, more=0.0):
    """Return a survey of lists with n respondents in each group, of whom direct are asked directly."""
    groups = {"control": [], "treatment": []}
    for group, size in itertools.product(groups, sizes):
        trait = rng.random(n) < share
        count = rng.binomial(size, 0.45 + more * trait) + trait * (group == "treatment")
        groups[group].append(np.bincount(count, minlength=size + 1 + (group == "treatment")))
    asked = [direct - (k := rng.binomial(direct, share)), k] if direct else None
    return Collection.from_lists(ListExperiment(tuple(sizes)), **groups, direct=asked)


def test_a_fit_says_what_is_assumed():
    share = 0.3
    survey = simulated(np.random.default_rng(1), (2, 3, 2), share, 300, 300)
    result = fit(survey, "share:trait", draws=500, random_seed=1)
    assert result.attrs["converged"]
    assert "independent given" in facts_of(result)["identifiability"] and "independent" in result.attrs["prior"]
    low, high = (result["summary"][f"derived_{end}"].item() for end in ("lower", "upper"))
    assert low <= share <= high
    estimate, error = (result["estimate"][name].item() for name in ("derived", "derived_standard_error"))
    assert abs(estimate - share) < 3 * error and 0.01 < error < 0.05


def test_the_maximum_has_an_error_of_the_share_that_it_identifies():
    """The share has one, though how the lists go together is open: that of 100 surveys, within four of its own errors."""
    found = []
    for seed in range(100):
        survey = simulated(np.random.default_rng(seed), (2, 2), 0.3, 400)
        one = with_derived(MLE()(survey), survey)
        found.append((one.derived[0], one.derived_error[0]))
    share, error = np.array(found).T
    assert np.isfinite(error).all()
    assert abs(share.std() / np.median(error) - 1) < 4 / math.sqrt(200)


@pytest.mark.filterwarnings("error")
def test_cells_have_the_share_of_each_as_they_have_alone():
    cells = {"a": lists([10, 30, 40], [8, 20, 41, 9]), "b": lists([30, 40, 20], [22, 41, 25, 6])}
    result = fit(Cells(cells), "share:trait", draws=500, random_seed=1)
    for name, cell in cells.items():
        alone = fit(cell, "share:trait", draws=500, random_seed=2)["summary"]
        own = result["summary"].to_dataset().sel(cell=name)
        assert abs(own["derived_mean"].item() - alone["derived_mean"].item()) < 0.15 * alone["derived_sd"].item()


# ---- differences in means, and tests of the design ----------------------------------------------------------------------
def test_differences_in_means_of_two_lists_know_that_respondents_answer_both():
    rng = np.random.default_rng(3)
    n, on = 900, rng.integers(0, 2, 900)
    agreeable, trait = rng.normal(size=n), rng.random(n) < 0.3
    counts = np.stack([rng.binomial(size, 1 / (1 + np.exp(-agreeable))) for size in (2, 3)], axis=1)
    counts[np.arange(n), on] += trait
    tables = []
    for k, shape in ((0, (4, 4)), (1, (3, 5))):
        tables.append(np.zeros(shape, dtype=int))
        np.add.at(tables[k], tuple(counts[on == k].T), 1)
    found = difference_in_means(Collection.from_lists(ListExperiment((2, 3)), both=tables))
    means = np.array([counts[on == k].mean(axis=0) for k in (0, 1)])
    spread = [np.cov(counts[on == k].T) / (on == k).sum() for k in (0, 1)]
    sign = np.array([1.0, -1.0])
    np.testing.assert_allclose(found["difference"], sign * (means[0] - means[1]))
    covariance = np.outer(sign, sign) * (spread[0] + spread[1])
    np.testing.assert_allclose(found["standard_error"], np.sqrt(np.diag(covariance)))
    inverse = np.linalg.inv(covariance)
    assert found.pooled == pytest.approx(inverse.sum(axis=0) @ found["difference"].values / inverse.sum())
    assert found.pooled_error == pytest.approx(inverse.sum() ** -0.5) and found.df == 1
    with pytest.raises(ArgumentError, match=r"control.*treatment"):
        difference_in_means(Collection.from_lists(ListExperiment(1), [3, 4]))


def test_lists_that_disagree_are_flagged_and_lists_that_agree_are_not():
    """Of 40 surveys at 5 %: more than six flags have probability .003."""
    flagged = sum(check(simulated(np.random.default_rng(seed), (3, 3), 0.3, 500)).flagged for seed in range(40))
    p_values = [difference_in_means(simulated(np.random.default_rng(seed), (3, 2), 0.3, 500)).p_value for seed in range(200)]
    assert flagged <= 6
    assert 0.01 < np.mean(np.array(p_values) < 0.05) < 0.11  # 5 % ± 4 sd
    one, other = (simulated(np.random.default_rng(9), (3, 3), share, 1500) for share in (0.1, 0.5))
    mixed = Collection(
        one.categories, [a if a.name.endswith("1") else b for a, b in zip(one.tallies, other.tallies, strict=True)]
    )
    assert check(mixed).flagged and difference_in_means(mixed).p_value < 1e-6


# ---- the design, files and regressions ------------------------------------------------------------------------------------
def test_liars_at_the_ends_and_the_design_in_words():
    design = ListExperiment(2, ceiling_effect=0.3, floor_effect=0.1, traits=("other", "member"))
    carriers = design.treatment.matrix[:, 3:]
    assert carriers.tolist() == [[0.1, 0, 0], [0.9, 0, 0], [0, 1, 0.3], [0, 0, 0.7]]
    assert design.carriers == ("member/0", "member/1", "member/2") and design.direct.answers == ("other", "member")
    for wrong in (
        lambda: item_count(2, "control", ceiling_effect=0.1),
        lambda: ListExperiment(2, floor_effect=1.5),
        lambda: ListExperiment(2, traits=("no", "no")),
        lambda: lists([1, 2], [1, 2]),
        lambda: Collection.from_lists("design", [1, 2], [1, 2, 3]),
    ):
        with pytest.raises((ArgumentError, DataError)):
            wrong()


def test_carriers_who_hide_lower_the_share_that_an_honest_reading_finds():
    """Expected counts of a ceiling of one half: read so, the maximum finds the truth."""
    p = np.array([0.1, 0.2, 0.3, 0.05, 0.1, 0.25])
    hidden = ListExperiment(2, ceiling_effect=0.5)
    control, treatment = (np.rint(4000 * one.matrix @ p).astype(int) for one in (hidden.control, hidden.treatment))
    honest, aware = (
        MLE()(Collection.from_lists(ListExperiment(2, ceiling_effect=share), control, treatment)).distribution[3:].sum()
        for share in (0.0, 0.5)
    )
    assert honest < 0.30 and abs(aware - 0.4) < 0.01


def test_a_file_of_one_list_and_the_command_line(tmp_path, capsys):
    """A file needs no categories; the prior of the share goes by name."""
    (tmp_path / "race.csv").write_text(
        "treat,y,count\n" + "".join(f"{g},{y},{n}\n" for g, part in enumerate(RACE) for y, n in enumerate(part))
    )
    channel = '[[channels]]\nname = "{}"\nprotocol = "item_count"\nfile = "race.csv"\nreport = "y"\ncount = "count"\n'
    channel += 'where = {{treat = {}}}\nparameters = {{items = 3, group = "{}"}}\n'
    path = tmp_path / "race.toml"
    path.write_text(channel.format("control", 0, "control") + channel.format("treatment", 1, "treatment"))
    survey = read(path)
    assert survey.tallies == lists(*RACE).tallies and survey.derived == lists(*RACE).derived
    status, shown, _ = run(capsys, "fit", path, "--prior", "share:trait", "--seed", 1)
    assert status == 0 and "0.09" in shown


def test_a_design_effect_is_flagged_and_honest_reports_are_not():
    """Negative cells of Blair and Imai (2012): the treatment moves answers to the innocuous items."""
    rng = np.random.default_rng(0)
    p = np.array([0.05, 0.3, 0.3, 0.2, 0.03, 0.05, 0.05, 0.02])
    design = ListExperiment(3)
    flagged = []
    for _ in range(40):
        control, treatment = (rng.multinomial(600, one.matrix @ p) for one in (design.control, design.treatment))
        flagged.append(check(Collection.from_lists(design, control, treatment)).flagged)
    assert sum(flagged) <= 6  # of 40 at 5 %: more have probability .004
    assert check(lists([8, 132, 222, 227], [80, 123, 229, 219, 34])).flagged


def test_channels_of_lists_join_those_of_each():
    design = ListExperiment((1, 2), ceiling_effect=0.25, traits=("other", "member"))
    assert design.categories[:4] == ("other/0/0", "other/0/1", "other/0/2", "other/1/0") and len(design.carriers) == 6
    whole = {name: one.matrix.reshape(-1, 2, 2, 3) for name, one in design.channels.items()}
    np.testing.assert_array_equal(whole["control_2"], np.broadcast_to(np.eye(3)[:, None, None], (3, 2, 2, 3)))
    alone = ListExperiment(1, ceiling_effect=0.25).treatment.matrix.reshape(3, 2, 2)
    np.testing.assert_array_equal(whole["treatment_1"], np.broadcast_to(alone[..., None], (3, 2, 2, 3)))
    pair = whole["both_1"].reshape(3, 3, 2, 2, 3)
    np.testing.assert_allclose(pair.sum(axis=1), whole["treatment_1"])
    np.testing.assert_allclose(pair.sum(axis=0), whole["control_2"])
    assert design.channels["both_2"].answers[-1] == "1/3"


@each_row(
    "wrong",
    [
        lambda: item_count([1, 2], "control"),
        lambda: item_count([1, 2], "control", on=3),
        lambda: item_count(2, "control", on=1),
        lambda: item_count(2, "both", on=1),
        lambda: item_count([1, 2, 3], "both", on=1),
        lambda: item_count([1, 2], "both", on=1, ceiling_effect=2),
        lambda: ListExperiment((1, 2)).control,
        lambda: ListExperiment(()),
        lambda: Collection.from_lists(ListExperiment((1, 1)), [1, 2], [1, 2, 3]),
        lambda: Collection.from_lists(ListExperiment((1, 1)), both=BOTH[::-1]),
        lambda: Collection.from_lists(ListExperiment(1), both=BOTH),
        lambda: Product(()),
        lambda: Product((2, 3), ["flat"]),
    ],
)
def test_what_is_no_design_is_refused(wrong):
    with pytest.raises(ArgumentError):
        wrong()


def test_files_of_two_lists_and_the_command_line(tmp_path, capsys):
    """Two columns hold the answers of those who answered both lists; a file needs no categories."""
    rows = [
        f"{on},{y},{z},{n}"
        for on, table in enumerate(BOTH, 1)
        for (y, z), n in np.ndenumerate(np.array(table))
    ]  # fmt: skip
    (tmp_path / "two.csv").write_text("on,y,z,count\n" + "\n".join(rows) + "\n")
    channel = '[[channels]]\nname = "both_{0}"\nprotocol = "item_count"\nfile = "two.csv"\nreport = ["y", "z"]\n'
    channel += 'count = "count"\nwhere = {{on = {0}}}\nparameters = {{items = [1, 1], group = "both", on = {0}}}\n'
    path = tmp_path / "two.toml"
    path.write_text(channel.format(1) + channel.format(2))
    survey = read(path)
    assert survey == Collection.from_lists(ListExperiment((1, 1)), both=BOTH, id="two")
    write(survey, tmp_path / "again.toml")
    assert read(tmp_path / "again.toml") == survey
    apart = simulated(np.random.default_rng(1), (1, 2), 0.2, 80)
    write(apart, tmp_path / "apart.toml")
    assert read(tmp_path / "apart.toml") == apart
    status, shown, _ = run(capsys, "fit", tmp_path / "apart.toml", "--seed", 1)
    assert status == 0 and "method weighted" in shown


def test_a_regression_takes_those_who_answer_both_lists():
    rng = np.random.default_rng(4)
    n, on = 1500, rng.integers(1, 3, 1500)
    x = rng.normal(size=n).round(1)
    trait, agreeable = rng.random(n) < 1 / (1 + np.exp(1 - 0.8 * x)), rng.normal(size=n)
    y, z = (rng.binomial(size, 1 / (1 + np.exp(-0.7 * agreeable))) for size in (1, 2))
    frame = pd.DataFrame(
        {"x": x, "y": y + trait * (on == 1), "z": z + trait * (on == 2), "group": [f"both_{k}" for k in on]}
    )
    found = regress(frame, "angry ~ x", ListExperiment((1, 2)), report=["y", "z"], design="group", draws=250, random_seed=1)
    summary = found["summary"].to_dataset().sel(category="yes")
    away = (summary["coefficients_mean"].values - [-1.0, 0.8]) / summary["coefficients_sd"].values
    assert (np.abs(away) < 3).all() and list(found["posterior"]["items_applying"].values[:2]) == ["0/0", "0/1"]
    split = pd.DataFrame({"x": x, "y": y + trait * (on == 1), "group": np.where(on == 1, "treatment_1", "control_1")})
    with pytest.raises(ArgumentError, match=r"respondents.*two"):
        regress(split, "angry ~ x", ListExperiment((1, 2)), report="y", design="group")


@pytest.mark.calibrate
def test_intervals_cover_what_the_prior_draws():
    """95 % intervals of the share in 300 surveys of 1,200 people drawn from a prior with a flat share."""
    rng, design, covered = np.random.default_rng(5), ListExperiment(3), 0
    prior = Tree((tuple(range(4, 8)), tuple(range(4))), 1.0, "jeffreys")
    for _ in range(300):
        p = prior.sample(1, rng)[0]
        control, treatment = (rng.multinomial(600, one.matrix @ p) for one in (design.control, design.treatment))
        result = fit(Collection.from_lists(design, control, treatment), prior, estimates=False, random_seed=1)
        low, high = (result["summary"][f"derived_{end}"].values[0] for end in ("lower", "upper"))
        covered += low <= p[4:].sum() <= high
    assert 0.92 <= covered / 300 <= 0.98
