use std::path::Path;

use super::*;

const DEBIAN: &str = "/usr/share/freeradius/dictionary";

fn read(path: &Path) -> Result<String, ReadError> {
    std::fs::read_to_string(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => ReadError::Missing,
        _ => ReadError::Other(error.to_string()),
    })
}

/// FreeRADIUS's own dictionaries, alone or over ours.
fn debian(mut over: Dictionary) -> (Dictionary, Loaded) {
    assert!(
        Path::new(DEBIAN).exists(),
        "{DEBIAN} is missing: this test reads FreeRADIUS's dictionaries; install the Debian package freeradius-common"
    );
    let loaded = over.extend(Path::new(DEBIAN), &mut read).unwrap();
    (over, loaded)
}

#[test]
fn the_dictionaries_of_freeradius_load_whole() {
    let (_, alone) = debian(Dictionary::empty());
    let (_, over) = debian(Dictionary::builtin().clone());
    for loaded in [&alone, &over] {
        assert_eq!((loaded.files, loaded.attributes, loaded.values), (225, 7_468, 7_964));
    }
    // Octets with named values: a slip in that file. Digest-Response: its number before RFC 5090 gave it 103.
    let nameless =
        format!("{DEBIAN}.cablelabs:92: `CableLabs-Event-Message` is no number: names of its values mean nothing");
    let moved = format!(
        "{DEBIAN}.iana:15: `Digest-Response` was defined as 103 by dictionary.standard:127: the name now means this attribute"
    );
    let texts = |loaded: &Loaded| loaded.warnings.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(texts(&alone), [nameless.as_str()]);
    assert_eq!(texts(&over), [moved.as_str(), nameless.as_str()]);
}
