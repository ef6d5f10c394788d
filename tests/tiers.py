"""Which command runs which test: `conftest.py` marks the tests that are listed here.

`make test` runs what has neither mark, `make test-all` what is not marked `gate`, `make gate` all.
A mark in a test's own file counts as well. A name here is that of a folder (`tests/battery/`), of a
module, of a test (`module.py::test_name`, with all its parameters) or of one of its parameters
(`module.py::test_name[parameter]`); `test_tiers.py` fails where one names nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from jam_dagster.privacy import REPLACE_ONE

ROOT = Path(__file__).parents[1]

TEST = "test"
TEST_ALL = "test-all"
GATE = "gate"

TIERS = (TEST, TEST_ALL, GATE)
"""The commands of make, each of which runs the tests of those before it as well."""

MARKS = {TEST_ALL: "slow", GATE: "gate"}
"""The mark that a test of each tier has; those of the first have none."""

LISTED = "listed"
"""The mark of a slow test that has no mark in its own file."""


def below(folder: str, listed: str) -> frozenset[str]:
    """Return the names in lines: modules, and indented below one those of its tests that count."""
    names: dict[str, list[str]] = {}
    module = ""
    for line in dedent(listed).strip().splitlines():
        if line.startswith(" "):
            names[module].append(line.strip())
        else:
            module = f"{folder}{line}"
            names[module] = []
    return frozenset(
        name
        for module, tests in names.items()
        for name in ([f"{module}::{test}" for test in tests] or [module])
    )


# ------------------------------------------------------------------------ Dagster and command line

DAGSTER = frozenset({"bench", "drawn", "drawn_home", "months", "project", "unit_bench"})
"""Fixtures with a Dagster instance: below `tests/pipeline/`, who takes none is a unit test."""

COMMANDS = frozenset({"run", "released", "release_folder"})
"""Fixtures that run commands: among `tests/test_cli*.py`, who takes none is a unit test."""

DAGSTER_WIRING = below(
    "tests/pipeline/",
    """
    test_build.py
        test_release_ends_green_and_every_check_is_evaluated
        test_private_assets_tell_nothing_not_even_their_number_of_rows
        test_release_that_does_not_fit_is_refused_before_the_private_table_is_opened
        test_bad_table_is_refused_and_nothing_is_charged[private-<lambda>-DomainError-job]
        test_bad_table_is_refused_and_nothing_is_charged[public-<lambda>-DomainError-job]
        test_workload_that_fits_no_model_is_refused_before_anything_is_reserved
        test_dataset_without_a_budget_is_refused
        test_configuration_does_not_change_a_granted_budget
        test_store_without_the_draws_that_were_charged_is_refused
        test_older_copy_of_the_ledger_is_noticed_by_what_it_forgot
    test_component.py
    test_event_log.py
        test_a_doubtful_configuration_is_warned_of
    test_launch.py
        test_no_step_takes_config_or_inputs_from_a_launch
        test_a_launch_that_gives_nothing_is_none_the_worse
        test_the_ledger_must_be_one
    test_mechanisms.py
        test_the_run_is_called_by_its_mechanism_and_is_what_charges
    test_partitions.py
        test_a_partition_that_does_not_fit_is_refused_with_the_numbers
        test_every_asset_and_check_is_partitioned_alike_and_backfilled_one_by_one
        test_several_partitions_in_one_run_are_refused
        test_what_does_not_go_together_is_refused
        test_the_schedule_is_due_once_a_partition_and_stopped
        test_a_tick_releases_the_partition_whose_time_is_over
        test_there_is_no_schedule_unless_it_is_asked_for
        test_the_schedule_stands_alone
    test_privacy_unit.py
        test_a_private_table_that_names_nobody_costs_nothing[missing]
    test_private_store.py
        test_a_run_in_an_open_store_is_refused_before_it_is_charged
        test_columns_that_the_release_does_not_use_are_not_copied[declared]
    test_public_apart.py
        test_it_is_refused_when_it_is_defined
        test_a_table_of_persons_is_refused_by_its_header[csv]
    test_public_tables.py
        test_each_public_table_is_an_asset
        test_what_weighs_records_is_refused_several_at_once
    test_translation.py
        test_taints_follow_renamed_assets
        test_releases_share_a_group
        test_translations_that_cannot_hold_are_refused
        test_checks_follow_the_assets
        test_labels_of_the_pieces_are_checked
        test_pieces_together_are_the_release
    test_trusted_mechanisms.py
        test_labels_follow_from_trust_before_anything_runs
        test_who_is_trusted_must_be_a_list
    test_without_public.py
        test_nothing_public_is_in_the_graph
        test_who_needs_one_says_so
    assets/test_asset_options.py
    assets/test_budget.py
        test_a_budget_that_runs_out_warns_and_then_refuses_and_a_sensor_tells_each_once
        test_a_release_that_waits_for_approval_opens_nothing_and_tells_the_officer
    assets/test_opening.py
        test_research_journals_nothing_and_names_nothing
    assets/test_previous_release.py
        test_labels_follow_what_the_public_table_is
        test_what_makes_no_sense_is_refused
        test_from_yaml
    assets/test_source_assets.py
        test_what_else_is_made_of_the_private_table_is_tainted
        test_other_partitions_are_refused_before_anything_is_reserved
        test_an_asset_is_not_split
    budget/test_automation.py
    budget/test_labels.py
    """,
)
"""The tests with a Dagster instance that `make test` runs: each part of a release, once."""

COMMAND_WIRING = below(
    "tests/",
    """
    test_cli.py
        test_help_teaches_by_example
        test_every_command_explains_every_option
        test_version
        test_a_usage_error_is_one_line_and_2
        test_bad_input_makes_no_new_ledger
        test_an_unknown_dataset_is_told_which_are_known
        test_a_refused_budget_is_3_before_the_private_table_is_opened
        test_a_domain_is_drafted_from_the_public_table
        test_demo_data_can_be_synthesized
    test_cli_benchmark.py
    test_cli_certificate.py
        test_a_release_verifies
        test_a_failed_check_is_told_and_is_the_exit_status
        test_show_tells_the_certificate
        test_where_there_is_no_certificate
    test_cli_ledger.py
        test_a_ledger_is_granted_and_shown
        test_a_ledger_shows_what_a_release_spent
        test_a_renewing_budget_is_granted_and_shown
        test_an_up_to_date_ledger_is_upgraded_for_nothing
        test_a_ledger_that_is_not_there_is_not_made
        test_a_ledger_is_verified
        test_a_release_that_will_not_go_on_is_closed
    test_cli_ledger_approval.py
        test_a_release_waits_is_approved_by_the_line_it_shows_and_is_then_made
    test_cli_ledger_move.py
        test_a_move_needs_a_reason_and_one_destination
    test_cli_other_packages.py
        test_a_release_by_a_package_that_is_not_trusted_is_refused
    test_cli_parquet.py
        test_a_bad_value_in_the_last_row_group_is_found_before_any_charge
    test_cli_plan.py
        test_a_plan_prints_what_is_to_be_known
        test_json_is_one_object_on_standard_output
        test_a_release_that_does_not_fit_is_told_and_is_no_failure
        test_a_plan_of_nothing_says_what_it_needs
    test_cli_privacy.py
        test_a_doubtful_configuration_is_warned_of
        test_a_faulty_table_leaks_no_value[a missing column]
    test_cli_privacy_unit.py
        test_a_release_of_persons[replace_one]
    test_cli_private.py
        test_private_copies_are_listed
        test_what_is_due_goes_when_that_is_confirmed
    test_cli_public_apart.py
        test_synthesize
    test_cli_synthesize.py
        test_research_prints_one_object_with_the_promised_keys
        test_research_leaves_a_table_and_its_story
        test_the_summary_is_for_people
        test_a_release_is_charged_and_may_leave
        test_the_same_release_again_is_free_and_the_same
        test_a_release_that_was_interrupted_goes_on_without_paying_twice
        test_a_charged_folder_is_not_overwritten
        test_settings_that_a_mechanism_has_not_are_refused
        test_mechanisms_are_listed_with_their_settings
        test_a_release_may_be_read_by_others
        test_noisy_errors_are_kept_with_their_noise
    test_cli_withdraw.py
        test_a_withdrawn_certificate_fails_with_its_ledger_and_the_reason
    """,
)
"""The tests of commands that `make test` runs: each command, once."""

# ---------------------------------------------------------------------------------------- the rest

SERVERS = frozenset({"postgresql", "server"})
"""Parameters by which a test starts a server, which `make test` does not."""

BEYOND_DEFAULTS = (
    "tests/battery/",
    "tests/certificates/test_neighbours.py",
    "tests/pipeline/storage/test_io_manager.py",
    "tests/privacy/test_sensitivity.py",
)
"""Where `make test` runs the default relation and a store on the disk only: see `is_default`."""

SLOW = below(
    "tests/",
    """
    battery/test_audit.py
        test_a_few_runs
        test_halved_marginal_sensitivity_is_noticed
        test_halved_score_sensitivity_is_noticed
    battery/test_determinism.py
        test_hash_seeds_and_threads_change_nothing
        test_kernels_change_nothing_but_the_last_digits
    battery/test_hostile_plans.py
    battery/test_hostile_releases.py
    battery/test_release_replay.py
        test_one_record_changes_nothing_that_is_released
        test_whether_there_is_anybody_changes_nothing_that_is_released
    battery/test_spending.py
        test_every_variant
        test_tiny_and_huge_budgets
    benchmark/test_figures.py
        test_error_by_public_table_has_the_splits_of_one_private_table
        test_what_no_mixture_reaches_is_seen_in_every_panel
        test_answers_without_a_table_are_drawn_with_their_model_error
        test_splits_that_differ_in_more_than_the_public_table_are_not_joined
        test_every_figure_is_drawn_that_has_runs
        test_a_line_looks_the_same_in_every_panel
        test_what_has_no_runs_is_not_drawn
        test_errors_of_nothing_are_drawn_or_left_out_with_a_word
    benchmark/test_running.py
        test_a_run_that_fails_is_kept_and_made_again_on_request
    certificates/test_digest.py
        test_a_certificate_made_again_after_others_have_spent_is_the_same
    certificates/test_neighbours.py
        test_a_run_under_every_relation_certifies
        test_what_jax_trained_may_differ_with_another_version_of_it
        test_a_wrong_sensitivity_of_any_draw_is_found
    certificates/test_refitting.py
        test_a_fit_in_another_process_is_as_far_as_in_this_one
    common/test_shown_text.py
        test_nothing_that_steers_a_terminal_is_left
    evaluation/bounds/test_error_bounds.py
        test_bounds_hold_in_repeated_runs
    evaluation/test_best_mixture.py
        test_no_mechanism_that_weighs_public_records_is_better
    evaluation/test_expectations.py
        test_a_table_broken_in_one_way_fails_in_that_way
        test_great_expectations_own_results_are_kept_and_can_be_read_by_it
        test_names_that_need_care_reach_great_expectations
    mechanisms/test_gem.py
        test_transcripts_are_enough_to_train_again
        test_public_data_are_what_the_model_begins_with
        test_rounds_share_what_is_left
        test_a_run_goes_on_from_what_is_stored
        test_marginals_are_scored_by_error_above_noise
        test_public_tables_that_lack_attributes_are_trained_on
        test_without_the_public_table_nothing_is_trained_again
    mechanisms/test_jam_pgm.py
        test_refit_from_the_transcript_equals_the_model[mbi]
    mechanisms/test_pmw_pub.py
        test_weights_that_vanish_come_back
    mechanisms/test_registry.py
        test_the_command_line_and_the_schema_take_what_is_installed
    mechanisms/loops/test_weighted.py
        test_hostile_noise_leaves_a_distribution
    models/graphical/test_mbi_bridge.py
        test_fit_is_the_same_in_processes_with_other_hash_seeds
        test_exported_model_answers_the_same
        test_mbi_samples_what_is_exported
        test_consistent_measurements_are_met
        test_impossible_combinations_stay_zero_whatever_is_measured
        test_warm_start_goes_on_where_the_last_fit_stopped
        test_measurements_weigh_alike_whatever_their_noise
    models/graphical/test_mirror_descent.py
        test_plain_mirror_descent_takes_the_steps_that_private_pgm_takes
        test_accelerated_arrives_where_plain_mirror_descent_is_going
        test_fit_is_the_same_in_processes_with_other_hash_seeds_and_loads_no_jax
        test_more_factors_than_an_operation_takes
        test_loss_is_that_of_the_model
        test_measurements_weigh_alike_whatever_their_noise[mbi]
        test_impossible_combinations_stay_zero_whatever_is_measured[mbi]
        test_consistent_measurements_are_met[mbi]
    models/mixture/test_training.py
        test_a_step_that_single_precision_cannot_take_is_not_taken
        test_a_step_of_the_network_follows_the_gradient
        test_programs_are_compiled_once_for_marginals_of_every_shape
    pipeline/budget/test_automation.py
        test_what_happens_upstream_spends_nothing
        test_a_release_runs_where_its_pool_has_one_place
    pipeline/test_leak_canary.py
        test_success_leaks_nothing
        test_failure_leaks_nothing
    privacy/ledger/test_attempts.py
        test_parallel_attempts_are_no_more_than_granted
        TestAttempts
        test_a_killed_process_leaves_its_attempt_open
    privacy/test_ingested_sensitivity.py
        test_a_limit_that_depends_on_others_is_found_out
        test_statistics_of_ingested_tables_move_as_far_as_claimed
    privacy/test_sensitivity.py
        test_best_mixture_error
        test_two_mean_errors_together
        test_jam_scores
        test_jam_scores_of_several_public_tables
    privacy/noise/test_base.py
        test_discrete_gaussian_noise
        test_gaussian_noise_on_reals
        test_selection_follows_permute_and_flip
        test_selection_follows_the_exponential_mechanism
    privacy/ledger/test_concurrency.py
        test_a_charge_outlives_a_kill
    privacy/ledger/test_failures.py
        test_a_file_that_may_only_be_read
        test_a_disk_that_fills_up
        test_a_commit_whose_answer_was_lost_counts_as_spent
        test_a_full_disk_is_named_and_nothing_stays_beside_the_ledger
        test_a_ledger_that_finds_no_room_is_not_there
        test_a_connection_that_finds_no_room_leaves_nothing_beside_the_ledger
        test_a_session_killed_while_it_commits_charges_nothing
        test_a_server_that_stops_and_comes_back
    privacy/ledger/test_move.py
        test_a_move_that_was_interrupted_goes_on
        test_it_moves_back_into_what_it_left
        test_a_killed_process_leaves_what_the_same_command_finishes
    privacy/ledger/test_names.py
        test_a_writer_by_a_name_that_came_later_waits_for_the_one_before
        test_a_file_that_is_mounted_by_itself_is_refused
        test_by_a_symbolic_link_ten_releases_fit_and_no_more
        test_by_two_hard_links_no_release_fits_until_one_is_gone
        test_processes_that_make_a_ledger_at_once_refuse_none
    privacy/ledger/test_machine.py
        test_some_sequences
    release/test_dataframes.py
        test_names_lead_nowhere_else
        test_what_a_release_began_with_moves_with_the_ledger
        test_a_person_may_have_several_rows
        test_other_parameters_need_another_name
        test_asking_whether_a_table_changed_ends_soon
        test_the_folder_of_research_may_be_named
    reports/test_checks_page.py
        test_nasty_names_stay_text
    reports/test_release_report.py
        test_the_restricted_edition_tells_them_under_a_banner
        test_the_guarantee_is_told_for_whom_it_is
        test_research_noise_is_not_releasable_and_says_so
        test_lost_draws_are_part_of_the_story
        test_doubtful_settings_are_remarked
        test_a_domain_read_from_private_data_is_not_releasable
        test_a_public_table_that_was_released_before_is_called_so
        test_timing_stays_out
        test_huge_epsilons_and_no_rounds_can_be_told
        test_a_lost_measurement_is_told_as_lost
        test_a_page_without_a_public_table_does_not_speak_of_one
        test_a_release_of_aim_tells_how_wrong_each_marginal_can_be
        test_pairs_that_a_page_has_no_room_for_are_left_out
        test_the_same_release_gives_the_same_page
        test_two_is_the_worst_error_only_where_the_number_of_records_is_public
        test_what_comes_from_other_releases_is_not_under_this_one_s_guarantee
        test_the_page_needs_nothing_but_itself
    tables/test_one_record.py
        test_any_record_of_a_csv_file
        test_any_record_of_a_parquet_file
    tables/codes/test_parquet_counting.py
        test_memory_does_not_grow_with_the_rows_of_a_row_group
    tables/codes/test_privacy_unit.py
        test_every_choice_of_k_rows_is_as_likely
        test_persons_are_limited_independently
    tables/domain/test_census_demo.py
        test_a_seed_gives_the_same_people_in_every_process
    tables/sources/test_csv_records.py
        test_each_line_is_read_as_if_it_stood_alone
        test_one_record_changes_no_other
        test_records_with_line_breaks_are_what_a_strict_reader_finds
    tables/sources/test_frame.py
        test_codes_are_those_of_a_parquet_file
    tables/sources/test_identity.py
        test_a_text_in_another_process_is_the_same
    torture/test_torture.py
        test_a_planted_fault_is_noticed
    test_benchmarks_previous_release.py
        test_populations_drift_as_they_are_called
        test_a_study_goes_on_where_it_stopped
    test_benchmarks_scaling.py
        test_another_setting_is_another_run
        test_a_benchmark_that_stopped_goes_on
        test_a_panel_shows_the_runs_on_its_axis
    test_compatibility.py
        test_a_whole_release_verifies
    test_imports.py
        test_folders_below_the_pipeline_are_light
        test_the_component_is_light_but_for_dagster
        test_the_component_is_found_by_name
    test_packaging.py
        test_the_wheel_holds_the_package_and_nothing_else
        test_with_a_compiler_the_wheel_holds_kernels_that_load
        test_the_wheel_holds_every_file_of_the_package
        test_the_version_has_one_source
    battery/test_hostile.py
        test_domains
        test_private_files_without_a_header
        test_releases_of_hostile_files_charge_nothing
    benchmark/test_machine.py
        test_the_peak_is_of_the_process_itself
    certificates/test_signing.py
        test_a_release_is_signed
        test_keys_on_the_command_line
        test_a_signature_is_of_everything_that_is_said
    common/test_html_pages.py
        test_the_script_can_stand_in_a_page
    evaluation/bounds/test_tail_bounds.py
        test_what_depends_on_earlier_noise_is_bounded_too
    evaluation/test_workload_error.py
        test_the_noisy_means_have_the_stated_standard_error
    mechanisms/test_extremes.py
    mechanisms/test_peers.py
        test_public_tables_are_nothing_to_who_learns_from_none
    models/graphical/test_tractability.py
        test_many_attributes
    pipeline/test_benchmark.py
        test_a_run_that_fails_is_kept_and_its_message_is_not_logged
        test_only_rows_of_the_grid_as_it_is_now_are_drawn
    planning/test_planner.py
        test_the_same_plan_comes_out_again
        test_much_budget_brings_less_error_than_hardly_any
    privacy/ledger/test_audit.py
        test_every_field_is_sealed
    privacy/ledger/test_claim.py
        test_a_killed_run_lets_go
    reports/test_plots.py
        test_plots_do_without_a_public_table
        test_a_chart_of_nasty_names_is_drawn
    tables/domain/test_domain.py
        test_digest_is_the_same_in_another_process
    test_benchmarks_counting.py
    test_benchmarks_aim.py
    certificates/test_policies.py
        test_a_release_that_was_opened_before_and_never_drawn
        test_a_renewing_budget_tells_both_totals
    mechanisms/test_public_limits.py
        test_a_mixture_of_products_is_found
    mechanisms/loops/test_scores.py
        test_a_search_over_neighbours_reaches_the_sensitivity
    pipeline/test_code_location.py
        test_adult_without_data_says_what_to_do
    pipeline/storage/test_io_manager.py
        test_an_asset_that_became_of_another_type_is_what_it_is_now
    pipeline/storage/test_store_place.py
        test_a_release_of_many_partitions_is_listed_at_once
    docs/test_blocks.py
        test_every_block_can_be_checked
    """,
)
"""What else takes too long for `make test`."""

LONG = below(
    "tests/",
    """
    battery/test_audit.py
        test_many_runs
    battery/test_determinism.py
        test_kernels_change_nothing_but_the_last_digits[aim-mbi]
        test_hash_seeds_and_threads_change_nothing[aim-mbi]
    battery/test_hostile.py
        test_releases_of_hostile_files_charge_nothing[many]
    battery/test_hostile_releases.py
        test_releases[many]
    battery/test_replay.py
        test_no_input_moves_further_in_many_pairs
    mechanisms/test_gem_papers.py
        test_with_budget_gem_pub_knows_more_than_single_attributes[adult_pub025_01]
    mechanisms/test_peers.py
        test_choosing_marginals_beats_independence[adult_pub025_01]
    models/graphical/test_answers.py
        test_answers_of_a_real_run_equal_those_of_private_pgm
    pipeline/test_mechanisms.py
        test_a_release_from_table_to_report[gem]
        test_a_release_from_table_to_report[independent]
        test_a_release_from_table_to_report[mwem]
        test_a_release_from_table_to_report[mwem_pgm]
        test_a_release_from_table_to_report[pep]
        test_a_release_from_table_to_report[pep_pub]
        test_a_release_from_table_to_report[rap_softmax]
    pipeline/test_rows_canary.py
        test_snapshots_do_not_tell_how_many_rows_there_are[persons]
        test_snapshots_do_not_tell_how_many_rows_there_are[persons, in research]
        test_success_does_not_tell_how_many_rows_there_are[persons who come and go]
        test_success_does_not_tell_how_many_rows_there_are[persons, in research]
    privacy/ledger/test_machine.py
        test_many_sequences
    mutants/test_mutants.py
        test_tests_that_prove_nothing_miss_a_mutant
        test_a_mutant_is_noticed
    """,
)
"""What takes too long for `make test-all`: long audits and searches, and planting every mutant."""

FIRST = below(
    "tests/",
    """
    docs/test_blocks.py
        test_the_blocks_of_a_page_run[README.md]
    pipeline/test_backfill.py
    test_fresh_project.py
    """,
)
"""What takes minutes: begun last, each would leave the other workers idle at the end."""


def names_of(test: str) -> list[str]:
    """Return every name that stands for a test: its folders', its module's, its own."""
    function, _, _ = test.partition("[")
    module, *classes = function.split("::")
    folders = module.split("/")
    return [
        *("/".join(folders[:end]) + "/" for end in range(1, len(folders))),
        *("::".join([module, *classes[:end]]) for end in range(len(classes) + 1)),
        test,
    ]


def is_named(test: str, names: Collection[str]) -> bool:
    """Return whether a test is among names, by itself or by what it is in."""
    return any(name in names for name in names_of(test))


def is_default(parameters: dict[str, Any]) -> bool:
    """Return whether parameters are the defaults, and the first of their kind."""
    relation = parameters.get("relation", parameters.get("neighbours", REPLACE_ONE))
    audit = parameters.get("audit")
    return (
        relation == REPLACE_ONE
        and parameters.get("short", 0) == 0
        and parameters.get("store", "local") == "local"
        and (audit is None or audit == parameters["case"].audits[0])
    )


def tier(item: pytest.Item) -> str:
    """Return the first tier that runs a test."""
    test = item.nodeid
    fixtures = set(getattr(item, "fixturenames", ()))
    callspec = getattr(item, "callspec", None)
    if item.get_closest_marker(MARKS[GATE]) or is_named(test, LONG):
        return GATE
    parameters = callspec.params if callspec else {}
    slow = (
        item.get_closest_marker(MARKS[TEST_ALL]) is not None
        or is_named(test, SLOW)
        or "postgres" in fixtures
        or not SERVERS.isdisjoint(test.partition("[")[2].rstrip("]").split("-"))
        or (
            test.startswith("tests/pipeline/")
            and not fixtures.isdisjoint(DAGSTER)
            and not is_named(test, DAGSTER_WIRING)
        )
        or (
            test.startswith("tests/test_cli")
            and not fixtures.isdisjoint(COMMANDS)
            and not is_named(test, COMMAND_WIRING)
        )
        or (test.startswith(BEYOND_DEFAULTS) and not is_default(parameters))
    )
    return TEST_ALL if slow else TEST


@dataclass
class Collected:
    """The tests that a run of pytest found, with their tiers, before it left any out."""

    tiers: dict[str, str] = field(default_factory=dict)
    named: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """The tests that a name stands for."""

    def mark(self, items: list[pytest.Item]) -> None:
        """Note the tier of each test, and mark it."""
        for item in items:
            found = self.tiers[item.nodeid] = tier(item)
            for name in names_of(item.nodeid):
                self.named[name].append(item.nodeid)
            if found == TEST_ALL and item.get_closest_marker(MARKS[found]) is None:
                item.add_marker(LISTED)
            if found in MARKS:
                item.add_marker(MARKS[found])

    @property
    def is_whole(self) -> bool:
        """Whether every module of tests was looked at."""
        modules = (ROOT / "tests").rglob("test_*.py")
        return all(module.relative_to(ROOT).as_posix() in self.named for module in modules)

    def tiers_of(self, name: str) -> list[str]:
        """Return the tiers of the tests that a name stands for, the first one first."""
        found = {self.tiers[test] for test in self.named.get(name, ())}
        return [one for one in TIERS if one in found]


COLLECTED = pytest.StashKey[Collected]()
