"""The outcome of a point estimator: a value with its standard error and its certificate."""

from dataclasses import dataclass

import numpy as np

from ldpbayes.collections.collection import Collection
from ldpbayes.presenting import AbstractResult


@dataclass(frozen=True, eq=False, repr=False)
class Estimate(AbstractResult):
    """A point estimate of the distribution P.

    Attributes
    ----------
    name : str
        Estimator, such as "mle" or "oracle".
    distribution : (a,) array
        The estimate; on the simplex except for oracles.
    standard_error : (a,) array or None
        Standard error of each coordinate; nan where it has none (an MLE on the boundary).
    log_likelihood : float
        log P(Y | estimate); nan for estimates outside the simplex.
    gap : float
        Certified upper bound on the log-likelihood (nats) that the estimate lacks; nan where there is none.
    outcome : str
        One sentence: certified, stopped early and why, or how it was computed.
    derived, derived_error : (k,) arrays or None
        The collection's derived quantities at the estimate, and their standard errors (nan where there are none).
    collection : Collection or None
        Whose reports it is of.
    """

    name: str
    distribution: np.ndarray
    standard_error: np.ndarray | None = None
    log_likelihood: float = float("nan")
    gap: float = float("nan")
    outcome: str = ""
    derived: np.ndarray | None = None
    derived_error: np.ndarray | None = None
    collection: Collection | None = None
