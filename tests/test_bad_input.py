"""Malformed collections, tables, frames, options and results: one line each, what is changed and what the sentence says.

Every one must raise an LDPBayesError, or end a command with status 2 and a sentence, and soon. Nothing else may be raised.
"""

import math
import os
import pathlib

import pandas
import polars
import pyarrow
import pytest
from commands import run
from tabulated import each_row

import ldpbayes as lb
from ldpbayes import checks, files, result
from ldpbayes.collections import Collection, Derived, Tally
from ldpbayes.errors import DataError, LDPBayesError
from ldpbayes.protocols import GRR, Channel, compose, designs, kronecker, make_protocol, mixture, product
from ldpbayes.protocols.cohort_rr import CohortRR
from ldpbayes.protocols.hadamard import HadamardResponse
from ldpbayes.protocols.local_hashing import LocalHashing
from ldpbayes.protocols.rappor import Rappor
from ldpbayes.protocols.subset import SubsetSelection
from ldpbayes.protocols.unary import UnaryEncoding
from ldpbayes.simulation import population, simulate
from ldpbayes.sources import read_collection

ROOT = pathlib.Path(__file__).parents[1]
NIGERIA = str(ROOT / "data" / "rr_nigeria.toml")

TOML = """\
id = "small"
title = "A small survey"
categories = ["no", "yes"]

[[channels]]
name = "all"
protocol = "warner"
file = "small.csv"
report = "answer"
count = "count"
n = 100

[channels.parameters]
p = 0.7
"""
CSV = "answer,count\nno,60\nyes,40\n"


def sentence(call):
    """Return the sentence of the LDPBayesError that call must raise: one line, short, nothing that steers a terminal."""
    with pytest.raises(LDPBayesError) as caught:
        call()
    text = str(caught.value)
    assert text and text.isprintable() and len(text) <= 2000, text
    return text


def read(tmp_path, toml=TOML, csv=CSV):
    for name, content in (("small.toml", toml), ("small.csv", csv)):
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_collection(tmp_path / "small.toml")


def test_the_base_is_good(tmp_path):
    assert read(tmp_path).n_reports == 100


# ---- collection files: (old text, new text, words) -------------------------------------------------------------------
COLLECTIONS = [
    ('"yes"', '"no"', "distinct"),
    ('"yes"', '""', "non-empty"),
    ('"yes"', "3", "list of labels"),
    ('["no", "yes"]', '"no, yes"', "list of labels"),
    ('["no", "yes"]', '["no"]', "got 1"),
    ('["no", "yes"]', "[]", "got 0"),
    ('["no", "yes"]', '["no", "yes", "maybe"]', "2 of them, got 3"),
    ('["no", "yes"]', "{no = 1, yes = 2}", "list of labels"),
    ('categories = ["no", "yes"]', "", "list of labels"),
    ('"yes"', '"y\\u0000"', "NUL"),
    ('"A small survey"', '"A\\u0000"', "NUL"),
    ('"A small survey"', "7", "title must be text"),
    ('"A small survey"', "true", "title must be text"),
    ('id = "small"', "id = []", "id must be text"),
    ('id = "small"', 'idd = "small"', "unknown key 'idd'"),
    ("[[channels]]", "[channels]", "at least one [[channels]]"),
    ("[[channels]]", "[[chanels]]", "unknown key 'chanels'"),
    ('name = "all"', 'name = "wave/1"', "must not be empty, dots, or hold '/'"),
    ('name = "all"', 'name = ""', "must not be empty"),
    ('name = "all"', 'name = ".."', "must not be empty"),
    ('name = "all"', 'name = "a\\u0000"', "NUL"),
    ('name = "all"', "name = 3", "name must be text"),
    ('"warner"', '"warnr"', "protocol must be one of"),
    ('"warner"', "3", "needs 'protocol'"),
    ('protocol = "warner"', "", "needs 'protocol'"),
    ('"small.csv"', '"nowhere.csv"', "No such file"),
    ('"small.csv"', '"a\\u0000b"', "NUL"),
    ('"small.csv"', '"/dev/zero"', "not a regular file"),
    ('"small.csv"', '""', "needs 'file'"),
    ('"small.csv"', "1", "needs 'file'"),
    ('"small.csv"', '"' + "x" * 5000 + '"', "File name too long"),
    ('report = "answer"', 'report = "reply"', "no column 'reply'"),
    ('report = "answer"', 'report = ["answer", "count"]', "must name 1 column"),
    ('report = "answer"', "report = 3", "must name 1 column"),
    ('report = "answer"', "report = [3]", "must name 1 column"),
    ('report = "answer"', 'report = "count"', "unknown report '60'"),
    ('count = "count"', 'count = "times"', "no column 'times'"),
    ('count = "count"', 'count = "answer"', "count must be a whole number, got 'no'"),
    ('count = "count"', "count = 1", "count must be text"),
    ('count = "count"', 'count = ""', "count must name a column"),
    ("n = 100", "n = 99", "add up to 100, but n says 99"),
    ("n = 100", "n = 100.0", "n must be a whole number"),
    ("n = 100", "n = true", "n must be a whole number"),
    ("n = 100", "n = " + "9" * 5000, "thousands of digits"),
    ("n = 100", "where = 3", "where must be a table"),
    ("n = 100", "where = {group = 1}", "no column 'group'"),
    ("n = 100", 'where = {answer = "maybe"}', "has no rows"),
    ("n = 100", "where = {answer = {a = 1}}", "where"),
    ("p = 0.7", "p = 0.5", "different from 0.5"),
    ("p = 0.7", "p = 1.5", "probability"),
    ("p = 0.7", "p = nan", "probability"),
    ("p = 0.7", "p = inf", "probability"),
    ("p = 0.7", "p = true", "probability"),
    ("p = 0.7", 'p = "0.7"', "probability"),
    ("p = 0.7", 'p = "1/0"', "probability"),
    ("p = 0.7", "p = [0.7]", "probability"),
    ("p = 0.7", "p = " + "9" * 400, "probability"),
    ("p = 0.7", "q = 0.7", "no parameter 'q'"),
    ("p = 0.7", "p = 0.7\nq = 0.7", "no parameter 'q'"),
    ("p = 0.7", "", "needs the parameter 'p'"),
    ("p = 0.7", "p = 0.7\np = 0.7", "not valid TOML"),
    ("p = 0.7", "p 0.7", "not valid TOML"),
    ("p = 0.7", 'p = 0.7\nanswers = "no"', "answers must be a list of labels"),
    ("p = 0.7", 'p = 0.7\nanswers = ["no", "no"]', "2 distinct labels"),
    ("p = 0.7", 'p = 0.7\nanswers = ["no", "yes", "x"]', "2 distinct labels"),
    ("p = 0.7", "p = 0.7\nanswers = [[1], [2]]", "answers must be a list of labels"),
    ("p = 0.7", "p = 0.7\nanswers = 3", "answers must be a list of labels"),
    ("p = 0.7", "p = 0.7\n[derived]\nx = 3", "derived"),
    ("p = 0.7", "p = 0.7\n[derived.x]", "derived"),
    ("p = 0.7", 'p = 0.7\n[derived.x]\nof = "yes"', "derived"),
    ("p = 0.7", "p = 0.7\n[derived.x]\nof = []", "derived"),
    ("p = 0.7", 'p = 0.7\n[derived.x]\nof = ["maybe"]', "unknown category 'maybe'"),
    ("p = 0.7", 'p = 0.7\n[derived.x]\nof = ["yes", "yes", "yes"]', "names the category 'yes' twice"),
    ("p = 0.7", 'p = 0.7\n[derived.x]\nof = ["yes"]\ngiven = ["no"]', "given must contain every category of of"),
    ("p = 0.7", 'p = 0.7\n[derived.x]\nof = ["yes"]\ngiven = ["yes", "no", "no"]', "names the category 'no' twice"),
    ("p = 0.7", 'p = 0.7\n[derived.x]\nof = ["yes"]\nat = ["no"]', "derived"),
    ("p = 0.7", 'p = 0.7\n[derived.distribution]\nof = ["yes"]', "must not be called 'distribution'"),
    ("p = 0.7", 'p = 0.7\n[derived.chain]\nof = ["yes"]', "must not be called 'chain'"),
    ("p = 0.7", 'p = 0.7\n[derived."a/b"]\nof = ["yes"]', "hold '/'"),
    ("p = 0.7", 'p = 0.7\n[derived.""]\nof = ["yes"]', "must not be empty"),
    ("p = 0.7", "p = 0.7\n[published]\na = 1", "published must be a list"),
    ('id = "small"', "published = [1]", "[[published]]"),
    ('id = "small"', "a" + ".a" * 30_000 + " = 1", "more than 8 parts"),
    ('id = "small"', "notes = " + "[" * 5000, "nested too deep"),
    ('id = "small"', 'notes = "\x1b[31m\\u001b[2J"', "not valid TOML"),
    ('name = "all"', 'name = "all"\n[[channels]]\nname = "all"\nprotocol = "warner"\nfile = "small.csv"', "all"),
]


@each_row("old, new, words", COLLECTIONS)
def test_collections(tmp_path, old, new, words):
    assert old in TOML
    assert words in sentence(lambda: read(tmp_path, TOML.replace(old, new, 1)))


# ---- protocols in collection files: (name, parameters, number of categories, words) ----------------------------------
FACTOR = {"protocol": "grr", "epsilon": 1.0}
PROTOCOLS = [
    ("direct", {"n_categories": 10**9}, 2, "n_categories must be"),
    ("direct", {"n_categories": 4000}, 2, "n_categories must be the number of categories (2), got 4000"),
    ("direct", {"n_categories": 5000}, 5000, "too large to write out"),
    ("kronecker", {"factors": [FACTOR | {"n_categories": 10**9}]}, 2, "n_categories"),
    ("kronecker", {"factors": [FACTOR | {"n_categories": 2}] * 40}, 2, "too large to write out"),
    ("kronecker", {"factors": [FACTOR]}, 2, "n_categories of factor 1 must be"),
    ("kronecker", {"factors": [{"protocol": "direct", "n_categories": 10**9}] * 2}, 4, "n_categories"),
    ("kronecker", {"factors": [FACTOR | {"n_categories": 2}], "separator": 3}, 2, "separator must be text"),
    ("compose", {"outer": FACTOR, "inner": FACTOR | {"n_categories": 1e30}}, 2, "n_categories of inner must be 2"),
    ("compose", {"outer": FACTOR | {"n_categories": 1e30}, "inner": FACTOR}, 2, "n_categories of outer must be 2"),
    ("compose", {"outer": FACTOR, "inner": {"protocol": "unary", "epsilon": 1, "variant": "optimised"}}, 30, "n_categories"),
    ("compose", {"outer": 3, "inner": FACTOR}, 2, "outer must name a protocol"),
    ("compose", {"outer": FACTOR}, 2, "compose needs the parameter 'inner'"),
    ("product", {"factors": [FACTOR] * 30}, 2, "too large to write out"),
    ("product", {"factors": [{"protocol": ["grr"]}]}, 2, "factor 1 must name a protocol"),
    ("product", {"factors": [{"protocol": "olh", "epsilon": 1}]}, 2, "too many possible reports"),
    ("mixture", {"factors": [FACTOR], "shares": "abc"}, 2, "shares must be"),
    ("mixture", {"factors": [FACTOR], "shares": [-1.0]}, 2, "shares must be"),
    ("mixture", {"factors": [FACTOR, FACTOR], "shares": [[0.5, 0.5]]}, 2, "shares must be"),
    ("mixture", {"factors": [FACTOR], "shares": [1.0], "separator": []}, 2, "separator must be text"),
    ("mixture", {"factors": FACTOR, "shares": [1.0]}, 2, "factors must be a list of tables"),
    ("cohort_rr", {"epsilon": 1, "buckets": 2**21, "cohorts": 2}, 2, "buckets must be"),
    ("cohort_rr", {"epsilon": 1, "buckets": 2, "cohorts": 2**20}, 64, "cohorts times hashes times categories"),
    ("cohort_rr", {"epsilon": 1, "buckets": 2, "cohorts": 0}, 2, "cohorts must be"),
    ("cohort_rr", {"epsilon": 1, "buckets": 1.5, "cohorts": 1}, 2, "buckets must be"),
    ("cohort_rr", {"epsilon": 1, "buckets": 2, "cohorts": 1, "seed": 2**63}, 2, "seed must be"),
    ("cohort_rr", {"epsilon": 1, "buckets": 2, "cohorts": 1, "assignment": "none"}, 2, "assignment must be one of"),
    ("cohort_rr", {"epsilon": 1, "buckets": 2, "cohorts": 1, "assignment": "label", "candidates": "ab"}, 2, "candidates"),
    ("cohort_rr", {"epsilon": 1, "buckets": 2, "cohorts": 1, "assignment": "label", "candidates": [1, 2]}, 2, "candidates"),
    ("rappor", {"epsilon": 1, "n_bits": 2**20, "cohorts": 1}, 64, "cohorts times hashes times categories"),
    ("rappor", {"epsilon": 1, "n_bits": 4, "cohorts": 2**20, "hashes": 15}, 4, "cohorts times hashes times categories"),
    ("rappor", {"epsilon": 1, "n_bits": 0, "cohorts": 1}, 2, "n_bits must be"),
    ("rappor", {"epsilon": 1, "n_bits": 4, "cohorts": 1, "hashes": 16}, 2, "hashes must be"),
    ("rappor", {"epsilon": 1, "p": 0.1, "n_bits": 4, "cohorts": 1}, 2, "either epsilon or p, q and f"),
    ("rappor", {"p": 0.7, "q": 0.2, "f": 0.1, "n_bits": 4, "cohorts": 1, "hashes": 1}, 2, "q must be above p"),
    ("rappor", {"p": "x", "q": 0.2, "f": 0.1, "n_bits": 4, "cohorts": 1, "hashes": 1}, 2, "p must be"),
    ("grr", {"epsilon": 0}, 2, "epsilon must be"),
    ("grr", {"epsilon": -1}, 2, "epsilon must be"),
    ("grr", {"epsilon": "one"}, 2, "epsilon must be"),
    ("grr", {"epsilon": 1e-12}, 2, "epsilon must be at least"),
    ("grr", {"epsilon": 10**400}, 2, "epsilon must be"),
    ("grr", {"epsilon": [1.0]}, 2, "epsilon must be"),
    ("grr", {}, 2, "needs the parameter 'epsilon'"),
    ("grr", {"epsilon": 1, "x" * 5000: 1}, 2, "no parameter"),
    ("unary", {"epsilon": 1}, 2, "unary parameters must be"),
    ("unary", {"epsilon": 1, "variant": "best"}, 2, "variant must be one of"),
    ("unary", {"kappa": 0.2, "lam": 0.4}, 2, "lam must be less than kappa"),
    ("unary", {"kappa": 1, "lam": 0}, 2, "kappa must be"),
    ("subset", {"epsilon": 1, "size": 5}, 5, "size must be"),
    ("subset", {"epsilon": 1, "size": 0}, 5, "size must be"),
    ("hadamard", {"epsilon": math.nan}, 5, "epsilon must be"),
    ("local_hashing", {"epsilon": 1, "buckets": 1}, 5, "buckets must be"),
    ("local_hashing", {"epsilon": 1, "family": "md5"}, 5, "family must be one of"),
    ("forced_response", {"truth": 0.7, "forced": ["x", 1]}, 2, "forced must be"),
    ("forced_response", {"truth": 0.7, "forced": ["1/0", 1]}, 2, "forced must be"),
    ("forced_response", {"truth": 0.7, "forced": 3}, 2, "forced must be"),
    ("forced_response", {"truth": 0.7, "forced": "12"}, 2, "forced must be"),
    ("forced_response", {"truth": 0.7, "forced": [True, 1]}, 2, "forced must be"),
    ("forced_response", {"truth": 0.7, "forced": [0, 0]}, 2, "forced must be"),
    ("forced_response", {"truth": 0.7, "forced": [1e308, 1e308]}, 2, "forced must be"),
    ("forced_response", {"truth": 0.7, "forced": [1, math.inf]}, 2, "forced must be"),
    ("forced_response", {"truth": 0.7, "forced": [1, 1, 1]}, 2, "categories must match"),
    ("forced_response", {"truth": 0, "forced": [1, 1]}, 2, "truth must be"),
    ("unrelated_question", {"p": 0, "innocuous": 0.5}, 2, "p must be"),
    ("kuk", {"p_carrier": 0.5, "p_other": 0.5}, 2, "p_carrier must be different"),
    ("kuk", {"p_carrier": 0.5, "p_other": 0.2, "cards": 10**9}, 2, "cards must be"),
    ("triangular", {"p": 1}, 2, "p must be"),
    ("christofides", {"shares": [0.5, 0.5]}, 2, "symmetric"),
    ("christofides", {"shares": "abc"}, 2, "shares must be"),
    ("christofides", {"shares": [0.5, "x"]}, 2, "shares must be"),
    ("christofides", {"shares": [[0.5], [0.5]]}, 2, "shares must be"),
    ("channel", {"matrix": 3}, 2, "matrix must be"),
    ("channel", {"matrix": [[1, 2], [3]]}, 2, "matrix must be"),
    ("channel", {"matrix": [["a", "b"], ["c", "d"]]}, 2, "matrix must be"),
    ("channel", {"matrix": [[0.5, 0.5], [0.4, 0.5]]}, 2, "sum to 1"),
    ("channel", {"matrix": [[-0.5, 0.5], [1.5, 0.5]]}, 2, "finite and not negative"),
    ("channel", {"matrix": [[math.nan, 0.5], [1.5, 0.5]]}, 2, "finite and not negative"),
    ("channel", {"matrix": [[10**400, 0.5], [0.5, 0.5]]}, 2, "matrix must be"),
    ("channel", {"matrix": [[0.5, 0.5, 0.5], [0.5, 0.5, 0.5]]}, 2, "one column per category"),
    ("channel", {"matrix": []}, 2, "matrix must be"),
    ("channel", {}, 2, "needs the parameter 'matrix'"),
]


@each_row("name, parameters, size, words", PROTOCOLS)
def test_protocols(name, parameters, size, words):
    assert words in sentence(lambda: make_protocol(name, [f"c{x}" for x in range(size)], parameters))


# ---- CSV files: (text, words) ----------------------------------------------------------------------------------------
TABLES = [
    ("", "line 1: is empty, and must name the columns"),
    ("answer,count", "has no rows"),
    ("answer,count\n", "has no rows"),
    ("answer,count\nno,60\nmaybe,40\n", "line 3"),
    ("answer,count\nno,60\n,40\n", "unknown report ''"),
    ("answer,count\nno,60\nyes\n", "has 1 cell"),
    ("answer,count\nno,60\nyes,40,1\n", "has 3 cells, the header 2"),
    ("answer,answer,count\nno,no,60\n", "two columns 'answer'"),
    ("answer,count\nno,6.5\n", "whole number, got '6.5'"),
    ("answer,count\nno,60.1\n", "whole number, got '60.1'"),
    ("answer,count\nno,1e2\n", "whole number, got '1e2'"),
    ("answer,count\nno,\n", "whole number, got ''"),
    ("answer,count\nno,nan\n", "whole number, got 'nan'"),
    ("answer,count\nno,6_0\n", "whole number, got '6_0'"),
    ("answer,count\nno,٦٠\n", "whole number, got '٦٠'"),
    ("answer,count\nno,６０\n", "whole number, got '６０'"),
    ("answer,count\nno,0x3c\n", "whole number, got '0x3c'"),
    ("answer,count\nno,-60\nyes,160\n", "count must be from 0 to 10**12, got -60"),
    ("answer,count\nno,1000000000001\n", "count must be from 0 to 10**12"),
    ("answer,count\nno,999999999999\nyes,2\n", "10**12 reports"),
    ("answer,count\nno," + "9" * 5000 + "\n", "count must be from 0 to 10**12"),
    ("answer,count\nno,0\nyes,0\n", "no reports"),
    ("answer,count\nno,60\nyes,41\n", "add up to 101"),
    ('answer,count\n"no,60\n', "not a valid CSV file"),
    ('answer,count\n"no"x,60\n', "unknown report 'nox'"),
    (b"answer,count\nno\xff,60\n", "is not UTF-8 text"),
    (b"PAR1\x15\x04\x15\xff\xfe\x00\x01", "is a Parquet file"),
    (CSV.encode("utf-16"), "is UTF-16 text"),
    ("answer;count\nno;60\n", "is separated by semicolons"),
    ("Answer,Count\nno,60\n", "no column 'answer'"),
    ("answer,count\nno\0,60\n", "small.csv"),
    ("answer,count\n" + "x" * 200_000 + ",60\n", "small.csv"),
    ("answer,count\n" + "x" * 100_000 + ",60\n", "unknown report"),
    (",".join(f"c{i}" for i in range(20_000)) + "\n", "no column 'answer'"),
    ("answer,count\n\x1b[2Jno,60\n", "unknown report"),
    ("answer,count\n" + "\n" * 10, "has no rows"),
]


@each_row("csv, words", TABLES)
def test_tables(tmp_path, csv, words):
    assert words in sentence(lambda: read(tmp_path, csv=csv))


# ---- data frames: (columns, settings, words) -------------------------------------------------------------------------
WARNER = designs.warner(0.7)
FRAMES = [
    ({"reply": ["yes"]}, {}, "no column 'report'"),
    ({"report": ["yes", "maybe"]}, {}, "unknown report 'maybe'"),
    ({"report": ["yes", None]}, {}, "missing"),
    ({"report": ["yes"], "n": [-1]}, {"count": "n"}, "count"),
    ({"report": ["yes"], "n": [1.5]}, {"count": "n"}, "a whole number, got 1.5"),
    ({"report": ["yes"], "n": ["1"]}, {"count": "n"}, "whole numbers"),
    ({"report": ["yes"], "n": [10**13]}, {"count": "n"}, "10**12"),
    ({"report": ["yes"] * 5, "n": [2**62] * 4 + [7]}, {"count": "n"}, "10**12"),
    ({"report": ["yes"], "n": [0]}, {"count": "n"}, "no reports"),
    ({"report": ["yes"], "n": [None]}, {"count": "n"}, "n"),
    ({"report": [2, 0]}, {}, "outside 0..1"),
    ({"report": [-1, 0]}, {}, "outside 0..1"),
    ({"report": [0.5, 1.0]}, {}, "report"),
    ({"report": [["yes"], ["no"]]}, {}, "report"),
    ({"report": [b"yes", b"no"]}, {}, "report"),
    ({"report": ["yes"]}, {"report": ["report", "report"]}, "must name 1 column"),
    ({"report": ["yes"]}, {"report": 3}, "report"),
    ({"report": ["yes"]}, {"count": "report"}, "whole numbers"),
    ({"report": ["yes"]}, {"by": "country"}, "no column 'country'"),
]


@each_row("make", [pandas.DataFrame, polars.DataFrame, pyarrow.table])
@each_row("columns, settings, words", FRAMES)
def test_frames(make, columns, settings, words):
    frame = make(columns)
    assert words in sentence(lambda: lb.read(frame, WARNER, **settings))


# ---- Python calls: (what, call, words) -------------------------------------------------------------------------------
PAIR = Tally(GRR(2, 1.0), [0, 1], [6, 4])
GOOD = Collection(["no", "yes"], PAIR)
CALLS = {
    "categories repeated": (lambda: Collection(["a", "a"], PAIR), "distinct"),
    "categories too few": (lambda: Collection(["a"], PAIR), "at least two"),
    "categories no text": (lambda: Collection([1, 2], PAIR), "non-empty strings"),
    "categories unhashable": (lambda: Collection([["a"], ["b"]], PAIR), "non-empty strings"),
    "categories surrogate": (lambda: Collection(["a", "b\ud800"], PAIR), "surrogates"),
    "categories too many": (lambda: Collection(["a", "b", "c"], PAIR), "2 categories, the collection 3"),
    "title a number": (lambda: Collection(["a", "b"], PAIR, title=3), "title must be text"),
    "no tallies": (lambda: Collection(["a", "b"], []), "at least one channel"),
    "1e12 reports twice": (
        lambda: Collection(["a", "b"], [Tally(GRR(2, 1.0), [0], [10**12], name) for name in "xy"]),
        "at most 10**12 reports",
    ),
    "same names": (lambda: Collection(["a", "b"], [PAIR, PAIR]), "distinct names"),
    "derived twice": (lambda: Collection(["a", "b"], PAIR, derived=[Derived("x", ["a"])] * 2), "distinct names"),
    "derived of text": (lambda: Derived("x", "abc"), "list of category labels"),
    "derived of numbers": (lambda: Derived("x", [1]), "list of category labels"),
    "derived odds": (lambda: Derived("x", ["a"], ["b"]), "not a share"),
    "tally of a class": (lambda: Tally(GRR, [0, 1]), "protocol must be"),
    "tally of floats": (lambda: Tally(GRR(2, 1.0), [0.5]), "integers"),
    "tally of counts above": (lambda: Tally(GRR(2, 1.0), [0], [10**12 + 1]), "10**12"),
    "tally of 2^64": (lambda: Tally(GRR(2, 1.0), [0], [2**64]), "counts must be"),
    "tally of 5,000 digits": (lambda: Tally(GRR(2, 1.0), [0], [10**5000]), "counts must be"),
    "tally of ragged counts": (lambda: Tally(GRR(2, 1.0), [0, 1], [[1], [1, 2]]), "counts must be"),
    "tally of too few counts": (lambda: Tally(GRR(2, 1.0), [0, 1], [1]), "of length 2"),
    "grr of a billion": (lambda: GRR(10**9, 1.0), "n_categories must be"),
    "hadamard of a billion": (lambda: HadamardResponse(10**9, 1.0), "n_categories must be"),
    "unary of infinity": (lambda: UnaryEncoding.optimized(math.inf, 1.0), "n_categories must be"),
    "subset of a billion": (lambda: SubsetSelection(10**9, 1.0), "n_categories must be"),
    "hashing of text": (lambda: LocalHashing("3", 1.0), "n_categories must be"),
    "direct of a billion": (lambda: designs.direct(10**9), "n_categories must be"),
    "cohorts and buckets": (lambda: CohortRR(2, 1.0, 2**20, 2**20).all_reports(), "too many possible reports"),
    "rappor of many bits": (lambda: Rappor.one_time(2**10, 1.0, 2**20, 1), "cohorts times hashes"),
    "channel of text": (lambda: Channel("abc"), "matrix must be"),
    "compose of nothing": (lambda: compose(GRR(3, 1.0), GRR(2, 1.0)), "outer must have one category"),
    "product of none": (lambda: product([]), "at least one"),
    "product of text": (lambda: product("ab"), "factors must be"),
    "product of unequal": (lambda: product([GRR(2, 1.0), GRR(3, 1.0)]), "same categories"),
    "mixture of none": (lambda: mixture([], []), "at least one"),
    "kronecker of large": (lambda: kronecker([GRR(2000, 1.0), GRR(2000, 1.0)]), "too large to write out"),
    "counts of text": (lambda: checks.counts("abc"), "counts must be"),
    "values of ragged": (lambda: checks.values([[0], [0, 1]], 2), "values must be"),
    "distribution of text": (lambda: checks.distribution("abc"), "p must be"),
    "long values are cut": (lambda: checks.epsilon("x" * 10_000), "epsilon must be"),
    "long lists are cut": (lambda: checks.epsilon(list(range(100_000))), "epsilon must be"),
    "huge integers are cut": (lambda: checks.integer(10**5000, "n", 0, 3), "an integer of 5001 digits"),
    "a seed below zero": (lambda: lb.fit(GOOD, random_seed=-1), "random_seed must be"),
    "a seed of 70 bits": (lambda: lb.fit(GOOD, random_seed=2**70), "random_seed must be"),
    "a seed of text": (lambda: lb.fit(GOOD, random_seed="1"), "random_seed must be"),
    "fewer draws than none": (lambda: lb.fit(GOOD, draws=-1), "draws must be"),
    "too many draws": (lambda: lb.fit(GOOD, draws=999_999_999_999_999), "draws must be"),
    "too many chains": (lambda: lb.fit(GOOD, chains=10**12), "draws must be"),
    "a prior of text": (lambda: lb.fit(GOOD, "jefferys"), "prior must be"),
    "a prior of zero": (lambda: lb.fit(GOOD, 0), "prior must be"),
    "a prior of three": (lambda: lb.fit(GOOD, [1, 1, 1]), "prior"),
    "a prior of infinity": (lambda: lb.fit(GOOD, math.inf), "prior must be"),
    "a level of one": (lambda: lb.fit(GOOD, ci_prob=1), "ci_prob must be"),
    "a method of text": (lambda: lb.fit(GOOD, method="magic"), "method must be"),
    "a method of none": (lambda: lb.fit(GOOD, method=None), "method must be"),
    "fit of a number": (lambda: lb.fit(3), "collection"),
    "fit of nothing": (lambda: lb.fit("nowhere.toml"), "nowhere.toml"),
    "a population of a billion": (lambda: population("zipf", 10**9), "n_categories must be"),
    "a population of one": (lambda: population("zipf", 1), "n_categories must be"),
    "a population with no file": (lambda: population("nowhere.csv"), "nowhere.csv"),
    "too many users": (lambda: simulate([0.5, 0.5], GRR(2, 1.0), 10**13), "n must be"),
    "no users": (lambda: simulate([0, 0], GRR(2, 1.0)), "at least one user"),
    "users of text": (lambda: simulate("ab", GRR(2, 1.0), 10), "ab: cannot be read"),
    "a frame of a list": (lambda: lb.read([1], WARNER), "the data must be"),
    "a frame of a class": (lambda: lb.read(pandas.DataFrame({"report": ["no"]}), GRR), "protocol must be"),
    "a frame without columns": (lambda: lb.read(pandas.DataFrame(), WARNER), "no column"),
    "a frame of doubled columns": (
        lambda: lb.read(pandas.DataFrame([["no", "no"]], columns=["report", "report"]), WARNER),
        "same name",
    ),
    "a frame of integer columns": (lambda: lb.read(pandas.DataFrame({0: ["no"]}), WARNER), "no column"),
    "a path of a number": (lambda: read_collection(3), "path must be the name of a file"),
    "a path of none": (lambda: read_collection(None), "path must be the name of a file"),
    "a file of a folder": (lambda: files.read_toml(ROOT), "Is a directory"),
}


@each_row("name", CALLS)
def test_calls(name):
    call, words = CALLS[name]
    assert words in sentence(call)


# ---- options: (arguments, words) -------------------------------------------------------------------------------------
OPTIONS = [
    (["fit", NIGERIA, "--output", ""], "cannot be written (Is a directory)"),
    (["fit", NIGERIA, "--output", str(ROOT)], "cannot be written (Is a directory)"),
    (["fit", NIGERIA, "--output", "/dev/null"], "not a regular file"),
    (["fit", NIGERIA, "--output", "/dev/null/x.nc"], "cannot be written"),
    (["fit", NIGERIA, "--output", "no/such/folder/x.nc"], "cannot be written (No such file or directory)"),
    (["fit", NIGERIA, "--output", NIGERIA], "this command has read it"),
    (["fit", NIGERIA, "--plot", "x.doc"], "must end in"),
    (["fit", NIGERIA, "--output", "x.csv"], "must be a NetCDF file such as 'x.nc', got 'x.csv'"),
    (["fit", NIGERIA, "--plot", "no/such/folder/x.png"], "cannot be written"),
    (["fit", NIGERIA, "--page", "x.doc"], "must end in"),
    (["fit", NIGERIA, "--plot", "/tmp/x.svg", "--page", "/tmp/../tmp/x.svg"], "must end in"),
    (["fit", NIGERIA, "--seed", str(2**70)], "seed"),
    (["fit", NIGERIA, "--seed", "-1"], "seed"),
    (["fit", NIGERIA, "--seed", "1.5"], "seed"),
    (["fit", NIGERIA, "--draws", "999999999999999"], "draws must be"),
    (["fit", NIGERIA, "--draws", "-1"], "draws"),
    (["fit", NIGERIA, "--top", "0"], "top"),
    (["fit", NIGERIA, "--ci", "0"], "--ci must be"),
    (["fit", NIGERIA, "--ci", "nan"], "--ci must be"),
    (["fit", NIGERIA, "--prior", ""], "prior must be"),
    (["fit", NIGERIA, "--prior", "\x1b[2J"], "prior must be"),
    (["fit", NIGERIA, "--prior", "x" * 5000], "prior must be"),
    (["fit", NIGERIA, "--prior", "inf"], "prior must be"),
    (["fit", "a\0b"], "NUL"),
    (["fit", ""], "path must be the name of a file, got an empty text"),
    (["fit", "/dev/zero"], "not a regular file"),
    (["fit", "example:nowhere"], "nowhere"),
    (["fit"], "FILE"),
    (["crosscheck", "nowhere.toml"], "nowhere.toml"),
    (["plan", "--n-categories", "1000000000", "--epsilon", "1", "--users", "1000"], "--n-categories must be"),
    (["plan", "--n-categories", "8", "--epsilon", "0", "--users", "1000"], "epsilon"),
    (["plan", "--n-categories", "8", "--epsilon", "1", "--users", "nan"], "--users must be"),
    (["plan", "--n-categories", "8"], "are missing"),
    (["plan", "--n-categories", "8", "--epsilon", "1", "--error", "0.1", "--plot", "x.doc"], "must end in"),
    (["simulate", "/tmp/x.toml", "--n-categories=1000000000", "--users", "10", "-p", "epsilon=1"], "--n-categories must be"),
    (["simulate", "/tmp/x.toml", "--n-categories", "4", "--users", "10", "-p", "epsilon"], "name=value"),
    (["simulate", "/tmp/x.toml", "--n-categories", "4", "--users", "10", "-p", "epsilon=1\nx=2"], "one value"),
    (["simulate", "/tmp/x.toml", "--n-categories", "4", "--users=10", "-p", "epsilon=1", "-p", "epsilon=2"], "given once"),
    (["simulate", "/tmp/x.toml", "--n-categories", "4", "--users", "10", "-p", "epsilon=" + "9" * 5000], "epsilon must be"),
    (["simulate", "/tmp/x.toml", "--n-categories", "4", "--users", "10", "-p", "epsilon=" + "[" * 5000], "epsilon must be"),
    (["simulate", "/tmp/x.toml", "--n-categories", "4", "--users", "10000000000000", "-p", "epsilon=1"], "--users must be"),
    (
        ["simulate", "/tmp/x.toml", "--n-categories", "4", "--users=1000000000000", "--protocol", "olh", "-p", "epsilon=1"],
        "draws the report of every user",
    ),
    (["simulate", "/tmp/x.txt", "--n-categories", "4", "--users", "10", "-p", "epsilon=1"], "must end in .toml"),
    (["simulate", "/no/such/x.toml", "--n-categories", "4", "--users", "10", "-p", "epsilon=1"], "cannot be written"),
]


@each_row("arguments, words", OPTIONS)
def test_options(capsys, arguments, words):
    status, _, err = run(capsys, *arguments)
    assert status == 2 and "Traceback" not in err and "\x1b[2J" not in err
    assert words in " ".join(err.replace("│", " ").split()), err
    assert len(err) < 8000


# ---- results: (what is done to the bytes of a file, words) -----------------------------------------------------------
RESULTS = {
    "empty": lambda data: b"",
    "text": lambda data: b"not a result\n",
    "half": lambda data: data[: len(data) // 2],
    "start only": lambda data: data[:600],
    "start lost": lambda data: data[100:],
    "zeros": lambda data: bytes(len(data)),
    "TOML": lambda data: TOML.encode(),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("results") / "r.nc"
    lb.save(lb.fit(GOOD, draws=100, random_seed=1), path)
    return path.read_bytes()


@each_row("name", RESULTS)
def test_results(saved, tmp_path, name):
    (tmp_path / "r.nc").write_bytes(RESULTS[name](saved))
    assert "r.nc" in sentence(lambda: result.load(tmp_path / "r.nc"))


def test_results_that_are_no_files(tmp_path):
    for path in (tmp_path, tmp_path / "none.nc", "/dev/zero", "a\0b"):
        sentence(lambda path=path: result.load(path))


# ---- what is said --------------------------------------------------------------------------------------------------
def test_there_are_two_hundred():
    tables = (COLLECTIONS, PROTOCOLS, TABLES, FRAMES, CALLS, OPTIONS, RESULTS)
    assert sum(map(len, tables)) >= 300


def test_sentences_are_short_and_steer_no_terminal():
    error = DataError("label \x1b[31m and \u202e and " + "x" * 10_000, source="a\nb.csv", field="f" * 10_000)
    assert str(error).isprintable() and len(str(error)) <= 2000


def test_file_names_that_are_not_utf8_are_served(tmp_path):
    read(tmp_path)
    path = os.fsencode(tmp_path) + b"/\xff.toml"
    pathlib.Path(os.fsdecode(path)).write_text(TOML.replace('id = "small"', ""))
    collection = read_collection(path)
    assert collection.id == "\ufffd"
    lb.save(lb.fit(collection, draws=10, random_seed=1), tmp_path / "r.nc")


def test_counts_of_ten_to_the_twelve_are_served(tmp_path):
    collection = read(tmp_path, TOML.replace("n = 100", ""), "answer,count\nno,600000000000\nyes,400000000000\n")
    assert collection.n_reports == 10**12


def test_control_characters_are_no_part_of_a_count(tmp_path):
    """Found by mutation: str.strip() takes away the separators U+001C to U+001F, which nobody writes on purpose."""
    path = tmp_path / "people.csv"
    path.write_text("value,count\nyoung,100\nold,250\x1c\n")
    with pytest.raises(LDPBayesError, match="whole number"):
        population(path)


@pytest.mark.parametrize(
    "of, given, words",
    [(("yes", "yes", "yes"), (), "twice"), (("yes",), ("no",), "given must")],
)
def test_derived_quantities_are_shares(of, given, words):
    """Repeated labels were counted again and again; a base without its part made an odds of a share."""
    with pytest.raises(LDPBayesError, match=words):
        lb.collections.Derived("x", of, given)


@each_row(
    "content, words",
    [
        ("report,sex\nno,f\nyes,fém\n".encode("latin-1"), "is not UTF-8 text"),
        ("report,sèx\nno,f\nyes,m\n".encode("latin-1"), "has no column 'sex'; it has report, s\ufffdx"),
        ("report,sex\nno,f\n".encode("utf-16"), "is UTF-16 text"),
        (b"report;sex\nno;f\n", "is separated by semicolons"),
    ],
)
def test_tables_that_are_no_comma_separated_utf8_text_end_in_a_sentence(content, words, tmp_path, capsys):
    (tmp_path / "x.csv").write_bytes(content)
    stated = "--protocol warner -p p=0.7 --categories no,yes".split()
    status, _, said = run(capsys, "regress", tmp_path / "x.csv", "report ~ sex", *stated)
    assert status == 2 and words in said
