//! The client's side of a reply: is it genuine, and what keys does it bring. For the load client, the probe and tests.
//!
//! RFC 2865 section 3 and RFC 3579 section 3.2 for the authenticators, RFC 2548 section 2.4 for the keys. Hidden attributes other than the
//! keys are read by `attribute`.

use zeroize::Zeroizing;

use super::attribute::container::{split_vendor, vendor_attributes};
use super::code::Code;
use super::crypto::{self, MessageAuthenticator, Secret};
use super::dictionary::types::VendorFormat;
use super::packet::{Packet, PacketError, number};
use super::writer::{MICROSOFT, MS_MPPE_RECV_KEY, MS_MPPE_SEND_KEY};

/// A reply that was made with the shared secret for the request it was checked against.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// The packet.
    pub packet: Packet<'a>,
    /// Whether its first attribute is Message-Authenticator (a valid one); servers of old send none, or elsewhere.
    pub message_authenticator_first: bool,
    /// Whether it has a Message-Authenticator at all. An invalid one is an error.
    pub message_authenticator: bool,
}

/// Why a datagram is no genuine reply to the request. RFC 2865 section 3: it is silently discarded, and a genuine one may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// It is no well-formed packet.
    #[error(transparent)]
    Packet(#[from] PacketError),
    /// Its code is none of a reply.
    #[error("{0} is no reply")]
    NotAReply(Code),
    /// It answers another request.
    #[error("the reply's identifier is {received}, the request's was {sent}")]
    Identifier {
        /// The request's.
        sent: u8,
        /// The reply's.
        received: u8,
    },
    /// The response authenticator is wrong.
    #[error("the response authenticator does not verify")]
    ResponseAuthenticator,
    /// Message-Authenticator is wrong.
    #[error("the reply's Message-Authenticator does not verify")]
    MessageAuthenticator,
    /// RFC 3579 section 3.2: it "MUST be used in any … Access-Accept, Access-Reject or Access-Challenge that includes an
    /// EAP-Message attribute".
    #[error("the reply has EAP-Message and no Message-Authenticator")]
    UnsignedEap,
}

/// The session keys of an Access-Accept, as the NAS gets them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MppeKeys {
    /// MS-MPPE-Recv-Key: the first half of the MSK.
    pub recv_key: Zeroizing<Vec<u8>>,
    /// MS-MPPE-Send-Key: the second half.
    pub send_key: Zeroizing<Vec<u8>>,
}

/// What is wrong with the keys of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// One of the two is missing or there are several.
    #[error("the reply has {recv_keys} MS-MPPE-Recv-Key and {send_keys} MS-MPPE-Send-Key: one of each belongs there")]
    Count {
        /// How many.
        recv_keys: usize,
        /// How many.
        send_keys: usize,
    },
    /// It cannot be revealed.
    #[error("an MS-MPPE key is not hidden as RFC 2548 says, or with another secret")]
    Hidden,
    /// RFC 2548 section 2.4.2: "The most significant bit (leftmost) of the Salt field MUST be set (1)."
    #[error("the salt of an MS-MPPE key has its high bit clear")]
    Salt,
    /// "The contents of each Salt field in a given Access-Accept packet MUST be unique."
    #[error("both MS-MPPE keys have the same salt")]
    SameSalt,
}

/// Checks a datagram against the request that had `identifier` and `request_authenticator`.
pub fn verify<'a>(
    datagram: &'a [u8],
    identifier: u8,
    request_authenticator: &[u8; 16],
    secret: &Secret,
) -> Result<Reply<'a>, ReplyError> {
    let packet = Packet::parse(datagram)?;
    if !packet.code().is_reply() {
        return Err(ReplyError::NotAReply(packet.code()));
    }
    if packet.identifier() != identifier {
        return Err(ReplyError::Identifier {
            sent: identifier,
            received: packet.identifier(),
        });
    }
    let (is_response, verdict) = crypto::verify_reply(&packet, request_authenticator, secret);
    if !is_response {
        return Err(ReplyError::ResponseAuthenticator);
    }
    match verdict {
        MessageAuthenticator::Invalid => return Err(ReplyError::MessageAuthenticator),
        MessageAuthenticator::Absent if packet.first(number::EAP_MESSAGE).is_some() => {
            return Err(ReplyError::UnsignedEap);
        }
        MessageAuthenticator::Absent | MessageAuthenticator::Valid => {}
    }
    let first = packet.attributes().next().map(|attribute| attribute.number);
    Ok(Reply {
        packet,
        message_authenticator_first: first == Some(number::MESSAGE_AUTHENTICATOR),
        message_authenticator: verdict == MessageAuthenticator::Valid,
    })
}

/// The MS-MPPE keys of a reply; `None` when it has neither.
pub fn mppe_keys(
    packet: &Packet<'_>,
    request_authenticator: &[u8; 16],
    secret: &Secret,
) -> Result<Option<MppeKeys>, KeyError> {
    let (mut recv, mut send) = (Vec::new(), Vec::new());
    let microsoft = packet
        .all(number::VENDOR_SPECIFIC)
        .filter_map(split_vendor)
        .filter(|(vendor, _)| *vendor == MICROSOFT);
    for attribute in microsoft.flat_map(|(_, octets)| vendor_attributes(VendorFormat::STANDARD, octets)) {
        match attribute.octets {
            Some(hidden) if attribute.number == u32::from(MS_MPPE_RECV_KEY) => recv.push(hidden),
            Some(hidden) if attribute.number == u32::from(MS_MPPE_SEND_KEY) => send.push(hidden),
            _ => {}
        }
    }
    let (&[recv], &[send]) = (&*recv, &*send) else {
        return match (recv.len(), send.len()) {
            (0, 0) => Ok(None),
            (recv_keys, send_keys) => Err(KeyError::Count { recv_keys, send_keys }),
        };
    };
    if [recv, send]
        .iter()
        .any(|hidden| hidden.first().is_some_and(|octet| octet & 0x80 == 0))
    {
        return Err(KeyError::Salt);
    }
    if recv.get(..2) == send.get(..2) {
        return Err(KeyError::SameSalt);
    }
    let reveal = |hidden| crypto::reveal_tunnel_password(hidden, secret, request_authenticator).ok_or(KeyError::Hidden);
    Ok(Some(MppeKeys {
        recv_key: reveal(recv)?,
        send_key: reveal(send)?,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::radius::crypto::Salts;
    use crate::radius::writer::Writer;
    use proptest::prelude::*;

    const AUTHENTICATOR: [u8; 16] = [0x5A; 16];

    fn accept(secret: &Secret, write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = Writer::reply(&mut out, Code::AccessAccept, 9, secret, &AUTHENTICATOR);
        write(&mut writer);
        writer.finish().unwrap();
        out
    }

    fn keys(octets: &[u8], secret: &Secret) -> Result<Option<MppeKeys>, KeyError> {
        mppe_keys(&Packet::parse(octets).unwrap(), &AUTHENTICATOR, secret)
    }

    #[test]
    fn a_reply_is_checked_whole() {
        let secret = Secret::new(b"testing123");
        let octets = accept(&secret, |writer| _ = writer.eap_message(&[3, 1, 0, 4]));
        let reply = verify(&octets, 9, &AUTHENTICATOR, &secret).unwrap();
        assert!(reply.message_authenticator && reply.message_authenticator_first);
        let wrong_secret = Secret::new(b"testing124");
        assert_eq!(
            verify(&octets, 9, &AUTHENTICATOR, &wrong_secret).unwrap_err(),
            ReplyError::ResponseAuthenticator
        );
        let wrong_identifier = verify(&octets, 8, &AUTHENTICATOR, &secret).unwrap_err();
        assert_eq!(wrong_identifier, ReplyError::Identifier { sent: 8, received: 9 });
        assert_eq!(
            verify(&octets, 9, &[0; 16], &secret).unwrap_err(),
            ReplyError::ResponseAuthenticator
        );

        // Message-Authenticator broken or gone, the response authenticator made anew.
        let resign = |mut octets: Vec<u8>| {
            let length = (octets.len() as u16).to_be_bytes();
            octets[2..4].copy_from_slice(&length);
            let authenticator = crypto::response_authenticator(&octets, &AUTHENTICATOR, &secret);
            octets[4..20].copy_from_slice(&authenticator);
            octets
        };
        let mut broken = octets.clone();
        broken[22] ^= 1;
        let broken = resign(broken);
        assert_eq!(
            verify(&broken, 9, &AUTHENTICATOR, &secret).unwrap_err(),
            ReplyError::MessageAuthenticator
        );
        let unsigned = resign([&octets[..20], &octets[38..]].concat());
        assert_eq!(
            verify(&unsigned, 9, &AUTHENTICATOR, &secret).unwrap_err(),
            ReplyError::UnsignedEap
        );
        let bare = resign(octets[..20].to_vec());
        assert!(!verify(&bare, 9, &AUTHENTICATOR, &secret).unwrap().message_authenticator);
        let request = resign([&[1], &octets[1..]].concat());
        assert_eq!(
            verify(&request, 9, &AUTHENTICATOR, &secret).unwrap_err(),
            ReplyError::NotAReply(Code::AccessRequest)
        );
    }

    #[test]
    fn the_keys_of_a_reply_are_checked() {
        let secret = Secret::new(b"testing123");
        let hidden = |salt: [u8; 2]| {
            let mut out = Vec::new();
            crypto::hide_tunnel_password(&[7; 32], salt, &secret, &AUTHENTICATOR, &mut out).unwrap();
            out
        };
        assert_eq!(keys(&accept(&secret, |_| ()), &secret), Ok(None));
        let one = accept(&secret, |writer| _ = writer.vendor(311, 16, &hidden([0x80, 0])));
        assert_eq!(
            keys(&one, &secret),
            Err(KeyError::Count {
                recv_keys: 0,
                send_keys: 1
            })
        );
        let low = accept(&secret, |writer| {
            writer
                .vendor(311, 16, &hidden([0x00, 1]))
                .vendor(311, 17, &hidden([0x80, 1]));
        });
        assert_eq!(keys(&low, &secret), Err(KeyError::Salt));
        let same = accept(&secret, |writer| {
            writer
                .vendor(311, 16, &hidden([0x80, 1]))
                .vendor(311, 17, &hidden([0x80, 1]));
        });
        assert_eq!(keys(&same, &secret), Err(KeyError::SameSalt));
        let short = accept(&secret, |writer| {
            writer
                .vendor(311, 16, &[0x80, 2, 1])
                .vendor(311, 17, &hidden([0x80, 1]));
        });
        assert_eq!(keys(&short, &secret), Err(KeyError::Hidden));
        let twice = accept(&secret, |writer| {
            let keys = [
                &[0, 0, 1, 55, 16, 52][..],
                &hidden([0x80, 1]),
                &[17, 52],
                &hidden([0x80, 2]),
            ]
            .concat();
            writer.attribute(26, &keys);
        });
        assert!(keys(&twice, &secret).unwrap().is_some(), "both in one Vendor-Specific");
    }

    proptest! {
        #[test]
        fn what_is_signed_verifies(
            msk in proptest::collection::vec(any::<u8>(), 64),
            eap in proptest::collection::vec(any::<u8>(), 0..1500),
            secret: Vec<u8>,
            salt: [u8; 2],
        ) {
            let secret = Secret::new(&secret);
            let octets = accept(&secret, |writer| {
                let mut salts = Salts::new(&mut |octets| octets.copy_from_slice(&salt));
                writer.eap_message(&eap).mppe_keys(&msk[..32], &msk[32..], &mut salts);
            });
            let reply = verify(&octets, 9, &AUTHENTICATOR, &secret).unwrap();
            prop_assert_eq!(&*reply.packet.eap_message().unwrap(), &eap[..]);
            let keys = mppe_keys(&reply.packet, &AUTHENTICATOR, &secret).unwrap().unwrap();
            prop_assert_eq!(&keys.recv_key[..], &msk[..32]);
            prop_assert_eq!(&keys.send_key[..], &msk[32..]);
        }
    }
}
