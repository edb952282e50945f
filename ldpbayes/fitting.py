"""The front door: fit takes the road from reports to a result, select_method says which posterior method it would use."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ldpbayes import checks, rooms
from ldpbayes.collections import as_data
from ldpbayes.collections.devices import with_outcomes
from ldpbayes.errors import DiagnosticWarning, LDPBayesError, warn
from ldpbayes.presenting import recorded
from ldpbayes.priors import DEFAULT
from ldpbayes.result.extending import checked_groups
from ldpbayes.result.facts import state
from ldpbayes.road.methods import Choice, checked
from ldpbayes.road.request import Request
from ldpbayes.road.walk import settle, walk
from ldpbayes.sources.door import data_of

if TYPE_CHECKING:
    from ldpbayes.result import Result


@recorded
def select_method(
    collection: Any, prior: Any = DEFAULT, *, exclude: Any = (), draws: int | None = None, chains: int | None = None
) -> Choice:
    """Return the method that ``fit`` would choose for these data and this prior, and why; nothing is fitted.

    The first method in the order of ``Choice.considered`` that applies and counts no more operations than its limit. The
    choice depends on the numbers of categories, distinct reports, users and draws. Predicted seconds are shown and decide
    nothing.

    Parameters
    ----------
    collection : Collection, Tally, Summary or path-like
    prior : str, float, array or AbstractPrior
        As in fit; by default the rule's.
    exclude : str or sequence of str
        Methods not to consider.
    draws, chains : int, optional
        As in fit; at least one draw.

    Returns
    -------
    Choice

    Raises
    ------
    InfeasibleError
        Where no method applies; the sentence says why for each.
    """
    data = with_outcomes(as_data(data_of(collection), cells=False))
    request = Request.of(draws=None if draws is None else checks.integer(draws, "draws", 1), chains=chains, exclude=exclude)
    if request.undrawn(data):  # fit would make no draws, and choose no method
        request = request.drawing(data.n_categories)
    ruling, selection = settle(data, prior, request)
    assert selection is not None  # of one collection, with draws
    choice = selection.choose({})
    if choice is None:
        raise selection.refusal({})
    return replace(choice, prior_reason=ruling.sentence)


@recorded
def fit(
    collection: Any,
    prior: Any = DEFAULT,
    method: Any = "auto",
    *,
    draws: int | None = None,
    chains: int | None = None,
    random_seed: int | None = None,
    ci_prob: float = 0.95,
    progressbar: bool = False,
    estimates: bool = True,
    exclude: Any = (),
    extend: Any = (),
) -> "Result":
    """Fit reports: return the posterior of P, the distribution of true answers, and of F, their frequencies in these users.

    Parameters
    ----------
    collection : Collection, Tally, Summary, Cells or path-like
        Reports, or a file that ``read`` takes by itself: of a collection, of reports that state their protocol, or of a
        scan. Cells without a prior over all of them have independent posteriors, of all cells at
        once where these are exact.
    prior : {"default", "jeffreys", "flat", "learnt", "floor", "smooth", "share:NAME"}, float, (a,) array or AbstractPrior
        Prior of P, for Cells also "hierarchical" or "days". A number is a symmetric concentration, an array the
        concentrations of a Dirichlet, ``floor`` the learnt prior over a floor that all categories nearly share, and
        ``share:NAME`` is flat on a derived share. By default ``learnt`` from 20 categories on, where that is no large
        computation, and ``jeffreys`` otherwise; the attr ``prior_reason`` says which and why.
    method : str or AbstractPosterior
        "auto", the name of a method (exact, quadrature, surrogate, weighted, pair_slice, hmc, nuts), or an object of
        ``ldpbayes.methods`` with its own settings.
    draws, chains : int, optional
        Draws per chain and chains, for methods given by name; 1000 (fewer beyond 4,000 categories) and 4 by default. With
        ``draws=0``, and where draws of very many cells or categories would not fit, the result has moments, intervals and
        evidence alone: integrals where these are known, and what draws say of derived quantities, of respondents who
        deny or ignore the device, and where an expansion of few reports is not accurate.
    random_seed : int, optional
        Reproduces every draw; chosen and recorded where not given.
    ci_prob : float
        Probability of the equal-tailed intervals in the group ``summary``.
    progressbar : bool
        Show progress on standard error.
    estimates : bool
        Add MLE and oracle in the group ``estimate``, and to the facts what the reports are worth, whether they fit the
        design (``fitness.check``), and log Bayes factors between priors.
    exclude : str or sequence of str
        Methods that "auto" leaves out.
    extend : str or sequence of str
        Groups for ArviZ that are added at once: see ``Result.extend``. One that cannot be made is warned of.

    Returns
    -------
    Result
        An xarray.DataTree with ``table``, ``page`` and ``save``. Its groups are posterior, summary, exact (where known),
        estimate, sample_stats, observed_data and constant_data; its attrs say the method, why it was chosen, its
        verdict and the seed, and those of its group ``details`` all else.

    Raises
    ------
    InfeasibleError
        Where no method applies, or the method that was asked for does not.
    ConvergenceError
        Where the method that was asked for rejects its own answer; its ``result`` holds that answer.

    Warns
    -----
    RankDeficientWarning
        Where the channels cannot tell some categories apart.
    DiagnosticWarning
        Where the diagnostics say not to trust the posterior yet.

    Examples
    --------
    >>> from ldpbayes import Collection, Tally, fit
    >>> from ldpbayes.protocols.designs import warner
    >>> survey = Collection(["no", "yes"], [Tally(warner(0.7), [0, 1], [60, 40])])
    >>> posterior = fit(survey, prior="flat", random_seed=1)
    >>> posterior.attrs["method"], posterior["summary"]["mean"].sel(target="distribution").values.round(3).tolist()
    ('exact', [0.741, 0.259])
    """
    method = checked(method)
    request = Request.of(
        method=method,
        draws=draws,
        chains=chains,
        random_seed=random_seed,
        ci_prob=ci_prob,
        progressbar=progressbar,
        estimates=estimates,
        exclude=exclude,
    )
    groups = checked_groups(extend, "extend")
    data = as_data(data_of(collection))
    data.warn_if_unidentified()
    facts = {name: fact for of in rooms.brought("FACTS").values() for name, fact in rooms.function(of)(data).items()}
    tree = walk(with_outcomes(data), prior, request)
    state(tree, facts)
    for group in groups:
        try:
            tree.extend(group)
        except LDPBayesError as error:  # the fit may have taken long
            warn(f"The result lacks the group {group!r}. {error}", DiagnosticWarning)
    if "left_out" in tree.attrs:
        warn(tree.attrs["left_out"], DiagnosticWarning)
    if not tree.attrs["converged"]:
        warn(tree.attrs["outcome"], DiagnosticWarning)
    return tree


__all__ = ["Choice", "fit", "select_method"]
