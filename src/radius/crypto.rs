//! Everything that is computed with the shared secret: authenticators (RFC 2865 section 3, RFC 2866 section 3, RFC 5176
//! section 2.3), Message-Authenticator (RFC 3579 section 3.2), hidden attributes (RFC 2865 section 5.2, RFC 2868 section 3.5,
//! RFC 2548 section 2.4.2) and CHAP (RFC 2865 section 2.2).
//!
//! MD5 is what the protocol has. Where a result is compared with one from the network, the comparison takes the same time
//! whatever differs.

use std::array::from_fn;
use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use md5::{Digest, Md5};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

pub use super::md5::AT_ONCE;
use super::md5::{BLOCK_OCTETS, Message, Pieces, State, digests};
use super::packet::{HEADER_OCTETS, Packet, number};

/// A shared secret, or another secret of octets. Never shown, wiped when dropped, compared in constant time.
#[derive(Clone)]
pub struct Secret {
    octets: Zeroizing<Box<[u8]>>,
    /// HMAC-MD5's two digests with the key's block behind them: half the work of a short packet.
    keyed: Keyed,
}

/// RFC 2104 section 2: the digests over "K XOR ipad" and "K XOR opad", to be gone on with.
#[derive(Clone)]
struct Keyed {
    inner: State,
    outer: State,
}

/// What a packet's Message-Authenticator is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageAuthenticator {
    /// There is none.
    Absent,
    /// There is exactly one and it was made with this secret.
    Valid,
    /// It was not; or its length is not 16, or there are several.
    Invalid,
}

/// A value cannot be hidden: it is too long for its method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{octets} octets cannot be hidden: at most {most} can")]
pub struct TooLongToHide {
    /// Octets of the value.
    pub octets: usize,
    /// The most the method takes.
    pub most: usize,
}

/// The longest User-Password.
pub const MAX_USER_PASSWORD_OCTETS: usize = 128;

/// The longest value that RFC 2868's method hides in one attribute with a tag: 253 octets hold tag, salt and 15 blocks,
/// the first octet of which is the length.
pub const MAX_TUNNEL_PASSWORD_OCTETS: usize = 239;

impl Secret {
    /// Takes a copy of `octets`. An empty secret is possible, and refusing one is the configuration's business.
    pub fn new(octets: &[u8]) -> Secret {
        // RFC 2104 section 2: a key longer than a block is digested, a shorter one padded with zeros.
        let mut key = Zeroizing::new([0; BLOCK_OCTETS]);
        match key.get_mut(..octets.len()) {
            Some(start) => start.copy_from_slice(octets),
            None => key
                .iter_mut()
                .zip(Md5::digest(octets))
                .for_each(|(place, octet)| *place = octet),
        }
        let after = |pad: u8| State::after(&Zeroizing::new(key.map(|octet| octet ^ pad)));
        let keyed = Keyed {
            inner: after(0x36),
            outer: after(0x5c),
        };
        Secret {
            octets: Zeroizing::new(octets.into()),
            keyed,
        }
    }

    /// The secret itself, for those who must compute with it or store it.
    pub fn expose(&self) -> &[u8] {
        &self.octets
    }

    /// Whether `octets` are the secret, in constant time for those of equal length.
    pub fn is(&self, octets: &[u8]) -> bool {
        verify_slices_are_equal(&self.octets, octets).is_ok()
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Secret) -> bool {
        self.is(&other.octets)
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Checks the Message-Authenticator of a request: [`verify_message_authenticators`].
pub fn verify_message_authenticator(request: &Packet<'_>, secret: &Secret) -> MessageAuthenticator {
    let [verdict, ..] = verify_message_authenticators([Some((request, secret)), None, None]);
    verdict
}

/// Checks the Message-Authenticators of several requests, in the time of one. Where there is none, it is absent.
///
/// RFC 3579 section 3.2: HMAC-MD5 over the packet, the attribute's own value taken as zeros. RFC 5176 section 3.4: in
/// requests whose authenticator is computed that counts as zeros too.
pub fn verify_message_authenticators(
    requests: [Option<(&Packet<'_>, &Secret)>; AT_ONCE],
) -> [MessageAuthenticator; AT_ONCE] {
    let found = requests.map(|request| request.map_or(Found::No, |(packet, _)| find_message_authenticator(packet)));
    let signed: [_; AT_ONCE] = from_fn(|lane| match (found.get(lane), requests.get(lane)) {
        (Some(Found::One { offset, .. }), Some(Some((packet, secret)))) => {
            let authenticator = match packet.code().has_computed_authenticator() {
                true => &[0; 16],
                false => packet.authenticator(),
            };
            Some((*secret, signed(packet.as_bytes(), offset + 2, authenticator)?))
        }
        _ => None,
    });
    let macs = macs(signed);
    from_fn(|lane| match (found.get(lane), signed.get(lane), macs.get(lane)) {
        (Some(Found::One { value, .. }), Some(Some(_)), Some(mac)) if verify_slices_are_equal(mac, *value).is_ok() => {
            MessageAuthenticator::Valid
        }
        (Some(Found::No), ..) => MessageAuthenticator::Absent,
        _ => MessageAuthenticator::Invalid,
    })
}

/// Both authenticators of a reply to the request that had this one: whether the response authenticator was made with this
/// secret, and what Message-Authenticator is worth (RFC 3579 section 3.2: the request's authenticator stands in the place of
/// the reply's own). It takes less time than the one after the other.
pub fn verify_reply(
    reply: &Packet<'_>,
    request_authenticator: &[u8; 16],
    secret: &Secret,
) -> (bool, MessageAuthenticator) {
    let (octets, found) = (reply.as_bytes(), find_message_authenticator(reply));
    let signed = match found {
        Found::One { offset, .. } => signed(octets, offset + 2, request_authenticator),
        Found::No | Found::Malformed => None,
    };
    let [authenticator, inner, _] = digests([
        Some(response(octets, request_authenticator, secret)),
        signed.map(|pieces| Message::behind(&secret.keyed.inner, pieces)),
        None,
    ]);
    let is_response = verify_slices_are_equal(&authenticator, reply.authenticator()).is_ok();
    let found = match found {
        Found::No => MessageAuthenticator::Absent,
        Found::Malformed => MessageAuthenticator::Invalid,
        Found::One { value, .. } => {
            let outer = Message::behind(&secret.keyed.outer, [&inner, &[], &[], &[], &[]]);
            let [mac, ..] = digests([Some(outer), None, None]);
            match signed.is_some() && verify_slices_are_equal(&mac, value).is_ok() {
                true => MessageAuthenticator::Valid,
                false => MessageAuthenticator::Invalid,
            }
        }
    };
    (is_response, found)
}

/// Whether a packet has a Message-Authenticator.
#[derive(Clone, Copy)]
enum Found<'a> {
    No,
    One {
        offset: usize,
        value: &'a [u8; 16],
    },
    /// Several, or one of another length.
    Malformed,
}

fn find_message_authenticator<'a>(packet: &Packet<'a>) -> Found<'a> {
    let mut all = packet.all_raw(number::MESSAGE_AUTHENTICATOR);
    match (all.next(), all.next()) {
        (None, _) => Found::No,
        (Some(attribute), None) => match attribute.value.try_into() {
            Ok(value) => Found::One {
                offset: attribute.offset,
                value,
            },
            Err(_) => Found::Malformed,
        },
        (Some(_), Some(_)) => Found::Malformed,
    }
}

/// What Message-Authenticator is made of: the packet with `authenticator` as its own, and zeros for the sixteen octets at
/// `at`. `None` when that lies outside the attributes.
fn signed<'a>(packet: &'a [u8], at: usize, authenticator: &'a [u8; 16]) -> Option<Pieces<'a>> {
    Some([
        packet.get(..4)?,
        authenticator,
        packet.get(HEADER_OCTETS..at)?,
        &[0; 16],
        packet.get(at + 16..)?,
    ])
}

/// HMAC-MD5 (RFC 2104) of several messages, each with a key of its own, each in its place. Where there is none, what
/// stands there means nothing.
fn macs(messages: [Option<(&Secret, Pieces<'_>)>; AT_ONCE]) -> [[u8; 16]; AT_ONCE] {
    let inner = digests(messages.map(|message| {
        let (secret, pieces) = message?;
        Some(Message::behind(&secret.keyed.inner, pieces))
    }));
    digests(from_fn(|lane| {
        let ((secret, _), digest) = messages.get(lane).copied().flatten().zip(inner.get(lane))?;
        Some(Message::behind(&secret.keyed.outer, [digest, &[], &[], &[], &[]]))
    }))
}

/// The Message-Authenticator of a packet whose sixteen octets for it begin at `at` (they and the packet's authenticator
/// are not looked at). `None` when `at` lies outside the attributes.
pub fn message_authenticator(packet: &[u8], at: usize, secret: &Secret, authenticator: &[u8; 16]) -> Option<[u8; 16]> {
    let [mac, ..] = macs([Some((secret, signed(packet, at, authenticator)?)), None, None]);
    Some(mac)
}

/// Signs replies as [`super::writer::Writer::finish_unsigned`] leaves them, in the time of one: their authenticator is the
/// request's, and their first attribute a Message-Authenticator of zeros. RFC 3579 section 3.2: "The Message-Authenticator
/// is calculated and inserted in the packet before the Response Authenticator is calculated."
pub fn sign_replies(mut replies: [Option<(&mut [u8], &Secret)>; AT_ONCE]) {
    const AT: usize = HEADER_OCTETS + 2;
    let macs = macs(replies.each_ref().map(|reply| {
        let (packet, secret) = reply.as_ref()?;
        Some((*secret, [&**packet, &[], &[], &[], &[]]))
    }));
    for ((packet, _), mac) in replies
        .iter_mut()
        .zip(&macs)
        .filter_map(|(reply, mac)| Some((reply.as_mut()?, mac)))
    {
        put(packet, AT, mac);
    }
    let authenticators = digests(replies.each_ref().map(|reply| {
        let (packet, secret) = reply.as_ref()?;
        Some(Message::new([packet, secret.expose(), &[], &[], &[]]).secret())
    }));
    for (reply, authenticator) in replies.into_iter().zip(&authenticators) {
        if let Some((packet, _)) = reply {
            put(packet, 4, authenticator);
        }
    }
}

/// Writes these octets at a place of the packet that has them.
pub(super) fn put(packet: &mut [u8], at: usize, octets: &[u8]) {
    if let Some(place) = packet.get_mut(at..at + octets.len()) {
        place.copy_from_slice(octets);
    }
}

/// MD5 over code, identifier, length, `authenticator`, the attributes and the secret. With the request's authenticator
/// it is the response authenticator of a reply (RFC 2865 section 3); with zeros the request authenticator of
/// Accounting-Request, Disconnect-Request and CoA-Request (RFC 2866 section 3). `packet` is a whole one of at least 20
/// octets, of which 4 to 20 are not looked at.
pub fn response_authenticator(packet: &[u8], authenticator: &[u8; 16], secret: &Secret) -> [u8; 16] {
    let [digest, ..] = digests([Some(response(packet, authenticator, secret)), None, None]);
    digest
}

fn response<'m>(packet: &'m [u8], authenticator: &'m [u8; 16], secret: &'m Secret) -> Message<'m> {
    let start = packet.get(..4).unwrap_or_default();
    let attributes = packet.get(HEADER_OCTETS..).unwrap_or_default();
    Message::new([start, authenticator, attributes, secret.expose(), &[]]).secret()
}

/// Whether an Accounting-Request, Disconnect-Request or CoA-Request was made with this secret.
pub fn verify_request_authenticator(packet: &Packet<'_>, secret: &Secret) -> bool {
    let expected = response_authenticator(packet.as_bytes(), &[0; 16], secret);
    verify_slices_are_equal(&expected, packet.authenticator()).is_ok()
}

/// A password in the clear, wiped when dropped. At most 128 octets.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Password {
    octets: [u8; MAX_USER_PASSWORD_OCTETS],
    length: usize,
}

impl Password {
    /// The password.
    pub fn as_bytes(&self) -> &[u8] {
        self.octets.get(..self.length).unwrap_or_default()
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}

/// Hides a User-Password (RFC 2865 section 5.2), appending 16 to 128 octets to `out`.
pub fn hide_user_password(
    password: &[u8],
    secret: &Secret,
    authenticator: &[u8; 16],
    out: &mut Vec<u8>,
) -> Result<(), TooLongToHide> {
    if password.len() > MAX_USER_PASSWORD_OCTETS {
        return Err(TooLongToHide {
            octets: password.len(),
            most: MAX_USER_PASSWORD_OCTETS,
        });
    }
    let start = out.len();
    out.extend_from_slice(password);
    // "The password is first padded at the end with nulls to a multiple of 16 octets"; an empty one fills a block too.
    out.resize(start + password.len().next_multiple_of(16).max(16), 0);
    hide(out.get_mut(start..).unwrap_or_default(), secret, &[authenticator]);
    Ok(())
}

/// Reads a User-Password. `None` when it is not 16 to 128 octets in whole blocks. With a wrong secret the result is
/// noise: nothing in it says so.
pub fn reveal_user_password(hidden: &[u8], secret: &Secret, authenticator: &[u8; 16]) -> Option<Password> {
    if hidden.is_empty() || !hidden.len().is_multiple_of(16) {
        return None;
    }
    let mut password = Password {
        octets: [0; MAX_USER_PASSWORD_OCTETS],
        length: 0,
    };
    let place = password.octets.get_mut(..hidden.len())?;
    place.copy_from_slice(hidden);
    reveal(place, secret, &[authenticator]);
    password.length = password
        .octets
        .iter()
        .rposition(|&octet| octet != 0)
        .map_or(0, |last| last + 1);
    Some(password)
}

/// Hides a value by RFC 2868's method (also RFC 2548's, for the MS-MPPE keys), appending salt and ciphertext to `out`.
/// Each salt of a packet must be another one: [`Salts`].
pub fn hide_tunnel_password(
    value: &[u8],
    salt: [u8; 2],
    secret: &Secret,
    request_authenticator: &[u8; 16],
    out: &mut Vec<u8>,
) -> Result<(), TooLongToHide> {
    let length = match u8::try_from(value.len()) {
        Ok(length) if value.len() <= MAX_TUNNEL_PASSWORD_OCTETS => length,
        _ => {
            return Err(TooLongToHide {
                octets: value.len(),
                most: MAX_TUNNEL_PASSWORD_OCTETS,
            });
        }
    };
    out.extend_from_slice(&salt);
    let start = out.len();
    out.push(length);
    out.extend_from_slice(value);
    out.resize(start + (value.len() + 1).next_multiple_of(16), 0);
    hide(
        out.get_mut(start..).unwrap_or_default(),
        secret,
        &[request_authenticator, &salt],
    );
    Ok(())
}

/// Reads what [`hide_tunnel_password`] made: `hidden` is salt and ciphertext, without a tag. `None` when it is no salt and
/// whole blocks, or when the length inside runs over them (as it mostly does with a wrong secret).
pub fn reveal_tunnel_password(
    hidden: &[u8],
    secret: &Secret,
    request_authenticator: &[u8; 16],
) -> Option<Zeroizing<Vec<u8>>> {
    let (salt, ciphertext) = hidden.split_first_chunk::<2>()?;
    if ciphertext.is_empty() || !ciphertext.len().is_multiple_of(16) {
        return None;
    }
    let mut plain = Zeroizing::new(ciphertext.to_vec());
    reveal(&mut plain, secret, &[request_authenticator, salt]);
    let length = usize::from(*plain.first()?);
    let value = plain.get(1..)?.get(..length)?;
    Some(Zeroizing::new(value.to_vec()))
}

/// Hides or reveals Ascend's secrets (`encrypt=3` in dictionaries): one block, at most 16 octets, exclusive-or with MD5
/// over authenticator and secret. Applied twice it is the identity. `None` when the value is longer.
pub fn ascend_secret(value: &[u8], secret: &Secret, authenticator: &[u8; 16]) -> Option<[u8; 16]> {
    let mut block = [0; 16];
    block.get_mut(..value.len())?.copy_from_slice(value);
    let digest = Md5::new()
        .chain_update(authenticator)
        .chain_update(secret.expose())
        .finalize();
    block.iter_mut().zip(digest).for_each(|(octet, mask)| *octet ^= mask);
    Some(block)
}

/// Salts for the hidden attributes of one packet: the first is random, each other one follows. RFC 2868 section 3.5: "The
/// most significant bit (leftmost) of the Salt field MUST be set (1). The contents of each Salt field in a given
/// Access-Accept packet MUST be unique."
#[derive(Debug)]
pub struct Salts(u16);

impl Salts {
    /// For one packet.
    pub fn new(random: &mut dyn FnMut(&mut [u8])) -> Salts {
        let mut octets = [0; 2];
        random(&mut octets);
        Salts(u16::from_be_bytes(octets))
    }

    /// The next one.
    pub fn next_salt(&mut self) -> [u8; 2] {
        self.0 = self.0.wrapping_add(1);
        (self.0 | 0x8000).to_be_bytes()
    }
}

/// The response to a CHAP challenge (RFC 2865 section 2.2), which is that of EAP-MD5 too (RFC 3748 section 5.4): MD5 over
/// identifier, password and challenge.
pub fn chap_response(identifier: u8, password: &[u8], challenge: &[u8]) -> [u8; 16] {
    Md5::new()
        .chain_update([identifier])
        .chain_update(password)
        .chain_update(challenge)
        .finalize()
        .into()
}

/// Whether a CHAP or EAP-MD5 response answers its challenge with this password.
pub fn verify_chap(identifier: u8, password: &[u8], challenge: &[u8], response: &[u8]) -> bool {
    verify_slices_are_equal(&chap_response(identifier, password, challenge), response).is_ok()
}

/// The chain of RFC 2865 section 5.2 and RFC 2868 section 3.5, in place: the first block's mask is MD5 over the secret and
/// `first`, each other one's over the secret and the ciphertext before it.
fn hide(blocks: &mut [u8], secret: &Secret, first: &[&[u8]]) {
    let mut before: Option<[u8; 16]> = None;
    for block in blocks.as_chunks_mut::<16>().0 {
        xor(block, next_mask(secret, first, before));
        before = Some(*block);
    }
}

fn reveal(blocks: &mut [u8], secret: &Secret, first: &[&[u8]]) {
    let mut before = None;
    for block in blocks.as_chunks_mut::<16>().0 {
        let mask = next_mask(secret, first, before);
        before = Some(*block);
        xor(block, mask);
    }
}

fn next_mask(secret: &Secret, first: &[&[u8]], ciphertext_before: Option<[u8; 16]>) -> [u8; 16] {
    match ciphertext_before {
        None => block_mask(secret, first),
        Some(ciphertext) => block_mask(secret, &[&ciphertext]),
    }
}

fn xor(block: &mut [u8; 16], mask: [u8; 16]) {
    block.iter_mut().zip(mask).for_each(|(octet, mask)| *octet ^= mask);
}

fn block_mask(secret: &Secret, rest: &[&[u8]]) -> [u8; 16] {
    let mut digest = Md5::new_with_prefix(secret.expose());
    rest.iter().for_each(|octets| digest.update(octets));
    digest.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const AUTHENTICATOR: [u8; 16] = [7; 16];

    #[test]
    fn hmac_md5_is_rfc_2104s() {
        // RFC 2104's test vectors 1 to 3, and a key above one block (RFC 2202 test 6).
        let mac = |key: &[u8], data: &[u8]| -> [u8; 16] {
            let [mac, ..] = macs([Some((&Secret::new(key), [data, &[], &[], &[], &[]])), None, None]);
            mac
        };
        assert_eq!(
            mac(&[0x0b; 16], b"Hi There"),
            0x9294727a3638bb1c13f48ef8158bfc9d_u128.to_be_bytes()
        );
        assert_eq!(
            mac(b"Jefe", b"what do ya want for nothing?"),
            0x750c783e6ab0b503eaa86e310a5db738_u128.to_be_bytes()
        );
        assert_eq!(
            mac(&[0xaa; 16], &[0xdd; 50]),
            0x56be34521d144c88dbb8c733f0e8b3f6_u128.to_be_bytes()
        );
        assert_eq!(
            mac(&[0xaa; 80], b"Test Using Larger Than Block-Size Key - Hash Key First"),
            0x6b1ab7fe4bd7bf8f0b62e6ce61b9d0cd_u128.to_be_bytes()
        );
    }

    proptest! {
        /// Requests beside each other, of any lengths and secrets: sound, forged, without Message-Authenticator, or none at all.
        #[test]
        fn each_is_judged_by_itself(
            lanes in proptest::array::uniform3((0u8..4, "[a-z]{0,70}", proptest::collection::vec(any::<u8>(), 0..200))),
        ) {
            let octets = lanes.each_ref().map(|(kind, secret, more)| {
                let secret = Secret::new(secret.as_bytes());
                // RFC 2865 section 5.33: Proxy-State
                let more: Vec<u8> = [&[33, 2 + more.len() as u8], more.as_slice()].concat();
                let mut octets = signed_request(1, &secret, &AUTHENTICATOR, &more);
                match kind {
                    1 => octets[22] ^= 1,
                    2 => octets[20] = 33,
                    _ => {}
                }
                (octets, secret)
            });
            let packets = octets.each_ref().map(|(octets, _)| Packet::parse(octets).unwrap());
            let found = verify_message_authenticators(from_fn(|lane| {
                (lanes[lane].0 != 3).then_some((&packets[lane], &octets[lane].1))
            }));
            for (lane, (kind, ..)) in lanes.iter().enumerate() {
                let expected = match kind {
                    0 => MessageAuthenticator::Valid,
                    1 => MessageAuthenticator::Invalid,
                    _ => MessageAuthenticator::Absent,
                };
                prop_assert_eq!(found[lane], expected);
            }
        }
    }

    #[test]
    fn secrets_are_compared_and_never_shown() {
        let secret = Secret::new(b"testing123");
        assert!(secret.is(b"testing123") && secret == Secret::new(b"testing123"));
        assert!(!secret.is(b"testing124") && !secret.is(b"testing12") && !secret.is(b""));
        assert_eq!(format!("{secret:?}"), "Secret(…)");
    }

    /// A request of `code` with a Message-Authenticator, then `more`.
    fn signed_request(code: u8, secret: &Secret, authenticator: &[u8; 16], more: &[u8]) -> Vec<u8> {
        let mut octets = vec![code, 1, 0, 38 + more.len() as u8];
        octets.extend(AUTHENTICATOR);
        octets.extend([80, 18]);
        octets.extend([0; 16]);
        octets.extend(more);
        let mac = message_authenticator(&octets, 22, secret, authenticator).unwrap();
        octets[22..38].copy_from_slice(&mac);
        octets
    }

    fn verdict(octets: &[u8], secret: &Secret, request: Option<&[u8; 16]>) -> MessageAuthenticator {
        let packet = Packet::parse(octets).unwrap();
        match request {
            None => verify_message_authenticator(&packet, secret),
            Some(authenticator) => verify_reply(&packet, authenticator, secret).1,
        }
    }

    #[test]
    fn message_authenticator_is_checked() {
        let secret = Secret::new(b"testing123");
        let good = signed_request(1, &secret, &AUTHENTICATOR, &[1, 3, b'x']);
        assert_eq!(verdict(&good, &secret, None), MessageAuthenticator::Valid);
        assert_eq!(
            verdict(&good, &Secret::new(b"testing124"), None),
            MessageAuthenticator::Invalid
        );
        for at in (0..good.len()).filter(|at| ![2, 3].contains(at)) {
            let mut bad = good.clone();
            bad[at] ^= 1;
            // Changed type or length octets may hide the attribute, or make the packet malformed.
            if let Ok(packet) = Packet::parse(&bad) {
                assert_ne!(
                    verify_message_authenticator(&packet, &secret),
                    MessageAuthenticator::Valid,
                    "octet {at}"
                );
            }
        }
        assert_eq!(
            verdict(
                &[1, 1, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
                &secret,
                None
            ),
            MessageAuthenticator::Absent
        );
    }

    #[test]
    fn a_wrong_length_or_a_second_one_is_invalid() {
        let secret = Secret::new(b"testing123");
        let mut twice = signed_request(1, &secret, &AUTHENTICATOR, &[]);
        let copy = twice[20..].to_vec();
        twice.extend(copy);
        twice[3] = twice.len() as u8;
        assert_eq!(verdict(&twice, &secret, None), MessageAuthenticator::Invalid);
        let short = [1, 1, 0, 22, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 80, 2];
        assert_eq!(verdict(&short, &secret, None), MessageAuthenticator::Invalid);
    }

    #[test]
    fn which_authenticator_counts_depends_on_the_packet() {
        let secret = Secret::new(b"testing123");
        // RFC 5997 section 3: Status-Server's is random, as Access-Request's.
        assert_eq!(
            verdict(&signed_request(12, &secret, &AUTHENTICATOR, &[]), &secret, None),
            MessageAuthenticator::Valid
        );
        // RFC 5176 section 3.4: "the Request Authenticator field … considered to be sixteen octets of zero"
        for code in [4, 40, 43] {
            assert_eq!(
                verdict(&signed_request(code, &secret, &[0; 16], &[]), &secret, None),
                MessageAuthenticator::Valid
            );
            assert_eq!(
                verdict(&signed_request(code, &secret, &AUTHENTICATOR, &[]), &secret, None),
                MessageAuthenticator::Invalid
            );
        }
        // RFC 3579 section 3.2: a reply's is computed with the request's.
        let reply = signed_request(2, &secret, &[9; 16], &[]);
        assert_eq!(verdict(&reply, &secret, Some(&[9; 16])), MessageAuthenticator::Valid);
        assert_eq!(verdict(&reply, &secret, Some(&[8; 16])), MessageAuthenticator::Invalid);
    }

    #[test]
    fn user_passwords_have_bounds() {
        let secret = Secret::new(b"s");
        let mut out = Vec::new();
        assert!(hide_user_password(&[b'x'; 129], &secret, &AUTHENTICATOR, &mut out).is_err());
        assert!(out.is_empty());
        for octets in [0, 15, 17, 129, 144, 253] {
            assert!(
                reveal_user_password(&vec![1; octets], &secret, &AUTHENTICATOR).is_none(),
                "{octets}"
            );
        }
    }

    #[test]
    fn a_wrong_secret_is_noticed_where_it_can_be() {
        let secret = Secret::new(b"testing123");
        let hidden = [&[0x80, 1][..], &[0; 16]].concat();
        // The first octet of the mask is the length then; whatever it is, nothing is read past the end.
        for guess in 0..64u8 {
            if let Some(value) = reveal_tunnel_password(&hidden, &Secret::new(&[guess]), &AUTHENTICATOR) {
                assert!(value.len() <= 15);
            }
        }
        for octets in [0, 1, 2, 17, 19, 33] {
            assert!(
                reveal_tunnel_password(&vec![0x80; octets], &secret, &AUTHENTICATOR).is_none(),
                "{octets}"
            );
        }
    }

    #[test]
    fn salts_have_the_high_bit_and_differ() {
        for start in [0u16, 0x7FFD, 0xFFFD] {
            let mut salts = Salts::new(&mut |octets| octets.copy_from_slice(&start.to_be_bytes()));
            let drawn: Vec<[u8; 2]> = (0..200).map(|_| salts.next_salt()).collect();
            assert!(drawn.iter().all(|salt| salt[0] & 0x80 != 0));
            let unique: std::collections::HashSet<_> = drawn.iter().collect();
            assert_eq!(unique.len(), 200);
        }
    }

    proptest! {
        #[test]
        fn user_passwords_are_read_back(password in "[a-zA-Z0-9]{0,128}", secret: Vec<u8>, authenticator: [u8; 16]) {
            let secret = Secret::new(&secret);
            let mut hidden = Vec::new();
            hide_user_password(password.as_bytes(), &secret, &authenticator, &mut hidden).unwrap();
            prop_assert!((16..=128).contains(&hidden.len()) && hidden.len() % 16 == 0);
            let revealed = reveal_user_password(&hidden, &secret, &authenticator).unwrap();
            prop_assert_eq!(revealed.as_bytes(), password.as_bytes());
        }

        #[test]
        fn salted_values_are_read_back(value in proptest::collection::vec(any::<u8>(), 0..=239), salt: [u8; 2], authenticator: [u8; 16]) {
            let secret = Secret::new(b"testing123");
            let mut hidden = Vec::new();
            hide_tunnel_password(&value, salt, &secret, &authenticator, &mut hidden).unwrap();
            prop_assert!(hidden.len() <= 252);
            prop_assert_eq!(&*reveal_tunnel_password(&hidden, &secret, &authenticator).unwrap(), &value);
        }

        #[test]
        fn ascends_secrets_are_read_back(value in proptest::collection::vec(any::<u8>(), 16), authenticator: [u8; 16]) {
            let secret = Secret::new(b"testing123");
            let hidden = ascend_secret(&value, &secret, &authenticator).unwrap();
            prop_assert_eq!(&ascend_secret(&hidden, &secret, &authenticator).unwrap()[..], &value[..]);
        }
    }
}
