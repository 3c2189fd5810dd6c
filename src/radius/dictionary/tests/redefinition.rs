//! What a second definition means.

use super::*;

#[test]
fn the_same_name_again_keeps_its_place_and_its_values() {
    let (dictionary, warnings) = load("ATTRIBUTE SERVICE-type 6 integer\nVALUE Service-Type Mine 4711\n");
    assert_eq!(warnings, [""; 0]);
    let service_type = named(&dictionary, "Service-Type");
    assert_eq!(Some(service_type.id), Dictionary::builtin().by_name("Service-Type"));
    assert_eq!(&*service_type.name, "SERVICE-type");
    assert!(service_type.values.iter().any(|(name, _)| &**name == "Framed-User"));
    assert!(
        service_type
            .values
            .iter()
            .any(|(name, number)| &**name == "Mine" && *number == 4711)
    );
}

#[test]
fn another_name_of_the_same_kind_is_the_same_attribute() {
    let (dictionary, warnings) = load("ATTRIBUTE Switch-Address 4 ipaddr\n");
    assert_eq!(warnings, [""; 0]);
    assert_eq!(
        dictionary.by_name("Switch-Address"),
        dictionary.by_name("NAS-IP-Address")
    );
    assert_eq!(&*named(&dictionary, "NAS-IP-Address").name, "Switch-Address");
}

#[test]
fn another_kind_at_a_number_takes_it() {
    let (dictionary, _) = load("ATTRIBUTE Address-Text 4 string\n");
    let address = dictionary.by_name("NAS-IP-Address").unwrap();
    let text = dictionary.by_name("Address-Text").unwrap();
    assert_ne!(address, text);
    assert_eq!(dictionary.by_number(Parent::Root, 4), Some(text));
    assert_eq!(dictionary.current(address), text);
    assert_eq!(dictionary.current(text), text);
}

#[test]
fn a_name_that_moves_is_a_warning() {
    let (dictionary, warnings) = load("ATTRIBUTE Filter-Id 240 string\n");
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].starts_with("d:1: `Filter-Id` was defined as 11 by built-in/dictionary.standard:"));
    assert_eq!(named(&dictionary, "Filter-Id").number, 240);
    // requests still show number 11, under its name
    assert!(dictionary.by_number(Parent::Root, 11).is_some());
}

#[test]
fn an_internal_attribute_takes_no_name_from_the_wire() {
    let (dictionary, warnings) = load("ATTRIBUTE Filter-Id 3000 string\n");
    assert_eq!(warnings, [""; 0]);
    assert_eq!(named(&dictionary, "Filter-Id").number, 11);
}

#[test]
fn facts_stay_and_learn_spellings() {
    let (dictionary, warnings) = load(
        "ATTRIBUTE EAP-Type 1018 octets\nATTRIBUTE Client-Shortname 1024 integer virtual\n\
         VALUE EAP-Type Certificate 13\n",
    );
    assert_eq!(warnings, [""; 0]);
    let eap_type = named(&dictionary, "EAP-Type");
    assert_eq!(eap_type.data_type, DataType::Integer);
    assert!(
        eap_type
            .values
            .iter()
            .any(|(name, number)| &**name == "Certificate" && *number == 13)
    );
    assert_eq!(
        eap_type
            .values
            .iter()
            .rfind(|(_, number)| *number == 13)
            .map(|(name, _)| &**name),
        Some("TLS")
    );
    assert_eq!(named(&dictionary, "Client-Shortname").data_type, DataType::Text);
}

#[test]
fn a_value_may_come_before_its_attribute() {
    let (dictionary, warnings) = load("VALUE Later First 1\nATTRIBUTE Later 240 integer\nVALUE Later One 1\n");
    assert_eq!(warnings, [""; 0]);
    let names: Vec<&str> = named(&dictionary, "Later")
        .values
        .iter()
        .map(|(name, _)| &**name)
        .collect();
    assert_eq!(names, ["First", "One"]);
}

#[test]
fn an_attribute_of_another_dictionary_is_unknown_not_a_panic() {
    let stranger = AttributeId(u32::MAX - 1);
    let dictionary = Dictionary::builtin();
    assert_eq!(&*dictionary.definition(stranger).name, "unknown");
    assert_eq!(dictionary.oid(stranger), None);
    assert_eq!(dictionary.source(stranger), None);
    assert!(!dictionary.is_fact(stranger));
}
