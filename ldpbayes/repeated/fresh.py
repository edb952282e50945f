"""Fresh repetitions: a user's reports on one value, each made anew by the same protocol; and histories from long data."""

import itertools
import json
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.special import gammaln

from ldpbayes import checks
from ldpbayes.arrays import blocks
from ldpbayes.errors import ArgumentError, DataError, shown
from ldpbayes.protocols.base import AbstractProtocol, check_parameters, float_above, passed_on
from ldpbayes.protocols.columns import Bytes, Integers, ListColumn, refuse
from ldpbayes.protocols.registry import inner_protocol
from ldpbayes.repeated.histories import (
    MAX_HISTORIES,
    MAX_TIMES,
    AbstractHistories,
    Rates,
    check_times,
)

#: Format: Bytes of the number of reports.
HEAD = 4
#: Memory: Entries of rows of single reports that are in memory together.
TOGETHER = 2**22


@dataclass(frozen=True)
class Repeated(AbstractHistories):
    """Several fresh reports of one value by the same protocol, whose levels add up.

    L_x = Π_t L_{y_t x}, and the levels add up to T ε.

    Parameters
    ----------
    protocol : AbstractProtocol
        How each report is made.
    times : int, or pairs (int, int), optional
        How many reports a user sends, or the law of that number; see ``AbstractHistories``.

    Notes
    -----
    A history is T in four big-endian bytes and the reports in bytes, sorted, with zeros up to the largest T; the order of a
    user's reports says nothing. In a file each field of a report is one column that holds a JSON list, '["a", "b"]'. A
    file's parameters are ``of``, a table with the name and the parameters of the protocol, and ``times``.

    Examples
    --------
    >>> from ldpbayes.protocols.grr import GRR
    >>> twice = Repeated(GRR(3, epsilon=math.log(2)), times=2)
    >>> twice.n_outputs, round(twice.epsilon, 4)
    (6, 1.3863)
    """

    protocol: AbstractProtocol
    times: Any = None  # a Times comes in
    name: ClassVar[str] = "repeated"
    memoized: ClassVar[bool] = False
    file_parameters: ClassVar[str] = "of (a table: protocol and its parameters), times"

    def __post_init__(self):
        if not isinstance(self.protocol, AbstractProtocol):
            raise ArgumentError(f"protocol must be a protocol of ldpbayes, got {type(self.protocol).__name__}.")
        if self.protocol.repeats() is not None:
            raise ArgumentError(f"protocol must make single reports; {self.protocol.name} makes histories already.")
        object.__setattr__(self, "times", check_times(self.times))

    n_categories = passed_on("protocol", "n_categories")
    report_fields = passed_on("protocol", "report_fields")
    default_labels = passed_on("protocol", "default_labels")
    check_categories = passed_on("protocol", "check_categories")
    caveat = passed_on("protocol", "caveat")
    has_full_rank = passed_on("protocol", "has_full_rank")
    identifying_matrix = passed_on("protocol", "identifying_matrix")

    # ---- levels --------------------------------------------------------------------------------------------------------
    @property
    def epsilon_infinity(self) -> float:  # type: ignore[override]
        return math.inf

    epsilon_one = passed_on("protocol", "epsilon")

    @property
    def epsilon_changing(self) -> float:
        return math.inf

    def spent(self, times: int) -> float:
        """Return T ε, rounded up: the level of so many fresh reports."""
        times, epsilon = checks.integer(times, "times", 1, checks.MAX_COUNT), self.protocol.epsilon
        return math.inf if math.isinf(epsilon) else float_above(times * Fraction(epsilon))

    def rates(self):
        rates = self.protocol.hit_rates
        return None if rates is None else Rates(1.0, 0.0, *rates)

    def log_public_share(self):
        if self.times is None or self.protocol.log_public_share() == 0:
            return 0.0
        return max(t for t, _ in self.times) * self.protocol.log_public_share()

    # ---- reports -------------------------------------------------------------------------------------------------------
    @property
    def single(self):
        return self.protocol

    @cached_property
    def _form(self):
        """(dtype, shape of one report, bytes of one report)."""
        example = self.protocol.check_reports(self.protocol.privatize(np.zeros(1, dtype=np.int64), np.random.default_rng(0)))
        dtype = np.dtype(">i8") if example.dtype == np.int64 else example.dtype
        return dtype, example.shape[1:], dtype.itemsize * math.prod(example.shape[1:])

    def check_reports(self, reports):
        array = checks.array_of(reports, "reports", "bytes, one history a row")
        size = self._form[2]
        fits = array.ndim == 2 and array.dtype == np.uint8 and array.shape[1] >= HEAD
        if not fits or (array.shape[1] - HEAD) % size:
            raise DataError(
                f"reports must be bytes, one history a row ({HEAD} for the number of reports, {size} for each), got shape "
                f"{array.shape} of {array.dtype}"
            )
        lengths, slots = self.lengths(array), (array.shape[1] - HEAD) // size
        self._check_lengths(lengths)
        bad = np.flatnonzero(lengths > slots)
        if bad.size:
            i = int(bad[0])
            raise DataError(f"history {i} has {lengths[i]} reports, but bytes for {slots}", line=i)
        single, user = self._single(array, lengths)
        try:
            self.protocol.check_reports(single)
        except DataError as err:
            raise DataError(err.message, line=None if err.line is None else int(user[err.line])) from None
        return self._joined(self._bytes(single), user, len(array))

    def lengths(self, histories):
        return np.ascontiguousarray(histories[:, :HEAD]).view(">u4").ravel().astype(np.int64)

    def gather(self, reports, user, names):
        return self._joined(self._bytes(reports), user, len(names))

    def _bytes(self, reports):
        dtype, _, size = self._form
        return np.ascontiguousarray(reports, dtype=dtype).view(np.uint8).reshape(len(reports), size)

    def _single(self, histories, lengths=None):
        """Return (single reports of all histories, whose they are)."""
        dtype, shape, size = self._form
        lengths = self.lengths(histories) if lengths is None else lengths
        slots = (histories.shape[1] - HEAD) // size
        user, place = np.nonzero(np.arange(slots) < lengths[:, None])
        flat = np.ascontiguousarray(histories[:, HEAD:]).reshape(len(histories), slots, size)[user, place]
        reports = np.ascontiguousarray(flat).view(dtype).reshape(-1, *shape)
        return (reports.astype(np.int64) if dtype == ">i8" else reports), user

    def _joined(self, flat, user, n_users):
        """Return histories of reports in bytes, each user's sorted."""
        size, lengths = self._form[2], np.bincount(user, minlength=n_users)
        slots = max(int(lengths.max(initial=0)), max((t for t, _ in self.times), default=0) if self.times else 0)
        order = np.lexsort((*_words(flat).T[::-1], user))
        starts = np.cumsum(lengths) - lengths
        out = np.zeros((n_users, slots, size), dtype=np.uint8)
        out[user[order], np.arange(len(user)) - starts[user[order]]] = flat[order]
        heads = lengths.astype(">u4").view(np.uint8).reshape(n_users, HEAD)
        return np.concatenate([heads, out.reshape(n_users, slots * size)], axis=1)

    def parse_reports(self, columns, categories):
        texts, lengths = [[] for _ in columns], []
        for k, column in enumerate(columns):
            field = self.report_fields[k]
            if isinstance(column, (Bytes, ListColumn, Integers)):
                refuse(column, f"{field} is a JSON list of texts, one a report")
            for i, cell in enumerate(column):
                try:
                    entries = json.loads(cell)
                except (ValueError, TypeError, RecursionError):
                    entries = None
                if not isinstance(entries, list) or not entries or not all(isinstance(entry, str) for entry in entries):
                    problem = f"{field} must be a JSON list of texts, one a report, got {shown(cell)}"
                    raise DataError(problem, line=i, field=field)
                texts[k] += entries
                if k == 0:
                    lengths.append(len(entries))
                elif len(entries) != lengths[i]:
                    raise DataError(f"{field} must have as many entries as {self.report_fields[0]}", line=i, field=field)
        user = np.repeat(np.arange(len(lengths)), lengths)
        try:
            single = self.protocol.parse_reports(texts, categories)
        except DataError as err:
            raise DataError(err.message, line=None if err.line is None else int(user[err.line]), field=err.field) from None
        out = self._joined(self._bytes(single), user, len(lengths))
        self._check_lengths(self.lengths(out))
        return out

    def format_reports(self, reports, categories):
        single, user = self._single(reports)
        ends = np.cumsum(np.bincount(user, minlength=len(reports))).tolist()
        spans = list(itertools.pairwise([0, *ends]))
        columns = [list(column) for column in self.protocol.format_reports(single, categories)]
        return [[json.dumps(column[low:high], ensure_ascii=False) for low, high in spans] for column in columns]

    def report_columns(self, reports, categories):
        return self.format_reports(reports, categories)

    def list_histories(self, times):
        n = self.protocol.n_outputs
        if n is None or n > MAX_HISTORIES or math.comb(n + times - 1, times) > MAX_HISTORIES:
            return None
        picks = np.array(list(itertools.combinations_with_replacement(range(n), times)), dtype=np.int64)
        flat = self._bytes(self.protocol.all_reports())[picks.ravel()]
        return self._joined(flat, np.repeat(np.arange(len(picks)), times), len(picks))

    # ---- server --------------------------------------------------------------------------------------------------------
    def likelihoods(self, histories):
        logs, log_constants = np.empty((len(histories), self.n_categories)), np.empty(len(histories))
        for part, starts, kind, rows in self._kinds(histories):
            with np.errstate(divide="ignore"):
                log_rows = np.log(rows.dense())
            logs[part] = np.add.reduceat(log_rows[kind], starts, axis=0)
            constants = np.add.reduceat(np.asarray(rows.log_constants)[kind], starts)
            # The r-th of equal reports adds log r, in all Σ log m!.
            fresh = np.append(True, kind[1:] != kind[:-1])
            fresh[starts] = True
            run = np.arange(len(kind)) - np.flatnonzero(fresh)[np.cumsum(fresh) - 1] + 1
            orders = gammaln(self.lengths(histories[part]) + 1) - np.add.reduceat(np.log(run), starts)
            log_constants[part] = constants + orders
        top = logs.max(axis=1)
        top = np.where(np.isneginf(top), 0.0, top)
        return np.exp(logs - top[:, None]), log_constants + top

    def supported(self, histories):
        out = np.empty((len(histories), self.n_categories), dtype=np.int64)
        half = 1 + self.protocol.beta / 2  # rows of protocols with hit rates are 1 and 1 + β
        for part, starts, kind, rows in self._kinds(histories):
            out[part] = np.add.reduceat((rows.dense() > half).astype(np.int64)[kind], starts, axis=0)
        return out

    def _kinds(self, histories):
        """Yield (slice of histories, where the reports of each start, kind of every report, rows of the kinds)."""
        lengths = self.lengths(histories)
        for part in blocks(len(histories), self.n_categories * int(lengths.max(initial=1)), TOGETHER):
            single, _ = self._single(histories[part], lengths[part])
            first, kind = _distinct(_words(self._bytes(single)))
            starts = np.cumsum(lengths[part]) - lengths[part]
            yield part, starts, kind, self.protocol.rows(single[first], np.ones(len(first)))

    # ---- client --------------------------------------------------------------------------------------------------------
    def draw(self, values, times, rng):
        user = np.repeat(np.arange(values.size), times)
        return self._joined(self._bytes(self.protocol.privatize(values[user], rng)), user, values.size)

    def draw_one(self, value, times):
        single = self.protocol.check_reports(np.stack([self.protocol.privatize_one(value) for _ in range(times)]))
        return self._joined(self._bytes(single), np.zeros(times, dtype=np.int64), 1)[0]

    # ---- parameters ----------------------------------------------------------------------------------------------------
    def parameters(self):
        out = super().parameters()
        del out["protocol"]
        return {"of": {"protocol": self.protocol.design, **self.protocol.parameters()}} | out

    @classmethod
    def from_parameters(cls, categories, parameters):
        check_parameters(cls.name, parameters, ("of", "times"))
        return cls(inner_protocol(cls.name, "of", parameters.get("of"), categories), parameters.get("times"))


def _words(rows):
    """Return rows of bytes as 64-bit words in the same order: sorting these takes a tenth of the time."""
    padded = np.zeros((len(rows), -(-rows.shape[1] // 8) * 8), dtype=np.uint8)
    padded[:, : rows.shape[1]] = rows
    return padded.view(">u8").astype(np.uint64)


def _distinct(words):
    """Return (where each distinct row is first, which of them every row is)."""
    if words.shape[1] == 1:
        return np.unique(words[:, 0], return_index=True, return_inverse=True)[1:]
    order = np.lexsort(words.T[::-1])
    ordered = words[order]
    fresh = np.append(True, (ordered[1:] != ordered[:-1]).any(axis=1))
    kind = np.empty(len(words), dtype=np.int64)
    kind[order] = np.cumsum(fresh) - 1
    return order[fresh], kind


def histories_of(protocol, reports, user):
    """Return (protocol of the histories with the law of their lengths, histories) of long data.

    Parameters
    ----------
    protocol : AbstractProtocol
        One whose report is a history; or any other, of which a user's reports are then fresh repetitions.
    reports : array
        Canonical single reports.
    user : (m,) array
        Who sent each: numbers, texts, or anything that can be sorted.

    Returns
    -------
    AbstractHistories, array
        Users are in the order of their names.

    Raises
    ------
    DataError
        In one sentence: on a missing user, on a user whose reports contradict each other, and on one with more reports than
        ``times`` of the protocol allows.
    """
    whole = protocol.repeats() or Repeated(protocol)
    names, codes = users_of(user, len(reports))
    lengths = np.bincount(codes)
    most = MAX_TIMES if whole.times is None else max(t for t, _ in whole.times)
    if (over := np.flatnonzero(lengths > most)).size:
        who = over[0]
        budget = f" (a budget of {whole.spent(most):.6g} nats)" if whole.times is not None else ""
        raise DataError(f"user {names[who]!r} has {lengths[who]} reports, more than the {most} that times allows{budget}")
    numbers, many = np.unique(lengths, return_counts=True)
    law = numbers.tolist()[0] if len(numbers) == 1 else tuple(zip(numbers.tolist(), many.tolist(), strict=True))
    repeated = replace(whole, times=law)
    return repeated, repeated.gather(reports, codes, names)


def user_array(user):
    """Return the names of users as an array in which different ones stay different.

    NumPy makes texts of numbers beside texts, numbers of booleans beside numbers, doubles of some large whole numbers, and
    leaves out a NUL at the end of a text.
    """
    if not isinstance(user, (list, tuple)):
        return checks.array_of(user, "user", "a name for each report")
    kinds = {type(name) for name in user if not (name is None or (isinstance(name, float) and name != name))}
    if len(kinds) > 1 and not all(issubclass(kind, (int, np.integer)) and kind is not bool for kind in kinds):
        raise ArgumentError("user must hold names of one kind, numbers or texts, got several.")
    array = np.empty(len(user), dtype=object)
    array[:] = user
    return array


def users_of(user, n_reports):
    """Return (names, position in names of every report's user), or refuse a missing user and a wrong number of them."""
    array = user_array(user)
    if array.ndim != 1 or len(array) != n_reports:
        raise ArgumentError(f"user must be one name for each of {n_reports} reports, got shape {array.shape}.")
    import pandas as pd

    try:
        codes, names = pd.factorize(array)
    except TypeError:  # a list among them, which has no hash
        raise ArgumentError("user must hold names, numbers or texts, got something else among them.") from None
    blank = [code for code, name in enumerate(names.tolist()) if checks.blank(name)]
    missing = np.flatnonzero(np.isin(codes, [-1, *blank]))
    if missing.size:
        raise DataError("a report has no user; every report needs one", line=int(missing[0]))
    try:
        names, places = np.unique(names, return_inverse=True)
    except TypeError:
        raise ArgumentError("user must hold names of one kind, numbers or texts, got several.") from None
    return names.tolist(), places[codes]
