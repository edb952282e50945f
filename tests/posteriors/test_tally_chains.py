"""Several lists about one trait: sums over all tallies, surveys from the prior, files, tests of the design, regressions."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from commands import run
from scipy.special import betaln, gammaln, logsumexp

from ldpbayes import Cells, Collection, check, fit, read, regress, write
from ldpbayes.errors import ArgumentError, InfeasibleError
from ldpbayes.estimators import MLE, difference_in_means
from ldpbayes.estimators.derived import with_derived
from ldpbayes.posteriors.tally_chains import TallyChains
from ldpbayes.priors import Product, Tree
from ldpbayes.protocols import ListExperiment, item_count

#: Tables of two lists with one item each: with the sensitive item on the first, and on the second.
BOTH = [[4, 2], [5, 6], [0, 3]], [[3, 6, 1], [4, 5, 2]]


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


def near(result, known, draws=20_000):
    """Assert that draws of the trait agree with (mean, sd, log-evidence) within five standard errors, sds within 3 %."""
    trait = result["posterior"]["trait"].values
    assert abs(trait.mean() - known[0]) < 5 * known[1] / math.sqrt(draws / 2)
    assert abs(trait.std() / known[1] - 1) < 0.03
    assert abs(result.attrs["log_evidence"] - known[2]) < 6 * max(result.attrs["log_evidence_error"], 1e-3)


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
    near(fit(survey, prior, TallyChains(draws=5000), random_seed=1, estimates=False), known)


def test_two_lists_of_each_respondent_against_the_sum_over_all_tallies():
    """The tables name one or two of eight categories, in rows: a chain of tallies."""
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
    assert result.attrs["method"] == "tally_chain"
    near(result, concluded(whole, n, (1.0, 1.0)))


def simulated(rng, sizes, share, n, direct=0, more=0.0):
    """Return a survey of lists with n respondents in each group, of whom direct are asked directly."""
    groups = {"control": [], "treatment": []}
    for group, size in itertools.product(groups, sizes):
        trait = rng.random(n) < share
        count = rng.binomial(size, 0.45 + more * trait) + trait * (group == "treatment")
        groups[group].append(np.bincount(count, minlength=size + 1 + (group == "treatment")))
    asked = [direct - (k := rng.binomial(direct, share)), k] if direct else None
    return Collection.from_lists(ListExperiment(tuple(sizes)), **groups, direct=asked)


@pytest.mark.parametrize(("sizes", "share", "direct"), [((3, 3), 0.2, 0), ((8, 10), 0.01, 0), ((2, 3, 2), 0.3, 300)])
def test_a_fit_says_what_is_assumed(sizes, share, direct):
    survey = simulated(np.random.default_rng(1), sizes, share, 300, direct)
    result = fit(survey, "share:trait", draws=500, random_seed=1)
    assert result.attrs["method"] == "tally_chains" and result.attrs["converged"]
    assert "independent given the trait" in result.attrs["identifiability"] and "independent" in result.attrs["prior"]
    low, high = (result["summary"][f"derived_{end}"].item() for end in ("lower", "upper"))
    assert low <= share <= high
    assert 0 < result["estimate"]["derived_standard_error"].item() < 0.1 or result["estimate"]["derived"].item() < 1e-6


def test_the_maximum_has_an_error_of_the_share_that_it_identifies():
    """The share has one, though how the lists go together is open: that of 200 surveys, within four of its own errors."""
    found = []
    for seed in range(200):
        survey = simulated(np.random.default_rng(seed), (2, 2), 0.3, 400)
        one = with_derived(MLE()(survey), survey)
        found.append((one.derived[0], one.derived_error[0]))
    share, error = np.array(found).T
    assert np.isfinite(error).all()
    assert abs(share.std() / np.median(error) - 1) < 4 / math.sqrt(400)


@pytest.mark.filterwarnings("error")
def test_cells_have_the_share_of_each_as_they_have_alone():
    cells = {name: simulated(np.random.default_rng(seed), (2, 3), 0.2, 150) for seed, name in enumerate("ab")}
    result = fit(Cells(cells), "share:trait", draws=500, random_seed=1)
    assert result.attrs["method"] == "tally_chains"
    for name, cell in cells.items():
        alone = fit(cell, "share:trait", draws=500, random_seed=2)["summary"]
        own = result["summary"].to_dataset().sel(cell=name)
        assert abs(own["derived_mean"].item() - alone["derived_mean"].item()) < 0.15 * alone["derived_sd"].item()
    one = Cells({name: Collection.from_lists(ListExperiment(2), [10, 30, 40], [8, 20, 41, 9]) for name in "ab"})
    assert fit(one, "share:trait", draws=250, random_seed=1).attrs["method"] == "tally_chain"


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
    with pytest.raises(ArgumentError, match="a control group and a treatment group of every list"):
        difference_in_means(Collection.from_lists(ListExperiment(1), [3, 4]))


def test_lists_that_disagree_are_flagged_and_lists_that_agree_are_not():
    """Of 60 surveys at 5 %: more than eight flags have probability .004."""
    flagged = sum(check(simulated(np.random.default_rng(seed), (3, 3), 0.3, 500)).flagged for seed in range(60))
    p_values = [difference_in_means(simulated(np.random.default_rng(seed), (3, 2), 0.3, 500)).p_value for seed in range(200)]
    assert flagged <= 8
    assert 0.01 < np.mean(np.array(p_values) < 0.05) < 0.11  # 5 % ± 4 sd
    one, other = (simulated(np.random.default_rng(9), (3, 3), share, 1500) for share in (0.1, 0.5))
    mixed = Collection(
        one.categories, [a if a.name.endswith("1") else b for a, b in zip(one.tallies, other.tallies, strict=True)]
    )
    assert check(mixed).flagged and difference_in_means(mixed).p_value < 1e-6


# ---- the design, files and regressions ------------------------------------------------------------------------------------
def test_channels_of_lists_join_those_of_each():
    design = ListExperiment((1, 2), ceiling=0.25, traits=("other", "member"))
    assert design.categories[:4] == ("other/0/0", "other/0/1", "other/0/2", "other/1/0") and len(design.carriers) == 6
    whole = {name: one.matrix.reshape(-1, 2, 2, 3) for name, one in design.channels.items()}
    np.testing.assert_array_equal(whole["control_2"], np.broadcast_to(np.eye(3)[:, None, None], (3, 2, 2, 3)))
    alone = ListExperiment(1, ceiling=0.25).treatment.matrix.reshape(3, 2, 2)
    np.testing.assert_array_equal(whole["treatment_1"], np.broadcast_to(alone[..., None], (3, 2, 2, 3)))
    pair = whole["both_1"].reshape(3, 3, 2, 2, 3)
    np.testing.assert_allclose(pair.sum(axis=1), whole["treatment_1"])
    np.testing.assert_allclose(pair.sum(axis=0), whole["control_2"])
    assert design.channels["both_2"].answers[-1] == "1/3"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: item_count([1, 2], "control"),
        lambda: item_count([1, 2], "control", on=3),
        lambda: item_count(2, "control", on=1),
        lambda: item_count(2, "both", on=1),
        lambda: item_count([1, 2, 3], "both", on=1),
        lambda: item_count([1, 2], "both", on=1, ceiling=2),
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


def test_what_lists_do_not_hold_is_refused():
    survey = simulated(np.random.default_rng(1), (2, 2), 0.2, 50)
    with pytest.raises(InfeasibleError, match="need a prior of a trait and of what is independent given it"):
        fit(survey, "jeffreys", TallyChains(), estimates=False)
    prior = Tree((range(4, 8), range(4)), 1.0, [Product((2, 2))] * 2)
    with pytest.raises(InfeasibleError, match="on one list each, or on the trait alone"):
        fit(Collection.from_lists(ListExperiment((1, 1)), both=BOTH), prior, TallyChains(), estimates=False)


def test_files_and_the_command_line(tmp_path, capsys):
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
    status, shown, _ = run(capsys, "fit", path, "--prior", "share:trait", "--seed", 1)
    assert status == 0 and "method tally_chain" in shown
    apart = simulated(np.random.default_rng(1), (1, 2), 0.2, 80)
    write(apart, tmp_path / "apart.toml")
    assert read(tmp_path / "apart.toml") == apart
    status, shown, _ = run(capsys, "fit", tmp_path / "apart.toml", "--prior", "share:trait", "--seed", 1)
    assert status == 0 and "method tally_chains" in shown


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
    with pytest.raises(ArgumentError, match="needs respondents who answer two of them"):
        regress(split, "angry ~ x", ListExperiment((1, 2)), report="y", design="group")


@pytest.mark.calibrate
@pytest.mark.parametrize(("together", "seed", "surveys"), [(False, 11, 600), (True, 5, 400)])
def test_intervals_cover_what_the_prior_draws(together, seed, surveys):
    """95 % intervals of the share in surveys of 1,000 people drawn from a prior with a flat share.

    Of lists apart another 400 surveys, of seed 5, have 389: with these 600 they are .958, as likely as .95 allows.
    """
    rng, design, covered = np.random.default_rng(seed), ListExperiment((2, 3)), 0
    prior = Tree((range(12, 24), range(12)), 1.0, "jeffreys" if together else [Product((3, 4))] * 2)
    for _ in range(surveys):
        p = prior.sample(1, rng)[0]
        counts = {name: rng.multinomial(500 if together else 250, one.matrix @ p) for name, one in design.channels.items()}
        if together:
            survey = Collection.from_lists(design, both=[counts["both_1"].reshape(4, 4), counts["both_2"].reshape(3, 5)])
        else:
            survey = Collection.from_lists(
                design, *([counts[f"{group}_{k}"] for k in (1, 2)] for group in ("control", "treatment"))
            )
        result = fit(survey, "share:trait", draws=500, estimates=False, random_seed=1)
        low, high = (result["summary"][f"derived_{end}"].item() for end in ("lower", "upper"))
        covered += low <= p[12:].sum() <= high
    assert 0.93 <= covered / surveys <= 0.97
