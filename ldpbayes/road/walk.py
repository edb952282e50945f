"""The walk from data to a result: a collection is one cell, and cells have one posterior of all or a posterior each."""

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ldpbayes.answers.deciding import decision_given, decision_of_cells
from ldpbayes.collections import Cells, Collection
from ldpbayes.errors import CellsError, ConvergenceError, InfeasibleError, LDPBayesWarning, listed
from ldpbayes.inference.handover import hand_over
from ldpbayes.posteriors.base import CALLER, AbstractPosterior, Answer, Watch
from ldpbayes.posteriors.conjugate import fit_shared
from ldpbayes.posteriors.evidence import of_result
from ldpbayes.posteriors.exact import fit_alone
from ldpbayes.posteriors.expansion import refuse_doubtful_cells
from ldpbayes.posteriors.joint import JOINT
from ldpbayes.posteriors.many import NEITHER, Cost, moments_of, refuse_long
from ldpbayes.posteriors.nodes import Placement
from ldpbayes.posteriors.problem import Joint, Problem, over_all, prior_of_cells, scaled
from ldpbayes.priors import AbstractPrior
from ldpbayes.result.beside import cells_left_out, leave_out
from ldpbayes.result.cells import of_parts, stack
from ldpbayes.result.frame import Result
from ldpbayes.result.moments import summary_alone
from ldpbayes.road.methods import CONJUGATE, METHODS, Selection
from ldpbayes.road.request import USUAL, Request, at_once
from ldpbayes.road.ruling import Ruling, jeffreys_because, rule, ruled, too_long

#: Draws per chain of a fit that only a log-evidence is wanted of.
EVIDENCE_DRAWS = 250
#: Cells times categories for which the rule takes the learnt prior where no draws are made.
MAX_LEARNT = 9000
#: Why a cell has no result after Ctrl-C.
INTERRUPTED = "the fit was interrupted before it."


def walk(data: Any, prior: Any, request: Request) -> Result:
    """Return the result of a collection, or of all cells but those that cannot be served, which it names.

    Parameters
    ----------
    data : Collection, Summarized or Cells
    prior : as in fit
    request : Request
    """
    refused: dict[str, str] = {}
    while True:
        try:
            tree = _walked(data, prior, request, refused)
            break
        except CellsError as err:
            left = [key for key, label in zip(data, data.labels, strict=True) if label not in err.reasons]
            if not left or over_all(prior):  # whose cells cannot be left out
                raise
            refused.update(err.reasons)
            data = data.take(left)
    if refused:
        leave_out(tree, cells_left_out(refused, len(refused) + tree["posterior"].sizes["cell"]))
    return tree


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
        many = len(data) * data.n_categories > MAX_LEARNT
        if ruling.learnt and many and request.undrawn(data):
            ruling = too_long(Cost().mixed(data, Placement()))
        return ruling, None
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


def _walked(data: Any, prior: Any, request: Request, refused: dict[str, str]) -> Result:
    """Return the result of data with all that is said beside it; cells left out are noted in ``refused``."""
    data = scaled(data)
    ruling, selection = settle(data, prior, request)
    belief = prior_of_cells(ruling.prior, data)
    if request.undrawn(data) and not _moments_known(data, belief, request):
        return summary_alone(_walked(data, prior, request.drawing(data.n_categories), refused))
    problems: Sequence[Problem] = ()

    def run(prior: Any) -> Result:
        nonlocal problems
        first = prior is ruling.prior
        own = belief if first else prior_of_cells(prior, data)
        tree, problems = _made(data, own, request, refused, selection if first else None)
        return tree

    tree, why = ruled(ruling, run)
    if why:
        tree.attrs["prior_reason"] = why
    if not data.keeps_reports and (request.undrawn(data) or not data.by):
        from ldpbayes.fitness.sums import described

        tree.attrs |= described(data)
    if request.undrawn(data) and "draw" not in tree["posterior"].sizes:
        return tree
    if not data.by:
        tree.attrs |= _about_order(data, problems[0].prior)
    if request.estimates and (data.by or data.keeps_reports):
        from ldpbayes.describing.posterior import describe

        with warnings.catch_warnings():
            if data.by:
                warnings.simplefilter("ignore", LDPBayesWarning)  # said once, for all cells
            describe(tree, _served(data, tree), problems, belief, evidence_of)
    return summary_alone(tree) if request.undrawn(data) else tree


def _moments_known(data: Any, belief: Any, request: Request) -> bool:
    """Return whether moments without draws are integrals; elsewhere they come from draws, which are not kept."""
    if not data.by:
        return not (data.laws or (data.derived and request.automatic))
    if over_all(belief):
        if not data.laws:
            raise InfeasibleError(NEITHER.format(belief.describe()))
        return False
    return not _shared(data, belief, request) or at_once(data, request)


def _made(
    data: Any, belief: Any, request: Request, refused: dict[str, str], selection: Selection | None = None
) -> tuple[Result, Sequence[Problem]]:
    """Return (result under a prior, the problem of each cell where they have one each)."""
    if over_all(belief):
        refuse_doubtful_cells(data)
        without = ("nuts",) if data.weighted else ()  # the PyMC model takes whole reports
        return _tree(*_answered(request, Joint(data, belief), request.asked_sizes, JOINT, without)), ()
    if request.undrawn(data) and (not data.by or at_once(data, request)):
        return _moments(data, belief, request)
    if not data.by:
        answer, reason = _alone(data, belief, request, selection)
        return _tree(answer, reason), [answer.problem]
    return _sharing(data, belief, request) if _shared(data, belief, request) else _each(data, belief, request, refused)


def _shared(cells: Cells, prior: Any, request: Request) -> bool:
    """Return whether cells share the hyperparameter of a mixture of Dirichlet priors."""
    if cells.laws or len(cells) == 1 or request.name not in ("auto", *CONJUGATE):
        return False
    mixing = prior.nodes()
    return mixing is not None and mixing.size == 1


def _moments(data: Any, belief: Any, request: Request) -> tuple[Result, Sequence[Problem]]:
    """Return the result of moments, intervals and evidence, and whether the prior decides them.

    Of an expansion whose error is above that of the means of the usual draws, draws are made where they are affordable.
    """
    if not data.by:
        refuse_long(data)
    problems = [Problem.of(cell, belief) for cell in data.collections()]
    first, usual = problems[0], math.prod(request.drawing(data.n_categories).sizes().values())
    conjugate = first.mixing is not None and not first.mixing.atom
    drawn, drawable = None, request.automatic and not data.by and data.keeps_reports and conjugate
    try:
        tree, moved = moments_of(data, problems, request.run, request.stated | {"draws": request.draws}, request.name)
        if drawable and _expansion_error(tree, first) > 1 / math.sqrt(usual):
            drawn = _drawn(data, belief, request)
    except InfeasibleError:
        if not drawable or (drawn := _drawn(data, belief, request)) is None:
            raise
        return drawn, problems
    if drawn is not None and drawn.attrs["converged"]:
        return drawn, problems
    if data.by:
        tree.attrs |= decision_of_cells(data.labels, None, moved)
    else:
        tree.attrs |= decision_given(data if data.keeps_reports else None, moved)
    if data.derived:
        tree.attrs["reason"] += " Derived quantities need draws and are left out."
    return tree, problems


def _expansion_error(tree: Result, problem: Problem) -> float:
    """Return the predicted error of means and sds of P, and of F, which has it A/n times as large; 0 of integrals."""
    error = float(tree.attrs.get("predicted_error", 0.0))
    if not error or problem.alpha is None or "frequency_sd" not in tree["exact"]:
        return error
    spread, users = (np.asarray(tree["exact"][f"{name}_sd"].values) for name in ("distribution", "frequency"))
    ratio = (1 + problem.alpha.sum() / problem.n_users) * spread / np.maximum(users, 1e-300)
    return error * max(1.0, float(ratio.max()) ** 2)


def _drawn(collection: Any, belief: Any, request: Request) -> Result | None:
    """Return the result of draws where a method makes them within its limit, else None."""
    drawing = request.drawing(collection.n_categories)
    selection = Selection(Problem.of(collection, belief), (), drawing.sizes(collection.n_categories))
    choice = selection.choose({})
    if choice is None or choice.plan.work > choice.method.most:
        return None
    return _tree(*_alone(collection, belief, drawing, selection))


def _alone(collection: Any, belief: Any, request: Request, selection: Selection | None = None) -> tuple[Answer, str]:
    """Return (Answer, why its method) of one collection."""
    problem = selection.problem if selection else Problem.of(collection, belief)
    return _answered(request, problem, request.sizes(collection.n_categories), selection=selection)


def _answered(
    request: Request,
    problem: Any,
    sizes: Mapping[str, int],
    methods: Mapping[str, type[AbstractPosterior]] = METHODS,
    without: tuple[str, ...] = (),
    selection: Selection | None = None,
) -> tuple[Answer, str]:
    """Return (Answer, why its method): of the method asked for, else the first accepted or the best of those rejected."""
    if request.automatic:
        methods_left = selection or Selection(problem, request.exclude + without, sizes, methods)
        outcome = hand_over(
            methods_left.following(request.run),
            lambda answer: answer.trouble,
            lambda answer: not answer.sample.rejected,
            methods_left.refusal,
        )
        answer, why = outcome.answer, outcome.answer.reason + outcome.before
    else:
        engine = request.engine(methods, sizes)
        answer, why = engine.answer(problem, engine.plan(problem), **request.run), CALLER
        if answer.sample.rejected:
            raise ConvergenceError(answer.sample.rejected, answer.tree)
    draws = answer.method.draws
    if isinstance(request.method, str) and request.draws is None and draws < USUAL:
        why += f" {draws} draws a chain, for the memory of so many categories."
    return answer, why


def _tree(answer: Answer, reason: str) -> Result:
    """Return the result of an Answer, with why its method."""
    answer.tree.attrs["reason"] = reason
    return answer.tree


def _parts(answer: Answer, reason: str) -> Any:
    """Return the Parts of an Answer, with what a result says of its method."""
    answer.parts.attrs.update(method=answer.method.name, reason=reason)
    return answer.parts


def _sharing(cells: Cells, belief: Any, request: Request) -> tuple[Result, Sequence[Problem]]:
    """Return the result of all cells under a mixture of Dirichlet priors whose one hyperparameter they share."""
    names = [name for name in CONJUGATE if name not in request.exclude and request.name in ("auto", name)]
    if not names:
        raise InfeasibleError(
            "One hyperparameter shared by all cells needs the methods exact or surrogate, which were excluded."
        )
    engines = {name: request.engine(METHODS, request.asked_sizes, name) for name in names}
    answers, facts = fit_shared(engines, cells, belief, request.run)
    parts = [_parts(answer, answer.reason) for answer in answers]
    (name,) = belief.nodes().names
    attrs = facts | {
        "prior": f"{belief.describe()}, one {name} for all cells",
        "reason": f"All cells share one {name}: conjugate posteriors at its nodes, weighed by the evidence of all cells.",
    }
    tree = of_parts(cells, answers[0].problem.prior, parts, request.stated, attrs, parts[0].hyper)
    return tree, [answer.problem for answer in answers]


def _each(cells: Cells, belief: Any, request: Request, left_out: dict[str, str]) -> tuple[Result, Sequence[Problem]]:
    """Return the result of cells with posteriors of their own; a cell that cannot be served is left out by its name."""
    answers, refused = _answers(cells, belief, request)
    if not answers:
        label, first = next(iter(refused.items()))
        message = f"Cell {label}: {first}"
        if isinstance(first, ConvergenceError):
            raise ConvergenceError(message, first.result) from first
        raise InfeasibleError(message) from first
    if refused:
        cells = cells.take(list(answers))
        left_out |= {label: str(reason) for label, reason in refused.items()}
    problems = [Problem.of(cell, belief) for cell in cells.collections()]
    parts = [_parts(*pair) for pair in answers.values() if isinstance(pair, tuple) and pair[0].sample.independent]
    apart = cells.laws or len(parts) < len(answers) or any(part.hyper or part.stats for part in parts)
    if not apart:
        answers.clear()
        return of_parts(cells, problems[0].prior, parts, request.stated | request.sizes()), problems
    trees = [_tree(*pair) if isinstance(pair, tuple) else pair for pair in answers.values()]
    tree = stack(cells, problems[0].prior, trees, request.stated)
    if request.draws == 0:
        tree.attrs |= decision_of_cells(cells.labels, tree["cells"].to_dataset())
    return tree, problems


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
                        answers[key] = _walked(cell, belief, own_request, {})
                        continue
                    answers[key] = _alone(cell, belief, own_request)
            except (InfeasibleError, ConvergenceError) as err:
                refused[label] = err
                continue
            if answers[key][0].watch.interrupted:
                raise KeyboardInterrupt
    reached = len(answers) + len(refused)
    return answers, refused | {label: InfeasibleError(INTERRUPTED) for _, label, *_ in every[reached:]}


def _served(data: Any, tree: Result) -> Any:
    """Return the data that a result has: of cells all but those that were left out."""
    if not data.by:
        return data
    kept = {str(label) for label in tree["posterior"].coords["cell"].values}
    return data.take([key for key, label in zip(data, data.labels, strict=True) if label in kept])


def _about_order(collection: Any, prior: AbstractPrior) -> dict[str, str]:
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
    ruling, selection = settle(collection, prior, request)
    choice = selection.choose({}) if selection else None
    if choice is None or choice.plan.work > choice.method.most:
        return np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LDPBayesWarning)
        evidence = of_result(_alone(collection, ruling.prior, request, selection)[0].tree)
    return np.nan if evidence is None else evidence[0]
