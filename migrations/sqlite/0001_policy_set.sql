-- The policy set: sites, RADIUS clients, policies, listed MAC addresses.
--
-- Anybody may write these tables with plain SQL. What can be refused here is refused here; what cannot (an unknown
-- attribute, a broken regular expression) is found when a node reads it, and the site then keeps its last good version.
--
-- Deleting a parent deletes its children by trigger, not by foreign key: a plain `sqlite3` session has foreign keys
-- switched off, and `INSERT OR REPLACE` of a parent must not silently empty it.

CREATE TABLE sites (
    id       INTEGER PRIMARY KEY,
    name     TEXT NOT NULL UNIQUE CHECK (name <> ''),
    tag      TEXT NOT NULL UNIQUE CHECK (tag <> ''),
    timezone TEXT                       -- IANA name; NULL: the configuration's
) STRICT;

CREATE TABLE clients (
    id            INTEGER PRIMARY KEY,
    site_id       INTEGER NOT NULL REFERENCES sites (id),
    ip_range      TEXT NOT NULL,        -- made canonical by trigger: 10.1.2.3/16 becomes 10.1.0.0/16, a bare address /32
    shared_secret TEXT NOT NULL CHECK (shared_secret <> ''),
    radsec        INTEGER NOT NULL DEFAULT 0 CHECK (radsec IN (0, 1)),
    require_message_authenticator INTEGER NOT NULL DEFAULT 1 CHECK (require_message_authenticator IN (0, 1)),
    limit_proxy_state             INTEGER NOT NULL DEFAULT 1 CHECK (limit_proxy_state IN (0, 1)),
    min_tls       TEXT CHECK (min_tls IN ('1.2', '1.3')),
    max_tls       TEXT CHECK (max_tls IN ('1.2', '1.3')),
    fragment_size INTEGER CHECK (fragment_size BETWEEN 64 AND 4000),    -- octets of an EAP packet
    mab_password  TEXT NOT NULL DEFAULT 'mac' CHECK (mab_password <> ''),  -- mac, any, or the password itself
    mab_identity  TEXT NOT NULL DEFAULT 'calling-station-id' CHECK (mab_identity IN ('calling-station-id', 'user-name')),
    UNIQUE (ip_range, radsec)
) STRICT;
CREATE INDEX clients_site ON clients (site_id);

CREATE TABLE policies (
    id          INTEGER PRIMARY KEY,
    name        TEXT NOT NULL UNIQUE CHECK (name <> ''),
    description TEXT,
    fallback    INTEGER NOT NULL DEFAULT 0 CHECK (fallback IN (0, 1)),
    action      TEXT NOT NULL DEFAULT 'accept' CHECK (action IN ('accept', 'reject')),
    methods     TEXT                    -- eap-tls, mab, mab-unknown, separated by commas; NULL or empty: eap-tls
) STRICT;

CREATE TABLE site_policies (
    site_id   INTEGER NOT NULL REFERENCES sites (id),
    policy_id INTEGER NOT NULL REFERENCES policies (id),
    priority  INTEGER,                  -- lower is tried first; NULL only for a fallback
    PRIMARY KEY (site_id, policy_id),
    UNIQUE (site_id, priority)
) STRICT;
CREATE INDEX site_policies_policy ON site_policies (policy_id);

CREATE TABLE rules (
    id                INTEGER PRIMARY KEY,
    policy_id         INTEGER NOT NULL REFERENCES policies (id),
    request_attribute TEXT NOT NULL CHECK (request_attribute <> ''),
    operator          TEXT NOT NULL CHECK (operator IN (
        'equals', 'contains', 'starts-with', 'ends-with', 'matches', 'in', 'less-than', 'at-most', 'greater-than', 'at-least',
        'present', 'not-equals', 'not-contains', 'not-matches', 'not-in', 'absent')),
    value             TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX rules_policy ON rules (policy_id);

-- Any of the usual spellings of a MAC address: groups of 1, 2, 4 or 6 hexadecimal digits with one kind of separator, or
-- 12 digits. They are compared without separators and case.
CREATE TABLE mac_authentication_bypasses (
    id          INTEGER PRIMARY KEY,
    site_id     INTEGER NOT NULL REFERENCES sites (id),
    address     TEXT NOT NULL CONSTRAINT "address is no MAC address such as aa-bb-cc-dd-ee-ff" CHECK (
        length(replace(replace(replace(address, ':', ''), '-', ''), '.', '')) = 12
        AND replace(replace(replace(address, ':', ''), '-', ''), '.', '') NOT GLOB '*[^0-9a-fA-F]*'
        AND length(CAST(address AS BLOB)) = length(address)
        AND (length(address) = 12
            OR address LIKE '__-__-__-__-__-__' OR address LIKE '__:__:__:__:__:__' OR address LIKE '__.__.__.__.__.__'
            OR address LIKE '____-____-____' OR address LIKE '____:____:____' OR address LIKE '____.____.____'
            OR address LIKE '______-______' OR address LIKE '______:______' OR address LIKE '______.______'
            OR address LIKE '_-_-_-_-_-_-_-_-_-_-_-_' OR address LIKE '_:_:_:_:_:_:_:_:_:_:_:_' OR address LIKE '_._._._._._._._._._._._')),
    name        TEXT,
    description TEXT,
    valid_until TEXT CONSTRAINT "valid_until is no time such as 2027-01-31T12:00:00Z" CHECK (  -- see below
        valid_until GLOB '[0-9][0-9][0-9][0-9]-[01][0-9]-[0-3][0-9]*'
        OR (valid_until NOT GLOB '*[^0-9]*' AND length(valid_until) BETWEEN 1 AND 12))
) STRICT;
-- valid_until: RFC 3339 (`2027-01-31T12:00:00Z`); also `2027-01-31 12:00:00` (UTC, what SQLite's datetime() writes), a date
-- (valid to its end, UTC), or seconds since 1970. The last second of validity.
CREATE UNIQUE INDEX mac_authentication_bypasses_address ON mac_authentication_bypasses (
    lower(replace(replace(replace(address, ':', ''), '-', ''), '.', '')), site_id);
CREATE INDEX mac_authentication_bypasses_site ON mac_authentication_bypasses (site_id);

CREATE TABLE responses (
    id                           INTEGER PRIMARY KEY,
    policy_id                    INTEGER REFERENCES policies (id),
    mac_authentication_bypass_id INTEGER REFERENCES mac_authentication_bypasses (id),
    response_attribute           TEXT NOT NULL CHECK (response_attribute <> ''),
    value                        TEXT NOT NULL,
    position                     INTEGER NOT NULL DEFAULT 0,     -- order of the reply; equal positions by id
    CONSTRAINT "a response belongs to a policy or to a MAC address" CHECK (
        (policy_id IS NULL) <> (mac_authentication_bypass_id IS NULL))
) STRICT;
CREATE INDEX responses_policy ON responses (policy_id) WHERE policy_id IS NOT NULL;
CREATE INDEX responses_mac ON responses (mac_authentication_bypass_id) WHERE mac_authentication_bypass_id IS NOT NULL;

-- Which state of the tables above this is. `number` rises with every changed row, in commit order (SQLite has one writer).
-- After a restore from a backup give it a new epoch: UPDATE revision SET epoch = lower(hex(randomblob(16)));
CREATE TABLE revision (
    epoch  TEXT NOT NULL CHECK (epoch <> ''),
    number INTEGER NOT NULL CHECK (number >= 0)
) STRICT;
INSERT INTO revision (epoch, number) VALUES (lower(hex(randomblob(16))), 0);

-- What moved: table and site (NULL: no site uses the row). The last 10,000 revisions are kept; a node that is further
-- behind reads everything.
CREATE TABLE changes (
    revision   INTEGER NOT NULL,
    table_name TEXT NOT NULL,
    site_id    INTEGER
) STRICT;
CREATE INDEX changes_revision ON changes (revision);
