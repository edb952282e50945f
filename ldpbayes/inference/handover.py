"""The one hand-over: methods run in order until one's answer is accepted, and the reader is told what went before."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ldpbayes.compiling import OneThread
from ldpbayes.errors import ConvergenceError, InfeasibleError


@dataclass(frozen=True, eq=False)
class Handover:
    """What a hand-over ended with.

    Attributes
    ----------
    name : str
        The method whose answer this is.
    answer : object
        What it returned: the accepted answer, else the best of those that were rejected.
    accepted : bool
    rejected : dict of str to str
        The methods before it, and why each was not the answer; where no answer was accepted, all of them.
    """

    name: str
    answer: Any
    accepted: bool
    rejected: Mapping[str, str]

    @property
    def before(self) -> str:
        """The sentences about the methods that were tried before this one, each after a space."""
        reasons = {name: why for name, why in self.rejected.items() if name != self.name}
        return "".join(f" Before it, {name} ran first and was rejected: {why.rstrip('.')}." for name, why in reasons.items())


def hand_over(
    following: Callable[[Mapping[str, str]], tuple[str, Callable[[], Any]] | None],
    problem: Callable[[Any], str],
    usable: Callable[[Any], bool] = lambda answer: True,
    refusal: Callable[[Mapping[str, str]], Exception] = lambda rejected: InfeasibleError(" ".join(rejected.values())),
) -> Handover:
    """Return the Handover of methods that hand over to each other.

    Parameters
    ----------
    following : callable
        What was rejected so far, and why → (name, callable that makes the answer) of the method to take next, or None where
        none is left. A method that raises an InfeasibleError or a ConvergenceError counts as rejected, with its sentence.
    problem : callable
        Answer → why it is rejected, or an empty string.
    usable : callable
        Answer → whether it can be shown with its problem. The last of those is the best of rejected answers; where there is
        none, the first of the others.
    refusal : callable
        What was rejected, and why → what is raised where no method made an answer.

    Returns
    -------
    Handover
    """
    rejected: dict[str, str] = {}
    best = Handover("", None, False, rejected)
    while (chosen := following(rejected)) is not None:
        name, run = chosen
        try:
            with OneThread():
                answer = run()
        except (ConvergenceError, InfeasibleError) as err:
            rejected[name] = str(err)
            continue
        why = problem(answer)
        if not why:
            return Handover(name, answer, True, rejected)
        rejected[name] = why
        if best.answer is None or usable(answer):
            best = Handover(name, answer, False, rejected)
    if not best.name:
        raise refusal(rejected)
    return best


def in_order(steps: Mapping[str, Callable[[], Any]]) -> Callable[[Mapping[str, str]], tuple[str, Callable[[], Any]] | None]:
    """Return the ``following`` of methods that are taken in the order of a mapping from their names."""
    return lambda rejected: next(((name, run) for name, run in steps.items() if name not in rejected), None)
