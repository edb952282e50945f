"""The channels of a table: one protocol for all rows, or a column that says which protocol, ε or rate made each report."""

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ldpbayes import checks, files
from ldpbayes.collections import Cells, Collection, Tally
from ldpbayes.collections.survey import SampleColumns
from ldpbayes.errors import ArgumentError, DataError, LDPBayesError, shown
from ldpbayes.protocols import AbstractProtocol, designs, make_protocol, protocol_names
from ldpbayes.protocols.grr import GRR
from ldpbayes.sources import parameters
from ldpbayes.sources.base import sorted_keys
from ldpbayes.sources.encode import encoded_key, matching
from ldpbayes.sources.numbers import number
from ldpbayes.sources.stream import AbstractSource, open_source
from ldpbayes.sources.tally import read_channels, weighted
from ldpbayes.sources.users import check_user, read_users, single_protocols
from ldpbayes.sources.writing import published_of

#: Most different values of a column of ε, rates or protocols: each is a channel.
MAX_CHANNELS = 1000


@dataclass(frozen=True, eq=False)
class Channels:
    """The protocols that made the reports of a table.

    Attributes
    ----------
    protocols : tuple of AbstractProtocol
        Distinct, over equally many categories.
    names : tuple of str
    categories : tuple of str or None
        Labels, where caller or data state them.
    level : (str, dict) or None
        The column that says which protocol made a report, and from its texts to places in ``protocols``; None where there
        is one protocol.
    positions : bool
        Whether whole numbers are reports as the protocol makes them: where the data state the protocol.
    """

    protocols: tuple[AbstractProtocol, ...]
    names: tuple[str, ...]
    categories: tuple[str, ...] | None = None
    level: tuple[str, dict[str, int]] | None = None
    positions: bool = False


def find_channels(
    source: AbstractSource,
    protocol: AbstractProtocol | str | None = None,
    *,
    categories: Sequence[str] | None = None,
    where: Mapping[str, object] | None = None,
    report: Sequence[str] = (),
    epsilon: str | None = None,
    rate: str | None = None,
    name: str = "all",
) -> Channels:
    """Return the channels of a table from what it states and what the caller states.

    Parameters
    ----------
    source : AbstractSource
    protocol : AbstractProtocol, str or callable, optional
        May be left out where the data state it. With ``epsilon`` it is the protocol at any level, whose other parameters
        stay, the name of one, whose other parameters then follow from ε, or a function from ε to the protocol.
    categories : sequence of str, optional
    where : mapping, optional
        Column = value; only rows that match all of them count.
    report : sequence of str
        The columns of a report, where the caller names them.
    epsilon, rate : str, optional
        The column of every report's ε, or of the probability with which it was replaced by a uniform category.
    name : str
        Of the channel; several channels get a name each.

    Returns
    -------
    Channels

    Raises
    ------
    ArgumentError, DataError
        In one sentence: where the protocol is stated nowhere, or differently in two places.
    """
    _check(protocol, epsilon, rate)
    if epsilon is not None or rate is not None:
        column = epsilon if rate is None else rate
        make = _by_epsilon(protocol, categories) if rate is None else _by_rate(protocol, categories)
        made = {text: _level(make, text, column) for text in _texts(source, column, where)}
        return _channels(made, column, categories, False, name)
    texts: list[str] = []
    if parameters.COLUMN in source.names() and parameters.COLUMN not in report:
        texts = _texts(source, parameters.COLUMN, where)
        if not parameters.states_protocols(texts):  # a column of this name with another meaning
            if protocol is None and texts:
                parameters.parse_protocol(next(text for text in texts if not parameters.states_protocols([text])))
            texts = []
    held = [one.get(parameters.METADATA) for one in source.metadata()]
    courtesy = [text for text in held if text] if all(held) or texts else []
    given: Any = protocol  # an object or None: _check refuses names without ε
    found, labels = parameters.protocols_of(texts, courtesy, given, categories)
    return _channels(found, parameters.COLUMN, labels, bool(texts or courtesy), name)


def read_table(
    source: AbstractSource,
    protocol: AbstractProtocol | str | None = None,
    report: Sequence[str] | None = None,
    *,
    count: str | None = None,
    categories: Sequence[str] | None = None,
    name: str = "all",
    by: Sequence[str] = (),
    sample: SampleColumns | None = None,
    epsilon: str | None = None,
    rate: str | None = None,
    by_user: str | None = None,
    facts: Mapping | None = None,
) -> "Tally | Collection | Cells":
    """Return what read_frame and read_reports return, from any source; parameters as there.

    With ``facts``, fields of a collection or of cells, the result is always one of these.
    """
    texts = dict(facts or {})
    sample = sample or SampleColumns()
    name, count = checks.text(name, "name", empty=False), checks.column(count, "count")
    epsilon, rate, by_user = (
        checks.column(value, what) for what, value in {"epsilon": epsilon, "rate": rate, "by_user": by_user}.items()
    )
    channels = find_channels(
        source, protocol, categories=categories, report=report or (), epsilon=epsilon, rate=rate, name=name
    )
    user = check_user(by_user, sample)
    made_by = channels.protocols if user is None else single_protocols(channels.protocols)
    fields = made_by[0].report_fields
    if report is not None and any(len(one.report_fields) != len(report) for one in made_by):
        raise ArgumentError(f"report must name {len(fields)} columns ({', '.join(fields)}), got {len(report)}.")
    settings: dict[str, Any] = {"level": channels.level, "count": count, "by": by, "categories": channels.categories}
    settings |= {"labelled": categories is not None, "positions": channels.positions, "names": channels.names}
    found: list[dict]
    if user is None:
        found = read_channels(source, channels.protocols, report, sample=sample.names if sample else None, **settings)
    else:
        histories = read_users(source, channels.protocols, report, user=user, **settings)
        found = [{key: (tally,) for key, tally in cells.items()} for cells in histories]
    keys = sorted_keys({key for cells in found for key in cells})
    if not keys:
        raise DataError("the frame has no rows")
    labels = channels.categories or tuple(str(i) for i in range(channels.protocols[0].n_categories))
    if sample:
        made = {}
        split: dict[Any, list[Any]] = {key: [cells[key] for cells in found if key in cells] for key in keys}
        surveys = sample.surveys({key: [(i, *rest) for i, (_, *rest) in enumerate(held)] for key, held in split.items()})
        for key, held in split.items():
            tallies = tuple(tally for tally, *_ in held)
            made[key] = Collection(labels, tallies, survey=surveys[key], **({} if by else texts))
        return Cells(made, by, id=texts.get("id", "cells")) if by else made[()]
    groups = {key: [cells[key][0] for cells in found if key in cells] for key in keys}
    if by:
        return Cells.from_groups(groups, labels, by, **texts)
    whole = facts is not None or len(channels.protocols) > 1
    return Collection(labels, tuple(groups[()]), **texts) if whole else groups[()][0]


def read_stated(path, *, by=None, weight=None, strata=None, cluster=None, population=None, by_user=None):
    """Return the Collection or Cells of a Parquet or CSV file that states its protocol, named after the file.

    Parameters
    ----------
    path : path-like
        As for ``read_reports``.
    by, weight, strata, cluster, population, by_user
        As for ``read_frame``.

    Returns
    -------
    Collection or Cells

    Raises
    ------
    DataError
        Also where the protocol is stated nowhere.
    """
    source = open_source(path)
    try:
        if not source.names():  # an unreadable or empty file
            raise DataError("has no columns")
        facts = {"id": files.stem(files.as_path(path))} | ({} if by else {"published": published_of(source)})
        sample = SampleColumns(weight, strata, cluster, population)
        by = checks.columns(by, "by") or ()
        found = read_table(source, by=by, sample=sample, by_user=by_user, facts=facts)
    except DataError as err:
        raise err.at(source=path) from err.__cause__
    except ArgumentError as err:
        raise DataError(str(err).rstrip("."), source=path) from None
    if not by:
        found.announce()
    return found


def read_reports(
    path: Any,
    protocol: AbstractProtocol | str | None = None,
    report: str | Sequence[str] | None = None,
    count: str | None = None,
    categories: Sequence[str] | None = None,
    name: str = "all",
    *,
    by: str | Sequence[str] | None = None,
    weight: str | None = None,
    strata: str | None = None,
    cluster: str | None = None,
    population: float | Mapping | None = None,
    epsilon: str | None = None,
    rate: str | None = None,
    by_user: str | None = None,
) -> "Tally | Collection | Cells":
    """Tally the reports of a Parquet or CSV file, which may state its protocol.

    A file of ``write_reports`` needs no other argument: its column ``protocol`` states how the reports were made, and whole
    numbers are reports as the protocol makes them. Several protocols in that column give several channels.

    Parameters
    ----------
    path : path-like
        A file of Parquet, CSV, JSON lines or Arrow, a pattern such as ``reports/*.parquet``, or a folder of files of one
        format: of its Parquet files, where it has some. Names of folders such as ``country=NL`` are columns.
    protocol, report, count, categories, name, by, weight, strata, cluster, population, epsilon, rate, by_user
        As for ``read_frame``.

    Returns
    -------
    Tally, Collection or Cells
        As from ``read_frame``.

    Raises
    ------
    ArgumentError
        Where the protocol is stated nowhere.
    DataError
        On a malformed file, and where the file states another protocol than the caller.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from ldpbayes.protocols.grr import GRR
    >>> from ldpbayes.sources import write_reports
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "reports.parquet"
    >>> write_reports(path, [0, 2, 2], GRR(3, epsilon=1.0), country=["SE", "SE", "NO"])
    3
    >>> read_reports(path).counts.tolist()
    [1, 2]
    >>> read_reports(path, by="country")
    <Cells by country: 2 cells, 3 categories, 3 reports>
    """
    source = open_source(files.as_path(path))
    try:
        return read_table(
            source,
            protocol,
            checks.columns(report, "report"),
            count=count,
            categories=labels_of(categories),
            name=name,
            by=checks.columns(by, "by") or (),
            sample=SampleColumns(weight, strata, cluster, population),
            epsilon=epsilon,
            rate=rate,
            by_user=by_user,
        )
    except DataError as err:
        raise err.at(source=path) from err.__cause__


def read_frame(
    frame,
    protocol=None,
    report=None,
    count=None,
    categories=None,
    name="all",
    *,
    by=None,
    weight=None,
    strata=None,
    cluster=None,
    population=None,
    epsilon=None,
    rate=None,
    by_user=None,
):
    """Tally the reports of a data frame: pandas, Polars, PyArrow, DuckDB, or anything else that narwhals reads.

    The frame groups its own rows, so that only distinct reports leave it; a lazy frame is collected after that.

    What a column holds decides how it is read, and each kind means one thing:

    ==============================  ====================================================================================
    column                          reports
    ==============================  ====================================================================================
    text, categorical, dictionary   what a CSV file would hold: a label, a number, or the text of a set
    whole numbers                   the number of the report as the protocol makes it, or, where ``categories`` are named
                                    and one of them is a number, the label in digits; refused for sets
    booleans                        0 and 1, where a report or a field of it is a number of two; refused otherwise
    bytes                           a set in packed bits, ⌈a/8⌉ bytes a report, as ``numpy.packbits`` writes them
    lists of booleans               a set: one entry per category
    lists of whole numbers          a set: one zero or one per category, or the members; refused where it could be both
    lists of texts                  a set: its members
    ==============================  ====================================================================================

    Parameters
    ----------
    frame : data frame or lazy frame
    protocol : AbstractProtocol, optional
        May be left out where a column ``protocol`` states it, as ``write_reports`` writes it: every reader recognizes such
        a column, whole numbers are then reports as the protocol makes them, and several protocols in it give several
        channels. What contradicts the argument is refused. With ``epsilon`` also a name, such as ``"olh"``.
    report : str or sequence of str, optional
        The column or columns of one report; the protocol's own names by default.
    count : str, optional
        The column of counts; without it every row is one report.
    categories : sequence of str, optional
        Labels of the categories, in order: the cells are then labels, as in a file. Without it a column of integers holds
        reports as the protocol makes them, and the labels in text are "0", "1", ….
    name : str
        Of the channel.
    by : str or sequence of str, optional
        Grouping columns. The result then has a cell for each combination that occurs.
    weight, strata, cluster : str, optional
        Columns of sampling weights, strata and clusters of the respondents; see ``Collection.from_sample``.
    population : float or mapping, optional
        How many respondents, or clusters where clusters were sampled, the population has; in all or by stratum.
    epsilon : str, optional
        The column of the ε that each report was made with: one channel for each level. The other parameters of
        ``protocol`` stay as they are; those of a protocol that is only named follow from ε.
    rate : str, optional
        The column of the probability with which each value was replaced by a uniformly drawn category, randomised response
        with a rate in every record: one channel for each rate. ``categories`` are named, ``protocol`` is left out.
    by_user : str, optional
        The column of users, where a user may have sent several reports, one a row. Every user is then one report of the
        tally, a history; see ``Tally`` and ``protocols.repeated``.

    Returns
    -------
    Tally, Collection or Cells
        A Tally, which ``fit`` takes as it is; a Collection where there are several channels, or where it is stated how
        respondents were sampled; Cells with ``by``, whose keys are tuples with an entry per grouping column.

    Raises
    ------
    ArgumentError
        On something that is no data frame, a protocol that is none, or the wrong number of columns.
    DataError
        On a missing column or cell, a report that the protocol does not make, or a count that is no whole number.

    Examples
    --------
    >>> import pyarrow
    >>> from ldpbayes.protocols.designs import warner
    >>> table = pyarrow.table({"answer": ["yes", "no", "yes"], "country": ["SE", "SE", "NO"]})
    >>> read_frame(table, warner(0.7), "answer").counts.tolist()
    [1, 2]
    >>> read_frame(table, warner(0.7), "answer", by="country")
    <Cells by country: 2 cells, 2 categories, 3 reports>
    """
    return read_table(
        open_source(frame),
        protocol,
        checks.columns(report, "report"),
        count=count,
        categories=labels_of(categories),
        name=name,
        by=checks.columns(by, "by") or (),
        sample=SampleColumns(weight, strata, cluster, population),
        epsilon=epsilon,
        rate=rate,
        by_user=by_user,
    )


def labels_of(categories):
    """Return the caller's labels as a tuple of distinct texts, or None."""
    if categories is None:
        return None
    rule = "distinct texts, one per category"
    labels = None if isinstance(categories, str) else checks.labels(categories, "categories", rule)
    if labels is None or len(set(labels)) != len(labels):
        raise ArgumentError(f"categories must be distinct texts, one per category, got {shown(categories)}.")
    return labels


def _check(protocol, epsilon, rate):
    """Refuse a protocol that is none, and columns that do not go together."""
    if inspect.isclass(protocol):
        raise ArgumentError(
            f"protocol must be an object, such as GRR(4, epsilon=1.0), got the class {protocol.__name__}; call it with its "
            "parameters."
        )
    for column, name in ((epsilon, "epsilon"), (rate, "rate")):
        if column is not None and not isinstance(column, str):
            raise ArgumentError(f"{name} must be the name of a column, got {shown(column)}.")
    if epsilon is not None and rate is not None:
        raise ArgumentError("epsilon and rate must not both be given: a rate fixes epsilon.")
    named = epsilon is not None and (isinstance(protocol, str) or inspect.isfunction(protocol))
    if protocol is not None and not named and not isinstance(protocol, AbstractProtocol):
        raise ArgumentError(f"protocol must be a protocol of ldpbayes, got {type(protocol).__name__}.")


def _texts(source, column, where):
    """Return the distinct entries of a column, as texts, in order; missing ones are refused."""
    where, found = where or {}, {}
    for batch, _ in weighted(source, [column, *(name for name in where if name != column)], strict=not where):
        rows, table = None, batch.table
        try:
            if not set(where) <= set(table.schema.names):
                continue
            rows = matching(table, where)
            codes, values = encoded_key(table if rows is None else table.take(rows), column)
        except DataError as err:
            raise batch.located(err, rows) from None
        found.update(dict.fromkeys(str(values[code]).strip() for code in set(codes.tolist())))
        if len(found) > MAX_CHANNELS:
            raise DataError(f"has more than {MAX_CHANNELS:,} different entries, each of which is a channel", field=column)
    if "" in found:
        raise DataError("has an empty entry", field=column)
    return sorted(found)


def _by_epsilon(protocol, categories):
    """Return the function from ε to the protocol at that level."""
    if protocol is None:
        raise ArgumentError("protocol must be given with epsilon: an object, or a name such as 'olh'.")
    if inspect.isfunction(protocol):
        return protocol
    if isinstance(protocol, str):
        checks.choice(protocol, "protocol", protocol_names())
        if categories is None:
            raise ArgumentError("categories must be named where protocol is a name.")
        return lambda level: make_protocol(protocol, categories, {"epsilon": level})
    settings = protocol.parameters()
    if "epsilon" not in settings:
        raise ArgumentError(f"epsilon must be left out: {shown(protocol)} takes its level from other parameters.")
    labels = [str(x) for x in range(protocol.n_categories)] if categories is None else categories
    return lambda level: make_protocol(protocol.design, labels, settings | {"epsilon": level})


def _by_rate(protocol, categories):
    """Return the function from a rate of replacement to randomised response over the categories."""
    if protocol is not None:
        raise ArgumentError("protocol must be left out with rate, which is that of randomised response.")
    if categories is None:
        raise ArgumentError("categories must be named with rate.")
    labels = list(categories)
    a = len(labels)

    def make(rate):
        rate = checks.probability(rate, "rate")
        if rate == 1:
            raise ArgumentError("reports at rate 1 carry no information on the values; leave those rows out.")
        epsilon = math.log1p(a * (1 - rate) / rate) if rate > 0 else math.inf
        if epsilon <= checks.MAX_EPSILON:
            return GRR(a, epsilon)
        return designs.forced_response(1 - rate, [1.0] * a, answers=labels)

    return make


def _level(make, text, column):
    """Return the protocol of one entry of a column of numbers."""
    try:
        level = number(text)
        return make(float(text) if level is None else level)
    except ValueError as err:  # also an ArgumentError
        said = str(err).rstrip(".") if isinstance(err, LDPBayesError) else f"must hold numbers, got {shown(text)}"
        raise DataError(said, field=column) from None


def _channels(made, column, categories, positions, name):
    """Return the Channels of protocols by text; equal ones are one channel."""
    protocols: list[AbstractProtocol] = []
    places = {}
    for text, protocol in made.items():
        place = next((i for i, other in enumerate(protocols) if other == protocol), len(protocols))
        places[text] = place
        if place == len(protocols):
            protocols.append(protocol)
    if not protocols:
        raise DataError("the frame has no rows")
    if len(protocols) == 1:
        return Channels((protocols[0],), (name,), categories, None, positions)
    names = parameters.channel_names(protocols)
    names = names if name == "all" else [f"{name}, {own}" for own in names]
    return Channels(tuple(protocols), tuple(names), categories, (column, places), positions)
