"""The command ``ldpbayes regress``."""

import pathlib
import sys
from typing import Annotated

import typer

from ldpbayes import files
from ldpbayes.cli import options, printing
from ldpbayes.errors import ArgumentError, DataError, shown


def command(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="Table with a row per report (.csv, .parquet), collection file (.toml), or a shipped one such as "
            "example:nigeria_cells.",
        ),
    ],
    formula: Annotated[str, typer.Argument(metavar="FORMULA", help='Such as "answer ~ age + C(sex) + (1 | county)".')],
    protocol: Annotated[
        str | None, typer.Option(help="For a table: a name of [bold]ldpbayes protocols[/bold]; parameters by -p.")
    ] = None,
    parameter: options.Parameters = None,
    categories: Annotated[
        str | None, typer.Option(help="For a table: labels of the private answer in order, such as no,yes.")
    ] = None,
    report: Annotated[
        list[str] | None, typer.Option(help="For a table: the column of the reports; repeat it for several.")
    ] = None,
    count: Annotated[str | None, typer.Option(help="For a table: the column of counts.")] = None,
    weights: Annotated[
        str | None, typer.Option("--weights", "--weight", help="For a table: the column of survey weights.")
    ] = None,
    strata: Annotated[str | None, typer.Option(help="For a table: the column of the sample's strata.")] = None,
    cluster: Annotated[str | None, typer.Option(help="For a table: the column of the sample's clusters.")] = None,
    reference: Annotated[
        str | None, typer.Option(help="The category that coefficients are log odds against; the first by default.")
    ] = None,
    prior: Annotated[
        float | None,
        typer.Option(help="Prior sd of the coefficients: log odds for one sd of the column; 2.5 by default."),
    ] = None,
    method: Annotated[str, typer.Option(help="auto, laplace, hmc, nuts, or mle for maximum likelihood.")] = "auto",
    missing: Annotated[str, typer.Option(help="Rows without a covariate: refuse or drop.")] = "refuse",
    ci: Annotated[float, typer.Option(help="Probability of the intervals.")] = 0.95,
    draws: options.Draws = 1000,
    seed: options.Seed = None,
    output: Annotated[pathlib.Path | None, typer.Option(help="Write the whole result as NetCDF (ArviZ reads it).")] = None,
    plot: Annotated[pathlib.Path | None, typer.Option(help="Write a plot of the coefficients (.png, .pdf, .svg).")] = None,
    page: options.PagePath = None,
    as_json: options.AsJSON = False,
):
    """Regress a private answer on covariates that are known openly: logit, or multinomial logit for several categories.

    The left side of the formula names the private answer, the right side its terms as in R: age + C(sex) for a factor, a:b
    for an interaction, (1 | county) for effects of groups. Prints coefficients (log odds against the reference
    category), odds ratios, and the average distribution. A number column enters as it is; C(column) makes it a factor. Rows
    with equal covariates are computed together, so rounding a continuous covariate makes a large fit fast.

    Examples:

      ldpbayes regress example:nigeria_cells "connected ~ female + married + age_group"

      ldpbayes regress example:nigeria_cells "connected ~ female + (1 | age_group)" --page regression.html

      ldpbayes regress example:survey.csv "smoker ~ age" --protocol warner -p p=0.7 --categories no,yes --report smokes
      --method mle

      ldpbayes regress example:survey.csv "smokes ~ age" --protocol warner -p p=0.7 --categories no,yes --weight w
      --strata region --cluster village
    """
    from ldpbayes.regression import METHODS, regress
    from ldpbayes.regression.maximum import Maximum

    if method not in METHODS:
        raise ArgumentError(f"method must be one of {', '.join(METHODS)}, got {shown(method)}.")
    table = {"protocol": protocol, "categories": categories, "report": report, "count": count}
    table |= {"weights": weights, "strata": strata, "cluster": cluster}
    data, collection = _read(file, formula, table, parameter)
    if output is not None and method == "mle":
        raise ArgumentError("output must be left out with method mle, which has no draws; use --json or --page.")
    options.check_outputs(output, plot, page)
    seed, given = options.chosen_seed(seed), seed
    found = regress(
        formula,
        **data,
        reference=reference,
        prior=prior,
        method=method,
        missing=missing,
        ci_prob=ci,
        draws=draws,
        random_seed=seed,
        progressbar=sys.stderr.isatty() and not as_json,
    )
    from ldpbayes.pages.regress import of_maximum, of_regression

    line = options.command_line(given, None if method == "mle" else seed)
    if isinstance(found, Maximum):
        content = of_maximum(found, ci_prob=ci, command=line)
    else:
        content = of_regression(found, collection=collection, command=line)
    printing.show(content, as_json, result=found, output=output, plot=plot, page=page)


def _read(file, formula, table, parameter):
    """Return (arguments of regress, the Cells or None) of a table, or of a collection that knows its protocol."""
    file = options.located(file)
    suffix = pathlib.PurePath(file).suffix.lower()
    if suffix == ".toml":
        given = [name for name, value in (*table.items(), ("parameter", parameter)) if value]
        if given:
            raise ArgumentError(f"{given[0]} must be left out: the collection file says how its reports were made.")
        return _cells(file, formula)
    if table["protocol"] is None:
        raise ArgumentError("protocol must say how the reports of a table were made, such as --protocol grr -p epsilon=1.")
    if table["categories"] is None:
        raise ArgumentError("categories must name the private answers of a table in order, such as --categories no,yes.")
    from ldpbayes.protocols import make_protocol

    labels = [label.strip() for label in table["categories"].split(",")]
    columns = {name: table[name] for name in ("count", "weights", "strata", "cluster")}
    columns["report"] = table["report"] or None
    stated = {name: _number(value) for name, value in options.parameters(parameter).items()}
    mechanism = make_protocol(table["protocol"], labels, stated)
    return {"frame": _table(file, suffix, columns), "protocol": mechanism, "categories": labels, **columns}, None


def _number(value):
    """Return a parameter's value; a fraction or a logarithm becomes the number that it writes, as in collection files."""
    from ldpbayes.sources.numbers import number

    found = number(value) if isinstance(value, str) else None
    return value if found is None else found


def _cells(file, formula):
    """Return the arguments and the Cells of a collection file, split by the covariates of the formula."""
    from ldpbayes.collections import Cells
    from ldpbayes.regression.formula import Formula

    names = Formula.parse(formula).variables
    found = options.read(file)
    if not isinstance(found, Cells) or not set(names) <= {*found.by, *(found.covariates or {})}:
        if not names:
            raise ArgumentError("formula must have a covariate for a collection file; fit estimates one distribution.")
        found = options.read(file, list(names))
    return {"frame": found}, found


def _table(file, suffix, columns):
    """Return the table of a CSV or Parquet file."""
    from ldpbayes.regression.table import optional_regress

    pandas = optional_regress("pandas")
    path = files.as_path(file)
    with files.open_input(path) as handle:
        try:
            if suffix == ".parquet":
                return pandas.read_parquet(handle)
            return pandas.read_csv(handle, dtype={name: str for name in columns["report"] or ()})
        except (ValueError, OSError, ImportError) as err:
            said = str(err).splitlines()[0] if str(err) else type(err).__name__
            raise DataError(f"cannot be read as a table ({said[:200]})", source=path) from err
