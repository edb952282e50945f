"""Planning a collection: from any three of categories, ε, reports and error, the fourth; protocols ranked."""

import dataclasses
import math
import numbers
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import ndtri

from ldpbayes import checks
from ldpbayes.arguments import explained
from ldpbayes.arrays import FloatArray
from ldpbayes.errors import ArgumentError, InfeasibleError, shown
from ldpbayes.inference.ends import normal_reach
from ldpbayes.planning import risk, waves
from ldpbayes.presenting import AbstractResult, recorded
from ldpbayes.priors import AbstractPrior, Dirichlet, as_dirichlet
from ldpbayes.protocols import AbstractProtocol
from ldpbayes.protocols.making import epsilon_follows, has_free_epsilon, named_makers
from ldpbayes.simulation import Population
from ldpbayes.theory import base, bounds, information

if TYPE_CHECKING:
    from ldpbayes.pages.page import Page

__all__ = [
    "ESTIMATORS",
    "KINDS",
    "PROTOCOLS",
    "Plan",
    "Plans",
    "bytes_per_report",
    "curves",
    "expected_error",
    "plan",
]

#: Mathematics: Ends of the searches for a level and for a number of categories.
SMALLEST_EPSILON, LARGEST_CATEGORIES = 1e-4, 2**20
#: Names of the protocols that are compared by default.
PROTOCOLS = ("grr", "subset", "oue", "sue", "olh", "hadamard", "block_design")
#: The protocol that an earlier wave can restrict to a subset, beside these.
RESTRICTED = "restricted_response"
#: What the error is, by kind.
KINDS = {
    "l2": "expected sum of squared errors over the categories",
    "l1": "expected sum of absolute errors over the categories",
    "max": "error that no category exceeds with probability ci_prob",
    "half_width": "half-width of the widest category's interval at ci_prob",
}
ESTIMATORS = ("mle", "oracle")
#: What plans and prospects take, beside what all the theory does.
WORDS = base.WORDS | {
    "n": "n : float\n    Number of reports in all.",
    "kind": """kind : {"l2", "l1", "max", "half_width"}
    What the error is; see KINDS. "max" is simultaneous over the categories (Šidák), both intervals are normal.""",
    "p": """p : "uniform", (a,) array or Population, or Dirichlet, "jeffreys", "flat", number
    Assumption about the distribution. Uniform is the worst case for "l2"; a prior averages over it.""",
    "estimator": """estimator : {"mle", "oracle"}
    "mle" is what the MLE and the posterior attain, "oracle" the protocol's unbiased decoder.""",
    "groups": "groups : int\n    Number of groups of equal size.",
    "ci_prob": "ci_prob : float\n    Probability of intervals, and one minus the level of a two-sided test.",
}
#: Decorates them.
described = explained(WORDS)
#: Time: Above this many terms b·a² the scalar (trace) form of a balanced design's information stands for the matrix.
_FULL_WORK = 2**29
#: Time: The same where the trace is known without the channel.
_SIZED_WORK = 2**22
#: Rule: The search for the most categories goes at least this far where the error may fall with their number.
_ALWAYS_TRIED = 64
_UNDETERMINED = "No number of reports determines all categories."
#: Arguments of ``with_prospects`` that its page names.
_PROSPECTS = ("groups", "delta", "fakes")
_UNKNOWNS = ("n_categories", "epsilon", "n", "error")


@dataclass(frozen=True)
class Plan:
    """One line of a plan: a protocol with all four quantities, one of them solved for.

    Attributes
    ----------
    protocol : str
    n_categories : int
    epsilon : float
    n : float
        Reports, not rounded; ``users`` rounds up.
    error : float
        Of the kind asked for, at these settings (where ε or the categories were solved for, at most the one asked for).
    solved : str
        Which of n_categories, epsilon, n, error was the unknown.
    bound : float
        No ε-LDP protocol goes below this error in the limit of many reports (at uniform p the exact floor, elsewhere
        Theorem 4.5), nor do direct answers; nan where the kind has no such bound.
    direct_answers : float
        The error that n direct answers would have.
    bytes_per_report : int
        Size of one stored report.
    note : str
        How the error was computed, or why there is no plan.
    group_half_width, least_difference, power : float
        Of groups, where ``prospects.with_prospects`` added them: half-width of an interval in each group, the difference of
        two groups that is found with probability 0.8, and the power for a stated difference.
    poisoned : float
        What a share of 0.01 becomes with the stated share of crafted reports.
    gamma_sd : float
        Standard deviation of the share γ of respondents who ignore the device; inf where no number of reports tells it.
    direct_share, share_sd, denial_sd : float
        Share of the users to ask directly where some deny, and the standard deviations of the share of the category that is
        denied and of δ at that: see ``prospects.asked_directly``.
    standard_error, before : float
        After an earlier wave: the Monte Carlo error of the expected error, and the error without another wave.
    subset : tuple of str
        Labels of the categories that a restricted response restricts itself to.
    mechanism : AbstractProtocol or None
        The protocol itself, where it reaches the target.
    """

    protocol: str
    n_categories: int
    epsilon: float
    n: float
    error: float
    solved: str
    bound: float = math.nan
    direct_answers: float = math.nan
    bytes_per_report: int = 0
    note: str = ""
    group_half_width: float = math.nan
    least_difference: float = math.nan
    power: float = math.nan
    poisoned: float = math.nan
    gamma_sd: float = math.nan
    direct_share: float = math.nan
    share_sd: float = math.nan
    denial_sd: float = math.nan
    standard_error: float = math.nan
    before: float = math.nan
    subset: tuple[str, ...] = ()
    mechanism: AbstractProtocol | None = field(default=None, repr=False, compare=False)

    @property
    def users(self) -> float:
        """n rounded up to whole users (n itself where it is whole within 1e-9)."""
        return math.ceil(self.n * (1 - 1e-9)) if math.isfinite(self.n) else self.n

    @property
    def feasible(self) -> bool:
        """Whether the protocol reaches the target at all."""
        return math.isfinite(getattr(self, self.solved))

    def row(self) -> dict[str, Any]:
        """Return the fields as a plain dict, with users for n: one line of a table."""
        names = [item.name for item in dataclasses.fields(self) if item.name != "mechanism"]
        return {name: getattr(self, name) for name in names} | {"n": self.users}


class Plans(AbstractResult, tuple[Plan, ...]):
    """Plans of several protocols, best first.

    Attributes
    ----------
    kind : str
        What the error is: a key of KINDS.
    ci_prob : float
        Probability of the kinds "max" and "half_width".
    """

    kind: str
    ci_prob: float
    #: What curves take beside the settings of a plan: their axis, protocols, and what is assumed.
    asked: Mapping[str, Any]

    def __new__(
        cls, plans: Iterable[Plan], kind: str = "l2", ci_prob: float = 0.95, asked: Mapping[str, Any] | None = None
    ) -> "Plans":
        new = super().__new__(cls, plans)
        new.kind, new.ci_prob, new.asked = kind, ci_prob, dict(asked or {})
        return new

    def with_plans(self, plans: Iterable[Plan]) -> "Plans":
        """Return other plans of the same question.

        Parameters
        ----------
        plans : iterable of Plan
        """
        return Plans(plans, self.kind, self.ci_prob, self.asked)

    def page(self, **settings: Any) -> "Page":
        """Return the Page of the plans, which says what their error is.

        Parameters
        ----------
        **settings
            Of ``pages.show``.
        """
        p, stated = self.asked.get("p", "uniform"), self.settings.get("arguments", {})
        words = {"kind": self.kind, "ci_prob": self.ci_prob, "assumed": p if isinstance(p, str) else "as given"}
        return super().page(**words | {name: stated[name] for name in _PROSPECTS if name in stated} | settings)


@recorded
@described
def plan(
    *,
    n_categories: int | None = None,
    epsilon: float | None = None,
    n: float | None = None,
    error: float | None = None,
    kind: str = "l2",
    p: Any = "uniform",
    target: str = "distribution",
    estimator: str = "mle",
    protocols: Any = None,
    ci_prob: float = 0.95,
    after: Any = None,
    cell: Any = None,
) -> Plans:
    """Solve for the one left out of n_categories, epsilon, n, error (expected; by default a sum of squares), by protocol.

    Errors are the exact risk of the oracle, or the large-n risk of the MLE and of the posterior mean, from closed forms
    and quadrature; nothing is simulated except averages over a prior with more than four categories. Planning inverts
    itself: the error at the planned setting is the error asked for.

    Parameters
    ----------
    n_categories, epsilon, n, error : int, float, float, float
        Exactly one of them None: the unknown. The planned ε is the least, the planned n_categories the most, that keep
        the error at or below the one asked for. ε is left out besides where the parameters of all protocols fix it, as
        those of survey designs do.
    protocols : str, sequence of str, or dict of name -> callable (n_categories, epsilon), optional
        All of PROTOCOLS by default; names as in collection files, with their parameters: "olh:seeds=4096".
    after : DataTree, optional
        The result of what was collected so far, in place of p; then n or error is the unknown.
    cell : str or tuple of str, optional
        Which population, where that result has cells.

    Returns
    -------
    Plans
        A Plan each, sorted by the unknown; protocols that cannot reach the target come last, with the reason in their note.

    Examples
    --------
    >>> best = plan(n_categories=16, epsilon=1.0, error=0.01, protocols=["grr", "oue"])[0]
    >>> best.protocol, best.users
    ('oue', 5633)
    >>> forced = named_makers(["forced_response"], {"truth": 2 / 3, "forced": [1, 1]})
    >>> plan(n_categories=2, error=0.03, kind="half_width", protocols=forced)[0].users
    2401
    """
    given: dict[str, Any] = {"n_categories": n_categories, "epsilon": epsilon, "n": n, "error": error}
    belief = None if after is None else waves.Belief(after, cell)
    if belief is not None and n_categories is None:
        given["n_categories"] = len(belief.categories)
    unknown = [name for name in _UNKNOWNS if given[name] is None]
    makers = _makers((*PROTOCOLS, RESTRICTED) if belief is not None and protocols is None else protocols)
    fixed = _fix_epsilon(protocols)
    if fixed and epsilon is not None:
        raise ArgumentError(epsilon_follows(next(iter(makers))))
    follows = fixed or (isinstance(protocols, dict) and len(unknown) > 1 and epsilon is None)
    unknowns = [name for name in _UNKNOWNS if not (follows and name == "epsilon")]
    unknown = [name for name in unknown if name in unknowns]
    if len(unknown) != 1:
        say = "" if belief is None else "; beside an earlier wave state epsilon, and n or error"
        raise ArgumentError(f"plan must leave out exactly one of {', '.join(unknowns)}, got {len(unknown)} left out{say}.")
    given = _check_known(given)
    question = _Question(kind, p, target, estimator, ci_prob)
    asked = {"p": p, "target": target, "estimator": estimator, "ci_prob": ci_prob, "protocols": protocols}
    asked["along"] = "n" if follows or unknown == ["n"] else "epsilon"
    if belief is not None:
        restricted = None if isinstance(protocols, dict) else RESTRICTED
        asked |= {"after": after, "cell": cell}
        return Plans(_next_waves(belief, given, unknown[0], question, makers, restricted), kind, ci_prob, asked)
    if unknown == ["n_categories"] and not isinstance(p, str | float | int):
        raise ArgumentError("p must be 'uniform' or a symmetric prior when n_categories is the unknown.")
    if given["n_categories"] is not None:
        question.assumed(given["n_categories"])  # a p of another length is refused, not a reason why no protocol has a plan
    plans = [_solve(name, maker, unknown[0], given, question) for name, maker in makers.items()]
    return Plans(sorted(plans, key=lambda plan: _rank(plan, unknown[0])), kind, ci_prob, asked)


@described
def expected_error(protocol, n, *, kind="l2", p="uniform", target="distribution", estimator="mle", ci_prob=0.95) -> float:
    """Return the error of this kind at n reports of a protocol.

    Returns
    -------
    float
    """
    return _scale(_Question(kind, p, target, estimator, ci_prob).unit(protocol)[0], kind, checks.users(n))


def curves(
    along: str,
    values: ArrayLike,
    *,
    n_categories: int,
    epsilon: float | None = None,
    n: float | None = None,
    protocols: Any = None,
    kind: str = "l2",
    **assumptions: Any,
) -> dict[str, FloatArray]:
    """Return the errors to plot against ε or n: a dict of (len(values),) arrays, one curve per name.

    Two curves are added to those of the protocols: "bound" (the least error of any protocol, and of direct answers; nan if
    the kind has no bound) and "direct answers". A curve is nan at values for which the protocol does not exist.

    Parameters
    ----------
    along : {"epsilon", "n"}
        The horizontal axis.
    values : (m,) array
        Its values.
    n_categories : int
    epsilon, n : float
        The one that is not the axis.
    protocols, kind, assumptions
        As for plan: p, target, estimator, ci_prob, after, cell.
    """
    checks.choice(along, "along", ("epsilon", "n"))
    points, n_categories = (
        checks.reals(values, "values", "a sequence of finite numbers"),
        checks.categories_count(n_categories),
    )
    if not points.size:
        raise ArgumentError("values must hold at least one number, got none.")
    if (n if along == "epsilon" else epsilon) is None:
        raise ArgumentError(f"{'n' if along == 'epsilon' else 'epsilon'} must be given for a curve along {along}.")
    given: dict[str, Any] = {"n_categories": n_categories, "epsilon": None if _fix_epsilon(protocols) else epsilon, "n": n}
    plans = [plan(**given | {along: float(value)}, protocols=protocols, kind=kind, **assumptions) for value in points]
    by_name = [{p.protocol: p.error for p in row} for row in plans]
    names = [name for name in (*_makers(protocols), RESTRICTED) if name in by_name[0]]
    out = {name: np.array([errors[name] for errors in by_name]) for name in names}
    floors = [next(((p.bound, p.direct_answers) for p in row if p.feasible), (math.nan,) * 2) for row in plans]
    return out | dict(zip(("bound", "direct answers"), np.array(floors).T, strict=True))


# ---- parts -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Question:
    """What is asked of every protocol: kind of error, assumption about p, target, estimator."""

    kind: str = "l2"
    p: object = "uniform"
    target: str = "distribution"
    estimator: str = "mle"
    ci_prob: float = 0.95

    def __post_init__(self):
        checks.choice(self.kind, "kind", tuple(KINDS))
        checks.choice(self.target, "target", risk.TARGETS)
        checks.choice(self.estimator, "estimator", ESTIMATORS)
        object.__setattr__(self, "ci_prob", checks.level(self.ci_prob))

    def unit(self, protocol):
        """Return (error at one report, how it was computed); errors scale as 1/n (l2) or 1/√n."""
        checks.instance(protocol, "protocol", AbstractProtocol, "a protocol of ldpbayes")
        if protocol.device_law() is not None:
            raise InfeasibleError(
                "No number of reports makes up for a device whose probabilities are not known exactly: planning.validation "
                "says what more reports and more trials are worth."
            )
        a, norm = protocol.n_categories, self.kind if self.kind in ("l2", "l1") else "max"
        assumed = self.assumed(a)
        if isinstance(assumed, Dirichlet):
            risk_of_one = risk.average_risk(protocol, assumed, 1, self.target, norm, estimator=self.estimator, draws=40)
        elif self.estimator == "oracle":
            risk_of_one = risk.oracle_risk(protocol, assumed, 1, self.target, norm)
        else:
            risk_of_one = _mle_risk(protocol, assumed, self.target, norm)
        return risk_of_one.value * self.width(a), f"{self.estimator}, {risk_of_one.method}"

    def left(self, variances):
        """Return the error that each row of variances of P means, shape (m,)."""
        norm, width = self.kind if self.kind in ("l2", "l1") else "max", self.width(variances.shape[1])
        return [risk.spread(row, norm) * width for row in variances]

    def assumed(self, a):
        """Return the assumed distribution as an (a,) array or a Dirichlet."""
        if isinstance(self.p, str) and checks.choice(self.p, "p", ("uniform", "jeffreys", "flat")) == "uniform":
            return np.full(a, 1 / a)
        if isinstance(self.p, str | AbstractPrior | numbers.Real):
            return as_dirichlet(self.p, a, "Planning")
        return checks.distribution(self.p.distribution if isinstance(self.p, Population) else self.p, "p", a)

    def width(self, a):
        """Return how many standard errors the kind spans."""
        if self.kind == "half_width":
            return normal_reach(self.ci_prob)
        return float(ndtri((1 + self.ci_prob ** (1 / a)) / 2)) if self.kind == "max" else 1.0

    def direct_answers(self, a):
        """Return the error of one direct answer; for F it is zero."""
        assumed = self.assumed(a)
        if self.target == "frequency":
            return 0.0
        if isinstance(assumed, Dirichlet):
            total = assumed.total
            variance = assumed.mean * (1 - (assumed.alpha + 1) / (total + 1))
        else:
            variance = assumed * (1 - assumed)
        return risk.spread(variance, self.kind if self.kind in ("l2", "l1") else "max") * self.width(a)

    def floors(self, a, epsilon, n):
        """Return (bound, error of n direct answers): the higher of theirs and that of every ε-LDP protocol.

        At uniform p the second is the exact floor, which subset selection attains; elsewhere that of Theorem 4.5. The
        widest interval is at least as wide as the root mean square: at uniform p its floor is the root of the a-th part.
        """
        direct_answers = _scale(self.direct_answers(a), self.kind, n)
        uniform = isinstance(self.p, str) and self.p == "uniform"
        if not 0 < epsilon < math.inf or self.kind == "l1" or (self.kind != "l2" and not uniform):
            return math.nan, direct_answers
        least = (bounds.exact_bound if uniform else bounds.theorem_4_5)(a, epsilon, self.target).value / n
        if self.kind != "l2":
            least = math.sqrt(least / a) * self.width(a)
        return max(least, direct_answers), direct_answers


def _next_waves(belief, known, unknown, question, makers, restricted):
    """Return the sorted plans of another wave after a posterior, which is known by mean and covariance."""
    a, epsilon = len(belief.categories), known["epsilon"]
    left = isinstance(question.p, str) and question.p == "uniform"
    if not left or (question.target, question.estimator) != ("distribution", "mle"):
        raise ArgumentError("p, target and estimator follow from the earlier wave; leave them out.")
    if unknown not in ("n", "error") or known["n_categories"] != a:
        raise ArgumentError(f"plan must leave out n or error after a wave of {a} categories, and state epsilon.")
    before = question.left(belief.variances(None, whole=True)(0.0))[0]
    if unknown == "n" and before <= known["error"]:
        raise InfeasibleError(f"The error is {before:.3g} already, without another wave.")
    plans = []
    for name, maker in makers.items():
        subset: tuple[int, ...] = ()
        try:
            if name == restricted:
                protocol, value = waves.best_restriction(belief, epsilon, lambda one: _wave(belief, one, known, question))
                subset = protocol.subset
            else:
                protocol = maker(a, epsilon)
                value = _wave(belief, protocol, known, question)
            n = value if unknown == "n" else known["n"]
            if not math.isfinite(n):
                raise InfeasibleError("No number of reports of another wave leaves so small an error.")
        except (ArgumentError, InfeasibleError) as err:
            stated = {k: math.nan if v is None else v for k, v in known.items()}
            plans.append(Plan(name, **stated, solved=unknown, before=before, note=str(err)))
            continue
        error, *others = question.left(belief.variances(protocol)(n))
        spread = math.sqrt((len(others) - 1) * np.var(others))
        bounds = {"direct_answers": question.left(belief.variances(None, whole=True)(n))[0], "mechanism": protocol}
        bounds |= {"bytes_per_report": bytes_per_report(protocol), "standard_error": spread, "before": before}
        bounds["subset"] = tuple(belief.categories[x] for x in subset)
        level = float(protocol.epsilon) if epsilon is None else epsilon
        plans.append(Plan(name, a, level, n, error, unknown, note="moments of the posterior", **bounds))
    return sorted(plans, key=lambda plan: _rank(plan, unknown))


def _wave(belief, protocol, known, question):
    """Return the error after n more reports, or the n that leaves the error asked for (inf where none does)."""
    variances = belief.variances(protocol, whole=True)

    def error(n):
        return question.left(variances(n))[0]

    if known["n"] is not None:
        return error(known["n"])
    if error(1e15) > known["error"]:
        return math.inf
    return math.exp(brentq(lambda log_n: error(math.exp(log_n)) - known["error"], -20.0, math.log(1e15), xtol=1e-12))


def _solve(name, maker, unknown, known, question):
    """Return the Plan of one protocol."""
    solver = {"n": _reports, "epsilon": _least_epsilon, "n_categories": _most_categories}.get(unknown)
    try:
        setting = known if solver is None else known | {unknown: solver(maker, known, question)}
        a, epsilon, n = setting["n_categories"], setting["epsilon"], setting["n"]
        protocol = maker(a, epsilon)
        epsilon = float(protocol.epsilon) if epsilon is None else epsilon
        unit, method = question.unit(protocol)
        size = bytes_per_report(protocol)
        if not math.isfinite(unit):
            raise InfeasibleError(_UNDETERMINED)
    except (ArgumentError, InfeasibleError) as err:
        return Plan(name, **{k: math.nan if v is None else v for k, v in known.items()}, solved=unknown, note=str(err))
    floor, direct_answers = question.floors(a, epsilon, n)
    error = _scale(unit, question.kind, n)
    return Plan(name, a, epsilon, n, error, unknown, floor, direct_answers, size, method, mechanism=protocol)


def _reports(maker, known, question):
    """Return the n at which the error is the one asked for: exact, since errors are powers of n."""
    ratio = question.unit(maker(known["n_categories"], known["epsilon"]))[0] / known["error"]
    if not math.isfinite(ratio):
        raise InfeasibleError(_UNDETERMINED)
    return ratio if question.kind == "l2" else ratio**2


def _least_epsilon(maker, known, question):
    """Return the least ε whose error is at most the one asked for (root in log ε of the log error).

    The error falls in ε while the integers of the protocol (hash range, subset size) stay, and may jump up where one of them
    changes: in every range of ε with the same integers the right end has the least error, and these fall with the ranges.
    """

    def made(log_epsilon):
        return maker(known["n_categories"], min(math.exp(log_epsilon), checks.MAX_EPSILON))

    def excess(log_epsilon):
        unit = question.unit(made(log_epsilon))[0]
        return math.log(_scale(unit, question.kind, known["n"]) / known["error"])

    def integers(log_epsilon):
        return [value for value in made(log_epsilon).parameters().values() if isinstance(value, int)]

    low, high = math.log(SMALLEST_EPSILON), math.log(12.0)
    if excess(high) > 0:
        raise InfeasibleError(
            f"Even epsilon = 12 leaves an error above {known['error']:.3g} with {known['n']:.6g} reports; "
            "recruit more users."
        )
    if excess(low) <= 0:
        return SMALLEST_EPSILON
    root = brentq(excess, low, high, xtol=1e-12, rtol=1e-12)
    # A protocol's own parameter (hash range, subset size) may jump at the root: step to the side that keeps the error.
    step = 1e-12
    while excess(root) > 1e-9 and root < high:
        root, step = root + step, 4 * step
    while (same := integers(root)) != integers(low):
        before, first = low, root  # the last ε with other integers, and the first with the same
        while first - before > 1e-12:
            middle = (before + first) / 2
            before, first = (before, middle) if integers(middle) == same else (middle, first)
        if excess(first) <= 0:
            root = first
        elif excess(root) < 0:
            root = brentq(excess, first, root, xtol=1e-12, rtol=1e-12)
        if excess(before) > 0:
            break
        root = before
    return math.exp(root)


def _most_categories(maker, known, question):
    """Return the largest number of categories that keeps the error: the last of a ladder that fits, then bisection.

    Errors summed over the categories rise with their number. Those of one category fall at first, because its variance
    p(1 − p) falls, and may rise later.
    """

    def error(a):
        return _scale(question.unit(maker(a, known["epsilon"]))[0], question.kind, known["n"])

    def fits(a):
        return error(a) <= known["error"] * (1 + 1e-9)

    summed, fitting, failing, rising, found = question.kind in ("l2", "l1"), None, None, 0, {}
    for a in _ladder():
        found[a] = error(a)
        if found[a] <= known["error"] * (1 + 1e-9):
            fitting, failing, rising = a, None, 0
            continue
        failing = failing or a
        if a // 2 in found and a % 2 == 0:
            rising = rising + 1 if found[a] > found[a // 2] else 0
        if summed or (a >= _ALWAYS_TRIED and rising >= 4):
            break
    if fitting is None:
        best = min(found, key=found.get)
        raise InfeasibleError(
            f"No number of categories keeps the error at or below {known['error']:.3g}: the least, {found[best]:.3g}, is "
            f"that of {best}. More reports or a larger epsilon are needed."
        )
    low, high = fitting, failing or fitting + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _ladder():
    """Yield numbers of categories: powers of two, the numbers below them, at which a Hadamard code is full, and halfway."""
    yield from (2, 3)
    power = 4
    while power <= LARGEST_CATEGORIES:
        yield from (power,) if power == LARGEST_CATEGORIES else (power, 3 * power // 2, 2 * power - 1)
        power *= 2


def _mle_risk(protocol, p, target, norm):
    """Return mle_risk, through the trace alone where a listed channel is too large for a plan to wait for."""
    work = (protocol.n_outputs or 0) * float(protocol.n_categories) ** 2
    sized = work > _SIZED_WORK and np.ptp(p) <= 1e-15
    full = (work <= _FULL_WORK and not sized) or protocol.hit_rates is None or protocol.n_outputs == protocol.n_categories
    if full or information.support_law(protocol) is not None:
        return risk.mle_risk(protocol, p, 1, target, norm)
    return risk.balanced_mle_risk(protocol, p, 1, target, norm)


def _scale(unit, kind, n):
    """Return the error at n reports from that at one."""
    return unit / n if kind == "l2" else unit / math.sqrt(n)


def _check_known(known):
    """Return the given quantities, cleaned."""
    rules = {
        "n_categories": checks.categories_count,
        "epsilon": checks.epsilon,
        "n": checks.users,
        "error": lambda value: checks.positive(value, "error"),
    }
    return {name: None if value is None else rules[name](value) for name, value in known.items()}


def _makers(protocols):
    """Return name -> constructor from None, a name, names or a dict."""
    if protocols is None:
        return named_makers(PROTOCOLS)
    if isinstance(protocols, dict):
        for name, maker in protocols.items():
            if not isinstance(name, str) or not callable(maker):
                raise ArgumentError(f"protocols must map names to makers of protocols, got {shown(protocols)}.")
        return protocols
    return named_makers(_names(protocols))


def _fix_epsilon(protocols):
    """Return whether all of the protocols are named, and none of them has ε as a parameter."""
    if protocols is None or isinstance(protocols, dict):
        return False
    names = _names(protocols)
    return bool(names) and not any(map(has_free_epsilon, names))


def _names(protocols):
    """Return the names of protocols, of which one may stand alone."""
    rule = "names of protocols, or a dict of makers"
    return (protocols,) if isinstance(protocols, str) else checks.labels(protocols, "protocols", rule)


def _rank(plan, unknown):
    """Return the sort key: feasible first, then the unknown (most categories, else least of it), then size of a report."""
    value = getattr(plan, unknown)
    return (not plan.feasible, -value if unknown == "n_categories" else value, plan.bytes_per_report)


def bytes_per_report(protocol) -> int:
    """Return the bytes of one stored report: whole bytes of an integer code, or the packed array of one report."""
    checks.instance(protocol, "protocol", AbstractProtocol, "a protocol of ldpbayes")
    if (protocol.n_outputs or 0) > 2**16:  # too many for sets: reports are codes
        return math.ceil((protocol.n_outputs - 1).bit_length() / 8)
    report = protocol.privatize(np.zeros(1, dtype=np.int64), np.random.default_rng(0))
    if report.dtype != np.uint8 and protocol.n_outputs is not None:
        return max(1, math.ceil((protocol.n_outputs - 1).bit_length() / 8))
    return int(report[0].nbytes)
