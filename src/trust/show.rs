//! Certificates of a file as people and as policies see them: `portreeve cert show`.

use std::fmt::Write;
use std::path::Path;

use super::authorities::{Read, certificates};
use super::certificate::Certificate;
use super::error::TrustError;
use super::facts::{Fact, FactIds, Role, each};
use super::summary::Summary;
use crate::policy::text::quote;
use crate::radius::dictionary::Dictionary;

/// The certificates of a PEM file one after another: what each says, then its facts under their names in `dictionary`:
/// of a device's certificate `TLS-Client-Cert-*`, of a CA's `TLS-Cert-*`, each as a rule that holds for it. Ends in a
/// line feed.
///
/// # Errors
/// A file that cannot be read, or holds no certificate.
pub fn show(path: &Path, dictionary: &Dictionary) -> Result<String, TrustError> {
    let ids = FactIds::new(dictionary);
    let mut out = String::new();
    for Read { der, path, line } in certificates(path)? {
        let certificate = match Certificate::parse(&der) {
            Ok(certificate) => certificate,
            Err(source) => return Err(TrustError::Certificate { path, line, source }),
        };
        if !out.is_empty() {
            out.push('\n');
        }
        let _ = writeln!(out, "{} line {line}", path.display());
        for text in Summary::from_certificate(&certificate, &der).to_string().lines() {
            let _ = writeln!(out, "  {text}");
        }
        let (role, label) = if certificate.is_ca {
            (
                Role::Issuer,
                "rules that hold for devices with a certificate of this CA",
            )
        } else {
            (Role::Client, "rules that hold for a device with this certificate")
        };
        let _ = writeln!(out, "  {label}:");
        for fact in Fact::ALL.into_iter().filter(|fact| ids.has(role, *fact)) {
            each(&certificate, &der, fact, |value| {
                let name = format!("{}{}", role.prefix(), fact.suffix());
                let _ = match value {
                    Some(text) => writeln!(out, "    {name} == {}", quote(&text)),
                    None => writeln!(out, "    {name} is malformed: no rule on it holds"),
                };
            });
        }
    }
    Ok(out)
}
