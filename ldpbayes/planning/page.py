"""The page of a plan."""

import itertools
import math

from ldpbayes import checks
from ldpbayes.hashing import MAX_BUCKETS
from ldpbayes.pages.page import Column, Figure, Kind, Note, Page, Table, figure_of
from ldpbayes.pages.prose import number_of
from ldpbayes.pages.tables import filled, percent
from ldpbayes.planning.figures import drawn_plans, drawn_trials
from ldpbayes.planning.plans import KINDS, Plans
from ldpbayes.planning.prospects import POWER, SHARE
from ldpbayes.protocols import make_protocol
from ldpbayes.protocols.local_hashing import pool_loss, seeds_for

#: What with_prospects adds.
_ASKED = ("group_half_width", "least_difference", "power", "poisoned", "gamma_sd", "direct_share", "share_sd", "denial_sd")
#: What another wave has beside them.
_WAVE = ("standard_error", "before")
_WANTED = {
    "n": "users needed",
    "epsilon": "privacy level needed",
    "error": "error to expect",
    "n_categories": "categories possible",
}
_NAMES = {"n_categories": "categories", "epsilon": "epsilon", "n": "users", "error": "error"}


def of_plan(
    plans,
    *,
    kind: str = "l2",
    assumed: str = "uniform",
    ci_prob: float = 0.95,
    groups: int | None = None,
    delta: float | None = None,
    fakes: float | None = None,
) -> Page:
    """Return the Page of a list of Plan."""
    what = error_in_words(kind, ci_prob)
    assumed = "posterior" if not math.isnan(plans[0].before) else assumed
    title = f"{what[0].upper()}{what[1:]}; p {assumed}; solved for {_NAMES[plans[0].solved]}"
    title += ", best first" if len(plans) > 1 else ""
    drawn = " and, for the sd of γ, reports that cannot be listed" if any(plan.gamma_sd > 0 for plan in plans) else ""
    how = f"Users are rounded up. Errors are computed by formula; only averages over a prior{drawn} are simulated."
    notes = [Note(Kind.METHOD, how)]
    if assumed == "posterior":
        notes = [
            Note(Kind.METHOD, "The error is that of the best estimate that is linear in the counts of the new reports.")
        ]
    notes += [*_prospects(plans, groups, delta, fakes), *_pools(plans), *_subsets(plans)]
    notes += [Note(Kind.WARNING, f"{plan.protocol}: {plan.note}") for plan in plans if not plan.feasible]
    figures: tuple[Figure, ...] = ()
    best = plans[0]
    if isinstance(plans, Plans) and plans.asked and best.feasible:
        alt = f"Curves of the error of each protocol; {best.protocol} is best, with error {best.error:.3g} at the plan."
        caption = f"{what[0].upper()}{what[1:]} by protocol; the star is the plan."
        figures = (figure_of("plan", caption, alt, drawn_plans, plans, what),)
    facts = {"kind": kind, "p": assumed, "solved": plans[0].solved, "plans": [plan.row() for plan in plans]}
    table = _table(plans, title, delta, fakes)
    heading = f"Plan: {_WANTED[plans[0].solved]}"
    return Page(heading, (table,), tuple(notes), figures, facts, _summary(plans, what, assumed))


def _table(plans, title, delta, fakes):
    """Return the table of plans; what no plan has is left out."""
    crafted = f"{SHARE:g} becomes, with {fakes or 0:.3g} fakes"
    least = "Least error that any protocol with this ε can have."
    ignoring = "Standard deviation of the share who ignore the device that the reports can give."
    columns = (
        Column("protocol", "protocol", "text"),
        Column("n_categories", "categories", spec=",.0f", priority=4),
        Column("epsilon", "epsilon", spec=".4g"),
        Column("users", "users", spec=",.0f"),
        Column("error", "error", spec=".4g"),
        Column(
            "standard_error",
            "± (draws)",
            spec=".2g",
            priority=1,
            means="Monte Carlo error of the expected error, from the draws.",
        ),
        Column("before", "error now", spec=".4g", means="Without another wave."),
        Column("bound", "least possible", spec=".4g", priority=2, means=least),
        Column(
            "direct_answers", "direct answers", spec=".4g", priority=3, means="Error of as many answers without privacy."
        ),
        Column("group_half_width", "half-width in a group", spec=".3g", priority=1),
        Column("least_difference", f"difference found with power {POWER:g}", spec=".3g", priority=1),
        Column("power", f"power to find {delta:g}" if delta else "power", spec=".3f"),
        Column("poisoned", crafted, spec=".3g", means="What such a share of crafted reports makes of a small share."),
        Column("gamma_sd", "sd of γ", spec=".3g", means=ignoring),
        Column(
            "direct_share", "asked directly", spec=".2g", means="Share at which the two variances beside it add up to least."
        ),
        Column("share_sd", "sd of P", spec=".3g", means="Of the category that is denied, at that share."),
        Column("denial_sd", "sd of δ", spec=".3g", means="Of the share who deny, at that share."),
        Column("bytes_per_report", "bytes a report", spec=",.0f", priority=5),
        Column("note", "computed by", "text", priority=6),
    )
    shown = [(column, [_cell(plan, column.key) for plan in plans]) for column in columns]
    # Only some kinds have a least error, and the rest is there where it was asked for.
    optional = ("bound", *_ASKED, *_WAVE)
    blank = {name for name in optional if all(math.isnan(getattr(plan, name)) for plan in plans)}
    return filled(title, [(column, values) for column, values in shown if column.key not in blank])


def _cell(plan, key):
    """Return a number or a text of a plan; None where it has none."""
    if key == "note":
        return plan.note if plan.feasible else None
    value = getattr(plan, key)
    if key == "protocol":
        return value
    unknown = not value if key == "bytes_per_report" else key == "gamma_sd" and math.isinf(value)
    return None if unknown else float(value)


def _prospects(plans, groups, delta, fakes):
    """Yield what the best plan can be used for."""
    feasible = [plan for plan in plans if plan.feasible]
    best = feasible[0] if feasible else None
    if best is not None and not math.isnan(best.least_difference):
        groups = groups or 2
        text = f"Each of {groups} groups of {best.users // groups:,} users is known to ±{best.group_half_width:.3g} by "
        text += (
            f"{best.protocol}; a difference of {best.least_difference:.3g} between two of them is found with probability "
        )
        text += f"{POWER:g}"
        other = delta and not math.isclose(delta, best.least_difference, rel_tol=1e-3)
        text += f", and one of {delta:g} with probability {best.power:.2f}." if other else "."
        if groups > 2:
            text += " Comparing more than two of them needs a stricter level."
        yield Note(Kind.WORTH, text)
    attacked = [plan for plan in feasible if not math.isnan(plan.poisoned)]
    if attacked:
        worst = max(attacked, key=lambda plan: plan.poisoned)
        text = f"If {100 * fakes:g} % of the reports are crafted to raise one category, its estimate of {SHARE:g} becomes "
        text += f"{attacked[0].poisoned:.2g} under {attacked[0].protocol}"
        text += f", and {worst.poisoned:.2g} under {worst.protocol}." if worst.poisoned > attacked[0].poisoned else "."
        yield Note(Kind.WORTH, f"{text} ldpbayes check looks for such reports; some cannot be seen.")
    asked = next((plan for plan in feasible if not math.isnan(plan.denial_sd)), None)
    if asked is not None:
        yield Note(
            Kind.WORTH,
            f"With {asked.protocol} and {100 * asked.direct_share:.0f} % of the users asked directly, the share that is "
            f"denied is known to a standard deviation of {asked.share_sd:.2g}, and the share δ who deny it to "
            f"{asked.denial_sd:.2g}. With δ unknown and well above zero the direct answers tell of δ, and next to nothing "
            "of P: ask more through the device where P matters.",
        )
    hidden = [plan.protocol for plan in feasible if math.isinf(plan.gamma_sd)]
    if hidden:
        yield Note(
            Kind.WARNING,
            f"No number of reports through {', '.join(hidden)} tells how many ignore the device. A second channel with "
            "another ε, or asking some of the respondents directly, may tell it.",
        )
    without = [plan.protocol for plan in feasible if math.isnan(plan.gamma_sd)]
    if 0 < len(without) < len(feasible):
        yield Note(Kind.WARNING, f"Reports of {', '.join(without)} cannot follow the law of those who ignore the device.")


def _subsets(plans):
    """Yield the subset and the split of a restricted response."""
    for plan in plans:
        if plan.subset:
            first, second = plan.mechanism.levels
            named = ", ".join(plan.subset)
            yield Note(
                Kind.WORTH,
                f"{plan.protocol} restricts the answers to S = {{{named}}}: of ε = {plan.epsilon:.3g}, {first:.3g} is spent "
                f"within it and {second:.3g} among the others.",
            )


def _pools(plans):
    """Yield the advice on pools of seeds, where local hashing with fresh seeds is among the plans."""
    candidates = [plan for plan in plans if plan.feasible and plan.protocol in ("olh", "local_hashing", "blh")]
    for plan in candidates[:1]:
        buckets = make_protocol(plan.protocol, _digits(plan.n_categories), {"epsilon": plan.epsilon}).buckets
        seeds = seeds_for(plan.n_categories, buckets, 0.015)
        if seeds > MAX_BUCKETS or seeds * buckets >= plan.n:
            continue
        loss = 100 * pool_loss(plan.n_categories, buckets, seeds)
        yield Note(
            Kind.METHOD,
            f"With seeds from a pool of {seeds:,} public ones ({plan.protocol}:seeds={seeds}) local hashing costs about "
            f"{loss:.2g} % more variance, and any number of reports is a table of at most {seeds * buckets:,} counts.",
        )


def _digits(n_categories):
    return [str(x) for x in range(int(n_categories))]


def _summary(plans, what, assumed):
    """Return what the best protocol needs or reaches, in a sentence or two."""
    best = plans[0]
    if not best.feasible:
        return f"No protocol reaches this target. {best.note}"
    error = f"{best.error:#.3g}"
    several = len(plans) > 1
    given = {
        "n_categories": number_of(best.n_categories, "category", "categories"),
        "epsilon": f"ε = {best.epsilon:.3g}",
        "n": number_of(best.users, "user"),
        "error": f"{'an' if what[0] in 'aeiou' else 'a'} {what} of {error}",
    }
    claim = {
        "n": f"needs {'the fewest users: ' if several else ''}{best.users:,}{'' if several else ' users'}",
        "epsilon": f"needs {'the least ' if several else ''}ε = {best.epsilon:.3g}",
        "error": f"has the least {what}: {error}" if several else f"has {given['error']}",
        "n_categories": f"allows {'the most, ' if several else ''}{best.n_categories:,} categories",
    }[best.solved]
    terms = [text for key, text in given.items() if key != best.solved]
    if not math.isnan(best.before):
        terms, claim = [f"{best.users:,} more reports", given["epsilon"]], f"{claim}, from {best.before:#.3g} now"
    text = f"With {', '.join(terms[:-1])} and {terms[-1]}, the protocol {best.protocol} {claim}"
    text += f", where P is {'that of the posterior' if assumed == 'posterior' else assumed}"
    return (
        f"{text}; as many direct answers would leave {best.direct_answers:#.3g}." if best.direct_answers > 0 else f"{text}."
    )


def of_validation(study, *, title: str = "More trials of the device") -> Page:
    """Return the Page of a ValidationStudy: a row for each number of trials and category."""
    columns = (
        Column("times", "times the trials", spec=".4g", means="Infinite where the device is known."),
        Column("category", "category", "text"),
        Column("sd", "sd of the share", spec="#.3g"),
    )
    each = itertools.product(study.times, study.categories)
    rows = [(*at, float(sd)) for at, sd in zip(each, study.sd.ravel(), strict=True)]
    facts = {"times": study.times, "sd": study.sd}
    caption = "Standard deviation of the least certain share along the trials of the device."
    figures = (figure_of("trials", caption, study.sentence, drawn_trials, study),)
    return Page(title, (Table(title, columns, tuple(rows)),), figures=figures, facts=facts, summary=study.sentence)


def checked_kind(value, name):
    """Return a kind of error by its name, or refuse another."""
    return checks.choice(value, name, tuple(KINDS))


def error_in_words(kind: str, ci_prob: float = 0.95) -> str:
    """Return what the error of a plan is, with its probability as a number."""
    return KINDS[kind].replace("ci_prob", percent(ci_prob))
