//! Writes a packet behind what the caller's buffer holds already: header, attributes, and the authenticators last.
//!
//! RFC 2865 sections 3 and 5, RFC 3579 sections 3.1 and 3.2, RFC 2548 sections 2.4.2 and 2.4.3. Which attributes a packet may or must
//! carry (Proxy-State of the request, no Reply-Message beside EAP) is the caller's business. Errors are kept until
//! [`Writer::finish`]: a packet is whole, or nothing of it stays in the buffer.

use super::code::Code;
use super::crypto::{self, Salts, Secret, TooLongToHide, put};
use super::packet::{HEADER_OCTETS, MAX_PACKET_OCTETS, MAX_VALUE_OCTETS, number};

/// Microsoft's enterprise number, the vendor of the MPPE keys.
pub const MICROSOFT: u32 = 311;
/// MS-MPPE-Send-Key among Microsoft's attributes.
pub const MS_MPPE_SEND_KEY: u8 = 16;
/// MS-MPPE-Recv-Key among Microsoft's attributes.
pub const MS_MPPE_RECV_KEY: u8 = 17;

/// A packet being written.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    secret: &'a Secret,
    /// The request's, in a reply too.
    request_authenticator: [u8; 16],
    kind: Kind,
    /// Where the sixteen octets of Message-Authenticator begin, counted from `start`.
    message_authenticator: Option<usize>,
    error: Option<WriteError>,
}

/// Why a packet was not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// It would have more than 4,096 octets.
    #[error("the packet would exceed 4096 octets")]
    PacketTooLong,
    /// A value does not fit one attribute.
    #[error("{octets} octets do not fit attribute {number}: at most 253 do")]
    ValueTooLong {
        /// The attribute's number.
        number: u8,
        /// Octets of the value, with a vendor's header where there is one.
        octets: usize,
    },
    /// A value is too long to be hidden.
    #[error(transparent)]
    Hide(#[from] TooLongToHide),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Reply,
    /// The request's authenticator is random and stands in the header.
    RandomRequest,
    /// The request's authenticator is computed at the end.
    ComputedRequest,
}

impl<'a> Writer<'a> {
    /// Begins the reply to the request with that identifier and authenticator. Its first attribute is always
    /// Message-Authenticator: what comes before it could be chosen by an attacker who collides MD5 (CVE-2024-3596).
    pub fn reply(
        out: &'a mut Vec<u8>,
        code: Code,
        identifier: u8,
        secret: &'a Secret,
        request_authenticator: &[u8; 16],
    ) -> Writer<'a> {
        let mut writer = Writer::begin(out, code, identifier, secret, request_authenticator, Kind::Reply);
        writer.message_authenticator();
        writer
    }

    /// Begins a request: `authenticator` is sixteen random octets. In Accounting-Request, Disconnect-Request and
    /// CoA-Request it is not used: theirs is computed. Call [`Writer::message_authenticator`] first where it is wanted
    /// (everywhere; a request without it is for tests).
    pub fn request(
        out: &'a mut Vec<u8>,
        code: Code,
        identifier: u8,
        secret: &'a Secret,
        authenticator: &[u8; 16],
    ) -> Writer<'a> {
        if code.has_computed_authenticator() {
            Writer::begin(out, code, identifier, secret, &[0; 16], Kind::ComputedRequest)
        } else {
            Writer::begin(out, code, identifier, secret, authenticator, Kind::RandomRequest)
        }
    }

    /// Appends an attribute of at most 253 octets.
    pub fn attribute(&mut self, number: u8, value: &[u8]) -> &mut Self {
        if let Some(length) = self.header(number, value.len()) {
            self.out.extend_from_slice(&[number, length]);
            self.out.extend_from_slice(value);
        }
        self
    }

    /// Appends a vendor's attribute in the format that RFC 2865 section 5.26 recommends, alone in its Vendor-Specific: at
    /// most 247 octets. For other formats there is `attribute::encode_attribute` and [`Writer::encoded`].
    pub fn vendor(&mut self, vendor: u32, vendor_number: u8, value: &[u8]) -> &mut Self {
        if self.vendor_header(vendor, vendor_number, value.len()) {
            self.out.extend_from_slice(value);
        }
        self
    }

    /// Appends whole attributes that were encoded before.
    pub fn encoded(&mut self, attributes: &[u8]) -> &mut Self {
        if self.reserve(attributes.len()) {
            self.out.extend_from_slice(attributes);
        }
        self
    }

    /// Appends an EAP packet, split over EAP-Message attributes of 253 octets that follow each other (RFC 3579 section 3.1). An
    /// empty one is EAP-Start: one EAP-Message without data.
    pub fn eap_message(&mut self, eap: &[u8]) -> &mut Self {
        if eap.is_empty() {
            return self.attribute(number::EAP_MESSAGE, &[]);
        }
        for fragment in eap.chunks(MAX_VALUE_OCTETS) {
            self.attribute(number::EAP_MESSAGE, fragment);
        }
        self
    }

    /// Appends MS-MPPE-Recv-Key and MS-MPPE-Send-Key (RFC 2548 section 2.4), hidden under salts of their own. The names are the
    /// NAS's view: it encrypts what it sends to the device with the send key.
    pub fn mppe_keys(&mut self, recv_key: &[u8], send_key: &[u8], salts: &mut Salts) -> &mut Self {
        for (vendor_number, key) in [(MS_MPPE_RECV_KEY, recv_key), (MS_MPPE_SEND_KEY, send_key)] {
            let hidden_octets = 2 + (key.len() + 1).next_multiple_of(16);
            if self.vendor_header(MICROSOFT, vendor_number, hidden_octets) {
                let salt = salts.next_salt();
                let hidden =
                    crypto::hide_tunnel_password(key, salt, self.secret, &self.request_authenticator, self.out);
                self.keep(hidden);
            }
        }
        self
    }

    /// Appends a hidden User-Password to a request, of at most 128 octets.
    pub fn user_password(&mut self, password: &[u8]) -> &mut Self {
        let hidden_octets = password.len().next_multiple_of(16).max(16);
        if let Some(length) = self.header(number::USER_PASSWORD, hidden_octets) {
            self.out.extend_from_slice(&[number::USER_PASSWORD, length]);
            let hidden = crypto::hide_user_password(password, self.secret, &self.request_authenticator, self.out);
            self.keep(hidden);
        }
        self
    }

    /// Appends CHAP-Password for `password` to a request, and CHAP-Challenge. Without a challenge the request authenticator
    /// is the challenge, and only CHAP-Password is sent (RFC 2865 section 5.3).
    pub fn chap(&mut self, identifier: u8, password: &[u8], challenge: Option<&[u8]>) -> &mut Self {
        let response = crypto::chap_response(identifier, password, challenge.unwrap_or(&self.request_authenticator));
        let mut value = [identifier; 17];
        value
            .iter_mut()
            .skip(1)
            .zip(response)
            .for_each(|(place, octet)| *place = octet);
        self.attribute(number::CHAP_PASSWORD, &value);
        if let Some(challenge) = challenge {
            self.attribute(number::CHAP_CHALLENGE, challenge);
        }
        self
    }

    /// Appends the place for Message-Authenticator to a request, once; [`Writer::finish`] fills it. A reply has it already.
    pub fn message_authenticator(&mut self) -> &mut Self {
        if self.message_authenticator.is_none() {
            let at = self.octets() + 2;
            self.attribute(number::MESSAGE_AUTHENTICATOR, &[0; 16]);
            self.message_authenticator = Some(at);
        }
        self
    }

    /// Octets written so far, header included.
    pub fn octets(&self) -> usize {
        self.out.len() - self.start
    }

    /// Octets that still fit, attribute headers included.
    pub fn remaining(&self) -> usize {
        MAX_PACKET_OCTETS.saturating_sub(self.octets())
    }

    /// Fills in length, Message-Authenticator and authenticator, and returns the packet's octets. After an error the buffer
    /// is as it was before the packet.
    pub fn finish(mut self) -> Result<usize, WriteError> {
        let octets = self.fill_in_length()?;
        let packet = self.out.get_mut(self.start..).unwrap_or_default();
        let authenticator = &self.request_authenticator;
        if self.kind == Kind::Reply {
            put(packet, 4, authenticator);
            crypto::sign_replies([Some((packet, self.secret)), None, None]);
            return Ok(octets);
        }
        if let Some(at) = self.message_authenticator
            && let Some(mac) = crypto::message_authenticator(packet, at, self.secret, authenticator)
        {
            put(packet, at, &mac);
        }
        let own = match self.kind == Kind::ComputedRequest {
            true => crypto::response_authenticator(packet, authenticator, self.secret),
            false => *authenticator,
        };
        put(packet, 4, &own);
        Ok(octets)
    }

    /// The same for a reply that [`crypto::sign_replies`] is to sign: the request's authenticator stands in its header.
    pub fn finish_unsigned(mut self) -> Result<usize, WriteError> {
        let octets = self.fill_in_length()?;
        let packet = self.out.get_mut(self.start..).unwrap_or_default();
        put(packet, 4, &self.request_authenticator);
        Ok(octets)
    }

    /// Returns the packet's octets; after an error there are none.
    fn fill_in_length(&mut self) -> Result<usize, WriteError> {
        let octets = self.octets();
        if let Some(error) = self.error {
            self.out.truncate(self.start);
            return Err(error);
        }
        let packet = self.out.get_mut(self.start..).unwrap_or_default();
        let length = u16::try_from(octets).unwrap_or_default();
        put(packet, 2, &length.to_be_bytes());
        Ok(octets)
    }

    fn begin(
        out: &'a mut Vec<u8>,
        code: Code,
        identifier: u8,
        secret: &'a Secret,
        request_authenticator: &[u8; 16],
        kind: Kind,
    ) -> Writer<'a> {
        let start = out.len();
        out.extend_from_slice(&[code.number(), identifier]);
        out.resize(start + HEADER_OCTETS, 0);
        Writer {
            out,
            start,
            secret,
            request_authenticator: *request_authenticator,
            kind,
            message_authenticator: None,
            error: None,
        }
    }

    /// Makes sure that `octets` more fit; after an error nothing does.
    fn reserve(&mut self, octets: usize) -> bool {
        if self.error.is_none() && octets > self.remaining() {
            self.error = Some(WriteError::PacketTooLong);
        }
        self.error.is_none()
    }

    /// The length octet of an attribute that fits.
    fn header(&mut self, number: u8, octets: usize) -> Option<u8> {
        if octets > MAX_VALUE_OCTETS {
            self.error.get_or_insert(WriteError::ValueTooLong { number, octets });
        }
        if self.reserve(octets.saturating_add(2)) {
            u8::try_from(octets + 2).ok()
        } else {
            None
        }
    }

    fn vendor_header(&mut self, vendor: u32, vendor_number: u8, octets: usize) -> bool {
        let Some(length) = self.header(number::VENDOR_SPECIFIC, octets.saturating_add(6)) else {
            return false;
        };
        self.out.extend_from_slice(&[number::VENDOR_SPECIFIC, length]);
        self.out.extend_from_slice(&vendor.to_be_bytes());
        self.out.extend_from_slice(&[vendor_number, length - 6]);
        true
    }

    fn keep(&mut self, result: Result<(), TooLongToHide>) {
        if let Err(error) = result {
            self.error.get_or_insert(error.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::radius::crypto::MessageAuthenticator;
    use crate::radius::packet::Packet;

    const AUTHENTICATOR: [u8; 16] = [0x5A; 16];

    fn secret() -> Secret {
        Secret::new(b"testing123")
    }

    #[test]
    fn a_reply_is_signed_with_message_authenticator_first() {
        let (secret, mut out) = (secret(), vec![1, 2, 3]);
        let mut writer = Writer::reply(&mut out, Code::AccessAccept, 9, &secret, &AUTHENTICATOR);
        writer
            .attribute(number::USER_NAME, b"bob")
            .vendor(9, 1, b"x=y")
            .encoded(&[33, 3, 7]);
        let octets = writer.finish().unwrap();
        assert_eq!(octets, out.len() - 3);
        let packet = Packet::parse(&out[3..]).unwrap();
        assert_eq!((packet.code(), packet.identifier()), (Code::AccessAccept, 9));
        let numbers: Vec<u8> = packet.attributes().map(|attribute| attribute.number).collect();
        assert_eq!(numbers, [80, 1, 26, 33]);
        assert_eq!(packet.first(26), Some(&[0, 0, 0, 9, 1, 5, b'x', b'=', b'y'][..]));
        let verdict = crypto::verify_reply(&packet, &AUTHENTICATOR, &secret);
        assert_eq!(verdict, (true, MessageAuthenticator::Valid));
        let verdict = crypto::verify_reply(&packet, &[0; 16], &secret);
        assert_eq!(verdict, (false, MessageAuthenticator::Invalid));
    }

    #[test]
    fn requests_carry_the_random_authenticator() {
        let (secret, mut out) = (secret(), Vec::new());
        let mut writer = Writer::request(&mut out, Code::AccessRequest, 1, &secret, &AUTHENTICATOR);
        writer
            .message_authenticator()
            .attribute(number::USER_NAME, b"bob")
            .user_password(b"hello");
        writer.chap(3, b"hello", None).chap(4, b"hello", Some(b"challenge"));
        writer.finish().unwrap();
        let packet = Packet::parse(&out).unwrap();
        assert_eq!(packet.authenticator(), &AUTHENTICATOR);
        let verdict = crypto::verify_message_authenticator(&packet, &secret);
        assert_eq!(verdict, MessageAuthenticator::Valid);
        let hidden = packet.first(number::USER_PASSWORD).unwrap();
        assert_eq!(
            crypto::reveal_user_password(hidden, &secret, &AUTHENTICATOR)
                .unwrap()
                .as_bytes(),
            b"hello"
        );
        let responses: Vec<_> = packet.all(number::CHAP_PASSWORD).collect();
        assert_eq!(responses[0][0], 3);
        assert!(crypto::verify_chap(3, b"hello", &AUTHENTICATOR, &responses[0][1..]));
        assert!(crypto::verify_chap(
            4,
            b"hello",
            packet.first(number::CHAP_CHALLENGE).unwrap(),
            &responses[1][1..]
        ));
    }

    #[test]
    fn accounting_and_coa_requests_compute_their_authenticator() {
        for code in [Code::AccountingRequest, Code::CoaRequest, Code::DisconnectRequest] {
            let (secret, mut out) = (secret(), Vec::new());
            let mut writer = Writer::request(&mut out, code, 1, &secret, &AUTHENTICATOR);
            writer.attribute(number::USER_NAME, b"bob").message_authenticator();
            writer.finish().unwrap();
            let packet = Packet::parse(&out).unwrap();
            assert!(crypto::verify_request_authenticator(&packet, &secret), "{code}");
            let verdict = crypto::verify_message_authenticator(&packet, &secret);
            assert_eq!(verdict, MessageAuthenticator::Valid, "{code}");
        }
    }

    #[test]
    fn eap_is_split_in_order() {
        for octets in [0usize, 1, 253, 254, 506, 507, 1500] {
            let (secret, mut out) = (secret(), Vec::new());
            let eap: Vec<u8> = (0..octets).map(|at| at as u8).collect();
            let mut writer = Writer::reply(&mut out, Code::AccessChallenge, 1, &secret, &AUTHENTICATOR);
            writer.eap_message(&eap);
            writer.finish().unwrap();
            let packet = Packet::parse(&out).unwrap();
            assert_eq!(packet.eap_message().unwrap(), eap);
            assert_eq!(packet.all(number::EAP_MESSAGE).count(), octets.div_ceil(253).max(1));
        }
    }

    #[test]
    fn more_than_4096_octets_are_an_error_and_leave_nothing() {
        let (secret, mut out) = (secret(), vec![42]);
        let mut writer = Writer::reply(&mut out, Code::AccessAccept, 1, &secret, &AUTHENTICATOR);
        for _ in 0..15 {
            writer.attribute(24, &[0; 253]);
        }
        assert_eq!(writer.remaining(), 4096 - 20 - 18 - 15 * 255);
        writer.attribute(24, &[0; 231]);
        assert_eq!(writer.remaining(), 0);
        assert_eq!(writer.finish(), Ok(4096));
        assert!(Packet::parse(&out[1..]).is_ok());

        let mut out = vec![42];
        let mut writer = Writer::reply(&mut out, Code::AccessAccept, 1, &secret, &AUTHENTICATOR);
        for _ in 0..1000 {
            writer.attribute(24, &[0; 253]);
        }
        assert!(writer.octets() <= 4096, "the buffer does not grow past the packet");
        assert_eq!(writer.finish(), Err(WriteError::PacketTooLong));
        assert_eq!(out, [42]);
    }

    #[test]
    fn values_that_do_not_fit_are_errors() {
        let (secret, mut out) = (secret(), Vec::new());
        let mut writer = Writer::reply(&mut out, Code::AccessAccept, 1, &secret, &AUTHENTICATOR);
        writer.attribute(24, &[0; 254]).attribute(24, &[0; 3]);
        assert_eq!(
            writer.finish(),
            Err(WriteError::ValueTooLong {
                number: 24,
                octets: 254
            })
        );
        let mut writer = Writer::reply(&mut out, Code::AccessAccept, 1, &secret, &AUTHENTICATOR);
        writer.vendor(9, 1, &[0; 248]);
        assert_eq!(
            writer.finish(),
            Err(WriteError::ValueTooLong {
                number: 26,
                octets: 254
            })
        );
        let mut writer = Writer::reply(&mut out, Code::AccessAccept, 1, &secret, &AUTHENTICATOR);
        writer.user_password(&[b'x'; 129]);
        assert!(matches!(writer.finish(), Err(WriteError::Hide(_))));
        assert!(out.is_empty());
    }
}
