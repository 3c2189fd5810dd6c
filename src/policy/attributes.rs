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

/// Whether it decides what a device may reach: VLANs, ACLs, roles. A template may fill it only with facts that the
/// requester has no hand in ([`is_trusted`]).
pub fn is_authorisation(definition: &Definition) -> bool {
    const NAMES: [&str; 11] = [
        "Cisco-AVPair",
        "Airespace-Interface-Name",
        "Airespace-ACL-Name",
        "Aruba-User-Role",
        "Aruba-CPPM-Role",
        "Aruba-NAS-Filter-Rule",
        "HP-User-Role",
        "HP-CPPM-Role",
        "Juniper-Switching-Filter",
        "Juniper-VoIP-Vlan",
        "Mikrotik-Wireless-VLANID",
    ];
    // Filter-Id, Tunnel-Type to Tunnel-Server-Endpoint, Tunnel-Private-Group-Id to Tunnel-Preference, Egress-VLANID,
    // Ingress-Filters, Egress-VLAN-Name, NAS-Filter-Rule
    let standard =
        definition.parent == Parent::Root && matches!(definition.number, 11 | 56..=58 | 64..=67 | 81..=83 | 92);
    // Other vendors' go by their names, rather too many than too few.
    standard
        || NAMES.iter().any(|name| name.eq_ignore_ascii_case(&definition.name))
        || definition.name.split(['-', '_']).any(|word| {
            let word = word.to_ascii_lowercase();
            let whole = [
                "acl", "role", "roles", "filter", "filters", "policy", "profile", "avpair", "group",
            ];
            word.contains("vlan") || whole.contains(&word.as_str())
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
