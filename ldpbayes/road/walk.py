"""The walk from data to a result: a collection is one cell, and cells have one posterior of all or a posterior each."""

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ldpbayes.answers.deciding import decision_given, decision_of_cells
from ldpbayes.collections import Cells, Collection
from ldpbayes.errors import CellsError, ConvergenceError, InfeasibleError, LDPBayesWarning, listed
from ldpbayes.inference.diagnostics import of_cells
from ldpbayes.inference.handover import hand_over
from ldpbayes.methods.answer import MethodAnswer
from ldpbayes.methods.base import AbstractPosterior
from ldpbayes.methods.conjugate import fit_shared
from ldpbayes.methods.exact import fit_alone
from ldpbayes.methods.expansion import refuse_doubtful_cells
from ldpbayes.methods.many import NEITHER, refuse_long
from ldpbayes.methods.nodes import Placement
from ldpbayes.methods.plan import Cost
from ldpbayes.methods.problem import Joint, Problem, over_all, prior_of_cells, scaled
from ldpbayes.methods.watch import Watch
from ldpbayes.priors import AbstractPrior
from ldpbayes.result.building import of_answer, write
from ldpbayes.result.cells import of_answers, stack
from ldpbayes.result.fits import Fit, cells_left_out
from ldpbayes.result.frame import Result
from ldpbayes.result.moments import summary_alone
from ldpbayes.road.methods import CONJUGATE, JOINT, METHODS, Selection
from ldpbayes.road.moments import moments_of
from ldpbayes.road.request import Request, Sizes, at_once
from ldpbayes.road.ruling import Ruling, jeffreys_because, rule, too_long

#: Why a cell has no result after Ctrl-C.
INTERRUPTED = "the fit was interrupted before it."


@dataclass(frozen=True, eq=False)
class UnderPrior:
    """A fit under one prior.

    Attributes
    ----------
    fit : Fit
    problems : sequence of Problem
        Of each cell, or of the one collection; none under a prior over all cells.
    trouble : str
        Why the answer cannot be trusted, or an empty string.
    left_out : mapping of str to str
        Why, by label, of cells that cannot be served.
    """

    fit: Fit
    problems: Sequence[Problem] = ()
    trouble: str = ""
    left_out: Mapping[str, str] = field(default_factory=dict)


def walk(data: Any, prior: Any, request: Request) -> Result:
    """Return the result of a collection, or of all cells but those that cannot be served, which it names.

    Parameters
    ----------
    data : Collection, Summarized or Cells
    prior : as in fit
    request : Request
    """
    return write(_walked(data, prior, request))


def _walked(data: Any, prior: Any, request: Request) -> Fit:
    """Return the Fit of a collection, or of all cells but those that cannot be served, which it names."""
    left_out: dict[str, str] = {}
    while True:
        try:
            fit, refused = _of_all(data, prior, request)
            break
        except CellsError as err:
            left = [key for key, label in zip(data, data.labels, strict=True) if label not in err.reasons]
            if not left or over_all(prior):  # whose cells cannot be left out
                raise
            left_out |= err.reasons
            data = data.take(left)
    left_out |= refused
    if left_out:
        fit.leave_out(cells_left_out(left_out, len(left_out) + len(fit.data)))
    return fit


def _of_all(data: Any, prior: Any, request: Request) -> tuple[Fit, Mapping[str, str]]:
    """Return (the Fit of data with all that is said beside it, why some cells cannot be served, by label)."""
    data = scaled(data)
    ruling, selection = settle(data, prior, request)
    belief, undrawn = prior_of_cells(ruling.prior, data), request.undrawn(data)
    keeps_draws = not undrawn
    if undrawn and not _moments_known(data, belief, request):  # draws have them
        request, undrawn = request.drawing(data.n_categories), False
        ruling, selection = settle(data, prior, request)
        belief = prior_of_cells(ruling.prior, data)
    try:
        fitted = _fitted(data, belief, request, undrawn, selection)
        trouble = fitted.trouble
    except InfeasibleError as err:
        if not ruling.replaceable:
            raise
        trouble = str(err)
    if trouble and ruling.replaceable:
        ruling = jeffreys_because(f"the answer under the learnt prior was rejected: {trouble.rstrip('.')}.")
        belief = prior_of_cells(ruling.prior, data)
        fitted = _fitted(data, belief, request, undrawn)
    fit = fitted.fit
    if ruling.sentence:
        fit.facts["prior_reason"] = ruling.sentence
    if not data.keeps_reports:
        from ldpbayes.fitness.sums import described

        fit.facts |= described(data)
    if undrawn and not fit.draws:
        return fit, fitted.left_out
    fit.facts |= _about_order(data, fit.prior)
    if request.estimates:
        from ldpbayes.describing import describe

        with warnings.catch_warnings():
            if data.by:
                warnings.simplefilter("ignore", LDPBayesWarning)  # said once, for all cells
            describe(fit, fitted.problems, belief, evidence_of)
    return fit if keeps_draws else summary_alone(fit), fitted.left_out


def settle(data: Any, prior: Any, request: Request) -> tuple[Ruling, Selection | None]:
    """Return the prior of data, and of one collection without a method the methods for it.

    Under the learnt prior by rule these are the conjugate ones alone.

    Parameters
    ----------
    data : Collection, Summarized or Cells
    prior : as in fit
    request : Request
    """
    ruling = rule(prior, data, request.name)
    if data.by:
        seconds = Cost().mixed(data, Placement())
        slow = ruling.learnt and request.undrawn(data) and seconds > Watch.long
        return too_long(seconds) if slow else ruling, None
    if not request.automatic or request.undrawn(data):
        return ruling, None
    if ruling.learnt and data.keeps_reports:
        others = tuple(name for name in METHODS if name not in CONJUGATE)
        selection = Selection(Problem.of(data, ruling.prior), (*others, *request.exclude), request.sizes(data.n_categories))
        choice = selection.choose({})
        if choice is not None and choice.plan.work <= choice.method.most:
            return ruling, selection
        if choice is None:
            why = " ".join(dict.fromkeys(plan.reason for _, plan in map(selection.consider, selection.names)))
            excluded = "the methods exact and surrogate, which the learnt prior needs, were excluded."
            ruling = jeffreys_because(f"the learnt prior cannot be used here. {why}" if why else excluded)
        else:
            ruling = too_long(choice.plan.seconds)
    return ruling, Selection(Problem.of(data, ruling.prior), request.exclude, request.sizes(data.n_categories))


def _moments_known(data: Any, belief: Any, request: Request) -> bool:
    """Return whether moments without draws are integrals; elsewhere they come from draws, which are not kept."""
    if not data.by:
        return not (data.laws or (data.derived and request.automatic))
    if over_all(belief):
        if not data.laws:
            raise InfeasibleError(NEITHER.format(belief.describe()))
        return False
    return not _shared(data, belief, request) or at_once(data, request)


def _fitted(data: Any, belief: Any, request: Request, undrawn: bool, selection: Selection | None = None) -> UnderPrior:
    """Return what is fitted under a prior: of all cells together, without draws, of one collection, or of each cell."""
    if over_all(belief):
        refuse_doubtful_cells(data)
        without = ("nuts",) if data.weighted else ()  # it takes no weights, as of one collection
        answer, reason = _answered(request, Joint(data, belief), request.asked_sizes, JOINT, without)
        return UnderPrior(of_answer(answer, reason=reason))
    if undrawn and (not data.by or at_once(data, request)):
        return _moments(data, belief, request)
    if not data.by:
        return _of_answer(*_alone(data, belief, request, selection))
    return _sharing(data, belief, request) if _shared(data, belief, request) else _each(data, belief, request)


def _of_answer(answer: MethodAnswer, reason: str) -> UnderPrior:
    """Return what is fitted of one collection."""
    return UnderPrior(of_answer(answer, reason=reason), [answer.problem], answer.trouble)


def _shared(cells: Cells, prior: Any, request: Request) -> bool:
    """Return whether cells share the hyperparameter of a mixture of Dirichlet priors."""
    if cells.laws or len(cells) == 1 or request.name not in ("auto", *CONJUGATE):
        return False
    mixing = prior.nodes()
    return mixing is not None and mixing.size == 1


def _moments(data: Any, belief: Any, request: Request) -> UnderPrior:
    """Return what is fitted without draws: moments, intervals and evidence, and whether the prior decides them.

    Of an expansion whose error is above that of the means of the usual draws, draws are made where they are affordable.
    """
    refuse_long(data)
    problems = [Problem.of(cell, belief) for cell in data.collections()]
    first, usual = problems[0], math.prod(request.drawing(data.n_categories).sizes().values())
    conjugate = first.mixing is not None and not first.mixing.atom
    drawn, drawable = None, request.automatic and not data.by and data.keeps_reports and conjugate
    try:
        fit, moved, error = moments_of(data, problems, request.run, request.stated | {"draws": request.draws}, request.name)
        if drawable and error > 1 / math.sqrt(usual):
            drawn = _drawn(data, belief, request)
    except InfeasibleError:
        if not drawable or (drawn := _drawn(data, belief, request)) is None:
            raise
        return drawn
    if drawn is not None and not drawn.trouble:
        return drawn
    if data.by:
        fit.facts |= decision_of_cells(data.labels, None, moved)
    else:
        fit.facts |= decision_given(data if data.keeps_reports else None, moved)
    if data.derived:
        fit.facts["reason"] += " Derived quantities need draws and are left out."
    return UnderPrior(fit, problems)


def _drawn(collection: Any, belief: Any, request: Request) -> UnderPrior | None:
    """Return what is fitted by draws where a method makes them within its limit, else None."""
    drawing = request.drawing(collection.n_categories)
    selection = Selection(Problem.of(collection, belief), (), drawing.sizes(collection.n_categories))
    choice = selection.choose({})
    if choice is None or choice.plan.work > choice.method.most:
        return None
    return _of_answer(*_alone(collection, belief, drawing, selection))


def _alone(collection: Any, belief: Any, request: Request, selection: Selection | None = None) -> tuple[MethodAnswer, str]:
    """Return (MethodAnswer, why its method) of one collection."""
    problem = selection.problem if selection else Problem.of(collection, belief)
    return _answered(request, problem, request.sizes(collection.n_categories), selection=selection)


def _answered(
    request: Request,
    problem: Any,
    sizes: Mapping[str, int],
    methods: Mapping[str, type[AbstractPosterior]] = METHODS,
    without: tuple[str, ...] = (),
    selection: Selection | None = None,
) -> tuple[MethodAnswer, str]:
    """Return (answer, why its method): of the method asked for, else the first accepted or the best of those rejected."""
    if request.automatic:
        methods_left = selection or Selection(problem, request.exclude + without, sizes, methods)
        handed = hand_over(
            methods_left.following(request.run),
            lambda answer: answer.trouble,
            lambda answer: not answer.outcome.rejected,
            methods_left.refusal,
        )
        answer, why = handed.answer, handed.answer.reason + handed.before
    else:
        engine = request.engine(methods, sizes)
        answer, why = engine.answer(problem, engine.plan(problem), **request.run), "Chosen by the caller."
        if answer.outcome.rejected:
            raise ConvergenceError(answer.outcome.rejected, write(of_answer(answer, reason=why)))
    draws = answer.method.draws
    if isinstance(request.method, str) and request.draws is None and draws < Sizes.usual:
        why += f" {draws} draws a chain, for the memory of so many categories."
    return answer, why


def _sharing(cells: Cells, belief: Any, request: Request) -> UnderPrior:
    """Return what is fitted of all cells under a mixture of Dirichlet priors whose one hyperparameter they share."""
    names = [name for name in CONJUGATE if name not in request.exclude and request.name in ("auto", name)]
    if not names:
        raise InfeasibleError(
            "One hyperparameter shared by all cells needs the methods exact or surrogate, which were excluded."
        )
    engines = {name: request.engine(METHODS, request.asked_sizes, name) for name in names}
    answers, facts = fit_shared(engines, cells, belief, request.run)
    (name,) = belief.nodes().names
    attrs = facts | {
        "prior": f"{belief.describe()}, one {name} for all cells",
        "reason": f"All cells share one {name}: conjugate posteriors at its nodes, weighed by the evidence of all cells.",
    }
    problems, pairs = [answer.problem for answer in answers], [(answer, answer.reason) for answer in answers]
    trouble = _trouble(cells, answers)
    answers.clear()  # of_answers empties the pairs, and frees their draws
    return UnderPrior(of_answers(cells, problems[0].prior, pairs, request.stated, attrs), problems, trouble)


def _each(cells: Cells, belief: Any, request: Request) -> UnderPrior:
    """Return what is fitted of cells with posteriors of their own; one that cannot be served is left out by its name."""
    answers, refused = _answers(cells, belief, request)
    if not answers:
        label, first = next(iter(refused.items()))
        message = f"Cell {label}: {first}"
        if isinstance(first, ConvergenceError):
            raise ConvergenceError(message, first.result) from first
        raise InfeasibleError(message) from first
    cells = cells.take(list(answers)) if refused else cells
    left_out = {label: str(reason) for label, reason in refused.items()}
    problems = [Problem.of(cell, belief) for cell in cells.collections()]
    prior = problems[0].prior
    if request.draws == 0:  # moments of each
        fit = stack(cells, prior, list(answers.values()), request.stated)
        fit.facts |= decision_of_cells(cells.labels, fit.cells)
        return UnderPrior(fit, problems, "", left_out)
    pairs = list(answers.values())
    trouble = _trouble(cells, [answer for answer, _ in pairs])
    if not cells.laws and all(_together(answer) for answer, _ in pairs):
        answers.clear()
        fit = of_answers(cells, prior, pairs, request.stated | request.sizes())
    else:
        fit = stack(cells, prior, [of_answer(answer, reason=reason) for answer, reason in pairs], request.stated)
    return UnderPrior(fit, problems, trouble, left_out)


def _together(answer: MethodAnswer) -> bool:
    """Return whether the draws of a cell can stand beside those of others as they are."""
    plain = all(len(variable) == 2 for variable in answer.posterior.draws.values())  # no unknowns of the prior
    return answer.outcome.independent and plain and not answer.posterior.stats


def _trouble(cells: Cells, answers: Sequence[MethodAnswer]) -> str:
    """Return why the answers of cells cannot be trusted, or an empty string."""
    if any(answer.diagnostics.interrupted for answer in answers):
        return ""
    return of_cells(cells.labels, [answer.diagnostics for answer in answers]).problems


def _answers(cells: Cells, belief: Any, request: Request) -> tuple[dict, dict[str, InfeasibleError | ConvergenceError]]:
    """Return (what was found by cell, why by label of those that cannot be served); Ctrl-C keeps the cells before it."""
    seeds = [int(child.generate_state(1)[0]) for child in np.random.SeedSequence(request.random_seed).spawn(len(cells))]
    if request.method in ("auto", "exact") and "exact" not in request.exclude and not cells.laws and request.draws != 0:
        exact = fit_alone(cells, belief, request.sizes(), seeds, request.run)
        if exact:
            return {key: (answer, answer.reason) for key, answer in zip(cells, exact, strict=True)}, {}
    answers: dict[Any, Any] = {}
    refused: dict[str, InfeasibleError | ConvergenceError] = {}
    every = list(zip(cells, cells.labels, cells.collections(), seeds, strict=True))
    watch = Watch(request.progressbar)
    with watch.keeping(lambda: bool(answers)):
        for k, (key, label, cell, seed) in enumerate(watch.track(every, "Cells")):
            if k == 1:  # the first one loads and compiles what the others use
                start = time.process_time()
            elif k > 1:
                each = (time.process_time() - start) / (k - 1)
                watch.announce(f"The fit of all {len(cells):,} cells", each * len(cells))
            own_request = replace(request, random_seed=seed, estimates=False, progressbar=False)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", LDPBayesWarning)  # said once, for all cells
                    if request.draws == 0:
                        answers[key] = _walked(cell, belief, own_request)
                        continue
                    answers[key] = _alone(cell, belief, own_request)
            except (InfeasibleError, ConvergenceError) as err:
                refused[label] = err
                continue
            if answers[key][0].watch.interrupted:
                raise KeyboardInterrupt
    reached = len(answers) + len(refused)
    return answers, refused | {label: InfeasibleError(INTERRUPTED) for _, label, *_ in every[reached:]}


def _about_order(collection: Any, prior: AbstractPrior) -> dict[str, str]:
    """Return the note on the order of the categories as an attr: where it is assumed, or would allow another prior."""
    if prior.ordered and not collection.ordered:
        return {
            "order": f"The prior takes the categories in the order {listed(collection.categories)}; check it, and state "
            "it with ordered = true."
        }
    if collection.ordered and not prior.ordered:
        return {"order": 'The categories are ordered: prior "smooth" lets neighbours share their reports.'}
    return {}


def evidence_of(collection: Collection, prior: Any) -> float:
    """Return the log-evidence of a collection under a prior, or nan where a quick fit knows none.

    Parameters
    ----------
    collection : Collection
    prior : as in fit
    """
    request = Request(draws=Sizes.least, estimates=False)
    ruling, selection = settle(collection, prior, request)
    choice = selection.choose({}) if selection else None
    if choice is None or choice.plan.work > choice.method.most:
        return np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LDPBayesWarning)
        evidence = _alone(collection, ruling.prior, request, selection)[0].log_evidence
    return np.nan if evidence is None else evidence[0]
