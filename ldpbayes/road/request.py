"""What a fit was asked for, checked once."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from ldpbayes import checks
from ldpbayes.constants import DRAWS_BYTES
from ldpbayes.errors import ArgumentError, InfeasibleError, listed, shown
from ldpbayes.methods.base import AbstractPosterior
from ldpbayes.methods.constants import MAX_DRAWN
from ldpbayes.methods.many import in_one_call
from ldpbayes.road.methods import CONJUGATE, METHODS, names_of

#: Methods that go with draws=0.
UNDRAWN = ("auto", *CONJUGATE)


@dataclass(frozen=True)
class Sizes:
    """Draws and chains by default.

    Attributes
    ----------
    usual, least : int
        Draws of a chain: where memory allows them, and in any case; the least serve a log-evidence alone, too. Derived:
        ends of intervals have errors of some 0.03 sd and less with 4,000 draws, and .06 with 1,000, below LIMITS.end_error.
    chains : int
        Chains. Derived: four, as Stan and PyMC make, so that R-hat compares several starts.
    """

    usual: int = AbstractPosterior.draws
    least: int = 250
    chains: int = AbstractPosterior.chains

    def of(self, n_categories: int) -> dict[str, int]:
        """Return draws per chain and chains: fewer where those of P would take more than DRAWS_BYTES."""
        most = DRAWS_BYTES // (8 * self.chains * n_categories)
        return {"draws": max(self.least, min(self.usual, most)), "chains": self.chains}


@dataclass(frozen=True)
class Request:
    """The settings of a fit.

    Attributes
    ----------
    method : str or AbstractPosterior
    draws, chains : int, optional
        As asked for.
    random_seed : int
        Format: 0, as ``fit`` states where none is given.
    ci_prob : float
        Of intervals. Format: 95 %, as ``fit`` has it.
    progressbar, estimates : bool
    exclude : tuple of str
        Methods that "auto" leaves out.
    """

    method: str | AbstractPosterior = "auto"
    draws: int | None = None
    chains: int | None = None
    random_seed: int = 0
    ci_prob: float = 0.95
    progressbar: bool = False
    estimates: bool = True
    exclude: tuple[str, ...] = ()

    @classmethod
    def of(cls, **asked: Any) -> "Request":
        """Return the request of keywords of ``fit``, which are checked; the method has been."""
        asked = {field.name: field.default for field in fields(cls)} | asked
        exclude = names_of(asked["exclude"])
        draws, chains = (
            None if asked[name] is None else checks.integer(asked[name], name, minimum=least)
            for name, least in (("draws", 0), ("chains", 1))
        )
        return cls(
            asked["method"],
            draws,
            chains,
            checks.seed(asked["random_seed"]),
            checks.level(asked["ci_prob"]),
            checks.flag(asked["progressbar"], "progressbar"),
            checks.flag(asked["estimates"], "estimates"),
            exclude,
        )

    @property
    def name(self) -> str:
        """Name of the method that was asked for."""
        return self.method if isinstance(self.method, str) else self.method.name

    @property
    def automatic(self) -> bool:
        """Whether the package chooses the method."""
        return self.name == "auto"

    @property
    def run(self) -> dict[str, Any]:
        """What every method is run with."""
        return {"random_seed": self.random_seed, "ci_prob": self.ci_prob, "progressbar": self.progressbar}

    @property
    def asked_sizes(self) -> dict[str, int]:
        """Draws and chains, where they were asked for."""
        return {name: size for name, size in (("draws", self.draws), ("chains", self.chains)) if size is not None}

    @property
    def stated(self) -> dict[str, Any]:
        """What a result records of the request."""
        asked = {"method": self.name, "estimates": self.estimates, "exclude": list(self.exclude)}
        return asked | self.asked_sizes | {"random_seed": self.random_seed, "ci_prob": self.ci_prob}

    def sizes(self, n_categories: int | None = None) -> dict[str, int]:
        """Return draws per chain and chains: as asked for, or those of Sizes; of one category where none are given."""
        return Sizes().of(n_categories or 1) | self.asked_sizes

    def drawing(self, n_categories: int) -> "Request":
        """Return the same request with the draws that a fit makes by default."""
        return replace(self, draws=replace(self, draws=None).sizes(n_categories)["draws"])

    def undrawn(self, data: Any) -> bool:
        """Return whether a fit makes moments and intervals alone: asked to, or because draws would be too many.

        Draws of one collection that were asked for are made or refused; of cells they are made where they fit, or where no
        vectorized call has the moments.

        Parameters
        ----------
        data : Collection, Summarized or Cells

        Raises
        ------
        ArgumentError
            Where draws=0 does not go with the method or with ``exclude``.
        """
        if self.draws == 0:
            if self.method not in UNDRAWN:
                raise ArgumentError(f"draws=0 goes with the methods {listed(UNDRAWN)}; {self.method!r} makes draws.")
            if self.exclude:
                raise ArgumentError(f"exclude must be empty with draws=0, got {shown(self.exclude)}.")
            return True
        if data.obstacle or not (data.by or (self.automatic and not self.asked_sizes)):
            return False
        return math.prod(self.sizes().values()) * math.prod(data.shape) > MAX_DRAWN and (not data.by or at_once(data, self))

    def engine(
        self, methods: Mapping[str, type[AbstractPosterior]], sizes: Mapping[str, int], name: str = ""
    ) -> AbstractPosterior:
        """Return the method that was asked for, ready to plan.

        Parameters
        ----------
        methods : dict
            Methods by name: those of one collection, or of all cells together.
        sizes : dict
            draws and chains of a method that was given by name.
        name : str
            Method that stands for "auto".

        Raises
        ------
        InfeasibleError
            Where the method is not among them.
        """
        if self.exclude and not self.automatic:
            raise ArgumentError(f"exclude must be empty where the method is given, got {shown(self.exclude)}.")
        if not isinstance(self.method, str) and self.asked_sizes:
            raise ArgumentError("draws and chains must be set on the method object; fit takes them for names only.")
        name = name or self.name
        if name not in methods:
            if name in METHODS:
                raise InfeasibleError(f"A prior over all cells needs the methods {listed(methods)}, got {name}.")
            raise InfeasibleError(f"The method {name} is for cells under a prior over all of them.")
        kind = methods[name]
        if isinstance(self.method, kind):
            return self.method
        settings = sizes if isinstance(self.method, str) else vars(self.method)
        accepted = {field.name for field in fields(kind)}  # type: ignore[arg-type]  # a dataclass
        return kind(**{key: value for key, value in settings.items() if key in accepted})


def at_once(cells: Any, request: Request) -> bool:
    """Return whether vectorized calls have the moments of all cells.

    Parameters
    ----------
    cells : Cells
    request : Request
    """
    return not cells.obstacle and request.method in UNDRAWN and in_one_call(cells)


__all__ = ["Request", "Sizes", "at_once"]
