"""The page of a study: its results as a table with a column for each curve."""

import functools
import math

from ldpbayes import checks
from ldpbayes.errors import ArgumentError
from ldpbayes.pages.page import Column, Figure, Kind, Note, Page, Table
from studies.base import Study
from studies.plotting import plot_study
from studies.runner import CELL_COLUMNS

#: Panels of the figure, one below the other; the figure that is saved beside it has more.
PANELS = 8
_HEADERS = {
    "n_categories": "a",
    "n_reports": "n",
    "times": "reports a user",
    "target": "of",
    "fakes": "share of fakes",
    "bound": "bound",
    "bound_any": "bound of any protocol",
    "bound_finite": "bound at this n",
}
_BOUNDS = ("bound", "bound_any", "bound_finite")
#: Headings of columns of texts that are no numbers.
_LABELS = ("protocol", "population", "estimator", "of", "metric")
#: What tells the results of a study apart.
_WHO = (*CELL_COLUMNS, "estimator", "target", "metric")


def of_study(table, study) -> Page:
    """Return the Page of a study's results."""
    headers, rows = pivot(table, study)
    curves = {line[study.lines[-1]] for line in table.to_pylist()}
    bounds = {_HEADERS[name]: i for i, name in enumerate(_BOUNDS, 3)}
    columns = tuple(
        Column(h, h, "text", priority=bounds.get(h, 0), align="left" if h in _LABELS else "right") for h in headers
    )
    title = f"{study.title} ({study.source})"

    settings = {"title": study.title, "most_panels": PANELS, "most_columns": 1}
    draw = functools.partial(plot_study, table, study.x, study.lines, study.panels, **settings)
    note = Note(Kind.METHOD, "Values are means ± their Monte Carlo standard errors; bounds have no error worth showing.")
    alt = f"Curves of {', '.join(sorted(c for c in curves if c))} against {study.x.replace('_', ' ')}."
    figure = Figure(study.name, study.title, f"{alt} The table has the numbers.", draw)
    shown = Table("", columns, tuple(map(tuple, rows)))
    lines = table.to_pylist()
    runs = sorted({line["replications"] for line in lines if line.get("replications")})
    summary = f"{study.title}: {len(lines):,} results for {', '.join(sorted(c for c in curves if c))}"
    summary += f", from {runs[0]:,} to {runs[-1]:,} replications each." if len(runs) > 1 else "."
    facts = {"study": study.name, "rows": lines}
    return Page(title, (shown,), (note,), (figure,), facts, summary, {"Source": study.source})


def pivot(table, study):
    """Return (headers, rows of text): a column for each value of the last of study.lines, value ± error.

    Parameters
    ----------
    table : pyarrow.Table
        From run_study.
    study : Study
    """
    import pyarrow as pa

    if not set(_WHO) <= set(checks.instance(table, "table", pa.Table, "what run_study returned").column_names):
        raise ArgumentError("table must be what run_study returned, got other columns.")
    curve = checks.instance(study, "study", Study, "a Study").lines[-1]
    results = table.to_pylist()
    keys = [name for name in _WHO if name != curve]
    keys = [name for name in keys if len({line.get(name) for line in results}) > 1]
    bounds = [name for name in _BOUNDS if any(line[name] is not None for line in results)]
    lines = {}
    for line in results:
        row = lines.setdefault(tuple(line[name] for name in keys), {})
        row[line[curve]] = _number(line["value"], line["standard_error"])
        row |= {name: _number(line[name]) for name in bounds}
    curves = list(dict.fromkeys(name for row in lines.values() for name in row if name not in bounds))
    headers = [_HEADERS.get(name, name.replace("_", " ")) for name in (*keys, *curves, *bounds)]
    cells = [[*map(_text, at), *(row.get(name, "") for name in (*curves, *bounds))] for at, row in lines.items()]
    return headers, cells


def _number(value, error=None):
    if value is None:
        return ""
    # What is computed without simulation has the error of rounding, which nobody asked for.
    noisy = error is not None and math.isfinite(error) and error > 1e-9 * abs(value)
    return f"{value:.3g} ± {error:.1g}" if noisy else f"{value:.3g}"


def _text(value):
    if isinstance(value, int):
        return f"{value:,}"
    return {None: "", "distribution": "P", "frequency": "F"}.get(value, str(value).replace("_", " "))
