"""Draw the figures of docs/gallery.md: the code of each block, saved under the name of the image that follows it.

Beside each picture stands a file of the numbers that it shows, each axis with the error to which a reader sees them;
the tests draw the figures anew and compare.
"""

import json
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

ROOT = pathlib.Path(__file__).parents[1]
PAGE = ROOT / "docs" / "gallery.md"
#: What a reader sees: this share of an axis is two pixels of a picture that is 400 pixels wide.
SEEN = 0.005
#: Points kept of a long curve.
POINTS = 9


def blocks() -> list[tuple[str, pathlib.Path]]:
    """Return the code of each figure of the page, and the path of its picture, in their order."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.findall(r"^```python\n(.*?)^```\n\n!\[[^]]*\]\(([^)]+)\)", text, re.DOTALL | re.MULTILINE)
    return [(code, ROOT / "docs" / path) for code, path in found]


def drawn() -> Iterator[tuple[pathlib.Path, Any]]:
    """Run the blocks of the page in order; yield the path of each picture, and its figure."""
    names: dict[str, Any] = {}
    for code, path in blocks():
        exec(code, names)
        yield path, names["figure"]


def numbers(figure: Any) -> list[dict[str, Any]]:
    """Return what each pair of axes shows: points of lines, ends of intervals and corners of bands, with their error.

    The error is a share of the axis: absolute where the axis is linear, of the logarithm where it is logarithmic.
    """
    shown = []
    for axes in figure.axes:
        entry: dict[str, Any] = {"axis": axes.get_xlabel()}
        for name, (low, high), scale in (
            ("x", axes.get_xlim(), axes.get_xscale()),
            ("y", axes.get_ylim(), axes.get_yscale()),
        ):
            span = np.log(high / low) if scale == "log" else high - low
            entry |= {f"{name}_scale": scale, f"{name}_error": float(f"{SEEN * abs(span):.2g}")}
        entry["series"] = [_thinned(np.column_stack(line.get_data())) for line in axes.lines]
        for collection in axes.collections:
            parts = [path.vertices for path in collection.get_paths()]
            entry["series"].append(_thinned(np.concatenate(parts)) if parts else [])
        shown.append(entry)
    return shown


def apart(stored: list[dict[str, Any]], now: list[dict[str, Any]]) -> list[str]:
    """Return a line for each series that has moved by more than its stated error, or that is not there any more."""
    if [(a["axis"], [len(part) for part in a["series"]]) for a in stored] != [
        (b["axis"], [len(part) for part in b["series"]]) for b in now
    ]:
        return ["other axes, series or numbers of points"]
    moved = []
    for before, after in zip(stored, now, strict=True):
        for i, (a, b) in enumerate(zip(before["series"], after["series"], strict=True)):
            for k, axis in enumerate("xy"):
                x, y = (np.array(part, dtype=float).reshape(-1, 2)[:, k] for part in (a, b))
                if before[f"{axis}_scale"] == "log":
                    x, y = np.log(x), np.log(y)
                far = float(np.abs(x - y).max(initial=0.0))
                if not far <= before[f"{axis}_error"]:
                    moved.append(f"{before['axis']}: series {i} by {far:.3g} in {axis}, stated {before[f'{axis}_error']}")
    return moved


def _thinned(points: Any) -> list[list[float]]:
    places = np.unique(np.linspace(0, len(points) - 1, POINTS).round().astype(int)) if len(points) > 60 else slice(None)
    return [[float(f"{x:.5g}") for x in point] for point in np.asarray(points, dtype=float)[places]]


def main() -> None:
    """Draw every figure of the page, and write its numbers beside it."""
    for path, figure in drawn():
        figure.savefig(path, dpi=130)
        text = json.dumps(numbers(figure), ensure_ascii=False)
        path.with_suffix(".json").write_text(re.sub(r"(\]\], |: \[\[|\}, )", r"\1\n ", text) + "\n", encoding="utf-8")
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
