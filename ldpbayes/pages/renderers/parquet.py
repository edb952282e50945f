"""Pages as Parquet: the tables with every digit, for further work in any data frame library."""

import io
from dataclasses import dataclass
from typing import ClassVar

from ldpbayes.pages.page import Page
from ldpbayes.pages.renderers.csv import CSV, lines_of
from ldpbayes.pages.rendering import AbstractRenderer


@dataclass(frozen=True)
class Parquet(AbstractRenderer):
    """The same rectangular table as CSV, with typed columns; what a row lacks is null. Needs the extra "frames".

    As text it is CSV.
    """

    name: ClassVar[str] = "parquet"
    suffixes: ClassVar[tuple[str, ...]] = (".parquet",)

    def render(self, page: Page) -> str:
        """Return the tables as CSV, which can be read."""
        return CSV().render(page)

    def encode(self, page: Page) -> bytes:
        """Return the bytes of a Parquet file."""
        from ldpbayes.sources.base import optional

        pyarrow, parquet = optional("pyarrow", "Writing Parquet"), optional("pyarrow.parquet", "Writing Parquet")
        lines = list(lines_of(page))
        columns = {}
        for name in dict.fromkeys(key for line in lines for key in line):
            values = [None if line.get(name, "") == "" else line[name] for line in lines]
            if any(isinstance(value, str) for value in values):
                values = [None if value is None else str(value) for value in values]
            else:
                values = [None if value is None else float(value) for value in values]
            columns[name] = values
        out = io.BytesIO()
        parquet.write_table(pyarrow.table(columns), out)
        return out.getvalue()
