"""Compiled: the posterior density of a random walk over ordered categories, in coordinates that make it nearly normal.

Imported where first needed, so that nothing else pays for loading numba.
"""

import math

from ldpbayes.compiling import compiled
from ldpbayes.inference._kernels import of_logits
from ldpbayes.inference.hmc import compiled_trajectories

#: The order of sums and products may change: a filter's recursion is what takes the time.
FAST = {"contract", "nsz", "reassoc", "arcp"}


@compiled(nogil=True, fastmath=FAST)
def place(u, z, frame, room):
    """Write the unknowns at coordinates u to z, and return half the log-determinant of their precision given the logs.

    Given σ, τ and the weights w of the steps, the walk and η are normal a priori, and the pseudo-reports m with precisions c
    keep them normal: a filter along the categories says what those up to each say of the walk there, and the walk is drawn
    from the last category backwards, η given the walk.

    Parameters
    ----------
    u, z : (3a + 1,) arrays
        Coordinates and unknowns; in z stand, in order, log σ, log τ, the logs of w (a − 1), the walk (a) and η (a).
    frame : tuple
        Middle and spread of the logs, (a + 1,) each, the slant of log τ along the first coordinate; c, m, (a,) each.
    room : tuple of five (a,) arrays
        For the precisions of the steps, what the filter knows and that times its mean, one over the precision of the walk
        given the next category, and the share of the next category in its mean.
    """
    middle, spread, slant, c, m = frame
    stiff, prior, flow, narrow, share = room
    a = m.size
    for i in range(a + 1):
        z[i] = middle[i] + spread[i] * u[i]
    z[1] += slant * u[0]
    walk, eta, on_walk, on_eta = z[a + 1 : 2 * a + 1], z[2 * a + 1 :], u[a + 1 : 2 * a + 1], u[2 * a + 1 :]
    tight, rough = math.exp(-2.0 * z[1]), math.exp(-2.0 * z[0])
    for x in range(a - 1):
        stiff[x] = math.exp(z[2 + x]) * rough
    stiff[a - 1] = 0.0
    half, product, before, level, along = 0.0, 1.0, 0.0, 0.0, 0.0
    for x in range(a):
        seen = tight * c[x] / (tight + c[x])
        prior[x] = level = seen + before * level
        flow[x] = along = seen * m[x] + before * along
        precision = level + stiff[x]
        narrow[x] = 1.0 / precision
        share[x] = before = stiff[x] * narrow[x]
        product *= precision * (tight + c[x])
        if product > 1e100 or product < 1e-100:
            half += 0.5 * math.log(product)
            product = 1.0
    later = 0.0
    for x in range(a - 1, -1, -1):
        walk[x] = later = flow[x] * narrow[x] + on_walk[x] * math.sqrt(narrow[x]) + share[x] * later
    for x in range(a):
        variance = 1.0 / (tight + c[x])
        eta[x] = (tight * walk[x] + c[x] * m[x]) * variance + on_eta[x] * math.sqrt(variance)
    return half + 0.5 * math.log(product)


@compiled(nogil=True, fastmath=FAST)
def steps_and_deviations(u, z, out, frame, degrees, room):
    """Return the log-density of walk and weights given the scales and of η given the walk, and pull gradients back.

    Parameters
    ----------
    u, z, frame, room : arrays and tuples
        See place; the precisions of the steps in ``room`` are used up.
    out : (3a + 1,) array
        The gradient in η is read from its end; that in the logs of w and in the coordinates of the walk and of η is written.
    degrees : float

    Returns
    -------
    tuple of float
        The log-density, without the pseudo-reports, and its gradient in log σ and in log τ.
    """
    _, spread, _, c, m = frame
    stiff, prior, flow, narrow, share = room
    a = m.size
    walk, eta, on_walk, on_eta = z[a + 1 : 2 * a + 1], z[2 * a + 1 :], u[a + 1 : 2 * a + 1], u[2 * a + 1 :]
    of_weight, of_walk, of_eta = out[2 : a + 1], out[a + 1 : 2 * a + 1], out[2 * a + 1 :]
    tight, smooth = math.exp(-2.0 * z[1]), math.exp(2.0 * z[0])
    value, along_tight, along_sigma = -a * z[1] - (a - 1) * z[0], 0.0, -(a - 1.0)
    for x in range(a):
        off, variance = eta[x] - walk[x], 1.0 / (tight + c[x])
        slope, root = of_eta[x] - tight * off, math.sqrt(variance)
        value -= 0.5 * tight * off * off
        of_eta[x] = slope * root
        of_walk[x] = tight * (off + slope * variance)
        along_tight += slope * variance * ((walk[x] - m[x]) * c[x] * variance - 0.5 * on_eta[x] * root)
        along_tight -= 0.5 * (variance + off * off)
    for x in range(a - 1):
        step, weight = walk[x + 1] - walk[x], stiff[x] * smooth
        pull = stiff[x] * step
        of_walk[x] += pull
        of_walk[x + 1] -= pull
        value += 0.5 * (degrees + 1.0) * z[2 + x] - 0.5 * degrees * weight - 0.5 * pull * step
        of_weight[x] = 0.5 * (degrees + 1.0) - 0.5 * degrees * weight - 0.5 * pull * step
        along_sigma += pull * step
    # From here on the gradient goes back through the draw of the walk, and then through the filter.
    for x in range(1, a):
        of_walk[x] += share[x - 1] * of_walk[x - 1]
    later, of_known, of_flow = 0.0, 0.0, 0.0
    for x in range(a - 1, -1, -1):
        slope, root = of_walk[x], math.sqrt(narrow[x])
        of_share = slope * later + of_known * prior[x] + of_flow * flow[x]
        of_precision = -narrow[x] * (slope * (flow[x] * narrow[x] + 0.5 * on_walk[x] * root) + 0.5 + of_share * share[x])
        of_known = share[x] * of_known + of_precision
        of_flow = slope * narrow[x] + share[x] * of_flow
        stiff[x] *= of_share * narrow[x] + of_precision
        of_walk[x], later = slope * root, walk[x]
        along_tight += (of_known + of_flow * m[x]) * (c[x] / (tight + c[x])) ** 2
    for x in range(a - 1):
        of_weight[x] = (of_weight[x] + stiff[x]) * spread[2 + x]
        along_sigma -= 2.0 * stiff[x]
    return value, along_sigma, -a - 2.0 * tight * along_tight


@compiled(nogil=True)
def density(u, out, frame, law, room, form):
    """Return the log-density of coordinates u, and write its gradient to out.

    Parameters
    ----------
    u, out : (3a + 1,) arrays
    frame : tuple
        See place.
    law : tuple
        Rates of the exponential priors of σ and of τ, (2,) array, and the degrees of freedom of the steps.
    room : tuple
        The room of place, and an array (3a + 1,) to work in.
    form : tuple of arrays
        The likelihood; see forms.Forms.
    """
    rates, degrees = law
    inner, z = room
    _, spread, slant, c, m = frame
    a = m.size
    half = place(u, z, frame, inner)
    eta, of_eta = z[2 * a + 1 :], out[2 * a + 1 :]
    # P does not depend on the level of η; a normal law of its mean keeps it, with as much precision as the pseudo-reports.
    level, total = 0.0, 0.0
    for x in range(a):
        level += c[x] * (eta[x] - m[x])
        total += c[x]
    value, product = of_logits(0, eta.reshape(1, a), of_eta.reshape(1, a), form, 0.0, 1.0)
    value += math.log(product) - 0.5 * level * level / total - half
    for x in range(a):
        of_eta[x] -= c[x] * level / total
    prior, along_sigma, along_tau = steps_and_deviations(u, z, out, frame, degrees, inner)
    sigma, tau = math.exp(z[0]), math.exp(z[1])
    value += prior + z[0] - rates[0] * sigma + z[1] - rates[1] * tau
    along_sigma += 1.0 - rates[0] * sigma
    along_tau += 1.0 - rates[1] * tau
    out[0] = spread[0] * along_sigma + slant * along_tau
    out[1] = spread[1] * along_tau
    return value


#: Moves chains along trajectories; the last parameters are what ``density`` takes after the first two.
trajectories = compiled_trajectories(density)


@compiled(nogil=True)
def densities(u, values, out, frame, law, room, form):
    """Write the log-densities of coordinates (S, 3a + 1) to values, and their gradients to out; see density."""
    for s in range(len(u)):
        values[s] = density(u[s], out[s], frame, law, room, form)


@compiled(nogil=True)
def places(u, z, frame, room):
    """Write the unknowns at coordinates (S, 3a + 1) to z."""
    for s in range(len(u)):
        place(u[s], z[s], frame, room)
