"""A fit, typed: what describers read and add to, and what a result is written of, last."""

import contextlib
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr

from ldpbayes.errors import ConvergenceError, InfeasibleError
from ldpbayes.inference.diagnostics import Statistics
from ldpbayes.inference.scaling import Scaled

#: Display: Characters of what is left out, beyond which nothing is added.
LONGEST = 4000
#: Display: Cells that were left out and whose reasons are told.
NAMED = 10


@dataclass(eq=False)
class Fit:
    """A posterior with all that is said beside it.

    Attributes
    ----------
    data : Collection, Summarized or Cells
        What was fitted, or anything else that has their ``coords``, ``observed``, ``constants`` and texts.
    prior : AbstractPrior or str
        A sentence about the prior of a caller's own model.
    method : str
        Name of the posterior method.
    settings : mapping
        Its fields, random seed and interval, so that it can be run again.
    draws : mapping of name to (dims, array) or (dims, array, attrs)
        Variables of the posterior, dims after chain and draw; empty for moments alone.
    coords : mapping
        Labels of further dims.
    exact : mapping of name to array
        Entries of EXACT.
    stats : mapping of name to (chains, draws[, cells]) array
    cells : dict of name to (cells,) array
        Facts of each cell.
    facts : dict
        Of the whole.
    observed : bool
        Whether the result holds the reports.
    summary : Statistics, optional
        Of the draws, whose diagnostics are facts.
    dims : mapping of name to tuple of str
        Of what the summary has and the draws do not.
    scaled : sequence of Scaled, optional
        What scaling the prior does to the shares of each cell, or of the one collection.
    hyper : mapping of str to Scaled
        The same of hyperparameters of one number each.
    groups : dict of name to Dataset
        Other groups of the result.
    """

    data: Any
    prior: Any
    method: str
    settings: Mapping[str, Any]
    draws: Mapping[str, tuple] = field(default_factory=dict)
    coords: Mapping[str, Any] = field(default_factory=dict)
    exact: Mapping[str, Any] = field(default_factory=dict)
    stats: Mapping[str, np.ndarray] = field(default_factory=dict)
    cells: dict[str, np.ndarray] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    observed: bool = True
    summary: Statistics | None = None
    dims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    scaled: Sequence[Scaled] | None = None
    hyper: Mapping[str, Scaled] = field(default_factory=dict)
    groups: dict[str, xr.Dataset] = field(default_factory=dict)

    @property
    def labels(self) -> dict[str, Any]:
        """Labels of all dims."""
        return {**self.data.coords(), **self.coords}

    @property
    def categories(self) -> list[str]:
        """Labels of P: fewer than those of the data where respondents may ignore the device."""
        return list(self.labels["category"])

    @property
    def ci_prob(self) -> float:
        """Probability of the intervals."""
        assert self.summary is not None
        return self.summary.ci_prob

    @property
    def prior_weight(self) -> float:
        """How many answers the prior is worth; nan where nobody knows."""
        weight = np.nan if isinstance(self.prior, str) else self.prior.weight()
        return float(self.facts.get("prior_weight", weight))

    @property
    def said(self) -> dict[str, Any]:
        """Method, diagnostics and facts, by name."""
        return {"method": self.method} | ({} if self.summary is None else self.summary.diagnostics.to_attrs()) | self.facts

    @property
    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and sd of P, two (cells, a) arrays: of one collection with one row."""
        assert self.summary is not None
        of_p = self.summary.entries["distribution"]
        return tuple(np.reshape(of_p[name], (-1, len(self.categories))) for name in ("mean", "sd"))  # type: ignore[return-value]

    @property
    def evidences(self) -> list[tuple[float, float] | None]:
        """(Log-evidence, its error) of each cell, or of the one collection; None where it is not known."""
        if self.cells:
            pairs = zip(self.cells["log_evidence"], self.cells["log_evidence_error"], strict=True)
            return [None if np.isnan(value) else (float(value), float(np.nan_to_num(error))) for value, error in pairs]
        value = self.exact.get("log_evidence", self.facts.get("log_evidence"))
        error = float(self.facts.get("log_evidence_error", 0.0))
        return [None if value is None or np.ndim(value) else (float(value), error)]

    def flat(self, cell: int | None = None) -> dict[str, np.ndarray]:
        """Return the draws of every variable, shape (S, …), those of one cell without its dim.

        Parameters
        ----------
        cell : int, optional
            Its place; of one collection it is not looked at.
        """
        out = {}
        for name, (dims, values, *_) in self.draws.items():
            if cell is not None and "cell" in dims:
                values = np.take(values, cell, axis=2 + dims.index("cell"))
            out[name] = values.reshape(-1, *values.shape[2:])
        return out

    def leave_out(self, sentence: str) -> None:
        """State what the result lacks, by name and with the reason."""
        leave_out(self.facts, sentence)

    def leaving_out(self, name: str) -> contextlib.AbstractContextManager[None]:
        """Leave out what is said beside a posterior where it cannot be said, by its name."""
        return leaving_out(self.facts, name)


def cells_left_out(refused: Mapping[str, str], total: int) -> str:
    """Return the sentences about cells that cannot be served.

    Parameters
    ----------
    refused : mapping of str to str
        Why, by label.
    total : int
        Number of cells, with these.
    """
    why = " ".join(f"{label}: {reason}" for label, reason in list(refused.items())[:NAMED])
    return f"{len(refused)} of {total} cells are left out: {why}"


def leave_out(facts: MutableMapping[Any, Any], sentence: str) -> None:
    """Write into the fact ``left_out`` what a result lacks, by name and with the reason.

    Parameters
    ----------
    facts : mapping
        Of a Fit, or the attrs of a result.
    sentence : str
    """
    before = str(facts.get("left_out", ""))
    if len(before) < LONGEST:
        facts["left_out"] = f"{before} {sentence}".strip()


@contextlib.contextmanager
def leaving_out(facts: MutableMapping[Any, Any], name: str) -> Iterator[None]:
    """Leave out what is said beside a posterior where it cannot be said, by its name.

    Parameters
    ----------
    facts : mapping
        Of a Fit, or the attrs of a result.
    name : str
        What starts the sentence.
    """
    try:
        yield
    except (ConvergenceError, InfeasibleError) as err:
        leave_out(facts, f"{name}: left out. {err}")
