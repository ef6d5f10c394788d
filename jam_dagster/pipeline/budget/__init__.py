"""The ledger in Dagster: resource, labels, refusals, automation."""
