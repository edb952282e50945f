"""The command ``ldpbayes regress``."""

import dataclasses

from ldpbayes.cli import options, printing
from ldpbayes.errors import ArgumentError

#: How the regression is computed.
MODEL = options.OptionGroup(
    family=None,
    private=None,
    reference=None,
    scale=None,
    link="logit",
    method="auto",
    incomplete="refuse",
    ci_prob=0.95,
    draws=1000,
    random_seed=None,
)


def command(
    file,
    formula,
    count=None,
    assignments=None,
    *,
    model=MODEL,
    reports: options.ReportOptions,
    outputs: options.Outputs,
):
    """Regress a private answer on covariates that are known openly: logit, or multinomial logit for several categories.

    The left side of the formula names the private answer, the right side its terms as in R: age + C(sex) for a factor, a:b
    for an interaction, (1 | county) for effects of groups. Prints coefficients (log odds against the reference
    category), odds ratios, and the average distribution. A number column enters as it is; C(column) makes it a factor. Rows
    with equal covariates are computed together, so rounding a continuous covariate makes a large fit fast.

    Where some deny: --set deniers.of=yes --set deniers.say=no --set deniers.channel=direct, and for the log odds of their
    share --set deniers.formula=age.

    A private answer as a predictor of an open outcome: "income ~ age + private(smokes)" with --family normal (numbers),
    bernoulli (0 and 1) or poisson (counts). The private answer has the same covariates, or those of --private.

    Known totals: --set totals.yes=0.3, or with a standard deviation --set totals.yes=0.3,0.02.

    Examples:

      ldpbayes regress example:nigeria_cells "connected ~ female + married + age_group"

      ldpbayes regress example:nigeria_cells "connected ~ female + (1 | age_group)" --page regression.html

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
    sample = options.assigned(assignments, "weights", "strata", "cluster", "deniers.", "totals.")
    if totals := sample.pop("totals", None):
        totals = {name: options.levels(value, f"totals.{name}") for name, value in totals.items()}
    deniers = sample.pop("deniers", None)
    if deniers:
        deniers |= {name: options.columns([deniers[name]]) for name in ("of", "channel") if name in deniers}
    columns = {"count": count, **sample, "report": reports.columns}
    data, stated, collection = _read(options.located(file), formula, reports, columns, model)
    outputs.check()
    stated |= model | {"deniers": deniers, "totals": totals}
    result = regress(data, formula, **stated, progressbar=outputs.shows_progress)
    seeds = model["random_seed"], result.attrs.get("random_seed")
    outputs.show(outputs.page_of(result, *seeds, collection=collection), result=result)
    return printing.status_of(result)


def _read(file, formula, reports, columns, model):
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
        return _cells(file, (*outcome, *answer.variables))
    stated = {"protocol": reports.mechanism, "categories": reports.names, **columns}
    named = [columns[name] for name in ("count", "weights", "strata", "cluster") if name in columns]
    texts = reports.columns or (*reports.mechanism.report_fields, answer.answer)
    wanted = [*named, *(reports.columns or ())]
    return options.read_table(file, wanted, texts=texts, count=columns["count"]), stated, None


def _cells(file, names):
    """Return the data, no other arguments and the Cells of a collection file, split by the covariates of the formula."""
    names = tuple(dict.fromkeys(names))
    cells = options.read(file)
    if not cells.by or not set(names) <= {*cells.by, *(cells.covariates or {})}:
        if not names:
            raise ArgumentError("formula must have a covariate for a collection file; fit estimates one distribution.")
        cells = options.read(file, list(names))
    return cells, {}, cells
