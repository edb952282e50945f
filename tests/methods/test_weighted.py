"""Weighted draws about the mode, for priors that no exact engine serves."""

import numpy as np
import pytest
from priorcases import CellsApart, Hidden, LogisticNormal, Modes
from scipy.special import logsumexp, softmax
from scipy.stats import ks_2samp
from tabulated import each_row

from ldpbayes import Collection, Tally, fit
from ldpbayes.errors import ConvergenceError, InfeasibleError
from ldpbayes.inference.newton import find_mode
from ldpbayes.inference.proposals import Johnson, Mixture, SplitProposal, StudentT, sobol
from ldpbayes.inference.target import Target
from ldpbayes.inference.weighted import weighted
from ldpbayes.likelihoods import Summary
from ldpbayes.methods.base import Watch
from ldpbayes.methods.forms import Apart
from ldpbayes.methods.nuts import NUTS
from ldpbayes.methods.quadrature import Quadrature
from ldpbayes.methods.weighted import Weighted
from ldpbayes.priors import Compliance, Dirichlet, Floor, Product, Tree
from ldpbayes.priors.naming import as_prior
from ldpbayes.protocols.designs import warner
from ldpbayes.protocols.grr import GRR
from ldpbayes.protocols.unary import UnaryEncoding
from ldpbayes.result.facts import facts_of


def collected(protocol, n, p, seed=3):
    rng = np.random.default_rng(seed)
    tally = Tally(protocol, *protocol.simulate(rng.multinomial(n, p), rng))
    return Collection([f"c{x}" for x in range(len(p))], [tally])


SMALL = {
    "warner": collected(warner(0.7), 300, [0.8, 0.2]),
    "grr": collected(GRR(3, 1.0), 200, [0.6, 0.3, 0.1]),
    "oue": collected(UnaryEncoding.optimized(3, 1.5), 80, [0.6, 0.3, 0.1]),
}


def drawn(target, rng):
    """Return (P, Weighted) of 4,000 draws that are kept."""
    draws = weighted(target, 4000, rng, Watch())
    return draws.values, draws.found


@pytest.mark.sampled(3)
@pytest.mark.parametrize("alpha", [0.5, 2.0])
@pytest.mark.parametrize("name", SMALL)
def test_agrees_with_quadrature(name, alpha):
    """P, F and the evidence of a Dirichlet prior that does not say it is one."""
    collection = SMALL[name]
    alphas = np.linspace(alpha, 1.5 * alpha, collection.n_categories)
    exact = fit(collection, alphas, Quadrature(draws=2, chains=1), random_seed=0, estimates=False)["exact"]
    tree = fit(collection, Hidden(alphas), Weighted(), random_seed=1, estimates=False)
    effective = facts_of(tree)["effective_draws"]
    for target in ("distribution", "frequency"):
        mean, sd = exact[f"{target}_mean"].values, exact[f"{target}_sd"].values
        draws = tree["posterior"][target].values.reshape(-1, collection.n_categories)
        assert (np.abs(draws.mean(axis=0) - mean) < 5 * sd / np.sqrt(effective)).all()
        assert (np.abs(draws.std(axis=0) / sd - 1) < 5 / np.sqrt(effective)).all()
    error = facts_of(tree)["log_evidence"] - float(exact["log_evidence"])
    assert abs(error) < 5 * facts_of(tree)["log_evidence_error"] < 0.2


def test_a_prior_in_one_file_is_served():
    """The engine is found by its capabilities; P agrees with a grid over the two unknowns of the toy prior."""
    collection, prior = SMALL["oue"], LogisticNormal(3, 1.5)
    tree = fit(collection, prior=prior, random_seed=2, estimates=False)
    assert tree.attrs["method"] == "weighted" and tree.attrs["converged"]
    assert tree.attrs["prior"] == "logistic-normal with scale 1.5"
    assert float(tree["constant_data"]["scale"]) == 1.5
    axis = np.linspace(-7, 7, 281)
    z = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    p = prior.to_simplex(z)
    log_density = prior.log_density(z) + collection.rows.log_likelihood(np.ascontiguousarray(p.T))
    weight = np.exp(log_density - logsumexp(log_density))
    mean = weight @ p
    sd = np.sqrt(weight @ (p - mean) ** 2)
    found = tree["summary"].sel(target="distribution")
    assert (np.abs(found["mean"].values - mean) < 5 * sd / np.sqrt(facts_of(tree)["effective_draws"])).all()
    evidence = logsumexp(log_density) + 2 * np.log(axis[1] - axis[0])
    assert abs(facts_of(tree)["log_evidence"] - evidence) < 5 * facts_of(tree)["log_evidence_error"]


@each_row("method", ["exact", "quadrature", "surrogate", "pair_slice"])
def test_a_prior_that_no_such_engine_can_serve_is_refused_in_a_true_sentence(method):
    words = rf"^The method {method} needs a Dirichlet prior.*; this one is logistic-normal with scale 1\.$"
    with pytest.raises(InfeasibleError, match=words):
        fit(SMALL["grr"], prior=LogisticNormal(3), method=method)


def test_conjugate_priors_are_left_to_their_engines():
    with pytest.raises(InfeasibleError, match=r"weighted.*not Dirichlet"):
        fit(SMALL["grr"], prior="flat", method="weighted")


def test_too_many_unknowns_are_refused_before_time_is_spent():
    collection = collected(GRR(500, 1.0), 1000, np.full(500, 1 / 500))
    with pytest.raises(InfeasibleError, match=r"400 unknowns.*499"):
        fit(collection, prior=LogisticNormal(500), method="weighted")


@pytest.mark.calibrate  # several seconds
def test_agrees_with_nuts():
    collection, prior = collected(UnaryEncoding.optimized(5, 1.0), 600, [0.5, 0.25, 0.15, 0.07, 0.03]), LogisticNormal(5)
    ours = fit(collection, prior, Weighted(), random_seed=1, estimates=False)
    theirs = fit(collection, prior, NUTS(), random_seed=1, estimates=False)
    mean, sd = (theirs["posterior"]["distribution"].reduce(f, ("chain", "draw")).values for f in (np.mean, np.std))
    errors = theirs["summary"]["mcse"].sel(target="distribution").values + sd / np.sqrt(facts_of(ours)["effective_draws"])
    draws = ours["posterior"]["distribution"].values.reshape(-1, 5)
    assert (np.abs(draws.mean(axis=0) - mean) < 5 * errors).all()
    assert (np.abs(draws.std(axis=0) / sd - 1) < 0.15).all()
    frequency = [tree["summary"].sel(target="frequency") for tree in (ours, theirs)]
    assert (np.abs(frequency[0]["mean"] - frequency[1]["mean"]).values < 5 * frequency[1]["mcse"].values + 5 * errors).all()


def test_cells_at_once_equal_cells_apart():
    """P of shape (cells, categories): with a prior under which cells are independent, each is as if alone."""
    one, names = LogisticNormal(3), ("grr", "oue")
    parts = [SMALL[name].rows for name in names]
    rng = np.random.default_rng(4)
    joint = Target(CellsApart(one, 2), Apart(tuple(parts)))
    p, found = drawn(joint, rng)
    assert not found.verdict.problem and p.shape[1:] == (2, 3)
    evidence, error = 0.0, found.log_evidence_error
    for c, rows in enumerate(parts):
        alone = Target(one, Apart((rows,)))
        q, apart = drawn(alone, rng)
        sd = np.sqrt(apart.weight @ (q - apart.weight @ q) ** 2)
        assert (np.abs(found.weight @ p[:, c] - apart.weight @ q) < 6 * sd / np.sqrt(found.effective_sample)).all()
        evidence, error = evidence + apart.log_evidence, error + apart.log_evidence_error
    assert abs(found.log_evidence - evidence) < 4 * error


def test_summaries_are_served_like_rows():
    rows = collected(UnaryEncoding.optimized(4, 1.0), 20_000, [0.4, 0.3, 0.2, 0.1]).rows
    prior, rng = LogisticNormal(4), np.random.default_rng(5)
    target = Target(prior, Apart((rows,)))
    p, exact = drawn(target, rng)
    mean = exact.weight @ p
    sd = np.sqrt(exact.weight @ (p - mean) ** 2)
    summed = Target(prior, Apart((Summary.of(rows, mean, sd**2),)))
    q, short = drawn(summed, rng)
    assert not short.verdict.problem
    assert (np.abs(short.weight @ q - mean) < 0.15 * sd).all()


class Saddle:
    """A log-density with a saddle at 0 and modes at (±1, 0)."""

    def value_and_gradient(self, z):
        x, y = z
        return -((x**2 - 1) ** 2) - y**2, np.array([-4 * x * (x**2 - 1), -2 * y])

    hessian = Target.hessian


def test_a_saddle_point_is_left():
    mode, eigenvalues, _ = find_mode(Saddle(), np.zeros(2))
    np.testing.assert_allclose(np.abs(mode), [1, 0], atol=1e-6)
    np.testing.assert_allclose(eigenvalues, [2, 8], rtol=1e-5)


def test_draws_of_the_proposal_have_its_density():
    rng = np.random.default_rng(0)
    root = np.array([[1.0, 0.0], [0.5, 2.0]])
    proposal = StudentT(np.array([1.0, -1.0]), root)
    z, log_density = proposal.draw(200_000, rng)
    from scipy import stats

    reference = stats.multivariate_t([1.0, -1.0], root @ root.T, df=8).logpdf(z[:100])
    np.testing.assert_allclose(log_density[:100], reference, rtol=1e-10)
    np.testing.assert_allclose(np.cov(z.T), root @ root.T * 8 / 6, rtol=0.05, atol=0.03)
    np.testing.assert_allclose(proposal.log_density(z[:100]), reference, rtol=1e-10)


@pytest.mark.parametrize("beside", [False, True])
def test_split_proposals_and_mixtures_have_densities_of_mass_one(beside):
    """The weights of a wide normal law over their density have mean one, and its moments come out of them."""
    rng = np.random.default_rng(1)
    root = np.array([[1.0, 0.0], [0.5, 2.0]])
    mixture = Mixture(
        (StudentT(np.array([0.5, -1.0]), root), StudentT(np.array([-1.0, 1.0]), np.eye(2))), np.array([0.7, 0.3])
    )
    sides = Johnson(np.array([0.2, 0.0]), np.array([[1.0, 2.0], [1.5, 0.8]]), np.array([[1.2, 3.0], [1.6, 1.3]]))
    law = SplitProposal(mixture, sides) if beside else mixture
    z, log_density = sobol(law, 2**15, rng)
    np.testing.assert_allclose(log_density, law.log_density(z), rtol=1e-10)
    ratio = np.exp(-0.5 * ((z**2).sum(axis=1) + z.shape[1] * np.log(2 * np.pi)) - log_density)
    assert abs(ratio.mean() - 1) < 5 * ratio.std() / 2**7.5
    for k in range(z.shape[1]):
        assert abs((ratio * z[:, k]).mean()) < 5 * (ratio * z[:, k]).std() / 2**7.5


def test_sides_and_tails_come_back_from_draws():
    law = Johnson(np.array([0.2, 0.0]), np.array([[1.0, 2.0], [1.5, 0.8]]), np.array([[1.3, 2.0], [1.6, 1.4]]))
    z = law.spread(np.random.default_rng(1).random((400_000, 2)), None) - law.centre
    one = np.full(len(z), 1 / len(z))
    for ahead, (side, w) in zip((z > 0, z <= 0), zip(law.scale, law.shape, strict=True), strict=True):
        second = [np.mean(x[here] ** 2) for x, here in zip(z.T, ahead.T, strict=True)]
        np.testing.assert_allclose(second, side**2 * (w - 1) / np.log(w), rtol=0.02)
    np.testing.assert_allclose((z > 0).mean(axis=0), law.scale[0] / law.scale.sum(axis=0), atol=0.005)
    even = Johnson(np.zeros(2), np.ones((2, 2)) * [1.0, 0.5], np.full((2, 2), 1.6))
    z = even.spread(np.random.default_rng(2).random((400_000, 2)), None)
    again = Johnson.fitted(z, one)
    np.testing.assert_allclose(again.scale, even.scale, rtol=0.03)
    np.testing.assert_allclose(again.shape, even.shape, rtol=0.1)


def test_an_answer_that_cannot_be_trusted_is_rejected():
    """Forty categories of which most are empty: the posterior is far from any t distribution."""
    p = np.r_[np.full(3, 1 / 3), np.zeros(37)]
    collection = collected(GRR(40, 4.0), 300, p)
    with pytest.raises(ConvergenceError, match="Pareto k-hat"):
        fit(collection, LogisticNormal(40, 4.0), Weighted(draws=500), random_seed=0, estimates=False)


def test_same_seed_same_draws():
    runs = [fit(SMALL["oue"], LogisticNormal(3), Weighted(draws=100), random_seed=9, estimates=False) for _ in range(2)]
    assert np.array_equal(*(run["posterior"]["distribution"].values for run in runs))


@pytest.mark.filterwarnings("ignore:The channels do not have full rank")
def test_the_ends_of_a_share_that_reaches_one_are_as_good_as_stated():
    """The mode of few unknowns is far from their mean: a first proposal had few draws where P nears one."""
    kept, (n_no, n_yes) = 0.918, (84, 86)
    reports = Collection(["no", "yes"], Tally(GRR(2, np.log(kept / (1 - kept))), [0, 1], [n_no, n_yes]))
    middle = (np.arange(1000) + 0.5) / 1000
    gamma, p = np.meshgrid(middle, middle, indexing="ij")
    yes = (1 - gamma) * (p * kept + (1 - p) * (1 - kept))
    weight = np.exp(n_no * np.log1p(-yes) + n_yes * np.log(yes) + np.log(gamma) + 6 * np.log1p(-gamma) + 120).sum(axis=0)
    weight /= weight.sum()
    upper = np.interp(0.975, np.cumsum(weight), middle + 0.0005)
    data, prior, off = reports.with_noncompliers({"no-sayer": "0"}), Compliance("flat", gamma=(2, 7)), []
    for seed in range(1, 7):
        tree = fit(data, prior, "weighted", draws=500, random_seed=seed, estimates=False)
        found = tree["summary"].to_dataset().sel(target="distribution", category="yes")
        off.append([(found["mean"] - weight @ middle) / found["mcse"], (found["upper"] - upper) / found["upper_error"]])
    assert (np.sqrt(np.mean(np.square(off), axis=0)) < 1.8).all()  # 1.7 and 6.2 by the first proposal


class Proposing(Modes):
    """The same, with draws of its unknowns."""

    def unknowns(self, size, rng):
        place = rng.choice(self.places, (size, 1), p=self.shares)
        return place + self.sd * rng.standard_normal((size, self.n_unknowns))


@pytest.mark.parametrize(("places", "a"), [((-1.0, 1.5), 2), ((-1.0, 1.0), 3), ((-0.5, 1.0), 6), ((-1.0, 1.5), 30)])
def test_modes_far_from_the_first_are_found_where_the_prior_proposes(places, a):
    """A mode fifty sds away holds a tenth of the prior: weights about the first had a k-hat below 0 and .14 of the sd."""
    prior = Proposing((0.9, 0.1), places, 0.05 if a == 2 else 0.1, a)
    collection = Collection([str(x) for x in range(a)], [Tally(GRR(a, 0.3), range(a), [55, *[45] * (a - 1)])])
    found = fit(collection, prior, Weighted(), random_seed=1, estimates=False)["summary"].sel(target="distribution")
    p = prior.sample(100_000, np.random.default_rng(2))
    log_weight = collection.rows.log_likelihood(np.ascontiguousarray(p.T))
    weight = np.exp(log_weight - logsumexp(log_weight))
    mean = weight @ p
    sd = np.sqrt(weight @ (p - mean) ** 2)
    bound = 0.03 if a < 30 else 0.08
    assert (np.abs(found["mean"].values - mean) < bound * sd).all()
    assert (np.abs(found["sd"].values / sd - 1) < bound).all()


@pytest.mark.parametrize("weights", [(0.7, 0.3), (1.0,)])
def test_a_mode_that_all_chains_miss_is_told(monkeypatch, weights):
    """Of chains that stay about one of two modes R-hat says that they have met."""
    prior, rng = Modes((0.7, 0.3), (-1.0, 1.5), 0.05, 4), np.random.default_rng(1)
    p = Modes(weights, (-1.0, 1.5)[: len(weights)], 0.05, 4).sample(2000, rng).reshape(4, 500, 4)
    drawn = {"distribution": p}, {"diverging": np.zeros((4, 500), dtype=bool)}
    monkeypatch.setattr("ldpbayes.collections.tensor.build", lambda *problem: None)
    monkeypatch.setattr("ldpbayes.methods.nuts._compile", lambda model: None)
    monkeypatch.setattr("ldpbayes.methods.nuts.by_nutpie", lambda *model, **settings: drawn)
    data = Collection("abcd", [Tally(GRR(4, 0.1), range(4), [12, 10, 10, 10])])
    if len(weights) == 2:
        assert fit(data, prior, NUTS(draws=500), random_seed=1, estimates=False).attrs["converged"]
    else:
        with pytest.raises(ConvergenceError, match=r"another mode.*0\.2"):
            fit(data, prior, NUTS(draws=500), random_seed=1, estimates=False)


def test_modes_that_are_not_found_are_told():
    collection = Collection(["a", "b"], [Tally(GRR(2, 0.3), [0, 1], [55, 45])])
    with pytest.raises(ConvergenceError, match="another mode"):
        fit(collection, Modes((0.9, 0.1), (-1.0, 1.5), 0.05), Weighted(), random_seed=1, estimates=False)


@pytest.mark.parametrize(("a", "epsilon", "n"), [(12, 0.5, 300), pytest.param(30, 0.05, 50, marks=pytest.mark.calibrate)])
def test_ends_are_as_exact_as_a_tenth_of_a_posterior_sd(a, epsilon, n):
    """They were accepted with errors of .16 and .24 sd; regressions refused those. More draws mend them."""
    shares = np.random.default_rng(1).dirichlet(np.full(a, 0.3))
    collection = collected(GRR(a, epsilon), n, shares, 1)
    found = fit(collection, LogisticNormal(a, 5.0), Weighted(), random_seed=1, estimates=False)["summary"]
    found = found.sel(target="distribution")
    assert max(float((found[name] / found["sd"]).max()) for name in ("lower_error", "upper_error")) <= 0.1


def floors(size, a, rng):
    """Return (P, the share of the floor) of draws of the prior ``floor``, by its formula."""
    share = np.where(rng.random(size) < 0.5, 0.0, rng.random(size))[:, None]
    alpha = 0.5 * np.exp(rng.standard_normal(size))[:, None]
    log_g = np.log(rng.standard_gamma(np.broadcast_to(alpha + 1, (size, a)))) + np.log(rng.random((size, a))) / alpha
    return share * rng.dirichlet(np.full(a, 4.0), size) + (1 - share) * softmax(log_g, axis=1), share[:, 0]


@pytest.mark.parametrize("size", (2, 6))
def test_few_reports_under_a_prior_of_two_parts_are_draws_of_the_prior(size):
    """A prior that is no Dirichlet, few reports: draws of the prior weighted by the likelihood, against such draws in NumPy.

    Two categories over a floor took a compiled model and its chains, and a tree of floors up to two minutes. The kind: a
    prior with a probability at one value went to the No-U-Turn sampler whatever the reports said. Searched: ``floor`` on two
    categories (of three and more the method floor comes first), trees and products with a floor in them, deniers of these.
    """
    rng = np.random.default_rng(5)
    prior = "floor" if size == 2 else Tree(((0, 1, 2), (3, 4, 5)), "floor", "floor")
    counts = np.array([14, 6] if size == 2 else [9, 3, 1, 2, 2, 3])
    data = Collection([f"c{x}" for x in range(size)], [Tally(GRR(size, 2.0), np.arange(size), counts)])
    tree = fit(data, prior, random_seed=1, estimates=False)
    assert tree.attrs["method"] == "weighted" and tree.attrs["converged"]
    p, share = floors(400_000, 2, rng)
    if size == 6:
        first, second = floors(400_000, 3, rng)[0], floors(400_000, 3, rng)[0]
        p = np.concatenate([p[:, :1] * first, p[:, 1:] * second], axis=1)
    truth, other = np.exp(2.0) / (np.exp(2.0) + size - 1), 1 / (np.exp(2.0) + size - 1)
    weight = softmax(np.log(other + (truth - other) * p) @ counts)
    mean, found = weight @ p, tree["summary"].sel(target="distribution")
    sd, effective = np.sqrt(weight @ (p - mean) ** 2), 1 / (weight**2).sum()
    error = np.hypot(found["mcse"], sd / np.sqrt(effective))
    assert effective > 4000 and (np.abs(found["mean"] - mean) < 4.5 * error).all()
    np.testing.assert_allclose(found["sd"], sd, rtol=0.06)
    zero = (tree["posterior"]["floor"].values == 0).mean()
    assert abs(zero - weight @ (share == 0)) < 4.5 * np.sqrt(0.25 / 1000 + 0.25 / effective)


def test_three_reports_under_a_tree_of_smooth_and_floor_are_no_long_fit():
    """They took over 200 CPU s: nine of ten went to a sampler that crossed a ridge."""
    data = Collection("abcdef", [Tally(GRR(6, 1.0), [0, 1, 2])])
    tree = fit(data, Tree(((0, 1, 2), (3, 4, 5)), "smooth", ["floor", "smooth"]), random_seed=1, estimates=False)
    assert tree.attrs["method"] == "weighted" and tree.attrs["converged"]


@pytest.mark.parametrize("prior", (Dirichlet([0.2, 3.0, 1.0, 0.5]), "learnt", "floor", Floor(evenness=np.inf), "smooth"))
def test_draws_of_unknowns_are_draws_of_the_prior(prior):
    prior, rng = as_prior(prior, 4), np.random.default_rng(8)
    for each in (
        prior,
        Tree(((0, 1), (2,), (3, 4, 5)), Dirichlet.flat(3), ["jeffreys", "learnt"]),
        Product((2, 2), "learnt"),
    ):
        z = each.unknowns(20_000, rng)
        assert z.shape == (20_000, each.n_unknowns)
        p, q = each.to_simplex(z), each.sample(20_000, rng)
        assert min(ks_2samp(one, two).pvalue for one, two in zip(p.T, q.T, strict=True)) > 1e-4


def test_clusters_of_draws():
    """Two normals far apart are told apart; a cluster of a single point is none."""
    rng = np.random.default_rng(1)
    left = rng.random(20_000) < 0.3
    draws = rng.standard_normal((20_000, 2)) * np.where(left, 1.0, 0.5)[:, None] + np.where(left, -6.0, 6.0)[:, None]
    law = StudentT.fitted(draws, np.full(20_000, 1 / 20_000), 8.0)
    nearest = law.clusters(draws, np.full(20_000, 1 / 20_000), 2, 4096)
    assert ((nearest == nearest[np.argmax(left)]) == left).all()
    point = np.concatenate([draws, np.full((1, 2), 1e3)])
    assert law.clusters(point, np.full(len(point), 1 / len(point)), 3, 10**6) is None
