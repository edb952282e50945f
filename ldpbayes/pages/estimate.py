"""The page of a point estimate."""

import numpy as np

from ldpbayes.collections.data import mechanisms
from ldpbayes.pages.page import TOP, Column, Kind, Note, Page
from ldpbayes.pages.prose import as_sentences
from ldpbayes.pages.tables import decimals, filled
from ldpbayes.plots.base import NAMES, asked

_MEANS = "Standard error; empty where the estimate has none, as on the boundary."


def of_estimate(estimate, *, title: str = "", top: int = TOP) -> Page:
    """Return the Page of an Estimate: a row for each category."""
    p, collection = estimate.distribution, estimate.collection
    labels = [str(x) for x in range(p.size)]
    if collection is not None and len(collection.categories) == p.size:
        labels = list(collection.categories)
    error = np.full(p.size, np.nan) if estimate.standard_error is None else estimate.standard_error
    spec, name = f".{decimals(error)}f", NAMES.get(estimate.name, estimate.name)
    columns = [
        (Column("category", "category", "text"), labels),
        (Column("estimate", name, spec=spec), p.tolist()),
        (Column("standard_error", "s.e.", spec=spec, means=_MEANS), error.tolist()),
    ]
    title = title or f"Point estimate: {name}"
    yes = asked(labels)
    x = int(np.argmax(p)) if yes is None else yes
    known = f" (standard error {error[x]:{spec}})" if np.isfinite(error[x]) else ""
    source = "" if collection is None else f", from {mechanisms(collection.channels())}"
    summary = f"The {name} of the share of {labels[x]} is {p[x]:{spec}}{known}{source}."
    facts = {"estimator": estimate.name, "categories": labels, "estimate": p, "standard_error": error, "gap": estimate.gap}
    table = filled(title, columns).first(top)
    notes = (Note(Kind.ESTIMATE, as_sentences(estimate.outcome)),) if estimate.outcome else ()
    return Page(title, (table,), notes, facts=facts | {"log_likelihood": estimate.log_likelihood}, summary=summary)
