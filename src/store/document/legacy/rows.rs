//! Rows of the older system as what they mean, each checked as far as it can be by itself.

use zeroize::Zeroizing;

use super::table::Fields;
use crate::clients::parse_network;
use crate::mac::MacAddress;
use crate::policy::model::{Action, Method, ResponseRow, Rule};
use crate::policy::operator::Operator;
use crate::store::load::ClientSettings;
use crate::store::set::{self, ClientKey};
use crate::store::time;

/// A row of `sites`.
pub(super) struct Site {
    pub(super) id: i64,
    pub(super) name: String,
    pub(super) tag: Option<String>,
    pub(super) timezone: Option<String>,
}

/// A row of `clients`.
pub(super) struct Client {
    pub(super) site: i64,
    pub(super) key: ClientKey,
    pub(super) client: set::Client,
    /// Early versions of that system have tags here, and none in `sites`.
    pub(super) tag: Option<String>,
}

/// A row of `policies`.
pub(super) struct Policy {
    pub(super) id: i64,
    pub(super) name: String,
    pub(super) description: String,
    pub(super) fallback: bool,
    pub(super) action: Action,
    pub(super) methods: Vec<Method>,
}

/// A row of `site_policies`.
pub(super) struct Link {
    pub(super) site: i64,
    pub(super) policy: i64,
    pub(super) priority: Option<i64>,
}

/// A row of `rules`.
pub(super) struct PolicyRule {
    pub(super) policy: i64,
    pub(super) rule: Rule,
}

/// A row of `responses`.
pub(super) struct Response {
    pub(super) owner: Owner,
    pub(super) position: i64,
    pub(super) response: ResponseRow,
}

/// Whose response it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Owner {
    Policy(i64),
    Mac(i64),
}

/// A row of `mac_authentication_bypasses`.
pub(super) struct Mac {
    pub(super) id: i64,
    pub(super) site: i64,
    pub(super) address: MacAddress,
    pub(super) mac: set::Mac,
}

impl Site {
    pub(super) fn read(fields: Fields<'_>) -> Result<Site, String> {
        let timezone = fields.unless_empty("timezone")?;
        if let Some(name) = &timezone {
            time::zone(name).map_err(|no_zone| no_zone.to_string())?;
        }
        Ok(Site {
            id: fields.needed_number("id")?,
            name: fields.needed("name")?.to_owned(),
            tag: fields.unless_empty("tag")?.filter(|tag| !tag.trim().is_empty()),
            timezone,
        })
    }
}

impl Client {
    pub(super) fn read(fields: Fields<'_>) -> Result<Client, String> {
        let key = ClientKey {
            // Host bits are dropped, as FreeRADIUS does it.
            network: parse_network(fields.needed("ip_range")?.trim())?,
            radsec: fields.flag("radsec")?.unwrap_or(false),
        };
        let secret: Zeroizing<String> = fields.text_or_empty("shared_secret")?.into();
        let columns = set::Client::new(&secret);
        let client = set::Client {
            require_message_authenticator: fields.flag("require_message_authenticator")?.unwrap_or(true),
            limit_proxy_state: fields.flag("limit_proxy_state")?.unwrap_or(true),
            min_tls: fields.unless_empty("min_tls")?,
            max_tls: fields.unless_empty("max_tls")?,
            fragment_size: fields.number("fragment_size")?,
            mab_password: match fields.text("mab_password")? {
                Some(password) => password.to_owned().into(),
                None => columns.mab_password.clone(),
            },
            mab_identity: fields
                .unless_empty("mab_identity")?
                .unwrap_or(columns.mab_identity.clone()),
            ..columns
        };
        ClientSettings::read(&client.row(0, 0, key)).map_err(|what| format!("`{key}`: {what}"))?;
        Ok(Client {
            site: fields.needed_number("site_id")?,
            key,
            client,
            tag: fields.unless_empty("tag")?,
        })
    }
}

impl Policy {
    pub(super) fn read(fields: Fields<'_>) -> Result<Policy, String> {
        let action = match fields.unless_empty("action")? {
            // The default of the column there.
            None => Action::Accept,
            Some(word) => {
                Action::parse(&word).ok_or_else(|| format!("`{word}` is no action\nhint: `accept` or `reject`"))?
            }
        };
        let methods = fields.text_or_empty("methods")?;
        Ok(Policy {
            id: fields.needed_number("id")?,
            name: fields.needed("name")?.to_owned(),
            description: fields.text_or_empty("description")?,
            fallback: fields.flag("fallback")?.unwrap_or(false),
            action,
            methods: Method::parse_list(&methods)
                .map_err(|word| format!("`{word}` is no method\nhint: `eap-tls`, `mab` or `mab-unknown`"))?,
        })
    }
}

impl Link {
    pub(super) fn read(fields: Fields<'_>) -> Result<Link, String> {
        Ok(Link {
            site: fields.needed_number("site_id")?,
            policy: fields.needed_number("policy_id")?,
            priority: fields.number("priority")?,
        })
    }
}

impl PolicyRule {
    pub(super) fn read(fields: Fields<'_>) -> Result<PolicyRule, String> {
        let written = fields.needed("operator")?.trim();
        Ok(PolicyRule {
            policy: fields.needed_number("policy_id")?,
            rule: Rule {
                attribute: fields.needed("request_attribute")?.trim().to_owned(),
                // What is wrong with any other, the compiler says.
                operator: match Operator::parse(written) {
                    Some(operator) => operator.word().to_owned(),
                    None => written.to_owned(),
                },
                value: fields.text_or_empty("value")?,
            },
        })
    }
}

impl Response {
    pub(super) fn read(fields: Fields<'_>) -> Result<Response, String> {
        let owner = match (
            fields.number("policy_id")?,
            fields.number("mac_authentication_bypass_id")?,
        ) {
            (Some(policy), None) => Owner::Policy(policy),
            (None, Some(mac)) => Owner::Mac(mac),
            (None, None) => {
                return Err(
                    "it belongs neither to a policy nor to a MAC address\nhint: delete the row there".to_owned(),
                );
            }
            (Some(_), Some(_)) => {
                return Err("it belongs to a policy and to a MAC address\nhint: make two rows of it there".to_owned());
            }
        };
        Ok(Response {
            owner,
            position: fields.number("position")?.unwrap_or(0),
            response: ResponseRow {
                attribute: fields.needed("response_attribute")?.trim().to_owned(),
                value: fields.text_or_empty("value")?,
            },
        })
    }
}

impl Mac {
    pub(super) fn read(fields: Fields<'_>) -> Result<Mac, String> {
        let address = fields.needed("address")?;
        let valid_until = fields.unless_empty("valid_until")?;
        Ok(Mac {
            id: fields.needed_number("id")?,
            site: fields.needed_number("site_id")?,
            address: address
                .trim()
                .parse()
                .map_err(|no_mac: crate::mac::NoMacAddress| no_mac.to_string())?,
            mac: set::Mac {
                name: fields.text_or_empty("name")?,
                description: fields.text_or_empty("description")?,
                valid_until: match valid_until {
                    Some(text) => Some(time::parse(&text).map_err(|no_time| no_time.to_string())?),
                    None => None,
                },
                responses: Vec::new(),
            },
        })
    }
}
