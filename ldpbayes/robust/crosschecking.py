"""Several answers to one question side by side: exact, NUTS, MLE, cvxpy and oracle, and whether the channel fits at all."""

import math
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import rel_entr

from ldpbayes import checks
from ldpbayes.answer import Answer
from ldpbayes.collections import as_data
from ldpbayes.collections.devices import with_outcomes
from ldpbayes.constants import MIN_P_VALUE
from ldpbayes.errors import InfeasibleError, listed
from ldpbayes.estimators.derived import point_estimates
from ldpbayes.fitness.base import Check
from ldpbayes.fitness.checking import check
from ldpbayes.fitting import fit
from ldpbayes.inference.ends import tails
from ldpbayes.presenting import recorded
from ldpbayes.priors import DEFAULT, prior_for
from ldpbayes.road.ruling import rule
from ldpbayes.robust.convex import convex_maximum
from ldpbayes.robust.enumerating import enumerate_outcomes, known_devices
from ldpbayes.sources.door import data_of
from ldpbayes.theory.enumeration import Enumeration

#: Display: What a cross-check of an uncertain device says of the estimates beside it.
AT_MEANS = "MLE, oracle and cvxpy take the probabilities of the device at their means: they have none of its uncertainty."
#: Rule: Two posteriors agree where their means differ by at most this many Monte Carlo standard errors: chance makes 6e-5 of
#: all categories differ by more, one of a hundred in .6 % of the checks. At half it is 5 % of all categories; double, of
#: 4,000 independent draws, is .13 posterior sd, more than LIMITS.end_error.
MAX_MCSE = 4.0
#: Rule: A point estimate further than this many posterior sd from the posterior mean is pointed out (not a failure): it is
#: outside a 99.7 % interval. At half, a 87 % interval, most pages would name some; double, six sd, is reached by no
#: estimate whose likelihood is that of the posterior, unless the prior decides.
MAX_SD = 3.0
#: Name of the reference where the posterior is a sum over all tallies of the true values, without a Monte Carlo error.
ENUMERATION = "enumeration"


class CrossCheck(Answer):
    """The outcome of crosscheck(), of one collection or of cells.

    Over ``category``, of cells after ``cell``: ``mean`` and ``sd``, E[P|Y] and its posterior sd by the reference;
    ``difference_sd`` and ``difference_mcse``, NUTS's mean minus the reference's in posterior sd and in Monte Carlo standard
    errors; ``verdict``. ``lower`` and ``upper``, the ends of the interval by the method other than NUTS; ``end_sd`` and
    ``end_errors``, NUTS's end minus that one in posterior sd and in standard errors of both, of the end with more of these.
    ``away`` (estimator, …, category): other means and point estimates minus the posterior mean, in posterior sd. The
    estimator ``enumeration`` is the mean by the sum over all tallies of the true values, where it can be taken and is not
    the reference; ``enumeration_apart``, whether it is further from the reference than MAX_MCSE errors of NUTS. The
    estimator ``convex`` is cvxpy's maximum of the likelihood, from probabilities that the package's likelihoods had no part
    in. ``convex_excess``: by how many nats the package's maximum is above it; ``convex_gap``: by how many it may be below
    the true one, by its own certificate; ``convex_astray``, whether they differ by more than both certificates;
    ``convex_verdict``, in words, or why there is none. ``predictive_p`` and ``predictive_statistic`` (…, channel): the
    posterior predictive checks, the first of the whole collection; no entry where the reports can be counted neither whole
    nor by support. ``reference`` and ``sampler``, the methods of the two posteriors (``enumeration`` is the sum over all
    tallies of the true values: of few reports, where the others draw), ``outcome`` and ``sampler_converged``, NUTS's own
    diagnostics, and ``fitness_p``, of the tests that need no posterior, are of each cell. The attributes are question,
    sentence (one per finding), flagged: whether anything is wrong; fitness and fitness_flagged; and random_seed, with which
    the same is found again.
    """

    __slots__ = ()


@recorded
def crosscheck(
    collection: Any,
    prior: Any = DEFAULT,
    *,
    random_seed: int | None = None,
    draws: int = 1000,
    chains: int = 4,
    progressbar: bool = False,
) -> CrossCheck:
    """Compare the posterior by two methods (NUTS is one), the MLE (cvxpy's too) and the unbiased estimate, and test the fit.

    Parameters
    ----------
    collection : Collection, Tally, Cells or path-like
        Cells are compared one by one, each with the prior of one distribution, and with the laws of an uncertain device as
        if no other cell told of it. MLE, oracle and cvxpy then take the device at its means.
    prior : as in fit
    random_seed : int, optional
        Of both posteriors and of the predictive check; drawn, and stated, where None.
    draws, chains : int
        Of both posteriors.
    progressbar : bool

    Returns
    -------
    CrossCheck
    """
    collection = as_data(data_of(collection), summaries=False)
    settings = {"draws": draws, "chains": chains, "progressbar": progressbar}
    random_seed = checks.seed(random_seed)
    if collection.weighted:
        raise InfeasibleError(
            "A cross-check takes no sampling weights, as NUTS takes none; cross-check the same reports without weights."
        )
    seeds = np.random.SeedSequence(random_seed)
    if not collection.by:
        own = int(seeds.generate_state(1)[0])
        answer, fitness = compared(collection, prior, own, settings), check(collection, level=MIN_P_VALUE, random_seed=own)
        return concluded(answer.assign(fitness_p=fitness.p_value), fitness, random_seed)
    cell_seeds = [int(child.generate_state(1)[0]) for child in seeds.spawn(len(collection))]
    cells = [cell.single("A cross-check") for cell in collection.collections()]
    answers = [compared(cell, prior, own, settings) for cell, own in zip(cells, cell_seeds, strict=True)]
    fitness = check(collection, level=MIN_P_VALUE, random_seed=random_seed)
    return concluded(joined(answers, collection.labels).assign(fitness_p=("cell", fitness.p_values)), fitness, random_seed)


def joined(parts, labels):
    """Return the comparisons of cells as one Dataset; channels and estimates that a cell lacks are nan.

    Parameters
    ----------
    parts : sequence of Dataset
    labels : sequence of str
    """
    dim, how = xr.DataArray(list(labels), dims="cell", name="cell"), {"coords": "minimal", "compat": "override"}
    table = xr.concat(parts, dim, join="outer", data_vars="all", **how)
    return table.transpose(..., "cell", "category", "channel", missing_dims="ignore")


def compared(collection, prior, random_seed, settings):
    """Return the two posteriors of one collection beside each other, its estimates and predictive checks: a Dataset.

    Parameters
    ----------
    collection : Collection
    prior : as in fit
    random_seed : int
    settings : dict
        draws, chains and progressbar.
    """
    plain, collection = collection, with_outcomes(collection)
    prior = prior_for(rule(prior, collection, "auto").prior, collection)
    settings = settings | {"prior": prior, "random_seed": random_seed, "estimates": False}
    reference = fit(collection, exclude=("nuts",), **settings)
    sampled = fit(collection, method="nuts", **settings)
    first, second = (tree["summary"].sel(target="distribution") for tree in (reference, sampled))
    name, mean, sd, mcse = reference.attrs["method"], first["mean"].values, first["sd"].values, first["mcse"].values
    exact = _enumerated(collection, prior)
    summed, summed_apart = {}, 0
    if exact is not None and (mcse > 0).any():
        name, mean, sd, mcse = ENUMERATION, exact.mean, np.sqrt(exact.variance), 0.0
    elif exact is not None:  # two ways without draws: NUTS's error is the measure
        summed = {ENUMERATION: (exact.mean - mean) / sd}
        summed_apart = int((np.abs(exact.mean - mean) > MAX_MCSE * second["mcse"].values).any())
    difference = second["mean"].values - mean
    error = np.sqrt(second["mcse"].values ** 2 + mcse**2)
    in_mcse = np.divide(difference, error, out=np.zeros_like(error), where=error > 0)
    end_sd, end_errors = ends_apart(first, second, sampled["posterior"]["distribution"].values)
    known = known_devices(plain)
    estimates = {e.name: e for e in point_estimates(known)}
    convex, facts = _beside_cvxpy(known, estimates.get("mle"))
    if known is not plain:
        facts["convex_verdict"] = f"{AT_MEANS} {facts['convex_verdict']}"
    away = summed | {name: (e.distribution - mean) / sd for name, e in (convex | estimates).items()}
    checks_of = predictive_check(collection, reference, random_seed=random_seed)
    shares = {"mean": mean, "sd": sd, "difference_sd": difference / sd, "difference_mcse": in_mcse}
    shares |= {end: first[end].values for end in ("lower", "upper")} | {"end_sd": end_sd, "end_errors": end_errors}
    by_package = {name: away[name] for name in estimates}
    shares["verdict"] = np.array([_verdict(x, in_mcse, end_errors, by_package) for x in range(mean.size)], dtype=object)
    facts |= {
        "enumeration_apart": summed_apart,
        "reference": name,
        "sampler": sampled.attrs["method"],
        "outcome": sampled.attrs["outcome"],
    }
    return xr.Dataset(
        {name: ("category", values) for name, values in shares.items()}
        | {"away": (("estimator", "category"), np.reshape([*away.values()], (-1, mean.size)))}
        | {"predictive_statistic": ("channel", [c.statistic for c in checks_of])}
        | {"predictive_p": ("channel", [c.p_value for c in checks_of])}
        | facts
        | {"sampler_converged": int(sampled.attrs["converged"])},
        {
            "category": first["category"].values.astype(str),
            "estimator": list(away),
            "channel": [c.name for c in checks_of],
        },
        {"prior": prior.describe()} | ({"at_means": 1} if known is not plain else {}),
    )


def concluded(found, fitness, random_seed):
    """Return the CrossCheck of what was compared, with the tests that need no posterior.

    Parameters
    ----------
    found : Dataset
    fitness : Fitness or CellsFitness
        Of size MIN_P_VALUE.
    random_seed : int
        With which the same is found again.
    """
    apart = (np.abs(found["difference_mcse"]) > MAX_MCSE).any("category")
    ends_differ = (np.abs(found["end_errors"]) > MAX_MCSE).any("category")
    size = MIN_P_VALUE / found.sizes.get("cell", 1)
    unpredicted = (found["predictive_p"] < size).any("channel")
    doubtful = found["sampler_converged"] == 0
    astray, summed_apart = found["convex_astray"] == 1, found["enumeration_apart"] == 1
    texts, most = [fitness.verdict] if fitness.flagged else [], float(np.abs(found["difference_sd"]).max())
    tested = np.isfinite(fitness.p_values if "cell" in found.dims else fitness.p_value).any()
    fits = ", and the reports fit the design" if tested else "; no test of the design is possible"
    if "cell" in found.dims:
        for where, words in (
            (apart, f"The two posteriors differ by more than {MAX_MCSE:g} Monte Carlo standard errors in"),
            (ends_differ, f"Their interval ends differ by more than {MAX_MCSE:g} standard errors in"),
            (summed_apart, "The sum over all tallies is not the posterior in"),
            (doubtful, "The sampler did not converge in"),
            (unpredicted, "The posterior predictive check fails in"),
            (astray, "The maximum of the likelihood by cvxpy is not the package's in"),
        ):
            if where.any():
                texts.append(f"{words} {listed(found['cell'].values[where.values])}.")
        good = f"Nothing to flag: the posteriors of all cells agree within {most:.3f} sd{fits}."
    else:
        reference, p = found["reference"].item(), found["predictive_p"]
        texts = [
            f"The reports of {name} do not look like this channel's (posterior predictive p = {value:.4f}): the design, its "
            "parameters or the categories are probably wrong, and so is any posterior from them."
            for name, value in zip(p["channel"].values, p.values, strict=True)
            if value < MIN_P_VALUE
        ] + texts
        if apart:
            texts.append(f"NUTS and {reference} differ by more than {MAX_MCSE:g} Monte Carlo standard errors.")
        if ends_differ:
            ends = np.abs(found[["end_sd", "end_errors"]]).isel(category=int(np.argmax(np.abs(found["end_errors"].values))))
            texts.append(
                f"An interval end of {ends['category'].item()} differs by {ends['end_sd'].item():.2g} sd between the two "
                f"methods, which is {ends['end_errors'].item():.2g} standard errors."
            )
        if summed_apart:
            texts.append(f"The sum over all tallies is not the posterior by {reference}.")
        if doubtful:
            texts.append(found["outcome"].item())
        if astray:
            texts.append(found["convex_verdict"].item())
        summed = " the sum over all tallies," if ENUMERATION in found["estimator"].values else ""
        two = f"{reference},{summed} and NUTS" if summed else f"{reference} and NUTS"
        good = f"Nothing to flag: {two} agree within {most:.3f} sd{fits}."
        if np.isfinite(found["convex_gap"]):
            good = f"{good} {found['convex_verdict'].item()}"
    sentence, flagged = " ".join(texts) or good, int(bool(texts))
    attrs = {"question": "The same posterior by two methods", "sentence": sentence, "flagged": flagged}
    attrs |= {"at_means": 1} if "at_means" in found.attrs else {}
    attrs |= {"fitness": fitness.verdict, "fitness_flagged": int(fitness.flagged), "random_seed": random_seed}
    attrs |= {"source": f"{fitness.source}, under the prior {found.attrs['prior']}"} if "prior" in found.attrs else {}
    return CrossCheck(found.data_vars, found.coords, attrs)


def _beside_cvxpy(collection, mle):
    """Return (cvxpy's maximum by its name, empty where there is none; what a cross-check says of it)."""
    missing = {"convex_excess": math.nan, "convex_gap": math.nan, "convex_astray": 0}
    if mle is None:
        return {}, missing | {"convex_verdict": "The reports have no maximum of the likelihood to compare."}
    try:
        convex = convex_maximum(collection)
    except InfeasibleError as err:
        return {}, missing | {"convex_verdict": f"cvxpy was not asked: {err}"}
    excess = convex.excess(mle.distribution)
    astray = not abs(excess) <= convex.gap + mle.gap + convex.rounding
    agrees = "is not the package's" if astray else "is the package's"
    verdict = f"The maximum of the likelihood by cvxpy {agrees}: they differ by {abs(excess):.1g} nats."
    return {"convex": convex}, {
        "convex_excess": excess,
        "convex_gap": convex.gap,
        "convex_astray": int(astray),
        "convex_verdict": verdict,
    }


def predictive_check(collection, tree, *, draws=1000, random_seed=None):
    """Return a Check of the whole collection, then one per channel.

    The discrepancy Σ_y (S_y − n (Qp)_y)² / (n (Qp)_y) of the observed tally at one draw p of the posterior is compared with
    that of tallies simulated from the same p; protocols with too many possible reports to list are compared by their support
    counts. If P comes from the prior, the truth and a draw from the posterior have the same law given the reports, so that
    the p-value is exactly uniform; for a fixed truth it is so for many reports. Averaged over all draws it would be
    conservative, because the posterior has seen the reports.

    Parameters
    ----------
    collection : Collection
    tree : DataTree
        Its posterior.
    draws : int
        Simulated tallies.
    random_seed : int, optional
        Chooses the draw, too.

    Returns
    -------
    tuple of Check
        The statistic is that of the observed tally; the p-value is uniform for reports from the design.

    References
    ----------
    Johnson (2004), Annals of Statistics 32; Gosselin (2011), PLoS ONE 6.
    """
    from ldpbayes.result import extended_draws

    rng = checks.generator(random_seed, "random_seed")
    flat = extended_draws(tree, collection)
    p = flat[rng.integers(len(flat))]
    p = p / p.sum()
    laws = [(tally, tally.protocol.report_law()) for tally in collection.tallies]
    checked = [(tally, law) for tally, law in laws if law is not None]
    if not checked:
        return ()
    observed, replicated = np.empty(len(checked)), np.empty((draws, len(checked)))
    for c, (tally, law) in enumerate(checked):
        share = law.expected(p)
        expected = tally.n_reports * share
        observed[c] = _discrepancy(law.tally(tally.reports, tally.counts), expected)
        if law.kind == "list":
            fresh = rng.multinomial(tally.n_reports, share / share.sum(), draws)
        else:
            fresh = np.stack([law.simulate(rng.multinomial(tally.n_reports, p), rng) for _ in range(draws)])
        replicated[:, c] = _discrepancy(fresh, expected)
    found = [_check(f"channel {t.name}", observed[c], replicated[:, c]) for c, (t, _) in enumerate(checked)]
    return (_check("the collection", observed.sum(), replicated.sum(axis=1)), *(found if len(found) > 1 else ()))


def _enumerated(collection, prior):
    """Return the posterior by the sum over all tallies; None where these are too many, or the prior is not Dirichlet."""
    try:
        if collection.device_law is not None:
            return enumerate_outcomes(collection, prior)
        return None if collection.laws else Enumeration()(collection, prior)
    except InfeasibleError:
        return None


def ends_apart(first, second, draws):
    """Return the difference of the ends of two summaries in sd, and in standard errors of both, where these are more.

    The errors are those of the share s of the sampler's n effective draws below the other's end, which has the level q: the
    root of its deviance, 2n (s log(s/q) + (1 − s) log((1 − s)/(1 − q))), is nearly normal. At a bound of the simplex the
    error of a sample's end is several times as large to one side as to the other; that of its level is not.

    Parameters
    ----------
    first, second : Dataset
        The reference's, and the sampler's.
    draws : (chains, draws, a) array
        The sampler's.
    """
    names, q = ("lower", "upper"), np.array(tails(second.attrs["ci_prob"]))[:, None]
    ends, error = (np.stack([first[f"{end}{of}"].values for end in names]) for of in ("", "_error"))
    draws = draws.reshape(-1, 1, draws.shape[-1])
    s, high, low = ((draws < ends + way * error).mean(axis=0) for way in (0, 1, -1))
    n = np.where(np.isfinite(error).all(axis=0), second["ess_tail"].values, np.nan)
    s = np.clip(q, s - 0.5 / n, (draws <= ends).mean(axis=0) + 0.5 / n)  # ties, and half a draw for continuity
    root = np.sqrt(2 * n * np.maximum(rel_entr(s, q) + rel_entr(1 - s, 1 - q), 0.0)) * np.sign(q - s)
    own = np.sqrt(q * (1 - q) / n)
    errors = np.where(np.isfinite(n), root * own / np.hypot(own, (high - low) / 2), 0.0)
    which = np.abs(errors).argmax(axis=0)[None]
    apart = (np.stack([second[end].values for end in names]) - ends) / first["sd"].values
    return tuple(np.take_along_axis(values, which, axis=0)[0] for values in (apart, errors))


def _verdict(x, in_mcse, end_errors, estimates):
    if abs(in_mcse[x]) > MAX_MCSE:
        return f"differs by {in_mcse[x]:+.1f} MCSE"
    if abs(end_errors[x]) > MAX_MCSE:
        return f"an end differs by {end_errors[x]:+.1f} errors"
    far = [name for name, away in estimates.items() if abs(away[x]) > MAX_SD]
    return f"agrees; {' and '.join(far)} far from the mean" if far else "agrees"


def _check(name, observed, replicated):
    # The observed tally counts as one of them: a p-value of 0 is never claimed.
    p_value = (1 + (replicated >= observed * (1 - 1e-12)).sum()) / (1 + replicated.size)
    detail = f"{replicated.size:,} simulated tallies"
    return Check(name, "", float(observed), math.nan, float(p_value), "posterior predictive", detail=detail)


def _discrepancy(tallied, expected):
    # A report that cannot occur (expected 0) but did would be an infinite discrepancy; the draws of P exclude it.
    return ((tallied - expected) ** 2 / np.where(expected > 0, expected, 1.0)).sum(axis=-1)
