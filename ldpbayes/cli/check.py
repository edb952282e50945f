"""The command ``ldpbayes check``."""

from typing import Annotated

import typer

from ldpbayes.cli import options, printing

Level = Annotated[float, typer.Option(help="Probability with which honest reports may be flagged.")]


def command(file: options.File, level: Level = 0.05, page: options.PagePath = None, as_json: options.AsJSON = False):
    """Check whether the reports can have come from their design, without a prior and without sampling.

    Exit status 0: they fit, or no test is possible; 1: they do not fit (the last line names the tests); 2: bad input.

    Examples:

      ldpbayes check example:nigeria

      ldpbayes check my_survey.toml --page check.html
    """
    from ldpbayes.fitness import check
    from ldpbayes.pages.check import of_check

    options.check_page(page)
    collection = options.read(file)
    found = check(collection, level=level)
    title = collection.title or collection.id
    printing.show(of_check(found, title=title, collection=collection, command=options.command_line()), as_json, page)
    raise typer.Exit(1 if found.flagged else 0)
