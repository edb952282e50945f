"""The studies: small settings of two papers' experiments with the posterior mean added, and its distance to the MLE."""

import functools

from ldpbayes.study import evaluate
from ldpbayes.study.base import Study, grid


def _risk(_setting):
    rest = {"epsilon": [0.2, 0.5, 1.0, 2.0], "population": ["jeffreys"], "replications": [60]}
    return [
        *grid(protocol=["grr"], n_categories=[1024], n_reports=[10_000, 1_000_000], **rest),
        *grid(protocol=["oue"], n_categories=[10], n_reports=[100, 10_000], **rest),
    ]


def _decoders(_setting):
    return grid(
        protocol=["grr", "sue"],
        n_categories=[4, 16, 64],
        epsilon=[0.5, 1.0, 2.0, 4.0],
        n_reports=[100, 3_000],
        population=["geometric", "flat"],
        replications=[8],
    )


def _convergence(setting):
    paper = setting == "paper"
    return grid(
        protocol=["grr", "sue", "oue", "subset", "olh", "hadamard", "cohort_rr", "rappor"],
        n_categories=[8],
        epsilon=[1.0, 2.0] if paper else [2.0],
        population=["geometric"],
        n_reports=[100, 1_000, 10_000, 100_000, 1_000_000] if paper else [100, 1_000, 10_000, 100_000],
        replications=[50 if paper else 10],
    )


#: The papers' figures at the papers' sizes are in studies/ of a checkout.
ONE_SIZE = ("small",)
#: Every study by its name; ``register`` adds to them.
STUDIES = {
    study.name: study
    for study in (
        Study(
            "risk",
            "Mean squared error of the posterior mean, the MLE, Norm-Sub and the oracle, with every bound",
            "Lopuhaä-Zwakenberg et al. (2020), Fig. 2 and 3",
            _risk,
            functools.partial(
                evaluate.simulate_risks, estimators=("posterior_mean", "mle", "norm_sub", "oracle"), with_bounds=True
            ),
            settings=ONE_SIZE,
        ),
        Study(
            "decoders",
            "Decoders of k-RR and k-RAPPOR by l1 distance, with the posterior mean",
            "Kairouz, Bonawitz, Ramage (2016), Fig. 1, 2, 5 and 6",
            _decoders,
            functools.partial(
                evaluate.simulate_risks,
                estimators=("posterior_mean", "mle", "projected", "normalized", "oracle"),
                targets=("frequency",),
                metrics=("l1", "mse"),
            ),
            lines=("protocol", "estimator"),
            panels=("population", "n_reports", "n_categories"),
            settings=ONE_SIZE,
        ),
        Study(
            "convergence",
            "Distance of the posterior mean from the MLE as reports come in, for every protocol",
            "Lopuhaä-Zwakenberg et al. (2020), Theorem 3.3",
            _convergence,
            evaluate.distance_to_mle,
            x="n_reports",
            lines=("protocol",),
            panels=("epsilon",),
        ),
    )
}
