"""Many cells under a Dirichlet prior, each with reports that single out one category: exact moments, ends and draws."""

import numpy as np

from ldpbayes.errors import InfeasibleError
from ldpbayes.inference import diagnostics
from ldpbayes.inference.ends import LEVELS, tails
from ldpbayes.posteriors.base import Problem, Watch
from ldpbayes.posteriors.exact import Exact, certain, refuse_fractions, refuse_tables, singling
from ldpbayes.posteriors.frequency import complete, frequency_moments
from ldpbayes.posteriors.mixing import Separable, blocks

#: Why a cell has this method, and what its draws need.
EVERY = "Every report singles out one category: the posterior is exact at any size."
CHECKED = "Independent draws: no chain diagnostics are needed."


def problems_of(cells, prior):
    """Return the problem of each cell, or None where their posteriors are not independent and exact.

    Parameters
    ----------
    cells : Cells
        Without respondents who ignore the device.
    prior : AbstractPrior
        Of each cell.
    """
    if prior.concentrations() is None or not cells.keeps_reports or cells.nature.weighted:
        return None
    if any(cell.derived for cell in cells.values()):
        return None
    try:
        for one in cells.likelihoods:
            form = singling(one.separable())
            refuse_fractions(form)
            refuse_tables(form)
    except InfeasibleError:
        return None
    return [Problem.of(cell, prior) for cell in cells.collections()]


def _sampled(problems, draws, chains, ci_prob, seeds, watch):
    """Return the draws of P and F, (chains, draws, cells, a), and the entries of ``exact``.

    Parameters
    ----------
    problems : list of Problem
    draws, chains : int
    ci_prob : float
    seeds : list of int
        Of each cell: its draws do not depend on the other cells.
    watch : Watch
    """
    count, size, prior, a = len(problems), draws * chains, problems[0].prior, problems[0].n_categories
    p, f = np.empty((2, chains, draws, count, a))
    mean, variance = np.empty((2, count, a))
    ends, log_evidence = np.empty((2 + len(LEVELS), count, a)), np.empty(count)
    for server in watch.track(list(blocks(Separable, problems, range(count))), "Posteriors of the cells"):
        at = server.places
        mean[at], variance[at] = server.moments(prior)
        ends[:, at], log_evidence[at] = server.ends(prior, (*tails(ci_prob), *LEVELS)), server.log_evidence(prior)
        rngs = [np.random.default_rng(seeds[k]) for k in at]
        for k, rng, (flat, signal) in zip(at, rngs, server.draws(prior, size, rngs), strict=True):
            tallies = signal + certain(problems[k].separable, a).astype(float)
            complete(tallies, flat, problems[k].n_users, rng)
            p[:, :, k], f[:, :, k] = flat.reshape(chains, draws, a), tallies.reshape(chains, draws, a)
    users = np.array([[one.n_users] for one in problems])
    frequency_mean, frequency_sd = frequency_moments(mean, variance, problems[0].alpha, users)
    exact = {
        "distribution_mean": mean,
        "distribution_sd": np.sqrt(variance),
        "distribution_lower": ends[0],
        "distribution_upper": ends[1],
        "distribution_quantile": np.moveaxis(ends[2:], 0, 1),
        "frequency_mean": frequency_mean,
        "frequency_sd": frequency_sd,
        "log_evidence": log_evidence,
    }
    return {"distribution": (("cell", "category"), p), "frequency": (("cell", "category"), f)}, exact


def tree_of(cells, problems, sizes, seeds, run, stated):
    """Return the summarised result of all cells.

    Parameters
    ----------
    cells : Cells
    problems : list of Problem
        From problems_of.
    sizes : dict
        draws and chains.
    seeds : list of int
    run : dict
        random_seed, ci_prob and progressbar.
    stated : dict
        What was asked for, to be recorded.
    """
    from ldpbayes.result.cells import facts_of, of_cells

    Exact(**sizes)  # which refuses sizes as for one cell
    watch = Watch(run["progressbar"])
    draws, exact = _sampled(problems, **sizes, ci_prob=run["ci_prob"], seeds=seeds, watch=watch)
    facts = facts_of(
        len(problems),
        method="exact",
        reason=EVERY,
        outcome=CHECKED,
        frequency_draws="allocated",
        converged=1,
        random_seed=seeds,
        log_evidence=exact["log_evidence"],
    )
    reason = f"{EVERY} Under such a prior the cells are independent."
    attrs = {"reason": reason, "sampling": "independent", "checked": CHECKED}
    tree = of_cells(cells, problems[0].prior, facts, stated, draws=draws, exact=exact, attrs=attrs)
    diagnostics.summarise(tree, run["ci_prob"])
    return tree
