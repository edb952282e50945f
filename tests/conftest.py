"""Fits that several test files share: NUTS is compiled once per structure and every collection sampled once."""

import functools
import gc
import os
import pathlib
import zlib
from collections import Counter

import numpy as np
import pytest

from ldpbayes import GRR, Collection, Tally, fit, read
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
        "crosschecking/test_crosscheck.py",
        "test_readme.py",
        "test_surrogate_in_pymc.py",
        "priors/test_contract.py",
        "test_model.py",
        "test_observe_cells.py",
        "scanning/test_spark.py",
    ),
)
#: Files that take five seconds or more, the longest first: whoever begins with them ends together with the others.
LONGEST = (
    "protocols/test_contract.py",
    "surveys/test_deniers.py",
    "test_pages.py",
    "test_result.py",
    "posteriors/test_floor.py",
    "test_fit_cells.py",
    "test_figures.py",
    "test_browser.py",
    "test_sources.py",
    "estimators/test_mle.py",
    "association/test_association.py",
    "posteriors/test_mixture.py",
    "test_cli_cells.py",
    "private_groups/test_every_protocol.py",
    "regression/test_population.py",
    "posteriors/test_quadrature.py",
    "posteriors/test_many.py",
    "test_architecture.py",
    "posteriors/test_pair_slice.py",
    "private_groups/test_by_private_group.py",
    "test_papers.py",
    "planning/test_risk.py",
    "posteriors/test_sampler.py",
    "posteriors/test_mend_engines.py",
    "regression/test_page.py",
    "scanning/test_scan.py",
    "private_groups/test_files.py",
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
#: `make calibrate` has them, so that `make test` ends within five minutes.
CALIBRATED = (
    "mend/test_23_who_decides.py::test_nine_tenths_of_the_categories_are_empty[oue]",
    "estimators/test_mle.py::test_stress_set_is_certified[True-40-3000-0.3]",
    "estimators/test_mle.py::test_stress_set_is_certified[True-40-3000-1.0]",
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
    "posteriors/test_expansion.py::test_priors_that_are_no_dirichlet",
    "posteriors/test_sampler.py::test_few_reports_at_high_epsilon_enter_as_they_are",
    "posteriors/test_sampler.py::test_summaries_with_weights_agree_with_the_reports",
    "posteriors/test_sampler.py::test_trajectories_of_hmc_agree_with_nuts",
    "posteriors/test_mend_engines.py::test_mend_7_other_engines_that_resample_by_weights_have_that_error_too[weighted]",
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
    "association/test_association.py::test_items_of_the_published_survey",
    "association/test_association.py::test_margins_agree_whatever_table_they_are_taken_from",
    "association/test_association.py::test_sampled_attributes_tell_margins_only",
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
    "test_study.py::test_distance_to_the_mle_falls_with_n",
    "test_study.py::test_every_study_runs[coverage]",
    "test_study.py::test_every_study_runs[priors]",
    "test_study.py::test_processes_give_the_same_numbers",
    "theory/test_bounds.py::test_bound_attainable_oracle[loloha]",
    "planning/test_plans.py::test_mend_4_categories_for_errors_that_fall_with_their_number[olh-1.0]",
    "planning/test_plans.py::test_mend_4_categories_for_errors_that_fall_with_their_number[oue-1.0]",
    "planning/test_plans.py::test_mend_4_categories_for_errors_that_fall_with_their_number[sue-1.0]",
    "planning/test_plans.py::test_planning_n_inverts_itself[prior-mle-l1]",
    "planning/test_plans.py::test_planning_n_inverts_itself[prior-mle-l2]",
    "planning/test_plans.py::test_planning_n_inverts_itself[prior-mle-max]",
    "calibration/test_scaled_priors.py::test_one_random_fit_has_the_verdicts_of_its_refits",
    "mend/test_02_interval_ends.py::test_ends_in_a_flat_tail_have_the_draws_that_they_need",
    "mend/test_15_ends_have_errors.py::test_two_seeds_differ_by_the_errors_of_their_ends",
    "mend/test_16_one_verdict.py::test_hundreds_of_cells_are_not_refused_by_chance",
    "test_answers.py::test_intervals_of_the_largest_are_at_their_level",
    "test_answers.py::test_mend_1_bands_from_draws_alone_hold_out_of_sample",
    "test_attacks.py::test_the_share_is_covered",
    "surveys/test_survey.py::test_intervals_of_stratified_and_clustered_surveys_cover",
    "planning/test_waves.py::test_a_restriction_that_follows_the_first_wave_leaves_the_posterior_exact",
    "planning/test_waves.py::test_posterior_means_do_at_least_as_well_and_hardly_better",
    "posteriors/test_mixture.py::test_other_reports_agree_with_brute_force[oue-surrogate]",
    "test_study.py::test_simulated_risks_fall_on_the_formulas[some]",
    "repeated/test_by_user.py::test_laplace_intervals_are_those_of_a_fit",
    "posteriors/test_pair_slice.py::test_margins_that_many_reports_fix_do_not_hold_the_chains",
    "calibration/test_compliance.py::test_the_designs_identify_their_law",
    "calibration/test_denial.py::test_few_nodes_give_the_same_probabilities",
    "posteriors/test_pair_slice.py::test_quadratic_against_the_rows_where_both_serve",
    "posteriors/test_quadrature.py::test_five_reports_over_a_thousand_categories",
    "posteriors/test_quadrature.py::test_minarets_under_a_flat_prior_against_a_fine_grid",
    "crosschecking/test_crosscheck.py::test_predictive_check_is_uniform_under_the_truth",
    "theory/test_bounds.py::test_mend_6_exact_floor_by_the_information_of_listed_channels",
    "theory/test_metrics.py::test_asymptotic_utility_is_a_limit",
    "theory/test_metrics.py::test_information_by_sum_and_by_simulation",
    "posteriors/test_walk.py::test_the_expansion_with_weights_agrees_with_the_rows",
    "posteriors/test_mixture.py::test_moments_without_draws_agree_with_brute_force",
    "test_coverage_study.py::test_intervals_of_all_replications_are_those_of_fits",
    "mend/test_17_weights_by_squares.py::test_the_methods_choice_has_the_right_sds",
    "posteriors/test_shared.py::test_one_alpha_agrees_with_brute_force",
)

#: Tests that make one statement about every protocol, stored number or file, and how many of these `make test` takes: every
#: k-th. `make calibrate` has the others. Each test starts elsewhere in the table, so that none is left out of all.
SAMPLED = {
    "estimators/test_mle.py::test_every_protocol": 3,
    "estimators/test_mle.py::test_fewer_rows_than_categories_are_certified": 3,
    "estimators/test_mle.py::test_stress_set_is_certified": 4,
    "fitness/test_check.py::test_degrees_of_freedom_inside_the_simplex": 3,
    "fitness/test_check.py::test_mend_10_honest_reports_are_flagged_at_the_level": 3,
    "fitness/test_copies.py::test_mend_21_copies_of_one_report_are_flagged": 4,
    "mend/test_02_interval_ends.py::test_a_flat_tail_is_seen": 3,
    "mend/test_08_channels_with_zeros.py::test_every_engine_takes_channels_with_zeros": 3,
    "mend/test_09_two_modes.py::test_two_modes_end_in_an_answer_that_is_trusted": 3,
    "regression/test_numbers.py::test_the_unit_of_a_column_changes_nothing_but_the_coefficient": 2,
    "private_groups/test_files.py::test_files_of_strangers_are_refused_in_one_sentence": 3,
    "private_groups/test_files.py::test_a_file_gives_the_same_page_tables_and_numbers": 2,
    "mend/test_23_who_decides.py::test_fits_without_draws_say_the_same": 2,
    "mend/test_30_cells_with_draws.py::"
    "test_users_allocated_together_follow_the_law_of_users_allocated_one_draw_at_a_time": 3,
    "mend/test_33_large_epsilon.py::test_weights_at_large_epsilon_are_nearly_equal": 3,
    "private_groups/test_every_protocol.py::test_smooth_curves_the_recipe_and_a_fit_of_the_reports_agree": 5,
    "private_groups/test_every_protocol.py::test_weights_add_up_to_the_oracle": 6,
    "mend/test_37_counts_in_pytensor.py::test_every_form_of_the_likelihood_counts_every_report": 2,
    "mend/test_44_small_settings.py::test_small_hashed_collections_take_one_method": 3,
    "private_groups/test_by_private_group.py::test_any_protocol_and_three_groups": 3,
    "private_groups/test_smoothing.py::test_draws_agree_with_the_posterior_summed_over_a_grid": 2,
    "private_groups/test_smoothing.py::test_slopes_are_those_of_differences": 2,
    "posteriors/test_exact.py::test_equals_enumeration": 3,
    "posteriors/test_exact.py::test_extremes_are_finite_and_consistent": 2,
    "posteriors/test_floor.py::test_it_is_the_prior_weighted_by_the_likelihood": 2,
    "posteriors/test_weighted.py::test_agrees_with_quadrature": 3,
    "posteriors/test_mend_engines.py::test_mend_2_upper_ends_of_categories_that_share_their_group": 3,
    "posteriors/test_pair_slice.py::test_moments_against_the_exact_posterior": 2,
    "posteriors/test_pair_slice.py::test_rectangles_in_a_table_of_attributes_keep_the_posterior": 3,
    "posteriors/test_pair_slice.py::test_reports_that_say_nothing_leave_the_prior": 3,
    "posteriors/test_pair_slice.py::test_two_attributes_against_quadrature": 2,
    "posteriors/test_quadrature.py::test_draws_are_from_the_posterior": 3,
    "posteriors/test_quadrature.py::test_equals_programming_over_tallies": 3,
    "posteriors/test_quadrature.py::test_every_protocol_has_one_posterior": 5,
    "posteriors/test_surrogate.py::test_every_protocol_against_an_exact_method": 5,
    "posteriors/test_surrogate.py::test_means_and_evidence_against_the_exact_posterior": 3,
    "priors/test_contract.py::test_log_density_is_normalized_and_that_of_the_draws": 3,
    "priors/test_contract.py::test_pymc_variable_has_the_moments_of_the_draws": 4,
    "association/test_attributes.py::test_channel_of_the_rows_is_that_of_the_client": 3,
    "protocols/test_contract.py::test_products_equal_those_of_the_dense_twin": 2,
    "protocols/test_contract.py::test_report_law_expects_what_the_channel_sends": 3,
    "protocols/test_rappor.py::test_one_bit_at_a_time_is_a_channel_with_an_exact_level": 3,
    "regression/test_outside.py::test_new_data_of_another_type_are_refused": 2,
    "protocols/test_contract.py::test_oracle_is_unbiased_with_the_exact_variance_by_enumeration": 2,
    "test_fuzz_numbers.py::test_numbers_are_those_of_the_references": 2,
    "test_pages.py::test_fit_writes_pages": 2,
    "test_attacks.py::test_every_law_is_a_distribution_whose_draws_it_allows": 3,
    "test_coverage_study.py::test_credible_intervals_cover_exactly_on_average_over_their_prior": 3,
    "test_data.py::test_flat_prior_posterior": 3,
    "test_faults.py::test_mend_17_toml_that_would_take_time_or_memory": 3,
    "surveys/test_deniers.py::test_quadrature_weighted_draws_and_a_grid_agree": 3,
    "test_engines_agree.py::test_draws_agree_with_the_exact_moments": 4,
    "test_engines_agree.py::test_exact_methods_agree": 4,
    "test_legacy.py::test_files_of_released_versions_are_read": 3,
    "test_malformed.py::test_malformed_arguments_end_in_a_sentence": 3,
    "test_matrix.py::test_every_world_meets_every_action": 5,
    "test_model.py::test_dirichlet_draws_have_the_moments_of_the_prior": 3,
    "test_model.py::test_textbook_of_every_protocol_has_the_same_likelihood": 3,
    "test_model.py::test_textbook_predicts_what_the_protocol_sends": 3,
    "test_net.py::test_outputs_are_those_of_the_first_version": 5,
    "test_net_wide.py::test_results_are_those_recorded": 3,
    "surveys/test_noncompliance.py::test_identified_where_the_law_adds_a_dimension": 3,
    "test_poisoning_study.py::test_the_law_of_the_fakes_is_worth_knowing": 3,
    "test_result.py::test_mend_19_damaged_results_are_one_sentence": 2,
    "test_rows.py::test_many_draws_around_their_mean": 2,
    "test_sources.py::test_what_is_written_is_what_is_read": 3,
    "test_study.py::test_every_study_runs": 3,
    "test_study.py::test_mle_and_oracle_reach_their_risks": 4,
    "test_summary.py::test_every_protocol_at_and_near_the_pilot": 3,
    "theory/test_bounds.py::test_bound_attainable_oracle": 5,
    "theory/test_bounds.py::test_mend_31_gamma_and_delta": 4,
    "theory/test_bounds.py::test_theorem_4_1_is_below_the_optimum": 3,
    "theory/test_metrics.py::test_average_privacy_is_the_generic_mean": 5,
    "planning/test_plans.py::test_mend_4_categories_for_errors_that_fall_with_their_number": 3,
    "planning/test_plans.py::test_planning_n_inverts_itself": 2,
    "planning/test_risk.py::test_bayes_risk_by_enumeration": 2,
    "planning/test_risk.py::test_simulated_mle_risk": 5,
    "planning/test_risk.py::test_simulated_oracle_risk": 4,
    "posteriors/test_mixture.py::test_moments_of_surrogates_agree_with_weighted_draws": 2,
    "posteriors/test_mixture.py::test_nodes_agree_with_brute_force": 2,
    "robust/test_contamination.py::test_the_limits_contain_the_truth": 2,
    "theory/test_bounds.py::test_delta_is_the_papers_determinant": 2,
    "mend/test_38_attach.py::test_no_pit_is_drawn_of_predicted_counts_which_have_no_likelihood_each": 3,
    "mend/test_38_observe.py::test_a_grr_survey_is_evaluated_as_by_hand_from_fewer_nodes": 2,
    "mend/test_30_cells_with_draws.py::test_what_is_said_of_a_cell_is_what_is_said_of_its_collection": 2,
    "mend/test_30_cells_with_draws.py::test_cells_together_have_the_posteriors_of_cells_alone": 2,
    "mend/test_01_closed_formulas.py::test_a_saved_result_answers_as_the_fresh_one": 2,
    "regression/test_population.py::test_shares_by_draws_of_the_prior": 2,
    "posteriors/test_surrogate.py::test_mend_05_evidence_where_the_prior_weighs_little": 2,
    "test_list_experiments.py::test_a_tree_of_blocks_and_direct_questions_against_the_sum_over_all_tallies": 2,
    "posteriors/test_exact.py::test_two_categories_by_adaptive_quadrature": 3,
    "theory/test_enumeration.py::test_moments_and_evidence_equal_enumeration": 2,
    "estimators/test_confidence.py::test_coverage_of_simulated_collections": 3,
    "regression/test_separation.py::test_a_separated_coefficient_is_named": 3,
    "mend/test_41_reports_in_reports_out.py::test_every_door_gives_every_report_back": 3,
    "protocols/test_contract.py::test_rational_channel_of_the_single_value_client": 2,
    "test_parameters.py::test_every_protocol_survives_a_file": 3,
    "protocols/test_block_design.py::test_the_channel_is_the_incidence_of_points_and_hyperplanes": 2,
}


def _left_to_calibration(items):
    """Yield the items that CALIBRATED names, and those that SAMPLED leaves out."""
    seen = Counter({name: zlib.crc32(name.encode()) for name in SAMPLED})
    for item in items:
        name = item.nodeid.removeprefix("tests/")
        test = name.partition("[")[0]
        if name in CALIBRATED:
            yield item
        elif test in SAMPLED and item.get_closest_marker("calibrate") is None:
            if seen[test] % SAMPLED[test]:
                yield item
            seen[test] += 1


@functools.cache
def _place(test):
    """Return where a test, without its parameters, stands in the order."""
    return next((i for i, name in enumerate(_ORDER) if test.startswith(name)), len(_ORDER))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session, config, items):
    """Long files first, and where files are handed out in the order of the tests that is how they start."""
    names = {item.nodeid.removeprefix("tests/") for item in items}
    if config.args == config.getini("testpaths") and not session.testsfailed:  # all was collected: do these tests exist?
        lacking = (set(CALIBRATED) - names) | (set(SAMPLED) - {name.partition("[")[0] for name in names})
        if lacking:
            raise pytest.UsageError(f"tests/conftest.py lists tests that are not there: {', '.join(sorted(lacking))}")
    for item in list(_left_to_calibration(items)):
        item.add_marker("calibrate")
    items.sort(key=lambda item: _place(item.nodeid.partition("[")[0]))


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
    return fit(nigeria, "flat", NUTS(), random_seed=1, estimates=False)


@pytest.fixture(scope="session")
def nuts_eriksson(eriksson):
    """The NUTS result of eriksson under Jeffreys' prior."""
    return fit(eriksson, "jeffreys", NUTS(), random_seed=2, estimates=False)


@pytest.fixture(scope="session")
def nuts_grr10(grr10):
    """The NUTS result of grr10 under Jeffreys' prior."""
    return fit(grr10, "jeffreys", NUTS(), random_seed=3, estimates=False)
