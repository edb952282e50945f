"""Run the tests that compare numbers under a narrower instruction set than this processor's.

NumPy's dispatch is limited to its baseline, OpenBLAS to kernels without AVX, and Numba to the generic x86-64; with --avx2 as
the first argument each to AVX2, as on processors without AVX-512. Sums are then rounded in another order than on the machine
on which expected values were written down, and a test must bear that. Used by `make test-portable` and by
tools/release_check.sh; further arguments are pytest's.
"""

import os
import pathlib
import platform
import subprocess
import sys

#: Tests that compare numbers, and compile no PyMC model.
TESTS = (
    "tests/test_net.py",
    "tests/methods/test_asymmetric_mixtures.py",
    "tests/methods/test_few_categories_weak_reports.py",
    "tests/estimators",
    "tests/protocols/test_contract.py",
    "tests/methods/test_conditioned_product.py",
    "tests/methods/test_evidence.py",
    "tests/methods/test_exact.py",
    "tests/methods/test_expansion.py",
    "tests/methods/test_weighted.py",
    "tests/methods/test_many.py",
    "tests/methods/test_quadrature.py",
    "tests/theory/test_enumeration.py",
    "tests/priors/test_contract.py",
)
#: Compiled functions of these runs only; those for the whole processor stay beside the package's files.
BUILD = pathlib.Path(__file__).parents[1] / "build"
#: What NumPy calls its paths for AVX-512.
WIDE = ("AVX512", "X86_V4")


def narrow(avx2=False):
    """Return the environment variables that leave only what every x86-64 processor has, or every one with AVX2."""
    from numpy._core import _multiarray_umath as numpy_core

    disabled = [name for name in numpy_core.__cpu_dispatch__ if not avx2 or name.startswith(WIDE)]
    return {
        "NPY_DISABLE_CPU_FEATURES": " ".join(disabled),
        "OPENBLAS_CORETYPE": "Haswell" if avx2 else "Nehalem",
        "NUMBA_CPU_NAME": "haswell" if avx2 else "generic",
        "NUMBA_CPU_FEATURES": "",
        "NUMBA_CACHE_DIR": str(BUILD / ("numba-avx2" if avx2 else "numba-portable")),
    }


def main(options):
    """Run pytest with these options in the narrow environment and return its exit status."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        print(f"Nothing is done on {platform.machine()}: instruction sets are limited on x86-64 only.")
        return 0
    avx2 = options[:1] == ["--avx2"]
    command = [sys.executable, "-m", "pytest", "-m", "not calibrate and not notebook", *TESTS, *options[avx2:]]
    return subprocess.run(command, env=os.environ | narrow(avx2)).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
