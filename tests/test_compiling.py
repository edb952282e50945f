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
