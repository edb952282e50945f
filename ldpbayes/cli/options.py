"""The options of the command line: each is declared once, by the name of the argument that it sets; commands name theirs."""

import collections
import contextlib
import contextvars
import dataclasses
import functools
import importlib
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


def _option(kind: Any, metavar: str, help: str, *flags: str, **settings: Any) -> tuple:
    return kind, functools.partial(typer.Option, *flags, metavar=metavar, help=help, **settings)


def _flag(help: str, *flags: str) -> tuple:
    return _option(bool, "", help, *flags)


def _argument(kind: Any, metavar: str, help: str) -> tuple:
    return kind, functools.partial(typer.Argument, metavar=metavar, help=help)


_MANY, _TEXT, _PATH = list[str] | None, str | None, pathlib.Path | None
_TABLE = "Table with a row per {} (.csv, .parquet, .jsonl or .arrow)"
_REPORTS = (
    "Collection file (.toml); a table of reports (.csv, .parquet, .jsonl, .arrow, a folder or a quoted pattern of such "
    "files, or - for a CSV file on standard input) that states its protocol in a column, or with --protocol; a file that "
    "[bold]scan[/bold] wrote; or a shipped one, such as example:nigeria."
)
_COLLECTION = "Collection file (.toml), a table that states its protocol in a column, or a shipped one, such as {}."
_SET = (
    "Set a key of the collection file for this run; it replaces the file's value. A CSV or Parquet table takes the "
    "same keys. May be repeated. {}"
)
_STATED = "State a key as a collection file (TOML) would; may be repeated. {}"
_SAMPLE = "Columns of the sample: weights=COLUMN, strata=COLUMN, cluster=COLUMN"
_DENY = (
    "Deniers (people who answer no although the true answer is yes): deniers.of=yes, deniers.say=no, deniers.channel=direct."
)
_IGNORE = (
    "People who ignore the device: noncompliance.NAME=HOW, where HOW is what they report: LABEL (always that report), "
    "uniform, fair coins, no bits or all bits"
)
_PEOPLE = "Users who sent several reports: by_user=COLUMN. No answer: missing=LABEL, or missing= for empty entries."
_TEXTS = "Also ordered=true, derived.NAME.of=LABEL, title and other texts."
_OTHER_KEYS = f"{_PEOPLE} {_IGNORE}. {_DENY} {_TEXTS}"
_SIZES = "with population_size=5000 (people, or clusters where they were drawn) or population_size.STRATUM=2000"
_PRIOR = (
    "Prior of P: [bold]default[/bold] (learnt from 20 categories on, else Jeffreys'; the output says which and "
    "why), [bold]learnt[/bold] (a Dirichlet whose concentration the reports decide), [bold]smooth[/bold] (ordered "
    "categories), [bold]floor[/bold] (learnt, plus a share spread nearly evenly over all categories), "
    "[bold]jeffreys[/bold], [bold]flat[/bold], [bold]share:NAME[/bold] (flat on a derived share), "
    "a concentration such as 0.5, or one for each category, such as 0.5,1,2."
)
_BY = "Columns, such as country,day: {}; may be repeated."
_SEED = "Random seed. Without it one is drawn and printed."
_CATEGORIES = "Number of categories."
_PROTOCOL = "How the reports were made: a name of [bold]ldpbayes protocols[/bold]; its parameters by -p."
_PARAMETER = "A parameter of the protocol, such as epsilon=1; may be repeated."
_ROWS = "Rows of each table to print, 40 by default; files have all.{}"
#: Every option, by panel of the help and by the name of the argument that it sets. What a command means by a name that
#: others use differently stands as "name of-command".
PANELS: dict[str, dict[str, tuple]] = {
    "": {
        "file": _argument(str, "FILE", _REPORTS),
        "file of-regress": _argument(
            str,
            "FILE",
            _TABLE.format("report") + ", collection file (.toml), or a shipped one: example:nigeria_cells.",
        ),
        "file of-associate": _argument(str, "FILE", _COLLECTION.format("example:wada")),
        "file of-private-groups": _argument(
            str, "FILE", _TABLE.format("record") + ", or a shipped one: example:survey.csv."
        ),
        "file of-simulate": _argument(
            _PATH,
            "[OUT]",
            "File to write: OUT.toml is a collection file, with its CSV beside it; OUT.parquet has a row a user.",
        ),
        "sources": _argument(
            list[str],
            "FILES",
            "Files of reports (.parquet, .csv, .jsonl or .arrow), a folder of them, or a quoted pattern.",
        ),
        "formula": _argument(str, "FORMULA", 'Such as "answer ~ age + C(sex) + (1 | county)".'),
        "protocol_name": _argument(
            _TEXT, "NAME", "A protocol, such as crosswise, to read what it is; without it all are listed."
        ),
        "by": _option(
            _MANY,
            "COLUMNS",
            _BY.format(
                "one result for each combination of their values; replaces the key [bold]by[/bold] of a collection file"
            ),
        ),
        "by of-scan": _option(_MANY, "COLUMNS", _BY.format("one cell for each combination of their values")),
        "by of-private-groups": _option(_MANY, "COLUMNS", _BY.format("one comparison for each combination of their values")),
        "pilot_by": _option(
            _MANY,
            "COLUMNS",
            "Columns of --by whose cells share a pilot. Cells add up only where they do: [bold]country[/bold] if the days "
            "of a country will be added up.",
        ),
        "assignments": _option(
            _MANY,
            "KEY=VALUE",
            _SET.format(f"{_SAMPLE}, {_SIZES}. {_OTHER_KEYS}"),
            "--set",
        ),
        "assignments of-associate": _option(
            _MANY,
            "KEY=VALUE",
            _SET.format(f"{_SAMPLE}, {_SIZES}. {_PEOPLE} {_TEXTS}"),
            "--set",
        ),
        "assignments of-crosscheck": _option(
            _MANY, "KEY=VALUE", _SET.format(f"It takes no weights. {_OTHER_KEYS}"), "--set"
        ),
        "assignments of-scan": _option(
            _MANY,
            "KEY=VALUE",
            _STATED.format(
                "People who gave no answer, who are counted: missing=LABEL. Users who sent several reports: by_user=COLUMN."
            ),
            "--set",
        ),
        "assignments of-regress": _option(
            _MANY,
            "KEY=VALUE",
            _SET.format(f"{_SAMPLE}. {_DENY} For a collection file also its other keys, such as missing."),
            "--set",
        ),
        "assignments of-private-groups": _option(
            _MANY, "KEY=VALUE", _STATED.format("Survey weights: weights=COLUMN."), "--set"
        ),
        "assignments of-plan": _option(
            _MANY,
            "KEY=VALUE",
            "Set a key of the collection file that is planned; may be repeated. "
            f"{_IGNORE}; for example noncompliance.no-sayer=no. Deniers among people asked directly: "
            "deniers.of=yes, deniers.say=no.",
            "--set",
        ),
        "value": _option(str, "COLUMN", "The column of the open value, known without noise: a number or a category."),
        "unit": _option(str, "TEXT", "Unit of the value in tables and figures, such as ms."),
    },
    "The protocol": {
        "protocol of-plan": _option(
            _MANY,
            "NAME",
            "Only this one; may be repeated. Any name of [bold]ldpbayes protocols[/bold]; without it grr, subset, oue, sue, "
            "olh, hadamard and block_design are compared. Parameters may follow: olh:seeds=4096.",
        ),
        "protocol of-simulate": _option(
            str, "NAME", "How the reports are made: a name of [bold]ldpbayes protocols[/bold]; its parameters by -p."
        ),
        **dict.fromkeys(
            [f"parameter of-{name}" for name in ("plan", "simulate")],
            _option(_MANY, "NAME=VALUE", _PARAMETER, "--parameter", "-p"),
        ),
    },
    "A table of reports": {
        "protocol": _option(_TEXT, "NAME", _PROTOCOL),
        "parameter": _option(_MANY, "NAME=VALUE", _PARAMETER, "--parameter", "-p"),
        "categories": _option(
            _TEXT, "LABELS", "Labels of the private answer in order, such as no,yes, or @FILE with a label a line."
        ),
        "n_categories": _option(
            int | None, "A", "Number of categories whose labels are 0, 1, …; in place of --categories.", min=2
        ),
        "report": _option(_MANY, "COLUMNS", "The column of the reports, or several, such as seed,value."),
        "count": _option(_TEXT, "COLUMN", "The column of counts; without it every row is one report."),
        "rate_column": _option(
            _TEXT,
            "COLUMN",
            "The column of the probability with which the group was replaced by a uniformly drawn one.",
        ),
        "epsilon_column": _option(_TEXT, "COLUMN", "The column of the ε of each report; goes with --protocol."),
        "bitorder": _option(
            str, "big|little", "Order of the bits of sets: [bold]big[/bold] has the first category first, little last."
        ),
    },
    "The posterior": {
        "prior": _option(
            str,
            "PRIOR",
            f"{_PRIOR} With [bold]--by[/bold] also [bold]hierarchical[/bold] (groups vary about a common distribution) and "
            "[bold]days[/bold] (each day is near the one before).",
        ),
        "prior of-crosscheck": _option(str, "PRIOR", _PRIOR),
        "prior of-associate": _option(
            str,
            "PRIOR",
            "[bold]loglinear[/bold]: interactions are small unless the reports say otherwise; or jeffreys, flat, a "
            "concentration: a Dirichlet over the cells of the joint table.",
        ),
        "scale": _option(
            float | None, "SD", "Prior sd of the coefficients: log odds for one sd of the column; 2.5 by default."
        ),
        "noncompliance_prior": _option(
            _TEXT,
            "B,C",
            "Beta prior of the share who ignore the device, such as 1,9; needs --set noncompliance.NAME=HOW.",
        ),
        "deniers_prior": _option(
            _TEXT, "B,C", "Beta prior of the share of each category who deny, such as 1,1; needs --set deniers.of=LABEL."
        ),
        "method": _option(
            str,
            "NAME",
            "[bold]auto[/bold] picks a posterior method and explains its choice; or exact, quadrature, surrogate, "
            "pair_slice, weighted, hmc, nuts.",
        ),
        "method of-regress": _option(str, "NAME", "auto, weighted, hmc, nuts, or mle for maximum likelihood."),
        "method of-private-groups": _option(
            str, "NAME", "auto, smooth, rounding (a curve for each rounding class), or recipe (reweighted records)."
        ),
        "exclude": _option(_MANY, "NAMES", "Methods that auto must not choose; may be repeated."),
        "names": _option(
            _MANY,
            "NAMES",
            "Names of the questions in the order of the labels; by default those of the file's derived margins, else A, B, "
            "….",
            "--name",
        ),
        "order": _option(
            int | None,
            "K",
            "Most questions that interact in the loglinear prior (3 by default); 1 is independence.",
            min=1,
        ),
        "separator": _option(str, "TEXT", "What separates the answers in the labels of the joint table."),
        "family": _option(
            _TEXT,
            "normal|bernoulli|poisson",
            "Distribution of the outcome, where a private answer is a predictor.",
        ),
        "private": _option(_TEXT, "FORMULA", "The formula of that private answer; by default it has the same covariates."),
        "deniers_formula": _option(
            _TEXT, "TERMS", "Terms of the log odds of the share who deny, such as age; one share for all without it."
        ),
        "totals": _option(
            _MANY,
            "LABEL=SHARE",
            "A known share of the population: yes=0.3, or yes=0.3,0.02 with its standard deviation; may be repeated.",
            "--total",
        ),
        "reference": _option(_TEXT, "LABEL", "The category that coefficients are log odds against; the first by default."),
        "link": _option(str, "NAME", "Link for two categories: logit, probit, cloglog or cauchit."),
        "quantiles": _option(str, "LEVELS", "Levels of the quantiles."),
        "target": _option(
            str, "distribution|frequency", "Answers about the population (distribution), or about these very people."
        ),
        "bins": _option(
            int | None,
            "NUMBER",
            "Number of bins; by default 100 for 1e4 records, 140 for 1e5 and 200 for 1e6.",
        ),
        "ci_prob": _option(float, "PROBABILITY", "Probability of the equal-tailed intervals.", "--ci"),
        "draws": _option(
            int | None,
            "NUMBER",
            "Draws per chain (four chains), 1000 by default; 0, where the method needs none, gives moments and intervals "
            "alone.",
            min=0,
        ),
        **dict.fromkeys(
            [f"draws of-{name}" for name in ("regress", "associate", "crosscheck", "private-groups")],
            _option(int, "NUMBER", "Draws per chain (four chains).", min=1),
        ),
        "random_seed": _option(int | None, "SEED", _SEED, "--seed", min=0),
        "random_seed of-check": _option(int | None, "SEED", "Random seed of the simulated tests.", "--seed", min=0),
    },
    "Tests and fake reports": {
        "level": _option(float, "PROBABILITY", "Level of the tests: probability with which honest reports may be flagged."),
        "fakes": _flag("Also print how many fake reports would lift a share or change the order.", "--fakes"),
        "share": _option(
            _TEXT,
            "SHARES",
            "Also print the range of the estimates if at most such shares of the reports are fake, such as 0.01,0.05.",
            "--fake-share",
        ),
        "question": _option(
            _TEXT,
            "TEXT",
            "A category, or a conclusion such as 'yes > 0.2' or 'apples > pears': --fake-share then gives its range and the "
            "share of fakes that turns it.",
            "--conclusion",
        ),
        "channel": _option(_TEXT, "NAME", "The channel whose reports --fake-share is about, for a collection with several."),
        "ci_prob of-check": _option(
            float, "PROBABILITY", "Probability of the confidence intervals beside --fake-share.", "--ci"
        ),
    },
    "Three of these give the fourth": {
        "n_categories of-plan": _option(int | None, "A", _CATEGORIES, min=2),
        "epsilon": _option(float | None, "EPSILON", "Privacy level ε in nats."),
        "n": _option(float | None, "N", "Number of users or respondents.", "--users", "-n"),
        "error": _option(float | None, "ERROR", "Target error; --kind defines it."),
    },
    "What is asked of a plan": {
        "after": _option(
            _PATH, "FILE", "The result of an earlier wave (.nc): plan another one; ε, and users or error, are given."
        ),
        "kind": _option(
            str,
            "l2|l1|max|half_width",
            "[bold]l2[/bold]: expected sum of squared errors; [bold]l1[/bold]: of absolute errors; [bold]max[/bold]: no "
            "category off by more; [bold]half_width[/bold]: half an interval, of the widest category.",
        ),
        "truth of-plan": _option(
            str,
            "P",
            "The true distribution: [bold]uniform[/bold] (the worst case for l2), [bold]jeffreys[/bold] or "
            "[bold]flat[/bold] (averaged over that prior), shares such as 0.9,0.1, or a CSV file of true counts with "
            "columns value and count.",
        ),
        "target of-plan": _option(
            str, "distribution|frequency", "Shares of the population (P), or of these very users (F)."
        ),
        "estimator": _option(str, "mle|oracle", "mle: what MLE and posterior attain; oracle: the unbiased estimator."),
        "gamma": _option(
            _TEXT,
            "SHARE",
            "The share who ignore the device, 0.1 by default; goes with --set noncompliance.NAME=HOW.",
            "--noncompliance-share",
        ),
        "deniers_share": _option(
            _TEXT,
            "SHARE",
            "δ, the share of the people of that category who deny, 0.1 by default; goes with --set deniers.of=LABEL.",
        ),
        "ci_prob of-plan": _option(float, "PROBABILITY", "Probability of the intervals of half-widths and powers.", "--ci"),
        "groups": _option(
            int | None,
            "NUMBER",
            "Compare this many groups of equal size: interval widths and differences.",
            "--n-groups",
            min=2,
        ),
        "delta": _option(
            float | None,
            "DIFFERENCE",
            "Difference between two groups' shares (not the deniers' δ): the power to find it, at level 1 − ci of the test.",
        ),
        "power": _option(
            float | None, "PROBABILITY", "Instead of --error: find --delta with this probability, such as 0.8."
        ),
        "fakes of-plan": _option(
            float | None,
            "SHARE",
            "Share of fake reports, such as 0.05: what the worst of them do to a share of 0.01.",
            "--fake-share",
        ),
    },
    "The population": {
        "truth": _option(
            str, "P", "True population: zipf, geometric, dirichlet, or a CSV file of counts with columns value and count."
        ),
        "n_categories of-simulate": _option(int | None, "A", _CATEGORIES, min=2),
        "n of-simulate": _option(
            int | None,
            "N",
            "Number of users or respondents; without it everyone in a population file.",
            "--users",
            "-n",
            min=1,
        ),
        "random_seed of-simulate": _option(int | None, "SEED", _SEED, "--seed", min=0),
    },
    "Reading the files": {
        "sample": _option(
            int | None,
            "NUMBER",
            "Reports of each cell that a random sample keeps, to check the summary; 10,000 where epsilon is above 1.5, "
            "otherwise 0.",
            min=0,
        ),
        "keep": _option(
            int | None,
            "NUMBER",
            "Cells with fewer reports keep all of them. By default 0 up to epsilon 1.5, 10,000 up to 2, then 2,000 a "
            "category.",
            min=0,
        ),
        "random_seed of-scan": _option(
            int | None, "SEED", "Random seed of the reports that --sample keeps.", "--seed", min=0
        ),
        "jobs": _option(int, "NUMBER", "Threads that read the files.", "--jobs", "-j"),
        "spark": _option(
            _TEXT,
            "MASTER",
            "Let Spark's workers read the files, such as local[4] or spark://host:7077; they must see the same paths.",
        ),
        "bad_rows": _option(
            str,
            "refuse|skip",
            "Rows that hold no report: [bold]refuse[/bold] the file, or [bold]skip[/bold] them, counted by reason.",
        ),
        "bad_rows of-regress": _option(
            str,
            "refuse|skip",
            "Rows that lack a covariate or hold no report: [bold]refuse[/bold] them, or [bold]skip[/bold] them, counted.",
        ),
        "copies": _option(
            str,
            "refuse|add",
            "Files with the same bytes, or summaries of the same files: [bold]refuse[/bold] them, or [bold]add[/bold] them.",
        ),
        "quarantine": _option(
            _PATH, "FILE", "CSV file for the rows that --bad-rows skip leaves out, with place, reason and text."
        ),
        "checkpoint": _option(
            _PATH, "FILE", "File for the state of the scan: the same command continues where a killed one stopped."
        ),
    },
    "Output": {
        "explain": _flag("Print every note in full.", "--explain"),
        "explain of-fit": _flag(
            "Print all that is known: further tables, every note, how the method was chosen, its checks.", "--explain"
        ),
        "explain of-associate": _flag("Print the conditional shares, and every note in full.", "--explain"),
        "top": _option(int | None, "ROWS", _ROWS.format(""), min=1),
        "top of-fit": _option(int | None, "ROWS", _ROWS.format(" Given, it also prints the further tables."), min=1),
        "top of-associate": _option(
            int | None,
            "PAIRS",
            "Pairs of questions whose conditional shares are printed; none by default, six with --explain.",
            min=1,
        ),
        "page": _option(
            _PATH,
            "FILE",
            "Write the result as a page (.html, .md, .tex, .csv, .parquet, .json, .txt); figures of .md and .tex go into a "
            "folder beside it.",
        ),
        "as_json": _flag("Print one JSON object instead of tables.", "--json"),
        "output": _option(_PATH, "FILE", "Write the whole result as NetCDF (.nc; ArviZ reads it)."),
        "output of-private-groups": _option(_PATH, "FILE", "Write every answer as a row (.csv or .parquet)."),
        "output of-scan": _option(
            _PATH, "FILE", "Write the cells, one row each (.parquet); [bold]fit[/bold] reads the file."
        ),
        "output of-simulate": _option(_PATH, "FILE", "The file to write, instead of the argument OUT."),
        "plot": _option(_PATH, "FILE", "Write the first figure of the page (.png, .pdf, .svg)."),
    },
}
_OPTIONS = {name: (panel, *entry) for panel, options in PANELS.items() for name, entry in options.items()}


class OptionGroup(dict):
    """Options that a command passes on together, with their defaults: the arguments of a function of the package."""


def spread(command: Callable, name: str) -> Callable:
    """Return a command for typer: its arguments, and the fields of option groups and dataclasses, are options."""
    groups, defaults = _arguments(command)
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


def _arguments(command):
    """Return (groups, defaults): what makes each group and its fields, and the default of every argument."""
    groups: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    for key, parameter in inspect.signature(command).parameters.items():
        if dataclasses.is_dataclass(parameter.annotation):
            fields = {field.name: field.default for field in dataclasses.fields(parameter.annotation) if field.init}
            groups[key] = parameter.annotation, fields
        elif isinstance(parameter.default, OptionGroup):
            groups[key] = OptionGroup, parameter.default
        defaults |= groups[key][1] if key in groups else {key: parameter.default}
    return groups, defaults


def flags(name: str) -> dict[str, str]:
    """Return the options of a command, such as --ci, by the argument that each sets."""
    _, defaults = _arguments(importlib.import_module(f"ldpbayes.cli.{name.replace('-', '_')}").command)
    makers = {key: _of(key, name)[2] for key in defaults}
    return {key: (make.args or (f"--{key.replace('_', '-')}",))[0] for key, make in makers.items()}


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
        printing.display(content, self.as_json, self.explain, self.top is not None)
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
    n_categories: Any = None
    report: Any = None

    @property
    def columns(self) -> list[str] | None:
        """The columns of the reports; None where none is named."""
        return columns(self.report)

    @functools.cached_property
    def labels(self) -> list[str] | None:
        """The labels that are stated; None where only their number is, or nothing."""
        text = self.categories
        if text is None:
            return None
        if self.n_categories is not None:
            raise ArgumentError("categories must be left out with --n-categories, whose labels are 0, 1, ….")
        if text.startswith("@") and "," not in text:
            lines = files.read_text(pathlib.Path(text[1:]), files.MAX_TOML_BYTES).splitlines()
            labels = [line.strip() for line in lines if line.strip()]
        else:
            labels = [label.strip() for label in text.split(",")]
        if len(labels) < 2:
            number = "; their number is --n-categories" if text.strip().isdecimal() else ""
            file = "; @ before a file's name reads them" if os.path.isfile(text) else number
            raise ArgumentError(f"categories must be at least two labels, got {shown(text)}{file}.")
        return labels

    @property
    def names(self) -> list[str]:
        """The labels: 0, 1, … where only their number is stated, where nothing is the words of a survey design."""
        from ldpbayes.checks import categories_count

        if self.labels is not None:
            return self.labels
        if self.n_categories is not None:
            return list(map(str, range(categories_count(self.n_categories, "n_categories"))))
        return list(self.mechanism.default_labels)

    @property
    def sized(self) -> bool:
        """Whether the categories are stated."""
        return self.categories is not None or self.n_categories is not None

    @property
    def mechanism(self):
        """The protocol that the options state."""
        from ldpbayes.protocols.designs import DESIGNS
        from ldpbayes.protocols.registry import known_name, resolve

        if self.protocol is None:
            raise ArgumentError("protocol must say how the reports were made, such as --protocol grr -p epsilon=1.")
        if not self.sized and resolve(known_name(self.protocol))[0] not in DESIGNS:
            raise ArgumentError(
                "categories must be labels in order, or @FILE with a label a line, as in --categories no,yes, or their "
                "number --n-categories; where the file states its protocol, leave --protocol out."
            )
        return made(self.protocol, self.names if self.sized else None, self.parameter)


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


# ---- what options say ------------------------------------------------------------------------------------------------
def located(file):
    """Return the path that a FILE argument names: example:NAME is a file that comes with the package."""
    prefix, _, name = file.partition(":")
    if prefix != "example":
        return file
    from ldpbayes.examples import path_of

    return str(path_of(name))


def read(file, by=None, stated=None, **rows):
    """Return the Collection or, where columns split its reports, the Cells that a FILE argument names.

    Parameters
    ----------
    file : str
    by : sequence of str, optional
    stated : mapping, optional
        What --set says.
    **rows
        Further arguments of ``read``.
    """
    from ldpbayes.sources.door import collected

    return collected(located(file), stated, by=columns(by), **rows)


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
    with foreign("has columns that do not fit together", path):
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


def made(protocol, categories, pairs):
    """Return a protocol with parameters of name=value texts; an error about one of them names the option."""
    from ldpbayes.protocols.registry import make_protocol

    given = parameters(pairs)
    try:
        return make_protocol(protocol, categories, given)
    except ArgumentError as err:
        if str(err).partition(" must ")[0] not in given:
            raise
        raise ArgumentError(f"--parameter {err}") from None


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
    """Return the TOML value that a text writes, the list of its parts between commas, or the text."""
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
