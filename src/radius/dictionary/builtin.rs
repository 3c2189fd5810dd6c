//! The dictionary files that are compiled in: `dictionaries/` at the top of the repository.

use std::path::Path;

use super::Dictionary;
use super::parser::{DictionaryError, Loaded, ReadError};

/// Where messages and `portreeve dict` say that these files are.
const FOLDER: &str = "built-in";

/// Every file there, by name.
const FILES: &[(&str, &str)] = &[
    ("dictionary", include_str!("../../../dictionaries/dictionary")),
    (
        "dictionary.standard",
        include_str!("../../../dictionaries/dictionary.standard"),
    ),
    (
        "dictionary.extended",
        include_str!("../../../dictionaries/dictionary.extended"),
    ),
    (
        "dictionary.adsl-forum",
        include_str!("../../../dictionaries/dictionary.adsl-forum"),
    ),
    (
        "dictionary.airespace",
        include_str!("../../../dictionaries/dictionary.airespace"),
    ),
    (
        "dictionary.aruba",
        include_str!("../../../dictionaries/dictionary.aruba"),
    ),
    (
        "dictionary.cisco",
        include_str!("../../../dictionaries/dictionary.cisco"),
    ),
    (
        "dictionary.extreme",
        include_str!("../../../dictionaries/dictionary.extreme"),
    ),
    (
        "dictionary.fortinet",
        include_str!("../../../dictionaries/dictionary.fortinet"),
    ),
    ("dictionary.hp", include_str!("../../../dictionaries/dictionary.hp")),
    (
        "dictionary.juniper",
        include_str!("../../../dictionaries/dictionary.juniper"),
    ),
    (
        "dictionary.meraki",
        include_str!("../../../dictionaries/dictionary.meraki"),
    ),
    (
        "dictionary.microsoft",
        include_str!("../../../dictionaries/dictionary.microsoft"),
    ),
    (
        "dictionary.mikrotik",
        include_str!("../../../dictionaries/dictionary.mikrotik"),
    ),
    (
        "dictionary.ruckus",
        include_str!("../../../dictionaries/dictionary.ruckus"),
    ),
    (
        "dictionary.ubiquiti",
        include_str!("../../../dictionaries/dictionary.ubiquiti"),
    ),
    (
        "dictionary.portreeve",
        include_str!("../../../dictionaries/dictionary.portreeve"),
    ),
];

/// Reads them. The dictionary holds what was read before an error, if there were one.
pub(super) fn load() -> (Dictionary, Result<Loaded, DictionaryError>) {
    let mut dictionary = Dictionary::empty();
    let folder = Path::new(FOLDER);
    let loaded = dictionary.extend(&folder.join("dictionary"), &mut |path| {
        FILES
            .iter()
            .find(|(name, _)| path == folder.join(name))
            .map(|(_, text)| (*text).to_owned())
            .ok_or(ReadError::Missing)
    });
    dictionary.seal();
    (dictionary, loaded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_parses_without_a_warning() {
        let (_, loaded) = load();
        let loaded = loaded.unwrap();
        assert_eq!(loaded.warnings, []);
        assert_eq!(loaded.files, FILES.len());
    }

    #[test]
    fn every_file_of_the_folder_is_compiled_in() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("dictionaries");
        let mut there: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let mut here: Vec<&str> = FILES.iter().map(|(name, _)| *name).collect();
        there.sort();
        here.sort();
        assert_eq!(there, here);
    }
}
