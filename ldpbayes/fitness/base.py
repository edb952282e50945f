"""What the tests of fit share: the outcome of one test, and the verdict over all of them."""

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ldpbayes import checks
from ldpbayes.collections.collection import Collection
from ldpbayes.collections.wrappers import AbstractWrapper
from ldpbayes.presenting import AbstractResult

#: Rule: Weight of a test whose small p-values are tiny: it takes next to nothing of the level from the other tests.
RARE = 0.02


@dataclass(frozen=True)
class Check:
    """The outcome of one test of fit.

    Attributes
    ----------
    name : str
        What is tested, such as "G² of the report counts" or "support sizes".
    channel : str
        Name of the channel, or "" for all channels together.
    statistic : float
    df : float
        Degrees of freedom; nan for a test that has none.
    p_value : float
    method : str
        How the p-value was computed: "chi-squared", "chi-bar-squared", "bootstrap", "normal" or "upper bound".
    weight : float
        Relative share of the level that the test gets in the verdict.
    detail : str
        Further numbers for the reader.
    """

    name: str
    channel: str
    statistic: float
    df: float
    p_value: float
    method: str
    weight: float = 1.0
    detail: str = ""

    @property
    def label(self) -> str:
        """The name with its channel."""
        return f"{self.name} of channel {self.channel!r}" if self.channel else self.name


@dataclass(frozen=True, repr=False)
class ComplianceTest(AbstractResult):
    """The likelihood-ratio test that nobody ignores the device (γ = 0), or denies (every δ = 0).

    Attributes
    ----------
    statistic : float
        Twice the gain in log-likelihood by the respondents who ignore the device or deny; infinite where some reports are
        impossible without them.
    p_value : float
    gamma : float
        Their share at the maximum.
    words : AbstractWrapper
        What is said of them.
    source : str
        Reports and design in words.
    """

    statistic: float
    p_value: float
    gamma: float
    words: AbstractWrapper
    source: str = ""

    def sentence(self, level: float = 0.05) -> str:
        """Return whether some ignore the device or deny, at a level."""
        words = self.words
        ratio = f"likelihood-ratio statistic {self.statistic:.2f} of {words.nobody}, {words.symbol} = 0"
        if math.isinf(self.statistic):
            ratio = f"some reports are impossible under {words.nobody}, {words.symbol} = 0"
        found = f"{words.some}: p = {self.p_value:.3g} ({ratio}), with {words.at_maximum(self.gamma)} at the maximum."
        return f"{found[0].upper()}{found[1:]}" if self.p_value <= level else f"The reports do not show that {found}"


@dataclass(frozen=True, repr=False)
class Fitness(AbstractResult):
    """Whether reports can have come from their design.

    Attributes
    ----------
    checks : tuple of Check
        Empty where no test is possible.
    level : float
        Probability with which honest reports are flagged.
    notes : tuple of str
        What was not tested and why.
    compliance : ComplianceTest or None
        The test that nobody ignores the device or denies, where the collection says how somebody may and the reports
        identify their share. It is no test of fit: the model that is tested has such respondents.
    source : str
        Reports and design in words.
    random_seed : int, optional
        Of the simulated tables.
    collection : Collection or None
        What was checked, for the picture; None of a summary, and of a check that was put together from its tests.
    """

    checks: tuple[Check, ...]
    level: float = 0.05
    notes: tuple[str, ...] = field(default=())
    compliance: ComplianceTest | None = None
    source: str = ""
    random_seed: int | None = field(default=None, compare=False)
    collection: Collection | None = field(default=None, compare=False)

    def _random_seed(self) -> int | None:
        return self.random_seed

    def __post_init__(self):
        object.__setattr__(self, "level", checks.probability(self.level, "level", open_low=True, open_high=True))

    @cached_property
    def adjusted(self) -> NDArray:
        """P-values adjusted for the number of tests, in their order (weighted Holm)."""
        p, weight = (np.array([getattr(c, name) for c in self.checks], dtype=float) for name in ("p_value", "weight"))
        order = np.argsort(p / weight)
        # Each test is compared at its share of the weights that are still in play.
        left = np.cumsum(weight[order][::-1])[::-1]
        out = np.empty(p.size)
        out[order] = np.minimum(np.maximum.accumulate(p[order] / weight[order] * left), 1.0) if p.size else p
        return out

    @property
    def p_value(self) -> float:
        """The smallest adjusted p-value; nan where no test is possible."""
        return float(self.adjusted.min()) if self.checks else float("nan")

    @property
    def flagged(self) -> bool:
        """Whether the reports do not fit the design at this level."""
        return bool(self.checks) and self.p_value <= self.level

    @property
    def verdict(self) -> str:
        """One sentence, and what to suspect where the reports do not fit."""
        if not self.checks:
            return " ".join(("No test of fit is possible.", *self.notes))
        if not self.flagged:
            return f"The reports fit the design ({self._stated(int(self.adjusted.argmin()))})."
        reasons = "; ".join(self._stated(i) for i, p in enumerate(self.adjusted) if p <= self.level)
        return (
            f"The reports do not fit the design: {reasons}. Respondents did not follow the device, reports were "
            "fabricated or copied, or the design, its parameters or the categories are wrong."
        ) + (f" {OTHER_PEOPLE}" if self.collection is not None and len(self.collection.tallies) > 1 else "")

    def _stated(self, i: int) -> str:
        """Return one test with its p-value, and what that counts for among several tests."""
        one, several = self.checks[i], len(self.checks)
        text = f"{one.label}, {p_in_words(one.p_value)}"
        if several == 1:
            return text
        share = one.weight / sum(check.weight for check in self.checks)
        level = f", which has {share:.2g} of the level" if share < 0.99 / several else ""
        return f"{text}; {p_in_words(self.adjusted[i])} adjusted for {several} tests{level}"


#: What else a contradiction between channels may be.
OTHER_PEOPLE = "Or several channels, such as days of different epsilon, asked people whose shares differ."


def p_in_words(p: float, sign: str = "=") -> str:
    """Return a p-value as pages have it: "p = 0.031", or "p < 1e-99" where none is as small."""
    return f"p {sign} " + (f"{p:.3f}" if p >= 0.001 else f"{p:.1e}") if p > 1e-99 else "p < 1e-99"
