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
from ldpbayes.protocols.columns import Integers
from ldpbayes.protocols.grr import GRR
from ldpbayes.sources import parameters
from ldpbayes.sources.base import AbstractSource, open_table, read_channels, sorted_keys
from ldpbayes.sources.numbers import number
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
    source = open_table(path)
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
        A Parquet file, a pattern such as ``reports/*.parquet``, a folder of Parquet files, or a CSV file. Names of folders
        such as ``country=NL`` are columns.
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
    source = open_table(path)
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
    if source.names() and column not in source.names():
        raise DataError(f"has no column {shown(column)}")
    found: dict[str, None] = {}
    for groups in source.distinct([column], where=where):
        (cells,) = groups.columns
        texts = map(str, cells.values.tolist()) if isinstance(cells, Integers) else map(str, cells)
        found.update(dict.fromkeys(text.strip() for text in texts))
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
