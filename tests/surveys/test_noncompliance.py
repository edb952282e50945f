"""Respondents who ignore the device: identification, prior, and fits."""

import math

import numpy as np
import pytest
from cases import CASES
from commands import run
from scipy.stats import beta
from tabulated import each_row

from ldpbayes import GRR, Cells, Collection, Tally, check, fit, load_example, read, select_method, show, write
from ldpbayes.errors import ArgumentError, DataError, InfeasibleError
from ldpbayes.estimators import MLE
from ldpbayes.estimators.derived import point_estimates
from ldpbayes.estimators.mle import maximize
from ldpbayes.pages.about import about
from ldpbayes.priors import Compliance, Dirichlet, prior_for
from ldpbayes.protocols import Channel, HadamardResponse, LocalHashing, UnaryEncoding, designs
from ldpbayes.protocols.noncompliance import Always
from ldpbayes.result import extended_draws
from ldpbayes.result.facts import facts_of

LABELS = "abcde"


def collected(protocols, laws, gamma, n=10_000, p=None, seed=1):
    """Return a collection with noncompliers of simulated reports, gamma of them by the first law."""
    rng = np.random.default_rng(seed)
    a = protocols[0].n_categories
    p = np.full(a, 1 / a) if p is None else np.asarray(p)
    plain = Collection(LABELS[:a], [Tally(q, *q.simulate([1] * a, rng), f"c{i}") for i, q in enumerate(protocols)])
    tallies = []
    truth = np.concatenate([(1 - gamma) * p, [gamma], np.zeros(len(laws) - 1)])
    for tally in plain.with_noncompliers(laws).tallies:
        counts = rng.multinomial(n // len(protocols), truth)
        tallies.append(Tally(tally.protocol.compliers, *tally.protocol.simulate(counts, rng), tally.name))
    return Collection(LABELS[:a], tallies).with_noncompliers(laws)


# ---- identification ------------------------------------------------------------------------------------------------
def kind(case):
    """Return how γ can be judged for a protocol: by its "channel", by a "sample" of reports, or it is "refused"."""
    protocol = case.build(case.categories[-1], 1.0)
    if protocol.caveat or protocol.noncompliance() is not None:
        return "refused"
    return "channel" if protocol.n_outputs is not None and protocol.n_outputs <= 4096 else "sample"


def every(*kinds):
    return pytest.mark.parametrize("case", [case for case in CASES if kind(case) in kinds], ids=str)


@pytest.mark.sampled(3)
@every("channel")
def test_identified_where_the_law_adds_a_dimension(case):
    """The rank rule, over every protocol whose reports can be listed, one ε and two."""
    a = case.categories[-1]
    for levels in ((1.0,), (0.7, 1.4)):
        protocols = [case.build(a, level) for level in levels]
        laws = ["uniform", {f"c{i}": q.all_reports()[0].tolist() for i, q in enumerate(protocols)}]
        rng = np.random.default_rng(3)
        tallies = [Tally(q, *q.simulate(np.full(a, 40), rng), f"c{i}") for i, q in enumerate(protocols)]
        for law in laws:
            wrapped = Collection(LABELS[:a] if a <= 5 else "abcdef", tallies).with_noncompliers({"other": law})
            stacked = np.concatenate([tally.protocol.channel() for tally in wrapped.tallies])
            rank, inner = (np.linalg.matrix_rank(part, tol=1e-10) for part in (stacked, stacked[:, :a]))
            found = wrapped.noncompliance()
            assert found.identified == (rank == inner + 1), (case.name, law)
            assert math.isfinite(found.sd) == found.identified
            if not found.identified:
                assert 0 <= found.low <= found.high <= 1


@every("sample")
def test_reports_that_cannot_be_listed_are_judged_by_the_rank_of_their_rows(case):
    """The law of a single report among endlessly many adds a dimension to any protocol."""
    a, rng = case.categories[-1], np.random.default_rng(4)
    protocol = case.build(a, 1.0)
    reports, counts = protocol.simulate(np.full(a, 60), rng)
    law = Always(int(reports[0]) if reports.ndim == 1 else tuple(reports[0].tolist()))
    wrapped = Collection([f"x{i}" for i in range(a)], Tally(protocol, reports, counts)).with_noncompliers({"other": law})
    dense = wrapped.rows.dense()
    rank, inner = (
        np.linalg.matrix_rank(part / part.max(axis=1, keepdims=True), tol=1e-10) for part in (dense, dense[:, :a])
    )
    assert wrapped.noncompliance().identified == (rank == inner + 1)


@every("refused")
def test_reports_that_are_not_those_of_single_users_who_comply_have_no_law(case):
    a = case.categories[-1]
    protocol = case.build(a, 1.0)
    tally = Tally(protocol, *protocol.simulate(np.full(a, 9), np.random.default_rng(1)))
    with pytest.raises(ArgumentError):
        Collection([f"x{i}" for i in range(a)], tally).with_noncompliers({"other": 0})


def test_grr_at_one_level_has_the_interval_of_its_closed_form():
    a, protocol = 4, GRR(4, 1.2)
    counts = np.array([420, 250, 180, 150])
    found = Collection(LABELS[:a], Tally(protocol, np.arange(a), counts)).with_noncompliers({"o": "a"}).noncompliance()
    r, weight = counts / counts.sum(), a + protocol.beta
    assert not found.identified and math.isinf(found.sd)
    # Solve (1 − γ) q_x = r_x − γ[x = 0] for p ≥ 0, with q_x = (1 + βp_x)/(a + β).
    assert found.low == pytest.approx(max(0.0, 1 - weight * r[1:].min()), abs=1e-8)
    assert found.high == pytest.approx((weight * r[0] - 1) / (weight - 1), abs=1e-8)


@pytest.mark.parametrize(
    "protocols, law, sd",
    [
        ([GRR(5, 0.5), GRR(5, 2.0)], "a", 0.010),
        ([GRR(5, 1.0), GRR(5, 2.0)], "a", 0.016),
        ([UnaryEncoding.optimized(5, 1.0)], "no bits", 0.005),
        ([UnaryEncoding.optimized(5, 1.0)], "fair coins", 0.011),
        ([UnaryEncoding.optimized(5, 1.0)], "all bits", 0.003),
        ([GRR(5, 0.5), GRR(5, 1.0), GRR(5, 2.0)], "uniform", math.inf),
    ],
)
def test_sd_that_a_design_can_give(protocols, law, sd):
    found = collected(protocols, {"other": law}, 0.1).noncompliance()
    assert found.sd == pytest.approx(sd, rel=0.15) if sd < math.inf else not found.identified


def test_reports_too_many_to_list_are_judged_by_a_sample():
    assert collected([UnaryEncoding.optimized(5, 1.0)], {"o": "no bits"}, 0.1).noncompliance().sd > 0
    wide = UnaryEncoding.optimized(20, 1.0)
    rng = np.random.default_rng(5)
    tally = Tally(wide, *wide.simulate(np.full(20, 100), rng))
    labels = [f"x{i}" for i in range(20)]
    found = Collection(labels, tally).with_noncompliers({"o": "no bits"}).noncompliance()
    assert found.identified and 0 < found.sd < 0.1
    assert not Collection(labels, tally).with_noncompliers({"o": "fair coins"}).noncompliance().sd > 1


# ---- the collection, its file and its prior ------------------------------------------------------------------------
def test_file_and_collection_agree(tmp_path):
    wrapped = collected([GRR(3, 0.5), GRR(3, 2.0)], {"a-sayer": "a"}, 0.1)
    assert [item.name for item in wrapped.derived] == ["noncompliance"]
    write(wrapped, tmp_path / "x.toml")
    assert read(tmp_path / "x.toml") == wrapped
    plain = Collection(LABELS[:3], [Tally(t.protocol.compliers, t.reports, t.counts, t.name) for t in wrapped.tallies])
    write(plain, tmp_path / "y.toml")
    text = (tmp_path / "y.toml").read_text()
    (tmp_path / "x.toml").write_text(text + '\n[noncompliance]\na-sayer = "a"\n')
    found = read(tmp_path / "x.toml")
    assert found.categories == wrapped.categories and found.derived == wrapped.derived


@each_row("laws", [{}, "no", {"a": "b"}, {"": "a"}, {"o": "nobody"}])
def test_laws_that_cannot_be_are_refused(laws):
    with pytest.raises(ArgumentError):
        Collection("ab", Tally(GRR(2, 1.0), [0, 1])).with_noncompliers(laws)


def test_the_default_prior_is_for_the_compliers():
    wrapped = collected([GRR(3, 0.5), GRR(3, 2.0)], {"o": "a"}, 0.1)
    prior = prior_for("jeffreys", wrapped)
    draws = prior.sample(50_000, np.random.default_rng(1))
    assert draws[:, -1].mean() == pytest.approx(0.1, abs=0.003)
    assert (draws[:, -1] > 0.25).mean() == pytest.approx(0.75**9, abs=0.004)
    assert prior.concentrations() is None
    conjugate = prior_for(Compliance("jeffreys", (2.0, 1.5)), wrapped)
    assert conjugate.concentrations().tolist() == [0.5, 0.5, 0.5, 2.0]
    assert prior_for(Dirichlet(np.ones(4)), wrapped).describe() == "flat, Dirichlet(1)"


@pytest.mark.filterwarnings("ignore::ldpbayes.errors.RankDeficientWarning")
def test_what_is_not_identified_is_refused_before_time_is_spent():
    wrapped = collected([GRR(3, 1.0)], {"o": "a"}, 0.1)
    with pytest.raises(InfeasibleError, match=r"identifies.*γ"):
        fit(wrapped, random_seed=1)
    assert select_method(wrapped, Compliance("jeffreys", (2, 18))).method.name


@pytest.mark.filterwarnings("ignore::ldpbayes.errors.RankDeficientWarning")
def test_without_data_gamma_has_its_prior():
    """A direct question of one person who said b: an a-sayer did not, and uniform answers say nothing about γ."""
    wrapped = Collection("ab", Tally(GRR(2, 0.0001), [0, 1], [1, 1])).with_noncompliers({"o": "uniform"})
    tree = fit(wrapped, Compliance("jeffreys", (2.0, 8.0)), draws=2000, random_seed=3, estimates=False)
    gamma = tree["posterior"]["noncompliance"].values.ravel()
    assert gamma.mean() == pytest.approx(0.2, abs=0.01)
    assert gamma.std() == pytest.approx(math.sqrt(0.2 * 0.8 / 11), rel=0.06)


@pytest.mark.filterwarnings("ignore::ldpbayes.errors.RankDeficientWarning")
def test_minarets_as_a_stochastic_lie_detector():
    """Carriers who deny are an extra category: likelihood, maximum and posterior are those of the named design."""
    survey = load_example("minarets")
    order = [0, 2]  # honest carriers and the others; those who lie always say no
    tallies = [
        Tally(designs.Channel(t.protocol.matrix[:, order], t.protocol.answers), t.reports, t.counts, t.name)
        for t in survey.tallies
    ]
    labels = [survey.categories[x] for x in order]
    wrapped = Collection(labels, tallies).with_noncompliers({survey.categories[1]: "no"})
    p = maximize(wrapped.rows, tolerance=1e-10).p
    assert p[[0, 2, 1]] == pytest.approx(maximize(survey.rows, tolerance=1e-10).p, abs=1e-5)
    assert 1 - p[1] == pytest.approx(0.870695, abs=2e-5)
    settings = {"draws": 1000, "random_seed": 1, "estimates": False}
    named = fit(survey, "jeffreys", **settings)["posterior"]["distribution"].values
    ours = fit(wrapped, Compliance("jeffreys", (0.5, 1.0)), **settings)["summary"]
    theirs = (named[..., 0] / (1 - named[..., 1])).mean(), named[..., 1].mean()
    found = float(ours["mean"].sel(target="distribution")[0]), float(ours["derived_mean"].sel(quantity="noncompliance"))
    assert found == pytest.approx(theirs, abs=4e-3)


def test_crosswise_with_same_sayers_is_recovered():
    """Two samples; tests/calibration has the coverage over hundreds."""
    protocols = [designs.crosswise(0.15), designs.crosswise(0.85)]
    for seed in range(2):
        wrapped = collected(protocols, {"same-sayer": 1}, 0.1, n=4000, p=[0.8, 0.2], seed=seed)
        posterior = fit(wrapped, draws=250, random_seed=seed, estimates=False)["posterior"]
        assert posterior.sizes["category"] == 2
        for draws, value in ((posterior["noncompliance"], 0.1), (posterior["distribution"][..., 1], 0.2)):
            assert abs(float(draws.mean()) - value) < 4 * float(draws.std())


def test_results_are_about_those_who_follow_the_device():
    protocols = [GRR(3, 0.5), GRR(3, 2.0)]
    wrapped = collected(protocols, {"a-sayer": "a", "c-sayer": "c"}, 0.1)
    tree = fit(wrapped, random_seed=1, draws=250)
    assert tree["posterior"]["category"].values.tolist() == ["a", "b", "c"]
    assert {"noncompliance", "noncompliance, a-sayer", "noncompliance, c-sayer"} <= set(tree["posterior"].data_vars)
    assert "no report" in facts_of(tree)["noncompliance"] and facts_of(tree)["compliance_p"] < 1e-5
    estimate = tree["estimate"]["value"].sel(estimator="mle").values
    p = maximize(wrapped.rows).p
    np.testing.assert_allclose(estimate, p[:3] / p[:3].sum(), atol=1e-6)
    extended = extended_draws(tree, wrapped)
    assert extended.shape[1] == 5 and np.abs(extended.sum(axis=1) - 1).max() < 1e-9
    tree.extend("log_likelihood", collection=wrapped)
    assert "log_likelihood" in tree.children
    page = show(tree, collection=wrapped)
    assert "ε is infinite" not in page.render("markdown") and "Respondents who" in page.render("markdown")
    assert page.figures[-1].name == "predictive" and page.figures[-1].draw().axes  # of p′, which has those who do not
    single = collected(protocols, {"a-sayer": "a"}, 0.1)
    figures = show(fit(single, random_seed=1, draws=250), collection=single).figures
    assert [figure.name for figure in figures][:2] == ["forest", "sensitivity"] and figures[1].draw().axes


def test_cells_have_their_own_share_each(tmp_path):
    protocols = [GRR(2, 1.0), GRR(2, 2.5)]
    plain = {
        f"r{i}": Collection("ab", [Tally(t.protocol.compliers, t.reports, t.counts, t.name) for t in found.tallies])
        for i, found in enumerate(collected(protocols, {"o": "a"}, g, p=[0.4, 0.6], seed=5) for g in (0.02, 0.3))
    }
    cells = Cells(plain, by="region")
    tree = fit(cells.with_noncompliers({"o": "a"}), random_seed=1, draws=250)
    gamma = tree["posterior"]["noncompliance"].mean(("chain", "draw")).values
    assert tree["posterior"]["distribution"].shape[2:] == (2, 2) and gamma[0] < 0.15 < gamma[1]
    assert "own γ" in facts_of(tree)["noncompliance"] and tree["cells"]["compliance_p"].values[1] < 0.01
    write(cells, tmp_path / "x.toml")
    text = (tmp_path / "x.toml").read_text().replace("[[channels]]", '[noncompliance]\no = "a"\n\n[[channels]]', 1)
    (tmp_path / "x.toml").write_text(text)
    assert read(tmp_path / "x.toml").categories == ("a", "b", "o")
    joint = fit(cells.with_noncompliers({"o": "a"}), "hierarchical", random_seed=1, draws=250, estimates=False)
    assert joint.attrs["converged"] and "own γ" in facts_of(joint)["noncompliance"]


def test_hadamard_identifies_uniform_reports_and_local_hashing_is_served():
    assert collected([HadamardResponse(5, 1.0)], {"o": "uniform"}, 0.1).noncompliance().identified
    assert collected([LocalHashing(5, 1.0)], {"o": "uniform"}, 0.1).noncompliance().identified


def test_command_line(tmp_path, capsys):
    rng = np.random.default_rng(1)
    tallies = [Tally(q, *q.simulate([700, 300], rng), f"c{i}") for i, q in enumerate([GRR(2, 0.5), GRR(2, 2.0)])]
    write(Collection(["no", "yes"], tallies), tmp_path / "x.toml")
    command = ("fit", tmp_path / "x.toml", "--draws", "100", "--seed", "1")
    status, out, err = run(capsys, *command, "--set", "noncompliance.no-sayer=no", "--noncompliance-prior", "2,18")
    assert status == 0 and "noncompliance" in out and "Beta(2, 18)" in out
    _, out, _ = run(capsys, *command, "--set", "noncompliance.no-sayer=no", "--explain")
    assert "P and F" in " ".join(out.split())
    assert "no report" in " ".join(out.split()) and "likelihood-ratio statistic" in " ".join(out.split())
    assert "deviation of 0.04" in err
    for wrong in ("noncompliance.no", "noncompliance_prior=2,18", "noncompliance.x=nobody", "noncompliance=no"):
        status, out, err = run(capsys, *command, "--set", wrong)
        assert status == 2 and not out and err.count("\n") == 1


def test_posterior_and_evidence_are_those_of_a_grid():
    """Two Warner designs of 50 each, no-sayers: the logit of a share that may be 0 has a long tail; draws must reach it."""
    protocols, counts = (designs.warner(0.75), designs.warner(0.25)), ([30, 20], [18, 32])
    tallies = [Tally(one, [0, 1], seen, name) for one, seen, name in zip(protocols, counts, "ab", strict=True)]
    collection = Collection(["no", "yes"], tallies).with_noncompliers({"no-sayer": "no"})
    tree = fit(collection, random_seed=1, estimates=False)
    level = (np.arange(800) + 0.5) / 800
    share, gamma = beta(0.5, 0.5).ppf(level)[:, None], beta(1, 9).ppf(level)  # cells of equal prior mass
    log_density = np.zeros((800, 800))
    for one, (no, yes) in zip(protocols, counts, strict=True):
        said = (1 - gamma) * (one.matrix[1, 0] * (1 - share) + one.matrix[1, 1] * share)
        log_density += no * np.log1p(-said) + yes * np.log(said)
    mass = np.exp(log_density - log_density.max())
    evidence = log_density.max() + np.log(mass.mean())
    of_share = mass.sum(axis=1) / mass.sum()
    low, high = np.interp([0.025, 0.975], np.cumsum(of_share), share[:, 0])
    found = tree["summary"].sel(target="distribution", category="yes")
    assert facts_of(tree)["k_hat"] < 0.5 and facts_of(tree)["log_evidence"] == pytest.approx(evidence, abs=0.03)
    assert float(found["mean"]) == pytest.approx(of_share @ share[:, 0], abs=4 * float(found["mcse"]))
    assert float(found["lower"]) == pytest.approx(low, abs=0.012) and float(found["upper"]) == pytest.approx(high, abs=0.02)


def direct_and_crosswise(direct=(89, 7), crosswise=(198, 112)):
    """Return a survey of one question asked openly and by the crosswise model."""
    parts = (designs.direct(), direct, "direct"), (designs.crosswise(0.75), crosswise, "crosswise")
    return Collection(["no", "yes"], [Tally(one, [0, 1], seen, name) for one, seen, name in parts])


def test_a_law_for_each_channel_is_checked_and_named(tmp_path, capsys):
    survey = direct_and_crosswise()
    with pytest.raises(ArgumentError, match=r"'crosswise'.*'always different'.*'no'"):
        survey.with_noncompliers({"denier": "no"})
    laws = {"denier": {"direct": "no", "crosswise": "different"}}
    with pytest.raises(ArgumentError, match=r"\(direct, crosswise\).*'open'"):
        survey.with_noncompliers({"denier": laws["denier"] | {"open": "no"}})
    design = about(survey.with_noncompliers(laws))["Design"]
    assert "(always no)" in design and "(always different)" in design
    halves = Cells({"a": survey, "b": Collection(["no", "yes"], survey.tallies[:1])}, by="half")
    assert halves.with_noncompliers(laws).n_laws == 1  # one cell has only one of the channels
    write(survey, tmp_path / "x.toml")
    for text in ("1", "a,b", "1,2,3", "0,1", "1,inf"):
        status, _, err = run(
            capsys, "fit", tmp_path / "x.toml", "--set", "noncompliance.r=uniform", "--noncompliance-prior", text
        )
        assert status == 2 and "--noncompliance-prior" in err


def test_what_lies_on_the_boundary_has_no_standard_error():
    """γ = 0 at the maximum, and a share of the compliers that is 0: not 0 with an error of 0."""
    found = point_estimates(
        direct_and_crosswise().with_noncompliers({"denier": {"direct": "no", "crosswise": "different"}})
    )[0]
    assert found.derived[0] == 0 and np.isnan(found.derived_error[0]) and (found.standard_error > 0).all()
    liars = {"liar": {"direct": "no", "crosswise": "uniform"}}
    nobody = point_estimates(direct_and_crosswise((99, 0), (210, 90)).with_noncompliers(liars))[0]
    assert nobody.distribution[1] == 0 and np.isnan(nobody.standard_error).all()


# ---- reports that nobody sends who follows the device -------------------------------------------------------------
# The likelihood of full compliance is zero then. Searched: draws and none, MLE, check, the command line, cells.
def controlled(extra=0):
    """Return a device, and a control question that everybody answers alike who follows it; the share is .4, P(yes) 2/9."""
    parts = ([[0.8, 0.2], [0.2, 0.8]], [600, 400 + extra], "device"), ([[1, 1], [0, 0]], [800, 200], "control")
    return Collection(["no", "yes"], [Tally(Channel(np.array(m)), [0, 1], seen, name) for m, seen, name in parts])


def test_those_who_answer_at_random_are_twice_the_errors_of_the_control():
    survey = controlled().with_noncompliers({"random": "uniform"})
    for draws in (0, 200):
        tree = fit(survey, draws=draws, random_seed=1)
        assert facts_of(tree)["compliance_p"] == 0
        assert facts_of(tree)["compliance"].startswith(
            "Some ignore the device: p = 0 (some reports are impossible under full"
        )
        assert abs(float(tree["summary"]["mean"].sel(target="distribution", category="yes")) - 2 / 9) < 0.01
    np.testing.assert_allclose(MLE()(survey).distribution, [0.6 * 7 / 9, 0.6 * 2 / 9, 0.4], atol=1e-6)
    found = check(survey)
    assert not found.flagged and found.compliance.p_value == 0 and abs(found.compliance.gamma - 0.4) < 1e-6


def test_the_same_from_a_file_and_in_cells(tmp_path, capsys):
    write(controlled(), tmp_path / "plain.toml")
    write(controlled().with_noncompliers({"random": "uniform"}), tmp_path / "x.toml")
    stated = ("plain.toml", "--explain", "--set", "noncompliance.random=uniform")
    for command, name, *more in (("fit", *stated), ("check", "x.toml")):
        status, out, _ = run(capsys, command, tmp_path / name, *more)
        assert status == 0 and "device: p = 0" in " ".join(out.split()), command
    for command in ("fit", "check"):
        status, _, err = run(capsys, command, tmp_path / "plain.toml")
        assert status == 2 and "channel 'control'" in err
    cells = Cells({"n": controlled(), "s": controlled(50)}, by="r").with_noncompliers({"random": "uniform"})
    assert (
        check(cells).compliance == "Some ignore the device in 2 of 2 cells: n, s (p = 0, adjusted for the number of cells)."
    )
    tree = fit(cells, random_seed=1, draws=200)
    assert tree["cells"]["compliance_p"].values.tolist() == [0, 0]


@pytest.mark.parametrize("door", [check, MLE(), fit])
def test_without_them_every_door_names_the_channel(door):
    with pytest.raises(DataError, match=r"'control'.*probability zero"):
        door(controlled())
