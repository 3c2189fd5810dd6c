//! The format, in small texts; FreeRADIUS's own files as the large one.

mod builtin_set;
mod described;
mod format;
mod freeradius_files;
mod redefinition;

use std::path::Path;

use proptest::prelude::*;

use super::parser::{MAX_DEPTH, MAX_WARNINGS, Problem};
use super::types::Encryption;
use super::*;

const DEBIAN: &str = "/usr/share/freeradius";

/// Loads files that are given as (path, text).
fn load_files(files: &[(&str, &str)]) -> (Dictionary, Result<Loaded, DictionaryError>) {
    let mut dictionary = Dictionary::builtin().clone();
    let root = Path::new(files[0].0);
    let loaded = dictionary.extend(root, &mut |path| {
        let file = files.iter().find(|(name, _)| path == Path::new(name));
        file.map(|(_, text)| (*text).to_owned()).ok_or(ReadError::Missing)
    });
    (dictionary, loaded)
}

fn load(text: &str) -> (Dictionary, Vec<String>) {
    let (dictionary, loaded) = load_files(&[("d", text)]);
    (
        dictionary,
        loaded.unwrap().warnings.iter().map(ToString::to_string).collect(),
    )
}

fn refused(text: &str) -> String {
    load_files(&[("d", text)]).1.unwrap_err().to_string()
}

fn named<'d>(dictionary: &'d Dictionary, name: &str) -> &'d Definition {
    dictionary.definition(
        dictionary
            .by_name(name)
            .unwrap_or_else(|| panic!("no attribute {name}")),
    )
}

/// FreeRADIUS's own dictionaries, over `dictionary`.
fn debian(mut dictionary: Dictionary, file: &str) -> (Dictionary, Loaded) {
    let root = Path::new(DEBIAN).join(file);
    assert!(
        root.exists(),
        "{} is missing: this test reads FreeRADIUS's dictionaries; install the Debian package freeradius-common",
        root.display()
    );
    let loaded = dictionary.extend(&root, &mut |path| {
        std::fs::read_to_string(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => ReadError::Missing,
            _ => ReadError::Other(error.to_string()),
        })
    });
    (dictionary, loaded.unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Nothing in a file makes the parser panic or hang.
    #[test]
    fn any_text_ends(text in "\\PC{0,400}(\n\\PC{0,200}){0,6}") {
        let _ = load_files(&[("d", &text)]);
    }

    #[test]
    fn any_words_end(lines in prop::collection::vec(words(), 0..24)) {
        let (dictionary, _) = load_files(&[("d", &lines.join("\n"))]);
        for definition in dictionary.definitions() {
            let oid = dictionary.oid(definition.id);
            prop_assert_eq!(oid.is_none(), definition.parent == Parent::Internal);
            prop_assert_eq!(dictionary.definition(dictionary.current(definition.id)).parent, definition.parent);
        }
        // the facts are what they were
        for fact in Dictionary::builtin().definitions().filter(|d| d.parent == Parent::Internal) {
            prop_assert_eq!(dictionary.by_name(&fact.name), Some(fact.id));
            prop_assert_eq!(dictionary.definition(fact.id).data_type, fact.data_type);
        }
    }

    #[test]
    fn any_query_is_answered(query in "\\PC{0,60}") {
        let _ = describe::describe(Dictionary::builtin(), &query);
    }
}

/// A line of words that mean something, in any order.
fn words() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "ATTRIBUTE",
        "VALUE",
        "VENDOR",
        "BEGIN-VENDOR",
        "END-VENDOR",
        "BEGIN-TLV",
        "END-TLV",
        "BEGIN-PROTOCOL",
        "END-PROTOCOL",
        "FLAGS",
        "ALIAS",
        "ENUM",
        "DEFINE",
        "STRUCT",
        "MEMBER",
        "$INCLUDE",
        "d",
        "RADIUS",
        "internal",
        "Cisco",
        "A",
        "B",
        "SSID",
        "EAP-Type",
        "User-Name",
        "1",
        "26",
        "241",
        "241.26",
        "26.9.1",
        ".1",
        "1.1",
        "0xff",
        "4294967295",
        "-1",
        "string",
        "integer",
        "tlv",
        "vsa",
        "evs",
        "extended",
        "struct",
        "octets[3]",
        "has_tag",
        "encrypt=2",
        "enum=A",
        "format=2,1",
        "parent=Extended-Vendor-Specific-1",
        "#",
    ]);
    prop::collection::vec(word, 1..6).prop_map(|words| words.join(" "))
}
