"""The class of answers: named numbers over labelled dims that can be read."""

import xarray as xr

from ldpbayes.presenting import AbstractResult


class Answer(AbstractResult, xr.Dataset):
    """What a question to a posterior returns: an xarray.Dataset with a page, a table and a file.

    ``attrs["question"]`` says in words what was asked, ``attrs["sentence"]`` what the answer is, where it has one.

    Examples
    --------
    >>> import ldpbayes as lb
    >>> result = lb.fit(lb.load_example("nigeria"), "flat", random_seed=1)
    >>> answer = lb.answers.category_sum(result, ["yes"])
    >>> answer.question, round(answer["mean"].item(), 3)
    ('yes', 0.262)
    """

    __slots__ = ()
    _arrays = xr.Dataset
