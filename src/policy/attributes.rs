//! Which attributes a rule may ask for, a reply may carry, and a template may fill.
//!
//! RFC 2865 section 5.44, RFC 2866 section 5.13 and RFC 2869 section 5.19 have tables of which packet an attribute may
//! be in.

use crate::radius::dictionary::Dictionary;
use crate::radius::dictionary::types::{AttributeId, DataType, Definition, Encryption, Parent};

/// Microsoft's number (RFC 2548).
const MICROSOFT: u32 = 311;

/// Why an attribute may not stand where it stands, and what to do instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What is wrong, to be read behind the attribute's name.
    pub problem: &'static str,
    /// What to do.
    pub hint: &'static str,
}

const fn refusal(problem: &'static str, hint: &'static str) -> Option<Refusal> {
    Some(Refusal { problem, hint })
}

/// Why a rule or a template may not look at an attribute.
pub fn refused_as_fact(dictionary: &Dictionary, definition: &Definition) -> Option<Refusal> {
    if is_container(definition.data_type) {
        return refusal(
            "only holds other attributes",
            "name one of those: `portreeve dict NAME`",
        );
    }
    // CHAP-Password, MS-CHAP-Response, MS-CHAP2-Response: not hidden on the wire, and as good as the password
    let credential = match definition.parent {
        Parent::Root => definition.number == 3,
        Parent::Vendor(MICROSOFT) => matches!(definition.number, 1 | 25),
        _ => false,
    };
    if credential || definition.flags.encryption != Encryption::None {
        return refusal(
            "is a secret, which no rule or template sees",
            "ask for something that identifies the device",
        );
    }
    if is_internal(definition) && (!dictionary.is_fact(definition.id) || is_post_auth_type(&definition.name)) {
        return refusal(
            "is an internal attribute of another server",
            "`portreeve dict` lists the facts that there are",
        );
    }
    if dictionary.current(definition.id) != definition.id {
        return refusal(
            "is never in a request: a later dictionary gives its number another name and type",
            "`portreeve dict NUMBER` shows the name in use",
        );
    }
    None
}

/// Why a response may not name an attribute.
pub fn refused_in_reply(dictionary: &Dictionary, definition: &Definition) -> Option<Refusal> {
    const OURS: &str = "leave it out: the server does it where it is needed";
    if is_internal(definition) {
        return refusal("is never on the wire", "name an attribute that the switch understands");
    }
    if is_container(definition.data_type) {
        return refusal(
            "only holds other attributes",
            "name one of those: `portreeve dict NAME`",
        );
    }
    if definition.flags.encryption == Encryption::AscendSecret {
        return refusal("is hidden in a way that only requests use", "leave it out");
    }
    let number = definition.number;
    match definition.parent {
        // State, Proxy-State, EAP-Message, Message-Authenticator
        Parent::Root if matches!(number, 24 | 33 | 79 | 80) => refusal("is set by the server itself", OURS),
        // MS-CHAP-MPPE-Keys, MS-MPPE-Send-Key, MS-MPPE-Recv-Key
        Parent::Vendor(MICROSOFT) if matches!(number, 12 | 16 | 17) => refusal("is set by the server itself", OURS),
        // User-Password, CHAP-Password, NAS-IP-Address, NAS-Port, Called- and Calling-Station-Id, NAS-Identifier,
        // CHAP-Challenge, NAS-Port-Type (RFC 2865); NAS-Port-Id (RFC 2869); NAS-IPv6-Address (RFC 3162)
        Parent::Root if matches!(number, 2..=5 | 30..=32 | 60 | 61 | 87 | 95) => {
            refusal("belongs in requests only (RFC 2865 section 5.44)", "leave it out")
        }
        // Acct-Status-Type to Acct-Link-Count, Acct-Input-Gigawords to Event-Timestamp; without Acct-Multi-Session-Id
        Parent::Root if matches!(number, 40..=49 | 51..=53 | 55) => {
            refusal("belongs in accounting only (RFC 2866 section 5.13)", "leave it out")
        }
        _ if dictionary.current(definition.id) != definition.id => refusal(
            "is unknown to switches: a later dictionary gives its number another name and type",
            "`portreeve dict NUMBER` shows the name in use",
        ),
        _ => None,
    }
}

/// Whether an Access-Reject may carry it: Reply-Message (RFC 2865 section 5.44), Password-Retry (RFC 2869 section 5.19)
/// and Error-Cause (RFC 5176 section 3.5, which switches also read here).
pub fn allowed_in_reject(definition: &Definition) -> bool {
    definition.parent == Parent::Root && matches!(definition.number, 18 | 75 | 101)
}

/// Whether it decides what a device may reach or do: VLANs, ACLs, roles, privileges. A template may fill it only with
/// facts that the requester has no hand in ([`is_trusted`]).
///
/// Vendors' attributes go by the words of their names, rather too many than too few: a dictionary that is loaded later
/// may hold any.
pub fn is_authorisation(definition: &Definition) -> bool {
    const WORDS: [&str; 21] = [
        "acl",
        "avp",
        "avpair",
        "command",
        "commands",
        "filter",
        "filters",
        "group",
        "groups",
        "ipfilter",
        "list",
        "pair",
        "permissions",
        "policy",
        "priv",
        "privilege",
        "profile",
        "role",
        "roles",
        "rules",
        "zone",
    ];
    // Service-Type, Filter-Id, Egress-VLANID, Ingress-Filters, Egress-VLAN-Name, Tunnel-Type to Tunnel-Server-Endpoint,
    // Tunnel-Private-Group-Id to Tunnel-Preference, NAS-Filter-Rule, Management-Policy-Id, Management-Privilege-Level
    let standard = definition.parent == Parent::Root
        && matches!(definition.number, 6 | 11 | 56..=58 | 64..=67 | 81..=83 | 92 | 135 | 136);
    standard
        || definition.name.eq_ignore_ascii_case("Airespace-Interface-Name")
        || definition.name.split(['-', '_']).any(|word| {
            let word = word.to_ascii_lowercase();
            word.contains("vlan") || word.contains("wlan") || WORDS.contains(&word.as_str())
        })
}

/// Whether the requester has no hand in a fact: those of a verified certificate, of the site and of the endpoint.
pub fn is_trusted(dictionary: &Dictionary, id: AttributeId) -> bool {
    let name = &dictionary.definition(id).name;
    let begins = |prefix: &str| {
        name.get(..prefix.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    let certificate = begins("TLS-Client-Cert-") || begins("TLS-Cert-");
    let site = name.eq_ignore_ascii_case("Client-Shortname");
    dictionary.is_fact(id) && (certificate || site || begins("Endpoint-"))
}

/// Whether a name is that of the attribute by which older data says that a policy rejects.
pub fn is_post_auth_type(name: &str) -> bool {
    name.eq_ignore_ascii_case("Post-Auth-Type")
}

/// Whether it is never on the wire.
pub fn is_internal(definition: &Definition) -> bool {
    definition.flags.internal || definition.parent == Parent::Internal
}

fn is_container(data_type: DataType) -> bool {
    matches!(
        data_type,
        DataType::Tlv | DataType::VendorSpecific | DataType::ExtendedVendorSpecific | DataType::Extended { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(name: &str) -> &'static Definition {
        let dictionary = Dictionary::builtin();
        dictionary.definition(dictionary.by_name(name).unwrap_or_else(|| panic!("{name}")))
    }

    #[test]
    fn rule_2_10_what_decides_where_a_device_may_go() {
        for name in [
            "Tunnel-Private-Group-Id",
            "Egress-VLANID",
            "Egress-VLAN-Name",
            "Filter-Id",
            "NAS-Filter-Rule",
            "Service-Type",
            "Cisco-AVPair",
            "Cisco-In-ACL",
            "Aruba-User-Role",
            "Aruba-User-Vlan",
            "HP-User-Role",
            "HP-Nas-Filter-Rule",
            "Juniper-Switching-Filter",
            "Juniper-VoIP-Vlan",
            "Airespace-ACL-Name",
            "Airespace-Interface-Name",
            "Mikrotik-Wireless-VLANID",
            "Mikrotik-Group",
            "Ruckus-User-Groups",
            "Ruckus-VLAN-ID",
            "Extreme-Netlogin-Vlan",
            "Extreme-Security-Profile",
            "Fortinet-Group-Name",
            "Foundry-Access-List",
            "HP-Privilege-Level",
        ] {
            assert!(is_authorisation(definition(name)), "{name}");
        }
        for name in [
            "Reply-Message",
            "Class",
            "User-Name",
            "Session-Timeout",
            "Framed-IP-Address",
            "Cisco-Idle-Limit",
        ] {
            assert!(!is_authorisation(definition(name)), "{name}");
        }
    }

    #[test]
    fn rule_2_10_whose_facts_are_trusted() {
        let trusted = |name| is_trusted(Dictionary::builtin(), definition(name).id);
        for name in [
            "TLS-Client-Cert-Common-Name",
            "TLS-Client-Cert-Subject-Alt-Name-Dns",
            "TLS-Cert-Serial",
            "Client-Shortname",
        ] {
            assert!(trusted(name), "{name}");
        }
        for name in [
            "User-Name",
            "Calling-Station-Id",
            "SSID",
            "Auth-Method",
            "NAS-Identifier",
            "Class",
        ] {
            assert!(!trusted(name), "{name}");
        }
    }

    #[test]
    fn a_reject_carries_little() {
        let allowed: Vec<_> = Dictionary::builtin()
            .definitions()
            .filter(|each| allowed_in_reject(each))
            .collect();
        let names: Vec<_> = allowed.iter().map(|each| &*each.name).collect();
        assert_eq!(names, ["Reply-Message", "Password-Retry", "Error-Cause"]);
    }
}
