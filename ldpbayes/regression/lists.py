"""Regression on the trait of a list experiment: how many of the other items apply is a nuisance, by covariates too."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import helmert

from ldpbayes.collections import Collection
from ldpbayes.errors import ArgumentError
from ldpbayes.priors.regression import INTERCEPT
from ldpbayes.protocols.base import AbstractProtocol
from ldpbayes.protocols.channel import YES_NO
from ldpbayes.protocols.designs import ListExperiment
from ldpbayes.regression.beside import Beside, checked_intercept
from ldpbayes.regression.constants import FAR

#: Values of the column that says how a row was asked, where a ListExperiment is given as the protocol.
ASKED = {"0": "control", "1": "treatment"}
#: By how much d moves the logits of those without and with the trait, in units of the prior sd of a: N(0, 1) apart.
HALF = np.array([[-0.5], [0.5]]) / INTERCEPT


def channels_of(protocol: Any, labels: Sequence[str] | None, report: Any = None) -> tuple[Any, Sequence[str] | None]:
    """Return (protocol or mapping of channels, labels of the categories) of a table, of a list those of its channels.

    Parameters
    ----------
    protocol : ListExperiment, protocol or mapping of protocols
        The values of a list's column of designs are 0 or control, 1 or treatment, and direct.
    labels : sequence of str, optional
        Of the categories; of a list those of its traits.
    report : str or sequence of str, optional
        Two columns are those of respondents who answer two lists.
    """
    if isinstance(protocol, ListExperiment):
        width = 1 if report is None or isinstance(report, str) else len(report)
        named = {name: channel for name, channel in protocol.channels.items() if len(channel.report_fields) == width}
        protocol = named | {value: named[group] for value, group in ASKED.items() if group in named}
    stated = protocol.values() if isinstance(protocol, Mapping) else ()
    sizes = {ListExperiment.items_of(channel) if isinstance(channel, AbstractProtocol) else None for channel in stated}
    if len(sizes) != 1 or None in sizes:
        return protocol, labels
    traits = YES_NO if labels is None else tuple(labels)
    return protocol, ListExperiment(sizes.pop(), traits=traits).categories  # type: ignore[arg-type]  # checked there


def traits_of(pooled: Collection) -> ListExperiment | None:
    """Return the list experiment whose reports a collection holds, with the labels of its traits; None where it is none.

    Raises
    ------
    ArgumentError
        Where only some of the protocols are those of a list, or lists differ in length.
    """
    sizes = {ListExperiment.items_of(tally.protocol) for tally in pooled.tallies}
    if sizes == {None}:
        return None
    if len(sizes) > 1:
        raise ArgumentError("protocol must map to the groups of one list experiment, or to none of any.")
    if pooled.apart_by_design:
        raise ArgumentError(
            "A regression on the trait of several lists needs respondents who answer two of them: how the numbers of their "
            "items are related depends on the covariates, and no other report shows it. Take the lists one by one."
        )
    items = sizes.pop()
    traits = dict.fromkeys(label.rsplit("/", len(items))[0] for label in pooled.categories)  # type: ignore[arg-type]
    return ListExperiment(items, traits=tuple(traits))  # type: ignore[arg-type]  # that there are two is checked there


@dataclass(frozen=True, eq=False)
class Listed(Beside):
    """The prior of a regression on a trait beside that of c, the number of the other items that apply.

    P(c | trait t, cell) ∝ exp{(V (a ± d/2))_c + c Σ_k W̃_k b_k}, + with the trait and − without: any distribution of c for
    each trait, and covariates move it as they move a binomial one. V are orthonormal contrasts and a, d and b normal: two
    numbers of items have log odds N(0, π²) where the columns W̃ are at their means, which the trait changes by N(0, 1), and
    one sd of a column changes the log odds of each item by N(0, 1). Were those with the trait a law unto themselves, a
    share of nobody would be preferred: the fewer laws must fit, the better.

    Parameters
    ----------
    items : tuple of int
        Number J of the other items of each list; of several lists c joins the numbers of each, and moves as their sum does.
    """

    items: tuple[int, ...] = (1,)
    part: ClassVar[str] = "item"
    slope: ClassVar[float] = 1.0

    def __post_init__(self):
        super().__post_init__()
        checked_intercept(self.other_design, "a list experiment")

    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return (2, len(self.contrasts)), ()

    @cached_property
    def contrasts(self) -> np.ndarray:
        """π/√2 V, shape (J, J + 1) of one list."""
        return helmert(len(self.applying)) * (INTERCEPT / math.sqrt(2))

    @cached_property
    def applying(self) -> np.ndarray:
        """How many items apply, of all lists together, of each c."""
        return np.indices([size + 1 for size in self.items]).sum(axis=0).ravel().astype(float)

    @property
    def owners(self) -> np.ndarray:
        return np.repeat([0, 1], len(self.applying))

    def _middle(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the logits of c at the means of the columns, (…, 2, J + 1)."""
        each = values["item"] @ self.contrasts
        return each[..., :1, :] + HALF * each[..., 1:, :]

    def counts(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return P(c | trait, cell), shape (…, cells, 2, J + 1)."""
        moved = (values["item_slopes"] @ self.other_columns.T)[..., None, None] * self.applying
        shares = np.exp(np.clip(self._middle(values)[..., None, :, :] + moved, -FAR, FAR))
        return shares / (shares @ np.ones(len(self.applying)))[..., None]  # a product: sums of few are slow

    def parts(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        counts = self.counts(values)
        return counts.reshape(*counts.shape[:-2], -1)

    def pulled_parts(self, parts: np.ndarray, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        counts, along = (one.reshape(len(one), 2, -1) for one in (parts, slope))
        inner = counts * (along - (counts * along).sum(axis=-1, keepdims=True))
        moved = self.other_columns.T @ (inner.sum(axis=1) @ self.applying)
        pulled = inner.sum(axis=0) @ self.contrasts.T
        return np.stack([pulled.sum(axis=0), (HALF * pulled).sum(axis=0)]), moved

    def describe(self) -> str:
        items = f"log odds N(0, {INTERCEPT:.3g}²) of two numbers of other items, N(0, 1) by trait and for one sd"
        return f"{super().describe()}, {items}"

    def variables(self, z: np.ndarray) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        """Return what a regression has, and of the other items that apply to people of each trait: see Returns.

        Returns
        -------
        dict
            ``items``, P(c | trait) of all people; ``item_odds``, log odds of c against none where the columns are zero; and
            ``item_coefficients``, by how much a unit of a column changes the log odds of each item.
        """
        z = np.asarray(z, dtype=float)
        values, (mean, unit) = self.values(z), self._standard
        middle, slopes = self._middle(values), values["item_slopes"] * unit
        at_zero = middle - middle[..., :1] - (slopes @ mean)[..., None, None] * self.applying

        def average(people, values):
            return np.einsum("sct,sctj->stj", people, self.counts(values)) / people.sum(axis=1)[..., None]

        dims = ("category", "items_applying")
        variables = {"items": (dims, self.in_blocks(z, average, (2, len(self.applying)))), "item_odds": (dims, at_zero)}
        return super().variables(z) | variables | ({"item_coefficients": (("item_term",), slopes)} if mean.size else {})

    def coords(self) -> dict[str, Sequence]:
        coords = super().coords()
        return coords | {"item_term": coords["item_term"][1:], "items_applying": self._labels()}

    def _labels(self):
        """Return the labels of c: numbers of one list, "1/3" and the like of several."""
        cells = np.indices([size + 1 for size in self.items]).reshape(len(self.items), -1).T.tolist()
        return [c[0] if len(c) == 1 else "/".join(map(str, c)) for c in cells]

    def stated(self, table: np.ndarray) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        return {"likelihood_rows": (("code", "category", "items_applying"), table.reshape(len(table), 2, -1))}
