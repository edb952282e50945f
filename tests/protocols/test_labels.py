"""Labels of categories and of answers, in any order, case, width and Unicode form: the same people have the same share.

The kind: a guard that compared labels otherwise than the reader read them, so that ``--categories Yes,No`` over a file of
No and Yes gave the share of no as that of yes. ``protocols.labels`` alone says which label is which. Searched: every design
and protocol with labels (answers, categories, sets, candidates of hashed words, products, attributes, lists), ``read`` of
frames and CSV, ``scan``, cells, ``regress``, private groups, the command line, ``Tally``, ``Collection``, missing answers.
"""

import json
import unicodedata
import warnings

import numpy as np
import pandas as pd
import pytest
from commands import run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tabulated import each_row

import ldpbayes as lb
from ldpbayes.errors import ArgumentError, DataError, LDPBayesError
from ldpbayes.protocols import (
    Attributes,
    CohortRR,
    MemoizedRappor,
    Rappor,
    RapporBits,
    SubsetSelection,
    UnaryEncoding,
    designs,
    kronecker,
    product,
)
from ldpbayes.repeated.fresh import Repeated

FIXED = {"deadline": None, "suppress_health_check": list(HealthCheck)}
YES_NO, FRUIT = ("no", "yes"), ("Äpfel", "Birnen", "straße")
JOINED = tuple(f"{one}/{two}" for one in YES_NO for two in FRUIT)
#: Protocols, the labels of their categories, the labels of their reports as a file has them, and how often each came in.
CASES = {
    "warner": (designs.warner(0.7), YES_NO, YES_NO, (60, 40)),
    "forced response": (designs.forced_response(0.7, [1, 2]), YES_NO, YES_NO, (60, 40)),
    "unrelated question": (designs.unrelated_question(0.7, 0.4), YES_NO, YES_NO, (60, 40)),
    "direct": (designs.direct(), YES_NO, YES_NO, (60, 40)),
    "direct, fruit": (designs.direct(3, answers=FRUIT), FRUIT, FRUIT, (50, 30, 20)),
    "direct, of no stated answers": (designs.direct(3), FRUIT, FRUIT, (50, 30, 20)),
    "direct, truth values": (designs.direct(answers=["false", "true"]), ("false", "true"), ("false", "true"), (60, 40)),
    "crosswise": (designs.crosswise(0.7, answers=YES_NO), YES_NO, YES_NO, (60, 40)),
    "crosswise, its own answers": (designs.crosswise(0.7), ("different", "same"), ("different", "same"), (60, 40)),
    "triangular": (designs.triangular(0.3), ("neither", "at least one"), ("neither", "at least one"), (40, 60)),
    "product": (product([designs.warner(0.7), designs.warner(0.8)]), YES_NO, ("no/no", "no/yes", "yes/yes"), (40, 35, 25)),
    "kronecker": (
        kronecker([designs.warner(0.7), designs.direct(3, FRUIT)]),
        JOINED,
        JOINED,
        (30, 20, 15, 14, 11, 10),
    ),
    "grr": (lb.GRR(3, 1.0), FRUIT, FRUIT, (50, 30, 20)),
    "sets": (UnaryEncoding.optimized(3, 1.0), FRUIT, ("Äpfel;Birnen", "straße", "Birnen;"), (50, 30, 20)),
    "subsets": (SubsetSelection(3, 1.0, 1), FRUIT, FRUIT, (50, 30, 20)),
    "histories": (Repeated(designs.warner(0.7)), YES_NO, ('["no","yes"]', '["yes"]'), (60, 40)),
}
FORMS = (str, str.upper, str.title, str.casefold, lambda x: f" {x}\t", lambda x: f"\N{NO-BREAK SPACE}{x}")
FORMS += tuple(lambda x, form=form: unicodedata.normalize(form, x) for form in ("NFC", "NFD", "NFKC", "NFKD"))


def folded(text):
    return unicodedata.normalize("NFC", text.casefold()).strip()


def shares(data):
    """The unbiased estimate by folded label."""
    collection = lb.Collection(data.categories, data) if isinstance(data, lb.Tally) else data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimate = lb.estimators.MLE()(collection).distribution
    return dict(zip(map(folded, collection.categories), estimate, strict=True))


@st.composite
def relabelled(draw, name):
    """Labels of the categories and of the reports, in another order and form."""
    _, categories, reports, _ = CASES[name]
    form = st.sampled_from(FORMS)
    order = draw(st.permutations(range(len(categories))))
    return [draw(form)(categories[x]) for x in order], [draw(form)(label) for label in reports]


@pytest.mark.parametrize("name", CASES)
def test_a_relabelling_moves_nobody(name):
    protocol, categories, reports, counts = CASES[name]
    frame = pd.DataFrame({"label": reports, "count": counts})
    expected = shares(lb.read(frame, protocol, report="label", count="count", categories=categories))
    served = []

    @settings(max_examples=30, **FIXED)
    @given(relabelled(name))
    def check(labels):
        table = frame.assign(label=labels[1])
        try:
            found = shares(lb.read(table, protocol, report="label", count="count", categories=labels[0]))
        except (ArgumentError, DataError):
            return
        served.append(labels)
        assert found.keys() == expected.keys()
        assert all(abs(found[label] - expected[label]) < 1e-6 for label in expected)

    check()
    assert served


SWAPPED = [["Yes", "No"], [" YES", "nO "], ["Ｙｅｓ", "No"], ["yes", "maybe"], ["1", "0"], ["perhaps", "NO"]]


@each_row("categories", SWAPPED)
@each_row("design", ["warner", "forced response", "unrelated question", "direct", "histories"])
def test_no_door_swaps_yes_and_no(design, categories, tmp_path, capsys):
    """Every door refuses categories of which one is called as the answer of another one; 1 and 0 where texts are read."""
    protocol = CASES[design][0]
    single = protocol if design != "histories" else designs.warner(0.7)
    numbers = categories == ["1", "0"]
    texts = ["0", "1"] if numbers else ["No", "Yes"]
    frame = pd.DataFrame({"r": np.repeat(texts, [60, 40]), "x": np.tile([0.0, 1.0], 50), "u": range(100), "g": "a"})
    frame.to_csv(tmp_path / "t.csv", index=False)
    named = dict(report="r", categories=categories)
    user = {"by_user": "u"} if design == "histories" else {}
    doors = [
        lambda: lb.read(frame, single, **named, **user),
        lambda: lb.read(frame, single, by="g", **named, **user),
        lambda: lb.read(tmp_path / "t.csv", single, **named, **user),
        lambda: lb.scan(frame, single, **named),
        lambda: lb.regress(frame, "r ~ x", single, **named, method="mle"),
        lambda: lb.by_private_group(frame, "x", single, **named, draws=20),
    ]
    if not numbers:
        doors += [
            lambda: lb.Tally(single, [0, 1], [6, 4], categories=categories),
            lambda: lb.Tally(single, [0, 1, 1], categories=categories, user=["a", "a", "b"]),
            lambda: lb.Collection(categories, lb.Tally(single, [0, 1], [6, 4])),
            lambda: lb.simulate([0.6, 0.4], single, 50, categories=categories),
            lambda: lb.simulation.simulate_reports(tmp_path / "s.parquet", single, [6, 4], categories=categories),
            lambda: lb.Collection(["no", "yes"], lb.Tally(lb.GRR(2, 1.0), [0, 1], categories=["Yes", "No"])),
        ]
    for door in doors:
        with pytest.raises(LDPBayesError):
            door()
    options = {"warner": ["-p", "p=0.7"], "unrelated question": ["-p", "p=0.7", "-p", "innocuous=0.4"]}.get(design, [])
    options += ["-p", "truth=0.7", "-p", "forced=[1,2]"] if design == "forced response" else []
    if design != "histories" and categories in SWAPPED[:3]:  # the command line reads as the others do
        command = ["--protocol", design.replace(" ", "_"), *options, "--categories", ",".join(categories), "--report", "r"]
        for verb in (["fit"], ["check"], ["regress"]):
            assert run(capsys, *verb, tmp_path / "t.csv", *(["r ~ x"] if verb == ["regress"] else []), *command)[0] == 2


@each_row("categories", [["Yes", "No"], [" YES", "nO "], ["Ｙｅｓ", "No"], ["yes", "maybe"]])
@each_row("name", ["crosswise", "kuk", "triangular", "christofides"])
def test_designs_whose_answers_are_no_categories_do_not_swap_yes_and_no(name, categories, tmp_path, capsys):
    """Carriers are the second column, whatever they answer: under yes,no the share of carriers is told as that of no."""
    settings = {"p": 0.25} if name in ("crosswise", "triangular") else {"shares": [0.7, 0.3]}
    settings = {"p_carrier": 0.7, "p_other": 0.4} if name == "kuk" else settings
    design = getattr(designs, name)(**settings)
    answers = list(design.answers)
    frame = pd.DataFrame({"r": np.repeat(answers, [60, 40]), "x": np.tile([0.0, 1.0], 50)})
    frame.to_csv(tmp_path / "t.csv", index=False)
    for door in (
        lambda: lb.read(frame, design, report="r", categories=categories),
        lambda: lb.scan(frame, design, report="r", categories=categories),
        lambda: lb.regress(frame, "r ~ x", design, report="r", categories=categories, method="mle"),
        lambda: lb.Tally(design, [0, 1], [60, 40], categories=categories),
        lambda: lb.Collection(categories, lb.Tally(design, [0, 1], [60, 40])),
        lambda: lb.simulate([0.6, 0.4], design, 50, categories=categories),
    ):
        with pytest.raises(LDPBayesError, match=rf"categories of {name}.*no, yes"):
            door()
    given = [f"-p{key}={json.dumps(value)}" for key, value in settings.items()]
    options = ["--protocol", name, *given, "--report", "r", "--categories"]
    for verb in (["fit"], ["check"], ["regress"]):
        formula = ["r ~ x"] if verb == ["regress"] else []
        assert run(capsys, *verb, tmp_path / "t.csv", *formula, *options, ",".join(categories))[0] == 2
    served = [["no", "yes"], ["No", "YES"], ["Nein", "Ja"]]
    found = [list(shares(lb.read(frame, design, report="r", categories=labels)).values()) for labels in served]
    np.testing.assert_array_equal(found, found[:1] * 3)


def test_files_that_state_labels_in_another_order_are_refused(tmp_path):
    """As the column ``protocol`` and the metadata state them, and as a collection file does."""
    stated = '{"protocol":"warner","categories":["Yes","No"],"parameters":{"p":0.7}}'
    frame = pd.DataFrame({"report": ["no", "yes"], "protocol": stated})
    with pytest.raises(DataError, match=r"order.*answers.*warner"):
        lb.read(frame)
    (tmp_path / "t.csv").write_text("report,count\nNo,60\nYes,40\n")
    text = 'categories = ["Yes", "No"]\n[[channels]]\nfile = "t.csv"\nprotocol = "warner"\ncount = "count"\n'
    text += "parameters = {p = 0.7}\n"
    (tmp_path / "t.toml").write_text(text)
    with pytest.raises(DataError, match=r"order.*answers.*warner"):
        lb.read(tmp_path / "t.toml")
    (tmp_path / "t.toml").write_text(text.replace('"Yes", "No"', '"No", "YES"'))
    assert shares(lb.read(tmp_path / "t.toml"))["yes"] == pytest.approx(0.25)


def test_answers_of_a_design_are_not_swapped_by_case():
    for maker in (lambda a: designs.warner(0.7, a), lambda a: designs.direct(2, a), lambda a: designs.crosswise(0.7, a)):
        with pytest.raises(ArgumentError, match=r"order.*rows"):
            maker(["Yes", "No"] if maker(None).answers == YES_NO else ["SAME", "Different"])
    assert designs.warner(0.7, ["No", "Yes"]).answers == ("No", "Yes")
    assert designs.direct(3, ["1", "2", "3"]).answers == ("1", "2", "3")
    with pytest.raises(ArgumentError, match=r"order.*rows"):
        designs.ListExperiment(2, traits=("Yes", "No"))


def test_candidates_of_hashed_words_are_not_swapped():
    rappor = Rappor(2, 0.2, 0.9, 0.5, 8, 2, 1, candidates=YES_NO)
    cohorts = CohortRR(2, 1.0, 4, 3, "label", candidates=YES_NO)
    for protocol in (rappor, RapporBits(rappor), MemoizedRappor(rappor, 2), cohorts):
        values = np.array([0, 1, 1])
        tally = lb.Tally(protocol, protocol.privatize(values, 1))
        assert lb.Collection(["No", "Yes"], tally).categories == ("No", "Yes")
        assert protocol.default_labels == YES_NO
        with pytest.raises(ArgumentError, match=r"order.*candidates"):
            lb.Collection(["Yes", "No"], tally)


def test_attributes_and_traits_are_not_swapped():
    pair = Attributes((designs.warner(0.7), lb.GRR(3, 1.0)))
    labels = [f"{one}/{two}" for one in ("Yes", "No") for two in FRUIT]
    with pytest.raises(ArgumentError, match=r"order.*answers.*warner"):
        lb.Collection(labels, lb.Tally(pair, [[0, 0], [1, 2]]))
    with pytest.raises(ArgumentError, match=r"order.*attributes' labels"):
        lb.Collection(["No/yes", "No/No", "yes/no", "yes/yes"], lb.Tally(Attributes((designs.warner(0.7),) * 2), [[0, 1]]))
    direct = designs.ListExperiment(1).direct
    with pytest.raises(ArgumentError, match=r"order.*answers.*item_count"):
        lb.Collection([f"{t}/{c}" for t in ("YES", "NO") for c in "01"], lb.Tally(direct, [0, 1], [6, 4]))


@pytest.mark.parametrize("kind", [str, int, float])
def test_numbers_are_labels_for_every_protocol_or_refused(kind):
    """A report 1 is the category 1, wherever that stands; it is a position only where no category is called by a number."""
    frame = pd.DataFrame({"r": pd.Series([1, 0, 2]).astype(kind), "n": [50, 30, 20]})
    protocols = [lb.GRR(3, 1.0), designs.direct(3), designs.forced_response(0.7, [1, 1, 1])]
    protocols += [lb.protocols.Channel(np.full((3, 3), 0.2) + 0.4 * np.eye(3))]
    for protocol in protocols:
        for order in (["2", "0", "1"], ["0", "1", "2"], ["2.0", "1.0", "0.0"], ["1", "2", "3"]):
            try:
                tally = lb.read(frame, protocol, report="r", count="n", categories=order)
            except LDPBayesError:
                assert order != ["0", "1", "2"]
                continue
            found = dict(zip([order[y].removesuffix(".0") for y in tally.reports], tally.counts.tolist(), strict=True))
            assert found == {"1": 50, "0": 30, "2": 20}
        tally = lb.read(frame, protocol, report="r", count="n", categories=list("abc"))
        assert tally.counts.tolist() == [30, 50, 20]


def test_truth_values_are_the_labels_true_and_false():
    frame = pd.DataFrame({"r": [True, False], "n": [60, 40]})
    swapped = designs.direct(answers=["true", "false"])
    assert lb.read(frame, swapped, report="r", count="n").counts.tolist() == [60, 40]
    assert lb.read(frame, designs.warner(0.7), report="r", count="n").counts.tolist() == [40, 60]


def test_a_label_of_missing_answers_is_no_category_in_another_case():
    frame = pd.DataFrame({"r": ["no", "No", "yes"]})
    with pytest.raises(ArgumentError, match="missing must"):
        lb.read(frame, designs.warner(0.7), report="r", categories=["no", "yes"], missing="NO")


@each_row("text", ["-1", "-1.0", "01", "3", "1.5", "１x", "", "0.00"])
def test_texts_that_are_no_label_and_no_position_are_refused(text):
    for name in ("grr", "direct, fruit", "subsets", "direct, of no stated answers"):
        protocol, categories, *_ = CASES[name]
        with pytest.raises(DataError, match=r"unknown|members"):
            lb.read(pd.DataFrame({"r": [categories[0], text]}), protocol, report="r", categories=categories)
