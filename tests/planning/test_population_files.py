"""Files of populations with wrong types, and arguments that belong to other populations, are refused in one sentence."""

import numpy as np
import pytest
from commands import run
from tabulated import each_row

import ldpbayes as lb

CSV = "value,count\nold,30\nyoung,20\n"


@each_row("line", ["file = 1", "file = []", "file = true", "file = {}", 'file = ""', 'file = "a\\u0000"'])
@each_row("door", ["function", "command"])
def test_the_file_of_a_population_is_a_name(line, door, tmp_path, capsys):
    (tmp_path / "people.csv").write_text(CSV)
    path = tmp_path / "people.toml"
    path.write_text(line + "\n")
    if door == "function":
        with pytest.raises(lb.errors.DataError, match=r"people\.toml|cannot.*read"):
            lb.theory.population(path)
    else:
        status, _, err = run(capsys, "simulate", str(tmp_path / "out.toml"), "--truth", str(path), "-p", "epsilon=1")
        assert status == 2 and "Traceback" not in err and err.strip()


@each_row("key", ["id", "title", "citation", "licence"])
@each_row("value", ["1", "[]", "true", "{}", "2020-01-01", '"a\\u0000"'])
def test_texts_of_a_population_are_texts(key, value, tmp_path):
    (tmp_path / "people.csv").write_text(CSV)
    (tmp_path / "people.toml").write_text(f'file = "people.csv"\n{key} = {value}\n')
    with pytest.raises(lb.errors.DataError, match=rf"people\.toml: {key}"):
        lb.theory.population(tmp_path / "people.toml")


def test_an_empty_population_is_no_file(tmp_path, capsys):
    status, _, err = run(capsys, "simulate", str(tmp_path / "out.toml"), "--truth", "", "-p", "epsilon=1")
    assert status == 2 and "empty text" in " ".join(err.split())
    assert not list(tmp_path.iterdir())


@each_row(
    "source, given, sentence",
    [
        ("zipf", {"mean": 2.0}, "mean must.*left"),
        ("zipf", {"alpha": 2.0}, "alpha must.*left"),
        ("geometric", {"exponent": 1.0}, "exponent must.*left"),
        ("dirichlet", {"mean": object()}, "mean must.*left"),
        ("people.csv", {"exponent": 1.0}, "exponent must.*left"),
    ],
)
def test_what_belongs_to_other_populations_is_refused(source, given, sentence):
    sized = {} if source.endswith("csv") else {"n_categories": 3}
    with pytest.raises(lb.errors.ArgumentError, match=sentence):
        lb.theory.population(source, **sized, **given)
    with pytest.raises(lb.errors.ArgumentError, match="random_seed must"):
        lb.theory.population("zipf", 3, random_seed="x")


@pytest.mark.parametrize(
    ("source", "given"),
    [
        ("zipf", {"exponent": 1e308}),
        ("geometric", {"mean": 1e-150}),
        ("geometric", {"mean": 1e150}),
        ("dirichlet", {"alpha": 1e-150}),
    ],
)
def test_extremes_are_distributions(source, given):
    p = lb.theory.population(source, 5, random_seed=1, **given).distribution
    assert np.isfinite(p).all() and p.sum() == pytest.approx(1) and (p >= 0).all()


def test_draws_of_small_concentrations_have_the_law_of_large_ones():
    """The draw in logarithms, which stands in below α = 0.1, has the variance (1 − 1/a)/(a (aα + 1)) of the other one."""
    a, alpha = 4, 0.09
    drawn = np.stack(
        [lb.theory.population("dirichlet", a, alpha=alpha, random_seed=seed).distribution for seed in range(3000)]
    )
    expected = (1 - 1 / a) / a / (a * alpha + 1)
    assert drawn.mean(axis=0) == pytest.approx(np.full(a, 1 / a), abs=5 * np.sqrt(expected / 3000))
    assert drawn.var(axis=0) == pytest.approx(np.full(a, expected), rel=0.1)
