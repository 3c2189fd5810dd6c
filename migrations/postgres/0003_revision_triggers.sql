-- The revision moves with every statement that changes a row, inside the transaction that changes it, and `changes` names
-- the sites whose decisions the rows take part in. Deletions that a foreign key passes on are statements too, and so are
-- COPY and TRUNCATE.

-- Before a statement writes it takes the revision's row, and keeps it until its transaction ends: so numbers rise in commit
-- order, and no two edits wait for each other's rows.
CREATE FUNCTION revision_lock() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM revision FOR UPDATE;
    RETURN NULL;
END $$;

-- The next number; a new epoch where the data was restored, recovered, promoted or just started since the last edit.
CREATE FUNCTION revision_next() RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    place TEXT;
    line TEXT := left(pg_walfile_name(pg_current_wal_lsn()), 8) || '-' || extract(epoch FROM pg_postmaster_start_time());
    following BIGINT;
BEGIN
    SELECT 'revision'::regclass::oid::bigint || '-' || oid::bigint INTO place
        FROM pg_database WHERE datname = current_database();
    UPDATE revision SET number = number + 1, origin = place, timeline = line,
            epoch = CASE WHEN origin = place AND timeline = line THEN epoch ELSE replace(gen_random_uuid()::text, '-', '') END
        RETURNING number INTO following;
    DELETE FROM changes WHERE revision <= following - 10000;
    PERFORM pg_notify('portreeve_revision', following::text);
    RETURN following;
END $$;

-- Records what a statement moved: no site at all is a row that nobody uses; more than are worth reading one by one are all.
CREATE FUNCTION revision_record(moved TEXT, sites BIGINT[]) RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    following BIGINT := revision_next();
BEGIN
    IF cardinality(sites) > 64 THEN
        INSERT INTO changes (revision, table_name, site_id) VALUES (following, 'all', NULL);
    ELSIF cardinality(sites) = 0 THEN
        INSERT INTO changes (revision, table_name, site_id) VALUES (following, moved, NULL);
    ELSE
        INSERT INTO changes (revision, table_name, site_id) SELECT following, moved, site FROM unnest(sites) AS site;
    END IF;
END $$;

CREATE FUNCTION revision_truncated() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO changes (revision, table_name, site_id) VALUES (revision_next(), 'all', NULL);
    RETURN NULL;
END $$;

-- Rows that a site owns. `rows` has what the statement wrote, or took away; an update has both.
CREATE FUNCTION revision_of_sites() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    owner TEXT := CASE TG_TABLE_NAME WHEN 'sites' THEN 'id' ELSE 'site_id' END;
    source TEXT := CASE TG_OP
        WHEN 'INSERT' THEN 'new_rows' WHEN 'DELETE' THEN 'old_rows'
        ELSE '(SELECT * FROM old_rows UNION ALL SELECT * FROM new_rows)' END;
    touched BIGINT[];
BEGIN
    EXECUTE format('SELECT array_agg(DISTINCT %I) FROM %s AS moved', owner, source) INTO touched;
    -- Nothing touched, nothing moved.
    IF touched IS NOT NULL THEN
        PERFORM revision_record(TG_TABLE_NAME, touched);
    END IF;
    RETURN NULL;
END $$;

-- Rows of policies, which several sites use.
CREATE FUNCTION revision_of_policies() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    owner TEXT := CASE TG_TABLE_NAME WHEN 'policies' THEN 'id' ELSE 'policy_id' END;
    source TEXT := CASE TG_OP
        WHEN 'INSERT' THEN 'new_rows' WHEN 'DELETE' THEN 'old_rows'
        ELSE '(SELECT * FROM old_rows UNION ALL SELECT * FROM new_rows)' END;
    touched BIGINT[];
    is_moved BOOLEAN;
BEGIN
    EXECUTE format('SELECT EXISTS (SELECT 1 FROM %s AS moved)', source) INTO is_moved;
    IF NOT is_moved THEN
        RETURN NULL;
    END IF;
    EXECUTE format('SELECT coalesce(array_agg(DISTINCT site_id), ''{}'') FROM site_policies
        WHERE policy_id IN (SELECT %I FROM %s AS moved)', owner, source) INTO touched;
    IF TG_TABLE_NAME = 'responses' THEN
        EXECUTE format('SELECT $1 || coalesce(array_agg(DISTINCT site_id), ''{}'') FROM mac_authentication_bypasses
            WHERE id IN (SELECT mac_authentication_bypass_id FROM %s AS moved)', source) INTO touched USING touched;
    END IF;
    PERFORM revision_record(TG_TABLE_NAME, touched);
    RETURN NULL;
END $$;

DO $$
DECLARE
    moved TEXT;
    recorder TEXT;
BEGIN
    FOREACH moved IN ARRAY ARRAY['sites', 'clients', 'policies', 'site_policies', 'rules', 'responses',
                                 'mac_authentication_bypasses'] LOOP
        recorder := CASE WHEN moved IN ('policies', 'rules', 'responses') THEN 'revision_of_policies' ELSE 'revision_of_sites' END;
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
END $$;
