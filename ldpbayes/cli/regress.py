"""The command ``ldpbayes regress``."""

import dataclasses

from ldpbayes.cli import options, printing, settings
from ldpbayes.errors import ArgumentError, shown

#: How the regression is computed.
MODEL = options.OptionGroup(
    family=None,
    private=None,
    reference=None,
    scale=None,
    link="logit",
    method="auto",
    bad_rows="refuse",
    ci_prob=0.95,
    draws=1000,
    random_seed=None,
)


def command(
    file,
    formula,
    count=None,
    assignments=None,
    deniers_formula=None,
    totals=None,
    *,
    model=MODEL,
    reports: options.ReportOptions,
    outputs: options.Outputs,
):
    """Regress a private answer on covariates that are known openly.

    The model is a logit, or a multinomial logit for several categories.

    The left side of the formula names the private answer, the right side its terms as in R: age + C(sex) for a factor, a:b
    for an interaction, (1 | county) for effects of groups. Prints coefficients (log odds against the reference
    category), odds ratios, and the average distribution. A number column enters as it is; C(column) makes it a factor. Rows
    with equal covariates are computed together, so rounding a continuous covariate makes a large fit fast.

    Where --set states deniers, --deniers-formula age lets the log odds of their share depend on age.

    A private answer as a predictor of an open outcome: "income ~ age + private(smokes)" with --family normal (numbers),
    bernoulli (0 and 1) or poisson (counts). The private answer has the same covariates, or those of --private.

    Known totals: --total yes=0.3, or with a standard deviation --total yes=0.3,0.02.

    Exit status 0: fine; 1: the posterior is not to be trusted; 2: bad input.

    Examples:

      ldpbayes regress example:nigeria_cells "connections ~ female + married + age_group"

      ldpbayes regress example:nigeria_cells "connections ~ female + (1 | age_group)" --page regression.html

      ldpbayes regress example:survey.csv "smoker ~ age" --protocol warner -p p=0.7 --categories no,yes --report smokes
      --method mle

      ldpbayes regress example:survey.csv "smokes ~ age" --protocol warner -p p=0.7 --categories no,yes --set weights=w
      --set strata=region --set cluster=village

      ldpbayes regress example:survey.csv "income ~ age + private(smokes)" --family normal --private "smokes ~ age + region"
      --protocol warner -p p=0.7 --categories no,yes
    """
    from ldpbayes.regression import regress

    if outputs.output is not None and model["method"] == "mle":
        raise ArgumentError("output must be left out with method mle, which has no draws; use --json or --page.")
    keys = settings.parsed(assignments, "regress")
    columns = {"count": count, "report": reports.columns}
    data, stated, collection = _read(options.located(file), formula, reports, columns, keys, model)
    if deniers_formula is not None:
        stated["deniers"] = {**stated["deniers"], "formula": deniers_formula} if stated["deniers"] else deniers_formula
    outputs.check()
    stated |= model | {"totals": _totals(totals)}
    result = regress(data, formula, **stated, progressbar=outputs.shows_progress)
    seeds = model["random_seed"], result.attrs.get("random_seed")
    outputs.show(outputs.page_of(result, *seeds, collection=collection), result=result)
    return printing.status_of(result)


def _totals(texts):
    """Return the known shares of repeated options LABEL=SHARE or LABEL=SHARE,SD; None where there are none."""
    totals: dict = {}
    for text in texts or ():
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name or name in totals:
            raise ArgumentError(f"totals must be LABEL=SHARE or LABEL=SHARE,SD, once for each label, got {shown(text)}.")
        totals[name] = options.levels(value, f"the total of {name}")
    return totals or None


def _read(file, formula, reports, columns, keys, model):
    """Return (data, what else is stated, the Cells or None) of a table, or of a collection that knows its protocol."""
    from ldpbayes.regression.formula import Formula
    from ldpbayes.regression.predictor import Predicted

    answer = Formula.parse(formula)
    predicted = Predicted.asked(answer, model["family"], model["private"])
    answer, outcome = (answer, ()) if predicted is None else (predicted.private, predicted.columns)
    if file.lower().endswith(".toml"):
        stated = [name for name, value in (*dataclasses.asdict(reports).items(), *columns.items()) if value]
        if stated:
            raise ArgumentError(f"{stated[0]} must be left out: the collection file says how its reports were made.")
        return _cells(file, (*outcome, *answer.variables), keys, model["bad_rows"])
    settings.refuse_other(keys, settings.OF_TABLE, "for a table")
    deniers = keys.pop("deniers", None)
    columns |= keys
    stated = {"protocol": reports.mechanism, "categories": reports.names, "deniers": deniers, **columns}
    named = [columns[name] for name in ("count", "weights", "strata", "cluster") if name in columns]
    texts = reports.columns or (*reports.mechanism.report_fields, answer.answer)
    wanted = [*named, *(reports.columns or ())]
    return options.read_table(file, wanted, texts=texts, count=columns["count"]), stated, None


def _cells(file, names, keys, bad_rows):
    """Return the data, no other arguments and the Cells of a collection file, split by the covariates of the formula."""
    names = tuple(dict.fromkeys(names))
    cells = options.read(file, stated=keys, bad_rows=bad_rows)
    if not cells.by or not set(names) <= {*cells.by, *(cells.covariates or {})}:
        if not names:
            raise ArgumentError("formula must have a covariate for a collection file; fit estimates one distribution.")
        cells = options.read(file, list(names), keys, bad_rows=bad_rows)
    return cells, {"deniers": None}, cells
