"""Devices whose probabilities are not known exactly: the laws of their parameters, and what a device does in outcomes."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ldpbayes import checks
from ldpbayes.errors import ArgumentError, shown

#: What a probability of a design may be, in words.
RULE = "an Uncertain, such as Uncertain.counted([90, 30]), in files {counted = [yes, no]} or {concentrations = [b, c]}"


@dataclass(frozen=True)
class Uncertain:
    """A probability of a device that is not known exactly: p ~ Beta(b, c); of several that add up to one, Dirichlet.

    Parameters
    ----------
    concentrations : sequence of float
        b and c, or one for each of several shares; above zero.

    Examples
    --------
    A spinner that stopped on the sensitive statement 70 times in 100 trials, under a flat prior:

    >>> Uncertain.counted([70, 30])
    Uncertain(concentrations=(71.0, 31.0))
    """

    concentrations: tuple[float, ...]

    def __post_init__(self):
        rule = "two concentrations above 0, or more"
        each = checks.entries(self.concentrations, "concentrations", rule)
        if len(each) < 2:
            raise ArgumentError(f"concentrations must be {rule}, got {shown(self.concentrations)}.")
        object.__setattr__(self, "concentrations", tuple(checks.positive(x, "concentrations") for x in each))

    @classmethod
    def counted(cls, counts: Sequence[float]) -> "Uncertain":
        """Return the law after trials, under a flat prior: one is added to each count.

        Parameters
        ----------
        counts : sequence of float
            Successes and failures: how often the event of the probability came in trials, and how often it did not; or how
            often each of several came. 90 successes in 120 trials are ``[90, 30]``, not ``[90, 120]``.

        Examples
        --------
        >>> Uncertain.counted([90, 30]).describe()
        'Beta(91, 31)'
        """
        each = checks.entries(counts, "counts", "how often each event came")
        numbers = [checks.real(x, "counts", "numbers, 0 or more") for x in each]
        if not all(x >= 0 for x in numbers):
            raise ArgumentError(f"counts must be 0 or more, got {shown(counts)}.")
        return cls(tuple(1 + x for x in numbers))

    @classmethod
    def stated(cls, value: Any, name: str, size: int | None = 2) -> "Uncertain | None":
        """Return the law that a user or a file states for a parameter of a design; None where it is a number or numbers."""
        if isinstance(value, Mapping):
            if len(value) != 1 or not set(value) <= {"counted", "concentrations"}:
                raise ArgumentError(f"{name} must be a probability, or {RULE}, got {shown(value)}.")
            value = cls.counted(value["counted"]) if "counted" in value else cls(value["concentrations"])
        if isinstance(value, cls) and size is not None and len(value.concentrations) != size:
            raise ArgumentError(f"{name} must be an Uncertain of {size} concentrations, got {shown(value)}.")
        return value if isinstance(value, cls) else None

    @property
    def mean(self) -> np.ndarray:
        """Means of the shares, which add up to one; the first is that of p."""
        return np.array(self.concentrations) / sum(self.concentrations)

    def setting(self) -> dict[str, list[float]]:
        """Return the law as a file states it."""
        return {"concentrations": list(self.concentrations)}

    def describe(self) -> str:
        """Return the law in words, such as "Beta(71, 31)"."""
        name = "Beta" if len(self.concentrations) == 2 else "Dirichlet"
        return f"{name}({', '.join(f'{x:g}' for x in self.concentrations)})"


def laws_in(settings: Mapping[str, Any]) -> dict[str, Uncertain]:
    """Return the parameters of a design that are not known exactly, by name."""
    return {name: value for name, value in settings.items() if isinstance(value, Uncertain)}


@dataclass(frozen=True, eq=False)
class DeviceLaw:
    """The law of a channel whose probabilities are products of unknown shares, each with a Dirichlet law.

    A device does one of several things to a person of category x, its outcomes e, and each of these has a known channel:
    Q[y, x] = Σ_{e of x} kernel[y, e] Π_k θ_k[places[k, e]].

    Attributes
    ----------
    unknowns : tuple of (tuple, Uncertain)
        What the shares of each θ_k are called, and its law. A name is a text, empty where the share follows from the others,
        or the places (report, category) of an entry of a matrix.
    category : (E,) int array
        The category of each outcome; the first of every category come first, in their order.
    places : (K, E) int array
        Which of the shares θ_k an outcome has; −1 where it has none of them.
    kernel : (b, E) array
        P(report | outcome).
    """

    unknowns: tuple[tuple[tuple, Uncertain], ...]
    category: np.ndarray
    places: np.ndarray
    kernel: np.ndarray

    @classmethod
    def of_counts(cls, counts: np.ndarray, possible: np.ndarray) -> "DeviceLaw":
        """Return the law of a channel whose columns are Dirichlet(counts + 1), each by itself.

        Parameters
        ----------
        counts : (b, a) array
            Reports y of people who are known to be x.
        possible : (b, a) bool array
            Which reports can come at all.
        """
        (b, a), unknowns, places = counts.shape, [], []
        first = [np.flatnonzero(possible[:, x]) for x in range(a)]
        pairs = [(x, ys[0]) for x, ys in enumerate(first)] + [(x, y) for x, ys in enumerate(first) for y in ys[1:]]
        category, report = np.array(pairs).T
        for x, ys in enumerate(first):
            if ys.size > 1:
                law = Uncertain.counted(counts[ys, x])
                kept = ys if ys.size > 2 else ys[[law.mean.argmax()]]  # of two shares one says all
                unknowns.append((tuple((int(y), x) if y in kept else "" for y in ys), law))
                places.append(np.where(category == x, np.searchsorted(ys, report), -1))
        return cls(tuple(unknowns), category, np.array(places).reshape(-1, category.size), np.eye(b)[:, report])

    @classmethod
    def of_design(cls, channel: Callable[..., Any], laws: Mapping[str, Uncertain], vectors: Sequence[str]) -> "DeviceLaw":
        """Return the law of a design whose channel is linear in each of its uncertain parameters.

        Parameters
        ----------
        channel : callable
            Values of the parameters by name → matrix (b, a).
        laws : mapping of str to Uncertain
        vectors : sequence of str
            Parameters that are all shares, not the first of two.
        """
        sizes = [len(law.concentrations) for law in laws.values()]
        corners = list(itertools.product(*map(range, sizes)))
        kernels = []
        for corner in corners:
            at = {
                name: np.eye(size)[u] if name in vectors else float(u == 0)
                for name, size, u in zip(laws, sizes, corner, strict=True)
            }
            kernels.append(np.asarray(channel(**at), dtype=float))
        a = kernels[0].shape[1]
        places = np.repeat(np.array(corners).T, a, axis=1)
        named = tuple(
            (tuple(f"{name} {u}" for u in range(1, size + 1)) if name in vectors else (name, ""), law)
            for (name, law), size in zip(laws.items(), sizes, strict=True)
        )
        return cls(named, np.tile(np.arange(a), len(corners)), places, np.concatenate(kernels, axis=1))

    def __eq__(self, other):
        same = isinstance(other, DeviceLaw) and self.unknowns == other.unknowns
        pairs = (getattr(self, name) for name in ("category", "places", "kernel"))
        return same and all(map(np.array_equal, pairs, (other.category, other.places, other.kernel)))

    def __hash__(self):
        return hash((self.unknowns, self.category.tobytes(), self.kernel.tobytes()))

    @property
    def owners(self) -> tuple[int, ...]:
        """The category of each outcome after the first ones."""
        return tuple(map(int, self.category[self.category.max() + 1 :]))

    def shares(self, theta: Sequence[Any], xp: Any = np) -> list[Any]:
        """Return what each θ_k (…, m_k) gives the outcomes, (…, E): one where an outcome has none of its shares."""
        whole = [xp.concatenate([x, xp.ones_like(x[..., :1])], axis=-1) for x in theta]
        return [x[..., at % x_size] for x, at, x_size in zip(whole, self.places, self._sizes, strict=True)]

    def outcomes(self, p: Any, theta: Sequence[Any], xp: Any = np) -> Any:
        """Return the probabilities of the outcomes (…, E) of distributions p (…, a) and shares θ_k (…, m_k)."""
        out = p[..., self.category]
        for share in self.shares(theta, xp):
            out = out * (share[..., None, :] if p.ndim > share.ndim else share)  # of cells, the device is one for all
        return out

    def theta_of(self, named: Callable[[str], np.ndarray]) -> list[np.ndarray]:
        """Return the shares θ_k (…, m_k) from a function of their names; the share without a name is one less the others."""
        out = []
        for names, _ in self.unknowns:
            stated = {u: named(name) for u, name in enumerate(names) if name}
            rest = 1 - sum(stated.values())
            out.append(np.stack([stated.get(u, rest) for u in range(len(names))], axis=-1))
        return out

    @property
    def _sizes(self):
        return [len(law.concentrations) + 1 for _, law in self.unknowns]

    def channel(self, theta: Sequence[np.ndarray]) -> np.ndarray:
        """Return Q (…, b, a) where the unknown shares θ_k are (…, m_k)."""
        each = np.prod(np.stack(self.shares(theta)), axis=0)
        return (each[..., None, :] * self.kernel) @ np.eye(self.category.max() + 1)[self.category]

    @property
    def mean(self) -> np.ndarray:
        """E[Q], (b, a): the unknown shares are independent."""
        return self.channel([law.mean for _, law in self.unknowns])

    @property
    def of_all_columns(self) -> bool:
        """Whether each unknown share is in the column of every category, so that none hangs on one of them."""
        seen = [np.unique(self.category[places >= 0]).size for places in self.places]
        return min(seen) == self.category.max() + 1

    def exchangeable(self, size: int) -> list[tuple[int, int]]:
        """Return the pairs of categories whose columns lie nearer to each other's mean than to their own in some draw.

        Where none of ``size`` draws has them so, the law has hardly more than 1/size of its mass there.
        """
        drawn, mean, size_a = self.channel(self.sample(size, np.random.default_rng(0))), self.mean, self.category.max() + 1
        apart = ((drawn[..., None] - mean[:, None, :]) ** 2).sum(axis=-3)  # (draws, column, mean of a column)
        pairs = itertools.combinations(range(size_a), 2)
        return [(x, y) for x, y in pairs if (apart[:, [x, y], [y, x]].sum(1) < apart[:, [x, y], [x, y]].sum(1)).any()]

    def sample(self, size: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Return draws of each θ_k, (size, m_k)."""
        return [rng.dirichlet(law.concentrations, size) for _, law in self.unknowns]

    def named(self, names: Sequence[tuple[str, ...]]) -> "DeviceLaw":
        """Return this law with other names of the shares of each unknown."""
        pairs = tuple((name, law) for name, (_, law) in zip(names, self.unknowns, strict=True))
        return replace(self, unknowns=pairs)

    def beside(self, others: "Sequence[DeviceLaw]", most: int) -> "tuple[DeviceLaw, list[np.ndarray]]":
        """Return the law of independent devices together, and the outcome of each device in each of its.

        Its kernel has the reports of one device after those of the other.

        Parameters
        ----------
        others : sequence of DeviceLaw
            Over the same categories.
        most : int
            Outcomes.

        Raises
        ------
        ArgumentError
            Where there are more outcomes.
        """
        laws, a = [self, *others], int(self.category.max()) + 1
        of_each = [[np.flatnonzero(law.category == x) for law in laws] for x in range(a)]
        size = sum(np.prod([float(found.size) for found in each]) for each in of_each)
        if size > most:
            raise ArgumentError(
                f"devices must have at most {most:,} outcomes together, got {size:,.0f}: fewer devices with uncertain "
                "probabilities, or fewer shares of each."
            )
        combos = [list(itertools.product(*each)) for each in of_each]
        rows = [(x, *each[0]) for x, each in enumerate(combos)]
        rows += [(x, *combo) for x, each in enumerate(combos) for combo in each[1:]]
        category, *outcome = np.array(rows).T
        places = np.concatenate([law.places[:, at] for law, at in zip(laws, outcome, strict=True)])
        unknowns = tuple(itertools.chain.from_iterable(law.unknowns for law in laws))
        kernel = np.concatenate([law.kernel[:, at] for law, at in zip(laws, outcome, strict=True)])
        return DeviceLaw(unknowns, category, places, kernel), outcome


__all__ = ["Uncertain"]
