"""The page of a joint table."""

import math
from dataclasses import replace

from ldpbayes import plots
from ldpbayes.answers.base import source_of
from ldpbayes.answers.odds import odds_ratio
from ldpbayes.association import questions as answers
from ldpbayes.association.questions import TOP
from ldpbayes.pages.page import Column, Kind, Note, Page, figure_of, stated
from ldpbayes.pages.prose import as_sentences, sourced
from ldpbayes.pages.tables import TableRows, filled, interval_of, numbers_of, of_asked, percent
from ldpbayes.result.facts import facts_of

#: Mathematics: A Cramér's V below this is 0 but for rounding.
NOTHING = 1e-12
#: Rule: A Bayes factor beyond this many to one is called strong: the word of Jeffreys (1961, Theory of Probability, app. B),
#: from 10^1 on. Below 10^½ = 3 he calls it worth no more than a mention, and beyond 100 decisive: half and double stay
#: between these.
STRONG = 10.0


def of_association(result, *, top: int = TOP) -> Page:
    """Return the Page of a joint table."""
    ci_prob = float(result["summary"].attrs["ci_prob"])
    pairs = [_pair(result, *pair, ci_prob) for pair in answers.pairs_of(result)]
    ordered = sorted(pairs, key=lambda pair: -pair["cramers_v"])
    margins = {name: answers.joint_table(result, [name], ci_prob=ci_prob) for name in answers.attributes_of(result)}
    name = result.attrs.get("title") or result.attrs.get("collection", "")
    title = f"{name}: association" if name and name != "collection" else "Association"
    tables = (
        _pairs_table(ordered, percent(ci_prob)),
        _margins_table(margins),
        *(_conditional_table(result, pair["first"], pair["second"], ci_prob) for pair in ordered[:top]),
    )
    figure = figure_of(
        "association",
        "The strongest pair: shares of the columns' levels given the rows'; colours are residuals from independence.",
        "Heat map of the pair of attributes with the strongest association.",
        plots.plot_association,
        result,
        top=1,
        alone={"top": min(top, TOP)},
    )
    facts = {
        "attributes": {key: list(levels) for key, levels in answers.attributes_of(result).items()},
        "pairs": pairs,
        "independence": _facts(answers.independence(result)),
        "margins": {
            name: {level: numbers_of(margin, {name: level}) for level in map(str, margin[name].values)}
            for name, margin in margins.items()
        },
        "ci_prob": ci_prob,
        "method": result.attrs["method"],
        "prior": result.attrs["prior"],
        "random_seed": result.attrs["random_seed"],
        "converged": bool(result.attrs["converged"]),
    }
    return Page(
        title,
        tables,
        tuple(_notes(result)),
        (figure,),
        facts,
        sourced(_summary(result, ordered), {"source": source_of(result.attrs)}),
    )


def _facts(independence):
    """Return what is said about independence, as plain data."""
    return {name: value.item() for name, value in independence.items()} | {"reason": independence.reason}


def _pair(tree, first, second, ci_prob):
    """Return what is said about a pair, as plain data."""
    v = answers.cramers_v(tree, first, second, ci_prob=ci_prob)
    independent = answers.independence(tree, first, second)
    information = answers.mutual_information(tree, first, second, ci_prob=ci_prob)
    odds = odds_ratio(tree, first, second, ci_prob=ci_prob)

    def numbers(name, answer, middle="mean"):
        single = answer[middle].size == 1
        ends = [answer[end].item() for end in ("lower", "upper")] if single else None
        return {name: answer[middle].item() if single else None, f"{name}_interval": ends}

    return {
        "first": first,
        "second": second,
        **numbers("cramers_v", v),
        **numbers("mutual_information", information),
        "log_bayes_factor_independence": independent["log_bayes_factor"].item(),
        "probability_independent": independent["probability"].item(),
        "reason_independent": independent.reason,
        **numbers("odds_ratio", odds, "median"),
    }


def _pairs_table(pairs, level):
    strength = "Strength: 0 where independent, 1 where one answer determines the other."
    independent = "Probability of independence, if it was one half before the reports."
    means = "Mutual information of the two answers."
    full = [f"{level} interval of {what}" for what in ("V", "the odds ratio")]
    columns = (
        Column("first", "attribute", "text"),
        Column("second", "and", "text"),
        Column("cramers_v", "Cramér's V", spec=".3f", means=strength),
        Column("cramers_v_interval", level, "interval", spec=".3f", full=full[0]),
        Column("odds_ratio", "odds ratio", spec="#.3g", priority=1),
        Column("odds_ratio_interval", level, "interval", spec="#.3g", priority=2, full=full[1]),
        Column("probability_independent", "P(independent)", spec=".3f", means=independent),
        Column("mutual_information", "information (nats)", spec=".4f", priority=3, means=means),
    )
    title = "Pairs of attributes, the strongest association first"
    return filled(title, [(column, [pair[column.key] for pair in pairs]) for column in columns])


def _margins_table(margins):
    """Return the table of the margins: of two levels the one that is asked for."""
    tables = []
    for name, margin in margins.items():
        rows = TableRows(margin, name)
        column, levels = rows.label(name, "level", "level")
        labels = [(Column("attribute", "attribute", "text"), [name] * len(levels)), (column, levels)]
        tables.append(filled("Margins", [*labels, *rows.summary(margin, heading="share", priority=(0, 1, 0))]))
    whole = _joined(tables)
    return replace(_joined([of_asked(table, "level") for table in tables]), whole=whole)


def _joined(tables):
    """Return tables with the same columns as one."""
    return replace(tables[0], rows=tuple(row for table in tables for row in table.rows))


def _conditional_table(tree, first, second, ci_prob):
    """Return the shares of the second attribute's levels given the first one's; of two levels that asked for."""
    shares = answers.conditional(tree, second, given=first, ci_prob=ci_prob)
    rows = TableRows(shares, first, second)
    mean, _, interval = rows.summary(shares, heading="share", spec=".3f")
    columns = [rows.label(first, key="given"), rows.label(second, key="level"), mean, interval]
    return of_asked(filled(f"Shares of {second} given {first}", columns, detail=True), "level")


def _notes(tree):
    answer = answers.independence(tree)
    log_factor = answer["log_bayes_factor"].item()
    if math.isfinite(log_factor):
        factor, side = math.exp(min(abs(log_factor), 700)), "for" if log_factor > 0 else "against"
        text = f"Mutual independence of all attributes: Bayes factor {factor:.3g} {side} it"
        text += f" (probability {answer['probability'].item():.3g} where both were as likely before the reports)."
        yield Note(Kind.VERDICT, text)
    else:
        yield Note(Kind.EVIDENCE, f"The probability of mutual independence is not known: {answer.reason}.")
    missing = {answers.independence(tree, *pair).reason for pair in answers.pairs_of(tree)} - {"", answer.reason}
    for reason in sorted(missing):
        yield Note(Kind.EVIDENCE, f"The probability that a pair is independent is not known: {reason}.")
    if facts_of(tree).get("identifiability"):
        sentence = "The reports do not identify every association; where they do not, the answers are those of the prior."
        yield Note(Kind.WARNING, sentence)
    yield from stated(facts_of(tree), (Kind.WARNING, "caveat"))
    yield Note(Kind.METHOD, f"Prior: {tree.attrs['prior']}.")
    yield Note(Kind.METHOD, as_sentences(f"{tree.attrs['method']}: {tree.attrs['reason']}"))
    yield from stated(tree.attrs, (Kind.DIAGNOSTIC if tree.attrs["converged"] else Kind.WARNING, "outcome"))


def _summary(tree, ordered):
    strongest = ordered[0]
    low, high = strongest["cramers_v_interval"]
    if high < NOTHING:
        return "The prior has no interactions: it holds all attributes to be independent, whatever the reports say."
    text = (
        f"The strongest association is that of {strongest['first']} and {strongest['second']}: Cramér's V "
        f"{strongest['cramers_v']:.2f} ({interval_of(float(tree['summary'].attrs['ci_prob']))} {low:.2f} to {high:.2f})"
    )
    factor = strongest["log_bayes_factor_independence"]
    if math.isfinite(factor):
        if abs(factor) < math.log(STRONG):
            text += "; the reports do not settle whether the two are independent"
        else:
            text += f"; the reports speak {'for' if factor > 0 else 'against'} their independence"
    return f"{text}."
