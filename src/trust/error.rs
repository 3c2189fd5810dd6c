//! Why a set of certificates was not loaded: which file, which line, and what to do.

use std::io;
use std::path::PathBuf;

use super::der::Malformed;
use super::settings::{DEFAULT_NAME, Settings};

/// Why a set of certificates was not loaded. Nothing of it is in force then: a set that was loaded before stays.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// A file or folder could not be read.
    #[error("cannot read `{}`: {source}\nhint: {}", path.display(), read_hint(source))]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Binary where text is expected.
    #[error("`{}` is DER, not PEM\nhint: `openssl x509 -inform der -in FILE -out FILE.pem` writes a certificate as PEM, `openssl pkey -inform der` a key", path.display())]
    NotPem {
        /// The file.
        path: PathBuf,
    },
    /// The file is not well-formed PEM.
    #[error("`{}` line {line}: {what}\nhint: copy the file again; each block begins with `-----BEGIN` and ends with `-----END`", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// Where, from 1.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// A block that should be a certificate is none.
    #[error("`{}` line {line}: {source}\nhint: `openssl x509 -in FILE -noout -text` shows what another reader makes of it", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// Where its block begins.
        line: usize,
        /// Which part.
        source: Malformed,
    },
    /// A file without a certificate.
    #[error("`{}` holds no certificate\nhint: a certificate's block begins with `-----BEGIN CERTIFICATE-----`", path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// More certificates than make sense.
    #[error("`{}` and the files before it hold more than {most} certificates\nhint: name only the CAs that issue certificates to your own devices", path.display())]
    TooManyCertificates {
        /// The file that was one too many.
        path: PathBuf,
        /// The bound.
        most: usize,
    },
    /// A file without a private key.
    #[error("`{}` holds no private key\nhint: a key's block begins with `-----BEGIN PRIVATE KEY-----`; `private_key` names its file", path.display())]
    NoKey {
        /// The file.
        path: PathBuf,
    },
    /// A file with more than one private key.
    #[error("`{}` line {line}: a second private key\nhint: leave only the one that belongs to the certificate", path.display())]
    SeveralKeys {
        /// The file.
        path: PathBuf,
        /// Where the second begins.
        line: usize,
    },
    /// A key under OpenSSL's old encryption, which derives its key by one round of MD5.
    #[error("`{}` line {line}: the key is encrypted in the old format (`Proc-Type: 4,ENCRYPTED`)\nhint: convert it: `openssl pkcs8 -topk8 -v2 aes-256-cbc -in OLD -out NEW`", path.display())]
    OldKeyEncryption {
        /// The file.
        path: PathBuf,
        /// Where the key begins.
        line: usize,
    },
    /// An encrypted key, and no passphrase.
    #[error("`{}` line {line}: the key is encrypted\nhint: name the file with its passphrase: `private_key_passphrase_file`", path.display())]
    PassphraseMissing {
        /// The key's file.
        path: PathBuf,
        /// Where the key begins.
        line: usize,
    },
    /// The passphrase does not open the key.
    #[error("`{}` line {line}: the first line of `{}` is not the key's passphrase\nhint: try it: `openssl pkey -in KEY -passin file:PASSPHRASE -noout`", path.display(), passphrase_file.display())]
    PassphraseWrong {
        /// The key's file.
        path: PathBuf,
        /// Where the key begins.
        line: usize,
        /// The passphrase's file.
        passphrase_file: PathBuf,
    },
    /// The file of the passphrase has an empty first line.
    #[error("the first line of `{}` is empty\nhint: it is to hold the passphrase of `private_key`", path.display())]
    PassphraseEmpty {
        /// The passphrase's file.
        path: PathBuf,
    },
    /// A key that cannot be used.
    #[error("`{}` line {line}: the private key cannot be used: {what}\nhint: `openssl pkcs8 -topk8 -v2 aes-256-cbc` writes a key in the format that is read here; its kind must be P-256, P-384, P-521, RSA of 2,048 bits or more, or Ed25519", path.display())]
    KeyUnusable {
        /// The file.
        path: PathBuf,
        /// Where the key begins.
        line: usize,
        /// Why.
        what: String,
    },
    /// Certificate and key are not a pair.
    #[error("no certificate in `{}` belongs to the private key in `{}`\nhint: `openssl pkey -in KEY -pubout` and `openssl x509 -in CERTIFICATE -noout -pubkey` print the same for a pair; were both files renewed?", certificate.display(), private_key.display())]
    KeyMismatch {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's.
        private_key: PathBuf,
    },
    /// A certificate among the client CAs that is no CA's.
    #[error("`{}` line {line}: `{subject}` is no CA: {why}\nhint: `client_ca` names the CAs that issue the devices' certificates, not the certificates", path.display())]
    NotAnAuthority {
        /// The file.
        path: PathBuf,
        /// Where its block begins.
        line: usize,
        /// Whose it is.
        subject: String,
        /// Which extension says so.
        why: &'static str,
    },
    /// No certificate for the server at all.
    #[error(
        "`certificate` names no file\nhint: name the file with the server's certificate, and in `private_key` the one with its key"
    )]
    NoServerCertificate,
    /// No client CA at all.
    #[error(
        "`client_ca` names no CA\nhint: without one no device can be authenticated by certificate; name the file with the CA that issues them"
    )]
    NoAuthority,
    /// The file of the secrets that seal tickets is not one.
    #[error("`{}` line {line}: {what}\nhint: each line of `ticket_keys_file` is a secret, the one in use first: `openssl rand -hex 32` makes one", path.display())]
    TicketKeys {
        /// The file.
        path: PathBuf,
        /// Where, from 1.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// The cryptographic library has failed.
    #[error("the cryptographic library failed\nhint: it has no randomness; see the system's log")]
    Cryptography,
    /// In a reload: the new server certificate is not valid now, while the one in force is.
    #[error("`{}`: the new server certificate is valid from {from} until {until}, which is not now\nhint: the one before it stays in force until the next reload; check the file, and this machine's clock", path.display())]
    NotValidNow {
        /// The certificate's file.
        path: PathBuf,
        /// When it begins.
        from: String,
        /// When it ends.
        until: String,
    },
}

/// A set that was not loaded, and whose it is.
#[derive(Debug, thiserror::Error)]
#[error("{}{error}", of_profile(profile.as_deref()))]
pub struct SetError {
    /// The profile's name; none for the default.
    pub profile: Option<String>,
    /// Why.
    pub error: TrustError,
}

impl SetError {
    /// The error of the set with these settings.
    pub fn of(settings: &Settings, error: TrustError) -> SetError {
        let profile = (settings.name != DEFAULT_NAME).then(|| settings.name.clone());
        SetError { profile, error }
    }
}

fn of_profile(name: Option<&str>) -> String {
    name.map_or_else(String::new, |name| format!("profile `{name}`: "))
}

fn read_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => {
            "correct the path in `[eap.tls]`; a relative one counts from the configuration's folder"
        }
        io::ErrorKind::PermissionDenied => "let the user that runs portreeve read it",
        io::ErrorKind::IsADirectory => "name a file",
        _ => "see that it is a readable file",
    }
}
