"""All sentences of a verdict, each whole, with its key; numbers and names are fields.

Keys end with `_exact` for errors without noise, and with `_beside` for a share with a public one.
"""

from __future__ import annotations

from collections.abc import Sequence

TABLES = {
    "public": "the public table",
    "several": "the public tables",
    "drawn_on": "the table that it was drawn on",
    "uniform": "a uniform table",
    "prior": "the public prior's rows",
}
"""The tables that a synthetic one is compared with."""

SENTENCES = {
    # Headlines.
    "better": "Better than {table}: mean error {ours} against {theirs}.",
    "better_by": "Better than {table}: mean error {ours} against {theirs}, {share} less.",
    "better_within": "Better than {table}: mean error {ours} against {least:.3f} to {most:.3f}.",
    "worse": "Worse than {table}: mean error {ours} against {theirs}.",
    "worse_by": "Worse than {table}: mean error {ours} against {theirs}, {share} more.",
    "worse_times": "Worse than {table}: mean error {ours} against {theirs}, {times:.1f} times it.",
    "undecided": "No clear difference from {table}: mean error {ours} against {theirs}.",
    "unproven": "Not known to be better than {table}: mean error {ours} of {largest:g}.",
    "little_use": "Little use: mean error {ours} of {largest:g}, and {table} may be better.",
    "hidden": "Nothing is known of the error at this budget: with its noise it may be anything up to {largest:g}.",
    "alone": "The mean error is {ours} of {largest:g}.",
    "unmeasured": "The error was not measured.",
    "unreleased": "No error was released: it was measured exactly, for readers who may see the private table.",
    "none_left": "No error is compared: the domain fits no column of the workload.",
    "lost": "The error is unknown: its only draw was lost, or its share of the budget was closed before it.",
    # Counts and associations apart.
    "closer_further": "Closer than {table} in the counts of the workload, with a mean error of {ours} against {theirs}, and further in {line}, with {ours_there} against {theirs_there}.",
    "closer_unknown": "Closer than {table} in the counts of the workload, with a mean error of {ours} against {theirs}. Noise hides whether it is as close in associations.",
    # The gain over the free baseline.
    "bought": "Your budget bought {gain}: rows of the public prior, which cost nothing, have a mean error of {prior}.",
    "bought_nothing": "Noise hides what your budget bought: rows of the public prior, which cost nothing, have a mean error of {prior}.",
    "bought_less": "Your budget bought nothing: rows of the public prior, which cost nothing, have a smaller mean error, {prior}.",
    "bought_within": "Your budget bought {least:.3f} to {most:.3f}, since a uniform table costs nothing.",
    # Before and after the headline of the errors.
    "failed": "Failed checks: {failed} of {checks}.",
    "failed_named": "Failed checks: {failed} of {checks} ({names}).",
    "clipped": "The domain clips cells of the public table, by share of the column: {shares}.",
    "misfit": "The domain does not fit {column}.",
    "misfit_and_one": "The domain does not fit {column} and 1 other column.",
    "misfits": "The domain does not fit {column} and {more} other columns.",
    # The share of a catch-all cell.
    "unreadable": "In {column}, {share:.1%} of the records cannot be read.",
    "unreadable_beside": "In {column}, {share:.1%} of the records cannot be read, and {public:.1%} in the public table.",
    "missing": "In {column}, {share:.1%} of the records are missing.",
    "missing_beside": "In {column}, {share:.1%} of the records are missing, and {public:.1%} in the public table.",
    "other": "In {column}, {share:.1%} of the records are counted as {label}.",
    "other_beside": "In {column}, {share:.1%} of the records are counted as {label}, and {public:.1%} in the public table.",
    "bound": "In {column}, {share:.1%} of the records are in the bin {label} at a bound.",
    "bound_beside": "In {column}, {share:.1%} of the records are in the bin {label} at a bound, and {public:.1%} in the public table.",
    "half": "In {column}, {share:.1%} of the records are in {label}, one of the two bins.",
    "half_beside": "In {column}, {share:.1%} of the records are in {label}, one of the two bins, and {public:.1%} in the public table.",
    # How to mend a domain that does not fit.
    "lost_values": "The synthetic table has lost the values of these cells, if they have any, and no error counts that: marginals with such a column are left out.",
    "mend": "Mend the domain from public knowledge, in another edition.",
    "widen": "Widen the bounds of {columns}.",
    "buy_edges": "Declare edges of {columns}, or edit the range, which buys edges again.",
    "shift": "Shift the public table's dates to the private period, or widen the bounds of {columns}.",
    "list_values": "List the values of {columns}.",
    "state_writing": "State how the values of {columns} are written: their format, or the source's decimal mark or marks of missing values.",
    "state_format": "Empty cells and values in another format both count as missing in {columns}: state the format (format, or the source's decimal mark), or leave the domain as it is if these cells are empty.",
    "list_or_empty": "Empty cells and values that are not listed both count as missing in {columns}: list the values, or leave the domain as it is if these cells are empty.",
    "check_column": "Check or leave out {columns}.",
    # Notes.
    "remaining": "Over the other columns, the mean error is {ours} of {largest:g}.",
    "remaining_beside": "Over the other columns, the mean error is {ours}, and that of {table} is {theirs}.",
    "noise_explains": "The noise of the errors may explain the difference from {table}.",
    "noise_does_not": "The noise of the errors does not explain the difference from {table}.",
    "uniform_further": "A table without any information is further from the private one.",
    "uniform_close": "A table without any information may be as close to the private one.",
    "clipped_counts": "The comparison includes the columns that the domain clips in the public table, and part of the public error comes from that: shift the public dates to the period of the private table, or mend the bounds.",
    "sample": "The table is as good as a random sample of {records:,} private records.",
    "sample_tiny": "The table is as good as a random sample of fewer than two private records.",
    "fit_unmeasured": "It is not known whether the domain fits {columns}, of which the release has no private measurement.",
    "fit_noisy": "It is not known whether the domain fits {columns}, of which the release has only private measurements whose noise would hide a misfit.",
    "rule_broken": "The synthetic table breaks the only rule that its rows are to keep, {rule}, in {rows:,} of {checked:,} rows.",
    "rules_broken": "The synthetic table breaks {broken} of the {rules} rules that its rows are to keep, most often {rule}, in {rows:,} of {checked:,} rows.",
    "copied": "Nothing compares {columns} with the private table: a table of values in the domain determines such columns by others.",
    "further_in": "It is further from the private table in {line} than {table} is: {ours_there} against {theirs_there}.",
    "related": "The workload also has {pairs}, since the public table relates them.",
    "relation_lost": "{pairs} are related in the public table, and less than half as much in the synthetic one.",
    "scored": "A classifier of {target} has an area under the ROC curve of {ours} on private records if it learns from the synthetic rows{others}.",
    "scores_hidden": "Noise hides how well a classifier of {target} that learns from the synthetic rows predicts private records.",
    "learnt_from": ", {area} if from {table}",
    "held_out": "A classifier of {target} that learns from the synthetic rows has an area under the ROC curve of {ours:.3f} on held-out public rows; one that learns from the other public rows, {theirs:.3f}. Private records tested nothing.",
    "measured": "The release names no purpose, so trust it for the marginals that were measured privately: {marginals}.",
    "measured_alone": "The release names no purpose, and only single columns were measured privately: relations are those of {table}.",
    # Statistics.
    "gain": "The gain over the public prior is {gain} within ±{margin}, with a confidence of {confidence:.0%}.",
    "line_alone": "In {line}, the mean error is {ours_there}.",
    "line": "In {line}, the mean error is {ours_there} against {theirs_there}.",
    "difference": "The difference is {difference} within ±{margin}, with a confidence of {confidence:.0%}.",
    "difference_exact": "The difference is {difference}, exactly.",
    "bound_of_difference": "A uniform table is {uniform:.3f} from the synthetic one, so the difference of their errors is at most {difference} within ±{margin}, with a confidence of {confidence:.0%}.",
    "bound_of_difference_exact": "A uniform table is {uniform:.3f} from the synthetic one, so the difference of their errors is at most {difference}, exactly.",
    "uniform_within": "A uniform table is {uniform:.3f} from the synthetic one, so its error is about {least:.3f} to {most:.3f}.",
    "uniform_within_exact": "A uniform table is {uniform:.3f} from the synthetic one, so its error is {least:.3f} to {most:.3f}.",
    "singles_measured": "The error of the product of the values and bins that the budget bought, without any relation, is {singles:.3f}.",
    "singles_within": "The product of the values and bins that the budget bought, without any relation, is {singles:.3f} from the synthetic table, so its error is about {least:.3f} to {most:.3f}.",
    "sample_within": "The size of that sample is {least:,} to {most:,} records, with a confidence of {confidence:.0%}.",
    # Advice.
    "may_help": "These may help:",
    "may_make_known": "These may make the error known:",
    "use_each": "Use {table} itself where associations count.",
    "use_public": "Use {table} itself, if it answers the question.",
    "larger_share": "Give the evaluation a larger share: evaluation.share, --evaluation-share.",
    "more_records": "Release more records at once.",
    "more_epsilon": "Spend more epsilon.",
    "fewer_columns": "Leave out columns that nobody needs.",
    "coarser": "Merge values of attributes that have many.",
    "coarser_named": "Merge values of attributes that have many: {columns}.",
    "lower_degree": "Use a workload of lower degree.",
    "recommended": "Use the mechanism {mechanism}, which is recommended here.",
    "plan": "Try another mechanism: jam-dagster plan compares them on public data.",
    "mechanisms": "Try another mechanism: jam-dagster mechanisms lists them.",
    # The next partition, which is drawn on this one.
    "domain_fits": "The domain fits the columns that were measured.",
    "misfit_withheld": "The domain does not fit a column, which is withheld.",
    "passed_over": "Later partitions pass over this one.",
    # The checks of the error.
    "error_known": "The workload error is known beyond its noise.",
    "better_than": "The domain fits, and the error is less than that of {table}.",
    "closer_than": "The domain fits, and the table is closer than {table} in counts, and as close in associations.",
    # The other errors of a table.
    "pairs": "pairs of attributes",
    "association": "associations",
    "purpose": "the pairs of the purpose",
    "classifier": "the area under the curve of a classifier of {target}",
    "unknown": "unknown",
    "correlation": "rank correlations",
    # Patterns of fields: a mean that may be noise alone, and a list that is cut short.
    "at_most": "at most {mean}",
    "and_more": "{names} and {more} more",
}


def said(key: str, **fields: object) -> str:
    """Return a sentence with its fields; a missing one raises KeyError."""
    return SENTENCES[key].format(**fields)


def listed(names: Sequence[str]) -> str:
    """Return the first of some names, and how many more there are."""
    first = ", ".join(names[:3])
    return said("and_more", names=first, more=len(names) - 3) if len(names) > 3 else first
