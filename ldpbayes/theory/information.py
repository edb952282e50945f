"""The information of one report: Fisher's about P on the simplex tangent, Shannon's about its user's value.

Protocols whose reports are exchangeable sets have both in closed form up to one quadrature, at any size.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import helmert
from scipy.special import digamma, gammaln, xlogy

from ldpbayes import checks
from ldpbayes.arrays import FloatArray
from ldpbayes.constants import STEP
from ldpbayes.priors import Dirichlet
from ldpbayes.theory import base
from ldpbayes.theory.base import Value

__all__ = [
    "ExchangeableSets",
    "conditional_information",
    "dense_feasible",
    "dense_informations",
    "explicit_channel",
    "informations",
    "log_det_gram",
    "log_det_informations",
    "log_dets",
    "reports_information",
    "support_law",
    "value_entropy",
]

#: Time: Largest b·a² for which the channel is summed over every report.
MAX_DENSE_WORK = 2e10
#: Mathematics: Batches of the jackknife that gives Monte Carlo informations their standard error.
BATCHES = 10


@dataclass(frozen=True, eq=False)
class ExchangeableSets:
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


def support_law(protocol) -> ExchangeableSets | None:
    """Return the ExchangeableSets of a protocol, or None where its reports are not exchangeable sets."""
    weights = protocol.support_sizes
    if weights is None or not math.isfinite(protocol.epsilon):
        return None
    sizes = np.flatnonzero(weights > 1e-18)
    return ExchangeableSets(protocol.n_categories, math.expm1(protocol.epsilon), sizes, weights[sizes])


# ---- the information of one report -------------------------------------------------------------------------------
def dense_feasible(protocol) -> bool:
    """Return whether the information can be summed over every report."""
    b, a = protocol.n_outputs, protocol.n_categories
    return b is not None and b * a <= 2**24 and b * float(a) ** 2 <= MAX_DENSE_WORK


def explicit_channel(protocol) -> FloatArray | None:
    """Return a small (b, a) channel with this protocol's information, for many p at once; None where it would be large.

    Its own channel where that is listed, else one report for every set of categories where supports are exchangeable.
    """
    a = protocol.n_categories
    if dense_feasible(protocol) and protocol.n_outputs * a**2 <= 2**22:
        return protocol.channel()
    law = support_law(protocol)
    if law is None or 2**a * a**2 > 2**22:
        return None
    members = (np.arange(2**a)[:, None] >> np.arange(a)) & 1
    mass = np.zeros(a + 1)
    mass[law.sizes] = law.weights / law.scales / np.exp(gammaln(a + 1) - gammaln(law.sizes + 1) - gammaln(a - law.sizes + 1))
    return mass[members.sum(axis=1)][:, None] * (1 + law.beta * members)


@base.described
def informations(protocol, p, *, simulations=20_000, random_seed=0) -> tuple[FloatArray, str]:
    """Return (T, method): Fisher informations of one report about p on the simplex tangent, shape (m, a−1, a−1).

    T = Uᵀ Qᵀ diag(Qp)⁻¹ Q U with U = helmert(a).T of SciPy. One matrix where the sum over the reports is exact (over all of
    them, or by quadrature for exchangeable supports), else BATCHES independent Monte Carlo estimates of it.

    Parameters
    ----------
    simulations : int
        Reports simulated in all, where simulation is needed.
    """
    a = protocol.n_categories
    p = checks.distribution(p, "p", a)
    law = support_law(protocol)
    if law is not None and np.ptp(p) <= 1e-15:
        return law.curvature() * np.eye(a - 1)[None], "closed form"
    listing = float(protocol.n_outputs) * a**2 if dense_feasible(protocol) else MAX_DENSE_WORK
    if law is not None and _inclusion_work(law) < listing:
        basis = helmert(a).T
        return (law.beta**2 * basis.T @ _inclusions(law, p) @ basis)[None], "quadrature"
    if protocol.n_outputs is not None and protocol.n_outputs * float(a) ** 2 <= MAX_DENSE_WORK:
        return _listed(protocol, p)[None], "sum over reports"
    return _simulated(protocol, p, simulations, checks.generator(random_seed)), "Monte Carlo"


def dense_informations(channel, p) -> FloatArray:
    """Return the tangent informations of an explicit channel at each p of shape (m, a)."""
    directions = channel @ helmert(channel.shape[1]).T
    mixed = p @ channel.T
    weight = np.divide(1.0, mixed, out=np.zeros_like(mixed), where=mixed > 0)
    size = directions.shape[1]
    pairs = (directions[:, :, None] * directions[:, None, :]).reshape(len(channel), -1)
    return (weight @ pairs).reshape(len(p), size, size)


def _listed(protocol, p):
    """Return the tangent information summed over every report, in parts: Σ_y e^c L_y L_yᵀ / (L_y p) with Q_y = e^c L_y."""
    reports, total, size = protocol.all_reports(), 0.0, max(1, 2**22 // p.size)
    for start in range(0, len(reports), size):
        block = reports[start : start + size]
        rows = protocol.rows(block, np.ones(len(block)))
        total = total + rows.gram(np.exp(rows.log_constants) / rows.matvec(p))
    basis = helmert(p.size).T
    return basis.T @ total @ basis


def _simulated(protocol, p, simulations, rng):
    """Return BATCHES estimates of the tangent information from simulated reports."""
    basis, size = helmert(protocol.n_categories).T, max(simulations // BATCHES, 1)
    out = []
    for _ in range(BATCHES):
        reports, counts = protocol.simulate(rng.multinomial(size, p), rng)
        seen = counts > 0
        rows = protocol.rows(reports[seen], counts[seen])
        out.append(basis.T @ rows.gram(rows.counts / rows.matvec(p) ** 2) @ basis / size)
    return np.array(out)


# 1/(1+βs) = ∫ e^{−t(1+βs)} dt turns sums over subsets into products over categories. With t = e^τ the trapezoidal rule
# converges geometrically (the integrand is analytic for |Im τ| < π/2).


def _times(beta):
    tau = np.arange(-36 - math.log1p(beta), 3.8, STEP)
    t = np.exp(tau)
    return t, STEP * t * np.exp(-t)


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
    log_normalizer = (
        gammaln(a + 1) - gammaln(k + 1) - gammaln(a - k + 1) + k * math.log(theta) + (a - k) * math.log1p(-theta)
    )
    angles, mirrored = angles[angles <= np.pi + 1e-12], mirrored[angles <= np.pi + 1e-12]
    out = np.zeros((a, a))
    for angle, copies in zip(angles, mirrored, strict=True):
        turned = theta * np.exp(1j * angle) * shrink
        factors = 1 - theta + turned
        with np.errstate(divide="ignore"):
            mass = np.exp(np.log(factors).sum(axis=0) - 1j * angle * k - log_normalizer) * copies / (a + 1) * weight
        keep = np.abs(mass) > 1e-18
        if keep.any():
            out += _pairs(turned[:, keep] / factors[:, keep], mass[keep]).real
    return out


def _pairs(included, weight):
    """Return Σ_j weight_j (h_j h_jᵀ off the diagonal, h_j on it)."""
    out = (included * weight) @ included.T
    np.fill_diagonal(out, included @ weight)
    return out


# ---- log determinants over a prior ------------------------------------------------------------------------------------
def at_each(protocol, function, *, simulations, random_seed):
    """Return (p of shape (m, a) → the function of the tangent informations and p, (m,); whether it takes them one by one).

    Where informations are simulated, the value is corrected for the bias that their error brings.

    Parameters
    ----------
    protocol : AbstractProtocol
    function : callable
        (informations of shape (m, a−1, a−1), p) -> (m,) array.
    simulations, random_seed
        As for ``informations``.
    """
    channel, rng = explicit_channel(protocol), checks.generator(random_seed)

    def one(p):
        batches, method = informations(protocol, p, simulations=simulations, random_seed=rng)
        return base.jackknife(lambda mean: float(function(mean[None], p[None])[0]), batches, method).value

    def values(p):
        if channel is not None:
            return function(dense_informations(channel, p), p)
        return np.array([one(row) for row in p], dtype=float)

    return values, channel is None


@base.described
def log_det_informations(protocol, p, *, simulations=20_000, random_seed=0) -> FloatArray:
    """Return log det T at each p, T the tangent information; −inf where the channel does not have full rank.

    det Qᵀ diag(Qp)⁻¹ Q = a det T.

    Parameters
    ----------
    p : (m, a) array
        Distributions.

    Returns
    -------
    (m,) array
    """
    at = at_each(protocol, lambda informations, p: log_dets(informations), simulations=simulations, random_seed=random_seed)
    return at[0](p)


def log_dets(stack) -> FloatArray:
    """Return log det of each matrix of a stack (m, a−1, a−1); −inf where one is singular to working precision."""
    values = np.linalg.eigvalsh(stack)
    floor = 64 * values.shape[1] * np.finfo(float).eps * values[:, -1]
    deficient = values[:, 0] <= floor
    values[deficient] = 1.0
    return np.where(deficient, -np.inf, np.log(values).sum(axis=1))


@base.described
def log_det_gram(protocol, prior, *, draws=400, simulations=20_000, random_seed=0) -> Value:
    """Return E log det Qᵀ diag(QP)⁻¹ Q over the prior, as a Value; −inf where rank Q < a.

    Closed up to one quadrature for GRR under a symmetric prior (2019, Prop. 10.1): the determinant is
    β^{2(a−1)} (a+β)^{2−a} / Π_x (1 + βp_x).
    """
    a = protocol.n_categories
    law = support_law(protocol)
    if law is not None and law.sizes.tolist() == [1] and np.ptp(prior.alpha) == 0:
        alpha = float(prior.alpha[0])
        mean = base.beta_expectation(lambda b: np.log1p(law.beta * b), alpha, (a - 1) * alpha, 1 + law.beta)
        value = 2 * (a - 1) * math.log(law.beta) - (a - 2) * math.log(a + law.beta) - a * mean.value
        return Value(value, a * mean.standard_error, mean.method)
    rng = checks.generator(random_seed)
    # Where some report gives x away, det ~ 1/p_x: its logarithm is taken out and put back through its known mean.
    given_away = _given_away(protocol)

    def at_known(informations, p):
        return log_dets(informations) + np.log(p[:, given_away]).sum(axis=1)

    regular, pointwise = at_each(protocol, at_known, simulations=simulations, random_seed=rng)
    found = base.average(prior, regular, draws=draws, random_seed=rng, pointwise=pointwise)
    constant = (digamma(prior.alpha[given_away]) - digamma(prior.total)).sum()
    return Value(math.log(a) + found.value - float(constant), found.standard_error, found.method)


def _given_away(protocol):
    """Return the categories that at least one report identifies with certainty, shape (a,) of bool."""
    out = np.zeros(protocol.n_categories, dtype=bool)
    if not math.isfinite(protocol.epsilon) and dense_feasible(protocol):
        possible = protocol.channel() > 0
        out[possible[possible.sum(axis=1) == 1].argmax(axis=1)] = True
    return out


# ---- Shannon information ----------------------------------------------------------------------------------------------
def value_entropy(prior) -> Value:
    """Return H(X|P) = ψ(Σα + 1) − Σ_x (α_x/Σα) ψ(α_x + 1) in nats: the information of one value when P is known."""
    return Value(float(digamma(prior.total + 1) - prior.mean @ digamma(prior.alpha + 1)))


@base.described
def conditional_information(protocol, prior, *, draws=400, simulations=20_000, random_seed=0) -> Value:
    """Return I(Y;X|P) in nats: the information of one report about its user, P known.

    One-dimensional quadrature where the reports are exchangeable sets and α is symmetric (the support's mass is
    Beta(kα, (a−k)α) given its size k), and where every row of a listed channel has two levels; an average over P for
    other listed channels; simulation of reports otherwise.

    Returns
    -------
    Value
        In nats.

    References
    ----------
    Lopuhaä-Zwakenberg et al. (2019), Def. 4.3, Prop. 10.1 and 10.3.
    """
    law = support_law(protocol)
    if law is not None and np.ptp(prior.alpha) == 0:
        return _information_of_supports(law, float(prior.alpha[0]))
    if not dense_feasible(protocol):
        return _simulated_information(protocol, prior, draws, simulations, random_seed)
    channel, prior = _merge_columns(protocol.channel(), prior)
    noise = float(prior.mean @ -xlogy(channel, channel).sum(axis=0))
    levels = _two_levels(channel)
    if levels is not None:
        mixed = _entropy_of_two_levels(prior.alpha, *levels)
        return Value(mixed.value - noise, mixed.standard_error, mixed.method)

    def information(p):
        mixed = p @ channel.T
        return -xlogy(mixed, mixed).sum(axis=1) + p @ xlogy(channel, channel).sum(axis=0)

    return base.average(prior, information, draws=draws, random_seed=random_seed)


@base.described
def reports_information(protocol, prior, n, *, draws=200, random_seed=0) -> Value:
    """Return I(Y⃗;P) in nats of n reports, exact at tiny n and else the Monte Carlo mean of log P(Y|P)/P(Y).

    Holds at every n. GRR: Prop. D.10 of the 2019 paper through the exact evidence,
    which costs the same at any n.

    Returns
    -------
    Value
        In nats.

    Raises
    ------
    InfeasibleError
        If the sum over reports is too long and draws is below 2.
    """

    def log_ratio(collection, found, p):
        log_true = 0.0 if p is None else collection.rows.log_likelihood(p)
        return float(log_true - found.log_evidence)

    value = base.over_reports(protocol, prior, n, log_ratio, draws=draws, random_seed=random_seed)
    if value.method == "Monte Carlo":
        return value
    channel = protocol.channel()
    noise = prior.mean @ -xlogy(channel, channel).sum(axis=0)
    single = conditional_information(protocol, prior, random_seed=random_seed)
    return Value(value.value - n * float(single.value + noise), n * single.standard_error, value.method)


def _information_of_supports(law, alpha):
    """Return Σ_k W_k {(k/a)(1+β)log(1+β) − E[(1+βB)log(1+βB)]}/(1+βk/a), B ~ Beta(kα, (a−k)α) (B = 1 at k = a)."""
    a, beta, total, error = law.n_categories, law.beta, 0.0, 0.0
    for k, weight, scale in zip(law.sizes, law.weights, law.scales, strict=True):
        if 0 < k < a and weight > 1e-14:
            mixed = base.beta_expectation(_x_log_x(1.0, beta), k * alpha, (a - k) * alpha, 1 + beta)
            total += weight / scale * (k / a * (1 + beta) * math.log1p(beta) - mixed.value)
            error += weight / scale * mixed.standard_error
    return Value(float(total), float(error), "quadrature")


def _x_log_x(low, slope):
    """Return b -> u log u, u = low + slope·b."""
    return lambda b: xlogy(low + slope * b, low + slope * b)


def _merge_columns(channel, prior):
    """Return the channel and prior with equal columns merged (exact: Dirichlet masses add, the report is the same)."""
    columns, inverse = np.unique(channel, axis=1, return_inverse=True)
    if not 1 < columns.shape[1] < channel.shape[1]:
        return channel, prior
    return columns, Dirichlet(np.bincount(inverse.ravel(), prior.alpha))


def _two_levels(channel):
    """Return (low, high, at_high) where each row takes at most two values, else None."""
    low, high = channel.min(axis=1, keepdims=True), channel.max(axis=1, keepdims=True)
    slack = 1e-13 * high
    at_high = high - channel <= slack
    if not (at_high | (channel - low <= slack)).all():
        return None
    return low[:, 0], high[:, 0], at_high


def _entropy_of_two_levels(alpha, low, high, at_high):
    """Return E H(QP) where row y gives low + (high − low) B, B the Beta mass of its support."""
    keys = np.stack([low, high, at_high @ alpha], axis=1).round(14)
    keys, copies = np.unique(keys, axis=0, return_counts=True)
    total, error = 0.0, 0.0
    for (lo, hi, mass), count in zip(keys, copies, strict=True):
        if hi == lo or mass >= alpha.sum() * (1 - 1e-12):
            total -= count * float(xlogy(hi, hi))
            continue
        if lo == 0:  # E B log B = E[B] (ψ(mass + 1) − ψ(Σα + 1))
            logs = math.log(hi) + digamma(mass + 1) - digamma(alpha.sum() + 1)
            total -= count * hi * mass / alpha.sum() * float(logs)
            continue
        mixed = base.beta_expectation(_x_log_x(lo, hi - lo), mass, alpha.sum() - mass, hi / lo)
        total, error = total - count * mixed.value, error + count * mixed.standard_error
    return Value(total, error, "quadrature")


def _simulated_information(protocol, prior, draws, simulations, random_seed):
    """Return the mean of log Q[Y,X]/(QP)_Y over P, X and Y; the error is over P, whose draws hold several users."""
    rng = checks.generator(random_seed)
    size = max(simulations // draws, 1)
    means = []
    for p in base.draw_distributions(prior, draws, rng):
        values = rng.choice(p.size, size, p=p)
        rows = protocol.rows(protocol.check_reports(protocol.privatize(values, rng)), np.ones(size))
        means.append(np.log(rows.dense()[np.arange(size), values] / rows.matvec(p)).mean())
    return Value(float(np.mean(means)), float(np.std(means, ddof=1) / math.sqrt(draws)), "Monte Carlo")
