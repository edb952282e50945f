"""Numba kernel of the random-walk engine: Hamiltonian steps whitened by tridiagonal matrices, and moves of the scales.

Imported where first needed, so that nothing else pays for loading numba.
"""

import math
from typing import NamedTuple

import numpy as np

from ldpbayes.compiling import compiled
from ldpbayes.inference._kernels import of_logits

#: Places in the array of tuning: step size, log of its mean, mean error of the acceptance rate, steps averaged, and
#: the log of the step that steps are drawn to; precision of the level, middle of τ², sum and number of logs of τ; iterations
#: in the sum of curvatures, and the next iteration at which that is looked at.
STEP, MEAN_STEP, ERROR, COUNTED, DRAWN_TO, ANCHOR, MIDDLE, LOGS, LOGGED, SUMMED, LOOK = range(11)


class Point(NamedTuple):
    """η, p, ∇ℓ in η, the walk, the gradient, and (log-density, ℓ, log Σ exp η)."""

    eta: np.ndarray
    p: np.ndarray
    slope: np.ndarray
    walk: np.ndarray
    gradient: np.ndarray
    numbers: np.ndarray


class Law(NamedTuple):
    """Logs of rate × scale of steps and deviations, rates, scales; weights of steps; widths and acceptances of moves."""

    hyper: np.ndarray
    rates: np.ndarray
    scales: np.ndarray
    weights: np.ndarray
    log_weights: np.ndarray
    widths: np.ndarray
    accepted: np.ndarray
    degrees: float


class Room(NamedTuple):
    """Momentum, velocity, room to work in; curvature and its sum; factors of the walk given η, a copy, and of velocities."""

    momentum: np.ndarray
    velocity: np.ndarray
    work: np.ndarray
    curve: np.ndarray
    summed: np.ndarray
    factor: tuple
    other: tuple
    kinetic: tuple


@compiled()
def copy(values, out):
    """Write values to out: an assignment of arrays takes three seconds to compile, for what it would say of other shapes."""
    for x in range(out.size):
        out[x] = values[x]


@compiled()
def simplex(eta, p):
    """Fill p with softmax(η), no entry of it zero, and return log Σ exp η."""
    top = eta.max()
    total = 0.0
    for x in range(eta.size):
        p[x] = math.exp(eta[x] - top)
        total += p[x]
    for x in range(eta.size):
        p[x] = max(p[x] / total, 1e-300)
    return top + math.log(total)


@compiled()
def likelihood(form, eta, slope):
    """Return ℓ(p), and fill its gradient in η; a form is what forms.Forms holds, of one cell."""
    a = eta.size
    total, product = of_logits(0, eta.reshape(1, a), slope.reshape(1, a), form, 0.0, 1.0)
    return total + math.log(product)


@compiled()
def curvature_of(form, p, bend):
    """Fill minus the diagonal of the Hessian of ℓ at p."""
    _, curvature, _, index, base, slope, counts, _, row, row_counts, table = form
    for x in range(p.size):
        bend[x] = curvature[0, x] if curvature.size else 0.0
    for j in range(index.size):
        bend[index[j]] += counts[j] * (slope[j] / (base[j] + slope[j] * p[index[j]])) ** 2
    for j in range(row_counts.size):
        u = 0.0
        for x in range(p.size):
            u += table[row[j], x] * p[x]
        for x in range(p.size):
            bend[x] += row_counts[j] * (table[row[j], x] / u) ** 2


@compiled()
def factorize(stiff, scale, extra, factor):
    """Fill the bidiagonal Cholesky factor of walk + diag(extra), the walk with stiffness scale·stiff per step.

    A factor is (the inverses of its diagonal, what stands below it). Returns its log-determinant, half of the matrix's.
    """
    (inverse, below), a = factor, extra.size
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
def solve(factor, r, v):
    """Fill v with the matrix's inverse times r, from its factor."""
    (inverse, below), a = factor, r.size
    v[0] = r[0] * inverse[0]
    for x in range(1, a):
        v[x] = (r[x] - below[x - 1] * v[x - 1]) * inverse[x]
    v[a - 1] *= inverse[a - 1]
    for x in range(a - 2, -1, -1):
        v[x] = (v[x] - below[x] * v[x + 1]) * inverse[x]


@compiled()
def smooth_part(eta, tight, factor, work, walk):
    """Fill ``walk`` with the mean of the walk given η and return Σ (η − walk) η/τ², twice minus η's log-density."""
    for x in range(eta.size):
        work[x] = tight * (eta[x] - eta[0])
    solve(factor, work, walk)
    total = 0.0
    for x in range(eta.size):
        total += (eta[x] - eta[0] - walk[x]) * work[x]
        walk[x] += eta[0]
    return total


@compiled()
def collapsed(eta, law, sigma, tau, factor, work, walk):
    """Return log p(η | σ, τ, weights) with the walk integrated out; fill the factor of its precision and its mean."""
    a = eta.size
    for x in range(a):
        work[x] = 1.0 / (tau * tau)
    log_det = factorize(law.weights, 1.0 / (sigma * sigma), work, factor)
    square = smooth_part(eta, 1.0 / (tau * tau), factor, work, walk)
    return -a * math.log(tau) - (a - 1) * math.log(sigma) + 0.5 * law.log_weights[0] - log_det - 0.5 * square


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
def target(point, form, tight, anchor, factor, work):
    """Fill all of a point but η, given scales and weights.

    p does not depend on the level of η; a normal law of log Σ exp η with precision ``anchor`` keeps it from drifting.
    """
    p, slope, numbers = point.p, point.slope, point.numbers
    numbers[2] = simplex(point.eta, p)
    numbers[1] = likelihood(form, point.eta, slope)
    numbers[0] = -np.inf
    if not numbers[1] > -np.inf:
        return
    pull = anchor * numbers[2]
    square = smooth_part(point.eta, tight, factor, work, point.walk)
    for x in range(p.size):
        point.gradient[x] = slope[x] - p[x] * pull - tight * (point.eta[x] - point.walk[x])
    numbers[0] = numbers[1] - 0.5 * square - 0.5 * anchor * numbers[2] * numbers[2]


@compiled()
def whitened(room, tight):
    """Fill the velocity with (K + C)⁻¹ momentum, K the precision of η without the walk, C = diag(curve); return ½ m·v.

    The kinetic factor is that of Q + A C/(A + C), the walk's precision after η is eliminated, A = 1/τ².
    """
    momentum, velocity, curve = room.momentum, room.velocity, room.curve
    for x in range(momentum.size):
        room.work[x] = tight * momentum[x] / (tight + curve[x])
    solve(room.kinetic, room.work, velocity)
    energy = 0.0
    for x in range(momentum.size):
        velocity[x] = (momentum[x] + tight * velocity[x]) / (tight + curve[x])
        energy += 0.5 * momentum[x] * velocity[x]
    return energy


@compiled()
def look(i, tune, point, form, law, room, tuning):
    """Add to what is known of the curvature; return whether the kinetic energy has been made anew of it."""
    p, slope, bend, a = point.p, point.slope, room.work, point.p.size
    curvature_of(form, p, bend)
    for x in range(a):
        straight = bend[x] * p[x] * p[x]
        room.summed[x] += max(straight - slope[x], 0.1 * straight)
    tuning[SUMMED] += 1
    tuning[LOGS] += math.log(law.scales[1])
    tuning[LOGGED] += 1
    if i != tuning[LOOK]:
        return False
    total = 0.0
    for x in range(a):
        room.curve[x] = room.summed[x] / tuning[SUMMED] + 1e-10
        total += room.curve[x]
    tuning[ANCHOR] = max(total, 1.0)
    tuning[MIDDLE] = math.exp(2.0 * tuning[LOGS] / tuning[LOGGED])
    if i < tune // 2:
        room.summed[:] = 0.0
        tuning[SUMMED] = tuning[LOGS] = tuning[LOGGED] = 0
    tuning[MEAN_STEP], tuning[DRAWN_TO] = math.log(tuning[STEP]), math.log(2.0 * tuning[STEP])
    tuning[ERROR] = tuning[COUNTED] = 0
    tuning[LOOK] = i + max(i // 2, 10)
    if tuning[LOOK] > tune - tune // 5:
        tuning[LOOK] = tune if i >= tune - tune // 5 else tune - tune // 5
    return True


@compiled()
def average(tuning, gap):
    """Adapt the step size by dual averaging to a gap between the acceptance rates wanted and seen."""
    tuning[COUNTED] += 1
    counted = tuning[COUNTED]
    part = 1.0 / (counted + 10.0)
    tuning[ERROR] = (1.0 - part) * tuning[ERROR] + part * gap
    log_step = tuning[DRAWN_TO] - math.sqrt(counted) / 0.05 * tuning[ERROR]
    decay = counted ** (-0.75)
    tuning[MEAN_STEP] = decay * log_step + (1.0 - decay) * tuning[MEAN_STEP]
    tuning[STEP] = math.exp(log_step)


@compiled()
def give_momentum(there, law, room, rng):
    """Draw a momentum from N(0, K + C), by a draw of walk and deviations under the prior, and return its energy."""
    tight, curve, scales = 1.0 / (law.scales[1] * law.scales[1]), room.curve, law.scales
    for x in range(curve.size):
        room.work[x] = tight * curve[x] / (tight + curve[x])
    factorize(law.weights, 1.0 / (scales[0] * scales[0]), room.work, room.kinetic)
    height = 0.0
    for x in range(curve.size):
        if x > 0:
            height += scales[0] / math.sqrt(law.weights[x - 1]) * rng.standard_normal()
        there.eta[x] = height + scales[1] * rng.standard_normal()
    smooth_part(there.eta, tight, room.factor, room.work, there.walk)
    for x in range(curve.size):
        room.momentum[x] = tight * (there.eta[x] - there.walk[x]) + math.sqrt(curve[x]) * rng.standard_normal()
    return whitened(room, tight)


@compiled()
def move(here, there, form, law, room, tuning, length, rng):
    """Move η along a Hamiltonian trajectory, the walk integrated out; return (probability of acceptance, steps)."""
    tight = 1.0 / (law.scales[1] * law.scales[1])
    kinetic = give_momentum(there, law, room, rng)
    step = tuning[STEP] * (0.8 + 0.4 * rng.random())
    steps = max(1, min(int(length / step * (0.6 + 0.8 * rng.random()) + 0.5), 200))
    copy(here.eta, there.eta)
    copy(here.gradient, there.gradient)
    copy(here.numbers, there.numbers)
    for _ in range(steps):
        for x in range(here.eta.size):
            room.momentum[x] += 0.5 * step * there.gradient[x]
        whitened(room, tight)
        for x in range(here.eta.size):
            there.eta[x] += step * room.velocity[x]
        target(there, form, tight, tuning[ANCHOR], room.factor, room.work)
        if not there.numbers[0] > here.numbers[0] - 1e4:
            there.numbers[0] = -np.inf
            break
        for x in range(here.eta.size):
            room.momentum[x] += 0.5 * step * there.gradient[x]
    ratio = 0.0
    if there.numbers[0] > -np.inf:
        difference = there.numbers[0] - whitened(room, tight) - here.numbers[0] + kinetic
        ratio = math.exp(min(0.0, difference)) if difference == difference else 0.0
    if rng.random() < ratio:
        copy(there.eta, here.eta)
        copy(there.p, here.p)
        copy(there.walk, here.walk)
        copy(there.numbers, here.numbers)
    return ratio, steps


@compiled()
def adapt(law, which, place, ratio, i, tune, number):
    """Adapt the width of moves of a scale while chains are tuned, and count acceptances afterwards."""
    if i < tune:
        wider = math.exp(2.0 * (ratio - 0.4) / math.sqrt(i + 1.0))
        law.widths[which] = min(max(law.widths[which] * wider, 1e-3), 3.0)
    else:
        law.accepted[place] += ratio / number


@compiled()
def move_scales(here, there, law, room, i, tune, number, rng):
    """Move the scales given η, the walk integrated out, and then draw the walk."""
    eta, scales, hyper = here.eta, law.scales, law.hyper
    (inverse, below), (inverse2, below2) = room.factor, room.other
    prior = collapsed(eta, law, scales[0], scales[1], room.factor, room.work, here.walk)
    for k in range(4):
        which = k % 2
        new = hyper[which] + law.widths[which] * rng.standard_normal()
        scale2 = math.exp(new) / law.rates[which]
        sigma2, tau2 = (scale2, scales[1]) if which == 0 else (scales[0], scale2)
        then = collapsed(eta, law, sigma2, tau2, room.other, room.work, there.walk)
        change = new - math.exp(new) - hyper[which] + math.exp(hyper[which]) + then - prior
        ratio = math.exp(min(0.0, change)) if change == change else 0.0
        if rng.random() < ratio:
            hyper[which], scales[which], prior = new, scale2, then
            copy(inverse2, inverse)
            copy(below2, below)
            copy(there.walk, here.walk)
        adapt(law, which, 1 + which, ratio, i, tune, 2 * number)
    last = 0.0  # the walk given η: its mean and a draw of its precision's factor
    for x in range(eta.size - 1, -1, -1):
        last = (rng.standard_normal() - (below[x] * last if x < eta.size - 1 else 0.0)) * inverse[x]
        here.walk[x] += last


@compiled()
def stretch(here, there, law, curve, middle, which, new):
    """Fill η and the walk after a new log scale has stretched what it is the scale of; return the change of log-density.

    2 stretches the walk by σ, 3 the deviations by τ, 4 their free part.
    """
    of = 0 if which == 2 else 1
    scale2, log_grow = math.exp(new) / law.rates[of], new - law.hyper[of]
    grow = scale2 / law.scales[of]
    change, before, later = new - math.exp(new) - law.hyper[of] + math.exp(law.hyper[of]), 0.0, 0.0
    for x in range(curve.size):
        deviation = here.eta[x] - here.walk[x]
        there.walk[x] = here.walk[x]
        if which == 2:
            there.walk[x] = here.walk[0] + grow * (here.walk[x] - here.walk[0])
        elif which == 3:
            deviation *= grow
        else:
            free = 1.0 / (1.0 + curve[x] * middle)
            before += deviation * deviation
            deviation *= math.exp(log_grow * free)
            later += deviation * deviation
            change += log_grow * (free - 1.0)
        there.eta[x] = there.walk[x] + deviation
    if which == 4:
        change += 0.5 * before / law.scales[1] ** 2 - 0.5 * later / scale2**2
    return change


@compiled()
def move_together(here, there, form, law, room, middle, i, tune, number, rng):
    """Move scales together with what they stretch, and σ given the walk, its weights integrated out (5)."""
    hyper, scales = law.hyper, law.scales
    for which in range(2, 6):
        of = 0 if which in (2, 5) else 1
        new = hyper[of] + law.widths[which] * rng.standard_normal()
        scale2, then = math.exp(new) / law.rates[of], here.numbers[1]
        if which == 5:
            change = new - math.exp(new) - hyper[of] + math.exp(hyper[of])
            change += steps_density(here.walk, scale2, law.degrees) - steps_density(here.walk, scales[0], law.degrees)
        else:
            change = stretch(here, there, law, room.curve, middle, which, new)
            shift = simplex(there.eta, there.p) - here.numbers[2]
            for x in range(there.eta.size):
                there.eta[x] -= shift
                there.walk[x] -= shift
            then = likelihood(form, there.eta, there.slope)
            change += then - here.numbers[1]
        ratio = math.exp(min(0.0, change)) if change == change else 0.0
        if rng.random() < ratio:
            hyper[of], scales[of], here.numbers[1] = new, scale2, then
            if which != 5:
                copy(there.eta, here.eta)
                copy(there.walk, here.walk)
                copy(there.p, here.p)
        adapt(law, which, 1 + which, ratio, i, tune, number)


@compiled()
def draw_weights(walk, law, rng):
    """Draw the weights of the steps: t_ν is a normal law whose precision is Gamma."""
    total, product, nu = 0.0, 1.0, law.degrees
    for x in range(walk.size - 1):
        square = ((walk[x + 1] - walk[x]) / law.scales[0]) ** 2
        law.weights[x] = max(2.0 * rng.standard_gamma(0.5 * (nu + 1.0)) / (nu + square), 1e-12)
        product *= law.weights[x]
        if product < 1e-100 or product > 1e100:
            total += math.log(product)
            product = 1.0
    law.log_weights[0] = total + math.log(product)


@compiled()
def _point(eta):
    a = eta.size
    return Point(eta, np.empty(a), np.empty(a), np.empty(a), np.empty(a), np.empty(3))


@compiled()
def run_chain(eta, hyper, rates, nu, form, settings, rng, out, kept, stats):
    """Fill ``out`` (draws, a) with draws of p, ``kept`` (draws, 2) with σ and τ, ``stats`` (draws, 2); return acceptances.

    An iteration: η given scales and the walk's local weights, the walk integrated out (a Hamiltonian trajectory); the
    scales given η, the walk integrated out; the walk; the scales together with η that they stretch; the weights.

    Parameters
    ----------
    eta : (a,) array
        Start; where the chain ends is written there.
    hyper : (2,) array
        Start, and end, of log(rate · scale) of the walk's steps and of the deviations.
    rates : (2,) array
    nu : float
        Degrees of freedom of the steps.
    form : tuple
        The likelihood; see forms.Forms.
    settings : tuple
        draws, tune, thin: every ``thin``-th state after the first ``tune`` ones is kept; length of a trajectory in whitened
        time; acceptance rate that the step size is adapted to.
    """
    draws, tune, thin, length, accept = settings
    a, number = eta.size, draws * thin
    here, there = _point(eta), _point(np.empty(a))
    scales = np.exp(hyper) / rates
    law = Law(hyper, rates, scales, np.ones(a), np.zeros(1), np.full(6, 0.5), np.zeros(7), nu)
    factors = (np.empty(a), np.empty(a)), (np.empty(a), np.empty(a)), (np.empty(a), np.empty(a))
    room = Room(np.empty(a), np.empty(a), np.empty(a), np.ones(a), np.zeros(a), factors[0], factors[1], factors[2])
    tuning = np.zeros(11)
    tuning[STEP], tuning[MEAN_STEP], tuning[ANCHOR], tuning[MIDDLE] = 0.5, math.log(0.5), 1.0, scales[1] ** 2
    for i in range(tune + number):
        collapsed(eta, law, scales[0], scales[1], room.factor, room.work, here.walk)
        tight = 1.0 / (scales[1] * scales[1])
        target(here, form, tight, tuning[ANCHOR], room.factor, room.work)
        if i < tune:
            if look(i, tune, here, form, law, room, tuning):
                target(here, form, tight, tuning[ANCHOR], room.factor, room.work)
        elif i == tune:
            tuning[STEP] = math.exp(tuning[MEAN_STEP])
        ratio, steps = move(here, there, form, law, room, tuning, length, rng)
        if i < tune:
            average(tuning, accept - ratio)
        else:
            law.accepted[0] += ratio / number
        move_scales(here, there, law, room, i, tune, number, rng)
        move_together(here, there, form, law, room, tuning[MIDDLE], i, tune, number, rng)
        draw_weights(here.walk, law, rng)
        if i >= tune and (i - tune + 1) % thin == 0:
            place = (i - tune) // thin
            copy(here.p, out[place])
            kept[place, 0], kept[place, 1] = scales[0], scales[1]
            stats[place, 0], stats[place, 1] = here.numbers[1], steps
    return law.accepted, tuning[STEP], law.widths
