//! The file with the secrets that seal tickets: one in each line, the first seals, every one opens.

use std::path::Path;
use std::sync::Arc;

use super::TrustError;
use super::pem;
use crate::eap::tls::ticket::TicketKeys;

/// A text that is shorter is guessed.
const CHARACTERS_MIN: usize = 32;
/// Each is one more that opens tickets; a rotation needs two.
const SECRETS_MAX: usize = 16;

/// Reads the secrets. Empty lines, and those that begin with `#`, are for people.
///
/// # Errors
/// A file that cannot be read or holds no secret; a secret that is too short; too many.
pub(super) fn load(path: &Path) -> Result<Arc<TicketKeys>, TrustError> {
    let octets = pem::read(path)?;
    let lines = octets
        .split(|octet| *octet == b'\n')
        .map(<[u8]>::trim_ascii)
        .enumerate();
    let secrets: Vec<(usize, &[u8])> = lines
        .map(|(index, line)| (index + 1, line))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with(b"#"))
        .collect();
    let wrong = |line: usize, what: String| TrustError::TicketKeys {
        path: path.to_owned(),
        line,
        what,
    };
    if secrets.is_empty() {
        return Err(wrong(1, "there is no secret in the file".to_owned()));
    }
    if let Some((line, secret)) = secrets.iter().find(|(_, secret)| secret.len() < CHARACTERS_MIN) {
        let what = format!("a secret of {} characters, fewer than {CHARACTERS_MIN}", secret.len());
        return Err(wrong(*line, what));
    }
    if let Some((line, _)) = secrets.get(SECRETS_MAX) {
        return Err(wrong(*line, format!("more than {SECRETS_MAX} secrets")));
    }
    let keys = TicketKeys::new(secrets.iter().map(|(_, secret)| *secret));
    keys.map(Arc::new).map_err(|_| TrustError::Cryptography)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const ONE: &str = "8f0c7d3e5b2a49168f0c7d3e5b2a49168f0c7d3e5b2a49168f0c7d3e5b2a4916";

    fn loaded(text: &str) -> Result<String, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ticket.keys");
        fs::write(&path, text).unwrap();
        let loaded = load(&path).map(|keys| format!("{keys:?}"));
        loaded.map_err(|error| error.to_string().replace(&path.display().to_string(), "FILE"))
    }

    #[test]
    fn a_secret_is_a_line() {
        assert_eq!(loaded(ONE).as_deref(), Ok("TicketKeys(1)"));
        let text = format!("# since May\r\n  {ONE}  \r\n\n{}", "x".repeat(CHARACTERS_MIN));
        assert_eq!(loaded(&text).as_deref(), Ok("TicketKeys(2)"));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line_and_without_the_secret() {
        let many = format!("{ONE}\n").repeat(SECRETS_MAX + 1);
        for (text, expected) in [
            ("", "`FILE` line 1: there is no secret in the file"),
            ("# nothing\n", "`FILE` line 1: there is no secret in the file"),
            (
                &format!("{ONE}\nshort\n"),
                "`FILE` line 2: a secret of 5 characters, fewer than 32",
            ),
            (&many, "`FILE` line 17: more than 16 secrets"),
        ] {
            let error = loaded(text).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
            assert!(error.contains("\nhint: ") && !error.contains("short\n"), "{error}");
        }
    }
}
