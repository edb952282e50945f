"""Formulas are a closed language. What a formula or a saved result says is never run, whoever wrote it."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from commands import run

import ldpbayes as lb
from ldpbayes.protocols.designs import warner
from ldpbayes.regression.design import Design
from ldpbayes.regression.formula import Formula
from ldpbayes.result.facts import facts_of

MAKE = "import os; os.mkdir('CANARY')"
#: Right sides that would run, read or write something if anything evaluated them as Python.
HOSTILE = [
    f'x + json.codecs.builtins.exec("{MAKE}")',
    f'x + np.core.numeric.builtins.exec("{MAKE}")',
    f'exec("{MAKE}")',
    f'eval("{MAKE}")',
    '__import__("os").mkdir("CANARY")',
    "os.mkdir('CANARY')",
    "x + os.system('touch CANARY')",
    "np.savetxt('CANARY', x)",
    "np.save('CANARY', x)",
    "np.load('CANARY.npy', allow_pickle=True)",
    "np.genfromtxt('data.csv')",
    "np.fromfile('data.csv')",
    "np.memmap('CANARY', mode='w+', shape=9)",
    "np.testing.rundocs('CANARY')",
    "pd.read_pickle('CANARY')",
    "x.to_csv('CANARY')",
    "x.to_pickle('CANARY')",
    "x.__class__.__base__.__subclasses__()",
    "x.values.tofile('CANARY')",
    "I(x.tofile('CANARY'))",
    "C(x.to_csv('CANARY'))",
    "scale(open('CANARY', 'w'))",
    "open('CANARY', 'w')",
    "print('CANARY')",
    "input('CANARY')",
    "breakpoint()",
    "exit()",
    "getattr(x, 'to_csv')('CANARY')",
    "globals()",
    "locals()['os']",
    "vars()",
    "compile('1', 'CANARY', 'exec')",
    "(lambda: os.mkdir('CANARY'))()",
    "I((lambda: os.mkdir('CANARY'))())",
    "I([os.mkdir('CANARY') for i in x])",
    "log([os.mkdir('CANARY')])",
    "bs(x, df=os.mkdir('CANARY'))",
    "bs(x, knots=[os.mkdir('CANARY')])",
    "bs(x, knots=c(exec('CANARY')))",
    "poly(x, degree=exec('CANARY'))",
    "T(g, ref=print('CANARY'))",
    "C(g, contrast=exec)",
    "C(g, os.mkdir)",
    "C(g, levels=os.listdir('.'))",
    "binary(g, success=print('CANARY'))",
    "`os.mkdir('CANARY')`",
    "`__import__('os').mkdir('CANARY')`",
    "`x` + `exec`('CANARY')",
    "x[os.mkdir('CANARY')]",
    "x[0]",
    "x if os.mkdir('CANARY') else g",
    "f\"{os.mkdir('CANARY')}\"",
    "x; os.mkdir('CANARY')",
    "(y := os.mkdir('CANARY'))",
    "x @ os.mkdir('CANARY')",
    "{os.mkdir('CANARY')}",
    "(1 | os.mkdir('CANARY'))",
    "(exec('CANARY') | g)",
    "hostile(x)",
    "Model(x)",
    "np.frompyfunc(print, 1, 1)(x)",
    "np.log.at(x, 'CANARY')",
    "np.vectorize(print)(x)",
    "x\nimport os\nos.mkdir('CANARY')",
    "offset(exec('CANARY'))",
    "prop(x, exec('CANARY'))",
    "hsgp(x, m=exec('CANARY'))",
    "I('CANARY')",
    "sys.modules['os'].mkdir('CANARY')",
    "numpy.log(x)",
]
#: Formulas that ask for too much; each must be refused, or answered, at once.
BOMBS = [
    "poly(x, 1000000000)",
    "poly(x, 10**10)",
    "bs(x, df=1000000000)",
    "bs(x, df=5, degree=999999)",
    "x**999999999",
    "(x + g + h + i + j + k + l + m)**6 + (n + o + p + q + r + s + t + u)**6",
    "a:b:c:d:e:f:g:h:i:j:k:l:m:n:o:p:q:r:s:t:u:v:w:x",
    "(" * 5000 + "x" + ")" * 5000,
    "I(" + "(" * 5000 + "x" + ")" * 5000 + ")",
    "-" * 9000 + "x",
    "I(" + "-" * 9000 + "x)",
    "I(" + "x+" * 3000 + "x)",
    "I(" + "x**" * 3000 + "x)",
    "+".join(f"x{i}" for i in range(3000)),
    "*".join(f"x{i}" for i in range(3000)),
    "/".join(f"x{i}" for i in range(3000)),
    "log(" * 900 + "x" + ")" * 900,
    "I(x + 10**10**10)",
    "I(x**10**10**10)",
    "I(x + " + "9" * 400 + ")",
    "I(x + 1e999)",
    "`" + "x" * 30000 + "`",
    "bs(x, knots=" + "[" * 900 + "1" + "]" * 900 + ")",
    "C(number):C(number):x",
    "C(number)*C(other)",
    "x +",
    "`x",
    "x sex",
    "T(g, 'u)",
]

#: Runs in a process of its own, since a hook cannot be taken away: what happens while formulas and files are read.
WORKER = r"""
import json, sys, warnings
import numpy as np, pandas as pd
import ldpbayes as lb
from ldpbayes.protocols.designs import warner

warnings.simplefilter("ignore")
formulas, designs = json.load(open("asked.json"))
rng = np.random.default_rng(0)
frame = pd.read_csv("data.csv")
frame["os"], frame["exec"], frame["np.log"] = frame["x"], frame["x"], frame["x"]
hostile = lambda x: open("CANARY", "w")
given = {"protocol": warner(0.8), "report": "report", "categories": ["no", "yes"], "method": "mle"}
lb.regress(frame, "y ~ x + log(number + 1) + C(g)", **given)   # imports what is imported late
trees = {}
for name, text in designs.items():
    trees[name] = lb.load("good.nc") if not trees else trees[next(iter(trees))].copy()
    trees[name].attrs["regression"] = text
    if name in ("a deep formula", "hostile formula 0"):
        lb.save(trees[name], "edited.nc")
        trees[name] = lb.load("edited.nc")
good = lb.load("good.nc")
lb.predictions(good), lb.comparisons(good, "g"), lb.poststratify(good, frame, count="number")
seen, watching = [], False
BAD = ("exec", "compile", "import", "open", "os.", "subprocess.", "pickle.", "socket.", "shutil.", "tempfile.", "ctypes.")

def watch(event, args):
    if watching and event.startswith(BAD):
        seen.append([event, repr(args)[:200]])

sys.addaudithook(watch)
said = []
for formula in formulas:
    watching = True
    try:
        found = lb.regress(frame, "y ~ " + formula, **given)
        answer = ["accepted", ""]
    except lb.LDPBayesError as err:
        answer = ["refused", str(err)]
    except BaseException as err:
        answer = ["foreign", repr(err)[:300]]
    watching = False
    said.append([formula[:60], *answer])
for name, tree in trees.items():
    def third(tree):
        return lb.poststratify(tree, frame, count="number")

    for ask in (lb.predictions, lambda tree: lb.comparisons(tree, "g"), third):
        watching = True
        try:
            ask(tree)
            answer = ["accepted", ""]
        except lb.LDPBayesError as err:
            answer = ["refused", str(err)]
        except BaseException as err:
            answer = ["foreign", repr(err)[:300]]
        watching = False
        said.append([name, *answer])
json.dump([said, seen], open("answered.json", "w"))
"""


def survey(n=400):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=n).round(1), "g": rng.choice(["u", "v"], n), "number": np.arange(n)})
    return frame.assign(other=np.arange(n)[::-1] // 2, report=np.array(["no", "yes"])[rng.integers(0, 2, n)])


def fitted(formula, frame, **more):
    more = {"report": "report", "categories": ["no", "yes"]} | more
    if more.get("method") != "mle":
        more = {"random_seed": 1, "draws": 50} | more
    return lb.regress(frame, f"y ~ {formula}", warner(0.8), **more)


def of(facts, **changes):
    """Return the description of a design with some entries changed."""
    return json.dumps(facts | changes)


def edited(facts):
    """Return descriptions of a design that an attacker, or an accident, has changed, by name."""
    x, g = sorted(facts["variables"], key=lambda variable: variable["name"], reverse=True)
    formulas = {f"hostile formula {k}": of(facts, formula=f"y ~ {text}") for k, text in enumerate(HOSTILE[:6])}
    return formulas | {
        "no JSON": "os.mkdir('CANARY')",
        "a number": "3",
        "a list": "[]",
        "an empty object": "{}",
        "deep": "[" * 100_000,
        "a formula that is no text": of(facts, formula=[facts["formula"]]),
        "a deep formula": of(facts, formula="y ~ " + "log(" * 300 + "x" + ")" * 300),
        "a formula with a bomb": of(facts, formula="y ~ poly(x, 1000000000)"),
        "a formula of another model": of(facts, formula="y ~ x"),
        "another column": of(facts, formula="y ~ I(x + 1) + g"),
        "exchanged levels": of(facts, formula="y ~ x + T(g, 'v')"),
        "a column that is not there": of(facts, formula="y ~ x + __builtins__"),
        "many columns": of(facts, formula="y ~ " + "*".join(["poly(x, 20)", "g"] * 3)),
        "no variables": of(facts, variables=[]),
        "variables that are none": of(facts, variables=3),
        "an unknown kind": of(facts, variables=[x | {"kind": "exec"}, g]),
        "a kind that is no text": of(facts, variables=[x | {"kind": {}}, g]),
        "texts as numbers": of(facts, variables=[x, g | {"kind": "number"}]),
        "levels of all kinds": of(facts, variables=[x, g | {"kind": "ordered", "levels": ["u", 1, None, {}]}]),
        "levels that are not there": of(facts, variables=[x, g | {"kind": "ordered", "levels": ["w", "v"]}]),
    }


@pytest.fixture(scope="module")
def answered(tmp_path_factory):
    """What formulas and files were answered with, in a process whose every action is watched."""
    folder = tmp_path_factory.mktemp("hostile")
    frame = survey()
    frame.to_csv(folder / "data.csv", index=False)
    tree = fitted("x + g", frame)
    lb.save(tree, folder / "good.nc")
    designs = edited(json.loads(facts_of(tree)["regression"]))
    (folder / "asked.json").write_text(json.dumps([HOSTILE + BOMBS, designs]))
    before = {path.name for path in folder.iterdir()}
    root = str(pathlib.Path(lb.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", WORKER],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": root},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    said, seen = json.loads((folder / "answered.json").read_text())
    return said, seen, {path.name for path in folder.iterdir()} - before, done.stdout + done.stderr, designs


def test_nothing_is_executed_written_or_printed(answered):
    _, seen, made, printed, _ = answered
    assert not seen and made == {"answered.json", "edited.nc"} and "CANARY" not in printed


def test_every_hostile_formula_gets_one_sentence(answered):
    said = answered[0][: len(HOSTILE)]
    assert len(said) >= 60
    assert not [line for line in said if line[1] != "refused"]
    assert all(line[2].count("\n") == 0 for line in said)
    named = [line for line in said if "no functions but abs, binary, bs, C," in line[2]]
    assert len(named) >= 25


def test_every_bomb_is_defused(answered):
    said = answered[0][len(HOSTILE) : len(HOSTILE) + len(BOMBS)]
    assert not [line for line in said if line[1] != "refused"]


def test_every_edited_result_gets_one_sentence(answered):
    said = answered[0][len(HOSTILE) + len(BOMBS) :]
    assert len(answered[4]) >= 20 and len(said) == 3 * len(answered[4])
    assert not [line for line in said if line[1] != "refused"]


def test_the_command_line_refuses_as_well(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    survey().to_csv("data.csv", index=False)
    options = ("--protocol", "warner", "-p", "p=0.8", "--categories", "no,yes", "--report", "report", "--method", "mle")
    for formula in (HOSTILE[0], "np.savetxt('CANARY', x)", "x.to_csv('CANARY')"):
        status, printed, problems = run(capsys, "regress", "data.csv", f"y ~ {formula}", *options)
        assert status == 2 and not printed and "Traceback" not in problems
    assert os.listdir() == ["data.csv"]


def test_names_of_columns_are_only_names():
    """Columns may be called like functions, and hold quotes, brackets and dots: they are looked up in the frame alone."""
    rng, names = np.random.default_rng(2), ["log", "a'b", "f(x)[0]", "Sepal.Length"]
    frame = survey().assign(**{name: rng.integers(1, 5, 400) for name in names})
    plain = fitted("l + a + f + s", frame.rename(columns=dict(zip(names, "lafs", strict=True))), method="mle")
    odd = fitted("log + `a'b` + `f(x)[0]` + Sepal.Length", frame, method="mle")
    np.testing.assert_allclose(odd.coefficients, plain.coefficients, atol=1e-9)
    assert odd.terms == ("Intercept", "log", "a'b", "f(x)[0]", "Sepal.Length")
    twice = fitted("log(log)", frame, method="mle")
    assert twice.terms == ("Intercept", "log(log)")
    with pytest.raises(lb.errors.DataError, match="slash"):
        fitted("`a/b`", frame.assign(**{"a/b": frame["x"]}))


FORMULAS = {
    "x + g": "x + g",
    "0 + g": "0 + g",
    "x - 1": "x - 1",
    "g*h": "g*h",
    "g:h": "g:h",
    "h + g:h": "h + g:h",
    "g*h*k": "g*h*k",
    "(g + h + k)**2": "(g + h + k)^2",
    "x*g*h": "x*g*h",
    "x:g:h": "x:g:h",
    "x + g:x:h": "x + g:x:h",
    "x + x:z:g": "x + x:z:g",
    "g/h": "g/h",
    "(g + h)/k": "(g + h)/k",
    "0 + x:g": "0 + x:g",
    "g*h - g": "g*h - g",
    "C(number)*g": "C(number)*g",
    "C(h, Sum)*g": "C(h, Sum)*g",
    "0 + C(h, Sum)": "0 + S(h)",
    "C(h, Treatment('b'))*x": "T(h, 'b')*x",
    "np.log(z) + np.sqrt(z)": "log(z) + sqrt(z)",
    "I(x**2 - 3*x)": "I(x^2 - 3*x)",
    "I(-x**2)": "I(-x^2)",
    "I((x - 2)/z)": "{(x - 2)/z}",
    "center(x):g + standardize(z)": "center(x):g + scale(z)",
    "bs(x, df=4)": "bs(x, df=4)",
    "bs(x, df=5, degree=2)*g": "bs(x, df=5, degree=2)*g",
    "bs(x, knots=[-0.5, 0.5])": "bs(x, knots=c(-0.5, 0.5))",
    "I(1.0*(x > 0)):g": "{x > 0}:g",
}


@pytest.mark.parametrize("theirs", FORMULAS)
def test_columns_are_those_of_patsy(theirs):
    """The same columns by another program, in whichever order, for the rows of the fit and for new ones."""
    import patsy

    rng = np.random.default_rng(3)
    n = 200
    frame = pd.DataFrame({"x": rng.normal(size=n), "z": rng.uniform(1, 9, n), "number": rng.integers(0, 4, n)})
    frame = frame.assign(g=rng.choice(list("uv"), n), h=rng.choice(list("abc"), n), k=rng.choice(list("pqr"), n))
    expected = patsy.dmatrix(theirs, frame)
    formula = Formula.parse(f"y ~ {FORMULAS[theirs]}")
    design = Design(formula, frame[list(formula.variables)])

    def ordered(columns):
        columns = np.round(np.asarray(columns, dtype=float), 9) + 0.0
        return columns[:, np.lexsort(columns[::-1])]

    np.testing.assert_allclose(ordered(design.columns.common[design.pattern]), ordered(expected), atol=1e-8)
    new = frame.iloc[:17]
    again = Design.restore(design.describe(), {name: design.frame[name].to_numpy() for name in design.frame}, design.rows)
    made = np.asarray(patsy.build_design_matrices([expected.design_info], new)[0])
    np.testing.assert_allclose(ordered(again.new(new[list(formula.variables)]).common), ordered(made), atol=1e-8)


def test_polynomials_are_orthonormal_and_span_the_powers():
    x = np.random.default_rng(1).normal(50, 9, 90)
    design = Design(Formula.parse("y ~ poly(x, 3)"), pd.DataFrame({"x": x}))
    columns = design.columns.common[design.pattern]
    np.testing.assert_allclose(columns[:, 1:].T @ columns[:, 1:], np.eye(3), atol=1e-9)
    assert np.linalg.matrix_rank(np.column_stack([columns, ((x[:, None] - 50) / 9) ** np.arange(4)])) == 4
    raw = Design(Formula.parse("y ~ poly(x, 3, raw=True)"), pd.DataFrame({"x": x}))
    np.testing.assert_allclose(raw.columns.common[raw.pattern][:, 1:], x[:, None] ** [1, 2, 3], rtol=1e-12)


@pytest.mark.sampled(2)
@pytest.mark.filterwarnings("ignore:(The prior decides|Prior and reports disagree) on")
@pytest.mark.filterwarnings("ignore::ldpbayes.errors.DiagnosticWarning")  # of ends, which nothing here looks at
@pytest.mark.parametrize("right", ["scale(x) + poly(number, 2)*g", "bs(x, df=4) + T(g, 'v')"])
def test_a_saved_result_answers_as_the_fresh_one(right, tmp_path):
    frame = survey(120)
    tree = fitted(right, frame)
    expected = lb.predictions(tree, frame.iloc[:5])["mean"]
    lb.save(tree, tmp_path / "one.nc")
    again = lb.load(tmp_path / "one.nc")
    np.testing.assert_array_equal(lb.predictions(again, frame.iloc[:5])["mean"], expected)


def test_effects_of_groups_are_stored_too():
    frame = survey().assign(h=np.arange(400) % 3)
    formula = Formula.parse("y ~ log(number + 1) + (x | g) + (0 + scale(x) | h:g)")
    design = Design(formula, frame[list(formula.variables)])
    again = Design.restore(design.describe(), {name: design.frame[name].to_numpy() for name in design.frame}, design.rows)
    assert [group.name for group in again.columns.groups] == ["1|g", "x|g", "scale(x)|h:g"]
    assert again.columns.groups[2].levels == ("0:u", "0:v", "1:u", "1:v", "2:u", "2:v")
    for one, two in zip(design.columns.groups, again.columns.groups, strict=True):
        np.testing.assert_array_equal(one.matrix(), two.matrix())
    dense = design.columns.groups[2].matrix()[design.pattern]
    scaled = (frame["x"] - frame["x"].mean()) / frame["x"].std(ddof=0)
    place = 2 * frame["h"] + (frame["g"] == "v")
    np.testing.assert_allclose(dense[np.arange(400), place], scaled, atol=1e-12)
    assert np.count_nonzero(dense) <= 400
