"""Faults of the machine: a full disk, a closed pipe, Ctrl-C in the middle.

They end in a sentence, leave nothing half written, and keep the old file.
"""

import contextlib
import errno
import io
import os
import pathlib
import resource
import shlex
import shutil
import stat
import subprocess
import sys
import threading

import numpy as np
import pytest
from commands import run
from tabulated import each_row

from ldpbayes import GRR, Collection, Tally, files, fit, save
from ldpbayes.errors import DataError
from ldpbayes.sources.collection_file import read_collection, write_collection

ROOT = pathlib.Path(__file__).parents[1]
NIGERIA = ROOT / "data" / "rr_nigeria.toml"


@contextlib.contextmanager
def full_disk(size=4096):
    """Let no file grow beyond size bytes: writing more fails with an OSError, as on a full disk.

    Python 3.12 and 3.13 do not notice that compiled modules are cut off there, and never load such a module again.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    compiled, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        sys.dont_write_bytecode = compiled


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(scope="module")
def tree():
    return fit(Collection(["no", "yes"], Tally(GRR(2, 1.0), [0, 1], [60, 40])), draws=500, random_seed=1)


# ---- writing ---------------------------------------------------------------------------------------------------------
def test_full_disk_keeps_the_old_file(tmp_path):
    path = tmp_path / "old.txt"
    path.write_text("old")
    with full_disk(), pytest.raises(DataError, match=r"old\.txt:.*too large"):
        files.write_text(path, "x" * 10_000)
    assert path.read_text() == "old" and names(tmp_path) == ["old.txt"]


def test_a_disk_that_fills_up_late_is_noticed(tmp_path, monkeypatch):
    """Some file systems take the data and report only in fsync that there is no room for it."""

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataError, match=r"cannot.*No space"):
        files.write_text(tmp_path / "new.txt", "x")
    assert names(tmp_path) == []


def test_results_on_a_full_disk(tmp_path, tree):
    save(tree, tmp_path / "r.nc")
    before = (tmp_path / "r.nc").read_bytes()
    with full_disk(), pytest.raises(DataError, match=r"r\.nc:.*too large"):
        save(tree, tmp_path / "r.nc")
    assert (tmp_path / "r.nc").read_bytes() == before and names(tmp_path) == ["r.nc"]


def test_commands_on_a_full_disk(tmp_path, capsys):
    def refused(*arguments):
        with full_disk():
            status, out, err = run(capsys, *arguments)
        assert status == 2 and "Wrote" not in out
        assert "too large)" in " ".join(err.split()) and "Traceback" not in err
        left = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert left == []

    refused("fit", NIGERIA, "--seed", 1, "--output", tmp_path / "r.nc")
    refused("fit", NIGERIA, "--seed", 1, "--plot", tmp_path / "r.png")
    refused("plan", "--n-categories", 8, "--epsilon", 1, "--error", 0.01, "--plot", tmp_path / "p.png")
    refused("simulate", tmp_path / "s.toml", "--n-categories", 2000, "--users", 3000, "-p", "epsilon=1")


@each_row("fault", [KeyboardInterrupt, SystemExit, MemoryError, RuntimeError])
def test_interrupted_writes_leave_nothing(tmp_path, fault):
    path = tmp_path / "old.txt"
    path.write_text("old")
    with pytest.raises(fault), files.replacing(path) as temporary:
        temporary.write_text("half")
        raise fault
    assert path.read_text() == "old" and names(tmp_path) == ["old.txt"]


def test_interrupted_collections_keep_both_files(tmp_path, monkeypatch):
    """A collection is two files: the table must not be new where the description is still the old one."""
    old = Collection(["no", "yes"], Tally(GRR(2, 1.0), [0, 1], [60, 40]))
    write_collection(old, tmp_path / "c.toml")
    before = {name: (tmp_path / name).read_bytes() for name in names(tmp_path)}
    new = Collection(["a", "b", "c"], Tally(GRR(3, 2.0), [0, 1, 2], [1, 2, 3]))
    replacing = files.replacing

    @contextlib.contextmanager
    def interrupted(path):
        with replacing(path) as temporary:
            if pathlib.Path(path).suffix == ".toml":
                raise KeyboardInterrupt
            yield temporary

    monkeypatch.setattr(files, "replacing", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_collection(new, tmp_path / "c.toml")
    assert {name: (tmp_path / name).read_bytes() for name in names(tmp_path)} == before
    assert read_collection(tmp_path / "c.toml") == old


def test_the_umask_is_left_alone(tmp_path, monkeypatch):
    """A process has one umask: another thread's file must not get every permission for a moment."""
    called = []
    monkeypatch.setattr(os, "umask", called.append)
    files.write_text(tmp_path / "a.txt", "a")
    assert called == []


@pytest.mark.parametrize("mask, mode", [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_new_files_have_what_the_umask_leaves(tmp_path, mask, mode):
    old = os.umask(mask)
    try:
        files.write_text(tmp_path / "a.txt", "a")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == mode


def test_replaced_files_keep_their_permissions(tmp_path):
    path = tmp_path / "private.txt"
    path.write_text("old")
    path.chmod(0o600)
    files.write_text(path, "new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and path.read_text() == "new"


def test_symbolic_links_stay(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to(tmp_path / "folder" / "real.txt")
    files.write_text(tmp_path / "link.txt", "new")
    assert (tmp_path / "link.txt").is_symlink() and (tmp_path / "folder" / "real.txt").read_text() == "new"
    (tmp_path / "dangling.txt").symlink_to(tmp_path / "folder" / "later.txt")
    files.write_text(tmp_path / "dangling.txt", "there")
    assert (tmp_path / "dangling.txt").is_symlink() and (tmp_path / "folder" / "later.txt").read_text() == "there"
    (tmp_path / "loop.txt").symlink_to(tmp_path / "loop.txt")
    with pytest.raises(DataError, match=r"cannot.*written"):
        files.write_text(tmp_path / "loop.txt", "x")


def test_pipes_and_devices_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.nc")
    for path in (tmp_path / "pipe.nc", "/dev/null", "/dev/full"):
        with pytest.raises(DataError, match=r"written.*regular file"):
            files.write_text(path, "x")
        assert not stat.S_ISREG(os.stat(path).st_mode)


@each_row("name", ["", ".", "folder", "a\0b", "file/below", "no/such/folder/x"])
def test_names_that_cannot_be_written(tmp_path, name, monkeypatch):
    (tmp_path / "folder").mkdir(exist_ok=True)
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"cannot.*written"):
        files.write_text(name, "x")
    assert names(tmp_path) == ["file", "folder"]


@pytest.mark.parametrize("name", ["x" * 255, "." + "y" * 254, "ü" * 127, ".hidden", "a.b" + "c" * 250])
def test_long_and_odd_names_are_written(tmp_path, name):
    files.write_text(tmp_path / name, "x")
    assert names(tmp_path) == [name]


def test_a_command_keeps_its_input(tmp_path):
    path = tmp_path / "in.toml"
    path.write_text("a = 1")
    (tmp_path / "link.toml").symlink_to(path)
    os.link(path, tmp_path / "hard.toml")
    with files.keeping_inputs():
        files.read_toml(path)
        for name in ("in.toml", "link.toml", "hard.toml"):
            with pytest.raises(DataError, match=r"command.*read"):
                files.check_output(tmp_path / name)
        files.check_output(tmp_path / "other.toml")
    files.write_text(path, "a = 2")  # a program may write what it has read


def test_outputs_of_one_command_differ(tmp_path):
    files.check_outputs(tmp_path / "a", None, tmp_path / "b", None)
    with pytest.raises(DataError, match="written twice"):
        files.check_outputs(tmp_path / "a", tmp_path / "." / "a")


# ---- reading ---------------------------------------------------------------------------------------------------------
def test_pipes_and_devices_are_not_read(tmp_path):
    """Reading a pipe waits forever, reading /dev/zero never ends."""
    os.mkfifo(tmp_path / "pipe.toml")
    for path in (tmp_path / "pipe.toml", "/dev/zero", "/dev/null"):
        with pytest.raises(DataError, match=r"read.*regular file"):
            files.read_toml(path)
    (tmp_path / "c.toml").write_text(
        'categories = ["no", "yes"]\n[[channels]]\nprotocol = "grr"\nfile = "pipe.toml"\nparameters.epsilon = 1\n'
    )
    with pytest.raises(DataError, match=r"read.*regular file"):
        read_collection(tmp_path / "c.toml")


def in_seconds(seconds, function, *arguments):
    """Return the error of function, which must be raised in time."""
    found = []

    def call():
        try:
            function(*arguments)
        except DataError as err:
            found.append(err)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), "still running"
    return str(found[0])


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "text, words",
    [
        ("a" + ".a" * 30_000 + " = 1", "has a key of more than 8 parts"),
        ("[a" + ".a" * 30_000 + "]", "has a key of more than 8 parts"),
        ("x = {" + '"b".' * 30_000 + "c = 1}", "has a key of more than 8 parts"),
        ("a = " + "[" * 100_000, "holds more than 32,768 keys"),
        ("a = " + "{a = " * 10_000, "is nested too deep"),
        ("a = " + "[" * 20_000 + "]" * 20_000, "is nested too deep"),
        ("a = " + "9" * 5000, "thousands of digits"),
        ("".join(f"[[a]]\nb.c.d.e.f.g{i}.h = 1\n" for i in range(60_000)), "holds more than 32,768 keys"),
        ("a = [" + "[]," * 2_500_000 + "]", "holds more than 32,768 keys"),
        ("a" * 1_000_000, "is not valid TOML"),
        ('"""' * 99_999, "is not valid TOML"),
        ("'" * 100_001, "is not valid TOML"),
        ('a = "' + "\\" * 99_999, "is not valid TOML"),
    ],
    ids=lambda value: repr(value[:20]),
)
def test_toml_that_would_take_time_or_memory(tmp_path, text, words):
    (tmp_path / "bomb.toml").write_text(text)
    assert words in in_seconds(20, files.read_toml, tmp_path / "bomb.toml")


def test_toml_has_a_largest_size(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_TOML_BYTES", 20)
    (tmp_path / "a.toml").write_text("# this is a comment\na = 1")
    with pytest.raises(DataError, match="20 bytes"):
        files.read_toml(tmp_path / "a.toml")


def test_ordinary_toml_passes_the_checks(tmp_path):
    """Strings and comments may hold what keys may not, and large lists are served."""
    text = 'notes = """' + "a." * 50 + '"""\n# ' + "[" * 40 + "\nx = '" + "{" * 40 + "'\n"
    text += "matrix = [" + ",".join("[" + ",".join(["0.125"] * 300) + "]" for _ in range(300)) + "]\n"
    text += "[a.b.c.d]\ne = 1.5\nf.g = -2.5e-3\n"
    (tmp_path / "a.toml").write_text(text)
    found = files.read_toml(tmp_path / "a.toml")
    assert np.shape(found["matrix"]) == (300, 300) and found["a"]["b"]["c"]["d"]["f"]["g"] == -2.5e-3


# ---- caches that cannot be written -----------------------------------------------------------------------------------
def in_a_container(tmp_path, code):
    """Run code with a copy of the package that cannot be written, no cache folder and no home, as in many containers.

    The superuser may write anywhere, so files stand where folders should be made.
    """
    package = tmp_path / "site" / "ldpbayes"
    shutil.copytree(ROOT / "ldpbayes", package, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [package, *(path for path in package.rglob("*") if path.is_dir())]:
        (folder / "__pycache__").touch()
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA", "XDG", "PYTENSOR", "MPL"))}
    environment = kept | {"HOME": "/dev/null", "PYTHONPATH": str(tmp_path / "site")}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300)


def test_compiled_functions_need_no_cache_folder(tmp_path):
    code = """
import ldpbayes, numpy as np
from ldpbayes.likelihoods import kernels
print(ldpbayes.__file__)
kernels.sparse_sums(np.array([0, 1]), np.array([1], dtype=np.uint16), np.ones(2))
"""
    done = in_a_container(tmp_path, code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(tmp_path)) and done.stderr == ""


@pytest.mark.calibrate  # compiles everything anew
def test_nuts_needs_no_home_folder(tmp_path):
    code = """
from ldpbayes import Collection, Tally, fit
from ldpbayes.protocols import GRR
collection = Collection(["a", "b"], [Tally(GRR(2, 1.0), [0, 1], [6, 4])])
tree = fit(collection, "flat", method="nuts", draws=20, chains=1, random_seed=1)
print(tree["posterior"]["distribution"].shape)
import pytensor
print(pytensor.config.compiledir)
"""
    done = in_a_container(tmp_path, code)
    assert done.returncode == 0, done.stderr
    shape, folder = done.stdout.splitlines()
    assert shape == "(1, 20, 2)" and not pathlib.Path(folder).exists()


# ---- the command line ------------------------------------------------------------------------------------------------
def shell(command, folder=ROOT, **settings):
    """Run a shell command in which $L is the command line; return (exit status, standard output, standard error)."""
    environment = os.environ | {"L": f"{sys.executable} -m ldpbayes", "PYTHONPATH": str(ROOT), "N": str(NIGERIA)}
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "command, words",
    [
        pytest.param(
            "$L fit $N --seed 1 > /dev/full",
            "standard output cannot be written (No space left on device)",
            marks=pytest.mark.calibrate,
        ),
        ("$L fit $N --seed 1 --json > /dev/full", "standard output cannot be written (No space left on device)"),
        ("$L fit $N --seed 1 >&-", "standard output is closed"),
        pytest.param("(sleep 0.1; exec $L protocols) | true", "", marks=pytest.mark.calibrate),  # head closes it below
        pytest.param("$L fit $N --seed 1 2>&-", "", marks=pytest.mark.calibrate),
        ("$L fit nowhere.toml 2>&-", ""),
        ("$L fit nowhere.toml 2>/dev/full", ""),
        pytest.param("$L fit nowhere.toml 2> >(true)", "", marks=pytest.mark.calibrate),  # a warning meets it below
    ],
)
def test_streams_that_are_closed_or_full(command, words):
    status, _, err = shell(command)
    assert status == (0 if command.endswith("--seed 1 2>&-") else 141 if command.endswith("| true") else 2)
    assert words in err and "Traceback" not in err and "Exception" not in err


def test_a_pipe_that_closes_early():
    _, out, err = shell("$L protocols | head -1")
    assert out.count("\n") == 1 and "Traceback" not in err and "Exception" not in err


def test_reports_through_a_pipe():
    status, out, err = shell("printf 'report\\nyes\\nno\\nyes\\n' | $L fit - --protocol warner -p p=0.7 --draws 0")
    assert status in (0, 1) and "standard input" in out and "Traceback" not in err


def piped(text, command, monkeypatch, capsys):
    """Return (exit status, standard output, standard error) of a command of this process that reads text, or no stream."""
    files._standard_input.cache_clear()  # a process reads it once
    monkeypatch.setattr(sys, "stdin", None if text is None else io.TextIOWrapper(io.BytesIO(text.encode())))
    return run(capsys, *shlex.split(f"{command} --protocol warner -p p=0.7"))


def test_a_regression_reads_standard_input(monkeypatch, capsys):
    text = "report,x\nyes,1\nno,1\nyes,2\nno,2\n"
    status, out, _ = piped(text, "regress - 'report ~ x' --method mle", monkeypatch, capsys)
    assert status in (0, 1) and "x" in out


@pytest.mark.parametrize(
    "text, command, words",
    [
        ("report\nyes\nmaybe\n", "fit -", "-, line 3, field 'report': unknown"),
        ("PAR1", "fit -", "-: is a Parquet file; standard input must be CSV"),
        ("", "fit -", "-, line 1: is empty"),
        (None, "fit -", "-: standard input is closed"),
        ("report\nyes\n", "scan - --checkpoint x.state", "checkpoint needs files"),
    ],
)
def test_what_standard_input_cannot_be(tmp_path, text, command, words, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    status, out, err = piped(text, command, monkeypatch, capsys)
    assert (status, out) == (2, "") and words in " ".join(err.split())


def test_a_warning_that_nobody_hears_leaves_standard_output_alone(tmp_path):
    (tmp_path / "x.csv").write_text("report\n" + "yes\nno\n" * 20 + "maybe\n")
    status, out, _ = shell("$L fit x.csv --protocol warner -p p=0.7 --bad-rows skip --draws 0 2> >(true)", tmp_path)
    assert status == 0 and "category yes" in out


def test_a_deleted_working_folder(tmp_path):
    status, _, err = shell(f"mkdir {tmp_path}/gone && cd {tmp_path}/gone && rmdir {tmp_path}/gone && $L fit $N --seed 1")
    assert status == 2 and "working folder" in err and "Traceback" not in err


def test_streams_of_few_characters():
    status, out, err = shell("PYTHONIOENCODING=ascii $L fit $N --seed 1")
    assert status == 0 and "interval" in out and "Traceback" not in err


@pytest.mark.parametrize(
    "fault, status, words",
    [
        (MemoryError(), 2, "needs more memory than there is"),
        (OSError(errno.EIO, "Input/output error", "x.csv"), 2, "x.csv: Input/output error"),
        (KeyboardInterrupt(), 130, "interrupted; no file was left incomplete"),
    ],
)
def test_faults_in_the_middle_of_a_command(monkeypatch, capsys, tmp_path, fault, status, words):
    def broken(*args, **kwargs):
        raise fault

    (tmp_path / "old.nc").write_text("old")
    monkeypatch.setattr("ldpbayes.fitting.fit", broken)
    found, out, err = run(capsys, "fit", NIGERIA, "--output", tmp_path / "old.nc")
    assert (found, out) == (status, "") and words in err and "Traceback" not in err
    assert (tmp_path / "old.nc").read_text() == "old" and names(tmp_path) == ["old.nc"]


def test_a_command_does_not_overwrite_its_input(capsys, tmp_path):
    for name in ("rr_nigeria.toml", "rr_nigeria.csv"):
        shutil.copy(ROOT / "data" / name, tmp_path / name)
    (tmp_path / "plot.png").symlink_to(tmp_path / "rr_nigeria.csv")
    before = {name: (tmp_path / name).read_bytes() for name in ("rr_nigeria.toml", "rr_nigeria.csv")}
    file = tmp_path / "rr_nigeria.toml"
    for arguments in (
        ("fit", file, "--output", file),
        ("fit", file, "--output", tmp_path / "rr_nigeria.csv"),
        ("fit", file, "--plot", tmp_path / "plot.png"),
    ):
        status, out, err = run(capsys, *arguments)
        assert (status, out) == (2, "") and "has read" in " ".join(err.split())
    (tmp_path / "people.csv").write_text("value,count\na,10\nb,20\n")
    status, out, err = run(
        capsys, "simulate", tmp_path / "people.toml", "--truth", tmp_path / "people.csv", "-p", "epsilon=1"
    )
    assert status == 2 and "has read" in " ".join(err.split())
    assert (tmp_path / "people.csv").read_text() == "value,count\na,10\nb,20\n"
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
