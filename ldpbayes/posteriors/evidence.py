"""Which prior do the reports favour? Log Bayes factors between priors, from evidences that cost a few milliseconds.

See docs/theory/priors.md.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import gammaln, logsumexp

from ldpbayes.errors import InfeasibleError
from ldpbayes.posteriors import surrogate, walk
from ldpbayes.posteriors.conditioned_product.factors import PowerFactors, tilted_many
from ldpbayes.posteriors.exact import separable_family
from ldpbayes.posteriors.problem import Problem
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
#: Collections whose evidences are computed together.
TOGETHER = 8
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
    try:
        evidences = _evidences(problem, limit)
    except InfeasibleError as err:
        return BayesFactors({}, {}, dict.fromkeys(COMPARED, str(err).rstrip(".")), "")
    return _factors([problem], evidences, [known], limit)[0]


def log_bayes_factors_of_cells(problems: list[Problem], known: list, limit: float = LIMIT) -> list[BayesFactors]:
    """Return the BayesFactors of many collections at once, all of separable reports and under one prior.

    Parameters
    ----------
    problems : list of Problem
    known : list of pairs of floats
        Log-evidence of each under the prior used, and its error.
    limit : float
        Predicted seconds for one of them above which evidences are left out.
    """
    first = problems[0]
    if _seconds(first.n_categories) > limit:
        why = f"they would take {_seconds(first.n_categories):.1g} s"
        return [BayesFactors({}, {}, dict.fromkeys(COMPARED, why), "")] * len(problems)
    out = []
    for start in range(0, len(problems), TOGETHER):
        part = slice(start, start + TOGETHER)
        forms = [problem.separable for problem in problems[part]]
        out += _factors(problems[part], _Separable(forms, first.n_categories), known[part], limit)
    return out


def _factors(problems, evidences, known, limit):
    """Return the BayesFactors of collections whose evidences are known together, and that share a prior."""
    a, prior, alpha = problems[0].n_categories, problems[0].prior, problems[0].alpha
    learnt = Learnt(n_categories=a)
    fixed = {name: make(a).alpha for name, make in Dirichlet.named().items() if name in COMPARED}
    t = np.linspace(-REACH, REACH, LOOKS)
    asked = np.concatenate([[one[0] for one in fixed.values()], learnt.alpha(t)])
    found = evidences.symmetric(np.broadcast_to(asked, (len(problems), asked.size)))
    alpha_hat, together, by_rule = _integrated(evidences.symmetric, learnt, t, found[:, len(fixed) :])
    value = dict(zip(fixed, found.T, strict=False)) | {"learnt": together}
    error = evidences.errors({name: np.full(len(problems), one[0]) for name, one in fixed.items()} | {"learnt": alpha_hat})
    error["learnt"] = error["learnt"] + by_rule
    used = "learnt" if prior == learnt else "own"
    for name, concentrations in fixed.items():
        used = name if alpha is not None and np.array_equal(alpha, concentrations) else used
    out = []
    for k, problem in enumerate(problems):
        values, errors = ({name: float(one[k]) for name, one in each.items()} for each in (value, error))
        own, skipped = used, {}
        if (problem.collection is not None and problem.collection.ordered) or prior.walk() is not None:
            smooth = Smooth(n_categories=a)
            own = "smooth" if prior == smooth else used
            seconds = walk.seconds(problem, (walk.STONES + 1) * (2 * walk.DRAWS + walk.TUNE))
            if seconds < (10 * limit if own == "smooth" else limit):
                values["smooth"], errors["smooth"] = walk.log_evidence(
                    replace(problem, prior=smooth), np.random.default_rng(0)
                )
            else:
                skipped["smooth"] = f"it would take {seconds:.2g} s"
        if own == "own":
            if known[k] is not None:
                values["own"], errors["own"] = known[k]
            elif alpha is not None:
                values["own"], errors["own"] = evidences.of(alpha), max(errors.values())
            else:
                skipped["own"] = "its method gives no evidence"
        out.append(BayesFactors(values, errors, skipped, own))
    return out


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
    if problem.obstacle:
        raise InfeasibleError(problem.obstacle)
    a, form = problem.n_categories, problem.separable
    rounds = _seconds(a)
    if form is not None and not (form.slope < 0).any():
        if rounds > limit:
            raise InfeasibleError(f"they would take {rounds:.1g} s")
        return _Separable([form], a)
    if a < 3:
        raise InfeasibleError("with two categories the reports have no separable form")
    if not problem.keeps_reports:
        raise InfeasibleError("only sums over the reports were kept")
    seconds = rounds + ENTRY * problem.entries
    if seconds > limit:
        raise InfeasibleError(f"they would take some {seconds:.1g} s")
    return _Expanded(problem.rows, a)


def _seconds(n_categories):
    """Return the predicted time of the evidences of one collection of separable reports."""
    return 4 * (ROUND + FACTOR * n_categories * (LOOKS + NODES))


class _Separable:
    """Evidences of the separable reports of one collection, whose equal factors are joined, or of several."""

    def __init__(self, forms, n_categories):
        a = n_categories
        families, groups, constants = zip(*(separable_family(form, np.ones(a)) for form in forms), strict=True)
        self.constant, self.group = np.array(constants), groups[0] if len(forms) == 1 else np.arange(a)
        self.multiplicity = np.bincount(self.group).astype(float)
        wide = max(family.slopes.shape[1] for family in families)
        each = [(family, slice(None) if len(forms) == 1 else group) for family, group in zip(families, groups, strict=True)]
        self.extra = np.stack([family.alpha[group] for family, group in each]) - 1
        self.slopes, self.powers = (
            np.stack([np.pad(part[group], ((0, 0), (0, wide - part.shape[1]))) for part, group in parts])
            for parts in (
                [(family.slopes, group) for family, group in each],
                [(family.powers, group) for family, group in each],
            )
        )

    def _family(self, alpha):
        """Return the PowerFactors of every collection at each of its concentrations (k, m)."""
        every = (alpha[:, :, None] + self.extra[:, None]).ravel()
        wide = self.slopes.shape[2]
        repeated = (np.repeat(one, alpha.shape[1], axis=0) for one in (self.slopes, self.powers))
        return PowerFactors(every, *(one.reshape(-1, wide) for one in repeated))

    def symmetric(self, alpha):
        """Return the log-evidences of each collection for its symmetric concentrations (k, m)."""
        a = self.multiplicity.sum()
        found = log_masses(self._family(alpha), self.multiplicity, alpha.size).reshape(alpha.shape)
        return found + self.constant[:, None] + gammaln(a * alpha) - a * gammaln(alpha)

    def of(self, alpha):
        """Return the log-evidence of one collection under Dirichlet(α)."""
        slopes, powers = self.slopes[0][self.group], self.powers[0][self.group]
        found = log_masses(PowerFactors(alpha + self.extra[0][self.group], slopes, powers), np.ones(alpha.size), 1)[0]
        return float(found + self.constant[0] + gammaln(alpha.sum()) - gammaln(alpha).sum())

    def errors(self, alphas):
        """Return by name the errors (k,) of the saddle point and of the factors' integrals at symmetric α (k,)."""
        stacked = np.stack(list(alphas.values()), axis=1)
        left = _left_out(self._family(stacked), self.multiplicity, stacked.size).reshape(stacked.shape)
        return dict(zip(alphas, (left + FACTORS * (1 + 0.1 / stacked**2)).T, strict=True))


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
        factors = surrogate.expanded(self.rows, engine.whole.alpha, mean)
        return factors, float(self.rows.log_likelihood(mean) - factors.log_smooth(mean).sum())

    def symmetric(self, alpha):
        """Return the log-evidences of the one collection for symmetric concentrations (1, m)."""
        (factors, constant), alpha = self.expansion, alpha[0]
        distinct, _, size = replace(factors, alpha=np.ones(self.size)).grouped()
        found = log_masses(distinct.repeated(alpha), size, alpha.size)
        return (found + constant + gammaln(self.size * alpha) - self.size * gammaln(alpha))[None]

    def of(self, alpha):
        """Return the log-evidence under Dirichlet(α)."""
        return self._evidence(alpha, *self.expansion)

    def errors(self, alphas):
        """Return by name what one more expansion, at the learnt prior's mean, changes, each of shape (1,)."""
        alphas = {name: np.full(self.size, alpha[0]) for name, alpha in alphas.items()}
        engine = surrogate.Proposal(replace(self.expansion[0], alpha=alphas["learnt"]))
        other = self._about(engine)
        moved = {name: self.of(alpha) - self._evidence(alpha, *other) for name, alpha in alphas.items()}
        middle = moved[REFERENCE]  # what moves all evidences alike is in the weighted draws
        return {name: np.array([SADDLE + self.sampling + abs(change - middle)]) for name, change in moved.items()}

    @staticmethod
    def _evidence(alpha, factors, constant):
        found = log_masses(replace(factors, alpha=alpha), np.ones(alpha.size), 1)[0]
        return float(found + constant + gammaln(alpha.sum()) - gammaln(alpha).sum())


def _left_out(family, multiplicity, k):
    """Return the size of what the second order leaves out of k sets of factors, shape (k,).

    Twice the sum of its terms' sizes, times how far they are from those of a Gamma law, λ₄ = 6 κ₂ and λ₃² = 4 κ₂, for which
    the saddle point is exact.
    """
    _, nodes, _ = tilted_many(family, multiplicity, k)
    k2, k3, k4 = _cumulants(nodes, multiplicity, k)
    fourth, third = k4 / k2**2, k3**2 / k2**3
    size = np.abs(fourth) / 8 + 5 * third / 24 + k2 / 12
    apart = np.abs(fourth - 6 * k2) / 8 + 5 * np.abs(third - 4 * k2) / 24
    return 2 * size * apart


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
    """Return (exp of the mean of log α, log-evidence, its error) of the learnt prior, each (k,): rules in t = log α's sd.

    They stand about the modes that a look at the whole range finds, with the sds of their curvature; the error is what a
    rule with more nodes changes.

    Parameters
    ----------
    symmetric : callable
        Concentrations (k, m) → log-evidences.
    learnt : Learnt
    t : (m,) array
    found : (k, m) array
        Log-evidences at the concentrations of t.
    """
    mean, sd = _peak(t, found - 0.5 * t**2)
    for _ in range(3):
        places, weight, log_total = _rule(symmetric, learnt, mean, sd, NODES)
        before = mean, sd
        mean = (weight * places).sum(axis=1)
        sd = np.maximum(np.sqrt((weight * (places - mean[:, None]) ** 2).sum(axis=1)), 0.01)
        if ((np.abs(mean - before[0]) < 0.7 * before[1]) & (sd > 0.6 * before[1]) & (sd < 1.5 * before[1])).all():
            break
    finer = _rule(symmetric, learnt, mean, sd, FINER)[2]
    return learnt.alpha(mean), finer, np.abs(finer - log_total)


def _rule(symmetric, learnt, mean, sd, size):
    """Return (t, weights, log-evidences) of Gauss–Hermite rules in t about means: (k, size) twice, and (k,)."""
    x, w = np.polynomial.hermite_e.hermegauss(size)
    t = mean[:, None] + sd[:, None] * x
    log_weight = np.log(w) + symmetric(learnt.alpha(t)) - 0.5 * t**2 + 0.5 * x**2
    log_total = logsumexp(log_weight, axis=1)
    weight = np.exp(log_weight - log_total[:, None])
    return t, weight, log_total + np.log(sd) - 0.5 * math.log(2 * math.pi)


def _peak(t, value):
    """Return (places, sds) of the modes of log-densities (k, m) known at t, by the splines through them."""
    from scipy.interpolate import CubicSpline

    curve, fine = CubicSpline(t, value, axis=1), np.linspace(t[0], t[-1], 2001)
    highest = np.argmax(curve(fine), axis=1)
    bend = -curve(fine, 2)[np.arange(len(value)), highest]
    return fine[highest], 1 / np.sqrt(np.maximum(bend, 1.0))
