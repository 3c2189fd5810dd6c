//! Lists in files: DER, or PEM with one list or several; a folder stands for the `*.crl`, `*.pem` and `*.der` in it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustls_pki_types::CertificateRevocationListDer;
use rustls_pki_types::pem::PemObject;

use super::crl::{Crl, CrlError};
use crate::trust::authorities::files_of;

/// Extensions of the files that are read in a folder.
pub(super) const EXTENSIONS: &[&str] = &["crl", "pem", "der"];

/// Files, and lists in one file.
const FILES_MAX: usize = 256;
/// How many lists as large as the largest allowed may be kept together.
pub(super) const LARGEST: usize = 4;

/// Why a file, or a list in it, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It could not be read.
    #[error("cannot read `{}`: {source}\nhint: name the file with the list, or leave it out of `[revocation] crl`", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What is in it is no list that is read here.
    #[error("`{}`: {source}\nhint: `openssl crl -in FILE -noout -text` shows what another reader makes of it", path.display())]
    List {
        /// Which.
        path: PathBuf,
        /// Why.
        source: ContentsError,
    },
    /// There are too many, or they are too large together.
    #[error("`{}` and the files after it are too many lists, or too large\nhint: name those of the CAs that issue certificates to your devices; `crl_max_bytes` is a quarter of what all may have together", path.display())]
    TooMany {
        /// The first that is not read.
        path: PathBuf,
    },
}

/// Why octets are no list that is read here.
#[derive(Debug, thiserror::Error)]
pub enum ContentsError {
    /// Not even PEM.
    #[error("neither DER nor a PEM block `X509 CRL`")]
    NoList,
    /// A list that is malformed or not read here.
    #[error(transparent)]
    List(#[from] CrlError),
}

/// Reads all lists of all files; what cannot be used is left out, and said.
pub(super) fn read(paths: &[PathBuf], octets_max: usize) -> (Vec<(PathBuf, Crl)>, Vec<FileError>) {
    let (mut lists, mut errors) = (Vec::new(), Vec::new());
    let (mut count, mut octets_held) = (0, 0_usize);
    for path in paths {
        let files = files_of(path, EXTENSIONS).map_err(|source| FileError::Read {
            path: path.clone(),
            source,
        });
        let files = files.unwrap_or_else(|error| {
            errors.push(error);
            Vec::new()
        });
        for file in files {
            count += 1;
            if count > FILES_MAX || octets_held > LARGEST.saturating_mul(octets_max) {
                errors.push(FileError::TooMany { path: file });
                return (lists, errors);
            }
            match contents(&file, octets_max) {
                Ok(octets) => {
                    for list in all(&octets) {
                        match list {
                            Ok(list) => {
                                octets_held = octets_held.saturating_add(list.octets_held());
                                lists.push((file.clone(), list));
                            }
                            Err(source) => errors.push(FileError::List {
                                path: file.clone(),
                                source,
                            }),
                        }
                    }
                }
                Err(source) => errors.push(FileError::Read { path: file, source }),
            }
        }
    }
    (lists, errors)
}

/// The one list that these octets are.
pub(super) fn one(octets: &[u8]) -> Result<Crl, ContentsError> {
    all(octets).pop().unwrap_or(Err(ContentsError::NoList))
}

/// The lists in these octets; at least one outcome.
fn all(octets: &[u8]) -> Vec<Result<Crl, ContentsError>> {
    // a SEQUENCE begins with the digit 0, with which no text of a PEM file does: what stands before a block is for people
    if octets.first() == Some(&0x30) && std::str::from_utf8(octets).is_err() {
        return vec![Crl::parse(octets).map_err(Into::into)];
    }
    let blocks = CertificateRevocationListDer::pem_slice_iter(octets).take(FILES_MAX);
    let mut lists: Vec<_> = blocks
        .map(|block| {
            let der = block.map_err(|_| ContentsError::NoList)?;
            Ok(Crl::parse(&der)?)
        })
        .collect();
    if lists.is_empty() {
        lists.push(Err(ContentsError::NoList));
    }
    lists
}

fn contents(path: &Path, octets_max: usize) -> io::Result<Vec<u8>> {
    // in PEM four octets stand for three
    let most = octets_max.saturating_add(octets_max / 2) as u64;
    let mut file = File::open(path)?;
    if file.metadata()?.len() > most || !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is larger than `crl_max_bytes`, or no file"));
    }
    let mut octets = Vec::new();
    file.by_ref().take(most).read_to_end(&mut octets)?;
    Ok(octets)
}
