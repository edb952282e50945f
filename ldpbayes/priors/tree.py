"""A tree of two levels: a prior of the shares of blocks of categories, and one of how each block splits."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ldpbayes import checks
from ldpbayes.collections import Collection, Summarized
from ldpbayes.errors import ArgumentError, shown
from ldpbayes.priors.base import AbstractPrior
from ldpbayes.priors.naming import as_prior
from ldpbayes.priors.parts import AbstractParts
from ldpbayes.priors.product import Product

if TYPE_CHECKING:
    from pytensor.tensor.variable import TensorVariable


#: How a user asks for a prior of the share of a derived quantity: this and its name.
SHARE = "share:"


class AbstractTree(AbstractParts):
    """What a prior of blocks and of their splits has: a member states the blocks, _top and _inner.

    Attributes
    ----------
    blocks : tuple of tuples of int
        The positions of the categories of each block; _top is the prior of their shares, _inner those of the splits of
        blocks with two categories or more.
    """

    blocks: tuple[tuple[int, ...], ...]
    _top: AbstractPrior
    _inner: tuple[AbstractPrior, ...]

    @property
    def parts(self) -> list[AbstractPrior]:
        """The prior of the shares, and those of the splits."""
        return [self._top, *self._inner]

    def joined(self, parts: Sequence[Any], xp: Any = np) -> Any:
        """Return P (…, a) from the shares of the blocks and how those with two categories or more split."""
        shares, each = parts[0], iter(parts[1:])
        out = [shares[..., g, None] * (next(each) if len(block) > 1 else 1.0) for g, block in enumerate(self.blocks)]
        return xp.concatenate(out, axis=-1)[..., np.argsort(np.concatenate(self.blocks))]

    def parted(self, p: np.ndarray) -> list[np.ndarray]:
        blocks = [p[..., list(block)] for block in self.blocks]
        shares = np.stack([block.sum(axis=-1) for block in blocks], axis=-1)
        splits = [block / np.maximum(shares[..., g, None], 1e-300) for g, block in enumerate(blocks)]
        return [shares, *(split for split in splits if split.shape[-1] > 1)]

    def apart(self, parts: Sequence[np.ndarray], dp: np.ndarray) -> list[np.ndarray]:
        shares, each = parts[0], iter(parts[1:])
        along, out = np.empty_like(shares), []
        for g, block in enumerate(self.blocks):
            slope = dp[..., list(block)]
            along[..., g] = np.vecdot(slope, next(each)) if len(block) > 1 else slope[..., 0]
            if len(block) > 1:
                out.append(shares[..., g, None] * slope)
        return [along, *out]

    def pymc(self, name: str) -> "TensorVariable":
        import pytensor.tensor as pt

        wide = [g for g, block in enumerate(self.blocks) if len(block) > 1]
        shares = self._top.pymc(f"{name}_shares")  # in the order of the parts, which numbers their hyperparameters
        inner = [prior.pymc(f"{name}_{g}") for g, prior in zip(wide, self._inner, strict=True)]
        return self.joined([shares, *inner], pt)

    @cached_property
    def conjugate(self) -> tuple[np.ndarray, np.ndarray] | None:
        """(Concentrations of the blocks, of the categories within theirs) of a Dirichlet tree; None of any other."""
        top, within = self._top.concentrations(), [prior.concentrations() for prior in self._inner]
        if top is None or any(alpha is None for alpha in within):
            return None
        out, rest = np.empty(self.n_categories), iter(within)
        for g, block in enumerate(self.blocks):
            out[list(block)] = next(rest) if len(block) > 1 else top[g]
        return top, out

    @property
    def excess(self) -> np.ndarray:
        """Powers k of the blocks' shares by which a Dirichlet tree differs from a Dirichlet: density · Π_g S_g^{k_g}."""
        assert self.conjugate is not None  # asked of Dirichlet trees only
        top, within = self.conjugate
        return top - np.array([within[list(block)].sum() for block in self.blocks])

    def concentrations(self) -> np.ndarray | None:
        if self.conjugate is None or (np.abs(self.excess) > 1e-12 * self.conjugate[0]).any():
            return None
        return self.conjugate[1]


@dataclass(frozen=True, eq=False)
class Tree(AbstractTree):
    """P_x = S_g θ_{x|g}: the shares S of blocks of categories by one prior, the split θ of each block by its own.

    Where all are Dirichlet this is a Dirichlet tree, conjugate given the true tallies.

    Parameters
    ----------
    blocks : sequence of sequences of int
        The positions of the categories of each block; every category stands in one of them.
    shares : str, float, array or AbstractPrior
        Prior of S, as ``fit`` takes one over as many categories as there are blocks.
    splits : sequence, or one of these
        Prior of the split of each block with two categories or more, as ``fit`` takes one; one for all, or one each.

    References
    ----------
    Dennis (1991), Communications in Statistics: Theory and Methods 20, on Dirichlet trees.
    """

    blocks: tuple[tuple[int, ...], ...]
    shares: object = 1.0
    splits: object = "jeffreys"

    def __post_init__(self):
        rule = "lists of the positions of categories, at least two of them"
        blocks = tuple(
            tuple(checks.integer(x, "blocks", 0) for x in checks.entries(block, "blocks", rule))
            for block in checks.entries(self.blocks, "blocks", rule)
        )
        if len(blocks) < 2 or sorted(x for block in blocks for x in block) != list(range(sum(map(len, blocks)))):
            raise ArgumentError(f"blocks must be {rule}, every category in one of them, got {shown(self.blocks)}.")
        object.__setattr__(self, "blocks", blocks)
        object.__setattr__(self, "_top", as_prior(self.shares, len(blocks)))
        wide = [block for block in blocks if len(block) > 1]
        splits = list(self.splits) if isinstance(self.splits, (list, tuple)) else [self.splits] * len(wide)
        if len(splits) != len(wide):
            raise ArgumentError(f"splits must be one prior, or one for each of {len(wide)} blocks, got {len(splits)}.")
        inner = tuple(as_prior(prior, len(block)) for prior, block in zip(splits, wide, strict=True))
        object.__setattr__(self, "_inner", inner)

    @classmethod
    def of_share(cls, collection: Collection | Summarized, name: str) -> "Tree":
        """Return the prior with two blocks, the categories of a derived quantity and the others, and a flat share.

        Parameters
        ----------
        collection : Collection
        name : str
            Of a derived quantity that is a share of all.

        Raises
        ------
        ArgumentError
            Where there is none of this name, or it is the share of some.
        """
        checks.instance(collection, "collection", (Collection, Summarized), "a Collection")
        shares = {item.name: item for item in collection.derived if not item.given}
        for other in (other for other in collection.derived if other.given and other.name == name):
            why = "the share of some respondents, not of all"
            if collection.owners and set(collection.answers) <= set(other.given):
                why = (
                    "a share of P, beside which some deny or ignore the device: state Tree.of_share(survey, "
                    f"{name!r}) of the survey without them"
                )
            raise ArgumentError(f"prior {SHARE + name!r} takes a share of all respondents; {name} is {why}.")
        item = shares[checks.choice(name, "prior", tuple(shares))] if shares else None
        if item is None:
            raise ArgumentError(f"prior must name a derived quantity after {SHARE!r}; the collection has none.")
        inside = tuple(collection.categories.index(label) for label in item.of)
        splits: object = "jeffreys"
        if name == collection.trait and collection.apart_by_design:
            splits = Product(collection.lists)
        return cls((inside, tuple(x for x in range(len(collection.categories)) if x not in inside)), splits=splits)

    @property
    def n_categories(self) -> int:  # type: ignore[override]
        """Number of categories, a."""
        return sum(map(len, self.blocks))

    def describe(self) -> str:
        inner = list(dict.fromkeys(prior.describe() for prior in self._inner))
        return f"{self._top.describe()} for the shares of blocks, {' and '.join(inner)} for their splits"

    def to_dict(self) -> dict[str, np.ndarray]:
        place = np.empty(self.n_categories, dtype=int)
        for g, block in enumerate(self.blocks):
            place[list(block)] = g
        named = [("shares", self._top), *((f"split_{k}", prior) for k, prior in enumerate(self._inner))]
        numbers = {f"{name}_{key}": value for name, prior in named for key, value in prior.to_dict().items()}
        return {"block": place, **numbers}
