"""Tutorial 07: people who always say "different" in a crosswise survey get the law of that report."""

import json
import pathlib

import numpy as np
import pytest

import ldpbayes as lb
from ldpbayes.protocols import designs

NOTEBOOK = pathlib.Path(__file__).parents[2] / "notebooks" / "07_does_the_model_fit.ipynb"


def two_forms(n, share, one_sayers):
    """Return a collection whose counts are what a crosswise survey with one-sayers gives on average, by its definition."""
    tallies = []
    for p in (0.2, 0.8):  # P(innocuous yes): a carrier's answers are the same with probability p, others' with 1 - p
        different = (1 - one_sayers) * (share * (1 - p) + (1 - share) * p) + one_sayers
        counts = [round(n * different), n - round(n * different)]
        design = designs.crosswise(p)
        reports = design.parse_reports([["different", "same"]], ("no", "yes"))
        tallies.append(lb.Tally(design, reports, counts, name=f"form {p}"))
    return lb.Collection(("no", "yes"), tallies)


def test_the_law_by_its_label_recovers_the_share():
    fitted = lb.fit(two_forms(40_000, 0.15, 0.1).with_noncompliers({"one-sayer": "different"}), "flat", random_seed=1)
    mean = fitted["summary"]["mean"].sel(target="distribution", category="yes").item()
    assert mean == pytest.approx(0.15, abs=0.01)
    mirrored = lb.fit(two_forms(40_000, 0.15, 0.1).with_noncompliers({"one-sayer": "same"}), "flat", random_seed=1)
    assert abs(mirrored["summary"]["mean"].sel(target="distribution", category="yes").item() - 0.15) > 0.02


def test_the_tutorial_names_the_report_by_its_label():
    cells = ["".join(cell["source"]) for cell in json.loads(NOTEBOOK.read_text())["cells"]]
    recipe = next(cell for cell in cells if "with_noncompliers" in cell and "one-sayer" in cell)
    simulation = next(cell for cell in cells if "protocols.crosswise" in cell)
    names = {"np": np, "lb": lb, "designs": designs}
    exec(simulation.split("naive =")[0], names)
    exec(recipe.split("print")[0], names)
    law = names["honest"]
    fitted = lb.fit(law, random_seed=1)["summary"]["mean"].sel(target="distribution", category="yes").item()
    assert fitted == pytest.approx(0.15, abs=0.05)
    assert '"different"' in recipe
    # the simulated one-sayers raise the report that people give who say that exactly one answer is yes
    assert names["always"] == [True, False]
    assert names["design"].answers[0] == "different"
