"""One channel of a scan: the map and the reduce over the reports that one protocol made."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ldpbayes import hashing
from ldpbayes.arrays import IntArray, groups_of
from ldpbayes.collections import Collection, Tally
from ldpbayes.errors import DataError
from ldpbayes.likelihoods import Summary
from ldpbayes.protocols.base import AbstractProtocol
from ldpbayes.scanning import passes, pilots
from ldpbayes.scanning.constants import MAX_DRIFTED
from ldpbayes.scanning.partials import SIZES, ChannelSums, Chosen, ReportSample
from ldpbayes.scanning.pilots import Pilots
from ldpbayes.sources.encode import Format, cells, encoded_key
from ldpbayes.sources.stream import Batch


class Parsed(NamedTuple):
    """Reports of one channel as the passes take them.

    Attributes
    ----------
    keys : tuple of tuple
        The cells.
    sizes : (cells,) int array
        Reports of each.
    group : (m,) int array
        The cell of each report.
    reports : (m, …) array
        Canonical.
    origin : str
        What the places are counted in.
    places : (m,) int array
    """

    keys: tuple[tuple, ...]
    sizes: IntArray
    group: IntArray
    reports: np.ndarray
    origin: str = ""
    places: IntArray = np.empty(0, dtype=np.int64)

    def small(self) -> "Parsed":
        """Return the same in few bytes."""
        group, places = (array.astype(np.min_scalar_type(int(array.max(initial=0)))) for array in (self.group, self.places))
        return self._replace(group=group, places=places)


@dataclass(frozen=True, eq=False)
class ReportChannel:
    """The reports of one protocol.

    Attributes
    ----------
    protocol : AbstractProtocol
    form : Format
        How rows are reports.
    law : callable, optional
        From a protocol and reports of users to the protocol that states how many reports each sends.
    """

    protocol: AbstractProtocol
    form: Format
    law: Callable[[AbstractProtocol, np.ndarray], AbstractProtocol] | None = None

    @cached_property
    def countable(self) -> bool:
        """Whether the reports are counted; otherwise a second pass expands their likelihood."""
        return self.protocol.countable()

    # ---- map ---------------------------------------------------------------------------------------------------------
    def first(self, batch: Batch, by: Sequence[str]) -> ChannelSums:
        """Return the counts of reports by cell, where they are counted."""
        keys, *rows = self.form.distinct(batch.table, by, batch.weights)
        sums = ChannelSums(tuple(keys), rows=tuple(rows))
        return replace(sums, origins=self._origins(batch, sums))

    def _supported(self, reports, many):
        """Return how many of counted reports are, or support, each label; None where that is not known."""
        supports = self.protocol.supports()
        if reports.ndim == 1:
            return np.bincount(reports, many, self.protocol.n_outputs or 0).astype(np.int64)
        if supports is not None and supports.hashed is None and len(reports):
            return np.rint(self.protocol.rows(reports, many).support_counts()).astype(np.int64)
        return None

    def parts(self, sums: ChannelSums) -> list[np.ndarray]:
        """Return of each cell the number of reports and how many support each label; none where that is not known."""
        counts: Any
        if not self.countable:
            n, counts = sums.total("n"), sums.total("supports") if self.protocol.supports() is not None else []
        elif not sums.rows:
            return []
        else:
            (where, reports, many), cells = sums.rows, len(sums.keys)
            n, ends = np.bincount(where, many, cells), np.cumsum(np.bincount(where, minlength=cells))
            each = np.split(np.argsort(where, kind="stable"), ends[:-1])
            counts = [self._supported(reports[own], many[own]) for own in each]
        if any(counted is None or len(counted) > MAX_DRIFTED for counted in counts):
            return []
        return [np.append(number, counted) for number, counted in zip(n, counts, strict=False)]

    def seen(self, batch: Batch, parsed: Parsed) -> ChannelSums:
        """Return the sums of the first pass where reports are not counted, and what is known of their source."""
        sums = self.counted(parsed)
        return replace(sums, origins=self._origins(batch, sums), chosen=Chosen.of(0, parsed.reports))

    def _origins(self, batch, sums):
        """Return the number of reports and counts of a batch by its file and cell."""
        if batch.piece is None:
            return {}
        name = batch.piece.origin()
        return {(name, key): part for key, part in zip(sums.keys, self.parts(sums), strict=False)}

    def counted(self, parsed: Parsed) -> ChannelSums:
        """Return the sums of the first pass where reports are not counted."""
        keys, sizes, group, reports, *_ = parsed
        supports, n = self.protocol.supports(), len(keys)
        if supports is not None:
            held = _held(supports, reports, self.protocol)
            return ChannelSums(keys, {"n": sizes, "supports": passes.support_counts(held, group, n)})
        uniform = np.full((n, self.protocol.n_categories), 1 / self.protocol.n_categories)
        sums = {"n": sizes} | _of_rows(self.protocol, reports, group, n, uniform, None)
        if self.protocol.size_law() is not None:
            sums[SIZES] = np.bincount(group, self.protocol.report_sizes(reports), n)
        return ChannelSums(keys, sums)

    def expanded(self, parsed: Parsed, at: Pilots, seed: int) -> ChannelSums:
        """Return the sums of the second pass, the whole reports of the cells that keep them, and samples of all."""
        keys, sizes, group, reports, *_ = parsed
        for key in keys:
            if key not in at.places:
                name = ", ".join(map(str, key)) or "of all reports"
                raise DataError(f"the cell {name} was not there in the first pass; scan again")
        places = [at.places[key] for key in keys]
        points, spread = at.points[places], None if at.spread is None else at.spread[places]
        supports = self.protocol.supports()
        if supports is None:
            sums = _of_rows(self.protocol, reports, group, len(keys), points, spread)
        else:
            held = _held(supports, reports, self.protocol)
            sums = passes.expansions(held, group, points, supports.beta, spread)._asdict()
        rows: tuple = ()
        is_kept = np.array([key in at.kept for key in keys])
        if is_kept.any():
            kept = np.flatnonzero(is_kept[group])
            rows = group[kept].astype(np.int64), reports[kept], np.ones(len(kept), dtype=np.int64)
        samples = self._sampled(parsed, at.sample, seed)
        return ChannelSums(keys, {"n": sizes, **sums}, rows=rows, merged=False, samples=samples, most=at.sample)

    def parsed(self, batch: Batch, by: Sequence[str]) -> Parsed:
        """Return the reports of a batch."""
        keys, sizes, group = cells([encoded_key(batch.table, name) for name in by], len(batch))
        reports = self.form.rows(batch.table)
        if batch.weights is not None:  # an engine has grouped them, which it does where it takes them to be countable
            reports, group = (np.repeat(array, batch.weights, axis=0) for array in (reports, group))
            sizes = np.bincount(group, minlength=len(keys))
        origin = "" if batch.piece is None else batch.piece.origin()
        return Parsed(tuple(keys), sizes, group, reports, origin, batch.places)

    def _sampled(self, parsed, most, seed):
        """Return the samples of the cells of a batch; a report's key depends on the seed and its place in the source."""
        if not most:
            return {}
        place = int.from_bytes(hashlib.blake2b(parsed.origin.encode(), digest_size=8).digest(), "little")
        drawn = hashing.derive((seed ^ place) % 2**63, parsed.places)
        groups = groups_of(parsed.group)
        return {parsed.keys[i]: ReportSample.of(0, drawn[rows], parsed.reports[rows], most) for i, rows in groups}

    # ---- between the passes ------------------------------------------------------------------------------------------
    def normal(self, first: ChannelSums, places: Mapping[tuple, int], n_pilots: int) -> pilots.Normal:
        """Return the function from shares to the normal distribution that the sums of each pilot say the shares have."""
        totals = {name: np.zeros((n_pilots, *total.shape[1:])) for name, total in first.sums.items()}
        for name, total in totals.items():
            np.add.at(total, [places[key] for key in first.keys], first.total(name))
        if self.protocol.supports() is not None:
            return pilots.of_supports(self.protocol, totals["n"], totals["supports"])
        uniform = np.full(self.protocol.n_categories, 1 / self.protocol.n_categories)
        sums = zip(totals["gradient"], totals["square"], totals["cross"], strict=True)
        summaries = [Summary(1.0, uniform, 0.0, *vectors) for vectors in sums]
        curvature = np.stack([summary.tangent_curvature for summary in summaries])
        linear = np.stack([summary.linear for summary in summaries])
        return lambda p: (linear, curvature)

    # ---- reduce ------------------------------------------------------------------------------------------------------
    def cells(self, first: ChannelSums, second: ChannelSums | None, at: Pilots | None) -> dict[tuple, Collection | Summary]:
        """Return what each cell has of this channel."""
        if second is None or at is None:
            return {key: self._collection(key, *rows) for key, rows in first.settle().rows_of().items()}
        sizes, again = (dict(zip(of.keys, of.total("n").tolist(), strict=True)) for of in (first, second))
        if sizes != again:
            raise DataError("the source changed between the two passes; scan it again")
        supports, excess = dict(zip(first.keys, first.total("supports"), strict=True)), self._excess(first)
        out: dict[tuple, Any] = {key: self._collection(key, *rows) for key, rows in second.rows_of().items()}
        totals = {name: second.total(name) for name in second.sums}
        for i, key in enumerate(second.keys):
            if key not in out:
                sums = {name: total[i] for name, total in totals.items()}
                summary = self._summary(sums, supports[key], at.places[key], at)
                out[key] = replace(summary, excess=excess.get(key))
        return out

    def _collection(self, key, reports, counts):
        made = self.protocol
        if self.law is not None:
            made = self.law(self.protocol, reports)
            reports = made.check_reports(reports)  # as wide as the longest of them
        tally = Tally.trusted(made, reports, counts, categories=self.form.labels)
        return Collection(self.form.labels, (tally,), id=", ".join(map(str, key)) or "all")

    def _excess(self, first):
        """Return ``Summary.excess`` by cell; none where the sizes of the reports have no known law, or were not added up."""
        law, whole = self.protocol.size_law(), self.protocol.supports() is not None
        if law is None or not (whole or SIZES in first.sums):
            return {}
        totals = first.total("supports").sum(axis=1) if whole else first.total(SIZES)
        return {key: law.excess(*pair) for key, *pair in zip(first.keys, first.total("n"), totals, strict=True)}

    def _summary(self, sums, supports, place, at):
        """Return the Summary of a cell with a pilot, of its sums of the second pass."""
        form, spread = self.protocol.supports(), None if at.spread is None else at.spread[place]
        if form is None:
            log_constant = float(sums["log_constant"])
        else:
            log_constant = form.per_report * float(sums["n"]) + form.per_member * float(supports.sum())
        return Summary(
            n_reports=float(sums["n"]),
            pilot=at.points[place],
            value=float(sums["value"]),
            gradient=sums["gradient"],
            square=sums["square"],
            cross=sums["cross"],
            log_constant=log_constant,
            spread=None if spread is None or not spread.any() else spread,
            supports=np.asarray(supports, dtype=float),
        )


def _of_rows(protocol, reports, group, n_groups, points, spread):
    """Return the sums of the expansion of a protocol's own rows, of any kind."""
    a = protocol.n_categories
    out = {name: np.zeros((n_groups, a)) for name in ("gradient", "square", "cross", "supports")}
    out |= {name: np.zeros(n_groups) for name in ("value", "log_constant")}
    for i, members in groups_of(group):
        for block in np.array_split(members, max(1, len(members) * a // 2**23)):
            rows = protocol.rows(reports[block], np.ones(len(block)))
            summary = Summary.of(rows, points[i], None if spread is None else spread[i])
            for name in out:
                out[name][i] += getattr(summary, name)
    return out


def _held(supports, reports, protocol):
    """Return the supports of reports, as passes take them."""
    if supports.hashed is None:
        return passes.PackedSupports(reports, protocol.n_categories)
    family, buckets = supports.hashed
    seeds, values = np.ascontiguousarray(reports.T)
    return passes.HashedSupports(seeds, values, protocol.n_categories, buckets, family)
