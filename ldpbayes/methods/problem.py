"""A problem: likelihood times prior, of one collection or of all cells."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ldpbayes.collections import Cells
from ldpbayes.collections.data import LEFT_OUT, MOMENTS_ONLY
from ldpbayes.errors import ArgumentError, CellsError, DataError
from ldpbayes.methods import merging
from ldpbayes.methods.constants import CONCENTRATIONS
from ldpbayes.methods.expansion import refusal, trusted
from ldpbayes.priors import AbstractPrior, as_prior, prior_for
from ldpbayes.priors.device import WithDevice
from ldpbayes.priors.extended import Extended
from ldpbayes.priors.mixing import Mixing
from ldpbayes.priors.tree import SHARE, Tree


def checked_concentrations(alpha: np.ndarray) -> np.ndarray:
    """Return the concentrations of a prior; refused where they are beyond CONCENTRATIONS."""
    low, high = CONCENTRATIONS
    if not (alpha.min() >= low and alpha.max() <= high):
        worst = alpha.min() if alpha.min() < low else alpha.max()
        raise ArgumentError(f"prior must have concentrations between {low:g} and {high:g}, got {worst:g}.")
    return alpha


@dataclass(frozen=True, eq=False)
class Problem:
    """What an engine sees: a likelihood and a prior, with the expensive looking at them done at most once.

    Attributes
    ----------
    likelihood : likelihood of one cell
    prior : AbstractPrior
    n_users, n_categories : int
    collection : Collection
        Where the likelihood comes from; for engines that write a model of their own, and for the result.
    """

    likelihood: Any
    prior: Any
    n_users: int
    n_categories: int
    collection: Any
    #: Whether this is the posterior of one collection, whose P has a dim of its own.
    alone: ClassVar[bool] = True

    @classmethod
    def of(cls, collection, prior):
        """Return the problem of a collection under a prior, or what as_prior makes one of."""
        prior = prior_for(prior, collection)
        clashing = [item.name for item in collection.derived if item.name in prior.hyperparameter_names]
        if clashing:
            raise ArgumentError(
                f"the derived quantity {clashing[0]!r} has the name of a hyperparameter of the prior ({prior.describe()}); "
                "give it another name, or choose another prior."
            )
        collection = scaled(collection)
        return cls(collection.likelihood, prior, collection.n_reports, collection.n_categories, collection)

    @property
    def data(self) -> Any:
        """What the likelihood comes from: the collection."""
        return self.collection

    @property
    def likelihoods(self) -> tuple:
        """The likelihood of the one cell."""
        return (self.likelihood,)

    @cached_property
    def rows(self):
        """The rows of the likelihood, or None where only sums over the reports are left."""
        return self.likelihood.rows()

    @property
    def entries(self) -> int:
        """Distinct reports times categories; 0 where only sums over the reports are left."""
        return self.likelihood.entries

    @property
    def keeps_reports(self) -> bool:
        """Whether the distinct reports are there, and not only sums over them."""
        return self.likelihood.keeps_reports

    @property
    def obstacle(self) -> str:
        """Why priors cannot be compared by the evidence of the reports, in words; empty where they can."""
        return "" if self.collection is None else self.collection.obstacle

    @cached_property
    def alpha(self) -> np.ndarray | None:
        """The prior's concentrations, or None where it is no Dirichlet; refused where they are beyond CONCENTRATIONS."""
        alpha = self.prior.concentrations()
        return None if alpha is None else checked_concentrations(alpha)

    @cached_property
    def mixing(self):
        """The conjugate priors that the prior mixes, or None; one Dirichlet prior is checked."""
        return self.prior.nodes() if self.alpha is None else Mixing.alone(self.prior)

    @cached_property
    def accuracy(self):
        """Distance between the posteriors of a summary and of its reports, an ExpansionAccuracy."""
        return trusted(self.likelihood, self.alpha)

    @property
    def doubt(self) -> str:
        """Why a summary cannot stand for its reports, with what to do; empty where it can, and where reports were kept."""
        if self.keeps_reports or not self.accuracy.problem:
            return ""
        return refusal(self.likelihood, self.accuracy)

    def stating(self, sample: Any) -> Any:
        """Return the Outcome of a summary with how far its expansion may be off; another one as it is."""
        if self.keeps_reports:
            return sample
        accuracy, facts = self.accuracy, dict(sample.facts) | self.accuracy.facts()
        facts["log_evidence_error"] = math.hypot(accuracy.evidence, facts.get("log_evidence_error", 0.0))
        checked = f"{accuracy.sentence} {sample.verdict.checked}".strip()
        return replace(sample, verdict=replace(sample.verdict, checked=checked), facts=facts)

    @cached_property
    def separable(self):
        """The separable form of the likelihood, or None."""
        return self.likelihood.separable()

    @property
    def singled(self) -> bool:
        """Whether every report singles out one category, by being likelier there."""
        return self.separable is not None and not (self.separable.slope < 0).any()

    @cached_property
    def n_groups(self) -> int:
        """Number of categories that the reports can tell apart."""
        return merging.count_groups(self.rows)

    @cached_property
    def merged(self):
        """Dense rows, equal ones and equal columns joined; raises InfeasibleError where they are too large."""
        return merging.merge(self.rows, self.prior)

    @property
    def stated(self) -> Mapping[str, Any]:
        """Attrs of every result of this problem where F has no draws: what its reports are, and what that leaves out."""
        if self.collection.weighted:
            return {"frequency_draws": LEFT_OUT, **self.collection.stated}
        return {"frequency_draws": MOMENTS_ONLY} if self.rows is None else {}


@dataclass(frozen=True, eq=False)
class Joint:
    """Cells and the prior over all of them.

    Attributes
    ----------
    cells : Cells
    prior : AbstractPrior
        With P of shape (cells, categories).
    """

    cells: Cells
    prior: AbstractPrior
    alone: ClassVar[bool] = False
    alpha: ClassVar[None] = None

    @property
    def data(self) -> Cells:
        """What the likelihoods come from: the cells."""
        return self.cells

    @property
    def n_categories(self) -> int:
        """Number of categories."""
        return self.cells.n_categories

    @property
    def keeps_reports(self) -> bool:
        """True: its methods take reports and summaries alike."""
        return True

    @cached_property
    def likelihoods(self):
        """The likelihood of each cell."""
        return self.cells.likelihoods

    @property
    def stated(self) -> Mapping[str, Any]:
        """Attrs of every result of this problem: of cells with weights, that it is a pseudo-posterior."""
        return self.cells.stated


def problem_of(data, prior):
    """Return the problem of a collection, or of cells, under a prior, or what as_prior makes one of."""
    return Joint(data, prior_of_cells(prior, data)) if isinstance(data, Cells) else Problem.of(data, prior)


def scaled(collection):
    """Return data with sampling weights that add up to what the design leaves of n, in every cell; any other as it is.

    Parameters
    ----------
    collection : Collection, Summarized or Cells
    """
    if not collection.weighted:
        return collection
    if isinstance(collection, Cells):
        weighed, refused = {}, {}
        for label, (key, cell), data in zip(collection.labels, collection.items(), collection.collections(), strict=True):
            try:
                weighed[key] = scaled(data) if data.weighted else cell
            except DataError as err:
                refused[label] = f"{err.message}."
        if refused:
            label, why = next(iter(refused.items()))
            raise CellsError(f"Cell {label}: {why}", refused)
        return collection.with_cells(weighed)
    survey = collection.survey
    if survey.effect is not None:
        return collection
    from ldpbayes.estimators.linearized import linearized
    from ldpbayes.estimators.mle import maximize

    effect, _ = linearized(collection, maximize(collection.rows).p)
    return replace(collection, survey=replace(survey, effect=effect))


def over_all(prior: Any) -> bool:
    """Return whether a prior is one over all cells."""
    return isinstance(prior, AbstractPrior) and len(prior.shape) > 1


def prior_of_cells(prior: Any, data: Any) -> AbstractPrior | Any:
    """Return the prior of all cells, or of each; of one collection, and where some deny, what ``Problem.of`` takes.

    Parameters
    ----------
    prior : as in fit
    data : Collection, Summarized or Cells
    """
    if not data.by:
        return prior
    if data.device_law is not None:
        return WithDevice.of(prior, data, prior_for)
    if isinstance(prior, str) and prior.startswith(SHARE):
        prior = Tree.of_share(next(data.collections()), prior.removeprefix(SHARE))
    if not data.laws:
        return as_prior(prior, data.n_categories, cells=data)
    return Extended.of(prior, data) or prior
