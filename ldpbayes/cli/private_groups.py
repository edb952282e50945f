"""The command ``ldpbayes private-groups``."""

import dataclasses
import pathlib

from ldpbayes.cli import options, printing, settings
from ldpbayes.errors import ArgumentError, DataError, shown


@dataclasses.dataclass(frozen=True)
class StatedReportOptions(options.ReportOptions):
    """How the reports of a table were made, where each may state it."""

    rate_column: str | None = None
    epsilon_column: str | None = None

    def design(self):
        """Return the arguments of by_private_group that say how the reports were made."""
        columns = {"report": self.columns, "categories": self.names if self.sized else None}
        columns |= {"rate_column": self.rate_column, "epsilon_column": self.epsilon_column}
        if self.protocol is None and self.parameter:
            raise ArgumentError("protocol must be named with its parameters, such as --protocol grr -p epsilon=1.1.")
        if self.protocol is None:
            return columns
        if self.rate_column is None and self.epsilon_column is None:
            return columns | {"categories": self.names, "protocol": self.mechanism}
        if self.parameter:
            raise ArgumentError("parameter must be left out with a column of the ε, or the rate, of each report.")
        return columns | {"protocol": self.protocol}

    def words(self):
        """Return how the reports were made, in words."""
        if self.rate_column is not None:
            return (
                f"Randomized response: at the rate in the column {self.rate_column} a group is replaced by a uniformly "
                "drawn one."
            )
        at = f"with the ε in the column {self.epsilon_column}" if self.epsilon_column is not None else ""
        parameters = f"({', '.join(self.parameter)})" if self.parameter else ""
        return " ".join(filter(None, ["Reports through", self.protocol, parameters, at])) + "."


#: What is computed, and how.
ANSWER = options.OptionGroup(
    quantiles=".5,.75,.95", target="distribution", method="auto", bins=None, ci_prob=0.95, draws=500, random_seed=None
)


def command(
    file,
    value="duration",
    unit="",
    by=None,
    assignments=None,
    output=None,
    plot=None,
    *,
    answer=ANSWER,
    reports: StatedReportOptions,
    outputs: options.Shown,
):
    """Compare an open value between groups known by private reports only.

    Every record has an open value, such as a duration, and a report of a private answer. Prints share, mean and
    quantiles of each group, and differences between groups, with intervals. No record gets a negative weight, and
    distribution functions are monotone. Estimates by reweighting (method recipe) stand beside them.

    Say how the reports were made: --rate-column names a column of randomization rates, --epsilon-column a column of ε,
    --protocol one protocol for all.

    Exit status 0: fine; 1: the posterior is not to be trusted; 2: bad input; 3: some cells are left out and named.

    Examples:

      ldpbayes private-groups example:survey.csv --value income --report smokes --protocol warner -p p=0.7
      --categories no,yes --set weights=w --target distribution

      ldpbayes private-groups example:survey.csv --value region --report smokes --protocol warner -p p=0.7
      --categories no,yes
    """
    from ldpbayes.pages.page import Page
    from ldpbayes.private_groups import by_private_group
    from ldpbayes.private_groups.page import rows_table

    asked = answer | {"quantiles": options.levels(answer["quantiles"], "quantiles", "levels such as .5,.75,.95")}
    weight = settings.parsed(assignments, "private-groups").get("weights")
    if output is not None and output.suffix.lower() not in (".csv", ".parquet"):
        raise ArgumentError(f"output must end in .csv or .parquet, got {shown(str(output))}.")
    outputs.check(output, plot=plot)
    stated, cells = reports.design(), options.columns(by) or []
    path = pathlib.Path(options.located(file))
    frame = options.read_table(path, [value, reports.rate_column, reports.epsilon_column, weight, *cells], reports.columns)
    _refuse_half_numbers(frame, value, path)
    result = by_private_group(frame, value, **stated, by=cells or None, weights=weight, **asked)
    if output:
        Page("", (rows_table(result),)).save(output)
    content = outputs.page_of(result, answer["random_seed"], result.random_seed, unit=unit, design=reports.words())
    outputs.show(content, output=output, plot=plot)
    return printing.status_of(result)


def _refuse_half_numbers(table, value, path):
    """Refuse a column of numbers with entries that are none; all texts are an open category."""
    from ldpbayes.sources.opening import open_source
    from ldpbayes.sources.stream import Batch

    column = table[value].to_pylist()
    if not any(isinstance(text, str) for text in column):
        return
    wrong, numbers = None, 0
    for row, text in enumerate(column):
        try:
            float(text)
            numbers += 1
        except (TypeError, ValueError):
            wrong = row if wrong is None else wrong
    if wrong is not None and numbers > len(column) / 2:
        piece = next(iter(open_source(path).pieces([value])))
        error = DataError(f"must be a number, got {shown(column[wrong])}", line=wrong, field=value)
        raise Batch(table, piece).located(error)
