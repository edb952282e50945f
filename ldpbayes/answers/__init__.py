"""Answers that people ask a posterior for: joint intervals, rankings, contrasts, sums, entropy, and what width is made of.

Each takes a result of fit() and returns an xarray.Dataset; a Monte Carlo standard error stands beside every probability.
"""

import numpy as np
import xarray as xr

from ldpbayes import checks
from ldpbayes.errors import ArgumentError
from ldpbayes.posteriors.diagnostics import mcse_of_mean


def simultaneous_intervals(tree, *, ci_prob=0.95, target="distribution"):
    """Return intervals that hold for all categories at once with posterior probability ci_prob.

    The band between the k-th smallest and the k-th largest draw of every category, with the largest k whose band still
    holds a share ci_prob of the draws entirely (Besag, Green, Higdon, Mengersen 1995).

    Parameters
    ----------
    tree : DataTree
    ci_prob : float
    target : {"distribution", "frequency"}
        P, or these users' own F.

    Returns
    -------
    Dataset
        lower, upper (category); attrs ci_prob and ``share``, the share of draws inside.
    """
    ci_prob = checks.probability(ci_prob, "ci_prob", open_low=True, open_high=True)
    draws, category = _draws(tree, target)
    size = len(draws)
    ranks = np.argsort(np.argsort(draws, axis=0, kind="stable"), axis=0, kind="stable")
    # How far from either end a draw's most extreme coordinate lies: the band of depth k holds draws with depth >= k.
    depth = np.minimum(ranks, size - 1 - ranks).min(axis=1)
    k = int(np.sort(depth)[size - int(np.ceil(ci_prob * size))])
    ordered = np.sort(draws, axis=0)
    return xr.Dataset(
        {"lower": (("category",), ordered[k]), "upper": (("category",), ordered[size - 1 - k])},
        {"category": category},
        {"ci_prob": ci_prob, "share": float((depth >= k).mean())},
    )


def probability_in_top(tree, k, *, target="distribution"):
    """Return the posterior probability that each category is among the k largest, with its Monte Carlo error.

    Parameters
    ----------
    tree : DataTree
    k : int
        From 1 to the number of categories.
    target : {"distribution", "frequency"}

    Returns
    -------
    Dataset
        probability, mcse (category).
    """
    draws, category = _draws(tree, target)
    k = checks.integer(k, "k", minimum=1, maximum=category.size)
    inside = np.zeros(draws.shape, dtype=float)
    np.put_along_axis(inside, np.argpartition(-draws, k - 1, axis=1)[:, :k], 1.0, axis=1)
    return xr.Dataset(
        {"probability": (("category",), inside.mean(axis=0)), "mcse": (("category",), _mcse(tree, inside))},
        {"category": category},
    )


def contrast(tree, first, second, *, other=None, ci_prob=0.95, target="distribution"):
    """Return the difference Δ = (share of first) − (share of second), its interval and P(Δ > 0).

    Parameters
    ----------
    tree : DataTree
    first, second : str or sequence of str
        Category labels; several are summed.
    other : DataTree, optional
        Take ``second`` from this result of another, independent collection.
    ci_prob : float
    target : {"distribution", "frequency"}

    Returns
    -------
    Dataset
        mean, sd, lower, upper, mcse, probability_positive, probability_mcse.

    Notes
    -----
    Two collections are independent given their priors, so any pairing of their draws is a draw of the difference, but for
    fits from one seed, which share random numbers: draws are shuffled before they are paired, the shorter run repeated.
    """
    left, right = total(tree, first, target=target), total(tree if other is None else other, second, target=target)
    if other is None:
        delta = left - right
        positive = (delta > 0).astype(float)
        errors = _mcse(tree, np.column_stack([delta, positive]))
    else:
        rng, size = np.random.default_rng(0), max(left.size, right.size)
        delta = np.resize(rng.permutation(left), size) - np.resize(rng.permutation(right), size)
        positive = (delta > 0).astype(float)
        parts = np.array([_mcse(tree, left[:, None])[0], _mcse(other, right[:, None])[0]])
        spread = np.array([left.std(), right.std()])
        # In units of its own sd a run's error is 1/√(effective draws); the pairs are worth those of the worse run.
        relative = np.divide(parts, spread, out=np.zeros(2), where=spread > 0).max()
        errors = np.array([np.hypot(*parts), positive.std() * relative])
    summary = _scalar(delta, ci_prob, errors[0])
    return summary.assign(probability_positive=positive.mean(), probability_mcse=errors[1])


def category_sum(tree, categories, *, ci_prob=0.95, target="distribution"):
    """Return mean, sd, interval and Monte Carlo error of the share of several categories together.

    Parameters
    ----------
    tree : DataTree
    categories : str or sequence of str
        Labels.
    ci_prob : float
        Of the equal-tailed interval.
    target : {"distribution", "frequency"}

    Returns
    -------
    Dataset
        mean, sd, lower, upper, mcse.
    """
    draws = total(tree, categories, target=target)
    return _scalar(draws, ci_prob, _mcse(tree, draws[:, None])[0])


def entropy(tree, *, ci_prob=0.95, target="distribution"):
    """Return mean, sd, interval and Monte Carlo error of the entropy −Σ p log p, in nats.

    Parameters
    ----------
    tree : DataTree
    ci_prob : float
        Of the equal-tailed interval.
    target : {"distribution", "frequency"}

    Returns
    -------
    Dataset
        mean, sd, lower, upper, mcse.
    """
    draws, _ = _draws(tree, target)
    terms = np.where(draws > 0, draws * np.log(np.where(draws > 0, draws, 1.0)), 0.0)
    return _scalar(-terms.sum(axis=1), ci_prob, _mcse(tree, -terms.sum(axis=1, keepdims=True))[0])


def interval_parts(tree):
    """Return the posterior variance of P split into a sampling part and a privacy part.

    Var(P_x|Y) = E[Var(P_x|T)|Y] + Var(E[P_x|T]|Y): what would remain had the true tallies T been seen, and what the
    randomisation adds, (n/A)² Var(F_x|Y) with A = Σα + n (law of total variance; spec 2.2).

    Parameters
    ----------
    tree : DataTree

    Returns
    -------
    Dataset
        sd, sampling_sd, privacy_sd (category) and privacy_share, the privacy part's share of the variance.
    """
    n, weight = float(tree.attrs["n_reports"]), _prior_weight(tree)
    sd = tree["summary"]["sd"]
    variance = sd.sel(target="distribution").values ** 2
    privacy = np.minimum((n / (n + weight) * sd.sel(target="frequency").values) ** 2, variance)
    share = np.divide(privacy, variance, out=np.zeros_like(variance), where=variance > 0)
    parts = {"sd": variance, "sampling_sd": variance - privacy, "privacy_sd": privacy}
    data = {name: (("category",), np.sqrt(value)) for name, value in parts.items()}
    return xr.Dataset(data | {"privacy_share": (("category",), share)}, {"category": tree["summary"]["category"].values})


def worth(tree, collection):
    """Return what the reports are worth: how many open answers would tell as much, and the least error possible.

    m open answers would leave (1 − Σp²)/(Σα + m + 1) = Σ_x Var(P_x|Y), p = E[P|Y]: what the prior tells is not counted.
    The bound is that of any ε-LDP protocol for large n, n·MSE ≥ a/(e^ε − 1)²
    (Lopuhaä-Zwakenberg et al. 2020, Thm 4.5), averaged over the prior, with the largest ε of the channels.

    Parameters
    ----------
    tree : DataTree
    collection : Collection
        The one that the result was fitted to.

    Returns
    -------
    dict
        effective_open_answers, total_sd = √Σ Var, bound_sd (nan where some channel has no finite ε), and ``worth``, the
        sentence.
    """
    from ldpbayes.theory.bounds import theorem_4_5
    from ldpbayes.theory.risk import effective_open_answers

    summary = tree["summary"].sel(target="distribution")
    variance = float((summary["sd"].values ** 2).sum())
    n, mean = collection.n_reports, summary["mean"].values
    alpha_total = _prior_weight(tree)
    open_answers = min(max(effective_open_answers(variance, mean / mean.sum()) - alpha_total - 1, 0.0), float(n))
    epsilon = max(tally.protocol.epsilon for tally in collection.tallies)
    sentence = f"{n:,} reports tell about P what {open_answers:,.0f} open answers would"
    bound = float("nan")
    if 0 < epsilon < float("inf"):
        bound = float(np.sqrt(theorem_4_5(collection.n_categories, epsilon).value / n))
        sentence += (
            f"; total sd {variance**0.5:.4f}, where no {epsilon:.3g}-LDP protocol has less than {bound:.4f} (large n)"
        )
    sentence += "."
    if alpha_total > max(open_answers, 1.0):
        sentence += (
            f" The prior weighs {alpha_total:,.0f} answers, more than that: the posterior leans on it; hold another prior "
            "against it, by the log-evidence where there is one."
        )
    return {
        "effective_open_answers": open_answers,
        "total_sd": variance**0.5,
        "bound_sd": bound,
        "worth": sentence,
    }


def total(tree, categories, *, target="distribution"):
    """Return the draws of the share of one or several categories together, shape (draws,), chains in order.

    Parameters
    ----------
    tree : DataTree
    categories : str or sequence of str
        Labels.
    target : {"distribution", "frequency"}
    """
    draws, known = _draws(tree, target)
    labels = [categories] if isinstance(categories, str) else list(categories)
    positions = {str(label): x for x, label in enumerate(known)}
    for label in labels:
        if label not in positions:
            raise ArgumentError(f"categories must be among those of the collection, got {label!r}.")
    if not labels:
        raise ArgumentError("categories must name at least one category, got none.")
    return draws[:, [positions[label] for label in labels]].sum(axis=1)


def _draws(tree, target):
    checks.choice(target, "target", ("distribution", "frequency"))
    values = tree["posterior"][target]
    return values.values.reshape(-1, values.sizes["category"]), values["category"].values


def _prior_weight(tree):
    """Return how many open answers the prior weighs: Σα of a Dirichlet."""
    weight = tree.attrs.get("prior_weight")  # results of version 0.1.0 hold only α
    return float(tree["constant_data"]["alpha"].sum() if weight is None else weight)


def _mcse(tree, flat):
    """Return the Monte Carlo standard error of the mean of (draws, k) arrays in the order of the tree's draws."""
    independent = tree.attrs.get("sampling") == "independent"
    error = mcse_of_mean(flat.reshape(tree["posterior"].sizes["chain"], -1, flat.shape[1]), independent=independent)
    # Draws resampled by weights are worth fewer than there are.
    return error * np.sqrt(len(flat) / tree.attrs.get("effective_draws", len(flat)))


def _scalar(draws, ci_prob, mcse):
    ci_prob = checks.probability(ci_prob, "ci_prob", open_low=True, open_high=True)
    lower, upper = np.quantile(draws, [(1 - ci_prob) / 2, (1 + ci_prob) / 2])
    facts = {"mean": draws.mean(), "sd": draws.std(ddof=1), "lower": lower, "upper": upper}
    return xr.Dataset(facts | {"mcse": mcse}, attrs={"ci_prob": ci_prob})
