"""The command line: one command a file."""

import inspect
import re

import typer

from ldpbayes.cli import check, crosscheck, fit, plan, printing, protocols, simulate, study
from ldpbayes.errors import LDPBayesError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help=(
        "Bayesian inference from privatised categorical data: local-differential-privacy reports and randomised-response "
        "surveys.\n\nStart with [bold]ldpbayes fit example:nigeria[/bold]. A collection file names the categories, the "
        "protocol with its parameters, and a CSV of tallies or reports; [bold]ldpbayes protocols[/bold] lists the protocols."
    ),
)


def _help(command):
    """Return a docstring with one line a paragraph: the terminal wraps it."""
    return re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.getdoc(command))


for _module in (fit, check, crosscheck, plan, study, simulate, protocols):
    app.command(_module.__name__.rpartition(".")[2], help=_help(_module.command))(_module.command)


def main(arguments=None):
    """Run the command line; every error of ldpbayes is one sentence on standard error and exit status 2."""
    from threadpoolctl import threadpool_limits

    # Small products over two BLAS pools (NumPy's and SciPy's) lose more to waiting than a second thread gains.
    with printing.warnings_as_sentences(), threadpool_limits(limits=1):
        try:
            app(args=arguments, standalone_mode=True)
        except LDPBayesError as error:
            printing.complain(f"ldpbayes: {error}")
            raise SystemExit(2) from None
        except KeyboardInterrupt:
            printing.complain("ldpbayes: interrupted; no file was changed.", style=None)
            raise SystemExit(130) from None
