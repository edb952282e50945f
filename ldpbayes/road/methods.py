"""The posterior methods by name, and which of them suits a problem."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ldpbayes import checks, methods
from ldpbayes.errors import ArgumentError, InfeasibleError, shown
from ldpbayes.methods.base import AbstractPosterior, Preparation, Refusal
from ldpbayes.presenting import AbstractResult

for _module in pkgutil.iter_modules(methods.__path__):
    if not _module.name.startswith("_"):  # modules with an underscore load compilers
        importlib.import_module(f"{methods.__name__}.{_module.name}")

_every = {cls.name: cls for cls in AbstractPosterior.__subclasses__() if not inspect.isabstract(cls)}


def _place(name: str) -> int:
    """Return how many methods come before one."""
    return 1 + _place(_every[name].after) if _every[name].after else 0


#: Posterior methods by name, in the order in which ``auto`` considers them: every subclass in a file of methods/.
METHODS = {name: _every[name] for name in sorted(_every, key=_place)}

#: Those that serve a prior over all cells.
JOINT = {name: method for name, method in METHODS.items() if method.joint}
#: The methods of priors that mix conjugate ones.
CONJUGATE = ("exact", "surrogate")


def names_of(exclude: Any) -> tuple[str, ...]:
    """Return the names of methods to leave out, checked; one name may stand alone."""
    alone = isinstance(exclude, str)
    names = (exclude,) if alone else checks.entries(exclude, "exclude", "names of methods", ordered=False)
    for name in names:
        checks.choice(name, "exclude", tuple(METHODS))
    return names


def checked(method: Any) -> str | AbstractPosterior:
    """Return what the argument ``method`` of a fit may be: "auto", a name of METHODS, or a method object."""
    if isinstance(method, str):
        return checks.choice(method, "method", ("auto", *METHODS))
    if not isinstance(method, AbstractPosterior):
        raise ArgumentError(f"method must be a name or a posterior method such as Exact(), got {shown(method)}.")
    return method


@dataclass(frozen=True, repr=False)
class Choice(AbstractResult):
    """What select_method chose.

    Attributes
    ----------
    method : AbstractPosterior
        Ready to run.
    reason : str
        Why this one.
    considered : tuple of (name, Preparation or Refusal)
        Every method in order, up to the one chosen: why those before it were passed over.
    prior_reason : str
        Why the prior was chosen by rule; empty where the caller chose it.
    """

    method: AbstractPosterior
    reason: str
    considered: tuple[tuple[str, Preparation | Refusal], ...]
    prior_reason: str = ""

    @property
    def plan(self) -> Preparation:
        """The chosen method's plan, ready to run."""
        return dict(self.considered)[self.method.name]  # type: ignore[return-value]


class Selection:
    """The methods for one problem: each is prepared when it is first considered, and never again.

    Parameters
    ----------
    problem : Problem
    exclude : sequence of str
        Names of methods to leave out.
    settings : dict
        Fields that every method has: draws and chains.
    methods : dict, optional
        Methods by name: those of one collection, or of all cells together.
    """

    def __init__(
        self,
        problem: Any,
        exclude: tuple[str, ...],
        settings: Mapping[str, int],
        methods: Mapping[str, type[AbstractPosterior]] = METHODS,
    ) -> None:
        self.problem, self.settings, self.methods = problem, settings, methods
        self.names = [name for name in methods if name not in exclude]
        self._prepared: dict[str, tuple[AbstractPosterior, Preparation | Refusal]] = {}

    def consider(self, name: str) -> tuple[AbstractPosterior, Preparation | Refusal]:
        """Return (method, Preparation or Refusal) of a name."""
        if name not in self._prepared:
            method = self.methods[name](**self.settings)
            self._prepared[name] = method, method.plan(self.problem)
        return self._prepared[name]

    def choose(self, rejected: Mapping[str, str]) -> Choice | None:
        """Return the Choice among the methods that have not been rejected, or None where none of them applies.

        It is the first whose operations are within its limit; where none is, that with the fewest in units of its limit.
        """
        considered, beyond = [], {}
        for name in (name for name in self.names if name not in rejected):
            method, plan = self.consider(name)
            considered.append((name, plan))
            if plan.feasible:
                beyond[name] = plan.work / method.most  # type: ignore[union-attr]  # feasible: a Preparation
                if beyond[name] <= 1:
                    break
        else:
            if not beyond:
                return None
            method, plan = self.consider(min(beyond, key=lambda name: beyond[name]))
        return Choice(method, plan.reason, tuple(considered))

    def following(self, run: Mapping[str, Any]) -> Callable[[Mapping[str, str]], tuple[str, Callable[[], Any]] | None]:
        """Return the ``following`` of a hand-over between the methods, which are run with these settings."""

        def following(rejected: Mapping[str, str]) -> tuple[str, Callable[[], Any]] | None:
            choice = self.choose(rejected)
            if choice is None:
                return None
            return choice.method.name, lambda: choice.method.answer(self.problem, choice.plan, **run)

        return following

    def refusal(self, rejected: Mapping[str, str]) -> InfeasibleError:
        """Return the InfeasibleError of a problem that no method could handle, with every reason."""
        reasons = [f"{name}: {why}" for name, why in rejected.items()]
        if self.problem.alone and self.problem.doubt:
            return InfeasibleError(self.problem.doubt)
        reasons += [plan.reason for name in self.names if name not in rejected for _, plan in [self.consider(name)]]
        return InfeasibleError(
            "No posterior method applies: " + (" ".join(dict.fromkeys(reasons)) or "all of them are excluded.")
        )
