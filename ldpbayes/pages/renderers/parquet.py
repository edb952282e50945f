"""Pages as Parquet: the tables with every digit, for further work in any data frame library."""

from dataclasses import dataclass
from typing import ClassVar

from ldpbayes.pages.page import Page
from ldpbayes.pages.renderers.csv import CSV, lines_of
from ldpbayes.pages.rendering import AbstractRenderer


@dataclass(frozen=True)
class Parquet(AbstractRenderer):
    """The same rectangular table as CSV, with typed columns; what a row lacks is null.

    As text it is CSV.
    """

    name: ClassVar[str] = "parquet"
    suffixes: ClassVar[tuple[str, ...]] = (".parquet",)

    def render(self, page: Page) -> str:
        """Return the tables as CSV, which can be read."""
        return CSV().render(page)

    def encode(self, page: Page) -> bytes:
        """Return the bytes of a Parquet file."""
        import pandas as pd

        frame = pd.DataFrame(list(lines_of(page))).replace("", None)
        for name, values in frame.items():
            texts = any(isinstance(value, str) for value in values)
            frame[name] = values.map(str, na_action="ignore") if texts else values.astype(float)
        return frame.to_parquet(index=False)
