"""RAPPOR: cohorts of Bloom filters whose bits are randomized once for good and again for every report."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ldpbayes import checks, entropy, hashing
from ldpbayes.arrays import groups_of
from ldpbayes.errors import ArgumentError, DataError, InfeasibleError, shown
from ldpbayes.likelihoods import LevelRows, SupportRows
from ldpbayes.protocols import bits
from ldpbayes.protocols.base import (
    MAX_CHANNEL_ENTRIES,
    AbstractProtocol,
    Rated,
    RatedForm,
    SizeLaw,
    float_above,
    independent_sizes,
    log_above,
)
from ldpbayes.protocols.constants import MAX_HASHES
from ldpbayes.protocols.decoding import DesignDecoder
from ldpbayes.protocols.formats import CohortSets, join_cohorts, split_cohorts
from ldpbayes.protocols.labels import check_order
from ldpbayes.protocols.laws import BitLaw, SupportLaw
from ldpbayes.protocols.respondents import AbstractLaw

ASSIGNMENTS = ("label", "md5", "positions", "direct")
_FLOOR = Context(prec=60, rounding=ROUND_FLOOR)


@dataclass(frozen=True)
class UnlistedWords(AbstractLaw):
    """How people report whose word is no candidate: h bits B of the filter are drawn at random, with replacement.

    P(report) = (1/C) E_B Π_b Bernoulli(y_b; q* if b ∈ B else p*), which depends on the number of ones alone. People with one
    word in one cohort share B. Each by itself has this law, but they depend on each other, so that it serves for words of
    which each has few people. ``check`` tests the bits: few words with many set some bits more often than others.
    """

    def log_probabilities(self, protocol, reports):
        ones, place = np.unique(bits.sizes(split_cohorts(reports)[1]), return_inverse=True)
        log_one, log_zero, held_gain, missed = protocol._logs
        k, h, ones = protocol.n_bits, protocol.hashes, ones[:, None, None]
        held, clear = np.arange(h + 1)[:, None], np.arange(h + 1)  # different bits drawn, of the ones and of the zeros
        chances = np.zeros((len(ones), h + 1, h + 1))
        chances[:, 0, 0] = 1.0
        for _ in range(h):
            to_one, to_zero = chances * (ones - held) / k, chances * (k - ones - clear) / k
            chances = chances * (held + clear) / k
            chances[:, 1:] += to_one[:, :-1]
            chances[:, :, 1:] += to_zero[:, :, :-1]
        weights = np.exp(held * held_gain + clear * missed)
        base = ones.ravel() * log_one + (k - ones.ravel()) * log_zero - math.log(protocol.cohorts)
        return (base + np.log((chances * weights).sum(axis=(1, 2))))[place]

    def draw(self, protocol, size, rng):
        cohorts = rng.integers(protocol.cohorts, size=size)
        return protocol._reported(cohorts, rng.integers(protocol.n_bits, size=(protocol.hashes, size)), rng)

    def draw_one(self, protocol):
        positions = [entropy.below(protocol.n_bits) for _ in range(protocol.hashes)]
        return protocol.instantaneous_one(protocol._permanent(lambda cohort: positions))

    def setting(self):
        return "unlisted"


@dataclass(frozen=True)
class Rappor(AbstractProtocol):
    """Words of an open vocabulary: Bloom filters with noise on their bits, in cohorts (RAPPOR).

    The bits are those of RAPPOR(p, q, f).

    The report is (cohort, bits). Permanently, each bit of the value's filter is replaced by a fair coin with probability f;
    then a set bit is reported as one with probability q, a clear bit with probability p. In all, bits are independent with
    q* = q − f(q − p)/2 where the filter is set and p* = p + f(q − p)/2 elsewhere:
    Q[(c, y), x] = (1/C) Π_b Bernoulli(y_b; q* if b ∈ B_c(x) else p*).

    Parameters
    ----------
    n_categories : int
        Size of the alphabet or of the set of candidates, at least two.
    p, q, f : float
        0 ≤ p < q ≤ 1 and 0 ≤ f < 1. f = 0 has no permanent randomization; p = 0, q = 1 no instantaneous one.
    n_bits, cohorts, hashes : int
        Bits k of a filter, cohorts C, hashes h ≤ 15.
    assignment : {"label", "md5", "positions", "direct"}
        "label": bits from the hash of the candidate string (open alphabet, any string may be reported). "md5": the filters
        of google/rappor, bit i of a string is byte i of MD5 of the cohort (four bytes, the highest first) and the string,
        modulo k. "positions": an explicit map. "direct": bit x for category x, one cohort, no hashing (basic RAPPOR; k is
        the number of categories).
    candidates : sequence of str, optional
        The strings of "label" and "md5"; in a collection file, the categories' labels unless stated.
    positions : nested sequence, optional
        positions[x][c] lists the bits, from zero, that category x sets in cohort c; see ``from_map``. In a collection
        file one text per category, "0 5;2 7": bits by spaces, cohorts by semicolons.
    seed : int
        Seed of the hash functions of "label".

    Attributes
    ----------
    epsilon : float
        That of one report, the same as ``epsilon_one_time``; ``epsilon_longitudinal`` bounds any number of reports.
        Both are worst cases over all pairs of strings (filters that differ in 2h bits), for any candidates.

    Notes
    -----
    Reports are (m, 4 + ⌈k/8⌉) bytes, the cohort in four big-endian bytes and then the packed bits (bit 0 first);
    a pair (cohorts, bits) is accepted too. With h = 1 the rows are two-level, with h > 1 they have one level per count of
    a candidate's bits that the report holds. The oracle is the least squares of bit counts on the filters, unbiased where
    those have full column rank. Marginal bit counts alone are reports of ``RapporBits``. They have a known law, and
    ``simulate_bit_counts`` draws them in O(C (a + k)); whole reports are drawn user by user, vectorized.

    References
    ----------
    Erlingsson, Pihur, Korolova (2014), Theorems 1 and 2; Kairouz, Bonawitz, Ramage (2016), §5.2.

    Examples
    --------
    >>> protocol = Rappor.direct(3, p=0.25, q=0.75, f=0.5)
    >>> round(protocol.epsilon_one_time, 3), round(protocol.epsilon_longitudinal, 3)
    (1.022, 2.197)
    """

    n_categories: int
    p: float
    q: float
    f: float
    n_bits: int
    cohorts: int
    hashes: int
    assignment: str = "label"
    candidates: tuple[str, ...] | None = None
    positions: tuple | None = None
    seed: int = 0
    name: ClassVar[str] = "rappor"
    report_fields: ClassVar[tuple[str, ...]] = ("cohort", "bits")

    def __post_init__(self):
        put = lambda name, value: object.__setattr__(self, name, value)  # noqa: E731
        put("n_categories", checks.categories_count(self.n_categories))
        put("p", checks.probability(self.p, "p", open_high=True))
        put("q", checks.probability(self.q, "q", open_low=True))
        put("f", checks.probability(self.f, "f", open_high=True))
        if not self.p < self.q:
            raise ArgumentError(f"q must be above p ({self.p!r}), got {self.q!r}.")
        put("n_bits", checks.integer(self.n_bits, "n_bits", 1, hashing.MAX_BUCKETS))
        put("cohorts", hashing.check_cohorts(self.cohorts))
        put("hashes", checks.integer(self.hashes, "hashes", 1, MAX_HASHES))
        hashing.check_table(self.cohorts, self.hashes, self.n_categories)
        hashing.check_table(self.n_bits, self.n_categories)
        put("seed", checks.integer(self.seed, "seed", 0, hashing.MAX_SEED - 1))
        checks.choice(self.assignment, "assignment", ASSIGNMENTS)
        for field, *owners in (("candidates", "label", "md5"), ("positions", "positions")):
            if (getattr(self, field) is not None) and self.assignment not in owners:
                raise ArgumentError(f"{field} must be left out unless assignment is {owners}, got {self.assignment!r}.")
        if self.assignment in ("label", "md5"):
            put("candidates", hashing.check_labels(self.candidates, self.n_categories))
        elif self.assignment == "positions":
            put("positions", self._stated_positions())
        elif (self.n_bits, self.cohorts, self.hashes) != (self.n_categories, 1, 1):
            raise ArgumentError('n_bits must be n_categories, cohorts and hashes 1 where assignment is "direct".')
        if self._ratio is None or not self.epsilon <= checks.MAX_EPSILON:
            raise ArgumentError(
                f"p, q and f must leave a report at most {checks.MAX_EPSILON:g} nats, got p = {self.p!r}, q = {self.q!r}, "
                f"f = {self.f!r} with {self.hashes} hashes."
            )

    # ---- constructors ------------------------------------------------------------------------------------------------
    @classmethod
    def one_time(
        cls, n_categories: int, epsilon: float, n_bits: int, cohorts: int, hashes: int = 1, **settings: Any
    ) -> "Rappor":
        """Return O-RAPPOR(k, C, h): every bit kept with probability e^{ε/2h}/(1 + e^{ε/2h}), once and for good.

        p = 0, q = 1, f = 2/(1 + e^{ε/2h}) rounded up: sending the same report again costs no further privacy.

        Parameters
        ----------
        n_categories : int
            Number of categories, a ≥ 2.
        epsilon : float
            LDP level in nats.
        n_bits : int
            Bits per filter, k.
        cohorts : int
            Number of cohorts C.
        hashes : int
            Hash functions per filter, h.
        **settings
            Other fields.

        Returns
        -------
        Rappor

        Raises
        ------
        ArgumentError
            If an argument breaks its rule.
        """
        epsilon = checks.epsilon(epsilon)
        hashes = checks.integer(hashes, "hashes", 1, MAX_HASHES)
        f = float_above(2 / (1 + entropy.exp_below(_FLOOR.divide(Decimal(epsilon), Decimal(2 * hashes)))))
        return cls(n_categories, 0.0, 1.0, f, n_bits, cohorts, hashes, **settings)

    @classmethod
    def direct(cls, n_categories: int, p: float, q: float, f: float) -> "Rappor":
        """Return basic RAPPOR: one bit per category, no hashing; unary encoding UE(q*, p*) in its rows.

        Parameters
        ----------
        n_categories : int
            Number of categories, a ≥ 2.
        p : float
            Probability of reporting a one where the permanent bit is zero.
        q : float
            Probability of reporting a one where the permanent bit is one.
        f : float
            Noise of the permanent bits.

        Returns
        -------
        Rappor

        Raises
        ------
        ArgumentError
            If an argument breaks its rule.
        """
        return cls(n_categories, p, q, f, n_categories, 1, 1, "direct")

    @classmethod
    def from_map(
        cls, lines: Iterable[str], p: float, q: float, f: float, n_bits: int, cohorts: int, hashes: int
    ) -> "Rappor":
        """Return the protocol of a map as RAPPOR's own tools write it.

        Parameters
        ----------
        lines : sequence of (candidate, indices)
            Indices count from one through the cohorts: bit b of cohort c, both from zero, is 1 + c·n_bits + b.
        """
        n_bits, cohorts = checks.integer(n_bits, "n_bits", minimum=1), hashing.check_cohorts(cohorts)
        rule = "pairs of a candidate and its indices"
        positions: Any = []
        for line in checks.entries(lines, "lines", rule):
            if not isinstance(line, (tuple, list)) or len(line) != 2:
                raise ArgumentError(f"lines must be {rule}, got {shown(line)}.")
            candidate, indices = line
            cells: list[list[int]] = [[] for _ in range(cohorts)]
            for index in checks.entries(indices, "indices", rule):
                index = checks.integer(index, "indices")
                if not 1 <= index <= cohorts * n_bits:
                    raise DataError(f"index {index} of candidate {candidate!r} is outside 1..{cohorts * n_bits}")
                cells[(index - 1) // n_bits].append((index - 1) % n_bits)
            positions.append(cells)
        return cls(len(positions), p, q, f, n_bits, cohorts, hashes, "positions", positions=positions)

    # ---- privacy -----------------------------------------------------------------------------------------------------
    @property
    def rates(self):
        """(q*, p*): probabilities that a bit is reported as one where the filter is set and where it is not."""
        on, off = self.exact_rates
        return float(on), float(off)

    @cached_property
    def epsilon_one_time(self) -> float:
        """h log[q*(1 − p*) / (p*(1 − q*))], rounded up to a float: the level of one report."""
        return log_above(self._ratio, self.hashes)

    @property
    def epsilon(self) -> float:  # type: ignore[override]
        return self.epsilon_one_time

    @property
    def epsilon_longitudinal(self) -> float:
        """2h log[(1 − f/2) / (f/2)]: the level of any number of reports on one memoized filter; inf at f = 0."""
        if self.f == 0:
            return math.inf
        f = Fraction(self.f)
        return log_above((2 - f) / f, 2 * self.hashes)

    @property
    def hit_rates(self):
        return self.rates if self.assignment == "direct" else None

    @property
    def support_sizes(self):
        return independent_sizes(self.n_categories, self.rates) if self.assignment == "direct" else None

    def size_law(self):
        """Return the law of the weighted number of bits: of those of a filter, the weights add up to the same for all."""
        return self._size_law

    @cached_property
    def _size_law(self):
        weights, held, off_by = self._bit_weights
        (on, off), n_cohorts = self.rates, self.cohorts
        if off_by > 1e-9:
            return None
        squares = np.zeros((n_cohorts, self.n_categories))
        for positions in self.table.transpose(1, 0, 2):
            squares += np.where(positions >= 0, np.take_along_axis(weights, positions % self.n_bits, axis=1), 0.0) ** 2
        means = off * weights.sum(axis=1)[:, None] + (on - off) * held
        spread = off * (1 - off) * (weights**2).sum(axis=1)[:, None] + (on * (1 - on) - off * (1 - off)) * squares
        variance = (spread.mean(axis=0) + means.var(axis=0)).max()  # of values they differ by a per cent at most
        return SizeLaw(float(means.mean()), float(variance), (on - off) * float(held.mean()))

    def report_sizes(self, reports):
        cohorts, packed = split_cohorts(reports)
        out, weights = np.empty(len(reports)), self._bit_weights[0]
        for c, users in groups_of(cohorts):
            out[users] = np.unpackbits(packed[users], axis=1, count=self.n_bits) @ weights[c]
        return out

    def at_level(self, epsilon):
        if (self.p, self.q) != (0.0, 1.0):
            return None
        f = Rappor.one_time(2, epsilon, 2, 1, self.hashes, candidates=("a", "b")).f
        other = replace(self, f=f)
        other.__dict__["_bit_weights"] = self._bit_weights  # which do not depend on the rates
        return other

    # ---- filters -----------------------------------------------------------------------------------------------------
    @cached_property
    def table(self):
        """Bits that category x sets in cohort c, table[c, j, x], shape (C, h, a); −1 for a bit already listed."""
        if self.assignment == "direct":
            table = np.arange(self.n_categories)[None, None, :].copy()
        elif self.assignment in ("label", "md5"):
            table = self._label_positions(self.candidates)
        else:
            table = np.full((self.cohorts, self.hashes, self.n_categories), -1)
            for x, cells in enumerate(self.positions):
                for c, cell in enumerate(cells):
                    table[c, : len(cell), x] = cell
        for j in range(1, table.shape[1]):
            table[:, j][(table[:, :j] == table[:, j : j + 1]).any(axis=1)] = -1
        table.setflags(write=False)
        return table

    @cached_property
    def _bit_weights(self):
        """(weights of the bits (C, k), Σ of those that category x sets in cohort c (C, a), how far their means differ).

        Weights near one whose sum over a filter is the same for every category on average over the cohorts, so that the mean
        of the weighted number of bits does not depend on P. All are one with one hash.
        """
        cohort, place, x = np.nonzero(self.table >= 0)
        bit, shape = cohort * self.n_bits + self.table[cohort, place, x], (self.cohorts, self.n_categories)
        weights = np.ones(self.cohorts * self.n_bits)
        sums = np.bincount(x, minlength=self.n_categories)
        if np.ptp(sums):
            from scipy.sparse import csr_array
            from scipy.sparse.linalg import lsqr

            filters = csr_array((np.ones(x.size), (x, bit)), shape=(self.n_categories, weights.size))
            weights -= lsqr(filters, sums - sums.mean(), atol=1e-15, btol=1e-15, iter_lim=1000)[0]
        held = np.bincount(cohort * self.n_categories + x, weights[bit], self.cohorts * self.n_categories).reshape(shape)
        return weights.reshape(self.cohorts, self.n_bits), held, float(np.ptp(held.mean(axis=0)))

    def filters(self, cohort):
        """Return the filters of a cohort, X[b, x] = [b ∈ B_c(x)], shape (k, a) float."""
        out = np.zeros((self.n_bits, self.n_categories))
        for positions in self.table[cohort]:
            set_here = np.flatnonzero(positions >= 0)
            out[positions[set_here], set_here] = 1
        return out

    def identifying_matrix(self):
        """Return the indicators of the distinct filters of every cohort: bits are invertible noise on top of them."""
        if self.cohorts * self.n_categories**2 > MAX_CHANNEL_ENTRIES:
            raise InfeasibleError(f"{self.name} with {self.n_categories} candidates is too large to check for rank.")
        blocks = []
        for positions in np.sort(self.table, axis=1):
            _, which = np.unique(positions, axis=1, return_inverse=True)
            blocks.append(np.arange(which.max() + 1)[:, None] == which.ravel())
        return np.concatenate(blocks).astype(float)

    # ---- reports -----------------------------------------------------------------------------------------------------
    @property
    def n_outputs(self):
        return self.cohorts * 2**self.n_bits if self.n_bits <= 16 and self.cohorts <= 2**16 else None

    def list_reports(self):
        sets = bits.every_set(self.n_bits)
        return join_cohorts(np.repeat(np.arange(self.cohorts), len(sets)), np.tile(sets, (self.cohorts, 1)))

    @property
    def default_labels(self):
        return self.candidates or super().default_labels

    def check_categories(self, categories):
        check_order(categories, self.candidates or (), f"candidates of {self.name}")

    @property
    def report_format(self):
        return CohortSets(self.cohorts, self.n_bits)

    def report_columns(self, reports, categories):
        return split_cohorts(reports)

    # ---- server ------------------------------------------------------------------------------------------------------
    def rows(self, reports, counts):
        cohorts, packed = split_cohorts(reports)
        log_one, log_zero, held_gain, missed = self._logs
        ones = bits.sizes(packed)
        log_constants = ones * log_one + (self.n_bits - ones) * log_zero - math.log(self.cohorts)
        matches = np.empty((len(reports), self.n_categories), dtype=np.uint8)
        for c, users in groups_of(cohorts):
            members = np.zeros((users.size, self.n_bits + 1), dtype=np.uint8)  # position −1 is the last, empty column
            members[:, :-1] = np.unpackbits(packed[users], axis=1, count=self.n_bits)
            matches[users] = sum(members[:, positions] for positions in self.table[c])
        # A bit of the candidate moves the log of the row by held_gain where the report holds it, else by missed.
        gain, h = held_gain - missed, self.hashes
        if h == 1:
            support = np.packbits(matches, axis=1)
            return SupportRows(support, math.expm1(gain), counts, self.n_categories, log_constants + missed)
        sizes = (self.table >= 0).sum(axis=1)  # (C, a)
        level = np.arange((h + 1) ** 2)
        hits, size = level % (h + 1), level // (h + 1)
        values = np.exp(hits * gain + (size - h) * missed)
        levels = matches + (h + 1) * sizes.astype(np.uint8)[cohorts]
        return LevelRows(levels, values, counts, hits, log_constants + h * missed)

    def rated(self):
        return RatedForm(self._of_rates, lambda on, off: replace(self, p=off, q=on, f=0.0))

    def _of_rates(self, reports):
        cohorts, packed = split_cohorts(reports)
        members = np.unpackbits(packed, axis=1, count=self.n_bits)
        table = self.table[cohorts]
        held = np.take_along_axis(members[:, None], np.maximum(table, 0).reshape(len(reports), 1, -1), axis=2)
        hits = (held.reshape(table.shape) * (table >= 0)).sum(axis=1)
        return Rated(hits, (table >= 0).sum(axis=1), bits.sizes(packed), self.n_bits, -math.log(self.cohorts))

    def report_law(self):
        return SupportLaw.of_rates(self, *self.rates) if self.assignment == "direct" else BitLaw(self)

    @cached_property
    def meetings(self):
        """XᵀX of the stacked filters, whose entries count the bits that two candidates share."""
        return sum(filters.T @ filters for filters in self.incidences())

    set_bits = property(lambda self: (self.table >= 0).sum(axis=(0, 1)))
    design_words = property(lambda self: ("filters", f"{self.n_bits} bits"))

    def incidences(self):
        """Yield the filters of every cohort."""
        yield from map(self.filters, range(self.cohorts))

    @cached_property
    def _decoder(self):
        return DesignDecoder(self)

    def bit_counts(self, reports, counts):
        """Return how many reports of each cohort have each bit set, (C, k), and the sizes of the cohorts, (C,)."""
        cohorts, packed = split_cohorts(reports)
        totals = np.zeros((self.cohorts, self.n_bits), dtype=np.int64)
        for c, users in groups_of(cohorts):
            totals[c] = counts[users] @ np.unpackbits(packed[users], axis=1, count=self.n_bits).astype(np.int64)
        return totals, np.bincount(cohorts, counts, self.cohorts).astype(np.int64)

    # ---- client ------------------------------------------------------------------------------------------------------
    def randomize(self, values, rng):
        cohorts = rng.integers(self.cohorts, size=values.size)
        return self._reported(cohorts, (self.table[cohorts, j, values] for j in range(self.hashes)), rng)

    def _reported(self, cohorts, positions, rng):
        """Return reports of filters whose bits are given one after the other, h arrays (m,); −1 for a bit already listed."""
        on, off = self.rates
        packed, first = bits.bernoulli(cohorts.size, self.n_bits, off, rng), None
        for position in positions:
            # A repeated bit is drawn anew where it first stood, which leaves its law as it is.
            first = position if first is None else first
            bits.assign(packed, np.where(position >= 0, position, first), rng.random(cohorts.size) < on)
        return join_cohorts(cohorts, packed)

    def unlisted(self):
        return None if self.assignment == "direct" else UnlistedWords()

    def permanent_one(self, value, key):
        """Return a value's permanent report, a function of its filter and of the device's key.

        The cohort is one for the key, and each bit of the filter is a fair coin with probability f.
        """
        value = entropy.one_value(value, self.n_categories)
        return self._permanent(lambda cohort: self.table[cohort, :, value], entropy.secret_key(key))

    def permanent_label(self, label, key):
        """Return the permanent report of any string, a candidate or not ("label", "md5"); see ``permanent_one``."""
        if self.assignment not in ("label", "md5"):
            raise ArgumentError(f'permanent_label needs assignment "label" or "md5", got {self.assignment!r}.')
        positions = self._label_positions([entropy.one_label(label)])
        return self._permanent(lambda cohort: positions[cohort, :, 0], entropy.secret_key(key))

    def instantaneous_one(self, permanent):
        """Return one report on a memoized permanent one: set bits stay with probability q, clear ones turn with p."""
        cohorts, packed = split_cohorts(self.check_reports(checks.array_of(permanent, "permanent", "one report")[None]))
        _, p, q = self.thresholds
        members = np.unpackbits(packed[0], count=self.n_bits)
        reported = np.packbits([entropy.bernoulli((p, q)[bit]) for bit in members.tolist()])
        return join_cohorts(cohorts, reported[None])[0]

    def randomize_one(self, value):
        return self.instantaneous_one(self._permanent(lambda cohort: self.table[cohort, :, value]))

    def simulate_bit_counts(self, true_counts, rng):
        """Return (bit counts (C, k), cohort sizes (C,)) of a population; given the values all bits are independent."""
        true_counts = checks.counts(true_counts, "true_counts", self.n_categories)
        spread = rng.multinomial(true_counts, np.full(self.cohorts, 1 / self.cohorts)).T
        on, off = self.rates
        sizes = spread.sum(axis=1)
        set_counts = np.stack([self.filters(c) @ spread[c] for c in range(self.cohorts)]).astype(np.int64)
        return rng.binomial(set_counts, on) + rng.binomial(sizes[:, None] - set_counts, off), sizes

    # ---- parameters --------------------------------------------------------------------------------------------------
    def parameters(self):
        out = super().parameters()
        if self.positions:
            out["positions"] = [";".join(" ".join(map(str, cell)) for cell in cells) for cells in self.positions]
        return out

    @classmethod
    def from_parameters(cls, categories, parameters):
        """Return the protocol from its fields, or from epsilon in place of p, q and f (see ``one_time``)."""
        parameters = dict(parameters)
        if parameters.get("assignment", "label") == "label":
            parameters = {"candidates": tuple(categories)} | parameters
        elif parameters["assignment"] == "direct":
            parameters = {"n_bits": len(categories), "cohorts": 1, "hashes": 1} | parameters
        if "epsilon" in parameters:
            if {"p", "q", "f"} & set(parameters):
                raise ArgumentError("rappor takes either epsilon or p, q and f, got both.")
            epsilon = parameters.pop("epsilon")
            hashes = parameters.get("hashes", 1)
            given = cls.one_time(2, epsilon, 2, 1, hashes, candidates=("a", "b"))
            parameters |= {"p": given.p, "q": given.q, "f": given.f, "hashes": hashes}
        return super().from_parameters(categories, parameters)

    # ---- inside ------------------------------------------------------------------------------------------------------
    @cached_property
    def exact_rates(self):
        """(q*, p*) of p, q and f as the floats they are, as Fractions."""
        p, q, f = Fraction(self.p), Fraction(self.q), Fraction(self.f)
        return q - f * (q - p) / 2, p + f * (q - p) / 2

    @cached_property
    def _ratio(self):
        """Exact q*(1 − p*)/(p*(1 − q*)); None where it is infinite."""
        on, off = self.exact_rates
        return on * (1 - off) / (off * (1 - on)) if off and on < 1 else None

    @property
    def _logs(self):
        """Logs of p*, 1 − p*, q*/p* and (1 − q*)/(1 − p*), without cancellation where the rates are close to 0 or 1."""
        on, off = self.exact_rates
        clear, set_ = (math.log(off), math.log(1 - off)), (math.log(on), math.log(1 - on))
        return *clear, set_[0] - clear[0], set_[1] - clear[1]

    @cached_property
    def thresholds(self):
        """(f/2, p, q) of the client's two stages, as thresholds of ``entropy.bernoulli``."""
        # Rounded towards more noise (flips and p up, q down); exact unless a probability is below 2^-75. When both
        # probabilities are below 2^-128, q = p: a q rounded below p would invert the channel and weaken its privacy.
        scale = 2**entropy.BITS
        flip, p = (math.ceil(Fraction(x) * scale) for x in (self.f / 2, self.p))
        return flip, p, max(p, entropy.threshold_below(Fraction(self.q)))

    def _permanent(self, positions, key=None):
        """Return the permanent report in a cohort, where these positions are set: those of a key, or fresh ones."""
        public = (self.name, self.n_bits, self.cohorts, self.thresholds[0])
        with entropy.keyed(key, public):
            cohort = entropy.below(self.cohorts)
        filter_bits = np.zeros(self.n_bits + 1, dtype=bool)  # position −1, of a repeated bit, is the last one
        filter_bits[positions(cohort)] = True
        with entropy.keyed(key, public, np.packbits(filter_bits[:-1]).tobytes()):
            members = [entropy.bernoulli(self.thresholds[0]) ^ bit for bit in filter_bits[:-1].tolist()]
        return join_cohorts(np.array([cohort]), np.packbits(members)[None])[0]

    def _label_positions(self, labels):
        """Return the bits that strings set, shape (C, h, number of strings); a bit may stand twice."""
        if self.assignment == "md5":
            return hashing.md5_positions(labels, self.cohorts, self.hashes, self.n_bits)
        seeds = hashing.derive(self.seed, np.arange(self.cohorts)[:, None], np.arange(self.hashes))
        return hashing.key_buckets(seeds[:, :, None], hashing.label_keys(labels), self.n_bits)

    def _stated_positions(self):
        """Return an explicit map, nested or as texts "0 5;2 7" (cohorts by semicolons), as nested tuples, checked."""
        try:
            lists = [
                [cell.split() for cell in cells.split(";")] if isinstance(cells, str) else cells
                for cells in self.positions or ()
            ]
            out = tuple(tuple(tuple(int(b) for b in cell) for cell in cells) for cells in lists)
        except (TypeError, ValueError) as err:
            raise ArgumentError(
                f"positions must be nested lists of whole numbers or texts such as '0 5;2 7': {err}."
            ) from err
        a, cohorts = self.n_categories, self.cohorts
        if len(out) != a or any(len(cells) != cohorts for cells in out):
            raise ArgumentError(f"positions must be lists of bits for {a} categories in {cohorts} cohorts each.")
        for x, cells in enumerate(out):
            for c, cell in enumerate(cells):
                if not 1 <= len(cell) <= self.hashes or not all(0 <= b < self.n_bits for b in cell):
                    raise ArgumentError(
                        f"positions must list 1 to {self.hashes} bits from 0 to {self.n_bits - 1}, "
                        f"got {list(cell)} for category {x}, cohort {c}."
                    )
        return out
