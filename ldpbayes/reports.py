"""Collection files: ``<id>.toml`` describes categories and channels, CSV files beside it hold tallies or reports."""

import csv
import io
import pathlib
import tomllib
from fractions import Fraction

import numpy as np

from ldpbayes import files
from ldpbayes.errors import DataError, LDPBayesError
from ldpbayes.protocols import make_protocol
from ldpbayes.tally import Collection, Derived, Tally

_TEXTS = ("id", "title", "question", "citation", "licence", "notes")
_COLLECTION_KEYS = {*_TEXTS, "categories", "channels", "derived", "published"}
_CHANNEL_KEYS = {"name", "protocol", "parameters", "file", "where", "report", "count", "n"}


def read_collection(path):
    """Read a collection file and the CSV files it names.

    The file holds ``id``, ``title``, ``question``, ``citation``, ``licence``, ``notes``, ``categories`` and one
    ``[[channels]]`` table per channel: ``name``, ``protocol`` (a name of ``ldpbayes protocols``), ``parameters``,
    ``file`` (CSV beside the collection file), ``where`` (column = value: the rows of this channel), ``report`` (the
    column or columns of one report), ``count`` (the column of counts; without it every row is one report) and ``n``
    (the total that the counts must add up to). Probabilities may be written as fractions, "1/6".

    Parameters
    ----------
    path : path-like

    Returns
    -------
    Collection

    Raises
    ------
    DataError
        Naming file, line and field, on anything malformed.

    Warns
    -----
    RankDeficientWarning
        Where the channels together cannot tell some categories apart.
    """
    path = pathlib.Path(path)
    try:
        document = tomllib.loads(files.read_text(path))
    except tomllib.TOMLDecodeError as err:
        raise DataError(f"is not valid TOML: {err}", source=path) from err
    _known(document, _COLLECTION_KEYS, path)
    texts = {key: document[key] for key in _TEXTS if key in document}
    for key, value in texts.items():
        if not isinstance(value, str):
            raise DataError("must be text", source=path, field=key)
    categories = document.get("categories")
    if not isinstance(categories, list) or not all(isinstance(c, str) for c in categories):
        raise DataError('must be a list of labels, such as ["no", "yes"]', source=path, field="categories")
    channels = document.get("channels")
    if not isinstance(channels, list) or not channels or not all(isinstance(c, dict) for c in channels):
        raise DataError("needs at least one [[channels]] table", source=path, field="channels")
    try:
        collection = Collection(
            categories=tuple(categories),
            tallies=tuple(_read_channel(path, categories, channel, i) for i, channel in enumerate(channels)),
            derived=tuple(_derived(name, entry) for name, entry in document.get("derived", {}).items()),
            published=tuple(document.get("published", ())),
            **{"id": path.stem, **texts},
        )
    except DataError as err:
        raise err.at(source=path) from err.__cause__
    collection.warn_if_unidentified()
    return collection


def write_collection(collection, path):
    """Write a collection as a TOML file and one CSV beside it; reading it back gives the same collection.

    Parameters
    ----------
    collection : Collection
    path : path-like
        Ends in ``.toml``; the tallies go to the same name with ``.csv``.
    """
    import tomli_w

    path = pathlib.Path(path)
    table = path.with_suffix(".csv")
    document = {key: getattr(collection, key) for key in _TEXTS if getattr(collection, key)}
    document["categories"] = list(collection.categories)
    # Channels whose reports have the same columns share the file's columns; others leave them empty.
    single = len(collection.tallies) == 1
    fields = list(dict.fromkeys(f for tally in collection.tallies for f in tally.protocol.report_fields))
    lines = [[*([] if single else ["channel"]), *fields, "count"]]
    document["channels"] = []
    for tally in collection.tallies:
        own = tally.protocol.report_fields
        columns = tally.protocol.format_reports(tally.reports, collection.categories)
        texts = dict(zip(own, columns, strict=True))
        for j, count in enumerate(tally.counts.tolist()):
            cells = [texts[f][j] if f in texts else "" for f in fields]
            lines.append([*([] if single else [tally.name]), *cells, str(count)])
        entry = {"name": tally.name, "protocol": getattr(tally.protocol, "design", tally.protocol.name)}
        entry |= {"file": table.name} | ({} if single else {"where": {"channel": tally.name}})
        entry |= {"report": own[0] if len(own) == 1 else list(own), "count": "count", "n": tally.n_reports}
        parameters = _canonical(tally.protocol.parameters())
        document["channels"].append(entry | ({"parameters": parameters} if parameters else {}))
    if collection.derived:
        document["derived"] = {
            item.name: {"of": list(item.of)} | ({"given": list(item.given)} if item.given else {})
            for item in collection.derived
        }
    if collection.published:
        document["published"] = list(collection.published)
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    files.write_text(table, text.getvalue())
    files.write_text(path, tomli_w.dumps(document, multiline_strings=False))


def _read_channel(path, categories, channel, position):
    name = channel.get("name", "all" if position == 0 else f"channel {position + 1}")
    field = f"channels.{name}"
    _known(channel, _CHANNEL_KEYS, path, field)
    for key in ("protocol", "file"):
        if not isinstance(channel.get(key), str):
            raise DataError(f"needs {key!r}", source=path, field=field)
    try:
        protocol = make_protocol(channel["protocol"], categories, _numbers(channel.get("parameters", {})))
    except (LDPBayesError, TypeError) as err:
        raise DataError(str(err).rstrip("."), source=path, field=field) from err
    report = channel.get("report", list(protocol.report_fields))
    report = [report] if isinstance(report, str) else report
    if len(report) != len(protocol.report_fields):
        raise DataError(
            f"report must name {len(protocol.report_fields)} columns ({', '.join(protocol.report_fields)})",
            source=path,
            field=field,
        )
    source = path.parent / channel["file"]
    lines, columns, counts = _read_table(source, report, channel.get("count"), channel.get("where", {}))
    if not lines:
        raise DataError(f"has no rows for channel {name!r}", source=source)
    try:
        reports = protocol.parse_reports(columns, categories)
        tally = Tally(protocol, reports, counts, name)
    except DataError as err:
        line = None if err.line is None else lines[err.line]
        raise DataError(err.message, source=source, line=line, field=err.field or report[0]) from None
    stated = channel.get("n")
    if stated is not None and stated != tally.n_reports:
        raise DataError(f"counts add up to {tally.n_reports}, but n says {stated}", source=path, field=field)
    return tally


def _read_table(source, report, count, where):
    """Return line numbers, the report columns as text, and the counts (None without a count column)."""
    reader = csv.reader(io.StringIO(files.read_text(source)), strict=True)
    try:
        header = [cell.strip() for cell in next(reader, [])]
        used = [*report, *([count] if count else []), *where]
        for column in used:
            if column not in header:
                raise DataError(f"has no column {column!r}; it has {', '.join(header) or 'none'}", source=source, line=1)
        wanted = {header.index(key): str(value) for key, value in where.items()}
        positions = [header.index(column) for column in report]
        lines, columns, counts = [], [[] for _ in report], []
        for cells in reader:
            if not cells:
                continue
            if len(cells) != len(header):
                raise DataError(f"has {len(cells)} cells, the header {len(header)}", source=source, line=reader.line_num)
            if any(cells[i].strip() != value for i, value in wanted.items()):
                continue
            lines.append(reader.line_num)
            for column, i in zip(columns, positions, strict=True):
                column.append(cells[i])
            if count:
                counts.append(_count(cells[header.index(count)], source, reader.line_num, count))
    except csv.Error as err:
        raise DataError(f"is not a valid CSV file: {err}", source=source, line=reader.line_num) from err
    return lines, columns, np.array(counts, dtype=np.int64) if count else None


def _count(text, source, line, field):
    try:
        value = int(text)
    except ValueError:
        raise DataError(f"count must be a whole number, got {text!r}", source=source, line=line, field=field) from None
    if not 0 <= value < 2**62:
        raise DataError(f"count must be from 0 to 2**62, got {value}", source=source, line=line, field=field)
    return value


def _derived(name, entry):
    if not isinstance(entry, dict) or set(entry) - {"of", "given"} or not entry.get("of"):
        raise DataError("must have of = [categories] and, for a share, given = [categories]", field=f"derived.{name}")
    return Derived(name, tuple(entry["of"]), tuple(entry.get("given", ())))


def _known(table, keys, path, field=None):
    for key in table:
        if key not in keys:
            raise DataError(f"unknown key {key!r}; known are {', '.join(sorted(keys))}", source=path, field=field)


def _numbers(value):
    """Return value with every text of the form "p/q" or a decimal turned into a float; other texts stay."""
    if isinstance(value, dict):
        return {key: _numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    if isinstance(value, str) and "/" in value:
        try:
            return float(Fraction(value))
        except (ValueError, ZeroDivisionError):
            return value
    return value


def _canonical(value):
    """Return value ready for TOML: floats that are small fractions but long decimals become "p/q"."""
    if isinstance(value, dict):
        return {key: _canonical(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_canonical(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and len(repr(value)) > 10:
        fraction = Fraction(value).limit_denominator(1000)
        if float(fraction) == value:
            return str(fraction)
    return value
