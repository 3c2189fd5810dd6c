//! The alert for a refusal that falls after the handshake, which rustls has no way to send.
//!
//! "If the peer's authentication is unsuccessful, the EAP server SHOULD send ... a TLS record containing the
//! appropriate TLS alert message" (RFC 5216, 2.1.3; RFC 9190, 2.1.4, makes it a MUST). By then the client's Finished
//! was verified and whatever rustls has queued (TLS 1.2: ChangeCipherSpec and Finished; TLS 1.3: tickets) has not
//! left, and never will.

use aws_lc_rs::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use rustls::{AlertDescription, ConnectionTrafficSecrets};

use super::TlsVersion;

const ALERT: u8 = 0x15;
const APPLICATION_DATA: u8 = 0x17;
const FATAL: u8 = 0x02;
/// What both versions write into a record's header.
const LEGACY_VERSION: [u8; 2] = [0x03, 0x03];

/// A record with the fatal alert `description`, from the server to the supplicant, before anything else that was
/// queued: in TLS 1.2 in clear, since our ChangeCipherSpec has not left; in TLS 1.3 sealed as the first record
/// (sequence number 0) under the server's traffic key. `None` if the key is of a kind unknown here.
pub(crate) fn first_record(
    version: TlsVersion,
    description: AlertDescription,
    secrets: Option<&ConnectionTrafficSecrets>,
) -> Option<Vec<u8>> {
    let description = u8::from(description);
    match version {
        TlsVersion::V12 => {
            let [major, minor] = LEGACY_VERSION;
            Some(vec![ALERT, major, minor, 0, 2, FATAL, description])
        }
        TlsVersion::V13 => seal(secrets?, &[FATAL, description, ALERT]),
    }
}

/// The alert protocol_version, in a record that a supplicant of that old version understands.
pub(crate) fn outdated_version([major, minor]: [u8; 2]) -> Vec<u8> {
    vec![
        ALERT,
        major,
        minor,
        0,
        2,
        FATAL,
        u8::from(AlertDescription::ProtocolVersion),
    ]
}

/// The alert in the last of these records, where that is one in clear.
pub(crate) fn in_clear(records: &[u8]) -> Option<AlertDescription> {
    match records.last_chunk::<7>()? {
        [ALERT, 3, _, 0, 2, FATAL, description] => Some(AlertDescription::from(*description)),
        _ => None,
    }
}

/// TLSCiphertext with sequence number 0: the nonce is the IV itself, the header the additional data (RFC 8446, 5.2).
fn seal(secrets: &ConnectionTrafficSecrets, inner: &[u8]) -> Option<Vec<u8>> {
    let (algorithm, key, iv) = match secrets {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&aead::AES_128_GCM, key, iv),
        ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&aead::AES_256_GCM, key, iv),
        ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&aead::CHACHA20_POLY1305, key, iv),
        _ => return None,
    };
    let key = LessSafeKey::new(UnboundKey::new(algorithm, key.as_ref()).ok()?);
    let nonce = Nonce::try_assume_unique_for_key(iv.as_ref()).ok()?;
    let length = u16::try_from(inner.len() + algorithm.tag_len()).ok()?.to_be_bytes();
    let mut record = vec![APPLICATION_DATA];
    record.extend(LEGACY_VERSION);
    record.extend(length);
    let mut sealed = inner.to_vec();
    key.seal_in_place_append_tag(nonce, Aad::from(record.as_slice()), &mut sealed)
        .ok()?;
    record.extend(sealed);
    Some(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_tls_12_the_alert_leaves_in_clear() {
        let record = first_record(TlsVersion::V12, AlertDescription::AccessDenied, None);
        assert_eq!(record.as_deref(), Some(&[0x15, 3, 3, 0, 2, 2, 0x31][..]));
        assert_eq!(
            record.and_then(|record| in_clear(&record)),
            Some(AlertDescription::AccessDenied)
        );
        assert_eq!(
            first_record(TlsVersion::V13, AlertDescription::AccessDenied, None),
            None
        );
    }
}
