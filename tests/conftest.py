"""Fits that several test files share: NUTS is compiled once per structure and every collection sampled once."""

import gc
import os
import pathlib
from collections import Counter

import numpy as np
import pytest

from ldpbayes import GRR, Collection, Tally, read
from ldpbayes.methods import NUTS

#: What `make test` may lack, as the reasons of skipped tests name it: these are counted and named, and limit nothing.
OPTIONAL = ("pyspark", "Java", "selenium", "Chromium or chromedriver")
#: More tests than this that are skipped for another reason fail the run: none may hide that nothing is tested.
MAX_SKIPPED = 20


#: Where the garbage collector would walk over a million lasting objects at every turn, it is asked to look less often.
GC_THRESHOLD = (20_000, 20, 20)


def pytest_collection(session):
    """Nothing that collection makes is garbage: do not look for any."""
    gc.disable()


#: What one process runs, in this order and before all else. The first group compiles the package's kernels, which are then
#: on disk for everybody, and the second PyMC's models: two processes that began with the same would both compile it.
TOGETHER = (
    (
        "test_docs.py",
        "test_readme.py::test_python_examples",
        "test_net.py",
        "regression/test_posterior.py",
        "posteriors/test_walk.py",
    ),
    (
        "posteriors/test_nuts.py",
        "test_crosscheck.py",
        "test_readme.py",
        "test_surrogate_in_pymc.py",
        "priors/test_contract.py",
        "test_model.py",
        "test_observe_cells.py",
        "test_spark.py",
    ),
)
#: Files that take ten seconds or more, the longest first: whoever begins with them ends together with the others.
LONGEST = (
    "test_result.py",
    "test_browser.py",
    "mend/test_08_channels_with_zeros.py",
    "test_engines_agree.py",
    "test_faults.py",
    "posteriors/test_joint.py",
    "test_sources.py",
    "theory/test_risk.py",
    "protocols/test_contract.py",
    "mend/test_01_closed_formulas.py",
    "mend/test_43_bombs.py",
    "theory/test_planning.py",
    "mend/test_36_private_groups_of_every_protocol.py",
    "posteriors/test_mixture.py",
    "posteriors/test_pair_slice.py",
    "posteriors/test_tally_states.py",
    "test_malformed.py",
    "posteriors/test_quadrature.py",
    "test_fit_cells.py",
    "test_pages.py",
    "test_cli_cells.py",
    "test_study.py",
    "mend/test_04_asymmetric_mixtures.py",
    "posteriors/test_mend_engines.py",
    "theory/test_bounds.py",
    "mend/test_02_interval_ends.py",
    "test_fuzz.py",
    "test_legacy.py",
    "test_association.py",
)
_TOGETHER = [tuple(f"tests/{name}" for name in group) for group in TOGETHER]
_ORDER = [*(name for group in _TOGETHER for name in group), *(f"tests/{name}" for name in LONGEST)]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Hand out file by file, except that what stands together goes to one process."""
    from xdist.scheduler import LoadFileScheduling

    class Together(LoadFileScheduling):
        def _split_scope(self, nodeid):
            return next((group[0] for group in _TOGETHER if nodeid.startswith(group)), super()._split_scope(nodeid))

    return Together(config, log) if config.getvalue("dist") == "loadfile" else None


#: Tests of half a CPU second and more whose statement others make in less time, on smaller input or by another engine:
#: `make calibrate` has them, so that `make test` ends within ten minutes.
CALIBRATED = (
    "mend/test_23_who_decides.py::test_nine_tenths_of_the_categories_are_empty[oue]",
    "estimators/test_mle.py::test_stress_set_is_certified[True-40-3000-0.3]",
    "estimators/test_mle.py::test_stress_set_is_certified[True-40-3000-1.0]",
    "test_study.py::test_every_study_runs[floor]",
    "mend/test_04_asymmetric_mixtures.py::test_few_categories_by_quadrature",
    "mend/test_04_asymmetric_mixtures.py::test_one_collection[0]",
    "mend/test_07_portable.py::test_a_seed_gives_the_same_numbers_without_vector_units",
    "mend/test_08_channels_with_zeros.py::test_direct_questions_beside_a_device_with_effects_of_regions[1]",
    "mend/test_08_channels_with_zeros.py::test_direct_questions_beside_a_device_with_effects_of_regions[2]",
    "mend/test_08_channels_with_zeros.py::test_direct_questions_beside_a_device_with_effects_of_regions[3]",
    "mend/test_08_channels_with_zeros.py::test_every_engine_takes_channels_with_zeros[direct- + (1 | region)-alone]",
    "mend/test_08_channels_with_zeros.py::test_every_engine_takes_channels_with_zeros[edge- + (1 | region)-alone]",
    "mend/test_08_channels_with_zeros.py::test_every_engine_takes_channels_with_zeros[edge- + (1 | region)-beside a device]",
    "mend/test_08_channels_with_zeros.py::test_every_engine_takes_channels_with_zeros[kuk- + (1 | region)-alone]",
    "mend/test_08_channels_with_zeros.py::test_every_engine_takes_channels_with_zeros[kuk- + (1 | region)-beside a device]",
    "mend/test_08_channels_with_zeros.py::test_every_engine_takes_channels_with_zeros[one-sided- + (1 | region)-alone]",
    "mend/test_08_channels_with_zeros.py::"
    "test_every_engine_takes_channels_with_zeros[one-sided- + (1 | region)-beside a device]",
    "mend/test_18_moments_are_checked.py::test_studies_go_on_with_draws[jeffreys]",
    "mend/test_43_bombs.py::test_draws_of_many_categories_are_held_a_few_times",
    "posteriors/test_augmentation.py::test_packed_rows_give_what_dense_rows_give",
    "posteriors/test_expansion.py::test_priors_that_are_no_dirichlet",
    "posteriors/test_joint.py::test_few_reports_at_high_epsilon_refuse_summaries_and_keep_rows",
    "posteriors/test_joint.py::test_summaries_with_weights_agree_with_the_reports",
    "posteriors/test_joint.py::test_trajectories_of_hmc_agree_with_nuts",
    "posteriors/test_mend_engines.py::test_mend_7_other_engines_that_resample_by_weights_have_that_error_too[laplace]",
    "posteriors/test_mixture.py::test_other_reports_agree_with_brute_force[oue-quadrature]",
    "posteriors/test_nuts.py::test_nigeria_agrees_with_quadrature",
    "posteriors/test_pair_slice.py::test_auto_answers_four_items_without_nuts",
    "posteriors/test_shared.py::test_surrogates_share_alpha_too",
    "posteriors/test_walk.py::test_the_error_of_the_evidence_is_that_of_repetitions",
    "priors/test_contract.py::test_pymc_variable_has_the_moments_of_the_draws[conjugate compliance-1000]",
    "priors/test_contract.py::test_pymc_variable_has_the_moments_of_the_draws[hierarchical by category-1000]",
    "priors/test_contract.py::test_pymc_variable_has_the_moments_of_the_draws[jeffreys-1000]",
    "priors/test_contract.py::test_pymc_variable_has_the_moments_of_the_draws[neighbours-1000]",
    "priors/test_contract.py::test_pymc_variable_has_the_moments_of_the_draws[uneven Dirichlet-1000]",
    "posteriors/test_smooth.py::test_smooth_populations_are_estimated_better_than_under_jeffreys",
    "test_answers.py::test_mend_1_simultaneous_intervals_hold_out_of_sample[256]",
    "test_association.py::test_items_of_the_published_survey",
    "test_association.py::test_margins_agree_whatever_table_they_are_taken_from",
    "test_association.py::test_sampled_attributes_tell_margins_only",
    "test_engines_agree.py::test_draws_agree_with_the_exact_moments[blh-augmentation]",
    "test_engines_agree.py::test_draws_agree_with_the_exact_moments[cohort-label-augmentation]",
    "test_engines_agree.py::test_draws_agree_with_the_exact_moments[cohort-permutation-augmentation]",
    "test_engines_agree.py::test_draws_agree_with_the_exact_moments[hadamard-augmentation]",
    "test_engines_agree.py::test_draws_agree_with_the_exact_moments[mixture-augmentation]",
    "test_engines_agree.py::test_draws_agree_with_the_exact_moments[cheater-detection-augmentation]",
    "test_engines_agree.py::test_draws_agree_with_the_exact_moments[stochastic-lie-detector-augmentation]",
    "test_engines_agree.py::test_draws_agree_with_the_exact_moments[noncompliance-augmentation]",
    "test_engines_agree.py::test_draws_agree_with_the_exact_moments[olh-xxhash-augmentation]",
    "test_engines_agree.py::test_draws_agree_with_the_exact_moments[product-augmentation]",
    "test_engines_agree.py::test_draws_agree_with_the_exact_moments[rappor-augmentation]",
    "test_engines_agree.py::test_draws_agree_with_the_exact_moments[rappor-bits-augmentation]",
    "test_engines_agree.py::test_draws_agree_with_the_exact_moments[rappor-bloom-augmentation]",
    "test_engines_agree.py::test_draws_agree_with_the_exact_moments[rappor-direct-augmentation]",
    "test_engines_agree.py::test_draws_agree_with_the_exact_moments[sue-augmentation]",
    "test_engines_agree.py::test_draws_agree_with_the_exact_moments[unary-rates-augmentation]",
    "test_engines_agree.py::test_draws_agree_with_the_exact_moments[dual-augmentation]",
    "test_engines_agree.py::test_draws_agree_with_the_exact_moments[rappor-map-augmentation]",
    "test_engines_agree.py::test_draws_agree_with_the_exact_moments[subset-2-augmentation]",
    "test_net.py::test_outputs_are_those_of_the_first_version[case/cohort-label/5]",
    "test_net.py::test_outputs_are_those_of_the_first_version[case/cohort-permutation/5]",
    "test_net.py::test_outputs_are_those_of_the_first_version[random/3]",
    "test_net.py::test_outputs_are_those_of_the_first_version[random/23]",
    "test_net.py::test_outputs_are_those_of_the_first_version[random/30]",
    "test_net.py::test_outputs_are_those_of_the_first_version[random/40]",
    "test_net.py::test_outputs_are_those_of_the_first_version[random/50]",
    "test_net.py::test_outputs_are_those_of_the_first_version[random/53]",
    "test_net.py::test_outputs_are_those_of_the_first_version[random/62]",
    "test_net.py::test_outputs_are_those_of_the_first_version[random/78]",
    "test_net.py::test_outputs_are_those_of_the_first_version[random/80]",
    "test_result.py::test_leave_one_out_compares_two_models[ours]",
    "test_study.py::test_posterior_mean_has_the_least_mse_on_every_cell[some]",
    "test_study.py::test_distance_to_the_mle_falls_with_n",
    "test_study.py::test_every_study_runs[coverage]",
    "test_study.py::test_every_study_runs[priors]",
    "test_study.py::test_processes_give_the_same_numbers",
    "test_study.py::test_subset_selection_beats_binary_response_in_table_1",
    "theory/test_bounds.py::test_bound_attainable_oracle[loloha]",
    "theory/test_planning.py::test_mend_4_categories_for_errors_that_fall_with_their_number[olh-1.0]",
    "theory/test_planning.py::test_mend_4_categories_for_errors_that_fall_with_their_number[oue-1.0]",
    "theory/test_planning.py::test_mend_4_categories_for_errors_that_fall_with_their_number[sue-1.0]",
    "theory/test_planning.py::test_planning_n_inverts_itself[prior-mle-l1]",
    "theory/test_planning.py::test_planning_n_inverts_itself[prior-mle-l2]",
    "theory/test_planning.py::test_planning_n_inverts_itself[prior-mle-max]",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Long files first, and where files are handed out in the order of the tests that is how they start."""
    for item in items:
        if item.nodeid.removeprefix("tests/") in CALIBRATED:
            item.add_marker("calibrate")
    items.sort(key=lambda item: next((i for i, name in enumerate(_ORDER) if item.nodeid.startswith(name)), len(_ORDER)))


def pytest_collection_finish(session):
    """What is there after collection stays until the end: the garbage collector need not visit it again."""
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLD)
    gc.enable()


def pytest_sessionfinish(session):
    """Say what was not tested for want of an optional dependency, and fail a run that skips more than that."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter else []
    reasons = [report.longrepr[2].removeprefix("Skipped: ") for report in skipped]
    lacking = Counter(name for reason in reasons for name in OPTIONAL if reason.startswith(f"{name} is not installed"))
    if lacking:
        named = ", ".join(f"{name} (skips {count})" for name, count in lacking.items())
        reporter.write_line(f"\nNot tested, because an optional dependency is not installed: {named}.")
    other = len(reasons) - lacking.total()
    if other > MAX_SKIPPED:
        reporter.write_line(f"\n{other} tests were skipped for other reasons; at most {MAX_SKIPPED} may be.", red=True)
        session.exitstatus = 1


#: Tables of the command line are as wide as they need to be, also where the terminal states another width.
os.environ["COLUMNS"] = "160"

DATA = pathlib.Path(__file__).parents[1] / "data"


@pytest.fixture(scope="session")
def nigeria():
    """A forced-response survey: two categories, 2,435 answers."""
    return read(DATA / "rr_nigeria.toml")


@pytest.fixture(scope="session")
def eriksson():
    """Ten categories of which half are never forced, 102 answers."""
    return read(DATA / "rr_eriksson_cheating.toml")


@pytest.fixture(scope="session")
def minarets():
    """Two forms, three latent categories: rows that are not separable."""
    return read(DATA / "rr_minarets.toml")


@pytest.fixture(scope="session")
def grr10():
    """1,000 simulated reports of GRR over ten categories with a geometric distribution."""
    rng = np.random.default_rng(20)
    p = 0.7 ** np.arange(10)
    protocol = GRR(10, epsilon=1.5)
    reports, counts = protocol.simulate(rng.multinomial(1000, p / p.sum()), rng)
    return Collection([f"c{x}" for x in range(10)], Tally(protocol, reports, counts), id="grr10")


@pytest.fixture(scope="session")
def nuts_nigeria(nigeria):
    """The NUTS result of nigeria under the flat prior."""
    return NUTS().posterior(nigeria, "flat", random_seed=1)


@pytest.fixture(scope="session")
def nuts_eriksson(eriksson):
    """The NUTS result of eriksson under Jeffreys' prior."""
    return NUTS().posterior(eriksson, "jeffreys", random_seed=2)


@pytest.fixture(scope="session")
def nuts_grr10(grr10):
    """The NUTS result of grr10 under Jeffreys' prior."""
    return NUTS().posterior(grr10, "jeffreys", random_seed=3)
