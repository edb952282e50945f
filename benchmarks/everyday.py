"""Files and lines of the package that an everyday call runs, the second time in a process.

    python benchmarks/everyday.py            # one fit of two categories, with its table
    python benchmarks/everyday.py --files    # … and the lines of each file
"""

import argparse
import pathlib
import sys
from collections import Counter

import ldpbayes as lb

#: Most files and lines of the call below.
LIMITS = 55, 1600
PACKAGE = str(pathlib.Path(lb.__file__).parent)


def lines_of(call):
    """Return the set of (file, line) of the package that a call runs."""
    monitoring, tool, seen = sys.monitoring, sys.monitoring.PROFILER_ID, set()

    def line(code, number):
        if code.co_filename.startswith(PACKAGE):
            seen.add((code.co_filename.removeprefix(PACKAGE + "/"), number))
        return monitoring.DISABLE

    monitoring.use_tool_id(tool, "lines")
    monitoring.register_callback(tool, monitoring.events.LINE, line)
    monitoring.set_events(tool, monitoring.events.LINE)
    try:
        call()
    finally:
        monitoring.set_events(tool, 0)
        monitoring.free_tool_id(tool)
    return seen


def everyday(survey):
    """Fit two categories, and make the table."""
    return lb.fit(survey, random_seed=1).table()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", action="store_true", help="show the lines of each file")
    show = parser.parse_args().files
    survey = lb.load_example("nigeria")
    everyday(survey)
    lines = Counter(file for file, _ in lines_of(lambda: everyday(survey)))
    if show:
        for file, count in lines.most_common():
            print(f"{count:5} {file}")
    print(f"{len(lines)} files (at most {LIMITS[0]}), {lines.total():,} lines (at most {LIMITS[1]:,})")


if __name__ == "__main__":
    main()
