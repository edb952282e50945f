"""Files of summaries: Parquet with one row a cell."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldpbayes import files
from ldpbayes.collections import Collection, Tally
from ldpbayes.errors import DataError, LDPBayesError, listed, shown
from ldpbayes.likelihoods import Summary
from ldpbayes.sources.base import foreign, optional
from ldpbayes.sources.parameters import parse_protocol, protocol_text
from ldpbayes.sources.scanning.found import Found
from ldpbayes.sources.scanning.partials import ReportSample

_VECTORS = ("pilot", "gradient", "square", "cross", "spread", "supports")
#: Columns other than the grouping columns.
COLUMNS = (
    "protocol",
    "n_reports",
    "value",
    "log_constant",
    *_VECTORS,
    "reports",
    "counts",
    "sample_level",
    "sample_keys",
    "sample_reports",
)
#: The key of the file's metadata that names the grouping columns; without it they are the columns not listed above.
_BY = b"ldpbayes.by"


def write(found: Found, path: Any) -> None:
    """Write the cells of a scan, one row each; see ``Found.to_parquet``."""
    pa = optional("pyarrow", "Writing Parquet")
    parquet = optional("pyarrow.parquet", "Writing Parquet")
    taken = [name for name in found.by if name in COLUMNS]
    if taken:
        raise DataError(f"a grouping column cannot be called {shown(taken[0])} in a file of summaries; rename it")
    text = protocol_text(found.protocol, found.categories)
    rows: dict[str, list] = {name: [] for name in (*found.by, *COLUMNS)}
    for key, cell in found.items():
        row = dict.fromkeys(rows) | dict(zip(found.by, key, strict=True)) | {"protocol": text}
        row |= _of_collection(cell) if isinstance(cell, Collection) else _of_summary(cell)
        if key in found.samples:
            sample = found.samples[key]
            row |= {"sample_level": sample.level, "sample_keys": sample.keys, "sample_reports": _to_bytes(sample.reports)}
        for name, value in row.items():
            rows[name].append(value)
    types = {
        "protocol": pa.dictionary(pa.int32(), pa.string()),
        "n_reports": pa.float64(),
        "value": pa.float64(),
        "log_constant": pa.float64(),
        **{name: pa.list_(pa.float64()) for name in _VECTORS},
        "reports": pa.large_binary(),
        "counts": pa.list_(pa.int64()),
        "sample_level": pa.int32(),
        "sample_keys": pa.list_(pa.uint64()),
        "sample_reports": pa.large_binary(),
    }
    with foreign("the grouping columns cannot be written"):
        keys = {name: pa.array(rows[name]) for name in found.by}
    columns = keys | {name: pa.array(rows[name], type=kind) for name, kind in types.items()}
    table = pa.table(columns).replace_schema_metadata({_BY: "\n".join(found.by)})
    with files.replacing(path) as temporary:
        parquet.write_table(table, temporary, compression="zstd")


def is_summaries(path: Any) -> bool:
    """Return whether a file is one of summaries; a file that cannot be read is none."""
    if not str(path).lower().endswith((".parquet", ".pq")):
        return False
    try:
        parquet = optional("pyarrow.parquet", "Reading Parquet")
        files.open_input(path).close()
        with foreign("is not a readable Parquet file", path):
            return set(COLUMNS) <= set(parquet.read_schema(path).names)
    except LDPBayesError:
        return False


def read_summaries(path: Any) -> Found:
    """Return the cells that ``Found.to_parquet`` wrote.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    Found

    Raises
    ------
    DataError
        Where the file is not one of summaries, or its rows do not fit each other.
    """
    parquet = optional("pyarrow.parquet", "Reading Parquet")
    files.open_input(path).close()
    with foreign("is not a readable Parquet file", path):
        table = parquet.ParquetFile(path).read()
    try:
        return _found(table)
    except DataError as err:
        raise err.at(source=path) from err
    except LDPBayesError as err:
        raise DataError(str(err).rstrip("."), source=path) from err


def _found(table):
    missing = [name for name in COLUMNS if name not in table.schema.names]
    if missing:
        raise DataError(
            f"is no file of summaries: it has no column {shown(missing[0])}; it has {listed(table.schema.names)}"
        )
    metadata = table.schema.metadata or {}
    by = [name for name in table.schema.names if name not in COLUMNS]
    if _BY in metadata:
        by = [name for name in metadata[_BY].decode().split("\n") if name in by]
    rows = table.to_pylist()
    if not rows:
        raise DataError("has no rows")
    texts = {row["protocol"] for row in rows}
    if len(texts) > 1 or None in texts:
        raise DataError("holds cells of several protocols; write one file for each protocol")
    stated = parse_protocol(texts.pop())
    protocol = stated.protocol
    labels = stated.categories or tuple(str(i) for i in range(protocol.n_categories))
    cells, samples = {}, {}
    for row in rows:
        key = tuple(row[name] for name in by) or ("all",)
        if any(part is None for part in key):
            raise DataError("holds a cell without a key")
        if key in cells:
            raise DataError(f"holds the cell {', '.join(map(str, key))} twice")
        if row["reports"] is not None:
            reports = protocol.check_reports(_from_bytes(row["reports"]))
            counts = np.array(row["counts"], dtype=np.int64)
            tally = Tally(protocol, reports, counts, categories=labels)
            cells[key] = Collection(labels, (tally,), id=", ".join(map(str, key)))
        else:
            cells[key] = _summary(row, protocol.n_categories)
        if row["sample_level"] is not None:
            reports = protocol.check_reports(_from_bytes(row["sample_reports"]))
            samples[key] = ReportSample(row["sample_level"], np.array(row["sample_keys"], dtype=np.uint64), reports)
    return Found(cells, by or None, None, labels, protocol=protocol, samples=samples)


def _summary(row, a):
    vectors = {name: None if row[name] is None else np.array(row[name], dtype=float) for name in _VECTORS}
    for name, vector in vectors.items():
        if vector is None and name not in ("spread", "supports"):
            raise DataError("holds missing values", field=name)
        if vector is not None and (vector.shape != (a,) or not np.isfinite(vector).all()):
            raise DataError(f"must hold {a} finite numbers a cell", field=name)
    numbers = {name: row[name] for name in ("n_reports", "value", "log_constant")}
    for name, value in numbers.items():
        if value is None or not np.isfinite(value):
            raise DataError("must hold finite numbers", field=name)
    return Summary(**numbers, **vectors)


def _of_summary(cell):
    names = ("n_reports", "value", "log_constant", *_VECTORS)
    return {name: getattr(cell, name) for name in names}


def _of_collection(cell):
    (tally,) = cell.tallies
    return {"n_reports": float(cell.n_reports), "reports": _to_bytes(tally.reports), "counts": tally.counts}


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
