-- Run by the owner of the ledger's database, once `jam-dagster ledger grant` has made the ledger,
-- and again after each `jam-dagster ledger upgrade` or `ledger move`.

-- What the code location logs in as: it reads the journals and appends what a release does. It can
-- neither change nor remove a line, and it owns no table.
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'jam_releases') THEN
        CREATE ROLE jam_releases LOGIN;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'jam_auditor') THEN
        CREATE ROLE jam_auditor LOGIN;
    END IF;
END $$;
GRANT USAGE ON SCHEMA jam_ledger TO jam_releases;
GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA jam_ledger TO jam_releases;
REVOKE INSERT ON jam_ledger.alembic_version FROM jam_releases;

-- What `jam-dagster ledger show`, `ledger verify` and `certificate verify` need.
GRANT USAGE ON SCHEMA jam_ledger TO jam_auditor;
GRANT SELECT ON ALL TABLES IN SCHEMA jam_ledger TO jam_auditor;

-- Nobody else reaches the database: whoever does can hold the lock that every writer waits for.
DO $$ BEGIN
    EXECUTE format('REVOKE ALL ON DATABASE %I FROM PUBLIC', current_database());
    EXECUTE format(
        'GRANT CONNECT ON DATABASE %I TO jam_releases, jam_auditor', current_database()
    );
END $$;

-- Grants, approvals, withdrawals, keys, moves, rebindings and acknowledgements are the owner's alone.
CREATE OR REPLACE FUNCTION jam_ledger.officer_only() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- What binds no release lets a partition be bound to another source.
    IF (NEW.kind <> ALL (TG_ARGV) OR NEW.release = '') AND NOT pg_has_role(
        current_user, (SELECT relowner FROM pg_class WHERE oid = TG_RELID), 'USAGE'
    ) THEN
        RAISE EXCEPTION 'an event of the kind % is the owner''s to write', quote_literal(NEW.kind)
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER events_of_releases BEFORE INSERT ON jam_ledger.events FOR EACH ROW
EXECUTE FUNCTION jam_ledger.officer_only(
    'reserved', 'charged', 'returned', 'closed', 'stored', 'derived', 'bound', 'counted', 'ran', 'certified'
);
CREATE OR REPLACE TRIGGER accesses_of_releases BEFORE INSERT ON jam_ledger.accesses FOR EACH ROW
EXECUTE FUNCTION jam_ledger.officer_only('attempted', 'ended');

-- Without it each entry looks for a move through the whole journal.
CREATE INDEX IF NOT EXISTS events_of_moves ON jam_ledger.events (seq) WHERE kind IN ('moved', 'arrived');

-- Nobody but the owner writes after the ledger has moved, or at another time than now. The owner
-- corrects a wrong time by a grant with a reason.
CREATE OR REPLACE FUNCTION jam_ledger.now_and_here() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    last text;
    moved text;
BEGIN
    IF pg_has_role(
        current_user, (SELECT relowner FROM pg_class WHERE oid = TG_RELID), 'USAGE'
    ) THEN
        RETURN NEW;
    END IF;
    -- A transaction that keeps what it once saw would not see that the ledger has moved.
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'an event is written by a transaction of the level READ COMMITTED'
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    SELECT kind INTO moved FROM jam_ledger.events
    WHERE kind IN ('moved', 'arrived') ORDER BY seq DESC LIMIT 1;
    IF moved = 'moved' THEN
        RAISE EXCEPTION 'this ledger has moved: nothing can be written here'
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    SELECT at INTO last FROM jam_ledger.events ORDER BY seq DESC LIMIT 1;
    -- Times of one form are in the order of their texts. A time that runs ahead stays what it is
    -- until the owner corrects it.
    IF NEW.at !~ '^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00$'
        OR NEW.at COLLATE "C" < last
        OR NEW.at::timestamptz < clock_timestamp() - interval '5 minutes'
        OR (NEW.at <> last AND NEW.at::timestamptz > clock_timestamp() + interval '5 minutes')
    THEN
        RAISE EXCEPTION 'an event of another time than now is the owner''s to write: set the clock'
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER events_now_and_here BEFORE INSERT ON jam_ledger.events FOR EACH ROW
EXECUTE FUNCTION jam_ledger.now_and_here();
CREATE OR REPLACE TRIGGER accesses_now_and_here BEFORE INSERT ON jam_ledger.accesses FOR EACH ROW
EXECUTE FUNCTION jam_ledger.now_and_here();
