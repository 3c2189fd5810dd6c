//! The dictionary files that are compiled in: `dictionaries/` at the top of the repository.

use std::path::Path;

use super::Dictionary;
use super::parser::{DictionaryError, Loaded, ReadError};

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
        "dictionary.portreeve",
        include_str!("../../../dictionaries/dictionary.portreeve"),
    ),
];

/// Reads them. The dictionary holds what was read before an error, if there were one.
pub(super) fn load() -> (Dictionary, Result<Loaded, DictionaryError>) {
    let mut dictionary = Dictionary::empty();
    let loaded = dictionary.extend(Path::new("dictionary"), &mut |path| {
        FILES
            .iter()
            .find(|(name, _)| path == Path::new(name))
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
