"""Respondents who deny."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ldpbayes.collections.derived import Derived, columns_of
from ldpbayes.collections.wrappers.base import AbstractWrapper


class Denying(AbstractWrapper):
    """Respondents who say another category than theirs in some channels: a category for the deniers of each."""

    kind = "denying"
    door = "with_deniers"
    doubt = "respondents may deny"
    name = "deniers"
    test = "honesty"
    symbol = "δ"
    nobody = "no denial"
    some = "some deny"
    share = "the share of respondents who deny"
    explanation = (
        "P and F are those of all respondents; 'denial' is the share δ of a category who say another one where the "
        "survey says that they may, and 'deniers' the share of all respondents who do. That everybody obeys the "
        "other channels is an assumption."
    )
    remedy = (
        "A device beside the channel in which they deny, which tells all categories apart, identifies it; with an "
        "informative prior, such as Denial(denial=(2, 18)) or --deniers-prior 2,18, a fit is possible"
    )
    usual = 0.5

    def denied(self, data: Any) -> tuple[str, ...]:
        return tuple(data.categories[x] for x in data.owners)

    def shares(self, data: Any) -> tuple[Derived, ...]:
        pairs = zip(self._names(data), data.laws, self.denied(data), strict=True)
        shares = (Derived(name, (law,), columns_of(data, (label,))) for name, law, label in pairs)
        return (*shares, Derived(self.name, data.laws))

    def extended(self, draws: Mapping[str, np.ndarray], data: Any) -> np.ndarray:
        p, places = draws["distribution"].reshape(-1, len(data.answers)), list(data.owners)
        delta = np.stack([draws[name].ravel() for name in self._names(data)], axis=1)
        out = np.concatenate([p, delta * p[:, places]], axis=1)
        out[:, places] *= 1 - delta
        return out

    def subject(self, data: Any) -> tuple[str, str]:
        several, labels = len(data.laws) > 1, ", ".join(map(repr, self.denied(data)))
        return f"the share{'s' * several} δ of {labels} who deny", "the least certain of them" if several else "it"

    def at_maximum(self, share: float) -> str:
        return f"a share of {share:.3g} who deny"

    def _names(self, data: Any) -> list[str]:
        """Return the name of the share δ of each answer that is denied."""
        labels = self.denied(data)
        return ["denial"] if len(labels) == 1 else [f"denial, {label.replace('/', '∕')}" for label in labels]
