"""Small collections that come with the package: real ones, and a simulated survey."""

import pathlib
from typing import Literal, overload

from ldpbayes import checks
from ldpbayes.collections import Cells, Collection
from ldpbayes.sources import read_collection

FOLDER = pathlib.Path(__file__).parent
#: Files by the names that people type.
EXAMPLES = {
    "nigeria": "rr_nigeria",
    "nigeria_cells": "rr_nigeria_cells",
    "minarets": "rr_minarets",
    "cheating": "rr_eriksson_cheating",
    "granada": "rr_granada_joint",
    "wada": "rr_wada_forum_joint",
    "race": "lists_race",
    "survey": "survey",
}
#: Tables by their own names, simulated: the respondents of the survey.
TABLES = ("survey.csv",)


type Single = Literal["nigeria", "minarets", "cheating", "granada", "wada", "race", "survey"]


@overload
def load_example(name: Single) -> Collection: ...


@overload
def load_example(name: Literal["nigeria_cells"]) -> Cells: ...


@overload
def load_example(name: str) -> Collection | Cells: ...


def load_example(name: str) -> Collection | Cells:
    """Return an example that comes with the package, a Collection or Cells, by its name in ``list_examples()``.

    Parameters
    ----------
    name : {"nigeria", "nigeria_cells", "minarets", "cheating", "granada", "wada", "race", "survey"}
        Two categories by forced response, of all respondents and by sex, marriage and age group; three by a lie
        detector with two forms; ten by polytomous forced response; 64 and 16 combinations of six and four questions
        asked together; a list experiment; and a simulated survey of respondents in villages, with sampling weights.

    Returns
    -------
    Collection, or Cells for "nigeria_cells"
        With its question, citation, licence and published numbers.

    Raises
    ------
    ArgumentError
        On an unknown name.

    Examples
    --------
    >>> survey = load_example("nigeria")
    >>> survey.categories, survey.n_reports
    (('no', 'yes'), 2435)
    """
    checks.choice(name, "example", tuple(EXAMPLES))
    return read_collection(path_of(name))


def path_of(name: str) -> pathlib.Path:
    """Return the path of a file that comes with the package: of a collection by its name, or of one of TABLES."""
    checks.choice(name, "example", (*EXAMPLES, *TABLES))
    return FOLDER / (name if name in TABLES else f"{EXAMPLES[name]}.toml")


def list_examples() -> dict[str, str]:
    """Return the names that load_example takes, with the titles of the collections."""
    return {name: load_example(name).title for name in EXAMPLES}
