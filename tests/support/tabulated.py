"""One test over a table: ``each_row`` stands where ``pytest.mark.parametrize`` would make an item of every row."""

import functools
import inspect

import pytest


def _named(names, row):
    """Return the row as a failure tells it, values cut to what tells them apart."""
    return ", ".join(f"{name}={value!r:.80}" for name, value in zip(names, row, strict=True))


def each_row(names, rows):
    """Return a decorator that calls a test with every row of a table, and names every row that fails.

    Parameters
    ----------
    names : str
        The arguments that a row gives, separated by commas.
    rows : iterable
        The values of a row: a tuple, or one value where there is one name.

    Returns
    -------
    callable
        The decorator. What else the test asks for, fixtures among it, is given by pytest, once for all rows.
    """
    names = [name.strip() for name in names.split(",")]
    rows = [row if len(names) > 1 else (row,) for row in rows]
    assert rows, "a table without rows tests nothing"

    def decorate(test):
        @functools.wraps(test)
        def over_rows(**fixtures):
            failures = []
            for number, row in enumerate(rows):
                try:
                    test(**fixtures, **dict(zip(names, row, strict=True)))
                except (Exception, pytest.fail.Exception) as failure:
                    failure.add_note(f"Row {number}: {_named(names, row)}")
                    failures.append(failure)
                except pytest.skip.Exception as skipped:
                    raise AssertionError(f"Row {number} skips the others: {_named(names, row)}") from skipped
            if len(failures) == 1:
                raise failures[0]
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(rows)} rows fail", failures)

        signature = inspect.signature(test)
        asked = [parameter for name, parameter in signature.parameters.items() if name not in names]
        over_rows.__signature__ = signature.replace(parameters=asked)
        return over_rows

    return decorate
