"""The command ``ldpbayes plan``."""

from ldpbayes.cli import options, settings
from ldpbayes.errors import ArgumentError

#: What else is asked of every plan.
QUESTIONS = options.OptionGroup(groups=None, delta=None, power=None, fakes=None)


#: What is assumed of the population, the estimate and the respondents.
ASSUMED = options.OptionGroup(
    truth="uniform", target="distribution", estimator="mle", ci_prob=0.95, gamma=None, deniers_share=None
)
#: Of which three determine the fourth.
FOUR = options.OptionGroup(n_categories=None, epsilon=None, n=None, error=None)


def command(
    *,
    four=FOUR,
    protocol=None,
    parameter=None,
    kind="l2",
    plot=None,
    assignments=None,
    assumed=ASSUMED,
    questions=QUESTIONS,
    after=None,
    outputs: options.Shown,
):
    """Choose protocol, ε and sample size before any report is collected.

    Give three of categories, epsilon, users and error, and get the fourth. Protocols are ranked, best first, beside the
    least error that any ε-LDP protocol can have (least possible) and the error of as many direct answers, which are given
    without a device. Nothing is simulated. The ε of a survey design follows from its parameters: give users or error.

    An error of kind half_width is the easiest to read: 0.03 means that a share is known to plus or minus three percentage
    points. The kind l2, which is the default, is a sum of squared errors.

    Further questions:

      --n-groups, --delta and --power compare groups

      --fake-share says what fake reports can do

      --set noncompliance.NAME=HOW says whether reports show how many ignore the device

      --set deniers.of=LABEL says how many to ask directly

      --after plans another wave from the result of an earlier one (fit --output)

    With --after it finds the protocol, or the subset of the categories and the split of epsilon, that should leave the
    least error of both waves together.

    Examples:

      ldpbayes plan --n-categories 16 --epsilon 1 --error 0.01 --kind half_width

      ldpbayes plan --n-categories 100 --users 50000 --error 0.02 --kind half_width

      ldpbayes plan --protocol forced_response -p truth=0.75 -p "forced=[1,1]" --error 0.03 --kind half_width

      ldpbayes plan --n-categories 128 --epsilon 1 --users 1e6 --protocol olh --protocol olh:seeds=4096

      ldpbayes plan --n-categories 5 --epsilon 1 --n-groups 2 --delta 0.05 --power 0.8

      ldpbayes plan --n-categories 20 --epsilon 1 --users 10000 --fake-share 0.05

      ldpbayes plan --protocol extended_crosswise -p p=0.2 --users 3000 --set noncompliance.no-sayer=different

      ldpbayes plan --protocol crosswise -p p=0.25 --users 800 --set deniers.of=yes --set deniers.say=no

      ldpbayes plan --epsilon 1 --users 32561 --truth 0.5,0.3,0.2 --plot plan.png

      ldpbayes fit example:nigeria --output first.nc

      ldpbayes plan --after first.nc --epsilon 1 --users 2000
    """
    outputs.check(plot=plot)
    from ldpbayes import planning
    from ldpbayes.planning import prospects
    from ldpbayes.protocols.making import epsilon_follows

    laws, gamma, deniers = _doubts(assignments, assumed["gamma"], assumed["deniers_share"])
    words, ci_prob = assumed["truth"], assumed["ci_prob"]
    rest = {"p": _distribution(words)} | {key: assumed[key] for key in ("target", "estimator", "ci_prob")}
    earlier = _earlier(after, assumed | {"ci_prob": 0.95} != ASSUMED, laws, deniers, questions != QUESTIONS)
    if questions["power"] is not None:
        four, kind = _with_power(four, kind, ci_prob, questions)
    assumptions = {"kind": kind} | rest | earlier
    given, names = options.parameters(parameter), protocol or ()
    four = _with_categories(four, rest["p"])
    if given and len(names) != 1:
        raise ArgumentError(f"parameter needs exactly one --protocol that takes it, got {len(names)}.")
    fixed = [name for name in names if not planning.has_free_epsilon(name, given)]
    if earlier:
        four |= {"n_categories": four["n_categories"] or earlier["after"]["posterior"].sizes["category"]}
    if not names or names[0] not in fixed:
        _need_three(four)
    if fixed and len(fixed) < len(names):
        raise ArgumentError(f"protocol must name designs that fix epsilon ({', '.join(fixed)}) or protocols that take it.")
    if fixed and four["epsilon"] is not None:
        raise ArgumentError(epsilon_follows(fixed[0]))
    four |= {"n_categories": four["n_categories"] or 2} if fixed else {}
    makers = planning.named_makers(protocol, given) if protocol and given else protocol
    plans = planning.plan(**four, protocols=makers, **assumptions)
    if fixed and not plans[0].feasible:
        raise ArgumentError(plans[0].note)
    asked = {name: questions[name] for name in ("groups", "delta", "fakes")}
    if not earlier:
        plans = prospects.with_prospects(plans, **asked, laws=laws or {}, gamma=gamma, deniers=deniers, **rest)
    if plot and not plans[0].feasible:
        raise ArgumentError("plot must have a feasible plan to draw, got none.")
    said = {"kind": kind, "assumed": "posterior" if earlier else words, "ci_prob": ci_prob}
    outputs.show(outputs.page_of(plans, **said, **asked), plot=plot)


def _doubts(assignments, gamma, share):
    """Return (laws, γ, deniers) of those who ignore the device and those who deny, as the planning takes them."""
    from ldpbayes import checks

    stated = settings.parsed(assignments, "plan")
    laws, deniers = stated.get("noncompliance"), stated.get("deniers")
    for name, value, there, key in (
        ("gamma", gamma, laws, "noncompliance.NAME=HOW"),
        ("deniers_share", share, deniers, "deniers.of=LABEL"),
    ):
        if value is not None and not there:
            raise ArgumentError(f"{name} goes with --set {key}.")
    if deniers and len(deniers.get("of", ())) == 1:
        deniers = deniers | {"of": deniers["of"][0]}
    if deniers and share is not None:
        share = options.level(share, "deniers_share")
        deniers |= {"delta": checks.probability(share, "deniers_share", open_low=True, open_high=True)}
    return laws, 0.1 if gamma is None else options.level(gamma, "gamma"), deniers


def _need_three(four):
    """Refuse any number of the four but three."""
    names = {"n_categories": "--n-categories", "epsilon": "--epsilon", "n": "--users", "error": "--error"}
    missing = [option for name, option in names.items() if four[name] is None]
    if len(missing) != 1:
        more = f"{', '.join(missing)} are missing" if missing else "all four were given"
        raise ArgumentError(f"Three of {', '.join(names.values())} determine the fourth; {more}.")


def _earlier(after, *others):
    """Return the wave before as an argument of planning.plan; refuse questions that are put to a first wave alone."""
    if after is None:
        return {}
    if any(others):
        raise ArgumentError("after goes with --epsilon, --users or --error, --kind and --protocol alone.")
    from ldpbayes.result import load

    return {"after": load(after)}


def _with_categories(four, p):
    """Return the four with the number of categories that an assumed distribution has, where it is not the unknown."""
    if four["n_categories"] is not None or isinstance(p, str):
        return four
    if None not in (four["epsilon"], four["n"], four["error"]):
        raise ArgumentError("p must be uniform, jeffreys or flat where the number of categories is the unknown.")
    return four | {"n_categories": len(p)}


def _with_power(four, kind, ci_prob, questions):
    """Return the four and the kind with the half-width over all users at which two of the groups differ."""
    from ldpbayes.planning import prospects

    groups, delta, power = (questions[name] for name in ("groups", "delta", "power"))
    if delta is None:
        raise ArgumentError("power needs --delta, the difference to be found.")
    if four["error"] is not None or kind not in ("l2", "half_width"):
        raise ArgumentError("power stands for --error and --kind; leave these out.")
    error = prospects.half_width_for(delta, power, groups=groups or 2, ci_prob=ci_prob)
    return four | {"error": error}, "half_width"


def _distribution(text):
    if text in ("uniform", "jeffreys", "flat"):
        return text
    if "," in text:
        return options.levels(text, "truth", "shares such as 0.9,0.1")
    from ldpbayes.simulation import population

    return population(text).distribution
