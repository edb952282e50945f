"""The front door: select_method says which posterior method suits a collection and why, fit runs it."""

import importlib
import os
import pkgutil
import warnings
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ldpbayes import checks, posteriors
from ldpbayes.collections import Cells, Collection, as_fitted
from ldpbayes.collections.noncompliance import compliers_only, named
from ldpbayes.errors import (
    ArgumentError,
    ConvergenceError,
    DataError,
    DiagnosticWarning,
    InfeasibleError,
    LDPBayesWarning,
    listed,
    shown,
)
from ldpbayes.posteriors.base import (
    MAX_DRAWN,
    NO_USERS,
    AbstractPosterior,
    Answer,
    Plan,
    Problem,
    Refusal,
    Watch,
    level,
    scaled,
    seed,
)
from ldpbayes.posteriors.evidence import of_result
from ldpbayes.posteriors.expansion import doubtful_summary
from ldpbayes.posteriors.joint import JOINT
from ldpbayes.posteriors.many import Many, fit_cells, fit_one, refuse_long, seconds_of_mixture
from ldpbayes.priors import DEFAULT, LEARNT_FROM, AbstractPrior, as_prior, default_prior
from ldpbayes.sources import read_collection, read_summaries
from ldpbayes.sources.scanning.summary_files import is_summaries

if TYPE_CHECKING:
    import xarray as xr

for _module in pkgutil.iter_modules(posteriors.__path__):
    if not _module.name.startswith("_"):  # modules with an underscore load compilers
        importlib.import_module(f"{posteriors.__name__}.{_module.name}")

#: Posterior methods by name, in the order in which ``auto`` considers them: every subclass in a file of posteriors/.
METHODS = {cls.name: cls for cls in sorted(AbstractPosterior.__subclasses__(), key=lambda cls: cls.order)}

#: Draws of all cells hold at most so many numbers; above, cells that one vectorised call can handle get moments alone.
MAX_OF_CELLS = 1e8
#: The method of summaries, which ``auto`` takes for these and for nothing else.
SUMMARY = "summary"
#: Bytes that the draws of P take by default, and the draws of a chain that are made even so; a fit takes some six times as
#: many at its peak.
DRAWS_BYTES, FEWEST_DRAWS = 2**27, 250
#: Methods that go with draws=0.
UNDRAWN = ("auto", "exact", "mixture", SUMMARY)
#: The fit that only a log-evidence is wanted of: draws per chain, and the most seconds that it may take.
EVIDENCE_DRAWS, LONGEST_EVIDENCE = 250, 5.0
#: ``auto`` prefers an exact method only where its predicted time stays below this many seconds, or its own limit.
PATIENCE = 10.0


@dataclass(frozen=True)
class Choice:
    """What select_method chose.

    Attributes
    ----------
    method : AbstractPosterior
        Ready to run.
    reason : str
        Why this one.
    considered : tuple of (name, Plan or Refusal)
        Every method in order, up to the one chosen: why those before it were passed over.
    prior_reason : str
        Why the prior was chosen by rule; empty where the caller chose it.
    """

    method: AbstractPosterior
    reason: str
    considered: tuple[tuple[str, Plan | Refusal], ...]
    prior_reason: str = ""

    @property
    def plan(self) -> Plan:
        """The chosen method's plan, ready to run."""
        return dict(self.considered)[self.method.name]  # type: ignore[return-value]


class _Selection:
    """The methods for one problem: each is prepared when it is first considered, and never again."""

    def __init__(self, problem, exclude, settings):
        self.problem, self.settings = problem, settings
        # Reports that were kept are never expanded unasked, and of a summary there is nothing else to take.
        kept = problem.rows is not None
        self.names = [name for name in METHODS if name not in _names(exclude) and (name != SUMMARY) == kept]
        self._prepared = {}

    def consider(self, name):
        """Return (method, Plan or Refusal) of a name."""
        if name not in self._prepared:
            method = make_method(name, **self.settings)
            self._prepared[name] = method, method.plan(self.problem)
        return self._prepared[name]

    def choose(self, rejected=()):
        """Return the Choice among the methods that have not been rejected, or None where none of them applies."""
        considered = []
        for name in (name for name in self.names if name not in rejected):
            method, plan = self.consider(name)
            considered.append((name, plan))
            if plan.feasible and not plan.seconds > min(PATIENCE, method.patience):
                break
        else:
            feasible = [(plan.seconds, name) for name, plan in considered if plan.feasible]
            if not feasible:
                return None
            _, name = min(feasible)
        method, plan = self.consider(name)
        return Choice(method, plan.reason, tuple(considered))

    def refusal(self, rejected):
        """Return the InfeasibleError of a problem that no method could handle, with every reason."""
        reasons = [f"{name}: {why}" for name, why in rejected.items()]
        if self.names == [SUMMARY] and not rejected:
            return InfeasibleError(self.consider(SUMMARY)[1].reason)
        reasons += [plan.reason for name in self.names if name not in rejected for _, plan in [self.consider(name)]]
        return InfeasibleError(
            "No posterior method applies: " + (" ".join(dict.fromkeys(reasons)) or "all of them are excluded.")
        )


def _names(exclude):
    """Return the names of methods to leave out, checked; one name may stand alone."""
    alone = isinstance(exclude, str)
    names = (exclude,) if alone else checks.entries(exclude, "exclude", "names of methods", ordered=False)
    for name in names:
        checks.choice(name, "exclude", (*METHODS, *(own for own in JOINT if own not in METHODS)))
    return names


def make_method(name, **settings) -> AbstractPosterior:
    """Return a posterior method by its name, with its settings.

    Raises
    ------
    ArgumentError
        On an unknown name or setting.
    """
    checks.choice(name, "method", tuple(METHODS))
    try:
        return METHODS[name](**settings)
    except TypeError as err:
        raise ArgumentError(f"method {name!r} does not take these settings: {err}.") from err


def select_method(collection, prior=DEFAULT, *, exclude=(), **settings) -> Choice:
    """Return what ``method="auto"`` would use for this collection and prior, and why.

    The first method in METHODS that applies and whose predicted time is below PATIENCE.

    Parameters
    ----------
    collection : Collection
    prior : str, float, array or AbstractPrior
        As in fit; by default the rule's.
    exclude : str or sequence of str
        Methods not to consider.
    **settings
        Fields that every method has: draws (per chain) and chains.

    Returns
    -------
    Choice

    Raises
    ------
    InfeasibleError
        Where no method applies; the sentence says why for each.
    """
    collection, why = as_fitted(collection), ""
    if _by_rule(prior):
        ruled = _rule_of(collection, "auto", exclude, settings)
        prior, why = ruled.prior, ruled.sentence
    selection = _Selection(Problem.of(collection, prior), exclude, settings)
    choice = selection.choose()
    if choice is None:
        raise selection.refusal({})
    return replace(choice, prior_reason=why)


#: How the sentence about a prior by rule starts, and how it ends.
_NO_PRIOR, _KEEP = "No prior was given", "prior='jeffreys' keeps Jeffreys' prior"


@dataclass(frozen=True)
class _Rule:
    """The prior by rule: its name, why, and the selection that was prepared to find out whether it can be used."""

    prior: str
    sentence: str
    selection: Any = None


def _by_rule(prior):
    return isinstance(prior, str) and prior == DEFAULT


def _jeffreys_because(why):
    return _Rule("jeffreys", f"{_NO_PRIOR}: it is Jeffreys', because {why}")


def _rule_for(n_categories, n_laws, weighted, method):
    """Return the _Rule for so many categories: the study of priors (docs/theory/priors-study.md) supports it.

    A method that was asked for by name keeps Jeffreys' prior, unless it is the method of the learnt prior.
    """
    if default_prior(n_categories - n_laws) == "jeffreys":
        sentence = f"{_NO_PRIOR}: below {LEARNT_FROM} categories it is Jeffreys'; prior='learnt' learns its concentration."
        return _Rule("jeffreys", sentence)
    name = method.name if isinstance(method, AbstractPosterior) else method
    if n_laws:
        return _jeffreys_because("the learnt prior is not offered where respondents may ignore the device.")
    if weighted:
        return _jeffreys_because("the learnt prior needs the evidence of the reports, which sampling weights do not have.")
    if name not in ("auto", "mixture", SUMMARY):
        return _jeffreys_because(f"the method {name} was asked for; prior='learnt' goes with auto or mixture.")
    sentence = (
        f"{_NO_PRIOR}: from {LEARNT_FROM} categories on it is a Dirichlet prior whose concentration is learnt; {_KEEP}."
    )
    return _Rule("learnt", sentence)


def _rule_of(collection, method, exclude, settings):
    """Return the _Rule for a collection: the learnt prior only where its engine is fast enough."""
    rule = _rule_for(collection.n_categories, collection.n_laws, collection.survey is not None, method)
    if rule.prior == "jeffreys" or method != "auto":
        return rule
    if "mixture" in _names(exclude):
        return _jeffreys_because("the method mixture, which the learnt prior needs, was excluded.")
    if collection.likelihood.rows() is None:
        return replace(rule, selection=_Selection(Problem.of(collection, "learnt"), exclude, settings))
    if collection.rows.sampler() is None:
        return _jeffreys_because("the learnt prior needs the evidence of the reports, which a composite likelihood lacks.")
    others = [name for name in METHODS if name != "mixture"]
    selection = _Selection(Problem.of(collection, "learnt"), others, settings)
    _, plan = selection.consider("mixture")
    if not plan.feasible:
        return _jeffreys_because(f"the learnt prior cannot be used here. {plan.reason}")
    if plan.seconds > PATIENCE:
        took = f"the learnt prior would take about {plan.seconds:.2g} s; prior='learnt' asks for it."
        return _jeffreys_because(took)
    return replace(rule, selection=selection)


def _run_by_rule(collection, exclude, settings, run):
    """Return (tree, problem, sentence) under the prior by rule; Jeffreys' where the learnt prior's answer is rejected."""
    rule = _rule_of(collection, "auto", exclude, settings)
    if rule.selection is not None:
        try:
            tree = _run_automatic(rule.selection, run)
        except InfeasibleError as err:
            why = str(err)
        else:
            if tree.attrs["converged"] or tree.attrs["interrupted"] or "undefined" in tree.attrs:
                return tree, rule.selection.problem, rule.sentence
            why = f"{tree.attrs['problems'].rstrip('.')}."
        rule = _jeffreys_because(f"the answer under the learnt prior was rejected: {why}")
    problem = Problem.of(collection, rule.prior)
    return _run_automatic(_Selection(problem, exclude, settings), run), problem, rule.sentence


def fit(
    collection: Any,
    prior: Any = DEFAULT,
    method: Any = "auto",
    *,
    draws: int | None = None,
    chains: int | None = None,
    random_seed: int | None = None,
    ci_prob: float = 0.95,
    progressbar: bool = False,
    estimates: bool = True,
    exclude: Any = (),
) -> "xr.DataTree":
    """Return the posterior of the distribution P and of the users' own frequencies F.

    Parameters
    ----------
    collection : Collection, Tally, Cells or path-like
        Reports, or a collection file. Cells without a prior over all of them have independent posteriors, of all cells at
        once where these are exact.
    prior : {"default", "jeffreys", "flat", "learnt", "smooth"}, float, (a,) array or AbstractPrior
        Prior of P; a number is a symmetric concentration, an array the concentrations of a Dirichlet. By default
        ``learnt`` from 20 categories on, where that takes seconds, and ``jeffreys`` otherwise; the attr
        ``prior_reason`` says which and why.
    method : str or AbstractPosterior
        "auto", a name of METHODS, or a method object with its own settings.
    draws, chains : int, optional
        Draws per chain and chains, for methods given by name; 1000 (fewer beyond 4,000 categories) and 4 by default. With
        ``draws=0``, and where draws of
        very many cells or categories would not fit, the result has moments, intervals and evidence alone.
    random_seed : int, optional
        Reproduces every draw; chosen and recorded where not given.
    ci_prob : float
        Probability of the equal-tailed intervals in the group ``summary``.
    progressbar : bool
        Show progress on standard error.
    estimates : bool
        Add MLE and oracle in the group ``estimate``, and to the attrs what the reports are worth, whether they fit the
        design (``fitness.check``), and log Bayes factors between priors.
    exclude : str or sequence of str
        Methods that "auto" leaves out.

    Returns
    -------
    xarray.DataTree
        Groups posterior, summary, exact (where known), estimate, sample_stats, observed_data and constant_data; attrs
        say the method, why it was chosen, its diagnostics and the seed. See ldpbayes.result.

    Raises
    ------
    InfeasibleError
        Where no method applies, or the method that was asked for does not.
    ConvergenceError
        Where the method that was asked for rejects its own answer; its ``result`` holds that answer.

    Warns
    -----
    RankDeficientWarning
        Where the channels cannot tell some categories apart.
    DiagnosticWarning
        Where the diagnostics say not to trust the posterior yet.

    Examples
    --------
    >>> from ldpbayes import Collection, Tally, fit
    >>> from ldpbayes.protocols.designs import warner
    >>> survey = Collection(["no", "yes"], [Tally(warner(0.7), [0, 1], [60, 40])])
    >>> posterior = fit(survey, prior="flat", random_seed=1)
    >>> posterior.attrs["method"], posterior["summary"]["mean"].sel(target="distribution").values.round(3).tolist()
    ('exact', [0.741, 0.259])
    """
    from ldpbayes import result
    from ldpbayes.answers import decision_of_cells
    from ldpbayes.describing import cells as describing
    from ldpbayes.describing.one import describe

    random_seed, ci_prob = seed(random_seed), level(ci_prob)
    draws = None if draws is None else checks.integer(draws, "draws", minimum=0)
    chains = None if chains is None else checks.integer(chains, "chains", minimum=1)
    if not isinstance(method, (AbstractPosterior, str)):
        raise ArgumentError(f"method must be a name or a posterior method such as Exact(), got {shown(method)}.")
    progressbar, estimates = checks.flag(progressbar, "progressbar"), checks.flag(estimates, "estimates")
    exclude = _names(exclude)
    if isinstance(collection, (str, os.PathLike)):
        collection = read_summaries(collection) if is_summaries(collection) else read_collection(collection)
    elif isinstance(collection, Cells):
        collection.warn_if_unidentified()
    else:
        collection = as_fitted(collection)
        collection.warn_if_unidentified()
    if isinstance(collection, Cells):
        settings = {"method": method, "draws": draws, "chains": chains, "estimates": estimates, "exclude": exclude}
        many = _many(collection, settings)
        run = {"random_seed": random_seed, "ci_prob": ci_prob, "progressbar": progressbar}
        collection, why = _weighed(collection), ""
        if _by_rule(prior):
            weighted = any(isinstance(cell, Collection) and cell.survey is not None for cell in collection.values())
            rule = _rule_for(collection.n_categories, collection.n_laws, weighted, method)
            prior, why = rule.prior, rule.sentence
            if many is not None and prior == "learnt" and seconds_of_mixture(many) > PATIENCE:
                took = f"the learnt prior would take about {seconds_of_mixture(many):.2g} s; prior='learnt' asks for it."
                prior, why = "jeffreys", _jeffreys_because(took).sentence
        if many is not None and len((one := _prior_of_cells(prior, collection)).shape) == 1:
            tree = fit_cells(many, collection, one, run, settings | {"method": "auto"})
            return _with_reason(tree, why, collection)
        if draws == 0:
            raise InfeasibleError("Moments without draws need independent priors of the cells, and no sampling weights.")
        tree, why = _cells_by_rule(collection, prior, why, settings, run)
        _with_reason(tree, why, collection)
        if estimates:
            tree.attrs |= describing.fitness(tree, collection)
            describing.add_estimates(tree, collection)
            tree.attrs |= decision_of_cells(tree, collection)
        if not tree.attrs["converged"]:
            warnings.warn(tree.attrs["outcome"], DiagnosticWarning, stacklevel=2)
        return tree
    run = {"random_seed": random_seed, "ci_prob": ci_prob, "progressbar": progressbar}
    if _undrawn(collection, method, draws, chains, exclude):
        why = ""
        refuse_long(collection)
        if _by_rule(prior):
            rule = _rule_for(collection.n_categories, collection.n_laws, collection.survey is not None, method)
            prior, why = rule.prior, rule.sentence
        tree = fit_one(Problem.of(collection, prior), run, {"draws": draws, "chains": chains}, str(method))  # a name
        if collection.derived:
            tree.attrs["reason"] += " Derived quantities need draws and are left out."
        return _with_reason(tree, why, collection)
    asked = method
    settings = {"draws": _default_draws(collection) if draws is None else draws, "chains": 4 if chains is None else chains}
    collection, why = named(collection), ""
    if _by_rule(prior) and method == "auto":
        tree, problem, why = _run_by_rule(collection, exclude, settings, run)
    elif method == "auto":
        problem = Problem.of(collection, prior)
        tree = _run_automatic(_Selection(problem, exclude, settings), run)
    else:
        if isinstance(method, str):
            method = make_method(method, **settings)
        elif draws is not None or chains is not None:
            raise ArgumentError("draws and chains must be set on the method object; fit takes them for names only.")
        if _names(exclude):
            raise ArgumentError(f"exclude must be empty where the method is given, got {shown(exclude)}.")
        if _by_rule(prior):
            rule = _rule_of(collection, method, (), settings)
            prior, why = rule.prior, rule.sentence
        problem = Problem.of(collection, prior)
        answer = method.answer(problem, method.plan(problem), **run)
        tree = answer.tree()
        if answer.sample.rejected:
            raise ConvergenceError(answer.sample.rejected, tree)
    if collection.n_laws:
        tree = result.among_compliers(tree, collection)
    tree.attrs |= {"identifiability": collection.identifiability(), "caveat": collection.caveat()}
    tree.attrs["device"] = collection.device()
    _with_reason(tree, why, collection)
    tree.attrs |= _about_order(collection, problem.prior)
    if estimates and problem.rows is not None:
        describe(tree, collection, problem, ci_prob, _evidence_of)
    if draws is None and settings["draws"] < 1000 and isinstance(asked, str):
        tree.attrs["reason"] += (
            f" {settings['draws']} draws a chain, for the memory of {collection.n_categories:,} categories."
        )
    if not tree.attrs["converged"]:
        warnings.warn(tree.attrs["outcome"], DiagnosticWarning, stacklevel=2)
    return tree


def _default_draws(collection):
    """Return the draws of each of four chains: 1000, and fewer where the draws of P would take more than DRAWS_BYTES."""
    return max(FEWEST_DRAWS, min(1000, DRAWS_BYTES // (8 * 4 * collection.n_categories)))


def _with_reason(tree, why, collection):
    """Return a result with the reason for its prior, where the rule chose it, and what users have spent."""
    from ldpbayes.answers.spending import spent

    if why:
        tree.attrs["prior_reason"] = why
    channels = collection.channels() if isinstance(collection, Cells) else {"": [(0, one) for one in collection.tallies]}
    tree.attrs |= spent(tally for held in channels.values() for _, tally in held)
    return tree


def _undrawn(collection, method, draws, chains, exclude):
    """Return whether a fit of one collection makes moments and intervals alone: asked to, or for its size.

    Draws that were asked for are made or refused.
    """
    held = collection.survey is None and not collection.n_laws
    if draws == 0:
        if method not in UNDRAWN:
            raise ArgumentError(f"draws=0 goes with the methods {listed(UNDRAWN)}; {method!r} makes draws.")
        if _names(exclude):
            raise ArgumentError(f"exclude must be empty with draws=0, got {shown(exclude)}.")
        if not held:
            raise InfeasibleError("Moments without draws need respondents who follow the device, and no sampling weights.")
        return True
    return draws is None and chains is None and method == "auto" and held and 4000 * collection.n_categories > MAX_DRAWN


def _many(cells, settings):
    """Return the Many of cells whose draws would be too many, or that are wanted without; None where draws are made."""
    draws, chains = settings["draws"], settings["chains"]
    size = (1000 if draws is None else draws) * (4 if chains is None else chains) * cells.n_categories * len(cells)
    weighted = any(isinstance(cell, Collection) and cell.survey is not None for cell in cells.values())
    if settings["method"] not in ("auto", "exact", SUMMARY) or weighted or cells.n_laws:
        return None
    if draws == 0:
        return Many.of(cells)
    if size <= MAX_OF_CELLS:
        return None
    try:
        return Many.of(cells)
    except InfeasibleError:
        return None


def _about_order(collection, prior):
    """Return the note on the order of the categories as an attr: where it is assumed, or would allow another prior."""
    if prior.walk() is not None and not collection.ordered:
        return {
            "order": f"The prior takes the categories in the order {listed(collection.categories)}; check it, and state "
            "it with ordered = true."
        }
    if collection.ordered and prior.walk() is None:
        return {"order": 'The categories are ordered: prior "smooth" lets neighbours share their reports.'}
    return {}


def _weighed(cells):
    """Return cells whose sampling weights add up to n / deff in every cell; cells without weights as they are."""
    if not any(isinstance(cell, Collection) and cell.survey is not None for cell in cells.values()):
        return cells
    found = {}
    for label, (key, cell) in zip(cells.labels, cells.items(), strict=True):
        try:
            found[key] = scaled(cell) if isinstance(cell, Collection) else cell
        except DataError as err:
            raise DataError(f"cell {label}: {err.message}") from err
    return Cells(found, cells.by, cells.covariates, cells.categories, id=cells.id, title=cells.title)


def _prior_of_cells(prior, cells):
    """Return the prior of all cells, or of each; where respondents may ignore the device, what ``fit`` takes for each."""
    n_laws = cells.n_laws
    if not n_laws:
        return as_prior(prior, cells.n_categories, cells=cells)
    if isinstance(prior, AbstractPrior) and prior.beside(n_laws) is not None:
        return prior
    plain = Cells({key: compliers_only(cell) for key, cell in cells.items()}, cells.by, cells.covariates)
    if len(as_prior(prior, plain.n_categories, cells=plain).shape) > 1:
        raise InfeasibleError(
            "A prior over all cells does not go with respondents who ignore the device; fit the cells one by one, with a "
            "prior such as jeffreys, and every cell has its own share of them."
        )
    return prior


def _fit_cells(cells, prior, settings, run):
    """Return one result of all cells: with a prior over all of them together, else each cell on its own."""

    if not cells.n_laws and len(prior.shape) > 1:
        weighted = any(isinstance(cell, Collection) and cell.survey is not None for cell in cells.values())
        if weighted:  # the PyMC model takes whole reports
            settings = settings | {"exclude": (*_names(settings["exclude"]), "nuts")}
        tree = _fit_together(cells, prior, settings, run)
        if weighted:
            tree.attrs["pseudo"] = f"Pseudo-posterior: every cell has weights that add up to n / deff. {NO_USERS}"
            for name in ("log_evidence", "log_evidence_error"):
                tree.attrs.pop(name, None)
        return tree
    asked = settings["method"] if isinstance(settings["method"], str) else settings["method"].name
    if len(cells) > 1 and not cells.n_laws and prior.mixture() is not None and asked in ("auto", "mixture"):
        return _fit_mixed(cells, prior, settings, run)
    seeds = [int(one.generate_state(1)[0]) for one in np.random.SeedSequence(run["random_seed"]).spawn(len(cells))]
    served = _conjugate(cells, prior, settings, asked)
    if served is not None:
        return _fit_conjugate(served, cells, prior, seeds, settings, run)
    trees = []
    for label, cell, own in zip(cells.labels, cells.collections(), seeds, strict=True):
        one = run | {"random_seed": own}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", LDPBayesWarning)  # said once, for all cells
                trees.append(fit(cell, prior, **settings, **one))
        except InfeasibleError as err:
            raise InfeasibleError(f"Cell {label}: {err}") from err
        except ConvergenceError as err:
            raise ConvergenceError(f"Cell {label}: {err}", err.result) from err
    return _stacked(cells, trees, settings, run)


def _conjugate(cells, prior, settings, asked):
    """Return the Conjugate that serves cells, or None where they are fitted one by one."""
    from ldpbayes.posteriors.conjugate import Conjugate

    if asked not in ("auto", "exact") or "exact" in _names(settings["exclude"]) or cells.n_laws:
        return None
    if not isinstance(settings["method"], str):
        return None
    return Conjugate.of(cells, prior)


def _fit_conjugate(served, cells, prior, seeds, settings, run):
    """Return the result of cells with exact posteriors."""
    import xarray as xr

    from ldpbayes.describing import cells as describing

    sizes = {
        name: default if settings[name] is None else settings[name] for name, default in (("draws", 1000), ("chains", 4))
    }
    stated = {key: value for key, value in (settings | run | sizes).items() if key != "progressbar"}
    stated["exclude"] = list(_names(settings["exclude"]))
    tree = served.tree(cells, prior, sizes, seeds, run, stated)
    if settings["estimates"]:
        about = describing.describe(tree, cells, served, run["ci_prob"])
        facts = tree["cells"].to_dataset()
        known = {name: (("cell",), np.array(values, facts[name].dtype)) for name, values in about.items() if name in facts}
        tree["cells"] = xr.DataTree(facts.assign(known))
    return tree


def _evidence_of(collection, prior):
    """Return the log-evidence of a collection under a prior, or nan where a quick fit knows none."""
    choice = select_method(collection, prior, draws=EVIDENCE_DRAWS)
    if choice.plan.seconds > LONGEST_EVIDENCE:
        return np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LDPBayesWarning)
        known = of_result(fit(collection, prior, draws=EVIDENCE_DRAWS, random_seed=0, estimates=False))
    return np.nan if known is None else known[0]


def _cells_by_rule(cells, prior, why, settings, run):
    """Return (tree, why this prior): where the rule's learnt prior cannot be used, every cell gets Jeffreys'."""
    if not why or prior != "learnt":
        return _fit_cells(cells, _prior_of_cells(prior, cells), settings, run), why
    try:
        tree = _fit_cells(cells, _prior_of_cells(prior, cells), settings, run)
    except InfeasibleError as err:
        problem = str(err)
    else:
        if tree.attrs["converged"] or tree.attrs["interrupted"] or settings["method"] != "auto":
            return tree, why
        problem = f"{tree.attrs['problems'].rstrip('.')}."
    rule = _jeffreys_because(f"the answer under the learnt prior was rejected: {problem}")
    return _fit_cells(cells, _prior_of_cells(rule.prior, cells), settings, run), rule.sentence


def _stacked(cells, trees, settings, run):
    """Return the one result of the results of all cells."""
    from ldpbayes import result

    name = settings["method"] if isinstance(settings["method"], str) else settings["method"].name
    chosen = {key: value for key, value in settings.items() if value is not None} | {"method": name} | run
    chosen["exclude"] = list(_names(settings["exclude"]))
    tree = result.stack(cells, trees, {key: value for key, value in chosen.items() if key != "progressbar"})
    result.validate(tree)
    return tree


def _fit_mixed(cells, prior, settings, run):
    """Return the result of all cells under a mixture of Dirichlet priors whose one hyperparameter they share."""
    import xarray as xr

    from ldpbayes.describing.one import describe
    from ldpbayes.posteriors.shared import fit_shared

    method = settings["method"]
    sizes = {key: settings[key] for key in ("draws", "chains") if settings[key] is not None}
    engine = make_method("mixture", **sizes) if isinstance(method, str) else method
    if "mixture" in _names(settings["exclude"]) and method == "auto":
        raise InfeasibleError("One hyperparameter shared by all cells needs the method mixture, which was excluded.")
    answers_of_cells, facts = fit_shared(engine, cells, prior, run)
    trees = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LDPBayesWarning)  # said once, for all cells
        for cell, answer in zip(cells.collections(), answers_of_cells, strict=True):
            tree = answer.tree()
            tree.attrs |= {"identifiability": cell.identifiability(), "caveat": cell.caveat()}
            if settings["estimates"] and answer.problem.rows is not None:
                describe(tree, cell, answer.problem, run["ci_prob"], _evidence_of)
            trees.append(tree)
    tree = _stacked(cells, trees, settings, run)
    name = prior.mixture().parameter
    posterior = tree["posterior"].to_dataset()
    posterior[name] = posterior[name].isel(cell=0, drop=True)
    tree["posterior"] = xr.DataTree(posterior)
    summary = tree["summary"].to_dataset()
    one = {key: values.isel(cell=0, drop=True) for key, values in summary.data_vars.items() if "parameter" in values.dims}
    for key in ("mean", "sd", "lower", "upper"):
        one[f"parameter_{key}"] = xr.full_like(one[f"parameter_{key}"], facts[f"{name}_{key}"])
    tree["summary"] = xr.DataTree(summary.assign(one))
    tree.attrs |= facts | {"prior": f"{prior.describe()}, one {name} for all cells"}
    tree.attrs["reason"] = (
        f"All cells share one {name}: conjugate posteriors at its nodes, weighed by the evidence of all cells."
    )
    return tree


def _fit_together(cells, prior, settings, run):
    """Return the result of all cells under a prior over all of them, by the first joint engine whose answer is accepted."""
    from ldpbayes.posteriors.joint import Joint

    asked, problem, rejected = settings["method"], Joint(cells, prior), {}
    # A method that is given by name answers, and the result says why it is not to be trusted: reweigh() may mend it.
    doubt = doubtful_summary(cells)
    if doubt and asked == "auto":
        raise InfeasibleError(doubt)
    own = {key: settings[key] for key in ("draws", "chains") if settings[key] is not None}
    if not isinstance(asked, str):
        asked, own = asked.name, asdict(asked)
    names = [name for name in JOINT if name not in _names(settings["exclude"])] if asked == "auto" else [asked]
    if not set(names) <= set(JOINT):
        raise InfeasibleError(f"A prior over all cells needs the methods {listed(JOINT)}, got {asked}.")
    stated = {"random_seed": run["random_seed"], "ci_prob": run["ci_prob"]}
    kept = None
    for name in names:
        known = {field.name for field in fields(JOINT[name])}
        engine = JOINT[name](**{key: value for key, value in own.items() if key in known})
        plan = engine.plan(problem)
        if not plan.feasible:
            rejected[name] = plan.reason
            continue
        rng, watch = np.random.default_rng(run["random_seed"]), Watch(run["progressbar"])
        sample = engine.run(plan, rng, watch)
        before = "".join(f" Before it, {other} was tried: {why}" for other, why in rejected.items())
        made = engine, sample, watch, plan.reason + before
        if not sample.rejected:
            tree = engine.tree(problem, *made[1:], stated)
            if doubt:
                raise ConvergenceError(doubt, tree)
            if tree.attrs["converged"] or name == names[-1]:
                return tree
        rejected[name], kept = sample.rejected or tree.attrs["problems"], made
    if kept is None:
        raise InfeasibleError("No method applies: " + " ".join(rejected.values() or ["all of them are excluded."]))
    tree = kept[0].tree(problem, *kept[1:], stated)
    if asked != "auto":
        raise ConvergenceError(doubt or kept[1].rejected, tree)
    return tree


def _run_automatic(selection, run):
    """Run the chosen method; where its own check or its diagnostics reject the answer, hand over to the next.

    Where none is left, the best answer that was rejected comes back with its problems, which fit() warns of: the last whose
    draws form a result at all, else the last whose weights could not be trusted.
    """
    rejected, kept = {}, None
    while True:
        choice = selection.choose(rejected)
        if choice is None:
            break
        name = choice.method.name
        try:
            answer = choice.method.answer(selection.problem, choice.plan, **run)
        except ConvergenceError as err:
            rejected[name] = str(err)
            continue
        reason = choice.reason + "".join(
            f" Before it, {other} ran first and was rejected: {why}" for other, why in rejected.items()
        )
        if answer.sample.rejected:
            rejected[name] = answer.sample.rejected
            kept = kept or (answer, reason)
            continue
        tree = answer.tree()
        tree.attrs["reason"] = reason
        undefined = "undefined" in tree.attrs and answer.sample.independent  # no other method would define it
        if tree.attrs["converged"] or tree.attrs["interrupted"] or undefined:
            return tree
        rejected[name], kept = tree.attrs["problems"], (tree, reason)
    if kept is None:
        raise selection.refusal(rejected)
    tree = kept[0].tree() if isinstance(kept[0], Answer) else kept[0]
    tree.attrs["reason"] = kept[1]
    return tree
