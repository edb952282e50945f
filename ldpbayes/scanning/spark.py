"""Scans by Spark: of its data frames, and of Parquet files whose row groups its workers read by themselves.

A pass is one ``mapInArrow``. Each task adds up the partial results of its rows and returns one line; the driver adds up the
lines in the order of the rows. Partials carry their rounding errors, so the total of files is that of one machine.
"""

import contextlib
import itertools
import os
import pickle
import re
import shutil
import socket
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ldpbayes.errors import ArgumentError, DataError, LDPBayesError, shown
from ldpbayes.scanning.partials import NOTHING, Partial
from ldpbayes.sources.base import optional
from ldpbayes.sources.paths import FileSource
from ldpbayes.sources.stream import COUNT, Source, joined

#: What a task returns: the place of its rows among those of all tasks, and its partial result or the error that ended it.
_RESULT = "place long, partial binary, error binary"
#: Time: Tasks of a pass over files, for each core of the cluster: few enough that their results are small.
_TASKS_PER_CORE = 8
#: Time: Seconds in which a master must answer.
_PATIENCE = 5.0
_JAVA = "Spark needs Java 17, and there is none: apt-get install openjdk-17-jre-headless, or set JAVA_HOME."
_PORTS = {"spark": 7077, "sc": 15002}


class SparkSource(Source):
    """A data frame of Spark. It groups countable reports itself; other reports are added up where they are."""

    def __init__(self, frame: Any) -> None:
        with _by_spark():
            super().__init__(frame.columns, self._rows, self._groups)
        self.frame = frame

    @classmethod
    def opened(cls, data):
        """Return the source of a data frame of Spark, None for all else."""
        return cls(data) if isinstance(data, sys.modules["pyspark.sql"].DataFrame) else None

    def total(self, partial, columns):
        with _by_spark():
            return _collected(self._selected(columns).mapInArrow(_over_rows(partial), _RESULT))

    def pieces(self, columns, strict=True, most=None):
        raise ArgumentError(
            "source must be files to be read in pieces: the rows of a Spark data frame stay with its workers; call the scan."
        )

    def batches(self, columns, strict=True, most=None):
        for piece in super().pieces(columns, strict, most):
            yield from piece.batches(columns)

    def _rows(self, columns, most):
        with _by_spark():
            frame = self._selected(columns)
            return (frame if most is None else frame.limit(most)).toArrow().to_batches()

    def _groups(self, columns):
        with _by_spark():
            frame = self._selected(columns)
            if any(kind.startswith(("array", "map", "struct")) for _, kind in frame.dtypes):
                return None
            return frame.groupBy(*frame.columns).count().withColumnRenamed("count", COUNT).toArrow()

    def _selected(self, columns):
        """Return the columns in use; whole numbers that Spark holds as decimals, such as seeds of 64 bits, as integers."""
        kinds = dict(self.frame.dtypes)
        frame = self.frame.select(*(f"`{name.replace('`', '``')}`" for name in self._checked(columns)))
        for name in frame.columns:
            if re.fullmatch(r"decimal\(\d+,0\)", kinds[name]):
                frame = frame.withColumn(name, frame[f"`{name.replace('`', '``')}`"].cast("long"))
        return frame


class SparkFiles(FileSource):
    """Files whose pieces are read by the workers of Spark, which must see them under the same paths."""

    def __init__(self, table: Source, spark: Any, progressbar: bool = False) -> None:
        if not isinstance(table, FileSource):
            raise ArgumentError("spark reads files; leave it out, a Spark data frame brings its session along.")
        super().__init__([os.path.abspath(path) for path in table.paths])
        self.session = session_of(spark, progressbar)

    def total(self, partial, columns):
        pieces = list(self.pieces(columns))  # as on one machine: sums of the same rows round alike
        if not pieces:
            return NOTHING
        with _by_spark():
            tasks = min(len(pieces), _TASKS_PER_CORE * _cores(self.session))
            places = self.session.range(0, len(pieces), 1, tasks)
            return _collected(places.mapInArrow(_over_pieces(partial, pieces, list(columns)), _RESULT))


# ---- what the workers do ---------------------------------------------------------------------------------------------
def _over_rows(partial: Callable) -> Callable:
    """Return the function over the record batches of a task that yields the partial result of its rows."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        place = TaskContext.get().partitionId()  # type: ignore[union-attr]  # None outside a task
        name = f"partition {place} of the Spark data frame"
        yield _result(place, (partial(piece) for piece in joined(batches, name)))

    return run


def _over_pieces(partial: Callable, pieces: list, columns: list[str]) -> Callable:
    """Return the function over batches of places of pieces that yields the partial result of these pieces."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        places = itertools.chain.from_iterable(batch.column(0).to_pylist() for batch in batches)
        for first in itertools.islice(places, 1):
            yield _result(first, (partial(pieces[place]) for place in itertools.chain([first], places)))

    return run


def _result(place: int, partials: Iterable[Partial]) -> Any:
    """Return the line of a task. A bad report is no failure of the task: Spark would try it again, and log its stack."""
    import pyarrow as pa

    result = problem = None
    try:
        result = sum(partials, NOTHING).settle().to_bytes()
    except LDPBayesError as err:
        problem = pickle.dumps(err)
    columns = pa.array([place], pa.int64()), pa.array([result], pa.binary()), pa.array([problem], pa.binary())
    return pa.RecordBatch.from_arrays(list(columns), ["place", "partial", "error"])


# ---- what the driver does --------------------------------------------------------------------------------------------
def _collected(frame: Any) -> Partial:
    """Return the sum of the partials of all tasks in the order of their rows, or raise the error of the first bad rows."""
    results = frame.toArrow().sort_by("place")
    for problem in results.column("error").drop_null():
        raise pickle.loads(problem.as_py())
    return sum((Partial.from_bytes(row.as_py()) for row in results.column("partial").drop_null()), NOTHING)


def _cores(session: Any) -> int:
    """Return how many tasks the cluster runs at once, as far as the session knows."""
    with contextlib.suppress(Exception):  # a session of Spark Connect has no context
        return max(int(session.sparkContext.defaultParallelism), 1)
    return 32


def session_of(spark: Any, progressbar: bool = False) -> Any:
    """Return the session of Spark that an argument names; one that runs already in this process is used.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession or str
        A session, or the URL of a master: ``local[2]``, ``spark://host:7077``, ``sc://host:15002``, ``yarn``, ….
    progressbar : bool
        Whether a new session shows how far its tasks are.

    Raises
    ------
    ArgumentError
        Where pyspark or Java is missing, the master does not answer, or the session does not start.
    """
    if not isinstance(spark, str):
        if type(spark).__module__.partition(".")[0] != "pyspark" or type(spark).__name__ != "SparkSession":
            raise ArgumentError(f"spark must be a Spark session or a master's URL such as local[2], got {shown(spark)}.")
        return spark
    if not re.fullmatch(r"local(\[[^\]]*\])?|[a-z][a-z0-9+]*://\S+|yarn|local-cluster\[.*\]", spark):
        raise ArgumentError(f"spark must be the URL of a master such as local[2] or spark://host:7077, got {shown(spark)}.")
    with _quiet():
        sql = optional("pyspark.sql", "A scan by Spark", "spark")
    running = sql.SparkSession.getActiveSession()
    if running is not None:
        return running
    remote = spark.startswith("sc://")
    home = os.environ.get("JAVA_HOME")
    if not remote and shutil.which("java", path=os.path.join(home, "bin") if home else None) is None:
        raise ArgumentError(_JAVA)
    _check_answers(spark)
    builder = sql.SparkSession.builder.appName("ldpbayes")
    settings = {"spark.log.level": "ERROR", "spark.ui.enabled": "false"}
    settings["spark.ui.showConsoleProgress"] = "true" if progressbar else "false"
    if spark.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    try:
        if remote:
            return builder.remote(spark).getOrCreate()
        for name, value in settings.items():
            builder = builder.config(name, value)
        with _quiet():
            return builder.master(spark).getOrCreate()
    except Exception as err:
        if "JAVA_GATEWAY_EXITED" in str(err):
            raise ArgumentError(_JAVA) from err
        raise ArgumentError(f"Spark could not be started at {shown(spark)}: {_reason(err)}") from err


def _check_answers(url: str) -> None:
    """Refuse a master at which nothing answers: Spark itself tries for a minute, and prints pages meanwhile."""
    scheme, _, rest = url.partition("://")
    if scheme not in _PORTS or not rest:
        return
    reason = "no host is named"
    for place in re.split(r"[/;?]", rest)[0].split(","):
        host, _, port = place.rpartition(":") if ":" in place else (place, "", str(_PORTS[scheme]))
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            reason = "it must name a host and a port"
            continue
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()
            return
        except OSError as err:
            reason = err.strerror or str(err) or type(err).__name__
    raise ArgumentError(f"Spark does not answer at {shown(url)}: {reason}.")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Leave out what Spark says about pandas, which a scan does not use."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        yield


@contextlib.contextmanager
def _by_spark() -> Iterator[None]:
    """Turn errors of Spark into a DataError in one sentence, and leave out what it says about pandas."""
    try:
        with _quiet():
            yield
    except (LDPBayesError, MemoryError):
        raise
    except Exception as err:
        if "No module named 'ldpbayes" in str(err):
            raise ArgumentError("Spark's workers cannot import ldpbayes: install it where they run.") from err
        raise DataError(f"Spark could not run the scan: {_reason(err)}") from err


def _reason(err: BaseException) -> str:
    """Return the line of an error of Spark that says what is wrong."""
    lines = [line.strip() for line in str(err).splitlines() if line.strip()] or [type(err).__name__]
    raised = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)]
    if any(line.startswith("Traceback") for line in lines) and raised:
        return raised[-1][:300]
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling"):
        return lines[1].lstrip(": ")[:300]
    return lines[0][:300]


def opened(data: Any) -> SparkSource | None:
    """Return the source of a data frame of Spark, None for all else.

    Parameters
    ----------
    data : object
    """
    return SparkSource.opened(data)
