"""Runs a study: a grid of cells, in parallel, one Parquet file a finished cell, so that an interrupted run goes on."""

import hashlib
import json

import numpy as np

from ldpbayes import checks, files
from ldpbayes.errors import ArgumentError, DataError
from ldpbayes.progress import track
from studies.base import SETTINGS, Study

#: What makes a cell; a study uses some of them, the rest are null.
CELL_COLUMNS = {
    "protocol": "string",
    "n_categories": "int64",
    "epsilon": "float64",
    "n_reports": "int64",
    "population": "string",
    "buckets": "int64",
    "cohorts": "int64",
    "times": "int64",
    "fakes": "float64",
}
#: Replications of a cell; the longest of the papers' settings has a thousand.
MAX_REPLICATIONS = 100_000
#: What a cell finds, one line per estimator, target and metric.
RESULT_COLUMNS = {
    "estimator": "string",
    "target": "string",
    "metric": "string",
    "value": "float64",
    "standard_error": "float64",
    "replications": "int64",
    "excess": "float64",
    "excess_error": "float64",
    "bound": "float64",
    "bound_any": "float64",
    "bound_finite": "float64",
    "expected": "float64",
    "expected_error": "float64",
}

COLUMNS = {"study": "string"} | CELL_COLUMNS | RESULT_COLUMNS
#: Key of a cell's file under which the cell itself stands.
_CELL = b"ldpbayes cell"


def find_study(name):
    """Return a study by its name, or raise an ArgumentError that lists the names."""
    from studies.catalogue import STUDIES

    return STUDIES[checks.choice(name, "study", tuple(STUDIES))]


def list_studies():
    """Return (name, title, source) of every study."""
    from studies.catalogue import STUDIES

    return [(study.name, study.title, study.source) for study in STUDIES.values()]


def run_study(study, setting="small", *, output=None, jobs=1, random_seed=0, replications=None, progressbar=False):
    """Return the results of a study as a pyarrow Table, and write them where a folder is given.

    Every cell draws from a generator seeded by random_seed and the cell's own values, so the numbers depend neither on
    ``jobs`` nor on the order or the number of the cells. A finished cell is a file under ``output/cells``, written under a
    temporary name and renamed; a later run with the same seed and replications reads it instead of computing it again.

    Parameters
    ----------
    study : Study or str
        One of STUDIES, or its name.
    setting : {"small", "paper"}
        About a minute on one core, or the whole grid, which studies of the papers' figures have in a checkout of the project
        only (``python -m studies``).
    output : path-like, optional
        Folder for ``<study>-<setting>.parquet`` and the cells; made where missing.
    jobs : int
        Processes of joblib; −1 for every core. Under ``joblib.parallel_config("dask")`` or ``"ray"`` they are a cluster's.
    random_seed : int
    replications : int, optional
        Instead of the setting's own.
    progressbar : bool
        Show progress on standard error.

    Returns
    -------
    pyarrow.Table
        Columns ``study``, CELL_COLUMNS and RESULT_COLUMNS. ``value`` is the Monte Carlo mean of ``metric`` and
        ``standard_error`` its error; ``excess`` is how much more it is than the posterior mean's on the same reports, with
        its own (paired) error; ``bound`` and ``bound_any`` are the large-n floors of Corollary 4.3 and Theorem 4.5 of
        Lopuhaä-Zwakenberg et al. (2020), ``bound_finite`` that of Theorem 4.1; ``expected`` is the value by formula.
    """
    import joblib
    import pyarrow as pa

    study = checks.instance(find_study(study) if isinstance(study, str) else study, "study", Study, "a Study or its name")
    checks.flag(progressbar, "progressbar")
    checks.choice(setting, "setting", SETTINGS)
    if setting not in study.settings:
        raise ArgumentError(
            f"setting must be small with the study {study.name}, got {setting}: its paper's size runs in a checkout of the "
            f"project, by python -m studies {study.name}."
        )
    if checks.integer(jobs, "jobs", minimum=-1, maximum=256) == 0:
        raise ArgumentError("jobs must be a number of processes, or -1 for every core, got 0.")
    random_seed = checks.integer(random_seed, "random_seed", minimum=0, maximum=checks.MAX_SEED - 1)
    cells = study.cells(setting)
    if replications is not None:
        checks.integer(replications, "replications", 2, MAX_REPLICATIONS)
        cells = [cell | {"replications": replications} if "replications" in cell else cell for cell in cells]
    folder = None if output is None else files.as_path(output)
    paths = [
        None if folder is None else folder / "cells" / f"{study.name}-{key(study, c, random_seed)}.parquet" for c in cells
    ]
    if folder is not None:
        files.make_folder(folder / "cells")
    tables = [
        _read(path, study, cell, random_seed) if path is not None and path.exists() else None
        for path, cell in zip(paths, cells, strict=True)
    ]
    todo = [i for i, table in enumerate(tables) if table is None]
    parallel = joblib.Parallel(n_jobs=max(1, min(jobs, len(todo))) if jobs > 0 else jobs, return_as="generator_unordered")
    finished = parallel(joblib.delayed(_run_cell)(study, i, cells[i], random_seed, paths[i]) for i in todo)
    for i, table in track(finished, study.name, len(todo), shown=progressbar):
        tables[i] = table
    result = pa.concat_tables(tables)
    if folder is not None:
        _write(result, folder / f"{study.name}-{setting}.parquet")
    return result


def key(study, cell, random_seed):
    """Return the name of a cell's file: a digest of the study, the cell and the seed.

    Parameters
    ----------
    study : Study
    cell : dict
        Settings of the cell.
    random_seed : int

    Returns
    -------
    str
        Twenty hexadecimal digits.
    """
    return hashlib.sha256(_identity(study, cell, random_seed)).hexdigest()[:20]


def _identity(study, cell, random_seed):
    """Return what makes a cell, as bytes: it names the cell's file and stands in it."""
    return json.dumps([study.name, sorted(cell.items()), random_seed]).encode()


def _run_cell(study, position, cell, random_seed, path):
    """Compute one cell, write it where a path is given, and return (position, table)."""
    rng = np.random.default_rng(np.random.SeedSequence([random_seed, int(key(study, cell, random_seed), 16)]))
    table = _table(study, cell, study.evaluate(cell, rng))
    if path is not None:
        _write(table.replace_schema_metadata({_CELL: _identity(study, cell, random_seed)}), path)
    return position, table


def _table(study, cell, found):
    """Return the lines that a cell found as a Table with the fixed columns."""
    import pyarrow as pa

    lines = [{"study": study.name} | cell | line for line in found]
    return pa.Table.from_pylist([{name: line.get(name) for name in COLUMNS} for line in lines], schema=_schema())


def _schema():
    import pyarrow as pa

    return pa.schema([(name, pa.type_for_alias(kind)) for name, kind in COLUMNS.items()])


def _write(table, path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()  # a few kilobytes; the file is then written by one call whose errors have a reason
    pq.write_table(table, sink)
    files.write_bytes(path, sink.getvalue())


def _read(path, study, cell, random_seed):
    """Return the table of a finished cell, or raise a DataError unless the file holds that very cell."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with files.open_input(path) as handle:
            table = pq.read_table(handle)
    except (pa.ArrowException, OSError) as err:
        raise DataError("is not a finished cell of a study; remove it to compute the cell again", source=path) from err
    stored = (table.schema.metadata or {}).get(_CELL)
    if stored != _identity(study, cell, random_seed) or not table.schema.equals(_schema()) or not table.num_rows:
        raise DataError("holds something else than its cell; remove it to compute the cell again", source=path)
    return table.replace_schema_metadata(None)
