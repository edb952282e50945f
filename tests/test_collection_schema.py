"""The JSON Schema of collection files says what the reader takes: same keys, all shipped files, and what both refuse."""

import json
import pathlib
import tomllib

import jsonschema
import pytest
from tabulated import each_row

import ldpbayes
from ldpbayes.errors import DataError
from ldpbayes.sources import collection_file

ROOT = pathlib.Path(__file__).parents[1]
SCHEMA = json.loads((ROOT / "docs" / "_static" / "collection.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
EXAMPLES = pathlib.Path(ldpbayes.__file__).parent / "examples"
SHIPPED = [*sorted((ROOT / "data").glob("rr_*.toml")), *sorted(EXAMPLES.glob("*.toml"))]


def test_schema_and_reader_know_the_same_keys():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    known = set(collection_file._COLLECTION) | set(collection_file._FORMER)
    assert set(SCHEMA["properties"]) == known
    assert set(SCHEMA["properties"]["channels"]["items"]["properties"]) == set(collection_file._CHANNEL)


def test_shipped_and_recorded_files_meet_the_schema():
    recorded = sorted((ROOT / "tests" / "legacy").rglob("*.toml"))
    assert len(SHIPPED) > 15
    for path in [*SHIPPED, *recorded]:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        problem = next(VALIDATOR.iter_errors(document), None)
        assert problem is None or "channels" not in document, (path.name, problem)  # a population has no channels


@each_row(
    "lines",
    [
        "categories = [1, 2]",
        'categories = ["only"]',
        'categories = ["no", "yes"]\nordered = "yes"',
        'categories = ["no", "yes"]\ncolour = "red"',
        'categories = ["no", "yes"]\n[derived.carriers]\nwhich = ["yes"]',
        'categories = ["no", "yes"]\n[deniers]\nof = "yes"',
    ],
)
def test_what_the_schema_refuses_the_reader_refuses(lines, tmp_path):
    text = f'{lines}\n[[channels]]\nprotocol = "grr"\nparameters = {{ epsilon = 1 }}\nfile = "t.csv"\nreport = "x"\n'
    (tmp_path / "t.csv").write_text("x\nno\nyes\n")
    (tmp_path / "t.toml").write_text(text)
    assert next(VALIDATOR.iter_errors(tomllib.loads(text)), None) is not None
    with pytest.raises(DataError):
        collection_file.read_collection(tmp_path / "t.toml")
