"""Facts of a result: a few attrs, all others in its group ``details``, and one accessor for both layouts."""

import gzip
import pathlib

import numpy as np
import pytest

import ldpbayes as lb
from ldpbayes.protocols import designs
from ldpbayes.result import facts_of, saving
from ldpbayes.result.facts import DETAILS, FIRST, state

LEGACY = pathlib.Path(__file__).parent / "legacy"


def survey_with_deniers():
    tallies = [
        lb.Tally(designs.warner(0.7), [0, 1], [300, 200], name="device"),
        lb.Tally(designs.direct(2), [0, 1], [400, 60], name="direct"),
    ]
    return lb.Collection(["no", "yes"], tallies).with_deniers(of="yes", say="no", channel="direct")


def regression():
    rng = np.random.default_rng(1)
    frame = {"age": rng.normal(40, 10, 80).tolist(), "said": rng.choice(["no", "yes"], 80).tolist()}
    pandas = pytest.importorskip("pandas")
    return lb.regress(pandas.DataFrame(frame), "said ~ age", designs.warner(0.7), draws=250, random_seed=1)


KINDS = {
    "two categories": lambda: lb.fit(lb.load_example("nigeria"), random_seed=1),
    "cells": lambda: lb.fit(lb.load_example("nigeria_cells"), draws=100, random_seed=1),
    "without draws": lambda: lb.fit(lb.load_example("nigeria"), draws=0, random_seed=1),
    "weights": lambda: lb.fit(lb.load_example("survey"), draws=100, random_seed=1),
    "deniers": lambda: lb.fit(survey_with_deniers(), method="weighted", draws=250, random_seed=1),
    "regression": regression,
}


@pytest.mark.filterwarnings("ignore::ldpbayes.errors.DiagnosticWarning")  # the reports of the regression say little
@pytest.mark.parametrize("kind", KINDS)
def test_a_result_has_at_most_twenty_attrs(kind):
    tree = KINDS[kind]()
    assert len(tree.attrs) <= 20 and set(tree.attrs) <= FIRST
    assert {"prior", "method", "reason", "converged", "outcome", "settings", "random_seed"} <= set(tree.attrs)
    assert not set(tree[DETAILS].attrs) & FIRST
    assert facts_of(tree) == {**tree[DETAILS].attrs, **tree.attrs}


def test_a_file_keeps_both_and_a_cell_takes_its_own(tmp_path):
    tree = lb.fit(lb.load_example("nigeria_cells"), draws=50, random_seed=1)
    lb.save(tree, tmp_path / "cells.nc")
    again = lb.load(tmp_path / "cells.nc")
    assert again[DETAILS].attrs == pytest.approx(tree[DETAILS].attrs, nan_ok=True) and again.attrs == tree.attrs
    one, label = lb.result.select(again, 0), str(again["posterior"]["cell"].values[0])
    assert one.attrs["collection"] == label and facts_of(one)["worth"] == again["cells"]["worth"].values[0]
    assert "worth" not in one.attrs


def test_arrays_among_facts_are_variables_and_the_latest_value_counts():
    tree = lb.fit(lb.load_example("nigeria"), draws=50, random_seed=1, estimates=False)
    state(tree, {"steps": np.arange(3), "worth": "much", "title": "Another"})
    state(tree, {"worth": "little"})
    assert tree[DETAILS]["steps"].values.tolist() == [0, 1, 2] == facts_of(tree)["steps"].tolist()
    assert facts_of(tree)["worth"] == "little" and tree.attrs["title"] == "Another"


@pytest.mark.parametrize("version, name", [("0.1.0", "exact"), ("0.2.0", "noncompliance")])
def test_files_with_all_facts_in_the_attrs_are_read_by_the_same_accessor(version, name, tmp_path, monkeypatch):
    monkeypatch.setattr(saving, "_read_elsewhere", lambda path: None)  # which tests/test_result.py has, and takes time
    path = tmp_path / "old.nc"
    path.write_bytes(gzip.decompress((LEGACY / version / f"{name}.nc.gz").read_bytes()))
    tree = lb.load(path)
    assert DETAILS not in tree.children and facts_of(tree) == tree.attrs
    assert facts_of(tree)["sampling"] == tree.attrs["sampling"] and lb.show(tree).summary
    state(tree, {"sampling": "mcmc"})  # what stands in the attrs already stays there
    assert tree.attrs["sampling"] == "mcmc" and DETAILS not in tree.children
