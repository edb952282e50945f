"""Numbers of regressions that double precision cannot carry end in one sentence, or in the right answer."""

import numpy as np
import pandas as pd
import pytest
from commands import run
from tabulated import each_row

import ldpbayes as lb
from ldpbayes.protocols.designs import warner


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(4)
    n = 500
    frame = pd.DataFrame({"x": rng.normal(size=n).round(1), "age": rng.integers(20, 60, n), "g": rng.choice(list("uv"), n)})
    truth = (rng.random(n) < 1 / (1 + np.exp(-frame["x"]))).astype(int)
    return frame.assign(report=np.array(["no", "yes"])[warner(0.85).privatize(truth, rng)])


def asked(formula, frame, **more):
    return lb.regress(frame, formula, warner(0.85), **{"report": "report", "categories": ["no", "yes"], **more})


ODD = {
    "huge": lambda x: x * 1e300,
    "least": lambda x: x * 1e-200,
    "digits": lambda x: [10**400, *x.iloc[1:]],
    "minus": lambda x: [-(10**400), *[1] * (len(x) - 1)],
    "infinite": lambda x: x.where(x.index > 0, np.inf),
    "complex": lambda x: x + 1j,
}
DIGITS = {"digits", "minus"}  # whole numbers of pandas 2.2 end at those of a float, unless they are objects
REFUSED = [
    *(name for name in ODD),
    "huge + g",
    "huge:g",
    "(huge | g)",
    "scale(huge)",
    "I(huge * huge)",
    "I(huge ** 2)",
    "huge:I(huge * x)",
    "exp(I(100 * age))",
    "log(x)",
    "sqrt(x)",
    "I(1 / (age - age))",
    "I(0 / (age - age))",
    "log(I(age - age))",
    "I((x - 5) ** 0.5)",
    "C(log(x))",
    "(1 | log(x))",
    "scale(I(age * 0))",
]


@each_row("right", REFUSED)
@each_row("method", ["mle", "auto"])
def test_one_sentence(right, method, frame):
    columns = {name: pd.Series(make(frame["x"]), dtype=object if name in DIGITS else None) for name, make in ODD.items()}
    table = frame.assign(**columns)
    with pytest.raises(lb.LDPBayesError) as found:
        asked(f"y ~ {right}", table, method=method)
    assert "\n" not in str(found.value) and "numpy" not in str(found.value)


def test_the_command_line(frame, tmp_path, capsys):
    path = tmp_path / "table.csv"
    frame.assign(huge=frame["x"] * 1e300, digits=["9" * 400, *["1"] * (len(frame) - 1)]).to_csv(path, index=False)
    options = ("--protocol", "warner", "-p", "p=0.85", "--categories", "no,yes", "--report", "report", "--method", "mle")
    for right in ("huge", "I(x / (age - age))"):
        status, printed, problems = run(capsys, "regress", path, f"y ~ {right}", *options)
        assert status == 2 and not printed and "Traceback" not in problems
    status, _, problems = run(capsys, "regress", path, "y ~ digits", *options)  # pandas reads such a column as texts
    assert status in (0, 2) and "Traceback" not in problems


def test_polynomials_have_no_unit(frame):
    """Powers of 1e300 leave double precision; polynomials that are orthonormal over the rows do not."""
    plain = asked("y ~ poly(x, 3)", frame, method="mle")
    huge = asked("y ~ poly(huge, 3)", frame.assign(huge=frame["x"] * 1e300), method="mle")
    np.testing.assert_allclose(huge.coefficients, plain.coefficients, rtol=1e-9)
    np.testing.assert_allclose(huge.standard_errors, plain.standard_errors, rtol=1e-9)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("unit", [1e-60, 1e-15, 1e15, 1e60])
def test_the_unit_of_a_column_changes_nothing_but_the_coefficient(unit, frame):
    """A column of sd 1e-15 was taken for a constant: its prior then said that it explains nothing."""
    plain = asked("y ~ x", frame, random_seed=1, draws=500)
    other = asked("y ~ x", frame.assign(x=frame["x"] * unit), random_seed=1, draws=500)
    first, second = (tree["posterior"]["coefficients"].sel(term="x", category="yes") for tree in (plain, other))
    assert float(second.mean()) * unit == pytest.approx(float(first.mean()), rel=1e-6)
    assert float(second.std()) * unit == pytest.approx(float(first.std()), rel=1e-6)


def test_whole_numbers_beyond_int64_are_not_wrapped(frame):
    """2^63 + k was read as a large negative number."""
    large = np.uint64(2**63) + (frame["age"].to_numpy().astype(np.uint64) * np.uint64(2**50))
    found = asked("y ~ big", frame.assign(big=large), method="mle")
    plain = asked("y ~ age", frame, method="mle")
    assert float(found.coefficients[1, 1]) * 2.0**50 == pytest.approx(float(plain.coefficients[1, 1]), rel=1e-4)
