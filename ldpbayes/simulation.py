"""True populations, and collections simulated from them with the truth kept."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpbayes import checks, files
from ldpbayes.collections import Collection, Tally
from ldpbayes.collections.derived import check_text
from ldpbayes.constants import MAX_ROWS, USERS_TOGETHER
from ldpbayes.errors import ArgumentError, DataError, InfeasibleError, shown
from ldpbayes.protocols.base import AbstractProtocol
from ldpbayes.sources.encode import counts_of
from ldpbayes.sources.opening import open_source
from ldpbayes.sources.writing import Layout, write_batches

_POPULATION_KEYS = {"id", "title", "citation", "licence", "notes", "file", "n", "n_categories"}


@dataclass(frozen=True, eq=False)
class Population:
    """A true distribution over labelled categories; a census where the counts are known.

    Attributes
    ----------
    categories : tuple of str
    distribution : (a,) array
        P, summing to one.
    counts : (a,) int array or None
        The people themselves, where the population is a census.
    id, title, citation, licence : str
    """

    categories: tuple[str, ...]
    distribution: np.ndarray
    counts: np.ndarray | None = None
    id: str = "population"
    title: str = ""
    citation: str = ""
    licence: str = ""

    @property
    def n_categories(self) -> int:
        """Number of categories, a."""
        return len(self.categories)


#: Synthetic families of populations, and the arguments that belong to them.
FAMILIES = {
    "zipf": ("n_categories", "exponent"),
    "geometric": ("n_categories", "mean"),
    "dirichlet": ("n_categories", "alpha"),
}


def population(
    source: str | PathLike,
    n_categories: int | None = None,
    *,
    exponent: float | None = None,
    mean: float | None = None,
    alpha: float | None = None,
    random_seed: int | None = None,
) -> Population:
    """Return a true population: one of the synthetic families, or a file of counts.

    ====================  ============================================================================
    source                distribution over x = 0, …, a−1
    ====================  ============================================================================
    ``"zipf"``            p_x ∝ (x+1)^−exponent; exponent 0 is uniform
    ``"geometric"``       p_x ∝ (m/(1+m))^x, a geometric of mean m = a/5 cut off at a
    ``"dirichlet"``       one draw from Dirichlet(alpha, …, alpha)
    path                  ``value,count`` in a CSV file, or the TOML file that describes it
    ====================  ============================================================================

    Parameters
    ----------
    source : {"zipf", "geometric", "dirichlet"} or path-like
    n_categories : int
        a, for the synthetic families; a file knows its own.
    exponent : float, optional
        Of the Zipf law, at least 0; 1 by default.
    mean : float, optional
        Of the geometric law before it is cut off; a/5 by default.
    alpha : float, optional
        Concentration of the Dirichlet draw; 1 by default.
    random_seed : int, optional
        For the Dirichlet draw.

    Returns
    -------
    Population

    Raises
    ------
    ArgumentError
        On a family without n_categories, a parameter out of range, or one that belongs to another source.
    DataError
        On a malformed file.

    References
    ----------
    Kairouz, Bonawitz, Ramage (2016), §4.4 and supplementary figure 4 (geometric law of mean a/5, Zipf, Dirichlet).

    Examples
    --------
    >>> population("zipf", 3).distribution.round(3)
    array([0.545, 0.273, 0.182])
    """
    family = source if isinstance(source, str) and source in FAMILIES else None
    allowed = () if family is None else FAMILIES[family]
    rng = np.random.default_rng(checks.seed(random_seed))
    given = {"n_categories": n_categories, "exponent": exponent, "mean": mean, "alpha": alpha}
    for name, value in given.items():
        if value is not None and name not in allowed:
            which = "read from a file" if family is None else family
            raise ArgumentError(f"{name} must be left out for a population that is {which}, got {shown(value)}.")
    if family is None:
        return _read_population(files.as_path(source))
    if n_categories is None:
        raise ArgumentError(f"n_categories must be an integer >= 2 for the {source} population, got None.")
    a = checks.categories_count(n_categories)
    x = np.arange(a)
    if source == "zipf":
        exponent = 1.0 if exponent is None else checks.real(exponent, "exponent", "a finite number of at least 0")
        if not 0 <= exponent < np.inf:
            raise ArgumentError(f"exponent must be a finite number of at least 0, got {shown(exponent)}.")
        with np.errstate(over="ignore"):  # of 1e308 the first category is all
            log_weights, title = -exponent * np.log1p(x), f"Zipf law with exponent {exponent:g}"
    elif source == "geometric":
        mean = checks.positive(a / 5 if mean is None else mean, "mean")
        with np.errstate(over="ignore", invalid="ignore"):  # a mean near 0: all are in the first category
            log_weights = np.where(x == 0, 0.0, -x * (np.log1p(mean) - np.log(mean)))
        title = f"geometric law of mean {mean:g}, cut off"
    else:
        # A separate stream, because simulate with the same seed must not reuse these random numbers.
        (rng,) = rng.spawn(1)
        alpha = checks.positive(1.0 if alpha is None else alpha, "alpha")
        with np.errstate(divide="ignore"):
            log_weights, title = np.log(rng.dirichlet(np.full(a, alpha))), f"one draw from Dirichlet({alpha:g})"
    weights = np.exp(log_weights - log_weights.max())
    width = len(str(a - 1))
    labels = tuple(f"c{i:0{width}d}" for i in x)
    return Population(labels, weights / weights.sum(), id=f"{source}_{a}", title=f"{title}, {a} categories")


def simulate(
    p: Population | ArrayLike | str | PathLike,
    protocol: AbstractProtocol,
    n: int | None = None,
    *,
    random_seed: int | None = None,
    categories: Sequence[str] | None = None,
    id: str | None = None,
    title: str | None = None,
    name: str = "all",
) -> Collection:
    """Simulate n people drawn from p, an array or a family ("zipf"), and their reports; without n, p counts people.

    With n, users' values are drawn from the distribution: T ~ Multinomial(n, P). Without it p must be counts,
    and these users report. Only simulation: for protecting people use the protocol's ``privatize_one``.

    Parameters
    ----------
    p : Population, (a,) array, {"zipf", "geometric", "dirichlet"} or path-like
        The true distribution (with n), or counts of true values, or what ``theory.population`` makes a population of.
    protocol : AbstractProtocol
    n : int, optional
        Number of users.
    random_seed : int, optional
        Drawn where None; the ``notes`` of the collection state it.
    categories : sequence of str, optional
        Labels; the population's own, or "c0", "c1", … by default.
    id, title, name : str, optional
        Of the collection, and of its one channel.

    Returns
    -------
    Collection
        Its ``published`` entries with source "truth" hold T, the tallies of these users' true values, and the distribution
        they were drawn from.

    Examples
    --------
    >>> from ldpbayes.protocols.grr import GRR
    >>> collection = simulate([50, 30, 20], GRR(3, epsilon=1.0), random_seed=1)
    >>> collection.n_reports, collection.published[0]["estimate"]
    (100, [50, 30, 20])
    """
    checks.instance(protocol, "protocol", AbstractProtocol, "a protocol of ldpbayes")
    id, title = (None if text is None else checks.text(text, name) for name, text in (("id", id), ("title", title)))
    random_seed = checks.seed(random_seed)
    if isinstance(p, str | os.PathLike):
        a = protocol.n_categories if isinstance(p, str) and p in FAMILIES else None
        p = population(p, a, random_seed=random_seed)
    origin, rng = p if isinstance(p, Population) else None, np.random.default_rng(random_seed)
    distribution, true_counts = _true_values(p, n, protocol.n_categories, rng)
    categories = _labels(categories, p, protocol)
    users = int(true_counts.sum())
    collection = Collection(
        categories,
        (Tally(protocol, *protocol.simulate(true_counts, rng), name),),
        id=id or (f"{origin.id}_{protocol.name}" if origin else f"simulated_{protocol.name}"),
        title=title
        or (f"Simulated: {origin.title}" if origin and origin.title else f"Simulated reports of {users:,} users"),
        notes=f"Simulated reports of {users:,} users, random_seed {random_seed}; the true values are under published, with "
        "source truth.",
        published=_truth_entries(categories, distribution, true_counts),
    )
    return collection if origin is None else replace(collection, citation=origin.citation, licence=origin.licence)


def simulate_reports(
    path: str | PathLike,
    protocol: AbstractProtocol,
    p: Population | ArrayLike,
    n: int | None = None,
    *,
    random_seed: int | None = None,
    categories: Sequence[str] | None = None,
) -> NDArray[np.int64]:
    """Simulate the reports of a population one by one into a Parquet file, in constant memory.

    The file has the layout of ``write``: one row a user, in random order, and the protocol in a column. The
    truth is in its metadata, which ``ldpbayes fit`` keeps under ``published``. Only simulation, as ``simulate``.

    Parameters
    ----------
    path : path-like
        Ends in ``.parquet``.
    protocol : AbstractProtocol
    p : Population or (a,) array
        A distribution (with n) or counts of true values.
    n : int, optional
        Number of users.
    random_seed : int, optional
    categories : sequence of str, optional
        Labels; the population's own by default.

    Returns
    -------
    (a,) int array
        T, the tallies of these users' true values.
    """
    checks.instance(protocol, "protocol", AbstractProtocol, "a protocol of ldpbayes")
    rng = np.random.default_rng(checks.seed(random_seed))
    distribution, true_counts = _true_values(p, n, protocol.n_categories, rng)
    categories = _labels(categories, p, protocol)
    if true_counts.sum() > MAX_ROWS:
        raise InfeasibleError(f"A file of reports has a row for each user, at most {MAX_ROWS:,}; a collection counts them.")
    batches = _simulated_batches(protocol, true_counts, rng)
    published = _truth_entries(categories, distribution, true_counts)
    write_batches(path, ((batch, {}) for batch in batches), Layout(protocol, categories, published))
    return true_counts


def _simulated_batches(protocol, true_counts, rng):
    """Yield the reports of users in random order, some at a time."""
    left = true_counts.copy()
    while left.any():
        size = min(USERS_TOGETHER, int(left.sum()))
        part = rng.multivariate_hypergeometric(left, size, method="marginals")
        yield protocol.privatize(rng.permutation(np.repeat(np.arange(left.size), part)), rng)
        left -= part


def _labels(categories, p, protocol):
    """Return the labels stated, those of the population, or "c0", "c1", …"""
    if categories is None:
        categories = p.categories if isinstance(p, Population) else [f"c{i}" for i in range(protocol.n_categories)]
    return checks.labels(categories, "categories", f"{protocol.n_categories} labels")


def _true_values(p, n, n_categories, rng):
    """Return (distribution drawn from or None, true counts)."""
    if n is None:
        counts = p.counts if isinstance(p, Population) else p
        if counts is None:
            raise ArgumentError("n must be an integer >= 1 for a population without counts, got None.")
        shares = checks.reals(counts, "p", "a distribution or counts", ndim=None, finite=False)
        if shares.size > 1 and 0 < shares.sum() <= 1 and (shares != np.round(shares)).any():
            raise ArgumentError(
                "n must be given where p is a distribution; without n, p is how many people have each value."
            )
        counts = checks.counts(counts, "p", n_categories)
        if not counts.sum():
            raise ArgumentError("p must hold at least one user, got only zeros.")
        return None, counts
    n = checks.users_count(n)
    weights = p.distribution if isinstance(p, Population) else p
    weights = checks.reals(weights, "p", "a distribution or counts", ndim=None, finite=False)
    if np.isfinite(weights).all() and (weights >= 0).all() and weights.sum() > 0:
        weights = weights / weights.sum()
    distribution = checks.distribution(weights, "p", n_categories)
    return distribution, rng.multinomial(n, distribution)


def _truth_entries(categories, distribution, true_counts):
    labels = list(categories)
    entries = [{"source": "truth", "what": "true counts", "quantity": labels, "estimate": true_counts.tolist()}]
    if distribution is not None:
        what = {"source": "truth", "what": "true distribution", "quantity": labels}
        entries.append(what | {"estimate": distribution.tolist()})
    return tuple(entries)


def _read_population(path):
    """Read value,count from a CSV file, with the facts of the TOML file of the same name if it exists."""
    described = path if path.suffix == ".toml" else path.parent / f"{path.stem}.toml"
    document = files.read_toml(described) if path.suffix == ".toml" or os.path.exists(described) else {}
    for key in document:
        if key not in _POPULATION_KEYS:
            raise DataError(f"unknown key {key!r}; known are {', '.join(sorted(_POPULATION_KEYS))}", source=described)
    try:
        facts = {key: check_text(document[key], key) for key in ("id", "title", "citation", "licence") if key in document}
        source = path.parent / _file_of(document, path) if path.suffix == ".toml" else path
    except DataError as err:
        raise err.at(source=described) from None
    labels, counts = [], []
    for batch in open_source(source).batches(["value", "count"]):
        labels += [str(value or "").strip() for value in batch.table["value"].to_pylist()]
        try:
            counts.append(counts_of(batch.table, "count"))
        except DataError as err:
            raise batch.located(err) from None
    if not all(labels):
        raise DataError("has a row without a value", source=source, field="value")
    if len(set(labels)) != len(labels):
        twice = next(label for label, times in Counter(labels).items() if times > 1)
        raise DataError(f"has the value {shown(twice)} twice; each value needs one row", source=source, field="value")
    if len(labels) < 2:
        raise DataError(f"must have at least two values, got {len(labels)}", source=source, field="value")
    counts = np.concatenate(counts)
    for key, actual in (("n", int(counts.sum())), ("n_categories", len(labels))):
        if document.get(key, actual) != actual:
            raise DataError(f"{key} is {actual} in {source.name}, but {document[key]} here", source=described, field=key)
    if not counts.sum():
        raise DataError("holds nobody: every count is zero", source=source, field="count")
    return Population(tuple(labels), counts / counts.sum(), counts, **({"id": files.stem(path)} | facts))


def _file_of(document, path):
    """Return the name of the CSV file that a population's TOML file names."""
    name = check_text(document.get("file", path.name), "file")
    if not name:
        raise DataError("file must name a file, got an empty text", field="file")
    return name
