"""Modules bounds (least error), information (Fisher, Shannon), metrics (privacy, utility); population(name) for simulate."""

from typing import TYPE_CHECKING

from ldpbayes.doors import lazily

if TYPE_CHECKING:
    from ldpbayes.simulation import population
    from ldpbayes.theory import bounds, information, metrics

__all__ = ["bounds", "information", "metrics", "population"]

_HOMES = {name: f"theory.{name}" for name in __all__} | {"population": "simulation"}

__getattr__, __dir__ = lazily(__name__, _HOMES)
