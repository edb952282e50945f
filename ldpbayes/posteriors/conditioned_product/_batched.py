"""Compiled: transforms of the factors of many sets, their moments and margins given that each set sums to one."""

import math

import numpy as np

from ldpbayes.compiling import compiled

#: Sizes below which the product of all transforms, and of all but one, have died out.
NEGLIGIBLE, LEFT = 1e-16, 1e-13
#: A margin is lost where an error of 1e-16 in its own transform grows above this.
LOST = 1e-10


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
        shift = 1.0
        for x in range(a):
            shift -= centre[i, x]
            for m in range(n):
                angle = -step[i] * offset[i, x, m]
                turn_c[x, m], turn_s[x, m] = math.cos(angle), math.sin(angle)
                c[x, m], s[x, m] = 1.0, 0.0
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
        for j in range(count):
            vr[j] /= total
            vi[j] /= total
        for x in range(a):
            first, second = 0.0, 0.0
            for j in range(count):
                first += vr[j] * r1r[j, x] - vi[j] * r1i[j, x]
                second += vr[j] * r2r[j, x] - vi[j] * r2i[j, x]
            mean[i, x] = centre[i, x] + first
            variance[i, x] = second - first * first
            if not margins:
                continue
            worst = 0.0
            for m in range(n):
                density[i, x, m] = 0.0
                c[x, m], s[x, m] = 1.0, 0.0
            for j in range(count):
                square = e0r[j, x] * e0r[j, x] + e0i[j, x] * e0i[j, x]
                size = math.sqrt((vr[j] * vr[j] + vi[j] * vi[j]) / square)
                worst = max(worst, size * min(1e-16 / math.sqrt(square), 1.0))
                hr = (vr[j] * e0r[j, x] + vi[j] * e0i[j, x]) / square
                hi = (vi[j] * e0r[j, x] - vr[j] * e0i[j, x]) / square
                for m in range(n):
                    density[i, x, m] += c[x, m] * hr - s[x, m] * hi
                    old = c[x, m]
                    c[x, m] = old * turn_c[x, m] - s[x, m] * turn_s[x, m]
                    s[x, m] = old * turn_s[x, m] + s[x, m] * turn_c[x, m]
            lost[i, x] = max(worst / LOST, size / LOST)
            for m in range(n):
                density[i, x, m] = max(density[i, x, m] * weight[i, x, m], 0.0)


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
