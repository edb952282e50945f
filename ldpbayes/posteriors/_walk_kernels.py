"""Numba kernel of the random-walk engine: Hamiltonian steps whitened by tridiagonal matrices, and moves of the scales.

Imported where first needed, so that nothing else pays for loading numba.
"""

import math

import numpy as np

from ldpbayes.compiling import compiled

#: Kinds of likelihood: separable rows, a quadratic, dense rows.
SEPARABLE, QUADRATIC, DENSE = 0, 1, 2


@compiled()
def simplex(eta, p):
    """Fill p with softmax(η) and return log Σ exp η."""
    top = eta.max()
    total = 0.0
    for x in range(eta.size):
        p[x] = math.exp(eta[x] - top)
        total += p[x]
    for x in range(eta.size):
        p[x] /= total
    return top + math.log(total)


@compiled()
def likelihood(kind, index, first, second, counts, matrix, p, gradient, bend):
    """Return ℓ(p); fill its gradient and minus the diagonal of its Hessian.

    Separable rows have base ``first``, slope ``second`` and counts at categories ``index``; a quadratic is b·p − ½ Σ D p²
    with b ``first`` and D ``second``; dense rows are ``matrix`` with counts.
    """
    value = 0.0
    if kind == 1:
        for x in range(p.size):
            value += (first[x] - 0.5 * second[x] * p[x]) * p[x]
            gradient[x] = first[x] - second[x] * p[x]
            bend[x] = second[x]
        return value
    gradient[:] = 0.0
    bend[:] = 0.0
    if kind == 0:
        for j in range(index.size):
            x = index[j]
            u = first[j] + second[j] * p[x]
            if u <= 0.0:
                return -np.inf
            value += counts[j] * math.log(u)
            ratio = second[j] / u
            gradient[x] += counts[j] * ratio
            bend[x] += counts[j] * ratio * ratio
        return value
    for j in range(counts.size):
        u = 0.0
        for x in range(p.size):
            u += matrix[j, x] * p[x]
        if u <= 0.0:
            return -np.inf
        value += counts[j] * math.log(u)
        share = counts[j] / u
        for x in range(p.size):
            gradient[x] += share * matrix[j, x]
            bend[x] += share / u * matrix[j, x] ** 2
    return value


@compiled()
def factor(stiff, scale, extra, inverse, below):
    """Fill the bidiagonal Cholesky factor of walk + diag(extra), the walk with stiffness scale·stiff per step.

    ``inverse`` holds the inverses of its diagonal. Returns its log-determinant (that of the matrix is twice as large).
    """
    a = extra.size
    log_det, product = 0.0, 1.0
    for x in range(a):
        value = extra[x]
        if x > 0:
            value += scale * stiff[x - 1]
            below[x - 1] = -scale * stiff[x - 1] * inverse[x - 1]
        if x < a - 1:
            value += scale * stiff[x]
        left = value - below[x - 1] ** 2 if x > 0 else value
        inverse[x] = 1.0 / math.sqrt(max(left, 1e-14 * value + 1e-300))
        product *= inverse[x]
        if product < 1e-100 or product > 1e100:
            log_det -= math.log(product)
            product = 1.0
    return log_det - math.log(product)


@compiled()
def solve(inverse, below, r, v):
    """Fill v with the matrix's inverse times r, from its factor."""
    a = r.size
    v[0] = r[0] * inverse[0]
    for x in range(1, a):
        v[x] = (r[x] - below[x - 1] * v[x - 1]) * inverse[x]
    v[a - 1] *= inverse[a - 1]
    for x in range(a - 2, -1, -1):
        v[x] = (v[x] - below[x] * v[x + 1]) * inverse[x]


@compiled()
def smooth_part(eta, tight, inverse, below, work, walk):
    """Fill ``walk`` with the mean of the walk given η and return Σ (η − walk) η/τ², twice minus η's log-density."""
    for x in range(eta.size):
        work[x] = tight * (eta[x] - eta[0])
    solve(inverse, below, work, walk)
    total = 0.0
    for x in range(eta.size):
        total += (eta[x] - eta[0] - walk[x]) * work[x]
        walk[x] += eta[0]
    return total


@compiled()
def collapsed(eta, weights, log_weights, sigma, tau, constant, inverse, below, work, walk):
    """Return log p(η | σ, τ, weights) with the walk integrated out; fill the factor of its precision and its mean."""
    a = eta.size
    constant[:] = 1.0 / (tau * tau)
    log_det = factor(weights, 1.0 / (sigma * sigma), constant, inverse, below)
    square = smooth_part(eta, 1.0 / (tau * tau), inverse, below, work, walk)
    return -a * math.log(tau) - (a - 1) * math.log(sigma) + 0.5 * log_weights - log_det - 0.5 * square


@compiled()
def steps_density(walk, sigma, nu):
    """Return Σ log t_ν((r_{x+1} − r_x)/σ)/σ without its constant."""
    total, product = 0.0, 1.0
    scale = 1.0 / (nu * sigma * sigma)
    for x in range(walk.size - 1):
        step = walk[x + 1] - walk[x]
        product *= 1.0 + step * step * scale
        if product > 1e200:
            total += math.log(product)
            product = 1.0
    return -0.5 * (nu + 1.0) * (total + math.log(product)) - (walk.size - 1) * math.log(sigma)


@compiled()
def target(
    eta, tight, anchor, inverse, below, kind, index, first, second, counts, matrix, p, dp, bend, work, walk, gradient
):
    """Return (log-density of η given scales and weights, ℓ, level); fill p, ∇ℓ, its curvature, the walk and the gradient.

    p does not depend on the level of η; a normal law of log Σ exp η with precision ``anchor`` keeps it from drifting.
    """
    level = simplex(eta, p)
    value = likelihood(kind, index, first, second, counts, matrix, p, dp, bend)
    if not value > -np.inf:
        return -np.inf, value, level
    middle = 0.0
    for x in range(p.size):
        middle += p[x] * dp[x]
    pull = middle + anchor * level
    square = smooth_part(eta, tight, inverse, below, work, walk)
    for x in range(p.size):
        gradient[x] = p[x] * (dp[x] - pull) - tight * (eta[x] - walk[x])
    return value - 0.5 * square - 0.5 * anchor * level * level, value, level


@compiled()
def whitened(momentum, tight, curve, inverse, below, work, velocity):
    """Fill ``velocity`` with (K + C)⁻¹ momentum, K the precision of η without the walk, C = diag(curve); return ½ m·v.

    ``inverse`` and ``below`` are the factor of Q + A C/(A + C), the walk's precision after η is eliminated, A = 1/τ².
    """
    a = momentum.size
    for x in range(a):
        work[x] = tight * momentum[x] / (tight + curve[x])
    solve(inverse, below, work, velocity)
    energy = 0.0
    for x in range(a):
        velocity[x] = (momentum[x] + tight * velocity[x]) / (tight + curve[x])
        energy += 0.5 * momentum[x] * velocity[x]
    return energy


@compiled()
def run_chain(
    eta,
    hyper,
    rates,
    nu,
    kind,
    index,
    first,
    second,
    counts,
    matrix,
    draws,
    tune,
    thin,
    length,
    accept,
    rng,
    out,
    kept,
    stats,
):
    """Fill ``out`` (draws, a) with draws of p, ``kept`` (draws, 2) with σ and τ, ``stats`` (draws, 2); return acceptances.

    An iteration: η given scales and the walk's local weights, the walk integrated out (a Hamiltonian trajectory); the
    scales given η, the walk integrated out; the walk; the scales together with η that they stretch; the weights.

    Parameters
    ----------
    eta : (a,) array
        Start.
    hyper : (2,) array
        Start of log(rate · scale) of the walk's steps and of the deviations.
    rates : (2,) array
    nu : float
        Degrees of freedom of the steps.
    draws, tune, thin : int
        Every ``thin``-th state after the first ``tune`` ones is kept.
    length : float
        Length of a trajectory in whitened time.
    accept : float
        Acceptance rate that the step size is adapted to.
    """
    a = eta.size
    p, dp, bend, gradient = np.empty(a), np.empty(a), np.empty(a), np.empty(a)
    trial, p2, dp2, bend2, gradient2 = np.empty(a), np.empty(a), np.empty(a), np.empty(a), np.empty(a)
    momentum, velocity, work, walk, walk2 = np.empty(a), np.empty(a), np.empty(a), np.empty(a), np.empty(a)
    constant, inverse, below, inverse2, below2 = np.empty(a), np.empty(a), np.empty(a), np.empty(a), np.empty(a)
    inner, inner_below, blend = np.empty(a), np.empty(a), np.empty(a)
    weights, curve, curve_sum = np.ones(a), np.ones(a), np.zeros(a)
    log_weights, summed, anchor = 0.0, 0, 1.0
    scales = np.exp(hyper) / rates
    middle_log, middle_sum, middle = 0.0, 0, scales[1] ** 2
    step, log_step_mean, error_mean, counted, next_look, centre = 0.5, math.log(0.5), 0.0, 0, 0, 0.0
    widths, accepted = np.full(6, 0.5), np.zeros(7)
    prior = collapsed(eta, weights, log_weights, scales[0], scales[1], constant, inverse, below, work, walk)
    for i in range(tune + draws * thin):
        tight = 1.0 / (scales[1] * scales[1])
        value, found, level = target(
            eta, tight, anchor, inverse, below, kind, index, first, second, counts, matrix, p, dp, bend, work, walk, gradient
        )
        if i < tune:
            mean_slope = 0.0
            for x in range(a):
                mean_slope += p[x] * dp[x]
            for x in range(a):
                straight = bend[x] * p[x] * p[x]
                curve_sum[x] += max(straight + p[x] * (mean_slope - dp[x]), 0.1 * straight)
            summed += 1
            middle_log += math.log(scales[1])
            middle_sum += 1
            if i == next_look:
                total = 0.0
                for x in range(a):
                    curve[x] = curve_sum[x] / summed + 1e-10
                    total += curve[x]
                anchor = max(total, 1.0)
                middle = math.exp(2.0 * middle_log / middle_sum)
                if i < tune // 2:
                    curve_sum[:] = 0.0
                    summed, middle_log, middle_sum = 0, 0.0, 0
                log_step_mean, error_mean, counted, centre = math.log(step), 0.0, 0, math.log(2.0 * step)
                next_look = i + max(i // 2, 10)
                if next_look > tune - tune // 5:
                    next_look = tune if i >= tune - tune // 5 else tune - tune // 5
                value, found, level = target(
                    eta, tight, anchor, inverse, below, kind, index, first, second, counts, matrix, p, dp, bend, work, walk,
                    gradient,
                )  # fmt: skip
        elif i == tune:
            step = math.exp(log_step_mean)
        # ---- η: momentum from N(0, K + C), by a draw of walk and deviations under the prior
        for x in range(a):
            blend[x] = tight * curve[x] / (tight + curve[x])
        factor(weights, 1.0 / (scales[0] * scales[0]), blend, inner, inner_below)
        height = 0.0
        for x in range(a):
            if x > 0:
                height += scales[0] / math.sqrt(weights[x - 1]) * rng.standard_normal()
            trial[x] = height + scales[1] * rng.standard_normal()
        smooth_part(trial, tight, inverse, below, work, walk2)
        for x in range(a):
            momentum[x] = tight * (trial[x] - walk2[x]) + math.sqrt(curve[x]) * rng.standard_normal()
        kinetic = whitened(momentum, tight, curve, inner, inner_below, work, velocity)
        here = step * (0.8 + 0.4 * rng.random())
        steps = max(1, min(int(length / here * (0.6 + 0.8 * rng.random()) + 0.5), 200))
        trial[:], gradient2[:] = eta, gradient
        value2, found2, level2 = value, found, level
        after = 0.0
        for _ in range(steps):
            for x in range(a):
                momentum[x] += 0.5 * here * gradient2[x]
            whitened(momentum, tight, curve, inner, inner_below, work, velocity)
            for x in range(a):
                trial[x] += here * velocity[x]
            value2, found2, level2 = target(
                trial, tight, anchor, inverse, below, kind, index, first, second, counts, matrix, p2, dp2, bend2, work,
                walk2, gradient2,
            )  # fmt: skip
            if not value2 > value - 1e4:
                value2 = -np.inf
                break
            for x in range(a):
                momentum[x] += 0.5 * here * gradient2[x]
        ratio = 0.0
        if value2 > -np.inf:
            after = whitened(momentum, tight, curve, inner, inner_below, work, velocity)
            difference = value2 - after - value + kinetic
            ratio = math.exp(min(0.0, difference)) if difference == difference else 0.0
        if rng.random() < ratio:
            eta[:], p[:], walk[:] = trial, p2, walk2
            value, found, level = value2, found2, level2
        if i < tune:  # dual averaging
            counted += 1
            part = 1.0 / (counted + 10.0)
            error_mean = (1.0 - part) * error_mean + part * (accept - ratio)
            log_step = centre - math.sqrt(counted) / 0.05 * error_mean
            decay = counted ** (-0.75)
            log_step_mean = decay * log_step + (1.0 - decay) * log_step_mean
            step = math.exp(log_step)
        else:
            accepted[0] += ratio / (draws * thin)
        # ---- the scales given η, the walk integrated out
        prior = collapsed(eta, weights, log_weights, scales[0], scales[1], constant, inverse, below, work, walk)
        for move in range(4):
            which = move % 2
            new = hyper[which] + widths[which] * rng.standard_normal()
            scale2 = math.exp(new) / rates[which]
            sigma2, tau2 = (scale2, scales[1]) if which == 0 else (scales[0], scale2)
            then = collapsed(eta, weights, log_weights, sigma2, tau2, constant, inverse2, below2, work, walk2)
            change = new - math.exp(new) - hyper[which] + math.exp(hyper[which]) + then - prior
            ratio = math.exp(min(0.0, change)) if change == change else 0.0
            if rng.random() < ratio:
                hyper[which], scales[which], prior = new, scale2, then
                inverse[:], below[:], walk[:] = inverse2, below2, walk2
            if i < tune:
                widths[which] = min(max(widths[which] * math.exp(2.0 * (ratio - 0.4) / math.sqrt(i + 1.0)), 1e-3), 3.0)
            else:
                accepted[1 + which] += ratio / (2 * draws * thin)
        # ---- the walk given η: its mean and a draw of its precision's factor
        last = 0.0
        for x in range(a - 1, -1, -1):
            last = (rng.standard_normal() - (below[x] * last if x < a - 1 else 0.0)) * inverse[x]
            walk[x] += last
        # ---- the scales together with what they stretch: σ and the walk, τ and the deviations, τ and their free part
        for which in range(2, 6):
            scale_of = 0 if which in (2, 5) else 1
            new = hyper[scale_of] + widths[which] * rng.standard_normal()
            scale2 = math.exp(new) / rates[scale_of]
            change = new - math.exp(new) - hyper[scale_of] + math.exp(hyper[scale_of])
            then = found
            grow, log_grow = scale2 / scales[scale_of], new - hyper[scale_of]
            if which == 5:  # σ given the walk, its weights integrated out
                change += steps_density(walk, scale2, nu) - steps_density(walk, scales[0], nu)
            else:
                before, later = 0.0, 0.0
                for x in range(a):
                    deviation = eta[x] - walk[x]
                    walk2[x] = walk[x]
                    if which == 2:
                        walk2[x] = walk[0] + grow * (walk[x] - walk[0])
                    elif which == 3:
                        deviation *= grow
                    else:
                        free = 1.0 / (1.0 + curve[x] * middle)
                        before += deviation * deviation
                        deviation *= math.exp(log_grow * free)
                        later += deviation * deviation
                        change += log_grow * (free - 1.0)
                    trial[x] = walk2[x] + deviation
                if which == 4:
                    change += 0.5 * before / scales[1] ** 2 - 0.5 * later / scale2**2
                shift = simplex(trial, p2) - level
                for x in range(a):
                    trial[x] -= shift
                    walk2[x] -= shift
                then = likelihood(kind, index, first, second, counts, matrix, p2, dp2, bend2)
                change += then - found
            ratio = math.exp(min(0.0, change)) if change == change else 0.0
            if rng.random() < ratio:
                hyper[scale_of], scales[scale_of], found = new, scale2, then
                if which != 5:
                    eta[:], walk[:], p[:] = trial, walk2, p2
            if i < tune:
                widths[which] = min(max(widths[which] * math.exp(2.0 * (ratio - 0.4) / math.sqrt(i + 1.0)), 1e-3), 3.0)
            else:
                accepted[1 + which] += ratio / (draws * thin)
        # ---- the weights of the steps: t_ν is a normal law whose precision is Gamma
        log_weights, product = 0.0, 1.0
        for x in range(a - 1):
            square = ((walk[x + 1] - walk[x]) / scales[0]) ** 2
            weights[x] = max(2.0 * rng.standard_gamma(0.5 * (nu + 1.0)) / (nu + square), 1e-12)
            product *= weights[x]
            if product < 1e-100 or product > 1e100:
                log_weights += math.log(product)
                product = 1.0
        log_weights += math.log(product)
        prior = collapsed(eta, weights, log_weights, scales[0], scales[1], constant, inverse, below, work, walk)
        if i >= tune and (i - tune + 1) % thin == 0:
            place = (i - tune) // thin
            out[place] = p
            kept[place, 0], kept[place, 1] = scales[0], scales[1]
            stats[place, 0], stats[place, 1] = found, steps
    return accepted, step, widths
