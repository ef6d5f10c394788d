"""The ledger in Dagster: resource, payment, labels, refusals, automation."""
