"""Many cells under a Dirichlet prior whose reports single out one category each: their exact posteriors, together."""

import numpy as np

from ldpbayes.errors import InfeasibleError
from ldpbayes.inference.ends import LEVELS, tails
from ldpbayes.posteriors.base import Answer, Problem, Sample, Watch
from ldpbayes.posteriors.exact import Exact, certain, refuse_fractions, refuse_tables, singling
from ldpbayes.posteriors.frequency import complete, frequency_moments
from ldpbayes.posteriors.mixing import Separable, blocks

#: Why a cell has this method.
EVERY = "Every report singles out one category: the posterior is exact at any size."


def answers(cells, prior, sizes, seeds, run):
    """Return the Answers of cells whose posteriors are all exact; none where that of some cell is not.

    Parameters
    ----------
    cells : Cells
        Without respondents who ignore the device.
    prior : AbstractPrior
        Of each cell.
    sizes : dict
        draws and chains.
    seeds : list of int
        Of each cell: its draws do not depend on the other cells.
    run : dict
        ci_prob and progressbar.
    """
    if prior.concentrations() is None or not all(map(_is_exact, cells.collections())):
        return []
    method, watch = Exact(**sizes), Watch(run["progressbar"])
    problems, out = [Problem.of(cell, prior) for cell in cells.collections()], []
    for server in watch.track(list(blocks(Separable, problems, range(len(problems)))), "Posteriors of the cells"):
        rngs = [np.random.default_rng(seeds[k]) for k in server.places]
        for k, rng, sample in zip(server.places, rngs, _samples(server, prior, method, run["ci_prob"], rngs), strict=True):
            asked = {"random_seed": seeds[k], "ci_prob": run["ci_prob"]}
            out.append(Answer(method, problems[k], sample, rng, watch, asked, EVERY))
    return out


def _is_exact(cell):
    """Return whether the reports of a cell single out one category each, and are whole ones."""
    if not cell.keeps_reports or cell.nature.weighted:
        return False
    try:
        form = singling(cell.likelihood.separable())
        refuse_fractions(form)
        refuse_tables(form)
    except InfeasibleError:
        return False
    return True


def _samples(server, prior, method, ci_prob, rngs):
    """Yield the Sample of each cell of a server."""
    problems, shape, a = server.problems, (method.chains, method.draws, -1), server.problems[0].n_categories
    mean, variance = server.moments(prior)
    lower, upper, *quantiles = server.ends(prior, (*tails(ci_prob), *LEVELS))
    users = np.array([[one.n_users] for one in problems])
    frequency_mean, frequency_sd = frequency_moments(mean, variance, problems[0].alpha, users)
    entries = {
        "distribution_mean": mean,
        "distribution_sd": np.sqrt(variance),
        "distribution_lower": lower,
        "distribution_upper": upper,
        "distribution_quantile": np.stack(quantiles, axis=1),
        "frequency_mean": frequency_mean,
        "frequency_sd": frequency_sd,
        "log_evidence": server.log_evidence(prior),
    }
    drawn = server.draws(prior, method.chains * method.draws, rngs)
    for c, (problem, rng, (flat, signal)) in enumerate(zip(problems, rngs, drawn, strict=True)):
        tallies = signal + certain(problem.separable, a).astype(float)
        complete(tallies, flat, problem.n_users, rng)
        exact = {name: values[c] for name, values in entries.items()}
        yield Sample(flat.reshape(shape), tallies.reshape(shape), exact=exact, facts={"frequency_draws": "allocated"})
