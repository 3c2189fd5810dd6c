//! `[dictionaries] extra`: attribute definitions beyond the built-in ones, read from FreeRADIUS's files.

use std::fmt;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::units::counted;
use crate::radius::dictionary::Dictionary;
use crate::radius::dictionary::parser::{DictionaryError, ReadError, Warning};

/// The largest dictionary file, in octets. FreeRADIUS's largest has 60,000.
const MAX_FILE: u64 = 16 * 1_024 * 1_024;

/// The dictionary that a node works with, and what its making found.
#[derive(Clone, Debug)]
pub struct LoadedDictionary {
    /// The built-in set and what was read over it.
    pub dictionary: Arc<Dictionary>,
    /// Files read; 0 where nothing extra is configured.
    pub files: usize,
    /// Attribute definitions read.
    pub attributes: usize,
    /// Named values read.
    pub values: usize,
    /// Lines that were skipped or mean less than they say: the first hundred of each entry of `extra`.
    pub warnings: Vec<Warning>,
    /// How many more there were.
    pub more_warnings: usize,
}

/// A dictionary that can't be read.
#[derive(Debug, thiserror::Error)]
#[error(
    "{0}\nhint: `[dictionaries] extra` names files in FreeRADIUS's format, or folders that hold one named `dictionary`"
)]
pub struct LoadError(#[from] DictionaryError);

/// Reads the files, and the file `dictionary` of the folders, that `extra` names, in order, over the built-in set.
/// A later definition wins, but for the facts of policies, which stay.
pub fn load(extra: &[PathBuf]) -> Result<LoadedDictionary, LoadError> {
    let mut dictionary = Dictionary::builtin().clone();
    let mut found = LoadedDictionary {
        dictionary: Arc::default(),
        files: 0,
        attributes: 0,
        values: 0,
        warnings: Vec::new(),
        more_warnings: 0,
    };
    for path in extra {
        let root = if path.is_dir() {
            path.join("dictionary")
        } else {
            path.clone()
        };
        let loaded = dictionary.extend(&root, &mut read)?;
        found.files += loaded.files;
        found.attributes += loaded.attributes;
        found.values += loaded.values;
        found.warnings.extend(loaded.warnings);
        found.more_warnings += loaded.more_warnings;
    }
    found.dictionary = Arc::new(dictionary);
    Ok(found)
}

impl fmt::Display for LoadedDictionary {
    /// One line: `loaded 225 files, 7,468 attributes, 7,964 values over the built-in set; 2 warnings`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.files == 0 {
            return f.write_str("the built-in set");
        }
        let warnings = self.warnings.len() + self.more_warnings;
        write!(
            f,
            "loaded {}, {}, {} over the built-in set",
            counted(self.files, "file", "files"),
            counted(self.attributes, "attribute", "attributes"),
            counted(self.values, "value", "values")
        )?;
        if warnings > 0 {
            write!(f, "; {}", counted(warnings, "warning", "warnings"))?;
        }
        Ok(())
    }
}

/// A file's text. Octets that are not UTF-8 (in a comment, as a rule) are replaced.
fn read(path: &Path) -> Result<String, ReadError> {
    let failed = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => ReadError::Missing,
        _ => ReadError::Other(error.to_string()),
    };
    // a pipe or a device would block, or never end
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err(ReadError::Other("not a file".into()));
    }
    let mut octets = Vec::new();
    File::open(path)
        .map_err(failed)?
        .take(MAX_FILE + 1)
        .read_to_end(&mut octets)
        .map_err(failed)?;
    if u64::try_from(octets.len()).is_ok_and(|length| length > MAX_FILE) {
        return Err(ReadError::Other(format!("larger than {MAX_FILE} octets")));
    }
    Ok(String::from_utf8(octets).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_extra_is_the_built_in_set() {
        let loaded = load(&[]).unwrap();
        assert_eq!(loaded.to_string(), "the built-in set");
        assert!(loaded.dictionary.by_name("Cisco-AVPair").is_some());
    }

    #[test]
    fn files_and_folders_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("dictionary"), "$INCLUDE one\n").unwrap();
        std::fs::write(path("one"), b"# caf\xe9\nATTRIBUTE Acme-One 240 string\nNONSENSE\n").unwrap();
        std::fs::write(path("two"), "ATTRIBUTE Acme-One 240 integer\n").unwrap();
        let loaded = load(&[folder.path().to_owned(), path("two")]).unwrap();
        assert_eq!(
            loaded.to_string(),
            "loaded 3 files, 2 attributes, 0 values over the built-in set; 1 warning"
        );
        let id = loaded.dictionary.by_name("Acme-One").unwrap();
        assert_eq!(loaded.dictionary.source(id), Some((path("two").to_str().unwrap(), 1)));
        assert!(loaded.dictionary.definition(id).data_type.is_number());
    }

    #[test]
    fn what_can_not_be_read_says_which_file_and_where_it_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let gone = folder.path().join("gone");
        let error = load(std::slice::from_ref(&gone)).unwrap_err().to_string();
        let gone = gone.display();
        assert!(
            error.starts_with(&format!("{gone}:0: can't read `{gone}`: no such file\nhint: ")),
            "{error}"
        );
        let root = folder.path().join("root");
        std::fs::write(&root, "\n$INCLUDE sub\n").unwrap();
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        let error = load(std::slice::from_ref(&root)).unwrap_err().to_string();
        let sub = folder.path().join("sub");
        assert!(
            error.starts_with(&format!(
                "{}:2: can't read `{}`: not a file\n",
                root.display(),
                sub.display()
            )),
            "{error}"
        );
    }

    #[test]
    fn freeradius_as_debian_installs_it() {
        let folder = PathBuf::from("/usr/share/freeradius");
        assert!(folder.exists(), "install the Debian package freeradius-common");
        let loaded = load(&[folder]).unwrap();
        assert_eq!(
            loaded.to_string(),
            "loaded 225 files, 7,468 attributes, 7,964 values over the built-in set; 2 warnings"
        );
    }
}
