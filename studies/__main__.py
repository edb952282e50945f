"""Studies of a checkout: those of the papers at the papers' own sizes, in blocks, and our own.

python -m studies                                   list them
python -m studies risk --jobs 2 --minutes 10        continue a paper's study from what docs/studies holds
python -m studies risk --setting small              the same estimators in about a minute
python -m studies coverage --setting paper          one of our own at full size
"""

import argparse
import pathlib
import sys
from dataclasses import replace

from ldpbayes.cli import options, printing
from ldpbayes.errors import LDPBayesError
from ldpbayes.pages.about import again
from ldpbayes.pages.page import Column, Kind, Note, Page, Table
from ldpbayes.plots import save_figure
from studies import floor
from studies.base import SETTINGS
from studies.catalogue import STUDIES
from studies.figures import FULL
from studies.page import of_study
from studies.plotting import plot_study
from studies.pooled import run_full
from studies.progress import of_progress
from studies.runner import list_studies, run_study

#: Studies that are run in blocks and continued.
BLOCKS = FULL | {floor.STUDY.name: floor.STUDY}
RESULTS = pathlib.Path(__file__).parents[1] / "docs" / "studies"
SMALL = pathlib.Path("out/studies")


def main(arguments):
    """Run one study, or list them."""
    parser = argparse.ArgumentParser(
        prog="python -m studies", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = list(dict.fromkeys((*BLOCKS, *STUDIES)))
    parser.add_argument("name", nargs="?", choices=names, metavar="NAME")
    parser.add_argument("--setting", choices=SETTINGS, help="small: about a minute on one core; paper: the whole grid")
    parser.add_argument("--output", type=pathlib.Path, help=f"folder of the results (default: docs/studies, or {SMALL})")
    parser.add_argument("--jobs", "-j", type=int, default=1, help="processes; -1 for every core")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, help="of a study in blocks: about how long to go on")
    parser.add_argument("--replications", type=int, help="replications a cell, instead of the setting's")
    parser.add_argument("--page", type=pathlib.Path, help="write the result as a page (.html, .md, …)")
    asked = parser.parse_args(arguments)
    in_blocks = asked.name in BLOCKS and asked.setting != "small"
    output = asked.output or (RESULTS if in_blocks else SMALL)
    try:
        content, files = show() if asked.name is None else (run_blocks if in_blocks else run_cells)(asked, output)
    except LDPBayesError as err:
        printing.complain(f"studies: {err}")
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        printing.complain(f"studies: interrupted; the same command goes on with what is in {output}.", style=None)
        raise SystemExit(130) from None
    if asked.page is not None:
        content.save(asked.page)
    print(content.summary)
    printing.display(content)
    for path in files:
        print(f"Wrote {path}.")


def show():
    """Return the page that lists the studies, and no files."""
    columns = tuple(Column(name, name, "text") for name in ("name", "what it shows", "repeats"))
    use = Note(Kind.METHOD, "Run one with: python -m studies NAME")
    blocks = [(study.name, study.title, study.source) for study in BLOCKS.values() if study.name not in STUDIES]
    return Page("Studies", (Table("Studies", columns, (*list_studies(), *blocks)),), (use,)), ()


def run_blocks(asked, output):
    """Continue a study in blocks; return its page and the file of its results."""
    path = output / f"{asked.name}.parquet"
    settings = {"minutes": asked.minutes, "jobs": asked.jobs, "random_seed": asked.seed}
    study = BLOCKS[asked.name]
    return of_progress(study, run_full(study, path, progressbar=sys.stderr.isatty(), **settings)), (path,)


def run_cells(asked, output):
    """Run a study cell by cell; return its page and the files of its results."""
    study, setting = STUDIES[asked.name], asked.setting or "small"
    settings = {"jobs": asked.jobs, "random_seed": asked.seed, "replications": asked.replications}
    table = run_study(study, setting, output=output, progressbar=sys.stderr.isatty(), **settings)
    path = output / f"{study.name}-{setting}.png"
    save_figure(plot_study(table, study.x, study.lines, study.panels, title=study.title), path)
    return replace(of_study(table, study), again=again(options.command_line(), {})), (path.with_suffix(".parquet"), path)


if __name__ == "__main__":
    main(sys.argv[1:])
