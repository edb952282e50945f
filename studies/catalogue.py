"""The studies that are run cell by cell: small settings of the papers' experiments, and our own comparisons."""

import functools

from studies import common, convergence, coverage, evaluate, poisoning, priors, repeats, weights
from studies.base import Study, grid

#: Studies whose own sizes are run in blocks (figures.py) have this setting alone.
ONE_SIZE = ("small",)


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


def _populations(_setting):
    common.require_populations()
    cells = []
    for protocol, name in (("grr", "adult_age"), ("grr", "flights_dep_minute_of_day"), ("oue", "adult_workclass")):
        people = common.census(name)
        sizes = {"n_categories": [people.n_categories], "n_reports": [int(people.counts.sum())], "population": [name]}
        cells += grid(protocol=[protocol], **sizes, epsilon=[0.5, 1.0, 2.0], replications=[30])
    return cells


def _repeats(setting):
    paper = setting == "paper"
    return grid(
        protocol=list(repeats.PROTOCOLS),
        n_categories=[repeats.SHARES.size],
        epsilon=[1.5],
        n_reports=[1000],
        times=list(repeats.TIMES if paper else repeats.TIMES[:3]),
        replications=[1000 if paper else 40],
    )


#: Every study that is run cell by cell, by its name.
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
            "Maximum likelihood against the posterior mean as reports come in, by cross-checks",
            "Lopuhaä-Zwakenberg et al. (2020), Theorem 3.3; docs/studies/mle-against-bayes.md",
            convergence.cells,
            convergence.cross_checks,
            x="n_reports",
            panels=("protocol", "n_categories"),
        ),
        Study(
            "populations",
            "The same estimators on real populations: adults' age and work class, flights' departures and carriers",
            "Lopuhaä-Zwakenberg et al. (2020), Fig. 4 and 5 (flights stand in for the taxi data)",
            _populations,
            functools.partial(
                evaluate.simulate_risks,
                estimators=("posterior_mean", "mle", "norm_sub", "oracle"),
                targets=("frequency",),
                draw=common.whole_census,
            ),
            panels=("population", "protocol"),
        ),
        Study(
            "priors",
            "Posterior means under Jeffreys', the flat, the learnt and the smooth prior against estimators without a prior",
            "our own comparison; docs/theory/priors-study.md",
            priors.cells,
            priors.compare_priors,
            panels=("population", "n_categories", "protocol", "n_reports"),
        ),
        Study(
            "coverage",
            "How often credible, confidence, Wald and bootstrap intervals hold the true share, and how wide they are",
            "in the manner of Kao and Reiter (2025); docs/studies/coverage.md",
            coverage.cells,
            coverage.simulate_coverage,
            panels=("protocol", "n_categories", "n_reports"),
        ),
        Study(
            "repeats",
            "Coverage of 90 % intervals from exact rows of users with several reports, and from reports taken for users",
            "our own comparison; docs/theory/repeated.md",
            _repeats,
            repeats.coverage_of_repeats,
            x="times",
            panels=("protocol", "metric"),
        ),
        Study(
            "weights",
            "Coverage of 95 % intervals of fit and of a regression under sampling weights and strata",
            "our own; docs/theory/survey.md",
            weights.cells,
            weights.coverage_of_weights,
            x="n_reports",
            panels=("protocol", "population", "metric"),
        ),
        Study(
            "poisoning",
            "Errors under the maximal gain attack: posteriors with and without the law of the fakes, Norm-Sub, LDPRecover",
            "after Cao, Jia and Gong (2021) and Sun et al. (2024); docs/theory/contamination.md",
            poisoning.cells,
            poisoning.compare_defences,
            x="fakes",
            panels=("population", "protocol", "n_reports"),
        ),
    )
}
