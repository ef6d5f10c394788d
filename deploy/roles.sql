-- Run by the owner of the ledger's database, once `jam-dagster ledger grant` has made the ledger.

-- What the code location logs in as: it reads the journal and appends to it. It can neither change
-- nor remove an event, and it owns no table.
CREATE ROLE jam_releases LOGIN;
GRANT USAGE ON SCHEMA jam_ledger TO jam_releases;
GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA jam_ledger TO jam_releases;

-- What `jam-dagster ledger show`, `ledger verify` and `certificate verify` need.
CREATE ROLE jam_auditor LOGIN;
GRANT USAGE ON SCHEMA jam_ledger TO jam_auditor;
GRANT SELECT ON ALL TABLES IN SCHEMA jam_ledger TO jam_auditor;
