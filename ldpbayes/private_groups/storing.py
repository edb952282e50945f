"""Private groups as a tree of arrays, which a file holds, and back."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from ldpbayes.errors import DataError
from ldpbayes.private_groups.checking import ShareCheck
from ldpbayes.private_groups.measure import Atoms, Measure
from ldpbayes.sources.base import foreign
from ldpbayes.sources.keys import as_json, from_json

#: What a file of such a result says that it holds.
HOLDS = "private groups"
#: What made the draws, how, and whom they are about.
METHODS, SAMPLINGS, TARGETS = ("smooth", "rounding", "recipe"), ("weighted", "annealed"), ("distribution", "frequency")
#: Attributes that are texts, lists of texts and numbers.
_TEXTS = ("value", "target", "method", "reason", "sampling", "problem", "left_out", "who_decides")
_NUMBERS = ("ci_prob", "k_hat", "effective_draws")
_WHOLE = ("random_seed", "n_records")


def to_tree(found: Any) -> xr.DataTree:
    """Return the DataTree of private groups: attributes, the check, and the draws of each cell.

    Parameters
    ----------
    found : PrivateGroups
    """
    attrs: dict[str, Any] = {name: getattr(found, name) for name in (*_TEXTS, *_NUMBERS, *_WHOLE)}
    attrs |= {name: json.dumps(list(getattr(found, name))) for name in _LISTS}
    attrs["levels"] = json.dumps(None if found.levels is None else list(found.levels))
    attrs["cells"] = json.dumps([[_written(part) for part in key] for key in found.cells])
    attrs |= {"design": found.design, "holds": HOLDS, "identified": int(found.check.identified)}
    check: dict[str, Any] = {name: (("cell", "group"), getattr(found.check, name)) for name in ("discrepancy", "allowed")}
    if found.discretization is not None:
        check["discretization"] = (("cell", "quantity", "group"), found.discretization)
    groups = {"/": xr.Dataset(attrs=attrs), "/check": xr.Dataset(check)}
    for c, measure in enumerate(found.measures):
        atoms = measure.atoms
        cell: dict[str, Any] = {
            "mass": (("draw", "bin", "slot", "group"), measure.mass),
            "atom": (("place",), atoms.value),
            "atom_bin": (("place",), atoms.bin),
            "atom_prefix": (("place", "slot"), atoms.prefix),
            "bin_mean": (("bin", "slot"), atoms.mean),
        }
        if found.recipe is not None:
            cell |= {f"recipe_{name}": (("group",), found.recipe[c][name]) for name in ("share", "mean")}
            cell["recipe_quantile"] = (("level", "group"), np.reshape(found.recipe[c]["quantile"], (-1, len(found.groups))))
        about = {"whole": int(measure.whole), "lone": json.dumps(atoms.lone), "record": measure.record}
        groups[f"/cell_{c}"] = xr.Dataset(cell, attrs=about)
    return xr.DataTree.from_dict(groups)


@foreign("holds private groups that are incomplete")
def fields_of(tree: xr.DataTree) -> dict[str, Any]:
    """Return the fields of the private groups of a DataTree that to_tree made.

    Parameters
    ----------
    tree : DataTree

    Raises
    ------
    DataError
        Where it is no such tree, naming what is missing or wrong.
    """
    attrs = tree.attrs
    fields: dict[str, Any] = {name: _text(attrs[name]) for name in _TEXTS} | {"design": _text(attrs.get("design", ""))}
    fields |= {name: float(attrs[name]) for name in _NUMBERS}
    fields |= {name: int(attrs[name]) for name in _WHOLE}
    fields |= {name: tuple(map(read, json.loads(attrs[name]))) for name, read in _LISTS.items()}
    groups, by, quantiles, n_bins = (fields[name] for name in ("groups", "by", "quantiles", "n_bins"))
    for name, allowed in (("target", TARGETS), ("method", METHODS), ("sampling", SAMPLINGS)):
        _need(fields[name] in allowed, f"{name} must be one of {', '.join(allowed)}")
    _need(len(groups) > 1 and len(set(groups)) == len(groups), "groups must be different labels")
    _need(len(set(by)) == len(by), "covariates must have different names")
    levels = json.loads(attrs["levels"])
    levels = None if levels is None else tuple(map(_text, levels))
    _need(levels is None or len(set(levels)) == len(levels) > 1, "levels must be different labels")
    for prob in (*quantiles, fields["ci_prob"]):
        _need(0 < prob < 1, "probabilities must be between 0 and 1")
    _need(fields["n_records"] > 0 and fields["random_seed"] >= 0, "the number of records and the seed must not be negative")
    cells = tuple(tuple(map(from_json, key)) for key in json.loads(attrs["cells"]))
    _need(all(part == part for key in cells for part in key), "keys must not be nan")
    _need(
        cells and len(set(cells)) == len(cells) and all(len(key) == len(by) for key in cells), "cells must be different keys"
    )
    _need(len(fields["hanging"]) == len(n_bins) == len(cells) <= len(tree.children), "every cell must have its draws")
    nodes = [tree[f"cell_{c}"] for c in range(len(cells))]
    measures = tuple(_measure(node, size, len(groups)) for node, size in zip(nodes, n_bins, strict=True))
    _need(len({len(measure.mass) for measure in measures}) == 1, "all cells must have the same number of draws")
    shape = (len(cells), len(groups))
    checked = tree["check"]
    arrays = [_array(checked, name, shape) for name in ("discrepancy", "allowed")]
    _need(all(np.isfinite(array).all() for array in arrays) and (arrays[1] > 0).all(), "the check must hold finite numbers")
    moved = None
    if "discretization" in checked:
        moved = _array(checked, "discretization", (len(cells), 2 + len(quantiles), len(groups)))
    recipe = None
    if "recipe_share" in nodes[0]:
        wanted = {"share": shape[1:], "mean": shape[1:], "quantile": (len(quantiles), len(groups))}
        recipe = tuple({name: _array(node, f"recipe_{name}", size) for name, size in wanted.items()} for node in nodes)
    check = ShareCheck(arrays[0], arrays[1], bool(attrs["identified"]))
    return fields | dict(measures=measures, cells=cells, levels=levels, check=check, discretization=moved, recipe=recipe)


def _measure(node, size, k):
    """Return the measure of one cell."""
    mass, value = node["mass"].values, node["atom"].values
    _need(mass.ndim == 4 and mass.shape[1] == size and mass.shape[3] == k and mass.size, "draws have the wrong shape")
    _need(mass.dtype.kind == "f" and np.isfinite(mass).all() and mass.min() >= 0, "draws must be masses of at least 0")
    slots = mass.shape[2]
    places = (len(value),)
    bins = _array(node, "atom_bin", places)
    prefix, mean = _array(node, "atom_prefix", (*places, slots)), _array(node, "bin_mean", (size, slots))
    _need(bins.dtype.kind in "iu" and value.dtype.kind in "fiu" and len(value) > 0, "values and their bins must be numbers")
    _need(np.isfinite(value).all() and np.isfinite(mean).all(), "values must be finite")
    _need((np.diff(value) > 0).all(), "values must increase")
    _need(bins.min() >= 0 and bins.max() < size and (np.diff(bins.astype(np.int64)) >= 0).all(), "bins must be in order")
    _need((prefix >= 0).all() and (prefix <= 1).all(), "shares of a bin must be between 0 and 1")
    lone = tuple(map(bool, json.loads(node.attrs.get("lone", "[false, false]"))))  # files of the first candidate lack it
    _need(len(lone) == 2, "two ends must be lone or not")
    atoms = Atoms(value, bins.astype(np.int64), prefix, mean, lone)
    record = float(node.attrs.get("record", 0.0))  # likewise
    _need(0 <= record < np.inf, "the mass of a record must not be negative")
    return Measure(atoms, mass, bool(node.attrs["whole"]), record)


def _array(node, name, shape):
    """Return a variable of the right shape."""
    array = node[name].values
    _need(array.shape == shape, f"{name} has the wrong shape")
    _need(array.dtype.kind in "fiu", f"{name} must hold numbers")
    return array


def _text(value):
    """Return a text."""
    _need(isinstance(value, str), "labels must be texts")
    return str(value)


#: Lists, by what reads an entry of them.
_LISTS: dict[str, Callable[[Any], Any]] = {"groups": _text, "by": _text, "quantiles": float, "n_bins": int, "hanging": int}


def _written(part):
    """Return an entry of a key as JSON holds it; of other kinds its text."""
    part = as_json(part.item() if isinstance(part, np.generic) else part)
    return part if isinstance(part, (bool, int, float, str, dict)) else str(part)


def _need(holds, said):
    """Raise a DataError unless something holds."""
    if not holds:
        raise DataError(f"holds private groups that are damaged: {said}")
