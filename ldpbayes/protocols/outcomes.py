"""A protocol over longer categories: what its devices do to a person joins the person's category."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ldpbayes.likelihoods import DenseRows
from ldpbayes.likelihoods.extended import RepeatedRows
from ldpbayes.protocols.base import AbstractProtocol, passed_on
from ldpbayes.protocols.uncertain import DeviceLaw


@dataclass(frozen=True, eq=False)
class DeviceOutcomes(AbstractProtocol):
    """A protocol whose categories are pairs of a category and what the devices of a collection do to its people.

    Given the outcome its channel is known; the law of the outcomes given the category is a part of the prior.

    Parameters
    ----------
    inner : AbstractProtocol
    device_law : DeviceLaw
        Of all devices of the collection.
    kernel : (b, E) array, optional
        P(report | outcome) of an uncertain device; None of a known protocol, for which only the category counts.
    """

    inner: AbstractProtocol
    law: DeviceLaw
    kernel: np.ndarray | None = None
    name: ClassVar[str] = "outcomes"
    registered: ClassVar[bool] = False
    wrapper = "uncertain device"

    def __post_init__(self):
        """Do nothing: the fields come from a collection that was checked."""

    def __eq__(self, other):
        return isinstance(other, DeviceOutcomes) and (self.inner, self.law) == (other.inner, other.law)

    def __hash__(self):
        return hash((self.inner, self.law))

    @property
    def n_categories(self) -> int:  # type: ignore[override]
        """Number of outcomes."""
        return self.law.category.size

    @property
    def owners(self):
        """The category of each outcome after the first ones."""
        return self.law.owners

    epsilon = passed_on("inner", "epsilon")
    design = passed_on("inner", "design")
    parameters = passed_on("inner", "parameters")
    repeats = passed_on("inner", "repeats")
    report_fields = passed_on("inner", "report_fields")
    check_reports = passed_on("inner", "check_reports")
    n_outputs = passed_on("inner", "n_outputs")
    list_reports = passed_on("inner", "all_reports")
    log_public_share = passed_on("inner", "log_public_share")

    def device(self, categories):
        return self.inner.device(categories[: self.inner.n_categories])

    def device_law(self):
        return self.law

    def check_categories(self, categories):
        self.inner.check_categories(categories[: self.inner.n_categories])

    def parse_reports(self, columns, categories):
        return self.inner.parse_reports(columns, categories[: self.inner.n_categories])

    def format_reports(self, reports, categories):
        return self.inner.format_reports(reports, categories[: self.inner.n_categories])

    def report_columns(self, reports, categories):
        return self.inner.report_columns(reports, categories[: self.inner.n_categories])

    def rows(self, reports, counts):
        if self.kernel is not None:
            return DenseRows(self.kernel[reports], counts)
        return RepeatedRows(self.inner.rows(reports, counts), self.law.category)

    def randomize(self, values, rng):
        if self.kernel is None:
            return np.array(self.inner.privatize(self.law.category[values], rng))
        cumulative = self.kernel.cumsum(axis=0)[:, values]
        return (rng.random(values.size) >= cumulative[:-1]).sum(axis=0)

    def randomize_one(self, value):
        """Return the report of the category: nobody's reports are protected by outcomes."""
        return self.inner.privatize_one(int(self.law.category[value]))
