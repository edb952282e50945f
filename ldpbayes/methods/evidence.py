"""Which prior do the reports favour? Log Bayes factors between priors, from evidences that cost a few milliseconds.

See docs/theory/priors.md.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import gammaln, logsumexp, softmax

from ldpbayes.errors import InfeasibleError
from ldpbayes.inference.ends import ACCURACY
from ldpbayes.inference.verdict import light_tails
from ldpbayes.methods import expanded, walk
from ldpbayes.methods.conditioned_product import TiltedFactors
from ldpbayes.methods.conditioned_product.batched import log_masses
from ldpbayes.methods.hmc import HMC
from ldpbayes.methods.nodes import Placement
from ldpbayes.methods.plan import Cost
from ldpbayes.methods.problem import Problem
from ldpbayes.methods.products import Products
from ldpbayes.methods.sampler import Sampler
from ldpbayes.priors import Dirichlet, Learnt, Smooth

#: Priors that are compared in every result, by name: the papers' prior is what the others are compared with.
COMPARED = ("jeffreys", "flat", "learnt")
REFERENCE = "jeffreys"
#: Why evidences are left out where weights of draws about an expansion have too long a tail, as for list experiments.
UNTOLD = "weighted draws do not tell their evidences from these reports"


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
        return f" ± {error:.2f}" if error >= 0.05 else ""

    def sentence(self) -> str:
        """Return the factors and what was left out, for people; empty where there is nothing to compare."""
        label = {"own": "the prior used"}
        phrases = [
            f"{label.get(name, name)} {self.between(name, REFERENCE):+.2f}{self._margin(name)}"
            for name in self.log_evidence
            if name != REFERENCE and REFERENCE in self.log_evidence
        ]
        text = f"Log Bayes factors against the Jeffreys prior: {', '.join(phrases)} (above 0: favoured)." if phrases else ""
        for reason in dict.fromkeys(self.skipped.values()):
            names = [label.get(name, name) for name, why in self.skipped.items() if why == reason]
            text += f" Left out: {', '.join(names)} ({reason})."
        return text.strip()


def log_bayes_factors(collection, prior=REFERENCE, *, known=None, limit: float = Cost.beside) -> BayesFactors:
    """Return the log-evidences of Jeffreys, flat and learnt priors, and of the prior used, where they are cheap.

    Where the categories have an order, the smooth prior's log-evidence too.

    Separable reports have evidences that are exact for short polynomials, else to second order in the saddle point of their
    factors, for many concentrations at once. Other reports have the evidences of the surrogate, expanded once and
    corrected by the weights of a few draws, or by the evidence that the fit found. A second expansion, at the learnt
    prior's mean, shows a change that adds to the error.

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
    problems: list[Problem], known: list, means: np.ndarray | None = None, limit: float = Cost.beside
) -> list[BayesFactors]:
    """Return the BayesFactors of many collections under one prior, all of a kind at once.

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
    kinds: dict = {}
    for k, problem in enumerate(problems):
        try:
            kinds.setdefault(_kind(problem, limit), []).append(k)
        except InfeasibleError as err:
            out[k] = BayesFactors({}, {}, dict.fromkeys(COMPARED, str(err).rstrip(".")), "")
    for kind, places in kinds.items():
        chosen, facts = [problems[k] for k in places], [known[k] for k in places]
        evidences = kind(chosen, facts, [None if means is None else means[k] for k in places])
        for k, factors in zip(places, _factors(chosen, evidences, facts, limit), strict=True):
            out[k] = factors
    return out


def _factors(problems, evidences, known, limit):
    """Return the BayesFactors of collections whose evidences are known together, and that share a prior."""
    a, prior, alpha = problems[0].n_categories, problems[0].prior, problems[0].alpha
    learnt = Learnt(n_categories=a)
    fixed = {name: make(a).alpha for name, make in Dirichlet.named().items() if name in COMPARED}
    alphas = np.array([alpha[0] for alpha in fixed.values()])
    logs, off = evidences.of_alphas(np.broadcast_to(alphas, (len(problems), alphas.size)))

    def given(t, sets):
        return evidences.of_alphas(learnt.alpha(t), sets)

    placement = Placement()
    ends = np.full((2, len(problems)), [[-placement.reach], [placement.reach]])
    t, _, log_mass, by_rule = placement.integrated(given, None, *ends)
    together = logsumexp(log_mass, axis=1)
    alpha_hat = learnt.alpha((softmax(log_mass, axis=1) * t).sum(axis=1))
    value = dict(zip(fixed, logs.T, strict=False)) | {"learnt": together}
    error = dict(zip(fixed, off.T, strict=False)) | {"learnt": by_rule}
    for name, moved in evidences.moved({name: alpha[0] for name, alpha in fixed.items()} | {"learnt": alpha_hat}).items():
        error[name] = error.get(name, 0.0) + moved
    used = "learnt" if prior == learnt else "own"
    for name, concentrations in fixed.items():
        used = name if alpha is not None and np.array_equal(alpha, concentrations) else used
    unknown = used == "own" and alpha is not None and any(evidence is None for evidence in known)
    by_alpha = evidences.log_evidence(alpha) if unknown else None
    out = []
    for k, problem in enumerate(problems):
        values, errors = ({name: float(logs_k[k]) for name, logs_k in logs_of.items()} for logs_of in (value, error))
        reference, skipped, certain = used, {}, bool(evidences.certain[k])
        if not certain:
            skipped, values, errors = dict.fromkeys(values, UNTOLD), {}, {}
        if (problem.collection is not None and problem.collection.ordered) or prior.kind == "walk":
            smooth = Smooth(n_categories=a)
            reference = "smooth" if prior == smooth else used
            # Its particles take as long as 4,000 draws.
            seconds = HMC.pace.operation * 4000 * walk.operations(problem, HMC.written)
            if seconds < (10 * limit if reference == "smooth" else limit):
                whole, rng = replace(problem, prior=smooth), np.random.default_rng(0)
                values["smooth"], errors["smooth"] = walk.log_evidence(whole, Sampler().form(whole, rng)[0], rng)
            else:
                skipped["smooth"] = f"it would take {seconds:.2g} s"
        if reference == "own":
            if known[k] is not None:
                values["own"], errors["own"] = known[k][0], known[k][1] + errors.get("own", 0.0)
            elif alpha is not None and certain:
                values["own"], errors["own"] = float(by_alpha[0][k]), max(float(by_alpha[1][k]), *errors.values())
            else:
                skipped["own"] = "its method gives no evidence"
        out.append(BayesFactors(values, errors, skipped, reference))
    return out


def _kind(problem, limit):
    """Return what makes the evidences of problems of this kind, or raise InfeasibleError with the reason."""
    if problem.obstacle:
        raise InfeasibleError(problem.obstacle)
    a = problem.n_categories
    rounds = _seconds(a)
    if problem.singled:
        if rounds > limit:
            raise InfeasibleError(f"they would take {rounds:.1g} s")
        return _separable
    if a < 3:
        raise InfeasibleError("with two categories the reports have no separable form")
    if not problem.keeps_reports:
        raise InfeasibleError("only sums over the reports were kept")
    seconds = rounds + expanded.Expansion.first * Cost.entry * problem.entries
    if seconds > limit:
        raise InfeasibleError(f"they would take some {seconds:.1g} s")
    return _Expanded


def _seconds(n_categories):
    """Return the predicted time of the evidences of one collection of separable reports."""
    return 10 * Cost.factor * n_categories  # at two dozen nodes, each without moments and ends


class _Evidences(Products):
    """Evidences of the reports of k collections whose likelihoods are products of factors."""

    @property
    def certain(self):
        """Whether the evidences of each are known, (k,)."""
        return np.ones(self.cells, dtype=bool)

    def of_alphas(self, alpha, sets=slice(None)):
        """Return (log-evidences, errors) of some collections for the symmetric concentrations of each, each (k, m)."""
        (k, m), a, multiplicity = alpha.shape, self.size, np.bincount(self.group).astype(float)
        places = np.arange(self.family.alpha.size).reshape(self.cells, 1, -1)[sets]
        family = self.family.take(places.repeat(m, axis=1).ravel())
        family = replace(family, alpha=family.alpha + alpha.repeat(multiplicity.size))
        logs, error = (array.reshape(k, m) for array in log_masses(family, multiplicity, k * m))
        return logs + self.constant[sets, None] + gammaln(a * alpha) - a * gammaln(alpha), error

    def moved(self, alphas):
        """Return by name the errors, (k,), that symmetric concentrations have beyond the errors in ``found``."""
        return {}


def _separable(problems, known, means):
    """Return the evidences of separable reports."""
    return _Evidences.of([problem.separable for problem in problems], problems[0].n_categories)


class _Expanded(_Evidences):
    """Evidences of the surrogate: the likelihood's expansion about a posterior mean, mended by an evidence that is known.

    The surrogate's own error is nearly the same under every prior. Where a fit under a Dirichlet prior found its mean and
    evidence, these mend it; else weighted draws under Jeffreys' prior.
    """

    def __init__(self, problems, known, means):
        self.rows = [problem.rows for problem in problems]
        start = [self._known(*each) for each in zip(problems, known, means, strict=True)]
        self.sampling = np.array([error for *_, error, _ in start])
        super().__init__(*self._about([mean for _, mean, *_ in start]))
        self.known, _, known, _, self._certain = map(np.array, zip(*start, strict=True))
        self.constant = self.constant + known - self.log_evidence(self.known)[0]

    def _known(self, problem, known, mean):
        """Return (α, posterior mean, log-evidence, its error, whether that holds) of a collection under a Dirichlet."""
        alpha = problem.alpha
        if alpha is not None and known is not None and mean is not None and np.isfinite(known).all():
            return alpha, mean, *known, True
        alpha = np.full(problem.n_categories, 0.5)
        rounds, rng = expanded.Expansion.first, np.random.default_rng(0)
        weights, mean = expanded.weighted_draws(problem.rows, alpha, 128, rng, rounds=rounds)
        return alpha, mean, weights.log_evidence, weights.log_evidence_error, light_tails(weights.k_hat)

    @property
    def certain(self):
        return self._certain

    def _about(self, means):
        """Return (factors, what they leave out of the log-likelihoods) of the expansions at means."""
        pairs = zip(self.rows, np.maximum(means, 1e-12), strict=True)
        families, constant = zip(*(expanded.anchored(rows, np.zeros(mean.size), mean) for rows, mean in pairs), strict=True)
        return expanded.joined(families), constant

    def of_alphas(self, alpha, sets=slice(None)):
        logs = super().of_alphas(alpha, sets)[0]
        return logs, np.full(logs.shape, ACCURACY.expanded)

    def moved(self, alphas):
        """Return by name what one more expansion, at the learnt prior's mean, changes, and the error of the draws, (k,)."""
        alphas = {name: np.broadcast_to(alpha, self.constant.shape) for name, alpha in alphas.items()}
        alpha = np.stack(list(alphas.values()), axis=1)
        multiplicity = np.bincount(self.group).astype(float)
        family = replace(self.family, alpha=self.family.alpha + np.repeat(alphas["learnt"], multiplicity.size))
        means = TiltedFactors(family, multiplicity, sets=self.cells).saddle_moments()[0]
        means = means.reshape(self.cells, -1)[:, self.group]
        other = _Evidences(*self._about(means))
        moved = self.of_alphas(alpha)[0] - other.of_alphas(alpha)[0]
        mended = self.log_evidence(self.known)[0] - other.log_evidence(self.known)[0]
        moved = np.column_stack([moved, mended]) - moved[:, [list(alphas).index(REFERENCE)]]  # all alike are mended
        return dict(zip([*alphas, "own"], (self.sampling[:, None] + np.abs(moved)).T, strict=True))
