"""Reports that name two categories each, linked in a row, as in list experiments: exact, by a chain of tallies."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.special import betaln, digamma, gammaln, logsumexp, softmax

from ldpbayes.errors import InfeasibleError
from ldpbayes.inference.ends import tails, weighted_quantiles
from ldpbayes.inference.importance import Weighted, weigh
from ldpbayes.inference.verdict import Verdict
from ldpbayes.likelihoods import require_sampler
from ldpbayes.posteriors.base import AbstractPosterior, Pace, Plan, Sample
from ldpbayes.posteriors.merging import ends_of_tallies, moments_of_tallies
from ldpbayes.priors import Dirichlet

#: Most categories, and entries of the rows that are looked at.
MAX_CATEGORIES, MAX_ENTRIES = 200, 20_000
#: Reports of two categories that are tried as those of a block.
MAX_OPENED = 8
#: Most pairs of neighbouring states in all, and passes over them: without and with weights.
MAX_PAIRS, PASSES = 2e7, (4, 30)
#: Links of more reports are looked at on a lattice of so many states first; states so many nats below the best are left out.
LATTICE, FALL = 400, 60.0
#: Halvings that place a tilt, draws of each, and how near it is, in units of what moves the tally by an sd.
HALVINGS, TRIED, NEAR = 30, 200, 0.3
#: Where one tilt is not enough, there are those at these shares of the way from both boundaries to the mean tally, and none.
SPREAD = (0.0, 0.03, 0.1, 0.25, 0.5)
#: Of the draws so small a part, first, says where the tally is; tilts then lead to these places of its distribution, and
#: where they do not do, to those.
FIRST, WANTED = 4, ((0.005, 0.2, 0.5, 0.8, 0.995), (0.0005, 0.01, 0.05, 0.2, 0.4, 0.6, 0.8, 0.95, 0.99, 0.9995))
#: Steps beyond the outer tilts that bound the mass beyond the draws.
BEYOND = (0.1, 0.3, 1.0, 3.0, 10.0)
#: Proposals for each draw that is kept.
PROPOSALS = 4
#: Weights the largest of which is at most this share of all of them, and what may be missed, need no look at their tail.
BOUNDED = 0.01


@dataclass(frozen=True, eq=False)
class Links:
    """The reports as a chain: categories in a row, each linked with the next by the reports that name these two.

    Attributes
    ----------
    order : (a,) int array
        The categories along the chain.
    alpha, own : (a,) arrays
        Along the chain: concentrations, and reports that name this category alone.
    counts : (a − 1,) int array
        Reports that name a category and the next one, 0 between the ends of two chains.
    log_odds : (a − 1,) array
        Log of such a report's chance in the first category over that in the second.
    constant : float
        What is left of the log-likelihood.
    block : (a,) bool array
        Along the chain: the categories whose tally others weigh, none where nothing else is known of them.
    """

    order: np.ndarray
    alpha: np.ndarray
    own: np.ndarray
    counts: np.ndarray
    log_odds: np.ndarray
    constant: float
    block: np.ndarray
    windows: tuple = field(default=())

    @property
    def pairs(self) -> float:
        """Pairs of neighbouring states."""
        sizes = [len(states) for states in self.windows]
        return float(sum(a * b for a, b in pairwise(sizes)) + sum(sizes))

    def fitted(self, theta: float = 0.0) -> "Links":
        """Return the same with the states that matter under a tilt: how many of a link's reports its first category has."""
        steps = [max(int(n) // LATTICE, 1) for n in self.counts]
        lattices = tuple(np.unique(np.append(np.arange(0, n, step), n)) for n, step in zip(self.counts, steps, strict=True))
        rough = replace(self, windows=lattices)
        if max(steps, default=1) == 1:
            return rough
        windows = []
        for states, margin, step in zip(lattices, rough.margins(theta), steps, strict=True):
            likely = states[margin > margin.max() - FALL]
            windows.append(np.arange(max(likely[0] - step, 0), min(likely[-1] + step, states[-1]) + 1))
        return replace(self, windows=tuple(windows))

    def _node(self, i: int, theta: float, into: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Return the log-weight of category i by the states of the links before and after it, (before, after)."""
        most = int(self.own[i]) + int(into.max(initial=0)) + int(out.max(initial=0))
        table = gammaln(self.alpha[i] + np.arange(most + 1)) - gammaln(self.alpha[i])
        if self.block[i] and theta:
            table += theta * np.arange(most + 1)
        if len(into) > 1 and len(out) > 1 and (np.diff(into) == -1).all() and (np.diff(out) == 1).all():
            first = int(self.own[i]) + int(into[-1]) + int(out[0])  # every pair shifts the last one by a place
            return sliding_window_view(table[first:], len(out))[: len(into)][::-1]
        return table[int(self.own[i]) + into[:, None] + out[None, :]]

    def _link(self, i: int) -> np.ndarray:
        n, k = self.counts[i], self.windows[i]
        return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1) + k * self.log_odds[i]

    def _nodes(self, theta: float) -> Iterator[np.ndarray]:
        none = np.zeros(1, dtype=int)
        for i in range(len(self.order)):
            into = self.counts[i - 1] - self.windows[i - 1] if i else none
            yield self._node(i, theta, into, self.windows[i] if i < len(self.windows) else none)

    def forward(self, theta: float = 0.0) -> list[np.ndarray]:
        """Return the log-weight of all that stands before each link's state, that of the whole last."""
        out, message = [], np.zeros(1)
        for i, node in enumerate(self._nodes(theta)):
            message = _log_sums(message[:, None] + node, 0)
            if i < len(self.windows):
                message = message + self._link(i)
                out.append(message)
        return [*out, message]

    def margins(self, theta: float) -> list[np.ndarray]:
        """Return the log-probability of each link's states, up to a constant."""
        before, after, out = self.forward(theta), np.zeros(1), []
        for i, node in reversed(list(enumerate(self._nodes(theta)))):
            after = _log_sums(node + after, 1)
            if i:
                out.append(before[i - 1] + after)
                after = after + self._link(i - 1)
        return out[::-1]

    def tally_margins(self) -> list[np.ndarray]:
        """Return P(T_x = t), t = 0 … n, of each category along the chain."""
        before, after, out = [np.zeros(1), *self.forward()], np.zeros(1), []
        total, n = float(before[-1][0]), int(self.counts.sum() + self.own.sum())
        for i, node in reversed(list(enumerate(self._nodes(0.0)))):
            joint = np.exp(before[i][:, None] + node + after - total)
            into = self.counts[i - 1] - self.windows[i - 1] if i else np.zeros(1, dtype=int)
            window = self.windows[i] if i < len(self.windows) else np.zeros(1, dtype=int)
            place = int(self.own[i]) + into[:, None] + window[None, :]
            out.append(np.bincount(place.ravel(), joint.ravel(), n + 1))
            after = _log_sums(node + after, 1) + (self._link(i - 1) if i else 0.0)
        return [pmf / pmf.sum() for pmf in out[::-1]]

    def draw(self, before: list[np.ndarray], size: int, rng: np.random.Generator, theta: float = 0.0) -> np.ndarray:
        """Return draws of the tallies along the chain, (size, a), from what ``forward`` returned."""
        tallies = np.tile(self.own.astype(np.int64), (size, 1))
        state, nodes = np.zeros(size, dtype=int), list(self._nodes(theta))
        for i in range(len(self.windows) - 1, -1, -1):
            drawn, order = np.empty(size, dtype=int), np.argsort(state, kind="stable")
            values, first = np.unique(state[order], return_index=True)
            for value, places in zip(values, np.split(order, first[1:]), strict=True):
                logs = before[i] + nodes[i + 1][:, value]
                cumulative = np.exp(logs - logs.max()).cumsum()
                drawn[places] = np.searchsorted(cumulative, rng.random(len(places)) * cumulative[-1], side="right")
            state = np.minimum(drawn, len(self.windows[i]) - 1)
            taken_here = self.windows[i][state]
            tallies[:, i] += taken_here
            tallies[:, i + 1] += self.counts[i] - taken_here
        return tallies


@dataclass(frozen=True, eq=False)
class Sides:
    """What is known of a block of categories beside the chain: a Beta(b₁, b₀) for its share, instead of that of the chain.

    Given the tally M of the block its share is Beta(b₁ + M, b₀ + N − M), where the chain alone has Beta(A₁ + M, A₀ + N − M).

    Attributes
    ----------
    prior, chain : (2,) arrays
        b and A: of the block, and of the others.
    total : int
        N, the reports of the chain.
    """

    prior: np.ndarray
    chain: np.ndarray
    total: int

    def log_weight(self, tally: np.ndarray) -> np.ndarray:
        """Return the log of the weight of tallies of the block beside that of the chain, but for a constant."""
        return betaln(*_ends(self.prior, tally, self.total)) + self.log_given(tally)

    def log_given(self, tally: np.ndarray) -> np.ndarray:
        """Return log of Γ(A)/Γ(A + M) of the block and of the others, which the chain does not have."""
        inside, outside = _ends(self.chain, tally, self.total)
        return gammaln(self.chain).sum() - gammaln(inside) - gammaln(outside)

    def slope(self, tally: Any) -> Any:
        """Return the derivative of log_weight."""
        (b, c), (inside, outside) = _ends(self.prior, tally, self.total), _ends(self.chain, tally, self.total)
        return digamma(b) - digamma(c) - digamma(inside) + digamma(outside)


def _ends(prior, tally, n):
    """Return the parameters of the Beta of the share of a block, of n reports with these tallies of it."""
    return prior[0] + tally, prior[1] + n - tally


@dataclass(frozen=True)
class TallyChain(AbstractPosterior):
    """The law of the tallies T where reports name one or two categories and these form a row, hence P and F exactly.

    Of the n reports that may be either of two neighbours, k belong to the first: the k of neighbouring links meet in one
    category only, so that sums over all tallies go link by link, O(n²) in all. With a prior of two blocks, or reports that
    name one of two blocks, as direct questions beside a list experiment do, draws are weighted by the tally of a block.

    Parameters
    ----------
    draws, chains : int
        chains × draws independent draws of (P, F).

    References
    ----------
    Imai (2011), Journal of the American Statistical Association 106, on the likelihood of list experiments.
    """

    draws: int = 1000
    chains: int = 4
    name: ClassVar[str] = "tally_chain"
    order: ClassVar[float] = 3.5
    most: ClassVar[float] = 4e8
    pace: ClassVar[Pace] = Pace(0.03, 0.0, 2.5e-8)
    needs: ClassVar[tuple[str, ...]] = ("rows",)

    def prepare(self, problem):
        chain = links(problem)
        work = PASSES[chain[1] is not None] * chain[0].pairs
        how = "" if chain[1] is None else ", weighted by the tally of a block of categories"
        reason = f"Exact by a chain of tallies: every report names one category or two neighbours{how}."
        return Plan(reason, work, (problem, *chain))

    def run(self, plan, rng, watch):
        problem, chain, lists = plan.state
        if lists is not None:
            return lists.sample(self, plan.reason, rng)
        size, n = self.chains * self.draws, problem.n_users
        shape, back = (self.chains, self.draws, -1), np.argsort(chain.order)
        before = chain.forward()
        total = chain.alpha.sum()
        evidence = gammaln(total) - gammaln(total + n) + float(before[-1][0]) + chain.constant
        tallies = chain.draw(before, size, rng)[:, back]
        alpha = chain.alpha[back]
        gammas = rng.standard_gamma(alpha + tallies)
        margins = chain.tally_margins()
        pmfs = [margins[x] for x in back]
        return Sample(
            (gammas / gammas.sum(axis=1, keepdims=True)).reshape(shape),
            tallies.reshape(shape),
            verdict=Verdict(checked=plan.reason),
            exact=moments_of_tallies(pmfs, alpha, total + n) | {"log_evidence": evidence},
            intervals=lambda ci_prob: ends_of_tallies(pmfs, alpha, total + n, tails(ci_prob)[0]),
        )


def links(problem: Any) -> tuple[Links, "Lists | None"]:
    """Return (Links, Lists where draws are weighted by the tally of a block, else None) of a problem.

    Raises
    ------
    InfeasibleError
        Where the reports or the prior do not have that form, or the states are too many.
    """
    require_sampler(problem.likelihood)
    tree, a = problem.prior.tree(), problem.n_categories
    if problem.alpha is None and (tree is None or len(tree.blocks) != 2):
        raise InfeasibleError("A chain of tallies needs a Dirichlet prior, or a Dirichlet tree of two blocks.")
    if a > MAX_CATEGORIES or problem.entries > MAX_ENTRIES:
        raise InfeasibleError(f"A chain of tallies takes at most {MAX_CATEGORIES} categories and few distinct reports.")
    rows = problem.rows
    dense = rows.dense()
    within = problem.alpha if problem.alpha is not None else tree.conjugate[1]
    block = None if problem.alpha is not None else np.isin(np.arange(a), tree.blocks[0])
    named = (dense > 0).sum(axis=1)
    wide = np.flatnonzero(named > 2)
    # Reports that name more than two name one of two blocks; where there are none, those of two do if that opens a circle.
    blocks = [dense[j] > 0 for j in (wide[:1] if wide.size else np.flatnonzero(named == 2)[:MAX_OPENED])]
    blocks = blocks if wide.size else [None, *blocks]
    counts = np.rint(rows.counts).astype(int)
    for candidate in blocks if block is None else [block]:
        beside, constant, used = np.zeros(2, dtype=int), float(rows.log_constant), np.zeros(len(dense), dtype=bool)
        for side, which in enumerate(() if candidate is None else (candidate, ~candidate)):
            top = dense[:, which].max(axis=1, initial=0.0)
            mine = (top > 0) & (top - dense[:, which].min(axis=1, initial=1.0) < 1e-12) & ~dense[:, ~which].any(axis=1)
            beside[side] = counts[mine].sum()
            constant += float(counts[mine] @ np.log(top[mine]))
            used |= mine
        chain = chain_of(dense[~used], counts[~used], within, candidate, constant)
        if chain is not None:
            break
    else:
        raise InfeasibleError("A chain of tallies needs reports that name one category, or two neighbours in one row.")
    chain = bounded(chain)
    if candidate is None:
        return chain, None
    single = np.array([within[candidate].sum(), within[~candidate].sum()])
    prior = single if problem.alpha is not None else tree.conjugate[0]
    own = Sides(single, single, int(chain.counts.sum() + chain.own.sum()))
    places = np.flatnonzero(candidate), np.flatnonzero(~candidate)
    return chain, Lists(prior + beside, ((chain, own),), places, -betaln(*prior))


def is_chain(problem: Any) -> bool:
    """Return whether the reports of a problem form a chain: there the surrogate's expansion is not to be trusted."""
    try:
        return problem.keeps_reports and bool(links(replace(problem, prior=Dirichlet.jeffreys(problem.n_categories))))
    except InfeasibleError:
        return False


def bounded(chain: Links) -> Links:
    """Return a chain with the states that matter, refused where they are too many."""
    chain = chain.fitted()
    if chain.pairs > MAX_PAIRS:
        raise InfeasibleError(f"A chain of tallies takes at most {MAX_PAIRS:.0e} pairs of states, got {chain.pairs:.1e}.")
    return chain


def chain_of(
    dense: np.ndarray, counts: np.ndarray, alpha: np.ndarray, block: np.ndarray | None, constant: float
) -> Links | None:
    """Return the Links of rows that name one category, or two neighbours in some order of the categories; else None."""
    a = dense.shape[1]
    own: np.ndarray = np.zeros(a)
    edges: dict[tuple[int, ...], tuple[float, float]] = {}
    for row, count in zip(dense, counts, strict=True):
        named = np.flatnonzero(row)
        if len(named) > 2:
            return None
        constant += count * np.log(row[named[-1]])
        if len(named) == 1:
            own[named[0]] += count
            continue
        pair, odds = tuple(named.tolist()), float(np.log(row[named[0]] / row[named[1]]))
        before = edges.get(pair, (0, odds))
        if abs(before[1] - odds) > 1e-9:
            return None
        edges[pair] = (before[0] + count, odds)
    near = {x: [*(q for p, q in edges if p == x), *(p for p, q in edges if q == x)] for x in range(a)}
    order: list[int] = []
    for start in sorted(range(a), key=lambda x: (len(near[x]) > 1, x)):  # the ends of rows first; a circle has none
        x = start
        while x not in order:
            order.append(x)
            x = next((y for y in near[x] if y not in order), x)
    linked = [edges.get((p, q)) or edges.get((q, p)) for p, q in pairwise(order)]
    if sum(link is not None for link in linked) < len(edges):
        return None
    turns = [
        0.0 if link is None else link[1] * (1 if p < q else -1) for link, p, q in zip(linked, order, order[1:], strict=False)
    ]
    # Above, the chance in the later category was taken out of each report; a turned link has it in the earlier one.
    turned = [
        0 if link is None or p < q else link[0] * link[1] for link, p, q in zip(linked, order, order[1:], strict=False)
    ]
    members = np.zeros(a, dtype=bool) if block is None else block
    numbers = np.array([0 if link is None else link[0] for link in linked], dtype=int)
    return Links(
        np.array(order), alpha[order], own[order], numbers, np.array(turns), constant + float(sum(turned)), members[order]
    )


def _tilts(chain, sides, rng):
    """Return θ for which e^{θM} moves a chain's tally M to where the weights want it, by bisection; some where they spread.

    At the mode of chain and weights together θ is the slope of the log-weight. Where the slope grows with M, as next to
    M = 0 under a prior of the block's share that is flatter than the chain's, the target reaches from there to where the
    chain itself is, and no one tilt covers it.
    """
    slopes = sides.slope(np.arange(sides.total + 1.0))
    low, high = float(slopes.min()), float(slopes.max())
    for _ in range(HALVINGS):
        theta = 0.5 * (low + high)
        fitted = chain.fitted(theta)
        tally = fitted.draw(fitted.forward(theta), TRIED, rng, theta)[:, chain.block].sum(axis=1)
        mean, sd = float(tally.mean()), float(tally.std()) + 1.0
        low, high = (theta, high) if sides.slope(mean) > theta else (low, theta)
        if (high - low) * sd < NEAR:
            break
    if sides.slope(max(mean - sd, 0.0)) >= sides.slope(min(mean + sd, sides.total)):
        return [theta]
    shares = np.array(SPREAD)
    places = np.concatenate([shares * mean, sides.total - shares * (sides.total - mean)])
    return sorted({theta, 0.0, *sides.slope(places).tolist()})


@dataclass(frozen=True, eq=False)
class Tilted:
    """Draws of the tallies of a chain under some tilts e^{θM} of the tally M of its block, in the order of M.

    Attributes
    ----------
    drawn : (S, a) int array
        Along the chain.
    tally : (S,) int array
        M.
    total : int
        The largest possible M.
    tilts : tuple of (θ, log of the chain's mean of e^{θM})
    chain : Links
    """

    drawn: np.ndarray
    tally: np.ndarray
    total: int
    tilts: tuple[tuple[float, float], ...]
    chain: Links

    @classmethod
    def under(cls, chain: Links, total: int, tilts: Sequence[float], size: int, rng: np.random.Generator) -> "Tilted":
        """Return draws under tilts, as many under each."""
        number, drawn, fitted = -(-size // len(tilts)), [], []
        for theta in tilts:
            tilted = chain.fitted(theta)
            before = tilted.forward(theta)
            fitted.append((theta, float(before[-1][0])))
            drawn.append(tilted.draw(before, number, rng, theta))
        tally = np.concatenate(drawn)[:, chain.block].sum(axis=1)
        order = np.argsort(tally, kind="stable")
        return cls(np.concatenate(drawn)[order], tally[order], total, tuple(fitted), chain)

    @classmethod
    def roughly(cls, chain: Links, sides: Sides, size: int, rng: np.random.Generator) -> "Tilted":
        """Return so many draws near where the sides want them."""
        return cls.under(chain, sides.total, _tilts(chain, sides, rng), size, rng)

    def led(self, sides: Sides, wanted: Sequence[float], size: int, rng: np.random.Generator) -> "Tilted":
        """Return so many draws led to places of the distribution that the sides want, as these draws say."""
        values, logs = self.masses()
        weight = softmax(logs + sides.log_weight(values))
        places = weighted_quantiles(wanted, values, weight)
        tilts = sorted({_tilt_to(place, values, logs) for place in places})
        return Tilted.under(self.chain, self.total, tilts, size, rng)

    def masses(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (the distinct M, log of their estimated mass under the chain)."""
        values, counts = np.unique(self.tally, return_counts=True)
        return values, np.log(counts / len(self.tally)) - self.log_drawn(values)

    def log_drawn(self, tally: np.ndarray) -> np.ndarray:
        """Return log of the density that M was drawn with, over the chain's."""
        return logsumexp([theta * tally - log for theta, log in self.tilts], axis=0) - np.log(len(self.tilts))

    def weighed(self, values: np.ndarray, log_weight: Callable[[np.ndarray], np.ndarray]) -> Weighted:
        """Return the Weighted of values (S, k) under weights that are a function of M, beside the chain.

        Weights that repeat have no tail to fit. They do where none is large and M beyond the draws has next to no weight,
        whose chance is at most E[e^{θM}] e^{−θM} for every θ.
        """
        weights = weigh(values, log_weight(self.tally) - self.log_drawn(self.tally))
        every = np.arange(self.total + 1)
        missed = every[(every < self.tally[0]) | (every > self.tally[-1])]
        weight, tilts = log_weight(missed) - weights.log_evidence, list(self.tilts)
        ends = [end + sign * step for step in BEYOND for sign, end in ((-1, tilts[0][0]), (1, tilts[-1][0]))]
        for theta in (None, *ends):
            if theta is not None:
                tilts.append((theta, float(self.chain.fitted(theta).forward(theta)[-1][0])))
            bound = np.min([log - tilt * missed for tilt, log in tilts], axis=0)
            unseen = float(np.exp(np.minimum(weight + bound, 0.0)).sum())
            if unseen < BOUNDED:
                break
        return replace(weights, k_hat=0.0, unseen=unseen) if max(weights.weight.max(), unseen) < BOUNDED else weights


def _tilt_to(mean, values, logs):
    """Return θ for which e^{θM} moves the mean of M, whose chances are known up to a factor, to a place."""
    reach = FALL / max(float(np.ptp(values)), 1.0) + FALL / 10
    low, high = -reach, reach
    for _ in range(HALVINGS):
        theta = 0.5 * (low + high)
        low, high = (theta, high) if softmax(logs + theta * values) @ values < mean else (low, theta)
    return theta


@dataclass(frozen=True, eq=False)
class Lists:
    """Chains about the same block of categories, each of respondents of its own, of which every one has tallies.

    Of the n_k whose reports are in chain k let M_k be in the block. Its share is Beta(b + Σ M_k, c + Σ (n_k − M_k)) given
    these, so that chains meet in them alone. With h_k(M) the chance of the reports of chain k and of M, which draws of it
    give, P(M_1, M_2, …) ∝ Π h_k(M_k) B(b + Σ M_k, c + Σ (n_k − M_k)): a convolution.

    Attributes
    ----------
    prior : (2,) array
        b and c, with the reports that name the block alone or the others alone.
    chains : sequence of (Links, Sides)
        Within the block, and within the others, categories are combinations of theirs; the sides have their own shares.
    blocks : pair of int arrays
        The categories in the block and the others, in the order of these combinations.
    constant : float
        What is left of the log-evidence.
    """

    prior: np.ndarray
    chains: Sequence[tuple[Links, Sides]]
    blocks: Sequence
    constant: float

    @property
    def total(self) -> int:
        """Reports of all chains."""
        return sum(own.total for _, own in self.chains)

    def sample(self, method: AbstractPosterior, checked: str, rng: np.random.Generator) -> Sample:
        """Return the Sample of so many draws as a method makes."""
        size = method.chains * method.draws
        pools = self._led([], PROPOSALS * size, rng)
        for wanted in WANTED:
            pools = self._led(pools, PROPOSALS * size, rng, wanted)
            found = [self._judged(k, pools) for k in range(len(pools))]
            verdicts = [one.judged(size) for one in found]
            if all(one.accepted for one in verdicts):
                break
        chosen, log_evidence = self._drawn(pools, size, rng)
        total = sum(pool.tally[own] for pool, own in zip(pools, chosen, strict=True))
        share = rng.beta(*_ends(self.prior, total, self.total))
        blocks = [part[:, None] for part in (share, 1 - share)]
        for (chain, _), pool, own in zip(self.chains, pools, chosen, strict=True):
            back = np.argsort(chain.order)
            gammas, block = rng.standard_gamma(chain.alpha + pool.drawn[own])[:, back], chain.block[back]
            for t, part in enumerate((gammas[:, block], gammas[:, ~block])):
                split = part / part.sum(axis=1, keepdims=True)
                blocks[t] = (blocks[t][:, :, None] * split[:, None, :]).reshape(size, -1)
        places = np.concatenate(self.blocks)
        p = np.empty((size, places.size))
        p[:, places] = np.concatenate(blocks, axis=1)
        worth = 1 / sum(1 / one.effective_sample for one in found)
        return Sample(
            p.reshape(method.chains, method.draws, -1),
            effective=min(worth, float(size)),
            verdict=next((one for one in verdicts if not one.accepted), Verdict(checked=checked)),
            facts={
                "k_hat": max(one.k_hat for one in found),
                "shift_by_weights": max(one.shift for one in found),
                "log_evidence": log_evidence + sum(chain.constant for chain, _ in self.chains) + self.constant,
                "log_evidence_error": float(np.hypot.reduce([one.log_evidence_error for one in found])),
            },
        )

    def _masses(self, pools, without=None):
        """Return (distinct M, log h(M)) of all chains but one."""
        pairs = [(pool, own) for k, (pool, (_, own)) in enumerate(zip(pools, self.chains, strict=False)) if k != without]
        found = [(*pool.masses(), own) for pool, own in pairs]
        return [(values, logs + own.log_given(values)) for values, logs, own in found]

    def _led(self, pools, size, rng, wanted=None):
        """Return draws of each chain where it and the others want them: led by draws so far, or roughly where none are."""
        pools = list(pools)
        for k, (chain, own) in enumerate(self.chains):
            others = sum(one.total for j, (_, one) in enumerate(self.chains[: len(pools)]) if j != k)
            values, logs = _sums(self._masses(pools, k))
            b, c = _ends(self.prior, values, others)
            weight = softmax(logs + betaln(b, c))
            mean, square = weight @ (b / (b + c)), weight @ (b * (b + 1) / ((b + c) * (b + c + 1)))
            number = (mean - square) / (square - mean**2)  # b + c of the Beta of the same mean and sd
            near = replace(own, prior=number * np.array([mean, 1 - mean]))
            if wanted is None:
                pools.append(Tilted.roughly(chain, near, size // FIRST, rng))
            else:
                pools[k] = pools[k].led(near, wanted, size, rng)
        return pools

    def _judged(self, k, pools) -> Weighted:
        """Return the weights of the draws of one chain beside all others, judged by the share of the block."""
        (values, logs), own = _sums(self._masses(pools, k)), self.chains[k][1]

        def log_weight(tally):
            found, place = np.unique(tally, return_inverse=True)
            ends = _ends(self.prior, values + found[:, None], self.total)
            return (logsumexp(logs + betaln(*ends), axis=1) + own.log_given(found))[place]

        each, counts = np.unique(pools[k].tally, return_counts=True)
        b, c = _ends(self.prior, values + each[:, None], self.total)
        weight = softmax(logs + betaln(b, c), axis=1)
        means = np.repeat((weight * b / (b + c)).sum(axis=1), counts)
        return pools[k].weighed(means[:, None], log_weight)

    def _drawn(self, pools, size, rng):
        """Return (the places in each pool of draws of all tallies together, log of the mean chance of all reports)."""
        masses = self._masses(pools)
        before = [_sums(masses[:k]) for k in range(len(masses) + 1)]
        values, logs = before[-1]
        logs = logs + betaln(*_ends(self.prior, values, self.total))
        total = rng.choice(values, size=size, p=softmax(logs))
        chosen = []
        for k in range(len(pools) - 1, -1, -1):
            (own, mass), (sums, rest) = masses[k], before[k]
            tally = np.empty(size, dtype=int)
            for value in np.unique(total):
                mine = np.flatnonzero(total == value)
                place = np.minimum(np.searchsorted(sums, value - own), len(sums) - 1)
                each = np.where(sums[place] == value - own, mass + rest[place], -np.inf)
                tally[mine] = rng.choice(own, size=len(mine), p=softmax(each))
            first, last = (np.searchsorted(pools[k].tally, tally, side) for side in ("left", "right"))
            chosen.append(rng.integers(first, last))
            total = total - tally
        return chosen[::-1], float(logsumexp(logs))


def _sums(masses):
    """Return (sums of tallies, log of their mass) of lists' (tallies, log-masses), in the order of the sums."""
    values, logs = np.zeros(1, dtype=int), np.zeros(1)
    for own, mass in masses:
        total, each = (values[:, None] + own).ravel(), (logs[:, None] + mass).ravel()
        values, place = np.unique(total, return_inverse=True)
        top = np.full(len(values), -np.inf)
        np.maximum.at(top, place, each)
        logs = top + np.log(np.bincount(place, np.exp(each - top[place])))
    return values, logs


def _log_sums(logs, axis):
    """Return log Σ exp along an axis of finite numbers."""
    top = logs.max(axis=axis)
    return top + np.log(np.exp(logs - np.expand_dims(top, axis)).sum(axis=axis))
