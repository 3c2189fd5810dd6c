//! Attributes in words.

use super::*;

#[test]
fn by_name_and_by_number() {
    let dictionary = Dictionary::builtin();
    let text = describe::describe(dictionary, "tunnel-PRIVATE-group-id").unwrap();
    assert_eq!(Ok(&text), describe::describe(dictionary, "81").as_ref());
    assert_eq!(Ok(&text), describe::describe(dictionary, " 0x51 ").as_ref());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[..4],
        [
            "Tunnel-Private-Group-Id",
            "  number    81",
            "  type      string",
            "  flags     tagged"
        ]
    );
    assert!(
        lines[4].starts_with("  defined   built-in/dictionary.standard:"),
        "{text}"
    );

    let cisco = describe::describe(dictionary, "26.9.1").unwrap();
    assert!(cisco.contains("  vendor    Cisco (9)\n"), "{cisco}");
    let key = describe::describe(dictionary, "MS-MPPE-Recv-Key").unwrap();
    assert!(key.contains("  flags     hidden as Tunnel-Password is\n"), "{key}");
    let port = describe::describe(dictionary, "NAS-Port-Type").unwrap();
    assert!(
        port.lines().any(|line| line.split_whitespace().eq(["Ethernet", "15"])),
        "{port}"
    );
    let fact = describe::describe(dictionary, "SSID").unwrap();
    assert!(fact.contains("a fact that policies may ask for"), "{fact}");
    let alias = describe::describe(dictionary, "HP-Cos").unwrap();
    assert!(alias.contains("  also      HP-Cos\n"), "{alias}");
    assert!(
        describe::describe(dictionary, "241.1")
            .unwrap()
            .starts_with("Frag-Status\n")
    );
}

#[test]
fn a_superseded_attribute_says_so() {
    let (dictionary, _) = load("ATTRIBUTE Address-Text 4 string\n");
    let text = describe::describe(&dictionary, "NAS-IP-Address").unwrap();
    assert!(text.contains("gave its number to Address-Text"), "{text}");
}

#[test]
fn a_near_miss_is_suggested() {
    let unknown = |query: &str| {
        describe::describe(Dictionary::builtin(), query)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        unknown("Tunnel-Private-Grp-Id"),
        "unknown attribute `Tunnel-Private-Grp-Id`\nhint: did you mean `Tunnel-Private-Group-Id`?"
    );
    assert_eq!(
        unknown("avpair"),
        "unknown attribute `avpair`\nhint: did you mean `Cisco-AVPair`, `Fortinet-Host-Port-AVPair`?"
    );
    assert_eq!(
        unknown("qqqqqqqqqqqq"),
        "unknown attribute `qqqqqqqqqqqq`\nhint: `[dictionaries] extra` loads more dictionaries"
    );
    assert!(unknown("26.9").starts_with("no attribute has the number `26.9`\nhint: "));
    assert!(unknown("9999").starts_with("no attribute has the number `9999`\nhint: "));
    assert!(unknown("").starts_with("unknown attribute ``"));
}
