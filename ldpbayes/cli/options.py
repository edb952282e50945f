"""The options of the command line: each is declared once, by the name of the argument that it sets; commands name theirs."""

import collections
import contextlib
import contextvars
import dataclasses
import functools
import inspect
import os
import pathlib
import re
import shlex
import sys
import tomllib
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from ldpbayes import files
from ldpbayes.errors import ArgumentError, DataError, shown


def _option(kind: Any, help: str, *flags: str, **settings: Any) -> tuple:
    return kind, functools.partial(typer.Option, *flags, help=help, **settings)


def _argument(kind: Any, metavar: str, help: str) -> tuple:
    return kind, functools.partial(typer.Argument, metavar=metavar, help=help)


_MANY, _TEXT, _PATH = list[str] | None, str | None, pathlib.Path | None
_TABLE = "Table with a row per {} (.csv, .parquet, .jsonl or .arrow)"
#: Every option, by panel of the help and by the name of the argument that it sets. What a command means by a name that
#: others use differently stands as "name of-command".
PANELS: dict[str, dict[str, tuple]] = {
    "": {
        "file": _argument(
            str,
            "FILE",
            "Collection file (.toml), a Parquet or CSV file of reports (or a folder of Parquet files) that states its "
            "protocol in a column or with --protocol beside it, - for such a CSV file on standard input, a file that "
            "[bold]scan[/bold] wrote, or a shipped one, such as example:nigeria.",
        ),
        "file of-regress": _argument(
            str,
            "FILE",
            _TABLE.format("report") + ", collection file (.toml), or a shipped one: example:nigeria_cells.",
        ),
        "file of-private-groups": _argument(str, "FILE", _TABLE.format("record") + "."),
        "file of-simulate": _argument(
            _PATH,
            "[OUT]",
            "File to write: OUT.toml is a collection file, with its CSV beside it; OUT.parquet has a row a user.",
        ),
        "sources": _argument(list[str], "FILES", "Parquet files of reports, a folder of them, or a quoted pattern."),
        "formula": _argument(str, "FORMULA", 'Such as "answer ~ age + C(sex) + (1 | county)".'),
        "protocol_name": _argument(
            _TEXT, "NAME", "A protocol, such as crosswise, to read what it is; without it all are listed."
        ),
        "by": _option(
            _MANY,
            "Columns: one result for each combination of their values, such as country,day (replaces [bold]by[/bold] of a "
            "collection file). May be repeated.",
        ),
        "pilot_by": _option(
            _MANY,
            "Columns of --by whose cells share a pilot. Cells add up only where they do: [bold]country[/bold] if the days "
            "of a country will be added up.",
        ),
        "assignments": _option(
            _MANY,
            "Set a key of a collection file, key=value; may be repeated. Columns of the sample: weights, strata, "
            "cluster, by_user (users who sent several reports); population_size=5000 or population_size.north=2000. Those "
            "who gave no answer: missing=LABEL, for each label, or missing= for empty entries. Those who ignore the device: "
            "noncompliance.no-sayer=no; noncompliance_prior=1,9 is a Beta prior of their share. Those who deny: "
            "deniers.of=yes, deniers.say=no and deniers.channel=direct; deniers_prior=1,1 is that of theirs.",
            "--set",
        ),
        **dict.fromkeys(
            ("assignments of-check", "assignments of-crosscheck"),
            _option(
                _MANY,
                "Columns of the sample, key=value: weights, strata, cluster, by_user (users who sent several reports). May "
                "be repeated. Those who gave no answer: missing=LABEL, for each label, or missing= for empty entries.",
                "--set",
            ),
        ),
        "assignments of-scan": _option(
            _MANY, "A label of those who gave no answer: missing=LABEL. They are counted, as are empty entries.", "--set"
        ),
        "assignments of-regress": _option(
            _MANY,
            "Columns of the sample, key=value: weights, strata, cluster. May be repeated. Those who deny, in a collection "
            "file: deniers.of=yes, deniers.say=no, deniers.channel=direct; deniers.formula=age for their share.",
            "--set",
        ),
        "assignments of-private-groups": _option(_MANY, "The column of survey weights: weights=NAME.", "--set"),
        "assignments of-plan": _option(
            _MANY,
            "Set an assumption, key=value; may be repeated. p: [bold]uniform[/bold] (the worst case for l2), "
            "[bold]jeffreys[/bold] or [bold]flat[/bold] (averaged over that prior), shares such as 0.9,0.1, or a CSV of "
            "true counts with columns value and count. target: distribution (P) or frequency (F of these users). estimator: "
            "mle (what MLE and posterior attain) or oracle. noncompliance.no-sayer=no: respondents who ignore the device; "
            "gamma: their share, 0.1 by default. deniers.of=yes, deniers.say=no, deniers.delta=0.3: some are asked "
            "directly, and of those this share deny.",
            "--set",
        ),
        "value": _option(str, "The column of the open value: a number, or an open category."),
        "unit": _option(str, "Unit of the value in tables and figures, such as ms."),
    },
    "Reports of a table": {
        "protocol": _option(
            _TEXT, "How the reports were made: a name of [bold]ldpbayes protocols[/bold]; parameters by -p."
        ),
        "protocol of-plan": _option(
            _MANY,
            "Only this one; may be repeated. Any name of [bold]ldpbayes protocols[/bold]; without it grr, subset, oue, sue, "
            "olh, hadamard and block_design are compared. Parameters may follow: olh:seeds=4096.",
        ),
        "parameter": _option(_MANY, "A protocol's parameter, name=value; may be repeated.", "--parameter", "-p"),
        "categories": _option(
            _TEXT, "Labels of the private answer in order, such as no,yes, their number, or @FILE with a label a line."
        ),
        "report": _option(_MANY, "The column of the reports, or several, such as seed,value."),
        "count": _option(_TEXT, "The column of counts."),
        "rate_column": _option(
            _TEXT, "The column of the probability with which the group was replaced by a uniformly drawn one."
        ),
        "epsilon_column": _option(_TEXT, "The column of the ε of each report; goes with --protocol."),
        "bitorder": _option(str, "How bits of sets stand: [bold]big[/bold] has the first category first, little last."),
    },
    "Answers": {
        "prior": _option(
            str,
            "Prior of P: [bold]default[/bold] (learnt from 20 categories on, else Jeffreys'; the output says which and "
            "why), [bold]learnt[/bold] (a Dirichlet whose concentration the reports decide), [bold]smooth[/bold] (ordered "
            "categories), [bold]floor[/bold] (learnt, over a floor that all categories nearly share), "
            "[bold]jeffreys[/bold], [bold]flat[/bold], a concentration such as 0.5, or one for each category, such as "
            "0.5,1,2. With [bold]--by[/bold] also [bold]hierarchical[/bold] (groups vary about a common distribution) "
            "and [bold]days[/bold] (each day is near the one before).",
        ),
        "prior of-associate": _option(
            str,
            "[bold]loglinear[/bold]: interactions are small unless the reports say otherwise; or jeffreys, flat, a "
            "concentration: a Dirichlet over the cells.",
        ),
        "prior of-regress": _option(
            float | None, "Prior sd of the coefficients: log odds for one sd of the column; 2.5 by default."
        ),
        "method": _option(
            str,
            "[bold]auto[/bold] picks a posterior method and explains its choice; or exact, quadrature, surrogate, "
            "pair_slice, weighted, hmc, nuts.",
        ),
        "method of-regress": _option(str, "auto, weighted, hmc, nuts, or mle for maximum likelihood."),
        "method of-private-groups": _option(str, "auto, smooth, rounding or recipe."),
        "exclude": _option(_MANY, "Methods that auto must not choose."),
        "names": _option(
            _MANY,
            "Names of the attributes in the order of the labels; by default those of the file's derived margins, else A, B, "
            "….",
            "--name",
        ),
        "order": _option(
            int | None,
            "Most attributes that interact in the loglinear prior (3 by default); 1 is independence.",
            min=1,
        ),
        "separator": _option(str, "What separates the levels in the labels of the cells."),
        "family": _option(_TEXT, "Of the outcome, where a private answer is a predictor: normal, bernoulli or poisson."),
        "private": _option(_TEXT, "The formula of that private answer; by default it has the same covariates."),
        "reference": _option(_TEXT, "The category that coefficients are log odds against; the first by default."),
        "link": _option(str, "Of two categories: logit, probit, cloglog or cauchit."),
        "missing": _option(str, "Rows without a covariate or a report: refuse or drop."),
        "quantiles": _option(str, "Levels of the quantiles."),
        "target": _option(str, "distribution: the population; frequency: these very records."),
        "bins": _option(int | None, "Number of bins; by default 100 to 200, by the number of records."),
        "ci_prob": _option(float, "Probability of the equal-tailed intervals.", "--ci"),
        "draws": _option(
            int | None,
            "Draws per chain (four chains), 1000 by default; 0, where a fit needs none, gives moments and intervals alone.",
            min=0,
        ),
        "draws of-private-groups": _option(int, "Draws per chain (four chains).", min=1),
        "random_seed": _option(int | None, "Random seed; the same seed prints the same numbers.", "--seed", min=0),
    },
    "Tests and fake reports": {
        "size": _option(float, "Size of the tests: probability with which honest reports may be flagged."),
        "fakes": _option(bool, "Also print how many fabricated reports would lift a share or change the order.", "--fakes"),
        "share": _option(
            _TEXT,
            "Also print the range of the estimates if at most such shares of the reports are fake, such as 0.01,0.05.",
            "--fake-share",
        ),
        "question": _option(
            _TEXT,
            "A category, or a conclusion such as 'yes > 0.2' or 'apples > pears': --fake-share then gives its range and the "
            "share of fakes that turns it.",
            "--conclusion",
        ),
        "channel": _option(_TEXT, "The channel whose reports --fake-share is about, for a collection with several."),
    },
    "Three of these give the fourth": {
        "n_categories": _option(int | None, "Number of categories.", "--categories", min=2),
        "epsilon": _option(float | None, "Privacy level ε in nats."),
        "n": _option(float | None, "Number of reports.", "--users", "-n"),
        "error": _option(float | None, "Target error; --kind defines it."),
        "after": _option(_PATH, "The result of an earlier wave (.nc): plan another one; ε, and users or error, are given."),
        "kind": _option(
            str,
            "[bold]l2[/bold]: expected sum of squared errors; [bold]l1[/bold]: of absolute errors; [bold]max[/bold]: no "
            "category off by more; [bold]half_width[/bold]: half an interval, of the widest category.",
        ),
        "groups": _option(
            int | None,
            "Compare this many groups of equal size: interval widths and differences.",
            "--n-groups",
            min=2,
        ),
        "delta": _option(
            float | None, "Difference between two groups' shares: the power to find it, at size 1 − ci of the test."
        ),
        "power": _option(float | None, "Instead of --error: find --delta with this probability, such as 0.8."),
        "fakes of-plan": _option(
            float | None,
            "Share of crafted reports, such as 0.05: what they do to a share of 0.01.",
            "--fake-share",
        ),
    },
    "The population": {
        "truth": _option(str, "True population: zipf, geometric, dirichlet, or a file with columns value and count."),
        "n_categories of-simulate": _option(int | None, "Number of categories.", "--categories", min=2),
        "n of-simulate": _option(int | None, "Number of users; without it everyone in a population file.", "--users", min=1),
    },
    "Reading the files": {
        "sample": _option(
            int | None,
            "Keep up to so many reports of each cell by chance, to check the summary; 10,000 where epsilon is above 1.5, "
            "else 0.",
            min=0,
        ),
        "keep": _option(
            int | None,
            "Cells with fewer reports keep all of them. By default 0 up to epsilon 1.5, 10,000 up to 2, then 2,000 a "
            "category.",
            min=0,
        ),
        "jobs": _option(int, "Threads that read the files.", "--jobs", "-j"),
        "spark": _option(
            _TEXT,
            "Let Spark's workers read the files, such as local[4] or spark://host:7077; they must see the same paths.",
            metavar="MASTER",
        ),
        "bad_rows": _option(
            str,
            "Rows that hold no report: [bold]refuse[/bold] the file, or [bold]skip[/bold] them, counted by reason.",
        ),
        "copies": _option(
            str,
            "Files with the same bytes, or summaries of the same files: [bold]refuse[/bold] them, or [bold]add[/bold] them.",
        ),
        "quarantine": _option(_PATH, "CSV file for the rows that --bad-rows skip leaves out, with place, reason and text."),
        "checkpoint": _option(_PATH, "File for the state of the scan: the same command goes on where a killed one stopped."),
    },
    "Output": {
        "explain": _option(
            bool,
            "Print all that is known: how the method was chosen, its checks, the point estimates. Otherwise five lines of "
            "notes follow the tables.",
            "--explain",
        ),
        "top": _option(int | None, "Number of rows of a table to print, 40 by default; files have all of them.", min=1),
        "top of-associate": _option(int | None, "Number of pairs whose shares are printed, 6 by default.", min=1),
        "page": _option(
            _PATH,
            "Write the result as a page (.html, .md, .tex, .csv, .parquet, .json, .txt); figures of .md and .tex go into a "
            "folder beside it.",
        ),
        "as_json": _option(bool, "Print one JSON object instead of tables.", "--json"),
        "output": _option(_PATH, "Write the whole result as NetCDF (ArviZ reads it)."),
        "output of-private-groups": _option(_PATH, "Write every answer as a row (.csv or .parquet)."),
        "output of-scan": _option(_PATH, "Write the cells, one row each (.parquet); [bold]fit[/bold] reads the file."),
        "output of-simulate": _option(_PATH, "The file to write, instead of the argument OUT."),
        "plot": _option(_PATH, "Write the first figure of the page (.png, .pdf, .svg)."),
    },
}
_OPTIONS = {name: (panel, *entry) for panel, options in PANELS.items() for name, entry in options.items()}


class OptionGroup(dict):
    """Options that a command passes on together, with their defaults: the arguments of a function of the package."""


def spread(command: Callable, name: str) -> Callable:
    """Return a command for typer: its arguments, and the fields of option groups and dataclasses, are options."""
    groups: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    for key, parameter in inspect.signature(command).parameters.items():
        if dataclasses.is_dataclass(parameter.annotation):
            fields = {field.name: field.default for field in dataclasses.fields(parameter.annotation) if field.init}
            groups[key] = parameter.annotation, fields
        elif isinstance(parameter.default, OptionGroup):
            groups[key] = OptionGroup, parameter.default
        defaults |= groups[key][1] if key in groups else {key: parameter.default}
    panels = collections.Counter(_of(option, name)[0] for option in defaults)
    parameters = [_declared(option, name, default, panels) for option, default in defaults.items()]

    @functools.wraps(command)
    def run(**options):
        for key, (make, names) in groups.items():
            options[key] = make(**{option: options.pop(option) for option in names})
        return command(**options)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def is_text(key: str, name: str) -> bool:
    """Return whether the option of a name is a text, which stays as it was typed."""
    return _of(key, name)[1] in (str, _TEXT)


def _of(key, name):
    """Return (panel, kind, maker) of an option."""
    return _OPTIONS.get(f"{key} of-{name}") or _OPTIONS.get(key, ("", None, None))


def _declared(key, name, default, panels):
    """Return the parameter of a command that is the option of a name; one alone of its panel stands with those of none."""
    panel, kind, make = _of(key, name)
    annotation = Annotated[kind, make(rich_help_panel=panel if panels[panel] > 1 and panel else None)]
    return inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


# ---- options that go together ----------------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class Shown:
    """What a command shows of its result, and whether that can be saved and drawn."""

    top: Any = None
    explain: Any = False
    page: Any = None
    as_json: Any = False
    output: Any = dataclasses.field(default=None, init=False)
    plot: Any = dataclasses.field(default=None, init=False)

    @property
    def shows_progress(self) -> bool:
        """Whether somebody sees a progress bar."""
        return sys.stderr.isatty() and not self.as_json

    def check(self, *others, plot=None) -> None:
        """Refuse wrong endings, and files that cannot be written, before a command takes its time."""
        plot = self.plot if plot is None else plot
        if plot is not None:
            from ldpbayes.plots.base import check_ending

            check_ending(plot)
        if self.page is not None:
            from ldpbayes.pages.renderers import check_page

            check_page(self.page)
        files.check_outputs(self.output, *others, plot, self.page)
        if self.output is not None and self.output.suffix.lower() != ".nc":
            name = shown(self.output.with_suffix(".nc").name)
            raise ArgumentError(
                f"output must be a NetCDF file such as {name}, got {shown(self.output.name)}; --page writes tables."
            )

    def page_of(self, result, *seeds, **settings):
        """Return the page of a result, with the line for a shell that makes it again; ``seeds`` are stated and used."""
        from ldpbayes.pages import show

        return show(result, top=self.top, command=command_line(*seeds), **settings)

    def show(self, content, *, result=None, output=None, plot=None) -> None:
        """Write the files that are asked for, then print a page.

        Parameters
        ----------
        content : Page
        result : Result, optional
            What is saved at ``output``; without it the command has written ``output`` itself.
        output, plot : path, optional
            Where the result and the first figure go, where these options are not among the fields.
        """
        from ldpbayes.cli import printing

        output, plot = output or self.output, plot or self.plot
        if output and result is not None:
            result.save(output)
        if plot:
            from ldpbayes.plots import save_figure

            first = content.figures[0]
            save_figure((first.alone or first.draw)(), plot)
        if self.page is not None:
            content.save(self.page)
        printing.display(content, self.as_json, self.explain)
        for path in () if self.as_json else filter(None, (output, plot, self.page)):
            printing.say(f"Wrote {path}.")


@dataclasses.dataclass(frozen=True)
class Outputs(Shown):
    """What a command shows of a result that can be saved and drawn."""

    output: Any = None
    plot: Any = None


@dataclasses.dataclass(frozen=True)
class ReportOptions:
    """How the reports of a table were made."""

    protocol: Any = None
    parameter: Any = None
    categories: Any = None
    report: Any = None

    @property
    def columns(self) -> list[str] | None:
        """The columns of the reports; None where none is named."""
        return columns(self.report)

    @functools.cached_property
    def labels(self) -> list[str] | None:
        """The labels that are stated; None where only their number is, or nothing."""
        text = self.categories
        if text is not None and text.startswith("@") and "," not in text:
            lines = files.read_text(pathlib.Path(text[1:]), files.MAX_TOML_BYTES).splitlines()
            return [line.strip() for line in lines if line.strip()]
        return None if text is None or text.strip().isdecimal() else [label.strip() for label in text.split(",")]

    @property
    def names(self) -> list[str]:
        """The labels: 0, 1, … where only their number is stated, where nothing is the words of a survey design."""
        from ldpbayes.checks import categories_count

        if self.categories is None:
            return list(self.mechanism.default_labels)
        if self.labels is not None:
            if len(self.labels) < 2:
                file = "; @ before a file's name reads them" if os.path.isfile(self.categories) else ""
                raise ArgumentError(f"categories must be at least two labels, got {shown(self.categories)}{file}.")
            return self.labels
        number = int(self.categories) if len(self.categories) < 20 else 10**20
        return list(map(str, range(categories_count(number, "categories"))))

    @property
    def mechanism(self):
        """The protocol that the options state."""
        from ldpbayes.protocols.designs import DESIGNS
        from ldpbayes.protocols.registry import known_name, make_protocol, resolve

        if self.protocol is None:
            raise ArgumentError("protocol must say how the reports were made, such as --protocol grr -p epsilon=1.")
        if self.categories is None and resolve(known_name(self.protocol))[0] not in DESIGNS:
            raise ArgumentError(
                "categories must be labels in order, their number, or @FILE with a label a line, as in --categories no,yes; "
                "where the file states its protocol, leave --protocol out."
            )
        return make_protocol(self.protocol, None if self.categories is None else self.names, parameters(self.parameter))


@dataclasses.dataclass(frozen=True)
class Levelled(ReportOptions):
    """How the reports of a table were made, where a column may say at which ε."""

    epsilon_column: Any = None
    bitorder: Any = "big"

    @property
    def channels(self) -> dict[str, Any]:
        """The arguments of read and scan that say which protocols made the reports; empty where the data say it."""
        bits = {} if self.bitorder == "big" else {"bitorder": self.bitorder}
        if self.epsilon_column is not None and self.protocol is not None and not self.parameter:  # all else follows from ε
            return {"protocol": self.protocol, "categories": self.names, "epsilon_column": self.epsilon_column} | bits
        made = self.mechanism if self.protocol is not None or self.parameter else None
        stated = {"protocol": made, "categories": self.labels, "epsilon_column": self.epsilon_column}
        return {name: value for name, value in stated.items() if value is not None} | bits


@dataclasses.dataclass(frozen=True)
class TableOptions(Levelled):
    """How the reports of a table were made that does not state it itself, and what becomes of rows that hold none."""

    count: Any = None
    bad_rows: Any = "refuse"
    quarantine: Any = None
    copies: Any = "refuse"

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments of read that are stated."""
        stated = {"report": self.columns, "count": self.count, "quarantine": self.quarantine}
        stated |= {name: value for name in ("bad_rows", "copies") if (value := getattr(self, name)) != "refuse"}
        return {name: value for name, value in stated.items() if value is not None} | self.channels


# ---- what the command line itself says -------------------------------------------------------------------------------
#: The arguments of the running command, as the shell gave them.
given: contextvars.ContextVar = contextvars.ContextVar("given", default=())


def command_line(seed=None, used=None):
    """Return the line for a shell that computes the same again; ``used`` is the seed that stands for one not given."""
    extra = ["--seed", str(used)] if seed is None and used is not None else []
    return shlex.join(["ldpbayes", *map(str, given.get()), *extra])


#: What --set may say of the sample to every command that reads reports.
SAMPLE = ("weights", "strata", "cluster", "by_user", "missing+")


# ---- what options say ------------------------------------------------------------------------------------------------
def located(file):
    """Return the path that a FILE argument names: example:NAME is a file that comes with the package."""
    prefix, _, name = file.partition(":")
    if prefix != "example":
        return file
    from ldpbayes.examples import path_of

    return str(path_of(name))


def read(file, by=None, **rows):
    """Return the Collection or, where columns split its reports, the Cells that a FILE argument names."""
    from ldpbayes.sources.door import collected

    return collected(located(file), by=columns(by), **rows)


#: What a file of texts has for an entry that is missing, in small letters.
NOTHING = "", "na", "n/a", "nan", "null"


def read_table(path, names, report=None, texts=(), count=None):
    """Return a file of rows as a PyArrow table.

    Parameters
    ----------
    path : path
    names : sequence of str or None
        Columns that it must have.
    report : sequence of str, optional
        Columns of reports. Only these and the names are read, and all columns where None is given.
    texts : sequence of str
        Other columns that stay texts in a CSV file, as reports do.
    count : str, optional
        A column of counts.
    """
    import pyarrow

    from ldpbayes.sources.base import foreign
    from ldpbayes.sources.opening import open_source

    source, names = open_source(path), list(dict.fromkeys(filter(None, (*names, *(report or ())))))
    list(source.pieces(names))  # refuses a file without one of them
    batches = list(source.batches(names if report else source.names(), strict=False))
    if not any(map(len, batches)):
        raise DataError("the source has no rows", source=path)
    with foreign("has columns that do not go together", path):
        tables = [_counted(batch, count) if source.of_texts and count else batch.table for batch in batches]
        table = pyarrow.concat_tables(tables, promote_options="permissive")
    for i, field in enumerate(table.schema) if source.of_texts else ():
        if field.type == pyarrow.string():  # those of folders have their types
            table = table.set_column(i, field.name, _typed(table.column(i), field.name in (*(report or ()), *texts)))
    return table


def _counted(batch, count):
    """Return the table of a batch of texts, whose column of counts holds whole numbers."""
    import pyarrow

    from ldpbayes.sources.encode import counts_of

    try:
        counts = pyarrow.array(counts_of(batch.table, count))
    except DataError as err:
        raise batch.located(err) from None
    return batch.table.set_column(batch.table.schema.get_field_index(count), count, counts)


def _typed(column, stays):
    """Return a column of texts as numbers, booleans or dates where all are such, without blanks and words for nothing."""
    import pyarrow
    from pyarrow import compute

    texts = compute.utf8_trim_whitespace(column)
    texts = compute.if_else(compute.is_in(compute.utf8_lower(texts), pyarrow.array(NOTHING)), None, texts)
    kinds = pyarrow.int64(), pyarrow.float64(), pyarrow.bool_(), pyarrow.date32(), pyarrow.timestamp("us")
    for kind in () if stays else kinds:
        with contextlib.suppress(pyarrow.ArrowInvalid):
            return texts.cast(kind)
    return texts


def columns(texts):
    """Return the names of repeated options that may each name several columns, or None."""
    names = [name.strip() for text in texts or () for name in text.split(",") if name.strip()]
    return names or None


def assigned(texts, *keys: str) -> dict[str, Any]:
    """Return what repeated --set options say, by key: texts, or a dict by name of what stands as key.name=value.

    Parameters
    ----------
    texts : sequence of str, optional
    *keys : str
        Those that may be set; one that ends in a dot takes names, one that ends in "?" takes either, and one that ends in
        "+" makes a list of what it is set to, which may be empty texts.
    """
    allowed = {key.rstrip(".?+"): key for key in keys}
    settings: dict[str, Any] = {}
    for text in texts or ():
        path, equals, value = (part.strip() for part in text.partition("="))
        key, dot, name = path.partition(".")
        if not equals or not (value or allowed.get(key, "")[-1:] == "+"):
            raise ArgumentError(f"--set must be key=value, got {shown(text)}.")
        if key not in allowed or (dot and allowed[key][-1] not in ".?") or (not name and (dot or allowed[key][-1] == ".")):
            listed = ", ".join(f"{name}.NAME" if key[-1] == "." else name for name, key in allowed.items())
            raise ArgumentError(f"--set must be one of {listed}, got {shown(path)}.")
        if allowed[key][-1] == "+":
            settings.setdefault(key, []).append(value)
            continue
        entry = settings.setdefault(key, {}) if dot else settings
        if not isinstance(entry, dict) or (name if dot else key) in entry:
            raise ArgumentError(f"--set must set each key once, got {shown(path)} twice.")
        entry[name if dot else key] = value
    return settings


def people(text, name):
    """Return a text that writes a number of people, whose point stands before no thousands."""
    from ldpbayes.sources.numbers import thousands

    if thousands(text):
        raise ArgumentError(f"{name} must be a number, got {shown(text)}{thousands(text)}.")
    return text


def level(text, name, rule="a number"):
    """Return the one number that a text writes, in which no comma stands before a fraction or thousands."""
    numbers = levels(text, name, rule)
    if "," in text:
        raise ArgumentError(
            f"{name} must be {rule}, got {shown(text)}; write a point before a fraction, nothing before thousands."
        )
    return numbers[0]


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


def parameters(pairs):
    """Return a dict from name=value texts; values are TOML, fractions and logarithms where they parse, else text."""
    from ldpbayes.sources.numbers import as_numbers

    values: dict[str, Any] = {}
    for pair in pairs or []:
        name, equals, text = pair.partition("=")
        if not equals:
            raise ArgumentError(f"parameter must be name=value, got {shown(pair)}.")
        if name.strip() in values:
            raise ArgumentError(f"parameter {shown(name.strip())} must be given once.")
        values[name.strip()] = _value(text)
    return as_numbers(values)


def _value(text):
    """Return the TOML value that a text writes, a list of what stands between its commas, or the text."""
    files.check_structure(f"value = {text}", "parameter")
    try:
        document: Mapping[str, Any] = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        if re.fullmatch(r"[-+]?(\.\d+|\d+\.)(e[-+]?\d+)?", text.strip(), re.I):  # as people write numbers, not TOML
            return float(text)
        items = _listed(text.strip())
        return text if items is None else list(map(_value, items))
    if set(document) != {"value"}:  # a line break followed by another key
        raise ArgumentError(f"parameter must be name=value with one value, got {shown(text)}.")
    return document["value"]


def _listed(text):
    """Return the texts between the commas of a list, in brackets or not; None of a text that is none."""
    parts, depth = [""], 0
    for sign in text:
        depth += (sign in "[{(") - (sign in "]})")
        if not 0 <= depth <= 3 or sign in "\"'":  # no parameter is deeper than a matrix
            return None
        parts[-1] += sign
        if sign == "," and not depth:
            parts[-1] = parts[-1][:-1]
            parts.append("")
    parts = [part.strip() for part in parts]
    if depth or not all(parts):
        return None
    if len(parts) > 1 or not (text[0] == "[" and text[-1] == "]"):
        return parts if len(parts) > 1 else None
    inside = text[1:-1].strip()
    return _listed(inside) or [inside]
