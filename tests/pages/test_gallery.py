"""The pictures of the gallery and the README show what the package computes today, and their titles say no more."""

import importlib.util
import json
import pathlib
import re

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parents[2]
_SPEC = importlib.util.spec_from_file_location("draw_gallery", ROOT / "tools" / "draw_gallery.py")
gallery = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(gallery)
PICTURES = [path for _, path in gallery.blocks()]


@pytest.fixture(scope="module")
def figures():
    """What returns the figure of a picture, by its name: blocks run in the order of the page, as far as they are needed."""
    running, made = gallery.drawn(), {}

    def figure(name):
        while name not in made:
            path, drawn = next(running)
            made[path.stem] = drawn
        return made[name]

    return figure


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_pictures_show_the_numbers_of_today(figures, path):
    """`make figures` draws them anew where they have moved by more than a reader sees."""
    assert path.exists()
    stored = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    assert gallery.apart(stored, gallery.numbers(figures(path.stem))) == []


def test_a_number_that_moves_is_found():
    stored = json.loads((ROOT / "docs" / "_static" / "gallery" / "plan.json").read_text(encoding="utf-8"))
    changed = json.loads(json.dumps(stored))
    changed[0]["series"][0][0][1] *= 1.1
    assert len(gallery.apart(stored, changed)) == 1 and gallery.apart(stored, stored) == []
    changed[0]["series"][0].pop()
    assert gallery.apart(stored, changed) == ["other axes, series or numbers of points"]


def ends(figure, line):
    """Return the ends of an interval of a forest, the first line on top."""
    return figure.axes[0].collections[0].get_segments()[line][:, 0]


def test_titles_say_what_the_figures_show(figures):
    low, high = 100 * ends(figures("forest"), 0)
    assert f"Between {low:.0f} and {high:.0f} %" in figures("forest").get_suptitle()
    title = " ".join(figures("contamination").get_suptitle().split())
    bands = [band.get_paths()[0].vertices for band in figures("contamination").axes[0].collections]
    (outer, inner) = (100 * band[np.isclose(band[:, 0], 0.1), 1] for band in bands)
    assert f"{inner.min():.0f} to {inner.max():.0f} %, with sampling error {outer.min():.0f} to {outer.max():.0f} %" in title
    (turn,) = (line.get_xdata()[0] for line in figures("sensitivity").axes[0].lines if "turns" in str(line.get_label()))
    assert "one in fourteen" in figures("sensitivity").get_suptitle().replace("\n", " ") and round(1 / turn) == 14
    away = [line.get_ydata() for line in figures("predictive").axes[0].lines if line.get_label() == "observed"]
    assert np.abs(away).max() < 2  # "no page's reports are far"


def test_the_plan_says_from_where_on_no_protocol_is_better(figures):
    """From ε = 2.4 on, as the next point of the grid, randomized response has the least error of the protocols drawn."""
    lines = {line.get_label(): line for line in figures("plan").axes[0].lines}
    grr = lines.pop("GRR")
    del lines["least possible error"], lines["direct answers"]
    errors, epsilons = np.array([line.get_ydata() for line in lines.values()]), grr.get_xdata()
    best = (grr.get_ydata() <= errors * (1 + 1e-9)).all(axis=0)
    assert best[epsilons > 2.4].all() and not best[epsilons < 2].any() and (epsilons > 2.4).sum() >= 2


def test_predictions_are_ordered_as_the_title_says(figures):
    """Married women have the least estimates, men who are not married the largest, in every group of age."""
    axes = figures("predictions").axes[0]
    means = axes.lines[0].get_xdata()
    labels = [label.get_text().replace("\n", " ") for label in axes.get_yticklabels()]
    groups = {key: [m for m, label in zip(means, labels, strict=True) if key in label] for key in (
        "female: yes, married: yes", "female: no, married: no")}  # fmt: skip
    least, largest = (np.array(values) for values in groups.values())
    assert len(least) == len(largest) == 5
    others = [m for m, label in zip(means, labels, strict=True) if not any(key in label for key in groups)]
    assert least.max() < min(others) and largest.min() > max(others)


def test_the_first_tutorial_says_the_interval_of_the_smallest_group(figures):
    cells = json.loads((ROOT / "notebooks" / "01_first_survey.ipynb").read_text(encoding="utf-8"))["cells"]
    stated = re.search(r"55 and above\s+it is between (\d+) and\s+(\d+) %", "".join(cells[-1]["source"]))
    labels = [label.get_text().replace("\n", " ") for label in figures("groups").axes[0].get_yticklabels()]
    line = labels.index("female: no, married: no, 55+")
    np.testing.assert_allclose([int(end) / 100 for end in stated.groups()], ends(figures("groups"), line), atol=0.006)
