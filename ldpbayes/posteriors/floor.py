"""A learnt Dirichlet over a floor: nodes over the share λ of the floor and the concentration α, from one expansion.

Given λ and α, P = λE + (1 − λ)D. The log-likelihood is expanded once, in P; given D it makes factors of E, and with E
integrated over it makes factors of D. See docs/theory/floor.md.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.special import gammaln, logsumexp, ndtr, softmax

from ldpbayes.inference.importance import resample
from ldpbayes.posteriors import surrogate
from ldpbayes.posteriors.base import AbstractPosterior, Pace, Plan, Refusal, Sample
from ldpbayes.posteriors.conditioned_product import TiltedFactors
from ldpbayes.posteriors.conditioned_product.factors import grouped
from ldpbayes.priors.floor import Floor

#: Values a coordinate of the grids, which reach so many sds of what is normal with the moments found, …
SIDE, REACH = 5, 2.8
#: … and are placed anew, in at most so many rounds, until the nodes are worth so many equal ones a coordinate.
ROUNDS, WORTH = 6, 2.2
#: The first grid: of Φ⁻¹(λ) and of t = (log α − log median)/sd.
LOW, HIGH = np.array([-3.0, -3.5]), np.array([2.5, 3.5])
#: Rounds of D's mean at a node, until it moves by less than so many sds of P. Where reports hardly tell E from D it moves by
#: little for long, and the evidence no more; nodes where it still moves by more than LOST are far from the mode.
MEANS, STILL, LOST, NOTHING = 12, 0.05, 1.0, -1e300
#: The pilot is settled when the mean moves by less than so many sds, or after so many rounds.
SETTLED, PILOTS = 0.1, 3
#: Part of a category's curvature that is left, at least, where the floor is integrated over.
LEAST_LEFT = 0.02
#: Sets of factors that are worked on together hold so many factors.
BLOCK = 2**14
#: A draw of λ and α is chosen from so many in the cell of its node.
TRIED = 8
#: Nodes with less weight have no draws.
LIGHT = 1e-4
#: Operations of the nodes, for one category.
FACTOR = 1e7


@dataclass(frozen=True, eq=False)
class Nodes:
    """Values of (λ, α) with what the expansion says at each.

    Attributes
    ----------
    share, alpha : (k,) arrays
        λ and α.
    z : (k, 2) array
        Φ⁻¹(λ), 0 where λ is 0, and (log α − log median)/sd.
    cell : (k, 2, 2) array
        The part of the grid that a node stands for is z + cell·u, u in [−1, 1]².
    log_weight : (k,) array
        Log of the prior of the cell of each node: with the log-evidence added, of its unnormalized posterior weight.
    log_evidence : (k,) array
    mean, variance : (k, a) arrays
        Of P.
    """

    share: np.ndarray
    alpha: np.ndarray
    z: np.ndarray
    cell: np.ndarray
    log_weight: np.ndarray
    log_evidence: np.ndarray
    mean: np.ndarray
    variance: np.ndarray

    @cached_property
    def weight(self):
        """Posterior weights, shape (k,)."""
        return softmax(self.log_weight + self.log_evidence)

    @property
    def total(self):
        """The log-evidence with λ and α integrated over."""
        return float(logsumexp(self.log_weight + self.log_evidence))

    def moments(self):
        """Return (mean, variance) of P, two (a,) arrays."""
        mean = self.weight @ self.mean
        return mean, self.weight @ (self.variance + (self.mean - mean) ** 2)

    def spread_out(self, which, weight, rng):
        """Return draws of z (S, 2), one in the cell of each of these nodes, by the normal law with the moments of all nodes.

        Those with λ = 0 and those above have a law each.
        """
        out = np.empty((which.size, 2))
        for plain in (False, True):
            same_kind, drawn = (self.share == 0) == plain, (self.share[which] == 0) == plain
            if not drawn.any():
                continue
            chance = weight[same_kind] / weight[same_kind].sum()
            mean = chance @ self.z[same_kind]
            off = self.z[same_kind] - mean
            steep = np.linalg.pinv((chance[:, None] * off).T @ off)
            places = which[drawn]
            u = rng.uniform(-1, 1, (places.size, TRIED, 2))
            tried = self.z[places][:, None] + np.einsum("sij,stj->sti", self.cell[places], u)
            off = tried - mean
            score = rng.gumbel(size=off.shape[:2]) - 0.5 * np.einsum("sti,ij,stj->st", off, steep, off)
            out[drawn] = np.take_along_axis(tried, score.argmax(axis=1)[:, None, None], 1)[:, 0]
        return out

    def and_those_of(self, other):
        """Return the Nodes of both."""
        both = ((getattr(nodes, name) for nodes in (self, other)) for name in self.__dataclass_fields__)
        return Nodes(*(np.concatenate(list(pair)) for pair in both))


class Expanded:
    """The log-likelihood expanded at a pilot, and what it says of P under a floor.

    Parameters
    ----------
    rows : Rows
    prior : Floor
    pilot : (a,) array
    """

    def __init__(self, rows, prior: Floor, pilot):
        self.prior, self.pilot = prior, pilot
        family, self.constant = surrogate.anchored(rows, np.ones_like(pilot), pilot)
        self.family, self.group = grouped(family)
        self.multiplicity = np.bincount(self.group).astype(float)

    def at(self, share, alpha):
        """Return (log-evidences (k,), means and variances of P (k, G)) at k values of λ, all 0 or none, and of α."""
        size = max(1, BLOCK // self.multiplicity.size)
        blocks = [self._sets(share[i : i + size], alpha[i : i + size])[:3] for i in range(0, share.size, size)]
        return tuple(np.concatenate(arrays) for arrays in zip(*blocks, strict=True))

    def _sets(self, share, alpha):
        """Return what ``at`` does of a few nodes, with the factors of D of the last one to settle, and what gives its E."""
        if not share.any():
            return *self._plain(alpha), None
        k, g, m = share.size, self.multiplicity.size, self.multiplicity
        rest = np.maximum(self.family.centre - share[:, None] / m.sum(), 1e-3 / m.sum())
        rest /= (rest @ m)[:, None]
        log_evidence, mean, variance, left = np.empty(k), np.empty((k, g)), np.empty((k, g)), np.arange(k)
        for _ in range(MEANS):
            factors, uneven, moved, floor = self._marginal(share[left], alpha[left], rest[left])
            log_evidence[left], mean[left], variance[left] = factors
            far = (np.abs((1 - share[left, None]) * (moved - rest[left])) / np.sqrt(variance[left])).max(axis=1)
            rest[left] = moved
            left, far = left[far > STILL], far[far > STILL]
            if not left.size:
                break
        log_evidence[left[far > LOST]] = NOTHING
        # The average likelihood is below that of the mean: where the factors' expansion says otherwise, it is far from both.
        fit = self.constant + np.array([self.family.log_smooth(g) @ m for g in mean])
        return np.where(log_evidence <= fit, log_evidence, NOTHING), mean, variance, uneven, floor

    def _plain(self, alpha):
        """Return (log-evidences, means, variances, factors) at λ = 0."""
        k, g, m = alpha.size, self.multiplicity.size, self.multiplicity
        family = replace(self.family.take(np.tile(np.arange(g), k)), alpha=np.repeat(alpha, g))
        factors = TiltedFactors(family, m, sets=k)
        log_evidence = factors.saddle_log_evidence()[0] + self.constant + _dirichlet(alpha, m.sum())
        return log_evidence, *(moments.reshape(k, g) for moments in factors.saddle_moments()), family

    def _marginal(self, share, alpha, rest):
        """Return ((log-evidences, means, variances of P), factors of D, its mean, what gives E), expanded about a D (k, G).

        E is integrated over: its mean given D moves the gradient, its variance takes a part of the curvature.
        """
        k, g, m = share.size, self.multiplicity.size, self.multiplicity
        family = self.family.take(np.tile(np.arange(g), k))
        share, alpha, rest = np.repeat(share, g), np.repeat(alpha, g), rest.ravel()
        even, inside, mass = self._floor(family, share, (1 - share) * rest, k)
        p = share * even + (1 - share) * rest
        grown = 1 + family.skew * (p - family.centre)
        curvature, skew, linear = family.curvature / grown**2, family.skew / grown, (1 - share) * family.slope(p)
        left = np.clip(1 - curvature * share**2 * inside, LEAST_LEFT, 1.0)
        skew = np.minimum((1 - share) * skew * left**2, surrogate.NEVER_ZERO / rest)
        uneven = surrogate.ExpandedFactors(alpha, linear, (1 - share) ** 2 * curvature * left, rest, skew)
        factors = TiltedFactors(uneven, m, sets=k)
        log_evidence = mass + factors.saddle_log_evidence()[0] - factors.summed(linear * rest)
        log_evidence += self.constant + _dirichlet(alpha[::g], m.sum())
        moved, variance = factors.saddle_moments()
        # Where D is not at its centre, E makes up for a part of the difference.
        mean = np.maximum(p + (1 - share) * left * (moved - rest), 1e-3 * (1 - share) * moved).reshape(k, g)
        spread = share**2 * inside + ((1 - share) * left) ** 2 * variance
        factors = log_evidence, mean / (mean @ m)[:, None], spread.reshape(k, g)
        return factors, uneven, moved.reshape(k, g), (even, inside, rest, left)

    def _floor(self, family, share, rest, k):
        """Return (mean and variance of E given D (k·G,), log ∫ of the likelihood over E (k,)); rest is (1 − λ)D."""
        m, kappa = self.multiplicity, self.prior.evenness
        if kappa == math.inf:
            even = np.full(share.size, 1 / m.sum())
            return even, np.zeros(share.size), family.log_smooth(share * even + rest).reshape(k, -1) @ m
        own = surrogate.ExpandedFactors(
            np.full(share.size, kappa),
            family.linear * share,
            share**2 * family.curvature,
            (family.centre - rest) / share,
            share * family.skew,
        )
        factors = TiltedFactors(own, m, sets=k)
        # What the factors of E leave out: b·(1 − λ)D.
        mass = factors.saddle_log_evidence()[0] + factors.summed(family.linear * rest) + _dirichlet(kappa, m.sum())
        return *factors.saddle_moments(), mass

    def nodes(self, near=()) -> tuple[Nodes, list]:
        """Return (Nodes with λ = 0 and above, where their grids stand); ``near`` is where they stood at another pilot."""
        learnt, moments_of, placed = self.prior.learnt, [], []
        for free in (False, True):
            at = slice(0 if free else 1, 2)
            mean, root = near[free] if near else (0.5 * (LOW + HIGH)[at], np.diag(0.5 * (HIGH - LOW)[at]))
            unit = np.stack(np.meshgrid(*[(np.arange(SIDE) + 0.5) * 2 / SIDE - 1] * mean.size), -1).reshape(-1, mean.size)
            for _ in range(ROUNDS):
                z = mean + unit @ root.T
                share, alpha = ndtr(z[:, 0]) if free else np.zeros(len(z)), learnt.alpha(z[:, -1])
                log_evidence, *moments = self.at(share, alpha)
                volume = np.linalg.slogdet(root)[1] + mean.size * math.log(2 / SIDE) + math.log(0.5)
                log_weight = volume - 0.5 * (z**2).sum(axis=1) - 0.5 * mean.size * math.log(2 * math.pi)
                weight = softmax(log_weight + log_evidence)
                placed.append((mean, root))
                if 1 / (weight**2).sum() > WORTH**mean.size:
                    break
                step = root * (2 / SIDE)
                mean = weight @ z
                root = REACH * np.linalg.cholesky((weight[:, None] * (z - mean)).T @ (z - mean) + step @ step.T / 6)
            placed[free:] = [placed[-1]]
            moments = (array[:, self.group] for array in moments)
            cell = np.zeros((2, 2))
            cell[at, at] = root / SIDE
            both = np.pad(z, ((0, 0), (2 - mean.size, 0)))
            cells = np.broadcast_to(cell, (len(z), 2, 2))
            moments_of.append(Nodes(share, alpha, both, cells, log_weight, log_evidence, *moments))
        return moments_of[0].and_those_of(moments_of[1]), placed

    def proposal(self, share, alpha):
        """Return (Proposal of D, what gives E) at one node."""
        *_, uneven, floor = self._sets(np.array([share]), np.array([alpha]))
        return surrogate.Proposal(uneven.take(self.group)), floor and tuple(array[self.group] for array in floor)

    def draws(self, share, alpha, size, rng):
        """Return (draws of P, log of their density over that of the prior) at one node.

        Those of E given D are gamma variables with E's moments, divided by their sum r. The posterior knows no r: it is
        given a gamma law near that of the draws, so that no integral over r is needed.
        """
        proposal, floor = self.proposal(share, alpha)
        p, log_surrogate = surrogate.proposals(proposal, size, rng)
        if not share:
            return p, log_surrogate
        even, spread, rest, kept = floor
        a, kappa = even.size, self.prior.evenness
        if kappa == math.inf:
            return share / a + (1 - share) * p, log_surrogate
        mean = even - (1 - share) / share * (1 - kept) * (p - rest)
        mean = np.maximum(mean, 0.1 * even)
        shape, scale = mean**2 / spread, spread / mean
        log_g = np.log(np.maximum(rng.standard_gamma(shape), 1e-300)) + np.log(scale)
        log_r = logsumexp(log_g, axis=1)
        log_e = log_g - log_r[:, None]
        log_own = (shape * log_g - np.exp(log_g) / scale - gammaln(shape) - shape * np.log(scale)).sum(axis=1)
        centre, width = mean.sum(axis=1), (shape * scale**2).sum(axis=1)
        n, b = centre**2 / width, width / centre
        log_radius = n * log_r - np.exp(log_r) / b - gammaln(n) - n * np.log(b)
        log_prior = _dirichlet(kappa, a) + kappa * log_e.sum(axis=1)
        return share * np.exp(log_e) + (1 - share) * p, log_surrogate + log_own - log_radius - log_prior


def _dirichlet(alpha, a):
    """Return the log of the normalizer of a symmetric Dirichlet."""
    return gammaln(a * alpha) - a * gammaln(alpha)


def settled(problem, watch=None) -> tuple[Expanded, Nodes]:
    """Return the expansion at the posterior mean under a floor, and its nodes.

    Parameters
    ----------
    problem : Problem
    watch : Watch, optional
    """
    rows, prior = problem.rows, problem.prior.floor()
    mean = surrogate.expand(rows, np.full(problem.n_categories, 0.5), 4, watch=watch)[0].saddle_moments()[0]
    placed: list = []
    for _ in range(PILOTS):
        expanded = Expanded(rows, prior, mean / mean.sum())
        nodes, placed = expanded.nodes(placed)
        mean, variance = nodes.moments()
        if (np.abs(mean - expanded.pilot) < SETTLED * np.sqrt(variance)).all():
            break
    return expanded, nodes


@dataclass(frozen=True)
class Floored(AbstractPosterior):
    """Posterior under a learnt Dirichlet over a floor, P = λE + (1 − λ)D: nodes over λ and α, weights on the likelihood.

    Parameters
    ----------
    draws, chains : int
        Independent draws of (P, F, λ, α), shaped like chains.

    Notes
    -----
    The attrs have the log-evidence, and ``floor_zero``, the probability that there is no floor.
    """

    draws: int = 1000
    chains: int = 4
    name: ClassVar[str] = "floor"
    order: ClassVar[float] = 21.5
    most: ClassVar[float] = 2e10
    pace: ClassVar[Pace] = Pace(0.5, 0.03, 5e-10)
    needs: ClassVar[tuple[str, ...]] = ("rows",)

    def prepare(self, problem):
        if problem.prior.floor() is None:
            return Refusal("The method floor is for priors with a floor, such as floor.")
        if problem.n_categories < 3:
            return Refusal("The method floor needs three categories: of two, a floor is no more than a prior of one share.")
        if problem.obstacle:
            return Refusal(f"The share of a floor is learnt by the evidence of the reports, and here {problem.obstacle}.")
        rows, a = problem.rows, problem.n_categories
        work = surrogate.weighing(rows, self.draws * self.chains)
        work += surrogate.EXPANDING * PILOTS * rows.n_rows * a + FACTOR * a
        reason = "The prior has a floor: surrogates at values of its share and of alpha, weighted by the likelihood."
        return Plan(reason, work, problem)

    def run(self, plan, rng, watch):
        problem, size = plan.state, self.draws * self.chains
        expanded, nodes = settled(problem, watch)
        heavy = np.flatnonzero(nodes.weight > LIGHT)
        chance = nodes.weight[heavy] / nodes.weight[heavy].sum()
        counts = np.bincount(heavy[resample(chance, rng, size)], minlength=nodes.share.size)

        def draw(i, count):
            return expanded.draws(nodes.share[i], nodes.alpha[i], count, rng)

        weights, node, verdict = surrogate.weighed(draw, nodes.log_weight, counts, problem.likelihood, rng, watch)
        drawn = min(size, weights.log_weight.size)
        rows = drawn // self.chains * self.chains
        chosen = rng.permutation(resample(weights.weight, rng, drawn))[:rows]
        shape = (self.chains, rows // self.chains)
        which, worth = node[chosen], np.bincount(node, weights.weight, nodes.share.size)
        z, none = nodes.spread_out(which, worth, rng), min(float(worth[nodes.share == 0].sum()), 1.0)
        share = np.where(nodes.share[which] > 0, ndtr(z[:, 0]), 0.0)
        alpha = problem.prior.floor().learnt.alpha(z[:, 1])
        sentence = f"Given the reports, the share of the floor is {share.mean():.2g} in the mean, and 0 with probability"
        return Sample(
            weights.distribution[chosen].reshape(*shape, -1),
            effective=min(weights.effective_sample, float(drawn)),
            verdict=verdict,
            weighted=(weights.distribution, weights.weight),
            facts=weights.facts | {"floor_zero": none, "prior_reason": f"{sentence} {none:.2g}."},
            hyperparameters={"floor": share.reshape(shape), "alpha": alpha.reshape(shape)},
        )
