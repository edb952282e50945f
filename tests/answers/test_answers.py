"""Every question returns one kind of thing: numbers over dims that can be read, worked on and kept."""

import numpy as np
import pytest

import ldpbayes as lb

SURVEY = lb.Collection("abc", lb.Tally(lb.GRR(3, 1.0), [0, 1, 2], [300, 200, 100]))


@pytest.fixture(scope="module")
def questions():
    result = lb.fit(SURVEY, "jeffreys", draws=50, random_seed=1)
    cells = lb.fit(lb.Cells({"x": SURVEY, "y": SURVEY}), "jeffreys", draws=50, random_seed=1)
    with pytest.warns(lb.errors.DiagnosticWarning, match="prior pulls"):
        population = lb.poststratify(cells, [1.0, 2.0])
    return {
        "contrast": lb.contrast(result, "a", ["b", "c"]),
        "category_sum": lb.answers.category_sum(result, ["a", "b"]),
        "entropy": lb.answers.entropy(result),
        "probability_in_top": lb.answers.probability_in_top(result, 2),
        "simultaneous_intervals": lb.answers.simultaneous_intervals(result),
        "interval_parts": lb.answers.interval_parts(result),
        "poststratify": population,
        "fakes": lb.robust.fakes(SURVEY, "c", overtake="a"),
    }


def test_every_answer_can_be_read_worked_on_and_kept(questions, tmp_path):
    for name, answer in questions.items():
        assert isinstance(answer, lb.answers.Answer), name
        assert answer.question and answer.question in " ".join(repr(answer).split()), name
        table = answer.table()
        assert len(table) == max(int(np.prod(list(answer.sizes.values()))), 1), name
        answer.save(tmp_path / f"{name}.html")
        assert answer.question.split()[0] in (tmp_path / f"{name}.html").read_text()


def test_what_is_made_of_an_answer_is_one(questions):
    answer = questions["simultaneous_intervals"]
    assert isinstance(answer.sel(category=["a"]), lb.answers.Answer) and answer.sel(category=["a"]).question
    assert questions["contrast"].question == "a − (b + c)"
    assert "fabricated reports" in questions["fakes"].sentence and questions["fakes"].added.item() > 0
