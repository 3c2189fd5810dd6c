-- The decision that Portreeve makes, as one query over the same tables: the site of the switch, the first of its policies
-- whose method fits and whose rules all hold, a listed address for MAB, the policy's responses. Subqueries rather than joins
-- halve what PostgreSQL spends on planning it.
SELECT id, 'u'::text, response_attribute, value, ':='::text FROM responses WHERE policy_id = (
    SELECT policy_id FROM site_policies, (
        SELECT id AS site, tag FROM sites WHERE id = (SELECT c.site_id FROM clients c WHERE ip_range = @source@ AND NOT radsec)
    ) here
    WHERE site_id = site AND priority IS NOT NULL
        AND position(@method@ IN (SELECT methods FROM policies WHERE policies.id = policy_id)) > 0
        AND (@method@ <> 'mab' OR EXISTS (
            SELECT FROM mac_authentication_bypasses m WHERE m.site_id = site AND address = @mac@
        ))
        AND (
            SELECT bool_and(coalesce(CASE operator
                WHEN 'equals' THEN rules.value = seen
                WHEN 'contains' THEN position(rules.value IN seen) > 0
            END, false))
            FROM rules, LATERAL (SELECT CASE request_attribute
                WHEN 'NAS-Port-Type' THEN @nas_port_type@
                WHEN 'NAS-Identifier' THEN @nas_identifier@
                WHEN 'Connect-Info' THEN @connect_info@
                WHEN 'Client-Shortname' THEN tag
            END AS seen) fact
            WHERE rules.policy_id = site_policies.policy_id
        )
    ORDER BY priority LIMIT 1
) ORDER BY position
