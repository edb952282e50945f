"""A product: categories that join several attributes, which are independent."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ldpbayes import checks
from ldpbayes.errors import ArgumentError
from ldpbayes.priors.naming import as_prior
from ldpbayes.priors.parts import AbstractParts

if TYPE_CHECKING:
    from pytensor.tensor.variable import TensorVariable

    from ldpbayes.priors.base import AbstractPrior


@dataclass(frozen=True, eq=False)
class Product(AbstractParts):
    """P = θ_1 ⊗ θ_2 ⊗ …: the attributes of a person are independent, and each has its own prior; the last varies fastest.

    Parameters
    ----------
    sizes : sequence of int
        How many values each attribute has.
    factors : str, float, array, AbstractPrior, or a list of these
        Prior of each θ, as ``fit`` takes one; one for all, or a list with one each.
    """

    sizes: tuple[int, ...]
    factors: object = "jeffreys"

    def __post_init__(self):
        rule = "numbers of values, one for each attribute"
        sizes = tuple(checks.integer(size, "sizes", 2) for size in checks.entries(self.sizes, "sizes", rule))
        factors = list(self.factors) if isinstance(self.factors, (list, tuple)) else [self.factors] * len(sizes)
        if not sizes or len(factors) != len(sizes):
            raise ArgumentError(f"sizes must be {rule}, and factors one prior or one for each, got {len(factors)}.")
        object.__setattr__(self, "sizes", sizes)
        object.__setattr__(self, "_parts", [as_prior(prior, size) for prior, size in zip(factors, sizes, strict=True)])

    @property
    def n_categories(self) -> int:  # type: ignore[override]
        """Number of categories, a."""
        return int(np.prod(self.sizes))

    @property
    def parts(self) -> "list[AbstractPrior]":
        """The priors of the attributes."""
        return self._parts  # type: ignore[attr-defined]  # set above

    def joined(self, parts: Sequence[Any], xp: Any = np) -> Any:
        out = parts[0]
        for part in parts[1:]:
            pairs = out[..., :, None] * part[..., None, :]
            out = xp.reshape(pairs, (*out.shape[:-1], out.shape[-1] * part.shape[-1]))
        return out

    def parted(self, p: np.ndarray) -> list[np.ndarray]:
        table, n = p.reshape(*p.shape[:-1], *self.sizes), len(self.sizes)
        return [table.sum(axis=tuple(k - n for k in range(n) if k != axis)) for axis in range(n)]

    def apart(self, parts: Sequence[np.ndarray], dp: np.ndarray) -> list[np.ndarray]:
        out = []
        for k, size in enumerate(self.sizes):
            others = self.joined([part if i != k else np.ones_like(part) for i, part in enumerate(parts)])
            slope = (dp * others).reshape(*dp.shape[:-1], *self.sizes)
            out.append(np.moveaxis(slope, dp.ndim - 1 + k, -1).reshape(*dp.shape[:-1], -1, size).sum(axis=-2))
        return out

    def pymc(self, name: str) -> "TensorVariable":
        import pytensor.tensor as pt

        return self.joined([prior.pymc(f"{name}_of_{k}") for k, prior in enumerate(self.parts)], pt)

    def describe(self) -> str:
        inner = list(dict.fromkeys(prior.describe() for prior in self.parts))
        return f"{' and '.join(inner)} for each of {len(self.sizes)} attributes, which are independent"

    def to_dict(self) -> dict[str, np.ndarray]:
        numbers = {f"factor_{k}_{key}": x for k, prior in enumerate(self.parts) for key, x in prior.to_dict().items()}
        return {"sizes": np.array(self.sizes), **numbers}
