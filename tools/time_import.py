"""Check that `import ldpbayes` takes little beside NumPy's own import: CPU seconds, the best of several processes."""

import subprocess
import sys

#: CPU seconds that the import may take over that of NumPy, and how many processes are tried.
ALLOWED, TRIES = 0.3, 5
CODE = "import time, numpy; began = time.process_time(); import ldpbayes; print(time.process_time() - began)"


def main() -> int:
    """Print the time, and return 1 where it is too long."""
    runs = [subprocess.run([sys.executable, "-c", CODE], check=True, capture_output=True, text=True) for _ in range(TRIES)]
    taken = min(float(run.stdout) for run in runs)
    print(f"import ldpbayes takes {taken:.2f} CPU s beside NumPy; {ALLOWED} are allowed.")
    return int(taken > ALLOWED)


if __name__ == "__main__":
    sys.exit(main())
