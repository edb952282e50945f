"""Posteriors by populations of chains, in plain NumPy: any prior that is written down here, and any rows of a likelihood.

A prior is a map from standard normal numbers and Beta variates; a population of draws from it is tempered towards the
posterior, and moved on the way by differences of its members. ``fuzz_numbers.py`` compares with it.
"""

import math
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
from scipy import optimize, special
from worlds import softmax


@dataclass
class Unknowns:
    """A prior: normal numbers x, logits of Beta variates whose parameters hang on x, and what they stand for."""

    normals: int
    betas: object  # x (N, normals) → parameters (N, m), (N, m)
    of: object  # (x, log v, log(1 − v)) → log P (N, cells, a), {name: (N, …)}

    def draw(self, size, rng):
        x = rng.standard_normal((size, self.normals))
        return np.hstack([x, np.subtract(*(log_gamma(shape, rng) for shape in self.betas(x)))])

    def log_density(self, z):
        x, logit = z[:, : self.normals], z[:, self.normals :]
        b, c = self.betas(x)
        log = b * special.log_expit(logit) + c * special.log_expit(-logit) - special.betaln(b, c)
        return log.sum(axis=1) - 0.5 * (x**2).sum(axis=1)

    def values(self, z):
        logit = z[:, self.normals :]
        return self.of(z[:, : self.normals], special.log_expit(logit), special.log_expit(-logit))


def log_gamma(shape, rng):
    """Return logarithms of Gamma variates, however small the shape."""
    return np.log(rng.standard_gamma(shape + 1)) + np.log(rng.random(np.shape(shape))) / shape


def from_sticks(log_v, log_rest):
    """Return log P (…, a) of a − 1 sticks."""
    before = np.cumsum(log_rest, axis=-1)
    return np.concatenate([log_v[..., :1], log_v[..., 1:] + before[..., :-1], before[..., -1:]], axis=-1)


def log_softmax(eta):
    return eta - special.logsumexp(eta, axis=-1, keepdims=True)


def constant(b, c):
    """Return parameters of Beta variates that hang on nothing."""
    return lambda x: tuple(np.broadcast_to(np.asarray(one, float), (len(x), np.size(one))) for one in (b, c))


def dirichlet(alpha, cells=1):
    """P_c ~ Dirichlet(α), independent."""
    alpha = np.asarray(alpha, dtype=float)
    rest = np.cumsum(alpha[::-1])[::-1][1:]
    shape = (-1, cells, alpha.size - 1)
    return Unknowns(
        0,
        constant(np.tile(alpha[:-1], cells), np.tile(rest, cells)),
        lambda x, v, w: (from_sticks(v.reshape(shape), w.reshape(shape)), {}),
    )


def concentration(a, cells=1, median=0.5, sd=1.0):
    """P_c ~ Dirichlet(α, …, α), log α ~ N(log median, sd²), one α for all cells."""
    after = np.tile(np.arange(a - 1, 0, -1.0), cells)

    def betas(x):
        alpha = median * np.exp(sd * x)
        return alpha * np.ones(after.size), alpha * after

    shape = (-1, cells, a - 1)
    return Unknowns(
        1, betas, lambda x, v, w: (from_sticks(v.reshape(shape), w.reshape(shape)), {"alpha": median * np.exp(sd * x[:, 0])})
    )


def over_floor(a, median=0.5, sd=1.0, evenness=4.0):
    """P = λE + (1 − λ)D, λ = max(0, 2Φ(u) − 1), D under the learnt prior, E ~ Dirichlet(κ, …)."""
    after = np.arange(a - 1, 0, -1.0)

    def betas(x):
        alpha, one = median * np.exp(sd * x[:, 1:]), np.ones((len(x), a - 1))
        return np.hstack([alpha * one, evenness * one]), np.hstack([alpha * after * one, evenness * after * one])

    def of(x, v, w):
        share = np.maximum(0, 2 * special.ndtr(x[:, :1]) - 1)
        d, e = (np.exp(from_sticks(v[:, part], w[:, part])) for part in (slice(a - 1), slice(a - 1, None)))
        log = np.log(np.maximum(share * e + (1 - share) * d, 1e-300))
        return log[:, None], {"alpha": median * np.exp(sd * x[:, 1]), "floor": share[:, 0]}

    return Unknowns(2, betas, of)


NOTHING = constant(np.zeros(0), np.zeros(0))


def walk(a, rate=None, local=0.5):
    """η_x = walk with steps σ t₂ + τ N(0, 1); σ ~ Exponential(rate), τ ~ Exponential with mean ``local``."""
    rate = math.sqrt(a) / 1.4 if rate is None else rate

    def of(x, v, w):
        sigma, tau = -special.log_ndtr(-x[:, :1]) / rate, -special.log_ndtr(-x[:, 1:2]) * local
        u = special.ndtr(-np.abs(x[:, 2 : a + 1]))  # the tail, for the quantile of t with two degrees of freedom
        steps = np.sign(x[:, 2 : a + 1]) * (1 - 2 * u) / np.sqrt(2 * u * (1 - u))
        eta = np.concatenate([np.zeros((len(x), 1)), (sigma * steps).cumsum(axis=1)], axis=1) + tau * x[:, a + 1 :]
        return log_softmax(eta)[:, None], {"sigma": sigma[:, 0], "tau": tau[:, 0]}

    return Unknowns(2 * a + 1, NOTHING, of)


def pooled(a, root, scale=1.0, centre=1.5, by_category=False):
    """P_c = softmax(μ + σ e_c), e = root @ N(0, 1), σ ~ HalfNormal(scale), μ ~ N(0, centre²)."""
    rank = root.shape[1]
    scales = a if by_category else 1

    def of(x, v, w):
        mu, sigma = centre * x[:, :a], scale * np.abs(x[:, a : a + scales])
        effect = sigma[:, None] * (root @ x[:, a + scales :].reshape(-1, rank, a))
        named = {"pooled": softmax(mu), "effect": effect - effect.mean(axis=2, keepdims=True)}
        return log_softmax(mu[:, None] + effect), named | {"scale": sigma if by_category else sigma[:, 0]}

    return Unknowns(a + scales + rank * a, NOTHING, of)


def log_linear(sizes, main, scale, order):
    """Effects of sets of attributes, normal, centred over each: of main effects with a known sd, else σ ~ Exponential."""
    cells = np.stack([axis.ravel() for axis in np.indices(sizes)])
    parts = []
    for m in range(1, order + 1):
        for chosen in combinations(range(len(sizes)), m):
            basis = np.ones((1, cells.shape[1]))
            for k in chosen:
                values, vectors = np.linalg.eigh(np.eye(sizes[k]) - 1 / sizes[k])
                contrasts = vectors[:, values > 0.5].T[:, cells[k]]
                basis = (basis[:, None] * contrasts[None]).reshape(-1, cells.shape[1])
            parts.append((m, basis))
    learnt = max(order - 1, 0)

    def of(x, v, w):
        sds = np.hstack([np.full((len(x), 1), main), -special.log_ndtr(-x[:, :learnt]) * scale])
        eta, at = 0.0, learnt
        for m, basis in parts:
            eta = eta + (sds[:, m - 1 : m] * x[:, at : at + len(basis)]) @ basis
            at += len(basis)
        return log_softmax(eta)[:, None], {}

    return Unknowns(learnt + sum(len(basis) for _, basis in parts), NOTHING, of)


def independent(sizes, alphas):
    """The product of independent Dirichlet attributes."""
    parts = [dirichlet(np.full(size, alpha)) for size, alpha in zip(sizes, alphas, strict=True)]
    return _joined(parts, lambda logs: (logs[0][:, :, None] + logs[1][:, None, :]).reshape(len(logs[0]), -1))


def tree(a, first, second, split):
    """Blocks {0, 2} and the rest with shares Dirichlet(first, second), split symmetrically."""
    blocks = [0, 2], [1, *range(3, a)]
    parts = [dirichlet([first, second]), *(dirichlet(np.full(len(block), split)) for block in blocks)]

    def join(logs):
        out = np.empty((len(logs[0]), a))
        for k, block in enumerate(blocks):
            out[:, block] = logs[0][:, k : k + 1] + logs[1 + k]
        return out

    return _joined(parts, join)


def _joined(parts, join):
    sizes = np.cumsum([0, *(one.betas(np.zeros((1, 0)))[0].shape[1] for one in parts)])

    def of(x, v, w):
        cut = [slice(*pair) for pair in pairwise(sizes)]
        return join([one.of(x, v[:, at], w[:, at])[0][:, 0] for one, at in zip(parts, cut, strict=True)])[:, None], {}

    return Unknowns(0, lambda x: tuple(np.hstack([one.betas(x)[k] for one in parts]) for k in (0, 1)), of)


def root_of_walk(cells):
    """e_t − e_{t−1} ~ N(0, 1), Σ e = 0."""
    steps = np.tril(np.ones((cells, cells)))[:, 1:]
    return steps - steps.mean(axis=0)


def ring(cells):
    """Neighbours in a ring; the pairs of two or three cells alike."""
    weights = np.zeros((cells, cells))
    for c in range(cells):
        weights[c, (c + 1) % cells] = weights[(c + 1) % cells, c] = 1
    return weights


def root_of_graph(weights):
    """Precision D − W, scaled to a geometric mean of the variances of one."""
    values, vectors = np.linalg.eigh(np.diag(weights.sum(axis=1)) - weights)
    root = vectors[:, 1:] / np.sqrt(values[1:])
    return root / np.exp(0.5 * np.log((root**2).sum(axis=1)).mean())


def with_others(prior, cells, owners, b, c):
    """Return the prior of P′: of each owner a share δ ~ Beta(b, c) denies; of owner None, a share γ ignores the device."""
    extra = cells * len(owners)

    def betas(x):
        more = np.full((len(x), extra), b), np.full((len(x), extra), c)
        return tuple(np.hstack(pair) for pair in zip(prior.betas(x), more, strict=True))

    def of(x, v, w):
        at = v.shape[1] - extra
        log, named = prior.of(x, v[:, :at], w[:, :at])
        v, w = (one[:, at:].reshape(-1, cells, len(owners)) for one in (v, w))
        if owners == [None]:
            return np.concatenate([log + w, v], axis=2), named | {"noncompliance": np.exp(v[..., 0])}
        deny = log[..., owners] + v
        log[..., owners] += w
        return np.concatenate([log, deny], axis=2), named | {"denial": np.exp(v), "deniers": np.exp(deny).sum(axis=2)}

    return Unknowns(prior.normals, betas, of)


@dataclass
class Population:
    """Chains under the posterior: values (times, chains, …), and the log-evidence with its error."""

    p: np.ndarray  # (times, chains, cells, a′)
    named: dict
    log_evidence: float
    log_evidence_error: float


def _moved(z, log_prior, log_like, temper, both, rng):
    """Move each half by differences of the other half: proposals are symmetric, whatever the scale."""
    half = len(z) // 2
    for mine, other in ((slice(half), slice(half, None)), (slice(half, None), slice(half))):
        size, d = z[mine].shape
        left, right = (rng.integers(len(z[other]), size=size) for _ in range(2))
        mask = rng.random((size, d)) < rng.choice([1.0, 0.5, 0.2], size=(size, 1))
        step = rng.uniform(0.2, 1.2, (size, 1)) * 2.4 / np.sqrt(2 * np.maximum(mask.sum(axis=1, keepdims=True), 1))
        step[rng.random(size) < 0.1] = 1.0
        proposal = z[mine] + mask * (step * (z[other][left] - z[other][right]) + 1e-5 * rng.standard_normal((size, d)))
        new_prior, new_like = both(proposal)
        gain = new_prior - log_prior[mine] + temper * (new_like - log_like[mine])
        taken = np.log(rng.random(size)) < gain
        for kept, new in ((z, proposal), (log_prior, new_prior), (log_like, new_like)):
            kept[mine][taken] = new[taken]


def _mixed(z, *state, most):
    """Move until hardly any coordinate remembers where it began."""
    begun = z.copy()
    for k in range(most):
        _moved(z, *state)
        if k % 4 == 3:
            a, b = begun - begun.mean(axis=0), z - z.mean(axis=0)
            if ((a * b).sum(axis=0) < 0.3 * np.sqrt((a**2).sum(axis=0) * (b**2).sum(axis=0))).all():
                break


def short(step, height):
    """Return by how much the draws are worth more than half of their number where they have weights exp(step height)."""
    weight = np.exp(step * height)
    return weight.sum() ** 2 / (weight**2).sum() - weight.size / 2


def population(prior, cells, rng, size=4000, times=8, most=60):
    """Temper the likelihood of cells [(rows, counts), …] with moves in between (Del Moral, Doucet and Jasra 2006)."""

    def log_likelihood(z):
        p = np.exp(prior.values(z)[0])
        return sum(
            (np.log(np.maximum(p[:, c] @ rows.T, 1e-300)) @ counts for c, (rows, counts) in enumerate(cells)),
            np.zeros(len(z)),
        )

    def both(z):
        return prior.log_density(z), log_likelihood(z)

    z, temper, evidence, error = prior.draw(size, rng), 0.0, 0.0, 0.0
    log_prior, log_like = both(z)
    while temper < 1:
        height, step = log_like - log_like.max(), 1 - temper
        if short(step, height) < 0:
            step = optimize.brentq(short, 0, step, args=(height,), rtol=1e-6)
        weight = np.exp(step * height)
        evidence += step * log_like.max() + math.log(weight.mean())
        error += (weight.var() / weight.mean() ** 2) / size
        temper = 1.0 if step >= 1 - temper else temper + step
        at = np.searchsorted(np.cumsum(weight / weight.sum()), (np.arange(size) + rng.random()) / size).clip(max=size - 1)
        order = rng.permutation(at)
        z, log_prior, log_like = z[order], log_prior[order], log_like[order]
        _mixed(z, log_prior, log_like, temper, both, rng, most=most)
    kept = []
    for _ in range(times):
        _mixed(z, log_prior, log_like, 1.0, both, rng, most=most)
        kept.append(z.copy())
    log, named = zip(*(prior.values(one) for one in kept), strict=True)
    named = {name: np.stack([one[name] for one in named]) for name in named[0]}
    return Population(np.exp(np.stack(log)), named, evidence, 2 * math.sqrt(error))


def of_chains(values):
    """Return (mean, its error, sd, its error) of values (times, chains), by what differs between chains."""
    mean = values.mean()
    square = (values - mean) ** 2
    sd = math.sqrt(square.mean())
    error, square_error = (one.mean(axis=0).std() / math.sqrt(one.shape[1]) for one in (values, square))
    return mean, error, sd, square_error / (2 * sd) if sd else 0.0


def members(p, cell, rng):
    """Return numbers of people of each kind, for P′ (N, a′) of one cell (rows, counts)."""
    total = np.zeros(p.shape)
    for row, count in zip(*cell, strict=True):
        chance = p * row
        total += rng.multinomial(int(count), chance / chance.sum(axis=1, keepdims=True))
    return total


def answers_of(p, a, owners):
    """Return P of all, or of those who follow the device, from P′ (…, a′); numbers of people become shares likewise."""
    out = p[..., :a].copy()
    for k, owner in enumerate(owners):
        if owner is not None:
            out[..., owner] += p[..., a + k]
    with np.errstate(invalid="ignore"):
        return out / out.sum(axis=-1, keepdims=True)
