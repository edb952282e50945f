"""Error of summaries against the full likelihood: means in posterior sd and ratios of sds, by epsilon, categories, reports.

python benchmarks/summary_boundary.py OUTPUT.csv [oue|olh|subset] [a ...] [--n 1e3,1e4,1e5] [--eps 1,1.5,2,3,4]

The truth is p_x ∝ 1/x (Zipf), the prior Jeffreys'. The pilot is the posterior mean given the support counts alone, as the
first of two passes finds it. Draws of the summary's posterior are weighted by full likelihood over summary: the weighted
moments minus the plain ones of the same draws are the error, and most of the Monte Carlo noise cancels.
"""

import argparse
import csv
import time

import numpy as np

from ldpbayes.collections import Tally
from ldpbayes.likelihoods import Summary
from ldpbayes.methods import expanded
from ldpbayes.protocols import LocalHashing, SubsetSelection, UnaryEncoding

PROTOCOLS = {"oue": UnaryEncoding.optimized, "olh": LocalHashing, "subset": SubsetSelection}


def pilot_given_supports(supports, n, hit, other, alpha):
    """Return (mean, variance) of P given the support counts, by independent errors of their unbiased estimates."""
    estimate = (supports / n - other) / (hit - other)
    p = np.clip(estimate, 1e-6, None)
    p /= p.sum()
    for _ in range(3):
        q = other + (hit - other) * p
        precision = n * (hit - other) ** 2 / (q * (1 - q) + (hit - other) ** 2 * p**2)
        proposal = expanded.TiltedProposal(expanded.ExpandedFactors(alpha, precision * estimate, precision))
        p, variance = proposal.saddle_moments()
    return p / p.sum(), variance


def measured(rows, summary, alpha, draws, rng):
    """Return (errors of the means in sd, their Monte Carlo errors, ratios of sds, theirs, share of effective draws)."""
    proposal = expanded.TiltedProposal(expanded.ExpandedFactors(alpha, summary.linear, summary.tangent_curvature))
    p, log_surrogate = expanded.proposals(proposal, draws, rng)
    base = np.exp(summary.log_likelihood(p.T) - log_surrogate - (summary.log_likelihood(p.T) - log_surrogate).max())
    base /= base.sum()
    step = max(1, int(2e8 // rows.n_rows))
    full = np.concatenate(
        [np.atleast_1d(rows.log_likelihood(np.ascontiguousarray(p[i : i + step].T))) for i in range(0, draws, step)]
    )
    ratio = full - log_surrogate
    weight = np.exp(ratio - ratio.max())
    weight /= weight.sum()
    mean, true = base @ p, weight @ p
    sd, true_sd = np.sqrt(base @ (p - mean) ** 2), np.sqrt(weight @ (p - true) ** 2)
    shift = (mean - true) / true_sd
    moved, place = (weight - base) ** 2, (p - true) / true_sd
    noise, ratio_noise = np.sqrt(moved @ place**2), 0.5 * np.sqrt(moved @ (place**2 - 1) ** 2)
    return shift, noise, sd / true_sd, ratio_noise, 1 / (weight**2).sum() / draws


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("output")
    parser.add_argument("kind")
    parser.add_argument("a", type=int, nargs="+")
    parser.add_argument("--n", default="1e3,1e4,1e5")
    parser.add_argument("--eps", default="1,1.5,2,3,4")
    parser.add_argument("--draws", type=int, default=2000)
    args = parser.parse_args()
    out = open(args.output, "a", newline="")
    writer = csv.writer(out)
    for a in args.a:
        for n in (int(float(v)) for v in args.n.split(",")):
            for eps in (float(v) for v in args.eps.split(",")):
                began = time.process_time()
                rng = np.random.default_rng([a, n, int(10 * eps)])
                protocol = PROTOCOLS[args.kind](a, eps)
                truth = 1 / np.arange(1.0, a + 1)
                truth /= truth.sum()
                tally = Tally(protocol, *protocol.simulate(rng.multinomial(n, truth), rng))
                rows, alpha = tally.rows, np.full(a, 0.5)
                hit, other = protocol.hit_rates
                pilot, variance = pilot_given_supports(rows.support_counts(), n, hit, other, alpha)
                for spread in (None, variance):
                    summary = Summary.of(rows, pilot, spread)
                    draws = args.draws if n * a < 3e7 else 600
                    shift, noise, ratio, _, efficiency = measured(rows, summary, alpha, draws, rng)
                    worst = np.abs(shift).argmax()
                    # one fixed-point step: the gradient averaged over the posterior's spread, less the quadratic's
                    prop = expanded.TiltedProposal(
                        expanded.ExpandedFactors(alpha, summary.linear, summary.tangent_curvature)
                    )
                    m, v = prop.saddle_moments()
                    exactly = Summary.of(rows, m / m.sum(), prop.factor_variance)
                    left = exactly.gradient - (summary.linear - summary.tangent_curvature * m)
                    move = v * (left - (v @ left) / v.sum())
                    predicted = np.abs(move / np.sqrt(v)).max()
                    row = [
                        args.kind,
                        a,
                        n,
                        eps,
                        "spread" if spread is not None else "point",
                        round(float(np.abs(shift).max()), 4),
                        round(float(noise[worst]), 4),
                        round(float(ratio.min()), 4),
                        round(float(ratio.max()), 4),
                        round(float(efficiency), 3),
                        round(float(predicted), 4),
                        round(float(np.abs((m - pilot) / np.sqrt(v)).max()), 3),
                        round(float((summary.square / summary.gradient).max()), 4),
                        round(float((summary.square**2 / summary.gradient * v**1.5).max()), 5),
                        round(float(np.sqrt((1 / exactly.tangent_curvature) / (1 / summary.tangent_curvature)).max()), 4),
                        round(time.process_time() - began, 2),
                    ]
                    writer.writerow(row)
                    print(*row, flush=True)
                    out.flush()


if __name__ == "__main__":
    main()
