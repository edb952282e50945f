"""Proposals about the mode whose mean is right to third order, and draws with weights on the true density."""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ldpbayes.inference.importance import Weighted, resample, weigh
from ldpbayes.inference.verdict import Verdict
from ldpbayes.posteriors.proposals import StudentT
from ldpbayes.priors.regression import Regression
from ldpbayes.regression.target import Target

#: Degrees of freedom of the proposals: half as many as unknowns, within these bounds. Tails heavier than the posterior's
#: keep weights bounded; in many dimensions the radius of a t with few degrees misses the posterior's.
DEGREES = 8, 50
#: A shift of the mean by more than this many posterior sd is not to be trusted to third order.
LARGEST_SHIFT = 3.0
#: Proposals are fitted anew to weighted draws at most this often, unless their k-hat is below the first of these and …
MAX_REFITS, GOOD_K_HAT = 5, 0.5
#: … while there are this many effective draws for each unknown.
LEAST_FOR_REFIT = 2
#: This share of the proposals comes from the prior, where the reports leave some unknown with this share of its prior sd.
DEFENCE, WEAK = 0.1, 0.25


def about(target: Target, mode: np.ndarray, eigenvalues: np.ndarray, vectors: np.ndarray) -> StudentT:
    """Return the proposal with the Hessian's shape, its centre moved from the mode to the mean as far as third order shows.

    In coordinates v with unit Hessian the log-density is −|v|²/2 + Σ T_ijk v_i v_j v_k/6 + …, so the mean lies at
    ½ Σ_j T_ijj; each T_·jj is a second difference of the gradient along axis j.

    Parameters
    ----------
    target : Target
    mode : (u,) array
    eigenvalues, vectors : (u,) and (u, u) arrays
        Of minus the Hessian at the mode.
    """
    found = StudentT.at_mode(mode, eigenvalues, vectors, float(np.clip(mode.size / 2, *DEGREES)))
    steps = np.concatenate([mode + found.root.T, mode - found.root.T])
    with np.errstate(all="ignore"):
        slopes = target.gradients(steps) @ found.root - target.value_and_gradient(mode)[1] @ found.root
    shift = 0.5 * slopes.sum(axis=0)
    size = np.linalg.norm(shift)
    if not np.isfinite(size):
        return found
    return replace(found, centre=mode + found.root @ (shift * min(1.0, LARGEST_SHIFT / max(size, LARGEST_SHIFT))))


@dataclass(frozen=True, eq=False)
class Draws:
    """Weighted draws.

    Attributes
    ----------
    z : (N, u) array
    shares : (N, a) array
        Sums of P over people.
    found : Weighted
    kept : int
        How many draws will be kept.
    """

    z: np.ndarray
    shares: np.ndarray
    found: Weighted
    kept: int

    @property
    def effective(self) -> float:
        """Independent draws that the kept ones are worth."""
        return min(self.found.effective_sample, float(self.kept))

    @cached_property
    def verdict(self) -> Verdict:
        """Whether the kept draws may be used."""
        return self.found.judged(self.kept)

    def errors(self, values: np.ndarray) -> dict[str, np.ndarray]:
        """Return mcse, ess_bulk and ess_tail of the mean of the kept draws of a quantity.

        The weighted mean has variance Σ w² (x − μ)² (delta method): weights that go with a quantity make its error larger
        than Σ w² says. The kept draws add Σ f (1 − f) (x − μ)²/S², f the fractional part of S w: proposal j is kept ⌊S w⌋
        times or once more.

        Parameters
        ----------
        values : (N, …) array
            Of every proposal.
        """
        weight, part = self.found.weight, np.modf(self.kept * self.found.weight)[0]
        square = (values - np.tensordot(weight, values, 1)) ** 2
        variance = np.tensordot(weight, square, 1)
        error = np.tensordot(weight**2 + part * (1 - part) / self.kept**2, square, 1)
        worth = np.divide(variance, error, out=np.full(np.shape(variance), float(self.kept)), where=error > 0)
        return {"mcse": np.sqrt(error), "ess_bulk": worth, "ess_tail": worth}

    def chosen(self, rng: np.random.Generator) -> np.ndarray:
        """Return the positions of equally weighted draws, by systematic resampling, in random order."""
        return rng.permutation(resample(self.found.weight, rng, self.kept))


@dataclass(frozen=True, eq=False)
class Defended:
    """Draws of a multivariate t, some of them replaced by draws of the prior: weights are bounded as the likelihood is.

    Attributes
    ----------
    about : StudentT
    prior : Regression
    share : float
        Of the draws that come from the prior.
    """

    about: StudentT
    prior: Regression
    share: float

    def draw(self, size: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return (draws, their log-densities)."""
        z, log_density = self.about.draw(size, rng)
        if not self.share:
            return z, log_density
        replaced = rng.random(size) < self.share
        z[replaced] = self.prior.unknowns(int(replaced.sum()), rng)
        inside = np.linalg.solve(self.about.root, (z[replaced] - self.about.centre).T)
        log_density[replaced] = self.about.log_density((inside**2).sum(axis=0))
        return z, np.logaddexp(math.log1p(-self.share) + log_density, math.log(self.share) + self.prior.log_density(z))


def weighted(target: Target, mode: tuple, size: int, rng: np.random.Generator, watch) -> Draws:
    """Return draws about the mode with Pareto-smoothed weights: about a better centre, or more of them, where it takes that.

    Parameters
    ----------
    target : Target
    mode : tuple
        Of find_mode.
    size : int
    rng : numpy.random.Generator
    watch : Watch
    """
    proposal = about(target, *mode)
    share = DEFENCE if 1 / math.sqrt(mode[1].min()) > WEAK else 0.0
    tried: list[tuple[Draws, Defended]] = []
    for _ in range(1 + MAX_REFITS):
        source = Defended(proposal, target.prior, share)
        found = _joined([_batch(target, source, size, rng, watch)], size)
        if found.verdict.accepted and found.found.k_hat < GOOD_K_HAT:
            return found
        tried.append((found, source))
        refitted = StudentT.fitted(found.z, found.found.weight, proposal.degrees)
        if refitted is None or found.found.effective_sample < LEAST_FOR_REFIT * proposal.centre.size:
            break
        proposal = refitted
    best, source = max(tried, key=lambda one: (one[0].verdict.accepted, one[0].verdict.next == "more", one[0].effective))
    if best.verdict.next == "more":
        batches = [_batch(target, source, size, rng, watch) for _ in range(best.verdict.times)]
        more = _joined(batches, size)
        return more if more.effective > best.effective else best
    return best


def _batch(target, proposal, size, rng, watch):
    z, log_proposal = proposal.draw(size, rng)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        value, shares, _ = target.likelihoods(z, watch=watch)
        log_ratio = value + target.prior.log_density(z) - log_proposal
    return z, shares, np.where(np.isfinite(log_ratio), log_ratio, -np.inf)


def _joined(parts, kept):
    z, shares, log_ratio = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return Draws(z, shares, weigh(z, np.maximum(log_ratio, log_ratio.max() - 700)), kept)
