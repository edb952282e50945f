"""What estimators share: the projection onto the simplex, and the information about P on the simplex's tangent space."""

import numpy as np

from ldpbayes import checks
from ldpbayes.arguments import explained
from ldpbayes.errors import ArgumentError
from ldpbayes.likelihoods.expansion import shared_part

#: Mathematics: Information below this share of the largest counts as none: the reports do not identify that direction.
RANK_TOLERANCE = 1e-10
#: Time: Up to this many multiplications the information matrix is formed exactly; above it, diagonal plus rank one.
EXACT_INFORMATION_OPERATIONS = 4e9
#: Relative rounding error of the information matrix, per category.
ROUNDING = 4 * np.finfo(float).eps
#: What solvers and standard errors take.
WORDS = {
    "rows": "rows : Rows",
    "p": "p : (a,) array\n    On the simplex.",
    "mass": "mass : (a,) array or None\n    m = α − 1 ≥ 0 of a Dirichlet prior; None without a prior.",
    "tolerance": "tolerance : float\n    Certified gap in nats at which a solver stops.",
    "max_iterations": "max_iterations : int",
}
#: Describes it.
described = explained(WORDS, {})


def project(values, weights=None):
    """Return the point q of the simplex that minimizes Σ_x weights_x (q_x − values_x)².

    q_x = max(0, values_x − τ/weights_x) with τ such that Σq = 1, found by dropping the entries that turn negative until
    none does (the sum is convex and piecewise linear in τ, so this is Newton's method and ends exactly).

    Parameters
    ----------
    values : (a,) array
        Finite.
    weights : (a,) array, optional
        Positive; equal ones by default: the Euclidean projection.

    Returns
    -------
    (a,) array

    References
    ----------
    Wang & Carreira-Perpiñán (2013); Michelot (1986).
    """
    inverse = np.ones_like(values) if weights is None else 1.0 / weights
    active = np.ones(values.shape, dtype=bool)
    while True:
        tau = (values[active].sum() - 1.0) / inverse[active].sum()
        kept = active & (values > tau * inverse)
        if not kept.any():  # weights so uneven, or values so large, that the sum is lost to rounding: a vertex
            kept = np.zeros_like(active)
            kept[np.argmax(values)] = True
            return kept.astype(float)
        if (kept == active).all():
            point = np.where(active, values - tau * inverse, 0.0)
            return point / point.sum()
        active = kept


@described
def tangent_diagonal(rows, v, sums=None):
    """Return D with dᵀ Lᵀ diag(v) L d ≈ Σ_x D_x d_x² for every d that sums to zero, shape (a,).

    H = Lᵀ diag(v) L is fitted as diag(D) + f1ᵀ + 1fᵀ from diag H and H·1 alone, by ``shared_part``. Exact for rows that
    single out one category.

    Parameters
    ----------
    v : (n_rows,) array
        Curvatures, usually w/(Lp)².
    sums : (a,) array, optional
        H·1, where the caller has it.

    Returns
    -------
    (a,) array
        At least 0; two categories have one curvature, split so that it is exact.
    """
    size = rows.n_categories
    form = rows.separable() if size > 2 else None
    if form is not None:
        return np.bincount(form.index, v * form.slope**2, size)
    if size == 2:
        hessian = rows.gram(v)
        return np.full(2, max(0.0, hessian[0, 0] + hessian[1, 1] - 2 * hessian[0, 1]) / 2)
    diagonal = rows.rmatvec(v, 2)
    sums = rows.rmatvec(v * rows.matvec(np.ones(size))) if sums is None else sums
    return np.maximum(diagonal - 2 * shared_part(diagonal, sums), 0.0)


@described
def information_covariance(rows, p, mass=None):
    """Return the inverse observed information about P at p on the simplex's tangent space: Cov of the MLE, shape (a, a).

    With I = Lᵀ diag(w/(Lp)²) L on the positive coordinates of p and Z an orthonormal basis of the directions that sum to
    zero there, Cov = Z (Zᵀ I Z)⁻¹ Zᵀ. Entries are nan for coordinates at 0 (they have no standard error) and for those
    in a direction that the reports do not identify. A sum of coordinates θ = cᵀp has variance cᵀ Cov c. A prior adds its
    curvature mass/p².

    Returns
    -------
    (a, a) array
    """
    size = rows.n_categories
    out = np.full((size, size), np.nan)
    free, covariance, unknown, scale = tangent_covariance(observed_information(rows, p), p, mass)
    lost = (np.abs(unknown) > 1e-6 * scale[:, None]).any(axis=1)
    covariance[lost, :] = covariance[:, lost] = np.nan
    if free.size > 1:
        out[np.ix_(free, free)] = covariance
    return out


def observed_information(rows, p):
    """Return Lᵀ diag(w/(Lp)²) L, shape (a, a)."""
    return rows.gram(rows.counts / rows.matvec(p) ** 2)


@described
def tangent_covariance(information, p, mass=None):
    """Return what information_covariance does over the positive coordinates (f,), and what is not identified.

    Parameters
    ----------
    information : (a, a) array

    Returns
    -------
    free : (f,) int array
        The positive coordinates.
    covariance : (f, f) array
        Without the directions that the reports do not identify.
    unknown : (f, k) array
        These.
    scale : (f,) array
        Root of each coordinate's variance, were the others known.
    """
    free = np.flatnonzero(p > 0)
    if free.size == 1:
        return free, np.zeros((1, 1)), np.zeros((1, 0)), np.ones(1)
    information = information[np.ix_(free, free)]
    if mass is not None:
        information[np.diag_indices(free.size)] += mass[free] / p[free] ** 2
    # Curvatures differ by p_x² between categories: scaled by the root of the diagonal, small categories keep precision.
    diagonal = information.diagonal()
    scale = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    basis = np.linalg.qr(scale[:, None], mode="complete")[0][:, 1:]  # of the directions that sum to zero, scaled
    values, vectors = np.linalg.eigh(basis.T @ (scale[:, None] * information * scale) @ basis)
    directions = scale[:, None] * (basis @ vectors)
    # The scaled information has a unit diagonal: what lies below its rounding is no information, even where it is all.
    positive = values > max(RANK_TOLERANCE * values[-1], ROUNDING * free.size)
    covariance = (directions[:, positive] / values[positive]) @ directions[:, positive].T
    return free, covariance, directions[:, ~positive], scale


@described
def standard_errors(rows, p, mass=None):
    """Return (standard errors (a,), True where exact) from the observed information at p.

    Exact (information_covariance) while rows × a² ≤ 4e9 multiplications, or where the tangent information is diagonal;
    otherwise √(1/D_x − D_x⁻²/Σ1/D) over the positive coordinates, within about 1 % where n is much larger than a.
    """
    size = rows.n_categories
    separable = size > 2 and rows.separable() is not None
    if not separable and rows.n_rows * size**2 + 10 * size**3 <= EXACT_INFORMATION_OPERATIONS:
        return np.sqrt(np.diag(information_covariance(rows, p, mass))), True
    free = np.flatnonzero(p > 0)
    out = np.full(size, np.nan)
    if 1 < free.size <= rows.n_rows + 1:  # with fewer rows some direction is not identified, and no diagonal shows which
        curvature = tangent_diagonal(rows, rows.counts / rows.matvec(p) ** 2)[free]
        if mass is not None:
            curvature = curvature + mass[free] / p[free] ** 2
        with np.errstate(divide="ignore", invalid="ignore"):
            inverse = 1 / curvature
            variance = inverse - inverse**2 / inverse.sum()
        out[free] = np.sqrt(np.where(np.isfinite(variance), np.maximum(variance, 0.0), np.nan))
    return out, separable


def estimate_array(values, name="estimate"):
    """Return a float64 copy of a finite vector of at least two entries."""
    array = checks.reals(values, name, "one-dimensional with at least two entries", ndim=None, finite=False)
    if array.ndim != 1 or array.size < 2:
        raise ArgumentError(f"{name} must be one-dimensional with at least two entries, got shape {array.shape}.")
    if not np.isfinite(array).all():
        raise ArgumentError(f"{name} must be finite, got {array[~np.isfinite(array)][0]}.")
    return array
