"""The one result: an xarray DataTree with a fixed schema; build, validate, save and load it.

Groups: ``posterior`` (distribution, frequency, derived quantities and hyperparameters; dims chain, draw, [cell,] category;
what a prior learns has the attribute ``of`` "prior" and stands in the summary under ``parameter_…``), ``exact``
(moments, interval ends and log-evidence known without draws), ``estimate`` (point estimates and standard errors),
``confidence`` (confidence intervals, which hold for every distribution),
``summary`` (what is printed), ``observed_data``, ``constant_data`` and ``sample_stats``. Its attrs are what a reader asks
first; all other facts are those of the group ``details``, and ``facts_of`` reads a fact wherever it stands.
"""

from ldpbayes.result.attaching import attach
from ldpbayes.result.building import EXACT
from ldpbayes.result.cells import select, stack
from ldpbayes.result.compliers import extended_draws
from ldpbayes.result.facts import facts_of
from ldpbayes.result.frame import Result
from ldpbayes.result.saving import load
from ldpbayes.result.validation import validate

__all__ = [
    "EXACT",
    "Result",
    "attach",
    "extended_draws",
    "facts_of",
    "load",
    "select",
    "stack",
    "validate",
]
