-- What constraints cannot say: one revision, canonical client networks, fallbacks, policies in use, identity columns.

CREATE FUNCTION revision_is_one_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' AND NOT EXISTS (SELECT 1 FROM revision) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'revision has one row';
END $$;
CREATE TRIGGER revision_is_one_row BEFORE INSERT OR DELETE ON revision FOR EACH ROW EXECUTE FUNCTION revision_is_one_row();
CREATE TRIGGER revision_stays BEFORE TRUNCATE ON revision FOR EACH STATEMENT EXECUTE FUNCTION revision_is_one_row();

CREATE FUNCTION clients_network() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- inet would also take 10.1/16 and 010.1.0.0/16, which other programs read as something else.
    IF NEW.ip_range !~ '^(0|[1-9][0-9]{0,2})(\.(0|[1-9][0-9]{0,2})){3}(/(0|[1-9][0-9]?))?$'
            AND NEW.ip_range !~ '^[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(/(0|[1-9][0-9]{0,2}))?$' THEN
        RAISE invalid_text_representation;
    END IF;
    NEW.ip_range := network(NEW.ip_range::inet)::text;
    RETURN NEW;
EXCEPTION WHEN invalid_text_representation THEN
    RAISE EXCEPTION 'ip_range is no network such as 10.1.0.0/16 or 2001:db8::/32';
END $$;
CREATE TRIGGER clients_network BEFORE INSERT OR UPDATE OF ip_range ON clients FOR EACH ROW EXECUTE FUNCTION clients_network();

-- Only a fallback may do without a priority, and a site has one fallback.
CREATE FUNCTION site_policies_fallback() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.priority IS NULL AND NOT EXISTS (SELECT 1 FROM policies WHERE id = NEW.policy_id AND fallback) THEN
        RAISE EXCEPTION 'only a fallback policy may be without priority';
    END IF;
    IF (SELECT count(*) FROM site_policies s JOIN policies p ON p.id = s.policy_id
        WHERE s.site_id = NEW.site_id AND p.fallback) > 1 THEN
        RAISE EXCEPTION 'a site has one fallback policy';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER site_policies_fallback AFTER INSERT OR UPDATE ON site_policies
    FOR EACH ROW EXECUTE FUNCTION site_policies_fallback();

CREATE FUNCTION policies_fallback() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT NEW.fallback AND EXISTS (SELECT 1 FROM site_policies WHERE policy_id = NEW.id AND priority IS NULL) THEN
        RAISE EXCEPTION 'a site uses this policy as its fallback, without priority';
    END IF;
    IF NEW.fallback AND EXISTS (
        SELECT 1 FROM site_policies mine
        JOIN site_policies other ON other.site_id = mine.site_id AND other.policy_id <> NEW.id
        JOIN policies p ON p.id = other.policy_id AND p.fallback
        WHERE mine.policy_id = NEW.id) THEN
        RAISE EXCEPTION 'a site that uses this policy has a fallback policy already';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER policies_fallback AFTER UPDATE OF fallback ON policies
    FOR EACH ROW WHEN (NEW.fallback <> OLD.fallback) EXECUTE FUNCTION policies_fallback();

-- A policy that a site uses cannot be deleted: without a rejecting policy the site would accept what it refused.
CREATE FUNCTION policies_in_use() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM site_policies WHERE policy_id = OLD.id) THEN
        RAISE EXCEPTION 'a site uses this policy: remove it from its sites first';
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER policies_in_use BEFORE DELETE ON policies FOR EACH ROW EXECUTE FUNCTION policies_in_use();

-- Rows that come with keys of their own, from an import or a dump, move the sequence that gives the next key.
CREATE FUNCTION keys_follow() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    sequence REGCLASS := pg_get_serial_sequence(quote_ident(TG_TABLE_SCHEMA) || '.' || quote_ident(TG_TABLE_NAME), 'id');
    highest BIGINT;
BEGIN
    SELECT max(id) INTO highest FROM new_rows;
    -- One that gave no key yet has no last value.
    IF highest > coalesce(pg_sequence_last_value(sequence), 0) THEN
        PERFORM setval(sequence, highest);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER keys_follow AFTER INSERT ON sites REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION keys_follow();
CREATE TRIGGER keys_follow AFTER INSERT ON clients REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION keys_follow();
CREATE TRIGGER keys_follow AFTER INSERT ON policies REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION keys_follow();
CREATE TRIGGER keys_follow AFTER INSERT ON rules REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION keys_follow();
CREATE TRIGGER keys_follow AFTER INSERT ON mac_authentication_bypasses REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION keys_follow();
CREATE TRIGGER keys_follow AFTER INSERT ON responses REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION keys_follow();
