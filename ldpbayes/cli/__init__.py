"""The command line: one command a file."""

import functools
import inspect
import os
import re
import sys

import typer

from ldpbayes import files, starting
from ldpbayes.cli import (
    associate,
    check,
    crosscheck,
    fit,
    groups,
    options,
    plan,
    printing,
    protocols,
    regress,
    scan,
    simulate,
    study,
)
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
    """Return a docstring with one line a paragraph: the terminal wraps it; python -OO leaves none."""
    return re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.getdoc(command) or "")


class _Interrupted(Exception):
    """Ctrl-C inside a command; typer would end the process without a word."""


def _interruptible(command):
    @functools.wraps(command)
    def run(*args, **kwargs):
        try:
            return command(*args, **kwargs)
        except KeyboardInterrupt:
            raise _Interrupted from None

    return run


for _module in (fit, groups, regress, associate, check, crosscheck, scan, plan, study, simulate, protocols):
    app.command(_module.__name__.rpartition(".")[2], help=_help(_module.command))(
        _interruptible(options.spread(_module.command))
    )


def main(arguments=None):
    """Run the command line.

    Every error of ldpbayes is one sentence on standard error and exit status 2, and so is what the machine refuses: memory,
    disk space, an output that nobody reads. Ctrl-C is exit status 130. No command replaces a file that it has read.
    """
    with printing.standard_streams():
        try:
            starting.started()
            _run(arguments)
        except LDPBayesError as error:
            _stop(_by_option(str(error)))
        except (_Interrupted, KeyboardInterrupt):
            printing.complain(starting.SENTENCE, style=None)
            raise SystemExit(130) from None
        except MemoryError:
            _stop("the computation needs more memory than there is; fewer draws or categories need less.")
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            _stop(f"{place}{error.strerror or error}")


#: Options that are not the argument or parameter of that name.
_OTHERS = {("plan", "p"), ("groups", "epsilon")}


def _by_option(sentence):
    """Return a sentence about an argument under the name of the option that sets it: "--ci must be …" for ci_prob."""
    name = next((word for word in options.given.get() if not word.startswith("-")), "")
    command = typer.main.get_command(app).commands.get(name)
    found = re.match(r"[a-z][\w-]*(?= (must|goes|needs|follows|stands) )", sentence)
    if command is None or found is None or (name, found[0]) in _OTHERS:
        return sentence
    names = [parameter.opts[0] for parameter in command.params if found[0].replace("-", "_") == parameter.name]
    return names[0] + sentence[found.end() :] if names and names[0].startswith("--") else sentence


def _run(arguments):
    try:
        os.getcwd()
    except OSError:
        _stop("the working folder does not exist any more; change to another one.")
    from threadpoolctl import threadpool_limits

    # Small products over two BLAS pools (NumPy's and SciPy's) lose more to waiting than a second thread gains.
    with printing.warnings_as_sentences(), files.keeping_inputs(), threadpool_limits(limits=1):
        options.given.set(tuple(sys.argv[1:] if arguments is None else arguments))
        try:
            app(args=arguments, standalone_mode=True)
        finally:
            sys.stdout.flush()


def _stop(sentence):
    printing.complain(f"ldpbayes: {sentence}")
    raise SystemExit(2) from None
