"""The command ``ldpbayes regress``."""

import dataclasses
import pathlib
from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

from ldpbayes import files
from ldpbayes.cli import options
from ldpbayes.errors import ArgumentError, DataError, shown


@dataclass(frozen=True)
class Counted(options.Reports):
    """How the reports of a table were made, and how often each came in."""

    count: Annotated[str | None, typer.Option(help="The column of counts.")] = None


@dataclass(frozen=True)
class Model:
    """How the regression is computed: arguments of regress."""

    panel: ClassVar[str] = "Model"

    reference: Annotated[
        str | None, typer.Option(help="The category that coefficients are log odds against; the first by default.")
    ] = None
    prior: Annotated[
        float | None,
        typer.Option(help="Prior sd of the coefficients: log odds for one sd of the column; 2.5 by default."),
    ] = None
    method: Annotated[str, typer.Option(help="auto, laplace, hmc, nuts, or mle for maximum likelihood.")] = "auto"
    missing: Annotated[str, typer.Option(help="Rows without a covariate: refuse or drop.")] = "refuse"
    ci_prob: options.Ci = 0.95
    draws: options.Draws = 1000
    random_seed: options.Seed = None


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
    *,
    model: Model,
    reports: Counted,
    sample: options.Sample,
    outputs: options.Outputs,
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

    if model.method not in METHODS:
        raise ArgumentError(f"method must be one of {', '.join(METHODS)}, got {shown(model.method)}.")
    data, collection = _read(options.located(file), formula, reports, sample)
    if outputs.output is not None and model.method == "mle":
        raise ArgumentError("output must be left out with method mle, which has no draws; use --json or --page.")
    outputs.check()
    seed = options.chosen_seed(model.random_seed)
    settings = dataclasses.asdict(model) | {"random_seed": seed}
    found = regress(formula, **data, **settings, progressbar=outputs.shows_progress)
    from ldpbayes.pages.regress import of_maximum, of_regression

    line = options.command_line(model.random_seed, None if model.method == "mle" else seed)
    if isinstance(found, Maximum):
        content = of_maximum(found, command=line)
    else:
        content = of_regression(found, collection=collection, command=line)
    outputs.show(content, result=found)


def _read(file, formula, reports, sample):
    """Return (arguments of regress, the Cells or None) of a table, or of a collection that knows its protocol."""
    suffix = pathlib.PurePath(file).suffix.lower()
    if suffix == ".toml":
        stated = [name for group in (reports, sample) for name, value in dataclasses.asdict(group).items() if value]
        if stated:
            raise ArgumentError(f"{stated[0]} must be left out: the collection file says how its reports were made.")
        return _cells(file, formula)
    mechanism = reports.mechanism
    columns = {"count": reports.count, "weights": sample.weight, "strata": sample.strata, "cluster": sample.cluster}
    columns["report"] = reports.report or None
    return {"frame": _table(file, suffix, columns), "protocol": mechanism, "categories": reports.names, **columns}, None


def _cells(file, formula):
    """Return the arguments and the Cells of a collection file, split by the covariates of the formula."""
    from ldpbayes.regression.formula import Formula

    names = Formula.parse(formula).variables
    found = options.read(file)
    if not found.by or not set(names) <= {*found.by, *(found.covariates or {})}:
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
