//! What is compiled in.

use super::*;

#[test]
fn names_numbers_and_values_that_policies_use() {
    let dictionary = Dictionary::builtin();
    for (name, oid) in [
        ("User-Name", "1"),
        ("NAS-IP-Address", "4"),
        ("tunnel-private-group-id", "81"),
        ("EAP-Message", "79"),
        ("WLAN-RF-Band", "190"),
        ("Cisco-AVPair", "26.9.1"),
        ("MS-MPPE-Recv-Key", "26.311.17"),
        ("Aruba-User-Role", "26.14823.1"),
        ("HP-Nas-Filter-Rule", "26.11.61"),
        ("Juniper-VoIP-Vlan", "26.2636.49"),
        ("Airespace-ACL-Name", "26.14179.6"),
        ("Extreme-Netlogin-Extended-Vlan", "26.1916.211"),
        ("Mikrotik-Wireless-VLANID", "26.14988.26"),
        ("Extended-Vendor-Specific-1", "241.26"),
        ("Frag-Status", "241.1"),
    ] {
        let id = dictionary.by_name(name).unwrap();
        assert_eq!(dictionary.oid(id).as_deref(), Some(oid), "{name}");
        assert_eq!(dictionary.by_oid(oid), Some(id), "{oid}");
    }
    let tunnel_password = named(dictionary, "Tunnel-Password").flags;
    assert!(tunnel_password.has_tag && tunnel_password.encryption == Encryption::TunnelPassword);
    assert_eq!(
        named(dictionary, "User-Password").flags.encryption,
        Encryption::UserPassword
    );
    assert!(named(dictionary, "EAP-Message").flags.concat);
    assert_eq!(dictionary.vendor_name(9), Some("Cisco"));
    assert_eq!(dictionary.vendor_format(9), VendorFormat::STANDARD);
    assert_eq!(dictionary.vendor_format(4711), VendorFormat::STANDARD);
}

#[test]
fn facts_are_internal_and_have_no_number_on_the_wire() {
    let dictionary = Dictionary::builtin();
    for name in [
        "Client-Shortname",
        "Packet-Src-IP-Address",
        "Auth-Method",
        "EAP-Type",
        "SSID",
        "Time-Of-Day",
        "Day-Of-Week",
        "TLS-Client-Cert-Serial",
        "TLS-Client-Cert-Expiration",
        "TLS-Client-Cert-Issuer",
        "TLS-Client-Cert-Subject",
        "TLS-Client-Cert-Common-Name",
        "TLS-Client-Cert-Subject-Alt-Name-Dns",
        "TLS-Client-Cert-Subject-Alt-Name-Email",
        "TLS-Client-Cert-Subject-Alt-Name-Upn",
        "TLS-Client-Cert-Subject-Alt-Name-Uri",
        "TLS-Client-Cert-X509v3-Extended-Key-Usage",
        "TLS-Client-Cert-Fingerprint",
        "TLS-Cert-Serial",
        "TLS-Cert-Expiration",
        "TLS-Cert-Issuer",
        "TLS-Cert-Subject",
        "TLS-Cert-Common-Name",
        "Post-Auth-Type",
    ] {
        let id = dictionary.by_name(name).unwrap();
        assert!(dictionary.is_fact(id), "{name}");
        assert!(dictionary.definition(id).flags.internal, "{name}");
        assert_eq!(dictionary.oid(id), None, "{name}");
    }
    assert!(!dictionary.is_fact(dictionary.by_name("User-Name").unwrap()));
    assert_eq!(named(dictionary, "Packet-Src-IP-Address").data_type, DataType::ComboIp);
}

/// Both sets are facts of the same registries. Where they differ, one of them is wrong; these are not ours:
/// Digest-Response and its kin have RFC 5090's numbers here (its file is not in FreeRADIUS's root dictionary);
/// Framed-Management-Protocol is RFC 5607's name; Ubiquiti is unknown to version 3.2.1.
#[test]
fn agrees_with_freeradius_on_every_number_type_and_flag() {
    let (theirs, _) = debian(Dictionary::empty(), "dictionary");
    let (theirs, _) = debian(theirs, "dictionary.rfc5090");
    let ours = Dictionary::builtin();
    let mut differences = Vec::new();
    let mut compared = 0;
    for our in ours.definitions().filter(|our| our.parent != Parent::Internal) {
        let Some(their) = theirs.by_name(&our.name) else {
            differences.push(format!("{} is unknown there", our.name));
            continue;
        };
        compared += 1;
        let their_oid = theirs.oid(their);
        let their = theirs.definition(their);
        if (ours.oid(our.id), our.data_type, our.flags) != (their_oid, their.data_type, their.flags) {
            differences.push(format!("{}: {our:?}, there {their:?}", our.name));
        }
        for (name, number) in &our.values {
            if their
                .values
                .iter()
                .any(|(known, value)| known.eq_ignore_ascii_case(name) && value != number)
            {
                differences.push(format!("{} of {} is not {number}", name, our.name));
            }
        }
    }
    let unknown = [
        "Framed-Management-Protocol",
        "SAML-Assertion",
        "SAML-Protocol",
        "DHCPv6-Options",
        "DHCPv4-Options",
        "UBNT-Data-Rate-DL",
        "UBNT-Data-Rate-DL-Burst",
        "UBNT-Data-Rate-UL",
        "UBNT-Data-Rate-UL-Burst",
    ];
    differences.retain(|difference| {
        !unknown
            .iter()
            .any(|name| *difference == format!("{name} is unknown there"))
    });
    assert_eq!(differences, Vec::<String>::new());
    assert!(compared > 350, "{compared}");
    assert_eq!(
        named(&theirs, "Framed-Management").number,
        named(ours, "Framed-Management").number
    );
}
