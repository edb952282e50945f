"""What a fit was asked for, checked once."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from ldpbayes import checks
from ldpbayes.errors import ArgumentError, InfeasibleError, shown
from ldpbayes.posteriors.base import AbstractPosterior, level, seed
from ldpbayes.road.methods import METHODS, names_of

#: Bytes that the draws of P take by default, and the draws of a chain that are made even so; a fit takes some six times as
#: many at its peak.
DRAWS_BYTES, FEWEST_DRAWS = 2**27, 250


@dataclass(frozen=True)
class Request:
    """The settings of a fit.

    Attributes
    ----------
    method : str or AbstractPosterior
    draws, chains : int, optional
        As asked for.
    random_seed : int
    ci_prob : float
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
        """Return the request of the keywords of ``fit``, which are checked; the method has been."""
        exclude = names_of(asked["exclude"])
        draws, chains = (
            None if asked[name] is None else checks.integer(asked[name], name, minimum=least)
            for name, least in (("draws", 0), ("chains", 1))
        )
        return cls(
            asked["method"],
            draws,
            chains,
            seed(asked["random_seed"]),
            level(asked["ci_prob"]),
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
        """Return draws per chain and chains: 1000, fewer where those of P would take more than DRAWS_BYTES, and 4."""
        most = 1000 if n_categories is None else DRAWS_BYTES // (8 * 4 * n_categories)
        return {"draws": max(FEWEST_DRAWS, min(1000, most)), "chains": 4} | self.asked_sizes

    def drawing(self, n_categories: int) -> "Request":
        """Return the same request with the draws that a fit makes by default."""
        return replace(self, draws=replace(self, draws=None).sizes(n_categories)["draws"])

    def engine(self, sizes: Mapping[str, int]) -> AbstractPosterior:
        """Return the method that was asked for, ready to plan; not for "auto".

        Parameters
        ----------
        sizes : dict
            draws and chains of a method that was given by name.
        """
        if self.exclude:
            raise ArgumentError(f"exclude must be empty where the method is given, got {shown(self.exclude)}.")
        if isinstance(self.method, str):
            if self.method not in METHODS:
                raise InfeasibleError(f"The method {self.method} is for cells under a prior over all of them.")
            return METHODS[self.method](**sizes)
        if self.asked_sizes:
            raise ArgumentError("draws and chains must be set on the method object; fit takes them for names only.")
        return self.method

    def settings(self) -> dict[str, Any]:
        """Return the fields of the method object that was asked for, or the draws and chains that were."""
        return self.asked_sizes if isinstance(self.method, str) else asdict(self.method)  # type: ignore[call-overload]  # a dataclass


__all__ = ["Request"]
