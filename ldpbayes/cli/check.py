"""The command ``ldpbayes check``."""

from typing import Annotated

import typer

from ldpbayes.cli import options, printing

Level = Annotated[float, typer.Option(help="Probability with which honest reports may be flagged.")]


Fakes = Annotated[
    bool, typer.Option("--fakes", help="Also print how many fabricated reports would lift a share or change the order.")
]


FakeShare = Annotated[
    str | None,
    typer.Option(
        help="Also print the range of the estimates if at most such shares of the reports are fake, such as 0.01,0.05.",
        metavar="SHARES",
    ),
]
Conclusion = Annotated[
    str | None,
    typer.Option(
        help="A category, or a conclusion such as 'yes > 0.2' or 'apples > pears': --fake-share then gives its range and "
        "the share of fakes that turns it."
    ),
]
ChannelName = Annotated[
    str | None, typer.Option(help="The channel whose reports --fake-share is about, for a collection with several.")
]


def command(
    file: options.File,
    level: Level = 0.05,
    by: Annotated[
        list[str] | None, typer.Option(help="A column of the tables: a check for each of its values; may be repeated.")
    ] = None,
    fakes: Fakes = False,
    fake_share: FakeShare = None,
    conclusion: Conclusion = None,
    channel: ChannelName = None,
    page: options.PagePath = None,
    as_json: options.AsJSON = False,
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
    import dataclasses

    from ldpbayes.collections import Cells
    from ldpbayes.fitness import check
    from ldpbayes.pages.check import of_check, of_check_of_cells
    from ldpbayes.pages.contamination import beside

    options.check_page(page)
    collection = options.read(file, by)
    title, line = collection.title or collection.id, options.command_line()
    table = options.fakes_table(collection) if fakes else None
    hull = options.contamination(collection, fake_share, conclusion, channel)
    found = check(collection, level=level)
    if isinstance(collection, Cells):
        content = of_check_of_cells(found, title=title, command=line)
    else:
        content = of_check(found, title=title, collection=collection, command=line)
    if table is not None:
        content = dataclasses.replace(content, tables=(*content.tables, table))
    if hull is not None:
        content = beside(content, hull)
    printing.show(content, as_json, page=page)
    raise typer.Exit(1 if found.flagged else 0)
