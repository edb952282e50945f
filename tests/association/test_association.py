"""Joint tables of several attributes: published surveys, enumeration of independence, and the questions to a table."""

import itertools
import json
import math
import pathlib

import numpy as np
import pyarrow
import pytest
from commands import run
from scipy.special import betaln

import ldpbayes as lb
from ldpbayes.association import fitting as association
from ldpbayes.association.fitting import attributes_in, marginal
from ldpbayes.errors import ArgumentError, DiagnosticWarning, InfeasibleError
from ldpbayes.estimators.confidence import confidence_intervals
from ldpbayes.pages import show
from ldpbayes.protocols import GRR, SampledAttribute
from ldpbayes.protocols.designs import direct, warner
from ldpbayes.protocols.unary import UnaryEncoding

pytestmark = pytest.mark.long

DATA = pathlib.Path(__file__).parents[2] / "data"
LEVELS = {"doping": ["no", "yes"], "advice": ["no", "yes"]}


@pytest.fixture(scope="module")
def wada():
    """Four crosswise items of an online forum, 2020."""
    return lb.associate(DATA / "rr_wada_forum_joint.toml", draws=500, random_seed=1)


@pytest.fixture(scope="module")
def pair():
    """A frame of two Warner answers that go together."""
    frame = pyarrow.table({"q1": ["no", "no", "yes", "yes"], "q2": ["no", "yes", "no", "yes"], "n": [400, 90, 110, 150]})
    asked, designs = {"doping": "q1", "advice": "q2"}, {"doping": warner(0.8), "advice": warner(0.8)}
    return lb.associate(frame, asked, designs, categories=LEVELS, count="n", draws=500, random_seed=1)


@pytest.mark.calibrate
def test_items_of_the_published_survey(wada):
    """Margins by wada::logistic: shares and 95 % intervals of the items, each alone."""
    published = {"drug_tested": (0.210, 0.0225), "supplements": (0.444, 0.0239), "psychoactive": (0.491, 0.0239)}
    published["doping"] = (0.0401, 0.0188)  # the posterior mean: the MLE is near the boundary
    for name, (share, sd) in published.items():
        found = lb.answers.joint_table(wada, [name]).sel({name: "yes"})
        assert found["mean"] == pytest.approx(share, abs=0.5 * sd)
        assert found["sd"] == pytest.approx(sd, rel=0.15)
    assert wada.attrs["method"] == "weighted" and wada.attrs["converged"]


@pytest.mark.calibrate
def test_margins_agree_whatever_table_they_are_taken_from(wada):
    whole = lb.answers.joint_table(wada)["mean"]
    for attributes in (["supplements", "doping"], ["doping", "drug_tested"]):
        two = lb.answers.joint_table(wada, attributes)["mean"]
        assert two.dims == tuple(attributes)
        np.testing.assert_allclose(two, whole.sum([d for d in whole.dims if d not in attributes]).transpose(*attributes))


def test_answers_of_one_pair_are_those_of_its_draws(pair):
    p = pair["posterior"]["distribution"].values.reshape(-1, 2, 2)
    odds = lb.answers.odds_ratio(pair, "doping", "advice")
    ratio = p[:, 0, 0] * p[:, 1, 1] / (p[:, 0, 1] * p[:, 1, 0])
    assert odds["median"].item() == pytest.approx(np.exp(np.median(np.log(ratio))))
    assert odds["doping"].values.tolist() == ["yes / no"] and odds["probability_above_one"].item() == (ratio > 1).mean()
    rows, columns = p.sum(axis=2), p.sum(axis=1)
    phi = (p[:, 0, 0] * p[:, 1, 1] - p[:, 0, 1] * p[:, 1, 0]) / np.sqrt(rows.prod(axis=1) * columns.prod(axis=1))
    assert lb.answers.cramers_v(pair, "doping", "advice")["mean"] == pytest.approx(np.abs(phi).mean())
    shares = lb.answers.conditional(pair, "doping", given="advice")
    np.testing.assert_allclose(shares["mean"].sum("doping"), 1)
    assert shares["mean"].sel(advice="yes", doping="yes") == pytest.approx((p[:, 1, 1] / columns[:, 1]).mean())
    entropy = -(p * np.log(p)).sum(axis=(1, 2)) + (rows * np.log(rows)).sum(axis=1) + (columns * np.log(columns)).sum(axis=1)
    assert lb.answers.mutual_information(pair, "doping", "advice")["mean"] == pytest.approx(-entropy.mean())


def test_odds_ratios_of_larger_tables():
    labels = ["/".join((a, b)) for a in "xyz" for b in "uvwt"]
    p = np.random.default_rng(1).dirichlet(np.full(12, 5.0))
    tally = lb.Tally(direct(12), np.arange(12), np.round(1e6 * p).astype(int))
    tree = lb.associate(lb.Collection(labels, tally), names=["first", "second"], prior="flat", draws=200, random_seed=1)
    table = p.reshape(3, 4)
    local = lb.answers.odds_ratio(tree, "first", "second")
    assert local["median"].shape == (2, 3)
    expected = table[1, 1] * table[0, 0] / (table[1, 0] * table[0, 1])
    assert local["median"].values[0, 0] == pytest.approx(expected, rel=0.05)
    assert lb.answers.odds_ratio(tree, "first", "second", kind="all")["median"].shape == (3, 6)
    reference = lb.answers.odds_ratio(tree, "first", "second", kind="reference")["median"]
    assert reference.sel(first="z / x", second="t / u").item() == pytest.approx(
        table[2, 3] * table[0, 0] / (table[2, 0] * table[0, 3]), rel=0.05
    )


def test_probability_of_independence_by_enumeration():
    """Direct answers under a flat prior: Dirichlet evidence of the table against the product of two Beta evidences."""
    counts = np.array([[5, 2], [1, 7]])
    protocol = lb.protocols.kronecker([direct(2), direct(2)], separator="/")
    collection = lb.Collection(["no/no", "no/yes", "yes/no", "yes/yes"], lb.Tally(protocol, np.arange(4), counts.ravel()))
    tree = lb.associate(collection, prior="flat", draws=100, random_seed=1)
    n = counts.sum()
    table = math.lgamma(4) + sum(map(math.lgamma, counts.ravel() + 1)) - math.lgamma(n + 4)
    margins = sum(float(betaln(*(counts.sum(axis=axis) + 1))) for axis in (0, 1))
    assert lb.answers.independence(tree)["log_bayes_factor"] == pytest.approx(margins - table, abs=1e-6)


def test_independence_of_privatized_answers_by_enumeration():
    """Two Warner answers, six users, a flat prior: all assignments of the true values are summed over."""
    design, reports = warner(0.7), np.array([0, 0, 1, 3, 3, 3])
    protocol = lb.protocols.Attributes((design, design))
    codes = np.stack(np.unravel_index(reports, (2, 2)), axis=1)
    collection = lb.Collection(["no/no", "no/yes", "yes/no", "yes/yes"], lb.Tally(protocol, codes))
    tree = lb.associate(collection, prior="flat", draws=100, random_seed=1)
    q, joint = protocol.channel(), 0.0
    for cells in np.ndindex(*[4] * 6):
        chance = np.prod([q[y, x] for y, x in zip(reports, cells, strict=True)])
        counts = np.bincount(cells, minlength=4)
        joint += chance * math.exp(math.lgamma(4) + sum(map(math.lgamma, counts + 1)) - math.lgamma(10))
    single = 0.0
    for column in codes.T:
        total = 0.0
        for cells in np.ndindex(*[2] * 6):
            chance = np.prod([design.matrix[y, x] for y, x in zip(column, cells, strict=True)])
            total += chance * math.exp(betaln(1 + cells.count(0), 1 + cells.count(1)))
        single += math.log(total)
    assert lb.answers.independence(tree)["log_bayes_factor"] == pytest.approx(single - math.log(joint), abs=1e-3)


def test_rare_answers_are_no_evidence_of_association():
    """Two independent answers of half a per cent each: a narrow prior of the margins used to make an association of them."""
    protocol, rng = lb.protocols.Attributes((GRR(2, 2.0), GRR(2, 2.0))), np.random.default_rng(1)
    share = 0.005
    p = np.outer([1 - share, share], [1 - share, share]).ravel()
    tally = lb.Tally(protocol, protocol.privatize(rng.choice(4, 10_000, p=p), rng))
    tree = lb.associate(lb.Collection(["n/n", "n/y", "y/n", "y/y"], tally), draws=500, random_seed=1)
    assert lb.answers.independence(tree)["probability"] > 0.3


def test_attributes_of_a_collection():
    collection = lb.read(DATA / "rr_granada_joint.toml")
    found = attributes_in(collection)
    assert list(found) == ["copied", "fought", "bullied", "bullying", "drug", "sex"] and set(found.values()) == {
        ("no", "yes")
    }
    alone = marginal(collection, found, ["drug"])
    assert alone.n_reports == 710 and alone.categories == ("no", "yes")
    drug = lb.estimators.MLE()(alone).distribution[1]
    assert drug == pytest.approx((sum(c for r, c in _reports(collection) if r[4] == "yes") / 710 - 1 / 6) * 2, abs=1e-6)
    with pytest.raises(ArgumentError, match="all combinations"):
        attributes_in(lb.read(DATA / "rr_nigeria.toml"))
    with pytest.raises(ArgumentError, match=r"names must.*6"):
        attributes_in(collection, ["a", "b"])
    everything = collection.categories
    for altered in (
        collection.with_noncompliers({"no-sayer": "uniform"}),
        collection.with_deniers(everything[-1], everything[0], channel=collection.tallies[0].name),
    ):
        with pytest.raises(ArgumentError, match="no deniers and no noncompliance"):
            attributes_in(altered)


def _reports(collection):
    tally = collection.tallies[0]
    (texts,) = tally.protocol.format_reports(tally.reports, collection.categories)
    return [(text.split("/"), count) for text, count in zip(texts, tally.counts.tolist(), strict=True)]


def test_a_frame_with_sets_and_single_numbers():
    rng, protocol = np.random.default_rng(2), {"job": UnaryEncoding.optimized(3, 2.0), "sex": GRR(2, 2.0)}
    x = rng.choice(6, 400, p=[0.3, 0.1, 0.1, 0.2, 0.1, 0.2])
    sets = protocol["job"].privatize(x // 2, rng)
    texts = protocol["job"].format_reports(sets, "abc")[0]
    frame = pyarrow.table({"j": texts, "s": ["fm"[y] for y in protocol["sex"].privatize(x % 2, rng)]})
    levels = {"job": list("abc"), "sex": list("fm")}
    tree = lb.associate(frame, {"job": "j", "sex": "s"}, protocol, categories=levels, draws=200, random_seed=1)
    assert lb.answers.joint_table(tree)["mean"].sizes == {"job": 3, "sex": 2}


@pytest.mark.calibrate
@pytest.mark.filterwarnings("ignore::ldpbayes.errors.RankDeficientWarning")
def test_sampled_attributes_tell_margins_only():
    protocol, rng = SampledAttribute(4, 3.0, (2, 2), "grr"), np.random.default_rng(1)
    tally = lb.Tally(protocol, protocol.privatize(rng.choice(4, 3000, p=[0.6, 0.0, 0.0, 0.4]), rng))
    tree = lb.associate(lb.Collection(["n/n", "n/y", "y/n", "y/y"], tally), draws=300, random_seed=1)
    assert abs(lb.answers.joint_table(tree, ["A"])["mean"].sel(A="y").item() - 0.4) < 0.05
    odds = lb.answers.odds_ratio(tree, "A", "B")
    assert odds["lower"].item() < 0.8 < 1.25 < odds["upper"].item()
    assert "do not identify" in str(show(tree))


def test_a_pair_that_cannot_be_served_leaves_the_others(monkeypatch):
    """One pair without an answer used to take those of all others, and an error the whole table."""
    rng = np.random.default_rng(1)
    asked = {name: warner(0.9).privatize(rng.integers(2, size=200), rng) for name in "abc"}
    own = association.fit

    def without(collection, prior, **settings):
        if collection.n_categories == 4 and len(seen := without.seen) < 2:
            seen.append(1)
            if len(seen) == 2:
                raise InfeasibleError("There is no answer.")
        return own(collection, prior, **settings)

    without.seen = []
    monkeypatch.setattr(association, "fit", without)
    with pytest.warns(DiagnosticWarning, match=r"Independence.*a.*c:"):
        columns, designs = {name: name for name in asked}, dict.fromkeys(asked, warner(0.9))
        tree = lb.associate(pyarrow.table(asked), columns, designs, draws=100, random_seed=1)
    assert tree.attrs["left_out"] == "Independence of a and c: left out. There is no answer."
    known = {pair: np.isfinite(lb.answers.independence(tree, *pair)["log_bayes_factor"]) for pair in ("ab", "ac", "bc")}
    assert known == {"ab": True, "ac": False, "bc": True}


@pytest.fixture(scope="module")
def three():
    """Three Warner answers of 800 people."""
    items = lb.protocols.Attributes((warner(0.8),) * 3)
    labels = ["/".join(cell) for cell in itertools.product(*[["no", "yes"]] * 3)]
    reports = np.array(list(itertools.product([0, 1], repeat=3)))
    return lb.Collection(labels, lb.Tally(items, reports, [300, 60, 70, 50, 80, 60, 50, 130]))


def test_page_and_figure(three, pair):
    page = show(lb.associate(three, names=["drug_tested", "supplements", "doping"], draws=100, random_seed=1), top=2)
    text = str(page)
    assert "Cramér's V" in text and "Shares of" in text and "strongest association" in page.render("html")
    assert sum(table.title.startswith("Shares of") for table in page.tables) == 2
    assert len(page.figures[0].draw().axes) == 2 and len(page.figures[0].alone().axes) == 4  # heat maps with colour bars
    assert "against" in show(pair).summary
    facts = json.loads(page.render("json"))
    assert len(facts["pairs"]) == 3 and 0 < facts["independence"]["probability"] < 1


def test_wrong_questions_are_one_sentence(pair):
    with pytest.raises(ArgumentError, match="attribute must"):
        lb.answers.joint_table(pair, ["height"])
    with pytest.raises(ArgumentError, match="different"):
        lb.answers.joint_table(pair, ["doping", "doping"])
    with pytest.raises(ArgumentError, match="associate"):
        lb.answers.joint_table(lb.fit(DATA / "rr_nigeria.toml", draws=20, random_seed=1))
    with pytest.raises(ArgumentError, match="reports must"):
        lb.associate(pyarrow.table({"a": ["x"]}), {"a": "a"}, {})
    with pytest.raises(ArgumentError, match="protocols must"):
        lb.associate(pyarrow.table({"a": ["x"]}), {"a": "a", "b": "a"}, {"a": warner(0.8)})


def test_the_page_has_intervals_of_the_probability_asked_for(pair):
    """A page used to print intervals of 95 % under any heading."""
    half = pair.copy()
    half["summary"] = half["summary"].copy()
    half["summary"].attrs["ci_prob"] = 0.5
    page = show(half)
    facts, odds = json.loads(page.render("json")), lb.answers.odds_ratio(pair, "doping", "advice", ci_prob=0.5)
    assert facts["ci_prob"] == 0.5
    assert facts["pairs"][0]["odds_ratio_interval"] == [odds["lower"].item(), odds["upper"].item()]
    v = lb.answers.cramers_v(pair, "doping", "advice", ci_prob=0.5)
    assert facts["pairs"][0]["cramers_v_interval"] == [v["lower"].item(), v["upper"].item()]
    margin = lb.answers.joint_table(pair, ["doping"], ci_prob=0.5)
    assert facts["margins"]["doping"]["yes"]["lower"] == margin["lower"].sel(doping="yes").item()
    shares = lb.answers.conditional(pair, "advice", given="doping", ci_prob=0.5)
    assert page.tables[2].rows[0][3] == (shares["lower"][0, 1].item(), shares["upper"][0, 1].item())  # of yes


def test_settings_that_do_not_go_together_are_refused(pair):
    design = lb.protocols.Attributes((warner(0.8), GRR(3, 1.0)))
    collection = lb.Collection([f"{a}/{b}" for a in "no" for b in "xyz"], lb.Tally(design, [[0, 0]]))
    with pytest.raises(ArgumentError, match=r"order must.*left"):
        lb.associate(collection, prior="flat", order=2)
    with pytest.raises(ArgumentError, match=r"over 2 × 3.*3 × 2"):
        lb.associate(collection, prior=lb.priors.LogLinear((3, 2)))
    with pytest.raises(ArgumentError, match="attributes must"):
        lb.associate(collection, names=["mean", "job"])
    frame = pyarrow.table({"q1": ["no"], "q2": ["no"]})
    with pytest.raises(ArgumentError, match=r"names must.*left"):
        lb.associate(frame, {"a": "q1", "b": "q2"}, {"a": warner(0.8), "b": warner(0.8)}, names=["c", "d"])
    alone = lb.associate(collection, order=1, draws=100, random_seed=1)
    assert show(alone).summary.startswith("The prior has no interactions")
    with pytest.raises(ArgumentError, match="twice"):
        lb.answers.independence(pair, "doping", "doping")


def test_a_table_alone_is_asked_for_its_columns(tmp_path):
    path = tmp_path / "answers.csv"
    path.write_text("q1,q2\nno,yes\nyes,no\n")
    with pytest.raises(ArgumentError, match=r"reports .* protocols .* categories .*answers"):
        lb.associate(path)
    stated = {"q1": ["no", "yes"], "q2": ["no", "yes"]}
    protocols = {name: lb.GRR(2, 2.0) for name in stated}
    found = lb.associate(path, {name: name for name in stated}, protocols, categories=stated, draws=50, random_seed=1)
    assert found.attrs["n_reports"] == 2


def test_a_single_direct_answer_has_an_answer():
    """Reports that one cell alone can make: the profile likelihood used to divide by their probability of 0."""
    direct_pair = lb.protocols.Attributes((direct(2), direct(2)))
    collection = lb.Collection(["n/n", "n/y", "y/n", "y/y"], lb.Tally(direct_pair, [[0, 0]], [3]))
    found = confidence_intervals([collection])[0]
    np.testing.assert_allclose(found.lower[0], [math.exp(-1.920729 / 3), 0, 0, 0], atol=1e-4)  # n log p = −χ²/2
    np.testing.assert_allclose(found.upper[0, 1:], 1 - found.lower[0, 0], atol=1e-4)


def test_command_line(three, capsys, tmp_path):
    file, page = tmp_path / "three.toml", tmp_path / "three.md"
    lb.write(three, file)
    status, out, _ = run(capsys, "associate", file, "--order", 2, "--draws", 100, "--seed", 1, "--top", 1, "--page", page)
    assert status == 0 and "P(independent)" in out and "against" in page.read_text()
    status, _, err = run(capsys, "associate", "example:nigeria")
    assert status == 2 and "all combinations" in err


@pytest.fixture(scope="module")
def rare():
    """Nine people, of whom perhaps nobody does both."""
    frame = pyarrow.table({"q1": ["no"] * 6 + ["yes"] * 3, "q2": ["no"] * 9})
    asked, designs = {"doping": "q1", "advice": "q2"}, {"doping": warner(0.95), "advice": warner(0.9)}
    return lb.associate(frame, asked, designs, categories=LEVELS, draws=500, random_seed=1)


def test_conditional_shares_of_users_add_up_where_nobody_may_have_the_level(rare):
    """P(doping | advice = yes) of these nine: nobody has had advice in nine of ten draws, which say nothing."""
    answer = lb.answers.conditional(rare, "doping", given="advice", target="frequency")
    draws = rare["posterior"]["frequency"].values.reshape(-1, 2, 2)[..., 1]
    some = draws[draws.sum(axis=1) > 0]
    assert 10 < len(some) < 0.3 * len(draws)
    np.testing.assert_allclose(answer["mean"].sum("doping"), 1, atol=1e-12)
    expected = (some / some.sum(axis=1, keepdims=True)).mean(axis=0)
    np.testing.assert_allclose(answer["mean"].sel(advice="yes"), expected, atol=0.03)
    assert float(answer["mcse"].sel(advice="yes", doping="yes")) > 0.5 * 0.4 / math.sqrt(len(some))


def test_an_odds_ratio_of_users_may_be_infinite(rare):
    answer = lb.answers.odds_ratio(rare, "doping", "advice", target="frequency").squeeze()
    table = rare["posterior"]["frequency"].values.reshape(-1, 4)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = table[:, 0] * table[:, 3] / (table[:, 1] * table[:, 2])
    known = ratio[~np.isnan(ratio)]
    assert float(answer["lower"]) == 0 and (known == 0).mean() > 0.025
    assert float(answer["upper"]) == math.inf and np.isinf(known).mean() > 0.025
    assert float(answer["probability_above_one"]) == pytest.approx((known > 1).mean(), abs=0.03)
    assert all(math.isnan(answer[name]) for name in ("log_mean", "log_sd", "log_mcse"))
