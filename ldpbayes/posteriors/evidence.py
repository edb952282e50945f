"""Which prior do the reports favour? Log Bayes factors between priors, from evidences that cost a few milliseconds.

See docs/theory/priors.md.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import gammaln

from ldpbayes.errors import InfeasibleError
from ldpbayes.posteriors import surrogate, walk
from ldpbayes.posteriors.base import Problem
from ldpbayes.posteriors.conditioned_product.factors import PowerFactors, tilted_many
from ldpbayes.posteriors.exact import separable_family
from ldpbayes.priors import Dirichlet, Learnt, Smooth

#: Priors that are compared in every result, by name: the papers' prior is what the others are compared with.
COMPARED = ("jeffreys", "flat", "learnt")
REFERENCE = "jeffreys"
#: Evidences whose predicted time is above this many seconds are left out.
LIMIT = 0.5
#: Seconds: one round of tilts of many factors, one factor in it, and one entry of the rows in an expansion.
ROUND, FACTOR, ENTRY = 0.01, 4e-6, 3e-8
#: Prior sd of log α over which the evidence is looked at first, and nodes of the rule placed about its mode then.
REACH, LOOKS, NODES, FINER = 4.5, 10, 9, 15
#: Draws whose weights mend the surrogate's evidence.
DRAWN = 128
#: Error of an evidence by the saddle point of expanded factors: larger where categories are few and α is small.
SADDLE = 0.01
#: Error of the integrals of exact factors at large α; see tests/mend/test_20_stated_errors.py.
FACTORS = 5e-5
#: Errors of log Bayes factors from this size on stand beside them in the sentence.
TOLD = 0.05


@dataclass(frozen=True)
class BayesFactors:
    """Log-evidences of priors, and the log Bayes factors between them.

    Attributes
    ----------
    log_evidence, error : mapping of str to float
        log P(Y | prior) by name of the prior, and its error in nats.
    skipped : mapping of str to str
        Why the evidence of a prior is not there.
    used : str
        The name of the prior that the fit was made with; "own" where it is none of those compared.
    """

    log_evidence: Mapping[str, float]
    error: Mapping[str, float]
    skipped: Mapping[str, str] = field(default_factory=dict)
    used: str = ""

    def between(self, one: str, other: str) -> float:
        """Return log P(Y | one) − log P(Y | other): above 0 the reports favour ``one``; nan where either is missing."""
        return self.log_evidence.get(one, math.nan) - self.log_evidence.get(other, math.nan)

    @property
    def favoured(self) -> str:
        """The name of the prior with the largest evidence; empty where fewer than two are known."""
        return max(self.log_evidence, key=lambda name: self.log_evidence[name]) if len(self.log_evidence) > 1 else ""

    def to_attrs(self) -> dict:
        """Return the attrs of a result: ``log_bayes_factor_NAME`` against Jeffreys, their errors, and the sentence."""
        out: dict = {}
        for name in self.log_evidence:
            if name != REFERENCE and REFERENCE in self.log_evidence:
                out[f"log_bayes_factor_{name}"] = self.between(name, REFERENCE)
                out[f"log_bayes_factor_{name}_error"] = math.hypot(self.error[name], self.error[REFERENCE])
        return out | {"bayes_factors": self.sentence()}

    def _margin(self, name):
        """Return the error of a factor in words, where two decimals do not hide it."""
        error = math.hypot(self.error[name], self.error[REFERENCE])
        return f" ± {error:.2f}" if error >= TOLD else ""

    def sentence(self) -> str:
        """Return the factors and what was left out, for people; empty where there is nothing to compare."""
        label = {"own": "the prior used"}
        parts = [
            f"{label.get(name, name)} {self.between(name, REFERENCE):+.2f}{self._margin(name)}"
            for name in self.log_evidence
            if name != REFERENCE and REFERENCE in self.log_evidence
        ]
        text = f"Log Bayes factors against the Jeffreys prior: {', '.join(parts)} (above 0: favoured)." if parts else ""
        for reason in dict.fromkeys(self.skipped.values()):
            names = [label.get(name, name) for name, why in self.skipped.items() if why == reason]
            text += f" Left out: {', '.join(names)} ({reason})."
        return text.strip()


def log_bayes_factors(
    collection, prior=REFERENCE, *, problem: Problem | None = None, known=None, limit: float = LIMIT
) -> BayesFactors:
    """Return the log-evidences of Jeffreys, flat and learnt priors, and of the prior used, where they are cheap.

    Where the categories have an order, that of the smooth prior too.

    Separable reports have evidences to second order in the saddle point of their factors, one-dimensional integrals that
    are computed for many concentrations at once. Other reports have those of the surrogate, expanded once and mended by
    the weights of a few draws; what a second expansion, at the learnt prior's mean, changes adds to the error.

    Parameters
    ----------
    collection : Collection
    prior : as in fit
        The prior used: compared too where it is another Dirichlet, or where ``known`` has its evidence.
    problem : Problem, optional
        The problem of both, where it was already looked at.
    known : pair of floats, optional
        Log-evidence under the prior used and its error, where the fit found them.
    limit : float
        Predicted seconds above which evidences are left out.

    Returns
    -------
    BayesFactors
    """
    problem = problem or Problem.of(collection, prior)
    prior = problem.prior
    try:
        evidences = _evidences(problem, limit)
    except InfeasibleError as err:
        return BayesFactors({}, {}, dict.fromkeys(COMPARED, str(err).rstrip(".")), "")
    learnt = Learnt(n_categories=problem.n_categories)
    fixed = {name: make(problem.n_categories).alpha for name, make in Dirichlet.named().items() if name in COMPARED}
    t = np.linspace(-REACH, REACH, LOOKS)
    found = evidences.symmetric(np.concatenate([[alpha[0] for alpha in fixed.values()], learnt.alpha(t)]))
    value = dict(zip(fixed, found[: len(fixed)].tolist(), strict=True))
    alpha_hat, value["learnt"], by_rule = _integrated(evidences.symmetric, learnt, t, found[len(fixed) :])
    error = evidences.errors(fixed | {"learnt": np.full(problem.n_categories, alpha_hat)})
    error["learnt"] += by_rule
    used, alpha, skipped = "own", problem.alpha, {}
    for name, concentrations in fixed.items():
        used = name if alpha is not None and np.array_equal(alpha, concentrations) else used
    used = "learnt" if prior == learnt else used
    if (problem.collection is not None and problem.collection.ordered) or prior.walk() is not None:
        smooth = Smooth(n_categories=problem.n_categories)
        used = "smooth" if prior == smooth else used
        seconds = walk.seconds(problem, (walk.STONES + 1) * (2 * walk.DRAWS + walk.TUNE))
        if seconds < (10 * limit if used == "smooth" else limit):
            asked = replace(problem, prior=smooth)
            value["smooth"], error["smooth"] = walk.log_evidence(asked, np.random.default_rng(0))
        else:
            skipped["smooth"] = f"it would take {seconds:.2g} s"
    if used == "own":
        if known is not None:
            value["own"], error["own"] = known
        elif alpha is not None:
            value["own"], error["own"] = evidences.of(alpha), max(error.values())
        else:
            skipped["own"] = "its method gives no evidence"
    return BayesFactors(value, error, skipped, used)


def of_result(tree) -> tuple[float, float] | None:
    """Return (log-evidence, its standard error) that a fit found; None where it has none, or where there are several cells.

    Parameters
    ----------
    tree : DataTree
        A result of fit().
    """
    if "exact" in tree.children and "log_evidence" in tree["exact"]:
        found = tree["exact"]["log_evidence"]
        return (float(found), float(tree.attrs.get("log_evidence_error", 0.0))) if found.ndim == 0 else None
    found = tree.attrs.get("log_evidence")
    return None if found is None or np.ndim(found) else (float(found), float(tree.attrs.get("log_evidence_error", 0.0)))


def _evidences(problem, limit):
    """Return the object that gives evidences, or raise InfeasibleError with the reason."""
    if problem.collection is not None and problem.collection.n_laws:
        raise InfeasibleError("respondents may ignore the device")
    if problem.collection is not None and problem.collection.survey is not None:
        raise InfeasibleError("the reports are weighted")
    a, form = problem.n_categories, problem.separable
    rounds = 4 * (ROUND + FACTOR * a * (LOOKS + NODES))
    if form is not None and not (form.slope < 0).any():
        if rounds > limit:
            raise InfeasibleError(f"they would take {rounds:.1g} s")
        return _Separable(form, a)
    if a < 3:
        raise InfeasibleError("with two categories the reports have no separable form")
    if problem.rows is None:
        raise InfeasibleError("only sums over the reports were kept")
    seconds = rounds + ENTRY * problem.rows.n_rows * a
    if seconds > limit:
        raise InfeasibleError(f"they would take some {seconds:.1g} s")
    return _Expanded(problem.rows, a)


class _Separable:
    """Evidences of separable reports."""

    def __init__(self, form, n_categories):
        family, group, self.constant = separable_family(form, np.ones(n_categories))
        self.extra, self.family = family.alpha - 1, family
        self.group, self.multiplicity = group, np.bincount(group).astype(float)

    def _family(self, alpha):
        k = alpha.size // self.multiplicity.size
        return PowerFactors(alpha, np.tile(self.family.slopes, (k, 1)), np.tile(self.family.powers, (k, 1)))

    def symmetric(self, alpha):
        """Return the log-evidence for each of many symmetric concentrations, shape (k,)."""
        a = self.multiplicity.sum()
        every = (alpha[:, None] + self.extra).ravel()
        found = log_masses(self._family(every), self.multiplicity, alpha.size)
        return found + self.constant + gammaln(a * alpha) - a * gammaln(alpha)

    def of(self, alpha):
        """Return the log-evidence under Dirichlet(α)."""
        family = PowerFactors(alpha + self.extra[self.group], self.family.slopes[self.group], self.family.powers[self.group])
        found = log_masses(family, np.ones(alpha.size), 1)[0]
        return float(found + self.constant + gammaln(alpha.sum()) - gammaln(alpha).sum())

    def errors(self, alphas):
        """Return by name the error of the saddle point and of the factors' integrals, of symmetric concentrations."""
        found = {}
        for name, alpha in alphas.items():
            own = PowerFactors(np.full(self.extra.size, alpha[0]) + self.extra, self.family.slopes, self.family.powers)
            found[name] = _left_out(own, self.multiplicity) + FACTORS * (1 + 0.1 / alpha[0] ** 2)
        return found


class _Expanded:
    """Evidences of the surrogate: the likelihood's expansion about Jeffreys' posterior mean."""

    def __init__(self, rows, n_categories):
        self.rows, self.size = rows, n_categories
        alpha = np.full(n_categories, 0.5)
        engine = surrogate.expand(rows, alpha, 4)[0]
        factors, constant = self._about(engine)
        # The surrogate's own error is nearly the same under every prior: weighted draws under Jeffreys mend it.
        p, log_surrogate = surrogate.proposals(engine, DRAWN, np.random.default_rng(0))
        log_ratio = rows.log_likelihood(np.ascontiguousarray(p.T)) - log_surrogate
        weight = np.exp(log_ratio - log_ratio.max())
        self.sampling = float(weight.std(ddof=1) / weight.mean() / math.sqrt(DRAWN))
        found = log_ratio.max() + math.log(weight.mean())
        self.expansion = factors, constant + found - self._evidence(alpha, factors, constant)

    def _about(self, engine):
        """Return (factors, what they leave out of the log-likelihood) of the expansion at the mean of a surrogate."""
        mean = engine.saddle_moments()[0]
        factors = surrogate.expanded(self.rows, engine.family.alpha, mean)
        return factors, float(self.rows.log_likelihood(mean) - factors.log_smooth(mean).sum())

    def symmetric(self, alpha):
        """Return the log-evidence for each of many symmetric concentrations, shape (k,)."""
        factors, constant = self.expansion
        found = log_masses(factors.repeated(alpha), np.ones(self.size), alpha.size)
        return found + constant + gammaln(self.size * alpha) - self.size * gammaln(alpha)

    def of(self, alpha):
        """Return the log-evidence under Dirichlet(α)."""
        return self._evidence(alpha, *self.expansion)

    def errors(self, alphas):
        """Return by name what one more expansion, at the learnt prior's mean, changes."""
        engine = surrogate.Proposal(replace(self.expansion[0], alpha=alphas["learnt"]))
        other = self._about(engine)
        moved = {name: self.of(alpha) - self._evidence(alpha, *other) for name, alpha in alphas.items()}
        middle = moved[REFERENCE]  # what moves all evidences alike is in the weighted draws
        return {name: SADDLE + self.sampling + abs(change - middle) for name, change in moved.items()}

    @staticmethod
    def _evidence(alpha, factors, constant):
        found = log_masses(replace(factors, alpha=alpha), np.ones(alpha.size), 1)[0]
        return float(found + constant + gammaln(alpha.sum()) - gammaln(alpha).sum())


def _left_out(family, multiplicity):
    """Return the size of what the second order leaves out: twice the sum of its terms' sizes, times how far they are from
    those of a Gamma law, λ₄ = 6 κ₂ and λ₃² = 4 κ₂, for which the saddle point is exact.
    """
    _, nodes, _ = tilted_many(family, multiplicity, 1)
    k2, k3, k4 = _cumulants(nodes, multiplicity, 1)
    fourth, third = k4 / k2**2, k3**2 / k2**3
    size = np.abs(fourth) / 8 + 5 * third / 24 + k2 / 12
    apart = np.abs(fourth - 6 * k2) / 8 + 5 * np.abs(third - 4 * k2) / 24
    return float((2 * size * apart)[0])


def _cumulants(nodes, multiplicity, k):
    """Return the second to fourth cumulants of the sum of tilted factors, three (k,) arrays."""
    offset = nodes.offset - nodes.mean_offset[:, None]
    second, third, fourth = ((nodes.weight * offset**power).sum(axis=1) for power in (2, 3, 4))
    return tuple(part.reshape(k, -1) @ multiplicity for part in (second, third, fourth - 3 * second**2))


def log_masses(family, multiplicity, k):
    """Return log ∫ Π_x φ_x(g_x) over Σ g = 1 for k sets of factors that stand one after the other, shape (k,).

    The law of Σ g under the tilted factors has mean 1 and cumulants κ₂, κ₃, κ₄. Its density at 1 is that of the Gamma law
    with the same mean and variance, shape A = 1/κ₂, times 1 + λ₄/8 − 5λ₃²/24 + 1/(12 A) with λ₃ = κ₃/κ₂^{3/2} and
    λ₄ = κ₄/κ₂²: the second-order saddle point, relative to a Gamma law instead of a normal one, so that it is exact for
    factors g^{α−1}.

    Parameters
    ----------
    family : PowerFactors or another family
        k × G factors.
    multiplicity : (G,) array
    k : int
    """
    tilt, nodes, _ = tilted_many(family, multiplicity, k)
    k2, k3, k4 = _cumulants(nodes, multiplicity, k)
    shape = 1 / k2
    correction = k4 / k2**2 / 8 - 5 * k3**2 / k2**3 / 24 + k2 / 12
    density = shape * np.log(shape) - shape - gammaln(shape) + np.log1p(np.clip(correction, -0.5, 0.5))
    return tilt + nodes.log_mass.reshape(k, -1) @ multiplicity + density


def _integrated(symmetric, learnt, t, found):
    """Return (posterior mean of log α as an α, log-evidence, its error) of the learnt prior: rules in t, log α's prior sd.

    They stand about the mode that a look at the whole range finds, with the sd of its curvature; the error is what a rule
    with more nodes changes.
    """
    mean, sd = _peak(t, found - 0.5 * t**2)
    for _ in range(3):
        t, weight, log_total = _rule(symmetric, learnt, mean, sd, NODES)
        before = mean, sd
        mean = float(weight @ t)
        sd = max(math.sqrt(float(weight @ (t - mean) ** 2)), 0.01)
        if abs(mean - before[0]) < 0.7 * before[1] and 0.6 < sd / before[1] < 1.5:
            break
    _, _, finer = _rule(symmetric, learnt, mean, sd, FINER)
    return float(learnt.alpha(mean)), finer, abs(finer - log_total)


def _rule(symmetric, learnt, mean, sd, size):
    """Return (t, weights, log-evidence) of a Gauss–Hermite rule in t about a mean."""
    x, w = np.polynomial.hermite_e.hermegauss(size)
    t = mean + sd * x
    log_weight = np.log(w) + symmetric(learnt.alpha(t)) - 0.5 * t**2 + 0.5 * x**2
    top = log_weight.max()
    weight = np.exp(log_weight - top)
    log_total = float(top + math.log(weight.sum()) + math.log(sd) - 0.5 * math.log(2 * math.pi))
    return t, weight / weight.sum(), log_total


def _peak(t, value):
    """Return (place, sd) of the mode of a log-density known at t, by the spline through it."""
    from scipy.interpolate import CubicSpline

    curve = CubicSpline(t, value)
    fine = np.linspace(t[0], t[-1], 2001)
    at = fine[int(np.argmax(curve(fine)))]
    bend = -float(curve(at, 2))
    return float(at), 1 / math.sqrt(max(bend, 1.0))
