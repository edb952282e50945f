"""The walk of cells: moments of all at once, one posterior of all, or a posterior of each."""

import warnings
from collections.abc import Iterator
from dataclasses import fields, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ldpbayes.collections import Cells
from ldpbayes.errors import ConvergenceError, InfeasibleError, LDPBayesWarning, listed
from ldpbayes.inference.handover import hand_over, in_order
from ldpbayes.posteriors.base import Watch
from ldpbayes.posteriors.expansion import doubtful_summary
from ldpbayes.posteriors.joint import JOINT
from ldpbayes.posteriors.many import Many, moments_of_cells, seconds_of_mixture
from ldpbayes.posteriors.problem import Joint, Problem, prior_of_cells, scaled
from ldpbayes.posteriors.shared import fit_shared
from ldpbayes.priors import AbstractPrior
from ldpbayes.road import single
from ldpbayes.road.methods import PATIENCE, SUMMARY, make_method
from ldpbayes.road.request import Request
from ldpbayes.road.ruling import rule, ruled, too_long

if TYPE_CHECKING:
    import xarray as xr

#: Draws of all cells hold at most so many numbers; above, cells that one vectorised call can handle get moments alone.
MAX_OF_CELLS = 1e8


def walk(cells: Cells, prior: Any, request: Request) -> "xr.DataTree":
    """Return the result of cells.

    Parameters
    ----------
    cells : Cells
    prior : as in fit
    request : Request
    """
    many = _many(cells, request)
    cells, ruling = scaled(cells), rule(prior, cells, request.name)
    if many is not None and ruling.learnt and seconds_of_mixture(many) > PATIENCE:
        ruling = too_long(seconds_of_mixture(many))
    if many is not None and len((own := prior_of_cells(ruling.prior, cells)).shape) == 1:
        tree = moments_of_cells(many, cells, own, request.run, request.stated | {"draws": request.draws})
        tree.attrs |= single.stated_prior(ruling.sentence)
        return tree
    if request.draws == 0:
        raise InfeasibleError("Moments without draws need independent priors of the cells, and no sampling weights.")
    tree, why = ruled(ruling, request, lambda prior: _sampled(cells, prior_of_cells(prior, cells), request))
    tree.attrs |= single.stated_prior(why)
    if request.estimates:
        _describe(tree, cells)
    return tree


def _describe(tree, cells):
    """Add what is said beside the posteriors of all cells."""
    from ldpbayes.answers.deciding import decision_of_cells
    from ldpbayes.describing import posterior as describing

    tree.attrs |= describing.fitness(tree, cells)
    describing.estimates_alone(tree, cells)
    tree.attrs |= decision_of_cells(tree, cells)


def _many(cells: Cells, request: Request) -> Many | None:
    """Return the Many of cells whose draws would be too many, or that are wanted without; None where draws are made."""
    sizes = request.sizes()
    if request.method not in ("auto", "exact", SUMMARY) or cells.nature.weighted or cells.laws:
        return None
    if request.draws == 0:
        return Many.of(cells)
    if sizes["draws"] * sizes["chains"] * cells.n_categories * len(cells) <= MAX_OF_CELLS:
        return None
    try:
        return Many.of(cells)
    except InfeasibleError:
        return None


def _sampled(cells: Cells, prior: AbstractPrior | Any, request: Request) -> "xr.DataTree":
    """Return one result of all cells: with a prior over all of them together, else each cell on its own."""
    alone = bool(cells.laws) or len(prior.shape) == 1
    if not alone:
        return _together(cells, prior, request)
    if not cells.laws and len(cells) > 1 and prior.mixture() is not None and request.name in ("auto", "mixture"):
        return _sharing(cells, prior, request)
    seeds = [int(one.generate_state(1)[0]) for one in np.random.SeedSequence(request.random_seed).spawn(len(cells))]
    exact = request.method in ("auto", "exact") and "exact" not in request.exclude and not cells.laws
    return (_at_once(cells, prior, seeds, request) if exact else None) or _each(cells, prior, seeds, request)


def _each(cells: Cells, prior, seeds: list[int], request: Request) -> "xr.DataTree":
    """Return the results of the cells, fitted one by one, as one."""
    from ldpbayes import result

    trees = []
    for label, cell, own in zip(cells.labels, cells.collections(), seeds, strict=True):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", LDPBayesWarning)  # said once, for all cells
                trees.append(single.walk(cell, prior, replace(request, random_seed=own, estimates=False)))
        except InfeasibleError as err:
            raise InfeasibleError(f"Cell {label}: {err}") from err
        except ConvergenceError as err:
            raise ConvergenceError(f"Cell {label}: {err}", err.result) from err
    tree = result.stack(cells, trees, request.stated)
    _say(tree, cells, [Problem.of(single.named(cell), prior) for cell in cells.collections()], request)
    return tree


def _say(tree, cells: Cells, problems: list[Problem], request: Request) -> None:
    """Add what is said beside the posterior of each cell, where that is asked for."""
    from ldpbayes.describing.posterior import describe

    if request.estimates:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LDPBayesWarning)  # said once, for all cells
            describe(tree, cells, problems, request.ci_prob, single.evidence_of)


def _at_once(cells: Cells, prior, seeds: list[int], request: Request) -> "xr.DataTree | None":
    """Return the result of cells with exact posteriors, in one computation; None where these are not exact."""
    from ldpbayes.posteriors.conjugate import Conjugate

    served = Conjugate.of(cells, prior)
    if served is None:
        return None
    tree = served.tree(cells, prior, request.sizes(), seeds, request.run, request.stated | request.sizes())
    _say(tree, cells, served.problems, request)
    return tree


def _sharing(cells: Cells, prior, request: Request) -> "xr.DataTree":
    """Return the result of all cells under a mixture of Dirichlet priors whose one hyperparameter they share."""
    from ldpbayes import result

    engine = make_method("mixture", **request.asked_sizes) if isinstance(request.method, str) else request.method
    if "mixture" in request.exclude and request.automatic:
        raise InfeasibleError("One hyperparameter shared by all cells needs the method mixture, which was excluded.")
    answers, facts = fit_shared(engine, cells, prior, request.run)
    tree, name = result.stack(cells, [answer.tree for answer in answers], request.stated), prior.mixture().parameter
    result.share(tree, name, facts)
    tree.attrs |= facts | {"prior": f"{prior.describe()}, one {name} for all cells"}
    tree.attrs["reason"] = (
        f"All cells share one {name}: conjugate posteriors at its nodes, weighed by the evidence of all cells."
    )
    _say(tree, cells, [answer.problem for answer in answers], request)
    return tree


class _Made:
    """What an engine for a prior over all cells made, of which the result is made when it is asked for."""

    def __init__(self, name: str, problem: Joint, request: Request) -> None:
        own, kind = request.settings(), JOINT[name]
        names = {field.name for field in fields(kind)}  # type: ignore[arg-type]  # a dataclass
        known = {key: value for key, value in own.items() if key in names}
        engine = kind(**known)
        plan = engine.plan(problem)
        if not plan.feasible:
            raise InfeasibleError(plan.reason)
        self.watch, self.reason = Watch(request.progressbar), plan.reason
        self.sample = engine.run(plan, np.random.default_rng(request.random_seed), self.watch)
        stated = {"random_seed": request.random_seed, "ci_prob": request.ci_prob}
        self._tree = partial(engine.tree, problem, self.sample, self.watch, plan.reason, stated)

    @cached_property
    def tree(self) -> "xr.DataTree":
        """The result."""
        return self._tree()

    @property
    def problem(self) -> str:
        """Why the answer is rejected, or an empty string."""
        return self.sample.rejected or ("" if self.tree.attrs["converged"] else self.tree.attrs["problems"])


def _engines(request: Request, weighted: bool) -> Iterator[str]:
    """Yield the names of the engines for a prior over all cells that may be tried."""
    names = JOINT if request.automatic else (request.name,)
    if not set(names) <= set(JOINT):
        raise InfeasibleError(f"A prior over all cells needs the methods {listed(JOINT)}, got {request.name}.")
    excluded = {*request.exclude, *(["nuts"] if weighted else [])} if request.automatic else set()
    yield from (name for name in names if name not in excluded)  # the PyMC model takes whole reports


def _together(cells: Cells, prior, request: Request) -> "xr.DataTree":
    """Return the result of all cells under a prior over all of them, by the first joint engine whose answer is accepted."""
    problem = Joint(cells, prior)
    # A method that is given by name answers, and the result says why it is not to be trusted: reweigh() may mend it.
    doubt = doubtful_summary(cells)
    if doubt and request.automatic:
        raise InfeasibleError(doubt)
    steps = {name: partial(_Made, name, problem, request) for name in _engines(request, cells.nature.weighted)}
    outcome = hand_over(in_order(steps), lambda made: made.problem)
    if outcome.answer is None:
        raise InfeasibleError("No method applies: " + " ".join(outcome.rejected.values() or ["all of them are excluded."]))
    made = outcome.answer
    tree = made.tree
    tree.attrs["reason"] = made.reason + outcome.before
    tree.attrs |= problem.stated
    if problem.stated:
        for name in ("log_evidence", "log_evidence_error"):
            tree.attrs.pop(name, None)
    if doubt or (made.sample.rejected and not request.automatic):
        raise ConvergenceError(doubt or made.sample.rejected, tree)
    return tree
