"""Whether the prior decides: of cells, under sampling weights, and where respondents may ignore the device."""

import json

import numpy as np
import pytest
from fitcases import zipf
from priorcases import CellsApart, LogisticNormal
from samples import from_sample
from support.fits import fit_of

from ldpbayes import GRR, Cells, Collection, Tally, fit
from ldpbayes.answers.deciding import who_decides
from ldpbayes.answers.sensitivity import of_trait
from ldpbayes.errors import RankDeficientWarning
from ldpbayes.estimators.confidence import confidence_intervals, likelihood_intervals
from ldpbayes.inference.scaling import DOUBLINGS, POWERS
from ldpbayes.methods.problem import Problem
from ldpbayes.pages import show
from ldpbayes.plots import plot_forest, plot_groups
from ldpbayes.priors import Compliance, Hierarchical, LogLinear, Product, Smooth, Tree
from ldpbayes.priors.base import ScaleLaw
from ldpbayes.protocols import UnaryEncoding, designs
from ldpbayes.result import select
from ldpbayes.result.facts import facts_of


def reports_of(protocol, p, n, seed=0):
    rng = np.random.default_rng(seed)
    return Tally(protocol, *protocol.simulate(rng.multinomial(n, p), rng))


def cells_of(sizes, a=4, epsilon=1.0):
    labels = [f"c{x}" for x in range(a)]
    tallies = [reports_of(GRR(a, epsilon), zipf(a), n, i) for i, n in enumerate(sizes)]
    return Cells({f"g{i}": Collection(labels, [tally]) for i, tally in enumerate(tallies)})


def everywhere(tree, collection):
    """Return what table, page, JSON and the captions say."""
    page = show(tree, collection=collection)
    facts = json.loads(page.render("json"))
    return page, facts["diagnostics"], [figure.caption for figure in page.figures]


def test_cells_fitted_one_by_one_are_named():
    cells = cells_of([20_000, 20], epsilon=0.5)
    tree = fit(cells, "flat", random_seed=1, draws=250)
    assert tree.attrs["prior_decides"] == 1 and "1 of 2 cells (g1)" in tree.attrs["decides"]
    page, facts, captions = everywhere(tree, cells)
    assert tree.attrs["decides"] in [note.text for note in page.notes] and facts["decides"] == tree.attrs["decides"]
    assert "1 of 2 groups" in captions[0]
    assert "reports disagree" in plot_groups(tree).axes[-1].get_xlabel()
    assert "1 of 2 groups" in plot_forest(tree).axes[-1].get_xlabel().replace("\n", " ")
    quiet = fit(cells_of([20_000, 20_000]), random_seed=1, draws=250)
    assert quiet.attrs["decides"] == facts_of(quiet)["decides_note"] == "" and who_decides(quiet) == ""


@pytest.mark.parametrize(
    "prior", [Hierarchical(scale=0.7, centre=2.0).over(3, 4), Smooth(n_categories=5), LogLinear((2, 3))]
)
def test_the_prior_of_hyperparameters_is_that_of_the_unknowns_they_come_from(prior):
    """As a function of what they stand for: scales s = e^z have a density whose logarithm lacks the Jacobian z."""
    z = prior.unknowns(6, np.random.default_rng(1))
    blocks = {
        name: law.log_density(part) for (name, (law, _)), part in zip(prior.blocks().items(), split(prior, z), strict=True)
    }
    scales = {name: law for name, (law, _) in prior.blocks().items() if isinstance(law, ScaleLaw)}
    known = sum(blocks[name].sum(axis=-1) for name in blocks if name in scales or name == "centre")
    known -= sum(part.sum(axis=-1) for name, part in zip(blocks, split(prior, z), strict=True) if name in scales)
    found = prior.log_hyperprior({name: values for name, (_, values) in prior.variables(z).items()})
    np.testing.assert_allclose(found - found[0], known - known[0], atol=1e-9)


def split(prior, z):
    """Return the unknowns of each block, (k, size)."""
    sizes = [int(np.prod(shape)) for _, shape in prior.blocks().values()]
    return np.split(z, np.cumsum(sizes)[:-1], axis=1)


def test_a_prior_with_hyperparameters_is_scaled_by_theirs():
    known = fit(reports_of(GRR(6, 2.0), zipf(6), 8000), "smooth", random_seed=1, draws=250)
    assert list(known["sensitivity"]["parameter"].values) == ["sigma", "tau"] and facts_of(known)["decides_note"] == ""
    assert [column.key for column in show(known).tables[-1].columns][-1] == "decided_by"
    assert known.attrs["prior_decides"] == 0 and known.attrs["decided_by"] == "reports"


def test_a_joint_fit_has_confidence_intervals_of_every_cell():
    cells = cells_of([3000, 2000, 1000], a=3)
    tree = fit(cells, CellsApart(LogisticNormal(3), 3), random_seed=1, draws=250)
    found = tree["confidence"]
    own = confidence_intervals([cells["g1"]])[0]
    np.testing.assert_allclose(found["lower"].sel(target="distribution", cell="g1"), own.lower[0])
    assert tree.attrs["decided_by"] == "" and "not stated" in facts_of(tree)["decides_note"]
    tree.attrs |= {"decides": "Here the prior decides in 1 of 3 cells (g2). More.", "prior_decides": 1}
    del tree["cells"]  # which says who decides in each
    one = select(tree, "g0")
    assert (
        who_decides(tree)
        and not who_decides(one)
        and facts_of(one)["decides_note"].startswith("Here the prior decides in 1")
    )
    headings = [column.key for column in show(tree).tables[0].columns]
    assert "distribution_confidence" in headings


def test_weighted_samples():
    """The intervals to compare with are those of the weighted likelihood; with equal weights the unweighted ones."""
    protocol, rng = UnaryEncoding.optimized(8, 0.5), np.random.default_rng(2)
    labels = [f"c{x}" for x in range(8)]
    reports = protocol.privatize(rng.choice(8, 120, p=zipf(8)), rng)
    weak = from_sample(labels, protocol, reports, weights=rng.uniform(0.5, 2, 120))
    tree = fit(weak, 20.0, random_seed=1, draws=250)
    assert tree.attrs["prior_decides"] == 1 and "twice its" in tree.attrs["decides"]
    _, facts, captions = everywhere(tree, weak)
    assert facts["decides"] and "prior decides" in captions[0]
    assert "prior decides" in plot_forest(tree).axes[0].get_xlabel()
    strong = from_sample(["no", "yes"], designs.warner(0.8), rng.integers(2, size=3000), weights=rng.uniform(1, 2, 3000))
    assert fit(strong, random_seed=1, draws=250).attrs["decides"] == ""
    equal = from_sample(labels, protocol, reports)
    plain = likelihood_intervals(Collection(labels, [Tally(protocol, reports)]).rows, 0.95)
    np.testing.assert_allclose(likelihood_intervals(equal.rows, 0.95).upper[0], plain.upper[0], atol=1e-6)


def test_respondents_who_ignore_the_device():
    """Standard errors of the compliers' shares where γ is identified; where it is not, the prior decides."""
    plain = Collection(["no", "yes"], Tally(GRR(2, 1.5), [0, 1], [700, 300]))
    unknown = plain.with_noncompliers({"no-sayer": "no"})
    with pytest.warns(RankDeficientWarning):
        tree = fit(unknown, Compliance(gamma=(2, 18)), random_seed=1, draws=250)
    assert tree.attrs["prior_decides"] == 1 and "share γ" in tree.attrs["decides"]
    assert tree.attrs["decides"] in [note.text for note in show(tree).notes]
    known = [reports_of(UnaryEncoding.optimized(4, 2.0), [0.4, 0.3, 0.2, 0.1], n) for n in (4000, 60)]
    laws = {"silent": "no bits"}
    many, few = (Collection(list("abcd"), [tally]).with_noncompliers(laws) for tally in known)
    assert fit(many, random_seed=1, draws=250).attrs["prior_decides"] == 0
    tree = fit(few, Compliance(np.full(4, 200.0)), random_seed=1, draws=250)
    assert tree.attrs["prior_decides"] == 1 and "twice its" in tree.attrs["decides"]


def test_empty_categories_do_not_hide_that_the_reports_decide():
    """Hardly any noise: 20 empty categories have credible intervals that are far too narrow, and nothing is at stake."""
    counts = [1000] * 5 + [0] * 20
    direct_answers = Collection([f"c{x}" for x in range(25)], Tally(GRR(25, 20.0), range(25), counts))
    tree = fit(direct_answers, random_seed=1, draws=50)
    assert tree.attrs["prior"].startswith("learnt")
    assert tree.attrs["decided_by"] == "reports" and not tree.attrs["decides"]


@pytest.mark.parametrize("n, decides", [(30, True), (30_000, False)])
def test_one_collection_still_says_it(n, decides):
    tree = fit(reports_of(GRR(5, 1.0), np.full(5, 0.2), n), 20.0, random_seed=1, draws=250)
    assert bool(tree.attrs["decides"]) == decides and facts_of(tree)["decides_note"] == ""


def lists(n=150):
    """Return two lists of three items, n respondents of their own for each half of each, a fifth of them with the trait."""
    rng = np.random.default_rng(1)

    def said():
        return (rng.random((n, 3)) < [0.2, 0.5, 0.4]).sum(axis=1)

    control = [np.bincount(said(), minlength=4) for _ in range(2)]
    treatment = [np.bincount(said() + (rng.random(n) < 0.2), minlength=5) for _ in range(2)]
    return Collection.from_lists(designs.ListExperiment((3, 3)), control, treatment)


@pytest.mark.calibrate
def test_of_several_lists_the_share_of_the_trait_says_who_decides():
    """Each of 32 joint shares is too small to matter."""
    tree = fit(lists(), "share:trait", random_seed=1, draws=400)
    assert tree.attrs["decided_by"] == "conflict"
    assert "would move" in tree.attrs["decides"]
    assert [table.columns[0].key for table in show(tree).tables] == ["quantity", "category"]


@pytest.mark.calibrate
def test_of_several_lists_the_scaled_parts_of_the_prior_agree_with_refits():
    survey, blocks = lists(), (tuple(range(16, 32)), tuple(range(16)))
    tree = fit(survey, "share:trait", random_seed=1, draws=4000)
    scaled, refits = of_trait(fit_of(tree, survey, "share:trait"), 0, Problem.of(survey, "share:trait")), []
    for power in POWERS:
        prior = Tree(blocks, power, Product((4, 4), 0.5 * power))
        summary = fit(survey, prior, random_seed=2, draws=4000, estimates=False)["summary"]
        refits.append([float(summary[f"derived_{key}"][0]) for key in ("mean", "sd")])
    by_refits = np.diff(refits, axis=0)[0] / np.array([scaled.sd[0], np.mean(refits, axis=0)[1]]) / DOUBLINGS
    assert scaled.shift[0] == pytest.approx(by_refits[0], abs=0.08)
    assert scaled.growth[0] == pytest.approx(by_refits[1], abs=0.08)
