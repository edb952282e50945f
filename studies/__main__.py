"""Studies of a checkout: those of the papers at the papers' own sizes, in blocks, and our own beside those of the package.

python -m studies                                   list them
python -m studies risk --jobs 2 --minutes 10        continue a paper's study from what docs/studies holds
python -m studies coverage --setting paper          any other study, with the options of ldpbayes study
"""

import argparse
import pathlib
import sys

from ldpbayes import cli
from ldpbayes.cli import printing
from ldpbayes.errors import LDPBayesError
from ldpbayes.study import register
from studies import floor
from studies.catalogue import STUDIES
from studies.figures import FULL
from studies.pooled import run_full
from studies.progress import of_progress

#: Studies that are run in blocks and continued.
BLOCKS = FULL | {floor.STUDY.name: floor.STUDY}
RESULTS = pathlib.Path(__file__).parents[1] / "docs" / "studies"


def main(arguments):
    """Run one study, or list them."""
    if not arguments or arguments[0] not in BLOCKS:
        register(*STUDIES.values())
        return cli.main(["study", *arguments])
    parser = argparse.ArgumentParser(
        prog="python -m studies", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=BLOCKS, metavar="NAME")
    parser.add_argument("--output", type=pathlib.Path, default=RESULTS, help="folder of the results (default: docs/studies)")
    parser.add_argument("--jobs", type=int, default=1, help="processes; -1 for every core")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, help="stop after about so many minutes and keep what is found")
    asked = parser.parse_args(arguments)
    study, path = BLOCKS[asked.name], asked.output / f"{asked.name}.parquet"
    settings = {"minutes": asked.minutes, "jobs": asked.jobs, "random_seed": asked.seed}
    try:
        cells = run_full(study, path, progressbar=sys.stderr.isatty(), **settings)
    except LDPBayesError as err:
        printing.complain(f"studies: {err}")
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        printing.complain(f"studies: interrupted; the same command continues from {path}.", style=None)
        raise SystemExit(130) from None
    content = of_progress(study, cells)
    print(content.summary)
    printing.display(content)
    print(f"Wrote {path}.")


if __name__ == "__main__":
    main(sys.argv[1:])
