"""The walk of cells: moments of all at once, one posterior of all, or a posterior of each."""

import warnings
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ldpbayes.answers.deciding import decision_of_cells
from ldpbayes.collections import Cells
from ldpbayes.errors import CellsError, ConvergenceError, InfeasibleError, LDPBayesWarning, listed
from ldpbayes.posteriors.exact import fit_alone
from ldpbayes.posteriors.expansion import refuse_doubtful_cells
from ldpbayes.posteriors.joint import JOINT
from ldpbayes.posteriors.many import NEITHER, in_one_call, moments_of, seconds_of_mixture
from ldpbayes.posteriors.mixture import fit_shared
from ldpbayes.posteriors.problem import Joint, Problem, prior_of_cells, scaled
from ldpbayes.priors import AbstractPrior
from ldpbayes.result.beside import cells_left_out, leave_out, leaving_out
from ldpbayes.result.moments import summary_alone
from ldpbayes.road import single
from ldpbayes.road.methods import SUMMARY, Selection, make_method
from ldpbayes.road.request import Request
from ldpbayes.road.ruling import rule, ruled, too_long

if TYPE_CHECKING:
    import xarray as xr

#: Draws of all cells hold at most so many numbers; above, cells that one vectorized call can handle get moments alone.
MAX_OF_CELLS = 1e8
#: Cells times categories for which the rule takes the learnt prior where no draws are made.
MAX_LEARNT = 9000


def walk(cells: Cells, prior: Any, request: Request) -> "xr.DataTree":
    """Return the result of cells.

    Parameters
    ----------
    cells : Cells
    prior : as in fit
    request : Request
    """
    refused: dict[str, str] = {}
    while True:
        try:
            tree = _walked(cells, prior, request, refused)
            break
        except CellsError as err:
            left = [key for key, label in zip(cells, cells.labels, strict=True) if label not in err.reasons]
            if not left or _over_all(prior):  # whose cells cannot be left out
                raise
            refused.update(err.reasons)
            cells = cells.take(left)
    if refused:
        leave_out(tree, cells_left_out(refused, len(refused) + tree["posterior"].sizes["cell"]))
    return tree


def _over_all(prior: Any) -> bool:
    """Return whether a prior is one over all cells."""
    return isinstance(prior, AbstractPrior) and len(prior.shape) > 1


def _walked(cells: Cells, prior: Any, request: Request, refused: dict[str, str]) -> "xr.DataTree":
    """Return the result of cells; those that cannot be served alone are left out and noted in ``refused``."""
    undrawn = _undrawn(cells, request)
    cells, ruling = scaled(cells), rule(prior, cells, request.name)
    if undrawn and ruling.learnt and len(cells) * cells.n_categories > MAX_LEARNT:
        ruling = too_long(seconds_of_mixture(cells))
    own = prior_of_cells(ruling.prior, cells)
    if request.draws == 0 and cells.laws and _over_all(own):
        return summary_alone(_walked(cells, prior, request.drawing(cells.n_categories), refused))
    if undrawn and len(own.shape) == 1:
        problems = [Problem.of(cell, own) for cell in cells.collections()]
        tree, sensitivity = moments_of(cells, problems, request.run, request.stated | {"draws": request.draws})
        tree.attrs |= decision_of_cells(cells.labels, None, sensitivity) | single.stated_prior(ruling.sentence)
        return tree
    tree, why = ruled(
        ruling, lambda one: _sampled(cells, own if one is ruling.prior else prior_of_cells(one, cells), request, refused)
    )
    tree.attrs |= single.stated_prior(why)
    if request.draws == 0:
        tree.attrs.update(decision_of_cells(served(cells, tree).labels, tree["cells"].to_dataset()))
    elif request.estimates:
        _describe(tree, served(cells, tree), ruling.prior)
    return tree


def _describe(tree, cells, prior):
    """Add what is said beside the posteriors of all cells."""
    from ldpbayes.describing import posterior as describing

    with leaving_out(tree, "The fit of the reports"):
        tree.attrs |= describing.fitness(tree, cells)
    with leaving_out(tree, "Point estimates and confidence intervals"):
        describing.estimates_alone(tree, cells)
    with leaving_out(tree, "Who decides"):
        tree.attrs |= describing.deciding(tree, cells, prior_of_cells(prior, cells))


def _undrawn(cells: Cells, request: Request) -> bool:
    """Return whether cells get moments alone: their draws would be too many, or they are wanted without."""
    sizes = request.sizes()
    if request.method not in ("auto", "exact", SUMMARY) or cells.weighted or cells.laws:
        return False
    if request.draws != 0 and sizes["draws"] * sizes["chains"] * cells.n_categories * len(cells) <= MAX_OF_CELLS:
        return False
    return in_one_call(cells)


def _sampled(cells: Cells, prior: AbstractPrior | Any, request: Request, refused: dict[str, str]) -> "xr.DataTree":
    """Return one result of all cells: with a prior over all of them together, else each cell on its own."""
    if _over_all(prior):
        if request.draws == 0:
            raise InfeasibleError(NEITHER.format(prior.describe()))
        return _together(cells, prior, request)
    if not cells.laws and len(cells) > 1 and prior.mixture() is not None and request.name in ("auto", "mixture"):
        if request.draws == 0:
            return summary_alone(_sharing(cells, prior, request.drawing(cells.n_categories)))
        return _sharing(cells, prior, request)
    return _each(cells, prior, request, refused)


def _each(cells: Cells, prior, request: Request, left_out: dict[str, str]) -> "xr.DataTree":
    """Return the result of cells with posteriors of their own; a cell that cannot be served is left out by its name."""
    from ldpbayes import result

    seeds = [int(one.generate_state(1)[0]) for one in np.random.SeedSequence(request.random_seed).spawn(len(cells))]
    exact, known = request.method in ("auto", "exact") and "exact" not in request.exclude, []
    if exact and not cells.laws and request.draws != 0:
        known = fit_alone(cells, prior, request.sizes(), seeds, request.run)
    found, refused = {}, {}
    for k, (key, label, cell) in enumerate(zip(cells, cells.labels, cells.collections(), strict=True)):
        own = replace(request, random_seed=seeds[k], estimates=False)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", LDPBayesWarning)  # said once, for all cells
                answer = (known[k], known[k].reason) if known else single.answer_of(cell, prior, own)
                found[key] = single.walk(cell, prior, own) if answer is None else answer
        except (InfeasibleError, ConvergenceError) as err:
            refused[label] = err
    if not found:
        label, first = next(iter(refused.items()))
        said = f"Cell {label}: {first}"
        if isinstance(first, ConvergenceError):
            raise ConvergenceError(said, first.result) from first
        raise InfeasibleError(said) from first
    if refused:
        cells = cells.take(list(found))
        left_out |= {label: str(reason) for label, reason in refused.items()}
    problems = [Problem.of(cell, prior) for cell in cells.collections()]
    parts = [_parts(*one) for one in found.values() if isinstance(one, tuple) and one[0].sample.independent]
    if len(parts) == len(found) and not any(one.hyper or one.stats for one in parts):
        del known
        found.clear()
        tree = result.of_parts(cells, problems[0].prior, parts, request.stated | request.sizes())
    else:
        trees = [_tree(*one) if isinstance(one, tuple) else one for one in found.values()]
        tree = result.stack(cells, problems[0].prior, trees, request.stated)
    if request.draws != 0:
        _say(tree, cells, problems, request)
    return tree


def _parts(answer, reason: str):
    """Return the Parts of an Answer, with what a result says of its method."""
    answer.parts.attrs.update(method=answer.method.name, reason=reason)
    return answer.parts


def _tree(answer, reason: str):
    answer.tree.attrs["reason"] = reason
    return answer.tree


def served(cells: Cells, tree: "xr.DataTree") -> Cells:
    """Return the cells that a result has: all but those that were left out."""
    kept = {str(label) for label in tree["posterior"].coords["cell"].values}
    return cells.take([key for key, label in zip(cells, cells.labels, strict=True) if label in kept])


def _say(tree, cells: Cells, problems: list[Problem], request: Request) -> None:
    """Add what is said beside the posterior of each cell, where that is asked for."""
    from ldpbayes.describing.posterior import describe

    if request.estimates:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LDPBayesWarning)  # said once, for all cells
            describe(tree, cells, problems, single.evidence_of)


def _sharing(cells: Cells, prior, request: Request) -> "xr.DataTree":
    """Return the result of all cells under a mixture of Dirichlet priors whose one hyperparameter they share."""
    from ldpbayes import result

    engine = make_method("mixture", **request.asked_sizes) if isinstance(request.method, str) else request.method
    if "mixture" in request.exclude and request.automatic:
        raise InfeasibleError("One hyperparameter shared by all cells needs the method mixture, which was excluded.")
    answers, facts = fit_shared(engine, cells, prior, request.run)
    parts = [_parts(answer, answer.reason) for answer in answers]
    name = prior.mixture().parameter
    about = facts | {
        "prior": f"{prior.describe()}, one {name} for all cells",
        "reason": f"All cells share one {name}: conjugate posteriors at its nodes, weighed by the evidence of all cells.",
    }
    tree = result.of_parts(cells, answers[0].problem.prior, parts, request.stated, about, parts[0].hyper)
    _say(tree, cells, [answer.problem for answer in answers], request)
    return tree


def _together(cells: Cells, prior, request: Request) -> "xr.DataTree":
    """Return the result of all cells under a prior over all of them, by the first joint engine whose answer is accepted."""
    problem = Joint(cells, prior)
    refuse_doubtful_cells(cells)
    if request.automatic:
        weighted = ("nuts",) if cells.weighted else ()  # the PyMC model takes whole reports
        answer, reason = single.automatic(
            Selection(problem, request.exclude + weighted, request.asked_sizes, JOINT), request
        )
        return _tree(answer, reason)
    if request.name not in JOINT:
        raise InfeasibleError(f"A prior over all cells needs the methods {listed(JOINT)}, got {request.name}.")
    kind = JOINT[request.name]
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type]  # a dataclass
    engine = kind(**{key: value for key, value in request.settings().items() if key in names})
    plan = engine.plan(problem)
    # A method that is given by name answers, and the result says why it is not to be trusted.
    answer = engine.answer(problem, plan, **request.run)
    answer.tree.attrs["reason"] = plan.reason
    if answer.sample.rejected:
        raise ConvergenceError(answer.sample.rejected, answer.tree)
    return answer.tree
