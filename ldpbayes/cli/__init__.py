"""The command line: one command a file, found by its name; nothing of NumPy is imported before the command is known."""

import functools
import gc
import importlib
import inspect
import os
import re
import sys

import typer

from ldpbayes import files, starting
from ldpbayes.cli import options, printing, settings
from ldpbayes.errors import LDPBayesError

#: Commands in the order of the help; the module of one has its name, with underscores.
COMMANDS = (
    *("fit", "private-groups", "regress", "associate", "check", "crosscheck", "scan", "plan", "simulate"),
    "protocols",
)
#: Time: Objects after which a command looks for cycles: what it imports makes a hundred thousand, and none of them is
#: garbage.
_ALLOCATED = 100_000
_ABOUT = (
    "Bayesian inference from privatized categorical data: local-differential-privacy reports and randomized-response "
    "surveys.\n\n"
    "Start with data that ship:\n\n"
    "  [bold]ldpbayes fit example:nigeria[/bold]  estimates the share of yes from 2,435 randomized reports\n\n"
    "  [bold]ldpbayes check example:wada[/bold]  asks whether reports can have come from their design\n\n"
    "  [bold]ldpbayes plan --n-categories 16 --epsilon 1 --error 0.01 --kind half_width[/bold]  finds the protocol that "
    "needs the fewest users for 95 % intervals of at most ± 1 percentage point\n\n"
    "For reports of your own: [bold]ldpbayes fit survey.csv --protocol warner -p p=0.7 --categories no,yes --report "
    "answer[/bold]. A collection file, survey.toml, states these once; --set KEY=VALUE sets a key of it for one run. "
    "[bold]ldpbayes COMMAND --help[/bold] has examples that run as printed."
)


#: Display: Characters of a line of an example, so that a terminal of 80 columns does not wrap it.
WIDTH = 70


class _Interrupted(Exception):
    """Ctrl-C inside a command; typer would end the process without a word."""


def shell(*names: str) -> typer.Typer:
    """Return the command line with some of its commands in full; the others have their descriptions only.

    Parameters
    ----------
    *names : str
        All by default.
    """
    app = typer.Typer(
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(help=_ABOUT)(_version)
    for name in COMMANDS:
        command = importlib.import_module(f"ldpbayes.cli.{name.replace('-', '_')}").command
        paragraphs = re.split(r"\n\s*\n", inspect.getdoc(command) or "")  # python -OO leaves none
        text = "\n\n".join(map(_in_lines, paragraphs))
        app.command(name, help=text)(_running(command, name) if not names or name in names else lambda: None)
    return app


def _in_lines(paragraph):
    """Return a paragraph in one line, which the terminal wraps; a long command in lines that a shell joins again."""
    text = " ".join(paragraph.split("\n"))
    if not text.startswith("  ldpbayes "):
        return text
    lines = [""]
    for word in re.findall(r'-\S+ +(?!-)(?:"[^"]*"|\S+)|"[^"]*"|\S+', text):  # an option stays with its value
        if lines[-1] and len(lines[-1]) + len(word) > WIDTH:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return "  " + " \\\n      ".join(lines)


def _print_version(asked: bool):
    if asked:
        import ldpbayes

        typer.echo(f"ldpbayes {ldpbayes.__version__}")
        raise typer.Exit


def _version(
    version: bool = typer.Option(
        False, "--version", help="Print the version and exit.", is_eager=True, callback=_print_version
    ),
):
    """Take the options that stand before any command."""


def _running(command, name):
    """Return a command with its options, which ends with the status that the command returns.

    It runs with one thread for BLAS, and turns Ctrl-C into an exception of ours.
    """
    command = options.spread(command, name)

    @functools.wraps(command)
    def run(**settings):
        try:
            import scipy.linalg  # brings both BLAS pools, NumPy's and SciPy's
            from threadpoolctl import threadpool_limits

            starting.started()  # what loads until now cannot be interrupted halfway and go on
            # Small products over two pools lose more to waiting than a second thread gains.
            with printing.warnings_as_sentences(), files.keeping_inputs(), threadpool_limits(limits=1):
                status = command(**settings)
        except KeyboardInterrupt:
            raise _Interrupted from None
        raise typer.Exit(status or 0)

    return run


def _parsed(name):
    """Return the command line with one command in full, which converts what is neither text nor a default alone.

    typer converts everything by pydantic, which takes longer to load than a small fit takes.
    """
    group = typer.main.get_command(shell(name))
    command = group.commands.get(name)
    for part in filter(None, (group, command)):
        part.get_params = functools.partial(_sparing, part.get_params)
    if command is not None:
        command.parse_args = functools.partial(_hinting, command, command.parse_args)
    return group


def _hinting(command, parse, context, arguments):
    """Parse the arguments; of an option that is a key of --set, or a parameter of a protocol, say how that is given."""
    try:
        return parse(context, arguments)
    except Exception as error:
        name = vars(error).get("option_name", "").lstrip("-").replace("-", "_")
        helps = {parameter.name: vars(parameter).get("help") or "" for parameter in command.params}
        if name in [parameter.name for parameter in command.params if parameter.param_type_name == "argument"]:
            error.possibilities = [f"{name.upper()}, by its place"]
        elif "assignments" in helps and (key := settings.named(name, command.name)):
            error.possibilities = [f"--set {key}=…"]
        elif "parameter" in helps and (len(name) == 1 or (name and not error.possibilities)):
            error.possibilities = [f"-p {name}=…"]
        raise


def _sparing(parameters_of, context):
    parameters = parameters_of(context)
    for parameter in parameters:
        if vars(parameter).get("is_flag"):
            parameter.metavar = ""  # a flag takes no value
        if "process_value" not in vars(parameter):
            parameter.process_value = functools.partial(_converted, parameter, parameter.process_value)
    return parameters


def _converted(parameter, convert, context, value):
    """Return the value of an option or an argument as its command takes it."""
    stated = value is not None and value is not parameter.default
    if stated and parameter.name == "n":
        options.people(str(value), "--users")
    if (stated or parameter.required) and not (stated and options.is_text(parameter.name, context.info_name or "")):
        return convert(context, value)
    return value


def main(arguments=None):
    """Run the command line.

    Every error of ldpbayes is one sentence on standard error and exit status 2, and so is what the machine refuses: memory,
    disk space. Ctrl-C is exit status 130, and an output that nobody reads 141. No command replaces a file that it has read.
    """
    gc.set_threshold(_ALLOCATED)
    with printing.standard_streams():
        try:
            try:
                os.getcwd()
            except OSError:
                _stop("the working folder does not exist any more; change to another one.")
            arguments = tuple(sys.argv[1:] if arguments is None else arguments)
            options.given.set(arguments)
            try:
                _parsed(_named(arguments)).main(args=list(arguments), prog_name="ldpbayes")
            finally:
                sys.stdout.flush()
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


def _named(arguments):
    """Return the name of the command, or the word in its place."""
    return next((word for word in arguments if not word.startswith("-")), "none")


#: Arguments that two options say, or a name of another thing than the option of that name.
_OTHERS = {("plan", "p")}


#: What sentences advise in Python's words, and the same with options of a table of reports.
_ADVICE = {
    "by report=…": "by --report",
    "(categories=…)": "(--categories)",
    "Scan again with keep=": "Scan again with --keep ",
    "more draws help: draws=": "more draws help: --draws ",
    "say missing=": "say --set missing=",
}
#: The same of what no collection file says.
_ADVICE_ON_ROWS = {
    'with copies="add"': "with --copies add",
    'with bad_rows="skip"': "with --bad-rows skip",
    "with bad_rows='skip'": "with --bad-rows skip",
}


def _by_option(sentence):
    """Return a sentence about an argument under the name of the option that sets it: "--ci must be …" for ci_prob."""
    named = any(word.lower().endswith(".toml") for word in options.given.get())  # a collection file has keys of these names
    for python, option in (_ADVICE_ON_ROWS if named else _ADVICE | _ADVICE_ON_ROWS).items():
        sentence = sentence.replace(python, option)
    name = _named(options.given.get())
    command = typer.main.get_command(shell(name)).commands.get(name)
    match = re.search(r"(?:^|(?<=: ))[a-z][\w-]*(?= (must|goes|needs|follows|stands) )", sentence)
    if command is None or match is None or (name, match[0]) in _OTHERS:
        return sentence
    names = [parameter.opts[0] for parameter in command.params if match[0].replace("-", "_") == parameter.name]
    option = names and names[0].startswith("--")
    return sentence[: match.start()] + names[0] + sentence[match.end() :] if option else sentence


def _stop(sentence):
    printing.complain(f"ldpbayes: {sentence}")
    raise SystemExit(2) from None
