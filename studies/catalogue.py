"""The studies of the checkout: the papers' real populations and our own comparisons, whose results docs/ states."""

import functools

from ldpbayes.study import Study, evaluate
from ldpbayes.study.base import grid
from studies import common, coverage, poisoning, priors, repeats, weights


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


#: Every study that is registered beside those of the package, by its name.
STUDIES = {
    study.name: study
    for study in (
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
