"""Compiled functions give the same bits in the process that compiles them and in those that load them."""

import os
import pathlib
import subprocess
import sys

import ldpbayes

KERNELS = """
from ldpbayes.compiling import compiled
from ldpbayes.methods._walk_kernels import steps_and_deviations

@compiled()
def along(u, z, out, frame, degrees, room, values):
    for s in range(len(u)):
        for part in room:
            part[:] = 1.0
        values[s] = steps_and_deviations(u[s], z[s], out[s], frame, degrees, room)[0]
"""

SCRIPT = """
import hashlib
import numpy as np
import kernels
a, rng = 8, np.random.default_rng(1)
frame = np.zeros(a + 1), rng.uniform(0.3, 1.3, a + 1), 0.2, rng.uniform(0.1, 5, a), rng.standard_normal(a)
(u, z, out), values = rng.standard_normal((3, 300, 3 * a + 1)), np.empty(300)
kernels.along(u, z, out, frame, 4.0, tuple(np.empty((5, a))), values)
assert np.isfinite(values).all() and np.isfinite(out).all()
print(sum(kernels.along.stats.cache_hits.values()), hashlib.sha256(values.tobytes() + out.tobytes()).hexdigest())
"""


def test_the_first_process_computes_the_same_bits_as_later_ones(tmp_path):
    (tmp_path / "kernels.py").write_text(KERNELS)
    package = str(pathlib.Path(ldpbayes.__file__).parents[1])
    how = {
        "cwd": tmp_path,
        "env": os.environ | {"PYTHONPATH": package, "NUMBA_CACHE_DIR": str(tmp_path / "cache")},
        "timeout": 120,
    }
    command = [sys.executable, "-c", SCRIPT]
    (cold, first), (warm, second) = (subprocess.check_output(command, text=True, **how).split() for _ in range(2))
    assert (cold, warm) == ("0", "1")  # compiled, then loaded
    assert first == second


TWO = """
import io
import sys

class Screen(io.StringIO):
    def isatty(self):
        return sys.argv[1] == "screen"

sys.stderr = Screen()
from ldpbayes.compiling import compiled

@compiled()
def one(x):
    return x + 1

@compiled()
def other(x):
    return x + 2

one(1.0), other(1.0)
print(sys.stderr.getvalue().count("Compiling"))
"""


def test_the_first_call_says_that_it_compiles_where_somebody_reads_it(tmp_path):
    """Once, of two functions without machine code on disk; the next process has it, and to a file nothing is said."""
    script = tmp_path / "two.py"
    script.write_text(TWO)
    for where, folder, times in (("screen", "a", "1"), ("screen", "a", "0"), ("file", "b", "0")):
        environment = dict(os.environ, NUMBA_CACHE_DIR=str(tmp_path / folder))
        command = [sys.executable, str(script), where]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.stdout.strip() == times, done.stderr
