"""The studies: experiments of the four papers, each with a small setting and the paper's own, the posterior mean added."""

import functools

from ldpbayes.study import coverage, evaluate, poisoning, priors, repeats
from ldpbayes.study.runner import Study, grid


def _risk(setting):
    paper = setting == "paper"
    epsilons = [0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0] if paper else [0.2, 0.5, 1.0, 2.0]
    rest = {"epsilon": epsilons, "population": ["jeffreys"], "replications": [100 if paper else 60]}
    return [
        *grid(protocol=["grr"], n_categories=[1024], n_reports=[10_000, 1_000_000], **rest),
        *grid(protocol=["oue"], n_categories=[10], n_reports=[100, 1_000_000 if paper else 10_000], **rest),
    ]


def _populations(setting):
    evaluate.require_populations()
    paper = setting == "paper"
    epsilons = [0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0] if paper else [0.5, 1.0, 2.0]
    cells = []
    for protocol, names in (
        ("grr", ["adult_age", "flights_dep_minute_of_day"]),
        ("oue", ["adult_workclass", *(["flights_carrier"] if paper else [])]),
    ):
        for name in names:
            people = evaluate.census(name)
            sizes = {"n_categories": [people.n_categories], "n_reports": [int(people.counts.sum())], "population": [name]}
            cells += grid(protocol=[protocol], **sizes, epsilon=epsilons, replications=[100 if paper else 30])
    return cells


def _decoders(setting):
    paper = setting == "paper"
    return grid(
        protocol=["grr", "sue"],
        n_categories=[2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048] if paper else [4, 16, 64],
        epsilon=[0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0] if paper else [0.5, 1.0, 2.0, 4.0],
        n_reports=[100, 30_000] if paper else [100, 3_000],
        population=["geometric", "flat"],
        replications=[10_000 if paper else 8],
    )


def _cohorts(setting):
    paper = setting == "paper"
    return grid(
        protocol=["orr_closed", "orr_open", "orappor_open"],
        n_categories=[256 if paper else 64],
        n_reports=[1_000_000],
        population=["geometric"],
        epsilon=[0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0] if paper else [1.0, 3.0, 5.0],
        buckets=[2, 8, 32, 128, 512, 2048] if paper else [2, 4, 16, 64],
        cohorts=[1, 2, 8, 32, 128, 1024] if paper else [1, 8, 128],
        replications=[50 if paper else 20],
    )


def _subset(setting):
    paper = setting == "paper"
    sizes = {  # the rows of the table
        2: (0.1, 1.0),
        4: (0.01, 0.1, 0.5, 1.0),
        6: (0.01, 0.1, 0.5, 1.0),
        8: (0.01, 0.1, 0.5, 1.0, 2.0),
        16: (0.01, 0.1, 0.5, 1.0, 2.0, 3.0),
        32: (0.01, 0.1, 1.0, 1.5, 2.0, 3.0),
        64: (0.1, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0),
        128: (0.1, 1.0, 3.0, 5.0),
        256: (1.0, 3.0, 5.0),
    }
    shown = sizes if paper else {4: (0.5, 1.0), 16: (0.5, 1.0, 2.0), 64: (1.0, 3.0)}
    fixed = {"n_reports": [10_000], "population": ["flat"], "replications": [100]}
    protocols = ["sue", "grr", "subset_information", "subset"]
    return [c for a, e in shown.items() for c in grid(protocol=protocols, n_categories=[a], epsilon=list(e), **fixed)]


_METRICS_OF = ["grr", "sue", "oue", "blh"]


def _privacy(setting):
    sizes = [2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20] if setting == "paper" else [2, 4, 6, 8, 10]
    return grid(protocol=_METRICS_OF, n_categories=sizes, epsilon=[2.0])


def _tradeoff(setting):
    many = [0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0]
    return grid(protocol=_METRICS_OF, n_categories=[3], epsilon=many if setting == "paper" else many[::3])


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


def _priors(setting):
    evaluate.require_populations()
    paper = setting == "paper"
    rest = {"epsilon": [0.5, 1.0, 2.0, 4.0] if paper else [1.0, 4.0], "replications": [20 if paper else 3]}
    sizes = [(name, a) for a in ((205, 1000) if paper else (205,)) for name in priors.ZIPF]
    sizes += [(name, evaluate.census(name).n_categories) for name in (priors.CENSUSES if paper else ("flights_dest",))]
    cells = []
    for name, a in sorted(sizes, key=lambda size: size[1]):
        fixed = rest | {"n_categories": [a], "population": [name]}
        cells += grid(protocol=["grr", "oue", "olh", "subset"] if paper else ["grr", "oue"], n_reports=[10_000], **fixed)
        if paper:
            cells += grid(protocol=["grr"], n_reports=[1_000_000], **fixed)
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


#: Every study by its name.
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
            ),
            panels=("population", "protocol"),
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
        ),
        Study(
            "cohorts",
            "O-RR and O-RAPPOR on open and closed alphabets over numbers of buckets and cohorts",
            "Kairouz, Bonawitz, Ramage (2016), Fig. 3 and 11 (one hash, the paper's best)",
            _cohorts,
            evaluate.cohort_losses,
            lines=("protocol", "estimator"),
            panels=("n_categories",),
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
        ),
        Study(
            "tradeoff",
            "Privacy and effective participation of GRR, unary encoding and local hashing over epsilon",
            "Lopuhaä-Zwakenberg et al. (2019), Fig. 3",
            _tradeoff,
            evaluate.information_metrics,
            lines=("protocol",),
            panels=("metric",),
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
        Study(
            "priors",
            "Posterior means under Jeffreys', the flat, the learnt and the smooth prior against estimators without a prior",
            "our own comparison; docs/theory/priors-study.md",
            _priors,
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
