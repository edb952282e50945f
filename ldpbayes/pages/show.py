"""One function that makes the page of anything that has one."""

import functools

from ldpbayes.answers.contamination import ContaminationHull
from ldpbayes.fitness.base import Fitness
from ldpbayes.fitness.crosschecking import CrossCheck
from ldpbayes.fitness.noncompliance import Sensitivity
from ldpbayes.outcomes.result import PrivateGroups
from ldpbayes.pages.page import Page
from ldpbayes.regression.maximum import Maximum


@functools.singledispatch
def show(result, **settings) -> Page:
    """Return the Page of a result: its table and what to know about it, instead of a tree of arrays.

    A notebook displays the page as HTML, an interactive session as text.

    Parameters
    ----------
    result : DataTree, Maximum, CrossCheck, Fitness, ContaminationHull or list of Plan
        From fit(), regress(), crosscheck(), fitness.check() or theory.planning.plan().
    **settings
        Of the builder, such as ``top`` (number of categories) for a fit.

    Returns
    -------
    Page
        ``page.render("markdown")`` is the same in another format, ``pages.write(page, path)`` a file.

    Examples
    --------
    >>> from ldpbayes import Collection, Tally, fit
    >>> from ldpbayes.protocols.designs import warner
    >>> survey = Collection(["no", "yes"], [Tally(warner(0.7), [0, 1], [60, 40])], title="A survey")
    >>> page = show(fit(survey, prior="flat", random_seed=1))
    >>> page.title, [round(row[1], 3) for row in page.tables[0].rows]
    ('A survey', [0.741, 0.259])
    """
    if "regression" in result.attrs:
        from ldpbayes.pages.regress import of_regression

        return of_regression(result, **settings)
    if "attributes" in result.attrs:
        from ldpbayes.pages.association import of_association

        return of_association(result, **settings)
    from ldpbayes.pages.fit import of_fit

    return of_fit(result, **settings)


@show.register
def _(result: Maximum, **settings):
    from ldpbayes.pages.regress import of_maximum

    return of_maximum(result, **settings)


@show.register
def _(result: PrivateGroups, **settings):
    from ldpbayes.pages.groups import of_groups

    return of_groups(result, **settings)


@show.register
def _(result: CrossCheck, **settings):
    from ldpbayes.pages.crosscheck import of_crosscheck

    return of_crosscheck(result, **settings)


@show.register
def _(result: Sensitivity, **settings):
    from ldpbayes.pages.sensitivity import of_sensitivity

    return of_sensitivity(result, **settings)


@show.register
def _(result: ContaminationHull, **settings):
    from ldpbayes.pages.contamination import of_contamination

    return of_contamination(result, **settings)


@show.register
def _(result: Fitness, **settings):
    from ldpbayes.pages.check import of_check

    return of_check(result, **settings)


@show.register(list)
@show.register(tuple)
def _(result, **settings):
    from ldpbayes.pages.plan import of_plan

    return of_plan(result, **settings)
