-- What constraints cannot say: one revision, canonical client networks, fallbacks, children that go with their parent.

CREATE TRIGGER revision_is_one_row BEFORE INSERT ON revision WHEN EXISTS (SELECT 1 FROM revision) BEGIN
    SELECT RAISE(ABORT, 'revision has one row');
END;
CREATE TRIGGER revision_stays BEFORE DELETE ON revision BEGIN
    SELECT RAISE(ABORT, 'revision has one row');
END;

-- The canonical text of each client's network; NULL where ip_range is none. IPv6 is only brought to lower case here (SQLite
-- cannot parse it): two spellings of one IPv6 network are found by the nodes, which then answer neither client.
CREATE VIEW client_networks (id, network) AS
WITH split AS (
    SELECT id,
        instr(ip_range, ':') > 0 AS v6,
        substr(ip_range, 1, instr(ip_range || '/', '/') - 1) AS host,
        CASE WHEN instr(ip_range, '/') > 0 THEN substr(ip_range, instr(ip_range, '/') + 1)
             WHEN instr(ip_range, ':') > 0 THEN '128' ELSE '32' END AS length
    FROM clients
)
SELECT id, CASE
    WHEN length GLOB '*[^0-9]*' OR length(length) NOT BETWEEN 1 AND 3 OR CAST(length AS INTEGER) || '' <> length THEN NULL
    WHEN v6 THEN
        CASE WHEN CAST(length AS INTEGER) <= 128 AND host NOT GLOB '*[^0-9a-fA-F:.]*' THEN lower(host) || '/' || length END
    WHEN CAST(length AS INTEGER) <= 32 AND host NOT GLOB '*[^0-9.]*' THEN (
        -- The aggregate is computed once; an expression would be repeated for each octet that is taken out of it.
        SELECT CASE WHEN octets = 4 AND largest <= 255 THEN
            (bits >> 24) || '.' || ((bits >> 16) & 255) || '.' || ((bits >> 8) & 255) || '.' || (bits & 255) || '/' || length END
        FROM (
            SELECT count(*) AS octets, max(value) AS largest,
                sum(value << (24 - 8 * key)) & ~((1 << (32 - CAST(length AS INTEGER))) - 1) AS bits
            FROM json_each(CASE WHEN json_valid('[' || replace(host, '.', ',') || ']') THEN '[' || replace(host, '.', ',') || ']' ELSE '[]' END)
        ))
    END
FROM split;

CREATE TRIGGER clients_network_insert AFTER INSERT ON clients BEGIN
    SELECT RAISE(ABORT, 'ip_range is no network such as 10.1.0.0/16 or 2001:db8::/32')
        FROM client_networks WHERE id = NEW.id AND network IS NULL;
    -- Under OR REPLACE the statement below deletes the row that has this network already: its site is told.
    UPDATE revision SET number = number + 1
        WHERE EXISTS (SELECT 1 FROM client_networks WHERE id = NEW.id AND network <> NEW.ip_range);
    INSERT INTO changes (revision, table_name, site_id)
        SELECT DISTINCT number, 'clients', o.site_id FROM revision
        JOIN client_networks n ON n.id = NEW.id AND n.network <> NEW.ip_range
        JOIN clients o ON o.radsec = NEW.radsec AND (o.id = NEW.id OR o.ip_range = n.network);
    UPDATE clients SET ip_range = (SELECT network FROM client_networks WHERE id = NEW.id)
        WHERE id = NEW.id AND ip_range <> (SELECT network FROM client_networks WHERE id = NEW.id);
END;
CREATE TRIGGER clients_network_update AFTER UPDATE OF ip_range ON clients WHEN NEW.ip_range <> OLD.ip_range BEGIN
    SELECT RAISE(ABORT, 'ip_range is no network such as 10.1.0.0/16 or 2001:db8::/32')
        FROM client_networks WHERE id = NEW.id AND network IS NULL;
    -- Under OR REPLACE the statement below deletes the row that has this network already: its site is told.
    UPDATE revision SET number = number + 1
        WHERE EXISTS (SELECT 1 FROM client_networks WHERE id = NEW.id AND network <> NEW.ip_range);
    INSERT INTO changes (revision, table_name, site_id)
        SELECT DISTINCT number, 'clients', o.site_id FROM revision
        JOIN client_networks n ON n.id = NEW.id AND n.network <> NEW.ip_range
        JOIN clients o ON o.radsec = NEW.radsec AND (o.id = NEW.id OR o.ip_range = n.network);
    UPDATE clients SET ip_range = (SELECT network FROM client_networks WHERE id = NEW.id)
        WHERE id = NEW.id AND ip_range <> (SELECT network FROM client_networks WHERE id = NEW.id);
END;

-- Only a fallback may do without a priority, and a site has one fallback.
CREATE TRIGGER site_policies_priority_insert BEFORE INSERT ON site_policies
WHEN NEW.priority IS NULL AND NOT EXISTS (SELECT 1 FROM policies WHERE id = NEW.policy_id AND fallback) BEGIN
    SELECT RAISE(ABORT, 'only a fallback policy may be without priority');
END;
CREATE TRIGGER site_policies_priority_update BEFORE UPDATE ON site_policies
WHEN NEW.priority IS NULL AND NOT EXISTS (SELECT 1 FROM policies WHERE id = NEW.policy_id AND fallback) BEGIN
    SELECT RAISE(ABORT, 'only a fallback policy may be without priority');
END;
CREATE TRIGGER site_policies_fallback_insert AFTER INSERT ON site_policies
WHEN (SELECT count(*) FROM site_policies s JOIN policies p ON p.id = s.policy_id WHERE s.site_id = NEW.site_id AND p.fallback) > 1 BEGIN
    SELECT RAISE(ABORT, 'a site has one fallback policy');
END;
CREATE TRIGGER site_policies_fallback_update AFTER UPDATE ON site_policies
WHEN (SELECT count(*) FROM site_policies s JOIN policies p ON p.id = s.policy_id WHERE s.site_id = NEW.site_id AND p.fallback) > 1 BEGIN
    SELECT RAISE(ABORT, 'a site has one fallback policy');
END;
CREATE TRIGGER policies_fallback_update AFTER UPDATE OF fallback ON policies WHEN NEW.fallback <> OLD.fallback BEGIN
    SELECT RAISE(ABORT, 'a site uses this policy as its fallback, without priority')
        FROM site_policies WHERE policy_id = NEW.id AND priority IS NULL AND NOT NEW.fallback;
    SELECT RAISE(ABORT, 'a site that uses this policy has a fallback policy already')
        FROM site_policies mine
        JOIN site_policies other ON other.site_id = mine.site_id AND other.policy_id <> NEW.id
        JOIN policies p ON p.id = other.policy_id AND p.fallback
        WHERE mine.policy_id = NEW.id AND NEW.fallback;
END;

-- A policy that a site uses cannot be deleted: without a rejecting policy the site would accept what it refused.
CREATE TRIGGER policies_in_use BEFORE DELETE ON policies WHEN EXISTS (SELECT 1 FROM site_policies WHERE policy_id = OLD.id) BEGIN
    SELECT RAISE(ABORT, 'a site uses this policy: remove it from its sites first');
END;

CREATE TRIGGER policies_children BEFORE DELETE ON policies BEGIN
    DELETE FROM rules WHERE policy_id = OLD.id;
    DELETE FROM responses WHERE policy_id = OLD.id;
END;
CREATE TRIGGER mac_authentication_bypasses_children BEFORE DELETE ON mac_authentication_bypasses BEGIN
    DELETE FROM responses WHERE mac_authentication_bypass_id = OLD.id;
END;
CREATE TRIGGER sites_children BEFORE DELETE ON sites BEGIN
    DELETE FROM clients WHERE site_id = OLD.id;
    DELETE FROM mac_authentication_bypasses WHERE site_id = OLD.id;
    DELETE FROM site_policies WHERE site_id = OLD.id;
END;
