"""Collection: tallies over the same categories, and the quantities derived from them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ldpbayes import checks
from ldpbayes.collections.data import Reports
from ldpbayes.collections.derived import Derived, check_name, check_text
from ldpbayes.collections.devices import without_outcomes
from ldpbayes.collections.noncompliance import Identification, identification, null_space
from ldpbayes.collections.survey import Survey
from ldpbayes.collections.tally import Tally
from ldpbayes.errors import ArgumentError, DataError, InfeasibleError, listed, shown
from ldpbayes.likelihoods import AbstractLikelihood, Rows, StackedRows
from ldpbayes.protocols.labels import Places

if TYPE_CHECKING:
    from ldpbayes.protocols.designs import ListExperiment

#: Fields of a collection that hold text.
TEXTS = ("id", "title", "question", "citation", "licence", "notes")


@dataclass(frozen=True, eq=False)
class Collection(Reports):
    """The reports of one population: a Tally per channel (a protocol at one ε); ``missing`` people gave no answer.

    Parameters
    ----------
    categories : sequence of str
        At least two distinct labels.
    tallies : sequence of Tally
        Protocols with as many categories; their likelihoods multiply. Labels of their own may be others, in no other order.
    id, title, question, citation, licence, notes : str
        What a reader should know.
    derived : sequence of Derived
        Quantities to report in addition to the categories.
    published : sequence of dict
        Numbers that others printed for these data, kept with them.
    survey : Survey, optional
        How the respondents were sampled, where not at random with equal chances: see ``read``. The
        likelihood is then a weighted one.
    ordered : bool
        Whether the categories stand in their order, as ages do; the prior ``smooth`` is then an option.
    missing : int
        How many more people were asked and gave no answer.

    Examples
    --------
    >>> from ldpbayes.protocols.designs import warner
    >>> survey = Collection(["no", "yes"], [Tally(warner(0.7), [0, 1], [60, 40])])
    >>> survey.n_reports
    100
    """

    categories: tuple[str, ...]
    tallies: tuple[Tally, ...]
    id: str = "collection"
    title: str = ""
    question: str = ""
    citation: str = ""
    licence: str = ""
    notes: str = ""
    derived: tuple[Derived, ...] = ()
    published: tuple[dict, ...] = field(default=(), repr=False)
    survey: Survey | None = field(default=None, repr=False)
    ordered: bool = field(default=False, repr=False)
    missing: int = field(default=0, repr=False)

    if TYPE_CHECKING:  # any sequence goes in; tuples come out

        def __init__(
            self,
            categories: Sequence[str],
            tallies: Sequence[Tally] | Tally,
            id: str = "collection",
            title: str = "",
            question: str = "",
            citation: str = "",
            licence: str = "",
            notes: str = "",
            derived: Sequence[Derived] = (),
            published: Sequence[dict] = (),
            survey: Survey | None = None,
            ordered: bool = False,
            missing: int = 0,
        ) -> None: ...

    def __repr__(self) -> str:
        through = ", ".join(dict.fromkeys(tally.protocol.design for tally in self.tallies))
        whole = bool(self.tallies) and all(tally.protocol.repeats() for tally in self.tallies)
        size = f"{self.n_reports:,} {'users' if whole else 'reports'}, {len(self.categories)} categories"
        return f"<Collection {self.title or self.id!r}: {size}, {through}>"

    def __post_init__(self) -> None:
        categories = checks.entries(self.categories, "categories", "at least two labels")
        if len(categories) < 2:
            raise DataError(f"categories must be at least two labels, got {len(categories)}")
        if len(categories) > checks.MAX_CATEGORIES:
            raise DataError(f"categories must be at most {checks.MAX_CATEGORIES:,} labels, got {len(categories):,}")
        if not all(isinstance(c, str) and c for c in categories):
            raise DataError("categories must be distinct, non-empty strings")
        if not checks.distinct(categories):
            raise DataError("categories must be distinct, non-empty strings, also without the blanks around them")
        for label in categories:
            check_text(label, "categories")
        for name in TEXTS:
            check_text(getattr(self, name), name)
        if not isinstance(self.ordered, bool):
            raise DataError(f"ordered must be true or false, got {shown(self.ordered)}")
        checks.integer(self.missing, "missing", 0, checks.MAX_COUNT)
        labels, alone = set(categories), isinstance(self.tallies, Tally)
        tallies = (self.tallies,) if alone else checks.entries(self.tallies, "tallies", "Tally objects")
        if not tallies:
            raise DataError("a collection needs at least one channel with reports, got none")
        for tally in tallies:
            if not isinstance(tally, Tally):
                raise ArgumentError(f"tallies must be Tally objects, got {type(tally).__name__}.")
            if tally.protocol.n_categories != len(categories):
                raise DataError(
                    f"channel {tally.name!r} has {tally.protocol.n_categories} categories, the collection {len(categories)}"
                )
            moved = Places(categories).moved(tally.categories or ())
            if moved is not None:
                raise DataError(f"channel {tally.name!r} has the category {shown(moved)} elsewhere than the collection")
            tally.protocol.check_categories(categories)
        names = [check_name(tally.name, "channel") for tally in tallies]
        if len(set(names)) != len(names):
            set_by = "name= of a Tally, or of a channel in a file, sets them"
            raise DataError(f"channels must have distinct names, got {listed(names)}; {set_by}")
        users = sum(tally.n_reports for tally in tallies)
        if users > checks.MAX_COUNT:
            raise DataError(f"a collection must have at most 10**12 reports, got {users:,}")
        derived = checks.entries(self.derived, "derived", "a sequence of Derived")
        for i, item in enumerate(derived):
            checks.instance(item, "derived", Derived, "a sequence of Derived")
            if any(item.name == other.name for other in derived[:i]):
                raise DataError(f"derived quantities must have distinct names, got {shown(item.name)} twice")
            for label in (*item.of, *item.given):
                if label not in labels:
                    raise DataError(f"derived quantity {shown(item.name)} names the unknown category {shown(label)}")
        published = checks.entries(self.published, "published", "a sequence of dicts")
        for entry in published:
            checks.mapping(entry, "published", "a sequence of dicts")
        if self.survey is not None:
            checks.instance(self.survey, "survey", Survey, "a Survey, as read makes it")
            if self.survey.n != users or int(self.survey.channel.max()) >= len(tallies):
                raise ArgumentError(f"survey must have one entry for each of the {users:,} reports, got {self.survey.n:,}.")
        object.__setattr__(self, "categories", categories)
        object.__setattr__(self, "tallies", tallies)
        # γ or δ, and the shares of those who deny or ignore the device, stand among the derived quantities.
        shares = self.wrapper.shares(self) if self.wrapper else ()
        derived_names = {item.name for item in derived}
        object.__setattr__(self, "derived", (*(item for item in shares if item.name not in derived_names), *derived))
        object.__setattr__(self, "published", published)

    @classmethod
    def from_lists(
        cls,
        design: "ListExperiment",
        control: ArrayLike | None = None,
        treatment: ArrayLike | None = None,
        direct: ArrayLike | None = None,
        *,
        both: Sequence[ArrayLike] | None = None,
        trait: str = "trait",
        **texts: Any,
    ) -> "Collection":
        """Return the collection of a list experiment, with the share of the trait as a derived quantity.

        Parameters
        ----------
        design : ListExperiment
        control : (J + 1,) array, or a sequence of them
            How many in the control group said 0 … J; of several lists one array each.
        treatment : (J + 2,) array, or a sequence of them
            How many in the treatment group said 0 … J + 1.
        direct : pair of int, optional
            How many who were asked directly said no, and yes.
        both : pair of arrays, optional
            Of two lists that each respondent answered: how many said y to the first and z to the second, (J + 2, K + 1) of
            those with the sensitive item on the first list, and (J + 1, K + 2) of those with it on the second.
        trait : str
            Name of the share.
        **texts
            Further fields of Collection.

        Raises
        ------
        ArgumentError, DataError
            Where the counts do not fit the design.

        Examples
        --------
        >>> from ldpbayes.protocols.designs import ListExperiment
        >>> survey = Collection.from_lists(ListExperiment(items=2), [20, 50, 30], [15, 45, 33, 7])
        >>> survey.n_reports, survey.derived[0].of
        (200, ('yes/0', 'yes/1', 'yes/2'))
        >>> two = Collection.from_lists(ListExperiment((1, 1)), both=[[[9, 9], [9, 9], [2, 2]], [[9, 9, 2], [9, 9, 2]]])
        >>> two.n_reports, [tally.name for tally in two.tallies]
        (80, ['both_1', 'both_2'])
        """
        from ldpbayes.protocols.designs import ListExperiment

        checks.instance(design, "design", ListExperiment, "a ListExperiment")
        channels, tallies = design.channels, []
        for group, stated in (("control", control), ("treatment", treatment), ("both", both), ("direct", direct)):
            names = [name for name in channels if name.partition("_")[0] == group]
            if stated is None:
                continue
            if not names:
                raise ArgumentError(f"{group} must be left out: {len(design.sizes)} lists have no such group.")
            rule = f"{len(names)} arrays, one for each list"
            arrays = checks.entries(stated, group, rule) if names[1:] else (stated,)
            if len(arrays) != len(names):
                raise ArgumentError(f"{group} must be {rule}, got {len(arrays)}.")
            tallies += [_tallied(channels[name], counts, name) for name, counts in zip(names, arrays, strict=True)]
        return cls(design.categories, tallies, derived=(Derived(trait, design.carriers),), **texts)

    def __add__(self, other: "Collection") -> "Collection":
        """Return the union: channels of the same name and protocol are added, others stand side by side."""
        if not isinstance(other, Collection):
            return NotImplemented
        if self.categories != other.categories:
            raise ArgumentError("collections must have the same categories to be added.")
        if self.survey is not None or other.survey is not None:
            raise ArgumentError(
                "collections with weights, strata or clusters cannot be added; read their respondents together, from a "
                "collection file whose channels say 'where'."
            )
        merged = {tally.name: tally for tally in self.tallies}
        for tally in other.tallies:
            merged[tally.name] = merged[tally.name] + tally if tally.name in merged else tally
        return replace(self, tallies=tuple(merged.values()), missing=self.missing + other.missing)

    def __radd__(self, other: int) -> "Collection":
        """Return the collection itself where ``sum`` adds it to zero."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __hash__(self) -> int:
        return hash((self.categories, self.tallies, self.id))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Collection):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__dataclass_fields__)

    @property
    def lists(self) -> tuple[int, ...]:
        from ldpbayes.protocols.designs import ListExperiment

        items = {ListExperiment.items_of(tally.protocol) for tally in self.tallies}
        sizes = items.pop() if len(items) == 1 else None
        return tuple(size + 1 for size in sizes) if sizes is not None and len(sizes) > 1 else ()

    @cached_property
    def apart_by_design(self) -> bool:
        joined = any(len(tally.protocol.report_fields) > 1 for tally in self.tallies)
        if not self.lists or joined or self.n_laws:
            return False
        carriers = np.arange(self.n_categories) >= self.n_categories // 2
        return bool((np.abs(self.null_space @ carriers) < 1e-8).all())

    @property
    def trait(self) -> str:
        carriers = self.categories[len(self.categories) // 2 :] if self.lists else ()
        return next((item.name for item in self.derived if item.of == carriers and not item.given), "")

    @property
    def n_reports(self) -> int:
        """Number of users over all channels."""
        return sum(tally.n_reports for tally in self.tallies)

    @cached_property
    def rows(self) -> Rows:
        """Likelihood rows of all channels; of a survey with weights for counts."""
        if self.survey is not None:
            return self.survey.rows(self.tallies)
        rows = [tally.rows for tally in self.tallies]
        return rows[0] if len(rows) == 1 else StackedRows(rows)

    @property
    def likelihood(self) -> AbstractLikelihood:
        """The likelihood of these reports."""
        return self.rows

    def constants(self) -> dict:
        """Return the number of users, and of those without an answer where there are any, as variables of a Dataset."""
        constants: dict[str, float] = {"n_reports": self.n_reports}
        constants |= {"missing": self.missing} if self.missing else {}
        if self.missing and self.survey is not None:
            constants["missing_share"], constants["missing_respondents"] = self.survey.absence()
        return {name: ((), value) for name, value in constants.items()}

    def observed(self, prefix: str = "") -> dict:
        """Return the reports and counts as variables of a Dataset, their names starting with a prefix."""
        observed: dict = {}
        for tally in self.tallies:
            name = tally.name
            report = f"{prefix}report_{name}"
            observed[f"{prefix}counts_{name}"] = ((report,), tally.counts)
            names = (f"{prefix}part_{name}_{i}" for i in range(1, tally.reports.ndim))
            observed[f"{prefix}reports_{name}"] = ((report, *names), tally.reports)
        return observed

    @cached_property
    def owners(self) -> tuple[int | None, ...]:
        """Of the last categories: whose deniers they are by ``with_deniers``; None of each by ``with_noncompliers``."""
        owners = {tally.protocol.owners for tally in self.tallies}
        return owners.pop() if len(owners) == 1 else ()

    def collections(self) -> Iterator["Collection"]:
        """Yield what is fitted on its own: this collection, as cells yield each of theirs."""
        yield self

    def single(self, what: str) -> "Collection":
        """Return this collection, which is what a statement about one collection needs.

        Parameters
        ----------
        what : str
            Who needs it, for the refusal of cells and of summaries.
        """
        return self

    @property
    def stated(self) -> dict[str, Any]:
        return {} if self.survey is None else self.survey.stated()

    def undecided(self) -> str:
        if not self.n_laws or self.noncompliance().identified:
            return ""
        return (
            "no number of reports identifies the share γ of respondents who ignore the device, so that γ, and P with it, "
            "follows the prior within what the reports allow"
        )

    def noncompliance(self, gamma: float | None = None) -> Identification:
        """Return whether the reports identify the share γ who ignore the device, or the shares δ who deny, and how well.

        γ is identified where the rank of [Q₁ q₁; Q₂ q₂; …] is above that of the stacked Q, and the δ of k categories where
        it is larger by k. Otherwise the interval of the shares that have the reports that came in follows from p′ ≥ 0. Of a
        sample with weights the sd takes their effect into account; a fit states it with the design effect, which strata and
        clusters change.

        Parameters
        ----------
        gamma : float, optional
            The γ or δ at which the sd is stated: by default the mean of its default prior, 0.1 or 0.5.

        Returns
        -------
        Identification
            identified, low, high, sd and sentence.
        """
        if gamma is not None:
            gamma = checks.probability(gamma, "gamma", open_low=True, open_high=True)
        return identification(self, gamma)

    @cached_property
    def null_space(self) -> np.ndarray:
        """Directions of P that no number of reports through these channels tells anything of, shape (k, a), orthonormal.

        Empty where the channels together have full rank, and where some protocol has too many possible reports to write its
        channel out.
        """
        rows = np.empty((0, self.n_categories))
        if any(tally.protocol.has_full_rank() for tally in self.tallies):
            return rows
        try:
            stacked = np.concatenate([tally.protocol.identifying_matrix() for tally in self.tallies])
        except InfeasibleError:
            return rows
        return null_space(stacked, max(stacked.shape) * np.finfo(float).eps)

    def unidentified(self) -> list[list[str]]:
        """Return groups of category labels that no number of reports through these channels could tell apart."""
        if not len(self.null_space):
            return []
        from scipy.sparse.csgraph import connected_components

        linked = np.abs(self.null_space.T @ self.null_space) > 1e-8
        count, group = connected_components(linked, directed=False)
        groups = [np.flatnonzero((group == g) & linked.diagonal()).tolist() for g in range(count)]
        return [[self.categories[x] for x in places] for places in groups if places]

    def identifiability(self) -> str:
        """Return a sentence that names the categories the channels cannot distinguish, or an empty string."""
        return self._identifiability

    @cached_property
    def _identifiability(self) -> str:
        if self.wrapper and not self.wrapper.tested:  # outcomes are not told apart, and need not be: their law is known
            return without_outcomes(self).identifiability()
        groups = self.unidentified()
        if not groups:
            return ""
        if self.apart_by_design:
            return (
                "Nobody answers two lists, so that no report says how the numbers of their items are related. Under the "
                "prior they are independent given the trait, unless another prior was stated. The share of the trait does "
                "not depend on it."
            )
        named = "; ".join(", ".join(group[:12]) + (", …" if len(group) > 12 else "") for group in groups)
        return (
            f"The channels do not have full rank: {named} cannot be told apart by any number of reports. Combinations "
            "that the reports determine are estimated; in the other directions the posterior equals the prior at any sample "
            "size."
        )

    def caveat(self) -> str:
        """Return the caveats of the protocols that apply to every fit, or an empty string."""
        named = (tally.protocol.caveat.format(name=repr(tally.name)) for tally in self.tallies)
        return " ".join(filter(None, named))

    def device(self) -> str:
        """Return what each report of an explicit channel stands for, in words; empty where there is nothing to say.

        Examples
        --------
        >>> from ldpbayes.protocols.designs import crosswise
        >>> Collection(["no", "yes"], [Tally(crosswise(0.75), [0, 1], [60, 40])]).device()
        "3 of 4 in 'yes' and 1 of 4 in 'no' say 'same'."
        """
        texts = []
        for tally in self.tallies:
            wrapped = tally.protocol.noncompliance()
            protocol = tally.protocol if wrapped is None else wrapped.compliers
            words = protocol.device(self.categories[: protocol.n_categories])
            if words:
                texts.append(f"Channel {tally.name!r}: {words[0].lower()}{words[1:]}" if len(self.tallies) > 1 else words)
        return " ".join(texts)

    def announce(self) -> None:
        """Warn as ``warn_if_unidentified`` does, but only once for this object. Readers call it."""
        self.warn_if_unidentified()
        object.__setattr__(self, "_announced", True)


def _tallied(channel: Any, counts: ArrayLike, name: str) -> Tally:
    """Return the tally of a group of a list experiment; those who answered two lists are counted in a table."""
    shape = tuple(int(column.max()) + 1 for column in channel.report_columns(np.arange(channel.n_outputs), ()))
    rule = f"{channel.n_outputs} counts, of the answers {listed(channel.answers)}"
    if len(shape) > 1:
        rule = f"a table of counts, {shape[0]} answers to the first list by {shape[1]} to the second"
    numbers = checks.reals(counts, name, rule, ndim=None)
    if numbers.shape != shape:
        raise ArgumentError(f"{name} must be {rule}, got shape {numbers.shape}.")
    return Tally(channel, np.arange(channel.n_outputs), np.ravel(counts), name)
