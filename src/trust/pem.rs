//! PEM files (RFC 7468), block by block, each with the line it begins on: an error says where to look.

use std::fs;
use std::io::Read;
use std::path::Path;

use rustls_pki_types::pem::{PemObject, SectionKind};
use zeroize::Zeroizing;

use super::TrustError;

/// A bundle of every public CA has a quarter of a megabyte; above this it is the wrong file.
const FILE_OCTETS_MAX: u64 = 4 << 20;

/// One block of a PEM file.
pub(super) struct Block {
    /// `CERTIFICATE`, `PRIVATE KEY` …
    pub(super) label: String,
    /// The line of its BEGIN, from 1.
    pub(super) line: usize,
    /// What it holds, decoded; wiped when dropped, as it may be a key.
    pub(super) contents: Zeroizing<Vec<u8>>,
    /// It has the header `Proc-Type: 4,ENCRYPTED` of OpenSSL's old key format, and its contents are not decoded.
    pub(super) old_encryption: bool,
}

/// Reads a whole file of reasonable size.
pub(super) fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, TrustError> {
    let error = |source| TrustError::Read {
        path: path.to_owned(),
        source,
    };
    let mut octets = Zeroizing::new(Vec::new());
    fs::File::open(path)
        .map_err(error)?
        .take(FILE_OCTETS_MAX + 1)
        .read_to_end(&mut octets)
        .map_err(error)?;
    if octets.len() as u64 > FILE_OCTETS_MAX {
        return Err(error(std::io::Error::other("it is larger than 4 MiB")));
    }
    Ok(octets)
}

/// The blocks of a PEM file's text; what stands between them is for people.
///
/// # Errors
/// A block without end, base64 that is none, and octets that are DER rather than PEM; `path` is for the error only.
pub(super) fn blocks(path: &Path, octets: &[u8]) -> Result<Vec<Block>, TrustError> {
    if octets.first() == Some(&0x30) && std::str::from_utf8(octets).is_err() {
        return Err(TrustError::NotPem { path: path.to_owned() });
    }
    let mut blocks = Vec::new();
    let mut open: Option<(String, usize, Zeroizing<String>, bool)> = None;
    let fail = |line, what: String| {
        Err(TrustError::Pem {
            path: path.to_owned(),
            line,
            what,
        })
    };
    for (index, line) in octets.split(|octet| *octet == b'\n').enumerate() {
        let number = index + 1;
        let line = line.trim_ascii();
        let begin = marker(line, "-----BEGIN ");
        let end = marker(line, "-----END ");
        match (&mut open, begin, end) {
            (None, Some(label), _) => open = Some((label.to_owned(), number, Zeroizing::new(String::new()), false)),
            (None, None, Some(label)) => return fail(number, format!("the end of a `{label}` without a beginning")),
            (None, None, None) => {}
            (Some((label, begun, ..)), Some(_), _) => {
                return fail(*begun, format!("the `{label}` that begins here has no end"));
            }
            (Some((label, _, _, _)), None, Some(ended)) if label != ended => {
                return fail(number, format!("a `{label}` ends as `{ended}`"));
            }
            (Some(_), None, Some(_)) => {
                if let Some((label, line, text, old_encryption)) = open.take() {
                    let contents = if old_encryption {
                        Some(Zeroizing::default())
                    } else {
                        decode(&text)
                    };
                    let Some(contents) = contents else {
                        return fail(line, format!("the `{label}` that begins here is not base64"));
                    };
                    blocks.push(Block {
                        label,
                        line,
                        contents,
                        old_encryption,
                    });
                }
            }
            (Some((_, _, text, old_encryption)), None, None) => {
                if line.contains(&b':') {
                    *old_encryption |= line.starts_with(b"Proc-Type:") && line.ends_with(b"ENCRYPTED");
                } else {
                    text.push_str(&String::from_utf8_lossy(line));
                    text.push('\n');
                }
            }
        }
    }
    match open {
        Some((label, begun, ..)) => fail(begun, format!("the `{label}` that begins here has no end")),
        None => Ok(blocks),
    }
}

fn marker<'a>(line: &'a [u8], start: &str) -> Option<&'a str> {
    std::str::from_utf8(line)
        .ok()?
        .strip_prefix(start)?
        .strip_suffix("-----")
}

/// Base64 in constant time: the decoder does so for sections that it takes for private keys.
fn decode(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    let section = Zeroizing::new(format!(
        "-----BEGIN PRIVATE KEY-----\n{text}-----END PRIVATE KEY-----\n"
    ));
    let (_, contents) = <(SectionKind, Vec<u8>)>::from_pem_slice(section.as_bytes()).ok()?;
    Some(Zeroizing::new(contents)).filter(|contents| !contents.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<(String, usize, Vec<u8>)>, String> {
        let blocks = blocks(Path::new("x.pem"), text.as_bytes()).map_err(|error| error.to_string())?;
        Ok(blocks
            .into_iter()
            .map(|block| (block.label, block.line, block.contents.to_vec()))
            .collect())
    }

    #[test]
    fn blocks_know_their_lines() {
        let text = "Subject: me\n-----BEGIN A-----\r\nAQI=\r\n-----END A-----\n\n-----BEGIN EC B-----\nAw\n==\n-----END EC B-----";
        assert_eq!(
            read(text).unwrap(),
            [("A".into(), 2, vec![1, 2]), ("EC B".into(), 6, vec![3])]
        );
        assert_eq!(read("no pem at all").unwrap(), []);
    }

    #[test]
    fn errors_name_file_and_line() {
        for (text, line, what) in [
            ("\n-----BEGIN A-----\nAQI=\n", "line 2", "has no end"),
            ("-----BEGIN A-----\n-----BEGIN A-----\n", "line 1", "has no end"),
            ("-----BEGIN A-----\nAQI=\n-----END B-----\n", "line 3", "ends as"),
            ("-----END A-----\n", "line 1", "without a beginning"),
            ("\n\n-----BEGIN A-----\nA$I=\n-----END A-----\n", "line 3", "not base64"),
            ("-----BEGIN A-----\n-----END A-----\n", "line 1", "not base64"),
        ] {
            let error = read(text).unwrap_err();
            assert!(
                error.contains("`x.pem`") && error.contains(line) && error.contains(what),
                "{error}"
            );
        }
    }

    #[test]
    fn der_and_old_encryption_are_recognised() {
        assert!(matches!(
            blocks(Path::new("x"), &[0x30, 0x82, 1, 0, 0xFF]),
            Err(TrustError::NotPem { .. })
        ));
        let old = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nAQI=\n-----END RSA PRIVATE KEY-----\n";
        assert!(blocks(Path::new("x"), old.as_bytes()).unwrap()[0].old_encryption);
    }
}
