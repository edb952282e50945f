"""The command ``ldpbayes check``."""

import dataclasses
from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

from ldpbayes.cli import options
from ldpbayes.errors import ArgumentError


@dataclass(frozen=True)
class Fake:
    """What fake reports could do."""

    panel: ClassVar[str] = "Fake reports"

    fakes: options.Fakes = False
    share: Annotated[
        str | None,
        typer.Option(
            "--fake-share",
            help="Also print the range of the estimates if at most such shares of the reports are fake, such as 0.01,0.05.",
            metavar="SHARES",
        ),
    ] = None
    question: Annotated[
        str | None,
        typer.Option(
            "--conclusion",
            help="A category, or a conclusion such as 'yes > 0.2' or 'apples > pears': --fake-share then gives its range "
            "and the share of fakes that turns it.",
        ),
    ] = None
    channel: Annotated[
        str | None, typer.Option(help="The channel whose reports --fake-share is about, for a collection with several.")
    ] = None

    def hull(self, collection):
        """Return the range of estimates under the shares of fakes that are stated; None where none are."""
        from ldpbayes.answers import contamination_hull

        if self.share is None:
            for name in ("question", "channel"):
                if getattr(self, name) is not None:
                    raise ArgumentError(f"{name} goes with fake-share, which states how many reports may be fake.")
            return None
        shares = options.levels(self.share, "share")
        return contamination_hull(collection.single("fake-share"), self.question, share=shares, channel=self.channel)


def command(
    file: options.File,
    *,
    by: options.By = None,
    level: Annotated[float, typer.Option(help="Probability with which honest reports may be flagged.")] = 0.05,
    fake: Fake,
    outputs: options.Shown,
):
    """Check whether the reports can have come from their design, without a prior and without sampling.

    Exit status 0: they fit, or no test is possible; 1: they do not fit (the last line names the tests); 2: bad input.

    Examples:

      ldpbayes check example:nigeria --fakes

      ldpbayes check example:nigeria --fake-share 0.01,0.05

      ldpbayes check example:wada --fake-share 0.05 --channel A

      ldpbayes check example:nigeria_cells --page check.html

      ldpbayes check example:survey --by region
    """
    from ldpbayes.fitness import check
    from ldpbayes.pages.check import of_check, of_check_of_cells
    from ldpbayes.pages.contamination import beside

    outputs.check()
    collection = options.read(file, by)
    title, line = collection.title or collection.id, options.command_line()
    table = options.fakes_table(collection) if fake.fakes else None
    hull = fake.hull(collection)
    found = check(collection, level=level)
    if collection.by:
        content = of_check_of_cells(found, title=title, command=line)
    else:
        content = of_check(found, title=title, collection=collection, command=line)
    if table is not None:
        content = dataclasses.replace(content, tables=(*content.tables, table))
    if hull is not None:
        content = beside(content, hull)
    outputs.show(content)
    raise typer.Exit(1 if found.flagged else 0)
