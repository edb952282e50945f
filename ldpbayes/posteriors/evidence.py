"""Which prior do the reports favour? Log Bayes factors between priors, from evidences that cost a few milliseconds.

See docs/theory/priors.md.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import gammaln, logsumexp, ndtr

from ldpbayes.errors import InfeasibleError
from ldpbayes.posteriors import surrogate, walk
from ldpbayes.posteriors.conditioned_product.batched import log_masses
from ldpbayes.posteriors.exact import separable_family, stacked_factors
from ldpbayes.posteriors.problem import Problem
from ldpbayes.priors import Dirichlet, Learnt, Smooth

#: Priors that are compared in every result, by name: the papers' prior is what the others are compared with.
COMPARED = ("jeffreys", "flat", "learnt")
REFERENCE = "jeffreys"
#: Evidences whose predicted time is above this many seconds are left out.
LIMIT = 0.5
#: Seconds: one round of tilts of many factors, one factor in it, and one entry of the rows in an expansion.
ROUND, FACTOR, ENTRY = 0.01, 4e-6, 3e-8
#: Prior sd of log α over which the evidence is looked at first, at so many values, and nodes of the rule that is placed then
#: where the density of log α is within e^−DROP of its largest.
REACH, LOOKS, NODES, DROP = 5.0, 11, 25, 18.0
#: Draws whose weights mend the surrogate's evidence.
DRAWN = 128
#: Error of an evidence by the saddle point of expanded factors: larger where categories are few and α is small.
SADDLE = 0.01
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


def log_bayes_factors(collection, prior=REFERENCE, *, known=None, limit: float = LIMIT) -> BayesFactors:
    """Return the log-evidences of Jeffreys, flat and learnt priors, and of the prior used, where they are cheap.

    Where the categories have an order, that of the smooth prior too.

    Separable reports have evidences that are exact for short polynomials, else to second order in the saddle point of their
    factors, for many concentrations at once. Other reports have those of the surrogate, expanded once and mended by
    the weights of a few draws, or by the evidence that the fit found; what a second expansion, at the learnt prior's mean,
    changes adds to the error.

    Parameters
    ----------
    collection : Collection
    prior : as in fit
        The prior used: compared too where it is another Dirichlet, or where ``known`` has its evidence.
    known : pair of floats, optional
        Log-evidence under the prior used and its error, where the fit found them.
    limit : float
        Predicted seconds above which evidences are left out.

    Returns
    -------
    BayesFactors
    """
    return log_bayes_factors_of_cells([Problem.of(collection, prior)], [known], limit=limit)[0]


def log_bayes_factors_of_cells(
    problems: list[Problem], known: list, means: np.ndarray | None = None, limit: float = LIMIT
) -> list[BayesFactors]:
    """Return the BayesFactors of many collections under one prior, those of separable reports all at once.

    Parameters
    ----------
    problems : list of Problem
    known : list of pairs of floats, or None
        Log-evidence of each under the prior used, and its error.
    means : (cells, a) array, optional
        Posterior means of P under the prior used.
    limit : float
        Predicted seconds for one of them above which evidences are left out.
    """
    out: list = [None] * len(problems)
    alike = [k for k, one in enumerate(problems) if _is_product(one)]
    if len(alike) > 1 and _seconds(problems[alike[0]].n_categories) <= limit:
        some = [problems[k] for k in alike]
        evidences = _Separable([one.separable for one in some], some[0].n_categories)
        for k, found in zip(alike, _factors(some, evidences, [known[k] for k in alike], limit), strict=True):
            out[k] = found
    for k in (k for k, found in enumerate(out) if found is None):
        try:
            evidences = _evidences(problems[k], limit, known[k], None if means is None else means[k])
            out[k] = _factors([problems[k]], evidences, [known[k]], limit)[0]
        except InfeasibleError as err:
            out[k] = BayesFactors({}, {}, dict.fromkeys(COMPARED, str(err).rstrip(".")), "")
    return out


def _is_product(problem):
    """Return whether the reports single out one category each, and nothing keeps priors from being compared."""
    return not problem.obstacle and problem.separable is not None and not (problem.separable.slope < 0).any()


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


def _evidences(problem, limit, known, mean):
    """Return the object that gives evidences, or raise InfeasibleError with the reason."""
    if problem.obstacle:
        raise InfeasibleError(problem.obstacle)
    a = problem.n_categories
    rounds = _seconds(a)
    if _is_product(problem):
        if rounds > limit:
            raise InfeasibleError(f"they would take {rounds:.1g} s")
        return _Separable([problem.separable], a)
    if a < 3:
        raise InfeasibleError("with two categories the reports have no separable form")
    if not problem.keeps_reports:
        raise InfeasibleError("only sums over the reports were kept")
    seconds = rounds + ENTRY * problem.entries
    if seconds > limit:
        raise InfeasibleError(f"they would take some {seconds:.1g} s")
    return _Expanded(problem, known, mean)


def _seconds(n_categories):
    """Return the predicted time of the evidences of one collection of separable reports."""
    return 4 * (ROUND + FACTOR * n_categories * (LOOKS + NODES))


class _Separable:
    """Evidences of the separable reports of one collection, whose equal factors are joined, or of several."""

    def __init__(self, forms, n_categories):
        none = np.zeros(n_categories)
        if len(forms) == 1:
            self.family, self.group, constant = separable_family(forms[0], none)
            self.constant = np.array([constant])
        else:
            (self.family, self.constant), self.group = stacked_factors(forms, none), np.arange(n_categories)
        self.multiplicity = np.bincount(self.group).astype(float)

    def _found(self, alpha):
        """Return (log-evidences, errors) of each collection for its symmetric concentrations, each (k, m)."""
        (k, m), a = alpha.shape, self.multiplicity.sum()
        place = np.arange(self.family.alpha.size).reshape(k, 1, -1).repeat(m, axis=1).ravel()
        family = self.family.take(place)
        family = replace(family, alpha=family.alpha + alpha.repeat(self.multiplicity.size))
        found, error = (one.reshape(k, m) for one in log_masses(family, self.multiplicity, k * m))
        return found + self.constant[:, None] + gammaln(a * alpha) - a * gammaln(alpha), error

    def symmetric(self, alpha):
        """Return the log-evidences of each collection for its symmetric concentrations (k, m)."""
        return self._found(alpha)[0]

    def of(self, alpha):
        """Return the log-evidence of one collection under Dirichlet(α)."""
        family = self.family.take(self.group)
        found = log_masses(replace(family, alpha=family.alpha + alpha), np.ones(alpha.size), 1)[0][0]
        return float(found + self.constant[0] + gammaln(alpha.sum()) - gammaln(alpha).sum())

    def errors(self, alphas):
        """Return by name the errors (k,) at symmetric α (k,)."""
        return dict(zip(alphas, self._found(np.stack(list(alphas.values()), axis=1))[1].T, strict=True))


class _Expanded:
    """Evidences of the surrogate: the likelihood's expansion about a posterior mean, mended by an evidence that is known.

    The surrogate's own error is nearly the same under every prior. Where a fit under a Dirichlet prior found its mean and
    evidence, these mend it; else weighted draws under Jeffreys' prior.
    """

    def __init__(self, problem, known=None, mean=None):
        self.rows, self.size, alpha = problem.rows, problem.n_categories, problem.alpha
        if alpha is None or known is None or mean is None or not np.isfinite(known).all():
            alpha = np.full(self.size, 0.5)
            engine = surrogate.expand(self.rows, alpha, 4)[0]
            mean = engine.saddle_moments()[0]
            p, log_surrogate = surrogate.proposals(engine, DRAWN, np.random.default_rng(0))
            log_ratio = self.rows.log_likelihood(np.ascontiguousarray(p.T)) - log_surrogate
            weight = np.exp(log_ratio - log_ratio.max())
            known = log_ratio.max() + math.log(weight.mean()), weight.std(ddof=1) / weight.mean() / math.sqrt(DRAWN)
        self.sampling = float(known[1])
        factors, constant = self._about(np.maximum(mean, 1e-12))
        self.expansion = factors, constant + known[0] - float(self._evidences(alpha[None], factors, constant)[0])

    def _about(self, mean):
        """Return (factors, what they leave out of the log-likelihood) of the expansion at a mean."""
        factors = surrogate.expanded(self.rows, np.ones(self.size), mean)
        return factors, float(self.rows.log_likelihood(mean) - factors.log_smooth(mean).sum())

    def symmetric(self, alpha):
        """Return the log-evidences of the one collection for symmetric concentrations (1, m)."""
        (factors, constant), alpha = self.expansion, alpha[0]
        distinct, _, size = factors.grouped()
        found = log_masses(distinct.repeated(alpha), size, alpha.size)[0]
        return (found + constant + gammaln(self.size * alpha) - self.size * gammaln(alpha))[None]

    def of(self, alpha):
        """Return the log-evidence under Dirichlet(α)."""
        return float(self._evidences(alpha[None], *self.expansion)[0])

    def errors(self, alphas):
        """Return by name what one more expansion, at the learnt prior's mean, changes, each of shape (1,)."""
        alpha = np.array([[one[0]] * self.size for one in alphas.values()])
        learnt = replace(self.expansion[0], alpha=alpha[list(alphas).index("learnt")])
        other = self._about(surrogate.Proposal(learnt).saddle_moments()[0])
        moved = self._evidences(alpha, *self.expansion) - self._evidences(alpha, *other)
        moved -= moved[list(alphas).index(REFERENCE)]  # what moves all evidences alike is mended
        return {name: np.array([SADDLE + self.sampling + abs(change)]) for name, change in zip(alphas, moved, strict=True)}

    def _evidences(self, alpha, factors, constant):
        """Return the log-evidences under Dirichlet priors (m, a), shape (m,)."""
        every = replace(surrogate.joined([factors] * len(alpha)), alpha=alpha.ravel())
        found = log_masses(every, np.ones(self.size), len(alpha))[0]
        return found + constant + gammaln(alpha.sum(axis=1)) - gammaln(alpha).sum(axis=1)


def _integrated(symmetric, learnt, t, found):
    """Return (exp of the mean of log α, log-evidence, its error) of the learnt prior, each (k,): rules in t = log α's sd.

    The trapezoid rule between the ends of what a look at the whole range, and another one inside, show; the error is what
    half of its nodes change.

    Parameters
    ----------
    symmetric : callable
        Concentrations (k, m) → log-evidences.
    learnt : Learnt
    t : (m,) array
        At even distances.
    found : (k, m) array
        Log-evidences at the concentrations of t.
    """
    value = found - 0.5 * t**2
    low, high = _ends(value, np.full(len(value), t[0]), np.full(len(value), t[-1]))
    for size in (LOOKS, NODES):
        place = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, size)
        value = symmetric(learnt.alpha(place)) - 0.5 * place**2
        if size == LOOKS:
            low, high = _ends(value, low, high)
    even = np.ones(NODES)
    even[[0, -1]] = 0.5
    totals = [
        logsumexp(value[:, ::every], b=even[::every], axis=1) + np.log(every * (high - low) / (NODES - 1))
        for every in (1, 2)
    ]
    mean = (np.exp(value - value.max(axis=1, keepdims=True)) * even * place).sum(axis=1)
    mean /= (np.exp(value - value.max(axis=1, keepdims=True)) * even).sum(axis=1)
    error = np.abs(totals[0] - totals[1]) + 2 * ndtr(-REACH)  # what the prior has beyond
    return learnt.alpha(mean), totals[0] - 0.5 * math.log(2 * math.pi), error


def _ends(value, low, high):
    """Return (low, high), each (k,), between which log-densities (k, m) at even places are within DROP of the top."""
    fine, places = np.linspace(0.0, 1.0, 1001), np.linspace(0.0, 1.0, value.shape[1])
    curve = np.stack([np.interp(fine, places, row) for row in value])
    inside = curve > curve.max(axis=1, keepdims=True) - DROP
    first, last = fine[inside.argmax(axis=1)], fine[::-1][inside[:, ::-1].argmax(axis=1)]
    room = 0.1 * (last - first) + 1e-3
    first, last = np.maximum(first - room, 0.0), np.minimum(last + room, 1.0)
    return low + first * (high - low), low + last * (high - low)
