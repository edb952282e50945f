"""Files of summaries: Parquet with one row a cell."""

import functools
import json
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ldpbayes import checks, files
from ldpbayes.checks import MAX_COUNT
from ldpbayes.collections import Collection, Tally
from ldpbayes.errors import ArgumentError, DataError, LDPBayesError, shown
from ldpbayes.likelihoods import Summary
from ldpbayes.presenting import AbstractResult
from ldpbayes.scanning.partials import ReportSample
from ldpbayes.sources.base import foreign
from ldpbayes.sources.keys import plain_keys
from ldpbayes.sources.parameters import parse_protocol, protocol_text
from ldpbayes.sources.parquet import read_whole
from ldpbayes.sources.paths import FileSource

_VECTORS = ("pilot", "gradient", "square", "cross", "spread", "supports")
#: Answers that are missing, and what a test of the design needs: columns that files of earlier versions have not.
_MISSING, _EXCESS = "missing", "excess"
#: The key of the text in place of the protocol, for cells without one.
_LABELS = "categories"
#: The key of the file's metadata that names the grouping columns; without it they are the columns not listed above.
_BY = b"ldpbayes.by"
#: That of what a reader should know.
_NOTES = b"ldpbayes.notes"
#: That of what tells the files that were read from others.
_ORIGINS = b"ldpbayes.origins"


@functools.cache
def _types() -> dict[str, Any]:
    """Return the columns other than the grouping columns, with their Arrow types."""
    import pyarrow as pa

    return {
        "protocol": pa.dictionary(pa.int32(), pa.string()),
        **dict.fromkeys(("n_reports", "value", "log_constant"), pa.float64()),
        **dict.fromkeys(_VECTORS, pa.list_(pa.float64())),
        "reports": pa.large_binary(),
        "counts": pa.list_(pa.int64()),
        "sample_level": pa.int32(),
        "sample_keys": pa.list_(pa.uint64()),
        "sample_reports": pa.large_binary(),
        _MISSING: pa.int64(),
        _EXCESS: pa.list_(pa.float64()),
    }


def write(found: Any, path: Any) -> None:
    """Write cells that may be summaries, one row a cell and channel, of a scan with its samples; whole or not at all."""
    path = files.as_parquet(path)
    import pyarrow as pa
    from pyarrow import parquet

    reserved = [name for name in found.by if name in _types()]
    if reserved:
        raise DataError(f"a grouping column cannot be called {shown(reserved[0])} in a file of summaries; rename it")
    of_scan = isinstance(found, AbstractResult)
    if of_scan:
        channels = [(_text(found, channel.protocol), channel.parts()) for channel in found.by_channel]
    else:
        channels = [(_stated(found), ((key, cell, None) for key, cell in found.items()))]
    rows: dict[str, list] = {name: [] for name in (*found.by, *_types())}
    for text, parts in channels:
        for key, cell, sample in parts:
            row = dict.fromkeys(rows) | dict(zip(found.by, key, strict=True)) | {"protocol": text}
            row[_MISSING] = cell.missing
            if cell.keeps_reports:
                (tally,) = cell.tallies
                row |= {"n_reports": float(cell.n_reports), "reports": _to_bytes(tally.reports), "counts": tally.counts}
            else:
                row |= {name: getattr(cell, name) for name in ("n_reports", "value", "log_constant", *_VECTORS, _EXCESS)}
            if sample is not None:
                row |= {"sample_level": sample.level, "sample_keys": sample.keys}
                row["sample_reports"] = _to_bytes(sample.reports)
            for name, value in row.items():
                rows[name].append(value)
    with foreign("the grouping columns cannot be written"):
        keys = {name: pa.array(rows[name]) for name in found.by}
    columns = keys | {name: pa.array(rows[name], type=kind) for name, kind in _types().items()}
    metadata = {_BY: "\n".join(found.by), _NOTES: found.notes}
    metadata |= {_ORIGINS: json.dumps(sorted(found.origins))} if of_scan and found.origins else {}
    table = pa.table(columns).replace_schema_metadata(metadata)
    with files.replacing(path) as temporary:
        parquet.write_table(table, temporary, compression="zstd", write_page_checksum=True)
    for checkpoint in found.checkpoints if of_scan else ():
        checkpoint.remove()


def _text(found: Any, protocol: Any) -> str:
    """Return the text of a protocol of cells; of cells that know none, such as sums over several, that of the labels."""
    return json.dumps({_LABELS: list(found.categories)}) if protocol is None else protocol_text(protocol, found.categories)


def _stated(found: Any) -> str:
    """Return the text of the protocol of cells that are no scan's."""
    tallies = [tally for cell in found.collections() for tally in cell.tallies]
    protocol = tallies[0].protocol if tallies else None
    several = any(len(cell.tallies) > 1 for cell in found.collections())
    if several or any(tally.protocol != protocol for tally in tallies):
        raise ArgumentError(
            "cells beside summaries must have their reports through one channel, the same in all; write them to a file of "
            "their own."
        )
    return _text(found, protocol)


def _alphabet(text: str) -> tuple[Any, tuple[str, ...]]:
    """Return (protocol, or None where there is none, labels) of what ``_stated`` returned."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if isinstance(document, dict) and list(document) == [_LABELS]:
        return None, checks.labels(document[_LABELS], _LABELS, "distinct labels")
    protocol = parse_protocol(text)
    return protocol.protocol, protocol.categories or protocol.protocol.default_labels


def paths_of(data: Any) -> list[str]:
    """Return the files that data name where the first is one of summaries; none where it is not, or cannot be read."""
    try:
        paths = FileSource.opened(data).paths
        names = FileSource(paths[:1]).names() if files.is_parquet(paths[0]) else []
    except LDPBayesError:
        return []
    return paths if set(_types()) <= {*names, _MISSING, _EXCESS} else []


class Stored(NamedTuple):
    """What a file of summaries holds.

    Attributes
    ----------
    protocols : list of AbstractProtocol or None
        One a channel; the only one is None where the cells know none.
    cells, samples : list of dict
        Of each channel, by the key of a cell.
    by : list of str or None
    categories : tuple of str
    notes : str
    origins : list of str
    """

    protocols: list[Any]
    cells: list[dict[tuple, Any]]
    samples: list[dict[tuple, ReportSample]]
    by: list[str] | None
    categories: tuple[str, ...]
    notes: str
    origins: list[str]


def read(path: Any) -> Stored:
    """Return what a file holds that ``write`` wrote."""
    (path,) = FileSource([files.text_of(path)]).paths
    if not paths_of(path):
        raise DataError("is no file of summaries; read files of reports by themselves", source=path)
    table = read_whole(path)
    try:
        return _found(table)
    except DataError as err:
        raise DataError(err.message, source=path, field=err.field) from err
    except LDPBayesError as err:
        raise DataError(str(err).rstrip("."), source=path) from err


def _found(table):
    metadata = table.schema.metadata or {}
    by = [name for name in table.schema.names if name not in _types()]
    if _BY in metadata:
        by = [name for name in metadata[_BY].decode().split("\n") if name in by]
    with foreign("is not a readable Parquet file"):
        rows = table.to_pylist()
    if not rows:
        raise DataError("has no rows")
    texts = list(dict.fromkeys(row["protocol"] for row in rows))
    if None in texts:
        raise DataError("holds cells without their protocol", field="protocol")
    stated = [_alphabet(text) for text in texts]
    protocols, labels = [protocol for protocol, _ in stated], stated[0][1]
    if any(other != labels for _, other in stated) or (None in protocols and len(protocols) > 1):
        raise DataError("holds cells over different categories; write one file for each", field="protocol")
    cells: list[dict] = [{} for _ in texts]
    samples: list[dict] = [{} for _ in texts]
    for row in rows:
        place = texts.index(row["protocol"])
        key = tuple(plain_keys([row[name] for name in by], ", ".join(by))) or ("all",)
        if any(part is None for part in key):
            raise DataError("holds a cell without a key")
        if key in cells[place]:
            raise DataError(f"holds the cell {', '.join(map(str, key))} twice")
        cells[place][key] = _cell(row, key, protocols[place], labels)
        if row["sample_level"] is not None:
            samples[place][key] = _sample(row, protocols[place])
    return Stored(
        protocols, cells, samples, by or None, labels, metadata.get(_NOTES, b"").decode(errors="replace"), _origins(metadata)
    )


def _cell(row, key, protocol, labels):
    """Return a cell of one channel."""
    if protocol is None and (row["reports"] is not None or row["sample_level"] is not None):
        raise DataError("holds reports, and states no protocol", field="protocol")
    if row["reports"] is None:
        cell = _summary(row, len(labels), protocol)
    else:
        reports = protocol.check_reports(_from_bytes(row["reports"]))
        counts = _numbers(row, "counts", np.int64, len(reports))
        tally = Tally(protocol, reports, counts, categories=labels)
        if tally.n_reports != row["n_reports"]:
            raise DataError(f"counts add up to {tally.n_reports}, but n_reports says {shown(row['n_reports'])}")
        cell = Collection(labels, (tally,), id=", ".join(map(str, key)))
    many = row.get(_MISSING) or 0
    if type(many) is not int or not 0 <= many <= MAX_COUNT:
        raise DataError("must hold whole numbers from 0 to 10**12", field=_MISSING)
    return replace(cell, missing=many) if many else cell


def _sample(row, protocol):
    """Return the sample of a cell."""
    if row["sample_reports"] is None or not 0 <= row["sample_level"] <= 64:
        raise DataError("holds a sample that was cut off", field="sample_reports")
    reports = protocol.check_reports(_from_bytes(row["sample_reports"]))
    return ReportSample(row["sample_level"], _numbers(row, "sample_keys", np.uint64, len(reports)), reports)


def _origins(metadata):
    """Return what the metadata say of the files that were read."""
    try:
        stated = json.loads(metadata.get(_ORIGINS, b"[]"))
    except (ValueError, RecursionError):
        stated = None
    if not isinstance(stated, list) or not all(isinstance(entry, str) for entry in stated):
        raise DataError("has metadata that do not say which files were read")
    return stated


def _summary(row, a, protocol):
    vectors = {name: None if row[name] is None else np.array(row[name], dtype=float) for name in _VECTORS}
    for name, vector in vectors.items():
        if vector is None and name not in ("spread", "supports"):
            raise DataError("holds missing values", field=name)
        if vector is not None and (vector.shape != (a,) or not np.isfinite(vector).all()):
            raise DataError(f"must hold {a} finite numbers a cell", field=name)
        if vector is not None and name in ("spread", "supports") and (vector < 0).any():
            raise DataError("must hold no negative numbers", field=name)
    pilot = vectors["pilot"]
    if (pilot < 0).any() or abs(pilot.sum() - 1) > 1e-6:
        raise DataError("must hold probabilities that add up to one", field="pilot")
    numbers = {name: row[name] for name in ("n_reports", "value", "log_constant")}
    for name, value in numbers.items():
        if value is None or not np.isfinite(value):
            raise DataError("must hold finite numbers", field=name)
    if not 0 < row["n_reports"] <= MAX_COUNT:
        raise DataError(f"must hold numbers above 0, at most 10**12, got {row['n_reports']:g}", field="n_reports")
    return Summary(**numbers, **vectors, excess=_excess(row, vectors["supports"], protocol))


def _excess(row, supports, protocol):
    """Return ``Summary.excess``; of files without it from the support counts, where these are the sizes of the reports."""
    stated = row.get(_EXCESS)
    if stated is not None:
        excess = np.array(stated, dtype=float)
        if excess.shape != (2,) or not np.isfinite(excess).all() or excess[1] < 0:
            raise DataError("must hold a number and its variance", field=_EXCESS)
        return excess
    if supports is None or protocol is None or protocol.supports() is None or (law := protocol.size_law()) is None:
        return None
    return law.excess(row["n_reports"], supports.sum())


def _numbers(row, name, dtype, size):
    """Return a column of whole numbers, one for each of a cell's reports."""
    numbers = row[name]
    if numbers is None or None in numbers or len(numbers) != size:
        raise DataError(f"must hold {size:,} whole numbers", field=name)
    return np.array(numbers, dtype=dtype)


def _to_bytes(reports):
    """Return canonical reports as bytes: element size, entries a report, then the numbers, low byte first."""
    width = 0 if reports.ndim == 1 else reports.shape[1]
    head = np.array([reports.dtype.itemsize, width], dtype="<i4").tobytes()
    return head + np.ascontiguousarray(reports).astype(reports.dtype.newbyteorder("<")).tobytes()


def _from_bytes(data):
    if len(data) < 8:
        raise DataError("holds reports that were cut off")
    size, width = np.frombuffer(data[:8], dtype="<i4").tolist()
    if size not in (1, 8) or width < 0 or (len(data) - 8) % (size * max(width, 1)):
        raise DataError("holds reports that were cut off")
    reports = np.frombuffer(data[8:], dtype=np.uint8 if size == 1 else "<i8").astype(np.uint8 if size == 1 else np.int64)
    return reports.reshape(-1, width) if width else reports
