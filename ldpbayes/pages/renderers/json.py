"""Pages as JSON: every number in full, under stable names."""

import json
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ldpbayes.pages.page import Page
from ldpbayes.pages.rendering import AbstractRenderer


@dataclass(frozen=True)
class JSON(AbstractRenderer):
    """One object: the facts of the page, its words and its notes (of a page without facts, its tables).

    Numbers that are not finite become null.
    """

    name: ClassVar[str] = "json"
    suffixes: ClassVar[tuple[str, ...]] = (".json",)

    def render(self, page: Page) -> str:
        """Return the page as one JSON object."""
        content = page.facts or {"title": page.title, "tables": [_table(table) for table in page.tables]}
        notes = [{"kind": str(note.kind), "text": note.text} for note in page.notes]
        words = {key: getattr(page, key) for key in ("summary", "about", "again") if getattr(page, key)}
        whole = {**content, **words, "notes": notes}
        return json.dumps(plain(whole), ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def plain(value):
    """Return a value in the types that JSON knows; numbers that are not finite become None."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if not isinstance(value, str | int | float | list | tuple | None):  # arrays of NumPy and of xarray
        value = np.asarray(value).tolist()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _table(table):
    return {"title": table.title, "rows": table.records(), "note": table.note}
