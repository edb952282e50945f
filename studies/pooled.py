"""Runs a study in blocks of replications and pools them into one Parquet file, which is also where the next run goes on."""

import hashlib
import json
import math
import os
import pathlib
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ldpbayes import checks, files
from ldpbayes.errors import ArgumentError, DataError

#: What makes a cell; a study uses some of them, the rest are null.
CELL_COLUMNS = {
    "figure": "string",
    "part": "string",
    "protocol": "string",
    "n_categories": "int64",
    "epsilon": "float64",
    "n_reports": "int64",
    "population": "string",
    "buckets": "int64",
    "cohorts": "int64",
    "hashes": "int64",
}
#: One line per estimator, target and metric.
LINE_COLUMNS = {
    "estimator": "string",
    "target": "string",
    "metric": "string",
    "value": "float64",
    "standard_error": "float64",
    "replications": "int64",
    "excess": "float64",
    "excess_error": "float64",
    "low": "float64",
    "high": "float64",
}
#: How far a cell has come and what it took.
STATE_COLUMNS = {"goal": "int64", "blocks": "int64", "seconds": "float64", "cell": "string"}
COLUMNS = CELL_COLUMNS | LINE_COLUMNS | STATE_COLUMNS
#: The estimator that all others of the papers are compared with on the same reports.
BASE = "posterior_mean"
#: Parts whose cells are one block, which makes lines by itself.
LISTED = ("exact", "least squares")
#: Seconds between two writings of the file.
WRITE_EVERY = 20.0


@dataclass(frozen=True)
class FullStudy:
    """A study at its paper's size.

    Attributes
    ----------
    name, title, source : str
    cells : callable
        () -> list of dicts with keys of CELL_COLUMNS, ``goal`` (replications) and ``block`` (those of one block).
    evaluate : callable
        (cell, Generator) -> {(estimator, target, metric): (block,) array}, or lines where the cell is one block.
    base : str
        The estimator that all others are compared with on the same reports.
    """

    name: str
    title: str
    source: str
    cells: Callable
    evaluate: Callable
    base: str = BASE


class Cell:
    """One cell with what has been found in it so far."""

    def __init__(self, settings, base):
        self.settings, self.base = settings, base
        self.name = hashlib.sha256(json.dumps([settings.get(name) for name in CELL_COLUMNS]).encode()).hexdigest()[:16]
        self.lines, self.blocks, self.seconds = {}, 0, 0.0

    @property
    def goal(self) -> int:
        """Replications of the paper."""
        return self.settings["goal"]

    @property
    def replications(self) -> int:
        """Replications that are finished."""
        return min(self.blocks * self.settings["block"], self.goal)

    @property
    def due(self) -> float:
        """CPU seconds that the cell will have had after its next block; a guess before the first."""
        return self.seconds * (1 + 1 / self.blocks) if self.blocks else self.settings.get("guess", 0.0)

    @property
    def turn(self) -> tuple[bool, float]:
        """Place in the order of the next blocks: cells without a block come before all others."""
        return self.blocks > 0, self.due

    @property
    def seconds_left(self) -> float:
        """CPU seconds that the rest would take at the measured rate; nan before the first block."""
        return self.seconds * (self.goal / self.replications - 1) if self.blocks else math.nan

    def take(self, found, seconds):
        """Pool the losses of one block with those before."""
        self.blocks, self.seconds = self.blocks + 1, self.seconds + seconds
        if isinstance(found, list):
            self.lines = dict(enumerate(found))
            return
        for key, values in found.items():
            names = dict(zip(("estimator", "target", "metric"), key, strict=True))
            line = self.lines.setdefault(key, names | {"replications": 0})
            base = found.get((self.base, *key[1:]))
            pairs = [("value", "standard_error", values)]
            if base is not None and key[0] != self.base:
                pairs.append(("excess", "excess_error", values - base))
            for name, error, block in pairs:
                line |= dict(
                    zip((name, error), pooled(line.get(name), line.get(error), line["replications"], block), strict=True)
                )
            line["replications"] += len(values)

    def rows(self):
        """Return the lines of the file."""
        held = self.settings | {"blocks": self.blocks, "seconds": self.seconds, "cell": self.name}
        return [{name: (held | line).get(name) for name in COLUMNS} for line in self.lines.values()]


def pooled(mean, error, count, values):
    """Return (mean, standard error) of ``count`` earlier values with this mean and error together with new ones.

    Sums of squared deviations add up, with (m₁ − m₂)² n₁n₂/(n₁ + n₂) for the difference of the means.

    Parameters
    ----------
    mean, error : float or None
        None where count is 0.
    count : int
    values : (R,) array
    """
    values = np.asarray(values, dtype=float)
    total, squares = values.mean(), ((values - values.mean()) ** 2).sum()
    size = values.size
    if count:
        both = count + size
        squares += (error**2 * count * (count - 1) if count > 1 else 0.0) + (total - mean) ** 2 * count * size / both
        total, size = (mean * count + total * size) / both, both
    return float(total), float(math.sqrt(squares / (size - 1) / size)) if size > 1 else math.nan


def run_full(study, path, *, minutes=None, jobs=1, random_seed=0, progressbar=False):
    """Continue a study at its paper's size until it is finished or the time is over; return the cells.

    Cells without a block come first. Then the next block is always one of the cell that has had least time and is not
    finished, so that every cell has as many replications as an equal share of the time allows. Block i of a cell draws from
    a generator seeded by random_seed, the cell and i: the numbers depend on how many blocks a cell has, and on nothing
    else.

    Parameters
    ----------
    study : FullStudy
    path : path-like
        Parquet file with the results: read where it exists, and written as the study goes on.
    minutes : float, optional
        Stop after about so many minutes.
    jobs : int
        Processes; −1 for every core.
    random_seed : int
    progressbar : bool

    Returns
    -------
    list of Cell

    Raises
    ------
    DataError
        If the file holds something else than this study with this seed.
    """
    import joblib

    checks.instance(study, "study", FullStudy, "a FullStudy, such as those of full_studies()")
    random_seed = checks.integer(random_seed, "random_seed", minimum=0, maximum=checks.MAX_SEED - 1)
    if checks.integer(jobs, "jobs", minimum=-1, maximum=256) == 0:
        raise ArgumentError("jobs must be a number of processes, or -1 for every core, got 0.")
    checks.flag(progressbar, "progressbar")
    path = files.as_path(path)
    files.make_folder(path.parent)
    files.check_output(path)
    cells = load(study, path, random_seed)
    todo = [cell for cell in cells if cell.replications < cell.goal]
    limit = math.inf if minutes is None else time.monotonic() + 60 * checks.positive(minutes, "minutes")
    workers = joblib.effective_n_jobs(jobs)
    written = time.monotonic()
    with _bar(study, cells, progressbar) as advance:
        try:
            with joblib.Parallel(n_jobs=workers) as parallel:
                while todo and time.monotonic() < limit:
                    # A round is a share of what is left, so that no process waits long for the others.
                    todo.sort(key=lambda cell: (*cell.turn, cell.settings["n_categories"]))
                    begun, due = todo[0].turn
                    round_ = [cell for cell in todo if cell.turn <= (begun, 1.2 * due + 0.01)][: 8 * workers]
                    calls = (
                        joblib.delayed(_block)(study.evaluate, c.settings, c.name, c.blocks, random_seed) for c in round_
                    )
                    for cell, (found, seconds) in zip(round_, parallel(calls), strict=True):
                        before = cell.replications
                        cell.take(found, seconds)
                        advance(cell.replications - before, cells)
                    todo = [cell for cell in todo if cell.replications < cell.goal]
                    if time.monotonic() - written > WRITE_EVERY:
                        store(study, cells, path, random_seed)
                        written = time.monotonic()
        finally:
            store(study, cells, path, random_seed)
    return cells


def _block(evaluate, settings, name, number, random_seed):
    rng = np.random.default_rng(np.random.SeedSequence([random_seed, int(name, 16), number]))
    start = time.process_time()
    return evaluate(settings, rng), time.process_time() - start


def load(study, path, random_seed=None):
    """Return the cells of a study, with what a file holds of them.

    Parameters
    ----------
    study : FullStudy
    path : Path
        Where there is no file, the cells are empty.
    random_seed : int, optional
        The seed that the file must have been made with; None takes any.

    Returns
    -------
    list of Cell

    Raises
    ------
    DataError
        If the file cannot be read, or is one of another study or seed.
    """
    cells = [Cell(settings, study.base) for settings in study.cells()]
    if not os.path.exists(path):
        return cells
    by = {cell.name: cell for cell in cells}
    table = _table(path)
    noted = {name: (table.schema.metadata or {}).get(name.encode(), b"").decode() for name in ("study", "random_seed")}
    if noted["study"] != study.name:
        raise DataError(f"holds the study {noted['study']!r} and not {study.name!r}; choose another file", source=path)
    if random_seed is not None and noted["random_seed"] != str(random_seed):
        raise DataError(
            f"was made with seed {noted['random_seed']} and cannot go on with seed {random_seed}; choose another file",
            source=path,
        )
    for line in table.to_pylist():
        cell = by.get(line["cell"])
        if cell is None:
            continue  # a cell that the study no longer has
        cell.blocks, cell.seconds = line["blocks"], line["seconds"]
        kept = {name: line[name] for name in (*CELL_COLUMNS, *LINE_COLUMNS) if line[name] is not None}
        one = cell.settings["block"] == cell.goal and cell.settings.get("part") in LISTED
        cell.lines[len(cell.lines) if one else (line["estimator"], line["target"], line["metric"])] = kept
    return cells


def read(path):
    """Return the lines of a stored study as dicts, or raise a DataError."""
    return _table(path).to_pylist()


def _table(path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # Not by files.open_input: this is no input to be guarded, but the file that is continued.
        table = pq.read_table(pa.BufferReader(pathlib.Path(path).read_bytes()))
    except (pa.ArrowException, OSError) as err:
        raise DataError("is no stored study; remove it to begin anew", source=path) from err
    if table.column_names != list(COLUMNS):
        raise DataError("holds something else than a stored study; remove it to begin anew", source=path)
    return table


def store(study, cells, path, random_seed=0):
    """Write what has been found, at once or not at all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [row for cell in cells for row in cell.rows()]
    if not rows:
        return
    schema = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in COLUMNS.items()])
    schema = schema.with_metadata({"study": study.name, "source": study.source, "random_seed": str(random_seed)})
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), sink, compression="zstd")
    files.write_bytes(path, sink.getvalue())


def prediction(cells):
    """Return (CPU hours that the rest takes at the measured rates, cells without a measured rate)."""
    left = [cell.seconds_left for cell in cells]
    return sum(x for x in left if not math.isnan(x)) / 3600, sum(map(math.isnan, left))


class _bar:
    """A progress bar on standard error that states the CPU time left."""

    def __init__(self, study, cells, shown):
        self.study, self.cells, self.shown = study, cells, shown

    def __enter__(self):
        if not self.shown:
            return lambda step, cells: None
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

        parts = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn()
        self.progress = Progress(*parts, TextColumn("{task.fields[left]}"), console=Console(stderr=True))
        total, done = sum(c.goal for c in self.cells), sum(c.replications for c in self.cells)
        task = self.progress.add_task(self.study.name, total=total, completed=done, left=_left(self.cells))
        self.progress.start()
        return lambda step, cells: self.progress.update(task, advance=step, left=_left(cells))

    def __exit__(self, *_):
        if self.shown:
            self.progress.stop()


def _left(cells):
    hours, unknown = prediction(cells)
    text = f"{60 * hours:.0f} CPU minutes" if hours < 2 else f"{hours:.1f} CPU hours"
    return f"{text} left" + (f", {unknown} cells not yet timed" if unknown else "")
