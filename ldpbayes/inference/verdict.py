"""One verdict on every posterior: whether its draws may be used, why not, and what to do next.

Draws are either independent and weighted, or chains, and each kind has one function here.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np


@dataclass(frozen=True)
class Limits:
    """Limits of diagnostics, by which draws are accepted, and how many more of them are worth making.

    Attributes
    ----------
    r_hat : float
        Chains are accepted below this split R-hat. Derived: Vehtari et al. (2021, Bayesian Analysis 16), §4.
    ess : float
        Chains are accepted from this effective sample size of their worst quantity on. Derived: 100 for each of four
        chains, below which estimates of R-hat and of the size are noise (the same paper).
    k_hat : float
        Weights are accepted below this Pareto shape. The shape is asked for where the unseen share of weight may exceed
        ``unseen``. Derived: Vehtari et al. (2024, JMLR 25): above it the draws that a mean needs grow beyond what is made.
        Their limit for S draws, 1 − 1/log₁₀ S, is below it under 2,200 draws; a fit makes 4,000 and more.
    unseen : float
        Share of all weight that may be expected beyond the largest weight drawn. Derived: a mean three sd away moves by
        .03 sd at most. As much of a posterior may lie where no draw is.
    share : float
        Share of the draws a reader gets that weights must be worth. Derived: the error of a mean is at most doubled.
    end_error : float
        Largest standard error of an interval end that is accepted where draws are weighted, in posterior sd. Derived: a 95 %
        interval whose end is off by .1 sd holds 94.4 to 95.5 %: φ(1.96) · .1 = .006.
    worst : float
        Of many quantities, this share with the fewest effective draws for squares may be few by chance. Derived: the level
        of a customary test; the worst of at most twenty counts. The sds of that share may be off by more than the others'.
    margin : float
        More draws aim at this multiple of what is asked, so that chance does not call for them again. Derived: an effective
        size of 400 is estimated with an sd of some 10 %, and two sd are a fifth.
    most : int
        Times the draws made so far that the same method may go on to. Derived: errors fall to a quarter. What needs more
        goes to the next method, at last to NUTS.
    usual : int
        Draws of a default fit: where fewer are asked for, a sampler goes on as long as it would with these. Derived: four
        chains of 1,000, as every sampler of the field has; ends of intervals have errors of some .03 sd.
    """

    r_hat: float = 1.01
    ess: float = 400
    k_hat: float = 0.7
    unseen: float = 0.01
    share: float = 0.25
    end_error: float = 0.1
    worst: float = 0.05
    margin: float = 1.25
    most: int = 16
    usual: int = 4000

    @property
    def squares(self) -> float:
        """Share of the draws that weights must be worth for squared distances from the mean, which decide sds and tails.

        Half as many as for means give an sd the same error: of N normal draws a mean has sd/√N, an sd sd/√(2N).
        """
        return self.share / 2


#: The limits of every verdict whose caller states no others.
LIMITS = Limits()

Next = Literal["done", "more", "other"]


@dataclass(frozen=True)
class Verdict:
    """Whether draws may be used.

    Attributes
    ----------
    accepted : bool
    problem : str
        Why they may not be used, in words without a full stop; empty where they are accepted.
    checked : str
        What was checked, in one sentence.
    next : {"done", "more", "other"}
        What to do: nothing, go on with more draws of the same method, or take another method.
    times : int
        How many times the draws made so far are needed. Derived: the square of error over accepted error, for errors fall
        as 1/√draws; 1 where the next step is not "more".
    lacking : float
        How many times the draws asked for make the interval ends exact enough. Derived: the same
        square, by ``Limits.margin`` and the multiple that was made; 0 where the ends are not the only problem.
    """

    accepted: bool = True
    problem: str = ""
    checked: str = ""
    next: Next = "done"
    times: int = 1
    lacking: float = 0.0

    def rejecting(self, problem: str) -> "Verdict":
        """Return the verdict with one more problem, which more draws of the same method do not solve."""
        return replace(
            self,
            accepted=False,
            problem="; ".join(filter(None, (self.problem, problem))),
            next="other",
            times=1,
            lacking=0.0,
        )

    def with_ends(self, error: float, allowed: float, made: float = 1.0, limits: Limits = LIMITS) -> "Verdict":
        """Return the verdict after a look at the largest error of an interval end, in posterior sd.

        Parameters
        ----------
        error, allowed : float
        made : float
            How many times the draws asked for were made.
        limits : Limits
        """
        if not self.accepted or not error > allowed:
            return self
        wanted = (error / allowed) ** 2
        times, more = math.ceil(wanted), limits.margin * wanted * made
        next_: Next = "more" if times <= limits.most else "other"
        problem = f"the end of an interval has an error of {error:.2f} posterior sd, where {allowed:.2g} is accepted"
        return replace(self, accepted=False, problem=problem, next=next_, times=times, lacking=more)

    def advised(self, draws: int) -> str:
        """Return the problem and, where more draws solve it, how many; ``draws`` of each chain were asked for."""
        if not 0 < self.lacking < math.inf:
            return self.problem
        needed = self.lacking * draws
        step = 10 ** max(math.floor(math.log10(needed)) - 1, 0)  # two digits: the error is an estimate itself
        return f"{self.problem}; more draws help: draws={step * math.ceil(needed / step)}"

    def with_outside(self, share: float, limits: Limits = LIMITS) -> "Verdict":
        """Return the verdict after a look at draws of the prior, which show this share of the posterior where no draw is."""
        if not share > limits.unseen:
            return self
        return self.rejecting(f"draws of the prior show another mode, with a share of {share:.2g} at least")


#: Nothing is wrong, and nothing was checked.
ACCEPTED = Verdict()


def refused(problem: str) -> Verdict:
    """Return the Verdict of a method that says itself why its draws may not be used."""
    return ACCEPTED.rejecting(problem)


def of_weights(
    k_hat: float,
    effective: float,
    drawn: int,
    kept: int | None = None,
    *,
    unseen: float = math.inf,
    squares: float = math.inf,
    k_squares: float = math.nan,
    shift: float = math.nan,
    limits: Limits = LIMITS,
) -> Verdict:
    """Return the Verdict on weighted independent draws.

    Parameters
    ----------
    k_hat : float
        Pareto k-hat of the weights.
    effective : float
        1/Σ w².
    drawn : int
        Weighted draws.
    kept : int, optional
        Draws that a reader gets, resampled from these; by default as many.
    unseen : float
        Share of all weight that is expected beyond the largest weight drawn; see importance.unseen.
    squares : float
        Effective draws for the squared distance from the mean of the worst quantities; see importance.squares_of.
    k_squares : float
        Pareto k-hat of weight × squared distance of the worst quantity, where ``squares`` are few.
    shift : float
        Largest move of a mean by the weights, in posterior sd.
    limits : Limits

    Notes
    -----
    Under a Pareto tail with shape k the share of the weight beyond the largest of M tail draws is e M^{k−1}, e the share
    in excess of the tail's beginning. Where that is below ``limits.unseen``, a mean three sd away moves by .03 sd at most,
    and k-hat, which is noise where weights are nearly equal, is not asked. Without this rule, some of a thousand cells
    would be rejected because their k-hat is large by chance.
    """
    kept = drawn if kept is None else kept
    text = f"Pareto k-hat {k_hat:.2f}, {effective:.0f} effective of {drawn} draws"
    moved = "" if math.isnan(shift) else f"; they corrected a mean of the approximation by {shift:.2f} posterior sd at most"
    good = Verdict(checked=f"The weights on the true likelihood are sound: {text}{moved}.")
    heavy = not (light_tails(k_hat, limits) or unseen < limits.unseen)
    few = not effective >= limits.share * kept
    thin = not squares >= limits.squares * min(drawn, kept)
    if not (heavy or few or thin):
        return good
    if heavy or few:
        share = f"{100 * effective / kept:.0f} % effective draws"
        problem = (
            f"Pareto k-hat {k_hat:.2f} and {share}, where below {limits.k_hat} and {100 * limits.share:.0f} % are needed"
        )
    else:
        problem = (
            f"{100 * squares / kept:.1f} % of the draws are effective for squared distances from the mean, on which the sds "
            f"depend, where {100 * limits.squares:.1f} % are needed"
        )
    wanted = max(limits.share * kept / max(effective, 1.0), limits.squares * kept / max(squares, 1.0))
    times = math.ceil(limits.margin * wanted)
    light = not heavy and not k_squares >= limits.k_hat
    rejected = Verdict(accepted=False, checked=f"Weights on the true likelihood: {text}.", problem=problem, next="other")
    return replace(rejected, next="more", times=max(times, 2)) if light and times <= limits.most else rejected


def light_tails(k_hat: float, limits: Limits = LIMITS) -> bool:
    """Return whether weights have tails so light that their mean is known."""
    return k_hat < limits.k_hat


def of_chains(
    r_hat: float, ess: float, divergences: int = 0, drawn: int | None = None, made: int = 0, limits: Limits = LIMITS
) -> Verdict:
    """Return the Verdict on chains.

    Parameters
    ----------
    r_hat : float
        The largest split R-hat; nan, which is not accepted, of a single chain, and where too few draws or none that vary
        leave nothing to look at.
    ess : float
        The least effective sample size, of bulk and tails.
    divergences : int
        Draws that diverged.
    drawn : int, optional
        Draws that a reader asked for, in all; by default enough.
    made : int
        Draws made, in all.
    limits : Limits

    Notes
    -----
    Two kinds of chains go on for ``limits.share`` of their draws alone, and for no R-hat of chance (up to 1.018 in 800
    independent draws of 500 quantities): those of fewer draws than ``limits.ess`` needs, and those whose share is below it
    once as many as usual were made. Then nothing is next, though they are not accepted. A single chain has no R-hat.
    """
    checked = f"R-hat at most {r_hat:.3f}, effective sample size at least {ess:.0f}, {divergences} divergences."
    problems, single = [], math.isnan(r_hat) and ess > 0
    if single:
        problems.append("a single chain has no R-hat, so that nothing says whether it has met others")
    elif not r_hat < limits.r_hat:
        problems.append(f"R-hat {r_hat:.3f} is not below {limits.r_hat}")
    if not ess >= limits.ess:
        problems.append(f"the least effective sample size {ess:.0f} is below {limits.ess:.0f}")
    if divergences:
        problems.append(f"{divergences} draw{'s' * (divergences != 1)} diverged")
    if not problems:
        return Verdict(checked=checked)
    rejected = Verdict(False, "; ".join(problems), checked, "other")
    if divergences or not ess > 0:
        return rejected
    wanted, apart, by_chance = limits.ess / ess, (r_hat - 1) / (limits.r_hat - 1), single
    if drawn and limits.share * drawn < limits.ess and (drawn < limits.margin * limits.ess or made >= limits.usual):
        wanted, by_chance = limits.share * drawn / ess, single or apart * ess < 2 * limits.ess
    if wanted <= 1 and by_chance:
        return replace(rejected, next="done")
    # R-hat − 1 falls as one over the effective draws.
    needed = limits.margin * (wanted if by_chance else max(wanted, apart))
    longest = limits.most * max(limits.usual / (drawn or limits.usual), 1.0)
    if not needed <= longest:
        return rejected
    return replace(rejected, next="more", times=max(math.ceil(needed), 2))


def together(verdicts: Iterable[Verdict], what: str = "cells") -> Verdict:
    """Return the Verdict on many answers that are given together: accepted where each of them is.

    Parameters
    ----------
    verdicts : iterable of Verdict
        Not empty, the worst first: where all are accepted, its words are repeated.
    what : str
        What there are many of.
    """
    every = list(verdicts)
    rejected = [verdict for verdict in every if not verdict.accepted]
    if not rejected:
        return (
            every[0] if len(every) == 1 else Verdict(checked=f"In all {len(every)} {what}; in the worst: {every[0].checked}")
        )
    rank = {"done": 0, "more": 1, "other": 2}
    worst = max(rejected, key=lambda verdict: (rank[verdict.next], verdict.times))
    problem = worst.problem if len(every) == 1 else f"in {len(rejected)} of {len(every)} {what} {worst.problem}"
    return replace(worst, problem=problem)


def worst_share(values: np.ndarray, limits: Limits = LIMITS) -> float:
    """Return the ``worst`` quantile of the effective draws of many quantities: their least where they are at most twenty."""
    ordered = np.sort(np.ravel(values))
    return float(ordered[int(limits.worst * (ordered.size - 1))])
