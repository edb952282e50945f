"""Tables show the digits that matter, verdicts name the cells that they are about, and devices are said in words."""

import re

import numpy as np
import pytest

import ldpbayes as lb
from ldpbayes.fitness.cells import verdict_of_cells
from ldpbayes.protocols import designs
from ldpbayes.result.facts import facts_of


def direct(counts=(250, 150)):
    return lb.Collection(["no", "yes"], lb.Tally(designs.direct(2), [0, 1], counts))


def crosswise(counts, p=0.25):
    return lb.Collection(["no", "yes"], lb.Tally(designs.crosswise(p), [0, 1], counts))


def test_frequencies_of_direct_answers_have_no_sd():
    tree = lb.fit(direct(), random_seed=1)
    sd = tree["summary"]["sd"].sel(target="frequency").values
    assert (sd == 0).all()
    assert all(column.spec in ("", ".4f", None) for column in lb.show(tree).tables[0].columns if column.spec is not None)


def test_one_group_that_was_asked_directly_leaves_the_digits_of_the_others():
    cells = lb.Cells({"a": direct(), "b": crosswise([190, 210]), "c": crosswise([230, 170])}, "g")
    table = lb.show(lb.fit(cells, random_seed=1)).tables[0]
    specs = {column.spec for column in table.columns if column.spec}
    assert specs == {".4f"}


def test_the_verdict_of_cells_names_those_that_do_not_fit():
    labels = [f"d{i}" for i in range(5)]
    sentence, flagged = verdict_of_cells(labels, [0.24, 1e-6, 0.5, 0.8, 0.9])
    assert flagged and "design: d1" in sentence
    sentence, flagged = verdict_of_cells(labels, [0.03, 0.04, 0.02, 0.03, 0.24])
    assert flagged and "taken together" in sentence and "all 5 cells do not fit" not in sentence


@pytest.mark.parametrize("p", [0.004, 0.0051, 0.02])
def test_the_adjusted_p_values_of_cells_decide_by_themselves(p):
    """What is printed as adjusted is what is compared with the level: half of it goes to each of two tests."""
    sentence, flagged = verdict_of_cells("abcde", [p, 0.5, 0.5, 0.5, 0.5])
    together, least = map(float, re.search(r"([\d.e-]+) of all together, ([\d.e-]+) of the cell", sentence).groups())
    assert flagged == (min(together, least) <= 0.05) and least == pytest.approx(10 * p, rel=0.01)


def test_at_the_public_door_cells_that_fit_are_not_blamed():
    pair = [designs.crosswise(0.2), designs.crosswise(0.7)]

    def cell(counts):
        return lb.Collection(
            ["no", "yes"], [lb.Tally(q, [0, 1], n, str(i)) for i, (q, n) in enumerate(zip(pair, counts, strict=True))]
        )

    good, bad = [[130, 270], [250, 150]], [[390, 10], [390, 10]]
    found = lb.check(lb.Cells({"x": cell(bad), "y": cell(good), "z": cell(good)}, "day"))
    assert found.flagged and "design: x" in found.verdict


def test_devices_are_said_in_words():
    survey = lb.Collection(["no", "yes"], lb.Tally(designs.crosswise(0.75, ("two", "one")), [0, 1], [180, 220]))
    tree = lb.fit(survey, random_seed=1, draws=200)
    assert facts_of(tree)["device"] == "3 of 4 in 'yes' and 1 of 4 in 'no' say 'one'."
    assert any("4 in 'yes'" in note.text for note in lb.show(tree).notes)
    assert direct().device() == ""
    both = lb.Collection(["no", "yes"], [*direct().tallies, lb.Tally(designs.warner(0.7234), [0, 1], [9, 9], "device")])
    assert both.device() == "Channel 'device': 72.3 of 100 in 'yes' and 27.7 of 100 in 'no' say 'yes'."
    wrapped = crosswise([190, 210]).with_noncompliers({"sayer": 1})
    assert "4 in 'no'" in wrapped.device() and "say 'same'" in wrapped.device()
    assert "say 'same'" in lb.Cells({"a": crosswise([1, 2]), "b": crosswise([3, 4])}, "g").device()


def test_the_own_labels_of_a_design_in_another_order_are_refused():
    with pytest.raises(lb.LDPBayesError, match=r"order.*rows.*crosswise"):
        designs.crosswise(0.25, answers=["same", "different"])
    with pytest.raises(lb.LDPBayesError, match=r"order.*rows.*warner"):
        designs.warner(0.7, answers=["yes", "no"])
    assert designs.crosswise(0.25, answers=["different", "same"]) == designs.crosswise(0.25)
    assert np.array_equal(designs.crosswise(0.25, answers=["B", "A"]).matrix, designs.crosswise(0.25).matrix)
