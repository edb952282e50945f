"""Deterministic posterior at few distinguishable categories: nested Gauss–Jacobi rules on the sticks of the simplex.

Every stick's nodes lie where the likelihood, maximised over the later sticks, is within e^{−depth} of its maximum, so the
number of nodes does not grow with the number of reports, and the mass left out has a proven bound.
"""

import dataclasses
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from scipy import special

from ldpbayes import checks
from ldpbayes.errors import ConvergenceError
from ldpbayes.posteriors.base import AbstractPosterior, Plan, Refusal, Sample
from ldpbayes.posteriors.frequency import frequency_moments
from ldpbayes.posteriors.merging import quantile

#: The first stick has so many times the nodes of the others: its margin is interpolated, not only integrated.
FIRST_STICK = 2
#: Largest number of groups of categories that a product rule is tried on.
MAX_GROUPS = 8
#: The rule's error is its distance from the rule with COARSER times its nodes; where too large, it gets FINER times as many.
COARSER, FINER = 0.8, 1.25
#: Largest share of the mass that windows may leave out. Wider ones aim at e^−WIDENING, a tenth of that.
MAX_LEFT_OUT, WIDENING = 1e-9, 23
#: Nodes expanded at a time.
BATCH = 2048
#: Nodes kept in memory to draw from; beyond them batches are computed a second time.
KEEP = 2**22
#: Nodes a stick: at the first try, where most collections are resolved, and of the densities that draws come from.
FIRST_NODES, USUAL_NODES, DRAW_NODES, DRAW_CELLS = 28, 35, 48, 512
#: Measured on one core: seconds per node, per node and row, and to start and draw.
NODE_SECONDS, ROW_SECONDS, START_SECONDS = 1.2e-7, 1e-8, 0.3


@dataclass(frozen=True)
class Quadrature(AbstractPosterior):
    """Moments, evidence and margins by conical (stick-breaking) Gauss–Jacobi quadrature, with its error; i.i.d. draws.

    With sticks v_i = P_i / (P_i + … + P_g) the prior is a product of Betas and the likelihood a polynomial. The rule with
    q nodes a stick is compared with the one with 0.8 q; q grows until they agree to ``tolerance``. Each margin comes from
    the rule that breaks its category first: its density is known at the nodes of the first stick, a polynomial times a
    Beta weight, and is integrated and inverted as such. Draws start at independent draws from the nodes and then move
    along every stick once by its exact conditional: since the rule integrates smooth functions to its stated error and
    the move makes every function smooth, the draws are i.i.d. from the posterior to that error (and that of inverting a
    distribution function on a grid, below 1e-4 in probability).

    Parameters
    ----------
    draws, chains : int
        chains × draws i.i.d. draws of (P, F).
    tolerance : float
        Largest accepted difference between the two rules: means in posterior sd, sd relative, log-evidence in nats.
    limit_seconds : float
        Refuse above this predicted time.

    References
    ----------
    Stroud (1971), "Approximate Calculation of Multiple Integrals", for conical products.
    """

    draws: int = 1000
    chains: int = 4
    tolerance: float = 1e-6
    limit_seconds: float = 60.0
    name: ClassVar[str] = "quadrature"

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "tolerance", checks.positive(self.tolerance, "tolerance"))
        object.__setattr__(self, "limit_seconds", checks.positive(self.limit_seconds, "limit_seconds"))

    def prepare(self, problem):
        if problem.n_groups > MAX_GROUPS:
            return Refusal(
                f"Distinguishable categories must be at most {MAX_GROUPS} for quadrature, got {problem.n_groups}."
            )
        return self._plan(problem.merged)

    def run(self, plan, rng, watch):
        merged = plan.state
        target, nodes, moments, error = self._resolve(merged, watch)
        mean, cov = merged.expand(moments.mean, moments.cov)
        sd = np.sqrt(np.diag(cov))
        frequency_mean, frequency_sd = frequency_moments(mean, sd**2, merged.member_alpha, merged.n_reports)
        groups = _draws(target, math.ceil(COARSER * nodes), self.chains * self.draws, rng, watch)
        distribution, tallies = merged.split(groups, merged.allocate(groups, rng), rng)

        def intervals(ci_prob):
            ends = _intervals(merged, target, nodes, moments, (1 - ci_prob) / 2, watch)
            return dict(zip(("distribution_lower", "distribution_upper"), ends, strict=True))

        shape = (self.chains, self.draws, -1)
        return Sample(
            distribution.reshape(shape),
            tallies.reshape(shape),
            detail=f"Integrals with {nodes} and {math.ceil(COARSER * nodes)} nodes per dimension agree to {error:.1e} "
            "posterior sd.",
            exact={
                "distribution_mean": mean,
                "distribution_sd": sd,
                "distribution_cov": cov,
                "frequency_mean": frequency_mean,
                "frequency_sd": frequency_sd,
                "log_evidence": moments.log_evidence + merged.log_constant,
            },
            intervals=intervals,
            facts={
                "n_groups": merged.n_groups,
                "nodes_per_stick": nodes,
                "quadrature_error": error,
                "mass_left_out": moments.left_out,
            },
        )

    def _plan(self, merged, nodes=None):
        """Return the Plan or Refusal for merged rows; at the nodes that most collections need where none are given."""
        g, m = merged.n_groups, merged.counts.size
        nodes = nodes or min(USUAL_NODES, _exact_nodes(merged))
        passes = g + 1  # one for the moments, about one for the coarser ones and the draws, one for each further margin
        seconds = START_SECONDS + passes * FIRST_STICK * float(nodes) ** (g - 1) * (NODE_SECONDS + ROW_SECONDS * m)
        size = f"{g} distinguishable categories, {nodes} nodes per dimension, {m} distinct rows"
        if seconds > self.limit_seconds:
            reason = f"Predicted cost {seconds:.3g} s must be at most limit_seconds = {self.limit_seconds:g} s ({size})."
            return Refusal(reason, seconds)
        return Plan(f"Exact to a checked error by quadrature ({size}).", seconds, merged)

    def _resolve(self, merged, watch):
        """Return (target, nodes a stick, moments, error), with as many nodes and as wide windows as the answer needs."""
        nodes = min(FIRST_NODES, _exact_nodes(merged))
        target, coarse = Target.of(merged), None
        while True:
            fine = _integrate(target, nodes, watch)
            if fine.left_out > MAX_LEFT_OUT:
                target, coarse = target.deeper(math.log(fine.left_out) + WIDENING), None
                continue
            if coarse is None:
                coarse = _integrate(target, math.ceil(COARSER * nodes), watch)
            error = fine.distance(coarse)
            if error <= self.tolerance or merged.n_groups == 1:
                return target, nodes, fine, error
            wanted = math.ceil(FINER * nodes)
            plan = self._plan(merged, wanted)
            if not plan.feasible:
                raise ConvergenceError(
                    f"Quadrature is not resolved: {nodes} nodes per dimension differ by {error:.1e} from 0.8 as many, "
                    f"tolerance {self.tolerance:g}. {plan.reason}"
                )
            nodes, coarse = wanted, fine


@dataclass(frozen=True, eq=False)
class Target:
    """Σ_j w_j log (L_j p) under Dirichlet(α), α ≤ 1: whole prior counts above that have become reports of a category.

    Attributes
    ----------
    matrix, counts : (m, g), (m,) arrays
    alpha : (g,) array
        In (0, 1] up to rounding.
    log_factor : float
        Log of the constant by which the change of prior multiplies the evidence.
    top : float
        An upper bound on the log-likelihood.
    centre : (g,) array
        Where it is nearly reached.
    depth : float
        Windows leave out points whose log-likelihood is this far below ``top``.
    """

    matrix: np.ndarray
    counts: np.ndarray
    alpha: np.ndarray
    log_factor: float
    top: float
    centre: np.ndarray
    depth: float

    @classmethod
    def of(cls, merged):
        """Return the target of merged rows."""
        whole = np.ceil(merged.alpha - 1e-9) - 1
        extra = np.flatnonzero(whole > 0)
        matrix = np.concatenate([merged.matrix, np.eye(merged.n_groups)[extra]])
        counts = np.concatenate([merged.counts, whole[extra]])
        alpha = merged.alpha - whole
        log_factor = _log_beta(alpha) - _log_beta(merged.alpha)
        bound, centre = _maximise(matrix[None], counts)
        depth = 22 + 0.5 * (merged.n_groups - 1) * math.log1p(counts.sum())
        return cls(matrix, counts, alpha, log_factor, float(bound[0]), centre[0], depth)

    def deeper(self, nats):
        """Return the same target with wider windows."""
        return dataclasses.replace(self, depth=self.depth + nats)

    def ordered(self, order):
        """Return the same target with the categories in another order."""
        return dataclasses.replace(self, matrix=self.matrix[:, order], alpha=self.alpha[order], centre=self.centre[order])


@dataclass(frozen=True, eq=False)
class Moments:
    """What one product rule gives: moments of the group sums, log-evidence and the first stick's margin."""

    log_evidence: float
    mean: np.ndarray
    cov: np.ndarray
    left_out: float
    margin: "Margin | None"

    def distance(self, other):
        """Return the largest difference: means in sd, sd relative, log-evidence in nats."""
        sd, other_sd = np.sqrt(np.diag(self.cov)), np.sqrt(np.diag(other.cov))
        scale = np.maximum(sd, np.finfo(float).tiny)
        shift = np.abs(self.mean - other.mean) / scale
        return float(
            max(shift.max(), np.abs(sd - other_sd).max() / scale.max(), abs(self.log_evidence - other.log_evidence))
        )


# ---- windows: where the likelihood is ------------------------------------------------------------------------------
def _maximise(images, counts, iterations=60):
    """Return (upper bound on max_u Σ w log(Y u) over the simplex, u) for a batch of Y, shapes (N,), (N, k).

    Damped Newton on the self-concordant Σ w log(Y u) + Σ log u, whose maximiser is within k nats of the maximum; the bound
    is the certificate value + max_x (Yᵀ(w/Yu))_x − Σ w, valid at any u.
    """
    size, _, k = images.shape
    u = np.full((size, k), 1 / k)
    if k == 1:
        with np.errstate(divide="ignore"):
            return np.log(images[:, :, 0]) @ counts, u
    total = counts.sum()
    active = np.arange(size)
    for _ in range(iterations):
        y = images[active]
        v = u[active]
        ratio = y / np.einsum("nmk,nk->nm", y, v)[:, :, None]
        gradient = np.einsum("nmk,m->nk", ratio, counts) + 1 / v
        hessian = np.swapaxes(ratio, 1, 2) @ (counts[:, None] * ratio)
        hessian[:, np.arange(k), np.arange(k)] += 1 / v**2
        solved = np.linalg.solve(hessian, np.stack([gradient, np.ones_like(gradient)], axis=2))
        multiplier = solved[:, :, 0].sum(axis=1) / solved[:, :, 1].sum(axis=1)
        step = solved[:, :, 0] - multiplier[:, None] * solved[:, :, 1]
        decrement = np.sqrt(np.maximum(np.einsum("nk,nk->n", step, gradient - multiplier[:, None]), 0))
        far = decrement > 0.25
        length = np.ones(active.size)
        if far.any():
            length[far] = _step_length(ratio[far], counts, step[far] / v[far], step[far], decrement[far])
        u[active] = v + length[:, None] * step
        u[active] /= u[active].sum(axis=1, keepdims=True)
        active = active[decrement > 0.1]
        if not active.size:
            break
    fitted = np.einsum("nmk,nk->nm", images, u)
    slopes = np.einsum("nmk,nm->nk", images, counts / fitted)
    return np.log(fitted) @ counts + slopes.max(axis=1) - total, u


def _step_length(ratio, counts, relative, step, decrement):
    """Return step lengths between the one that is safe for self-concordant functions and the one that maximises."""
    rise = np.einsum("nmk,nk->nm", ratio, step)
    short = 1 / (1 + decrement)
    long = np.maximum(np.minimum(0.99 / np.maximum(-relative.min(axis=1), 1e-300), 2.0), short)
    for _ in range(6):
        t = np.sqrt(short * long)[:, None]
        uphill = (rise / np.maximum(1 + t * rise, 1e-300)) @ counts + (relative / (1 + t * relative)).sum(axis=1) > 0
        short, long = np.where(uphill, t[:, 0], short), np.where(uphill, long, t[:, 0])
    return short


def _windows(target, head, tails):
    """Return (low, high): the range of c outside which max_u ℓ(c head + (1 − c) tails u) is below top − depth, (N,) each.

    Parameters
    ----------
    head : (N, m) array
        L p where the stick is the whole rest.
    tails : (N, m, k) array
        L p where each of the k later categories is the whole rest.
    """
    size = len(head)
    low, high = np.zeros(size), np.ones(size)
    level = np.full(size, target.top - target.depth)
    with np.errstate(divide="ignore"):
        cut_low = np.log(tails.mean(axis=2)) @ target.counts < level
        cut_high = np.log(head) @ target.counts < level
    cut = np.flatnonzero(cut_low | cut_high)
    if not cut.size:
        return low, high
    bound, best = _maximise(np.concatenate([head[cut][:, :, None], tails[cut]], axis=2), target.counts)
    level[cut] = np.minimum(level[cut], bound - 4 - 2 * tails.shape[2])
    peak = np.full(size, 0.5)
    peak[cut] = best[:, 0]
    for side, rows in ((-1, np.flatnonzero(cut_low)), (1, np.flatnonzero(cut_high))):
        if not rows.size:
            continue
        reach = peak[rows] if side < 0 else 1 - peak[rows]
        inner, outer = np.full(rows.size, -23.0), np.zeros(rows.size)  # logs of distances from the peak, over the reach
        for _ in range(7):
            middle = (inner + outer) / 2
            c = (peak[rows] + side * reach * np.exp(middle))[:, None]
            mixed = (c * head[rows])[:, :, None] + (1 - c)[:, :, None] * tails[rows]
            inside = _maximise(mixed, target.counts)[0] >= level[rows]
            inner, outer = np.where(inside, middle, inner), np.where(inside, outer, middle)
        distance = np.exp(outer)
        end = np.where(distance > 0.8, 1.0, distance) * reach  # near the end go to it: the prior is singular there
        if side < 0:
            low[rows] = np.where(distance > 0.8, 0.0, peak[rows] - end)
        else:
            high[rows] = np.where(distance > 0.8, 1.0, peak[rows] + end)
    return low, high


# ---- rules ---------------------------------------------------------------------------------------------------------
@lru_cache(maxsize=64)
def _jacobi(nodes, low, high):
    """Return nodes and weights on [0, 1] for the weight t^{low − 1} (1 − t)^{high − 1}."""
    with np.errstate(invalid="ignore", divide="ignore"):  # SciPy computes 0/0 where low + high = 1 and then discards it
        x, w = special.roots_jacobi(nodes, high - 1, low - 1)
    return (1 + x) / 2, w / 2 ** (low + high - 1)


def _remainder(value):
    """Return value minus the whole number that leaves it in (0, 1], rounding apart."""
    return value - (math.ceil(value - 1e-9) - 1)


def _stick_rule(low, high, alpha, rest, nodes):
    """Return (t, v, 1 − v, log weights), each (N, nodes), that integrate against Beta(alpha, rest) over [low, high].

    The ends 0 and 1 carry the prior's singular factors in the weight of the rule; elsewhere they are part of the function.
    """
    width, left = (high - low)[:, None], _remainder(rest)
    shape = (low.size, nodes)
    t, log_weight = np.empty(shape), np.empty(shape)
    at_low, at_high = low == 0, high == 1
    for touch_low in (False, True):
        for touch_high in (False, True):
            rows = (at_low == touch_low) & (at_high == touch_high)
            x, w = _jacobi(nodes, alpha if touch_low else 1.0, left if touch_high else 1.0)
            t[rows], log_weight[rows] = x, np.log(w)
    v = low[:, None] + width * t
    complement = (1 - high)[:, None] + width * (1 - t)
    at_low, at_high = at_low[:, None], at_high[:, None]
    log_weight += np.log(width) + (alpha - 1) * np.where(at_low, np.log(width), np.log(v))
    log_weight += np.where(at_high, (left - 1) * np.log(width) + (rest - left) * np.log(complement), 0)
    log_weight += np.where(at_high, 0, (rest - 1) * np.log(complement)) - special.betaln(alpha, rest)
    return t, v, complement, log_weight


def _nodes(target, nodes, stick=0, p=None, rest=None, log_weight=None, first=None):
    """Yield (index of the first stick's node, p, log weight) of the product rule in batches, depth first."""
    g = target.alpha.size
    if p is None:
        p, rest, log_weight, first = np.zeros((1, g)), np.ones(1), np.zeros(1), np.zeros(1, dtype=int)
    images = p @ target.matrix.T
    head = images + rest[:, None] * target.matrix[:, stick]
    tails = images[:, :, None] + rest[:, None, None] * target.matrix[:, stick + 1 :]
    low, high = _windows(target, head, tails)
    tail = target.alpha[stick + 1 :].sum()
    if stick == 0:
        nodes = FIRST_STICK * nodes
    _, v, complement, log_rule = _stick_rule(low, high, target.alpha[stick], tail, nodes)
    p = np.repeat(p, nodes, axis=0)
    p[:, stick] = (rest[:, None] * v).ravel()
    rest = (rest[:, None] * complement).ravel()
    log_weight = (log_weight[:, None] + log_rule).ravel()
    first = np.arange(nodes) if stick == 0 else np.repeat(first, nodes)
    if stick == g - 2:
        p[:, -1] = rest
        with np.errstate(divide="ignore"):
            yield first, p, log_weight + np.log(p @ target.matrix.T) @ target.counts - target.top
        return
    for start in range(0, len(p), BATCH):
        s = slice(start, start + BATCH)
        yield from _nodes(
            target, nodes // FIRST_STICK if stick == 0 else nodes, stick + 1, p[s], rest[s], log_weight[s], first[s]
        )


def _integrate(target, nodes, watch):
    """Return the Moments by the product rule with so many nodes a stick."""
    g = target.alpha.size
    if g == 1:
        return Moments(target.log_factor + target.top, np.ones(1), np.zeros((1, 1)), 0.0, None)
    density, first_sum, second_sum = np.zeros(FIRST_STICK * nodes), np.zeros(g), np.zeros((g, g))
    batches = watch.track(
        _nodes(target, nodes),
        f"Quadrature, {nodes} nodes per dimension",
        FIRST_STICK * nodes ** (g - 1),
        weight=lambda batch: len(batch[1]),
    )
    for first, p, log_weight in batches:
        weight = np.exp(log_weight)
        density += np.bincount(first, weight, density.size)
        centred = p - target.centre
        first_sum += weight @ centred
        second_sum += centred.T @ (weight[:, None] * centred)
    total = density.sum()
    shift = first_sum / total
    cov = second_sum / total - np.outer(shift, shift)
    log_evidence = math.log(total) + target.top + target.log_factor
    left_out = math.exp(min(-target.depth - math.log(total), 700.0))
    return Moments(log_evidence, target.centre + shift, cov, left_out, Margin.of(target, density / total))


# ---- margins -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Margin:
    """Density t^{low − 1} (1 − t)^{high − 1} h(t) of t = (P_x − start)/width on [0, 1], with h known at Gauss nodes."""

    start: float
    width: float
    low: float
    high: float
    values: np.ndarray

    @classmethod
    def of(cls, target, probability):
        """Return the margin of the first category from the probabilities of the first stick's nodes."""
        head, tails = target.matrix[:, 0], target.matrix[:, 1:]
        start, end = (float(x[0]) for x in _windows(target, head[None], tails[None]))
        low = float(target.alpha[0]) if start == 0 else 1.0
        high = _remainder(float(target.alpha[1:].sum())) if end == 1 else 1.0
        return cls(start, end - start, low, high, probability / _jacobi(probability.size, low, high)[1])

    def density(self, t):
        """Return h(t) by barycentric interpolation."""
        nodes, _ = _jacobi(self.values.size, self.low, self.high)
        gaps = nodes[:, None] - nodes + np.eye(nodes.size)
        log_size = -np.log(np.abs(gaps)).sum(axis=1)
        weights = np.sign(gaps).prod(axis=1) * np.exp(log_size - log_size.max())
        away = np.asarray(t)[..., None] - nodes
        exact = away == 0
        share = weights / np.where(exact, 1.0, away)
        value = (share @ self.values) / share.sum(axis=-1)
        return np.where(exact.any(axis=-1), self.values[exact.argmax(axis=-1)], value)

    def below(self, t):
        """Return P(T ≤ t), from the other end where t is past the middle: the upper end may be singular."""
        if t > 0.5:
            return 1 - self.above(t)
        x, w = _jacobi(max(64, self.values.size), self.low, 1.0)
        return t**self.low * float(w @ ((1 - t * x) ** (self.high - 1) * self.density(t * x)))

    def above(self, t):
        """Return P(T > t), from the other end where t is before the middle."""
        if t <= 0.5:
            return 1 - self.below(t)
        x, w = _jacobi(max(64, self.values.size), self.high, 1.0)
        gap = 1 - t
        return gap**self.high * float(w @ ((1 - gap * x) ** (self.low - 1) * self.density(1 - gap * x)))

    def quantile(self, level):
        """Return the quantile of P_x, integrating from the nearer end."""
        if level <= 0.5:
            t = quantile(lambda t: self.below(t) - level)
        else:
            t = quantile(lambda t: (1 - level) - self.above(t))
        return self.start + self.width * t

    def share_quantile(self, level, alpha, rest):
        """Return the quantile of P_x u with u ~ Beta(alpha, rest) independent: a category that shares its group."""
        x, w = _jacobi(200, 1.0, self.high)
        powers = sum(x**k for k in range(6))  # 1 − x⁶ = (1 − x) powers: the upper end stays in the weight

        def below(c):
            t0 = min(max((c - self.start) / self.width, 0.0), 1.0)
            t = t0 + (1 - t0) * x**6  # the sixth power smooths the edge at P_x = c
            jacobian = 6 * x**5 * (1 - t0) ** self.high * powers ** (self.high - 1)
            inside = special.betainc(alpha, rest, np.minimum(1.0, c / (self.start + self.width * t)))
            part = float(w @ (jacobian * t ** (self.low - 1) * self.density(t) * inside))
            return part + (self.below(t0) if t0 > 0 else 0.0) - level

        return quantile(below, self.start + self.width)


def _intervals(merged, target, nodes, moments, tail, watch):
    """Return the equal-tailed interval ends of every category, shape (a,) each."""
    first, kind = merged.margins()
    ends = np.empty((len(first), 2))
    margins = {0: moments.margin}
    for i, x in enumerate(first):
        g, alpha = merged.groups[x], merged.member_alpha[x]
        rest = merged.alpha[g] - alpha
        alone = (merged.groups == g).sum() == 1
        if merged.n_groups == 1:
            ends[i] = special.betaincinv(alpha, rest, [tail, 1 - tail])
            continue
        if g not in margins:
            order = np.r_[g, np.delete(np.arange(merged.n_groups), g)]
            margins[g] = _integrate(target.ordered(order), nodes, watch).margin
        margin = margins[g]
        ends[i] = [
            margin.quantile(level) if alone else margin.share_quantile(level, alpha, rest) for level in (tail, 1 - tail)
        ]
    return ends[kind, 0], ends[kind, 1]


# ---- draws ---------------------------------------------------------------------------------------------------------
def _draws(target, nodes, size, rng, watch):
    """Return i.i.d. draws of the group sums, shape (size, g): nodes by their weights, then one exact move a stick."""
    g = target.alpha.size
    if g == 1:
        return np.ones((size, 1))
    keep, totals = [], []
    for _, p, log_weight in _nodes(target, nodes):
        weight = np.exp(log_weight)
        totals.append(weight.sum())
        keep.append((p, weight) if len(p) * len(totals) <= KEEP else None)
    chosen = rng.multinomial(size, np.array(totals) / sum(totals))
    p = np.concatenate(list(_pick(target, nodes, keep, chosen, rng)))
    rng.shuffle(p)
    for stick in watch.track(range(g - 1), "Draws"):
        for start in range(0, size, BATCH):
            s = slice(start, start + BATCH)
            p[s] = _move(target, p[s], stick, rng)
    return p


def _pick(target, nodes, keep, chosen, rng):
    """Yield the chosen number of nodes of every batch; batches that were not kept are computed again."""
    again = (None for _ in chosen) if all(k is not None for k in keep) else _nodes(target, nodes)
    for kept, count, batch in zip(keep, chosen, again, strict=True):
        if count:
            p, weight = kept if kept is not None else (batch[1], np.exp(batch[2]))
            yield p[rng.choice(len(p), size=count, p=weight / weight.sum())]


def _move(target, p, stick, rng):
    """Return p with one stick drawn from its conditional given the others."""
    rest = p[:, stick:].sum(axis=1)
    tail = p[:, stick + 1 :] / np.maximum(p[:, stick + 1 :].sum(axis=1, keepdims=True), np.finfo(float).tiny)
    prefix = p[:, :stick] @ target.matrix[:, :stick].T
    head = prefix + rest[:, None] * target.matrix[:, stick]
    foot = prefix + rest[:, None] * (tail @ target.matrix[:, stick + 1 :].T)
    low, high = _windows(target, head, foot[:, :, None])
    alpha, after = target.alpha[stick], target.alpha[stick + 1 :].sum()
    _, v, complement, log_weight = _stick_rule(low, high, alpha, after, DRAW_NODES)
    image = foot[:, None, :] * complement[:, :, None] + head[:, None, :] * v[:, :, None]
    with np.errstate(divide="ignore"):
        log_weight += np.log(image) @ target.counts
    weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    t = np.empty(len(p))
    for at_low in (False, True):
        for at_high in (False, True):
            rows = np.flatnonzero(((low == 0) == at_low) & ((high == 1) == at_high))
            if rows.size:
                ends = (float(alpha) if at_low else 1.0, _remainder(float(after)) if at_high else 1.0)
                t[rows] = _invert(weight[rows], *ends, rng)
    v = low + (high - low) * t
    out = p.copy()
    out[:, stick] = rest * v
    out[:, stick + 1 :] = (rest * (1 - high + (high - low) * (1 - t)))[:, None] * tail
    return out


@lru_cache(maxsize=16)
def _cumulative(nodes, low, high, cells):
    """Return the (nodes, cells + 1) matrix that takes weights at the nodes to the distribution function.

    Columns are equally spaced in the distribution function s of Beta(low, high), where the density is smooth.
    """
    margin = Margin(0.0, 1.0, low, high, np.eye(nodes))
    x, w = np.polynomial.legendre.leggauss(4)
    s = (np.arange(cells)[:, None] + (1 + x) / 2) / cells
    basis = np.stack(
        [dataclasses.replace(margin, values=row).density(special.betaincinv(low, high, s)) for row in np.eye(nodes)]
    )
    _, weights = _jacobi(nodes, low, high)
    parts = basis @ (w / 2 / cells) * special.beta(low, high) / weights[:, None]
    return np.concatenate([np.zeros((nodes, 1)), np.cumsum(parts, axis=1)], axis=1)


def _invert(weight, low, high, rng):
    """Return one draw in [0, 1] for each row of weights at the Gauss nodes of (low, high)."""
    cdf = np.maximum.accumulate(weight @ _cumulative(DRAW_NODES, low, high, DRAW_CELLS), axis=1)
    level = rng.random(len(weight)) * cdf[:, -1]
    cell = np.clip((cdf <= level[:, None]).sum(axis=1) - 1, 0, DRAW_CELLS - 1)
    row = np.arange(len(weight))
    inside = (level - cdf[row, cell]) / np.maximum(cdf[row, cell + 1] - cdf[row, cell], np.finfo(float).tiny)
    return special.betaincinv(low, high, (cell + inside) / DRAW_CELLS)


def _exact_nodes(merged):
    """Return the number of nodes a stick at which the rule over whole sticks is exact."""
    whole = np.ceil(merged.alpha - 1e-9) - 1
    degree = merged.counts.sum() + whole.sum() + math.floor((merged.alpha - whole).sum()) + 2  # 2 for second moments
    return int(degree) // 2 + 1


def _log_beta(alpha):
    return float(special.gammaln(alpha).sum() - special.gammaln(alpha.sum()))
