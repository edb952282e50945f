"""The prior by rule: the learnt one from LEARNT_FROM categories on, where it can be used, else Jeffreys'."""

from dataclasses import dataclass
from typing import Any

from ldpbayes.priors.lists import Lists
from ldpbayes.priors.naming import DEFAULT, LEARNT_FROM, default_prior
from ldpbayes.priors.tree import SHARE
from ldpbayes.road.methods import CONJUGATE

#: How the sentence about a prior by rule starts, and how it ends.
NO_PRIOR, KEEP = "No prior was given", "prior='jeffreys' keeps Jeffreys' prior"


@dataclass(frozen=True)
class Ruling:
    """A prior, and why it was taken.

    Attributes
    ----------
    prior : str or any prior
    sentence : str
        Empty where the caller chose the prior.
    automatic : bool
        Whether the method was left open, too: where it serves no learnt prior, Jeffreys' takes its place.
    """

    prior: Any
    sentence: str = ""
    automatic: bool = False

    @property
    def replaceable(self) -> bool:
        """Whether Jeffreys' prior takes the place of this one where no answer under it can be trusted."""
        return self.learnt and self.automatic

    @property
    def learnt(self) -> bool:
        """Whether the rule chose the learnt prior, for which Jeffreys' stands in."""
        return bool(self.sentence) and self.prior == "learnt"


def jeffreys_because(why: str) -> Ruling:
    """Return the Ruling for Jeffreys' prior, with its reason."""
    return Ruling("jeffreys", f"{NO_PRIOR}: it is Jeffreys', because {why}")


def too_long(seconds: float) -> Ruling:
    """Return the Ruling where the learnt prior would take so many seconds."""
    return jeffreys_because(f"the learnt prior would take about {seconds:.2g} s; prior='learnt' asks for it.")


def rule(prior: Any, data: Any, method: str) -> Ruling:
    """Return the Ruling for data whose prior may be left to the rule, by its numbers alone.

    The study of priors (docs/theory/priors-study.md) supports it. A method that was asked for by name keeps Jeffreys' prior,
    unless it is one of those of the learnt prior.

    Parameters
    ----------
    prior : as in fit
    data : Collection, Summarized or Cells
    method : str
        Name of the method that was asked for.
    """
    if not (isinstance(prior, str) and prior == DEFAULT):
        return Ruling(prior)
    if data.trait:
        sentence = f"{NO_PRIOR}: of several lists it is flat for the share {data.trait!r}, and "
        if method not in ("auto", "weighted", "nuts"):
            sentence += f"Jeffreys' of the items where the method {method} was asked for."
            return Ruling(f"{SHARE}{data.trait}", sentence)
        sentence += f"ties the items of those with the trait to the others'; prior='{SHARE}{data.trait}' leaves both open."
        items = tuple(size - 1 for size in next(iter(data.collections())).lists)
        return Ruling(Lists(items, data.apart_by_design), sentence)
    if default_prior(len(data.answers)) == "jeffreys":
        sentence = f"{NO_PRIOR}: below {LEARNT_FROM} categories it is Jeffreys'; prior='learnt' learns its concentration."
        return Ruling("jeffreys", sentence)
    if data.obstacle:
        return jeffreys_because(
            f"the learnt prior needs the evidence of the reports, which has no meaning where {data.obstacle}."
        )
    if method not in ("auto", *CONJUGATE):
        return jeffreys_because(f"the method {method} was asked for; prior='learnt' goes with auto, exact and surrogate.")
    sentence = f"{NO_PRIOR}: from {LEARNT_FROM} categories on it is a Dirichlet prior whose concentration is learnt; {KEEP}."
    return Ruling("learnt", sentence, method == "auto")
