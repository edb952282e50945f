"""The fold of a scan: what one piece of a table gives, what a cell's pilot is, and what the totals mean."""

import functools
import hashlib
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ldpbayes import checks, hashing
from ldpbayes.arrays import groups_of
from ldpbayes.collections import Collection, Tally
from ldpbayes.errors import ArgumentError, DataError, listed, shown
from ldpbayes.likelihoods import Summary
from ldpbayes.protocols.base import AbstractProtocol
from ldpbayes.scanning import passes, pilots
from ldpbayes.scanning.constants import MOST_ROWS, ROWS_A_CELL
from ldpbayes.scanning.found import Found
from ldpbayes.scanning.partials import NOTHING, SIZES, Partial, ReportSample
from ldpbayes.scanning.pilots import Pilots
from ldpbayes.sources.base import check_total, shared_keys, sorted_keys
from ldpbayes.sources.encode import Format, cells, encoded_key
from ldpbayes.sources.keys import check_alike, check_kinds, kinds_of
from ldpbayes.sources.missing import Missing, answers, sentence
from ldpbayes.sources.opening import open_source
from ldpbayes.sources.parameters import COLUMN, Stated, difference, parse_protocol, protocol_text
from ldpbayes.sources.skipping import Skipped, good_rows
from ldpbayes.sources.stream import Batch, Piece

#: What to do with reports of several protocols, such as an ε that changes over time.
APART = "scan the reports of each protocol by themselves, or take them with read, where each protocol is a channel"
#: The key of the only cell where no grouping columns are given.
ALL = ("all",)


@dataclass(frozen=True, eq=False)
class Fold:
    """A map and a reduce over reports: what Spark, Dask, Ray and a loop over files share. It can be pickled.

    Attributes
    ----------
    protocol : AbstractProtocol
    report : tuple of str
        The columns of one report.
    by : tuple of str
        Grouping columns.
    pilot_by : tuple of str, optional
        Those of ``by`` whose cells share a pilot; all of them by default.
    categories : tuple of str, optional
        Labels of the categories.
    sample : int
        Most reports of a cell that are kept in its sample.
    seed : int
        Of the sample.
    keep : int
        Cells, or groups of cells that share a pilot, with fewer reports keep them whole.
    spread : bool
        Whether the likelihood is expanded over the variances of the pilot's posterior rather than at a point.
    labelled : bool
        Whether the caller named the categories, so that reports in the table are labels.
    stated : bool
        Whether the table has a column that states the protocol of each report, which must be this one, over these labels.
    positions : bool
        Whether whole numbers are known to be reports as the protocol makes them; see ``encode.Format``.
    of_texts : bool
        Whether the table holds texts alone, as a CSV file does: keys in plain digits are then whole numbers.
    skip : int
        Whether bad rows are left out: the number of them whose places and texts are kept; 0 refuses them.
    missing : Missing, optional
        Which answers are missing and are counted by cell.
    """

    protocol: AbstractProtocol
    report: tuple[str, ...]
    by: tuple[str, ...] = ()
    pilot_by: tuple[str, ...] | None = None
    categories: tuple[str, ...] | None = None
    sample: int = 0
    seed: int = 0
    keep: int = 0
    spread: bool = False
    labelled: bool = False
    stated: bool = False
    positions: bool = False
    of_texts: bool = False
    skip: int = 0
    missing: Missing | None = None
    labels: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        labels = self.categories or self.protocol.default_labels
        twice = [name for name in self.by if self.by.count(name) > 1 or name in self.report]
        if twice:
            raise ArgumentError(f"by must name distinct columns other than those of the report, got {shown(twice[0])}.")
        if self.pilot_by is not None and not set(self.pilot_by) <= set(self.by):
            mine, theirs = listed(self.pilot_by), listed(self.by) or "none"
            raise ArgumentError(f"pilot_by must name some of the columns of by ({theirs}), got {mine}.")
        if self.missing is not None:
            self.missing.check(labels)
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "_text", protocol_text(self.protocol, self.categories))
        object.__setattr__(self, "_format", Format(self.protocol, self.report, labels, self.labelled, self.positions))

    @property
    def countable(self) -> bool:
        """Whether the reports are counted, in one pass; otherwise a second pass expands their likelihood."""
        return self.protocol.countable()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""
        return tuple(dict.fromkeys([*self.by, *self.report, *([COLUMN] if self.stated else [])]))

    # ---- map ---------------------------------------------------------------------------------------------------------
    def partial(self, piece: Piece | Any, at: Pilots | None = None) -> Partial:
        """Return the partial result of a piece of the table.

        Parameters
        ----------
        piece : Piece, Batch, pyarrow.RecordBatch, pyarrow.Table or data frame
        at : Pilots, optional
            Given, the second pass is made: the likelihood is expanded there. Without it the first pass counts.

        Returns
        -------
        Partial

        Raises
        ------
        DataError
            On a bad report, naming the file and the row, and where a cell was not there in the first pass.
        """
        skipped = Skipped(self.skip) if self.skip else None
        least = 0 if at is None else min(ROWS_A_CELL * len(at.places), MOST_ROWS)
        pieces = [piece] if isinstance(piece, Batch | Piece) else open_source(piece).pieces(self.columns)
        batches = ([own] if isinstance(own, Batch) else own.batches(self.columns, least) for own in pieces)
        alike = {name: self.report for name in self.report}
        rows = itertools.chain.from_iterable(batches)
        return replace(sum(good_rows(rows, functools.partial(self._batch, at), skipped, alike), NOTHING), skipped=skipped)

    def _check_protocol(self, batch):
        """Refuse a batch whose column ``protocol`` states another one, or other categories."""
        if not self.stated:
            return
        codes, values = encoded_key(batch, COLUMN)
        stated = [Stated(self.protocol) if value == self._text else parse_protocol(str(value)) for value in values]
        same = np.array([one.protocol == self.protocol and one.categories in (None, self.categories) for one in stated])
        if not same.all() and not same[codes].all():
            row = int(np.argmin(same[codes]))
            other = stated[codes[row]]
            says = f"{shown(other.protocol)} beside {shown(self.protocol)}; {APART}"
            if other.protocol == self.protocol:
                says = f"other categories than the scan{difference(self.labels, other.categories or ())}"
            raise DataError(f"states {says}", line=row, field=COLUMN)

    def _batch(self, at, batch):
        """Return the partial of a batch."""
        self._check_protocol(batch.table)
        with answers(self.missing, batch, self._format) as (answered, absent):
            found = self._answers(answered, at) if len(answered) else Partial(())
        return replace(found, missing=absent)

    def _answers(self, batch, at):
        """Return the partial of a batch whose rows all hold an answer."""
        table = batch.table
        if self.countable:
            keys, group, reports, counts = self._format.distinct(table, self.by, batch.weights)
            return self._partial(keys, batch.n_reports, rows=(group, reports, counts))
        keys, sizes, group = cells([encoded_key(table, name) for name in self.by], len(batch))
        reports = self._format.rows(table)
        if at is None:
            samples = self._sampled(keys, group, reports, batch)
            sums = self._supports(reports, group, sizes)
            return self._partial(keys, len(batch), sums=sums, samples=samples, most=self.sample)
        return self._expanded(keys, sizes, group, reports, at)

    def _partial(self, keys, n_rows, **held):
        """Return the partial of a batch; its cells are distinct."""
        return Partial(tuple(keys), n_rows=n_rows, kinds=kinds_of(keys) if self.by else (), **held)

    def _supports(self, reports, group, sizes):
        """Return the sums of the first pass: the supports, or where reports have none the expansion at the uniform."""
        supports, n = self.protocol.supports(), len(sizes)
        if supports is None:
            uniform = np.full((n, self.protocol.n_categories), 1 / self.protocol.n_categories)
            sums = {"n": sizes} | _of_rows(self.protocol, reports, group, n, uniform, None)
            if self.protocol.size_law() is not None:
                sums[SIZES] = np.bincount(group, self.protocol.report_sizes(reports), n)
            return sums
        return {"n": sizes, "supports": passes.support_counts(_held(supports, reports, self.protocol), group, n)}

    def _expanded(self, keys, sizes, group, reports, at):
        """Return the sums of the second pass over a batch, and the whole reports of the cells that keep them."""
        for key in keys:
            if key not in at.places:
                raise DataError(f"the cell {_named(key)} was not there in the first pass; scan again")
        places = [at.places[key] for key in keys]
        points, spread = at.points[places], None if at.spread is None else at.spread[places]
        supports = self.protocol.supports()
        if supports is None:
            sums = _of_rows(self.protocol, reports, group, len(keys), points, spread)
        else:
            supports_held = _held(supports, reports, self.protocol)
            sums = passes.expansions(supports_held, group, points, supports.beta, spread)._asdict()
        rows, is_kept = None, np.array([key in at.kept for key in keys])
        if is_kept.any():
            kept = np.flatnonzero(is_kept[group])
            rows = group[kept].astype(np.int64), reports[kept], np.ones(len(kept), dtype=np.int64)
        return self._partial(keys, len(reports), sums={"n": sizes, **sums}, rows=rows, merged=False)

    def _sampled(self, cell_keys, group, reports, batch):
        """Return the samples of the cells of a batch; a report's key depends on the seed and its place in the source."""
        if not self.sample:
            return {}
        place = int.from_bytes(hashlib.blake2b(batch.piece.origin().encode(), digest_size=8).digest(), "little")
        keys = hashing.derive((self.seed ^ place) % 2**63, batch.places)
        return {cell_keys[i]: ReportSample.of(0, keys[rows], reports[rows], self.sample) for i, rows in groups_of(group)}

    # ---- between the passes ------------------------------------------------------------------------------------------
    def pilots(self, first: Partial) -> Pilots:
        """Return where the second pass expands the likelihood: the posterior means given the totals of the first pass.

        Cells that agree in the columns of ``pilot_by`` share a pilot.

        Parameters
        ----------
        first : Partial
            The total of the first pass.

        Raises
        ------
        DataError
            Where the table is empty.
        """
        self._check_rows(first)
        places, members = self._shared(first)
        held = {name: np.zeros((len(members), *total.shape[1:])) for name, total in first.sums.items()}
        for name, total in held.items():
            np.add.at(total, [places[key] for key in first.keys], first.total(name))
        n = held["n"]
        if self.protocol.supports() is not None:
            points, variances = pilots.from_supports(self.protocol, n, held["supports"])
        else:
            uniform = np.full(self.protocol.n_categories, 1 / self.protocol.n_categories)
            sums = zip(held["gradient"], held["square"], held["cross"], strict=True)
            summaries = [Summary(1.0, uniform, 0.0, *vectors) for vectors in sums]
            curvature = np.stack([summary.tangent_curvature for summary in summaries])
            linear = np.stack([summary.linear for summary in summaries])
            points, variances = pilots.simplex_moments(linear / curvature, 1 / curvature)
        kept = frozenset(key for key in first.keys if n[places[key]] < self.keep)
        return Pilots(places, points, variances if self.spread else None, kept)

    def pilots_at(self, first: Partial, points: Mapping | ArrayLike, spread: ArrayLike | None = None) -> Pilots:
        """Return the Pilots of points that the caller gives.

        Parameters
        ----------
        first : Partial
            The total of the first pass.
        points : (a,) or (cells, a) array, or mapping of key to (a,) array
            One for all cells, or one each, in the order of the result.
        spread : (a,) or (cells, a) array, optional
            Variances about the points; see ``Summary``.
        """
        self._check_rows(first)
        keys = sorted_keys(first.keys)
        if isinstance(points, Mapping):
            given = {key if isinstance(key, tuple) else (key,): value for key, value in points.items()}
            named = list(self._names(keys).values())
            missing = [key for key in named if key not in given]
            if missing:
                raise ArgumentError(f"pilots must name every cell, {_named(missing[0])} is missing.")
            points = [checks.reals(given[key], f"the pilot of {_named(key)}") for key in named]
        shape = (len(keys), self.protocol.n_categories)
        try:
            points = np.array(np.broadcast_to(checks.reals(points, "pilots", ndim=None), shape))
            if spread is not None:
                spread = np.array(np.broadcast_to(checks.reals(spread, "spread", ndim=None), shape))
        except ValueError:
            raise ArgumentError(
                f"pilots and spread must have one entry per category ({shape[1]}), for all cells or for each of {shape[0]}."
            ) from None
        points = np.stack([checks.distribution(row, "pilot", shape[1], atol=1e-6) for row in points])
        if spread is not None and not ((spread >= 0).all() and (spread <= 1).all()):
            raise ArgumentError("spread must hold variances of shares, from 0 to 1.")
        return Pilots({key: i for i, key in enumerate(keys)}, points, spread)

    def _shared(self, first):
        """Return (row of the pilot of each cell, keys of the pilots)."""
        at = range(len(self.by)) if self.pilot_by is None else [self.by.index(name) for name in self.pilot_by]
        members: dict[tuple, int] = {}
        places = {key: members.setdefault(tuple(key[i] for i in at), len(members)) for key in sorted_keys(first.keys)}
        return places, list(members)

    # ---- reduce ------------------------------------------------------------------------------------------------------
    def finish(self, first: Partial, second: Partial | None = None, at: Pilots | None = None) -> Found:
        """Return the cells of the totals: a Collection each where reports were counted or kept, else a Summary.

        Parameters
        ----------
        first : Partial
            The total of the first pass.
        second : Partial, optional
            The total of the second pass, where reports are not countable.
        at : Pilots, optional
            Where the second pass was made.

        Returns
        -------
        Found

        Raises
        ------
        DataError
            Where the table is empty, or changed between the passes.
        """
        self._check_rows(first)
        if self.countable:
            rows = self._rows(first.settle())
            return self._found({key: self._collection(key, own, first) for key, own in rows.items()}, first)
        if second is None or at is None:
            raise ArgumentError(
                f"reports of {self.protocol.name} are not counted: their scan needs a second pass, "
                "finish(first, second, pilots)."
            )
        sizes, again = (dict(zip(of.keys, of.total("n").tolist(), strict=True)) for of in (first, second))
        if sizes != again:
            raise DataError("the source changed between the two passes; scan it again")
        supports = dict(zip(first.keys, first.total("supports"), strict=True))
        excess = self._excess(first)
        kept, totals = self._rows(second), {name: second.total(name) for name in second.sums}
        cells = {}
        for i, key in enumerate(second.keys):
            if key in kept:
                cells[key] = self._collection(key, kept[key], first)
            else:
                sums = {name: total[i] for name, total in totals.items()}
                missing = first.missing.get(tuple(map(str, key)), 0)
                summary = self._summary(sums, supports[key], at.places[key], at)
                cells[key] = replace(summary, missing=missing, excess=excess.get(key))
        return self._found(cells, first)

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

    def _rows(self, partial):
        """Return {key: (reports, counts)} of the reports that a partial keeps."""
        if partial.rows is None:
            return {}
        group, reports, counts = partial.rows
        return {partial.keys[i]: (reports[rows], counts[rows]) for i, rows in groups_of(group)}

    def _collection(self, key, rows, first):
        tally, texts = Tally.trusted(self.protocol, *rows, categories=self.labels), tuple(map(str, key))
        return Collection(self.labels, (tally,), id=", ".join(texts or ALL), missing=first.missing.get(texts, 0))

    def _found(self, cells, first):
        names = self._names(sorted_keys(cells))
        samples = {names[key]: first.samples[key] for key in names if key in first.samples}
        named = {name: cells[key] for key, name in names.items()}
        notes = ["" if first.skipped is None else first.skipped.sentence, sentence(first.missing, first.n_rows)]
        found = Found(
            named,
            self.by or None,
            None,
            self.labels,
            protocol=self.protocol,
            samples=samples,
            notes=" ".join(filter(None, notes)),
        )
        check_total(first.n_rows, round(found.n_reports))
        return found

    def _names(self, keys):
        """Return {key of a partial: that of the result}."""
        shared = shared_keys(keys) if self.of_texts else {key: key for key in keys}
        return {key: name or ALL for key, name in shared.items()}

    def _check_rows(self, first):
        """Refuse a table without rows, and keys that are equal in Python though their columns are of several kinds."""
        if not first.keys:
            if first.missing:
                raise DataError("the source has no answer: all are missing")
            skipped = first.skipped.sentence if first.skipped is not None else ""
            raise DataError(f"the source has no good row: {skipped.rstrip('.')}" if skipped else "the source has no rows")
        check_kinds(first.kinds, self.by)
        check_alike(first.keys, self.by)


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


def _named(key):
    return ", ".join(map(str, key)) or "of all reports"
