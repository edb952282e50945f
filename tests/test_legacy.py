"""Files that versions 0.1.0 and 0.2.0 wrote are read, and say the same numbers; tests/legacy/record.py made them."""

import ast
import gzip
import json
import pathlib
import warnings

import numpy as np
import pytest

import ldpbayes as lb
from ldpbayes.result import saving
from ldpbayes.result.facts import facts_of

FOLDER = pathlib.Path(__file__).parent / "legacy"
MANIFEST = json.loads((FOLDER / "manifest.json").read_text())


def agree(collection, known):
    """Check a collection: what was asked, what was answered, and how likely the maximum makes it."""
    assert list(collection.categories) == known["categories"]
    assert [[tally.name, type(tally.protocol).__name__] for tally in collection.tallies] == known["channels"]
    assert [sorted(tally.counts.tolist()) for tally in collection.tallies] == known["counts"]
    assert [quantity.name for quantity in collection.derived] == known["derived"]
    assert lb.estimators.MLE()(collection).log_likelihood == pytest.approx(known["log_likelihood"], abs=1e-3)


def read_result(path, known, scratch):
    packed = FOLDER / f"{path}.gz"
    (scratch / "result.nc").write_bytes(gzip.decompress(packed.read_bytes()))
    tree = lb.load(scratch / "result.nc")
    summary = tree["summary"].to_dataset()
    at = {"target": "distribution"}
    for name in ("mean", "sd", "lower", "upper"):
        np.testing.assert_allclose(np.ravel(summary[name].sel(at)), known[name], rtol=1e-12, err_msg=name)
    assert summary["category"].values.tolist() == known["category"]
    assert {name: str(facts_of(tree)[name]) for name in ("method", "prior", "n_reports")}.items() <= known.items()
    if "last_draw" not in known:
        return
    draws = tree["posterior"]["distribution"]
    np.testing.assert_allclose(np.ravel(draws.values[-1, -1]), known["last_draw"])
    one = {"cell": draws["cell"].values[0]} if "cell" in draws.dims else {}
    found = lb.answers.category_sum(tree, known["category"][0], **one)  # and it still answers
    assert abs(float(found["mean"]) - known["mean"][0]) < 2 * known["sd"][0]  # by as few as sixteen draws


def read_collection(path, known, scratch):
    found = lb.read(FOLDER / path)
    if "cells" not in known:
        return agree(found, known)
    assert [str(key) for key in found] == list(known["cells"])
    for key in found:
        agree(found[key], known["cells"][str(key)])


def read_summaries(path, known, scratch):
    found = lb.read(FOLDER / path)
    assert {str(key): found[key].n_reports for key in found} == known["n_reports"]
    for key, mean in known["mean"].items():
        fit = lb.fit(found[ast.literal_eval(key)], "flat", draws=0, estimates=False)["summary"].sel(target="distribution")
        assert (np.abs(np.ravel(fit["mean"]) - mean) < 0.1 * np.ravel(fit["sd"])).all()  # the error that it may state


READERS = {".nc": read_result, ".toml": read_collection, ".parquet": read_summaries}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("path", MANIFEST)
def test_files_of_released_versions_are_read(path, tmp_path, monkeypatch):
    monkeypatch.setattr(saving, "_read_elsewhere", lambda path: None)  # a second process, which tests/test_result.py takes
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", lb.errors.LDPBayesWarning
        )  # about the numbers; that the format is old would be an error
        READERS[pathlib.Path(path).suffix](path, MANIFEST[path], tmp_path)


def test_no_file_is_forgotten():
    written = {p.relative_to(FOLDER).as_posix().removesuffix(".gz") for p in FOLDER.glob("0.*/*") if p.suffix != ".csv"}
    assert written == set(MANIFEST) and len(written) >= 30
