"""Servers: conjugate posteriors of cells under each of the priors that are mixed; the work that these share is done once.

A likelihood whose reports single out one category each is a product of factors, and its posterior an integral along a line.
Another one is expanded to such factors about the mean over all nodes; weights on the likelihood itself correct the draws.

The methods ``exact`` and ``surrogate`` are five servers, asked in the order of EXACT and SURROGATE; the first that applies
serves:

- ``exact``: SeparableServer, where reports single out one category each, of any number of cells and nodes; Few, where they
  do not, under several priors, of one collection with so few categories that quadrature resolves each node.
- ``surrogate``: Expanded, of a summary, whose expansion is its likelihood; WeightedServer, of reports of three categories
  or more that were kept, expanded and weighted; Floored, of the same, where the priors that are mixed have a floor.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from ldpbayes.errors import CellsError, InfeasibleError
from ldpbayes.methods import expanded
from ldpbayes.methods.conditioned_product.constants import SETS
from ldpbayes.methods.constants import ENGINES
from ldpbayes.methods.floor import OverFloors
from ldpbayes.methods.nodes import Nodes, Placement
from ldpbayes.methods.products import EVERY, Products, certain, drawable, singling, tables
from ldpbayes.methods.quadrature import Quadrature
from ldpbayes.methods.watch import Watch
from ldpbayes.priors import Dirichlet

#: What expansions cost.
EXPANSION = expanded.Expansion()


class Server:
    """Cells, and their posteriors under any of the conjugate priors that are mixed.

    Parameters
    ----------
    problems : list of Problem
    places : (k,) int array
        Places of these cells among all.

    Attributes
    ----------
    name : str
        The method, where no draws are made.
    exact : bool
        Whether moments and ends are integrals.
    reweighs : bool
        Whether draws have weights.
    signals : bool
        Whether signal tallies are drawn, and not the true ones.
    together : bool
        Whether a server takes several cells.
    """

    name, exact, reweighs, signals, together = "exact", True, False, False, True

    def __init__(self, problems: list, places: Any = (0,)) -> None:
        self.problems, self.places = problems, np.asarray(places)

    @classmethod
    def work(cls, problem: Any, size: int, placement: Placement) -> tuple[float, str]:
        """Return (operations of ``size`` draws, why the server applies).

        Raises
        ------
        InfeasibleError
            Where it does not apply.
        """
        raise NotImplementedError

    def settle(self, mixing: Any, placement: Placement) -> Nodes | None:
        """Return nodes near those wanted, where reports are expanded about their mean; None where nothing is."""
        return None

    def log_evidences(self, priors: Any) -> np.ndarray:
        """Return the log-evidences under priors, (k, cells)."""
        raise NotImplementedError

    def rough(self, priors: Any) -> np.ndarray:
        """Return log-evidences that may be off by some hundredths, (k, cells), for placing nodes."""
        return self.log_evidences(priors)

    def engine(self, prior: Any) -> Any:
        """Return what has mean, variance, covariance(), quantile(q), cdf(p) and ``rough`` of all cells under one prior."""
        raise NotImplementedError


class Factored(Server):
    """Cells whose likelihoods are products of factors.

    Parameters
    ----------
    products : Products
        Products of all cells.
    """

    route: str | None = None

    def __init__(self, problems: list, places: Any, products: Products) -> None:
        super().__init__(problems, places)
        self.about(products)

    def about(self, products: Products) -> None:
        """Take the factors for the likelihoods of the cells."""
        self.products = products
        self._masses: dict = {}
        self._evidences: dict = {}
        self._engines: dict = {}
        self._tilts: dict = {}

    def engine(self, prior: Any) -> Any:
        key, alpha = key_of(prior), prior.concentrations()
        if key not in self._engines:
            if len(self._engines) >= (ENGINES if self.products.cells == 1 else 1):
                del self._engines[next(iter(self._engines))]
            total = float(alpha.sum())
            engine = self.products.engine(alpha, start=self._start(total), route=self.route)
            self._engines[key], self._tilts[total] = engine, engine.tilt
        return self._engines[key]

    def _start(self, total):
        """Return tilts near the ones of Dirichlet priors of weight ``total``: they grow by what Σα grows."""
        near = min(self._tilts, key=lambda sum_then: abs(math.log(sum_then / total)), default=None)
        if near is None:
            return None
        tilt = self._tilts[near]
        return np.where(tilt > 0, np.maximum(tilt + total - near, 1e-3 * tilt), tilt + total - near)

    def rough(self, priors: Any) -> np.ndarray:
        return np.array([self._mass(prior)[0] for prior in priors])

    def _mass(self, prior):
        """Return (log-evidences without moments, their errors)."""
        key, alpha = key_of(prior), prior.concentrations()
        if key not in self._masses:
            if self.products.family.polynomials() is not None:
                self._masses[key] = self.products.log_evidence(alpha)
            else:
                value, error = self.engine(prior).factors.saddle_log_evidence()
                self._masses[key] = value + self.products.left_out(alpha), error
        return self._masses[key]

    def log_evidences(self, priors: Any) -> np.ndarray:
        return np.array([self._log_evidence(prior) for prior in priors])

    def _log_evidence(self, prior):
        key = key_of(prior)
        if key not in self._evidences:
            value, error = self._mass(prior)
            off = (error > self.products.rounding) & (self.route is None)
            if off.any():
                whole = self.engine(prior).log_evidence + self.products.left_out(prior.concentrations())
                value = np.where(off, whole, value)
            self._evidences[key] = value
        return self._evidences[key]

    def checked(self, prior: Any) -> tuple[dict, str]:
        """Return (attrs, what was checked) of answers without draws under one prior."""
        return {}, "Moments, intervals and evidence are integrals; no draws were made."


class SeparableServer(Factored):
    """Reports that single out one category each: exact posteriors and draws."""

    signals = True

    def __init__(self, problems: list, places: Any = (0,)) -> None:
        forms = [singling(problem.separable) for problem in problems]
        super().__init__(problems, places, Products.of(forms, problems[0].n_categories))

    @classmethod
    def work(cls, problem: Any, size: int, placement: Placement) -> tuple[float, str]:
        _dirichlets(problem)
        factors = Products.operations * placement.expected(problem.mixing)
        return problem.n_categories * (size + factors) + tables(drawable(problem.separable)) / 4, EVERY

    def sentence(self, nodes: Nodes, counts: np.ndarray, whose: str) -> str:
        """Return what was checked of draws."""
        return f"Exact at {counts.size} values of the {whose}. Independent draws need no chain diagnostics."

    def draws(self, prior: Any, count: int, rngs: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (draws of P, of the signal tallies), two (count, a) arrays, of each cell under one prior."""
        for c, (problem, rng) in enumerate(zip(self.problems, rngs, strict=True)):
            p, signal, _ = self.engine(prior).draws(count, rng, c)
            yield p, signal + certain(problem.separable, problem.n_categories)


class Few(Server):
    """Quadrature, for a few categories that the reports can tell apart, under several priors."""

    together = False

    def __init__(self, problems: list, places: Any = (0,)) -> None:
        super().__init__(problems, places)
        self._integrals: dict = {}

    @classmethod
    def work(cls, problem: Any, size: int, placement: Placement) -> tuple[float, str]:
        _dirichlets(problem)
        if problem.mixing.single:
            raise InfeasibleError("Under one Dirichlet prior the method quadrature has the integrals of a few categories.")
        far = problem.mixing.at(np.full((1, problem.mixing.size), placement.reach))[0]  # a node that takes as long as any
        plan = _quadrature(problem, far)
        work = 2 * placement.nodes * plan.work  # the rule is placed once or twice
        if work > Quadrature.most:
            raise InfeasibleError(f"Quadrature at every node would take {work:.2g} operations.")
        return work, plan.reason

    def engine(self, prior: Any) -> Any:
        key = key_of(prior)
        if key not in self._integrals:
            plan = _quadrature(self.problems[0], prior)
            self._integrals[key] = Quadrature(draws=2, chains=1).integrals(plan, Watch())
        return self._integrals[key]

    def log_evidences(self, priors: Any) -> np.ndarray:
        return np.array([[float(self.engine(prior).entries["log_evidence"])] for prior in priors])

    def checked(self, prior: Any) -> tuple[dict, str]:
        """Return (attrs, what was checked) of answers without draws under one prior."""
        integrals = self.engine(prior)
        return {"quadrature_error": integrals.error}, f"{integrals.sentence} No draws were made."

    def sentence(self, nodes: Nodes, counts: np.ndarray, whose: str) -> str:
        """Return what was checked of draws."""
        detail = self.engine(nodes.priors[int(counts.argmax())]).sentence
        return f"Quadrature at {counts.size} values of the {whose}; {detail}"

    def draws(self, prior: Any, count: int, rngs: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (draws of P, of the true tallies), two (count, a) arrays, under one prior."""
        sample = Quadrature(draws=max(count, 2), chains=1).sample(self.engine(prior), rngs[0], Watch())
        yield sample.distribution[0, :count], sample.tallies[0, :count]


class Expanded(Factored):
    """Summaries: the expansion at their pilot is the likelihood, under all priors.

    Attributes
    ----------
    most : int
        Categories above which the saddle point takes the place of integrals. Derived: the error of its second order falls as
        their number grows. Where it begins is a choice that nothing has measured.
    """

    name, reweighs = "surrogate", True
    most: ClassVar[int] = 2000

    def __init__(self, problems: list, places: Any = (0,)) -> None:
        if problems[0].n_categories > self.most:
            self.exact, self.route = False, "saddle point"
        likelihoods, zeros = [problem.likelihood for problem in problems], np.zeros(problems[0].n_categories)
        self.families = [expanded.ExpandedFactors(zeros, form.linear, form.tangent_curvature) for form in likelihoods]
        super().__init__(problems, places, Products(expanded.joined(self.families), [form.constant for form in likelihoods]))

    @classmethod
    def work(cls, problem: Any, size: int, placement: Placement) -> tuple[float, str]:
        _dirichlets(problem)
        if problem.keeps_reports:
            raise InfeasibleError("Reports that were kept need no summary.")
        factors = Products.operations * placement.expected(problem.mixing)
        return problem.n_categories * (size + factors), "The expansion of a summary is its likelihood."

    def proposed(self, prior: Any, c: int, count: int, rng: Any, watch: Watch, made: dict) -> tuple[np.ndarray, np.ndarray]:
        """Return (draws of P of one cell, log of proposal over prior density), from factors under one prior."""
        key = key_of(prior)
        if key not in made:
            made[key] = expanded.TiltedProposal(replace(self.families[c], alpha=prior.concentrations()))
        return expanded.proposals(made[key], count, rng)


class WeightedServer(Factored):
    """Reports over three categories or more, expanded, with weights on the likelihood itself.

    The log-likelihood is expanded once for all values of the hyperparameter, at the mean over the nodes; moments and
    evidence are of second order in the saddle point.
    """

    name, exact, reweighs, together, route = "surrogate", False, True, False, "saddle point"

    def __init__(self, problems: list, places: Any = (0,)) -> None:
        Server.__init__(self, problems, places)
        self.rows = problems[0].rows
        self.centre: np.ndarray | None = None

    @classmethod
    def work(cls, problem: Any, size: int, placement: Placement) -> tuple[float, str]:
        _dirichlets(problem)
        return cls._operations(problem, size, placement), "Surrogate with weights on the true likelihood."

    @staticmethod
    def _operations(problem, size, placement):
        if not problem.keeps_reports:
            raise InfeasibleError("The reports were not kept.")
        if problem.n_categories < 3:
            raise InfeasibleError("The surrogate needs three categories.")
        rows, nodes = problem.rows, placement.expected(problem.mixing)
        return EXPANSION.weighing(rows, size) + EXPANSION.work(rows, nodes)

    def settle(self, mixing: Any, placement: Placement) -> Nodes | None:
        """Expand the reports at the mean of the nodes, until that hardly moves; return the nodes there."""
        nodes = None
        if mixing.single:  # draws come from factors about the posterior mean itself
            return nodes
        self.look()
        for _ in range(6):
            nodes = placement.place(mixing, lambda priors: self.log_evidences(priors)[:, 0], near=nodes)
            means, variances = self.moments(nodes.priors)
            mean = nodes.weights @ means
            spread = nodes.weights @ (variances + (means - mean) ** 2)
            if (np.abs(mean - self.centre) < placement.moved * np.sqrt(spread)).all():
                break
            self.expand(mean)
        else:
            nodes = placement.place(mixing, lambda priors: self.log_evidences(priors)[:, 0], near=nodes)
        return nodes

    def log_evidences(self, priors: Any) -> np.ndarray:
        if self.centre is None:  # one prior: its draws alone give the evidence
            return np.zeros((len(priors), 1))
        return super().log_evidences(priors)

    def look(self) -> None:
        """Expand the reports at the posterior mean under Jeffreys' prior."""
        alpha = Dirichlet.jeffreys(self.problems[0].n_categories).alpha
        self.expand(expanded.expand(self.rows, alpha, EXPANSION.first)[0].saddle_moments()[0])

    def expand(self, mean: np.ndarray) -> None:
        """Expand the reports at a mean."""
        self.centre = mean
        family, constant = expanded.anchored(self.rows, np.zeros_like(mean), mean)
        self.about(Products(family, [constant]))

    def moments(self, priors: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return means and variances of P under priors, two (k, a) arrays."""
        engines = [self.engine(prior) for prior in priors]
        means, variances = (np.concatenate([getattr(engine, name) for engine in engines]) for name in ("mean", "variance"))
        return means, variances

    def proposed(self, prior: Any, c: int, count: int, rng: Any, watch: Watch, made: dict) -> tuple[np.ndarray, np.ndarray]:
        """Return (draws of P, log of proposal over prior density), from factors about the mean under one prior."""
        key, alpha = key_of(prior), prior.concentrations()
        if key not in made:
            start = self.engine(prior).mean[0] if self.centre is not None else None
            made[key] = expanded.expand(self.rows, alpha, watch=watch, start=start)[0]
        return expanded.proposals(made[key], count, rng)


class Floored(WeightedServer):
    """Reports over three categories or more, expanded, where the priors that are mixed are Dirichlets over a floor."""

    @classmethod
    def work(cls, problem: Any, size: int, placement: Placement) -> tuple[float, str]:
        if not problem.mixing.atom:
            raise InfeasibleError("There is no floor.")
        if problem.obstacle:
            raise InfeasibleError(f"The evidence of the reports tells the share of a floor, and here {problem.obstacle}.")
        return cls._operations(problem, size, placement), "Surrogates over a floor, with weights on the true likelihood."

    @property
    def evenness(self) -> float:
        """κ, which all nodes share."""
        mixing = self.problems[0].mixing
        return mixing.at(np.zeros((1, mixing.size)))[0].evenness

    def expand(self, mean: np.ndarray) -> None:
        self.centre = mean
        self.floors = OverFloors.of(self.rows, mean / mean.sum(), self.evenness)

    def log_evidences(self, priors: Any) -> np.ndarray:
        return self.floors.at(priors)[0][:, None]

    rough = log_evidences

    def moments(self, priors: Any) -> tuple[np.ndarray, np.ndarray]:
        return self.floors.at(priors)[1:]

    def proposed(self, prior: Any, c: int, count: int, rng: Any, watch: Watch, made: dict) -> tuple[np.ndarray, np.ndarray]:
        return self.floors.draws(prior, count, rng, made)


def _dirichlets(problem):
    """Raise an InfeasibleError where the priors that are mixed are no Dirichlets."""
    if problem.mixing.atom:
        raise InfeasibleError("The priors that are mixed are no Dirichlet priors.")


def _quadrature(problem, prior):
    """Return the preparation of quadrature under a prior, or raise an InfeasibleError."""
    plan = Quadrature(draws=2, chains=1).plan(replace(problem, prior=prior))
    if not plan.feasible:
        raise InfeasibleError(plan.reason)
    return plan


def key_of(prior: Any) -> bytes:
    """Return what two Dirichlet priors share exactly where they are the same: the bytes of their concentrations."""
    return prior.concentrations().tobytes()


#: The servers of the methods ``exact`` and ``surrogate``, in the order in which they are asked.
EXACT, SURROGATE = (SeparableServer, Few), (Expanded, WeightedServer, Floored)


def server_of(problem: Any, size: int, placement: Placement, kinds: tuple = EXACT + SURROGATE) -> tuple[type, float, str]:
    """Return (the first kind of server that applies to a problem, operations of ``size`` draws, why).

    Raises
    ------
    InfeasibleError
        Where none does.
    """
    reasons = []
    for kind in kinds:
        try:
            return kind, *kind.work(problem, size, placement)
        except InfeasibleError as err:
            reasons.append(str(err))
    raise InfeasibleError(" ".join(dict.fromkeys(reasons)))


def servers_of(
    problems: list, size: int, placement: Placement, labels: Any = None, kinds: tuple = EXACT + SURROGATE
) -> list:
    """Return servers that cover all cells: blocks of those that go together, and one each of others.

    Parameters
    ----------
    problems : list of Problem
    size : int
        Draws that are wanted of each.
    placement : Placement
    labels : sequence of str, optional
        Labels of several cells.
    kinds : tuple of type

    Raises
    ------
    InfeasibleError
        Where there is none; of cells a CellsError.
    """
    chosen: dict = {}
    refused = {}
    for k, problem in enumerate(problems):
        try:
            chosen.setdefault(server_of(problem, size, placement, kinds)[0], []).append(k)
        except InfeasibleError as err:
            if not labels:
                raise
            refused[labels[k]] = str(err)
    if refused:
        label, why = next(iter(refused.items()))
        raise CellsError(f"Cell {label}: {why}", refused)
    return [server for kind, places in chosen.items() for server in blocks(kind, problems, places)]


def blocks(kind: Any, problems: list, places: Any) -> Iterator[Server]:
    """Yield servers of a kind for the cells at some places, as many in each as are worked on together."""
    step = max(1, SETS // problems[0].n_categories) if kind.together else 1
    for start in range(0, len(places), step):
        block = np.array(places[start : start + step])
        yield kind([problems[k] for k in block], block)
