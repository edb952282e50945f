"""Random problems of inference, and their answers by NumPy alone: sums over tallies, dense grids, draws from the prior.

Nothing here but the makers of problems names the package: probabilities of reports are written out from the definitions of
the protocols. ``make fuzz-numbers`` and ``tests/test_fuzz_numbers.py`` compare what the public door says with them.
"""

import math
from dataclasses import dataclass, field

import numpy as np
from scipy import optimize, special, stats

import ldpbayes as lb
from ldpbayes.protocols import Channel, designs
from ldpbayes.protocols.subset import SubsetSelection
from ldpbayes.protocols.unary import UnaryEncoding


# ---- reports ---------------------------------------------------------------------------------------------------------
@dataclass
class Answers:
    """Reports of one protocol: as the package takes them, how probable each is from each value, and unbiased weights."""

    protocol: object
    reports: np.ndarray
    rows: np.ndarray  # (m, a): P(report | value)
    weights: np.ndarray | None = None  # (m, a): what the oracle adds up, or None
    said: str = ""
    laws: dict = field(default_factory=dict)  # how probable each report is from those who ignore the device
    user: np.ndarray | None = None  # who sent each report, where rows are of users


def _matrix_answers(protocol, matrix, truth, rng, said):
    """Draw reports of a written-out channel (b, a); where it is square and regular, its inverse unbiases."""
    reports = np.array([rng.choice(len(matrix), p=matrix[:, x]) for x in truth], dtype=int)
    square = matrix.shape[0] == matrix.shape[1] and np.linalg.cond(matrix) < 1e4
    weights = np.linalg.inv(matrix).T[reports] if square else None
    laws = {"uniform": np.full(len(reports), 1 / len(matrix))}
    if said.startswith("GRR"):
        laws |= {f"always c{x}": 1.0 * (reports == x) for x in range(len(matrix))}
    return Answers(protocol, reports, matrix[reports], weights, said, laws)


def _bits_answers(protocol, bits, rows, p, q, said):
    laws = {"fair coins": np.full(len(bits), 0.5 ** bits.shape[1]), "no bits": 1.0 * ~bits.any(axis=1)}
    return Answers(protocol, np.packbits(bits, axis=1), rows, (bits - q) / (p - q), said, laws)


def grr(a, truth, rng):
    epsilon = rng.uniform(0.3, 4)
    matrix = (np.ones((a, a)) + (math.exp(epsilon) - 1) * np.eye(a)) / (math.exp(epsilon) + a - 1)
    return _matrix_answers(lb.GRR(a, epsilon), matrix, truth, rng, f"GRR({a}, {epsilon:.3f})")


def unary(a, truth, rng):
    epsilon, optimal = rng.uniform(0.5, 4), bool(rng.integers(2))
    p, q = 0.5, 1 / (math.exp(epsilon) + 1)
    if not optimal:
        p, q = special.expit(epsilon / 2), special.expit(-epsilon / 2)
    chances = np.where(np.eye(a, dtype=bool), p, q)  # of bit y from value x
    bits = rng.random((len(truth), a)) < chances[:, truth].T
    rows = np.exp(bits @ np.log(chances) + ~bits @ np.log1p(-chances))
    made = (UnaryEncoding.optimized if optimal else UnaryEncoding.symmetric)(a, epsilon)
    return _bits_answers(made, bits, rows, p, q, f"{'OUE' if optimal else 'SUE'}({a}, {epsilon:.3f})")


def subset(a, truth, rng):
    epsilon, size = rng.uniform(0.5, 4), int(rng.integers(1, a))
    within = size * math.exp(epsilon) / (size * math.exp(epsilon) + a - size)  # that the value is in the set
    bits = np.zeros((len(truth), a), dtype=bool)
    for i, x in enumerate(truth):
        others = [y for y in range(a) if y != x]
        mine = rng.random() < within
        bits[i, rng.choice(others, size - mine, replace=False)] = True
        bits[i, x] = mine
    rows = np.where(bits, within / math.comb(a - 1, size - 1), (1 - within) / math.comb(a - 1, size))
    q = within * (size - 1) / (a - 1) + (1 - within) * size / (a - 1)  # that another value is in the set
    made = _bits_answers(SubsetSelection(a, epsilon, size), bits, rows, within, q, f"Subset({a}, {epsilon:.3f}, {size})")
    made.laws = {"uniform": np.full(len(bits), 1 / math.comb(a, size))}
    return made


def channel(a, truth, rng):
    matrix = rng.dirichlet(np.full(a + 1, 0.7), a).T * 0.9 + 0.1 / (a + 1)
    return _matrix_answers(Channel(matrix), matrix, truth, rng, f"Channel({np.round(matrix, 4).tolist()})")


def forced(a, truth, rng):
    honest, wanted = rng.uniform(0.3, 0.95), rng.integers(0, 4, a)
    wanted[rng.integers(a)] += 1
    matrix = honest * np.eye(a) + (1 - honest) * (wanted / wanted.sum())[:, None]
    made = designs.forced_response(honest, wanted.tolist())
    return _matrix_answers(made, matrix, truth, rng, f"forced_response({honest:.3f}, {wanted.tolist()})")


def binary(a, truth, rng):
    p, q = rng.uniform(0.55, 0.95), rng.uniform(0.05, 0.45)
    name = str(rng.choice(["warner", "crosswise", "triangular", "kuk", "unrelated_question"]))
    settings = (p, q) if name in ("kuk", "unrelated_question") else (p,)
    matrix = {
        "warner": [[p, 1 - p], [1 - p, p]],
        "crosswise": [[p, 1 - p], [1 - p, p]],
        "triangular": [[1 - p, 0], [p, 1]],
        "kuk": [[1 - q, 1 - p], [q, p]],
        "unrelated_question": [[p + (1 - p) * (1 - q), (1 - p) * (1 - q)], [(1 - p) * q, p + (1 - p) * q]],
    }[name]
    return _matrix_answers(getattr(designs, name)(*settings), np.array(matrix), truth, rng, f"{name}{np.round(settings, 4)}")


def answers(a, truth, rng):
    """Return the answers of such true values under a random protocol."""
    makers = [grr, unary, channel, forced] + [subset] * (a > 2) + [binary] * (a == 2)
    return makers[rng.integers(len(makers))](a, truth, rng)


def hadamard(a, truth, rng):
    epsilon, k = rng.uniform(0.3, 4), 2 ** a.bit_length()
    same = np.array([[(x & y).bit_count() % 2 == 0 for x in range(1, a + 1)] for y in range(k)])
    matrix = np.where(same, math.exp(epsilon), 1) * 2 / k / (1 + math.exp(epsilon))
    return _matrix_answers(lb.protocols.HadamardResponse(a, epsilon), matrix, truth, rng, f"Hadamard({a}, {epsilon:.3f})")


def _xxh32(seed, digit):
    """Return the xxHash of one decimal digit as text."""
    state = (seed + 374761393 + 1 + (digit + 48) * 374761393) % 2**32
    state = (state << 11 | state >> 21) % 2**32 * 2654435761 % 2**32
    state = (state ^ state >> 15) * 2246822519 % 2**32
    state = (state ^ state >> 13) * 3266489917 % 2**32
    return state ^ state >> 16


def hashing(a, truth, rng):
    epsilon = rng.uniform(0.5, 4)
    g, seeds = round(math.exp(epsilon)) + 1, rng.integers(2**32, size=len(truth))
    buckets = np.array([[_xxh32(int(seed), x) % g for x in range(a)] for seed in seeds])
    stay = math.exp(epsilon) / (math.exp(epsilon) + g - 1)
    own = buckets[np.arange(len(truth)), truth]
    value = np.where(rng.random(len(truth)) < stay, own, (own + rng.integers(1, g, len(truth))) % g)
    rows = np.where(buckets == value[:, None], stay, (1 - stay) / (g - 1))
    made = lb.protocols.LocalHashing(a, epsilon, family="xxhash")
    return Answers(made, np.column_stack([seeds, value]), rows, said=f"OLH({a}, {epsilon:.3f})")


def rappor(a, truth, rng):
    cohorts, hashes, k = int(rng.integers(1, 4)), int(rng.integers(1, 3)), int(rng.integers(3, 9))
    q, f = rng.uniform(0.6, 0.95), rng.uniform(0, 0.5)
    positions = [[sorted(rng.choice(k, hashes, replace=False).tolist()) for _ in range(cohorts)] for _ in range(a)]
    one, zero = q - f * (2 * q - 1) / 2, 1 - q + f * (2 * q - 1) / 2  # that a bit of the filter is sent, and another one
    chances = np.full((cohorts, a, k), zero)
    for x, c in np.ndindex(a, cohorts):
        chances[c, x, positions[x][c]] = one
    cohort = rng.integers(cohorts, size=len(truth))
    bits = rng.random((len(truth), k)) < chances[cohort, truth]
    rows = np.where(bits[:, None], chances[cohort], 1 - chances[cohort]).prod(axis=2) / cohorts
    made = lb.protocols.Rappor(a, 1 - q, q, f, k, cohorts, hashes, "positions", positions=positions)
    sent = np.hstack([cohort.astype(">u4")[:, None].view(np.uint8), np.packbits(bits, axis=1)])
    return Answers(made, sent, rows, said=f"RAPPOR({a}, {q:.3f}, {f:.3f}, {positions})")


# ---- sums over tallies --------------------------------------------------------------------------------------------------
@dataclass
class Tallies:
    """Weights of all tallies (k_1, …, k_a) of true values: Σ over assignments of Π_i P(report_i | value_i)."""

    k: np.ndarray  # (s, a)
    log_weight: np.ndarray  # (s,)
    n: int = field(init=False)

    def __post_init__(self):
        self.n = int(self.k[0].sum())

    @classmethod
    def of(cls, rows):
        """Multiply the linear forms Σ_x P(report | x) z_x, of positive terms; tallies that do not occur are left out."""
        n, a = rows.shape
        place = (n + 1) ** np.arange(a)  # of one value x in the number that stands for a tally
        tallies, weight, shift = np.zeros(1, dtype=np.int64), np.ones(1), 0.0
        for row in rows:
            possible = np.flatnonzero(row)
            grown = np.concatenate([tallies + place[x] for x in possible])
            tallies, at = np.unique(grown, return_inverse=True)
            weight = np.bincount(at, np.concatenate([weight * row[x] for x in possible]))
            weight, shift = weight / weight.max(), shift + math.log(weight.max())
        return cls(tallies[:, None] // place % (n + 1), np.log(weight) + shift)

    def under(self, alpha):
        """Return (log-evidence, weights of the tallies) under Dirichlet(alpha), by products: no large numbers cancel."""

        def rising(first):
            """Return log first (first + 1) … (first + k − 1) for k = 0..n."""
            return np.append(0.0, np.log(first + np.arange(self.n)).cumsum())

        log = self.log_weight - rising(np.sum(alpha))[-1]
        for one, k in zip(alpha, self.k.T, strict=True):
            log = log + rising(one)[k]
        evidence = special.logsumexp(log)
        return evidence, np.exp(log - evidence)


def beta_moments(a, b):
    """Return the mean and the second, third and fourth central moment of Beta distributions."""
    n = a + b
    variance = a * b / (n**2 * (n + 1))
    third = 2 * variance * (b - a) / (n * (n + 2))
    fourth = 3 * variance * (2 * n**2 + a * b * (n - 6)) / (n**2 * (n + 2) * (n + 3)) * 1.0
    return a / n, variance, third, fourth


class Law:
    """The posterior of one collection under a mixture of Dirichlet priors: [(log weight, alpha), …]."""

    def __init__(self, tallies, priors):
        self.tallies, self.parts = tallies, []
        found = [(log, alpha, *tallies.under(alpha)) for log, alpha in priors]
        found = [(log + evidence, alpha, weight) for log, alpha, evidence, weight in found]
        self.log_evidence = special.logsumexp([one[0] for one in found])
        for log, alpha, weight in found:
            if log - self.log_evidence > -40:
                self.parts.append((math.exp(log - self.log_evidence), np.asarray(alpha, float), weight))

    def betas(self, chosen):
        """Return (weight, a, b): the sum of some shares is this mixture of Beta distributions."""
        out = []
        for share, alpha, weight in self.parts:
            k = self.tallies.k[:, chosen].sum(axis=1)
            law, mine = np.bincount(k, weight), alpha[chosen].sum()
            at = np.flatnonzero(law > 1e-18)
            out.append((share * law[at], mine + at, alpha.sum() - mine + self.tallies.n - at))
        return tuple(np.concatenate(column) for column in zip(*out, strict=True))

    def share(self, chosen, prob=0.95):
        """Return (mean, sd, lower, upper) of the sum of some shares."""
        weight, a, b = self.betas(chosen)
        centre = a / (a + b)
        mean = weight @ centre
        variance = weight @ (centre * b / ((a + b) * (a + b + 1)) + (centre - mean) ** 2)

        def end(level):
            return optimize.brentq(lambda p: weight @ special.betainc(a, b, p) - level, 0, 1, xtol=1e-13)

        return mean, math.sqrt(variance), end((1 - prob) / 2), end((1 + prob) / 2)

    def difference(self, i, j):
        """Return (mean, sd) of P_i − P_j."""
        mean = square = 0.0
        for share, alpha, weight in self.parts:
            after, total = alpha + self.tallies.k, alpha.sum() + self.tallies.n
            one, two = after[:, i], after[:, j]
            mean += share * (weight @ (one - two)) / total
            square += share * (weight @ (one * (one + 1) + two * (two + 1) - 2 * one * two)) / (total * (total + 1))
        return mean, math.sqrt(max(square - mean**2, 0))

    def count(self, x):
        """Return the law of how many true values are x, (n + 1,)."""
        law = np.zeros(self.tallies.n + 1)
        for share, _, weight in self.parts:
            law += share * np.bincount(self.tallies.k[:, x], weight, law.size)
        return law


def learnt(a):
    """Return symmetric Dirichlet priors with log α ~ N(log ½, 1), as a fine grid."""
    t = np.linspace(-7, 7, 113)
    log = stats.norm.logpdf(t) + math.log(t[1] - t[0])
    return [(one, np.full(a, 0.5 * math.exp(at))) for one, at in zip(log, t, strict=True)]


# ---- draws from the prior -----------------------------------------------------------------------------------------------
def weighted(values, log_likelihood):
    """Return (mean, sd, error of the mean, log-evidence, its error, effective draws) of draws from the prior."""
    top = log_likelihood.max()
    weight = np.exp(log_likelihood - top)
    evidence, size = weight.mean(), len(weight)
    error = weight.std() / math.sqrt(size) / evidence
    weight /= weight.sum()
    mean = weight @ values
    sd = np.sqrt(weight @ (values - mean) ** 2)
    return mean, sd, np.sqrt(weight**2 @ (values - mean) ** 2), top + math.log(evidence), error, 1 / (weight**2).sum()


def softmax(eta):
    p = np.exp(eta - eta.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True)


def smooth_draws(a, size, rng):
    """σ ~ Exponential(√a/1.4), τ ~ Exponential(2), steps σ t₂, deviations τ N(0, 1)."""
    sigma, tau = rng.exponential(1.4 / math.sqrt(a), (size, 1)), rng.exponential(0.5, (size, 1))
    walk = np.concatenate([np.zeros((size, 1)), (sigma * rng.standard_t(2, (size, a - 1))).cumsum(axis=1)], axis=1)
    return softmax(walk + tau * rng.standard_normal((size, a)))


def hierarchical_draws(cells, a, scale, centre, size, rng):
    """μ ~ N(0, centre²), σ ~ HalfNormal(scale), p_c = softmax(μ + σ e_c)."""
    mu, sigma = centre * rng.standard_normal((size, 1, a)), np.abs(scale * rng.standard_normal((size, 1, 1)))
    return softmax(mu + sigma * rng.standard_normal((size, cells, a)))


def log_likelihood(p, rows):
    return np.log(np.maximum(p @ rows.T, 1e-300)).sum(axis=1)


# ---- a regression on a grid ---------------------------------------------------------------------------------------------
def two_groups(chances, group):
    """Return (means, sds, log-evidence) of both coefficients of y ~ g: a grid over standardized unknowns.

    ``chances`` (n, 2) are P(report | value), ``group`` zeros and ones; b₀ + b₁ (g − ḡ)/s with N(0, π²) and N(0, 2.5²).
    """
    spread, middle = group.std(), group.mean()
    lines = np.linspace(-16, 16, 801), np.linspace(-14, 14, 801)
    one, two = np.meshgrid(*lines, indexing="ij")
    log = stats.norm.logpdf(one, 0, math.pi) + stats.norm.logpdf(two, 0, 2.5)
    for g in (0, 1):
        share = special.expit(one + two * (g - middle) / spread)
        rows, counts = np.unique(chances[group == g], axis=0, return_counts=True)
        for row, count in zip(rows, counts, strict=True):
            log += count * np.log(row[0] * (1 - share) + row[1] * share)
    area = (lines[0][1] - lines[0][0]) * (lines[1][1] - lines[1][0])
    evidence = special.logsumexp(log)
    weight = np.exp(log - evidence)
    values = np.stack([one - two * middle / spread, two / spread])
    mean = (weight * values).sum(axis=(1, 2))
    sd = np.sqrt((weight * (values - mean[:, None, None]) ** 2).sum(axis=(1, 2)))
    return mean, sd, evidence + math.log(area)


# ---- further worlds ------------------------------------------------------------------------------------------------------
def zeros(a, truth, rng):
    """A channel with zeros, and with an answer that nobody gives."""
    matrix = rng.dirichlet(np.full(a + 1, 0.7), a).T * (rng.random((a + 1, a)) < 0.6)
    matrix += np.eye(a + 1, a) * rng.uniform(0.2, 2)
    matrix /= matrix.sum(axis=0)
    return _matrix_answers(Channel(matrix), matrix, truth, rng, f"Channel({np.round(matrix, 4).tolist()})")


def direct(a, truth, rng):
    return _matrix_answers(designs.direct(a), np.eye(a), truth, rng, "direct")


def history(a, truth, rng):
    """Users who report one to three times by GRR, with fresh or with permanent noise."""
    epsilon, permanent = rng.uniform(0.3, 2), rng.random() < 0.5
    matrix = (np.ones((a, a)) + (math.exp(epsilon) - 1) * np.eye(a)) / (math.exp(epsilon) + a - 1)
    times = 1 + np.arange(len(truth)) % 3
    kept = np.array([rng.choice(a, p=matrix[:, x]) for x in truth], dtype=int) if permanent else np.asarray(truth, int)
    user = np.repeat(np.arange(len(truth)), times)
    reports = np.array([rng.choice(a, p=matrix[:, x]) for x in kept[user]], dtype=int)
    rows = np.ones((len(truth), a))
    np.multiply.at(rows, user, matrix[reports])  # P(reports | what is kept)
    counts = np.zeros((len(truth), a))
    np.add.at(counts, (user, reports), 1)
    rows *= (special.factorial(times) / special.factorial(counts).prod(axis=1))[:, None]  # in any order
    rows *= (np.bincount(times)[times] / len(times))[:, None]  # by the law of the number of reports
    made = lb.protocols.MemoizedGRR(a, epsilon, epsilon) if permanent else lb.GRR(a, epsilon)
    rows = rows @ matrix if permanent else rows
    return Answers(made, reports, rows, said=f"{'memoized' if permanent else 'repeated'} GRR({a}, {epsilon:.3f})", user=user)


def collected(a, shares, channels, wrapper, rng):
    """Return (owners, data, [(rows of P′, counts) of each cell], what each channel is).

    An owner is the category that some deny where asked directly, or None for those who ignore the device.
    """
    names, most, said, held, cells = [f"c{x}" for x in range(a)], rng.choice([30, 300, 3000]), {}, [], []
    *owners, claim = rng.permutation(a)[: rng.choice([2, 3]) if a > 2 else 2].tolist() if wrapper == "deniers" else [-1]
    owners, law = [None] if wrapper == "law" else owners, {}
    for p in shares:
        tallies, rows = {}, []
        for i, (maker, seed) in enumerate(channels):
            name, n = f"channel {i}", 1 if rng.random() < 0.05 else int(np.exp(rng.uniform(np.log(5), np.log(most))))
            made = maker(a, rng.choice(a, n, p=p), np.random.default_rng(seed))
            said[name], tallies[name] = made.said, lb.Tally(made.protocol, made.reports, name=name, user=made.user)
            if wrapper == "law":
                law[name] = sorted(made.laws)[seed % len(made.laws)]
                said[name] += f" [{law[name]}]"
            others = [made.laws[law[name]] if x is None else made.rows[:, claim if maker is direct else x] for x in owners]
            rows.append(np.column_stack([made.rows, *others]))
        held.append(lb.Collection(names, list(tallies.values())))
        cells.append(np.unique(np.concatenate(rows), axis=0, return_counts=True))
    data = held[0] if len(shares) == 1 else lb.Cells({f"g{c}": one for c, one in enumerate(held)}, by="group")
    if wrapper == "deniers":
        data = data.with_deniers([names[x] for x in owners], names[claim], "channel 0")
    if wrapper == "law":
        data = data.with_noncompliers({"others": law})
    return owners, data, cells, list(said.values())
