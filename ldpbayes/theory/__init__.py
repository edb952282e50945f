"""How much reports can reveal, before and after they are collected: risk, bounds, information metrics, planning."""

import importlib

__all__ = ["bounds", "information", "metrics", "planning", "poisoning", "prospects", "risk"]


def __getattr__(name: str):
    if name not in __all__:
        raise AttributeError(f"module 'ldpbayes.theory' has no attribute {name!r}")
    return importlib.import_module(f"ldpbayes.theory.{name}")


def __dir__():
    return sorted({*globals(), *__all__})
