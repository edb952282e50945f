"""The class of answers: named numbers over labelled dims that can be read."""

from typing import Any

import xarray as xr

from ldpbayes.presenting import AbstractResult


class Answer(AbstractResult, xr.Dataset):  # type: ignore[misc]  # plot is a method, no accessor
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

    @property
    def _call(self) -> str:  # type: ignore[override]  # kept where a copy of the arrays has it
        return str(self.attrs.get("call", ""))

    def _keep(self, call: str) -> None:
        self.attrs["call"] = call

    def _random_seed(self) -> Any:
        seed = self.attrs.get("random_seed")
        return None if isinstance(seed, str) else seed  # those of its results
