"""The ledger of privacy budgets: its journal, rules, audit and backends."""
