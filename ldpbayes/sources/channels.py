"""The channels of a table: one protocol for all rows, or a column that says which protocol, ε or rate made each report."""

import functools
import glob
import inspect
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ldpbayes import checks, files, rooms
from ldpbayes.collections import Cells, Collection, Tally
from ldpbayes.collections.survey import SampleColumns
from ldpbayes.errors import ArgumentError, DataError, LDPBayesError, shown
from ldpbayes.protocols import AbstractProtocol, designs, make_protocol
from ldpbayes.protocols.formats import places
from ldpbayes.protocols.grr import GRR
from ldpbayes.sources import parameters
from ldpbayes.sources.base import by_users, shared_keys, sorted_keys
from ldpbayes.sources.constants import MAX_CHANNELS
from ldpbayes.sources.encode import encoded_key, matching, names_of_bits
from ldpbayes.sources.missing import Missing, sentence
from ldpbayes.sources.numbers import number
from ldpbayes.sources.opening import open_source
from ldpbayes.sources.skipping import Skipped
from ldpbayes.sources.stated import doubted
from ldpbayes.sources.stated import facts as facts_stated
from ldpbayes.sources.stream import Source
from ldpbayes.sources.tally import Channels, TableColumns, read_parts
from ldpbayes.sources.writing import published_of

#: What may become of files that hold the same reports twice.
COPIES = ("refuse", "add")


def find_channels(
    source: Source,
    protocol: AbstractProtocol | str | None,
    columns: TableColumns,
    *,
    categories: Sequence[str] | None = None,
    epsilon: str | None = None,
    rate: str | None = None,
    name: str = "all",
) -> Channels:
    """Return the channels of a table from what it states and what the caller states.

    Without a protocol the data state it. With ``epsilon``, the column of every report's ε, it is the protocol at any level,
    whose other parameters stay, the name of one, whose other parameters follow from ε, or a function from ε to the protocol.
    ``rate`` is the column of the probability with which a report was replaced by a uniform category. Of a lenient source an
    ε or a rate that is missing or no number is left to the reader of the rows. Several channels get a name each.
    """
    _check(protocol, epsilon, rate)
    if epsilon is not None or rate is not None:
        column = epsilon if rate is None else rate
        make = by_epsilon(protocol, categories) if rate is None else _by_rate(categories)
        levels = {}
        for text in _texts(source, column, columns.where, source.lenient):
            try:
                levels[text] = protocol_at(make, text, column)
            except DataError:
                if not source.lenient:
                    raise
        channels = _channels(levels, column, categories, False, name)
        _check_levels(source, columns, channels, column)
        return channels
    texts, published = _stated(source, protocol, columns)
    if columns.where and texts:  # files of which no row is selected may state other protocols
        made = [parameters.parse_protocol(text).protocol for text in texts]
        published = [text for text in published if text and parameters.parse_protocol(text).protocol in made] or published
    given: Any = protocol  # an object or None: _check refuses names without ε
    protocols, labels = parameters.protocols_of(texts, published, given, categories)
    return _channels(protocols, parameters.COLUMN, labels, parameters.stated_throughout(texts, published), name)


def _stated(source, protocol, columns):
    """Return what the column ``protocol`` and the metadata of every file state."""
    texts: list[str] = []
    if parameters.COLUMN in source.names() and parameters.COLUMN not in (columns.report or ()):
        texts = _texts(source, parameters.COLUMN, columns.where)
        if not parameters.states_protocols(texts):  # a column of this name with another meaning
            if protocol is None and texts:
                parameters.parse_protocol(next(text for text in texts if not parameters.states_protocols([text])))
            texts = []
    published = [entries.get(parameters.METADATA) for entries in source.metadata()]
    return texts, published


def _check_levels(source, columns, channels, column):
    """Refuse a column of levels beside protocols that the data state, where the two differ."""
    texts, published = _stated(source, True, columns)
    stated = [parameters.parse_protocol(text).protocol for text in texts or filter(None, dict.fromkeys(published))]
    other = next((protocol for protocol in stated if protocol not in channels.protocols), None)
    if other is not None:
        where = "the column 'protocol'" if texts else "the metadata"
        raise DataError(f"{where} states {shown(other)}, and the column {shown(column)} has no such level; read one of them")


@dataclass(frozen=True)
class RowOptions:
    """What is asked of the rows of any source: arguments of ``read``."""

    protocol: Any = None
    report: Any = None
    count: str | None = None
    categories: Sequence[str] | None = None
    name: str | None = None
    epsilon_column: str | None = None
    rate_column: str | None = None
    by: Any = None
    weights: str | None = None
    strata: str | None = None
    cluster: str | None = None
    population_size: Any = None
    by_user: str | None = None
    bad_rows: str = "refuse"
    quarantine: Any = None
    missing: Any = None
    copies: str = "refuse"
    bitorder: str = "big"
    #: Keys of a collection file about the reports and their respondents, as ``sources.stated`` has them.
    stated: Mapping[str, Any] | None = None

    def columns(self, by: Sequence[str], skipped: Skipped | None) -> TableColumns:
        """Return the columns that are the same for all channels, with what takes bad rows."""
        sample = SampleColumns(self.weights, self.strata, self.cluster, self.population_size)
        missing = Missing.of(self.missing, by, sample.names)
        return TableColumns(by=by, user=self.by_user, sample=sample, skipped=skipped, missing=missing)

    def refuse(self, names: Iterable[str], why: str) -> None:
        """Refuse the first of some arguments that is given to a source that states it itself."""
        for name in names:
            value, default = getattr(self, name), {"bad_rows": "refuse", "copies": "refuse", "bitorder": "big"}.get(name)
            if value is not None and (default is None or value != default):
                raise ArgumentError(f"{name} must be left out: {why}.")


#: Arguments about how the reports were made.
LAYOUT = ("protocol", "report", "count", "categories", "name", "epsilon_column", "rate_column", "bitorder")


def read_table(data: Any, rows: RowOptions, whole: bool = False) -> Tally | Collection | Cells:
    """Return the reports of files or of a data frame.

    With ``whole`` the result is never a Tally, and knows the name of its file and the numbers that the file publishes.
    """
    path = data if isinstance(data, (str, bytes, os.PathLike)) else None
    try:
        return _read(open_source(data), rows, path if whole else None)
    except DataError as err:
        raise err.at(source=path) from err.__cause__
    except ArgumentError as err:
        if not whole:
            raise
        raise DataError(str(err).rstrip("."), source=path or None) from None


def _read(source, rows, path):
    """Return the reports of a source; with a path always a Collection or Cells, named after the file."""
    name = "all" if rows.name is None else checks.text(rows.name, "name", empty=False)
    count, epsilon, rate, _ = (
        checks.column(getattr(rows, what), what) for what in ("count", "epsilon_column", "rate_column", "by_user")
    )
    skipped, by = Skipped.of(rows.bad_rows, rows.quarantine), checks.columns(rows.by, "by") or ()
    columns = replace(rows.columns(by, skipped), report=checks.columns(rows.report, "report"), count=count)
    source.lenient, source.count_column = skipped is not None, count
    source.copies = checks.choice(rows.copies, "copies", COPIES)
    labels = parameters.labels_of(rows.categories)
    channels = find_channels(source, rows.protocol, columns, categories=labels, epsilon=epsilon, rate=rate, name=name)
    if channels.categories is None and columns.report is not None:
        channels = replace(channels, categories=names_of_bits(channels.protocols[0], columns.report))
    cells = read_cells(source, replace(channels, bitorder=rows.bitorder), columns)
    left_out = "" if skipped is None else skipped.tell(rows.quarantine)
    if not any(cells) and columns.missing is not None and columns.missing.counts:
        raise DataError("has no answer: all are missing")
    if not any(cells):
        raise DataError(f"has no good row: {left_out.rstrip('.')}" if left_out else "the source has no rows")
    plain = not by and not columns.sample and path is None and skipped is columns.missing is None
    if plain and len(cells) == 1:
        return cells[0][()][0]
    facts: dict[str, Any] = {}
    if path is not None:
        named = {} if glob.has_magic(str(path)) else {"id": files.stem(files.as_path(path))}  # a pattern is no name
        facts |= named | ({} if by else {"published": published_of(source)})
    facts |= facts_stated(rows.stated or {})
    data = assembled(under_shared_keys(cells) if source.of_texts else cells, channels.labels, columns, facts)
    data = doubted(data, rows.stated or {})
    if path is not None and not by:
        data.announce()
    return data


def read_cells(source: Source, channels: Channels, columns: TableColumns) -> list[dict[tuple, tuple]]:
    """Return the tallies of the channels of a table, a dict for each.

    Returns
    -------
    list of dict
        From the key of a cell to (tally, places of the reports in it, counts, entries of the columns of the sample), which
        is what ``SampleColumns.survey`` takes; without a sample only the tally is there.
    """
    sample = columns.sample
    if columns.user is not None:
        if sample:
            raise ArgumentError("weights, strata, cluster and population_size must be left out with by_user.")
        reader = rooms.function(rooms.brought("USERS")["read"])
        return [{key: (tally,) for key, tally in cells.items()} for cells in reader(source, channels, columns)]
    with by_users(channels.protocols):
        parts_of = read_parts(source, channels, columns, (*columns.by, *sample.names))
    out: list[dict] = []
    for protocol, name, by_key in zip(channels.protocols, channels.names, parts_of, strict=True):
        cells: dict[tuple, list] = {}
        for key, parts in by_key.items():
            cells.setdefault(key[: len(columns.by)], []).extend((*part, key[len(columns.by) :]) for part in parts)
        out.append({})
        for key, parts in cells.items():
            reports, counts = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
            if key and not counts.any():
                raise DataError(f"has no reports in the cell {', '.join(map(str, key))}; leave out rows that count nobody")
            tally = Tally.trusted(protocol, reports, counts, name, channels.categories)
            out[-1][key] = (tally,)
            if sample:
                entries = [entry for *_, own, entry in parts for _ in own]
                out[-1][key] = tally, places(tally.reports, reports), counts, entries
    return out


def under_shared_keys(found: Sequence[Mapping[tuple, tuple]]) -> list[dict[tuple, tuple]]:
    """Return what ``read_cells`` found under the keys that files of any format share."""
    shared = shared_keys(list(dict.fromkeys(key for cells in found for key in cells)))
    return [{shared[key]: entry for key, entry in cells.items()} for cells in found]


def assembled(
    found: Sequence[Mapping[tuple, tuple]], categories: Sequence[str], columns: TableColumns, facts: dict
) -> Collection | Cells:
    """Return the Collection, or with grouping columns the Cells, of the tallies that ``read_cells`` found.

    ``facts`` are fields of the collection, or of all cells; ``id`` and ``title`` are those of the cells as a whole.
    """
    by, absent = columns.by, dict[tuple, list]()
    for key, n in ({} if columns.missing is None else columns.missing.counts).items():
        absent.setdefault(key[: len(by)], []).append((n, key[len(by) :]))
    missing = {key: sum(n for n, _ in parts) for key, parts in absent.items()}
    keys = sorted_keys({key for cells in found for key in cells})
    groups = {key: [cells[key] for cells in found if key in cells] for key in keys}
    tallies = {key: tuple(tally for tally, *_ in entries) for key, entries in groups.items()}
    notes = [facts.get("notes"), "" if columns.skipped is None else columns.skipped.sentence]
    notes.append(sentence(missing, sum(tally.n_reports for tallies_of in tallies.values() for tally in tallies_of)))
    facts["notes"] = "\n".join(filter(None, notes))
    surveys: dict[Any, Any] = dict.fromkeys(keys)
    if columns.sample:
        parts = {key: [(i, *rest) for i, (_, *rest) in enumerate(rows)] for key, rows in groups.items()}
        surveys = columns.sample.surveys(parts, {key: absent.get(tuple(map(str, key)), []) for key in keys})
    named = {name: facts.pop(name) for name in ("id", "title") if by and name in facts}
    collections = {}
    for key, tallies_of in tallies.items():
        texts = tuple(map(str, key))
        facts |= {"survey": surveys[key], "missing": missing.get(texts, 0)} | ({"id": ", ".join(texts)} if by else {})
        try:
            collections[key] = Collection(tuple(categories), tallies_of, **facts)
        except DataError as err:
            raise (DataError(f"cell {facts['id']!r}: {err.message}", field=err.field) if by else err) from err.__cause__
    return Cells(collections, by, **named) if by else collections[()]


def _check(protocol, epsilon, rate):
    """Refuse a protocol that is none, and columns that do not go together."""
    if epsilon is not None and rate is not None:
        raise ArgumentError("epsilon_column and rate_column must not both be given: a rate fixes epsilon.")
    if protocol is not None and rate is not None:
        raise ArgumentError("protocol must be left out with rate_column, which is that of randomized response.")
    named = epsilon is not None and (isinstance(protocol, str) or inspect.isfunction(protocol))
    if protocol is not None and not named:
        parameters.check_protocol(protocol)


def _texts(source, column, where, lenient=False):
    """Return the distinct entries of a column, as texts, in order; missing ones are refused, or left out."""
    texts = {}
    for batch in source.condensed([column, *(name for name in where if name != column)], strict=not where):
        if not set(where) <= set(batch.table.schema.names):
            continue
        try:
            with batch.part(matching(batch.table, where)) as matched:
                codes, values = encoded_key(matched.table, column, missing=lenient)
        except DataError as err:
            raise batch.located(err) from None
        present = (values[code] for code in set(codes.tolist()))
        texts.update(dict.fromkeys(str(value).strip() for value in present if value is not None))
        if len(texts) > MAX_CHANNELS:
            raise DataError(f"has more than {MAX_CHANNELS:,} different entries, each of which is a channel", field=column)
    if "" in texts and not lenient:
        raise DataError("has an empty entry", field=column)
    return sorted(texts)


def by_epsilon(protocol: Any, categories: Sequence[str] | None) -> Callable[[float], AbstractProtocol]:
    """Return the function from ε to the protocol at that level, which can be pickled where the caller's own can.

    Parameters
    ----------
    protocol : AbstractProtocol, str or callable
        One at any level, whose other parameters stay; the name of one; or the function itself.
    categories : sequence of str, optional
        Labels.

    Raises
    ------
    ArgumentError
        Where no protocol is named, or ε is no parameter of it.
    """
    if protocol is None:
        raise ArgumentError("protocol must be given with epsilon_column: an object, or a name such as 'olh'.")
    if inspect.isfunction(protocol):
        return protocol
    named = isinstance(protocol, str)
    if named and categories is None:
        raise ArgumentError("categories must be named where protocol is a name.")
    design, settings = (protocol, {}) if named else (protocol.design, protocol.parameters())
    if not named and "epsilon" not in settings:
        raise ArgumentError(f"epsilon_column must be left out: {shown(protocol)} takes its level from other parameters.")
    labels = protocol.default_labels if categories is None else categories
    return functools.partial(_at_level, design, tuple(labels), settings)


def _at_level(design, labels, settings, level):
    """Return the protocol of a name at a level."""
    return make_protocol(design, labels, settings | {"epsilon": level})


def _by_rate(categories):
    """Return the function from a rate of replacement to randomized response over the categories."""
    if categories is None:
        raise ArgumentError("categories must be named with rate_column.")

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


def protocol_at(make: Callable[[float], AbstractProtocol], text: str, column: str | None) -> AbstractProtocol:
    """Return the protocol of one entry of a column of levels.

    Parameters
    ----------
    make : callable
    text : str
    column : str
        For messages.

    Raises
    ------
    DataError
        Where the entry is no number, or no level.
    """
    try:
        level = number(text)
        return make(float(text) if level is None else level)
    except ValueError as err:  # also an ArgumentError
        reason = str(err).rstrip(".") if isinstance(err, LDPBayesError) else f"must hold numbers, got {shown(text)}"
        raise DataError(reason, field=column) from None


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
        raise DataError("the source has no rows")
    if len(protocols) == 1:
        return Channels((protocols[0],), (name,), categories, None, positions)
    names = parameters.channel_names(protocols)
    names = names if name == "all" else [f"{name}, {own}" for own in names]
    return Channels(tuple(protocols), tuple(names), categories, (column, places), positions)
