-- The revision moves with every changed row, inside the transaction that changes it, and `changes` names the sites whose
-- decisions the row takes part in. Deletions by `INSERT OR REPLACE` fire no delete trigger in a plain `sqlite3` session
-- (recursive_triggers is off), and neither do those by `UPDATE OR REPLACE`: the `_replace` triggers name the site of the
-- row that is about to go.

CREATE TRIGGER sites_revision_insert AFTER INSERT ON sites BEGIN
    UPDATE revision SET number = number + 1;
    INSERT INTO changes (revision, table_name, site_id)
        SELECT number, 'sites', NEW.id FROM revision;
    DELETE FROM changes WHERE revision <= (SELECT number - 10000 FROM revision);
END;
CREATE TRIGGER sites_revision_update AFTER UPDATE ON sites BEGIN
    UPDATE revision SET number = number + 1;
    INSERT INTO changes (revision, table_name, site_id)
        SELECT number, 'sites', OLD.id FROM revision UNION SELECT number, 'sites', NEW.id FROM revision;
    DELETE FROM changes WHERE revision <= (SELECT number - 10000 FROM revision);
END;
CREATE TRIGGER sites_revision_delete AFTER DELETE ON sites BEGIN
    UPDATE revision SET number = number + 1;
    INSERT INTO changes (revision, table_name, site_id)
        SELECT number, 'sites', OLD.id FROM revision;
    DELETE FROM changes WHERE revision <= (SELECT number - 10000 FROM revision);
END;
CREATE TRIGGER sites_replace BEFORE INSERT ON sites WHEN EXISTS (SELECT 1 FROM sites WHERE id = NEW.id OR name = NEW.name OR tag = NEW.tag) BEGIN
    UPDATE revision SET number = number + 1;
    INSERT INTO changes (revision, table_name, site_id)
        SELECT number, 'sites', o.id FROM revision JOIN sites o WHERE id = NEW.id OR name = NEW.name OR tag = NEW.tag;
    DELETE FROM changes WHERE revision <= (SELECT number - 10000 FROM revision);
END;
CREATE TRIGGER sites_replace_update BEFORE UPDATE ON sites WHEN EXISTS (SELECT 1 FROM sites WHERE id <> OLD.id AND (id = NEW.id OR name = NEW.name OR tag = NEW.tag)) BEGIN
    UPDATE revision SET number = number + 1;
    INSERT INTO changes (revision, table_name, site_id)
        SELECT number, 'sites', id FROM revision JOIN sites WHERE id <> OLD.id AND (id = NEW.id OR name = NEW.name OR tag = NEW.tag);
    DELETE FROM changes WHERE revision <= (SELECT number - 10000 FROM revision);
END;

CREATE TRIGGER clients_revision_insert AFTER INSERT ON clients BEGIN
    UPDATE revision SET number = number + 1;
    INSERT INTO changes (revision, table_name, site_id)
        SELECT number, 'clients', NEW.site_id FROM revision;
    DELETE FROM changes WHERE revision <= (SELECT number - 10000 FROM revision);
END;
CREATE TRIGGER clients_revision_update AFTER UPDATE ON clients BEGIN
    UPDATE revision SET number = number + 1;
    INSERT INTO changes (revision, table_name, site_id)
        SELECT number, 'clients', OLD.site_id FROM revision UNION SELECT number, 'clients', NEW.site_id FROM revision;
    DELETE FROM changes WHERE revision <= (SELECT number - 10000 FROM revision);
END;
CREATE TRIGGER clients_revision_delete AFTER DELETE ON clients BEGIN
    UPDATE revision SET number = number + 1;
    INSERT INTO changes (revision, table_name, site_id)
        SELECT number, 'clients', OLD.site_id FROM revision;
    DELETE FROM changes WHERE revision <= (SELECT number - 10000 FROM revision);
END;
CREATE TRIGGER clients_replace BEFORE INSERT ON clients WHEN EXISTS (SELECT 1 FROM clients WHERE id = NEW.id OR (ip_range = NEW.ip_range AND radsec = NEW.radsec)) BEGIN
    UPDATE revision SET number = number + 1;
    INSERT INTO changes (revision, table_name, site_id)
        SELECT number, 'clients', o.site_id FROM revision JOIN clients o WHERE id = NEW.id OR (ip_range = NEW.ip_range AND radsec = NEW.radsec);
    DELETE FROM changes WHERE revision <= (SELECT number - 10000 FROM revision);
END;
CREATE TRIGGER clients_replace_update BEFORE UPDATE ON clients WHEN EXISTS (SELECT 1 FROM clients WHERE id <> OLD.id AND (id = NEW.id OR (ip_range = NEW.ip_range AND radsec = NEW.radsec))) BEGIN
    UPDATE revision SET number = number + 1;
    INSERT INTO changes (revision, table_name, site_id)
        SELECT number, 'clients', site_id FROM revision JOIN clients WHERE id <> OLD.id AND (id = NEW.id OR (ip_range = NEW.ip_range AND radsec = NEW.radsec));
    DELETE FROM changes WHERE revision <= (SELECT number - 10000 FROM revision);
END;

CREATE TRIGGER policies_revision_insert AFTER INSERT ON policies BEGIN
    UPDATE revision SET number = number + 1;
    INSERT INTO changes (revision, table_name, site_id)
        SELECT number, 'policies', s.site_id FROM revision LEFT JOIN site_policies s ON s.policy_id = NEW.id;
    DELETE FROM changes WHERE revision <= (SELECT number - 10000 FROM revision);
END;
CREATE TRIGGER policies_revision_update AFTER UPDATE ON policies BEGIN
    UPDATE revision SET number = number + 1;
    INSERT INTO changes (revision, table_name, site_id)
        SELECT DISTINCT number, 'policies', s.site_id FROM revision LEFT JOIN site_policies s ON s.policy_id IN (OLD.id, NEW.id);
    DELETE FROM changes WHERE revision <= (SELECT number - 10000 FROM revision);
END;
CREATE TRIGGER policies_revision_delete AFTER DELETE ON policies BEGIN
    UPDATE revision SET number = number + 1;
    INSERT INTO changes (revision, table_name, site_id)
        SELECT number, 'policies', s.site_id FROM revision LEFT JOIN site_policies s ON s.policy_id = OLD.id;
    DELETE FROM changes WHERE revision <= (SELECT number - 10000 FROM revision);
END;
CREATE TRIGGER policies_replace BEFORE INSERT ON policies WHEN EXISTS (SELECT 1 FROM policies WHERE id = NEW.id OR name = NEW.name) BEGIN
    UPDATE revision SET number = number + 1;
    INSERT INTO changes (revision, table_name, site_id)
        SELECT number, 'policies', s.site_id FROM revision JOIN policies o LEFT JOIN site_policies s ON s.policy_id = o.id WHERE o.id = NEW.id OR name = NEW.name;
    DELETE FROM changes WHERE revision <= (SELECT number - 10000 FROM revision);
END;
CREATE TRIGGER policies_replace_update BEFORE UPDATE ON policies WHEN EXISTS (SELECT 1 FROM policies WHERE id <> OLD.id AND (id = NEW.id OR name = NEW.name)) BEGIN
    UPDATE revision SET number = number + 1;
    INSERT INTO changes (revision, table_name, site_id)
        SELECT number, 'policies', s.site_id FROM revision JOIN policies o LEFT JOIN site_policies s ON s.policy_id = o.id WHERE o.id <> OLD.id AND (o.id = NEW.id OR o.name = NEW.name);
    DELETE FROM changes WHERE revision <= (SELECT number - 10000 FROM revision);
END;

CREATE TRIGGER site_policies_revision_insert AFTER INSERT ON site_policies BEGIN
    UPDATE revision SET number = number + 1;
    INSERT INTO changes (revision, table_name, site_id)
        SELECT number, 'site_policies', NEW.site_id FROM revision;
    DELETE FROM changes WHERE revision <= (SELECT number - 10000 FROM revision);
END;
CREATE TRIGGER site_policies_revision_update AFTER UPDATE ON site_policies BEGIN
    UPDATE revision SET number = number + 1;
    INSERT INTO changes (revision, table_name, site_id)
        SELECT number, 'site_policies', OLD.site_id FROM revision UNION SELECT number, 'site_policies', NEW.site_id FROM revision;
    DELETE FROM changes WHERE revision <= (SELECT number - 10000 FROM revision);
END;
CREATE TRIGGER site_policies_revision_delete AFTER DELETE ON site_policies BEGIN
    UPDATE revision SET number = number + 1;
    INSERT INTO changes (revision, table_name, site_id)
        SELECT number, 'site_policies', OLD.site_id FROM revision;
    DELETE FROM changes WHERE revision <= (SELECT number - 10000 FROM revision);
END;
CREATE TRIGGER site_policies_replace BEFORE INSERT ON site_policies WHEN EXISTS (SELECT 1 FROM site_policies WHERE site_id = NEW.site_id AND (policy_id = NEW.policy_id OR priority = NEW.priority)) BEGIN
    UPDATE revision SET number = number + 1;
    INSERT INTO changes (revision, table_name, site_id)
        SELECT number, 'site_policies', o.site_id FROM revision JOIN site_policies o WHERE site_id = NEW.site_id AND (policy_id = NEW.policy_id OR priority = NEW.priority);
    DELETE FROM changes WHERE revision <= (SELECT number - 10000 FROM revision);
END;

CREATE TRIGGER rules_revision_insert AFTER INSERT ON rules BEGIN
    UPDATE revision SET number = number + 1;
    INSERT INTO changes (revision, table_name, site_id)
        SELECT number, 'rules', s.site_id FROM revision LEFT JOIN site_policies s ON s.policy_id = NEW.policy_id;
    DELETE FROM changes WHERE revision <= (SELECT number - 10000 FROM revision);
END;
CREATE TRIGGER rules_revision_update AFTER UPDATE ON rules BEGIN
    UPDATE revision SET number = number + 1;
    INSERT INTO changes (revision, table_name, site_id)
        SELECT DISTINCT number, 'rules', s.site_id FROM revision LEFT JOIN site_policies s ON s.policy_id IN (OLD.policy_id, NEW.policy_id);
    DELETE FROM changes WHERE revision <= (SELECT number - 10000 FROM revision);
END;
CREATE TRIGGER rules_revision_delete AFTER DELETE ON rules BEGIN
    UPDATE revision SET number = number + 1;
    INSERT INTO changes (revision, table_name, site_id)
        SELECT number, 'rules', s.site_id FROM revision LEFT JOIN site_policies s ON s.policy_id = OLD.policy_id;
    DELETE FROM changes WHERE revision <= (SELECT number - 10000 FROM revision);
END;
CREATE TRIGGER rules_replace BEFORE INSERT ON rules WHEN EXISTS (SELECT 1 FROM rules WHERE id = NEW.id) BEGIN
    UPDATE revision SET number = number + 1;
    INSERT INTO changes (revision, table_name, site_id)
        SELECT number, 'rules', s.site_id FROM revision JOIN rules o LEFT JOIN site_policies s ON s.policy_id = o.policy_id WHERE o.id = NEW.id;
    DELETE FROM changes WHERE revision <= (SELECT number - 10000 FROM revision);
END;

CREATE TRIGGER responses_revision_insert AFTER INSERT ON responses BEGIN
    UPDATE revision SET number = number + 1;
    INSERT INTO changes (revision, table_name, site_id)
        SELECT number, 'responses', u.site_id FROM revision LEFT JOIN (
            SELECT site_id FROM site_policies WHERE policy_id IN (NEW.policy_id)
            UNION SELECT site_id FROM mac_authentication_bypasses WHERE id IN (NEW.mac_authentication_bypass_id)) u;
    DELETE FROM changes WHERE revision <= (SELECT number - 10000 FROM revision);
END;
CREATE TRIGGER responses_revision_update AFTER UPDATE ON responses BEGIN
    UPDATE revision SET number = number + 1;
    INSERT INTO changes (revision, table_name, site_id)
        SELECT number, 'responses', u.site_id FROM revision LEFT JOIN (
            SELECT site_id FROM site_policies WHERE policy_id IN (OLD.policy_id, NEW.policy_id)
            UNION SELECT site_id FROM mac_authentication_bypasses WHERE id IN (OLD.mac_authentication_bypass_id, NEW.mac_authentication_bypass_id)) u;
    DELETE FROM changes WHERE revision <= (SELECT number - 10000 FROM revision);
END;
CREATE TRIGGER responses_revision_delete AFTER DELETE ON responses BEGIN
    UPDATE revision SET number = number + 1;
    INSERT INTO changes (revision, table_name, site_id)
        SELECT number, 'responses', u.site_id FROM revision LEFT JOIN (
            SELECT site_id FROM site_policies WHERE policy_id IN (OLD.policy_id)
            UNION SELECT site_id FROM mac_authentication_bypasses WHERE id IN (OLD.mac_authentication_bypass_id)) u;
    DELETE FROM changes WHERE revision <= (SELECT number - 10000 FROM revision);
END;
CREATE TRIGGER responses_replace BEFORE INSERT ON responses WHEN EXISTS (SELECT 1 FROM responses WHERE id = NEW.id) BEGIN
    UPDATE revision SET number = number + 1;
    INSERT INTO changes (revision, table_name, site_id)
        SELECT number, 'responses', u.site_id FROM revision LEFT JOIN (
            SELECT s.site_id FROM responses o JOIN site_policies s ON s.policy_id = o.policy_id WHERE o.id = NEW.id
            UNION SELECT m.site_id FROM responses o JOIN mac_authentication_bypasses m ON m.id = o.mac_authentication_bypass_id
                WHERE o.id = NEW.id) u;
    DELETE FROM changes WHERE revision <= (SELECT number - 10000 FROM revision);
END;

CREATE TRIGGER mac_authentication_bypasses_revision_insert AFTER INSERT ON mac_authentication_bypasses BEGIN
    UPDATE revision SET number = number + 1;
    INSERT INTO changes (revision, table_name, site_id)
        SELECT number, 'mac_authentication_bypasses', NEW.site_id FROM revision;
    DELETE FROM changes WHERE revision <= (SELECT number - 10000 FROM revision);
END;
CREATE TRIGGER mac_authentication_bypasses_revision_update AFTER UPDATE ON mac_authentication_bypasses BEGIN
    UPDATE revision SET number = number + 1;
    INSERT INTO changes (revision, table_name, site_id)
        SELECT number, 'mac_authentication_bypasses', OLD.site_id FROM revision UNION SELECT number, 'mac_authentication_bypasses', NEW.site_id FROM revision;
    DELETE FROM changes WHERE revision <= (SELECT number - 10000 FROM revision);
END;
CREATE TRIGGER mac_authentication_bypasses_revision_delete AFTER DELETE ON mac_authentication_bypasses BEGIN
    UPDATE revision SET number = number + 1;
    INSERT INTO changes (revision, table_name, site_id)
        SELECT number, 'mac_authentication_bypasses', OLD.site_id FROM revision;
    DELETE FROM changes WHERE revision <= (SELECT number - 10000 FROM revision);
END;
CREATE TRIGGER mac_authentication_bypasses_replace BEFORE INSERT ON mac_authentication_bypasses WHEN EXISTS (SELECT 1 FROM mac_authentication_bypasses WHERE id = NEW.id OR (site_id = NEW.site_id AND lower(replace(replace(replace(address, ':', ''), '-', ''), '.', '')) = lower(replace(replace(replace(NEW.address, ':', ''), '-', ''), '.', '')))) BEGIN
    UPDATE revision SET number = number + 1;
    INSERT INTO changes (revision, table_name, site_id)
        SELECT number, 'mac_authentication_bypasses', o.site_id FROM revision JOIN mac_authentication_bypasses o WHERE id = NEW.id OR (site_id = NEW.site_id AND lower(replace(replace(replace(address, ':', ''), '-', ''), '.', '')) = lower(replace(replace(replace(NEW.address, ':', ''), '-', ''), '.', '')));
    DELETE FROM changes WHERE revision <= (SELECT number - 10000 FROM revision);
END;
