"""Tables of calibration results kept beside the tests that made them."""

import csv
import fcntl


def record(path, line, keys, replaces=None):
    """Put one line into a CSV table sorted by its keys, in place of those lines that agree with it on ``replaces``.

    Parameters
    ----------
    path : Path
    line : dict
        The same fields every time.
    keys, replaces : sequence of str
        Names of fields; ``replaces`` is ``keys`` where not given.
    """
    new = {name: str(value) for name, value in line.items()}
    with path.open("a+", newline="") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # two processes of one run write one table; closing the file gives it back
        file.seek(0)
        lines = [old for old in csv.DictReader(file) if any(old[name] != new[name] for name in replaces or keys)] + [new]
        lines.sort(key=lambda entry: [_sortable(entry[name]) for name in keys])
        file.truncate(0)
        writer = csv.DictWriter(file, list(line), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


def _sortable(text):
    try:
        return 0, float(text), ""
    except ValueError:
        return 1, 0.0, text
