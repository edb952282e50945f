"""What risk, bounds and metrics share: a number with its error, the information of one report, averages over a prior."""

import itertools
import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh_tridiagonal
from scipy.special import betaln, digamma, gammaln

from ldpbayes import checks
from ldpbayes.errors import ArgumentError, InfeasibleError

#: Largest b·a² for which the channel is summed over every report.
MAX_DENSE_WORK = 2e10
#: Batches of the jackknife that gives Monte Carlo informations their standard error.
BATCHES = 10


@dataclass(frozen=True)
class Value:
    """A number of the theory and how far to trust it.

    Attributes
    ----------
    value : float or array
    standard_error : float or array
        Monte Carlo standard error; 0 for closed forms and sums over all reports; for ``method="quadrature"`` the
        difference to a coarser rule.
    method : str
        "closed form", "sum over reports", "quadrature", "Monte Carlo", …
    """

    value: float
    standard_error: float = 0.0
    method: str = "closed form"

    def __float__(self):
        return float(self.value)

    def map(self, function, slope=None):
        """Return function(value) with the error multiplied by |slope| (the derivative; |function(value)| by default)."""
        value = function(self.value)
        return Value(value, abs(value if slope is None else slope) * self.standard_error, self.method)


@dataclass(frozen=True, eq=False)
class SupportLaw:
    """Reports that are exchangeable sets: given its size k a support is any k-subset S, with rows ∝ 1 + β[x ∈ S].

    Such a protocol is the mixture, with weights W_k, of subset selections of sizes k: every metric of one report is the
    W-average of theirs (Lopuhaä-Zwakenberg 2019, Prop. 7.8; Wang 2016, eq. 8).

    Attributes
    ----------
    n_categories : int
    beta : float
        e^ε − 1.
    sizes, weights : (m,) arrays
        Sizes k with W_k > 0, and W_k; the size of a support says nothing about the value.
    """

    n_categories: int
    beta: float
    sizes: np.ndarray
    weights: np.ndarray

    @property
    def scales(self):
        """1 + βk/a: the mean over x of a row's entries 1 + β[x ∈ S]."""
        return 1 + self.beta * self.sizes / self.n_categories

    def curvature(self):
        """Return c with tangent information c·I at uniform p: Σ_k W_k β² k(a−k) / (a(a−1)(1+βk/a)²).

        By symmetry Qᵀ diag(Qp)⁻¹ Q is c0 J + c I at p = 1/a, so its trace alone gives c.
        """
        a, k = self.n_categories, self.sizes
        return float(self.weights @ (self.beta**2 * k * (a - k) / (a * (a - 1) * self.scales**2)))


def support_law(protocol):
    """Return the SupportLaw of a protocol, or None where its reports are not exchangeable sets."""
    weights = protocol.support_sizes
    if weights is None or not math.isfinite(protocol.epsilon):
        return None
    sizes = np.flatnonzero(weights > 1e-18)
    return SupportLaw(protocol.n_categories, math.expm1(protocol.epsilon), sizes, weights[sizes])


# ---- the information of one report -------------------------------------------------------------------------------
def tangent_basis(n_categories):
    """Return U, shape (a, a−1): an orthonormal basis of {v : Σv = 0}, from one Householder reflection."""
    v = np.full(n_categories, -1 / math.sqrt(n_categories))
    v[0] += 1
    return (np.eye(n_categories) - 2 * np.outer(v, v) / (v @ v))[:, 1:]


def dense_feasible(protocol):
    """Return whether the information can be summed over every report."""
    b, a = protocol.n_outputs, protocol.n_categories
    return b is not None and b * a <= 2**24 and b * float(a) ** 2 <= MAX_DENSE_WORK


def informations(protocol, p, *, reports=20_000, random_seed=0):
    """Return (T, method): Fisher informations of one report about p on the simplex tangent, shape (m, a−1, a−1).

    T = Uᵀ Qᵀ diag(Qp)⁻¹ Q U with U = tangent_basis(a). One matrix where the sum over the reports is exact (over all of
    them, or by quadrature for exchangeable supports), else BATCHES independent Monte Carlo estimates of it.

    Parameters
    ----------
    protocol : AbstractProtocol
    p : (a,) array
    reports : int
        Reports simulated in all, where simulation is needed.
    random_seed : int, SeedSequence or Generator
    """
    a = protocol.n_categories
    p = checks.distribution(p, "p", a)
    law = support_law(protocol)
    if law is not None and np.ptp(p) <= 1e-15:
        return law.curvature() * np.eye(a - 1)[None], "closed form"
    if dense_feasible(protocol):
        return dense_informations(protocol.channel(), p[None]), "sum over reports"
    if law is not None and _inclusion_work(law) <= MAX_DENSE_WORK:
        basis = tangent_basis(a)
        return (law.beta**2 * basis.T @ _inclusions(law, p) @ basis)[None], "quadrature"
    return _simulated(protocol, p, reports, checks.generator(random_seed)), "Monte Carlo"


def dense_informations(channel, p):
    """Return the tangent informations of an explicit channel at each p of shape (m, a)."""
    directions = channel @ tangent_basis(channel.shape[1])
    mixed = p @ channel.T
    weight = np.divide(1.0, mixed, out=np.zeros_like(mixed), where=mixed > 0)
    if len(p) == 1:
        return (directions.T @ (weight[0][:, None] * directions))[None]
    size = directions.shape[1]
    pairs = (directions[:, :, None] * directions[:, None, :]).reshape(len(channel), -1)
    return (weight @ pairs).reshape(len(p), size, size)


def jackknife(function, batches, method):
    """Return function(mean of batches) as a Value, bias-corrected and with a delete-one standard error if m > 1."""
    whole, m = function(batches.mean(axis=0)), len(batches)
    if m == 1 or not np.isfinite(whole).all():
        return Value(whole, 0.0 * np.nan_to_num(whole, posinf=0.0, neginf=0.0), method)
    total = batches.sum(axis=0)
    left_out = np.array([function((total - batch) / (m - 1)) for batch in batches])
    error = np.sqrt((m - 1) / m * ((left_out - left_out.mean(axis=0)) ** 2).sum(axis=0))
    return Value(m * whole - (m - 1) * left_out.mean(axis=0), error, method)


def inverse(information):
    """Return the inverse of a tangent information, or None where the channel leaves some direction undetermined."""
    values, vectors = np.linalg.eigh(information)
    if values[0] <= 64 * len(values) * np.finfo(float).eps * max(values[-1], np.finfo(float).tiny):
        return None
    return (vectors / values) @ vectors.T


def _simulated(protocol, p, reports, rng):
    """Return BATCHES estimates of the tangent information from simulated reports."""
    basis, size = tangent_basis(protocol.n_categories), max(reports // BATCHES, 1)
    out = []
    for _ in range(BATCHES):
        found, counts = protocol.simulate(rng.multinomial(size, p), rng)
        seen = counts > 0
        rows = protocol.rows(found[seen], counts[seen])
        out.append(basis.T @ rows.gram(rows.counts / rows.matvec(p) ** 2) @ basis / size)
    return np.array(out)


# 1/(1+βs) = ∫ e^{−t(1+βs)} dt turns sums over subsets into products over categories. With t = e^τ the trapezoidal rule
# converges geometrically (the integrand is analytic for |Im τ| < π/2).
_STEP = 0.3


def _times(beta):
    tau = np.arange(-36 - math.log1p(beta), 3.8, _STEP)
    t = np.exp(tau)
    return t, _STEP * t * np.exp(-t)


def _odds(law):
    """Return θ/(1−θ) where W_k ∝ C(a,k)(θ/(1−θ))^k (1+βk/a), i.e. Bernoulli supports; else None."""
    a, k = law.n_categories, law.sizes
    if len(k) < 3 or (np.diff(k) != 1).any():
        return None
    log_mass = np.log(law.weights / law.scales) - (gammaln(a + 1) - gammaln(k + 1) - gammaln(a - k + 1))
    slope, intercept = np.polyfit(k, log_mass, 1, w=law.weights)
    if np.abs(log_mass - intercept - slope * k).max() > 1e-6:
        return None
    return math.exp(slope)


def _inclusion_work(law):
    """Return the flops of _inclusions, roughly: nodes × a², and 4 × the angles kept where sizes are fixed."""
    a, nodes = law.n_categories, len(_times(law.beta)[0])
    if _odds(law) is not None:
        return nodes * a**2
    spread = np.sqrt(law.sizes * (a - law.sizes) / a)
    return float((4 * nodes * a**2 * np.minimum(a / 2 + 1, 1.5 * a / np.maximum(spread, 1e-9))).sum())


def _inclusions(law, p):
    """Return K with K_xx' = E_base[1_x 1_x' / (1 + β p(S))]: the tangent information is β² Uᵀ K U.

    Rows are m_k(1 + β1_x), so Σ_S m (1+β1_x)(1+β1_x')/(1+βp(S)) is β² Σ_S m 1_x 1_x'/(1+βp(S)) plus terms that are
    constant along rows or columns, which vanish on the tangent.
    """
    t, weight = _times(law.beta)
    shrink = np.exp(-law.beta * np.outer(p, t))
    odds = _odds(law)
    if odds is not None:
        theta = odds / (1 + odds)
        factors = 1 - theta + theta * shrink
        included = theta * shrink / factors
        weight = weight * np.exp(np.log(factors).sum(axis=0)) / (1 + law.beta * theta)
        return _pairs(included, weight)
    return sum(
        w / scale * _fixed_size(law.n_categories, k, shrink, weight)
        for k, w, scale in zip(law.sizes, law.weights, law.scales, strict=True)
        if 0 < k < law.n_categories
    )


def _fixed_size(a, k, shrink, weight):
    """Return E over k-subsets S of 1_x 1_x' e^{−tβp(S)}, integrated over t: the coefficient of z^k by roots of unity."""
    theta = k / a
    angles = 2 * np.pi * np.arange((a + 1) // 2 + 1) / (a + 1)
    mirrored = np.where((angles == 0) | np.isclose(angles, np.pi), 1.0, 2.0)
    log_normaliser = (
        gammaln(a + 1) - gammaln(k + 1) - gammaln(a - k + 1) + k * math.log(theta) + (a - k) * math.log1p(-theta)
    )
    angles, mirrored = angles[angles <= np.pi + 1e-12], mirrored[angles <= np.pi + 1e-12]
    out = np.zeros((a, a))
    for angle, copies in zip(angles, mirrored, strict=True):
        turned = theta * np.exp(1j * angle) * shrink
        factors = 1 - theta + turned
        with np.errstate(divide="ignore"):
            mass = np.exp(np.log(factors).sum(axis=0) - 1j * angle * k - log_normaliser) * copies / (a + 1) * weight
        keep = np.abs(mass) > 1e-18
        if keep.any():
            out += _pairs(turned[:, keep] / factors[:, keep], mass[keep]).real
    return out


def _pairs(included, weight):
    """Return Σ_j weight_j (h_j h_jᵀ off the diagonal, h_j on it)."""
    out = (included * weight) @ included.T
    np.fill_diagonal(out, included @ weight)
    return out


# ---- averages over a Dirichlet prior -------------------------------------------------------------------------------
def beta_rule(p, q, order):
    """Return (nodes, weights) of the Gauss–Jacobi rule for E f(B), B ~ Beta(p, q); weights sum to one (Golub–Welsch)."""
    a, b, i = q - 1, p - 1, np.arange(order, dtype=float)
    total = 2 * i + a + b
    with np.errstate(invalid="ignore", divide="ignore"):
        diagonal = (b * b - a * a) / (total * (total + 2))
        squares = 4 * i * (i + a) * (i + b) * (i + a + b) / (total**2 * (total + 1) * (total - 1))
    diagonal[0] = (b - a) / (a + b + 2)
    if order > 1:
        squares[1] = 4 * (1 + a) * (1 + b) / ((a + b + 2) ** 2 * (a + b + 3))
    nodes, vectors = eigh_tridiagonal(diagonal, np.sqrt(squares[1:]))
    return np.clip((1 + nodes) / 2, 0.0, 1.0), vectors[0] ** 2


def beta_expectation(function, p, q, scale=1.0):
    """Return E f(B), B ~ Beta(p, q), for f that varies on [−1/scale, 1]; the Value's error is that to a coarser rule.

    The order grows with √scale, which keeps the rule geometric for functions singular at −1/scale.
    """
    order = int(min(max(24, 12 + 6 * math.sqrt(scale)), 600))
    fine, coarse = (
        float(weights @ function(nodes)) for nodes, weights in (beta_rule(p, q, order), beta_rule(p, q, 3 * order // 4))
    )
    return Value(fine, abs(fine - coarse), "quadrature")


def average(prior, function, *, draws=400, random_seed=0):
    """Return E f(P) for P ~ prior: product Gauss–Jacobi rules for up to four categories, else Monte Carlo.

    Parameters
    ----------
    prior : Dirichlet
    function : callable
        Takes P of shape (m, a), returns (m,) values.
    draws : int
        Monte Carlo draws of P.
    random_seed : int, SeedSequence or Generator
    """
    order = {2: 160, 3: 80, 4: 24}.get(prior.n_categories)
    if order is not None:
        fine, coarse = (float(w @ function(nodes)) for nodes, w in (_sticks(prior, order), _sticks(prior, 3 * order // 4)))
        error = abs(fine - coarse) if math.isfinite(fine) else 0.0
        return Value(fine, error, "quadrature")
    p = draw_distributions(prior, draws, checks.generator(random_seed))
    values = np.concatenate([function(part) for part in np.array_split(p, max(1, draws // 50))])
    if not np.isfinite(values).all():
        return Value(float(values.sum() if not np.isnan(values).any() else np.nan), 0.0, "Monte Carlo")
    return Value(float(values.mean()), float(values.std(ddof=1) / math.sqrt(draws)), "Monte Carlo")


def draw_distributions(prior, draws, rng):
    """Return draws of P, shape (draws, a), none exactly on the boundary."""
    p = np.maximum(rng.dirichlet(prior.alpha, draws), 1e-300)
    return p / p.sum(axis=1, keepdims=True)


def _sticks(prior, order):
    """Return (nodes (m, a), weights (m,)) of the stick-breaking product rule."""
    alpha, left, weights, columns = prior.alpha, np.ones(1), np.ones(1), []
    for i in range(alpha.size - 1):
        nodes, w = beta_rule(alpha[i], alpha[i + 1 :].sum(), order)
        columns = [np.repeat(c, order) for c in columns] + [np.multiply.outer(left, nodes).ravel()]
        left = np.multiply.outer(left, 1 - nodes).ravel()
        weights = np.multiply.outer(weights, w).ravel()
    return np.stack([*columns, left], axis=1), weights


def log_det_informations(protocol, p, *, reports=20_000, random_seed=0):
    """Return log det T at each p of shape (m, a), T the tangent information; −inf where the channel does not have full rank.

    det Qᵀ diag(Qp)⁻¹ Q = a det T.
    """
    rng = checks.generator(random_seed)
    if dense_feasible(protocol) and protocol.n_outputs * protocol.n_categories**2 <= 2**22:
        stack = dense_informations(protocol.channel(), p)
        return np.array([_log_det(t) for t in stack]) if len(p) < 64 else _log_dets(stack)
    out = []
    for row in p:
        batches, method = informations(protocol, row, reports=reports, random_seed=rng)
        out.append(jackknife(_log_det, batches, method).value)
    return np.array(out, dtype=float)


def _log_det(information):
    return float(_log_dets(information[None])[0])


def _log_dets(stack):
    values = np.linalg.eigvalsh(stack)
    floor = 64 * values.shape[1] * np.finfo(float).eps * values[:, -1]
    deficient = values[:, 0] <= floor
    values[deficient] = 1.0
    return np.where(deficient, -np.inf, np.log(values).sum(axis=1))


def log_det_gram(protocol, prior, *, draws=400, reports=20_000, random_seed=0):
    """Return E log det Qᵀ diag(QP)⁻¹ Q over the prior, as a Value; −inf where rank Q < a.

    Closed up to one quadrature for GRR under a symmetric prior (2019, Prop. 10.1): the determinant is
    β^{2(a−1)} (a+β)^{2−a} / Π_x (1 + βp_x).
    """
    a = protocol.n_categories
    law = support_law(protocol)
    if law is not None and law.sizes.tolist() == [1] and np.ptp(prior.alpha) == 0:
        alpha = float(prior.alpha[0])
        mean = beta_expectation(lambda b: np.log1p(law.beta * b), alpha, (a - 1) * alpha, 1 + law.beta)
        value = 2 * (a - 1) * math.log(law.beta) - (a - 2) * math.log(a + law.beta) - a * mean.value
        return Value(value, a * mean.standard_error, mean.method)
    rng = checks.generator(random_seed)
    # Where some report gives x away, det ~ 1/p_x: its logarithm is taken out and put back through its known mean.
    given_away = _given_away(protocol)

    def regular(p):
        return log_det_informations(protocol, p, reports=reports, random_seed=rng) + np.log(p[:, given_away]).sum(axis=1)

    found = average(prior, regular, draws=draws, random_seed=rng)
    known = (digamma(prior.alpha[given_away]) - digamma(prior.total)).sum()
    return Value(math.log(a) + found.value - float(known), found.standard_error, found.method)


def _given_away(protocol):
    """Return the categories that some report excludes all others of, shape (a,) of bool."""
    out = np.zeros(protocol.n_categories, dtype=bool)
    if not math.isfinite(protocol.epsilon) and dense_feasible(protocol):
        possible = protocol.channel() > 0
        out[possible[possible.sum(axis=1) == 1].argmax(axis=1)] = True
    return out


# ---- reports simulated or listed under a prior -----------------------------------------------------------------------
def exact_moments(collection, prior):
    """Return the exact posterior moments (fields mean, variance, log_evidence) by the library's exact method."""
    # The posterior family stands beside this one: the import is the default of an argument, never a need of the theory.
    from ldpbayes.posteriors.exact import Exact

    return Exact().moments(collection, prior)


def collection_of(protocol, reports, counts):
    """Return the one-channel Collection of these reports, with categories "0", "1", …"""
    from ldpbayes.tally import Collection, Tally

    return Collection([str(x) for x in range(protocol.n_categories)], [Tally(protocol, reports, counts)])


def n_tallies(protocol, n):
    """Return how many report tallies n users can produce, C(n+b−1, b−1); inf where reports cannot be listed."""
    return math.comb(n + protocol.n_outputs - 1, n) if protocol.n_outputs is not None else math.inf


def every_tally(n, size):
    """Return all non-negative integer vectors of this size that sum to n, shape (C(n+size−1, n), size)."""
    bars = np.array(list(itertools.combinations(range(n + size - 1), size - 1)), dtype=np.int64).reshape(-1, size - 1)
    edges = np.hstack([np.full((len(bars), 1), -1), bars, np.full((len(bars), 1), n + size - 1)])
    return np.diff(edges, axis=1) - 1


def log_multinomial(counts):
    """Return log n!/Π counts! along the last axis."""
    return gammaln(counts.sum(axis=-1) + 1) - gammaln(counts + 1).sum(axis=-1)


def over_reports(protocol, prior, n, function, *, draws, random_seed, moments, limit=1_000):
    """Return E f(collection, posterior moments, P) over P ~ prior and the reports of n users, as a Value.

    Every tally is listed where there are at most ``limit`` of them (then P is None), else P, the values and the reports
    are simulated.
    """
    checks.integer(n, "n", minimum=1)
    moments = moments or exact_moments
    if n_tallies(protocol, n) <= limit:
        reports, total, mass = protocol.all_reports(), 0.0, 0.0
        for counts in every_tally(n, protocol.n_outputs):
            collection = collection_of(protocol, reports, counts)
            if not (collection.rows.dense().max(axis=1) > 0).all():
                continue
            found = moments(collection, prior)
            weight = math.exp(found.log_evidence + log_multinomial(counts))
            total, mass = total + weight * function(collection, found, None), mass + weight
        if abs(mass - 1) > 1e-6:
            raise ArgumentError(f"moments must give evidences that sum to 1 over all reports, got {mass!r}.")
        return Value(total, 0.0, "sum over reports")
    if checks.integer(draws, "draws", minimum=0) < 2:
        raise InfeasibleError(f"{n} users can send more than {limit} tallies: Monte Carlo needs draws of at least 2.")
    rng, values = checks.generator(random_seed), []
    for p in draw_distributions(prior, draws, rng):
        reports, counts = protocol.simulate(rng.multinomial(n, p), rng)
        collection = collection_of(protocol, reports, counts)
        values.append(function(collection, moments(collection, prior), p))
    return Value(float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(draws)), "Monte Carlo")


def dirichlet_entropy(alpha):
    """Return h(P) in nats for P ~ Dirichlet(α), with respect to Lebesgue measure on the first a − 1 coordinates."""
    log_norm = gammaln(alpha).sum() - gammaln(alpha.sum())
    return float(log_norm + (alpha.sum() - alpha.size) * digamma(alpha.sum()) - ((alpha - 1) * digamma(alpha)).sum())


def beta_binomial_logpmf(n, p, q):
    """Return log P(K = 0..n), K ~ BetaBinomial(n, p, q)."""
    k = np.arange(n + 1)
    return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1) + betaln(k + p, n - k + q) - betaln(p, q)
