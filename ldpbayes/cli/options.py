"""The options of the command line: each is declared once, and those that go together are one group.

A field of a group has the name of the argument that it sets, so that a group is arguments of one function.
"""

import contextvars
import copy
import dataclasses
import enum
import functools
import inspect
import os
import pathlib
import secrets
import shlex
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import typer

from ldpbayes import files
from ldpbayes.checks import MAX_SEED, categories_count
from ldpbayes.cli import printing
from ldpbayes.errors import ArgumentError, InfeasibleError, shown
from ldpbayes.road.methods import METHODS

#: Posterior methods that --method takes.
Method = enum.StrEnum("Method", {name: name for name in ("auto", *METHODS)})  # type: ignore[misc]

# ---- options that several commands take ------------------------------------------------------------------------------
File = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="Collection file (.toml), a Parquet or CSV file of reports (or a folder of Parquet files) that states its "
        "protocol in a column, a file that "
        "[bold]scan[/bold] wrote, or a shipped collection such as example:nigeria.",
    ),
]
By = Annotated[
    list[str] | None,
    typer.Option(
        help="A column: one result for each of its values (replaces [bold]by[/bold] of a collection file). Repeat it, or "
        "write country,day, for every combination."
    ),
]
PRIORS = (
    "[bold]jeffreys[/bold], [bold]flat[/bold], a concentration such as 0.5, or one for each category, such as 0.5,1,2. With "
    "[bold]--by[/bold] also [bold]hierarchical[/bold] (groups vary about a common distribution) and [bold]days[/bold] (each "
    "day is near the one before)."
)
Ci = Annotated[float, typer.Option("--ci", help="Probability of the equal-tailed intervals.")]
Draws = Annotated[int, typer.Option(help="Draws per chain (four chains).", min=1)]
Seed = Annotated[
    int | None, typer.Option("--seed", help="Random seed; the same seed prints the same numbers.", min=0, max=MAX_SEED - 1)
]
Top = Annotated[int, typer.Option(help="Number of rows of a table to print; files have all of them.", min=1)]
PROTOCOL = typer.Option(help="How the reports were made: a name of [bold]ldpbayes protocols[/bold]; parameters by -p.")
Parameters = Annotated[
    list[str] | None, typer.Option("--parameter", "-p", help="A protocol's parameter, name=value; may be repeated.")
]
Noncompliance = Annotated[
    list[str] | None,
    typer.Option(help="Respondents who ignore the device, name=law, such as no-sayer=no; may be repeated."),
]
Fakes = Annotated[
    bool, typer.Option("--fakes", help="Also print how many fabricated reports would lift a share or change the order.")
]
Plot = Annotated[pathlib.Path | None, typer.Option(help="Write the first figure of the page (.png, .pdf, .svg).")]

PagePath = Annotated[
    pathlib.Path | None,
    typer.Option(
        "--page",
        help="Write the result as a page (.html, .md, .tex, .csv, .parquet, .json, .txt); figures of .md and .tex "
        "go into a folder beside it.",
    ),
]


# ---- groups of options -----------------------------------------------------------------------------------------------
def spread(command: Callable) -> Callable:
    """Return a command whose parameters of a group's class are options, one for each field of the group.

    The help shows the options of a group in a box, under the name of its panel.
    """
    groups: dict[str, Any] = {}
    parameters = []
    for name, parameter in inspect.signature(command).parameters.items():
        if not dataclasses.is_dataclass(parameter.annotation):
            parameters.append(parameter)
            continue
        groups[name] = parameter.annotation
        for field in dataclasses.fields(parameter.annotation):
            held: Any = field.type
            option = copy.copy(held.__metadata__[0])
            option.rich_help_panel = groups[name].panel
            taken = {"annotation": Annotated[held.__origin__, option], "default": field.default}
            parameters.append(inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, **taken))

    @functools.wraps(command)
    def run(**options):
        for name, group in groups.items():
            options[name] = group(**{field.name: options.pop(field.name) for field in dataclasses.fields(group)})
        return command(**options)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


@dataclass(frozen=True)
class Shown:
    """What a command shows of its result."""

    panel: ClassVar[str] = "Output"

    page: PagePath = None
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False

    @property
    def shows_progress(self) -> bool:
        """Whether somebody sees a progress bar."""
        return sys.stderr.isatty() and not self.as_json

    def check(self, *others) -> None:
        """Refuse a page with a wrong ending, or files that cannot be written, before a command takes its time."""
        if self.page is not None:
            from ldpbayes.pages.renderers import check_page

            check_page(self.page)
        files.check_outputs(*others, self.page)

    def show(self, content, **written) -> None:
        """Write the files that are asked for, then print a page: the arguments of ``printing.show``."""
        printing.show(content, self.as_json, page=self.page, **written)


@dataclass(frozen=True)
class Outputs(Shown):
    """What a command shows and writes of a result that can be saved and drawn."""

    output: Annotated[pathlib.Path | None, typer.Option(help="Write the whole result as NetCDF (ArviZ reads it).")] = None
    plot: Plot = None

    def check(self, *others) -> None:
        """Refuse wrong endings too, of pictures and of a result that somebody takes for a page."""
        super().check(self.output, self.plot, *others)
        check_plot(self.plot)
        if self.output is not None:
            from ldpbayes.pages.renderers import renderers

            if self.output.suffix.lower() in {suffix for renderer in renderers().values() for suffix in renderer.suffixes}:
                name = shown(self.output.with_suffix(".nc").name)
                raise ArgumentError(
                    f"output must be a NetCDF file such as {name}, got {shown(self.output.name)}; --page writes tables."
                )

    def show(self, content, **written) -> None:
        """Write the result and the first figure too."""
        super().show(content, output=self.output, plot=self.plot, **written)


@dataclass(frozen=True)
class Sample:
    """How the respondents were sampled."""

    panel: ClassVar[str] = "Respondents"

    weight: Annotated[
        str | None,
        typer.Option("--weight", help="The column of sampling weights; the result is then a pseudo-posterior."),
    ] = None
    strata: Annotated[str | None, typer.Option(help="The column of the sample's strata.")] = None
    cluster: Annotated[str | None, typer.Option(help="The column of the sample's clusters.")] = None


@dataclass(frozen=True)
class Respondents(Sample):
    """How the respondents were sampled, and who sent several reports."""

    population: Annotated[
        str | None,
        typer.Option(help="Size of the population, for the finite population correction: 5000, or north=2000,south=3000."),
    ] = None
    by_user: Annotated[
        str | None,
        typer.Option(
            help="The column of users, where a user may have sent several reports, one a row: each user then counts once, "
            "with all reports."
        ),
    ] = None

    def stated(self) -> dict[str, Any]:
        """Return the arguments of a reader."""
        return dataclasses.asdict(self) | {"population": _population(self.population)}


@dataclass(frozen=True)
class Reports:
    """How the reports of a table were made."""

    panel: ClassVar[str] = "Reports of a table"

    protocol: Annotated[str | None, PROTOCOL] = None
    parameter: Parameters = None
    categories: Annotated[
        str | None, typer.Option(help="Labels of the private answer in order, such as no,yes, or their number.")
    ] = None
    report: Annotated[
        list[str] | None, typer.Option(help="The column of the reports; repeat it for several, such as seed and value.")
    ] = None

    @property
    def labels(self) -> list[str] | None:
        """The labels that are stated; None where only their number is, or nothing."""
        text = self.categories
        return None if text is None or text.strip().isdecimal() else [label.strip() for label in text.split(",")]

    @property
    def names(self) -> list[str]:
        """The labels, which are 0, 1, … where only their number is stated."""
        if self.categories is None:
            raise ArgumentError("categories must be labels in order or their number, such as --categories no,yes.")
        return self.labels or list(map(str, range(_count(self.categories))))

    @property
    def mechanism(self):
        """The protocol that the options state."""
        from ldpbayes.protocols import make_protocol

        if self.protocol is None:
            raise ArgumentError("protocol must say how the reports were made, such as --protocol grr -p epsilon=1.")
        return make_protocol(self.protocol, self.names, parameters(self.parameter))


# ---- what the command line itself says -------------------------------------------------------------------------------
#: The arguments of the running command, as the shell gave them.
given: contextvars.ContextVar = contextvars.ContextVar("given", default=())


def command_line(seed=None, used=None):
    """Return the line for a shell that computes the same again; ``used`` is the seed that stands for one not given."""
    extra = ["--seed", str(used)] if seed is None and used is not None else []
    return shlex.join(["ldpbayes", *map(str, given.get()), *extra])


def chosen_seed(seed):
    """Return the seed that was given, or a new one that the output can name."""
    return secrets.randbits(31) if seed is None else seed


def check_plot(plot) -> None:
    """Refuse a picture with an ending that nobody draws."""
    if plot is not None:
        from ldpbayes.plots import check_ending

        check_ending(plot)


# ---- what options say ------------------------------------------------------------------------------------------------
def located(file):
    """Return the path that a FILE argument names: example:NAME is a file that comes with the package."""
    prefix, _, name = file.partition(":")
    if prefix != "example":
        return file
    from ldpbayes.examples import path_of

    return str(path_of(name))


def read(file, by=None, **sample):
    """Return the Collection or, where columns split its reports, the Cells that a FILE argument names."""
    from ldpbayes.sources import READERS, read_collection, read_summaries
    from ldpbayes.sources.channels import read_stated
    from ldpbayes.sources.scanning.summary_files import is_summaries

    file, by = located(file), columns(by)
    if is_summaries(file):
        if any(value is not None for value in sample.values()):
            raise ArgumentError("weights must be left out, and so must by-user: a file of summaries has no respondents.")
        found = read_summaries(file)
        return found.added(by) if by else found
    if os.path.isdir(file) or pathlib.Path(file).suffix.lower() in READERS:  # reports that state their protocol
        return read_stated(file, by=by, **sample)
    return read_collection(file, by=by, **sample)


def columns(texts):
    """Return the names of repeated options that may each name several columns, or None."""
    names = [name.strip() for text in texts or () for name in text.split(",") if name.strip()]
    return names or None


#: What --population must be.
SIZES = "a number, or stratum=number,…"


def _population(text):
    """Return the number, or the mapping by stratum, that a text of --population states: 5000, or north=2000,south=3000."""
    if text is None:
        return None
    if "=" not in text:
        return levels(text, "population", SIZES)[0]
    sizes: dict = {}
    for part in text.split(","):
        name, _, size = part.partition("=")
        if name.strip() in sizes:
            raise ArgumentError(f"population must name every stratum once, got {shown(name.strip())} twice.")
        (sizes[name.strip()],) = levels(size, "population", SIZES)
    return sizes


def _count(text):
    """Return the number of categories that a text writes."""
    return categories_count(int(text) if len(text) < 20 else 10**20, "categories")


def levels(text, name, rule="numbers separated by commas"):
    """Return the numbers that a text such as ".5,.95" writes."""
    try:
        return [float(part) for part in text.strip(",").split(",")]
    except ValueError:
        raise ArgumentError(f"{name} must be {rule}, got {shown(text)}.") from None


def prior(text):
    """Return the prior that a text of --prior names."""
    from ldpbayes.priors import parse_prior

    return parse_prior(text)


def named_laws(pairs):
    """Return the laws by name of name=law texts."""
    laws = {}
    for pair in pairs or ():
        name, equals, law = (part.strip() for part in pair.partition("="))
        if not equals or name in laws:
            raise ArgumentError(f"noncompliance must be name=law, each name once, got {shown(pair)}.")
        laws[name] = law
    return laws


def fakes_table(collection):
    """Return the table of fabricated reports needed, or refuse cells and designs of which that is not known."""
    from ldpbayes.pages.check import fakes_table as table_of

    table = table_of(collection.single("fakes"))
    if table is None:
        raise InfeasibleError("The number of fabricated reports is not known for this design.")
    return table


def parameters(pairs):
    """Return a dict from name=value texts; values are TOML, fractions and logarithms where they parse, else text."""
    from ldpbayes.sources.numbers import as_numbers

    found = {}
    for pair in pairs or []:
        name, equals, text = pair.partition("=")
        if not equals:
            raise ArgumentError(f"parameter must be name=value, got {shown(pair)}.")
        if name.strip() in found:
            raise ArgumentError(f"parameter {shown(name.strip())} must be given once.")
        found[name.strip()] = _value(text)
    return as_numbers(found)


def _value(text):
    """Return the TOML value that a text writes, or the text."""
    files.check_structure(f"value = {text}", "parameter")
    try:
        document = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    if set(document) != {"value"}:  # a line break followed by another key
        raise ArgumentError(f"parameter must be name=value with one value, got {shown(text)}.")
    return document["value"]
