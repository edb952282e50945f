"""Chains of tallies: against the law of all tallies, an own Gibbs sampler, and sums over every tally under a tree prior."""

import itertools
import math

import numpy as np
import pytest
from commands import run
from scipy.special import betaln, gammaln

from ldpbayes import Collection, Tally, check, fit, read
from ldpbayes.errors import ArgumentError, DataError, InfeasibleError
from ldpbayes.estimators import MLE
from ldpbayes.posteriors.tally_chain import TallyChain
from ldpbayes.posteriors.tally_states import TallyStates
from ldpbayes.priors import Tree
from ldpbayes.protocols import Channel, ListExperiment, item_count

#: The 1991 National Race and Politics Survey, as in Imai (2011).
RACE = [8, 132, 222, 227], [19, 123, 229, 219, 34]


def lists(control, treatment, direct=None, **more):
    return Collection.from_lists(ListExperiment(len(control) - 1), control, treatment, direct, **more)


def exact(collection, prior, method):
    return fit(collection, prior, method, random_seed=0, estimates=False)["exact"]


#: Neighbours of a row in another order, reports that name both with two chances, and a category that none of them names.
MATRIX = [[0, 0.2, 0, 0, 0], [1, 0, 0, 0.5, 0], [0, 0.8, 0.3, 0, 0], [0, 0, 0.7, 0.5, 1]]
PARTLY = Collection(list("abcde"), [Tally(Channel(MATRIX), [0, 1, 2], [2, 4, 5])])
#: One category of six, together with each of the others by a report of its own.
PAIRS = [np.eye(6)[0] + np.eye(6)[k] for k in range(1, 6)]
STAR = Collection(list("abcdef"), [Tally(Channel([pair, 1 - pair]), [0], [3 + k], f"{k}") for k, pair in enumerate(PAIRS)])


@pytest.mark.parametrize("collection", [lists([2, 4, 3], [1, 3, 4, 2]), lists([3, 0], [2, 4, 0]), PARTLY])
@pytest.mark.parametrize("alpha", [1.0, None])
def test_it_is_the_law_of_all_tallies(collection, alpha):
    prior = np.linspace(0.3, 2.0, collection.n_categories) if alpha is None else alpha
    found, known = exact(collection, prior, TallyChain(draws=100)), exact(collection, prior, TallyStates(draws=100))
    for name in set(found) - {"distribution_cov"}:
        assert found[name].values == pytest.approx(known[name].values, abs=1e-9), name


def test_draws_follow_the_law():
    """20,000 independent draws: means within five standard errors, the correlation of neighbours within .03."""
    tree = fit(lists([2, 4, 3], [1, 3, 4, 2]), "flat", TallyChain(draws=5000), random_seed=1, estimates=False)
    known = exact(lists([2, 4, 3], [1, 3, 4, 2]), "flat", TallyStates(draws=100))
    for target in ("distribution", "frequency"):
        draws, sd = tree["posterior"][target].values.reshape(-1, 6), known[f"{target}_sd"].values
        assert (np.abs(draws.mean(axis=0) - known[f"{target}_mean"].values) < 5 * sd / math.sqrt(20_000)).all()
    correlation = np.corrcoef(tree["posterior"]["distribution"].values.reshape(-1, 6).T)
    scale = np.sqrt(np.diag(known["distribution_cov"].values))
    assert np.abs(correlation - known["distribution_cov"].values / np.outer(scale, scale)).max() < 0.03


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
    """The mean known exactly lies within four errors of the sampler's, its sd and ends within .003; the mean under Jeffreys'
    prior within .002 of one that a sampler with an error of .001 has found."""
    draws = gibbs(*RACE, 1.0, np.random.default_rng(3))
    result = fit(lists(*RACE), "flat", draws=10_000, estimates=False, random_seed=1)
    assert result.attrs["method"] == "tally_chain"
    mean = result["exact"]["distribution_mean"].values[4:].sum()
    assert abs(mean - draws.mean()) < 4 * draws.mean(axis=0).std() / math.sqrt(draws.shape[1])
    trait = result["posterior"]["trait"].values
    found = np.array([trait.std(), *np.quantile(trait, [0.025, 0.975])])
    assert np.abs(found - [draws.std(), *np.quantile(draws, [0.025, 0.975])]).max() < 0.003
    assert np.abs(np.array([mean, *found]) - (0.131, 0.036, 0.070, 0.210)).max() < 0.001
    half = exact(lists(*RACE), "jeffreys", TallyChain(draws=100))["distribution_mean"].values[4:].sum()
    assert abs(half - 0.1045) < 0.002


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


@pytest.mark.parametrize("direct", [(0, 0), (9, 2)])
@pytest.mark.parametrize("shares", [(1.0, 1.0), (6.0, 0.5)])
def test_a_tree_of_blocks_and_direct_questions_against_the_sum_over_all_tallies(shares, direct):
    """80,000 proposals: the mean within .002, the log-evidence within six of its errors."""
    survey = lists([3, 5], [2, 6, 1], direct if any(direct) else None)
    mean, log_evidence = by_hand([3, 5], [2, 6, 1], direct, shares, 0.7)
    prior = Tree(((0, 1), (2, 3)), np.array(shares), 0.7)
    tree = fit(survey, prior, TallyChain(draws=5000), random_seed=2, estimates=False)
    assert abs(float(tree["posterior"]["trait"].mean()) - mean) < 0.005
    assert abs(tree.attrs["log_evidence"] - log_evidence) < 6 * tree.attrs["log_evidence_error"]


@pytest.mark.parametrize("direct", [None, (700, 21), (9000, 2000)])
def test_a_flat_share_of_a_survey_far_from_the_middle_has_many_effective_draws(direct):
    """Where the chain alone, or the direct questions, say something else than the other, tilts bring them together."""
    survey = lists([300, 420, 210, 60], [310, 430, 200, 65, 2], direct)
    result = fit(survey, "share:trait", estimates=False, random_seed=3)
    assert result.attrs["method"] == "tally_chain" and result.attrs["converged"]
    assert result["summary"]["derived_ess_bulk"].values[0] > 2000


def test_a_fit_says_what_its_prior_says_of_the_trait():
    survey = lists(*RACE)
    said = fit(survey, "flat", random_seed=1).attrs["prior_of_shares"]
    assert "gives trait a mean of 0.5, and 95 % between 0.18 and 0.82. That is 8 open answers" in said
    assert "prior_of_shares" not in fit(survey, "share:trait", random_seed=1).attrs
    with pytest.raises(ArgumentError, match="prior must be one of trait"):
        fit(survey, "share:treat")


def test_large_lists_keep_the_states_that_matter():
    """15,000 reports: states are looked at on a lattice first. The mean lies within three sd of the maximum."""
    large = lists(*([12 * n for n in part] for part in RACE))
    result = fit(large, "flat", estimates=False, random_seed=1)
    assert result.attrs["method"] == "tally_chain"
    assert abs(result["exact"]["distribution_mean"].values[4:].sum() - 0.1052) < 0.03


def test_what_does_not_form_a_row_is_refused():
    with pytest.raises(InfeasibleError, match="two neighbours in one row"):
        fit(STAR, "flat", TallyChain(), estimates=False)
    with pytest.raises(InfeasibleError, match="Dirichlet tree of two blocks"):
        fit(lists(*RACE), Tree(((0, 1), (2, 3), (4, 5, 6, 7)), 1.0), TallyChain(), estimates=False)


# ---- the design -----------------------------------------------------------------------------------------------------------
def test_liars_at_the_ends_and_the_design_in_words():
    design = ListExperiment(2, ceiling=0.3, floor=0.1, traits=("other", "member"))
    carriers = design.treatment.matrix[:, 3:]
    assert carriers.tolist() == [[0.1, 0, 0], [0.9, 0, 0], [0, 1, 0.3], [0, 0, 0.7]]
    assert design.carriers == ("member/0", "member/1", "member/2") and design.direct.answers == ("other", "member")
    for wrong in (
        lambda: item_count(2, "control", ceiling=0.1),
        lambda: ListExperiment(2, floor=1.5),
        lambda: ListExperiment(2, traits=("no", "no")),
        lambda: lists([1, 2], [1, 2]),
        lambda: Collection.from_lists("design", [1, 2], [1, 2, 3]),
    ):
        with pytest.raises((ArgumentError, DataError)):
            wrong()


def test_carriers_who_hide_lower_the_share_that_an_honest_reading_finds():
    """Expected counts of a ceiling of one half: read so, the maximum finds the truth."""
    p = np.array([0.1, 0.2, 0.3, 0.05, 0.1, 0.25])
    hidden = ListExperiment(2, ceiling=0.5)
    control, treatment = (np.rint(4000 * one.matrix @ p).astype(int) for one in (hidden.control, hidden.treatment))
    honest, aware = (
        MLE()(Collection.from_lists(ListExperiment(2, ceiling=share), control, treatment)).distribution[3:].sum()
        for share in (0.0, 0.5)
    )
    assert honest < 0.30 and abs(aware - 0.4) < 0.01


def test_files_and_the_command_line(tmp_path, capsys):
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
    assert status == 0 and "method tally_chain" in shown


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


@pytest.mark.calibrate
@pytest.mark.parametrize("direct", [False, True])
def test_intervals_cover_what_the_prior_draws(direct):
    """95 % intervals of the share in 500 surveys of 1,200 people drawn from a prior with a flat share."""
    rng, design, covered = np.random.default_rng(5), ListExperiment(3), 0
    prior = Tree((tuple(range(4, 8)), tuple(range(4))), 1.0, "jeffreys")
    for _ in range(500):
        p = prior.sample(1, rng)[0]
        counts = [
            rng.multinomial(n, one.matrix @ p)
            for n, one in ((600, design.control), (600, design.treatment), (400, design.direct))
        ]
        survey = Collection.from_lists(design, *counts[: 2 + direct])
        result = fit(survey, prior, estimates=False, random_seed=1)
        low, high = (result["summary"][f"derived_{end}"].values[0] for end in ("lower", "upper"))
        covered += low <= p[4:].sum() <= high
    assert 0.93 <= covered / 500 <= 0.97
