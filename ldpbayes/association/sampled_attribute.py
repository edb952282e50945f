"""One attribute of a person, drawn at random and named in the report (SMP)."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from ldpbayes import checks, entropy
from ldpbayes.association.attributes import (
    BASES,
    AbstractAttributes,
    Coded,
)
from ldpbayes.errors import ArgumentError, DataError
from ldpbayes.likelihoods import AdditiveRows
from ldpbayes.protocols.base import MAX_CHANNEL_ENTRIES
from ldpbayes.protocols.columns import Bytes, Integers, ListColumn, refuse
from ldpbayes.protocols.formats import Numbers, parse_integers


class AbstractCollected(AbstractAttributes):
    """Schemes in which one attribute, drawn uniformly, is reported through its channel: margins alone are identified."""

    base: str

    @cached_property
    def coded(self) -> tuple[Coded, ...]:
        """The reports of every attribute as codes."""
        return tuple(Coded(BASES[self.base](size, self.epsilon)) for size in self.sizes)

    def __post_init__(self):
        super().__post_init__()
        sizes = checks.attribute_sizes(self.sizes)
        if math.prod(sizes) != self.n_categories:
            raise ArgumentError(
                f"sizes must have the product {self.n_categories}, the number of categories, got {list(sizes)}."
            )
        object.__setattr__(self, "sizes", sizes)
        checks.choice(self.base, "base", tuple(BASES))
        self.coded  # noqa: B018 (refuses what has no codes)

    def identifying_matrix(self):
        """Return the margins of the table: all that the reports depend on."""
        levels = np.unravel_index(np.arange(self.n_categories), self.sizes)
        return np.concatenate([np.eye(size)[:, x] for size, x in zip(self.sizes, levels, strict=True)])


@dataclass(frozen=True)
class SampledAttribute(AbstractCollected):
    """One of several attributes, drawn by chance and named in the report (SMP).

    One of d attributes is drawn uniformly and reported at ε with its number, Q[(k, y), x] = Q^k[y, x_k] / d.

    The whole record is protected at ε. Reports depend on the record through one attribute at a time, so that they identify
    the margins of the joint table and no association.

    Parameters
    ----------
    n_categories : int
        Number of cells of the joint table, the product of the sizes.
    epsilon : float
        LDP level in nats.
    sizes : sequence of int
        Number of categories of each attribute.
    base : {"grr", "oue", "sue"}
        How an attribute is reported.

    Notes
    -----
    A report is the attribute's position, from zero, and a code: two columns in a file, attribute and report.

    References
    ----------
    Nguyên et al. (2016), arXiv:1606.05053; Arcolezi et al. (2021), CIKM, §3.1.

    Examples
    --------
    >>> SampledAttribute(4, math.log(3), (2, 2), "grr").channel()
    array([[0.375, 0.375, 0.125, 0.125],
           [0.125, 0.125, 0.375, 0.375],
           [0.375, 0.125, 0.375, 0.125],
           [0.125, 0.375, 0.125, 0.375]])
    """

    n_categories: int
    epsilon: float
    sizes: tuple[int, ...]
    base: str
    name: ClassVar[str] = "smp"
    report_fields: ClassVar[tuple[str, ...]] = ("attribute", "report")

    @property
    def attribute_epsilon(self) -> float:
        """Level at which any one attribute is protected while the others stay as they are: ε."""
        return self.epsilon

    # ---- reports ---------------------------------------------------------------------------------------------------------
    @property
    def n_outputs(self):
        outputs = sum(coder.n_codes for coder in self.coded)
        return outputs if outputs * self.n_categories <= MAX_CHANNEL_ENTRIES else None

    def list_reports(self):
        return np.array([(k, y) for k, coder in enumerate(self.coded) for y in range(coder.n_codes)], dtype=np.int64)

    def check_reports(self, reports):
        limits = len(self.sizes), max(coder.n_codes for coder in self.coded)
        reports = Numbers(self.report_fields, limits).check(reports)
        spans = np.array([coder.n_codes for coder in self.coded])
        bad = np.flatnonzero(reports[:, 1] >= spans[reports[:, 0]])
        if bad.size:
            k, y = reports[bad[0]]
            raise DataError(f"report {y} of attribute {k + 1} is outside 0..{spans[k] - 1}", line=int(bad[0]))
        return reports

    def parse_reports(self, columns, categories):
        labels = self.labels_of(categories)
        column = columns[1]
        if isinstance(column, (Bytes, ListColumn)):
            refuse(column, "a report of one sampled attribute is a text or a code")
        out = np.empty((len(columns[0]), 2), dtype=np.int64)
        out[:, 0] = parse_integers(columns[0], "attribute", len(self.sizes))
        for k, (coder, names) in enumerate(zip(self.coded, labels, strict=True)):
            here = np.flatnonzero(out[:, 0] == k)
            numbers = isinstance(column, Integers)
            some = replace(column, values=column.values[here]) if numbers else [column[i] for i in here]
            try:
                out[here, 1] = coder.parse(some, names)
            except DataError as err:
                err.line = None if err.line is None else int(here[err.line])
                raise
        return out

    def format_reports(self, reports, categories):
        labels = self.labels_of(categories)
        out = np.empty(len(reports), dtype=object)
        for k, (coder, names) in enumerate(zip(self.coded, labels, strict=True)):
            here = np.flatnonzero(reports[:, 0] == k)
            out[here] = coder.format(reports[here, 1], names)
        return [[str(k) for k in reports[:, 0]], out.tolist()]

    # ---- server ----------------------------------------------------------------------------------------------------------
    def rows(self, reports, counts):
        reports = np.asarray(reports)
        factors, index, log_constants = [], [], np.full(len(reports), -math.log(len(self.sizes)))
        for k, (coder, size) in enumerate(zip(self.coded, self.sizes, strict=True)):
            here = reports[:, 0] == k
            distinct, place = np.unique(reports[here, 1], return_inverse=True)
            matrix, constants = coder.rows(distinct) if distinct.size else (np.zeros((0, size)), np.zeros(0))
            log_constants[here] += constants[place]
            factors.append(np.concatenate([np.zeros((1, size)), matrix]))  # row 0: another attribute was drawn
            at = np.zeros(len(reports), dtype=np.int64)
            at[here] = place + 1
            index.append(at)
        return AdditiveRows(factors, np.stack(index, axis=1), counts, log_constants)

    # ---- client ----------------------------------------------------------------------------------------------------------
    def randomize(self, values, rng):
        levels = np.unravel_index(values, self.sizes)
        out = np.empty((values.size, 2), dtype=np.int64)
        out[:, 0] = rng.integers(len(self.sizes), size=values.size)
        for k, (coder, x) in enumerate(zip(self.coded, levels, strict=True)):
            here = np.flatnonzero(out[:, 0] == k)
            out[here, 1] = coder.privatize(x[here], rng)
        return out

    def randomize_one(self, value):
        levels = np.unravel_index(value, self.sizes)
        drawn = entropy.below(len(self.sizes))
        # Every attribute is privatized, whichever was drawn: the draws are the same for every outcome.
        codes = [coder.privatize_one(int(x)) for coder, x in zip(self.coded, levels, strict=True)]
        return np.array([drawn, codes[drawn]], dtype=np.int64)
