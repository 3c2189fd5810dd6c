//! FreeRADIUS's own files, as Debian installs them.

use super::*;

#[test]
fn load_whole_alone_and_over_ours() {
    let (_, alone) = debian(Dictionary::empty(), "dictionary");
    let (_, over) = debian(Dictionary::builtin().clone(), "dictionary");
    for loaded in [&alone, &over] {
        assert_eq!((loaded.files, loaded.attributes, loaded.values), (225, 7_468, 7_964));
    }
    // Octets with named values: a slip in that file. Digest-Response: its number before RFC 5090 gave it 103.
    let nameless = "dictionary.cablelabs:92: `CableLabs-Event-Message` is no number: names of its values mean nothing";
    let moved = "dictionary.iana:15: `Digest-Response` was defined as 103 by built-in/dictionary.standard:";
    let starts = |loaded: &Loaded, expected: &[&str]| {
        let warnings: Vec<String> = loaded.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(warnings.len(), expected.len(), "{warnings:#?}");
        for (warning, expected) in warnings.iter().zip(expected) {
            assert!(warning.starts_with(&format!("{DEBIAN}/{expected}")), "{warning}");
        }
    };
    starts(&alone, &[nameless]);
    starts(&over, &[moved, nameless]);
}

/// The files that the root does not include (DHCP, conflicts of numbers) are in the format too: all 8,604 ATTRIBUTE and
/// 9,480 VALUE lines, but for 26 values that mean nothing.
#[test]
fn each_file_by_itself_is_understood() {
    let (vendors, _) = debian(Dictionary::builtin().clone(), "dictionary.freeradius");
    let mut totals = (0, 0, 0);
    let mut warnings = Vec::new();
    for entry in std::fs::read_dir(DEBIAN).expect("install the Debian package freeradius-common") {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name == "dictionary" {
            continue; // it includes the others
        }
        let (_, loaded) = debian(vendors.clone(), &name);
        totals = (
            totals.0 + loaded.files,
            totals.1 + loaded.attributes,
            totals.2 + loaded.values,
        );
        warnings.extend(
            loaded
                .warnings
                .into_iter()
                .map(|warning| (name.clone(), warning.message)),
        );
    }
    warnings.sort();
    let files: Vec<&str> = warnings.iter().map(|(name, _)| &**name).collect();
    assert_eq!(
        files,
        [
            "dictionary.cablelabs",
            "dictionary.compat",
            "dictionary.freedhcp",
            "dictionary.freedhcp",
            "dictionary.iana"
        ],
        "{warnings:#?}"
    );
    assert_eq!(totals, (236, 8_604, 9_480 - 26));
}

#[test]
fn the_names_and_facts_of_ours_survive() {
    let ours = Dictionary::builtin();
    let (both, _) = debian(ours.clone(), "dictionary");
    let mut renamed = Vec::new();
    for our in ours.definitions() {
        let same = both.definition(our.id);
        assert_eq!((same.parent, same.number), (our.parent, our.number), "{}", our.name);
        assert!(both.by_name(&our.name).is_some());
        if same.name != our.name {
            renamed.push(&*our.name);
        }
        if ours.is_fact(our.id) {
            assert_eq!(both.by_name(&our.name), Some(our.id), "{}", our.name);
            assert_eq!((same.data_type, same.flags), (our.data_type, our.flags), "{}", our.name);
        }
    }
    // the same attributes, under the name that is the last in its files
    assert_eq!(
        renamed,
        [
            "Digest-Domain",
            "Framed-Management-Protocol",
            "HP-Port-Priority-Regeneration-Table",
            "Mikrotik-DHCP-Option-Param-STR2",
            "Mikrotik-Wireless-VLANIDtype"
        ]
    );
    // FreeRADIUS's own internal file has these names with other types
    assert_eq!(named(&both, "Packet-Src-IP-Address").data_type, DataType::ComboIp);
    // whose named values are welcome
    let eap_type = named(&both, "EAP-Type");
    assert!(
        eap_type
            .values
            .iter()
            .any(|(name, number)| (&**name, *number) == ("Cisco-LEAP", 17))
    );
    // an old name of the compatibility file is the same attribute
    assert_eq!(both.by_name("Client-Id"), both.by_name("NAS-IP-Address"));
    // and one that the illegal dictionaries put at a number of the standard is not what a request shows
    let multi_link = both.by_name("Multi-Link-Flag").unwrap();
    assert_eq!(both.current(multi_link), both.by_name("Operator-Name").unwrap());
    assert_eq!(both.vendor_format(429).type_octets, 4);
    assert_eq!(both.vendor_format(8164).length_octets, 2);
    assert!(both.vendor_format(24757).continuation);
    let wimax = both.by_oid("26.24757.28.11.5.1").unwrap();
    assert_eq!(&*both.definition(wimax).name, "WiMAX-Source-IPAddress");
    let evs = both.by_oid("245.26.11344.1").unwrap();
    assert_eq!(&*both.definition(evs).name, "FreeRADIUS-802.1X-Anonce");
}
