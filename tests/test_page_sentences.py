"""The page of an answer leads with a sentence that has its number, n, model and design, and states how to compute it again.

The kind: pages of poststratify, comparisons and others had a table alone. Siblings searched: answers of fit, regress and
associate, of maximum likelihood and of two results, the contamination hull, the sensitivity curve, and regress with deniers.
"""

import functools
import json

import pytest

import ldpbayes as lb
from ldpbayes import answers
from ldpbayes.protocols import crosswise, direct
from ldpbayes.protocols.registry import make_protocol

CENSUS = {"female": [0, 1], "married": [1, 0], "n": [10, 20]}


@functools.cache
def result(name):
    if name == "fit":
        return lb.fit(three(), "jeffreys", random_seed=1, draws=250)
    cells = lb.load_example("nigeria_cells")
    settings = {"method": "mle"} if name == "mle" else {"random_seed": 1, "draws": 250}
    return lb.regress(cells, "connected ~ female + married", **settings)


def three():
    return lb.Collection(["a", "b", "c"], [lb.Tally(lb.GRR(3, 1.5), [0, 1, 2], [120, 100, 80])])


QUESTIONS = {
    "sum": ("fit", answers.category_sum, (["a", "b"],), {}),
    "contrast": ("fit", answers.contrast, ("a", "b"), {}),
    "entropy": ("fit", answers.entropy, (), {}),
    "top": ("fit", answers.probability_in_top, (1,), {}),
    "simultaneous": ("fit", answers.simultaneous_intervals, (), {}),
    "largest": ("fit", answers.largest, (2,), {}),
    "parts": ("fit", answers.interval_parts, (), {}),
    "predictions": ("regress", answers.predictions, (), {}),
    "comparisons": ("regress", answers.comparisons, ("female",), {}),
    "slopes": ("regress", answers.slopes, ("female",), {}),
    "odds": ("regress", answers.odds_ratio, (), {}),
    "odds of mle": ("mle", answers.odds_ratio, (), {}),
    "poststratify": ("regress", answers.poststratify, (CENSUS,), {"count": "n"}),
    "poststratify by": ("regress", answers.poststratify, (CENSUS,), {"count": "n", "by": "female"}),
}


def model_and_design(of):
    """Return n, the design and the model as a sentence names them."""
    device = ("300 reports", "grr (epsilon = 1.5)") if of == "fit" else ("2,423 reports", "forced response")
    model = {"mle": ("maximum likelihood", "connected ~ female + married"), "regress": ("connected ~ female + married",)}
    return *device, *model.get(of, ("prior Jeffreys",))


@pytest.mark.parametrize("name", list(QUESTIONS))
def test_page_of_an_answer_leads_with_a_sentence(name):
    of, question, arguments, settings = QUESTIONS[name]
    page = lb.show(question(result(of), *arguments, **settings))
    sentence, text = page.summary, str(page)
    assert text.startswith(sentence[:40])
    assert all(part in sentence for part in model_and_design(of)), sentence
    printed = [entry for row in page.tables[0].texts() for entry in row]
    if name == "largest":  # its sentence names categories
        assert "a, b" in sentence
    else:
        digits = [entry[:5] for entry in printed if entry.lstrip("-")[:1].isdigit()]
        assert any(entry in sentence for entry in digits), (sentence, printed)
    assert json.loads(page.again["Settings"])["function"] == question.__name__


@pytest.mark.parametrize("name", ["sum", "comparisons", "poststratify"])
def test_settings_of_an_answer_compute_it_again(name):
    of, question, arguments, settings = QUESTIONS[name]
    answer = question(result(of), *arguments, **settings)
    stated = json.loads(lb.show(answer).again["Settings"])["arguments"]
    made = dict(stated["result"]["arguments"])
    if of == "fit":
        again = lb.fit(**made | {"collection": three()})
    else:
        again = lb.regress(**made | {"data": lb.load_example("nigeria_cells")})
    assert question(again, *arguments, **settings)["mean"].values.tolist() == answer["mean"].values.tolist()


def test_a_contrast_of_two_results_names_both():
    other = lb.fit(lb.Collection("abc", lb.Tally(lb.GRR(3, 1.0), [0, 1, 2], [30, 30, 40])), "flat", random_seed=2)
    page = lb.show(answers.contrast(result("fit"), "a", "a", other=other))
    assert all(part in page.summary for part in ("300 reports through grr (epsilon = 1.5)", "100 reports through grr"))
    assert page.again["Random seed"] == "1; 2"


def test_pages_of_hull_and_sensitivity_name_reports_and_design():
    hull = lb.robust.contamination_hull(three(), "a > 0.4", share=0.05)
    survey = lb.Collection(["no", "yes"], [lb.Tally(crosswise(0.25), [0, 1], [210, 190])])
    curve = lb.robust.sensitivity(survey.with_noncompliers({"random": "uniform"}), "yes")
    assert "grr (epsilon = 1.5)" in lb.show(hull).summary
    assert "through crosswise (p = 0.25)" in lb.show(curve).summary


def test_regression_with_deniers_says_who_was_asked_directly_and_can_be_computed_again():
    counts = [[210, 190, 300, 100], [220, 200, 310, 110]]
    frame = {
        "answer": ["different", "same", "no", "yes"] * 2,
        "age": [0] * 4 + [1] * 4,
        "mode": ["device", "device", "direct", "direct"] * 2,
        "n": counts[0] + counts[1],
    }
    devices, deniers = {"device": crosswise(0.25), "direct": direct()}, {"of": "yes", "say": "no", "channel": "direct"}
    given = {"design": "mode", "count": "n", "deniers": deniers, "random_seed": 1, "draws": 250, "scale": 2.0}
    found = lb.regress(frame, "answer ~ age", devices, **given)
    page = lb.show(found)
    assert "820 reports through" in page.summary
    assert "through crosswise (p = 0.25)" in page.summary
    share = 100 * float(found["summary"]["denial_mean"].item())
    assert f"of those in yes an estimated {share:.1f} %" in page.summary
    stated = json.loads(page.again["Settings"])["arguments"] | {"data": frame}
    labels = ["no", "yes"]
    protocols = {
        name: make_protocol(one["name"], categories=labels, parameters=one["parameters"])
        for name, one in stated.pop("protocol").items()
    }
    again = lb.regress(protocol=protocols, **stated)
    assert again["posterior"]["coefficients"].values.tolist() == found["posterior"]["coefficients"].values.tolist()


def test_title_of_a_regression_is_that_of_its_file():
    cells = lb.load_example("nigeria_cells")
    page = lb.show(result("regress"))
    assert page.title == cells.title and "connected ~ female" in page.summary
    assert page.facts["formula"] == "connected ~ female + married"
