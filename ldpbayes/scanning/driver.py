"""The scan of reports that need not fit in memory: from files to cells that ``fit`` takes."""

import contextlib
import dataclasses
import functools
import inspect
import pathlib
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from numpy.typing import ArrayLike

from ldpbayes import checks, files
from ldpbayes.errors import ArgumentError, DataError, shown
from ldpbayes.presenting import Recorded
from ldpbayes.progress import track
from ldpbayes.protocols.base import AbstractProtocol
from ldpbayes.scanning.checkpoint import Checkpoint
from ldpbayes.scanning.constants import KEPT_BYTES, MOST_ROWS, ROWS_A_CELL
from ldpbayes.scanning.fold import Fold
from ldpbayes.scanning.found import Found
from ldpbayes.scanning.partials import NOTHING, Partial, of_files
from ldpbayes.scanning.pilots import Pilots
from ldpbayes.scanning.users import Partitions
from ldpbayes.sources.base import by_users, check_column, check_total
from ldpbayes.sources.channels import COPIES, by_epsilon, protocol_at
from ldpbayes.sources.copies import check_counts, origin_of_cells
from ldpbayes.sources.encode import names_of_bits
from ldpbayes.sources.missing import Missing
from ldpbayes.sources.opening import open_source
from ldpbayes.sources.parameters import (
    COLUMN,
    METADATA,
    check_protocol,
    labels_of,
    parse_protocol,
    protocol_text,
    protocols_of,
    stated_throughout,
    states_protocols,
)
from ldpbayes.sources.skipping import Skipped
from ldpbayes.sources.stream import Piece, in_order

_SORTING, _COUNTING, _EXPANDING = "Putting reports together by user", "Counting reports", "Expanding the likelihood"


class Scan(Recorded):
    """A scan that is prepared, and run by calling it: ``scan`` does both.

    It can be run again with the likelihoods expanded elsewhere (``again``), and its pieces and its fold are public, for
    engines that send the work to where the rows are. The same cells come from::

        prepared = Scan("reports/*.parquet", by="country")
        fold = prepared.fold
        first = sum(fold.partial(piece) for piece in prepared.pieces())
        if fold.countable:
            found = fold.finish(first)
        else:
            at = fold.pilots(first)
            second = sum(fold.partial(piece, at) for piece in prepared.pieces())
            found = fold.finish(first, second, at)

    Pieces, partials and the fold can be sent to other processes.

    Parameters
    ----------
    data : path, list of paths, Arrow table, dataset or reader, DuckDB relation or data frame
    protocol : AbstractProtocol, str or callable, optional
    **settings
        As for ``scan``.

    Attributes
    ----------
    fold : Fold
        The map and the reduce.
    table : Source
        The source.
    jobs : int
    progressbar : bool
    checkpoint, quarantine : path-like or None
    published : sequence of str
        The protocols that the metadata of files state, as texts.
    """

    def __init__(self, data: Any, protocol: Any = None, **settings: Any) -> None:
        bound = inspect.signature(scan).bind(data, protocol, **settings)
        bound.apply_defaults()
        asked = SimpleNamespace(**bound.arguments)
        self.jobs = checks.integer(asked.jobs, "jobs", 1, 256)
        self.checkpoint, self.quarantine = asked.checkpoint, asked.quarantine
        bar = asked.progressbar
        self.progressbar = sys.stderr.isatty() if bar is None else checks.flag(bar, "progressbar")
        self.table, skipped = _table(asked, self.progressbar)
        published = [entries.get(METADATA) for entries in self.table.metadata()]
        self.published = list(filter(None, published))
        self.fold = _fold(self.table, asked, published, skipped.most if skipped else 0)
        self._first: Partial | None = None
        self._state: Checkpoint | None = None
        self._stopped: list[int] = []
        self._users: tuple[list, Skipped | None] | None = None
        #: By the identity of a piece, the reports of its first pass and what was left out; and the bytes that all take.
        self._held: dict[str, tuple[list, Partial]] = {}
        self._held_bytes = 0
        self._called("scan", bound.arguments)

    def __repr__(self) -> str:
        by = f" by {' × '.join(self.fold.by)}" if self.fold.by else ""
        return f"<Scan of {self.fold.protocol.design} reports{by}; call it to run it>"

    # ---- run ---------------------------------------------------------------------------------------------------------
    def __call__(self) -> Found:
        """Read the source, once where reports are counted and twice otherwise, and return its cells.

        Raises
        ------
        DataError
            On a bad report, a source that lacks a column, or one that changed between the passes.
        """
        if self.checkpoint is not None:
            marks = self.table.marks()
            if marks is None:
                raise ArgumentError("checkpoint needs files, whose rows can be found again; leave it out.")
            self._state = Checkpoint(self.checkpoint, [*marks, *self._marks()])
        try:
            with _interrupts() as self._stopped, self._by_user(), by_users(() if self.fold.user else (self.fold.protocol,)):
                self._first = self._pass(None, self._state)
                if self._first.skipped is not None:
                    self._first.skipped.tell(self.quarantine)
                if self.fold.countable:
                    cells = self._found()
                else:
                    at = self.fold.pilots(self._first)
                    cells = self._found(self._pass(at, self._state), at)
                self._stop()
        except KeyboardInterrupt:
            if self._state is not None:
                self._state.save()
            raise
        finally:
            self._stopped = []
            self._held, self._held_bytes = {}, 0
        cells._keep(self._call)
        return cells

    def again(self, pilots: Mapping | ArrayLike, spread: ArrayLike | None = None) -> Found:
        """Return the cells with their likelihoods expanded at other pilots: one more pass over the source.

        Parameters
        ----------
        pilots : (a,) or (cells, a) array, or mapping of key to (a,) array
            One for all cells, such as the mean of a hierarchical model, or one each in the order of the cells.
        spread : (a,) or (cells, a) array, optional
            Variances of p about the pilots; see ``Summary``.

        Returns
        -------
        Found

        Raises
        ------
        ArgumentError
            Where reports are counted, so that there are no pilots, or the pilots do not fit.
        """
        if self.fold.countable:
            raise ArgumentError(f"reports of {self.fold.protocol.name} are counted; their cells have no pilots.")
        with self._by_user():
            if self._first is None:
                self._first = self._pass(None)
            at = self.fold.pilots_at(self._first, pilots, spread)
            return self._found(self._pass(at), at)

    def pieces(self) -> list[Piece]:
        """Return the pieces of the source, each of which any worker can read.

        Raises
        ------
        ArgumentError
            Where reports are put together by user, which no worker does by itself.
        """
        if self.fold.user is not None:
            raise ArgumentError("by_user must be left out of a scan in pieces; call the scan.")
        return list(self.table.pieces(self.fold.columns))

    # ---- inside ------------------------------------------------------------------------------------------------------
    def _pass(self, at: Pilots | None, state: Checkpoint | None = None) -> Partial:
        """Return the total of one pass, which a checkpoint may note."""
        fold, name = self.fold, _COUNTING if at is None else _EXPANDING
        batch = self.table.grouped(fold.columns) if fold.countable else None
        if batch is not None:
            return self._whole(fold.partial(batch))
        total = self.table.total(functools.partial(fold.partial, at=at), fold.columns) if self._users is None else None
        if total is not None:
            return self._whole(total)
        pieces = self.table.pieces(fold.columns) if self._users is None else self._users[0]
        done: set[str] = set()
        total = NOTHING
        if state is not None:
            done, total = state.passes.get(name, (done, total))
            pieces = [piece for piece in pieces if piece.identity() not in done]
        results, rows = in_order(functools.partial(self._part, at), pieces, self.jobs), self.table.n_rows
        for piece, partial in track(results, name, rows, shown=self.progressbar, weight=lambda item: item[0].n_rows or 0):
            total += partial
            done.add(piece.identity())
            if state is not None:
                state.add(name, done, total)
            self._stop()
        return self._whole(total) if self._users is None else dataclasses.replace(total, skipped=self._users[1])

    def _part(self, at: Pilots | None, piece: Any) -> Partial:
        """Return the partial of a piece, whose reports are read once where those of all pieces take little memory."""
        place, fold = piece.identity(), self.fold
        if at is not None and place in self._held:
            held, first = self._held[place]
            least = min(ROWS_A_CELL * len(at.places), MOST_ROWS)  # as they would be read again
            if all(len(parsed.group) >= least for _, parsed in held[:-1]):
                return dataclasses.replace(fold.expanded(held, at), missing=first.missing, skipped=first.skipped)
        if at is not None or self._users is not None or self._state is not None or fold.countable:
            return fold.partial(piece, at)
        found: list = []
        partial = fold.partial(piece, held=found)
        held = [(text, parsed.small()) for text, parsed in found]
        self._held_bytes += sum(a.nbytes for _, parsed in held for a in (parsed.group, parsed.places, parsed.reports))
        if self._held_bytes <= KEPT_BYTES:
            self._held[place] = held, dataclasses.replace(partial, channels={})
        else:
            self._held.clear()
        return partial

    @contextlib.contextmanager
    def _by_user(self) -> Iterator[None]:
        """Have the reports of each user put together, in files that are there meanwhile, where a column names the users."""
        if self.fold.user is None:
            yield
            return
        with tempfile.TemporaryDirectory(prefix="ldpbayes-") as folder:
            pieces = self.table.pieces(self.fold.columns)  # of files it is then known how many rows they have
            rows, visible = self.table.n_rows, self.progressbar
            partitions, total = Partitions(self.fold, pathlib.Path(folder), rows), NOTHING
            for piece in track(pieces, _SORTING, rows, shown=visible, weight=lambda item: item.n_rows or 0):
                total += self.fold.by_user(piece, partitions)
                self._stop()
            self._users = partitions.pieces(), self._whole(total).skipped
            try:
                yield
            finally:
                self._users = None

    def _stop(self) -> None:
        """Raise the KeyboardInterrupt that foreign code has swallowed."""
        if self._stopped:
            raise KeyboardInterrupt

    def _found(self, second: Partial | None = None, at: Pilots | None = None) -> Found:
        """Return the cells of both passes, which know from which files they are."""
        found = self.fold.finish(self._first or NOTHING, second, at)
        channels = [self.fold.channel(text) for text in (self._first or NOTHING).channels]
        made = [
            protocol for channel in channels for protocol in (channel.protocol, channel.form.protocol)
        ]  # one may be by user
        stated = [parse_protocol(text).protocol for text in dict.fromkeys(self.published)]
        other = next((protocol for protocol in stated if protocol not in made), None)
        if other is not None:
            raise DataError(f"the metadata of a file states {shown(other)}, which made none of its reports; write it again")
        if self.table.copies == "refuse":
            for sums in (self._first or NOTHING).channels.values():
                check_counts({name: part for (name, _), part in of_files(sums.origins).items()})
        found.origins = self.table.origins(self.fold.report) | origin_of_cells(found)
        found.copies = self.table.copies
        found.checkpoints = () if self._state is None else (self._state,)
        return found

    def _whole(self, total: Partial) -> Partial:
        """Return the total of a pass, which must have read every row of a source that knows its rows."""
        if self.table.n_rows is not None:
            left_out = sum(total.missing.values()) + (total.skipped.total if total.skipped else 0)
            check_total(self.table.n_rows, total.n_rows + left_out)
        return total

    def _marks(self) -> list[str]:
        """Return what tells this scan from others of the same files: all that its fold was made of."""
        settings = {field.name: getattr(self.fold, field.name) for field in dataclasses.fields(self.fold) if field.repr}
        made = "" if settings.pop("make") is None else "by its level"
        return [protocol_text(settings.pop("protocol"), self.fold.categories), made, repr(settings)]


def scan(
    data: Any,
    protocol: AbstractProtocol | str | Callable[[float], AbstractProtocol] | None = None,
    *,
    report: str | Sequence[str] | None = None,
    by: str | Sequence[str] | None = None,
    pilot_by: str | Sequence[str] | None = None,
    sample: int | None = None,
    jobs: int = 1,
    categories: Sequence[str] | None = None,
    epsilon_column: str | None = None,
    by_user: str | None = None,
    checkpoint: Any = None,
    keep: int | None = None,
    random_seed: int = 0,
    progressbar: bool | None = None,
    spark: Any = None,
    bad_rows: str = "refuse",
    quarantine: Any = None,
    missing: str | float | Sequence[str | float] | None = None,
    copies: str = "refuse",
    bitorder: str = "big",
) -> Found:
    """Read reports that need not fit in memory into Found, a kind of Cells: counts, or Summaries if too many are possible.

    Where so few reports are possible that they can be counted (GRR, Hadamard, explicit channels, cohorts, unary encoding
    up to 16 categories), one pass counts them and each cell is a Collection. Otherwise two passes are made. The first
    counts, for each cell, how many reports support each category; their posterior mean is the pilot. The second expands
    the likelihood of the whole reports there, and each cell is a Summary: some 4a numbers, however many reports it has.

    Parameters
    ----------
    data : path, list of paths, Arrow table, dataset or reader, DuckDB relation or data frame
        Files are Parquet, CSV, JSON lines or Arrow; they may be a pattern such as ``"reports/*.parquet"`` or a folder, and
        names of folders such as ``country=NL`` are columns. Spark's data frames are counted and added up by its workers.
    protocol : AbstractProtocol, str or callable, optional
        May be left out where the reports state it, as ``write`` makes them: each protocol that their column ``protocol``
        states is then a channel. A name or a function from ε goes with ``epsilon_column``.
    report : str or sequence of str, optional
        The column or columns of one report; the protocol's own names by default. Packed bits (``numpy.packbits``) in a
        column of bytes are read fastest; see ``read`` for other forms.
    by : str or sequence of str, optional
        Grouping columns: a cell for each combination that occurs.
    pilot_by : str or sequence of str, optional
        Those of ``by`` whose cells share a pilot. Summaries add up only at one pilot: give ``"country"`` where the days of
        a country will be added. By default every cell has its own.
    sample : int, optional
        Keep up to so many reports of each cell by chance, by which ``fit`` predicts the error of its summary. By default
        10,000 where ε is above 1.5, and none below, where a bound is enough.
    jobs : int
        Threads that read and count.
    categories : sequence of str, optional
        Labels of the categories.
    epsilon_column : str, optional
        The column of the ε of each report, where it changes over time: each level is a channel, and what a cell has of its
        channels adds up. As for ``read``.
    by_user : str, optional
        The column of users, each of whom may have sent several reports: every user is then one report, a history, as for
        ``read``. Reports are put together in temporary files, some 40 bytes each; memory does not grow with their number.
    checkpoint : path-like, optional
        Where the state of the scan is kept, so that it goes on after being killed; ``write`` removes it once it has written
        the cells. Files only.
    keep : int, optional
        Cells (groups of cells that share a pilot) with fewer reports keep them whole, as a Collection; their summary would
        be off. By default none up to ε = 1.5, 10,000 up to ε = 2, and beyond 2,000 a category, at most 500,000.
    random_seed : int
        Of the sample. It is 0 by default and never drawn: a scan that goes on from its checkpoint, and another engine, must
        keep the same reports. ``settings`` of the cells state it.
    progressbar : bool, optional
        By default where standard error is a terminal.
    spark : pyspark.sql.SparkSession or str, optional
        A session, or the URL of a master such as ``"local[2]"``: the workers of Spark read the row groups of Parquet files,
        which they must see under the same paths. The cells are those that one machine finds.
    bad_rows, quarantine, missing, copies, bitorder
        As for ``read``: rows that hold no report are refused, or left out, counted and written to a CSV file; answers that
        are missing are counted by cell.

    Returns
    -------
    Found
        A mapping from keys to cells, with ``monitor``, what is known of the source. A ``ldpbayes.scanning.Scan`` of the same
        arguments, called, returns the same; it has what a second pass or another engine needs.

    Raises
    ------
    ArgumentError
        On a source that is none, or arguments that do not fit.
    DataError
        On a bad report, where a file or a column is missing, or where the source changed while it was read.

    Examples
    --------
    >>> import numpy, pyarrow
    >>> from ldpbayes.protocols import UnaryEncoding
    >>> protocol = UnaryEncoding.optimized(32, epsilon=1.0)
    >>> reports = protocol.privatize(numpy.arange(1000) % 32, numpy.random.default_rng(1))
    >>> table = pyarrow.table({"report": list(map(bytes, reports)), "country": ["NL", "BE"] * 500})
    >>> found = scan(table, protocol, by="country")
    >>> found["NL",].n_reports, found["NL",].gradient.shape
    (500.0, (32,))
    """
    return Scan(**locals())()


def _table(asked: SimpleNamespace, visible: bool) -> tuple[Any, Skipped | None]:
    """Return the source of a scan as asked for, and what is left out of it; refuse what does not go together."""
    if asked.protocol is not None and checks.column(asked.epsilon_column, "epsilon_column") is None:
        check_protocol(asked.protocol)
    with files.keeping_inputs():
        table = open_source(asked.data)
        skipped = Skipped.of(asked.bad_rows, asked.quarantine)
    spark, checkpoint = asked.spark, asked.checkpoint
    alone = spark is None and checkpoint is None and asked.missing is None
    if checks.column(asked.by_user, "by_user") is not None and not alone:
        raise ArgumentError("checkpoint, missing and spark must be left out with by_user.")
    if spark is not None:
        if checkpoint is not None or asked.jobs != 1:
            raise ArgumentError("checkpoint and jobs are for scans of one machine; leave them out with spark.")
        from ldpbayes.scanning.spark import SparkFiles

        table = SparkFiles(table, spark, visible)
    table.lenient, table.copies = skipped is not None, checks.choice(asked.copies, "copies", COPIES)
    return table, skipped


def _fold(table: Any, asked: SimpleNamespace, published: Sequence[str | None], skip: int) -> Fold:
    """Return the map and the reduce of a scan as asked for."""
    categories, sample, keep, user = asked.categories, asked.sample, asked.keep, asked.by_user
    made = _made_by(table, asked.protocol, labels_of(categories), asked.epsilon_column, published)
    by = checks.columns(asked.by, "by") or ()
    design = None if user is None else made["protocol"].repeats()
    single = made["protocol"] if design is None else design.single
    report = tuple(single.report_fields if asked.report is None else checks.columns(asked.report, "report") or ())
    if made["categories"] is None:
        made["categories"] = names_of_bits(single, report)
    with by_users(() if user else (made["protocol"],)):
        return Fold(
            report=report,
            by=tuple(by),
            pilot_by=checks.columns(asked.pilot_by, "pilot_by"),
            sample=None if sample is None else checks.integer(sample, "sample", 0, 10**8),
            seed=checks.integer(asked.random_seed, "random_seed", 0, checks.MAX_SEED - 1),
            keep=None if keep is None else checks.integer(keep, "keep", 0, 10**9),
            labelled=categories is not None,
            of_texts=table.of_texts,
            skip=skip,
            user=user,
            bitorder=asked.bitorder,
            missing=Missing.of(asked.missing, by),
            **made,
        )


def _made_by(table: Any, protocol: Any, labels: Any, level: str | None, published: Sequence[str | None]) -> dict[str, Any]:
    """Return what a Fold takes about how reports were made: their protocol, or what says it of each."""
    if level is not None:
        make = by_epsilon(protocol, labels)
        first = [protocol] if isinstance(protocol, AbstractProtocol) else table.first(level)
        if not first:
            check_column(table.names(), level)
            raise DataError("the source has no rows")
        made = first[0] if first[0] is protocol else protocol_at(make, str(first[0]).strip(), level)
        return {"protocol": made, "categories": labels_of(labels, made), "level": level, "make": make}
    texts = table.first(COLUMN)
    texts = texts if states_protocols(texts) else []
    stated, categories = protocols_of(texts, () if texts else published, protocol, labels)
    (made,) = stated.values()
    facts = {"protocol": made, "categories": categories, "positions": stated_throughout(texts, published)}
    return facts | ({"level": COLUMN, "fixed": protocol is not None} if texts else {})


@contextlib.contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Yield a list that Ctrl-C is noted in, beside its KeyboardInterrupt, which compiled code may swallow."""
    noted: list[int] = []

    def handler(number: int, frame: Any) -> None:
        noted.append(number)
        signal.default_int_handler(number, frame)

    plain = threading.current_thread() is threading.main_thread()
    if not plain or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield noted
        return
    signal.signal(signal.SIGINT, handler)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
