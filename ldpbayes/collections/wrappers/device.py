"""Devices whose probabilities are not known exactly."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ldpbayes.collections.derived import Derived, of_device
from ldpbayes.collections.wrappers.base import AbstractWrapper


class UncertainDevice(AbstractWrapper):
    """What devices with uncertain probabilities do to people: a category for each outcome."""

    kind = "uncertain device"
    doubt = "the probabilities of the device are uncertain"
    name = "uncertain_device"
    test = "uncertain_device_test"
    symbol = "θ"
    nobody = "a known device"
    some = "the device is another one"
    share = "the probabilities of the device"
    explanation = (
        "The probabilities of the device are unknowns beside P: their distributions are the prior, and the reports inform "
        "them too; all cells have the same. That the device did here as in the trials behind the distributions is an "
        "assumption."
    )
    tested = False

    def shares(self, data: Any) -> tuple[Derived, ...]:
        return of_device(data.device_law, data.categories)

    def extended(self, draws: Mapping[str, np.ndarray], data: Any) -> np.ndarray:
        law = data.device_law
        outcomes = law.outcomes(draws["distribution"], law.theta_of(draws.__getitem__))
        return outcomes.reshape(-1, outcomes.shape[-1])

    def stated(self, several: bool) -> dict[str, str]:
        return super().stated(False)
