"""The walk of one collection: its prior, the methods that hand over, and what is said beside the posterior."""

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ldpbayes.answers.deciding import decision_given
from ldpbayes.collections import Collection, Summarized
from ldpbayes.errors import ArgumentError, ConvergenceError, LDPBayesWarning, listed, shown
from ldpbayes.inference.handover import hand_over
from ldpbayes.posteriors.base import CALLER, MAX_DRAWN, Answer
from ldpbayes.posteriors.evidence import of_result
from ldpbayes.posteriors.many import moments_of, refuse_long
from ldpbayes.posteriors.problem import Problem
from ldpbayes.priors import AbstractPrior
from ldpbayes.result.moments import summary_alone
from ldpbayes.road.methods import METHODS, SUMMARY, Selection
from ldpbayes.road.request import Request
from ldpbayes.road.ruling import Ruling, jeffreys_because, rule, ruled, too_long

if TYPE_CHECKING:
    import xarray as xr

#: Methods that go with draws=0.
UNDRAWN = ("auto", "exact", "mixture", SUMMARY)
#: Draws per chain of a fit that only a log-evidence is wanted of.
EVIDENCE_DRAWS = 250
#: Draws of a default fit, for how many categories they need not be drawn.
DRAWN = 4000
#: Draws of a chain by default, where memory allows them.
USUAL = 1000


def settle(
    collection: Collection | Summarized, prior: Any, method: str, exclude: tuple[str, ...], sizes: Mapping[str, int]
) -> tuple[Ruling, Selection]:
    """Return the prior of a collection, and the methods for it: under the learnt prior by rule only the mixture's.

    Parameters
    ----------
    collection : Collection or Summarized
    prior : as in fit
    method : str
        Name of the method that was asked for.
    exclude : tuple of str
    sizes : dict
        draws and chains.
    """
    ruling = rule(prior, collection, method)
    if ruling.learnt and method == "auto" and collection.keeps_reports:
        if "mixture" in exclude:
            ruling = jeffreys_because("the method mixture, which the learnt prior needs, was excluded.")
        else:
            others = tuple(name for name in METHODS if name != "mixture")
            own = Selection(Problem.of(collection, ruling.prior), others, sizes)
            mixture, plan = own.consider("mixture")
            if plan.feasible and plan.work <= mixture.most:  # type: ignore[union-attr]  # feasible: a Plan
                return ruling, own
            refused = jeffreys_because(f"the learnt prior cannot be used here. {plan.reason}")
            ruling = too_long(plan.seconds) if plan.feasible else refused
    return ruling, Selection(Problem.of(collection, ruling.prior), exclude, sizes)


def walk(collection: Any, prior: Any, request: Request) -> "xr.DataTree":
    """Return the result of one collection.

    Parameters
    ----------
    collection : Collection or Summarized
    prior : as in fit
    request : Request
    """
    if _without_draws(collection, request):
        if not (collection.laws or (collection.derived and request.automatic)):
            return _undrawn(collection, prior, request)
        return summary_alone(walk(collection, prior, request.drawing(collection.n_categories)))
    sizes = request.sizes(collection.n_categories)
    if request.automatic:
        ruling, selection = settle(collection, prior, request.name, request.exclude, sizes)
    else:
        ruling, engine = rule(prior, collection, request.name), request.engine(sizes)
    answer = None

    def run(prior):
        nonlocal answer
        if not request.automatic:
            answer, reason = _by(engine, Problem.of(collection, prior), request)
        else:
            own = selection if prior is ruling.prior else Selection(Problem.of(collection, prior), request.exclude, sizes)
            answer, reason = automatic(own, request)
        answer.tree.attrs["reason"] = reason
        return answer.tree

    tree, why = ruled(ruling, run)
    assert answer is not None  # the run above made it
    return _told(tree, collection, answer.problem, request, why)


def answer_of(collection: Any, prior: AbstractPrior, request: Request) -> tuple[Answer, str] | None:
    """Return (Answer, why its method) of a cell with a prior of its own, or None where ``walk`` alone has its result.

    Parameters
    ----------
    collection : Collection or Summarized
    prior : AbstractPrior
    request : Request
    """
    if collection.laws or _without_draws(collection, request):
        return None
    problem, sizes = Problem.of(collection, prior), request.sizes(collection.n_categories)
    if not request.automatic:
        return _by(request.engine(sizes), problem, request)
    return automatic(Selection(problem, request.exclude, sizes), request)


def automatic(selection: Selection, request: Request) -> tuple[Answer, str]:
    """Return the first Answer that is accepted, or the best of the rejected ones, and why its method.

    Parameters
    ----------
    selection : Selection
    request : Request
    """
    following = selection.following(request.run)
    outcome = hand_over(
        following, lambda answer: answer.trouble, lambda answer: not answer.sample.rejected, selection.refusal
    )
    return outcome.answer, outcome.answer.reason + outcome.before + _fewer(request, outcome.answer.method.draws)


def _by(engine, problem: Problem, request: Request) -> tuple[Answer, str]:
    """Return the Answer of the method that was asked for, and why it."""
    answer = engine.answer(problem, engine.plan(problem), **request.run)
    if answer.sample.rejected:
        raise ConvergenceError(answer.sample.rejected, answer.tree)
    return answer, CALLER + (_fewer(request, engine.draws) if isinstance(request.method, str) else "")


def _fewer(request: Request, draws: int) -> str:
    """Return the sentence about draws that are fewer than usual, for the memory that they take."""
    if request.draws is not None or draws >= USUAL:
        return ""
    return f" {draws} draws a chain, for the memory of so many categories."


def _told(tree, collection, problem: Problem, request: Request, why: str) -> "xr.DataTree":
    """Return the result of one collection with all that is said beside its posterior."""
    from ldpbayes import result
    from ldpbayes.describing.posterior import describe

    if collection.laws:
        tree = result.among_compliers(tree, collection)
    tree.attrs |= stated_prior(why) | _about_order(collection, problem.prior)
    if request.estimates and collection.keeps_reports:
        describe(tree, collection, [problem], evidence_of)
    return tree


def stated_prior(why: str) -> dict[str, str]:
    """Return the attr with the reason for a prior that the rule chose."""
    return {"prior_reason": why} if why else {}


def _without_draws(collection, request: Request) -> bool:
    """Return whether a fit of one collection makes moments and intervals alone: asked to, or for its size.

    Draws that were asked for are made or refused.
    """
    if request.draws != 0:
        unasked = request.automatic and not request.asked_sizes and not collection.weighted and not collection.laws
        return unasked and DRAWN * collection.n_categories > MAX_DRAWN
    if request.method not in UNDRAWN:
        raise ArgumentError(f"draws=0 goes with the methods {listed(UNDRAWN)}; {request.method!r} makes draws.")
    if request.exclude:
        raise ArgumentError(f"exclude must be empty with draws=0, got {shown(request.exclude)}.")
    return True


def _undrawn(collection, prior, request: Request) -> "xr.DataTree":
    """Return the moments, intervals and evidence of one collection."""
    ruling = rule(prior, collection, request.name)
    refuse_long(collection)
    asked = {"draws": request.draws, "chains": request.chains}
    tree, scaled = moments_of(collection, [Problem.of(collection, ruling.prior)], request.run, asked, request.name)
    tree.attrs |= decision_given(collection if collection.keeps_reports else None, scaled)
    if collection.derived:
        tree.attrs["reason"] += " Derived quantities need draws and are left out."
    tree.attrs |= stated_prior(ruling.sentence)
    return tree


def _about_order(collection, prior) -> dict[str, str]:
    """Return the note on the order of the categories as an attr: where it is assumed, or would allow another prior."""
    if prior.walk() is not None and not collection.ordered:
        return {
            "order": f"The prior takes the categories in the order {listed(collection.categories)}; check it, and state "
            "it with ordered = true."
        }
    if collection.ordered and prior.walk() is None:
        return {"order": 'The categories are ordered: prior "smooth" lets neighbours share their reports.'}
    return {}


def evidence_of(collection: Collection, prior: Any) -> float:
    """Return the log-evidence of a collection under a prior, or nan where a quick fit knows none.

    Parameters
    ----------
    collection : Collection
    prior : as in fit
    """
    request = Request(draws=EVIDENCE_DRAWS, estimates=False)
    _, selection = settle(collection, prior, "auto", (), {"draws": EVIDENCE_DRAWS})
    choice = selection.choose({})
    if choice is None or choice.plan.work > choice.method.most:
        return np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LDPBayesWarning)
        known = of_result(automatic(selection, request)[0].tree)
    return np.nan if known is None else known[0]
