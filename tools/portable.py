"""Run the tests that compare numbers under the narrowest instruction set that this processor can be told to use.

NumPy's dispatch is limited to its baseline, OpenBLAS to kernels without AVX, and Numba to the generic x86-64. Sums are then
rounded in another order than on the machine on which expected values were written down, and a test must bear that. Used by
`make test-portable`; its arguments are pytest's.
"""

import os
import pathlib
import platform
import subprocess
import sys

#: Tests that compare numbers, and compile no PyMC model.
TESTS = (
    "tests/test_net.py",
    "tests/mend/test_04_asymmetric_mixtures.py",
    "tests/mend/test_05_contamination_hull.py",
    "tests/mend/test_31_few_categories_weak_reports.py",
    "tests/estimators",
    "tests/protocols/test_contract.py",
    "tests/posteriors/test_conditioned_product.py",
    "tests/posteriors/test_evidence.py",
    "tests/posteriors/test_exact.py",
    "tests/posteriors/test_expansion.py",
    "tests/posteriors/test_laplace.py",
    "tests/posteriors/test_many.py",
    "tests/posteriors/test_quadrature.py",
    "tests/posteriors/test_tally_states.py",
    "tests/priors/test_contract.py",
)
#: Compiled functions of this run only; those for the whole processor stay beside the package's files.
CACHE = pathlib.Path(__file__).parents[1] / "build" / "numba-portable"


def narrow():
    """Return the environment variables that leave only what every x86-64 processor has."""
    from numpy._core import _multiarray_umath as numpy_core

    return {
        "NPY_DISABLE_CPU_FEATURES": " ".join(numpy_core.__cpu_dispatch__),
        "OPENBLAS_CORETYPE": "Nehalem",
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CPU_FEATURES": "",
        "NUMBA_CACHE_DIR": str(CACHE),
    }


def main(options):
    """Run pytest with these options in the narrow environment and return its exit status."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        print(f"Nothing is done on {platform.machine()}: instruction sets are limited on x86-64 only.")
        return 0
    command = [sys.executable, "-m", "pytest", "-m", "not calibrate and not notebook", *TESTS, *options]
    return subprocess.run(command, env=os.environ | narrow()).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
