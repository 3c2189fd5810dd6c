//! Makes certificates part by part, each part to be replaced by what is odd about it.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use rcgen::{KeyPair, PublicKeyData, SigningKey};

use crate::der::*;

/// When it is: 2027-01-15T08:00:00Z. Nothing here looks at the machine's clock.
pub const NOW: u64 = 1_800_000_000;

pub const COMMON_NAME: &str = "2.5.4.3";
pub const ORGANISATION: &str = "2.5.4.10";
pub const COUNTRY: &str = "2.5.4.6";
pub const EMAIL_ADDRESS: &str = "1.2.840.113549.1.9.1";
pub const DOMAIN_COMPONENT: &str = "0.9.2342.19200300.100.1.25";

pub const CLIENT_AUTH: &str = "1.3.6.1.5.5.7.3.2";
pub const SERVER_AUTH: &str = "1.3.6.1.5.5.7.3.1";
pub const ANY_USAGE: &str = "2.5.29.37.0";
pub const UPN: &str = "1.3.6.1.4.1.311.20.2.3";

/// A key, and how to sign with it.
pub struct Signer {
    /// SubjectPublicKeyInfo.
    pub key: Vec<u8>,
    /// AlgorithmIdentifier of the signatures.
    pub algorithm: Vec<u8>,
    /// PKCS#8, where rustls can sign with it.
    pub private: Option<Vec<u8>>,
    how: How,
}

enum How {
    Rcgen(KeyPair),
    /// By openssl: the key as PEM, and options of `openssl dgst`.
    Openssl(Vec<u8>, &'static [&'static str]),
}

impl Signer {
    /// Of a key pair, by the algorithm that goes with it.
    pub fn of(pair: KeyPair, algorithm: Vec<u8>) -> Signer {
        Signer {
            key: pair.subject_public_key_info(),
            algorithm,
            private: Some(pair.serialize_der()),
            how: How::Rcgen(pair),
        }
    }

    pub fn p256() -> Signer {
        Signer::of(KeyPair::generate().unwrap(), ecdsa_with_sha256())
    }

    /// Of a key that openssl makes, and signs with by `options` of `openssl dgst`; with none, of a kind that hashes for
    /// itself.
    pub fn openssl(generate: &[&str], algorithm: Vec<u8>, options: &'static [&'static str]) -> Signer {
        let pem = openssl(&[&["genpkey"], generate].concat(), b"");
        Signer {
            key: openssl(&["pkey", "-pubout", "-outform", "DER"], &pem),
            algorithm,
            private: Some(openssl(&["pkcs8", "-topk8", "-nocrypt", "-outform", "DER"], &pem)),
            how: How::Openssl(pem, options),
        }
    }

    /// The same key, which signs otherwise.
    pub fn by_openssl(&self, algorithm: Vec<u8>, options: &'static [&'static str]) -> Signer {
        let private = self.private.clone();
        let pem = openssl(&["pkey", "-inform", "DER"], private.as_ref().unwrap());
        Signer {
            key: self.key.clone(),
            algorithm,
            private,
            how: How::Openssl(pem, options),
        }
    }

    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        match &self.how {
            How::Rcgen(pair) => pair.sign(message).unwrap(),
            How::Openssl(pem, options) => {
                let (key, octets) = (
                    tempfile::NamedTempFile::new().unwrap(),
                    tempfile::NamedTempFile::new().unwrap(),
                );
                fs::write(key.path(), pem).unwrap();
                fs::write(octets.path(), message).unwrap();
                let (key, octets) = (key.path().to_str().unwrap(), octets.path().to_str().unwrap());
                match options {
                    [] => openssl(&["pkeyutl", "-sign", "-rawin", "-inkey", key, "-in", octets], b""),
                    options => openssl(&[&["dgst"], *options, &["-sign", key, octets]].concat(), b""),
                }
            }
        }
    }
}

pub fn ecdsa_with_sha256() -> Vec<u8> {
    algorithm("1.2.840.10045.4.3.2", &[])
}

/// sha256WithRSAEncryption.
pub fn rsa_with_sha256() -> Vec<u8> {
    algorithm("1.2.840.113549.1.1.11", &[&null()])
}

/// One extension.
#[derive(Clone)]
pub struct Extension {
    pub oid: Vec<u8>,
    pub critical: Vec<u8>,
    pub value: Vec<u8>,
}

impl Extension {
    pub fn new(dotted: &str, value: &[u8]) -> Extension {
        Extension {
            oid: oid(dotted),
            critical: Vec::new(),
            value: octet_string(value),
        }
    }

    pub fn critical(self) -> Extension {
        Extension {
            critical: boolean(0xFF),
            ..self
        }
    }

    fn encoded(&self) -> Vec<u8> {
        sequence(&[&self.oid, &self.critical, &self.value])
    }
}

pub const KEY_ID: &str = "2.5.29.14";
pub const KEY_USAGE: &str = "2.5.29.15";
pub const ALTERNATIVE_NAMES: &str = "2.5.29.17";
pub const BASIC_CONSTRAINTS: &str = "2.5.29.19";
pub const AUTHORITY_KEY_ID: &str = "2.5.29.35";
pub const EXTENDED_KEY_USAGE: &str = "2.5.29.37";

/// keyUsage: the bits of its first octet, as many unused as DER demands.
pub fn key_usage(bits: u8) -> Extension {
    let unused = bits.trailing_zeros().min(7) as u8;
    Extension::new(KEY_USAGE, &element(0x03, &[&[unused, bits]])).critical()
}

pub fn extended_key_usage(purposes: &[&str]) -> Extension {
    let purposes: Vec<u8> = purposes.iter().flat_map(|purpose| oid(purpose)).collect();
    Extension::new(EXTENDED_KEY_USAGE, &sequence(&[&purposes]))
}

pub fn alternative_names(names: &[Vec<u8>]) -> Extension {
    Extension::new(ALTERNATIVE_NAMES, &sequence(&[&names.concat()]))
}

pub fn dns(name: &str) -> Vec<u8> {
    implicit(2, name.as_bytes())
}

pub fn email(name: &str) -> Vec<u8> {
    implicit(1, name.as_bytes())
}

pub fn uri(name: &str) -> Vec<u8> {
    implicit(6, name.as_bytes())
}

pub fn upn(name: &str) -> Vec<u8> {
    other_name(UPN, &utf8(name))
}

/// basicConstraints of a CA.
pub fn authority(path_length: Option<u8>) -> Extension {
    let length = path_length.map(|length| integer(&[length])).unwrap_or_default();
    Extension::new(BASIC_CONSTRAINTS, &sequence(&[&boolean(0xFF), &length])).critical()
}

/// The parts of a certificate, encoded.
#[derive(Clone)]
pub struct Parts {
    pub version: Vec<u8>,
    pub serial: Vec<u8>,
    /// In the signed part; none: the signer's.
    pub algorithm: Option<Vec<u8>>,
    pub issuer: Vec<u8>,
    pub validity: Vec<u8>,
    pub subject: Vec<u8>,
    pub key: Vec<u8>,
    pub unique_ids: Vec<u8>,
    pub extensions: Vec<Extension>,
    /// In place of all extensions, `[3]` included.
    pub instead_of_extensions: Option<Vec<u8>>,
    /// Behind everything else in the signed part.
    pub behind: Vec<u8>,
}

impl Parts {
    /// What is signed.
    pub fn to_be_signed(&self, signer: &Signer) -> Vec<u8> {
        let extensions: Vec<u8> = self.extensions.iter().flat_map(Extension::encoded).collect();
        let extensions = match &self.instead_of_extensions {
            Some(other) => other.clone(),
            None => explicit(3, &[&sequence(&[&extensions])]),
        };
        sequence(&[
            &self.version,
            &self.serial,
            self.algorithm.as_ref().unwrap_or(&signer.algorithm),
            &self.issuer,
            &self.validity,
            &self.subject,
            &self.key,
            &self.unique_ids,
            &extensions,
            &self.behind,
        ])
    }

    pub fn signed_by(&self, signer: &Signer) -> Vec<u8> {
        let signed = self.to_be_signed(signer);
        sequence(&[&signed, &signer.algorithm, &bit_string(&signer.sign(&signed))])
    }

    /// Replaces the extension with the same identifier, or adds it.
    pub fn set(&mut self, extension: Extension) {
        self.drop(&extension.oid.clone());
        self.extensions.push(extension);
    }

    /// Leaves an extension out.
    pub fn without(&mut self, dotted: &str) {
        self.drop(&oid(dotted));
    }

    fn drop(&mut self, oid: &[u8]) {
        self.extensions.retain(|extension| extension.oid != oid);
    }
}

/// A CA: its name, its key, and a certificate for it.
pub struct Authority {
    pub name: Vec<u8>,
    pub signer: Signer,
    pub der: Vec<u8>,
}

impl Authority {
    /// A root.
    pub fn root(common_name: &str, signer: Signer) -> Authority {
        let name = example(common_name);
        let der = Authority::parts(&name, &name, &signer.key).signed_by(&signer);
        Authority { name, signer, der }
    }

    /// A CA under another.
    pub fn under(issuer: &Authority, common_name: &str) -> Authority {
        Authority::under_with(issuer, common_name, Signer::p256(), |_| ())
    }

    pub fn under_with(
        issuer: &Authority,
        common_name: &str,
        signer: Signer,
        change: impl FnOnce(&mut Parts),
    ) -> Authority {
        let name = example(common_name);
        let mut parts = Authority::parts(&issuer.name, &name, &signer.key);
        change(&mut parts);
        Authority {
            der: parts.signed_by(&issuer.signer),
            name,
            signer,
        }
    }

    pub fn parts(issuer: &[u8], subject: &[u8], key: &[u8]) -> Parts {
        Parts {
            version: explicit(0, &[&integer(&[2])]),
            serial: integer(&[0x4D, 0x15]),
            algorithm: None,
            issuer: issuer.to_vec(),
            validity: sequence(&[&utc_time("200101000000Z"), &utc_time("450101000000Z")]),
            subject: subject.to_vec(),
            key: key.to_vec(),
            unique_ids: Vec::new(),
            extensions: vec![authority(None), key_usage(0x06)],
            instead_of_extensions: None,
            behind: Vec::new(),
        }
    }

    /// A device's certificate with nothing odd about it.
    pub fn device(&self, key: &[u8]) -> Parts {
        Parts {
            version: explicit(0, &[&integer(&[2])]),
            serial: integer(&[&[0x12][..], &[0xA7; 15]].concat()),
            algorithm: None,
            issuer: self.name.clone(),
            validity: sequence(&[&utc_time("261015080000Z"), &utc_time("271015080000Z")]),
            subject: example("laptop-7"),
            key: key.to_vec(),
            unique_ids: Vec::new(),
            extensions: vec![
                key_usage(0x80),
                extended_key_usage(&[CLIENT_AUTH]),
                alternative_names(&[dns("laptop-7.example.com")]),
            ],
            instead_of_extensions: None,
            behind: Vec::new(),
        }
    }
}

/// `/C=GB/O=Example/CN=…`
pub fn example(common_name: &str) -> Vec<u8> {
    name(&[
        attribute(COUNTRY, &printable("GB")),
        attribute(ORGANISATION, &utf8("Example")),
        attribute(COMMON_NAME, &utf8(common_name)),
    ])
}

/// A subject with one common name as it is encoded.
pub fn common_name(value: &[u8]) -> Vec<u8> {
    name(&[attribute(COMMON_NAME, value)])
}

/// Runs openssl on what it is to read, and returns what it wrote.
pub fn openssl(arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let mut process = Command::new("openssl")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    process.stdin.take().unwrap().write_all(input).unwrap();
    let output = process.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "openssl {}: {said}", arguments.join(" "));
    output.stdout
}
