"""Respondents who ignore the device."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ldpbayes.collections.derived import Derived
from ldpbayes.collections.wrappers.base import AbstractWrapper


class Ignoring(AbstractWrapper):
    """Respondents who ignore the device: a category for each law of their reports."""

    kind = "ignoring"
    door = "with_noncompliers"
    doubt = "respondents may ignore the device"
    name = "noncompliance"
    test = "compliance"
    symbol = "γ"
    nobody = "full compliance"
    some = "some ignore the device"
    share = "the share γ of respondents who ignore the device"
    explanation = (
        "P and F are those of the respondents who follow the device; 'noncompliance' is the share γ of those who "
        "ignore it. That they have the same P as the others is an assumption, which no report can test."
    )
    remedy = (
        "A second channel with another ε, or asking some of the respondents directly, may identify it; with an "
        "informative prior, such as Compliance(gamma=(2, 18)) or --noncompliance-prior 2,18, a fit is possible"
    )
    usual = 0.1

    def shares(self, data: Any) -> tuple[Derived, ...]:
        of_laws = zip(self._names(data.laws), data.laws, strict=True) if len(data.laws) > 1 else ()
        return (Derived(self.name, data.laws), *(Derived(name, (law,)) for name, law in of_laws))

    def extended(self, draws: Mapping[str, np.ndarray], data: Any) -> np.ndarray:
        p = draws["distribution"].reshape(-1, len(data.answers))
        ignoring = np.stack([draws[name].ravel() for name in self._names(data.laws)], axis=1)
        return np.concatenate([(1 - ignoring.sum(axis=1, keepdims=True)) * p, ignoring], axis=1)

    def _names(self, laws: tuple[str, ...]) -> list[str]:
        """Return the names of the share of each law."""
        return [self.name] if len(laws) == 1 else [f"{self.name}, {law.replace('/', '∕')}" for law in laws]
