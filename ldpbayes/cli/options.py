"""Arguments and options that several commands take."""

import contextvars
import enum
import math
import os
import pathlib
import secrets
import shlex
import tomllib
from typing import Annotated

import typer

from ldpbayes import files
from ldpbayes.checks import MAX_SEED
from ldpbayes.errors import ArgumentError, InfeasibleError, shown
from ldpbayes.fitting import METHODS

#: Posterior methods that --method takes.
Method = enum.StrEnum("Method", {name: name for name in ("auto", *METHODS)})  # type: ignore[misc]

File = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="Collection file (.toml), a Parquet or CSV file of reports (or a folder of Parquet files) that states its "
        "protocol in a column, a file that "
        "[bold]scan[/bold] wrote, or a shipped collection such as example:nigeria.",
    ),
]
Prior = Annotated[
    str,
    typer.Option(
        help="Prior of P: [bold]jeffreys[/bold], [bold]flat[/bold], a concentration such as 0.5, or one for each category, "
        "such as 0.5,1,2. With [bold]--by[/bold] also [bold]hierarchical[/bold] (groups vary about a common distribution) "
        "and [bold]days[/bold] (each day is near the one before)."
    ),
]
FitPrior = Annotated[
    str,
    typer.Option(
        help="Prior of P: [bold]default[/bold] (learnt from 20 categories on, else Jeffreys'; the output says which and "
        "why), [bold]jeffreys[/bold], [bold]flat[/bold], [bold]learnt[/bold] (a Dirichlet whose concentration the reports "
        "decide), [bold]smooth[/bold] (ordered categories), a concentration such as 0.5, or one for each category, such as "
        "0.5,1,2. With [bold]--by[/bold] also [bold]hierarchical[/bold] (groups vary about a common distribution) and "
        "[bold]days[/bold] (each day is near the one before)."
    ),
]
Seed = Annotated[
    int | None, typer.Option(help="Random seed; the same seed prints the same numbers.", min=0, max=MAX_SEED - 1)
]
Draws = Annotated[int, typer.Option(help="Draws per chain (four chains).", min=1)]
AsJSON = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
PagePath = Annotated[
    pathlib.Path | None,
    typer.Option(
        "--page",
        help="Write the result as a page (.html, .md, .tex, .csv, .parquet, .json, .txt); figures of .md and .tex go into a "
        "folder beside it.",
    ),
]
Parameters = Annotated[
    list[str] | None, typer.Option("--parameter", "-p", help="A protocol's parameter, name=value; may be repeated.")
]


#: The arguments of the running command, as the shell gave them.
given: contextvars.ContextVar = contextvars.ContextVar("given", default=())


def command_line(seed=None, used=None):
    """Return the line for a shell that computes the same again; ``used`` is the seed that stands for one not given."""
    extra = ["--seed", str(used)] if seed is None and used is not None else []
    return shlex.join(["ldpbayes", *map(str, given.get()), *extra])


def chosen_seed(seed):
    """Return the seed that was given, or a new one that the output can name."""
    return secrets.randbits(31) if seed is None else seed


def check_page(page):
    """Refuse a page with a wrong suffix, or at a place that cannot be written, before a command takes its time."""
    if page is not None:
        from ldpbayes.pages.renderers import check_page as check

        check(page)


def check_outputs(output, plot, page, *, saved=True):
    """Refuse outputs with a wrong ending, or where they cannot be written, before a command takes its time.

    Parameters
    ----------
    output, plot, page : path, optional
    saved : bool
        Whether the output is a result as NetCDF, and not a table.
    """
    check_page(page)
    if plot is not None:
        from ldpbayes.plots import check_ending

        check_ending(plot)
    files.check_outputs(output, plot, page)
    if output is not None and saved:
        from ldpbayes.pages.renderers import renderers

        if output.suffix.lower() in {suffix for renderer in renderers().values() for suffix in renderer.suffixes}:
            name = shown(output.with_suffix(".nc").name)
            raise ArgumentError(
                f"output must be a NetCDF file such as {name}, got {shown(output.name)}; --page writes tables."
            )


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

    file = located(file)
    if is_summaries(file):
        if any(value is not None for value in sample.values()):
            raise ArgumentError("weights must be left out, and so must by-user: a file of summaries has no respondents.")
        found = read_summaries(file)
        return found.added(by) if by else found
    if os.path.isdir(file) or pathlib.Path(file).suffix.lower() in READERS:  # reports that state their protocol
        return read_stated(file, by=by, **sample)
    return read_collection(file, by=by, **sample)


def population_of(text):
    """Return the number, or the mapping by stratum, that a text of --population states: 5000, or north=2000,south=3000."""
    if text is None:
        return None
    if "=" not in text:
        return _number(text)
    sizes: dict = {}
    for part in text.split(","):
        name, _, size = part.partition("=")
        if name.strip() in sizes:
            raise ArgumentError(f"population must name every stratum once, got {shown(name.strip())} twice.")
        sizes[name.strip()] = _number(size)
    return sizes


def count_of(text, name):
    """Return the whole number of categories that a text writes."""
    from ldpbayes.checks import categories_count

    return categories_count(int(text) if len(text) < 20 else 10**20, name)


def _number(text):
    try:
        return float(text)
    except ValueError:
        raise ArgumentError(f"population must be a number, or stratum=number,…, got {shown(text)}.") from None


def prior(text):
    """Return the prior that a text of --prior names."""
    from ldpbayes.priors import parse_prior

    return parse_prior(text)


def noncompliant(collection, belief, pairs, beta):
    """Return (collection, prior) with the respondents who ignore the device that name=law texts and b,c state."""
    from ldpbayes.priors import DEFAULT, Compliance

    belief = "jeffreys" if belief == DEFAULT and beta is not None else belief
    laws = named_laws(pairs)
    if laws:
        collection = collection.with_noncompliers(laws)
    if beta is None:
        return collection, belief
    if not collection.n_laws:
        raise ArgumentError("noncompliance-prior needs respondents who ignore the device; state them with --noncompliance.")
    try:
        b, c = (float(part) for part in beta.split(","))
    except ValueError:
        b = c = math.nan
    if not (0 < b < math.inf and 0 < c < math.inf):
        raise ArgumentError(f"noncompliance-prior must be two numbers above 0, the b,c of a Beta prior, got {shown(beta)}.")
    return collection, Compliance(belief, (b, c))


def named_laws(pairs):
    """Return the laws by name of name=law texts."""
    laws = {}
    for pair in pairs or ():
        name, equals, law = (part.strip() for part in pair.partition("="))
        if not equals or name in laws:
            raise ArgumentError(f"noncompliance must be name=law, each name once, got {shown(pair)}.")
        laws[name] = law
    return laws


def say_noncompliance(collection):
    """Print to standard error what the design can say of the share who ignore the device, before the fit takes its time."""
    from ldpbayes.collections import Collection
    from ldpbayes.posteriors.base import scaled

    if isinstance(collection, Collection) and collection.n_laws:
        found = scaled(collection).noncompliance()
        if found.identified:  # otherwise fit refuses with that sentence, or the user stated a prior
            typer.echo(found.sentence, err=True)


def fakes_table(collection):
    """Return the table of fabricated reports needed, or refuse cells and designs of which that is not known."""
    from ldpbayes.collections import Collection
    from ldpbayes.pages.check import fakes_table as table_of

    if not isinstance(collection, Collection):
        raise ArgumentError("fakes needs a single collection; leave out --by.")
    table = table_of(collection)
    if table is None:
        raise InfeasibleError("The number of fabricated reports is not known for this design.")
    return table


def contamination(collection, shares, question, channel=None):
    """Return the range of estimates under shares of fakes that a text such as 0.01,0.05 states; None where it is None."""
    from ldpbayes.answers import contamination_hull
    from ldpbayes.collections import Collection

    if shares is None:
        for name, given in (("conclusion", question), ("channel", channel)):
            if given is not None:
                raise ArgumentError(f"{name} goes with fake-share, which states how many reports may be fake.")
        return None
    if not isinstance(collection, Collection):
        raise ArgumentError("fake-share needs a single collection; leave out --by.")
    try:
        stated = [float(part) for part in shares.split(",")]
    except ValueError:
        raise ArgumentError(f"fake-share must be numbers separated by commas, got {shown(shares)}.") from None
    return contamination_hull(collection, question, share=stated, channel=channel)


def parameters(pairs):
    """Return a dict from name=value texts; values are TOML where they parse, else text."""
    found = {}
    for pair in pairs or []:
        name, equals, text = pair.partition("=")
        if not equals:
            raise ArgumentError(f"parameter must be name=value, got {shown(pair)}.")
        if name.strip() in found:
            raise ArgumentError(f"parameter {shown(name.strip())} must be given once.")
        found[name.strip()] = _value(text)
    return found


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
