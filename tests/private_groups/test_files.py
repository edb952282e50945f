"""Private groups are saved and loaded, with page, table and figures as before. lb.show takes them."""

import datetime
import functools
import hashlib
import io

import numpy as np
import pyarrow
import pytest
import xarray as xr

import ldpbayes as lb
from ldpbayes.private_groups.page import long_rows
from ldpbayes.result.saving import SEAL

pytestmark = [pytest.mark.filterwarnings("ignore::ldpbayes.errors.DiagnosticWarning"), pytest.mark.long]


def people(n=600, **columns):
    rng = np.random.default_rng(3)
    x = (rng.random(n) < 0.3).astype(int)
    frame = {"z": rng.lognormal(0.6 * x, 0.5), "report": lb.GRR(2, epsilon=2.0).privatize(x, rng)}
    return pyarrow.table(frame | {name: make(x, rng) for name, make in columns.items()})


def sites(x, rng):
    return rng.choice(["north", "south"], len(x))


def days(x, rng):
    return np.where(rng.random(len(x)) < 0.5, np.datetime64("2024-02-29"), np.datetime64("2024-03-01"))


ASKED = {
    "smooth": ({}, {"method": "smooth"}),
    "recipe": ({}, {"method": "recipe"}),
    "frequency": ({}, {"target": "frequency", "method": "smooth"}),
    "cells": ({"site": sites, "day": days}, {"by": ["site", "day"], "method": "smooth", "quantiles": ()}),
    "category": ({"speed": lambda x, rng: np.where(rng.random(len(x)) < 0.3 + 0.4 * x, "fast", "slow")}, {"value": "speed"}),
}


@functools.cache
def found_of(name):
    columns, ask = ASKED[name]
    ask = {"value": "z", "protocol": lb.GRR(2, epsilon=2.0), "draws": 25, "random_seed": 1} | ask
    return lb.by_private_group(people(**columns), **ask)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ASKED)
def test_a_file_gives_the_same_page_tables_and_numbers(name, tmp_path):
    found = found_of(name)
    path = tmp_path / "groups.nc"
    lb.save(found, path)
    again = lb.load(path)
    assert type(again) is lb.private_groups.PrivateGroups and again.cells == found.cells and repr(again) == repr(found)
    xr.testing.assert_identical(again.summary(), found.summary())
    np.testing.assert_equal(long_rows(again), long_rows(found))
    for format in ("json", "markdown") if name == "smooth" else ("json",):
        assert lb.show(again).render(format) == lb.show(found).render(format)
    if found.levels is None:
        np.testing.assert_array_equal(again.draws("cdf", [0.5, 1.5]), found.draws("cdf", [0.5, 1.5]))
        assert str(again.discretization_sd) == str(found.discretization_sd)
    with path.open("rb") as file:
        assert SEAL in file.read()
    lb.save(again, path)
    xr.testing.assert_identical(lb.load(path).summary(), found.summary())


def test_figures_are_the_same(tmp_path):
    found = found_of("smooth")
    lb.save(found, tmp_path / "groups.nc")
    drawn = [lb.plots.plot_private_functions(one) for one in (found, lb.load(tmp_path / "groups.nc"))]
    lines = [[line.get_xydata() for line in figure.axes[0].lines] for figure in drawn]
    np.testing.assert_array_equal(*lines)


def test_keys_keep_their_kind(tmp_path):
    people_of_days, ask = people(site=sites, day=days), {"by": ["site", "day"], "method": "recipe", "draws": 25}
    found = lb.by_private_group(people_of_days, "z", protocol=lb.GRR(2, epsilon=2.0), random_seed=1, **ask)
    lb.save(found, tmp_path / "groups.nc")
    assert lb.load(tmp_path / "groups.nc").cells[0] == ("north", datetime.date(2024, 2, 29)) == found.cells[0]


def test_show_makes_the_page():
    found = found_of("smooth")
    page = lb.show(found, unit="ms")
    assert page.title == "Z by private group" and "(ms)" in page.render("markdown")


def spoiled(tree, how):
    """Return a tree of private groups that is damaged."""
    data, attrs = tree["cell_0"].dataset, tree.attrs
    if how == "no draws":
        del tree["cell_0"]
    elif how == "negative":
        tree["cell_0"] = xr.DataTree(data.assign(mass=-data["mass"]))
    elif how == "nan":
        tree["cell_0"] = xr.DataTree(data.assign(mass=data["mass"] * np.nan))
    elif how == "bins":
        tree["cell_0"] = xr.DataTree(data.assign(atom_bin=data["atom_bin"] + 10**6))
    elif how == "unordered":
        tree["cell_0"] = xr.DataTree(data.assign(atom=-data["atom"]))
    elif how == "check":
        tree["check"] = xr.DataTree(tree["check"].dataset.isel(group=[0]))
    else:
        attrs[how[0]] = how[1]
    return tree


DAMAGE = ["no draws", "negative", "nan", "bins", "unordered", "check", ("method", "magic"), ("groups", "[1, 2]")]
DAMAGE += [
    ("groups", '["a", "a"]'),
    ("cells", '[[["exec", "1"]]]'),
    ("cells", "[" * 3000),
    ("quantiles", "[7]"),
    ("reason", 3),
]
DAMAGE += [("n_bins", "[1e300]"), ("n_records", -1), ("levels", '["only"]'), ("k_hat", "wide")]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("how", DAMAGE, ids=lambda how: str(how)[:40])
def test_files_of_strangers_are_refused_in_one_sentence(how, tmp_path):
    tree = spoiled(found_of("smooth").to_tree(), how)
    path, finished = tmp_path / "groups.nc", io.BytesIO()
    tree.to_netcdf(finished, engine="h5netcdf")
    data = finished.getvalue()
    path.write_bytes(data + SEAL + hashlib.sha256(data).digest())  # anybody can make the checksum
    with pytest.raises(lb.errors.DataError, match="private groups") as refused:
        lb.load(path)
    assert "\n" not in str(refused.value) and "groups.nc" in str(refused.value)


def test_a_file_with_a_changed_byte_is_refused(tmp_path):
    path = tmp_path / "groups.nc"
    lb.save(found_of("recipe"), path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(lb.errors.DataError, match="checksum"):
        lb.load(path)
