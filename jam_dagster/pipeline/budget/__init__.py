"""The ledger in Dagster: resource, payment, labels, alerts, automation."""
