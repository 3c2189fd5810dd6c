//! MD5-Challenge (RFC 3748, 5.4; the arithmetic is CHAP's, RFC 1994, 4.1).
//!
//! Only for MAC authentication. Whether a password is right is asked of `mab`; here is the wire.

use md5::{Digest, Md5};

/// Octets of a challenge, of our making.
pub const CHALLENGE_OCTETS: usize = 16;
/// Octets of a response: one MD5 digest.
pub const RESPONSE_OCTETS: usize = 16;

/// A response's value and the name after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Md5Data<'a> {
    /// Challenge or digest.
    pub value: &'a [u8],
    /// Who says so; often empty.
    pub name: &'a [u8],
}

impl<'a> Md5Data<'a> {
    /// Reads the data after the type: Value-Size, Value, Name. `None` when the size is zero or exceeds what is there.
    pub fn parse(data: &'a [u8]) -> Option<Md5Data<'a>> {
        let (&size, rest) = data.split_first()?;
        let (value, name) = rest.split_at_checked(usize::from(size))?;
        (!value.is_empty()).then_some(Md5Data { value, name })
    }
}

/// What a supplicant answers: MD5 over identifier, password, challenge.
pub fn response(identifier: u8, password: &[u8], challenge: &[u8]) -> [u8; RESPONSE_OCTETS] {
    let mut digest = Md5::new();
    digest.update([identifier]);
    digest.update(password);
    digest.update(challenge);
    digest.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_size_is_checked() {
        assert_eq!(
            Md5Data::parse(&[2, 1, 2, b'n']),
            Some(Md5Data {
                value: &[1, 2],
                name: b"n"
            })
        );
        assert_eq!(Md5Data::parse(&[3, 1, 2]), None);
        assert_eq!(Md5Data::parse(&[0, 1]), None);
        assert_eq!(Md5Data::parse(&[]), None);
    }

    #[test]
    fn the_digest_is_over_identifier_password_challenge() {
        // printf '\x01secretchallenge' | md5sum
        let digest = 0x46e4_7770_030e_2b4e_26a0_db72_a7ef_ec00_u128.to_be_bytes();
        assert_eq!(response(1, b"secret", b"challenge"), digest);
    }
}
