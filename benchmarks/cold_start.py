"""CPU seconds of a cold exact fit, whole process and all, beside the import of the libraries that every fit needs.

``python benchmarks/cold_start.py`` runs in turn, RUNS times each: a process that imports NumPy, SciPy's special functions
and optimizers and xarray; one that fits a survey of two categories in Python; ``ldpbayes fit example:nigeria``. Compiled
files are those of an earlier run. Printed are the medians and their ratios to the imports, which should be at most LIMIT.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile

RUNS, LIMIT = 7, 1.3
BASE = "import numpy, scipy.special, scipy.optimize, xarray"
COMMANDS = {
    BASE: ["-c", BASE],
    "lb.fit": ["-c", "import ldpbayes as lb; lb.fit(lb.load_example('nigeria'))"],
    "ldpbayes fit": ["-m", "ldpbayes", "fit", "example:nigeria"],
}


def seconds(arguments, environment):
    """Return the CPU seconds, user's and system's, of one process of Python."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], env=environment, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    """Print a line a command."""
    with tempfile.TemporaryDirectory() as folder:
        threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        environment = os.environ | threads | {"PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}
        took = {name: [] for name in COMMANDS}
        for run in range(RUNS + 1):
            for name, arguments in COMMANDS.items():
                one = seconds(arguments, environment)
                if run:  # the first compiles
                    took[name].append(one)
    base = statistics.median(took[BASE])
    ratios = {name: statistics.median(values) / base for name, values in took.items()}
    for name, ratio in ratios.items():
        spread = f"{min(took[name]):.2f} to {max(took[name]):.2f}"
        print(f"{name:52} {ratio * base:5.2f} CPU s ({spread}), {ratio:.2f} × the imports")
    print(f"At most {LIMIT} × is asked for.")


if __name__ == "__main__":
    main()
