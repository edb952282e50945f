"""The command ``ldpbayes study``."""

import pathlib
import sys
from dataclasses import replace

from ldpbayes.cli import options, printing


def command(
    study=None,
    setting="small",
    output=pathlib.Path("out/studies"),
    jobs=1,
    random_seed=0,
    replications=None,
    page=None,
):
    """Repeat a paper's experiment with the posterior mean and the bounds beside its estimators.

    Every number comes with its Monte Carlo standard error. An interrupted study continues where it stopped when the same
    command is given again.

    Examples:

      ldpbayes study

      ldpbayes study risk --jobs 2 --page risk.html
    """
    from ldpbayes.pages.about import again
    from ldpbayes.pages.page import Column, Kind, Note, Page, Table
    from ldpbayes.plots import plot_study, save_figure
    from ldpbayes.study import find_study, list_studies, run_study
    from ldpbayes.study.page import of_study

    if study is None:
        columns = tuple(Column(name, name, "text") for name in ("name", "what it shows", "repeats"))
        use = Note(Kind.METHOD, "Run one with: ldpbayes study NAME")
        return printing.display(Page("Studies", (Table("Studies", columns, tuple(map(tuple, list_studies()))),), (use,)))
    outputs = options.Shown(page=page)
    outputs.check()
    chosen = find_study(study)
    settings = {"jobs": jobs, "random_seed": random_seed, "replications": replications}
    try:
        table = run_study(chosen, setting, output=output, progressbar=sys.stderr.isatty(), **settings)
    except KeyboardInterrupt:
        printing.complain(
            f"ldpbayes: interrupted; finished cells are in {output}, and the same command continues from them.", style=None
        )
        raise SystemExit(130) from None
    path = output / f"{chosen.name}-{setting}.png"
    content = replace(of_study(table, chosen), again=again(options.command_line(), {}))
    save_figure(plot_study(table, chosen.x, chosen.lines, chosen.panels, title=chosen.title), path)
    printing.say(f"{content.title}.")
    outputs.show(content)
    printing.say(f"Wrote {path.with_suffix('.parquet')} and {path.name}.")
