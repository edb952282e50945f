"""One way in and one way out: ``read`` for every kind of source, ``write`` for what the package makes."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypedDict, Unpack, overload

from ldpbayes import checks, files, rooms
from ldpbayes.collections import Cells, Collection, Tally
from ldpbayes.errors import ArgumentError
from ldpbayes.presenting import AbstractResult
from ldpbayes.protocols.base import AbstractProtocol
from ldpbayes.sources.channels import COPIES, LAYOUT, RowOptions, read_table
from ldpbayes.sources.collection_file import read_collection, write_collection
from ldpbayes.sources.stated import DOUBTS, doubted
from ldpbayes.sources.writing import write_reports


class Reading(TypedDict, total=False):
    """The keywords of ``read`` but its grouping columns, for type checkers."""

    report: str | Sequence[str] | None
    count: str | None
    categories: Sequence[str] | None
    name: str | None
    weights: str | None
    strata: str | None
    cluster: str | None
    population_size: float | Mapping | None
    epsilon_column: str | None
    rate_column: str | None
    by_user: str | None
    bad_rows: str
    quarantine: str | os.PathLike | None
    missing: str | float | Sequence[str | float] | None
    copies: str
    bitorder: str


@overload
def read(
    data: Any,
    protocol: AbstractProtocol | str | Callable[[float], AbstractProtocol] | None = None,
    *,
    by: str | Sequence[str],
    **settings: Unpack[Reading],
) -> Cells: ...


@overload
def read(
    data: Any,
    protocol: AbstractProtocol | str | Callable[[float], AbstractProtocol] | None = None,
    *,
    by: None = None,
    **settings: Unpack[Reading],
) -> Tally | Collection | Cells: ...


def read(
    data: Any,
    protocol: AbstractProtocol | str | Callable[[float], AbstractProtocol] | None = None,
    *,
    report: str | Sequence[str] | None = None,
    count: str | None = None,
    categories: Sequence[str] | None = None,
    name: str | None = None,
    by: str | Sequence[str] | None = None,
    weights: str | None = None,
    strata: str | None = None,
    cluster: str | None = None,
    population_size: float | Mapping | None = None,
    epsilon_column: str | None = None,
    rate_column: str | None = None,
    by_user: str | None = None,
    bad_rows: str = "refuse",
    quarantine: str | os.PathLike | None = None,
    missing: str | float | Sequence[str | float] | None = None,
    copies: str = "refuse",
    bitorder: str = "big",
) -> Tally | Collection | Cells:
    """Read reports, or what ``write`` wrote: Cells (with ``by``, or kept so), a Tally of one plain channel, or a Collection.

    ==============================  ======================================================================================
    source                          what it states itself
    ==============================  ======================================================================================
    a collection file, ``.toml``    texts, categories, channels with their protocols and tables; ``by`` and the columns of
                                    the sample are taken instead of those of the file
    a file of rows                  CSV, Parquet, JSON lines (``.jsonl``) or Arrow: its columns; a column ``protocol``, as
                                    ``write`` makes it, states how the reports were made, otherwise name the protocol
    several files                   a list, a pattern such as ``reports/*.parquet`` or a folder with files of one format;
                                    names of folders such as ``country=NL`` are columns
    ``"-"``                         standard input: a CSV file
    Parquet files of scans           their cells; ``by`` names the grouping columns that stay
    a data frame                    pandas, Polars, PyArrow, DuckDB, or anything else that narwhals reads; a lazy frame
                                    groups its own rows, so that only distinct reports leave it
    ==============================  ======================================================================================

    What a column holds decides how it is read:

    ==============================  ======================================================================================
    column                          reports
    ==============================  ======================================================================================
    text, categorical, dictionary   what a CSV file would hold: a label, a number, or the text of a set
    whole numbers                   the number of the report as the protocol makes it, or, where ``categories`` are named
                                    and one of them is a number, the label in digits; refused for sets
    booleans                        0 and 1, where a report or a field of it is a number of two; refused otherwise
    bytes                           a set in packed bits, ⌈a/8⌉ bytes a report, as ``numpy.packbits`` writes them
    lists of booleans               a set: one entry per category
    lists of whole numbers          a set: one zero or one per category, or the members; refused where it could be both
    lists of texts                  a set: its members
    ==============================  ======================================================================================

    Parameters
    ----------
    data : path-like or data frame
    protocol : AbstractProtocol or str, optional
        How the reports were made, where the source does not state it; what contradicts the source is refused. A name, such
        as ``"olh"``, goes with ``epsilon_column``.
    report : str or sequence of str, optional
        The column or columns of one report; the protocol's own names by default. A set may also be several columns: its
        ⌈a/8⌉ bytes, or a zero or one for each category.
    count : str, optional
        The column of counts; without it every row is one report.
    categories : sequence of str, optional
        Labels of the categories, in order: the cells are then labels. Without it a column of integers holds reports as the
        protocol makes them, and the labels in text are "0", "1", ….
    name : str, optional
        Of the channel; "all" by default.
    by : str or sequence of str, optional
        Grouping columns. The result then has a cell for each combination that occurs. A column of a CSV file whose every
        entry is a whole number in plain digits gives whole numbers, as files with types do; "007" stays a text.
    weights, strata, cluster : str, optional
        Columns of sampling weights (above zero, of any scale, such as one over the probability of being asked), strata and
        clusters of the respondents; a cluster lies in one stratum. The likelihood becomes Π_i P(report_i | P)^{w_i} with
        weights that add up to the effective respondents: n over the design effect, and somewhat less where few clusters
        estimate that. The *pseudo-posterior* that a fit then returns is as wide as the design makes it.
    population_size : float or mapping, optional
        How many respondents, or clusters where clusters were sampled, the population has; in all or by stratum.
    epsilon_column : str, optional
        The column of the ε that each report was made with: one channel for each level. The other parameters of
        ``protocol`` stay as they are; those of a protocol that is only named follow from ε.
    rate_column : str, optional
        The column of the probability with which each value was replaced by a uniformly drawn category, randomized response
        with a rate in every record: one channel for each rate. ``categories`` are named, ``protocol`` is left out.
    by_user : str, optional
        The column of users, where a user may have sent several reports, one a row. Every user is then one report of the
        tally, a history.
    bad_rows : {"refuse", "skip"}
        Whether a row that holds no report is refused, or left out: one whose report, count, weight, key or ε is missing or
        none of its kind, and a line of a CSV file with other cells than its header. How many were left out and why is a
        warning and stands in the ``notes`` of what was read.
    quarantine : path-like, optional
        A CSV file for the rows that are left out, with file, line or row, reason and text; at most 1,000,000 of them.
    missing : str, number or sequence of these, optional
        Labels in the column of reports, such as ``"no answer"`` or 99, which say that somebody who was asked gave none.
        None, NaN and empty texts (but of sets, where they are one without members) then say so too. These rows are no bad
        rows: they are counted, by cell, in ``missing`` of what was read and in its ``notes``. Without it they are refused.
    copies : {"refuse", "add"}
        Whether files with the same bytes, such as copies and hard links, are refused, and files of summaries that were made
        from the same files or hold the same sums; or added all the same. So few rows that they agree by chance are added.
    bitorder : {"big", "little"}
        How the bits of a set stand: "big" has the first category in the highest bit of the first byte, as ``numpy.packbits``
        does, and first in a text of zeros and ones; "little" in the lowest bit, and last in a text, as in google/rappor.

    Returns
    -------
    Tally, Collection or Cells
        Cells with ``by``; a Tally of one channel; a Collection of several, with weights, ``missing`` or ``bad_rows``, or of
        a .toml.

    Raises
    ------
    ArgumentError
        On bad arguments, where the protocol is stated nowhere, and on an argument that this kind of source states itself.
    DataError
        On a malformed source, with file, field and row, and where it states another protocol than the caller.

    Examples
    --------
    >>> import pandas as pd
    >>> from ldpbayes.protocols import GRR
    >>> frame = pd.DataFrame({"answer": ["yes", "no", "yes"], "country": ["SE", "SE", "NO"]})
    >>> read(frame, GRR(2, epsilon=1.0), report="answer", categories=["no", "yes"], by="country")
    <Cells by country: 2 cells, 2 categories, 3 reports>
    """
    layout = protocol, report, count, categories, name, epsilon_column, rate_column
    sample = weights, strata, cluster, population_size
    return _read(data, RowOptions(*layout, by, *sample, by_user, bad_rows, quarantine, missing, copies, bitorder), False)


def collected(source: Any, stated: Mapping[str, Any] | None = None, **settings: Any) -> Collection | Cells:
    """Return what ``read`` returns, always as a Collection or Cells.

    Parameters
    ----------
    source : path-like or data frame
    stated : mapping, optional
        Keys of a collection file, which hold for a table too and replace those of a file.
    **settings
        Arguments of ``read``; those about the protocol are left out where the source states it.

    Raises
    ------
    DataError
        Also where the protocol is stated nowhere.
    """
    told = dict(stated or {})
    settings |= {name: told.pop(name) for name in [*told] if name in vars(RowOptions())}
    return _read(source, RowOptions(**settings, stated=told or None), True)


def data_of(value: Any) -> Any:
    """Return the data at a path, and anything else as it is."""
    return collected(value) if isinstance(value, (str, os.PathLike)) else value


@files.keeping_inputs()
def _read(source, rows, whole):
    """Return the reports of a source by the reader of its kind."""
    rows = replace(rows, by=checks.columns(rows.by, "by"))
    source = files.text_of(source) if isinstance(source, str | bytes | os.PathLike) else source
    path = source if isinstance(source, str) else ""
    if path.lower().endswith(".toml"):
        rows.refuse(LAYOUT, "a collection file states it")
        return read_collection(source, rows)
    summaries = _summaries(source, checks.choice(rows.copies, "copies", COPIES)) if rows.protocol is None else None
    if summaries is not None:
        own = ("by", "copies", "stated")
        rows.refuse((name for name in vars(rows) if name not in own), "a file of summaries has no reports")
        if odd := next((key for key in rows.stated or {} if key not in DOUBTS), None):
            raise ArgumentError(f"{odd} must be left out: a file of summaries has no reports.")
        return doubted(summaries.added(rows.by) if rows.by else summaries, rows.stated or {})
    return read_table(source, rows, whole)


def _summaries(source, copies):
    """Return the cells of files of summaries, those of the same key added up; None where the source is something else."""
    texts = source if isinstance(source, list | tuple) else [source]
    paths = [text for text in texts if isinstance(text, str | os.PathLike)]
    if len(paths) < len(texts) or not all(files.is_parquet(text) or os.path.isdir(text) for text in paths):
        return None
    readers = rooms.brought("CELLS")
    return rooms.function(readers["read"])(source, copies) if readers else None


def write(
    collection: Any,
    path: Any,
    protocol: AbstractProtocol | None = None,
    /,
    *,
    categories: Sequence[str] | None = None,
    **columns,
) -> Any:
    """Write for ``read`` a Collection or Cells (.toml), a scan, or privatized reports (.parquet; of these return how many).

    A collection, and cells that keep their reports, go to a TOML file with their tallies in a CSV file beside it. The cells
    of a scan, and cells some of which are summaries, go to a Parquet file with one row a cell; only a scan has the samples
    of reports by which the error of a summary is predicted. Reports go to a Parquet file that states its protocol, in the
    layout that is read fastest (docs/howto/reports-as-files.md): one column per field of a report, packed bits where it is a
    set, and a constant text column ``protocol`` with the protocol as JSON. A file appears when it is whole.

    Parameters
    ----------
    collection : Collection, Tally, Cells, array of reports, or iterator of batches of reports
        Reports as ``protocol.privatize`` makes them. A batch of an iterator is an array of reports, or a pair of one with a
        mapping from column names to their entries; memory is that of a batch and a row group. The keys of cells are
        written as text, and their covariates are not written.
    path : path-like or None
        Ends in ``.toml`` for collections and for cells that keep their reports, in ``.parquet`` or ``.pq`` for the others.
        None, for reports: a table of PyArrow in this layout is returned, for other writers.
    protocol : AbstractProtocol, optional
        How the reports were made; needed for reports alone.
    categories : sequence of str, optional
        Labels of the categories, which then travel with the reports.
    **columns : array or scalar
        Further columns of reports, such as the country and the day: one entry per report, or one for all.

    Returns
    -------
    int, pyarrow.Table or None
        For reports their number, or the table.

    Raises
    ------
    ArgumentError
        On a path of another format, labels or columns that do not fit, reports without a protocol, and on cells whose
        channels differ or whose grouping columns have a name that the table needs.
    DataError
        On reports that the protocol does not make, on missing entries, where the file cannot be written, and where the CSV
        file of a collection is there already and belongs to no collection.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from ldpbayes.protocols import GRR
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "reports.parquet"
    >>> write([0, 2, 1], path, GRR(3, epsilon=1.0), country=["SE", "SE", "NO"], day=7)
    3
    >>> read(path).counts.tolist()
    [1, 1, 1]
    >>> table = write([0, 2, 1], None, GRR(3, epsilon=1.0))
    >>> table.column_names, table["protocol"][0].as_py()
    (['report', 'protocol'], '{"version":1,"protocol":"grr","n_categories":3,"parameters":{"epsilon":1.0}}')
    """
    if not isinstance(collection, Collection | Tally | Cells):
        if isinstance(path, Collection | Tally | Cells) or isinstance(collection, str | os.PathLike):
            raise ArgumentError("write takes the reports first, then the path: write(collection, path).")
        if isinstance(collection, AbstractResult):
            raise ArgumentError("write takes reports and collections; a result saves itself: result.save('page.html').")
        if protocol is None:
            raise ArgumentError("protocol must be given with reports; without it write takes a Collection, Tally or Cells.")
        return write_reports(path, collection, protocol, categories=categories, **columns)
    for name, value in {"protocol": protocol, "categories": categories, **columns}.items():
        if value is not None:
            raise ArgumentError(f"{name} must be left out: a {type(collection).__name__} states it.")
    scanned = isinstance(collection, AbstractResult) and files.as_path(path).suffix.lower() != ".toml"
    if scanned or (isinstance(collection, Cells) and not collection.keeps_reports):
        return rooms.function(rooms.brought("CELLS")["write"])(collection, path)
    return write_collection(collection, path)
