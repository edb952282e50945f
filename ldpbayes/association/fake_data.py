"""One attribute of a person, drawn at random and hidden among fake answers to the others (RS+FD)."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ldpbayes import checks, entropy
from ldpbayes.association.sampled_attribute import AbstractCollected
from ldpbayes.errors import ArgumentError
from ldpbayes.likelihoods import AdditiveRows
from ldpbayes.protocols import bits

#: Fake answers by the base: uniform ones; noise about no value, or about a random one.
FAKES = {"grr": ("uniform",), "oue": ("zeros", "random"), "sue": ("zeros", "random")}


@dataclass(frozen=True)
class FakeData(AbstractCollected):
    """One of several attributes reported truly, the others by fake answers, so that nobody knows which (RS+FD).

    One attribute, drawn uniformly, is reported truly through Q^k, all others by fake answers with the law u.

    Q[y, x] = (1/d) Σ_k Q^k[y_k, x_k] Π_{j≠k} u_j(y_j). A fake answer is uniform with randomized response; with unary
    encodings it is the noise of an empty set ("zeros") or the report of a uniform value ("random"). Which attribute was
    drawn is not disclosed.

    Parameters
    ----------
    n_categories : int
        Number of cells of the joint table, the product of the sizes.
    epsilon : float
        LDP level of the whole record, which is that of the channels Q^k; ``amplified`` takes the level of one attribute.
    sizes : sequence of int
        Number of categories of each attribute.
    base : {"grr", "oue", "sue"}
        The channels Q^k.
    fake : {"uniform", "zeros", "random"}

    Notes
    -----
    The published level of RS+FD, ε with channels at ε′ = ln(d(e^ε − 1) + 1), protects one attribute while the others stay
    as they are, and does so exactly for "zeros" and for attributes of equal sizes with "uniform". Two records that differ
    in every attribute can be distinguished at level ε′. ``epsilon`` is ε′ and ``attribute_epsilon`` the exact level of one
    attribute. Given the record, a report depends on one attribute at a time: no association is identified. In a collection
    file attribute_epsilon may stand in place of epsilon. See docs/theory/association.md.

    References
    ----------
    Arcolezi, Couchot, Al Bouna, Xiao (2021), CIKM, §3.2–3.4.

    Examples
    --------
    >>> rs = FakeData.amplified((2, 2), 1.0, "grr", "uniform")
    >>> round(rs.epsilon, 6), round(rs.attribute_epsilon, 6)
    (1.48988, 1.0)
    """

    n_categories: int
    epsilon: float
    sizes: tuple[int, ...]
    base: str
    fake: str
    name: ClassVar[str] = "rs_fd"
    file_parameters: ClassVar[str] = (
        "epsilon or attribute_epsilon; sizes, base (grr, oue or sue), fake (uniform, zeros or random)"
    )

    def __post_init__(self):
        super().__post_init__()
        checks.choice(self.fake, "fake", FAKES[self.base])

    @classmethod
    def amplified(cls, sizes, epsilon: float, base: str, fake: str) -> "FakeData":
        """Return RS+FD with channels at ε′ = ln(d(e^ε − 1) + 1), which is published as protecting each attribute at ε.

        Parameters
        ----------
        sizes : sequence of int
        epsilon : float
            Level of one attribute.
        base : {"grr", "oue", "sue"}
        fake : {"uniform", "zeros", "random"}

        Returns
        -------
        FakeData

        Raises
        ------
        ArgumentError
            If an argument breaks its rule.
        """
        sizes = checks.attribute_sizes(sizes)
        inner = math.log1p(len(sizes) * math.expm1(checks.epsilon(epsilon, "attribute_epsilon")))
        return cls(math.prod(sizes), inner, sizes, base, fake)

    @property
    def attribute_epsilon(self) -> float:
        """Exact level at which any one attribute is protected while the others stay as they are.

        With r = Q^k/u, the largest over k of log [(max r_k + R)/(min r_k + R)], R the sum of the others' least r.
        """
        grown = math.exp(self.epsilon)
        if self.fake == "zeros":  # r is 1/(1 + βλ), or e^ε′ times that; λ does not depend on the size
            return math.log1p(self.beta / len(self.sizes))
        if self.fake == "uniform":
            low = least = [size / (size + self.beta) for size in self.sizes]
        else:  # sets with one member of k against sets of all but one of the others
            low = [size / (grown + size - 1) for size in self.sizes]
            least = [size / ((size - 1) * grown + 1) for size in self.sizes]
        total = sum(least)
        return max(math.log1p(self.beta * x / (x + total - y)) for x, y in zip(low, least, strict=True))

    # ---- server ----------------------------------------------------------------------------------------------------------
    def rows(self, reports, counts):
        factors, index, log_constants = [], [], 0.0
        for coder, matrix, constants, place in self.coded_rows(reports):
            # u = e^constant × scale: a uniform answer and the report of a uniform value are means over the values.
            mean = matrix.mean(axis=1)
            scale = np.full(len(mean), 1 + self.beta * coder.protocol.lam) if self.fake == "zeros" else mean
            factors.append(matrix / (len(self.sizes) * scale[:, None]))
            index.append(place)
            log_constants = log_constants + (constants + np.log(scale))[place]
        return AdditiveRows(factors, np.stack(index, axis=1), counts, log_constants)

    # ---- client ----------------------------------------------------------------------------------------------------------
    def randomize(self, values, rng):
        levels = np.unravel_index(values, self.sizes)
        drawn = rng.integers(len(self.sizes), size=values.size)
        out = np.empty((values.size, len(self.sizes)), dtype=np.int64)
        for k, (coder, x) in enumerate(zip(self.coded, levels, strict=True)):
            if self.fake == "zeros":
                faked = coder.encode(bits.bernoulli(values.size, self.sizes[k], coder.protocol.lam, rng))
            else:
                faked = coder.privatize(rng.integers(self.sizes[k], size=values.size), rng)
            out[:, k] = np.where(drawn == k, coder.privatize(x, rng), faked)
        return out

    def randomize_one(self, value):
        levels = np.unravel_index(value, self.sizes)
        drawn = entropy.below(len(self.sizes))
        out = []
        for k, (coder, x) in enumerate(zip(self.coded, levels, strict=True)):
            # A true and a fake answer are drawn for every attribute, whichever is sent.
            answers = [self._fake_one(coder), coder.privatize_one(int(x))]
            out.append(answers[int(drawn == k)])
        return np.array(out, dtype=np.int64)

    def _fake_one(self, coder):
        if self.fake == "uniform":
            return entropy.below(coder.protocol.n_categories)
        if self.fake == "random":
            return coder.privatize_one(entropy.below(coder.protocol.n_categories))
        return coder.encode_one(coder.protocol.empty_one())

    # ---- parameters ------------------------------------------------------------------------------------------------------
    @classmethod
    def from_parameters(cls, categories, parameters):
        if "attribute_epsilon" not in parameters:
            return super().from_parameters(categories, parameters)
        given = dict(parameters)
        if set(given) != {"attribute_epsilon", "sizes", "base", "fake"}:
            raise ArgumentError(f"rs_fd takes attribute_epsilon, sizes, base and fake, got {', '.join(given)}.")
        return cls.amplified(given["sizes"], given["attribute_epsilon"], given["base"], given["fake"])
