"""Compiled: transforms of the factors of many sets, their moments and margins given that each set sums to one."""

import math

import numpy as np

from ldpbayes.compiling import compiled

#: Sizes below which the product of all transforms, and of all but one, have died out.
NEGLIGIBLE, LEFT = 1e-16, 1e-13
#: A margin is lost where an error of 1e-16 in its own transform grows above this.
LOST = 1e-10
#: Counts less probable than this, relative to the most probable one, are left out.
NO_COUNT = 1e-24
#: What is larger is divided by this, and what would be added to it later counts for nothing; it is looked at after so many
#: steps, each of which multiplies by at most 1e12.
HUGE, STEPS = 1e200, 8
#: Tilts that are tried.
TILTS = 30


@compiled(nogil=True, fastmath={"contract", "nsz", "reassoc"})
def _given(ends, ratios, turns, margins, centre, weight, mean, variance, density, lost):
    """Write moments of the g_x of one set, and their densities at the nodes where ``margins`` are asked for.

    ``ends`` are the transforms of all factors, over their integral, and of each factor, ``ratios`` its first two derivatives
    over itself, real and imaginary parts at all ω; ``turns`` room for angles, and by what they turn.
    """
    (vr, vi, e0r, e0i), (r1r, r1i, r2r, r2i), (c, s, turn_c, turn_s) = ends, ratios, turns
    a, n = weight.shape
    c[:], s[:] = 1.0, 0.0
    for x in range(a):
        first, second = 0.0, 0.0
        for j in range(vr.size):
            first += vr[j] * r1r[j, x] - vi[j] * r1i[j, x]
            second += vr[j] * r2r[j, x] - vi[j] * r2i[j, x]
        mean[x] = centre[x] + first
        variance[x] = second - first * first
        if not margins:
            continue
        worst, size = 0.0, 0.0
        density[x, :] = 0.0
        for j in range(vr.size):
            square = e0r[j, x] * e0r[j, x] + e0i[j, x] * e0i[j, x]
            size = math.sqrt((vr[j] * vr[j] + vi[j] * vi[j]) / square)
            worst = max(worst, size * min(1e-16 / math.sqrt(square), 1.0))
            hr = (vr[j] * e0r[j, x] + vi[j] * e0i[j, x]) / square
            hi = (vi[j] * e0r[j, x] - vr[j] * e0i[j, x]) / square
            for m in range(n):
                density[x, m] += c[x, m] * hr - s[x, m] * hi
                old = c[x, m]
                c[x, m] = old * turn_c[x, m] - s[x, m] * turn_s[x, m]
                s[x, m] = old * turn_s[x, m] + s[x, m] * turn_c[x, m]
        lost[x] = max(worst / LOST, size / LOST)
        for m in range(n):
            density[x, m] = max(density[x, m] * weight[x, m], 0.0)


@compiled(nogil=True, fastmath={"contract", "nsz", "reassoc"})
def given_the_sum(offset, weight, centre, step, most, margins, mean, variance, log_total, density, lost):
    """Write moments of g_x given Σ g = 1 for each of k sets of a factors, and the densities of g_x at their nodes.

    offset, weight (k, a, N); centre (k, a); step (k,) of ω; mean, variance, lost (k, a); log_total (k,) is the log-density
    of the sum at one, nan where the transforms do not die out within ``most`` steps.
    """
    k, a, n = offset.shape
    c, s = np.empty((a, n)), np.empty((a, n))
    turn_c, turn_s = np.empty((a, n)), np.empty((a, n))
    e0r, e0i = np.empty((most, a)), np.empty((most, a))
    r1r, r1i, r2r = np.empty((most, a)), np.empty((most, a)), np.empty((most, a))
    r2i = np.empty((most, a))
    vr, vi = np.empty(most), np.empty(most)
    for i in range(k):
        shift = 1.0 - centre[i].sum()
        turn_c[:], turn_s[:] = np.cos(step[i] * offset[i]), -np.sin(step[i] * offset[i])
        c[:], s[:] = 1.0, 0.0
        lost[i, :] = 0.0
        count, total = 0, 0.0
        for j in range(most):
            pr, pi = 1.0, 0.0
            least = 1e300
            for x in range(a):
                ar, ai, br, bi, dr, di = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
                for m in range(n):
                    w, d = weight[i, x, m], offset[i, x, m]
                    real, imag = w * c[x, m], w * s[x, m]
                    ar += real
                    ai += imag
                    br += d * real
                    bi += d * imag
                    dr += d * d * real
                    di += d * d * imag
                    old = c[x, m]
                    c[x, m] = old * turn_c[x, m] - s[x, m] * turn_s[x, m]
                    s[x, m] = old * turn_s[x, m] + s[x, m] * turn_c[x, m]
                square = ar * ar + ai * ai
                if square < 1e-60:
                    ar, ai, square = 1e-30, 0.0, 1e-60
                e0r[j, x], e0i[j, x] = ar, ai
                r1r[j, x], r1i[j, x] = (br * ar + bi * ai) / square, (bi * ar - br * ai) / square
                r2r[j, x], r2i[j, x] = (dr * ar + di * ai) / square, (di * ar - dr * ai) / square
                pr, pi = pr * ar - pi * ai, pr * ai + pi * ar
                least = min(least, square)
            size = math.sqrt(pr * pr + pi * pi)
            angle = step[i] * j * shift
            rr, ri = math.cos(angle), math.sin(angle)
            vr[j], vi[j] = pr * rr - pi * ri, pr * ri + pi * rr
            if j == 0:
                vr[0], vi[0] = 0.5 * vr[0], 0.5 * vi[0]
            total += vr[j]
            count = j + 1
            others = size / math.sqrt(least)
            if size < NEGLIGIBLE and (not margins or others < LEFT):
                break
        if size >= NEGLIGIBLE or not total > 0:
            log_total[i] = math.nan
            continue
        log_total[i] = math.log(step[i] / math.pi * total)
        ends = vr[:count] / total, vi[:count] / total, e0r, e0i
        ratios, turns = (r1r, r1i, r2r, r2i), (c, s, turn_c, turn_s)
        _given(ends, ratios, turns, margins, centre[i], weight[i], mean[i], variance[i], density[i], lost[i])


@compiled(nogil=True)
def _count_law(alpha, slope, power, tilt, table):
    """Write the law of k, P(k) ∝ C(w, k) c^k Γ(α + k) t^{−α−k}, to a table; return (lowest k, size, log of the sum), size 0
    where the table is too short."""
    most = int(power)
    # The ratio of neighbours falls with k from the mode on: the positive root of (w − k) c (α + k) = (k + 1) t.
    linear = (power - alpha) * slope - tilt
    root = math.sqrt(max(linear * linear + 4 * slope * (power * alpha * slope - tilt), 0.0))
    mode = 0 if slope == 0 else min(max(int((linear + root) / (2 * slope)), 0), most)
    log_top = math.lgamma(power + 1) - math.lgamma(mode + 1.0) - math.lgamma(power - mode + 1) + math.lgamma(alpha + mode)
    log_top += (mode * math.log(slope) if mode else 0.0) - (alpha + mode) * math.log(tilt)
    low, term = mode, 1.0
    # Small concentrations have a second mode at 0.
    if math.lgamma(alpha) - alpha * math.log(tilt) - log_top > math.log(NO_COUNT):
        low = 0
    while low > 0 and term > NO_COUNT:
        term *= low * tilt / ((most - low + 1) * slope * (alpha + low - 1))
        low -= 1
    high, term = mode, 1.0
    while high < most and term > NO_COUNT:
        term *= (most - high) * slope * (alpha + high) / ((high + 1) * tilt)
        high += 1
    size = high - low + 1
    if size > table.size:
        return low, 0, 0.0
    table[mode - low] = total = 1.0
    for k in range(mode, high):
        table[k + 1 - low] = table[k - low] * (most - k) * slope * (alpha + k) / ((k + 1) * tilt)
        total += table[k + 1 - low]
    for k in range(mode, low, -1):
        table[k - 1 - low] = table[k - low] * k * tilt / ((most - k + 1) * slope * (alpha + k - 1))
        total += table[k - 1 - low]
    for k in range(size):
        table[k] /= total
    return low, size, log_top + math.log(total)


@compiled(nogil=True, fastmath={"contract", "nsz", "reassoc"})
def _convolve(one, n, two, m, out):
    """Write the convolution of the first n and m entries of two tables without negligible ends; return how many were left
    out before the first, and the size."""
    out[: n + m - 1] = 0.0
    for i in range(n):
        x = one[i]
        for j in range(m):
            out[i + j] += x * two[j]
    start, end, least = 0, n + m - 1, NO_COUNT * out[: n + m - 1].max()
    while out[start] < least:
        start += 1
    while out[end - 1] < least:
        end -= 1
    for i in range(end - start):
        out[i] = out[start + i]
    return start, end - start


@compiled(nogil=True)
def _total_weights(law, low, size, alpha, tilt, out):
    """Write law(r) t^{α+r}/Γ(α + r) over its largest, r = low …; return the log of that."""
    top = -1e300
    log_tilt = math.log(tilt)
    for r in range(size):
        shape = alpha + low + r
        out[r] = (math.log(law[r]) if law[r] > 0 else -1e300) + shape * log_tilt - math.lgamma(shape)
        top = max(top, out[r])
    for r in range(size):
        out[r] = math.exp(out[r] - top)
    return top


@compiled(nogil=True, fastmath={"contract", "nsz", "reassoc"})
def _horner(coefficient, ratio, value, shift):
    """Write a polynomial of positive coefficients at all ratios, as value · e^shift; both are zero before."""
    for end in range(coefficient.size, 0, -STEPS):
        for r in range(end - 1, max(end - STEPS, 0) - 1, -1):
            for m in range(ratio.size):
                value[m] = value[m] * ratio[m] + (coefficient[r] if shift[m] == 0.0 else 0.0)
        for m in range(ratio.size):
            if value[m] > HUGE:
                value[m] /= HUGE
                shift[m] += math.log(HUGE)


@compiled(nogil=True)
def _by_polynomial(coefficient, own, grid, usual, density):
    """Write the density of g_x on a grid, a polynomial in q = 1 − g, to density; return its mean and variance.

    ``own`` is (α, slope, power, power of q), ``grid`` (centre, scale, first u, step), ``usual`` the q that the coefficients
    are scaled by.
    """
    (alpha, slope, power, last), (centre, scale, low, step) = own, grid
    total, largest, n = 0.0, -1e300, density.size
    p, log_p, log_q, ratio = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    value, shift = np.zeros(n), np.zeros(n)
    for m in range(n):
        y = centre + scale * math.sinh(low + step * (m + 0.5))
        log_p[m], log_q[m] = -math.log1p(math.exp(-y)) if y > -30 else y, -math.log1p(math.exp(y)) if y < 30 else -y
        p[m], ratio[m] = math.exp(log_p[m]), math.exp(log_q[m]) / usual
    _horner(coefficient, ratio, value, shift)
    for m in range(n):
        log_value = math.log(value[m]) + shift[m] if value[m] > 0 else -1e300
        log_value += alpha * log_p[m] + power * math.log1p(slope * p[m])
        log_value += last * log_q[m] + math.log(math.cosh(low + step * (m + 0.5)))
        density[m] = log_value
        largest = max(largest, log_value)
    for m in range(n):
        density[m] = math.exp(density[m] - largest)
        total += density[m]
    mean, variance = 0.0, 0.0
    for m in range(n):
        density[m] /= total
        mean += density[m] * p[m]
    for m in range(n):
        variance += density[m] * (p[m] - mean) ** 2
    return mean, variance


@compiled(nogil=True)
def _count_laws(alpha, slope, power, multiplicity, tilt, table, firsts, sizes, masses):
    """Write the laws of the counts of all factors of one set, at a tilt near which they sum to one; return (tilt, size of
    the law of their sum, multiplications of their convolution), size 0 where the tables are too short."""
    at, low = tilt, (multiplicity * alpha).sum()
    high = low + (multiplicity * power).sum()
    settled, longest, cost = False, 0.0, 0.0
    for step in range(TILTS):
        longest, cost, shapes, spread, fits = 1.0, 0.0, 0.0, 0.0, True
        for x in range(alpha.size):
            firsts[x], sizes[x], masses[x] = _count_law(alpha[x], slope[x], power[x], at, table[x])
            fits = fits and sizes[x] > 0
            # A convolution a time; those of tables of one entry are a product.
            cost += sizes[x] * (multiplicity[x] * longest + 0.5 * (sizes[x] - 1) * multiplicity[x] * (multiplicity[x] + 1))
            longest += multiplicity[x] * (sizes[x] - 1)
            first, second = 0.0, 0.0
            for k in range(sizes[x]):
                first += k * table[x, k]
                second += k * k * table[x, k]
            shapes += multiplicity[x] * (alpha[x] + firsts[x] + first)
            spread += multiplicity[x] * (second - first * first)
        # Σg has mean ``shapes``/t: a tilt at which that is far from one leaves out the counts that matter.
        settled = fits and abs(shapes - at) <= math.sqrt(spread + shapes)
        if settled or not fits:
            break
        low, high = (at, high) if shapes > at else (low, at)
        at = math.sqrt(at * shapes)
        # Laws of two modes jump from one to the other: every other step is to the middle of what is left.
        at = at if low < at < high and step % 2 == 0 else math.sqrt(low * high)
    return at, longest if settled and longest <= table.shape[1] else 0.0, cost


@compiled(nogil=True)
def masses_by_counts(alpha, slope, power, multiplicity, most, work, log_mass):
    """Write log ∫ Π_x φ_x(g_x) over Σ g = 1 for k sets, as by_counts does, without moments.

    alpha, slope, power (k, G); multiplicity (G,), how many categories of a set have each factor; log_mass (k,), nan where
    tables would be longer than ``most`` or a set would take more than ``work`` multiplications.
    """
    sets, g = alpha.shape
    table, firsts, sizes, masses = np.empty((g, most)), np.empty(g, np.int64), np.empty(g, np.int64), np.empty(g)
    law, other, weights = np.empty(most), np.empty(most), np.empty(most)
    for i in range(sets):
        log_mass[i] = math.nan
        tilt = (multiplicity * (alpha[i] + power[i])).sum()
        at, longest, cost = _count_laws(alpha[i], slope[i], power[i], multiplicity, tilt, table, firsts, sizes, masses)
        if longest == 0 or cost > work:
            continue
        law[0], lowest, size, total = 1.0, 0, 1, 0.0
        for x in range(g):
            lowest += multiplicity[x] * firsts[x]
            total += multiplicity[x] * masses[x]
            for _ in range(multiplicity[x] if sizes[x] > 1 else 0):
                start, size = _convolve(table[x], sizes[x], law, size, other)
                lowest += start
                law, other = other, law
        whole = (multiplicity * alpha[i]).sum()
        top = _total_weights(law, lowest, size, whole, at, weights)
        log_mass[i] = total + top + math.log(weights[:size].sum())


@compiled(nogil=True)
def draw_counts(alpha, slope, power, most, entries, uniform, out):
    """Write draws of the counts k of one set given Σ g = 1 to out (S, a), whose uniform numbers are (S, a + 1).

    Returns whether it did: False where tables would be longer than ``most``, or those of one factor given a sum have more
    than so many ``entries``. Their sum comes first; then each k given the sum of those up to it, from the last on.
    """
    a, draws = alpha.size, len(uniform)
    table, firsts, sizes, masses = np.empty((a, most)), np.empty(a, np.int64), np.empty(a, np.int64), np.empty(a)
    before, ahead, once = np.empty((a + 1, most)), np.zeros((a + 1, 2), np.int64), np.ones(a, np.int64)
    at, longest, _ = _count_laws(alpha, slope, power, once, (alpha + power).sum(), table, firsts, sizes, masses)
    if longest == 0 or longest * sizes.max() > entries:
        return False
    before[0, 0], ahead[0, 1] = 1.0, 1
    for x in range(a):
        start, size = _convolve(table[x], sizes[x], before[x], ahead[x, 1], before[x + 1])
        ahead[x + 1, 0], ahead[x + 1, 1] = ahead[x, 0] + firsts[x] + start, size
    size = ahead[a, 1]
    weights = np.empty(size)
    _total_weights(before[a], ahead[a, 0], size, alpha.sum(), at, weights)
    below = np.cumsum(weights)
    left = ahead[a, 0] + np.searchsorted(below, uniform[:, a] * below[-1])
    for x in range(a - 1, -1, -1):
        (low, many), first, size = ahead[x], firsts[x], sizes[x]
        start, sums = ahead[x + 1]
        laws, made = np.empty((sums, size)), np.zeros(sums, np.bool_)
        for d in range(draws):
            law, total = laws[left[d] - start], left[d] - first - low
            if not made[left[d] - start]:
                made[left[d] - start], summed = True, 0.0
                for k in range(size):
                    if 0 <= total - k < many:
                        summed += table[x, k] * before[x, total - k]
                    law[k] = summed
            out[d, x] = first + min(np.searchsorted(law, uniform[d, x] * law[-1], side="right"), size - 1)
            left[d] -= out[d, x]
    return True


@compiled(nogil=True)
def by_counts(alpha, slope, power, tilt, centre, scale, low, step, most, work, mean, variance, log_mass, density):
    """Do what given_the_sum does for factors g^{α−1} (1 + c g)^w with whole w, however slowly their transforms die out.

    φ(g) e^{−tg} mixes Gamma(α + k, t) over k ≤ w, so that a sum of factors mixes Gammas over the sum of their k, whose law
    is a convolution. Every g_x has the density φ_x(g) Σ_r P(Σ_{y≠x} k_y = r) t^{A+r} (1 − g)^{A+r−1}/Γ(A + r), which is a
    polynomial in 1 − g; here at logit g = centre + scale·sinh(u) on a grid of u. All terms are positive.

    alpha, slope, power, centre, scale, low, step (k, a); tilt (k,); mean, variance (k, a); log_mass (k,), nan where tables
    would be longer than ``most`` or a set would take more than ``work`` multiplications; density (k, a, N).
    """
    sets, a, n = density.shape
    table, firsts, sizes, masses = np.empty((a, most)), np.empty(a, np.int64), np.empty(a, np.int64), np.empty(a)
    before, after = np.empty((a + 1, most)), np.empty((a + 1, most))
    ahead, behind = np.zeros((a + 1, 2), np.int64), np.zeros((a + 1, 2), np.int64)  # lowest sum, size
    rest, coefficient, once = np.empty(most), np.empty(most), np.ones(a, np.int64)
    for i in range(sets):
        log_mass[i] = math.nan
        whole = alpha[i].sum()
        at, longest, cost = _count_laws(alpha[i], slope[i], power[i], once, tilt[i], table, firsts, sizes, masses)
        if longest == 0 or 3.0 * cost + 2.0 * n * a * longest > work:
            continue
        before[0, 0] = after[a, 0] = 1.0
        ahead[0, 1] = behind[a, 1] = 1
        for x in range(a):
            start, size = _convolve(table[x], sizes[x], before[x], ahead[x, 1], before[x + 1])
            ahead[x + 1, 0], ahead[x + 1, 1] = ahead[x, 0] + firsts[x] + start, size
            y = a - 1 - x
            start, size = _convolve(table[y], sizes[y], after[y + 1], behind[y + 1, 1], after[y])
            behind[y, 0], behind[y, 1] = behind[y + 1, 0] + firsts[y] + start, size
        top = _total_weights(before[a], ahead[a, 0], ahead[a, 1], whole, at, coefficient)
        log_mass[i] = masses.sum() + top + math.log(coefficient[: ahead[a, 1]].sum())
        for x in range(a):
            start, size = _convolve(before[x], ahead[x, 1], after[x + 1], behind[x + 1, 1], rest)
            other, lowest = whole - alpha[i, x], ahead[x, 0] + behind[x + 1, 0] + start
            # A polynomial in q over its value in the middle of the grid, where the terms that count are neither too small
            # nor too large for a float.
            usual = 1 / (1 + math.exp(centre[i, x]))
            _total_weights(rest, lowest, size, other, at * usual, coefficient)
            own = alpha[i, x], slope[i, x], power[i, x], other + lowest
            grid = centre[i, x], scale[i, x], low[i, x], step[i, x]
            mean[i, x], variance[i, x] = _by_polynomial(coefficient[:size], own, grid, usual, density[i, x])


@compiled(nogil=True)
def positions(density, real, imag, levels, out):
    """Write the quantiles of densities (F, N) on even grids, in grid steps from the first point, to out (F, L).

    real, imag (F, N/2 + 1) are the Fourier series of the densities, whose sums are one: see ``margins.Margin.quantile``.
    """
    f, n = density.shape
    half = real.shape[1]
    for row in range(f):
        for place in range(levels.size):
            level = levels[place]
            right, summed = 0, 0.0
            while right < n:
                summed += density[row, right]
                if summed >= level:
                    break
                right += 1
            low, high, position = right - 1.5, right + 1.5, float(right)
            for _ in range(40):
                angle = 2 * math.pi / n * position
                tc, ts = math.cos(angle), math.sin(angle)
                bc, bs = math.cos(math.pi / n), -math.sin(math.pi / n)
                nc, ns, sc, ss = 1.0, 0.0, 1.0, 0.0
                value, slope = (position + 0.5) / n, 1.0 / n
                for h in range(1, half):
                    nc, ns = nc * tc - ns * ts, nc * ts + ns * tc
                    sc, ss = sc * bc - ss * bs, sc * bs + ss * bc
                    scale = (1.0 if 2 * h == n else 2.0) / n
                    re, im = scale * real[row, h], scale * imag[row, h]
                    now = re * nc - im * ns
                    # (now − start)/(i θ): its real part is the imaginary part of the difference over θ
                    value += ((re * ns + im * nc) - (re * ss + im * sc)) * n / (2 * math.pi * h)
                    slope += now
                if value < level:
                    low = position
                else:
                    high = position
                new = position - (value - level) / slope if slope > 0 else high + 1
                if not low < new < high:
                    new = 0.5 * (low + high)
                moved = abs(new - position)
                position = new
                if moved < 1e-11:
                    break
            out[row, place] = position
