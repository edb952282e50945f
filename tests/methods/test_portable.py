"""Numbers are the same on a processor without vector units, within the error that they state."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tools"))
import portable

SCRIPT = """
import json, sys
import numpy as np
import ldpbayes as lb
from numpy._core import _multiarray_umath as core
out = {"vectors": sorted(name for name in core.__cpu_dispatch__ if core.__cpu_features__[name])}
labels = ["a", "b", "c", "d"]
hadamard = lb.make_protocol("hadamard", labels, {"epsilon": 1.0})
for name, protocol in {"exact": lb.GRR(4, 1.0), "quadrature": hadamard}.items():
    reports, counts = protocol.simulate(np.array([150, 90, 50, 10]), np.random.default_rng(7))
    survey = lb.Collection(labels, [lb.Tally(protocol, reports, counts)])
    tree = lb.fit(survey, "flat", name, draws=100, random_seed=7, estimates=False)
    out[name] = {key: tree["summary"][key].values.tolist() for key in ("mean", "sd", "mcse", "lower", "upper")}
print(json.dumps(out))
"""


def fitted(environment):
    """Return what the script prints in this environment."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=os.environ | environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.calibrate
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="instruction sets are limited on x86-64 only")
def test_a_seed_gives_the_same_numbers_without_vector_units(tmp_path):
    native, narrow = fitted({}), fitted(portable.narrow() | {"NUMBA_CACHE_DIR": str(tmp_path)})
    assert narrow.pop("vectors") == [] != native.pop("vectors")
    for name, then in native.items():
        now, sd = narrow[name], np.array(then["sd"])
        error = np.hypot(*(np.nan_to_num(np.array(one["mcse"], dtype=float)) for one in (then, now)))
        for key in ("mean", "sd", "lower", "upper"):
            allowed = 8 * error + 1e-6 * sd
            if key in ("lower", "upper"):  # those of F are whole reports of 400 draws
                allowed = np.maximum(allowed, 10 * sd / np.sqrt(400))
            assert (np.abs(np.array(now[key]) - then[key]) <= allowed).all(), (name, key)


def test_other_machines_are_told_that_nothing_is_done(monkeypatch, capsys):
    monkeypatch.setattr(portable.platform, "machine", lambda: "aarch64")
    assert portable.main([]) == 0
    assert "aarch64" in capsys.readouterr().out
