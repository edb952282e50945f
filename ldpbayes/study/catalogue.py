"""The studies: small settings of four papers' experiments with the posterior mean added, and its distance to the MLE."""

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


def _cohorts(_setting):
    return grid(
        protocol=["orr_closed", "orr_open", "orappor_open"],
        n_categories=[64],
        n_reports=[1_000_000],
        population=["geometric"],
        epsilon=[1.0, 3.0, 5.0],
        buckets=[2, 4, 16, 64],
        cohorts=[1, 8, 128],
        replications=[20],
    )


def _subset(_setting):
    fixed = {"n_reports": [10_000], "population": ["flat"], "replications": [100]}
    protocols = ["sue", "grr", "subset_information", "subset"]
    sizes = {4: (0.5, 1.0), 16: (0.5, 1.0, 2.0), 64: (1.0, 3.0)}
    return [c for a, e in sizes.items() for c in grid(protocol=protocols, n_categories=[a], epsilon=list(e), **fixed)]


_METRICS_OF = ["grr", "sue", "oue", "blh"]


def _privacy(_setting):
    return grid(protocol=_METRICS_OF, n_categories=[2, 4, 6, 8, 10], epsilon=[2.0])


def _tradeoff(_setting):
    return grid(protocol=_METRICS_OF, n_categories=[3], epsilon=[0.05, 0.35, 1.0, 2.5, 5.0, 10.0])


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
                estimators=("posterior_mean", "mle", "projected", "normalised", "oracle"),
                targets=("frequency",),
                metrics=("l1", "mse"),
            ),
            lines=("protocol", "estimator"),
            panels=("population", "n_reports", "n_categories"),
            settings=ONE_SIZE,
        ),
        Study(
            "cohorts",
            "O-RR and O-RAPPOR on open and closed alphabets over numbers of buckets and cohorts",
            "Kairouz, Bonawitz, Ramage (2016), Fig. 3 and 11 (one hash, the paper's best)",
            _cohorts,
            evaluate.cohort_losses,
            lines=("protocol", "estimator"),
            panels=("n_categories",),
            settings=ONE_SIZE,
        ),
        Study(
            "subset",
            "Subset selection against binary and multivariate randomised response, projected",
            "Wang et al. (2016), Table 1",
            _subset,
            functools.partial(
                evaluate.simulate_risks,
                estimators=("projected", "oracle"),
                targets=("distribution",),
                metrics=("mse", "l1"),
            ),
            lines=("protocol",),
            panels=("estimator", "n_categories"),
            settings=ONE_SIZE,
        ),
        Study(
            "privacy",
            "Average and worst-case privacy of GRR, unary encoding and local hashing over the number of categories",
            "Lopuhaä-Zwakenberg et al. (2019), Fig. 2",
            _privacy,
            evaluate.information_metrics,
            x="n_categories",
            lines=("protocol",),
            panels=("metric",),
            settings=ONE_SIZE,
        ),
        Study(
            "tradeoff",
            "Privacy and effective participation of GRR, unary encoding and local hashing over epsilon",
            "Lopuhaä-Zwakenberg et al. (2019), Fig. 3",
            _tradeoff,
            evaluate.information_metrics,
            lines=("protocol",),
            panels=("metric",),
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
