"""The fold of a scan: what one piece of a table gives, what a cell's pilot is, and what the totals mean."""

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ldpbayes import checks
from ldpbayes.arrays import groups_of
from ldpbayes.errors import ArgumentError, DataError, listed, shown
from ldpbayes.protocols.base import AbstractProtocol
from ldpbayes.scanning import monitor
from ldpbayes.scanning.channel import Parsed, ReportChannel
from ldpbayes.scanning.constants import MOST_ROWS, ROWS_A_CELL
from ldpbayes.scanning.found import ChannelCells, Found
from ldpbayes.scanning.partials import NOTHING, Partial, of_files
from ldpbayes.scanning.pilots import Keeping, Pilots, posterior_moments
from ldpbayes.scanning.users import Partition, Partitions, histories_of, with_lengths
from ldpbayes.sources.base import check_total, shared_keys, sorted_keys
from ldpbayes.sources.channels import protocol_at
from ldpbayes.sources.constants import MAX_CHANNELS
from ldpbayes.sources.encode import Format, encoded_key
from ldpbayes.sources.keys import check_alike, check_kinds, kinds_of
from ldpbayes.sources.missing import Missing, added, answers, sentence
from ldpbayes.sources.opening import open_source
from ldpbayes.sources.parameters import Stated, difference, parse_protocol, protocol_text
from ldpbayes.sources.skipping import Skipped, good_rows
from ldpbayes.sources.stream import Batch, Piece

#: The key of the only cell where no grouping columns are given.
ALL = ("all",)


@dataclass(frozen=True, eq=False)
class Fold:
    """A map and a reduce over reports: what Spark, Dask, Ray and a loop over files share. It can be pickled.

    Attributes
    ----------
    protocol : AbstractProtocol
        Of all reports; with a level that of the first.
    report : tuple of str
        The columns of one report.
    by : tuple of str
        Grouping columns.
    pilot_by : tuple of str, optional
        Those of ``by`` whose cells share a pilot; all of them by default.
    categories : tuple of str, optional
        Labels of the categories.
    sample : int, optional
        Most reports of a cell that are kept in its sample; by default as ``keeping`` says.
    seed : int
        Of the sample.
    keep : int, optional
        Cells, or groups of cells that share a pilot, with fewer reports keep them whole; by default as ``keeping`` says.
    labelled : bool
        Whether the caller named the categories, so that reports in the table are labels.
    level : str, optional
        The column that says which protocol made each report: "protocol", or that of ε. Each protocol is a channel.
    user : str, optional
        The column of users: every user's reports are one report, a history.
    make : callable, optional
        From ε to the protocol, where the level is ε.
    fixed : bool
        Whether the protocol that a column states must be this one.
    positions : bool
        Whether whole numbers are known to be reports as the protocol makes them; see ``encode.Format``.
    bitorder : {"big", "little"}
        See ``encode.Format``.
    of_texts : bool
        Whether the table holds texts alone, as a CSV file does: keys in plain digits are then whole numbers.
    skip : int
        Whether bad rows are left out: the number of them whose places and texts are kept; 0 refuses them.
    missing : Missing, optional
        Which answers are missing and are counted by cell.
    keeping : Keeping
    """

    protocol: AbstractProtocol
    report: tuple[str, ...]
    by: tuple[str, ...] = ()
    pilot_by: tuple[str, ...] | None = None
    categories: tuple[str, ...] | None = None
    sample: int | None = None
    seed: int = 0
    keep: int | None = None
    labelled: bool = False
    level: str | None = None
    user: str | None = None
    make: Callable[[float], AbstractProtocol] | None = None
    fixed: bool = False
    positions: bool = False
    bitorder: str = "big"
    of_texts: bool = False
    skip: int = 0
    missing: Missing | None = None
    keeping: Keeping = Keeping()  # noqa: RUF009  # it cannot be changed
    labels: tuple[str, ...] = field(init=False)
    _first: str = field(init=False, repr=False)
    #: By entries of the column of levels, the texts of their protocols; and by these, the channels.
    _texts: dict[object, str] = field(init=False, repr=False, default_factory=dict)
    _channels: dict[str, ReportChannel] = field(init=False, repr=False, default_factory=dict)

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
        object.__setattr__(self, "_first", self._text_of(self.protocol))

    @property
    def countable(self) -> bool:
        """Whether the reports are counted, in one pass; otherwise a second pass expands their likelihood."""
        return self.user is None and self.protocol.countable()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""
        others = [name for name in (self.level, self.user) if name is not None]
        return tuple(dict.fromkeys([*self.by, *self.report, *others]))

    # ---- channels ----------------------------------------------------------------------------------------------------
    def channel(self, text: str) -> ReportChannel:
        """Return the channel of a protocol, by its text."""
        if text not in self._channels:
            self._text_of(parse_protocol(text).protocol)
        return self._channels[text]

    def _text_of(self, protocol: AbstractProtocol) -> str:
        """Return the text of a protocol, whose reports are a channel from now on."""
        same = (text for text, channel in self._channels.items() if protocol in (channel.protocol, channel.form.protocol))
        text = next(same, "") or protocol_text(protocol, self.categories)
        if text not in self._channels:
            single, whole, law = protocol, protocol, None
            if self.user is not None:
                whole, law = histories_of(protocol), with_lengths
                single = whole.single
            form = Format(single, self.report, self.labels, self.labelled, self.positions, self.bitorder)
            self._channels[text] = ReportChannel(whole, form, law)
        return text

    def _stated(self, entry: object) -> str:
        """Return the text of the protocol that an entry of the column of levels states, or the error that says why not."""
        text = self._texts.get(entry)
        if text is None:
            if self.make is None:
                text = self._checked(parse_protocol(str(entry)))
            else:
                text = self._text_of(protocol_at(self.make, str(entry).strip(), self.level))
            if len(self._texts) >= MAX_CHANNELS:
                raise DataError(f"has more than {MAX_CHANNELS:,} different entries, each of which is a channel")
            self._texts[entry] = text
        return text

    def _checked(self, stated: Stated) -> str:
        """Return the text of a protocol that the data state; it must be one that this scan can take."""
        protocol = stated.protocol
        if protocol.n_categories != self.protocol.n_categories:
            raise DataError(f"states {shown(protocol)} beside {shown(self.protocol)}, over another number of categories")
        if stated.categories not in (None, self.categories):
            raise DataError(f"states other categories than the scan{difference(self.labels, stated.categories or ())}")
        if self.fixed and protocol != self.protocol:
            theirs, mine = shown(protocol), shown(self.protocol)
            raise DataError(f"states {theirs}, the argument {mine}; leave the argument out, or correct it")
        return self._text_of(protocol)

    def _by_channel(self, batch: Batch) -> Iterator[tuple[str, np.ndarray | None]]:
        """Yield the texts of the protocols that made the reports of a batch, with their rows, None for all."""
        if self.level is None:
            yield self._first, None
            return
        codes, values = encoded_key(batch.table, self.level)
        present = np.bincount(codes, minlength=len(values))
        texts: list[str] = []
        for code, value in enumerate(values):
            try:
                texts.append(self._stated(value) if present[code] else "")
                if present[code] and self.channel(texts[-1]).countable != self.countable:
                    other = self.channel(texts[-1]).protocol
                    raise DataError(
                        f"states {shown(other)} beside {shown(self.protocol)}: reports of one are counted, those of the "
                        "other added up; scan each by themselves"
                    )
            except DataError as err:
                raise DataError(err.message, line=int(np.argmax(codes == code)), field=self.level) from None
        if len({text for text in texts if text}) == 1:
            yield next(filter(None, texts)), None
            return
        for i, rows in groups_of(np.array([texts.index(text) for text in texts])[codes]):
            yield texts[i], rows

    # ---- map ---------------------------------------------------------------------------------------------------------
    def partial(self, piece: Piece | Any, at: Pilots | None = None, held: list | None = None) -> Partial:
        """Return the partial result of a piece of the table.

        Parameters
        ----------
        piece : Piece, Batch, pyarrow.RecordBatch, pyarrow.Table or data frame
        at : Pilots, optional
            Given, the second pass is made: the likelihood is expanded there. Without it the first pass counts.
        held : list, optional
            Takes the reports of a first pass as ``expanded`` takes them, where they are not counted.

        Returns
        -------
        Partial

        Raises
        ------
        DataError
            On a bad report, naming the file and the row, and where a cell was not there in the first pass.
        """
        if isinstance(piece, Partition):
            return self._partition(piece, at)
        skipped, total = Skipped(self.skip) if self.skip else None, NOTHING
        for absent, parts in self._made(piece, functools.partial(self._sums, at), skipped, at):
            total = sum((part for part, _ in parts), total + Partial(missing=absent))
            if held is not None:
                held += [reports for _, reports in parts if reports is not None]
        return replace(total, skipped=skipped)

    def _partition(self, partition, at):
        """Return the partial of the users of a partition."""
        if at is not None:
            return self.expanded(partition.parsed(self), at)
        parts = ((text, self.channel(text).counted(parsed), len(parsed.group)) for text, parsed in partition.parsed(self))
        return sum((self._partial(*part) for part in parts), NOTHING)

    def expanded(self, held: Iterable[tuple[str, Parsed]], at: Pilots) -> Partial:
        """Return the partial of the second pass of reports that were read before, each with the text of its protocol."""
        parts = ((text, self.channel(text).expanded(parsed, at, self.seed), len(parsed.group)) for text, parsed in held)
        return sum((self._partial(*part) for part in parts), NOTHING)

    def _partial(self, text, sums, n):
        """Return the partial of one channel."""
        return Partial({text: sums}, n_rows=n, kinds=kinds_of(sums.keys) if self.by else ())

    def by_user(self, piece: Piece, partitions: Partitions) -> Partial:
        """Write the reports of a piece to partitions by user, and return how many there were, and which were left out."""
        skipped = Skipped(self.skip) if self.skip else None
        many = sum(partitions.write(part) for _, parts in self._made(piece, partitions.split, skipped) for part in parts)
        return Partial(n_rows=many, skipped=skipped)

    def _made(self, piece, work, skipped, at=None):
        """Yield (missing answers by cell, what is made of the answers of each channel) of the good rows of each batch."""
        least = 0 if at is None else min(ROWS_A_CELL * len(at.places), MOST_ROWS)
        pieces = [piece] if isinstance(piece, Batch | Piece) else open_source(piece).pieces(self.columns)
        batches = ([own] if isinstance(own, Batch) else own.batches(self.columns, least) for own in pieces)
        alike = {name: self.report for name in self.report}
        return good_rows(itertools.chain.from_iterable(batches), functools.partial(self._batch, work), skipped, alike)

    def _sums(self, at, text, batch):
        """Return (the partial of a batch of one channel, its reports as ``held`` takes them, or None)."""
        channel = self.channel(text)
        if channel.countable:
            return self._partial(text, channel.first(batch, self.by), batch.n_reports), None
        parsed = channel.parsed(batch, self.by)
        sums = channel.seen(batch, parsed) if at is None else channel.expanded(parsed, at, self.seed)
        return self._partial(text, sums, batch.n_reports), (text, parsed)

    def _batch(self, work, batch):
        """Return (missing answers by cell, what is made of the answers of each channel) of a batch."""
        lost: dict = {}
        made = []
        for text, rows in self._by_channel(batch):
            form = self.channel(text).form
            with batch.part(rows) as own, answers(self.missing, own, form) as (answered, absent):
                lost = added(lost, absent)
                made += [work(text, answered)] if len(answered) else []
        return lost, made

    # ---- between the passes ------------------------------------------------------------------------------------------
    def pilots(self, first: Partial) -> Pilots:
        """Return where the second pass expands the likelihood: the posterior means given the totals of the first pass.

        Cells that agree in the columns of ``pilot_by`` share a pilot, and so do all channels of a cell.

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
        channels = {self.channel(text): sums for text, sums in sorted(first.channels.items())}  # sums round alike
        normals = [channel.normal(sums, places, len(members)) for channel, sums in channels.items()]
        points, variances = posterior_moments(normals, (len(members), self.protocol.n_categories))
        protocols, sizes = [channel.protocol for channel in channels], np.zeros(len(members))
        for sums in channels.values():
            np.add.at(sizes, [places[key] for key in sums.keys], sums.total("n"))
        keep = self.keeping.kept_below(protocols) if self.keep is None else self.keep
        kept = frozenset(key for key, place in places.items() if sizes[place] < keep)
        return Pilots(places, points, None if self.keeping.is_plain(protocols) else variances, kept, self._sampled(first))

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
            missing = [", ".join(map(str, key)) for key in named if key not in given]
            if missing:
                raise ArgumentError(f"pilots must name every cell, {missing[0]} is missing.")
            points = [checks.reals(given[key], f"the pilot of {', '.join(map(str, key))}") for key in named]
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
        return Pilots({key: i for i, key in enumerate(keys)}, points, spread, sample=self._sampled(first))

    def _sampled(self, first):
        """Return the most reports of a cell and channel that are kept in its sample."""
        if self.sample is not None:
            return self.sample
        return self.keeping.sample([self.channel(text).protocol for text in first.channels])

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
        if not self.countable and (second is None or at is None):
            raise ArgumentError(
                f"reports of {self.protocol.name} are not counted: their scan needs a second pass, "
                "finish(first, second, pilots)."
            )
        again = first.channels if second is None else second.channels
        if set(first.channels) != set(again):
            raise DataError("the source changed between the two passes; scan it again")
        names, missing = self._names(sorted_keys(first.keys)), dict(first.missing)
        channels = []
        for text in sorted(first.channels, key=lambda text: (self.channel(text).protocol.epsilon, text)):
            channel, second_sums = self.channel(text), None if second is None else second.channels[text]
            held = channel.cells(first.channels[text], second_sums, at)
            cells = {
                name: replace(held[key], missing=missing.pop(tuple(map(str, key)), 0))  # of a cell, in its first channel
                for key, name in names.items()
                if key in held
            }
            samples = {} if second_sums is None else second_sums.samples
            of_names = {names[key]: samples[key] for key in names if key in samples}
            channels.append(ChannelCells(channel.protocol, cells, of_names))
        notes = ["" if first.skipped is None else first.skipped.sentence, sentence(first.missing, first.n_rows)]
        found = Found(channels, self.by or None, self.labels, notes=" ".join(filter(None, notes)))
        found.monitor = self._monitor(first, at)
        check_total(first.n_rows, round(found.n_reports))
        return found

    def _monitor(self, first, at):
        """Return what the sums of the first pass say of the source."""
        if self.user is not None:
            return monitor.Monitor(needs=monitor.OF_USERS)
        files, cells, copies = [], [], []
        for text, sums in first.channels.items():
            channel = self.channel(text)
            if at is not None:
                n = sums.total("n")
                shares = n @ at.points[[at.places[key] for key in sums.keys]] / n.sum()
                copies.append(monitor.duplicates(channel.protocol, sums, float(n.sum()), shares))
            if self.pilot_by is not None:
                cells += [(channel.protocol, parts) for parts in self._alike(sums, channel.parts(sums))]
            files.append((channel.protocol, sums.origins))
        tested = tuple(filter(None, (self._between_files(files), monitor.drift("cells", cells))))
        needs = [] if tested else [monitor.OF_FILES]
        needs += [monitor.OF_CELLS] * (bool(self.by) and self.pilot_by is None)
        needs += [monitor.OF_COUNTS] * self.countable
        return monitor.Monitor(tested, tuple(filter(None, copies)), " ".join(needs))

    def _between_files(self, files):
        """Return the drift between files: of the same cell, or where no cell is in two of all cells together."""
        of_cells: dict[tuple, dict[str, np.ndarray]] = {}
        for i, (_, origins) in enumerate(files):
            for (name, key), part in origins.items():
                of_cells.setdefault((i, key), {})[f"{name} in {listed(map(str, key))}" if key else name] = part
        groups = [(files[i][0], parts) for (i, _), parts in of_cells.items()]
        apart = all(key is not None for _, key in of_cells)
        found = monitor.drift("files of a cell" if self.by and apart else "files", groups)
        if found is not None or not self.by:
            return found
        return monitor.drift(
            "files", [(protocol, {name: part for (name, _), part in of_files(of).items()}) for protocol, of in files]
        )

    def _alike(self, sums, parts):
        """Return the parts of a channel by the cells that agree in the columns of ``pilot_by``, each with its names."""
        at, groups = [self.by.index(name) for name in self.pilot_by], {}
        for key, part in zip(sums.keys, parts, strict=False):  # no part where the supports are not known
            groups.setdefault(tuple(key[i] for i in at), {})[", ".join(map(str, key))] = part
        return groups.values()

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
