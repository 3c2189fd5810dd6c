-- The revision moves with every transaction that changes a row, and `changes` names the sites whose decisions the rows take
-- part in. Deletions that a foreign key passes on are seen like others, and so are COPY and TRUNCATE.

-- Before a statement writes it takes the revision's row, and keeps it until its transaction ends: so numbers rise in commit
-- order, and no two edits wait for each other's rows. (TRUNCATE locks its table before any trigger runs: against a transaction
-- that edited something and goes on to that table PostgreSQL finds the deadlock, and undoes one of the two.)
CREATE FUNCTION revision_lock() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM revision FOR UPDATE;
    RETURN NULL;
END $$;

-- This transaction's number: the next one, taken once. (A number for each statement would leave a dead row for each, and
-- the next statement of a long transaction would wade through all of them.) It begins a new epoch where the data was
-- restored, recovered, promoted or just started since the last edit.
CREATE FUNCTION revision_number() RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    -- With its time, since a restored database counts transactions anew.
    me TEXT := pg_current_xact_id() || ' ' || now();
    place TEXT;
    line TEXT;
    mine BIGINT;
BEGIN
    SELECT number INTO mine FROM revision WHERE edit = me;
    IF FOUND THEN
        RETURN mine;
    END IF;
    place := revision_place();
    line := revision_timeline();
    UPDATE revision SET number = number + 1, origin = place, timeline = line, edit = me,
            epoch = CASE WHEN origin = place AND timeline = line THEN epoch ELSE replace(gen_random_uuid()::text, '-', '') END
        RETURNING number INTO mine;
    DELETE FROM changes WHERE revision <= mine - 10000;
    PERFORM pg_notify('portreeve_revision', mine::text);
    RETURN mine;
END $$;

-- Records what a statement moved: no site at all is a row that nobody uses; more than are worth reading one by one are all.
CREATE FUNCTION revision_record(moved TEXT, sites BIGINT[]) RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    mine BIGINT := revision_number();
BEGIN
    IF cardinality(sites) > 64 THEN
        INSERT INTO changes (revision, table_name) VALUES (mine, 'all') ON CONFLICT DO NOTHING;
    ELSIF cardinality(sites) = 0 THEN
        INSERT INTO changes (revision, table_name) VALUES (mine, moved) ON CONFLICT DO NOTHING;
    ELSE
        INSERT INTO changes (revision, table_name, site_id) SELECT mine, moved, site FROM unnest(sites) AS site
            ON CONFLICT DO NOTHING;
    END IF;
END $$;

CREATE FUNCTION revision_truncated() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO changes (revision, table_name) VALUES (revision_number(), 'all') ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;

-- Each table's function says whose the rows are that a statement wrote or took away. A statement that touched no row moves
-- nothing.

CREATE FUNCTION revision_of_sites() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    touched BIGINT[];
BEGIN
    CASE TG_OP
        WHEN 'INSERT' THEN SELECT array_agg(DISTINCT id) INTO touched FROM new_rows;
        WHEN 'DELETE' THEN SELECT array_agg(DISTINCT id) INTO touched FROM old_rows;
        ELSE SELECT array_agg(id) INTO touched FROM (SELECT id FROM old_rows UNION SELECT id FROM new_rows) AS moved;
    END CASE;
    IF touched IS NOT NULL THEN
        PERFORM revision_record('sites', touched);
    END IF;
    RETURN NULL;
END $$;

-- Of clients, addresses, and the policies that a site uses.
CREATE FUNCTION revision_of_site_rows() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    touched BIGINT[];
BEGIN
    CASE TG_OP
        WHEN 'INSERT' THEN SELECT array_agg(DISTINCT site_id) INTO touched FROM new_rows;
        WHEN 'DELETE' THEN SELECT array_agg(DISTINCT site_id) INTO touched FROM old_rows;
        ELSE SELECT array_agg(site_id) INTO touched
            FROM (SELECT site_id FROM old_rows UNION SELECT site_id FROM new_rows) AS moved;
    END CASE;
    IF touched IS NOT NULL THEN
        PERFORM revision_record(TG_TABLE_NAME, touched);
    END IF;
    RETURN NULL;
END $$;

-- A policy's rows are those of every site that uses it.
CREATE FUNCTION revision_of_policies() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    moved BIGINT[];
BEGIN
    CASE TG_OP
        WHEN 'INSERT' THEN SELECT array_agg(id) INTO moved FROM new_rows;
        WHEN 'DELETE' THEN SELECT array_agg(id) INTO moved FROM old_rows;
        ELSE SELECT array_agg(id) INTO moved FROM (SELECT id FROM old_rows UNION SELECT id FROM new_rows) AS rows;
    END CASE;
    IF moved IS NOT NULL THEN
        PERFORM revision_record('policies', ARRAY(SELECT DISTINCT site_id FROM site_policies WHERE policy_id = ANY (moved)));
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION revision_of_rules() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    moved BIGINT[];
BEGIN
    CASE TG_OP
        WHEN 'INSERT' THEN SELECT array_agg(DISTINCT policy_id) INTO moved FROM new_rows;
        WHEN 'DELETE' THEN SELECT array_agg(DISTINCT policy_id) INTO moved FROM old_rows;
        ELSE SELECT array_agg(policy_id) INTO moved
            FROM (SELECT policy_id FROM old_rows UNION SELECT policy_id FROM new_rows) AS rows;
    END CASE;
    IF moved IS NOT NULL THEN
        PERFORM revision_record('rules', ARRAY(SELECT DISTINCT site_id FROM site_policies WHERE policy_id = ANY (moved)));
    END IF;
    RETURN NULL;
END $$;

-- Of a policy or of an address; one that went with its address is told of with the address.
CREATE FUNCTION revision_of_responses() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    policies BIGINT[];
    addresses BIGINT[];
BEGIN
    CASE TG_OP
        WHEN 'INSERT' THEN SELECT array_agg(DISTINCT policy_id), array_agg(DISTINCT mac_authentication_bypass_id)
            INTO policies, addresses FROM new_rows;
        WHEN 'DELETE' THEN SELECT array_agg(DISTINCT policy_id), array_agg(DISTINCT mac_authentication_bypass_id)
            INTO policies, addresses FROM old_rows;
        ELSE SELECT array_agg(DISTINCT policy_id), array_agg(DISTINCT mac_authentication_bypass_id) INTO policies, addresses
            FROM (SELECT policy_id, mac_authentication_bypass_id FROM old_rows
                UNION ALL SELECT policy_id, mac_authentication_bypass_id FROM new_rows) AS rows;
    END CASE;
    IF policies IS NOT NULL THEN
        PERFORM revision_record('responses', ARRAY(
            SELECT site_id FROM site_policies WHERE policy_id = ANY (policies)
            UNION SELECT site_id FROM mac_authentication_bypasses WHERE id = ANY (addresses)));
    END IF;
    RETURN NULL;
END $$;

DO $$
DECLARE
    recorder TEXT;
    moved TEXT;
    ours REGPROCEDURE;
BEGIN
    FOR moved, recorder IN VALUES
        ('sites', 'revision_of_sites'), ('clients', 'revision_of_site_rows'), ('site_policies', 'revision_of_site_rows'),
        ('mac_authentication_bypasses', 'revision_of_site_rows'), ('policies', 'revision_of_policies'),
        ('rules', 'revision_of_rules'), ('responses', 'revision_of_responses') LOOP
        EXECUTE format('CREATE TRIGGER revision_lock BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON %I
            FOR EACH STATEMENT EXECUTE FUNCTION revision_lock()', moved);
        EXECUTE format('CREATE TRIGGER revision_insert AFTER INSERT ON %I REFERENCING NEW TABLE AS new_rows
            FOR EACH STATEMENT EXECUTE FUNCTION %I()', moved, recorder);
        EXECUTE format('CREATE TRIGGER revision_update AFTER UPDATE ON %I REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
            FOR EACH STATEMENT EXECUTE FUNCTION %I()', moved, recorder);
        EXECUTE format('CREATE TRIGGER revision_delete AFTER DELETE ON %I REFERENCING OLD TABLE AS old_rows
            FOR EACH STATEMENT EXECUTE FUNCTION %I()', moved, recorder);
        EXECUTE format('CREATE TRIGGER revision_truncate AFTER TRUNCATE ON %I
            FOR EACH STATEMENT EXECUTE FUNCTION revision_truncated()', moved);
    END LOOP;
    -- Whoever may write a table may thereby move the revision, and needs no rights on it; and whatever schema a session
    -- looks at first, or none as pg_dump's, the triggers find their tables.
    FOR ours IN SELECT oid FROM pg_proc WHERE pronamespace = current_schema()::regnamespace AND proname = ANY (ARRAY[
        'revision_place', 'revision_is_one_row', 'clients_network', 'site_policies_fallback', 'policies_fallback',
        'policies_in_use', 'keys_follow', 'revision_lock', 'revision_number', 'revision_record', 'revision_truncated',
        'revision_of_sites', 'revision_of_site_rows', 'revision_of_policies', 'revision_of_rules', 'revision_of_responses']) LOOP
        EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = %I, pg_temp', ours, current_schema());
    END LOOP;
END $$;
-- These are for triggers; whoever may only read must not move anything.
REVOKE EXECUTE ON FUNCTION revision_number(), revision_record(TEXT, BIGINT[]) FROM PUBLIC;
