//! AVPs, the language inside EAP-TTLS (RFC 5281, 10): the EAP packet in them is read and written here.
//!
//! AVPs of the password methods (RFC 5281, 11.2) are known well enough to be refused by name.

use std::borrow::Cow;

use crate::eap::tls::reason::Refused;
use crate::reason::Reason;

/// Code, Flags, Length.
const HEADER_OCTETS: usize = 8;
const VENDOR_ID_OCTETS: usize = 4;
/// Vendor-ID is present.
const VENDOR: u8 = 0x80;
/// Who does not understand the AVP "MUST fail the negotiation".
const MANDATORY: u8 = 0x40;
/// "Each AVP must begin on a four-octet boundary."
const BOUNDARY: usize = 4;

const USER_NAME: u32 = 1;
const EAP_MESSAGE: u32 = 79;
const MICROSOFT: u32 = 311;

/// One AVP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Avp<'a> {
    /// Which attribute of the vendor's.
    pub code: u32,
    /// IANA's number of the vendor; zero, which "is equivalent to absence", for those of RADIUS and Diameter.
    pub vendor: u32,
    /// Whether it has to be understood.
    pub is_mandatory: bool,
    /// Its value, without the padding.
    pub data: &'a [u8],
}

/// Octets that are no sequence of AVPs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AvpError {
    /// Fewer octets than a header has.
    #[error("an avp of {0} octets")]
    Header(usize),
    /// AVP Length is shorter than the header, or longer than what is there.
    #[error("an avp that says it has {length} octets, and {octets} are left")]
    Length {
        /// What it says.
        length: usize,
        /// What there is.
        octets: usize,
    },
}

/// The AVPs of a message, one after another; after an error there is nothing more. Padding that is missing after the last
/// is not missed.
pub fn avps(octets: &[u8]) -> impl Iterator<Item = Result<Avp<'_>, AvpError>> {
    let mut rest = octets;
    std::iter::from_fn(move || {
        (!rest.is_empty()).then(|| {
            let (avp, behind) = avp(rest).inspect_err(|_| rest = &[])?;
            rest = behind;
            Ok(avp)
        })
    })
}

fn avp(octets: &[u8]) -> Result<(Avp<'_>, &[u8]), AvpError> {
    let Some((&[c0, c1, c2, c3, flags, l0, l1, l2], _)) = octets.split_first_chunk::<HEADER_OCTETS>() else {
        return Err(AvpError::Header(octets.len()));
    };
    let length = usize::try_from(u32::from_be_bytes([0, l0, l1, l2])).unwrap_or(usize::MAX);
    let error = AvpError::Length {
        length,
        octets: octets.len(),
    };
    let (avp, behind) = octets.split_at_checked(length).ok_or(error)?;
    let body = avp.get(HEADER_OCTETS..).ok_or(error)?;
    let (vendor, data) = match flags & VENDOR {
        0 => (0, body),
        _ => {
            let (vendor, data) = body.split_first_chunk::<VENDOR_ID_OCTETS>().ok_or(error)?;
            (u32::from_be_bytes(*vendor), data)
        }
    };
    let padding = length.next_multiple_of(BOUNDARY) - length;
    let avp = Avp {
        code: u32::from_be_bytes([c0, c1, c2, c3]),
        vendor,
        is_mandatory: flags & MANDATORY != 0,
        data,
    };
    Ok((avp, behind.get(padding..).unwrap_or_default()))
}

/// The EAP packet of a message. "A tunneled EAP packet within a single EAP-TTLS message MUST be contained in a single
/// EAP-Message AVP" (RFC 5281, 11.2.1); one that was cut into several, as RADIUS does, is put together.
///
/// # Errors
/// When there is none, when the supplicant tries a password method instead, or when it insists on something else.
pub fn eap_packet(octets: &[u8]) -> Result<Cow<'_, [u8]>, Refused> {
    let mut packet: Option<Cow<'_, [u8]>> = None;
    let mut tried = None;
    for avp in avps(octets) {
        let avp = avp.map_err(|error| Refused::new(Reason::EapInvalid, format!("inside eap-ttls: {error}")))?;
        match (avp.vendor, avp.code) {
            // the last says most: MS-CHAP's challenge is that of its second version too
            _ if password_method(&avp).is_some() => tried = password_method(&avp),
            (0, EAP_MESSAGE) => match &mut packet {
                None => packet = Some(Cow::Borrowed(avp.data)),
                Some(packet) => packet.to_mut().extend_from_slice(avp.data),
            },
            // who it says it is, which counts for nothing
            (0, USER_NAME) => {}
            (vendor, code) if avp.is_mandatory => {
                let detail = format!(
                    "inside eap-ttls the supplicant insists on avp {code} of vendor {vendor}: configure eap-tls as its \
                     inner method"
                );
                return Err(Refused::new(Reason::MethodRefused, detail));
            }
            _ => {}
        }
    }
    if let Some(method) = tried {
        let detail = format!("inside eap-ttls the supplicant tries {method}: configure eap-tls as its inner method");
        return Err(Refused::new(Reason::MethodRefused, detail));
    }
    packet.ok_or_else(|| {
        let detail = "inside eap-ttls the supplicant says nothing of eap: configure eap-tls as its inner method";
        Refused::new(Reason::MethodRefused, detail)
    })
}

/// The method that an AVP belongs to (RFC 5281, 11.2.2 to 11.2.5).
fn password_method(avp: &Avp<'_>) -> Option<&'static str> {
    Some(match (avp.vendor, avp.code) {
        (0, 2) => "pap",
        (0, 3 | 60) => "chap",
        (MICROSOFT, 1 | 11) => "ms-chap",
        (MICROSOFT, 25) => "ms-chap-v2",
        _ => return None,
    })
}

/// The message that carries an EAP packet.
pub fn message(packet: &[u8]) -> Vec<u8> {
    let length = HEADER_OCTETS + packet.len();
    let [_, l0, l1, l2] = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    let mut message = Vec::with_capacity(length.next_multiple_of(BOUNDARY));
    message.extend(EAP_MESSAGE.to_be_bytes());
    message.extend([MANDATORY, l0, l1, l2]);
    message.extend(packet);
    message.resize(length.next_multiple_of(BOUNDARY), 0);
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(octets: &[u8]) -> Result<Vec<u8>, (Reason, String)> {
        eap_packet(octets)
            .map(Cow::into_owned)
            .map_err(|refused| (refused.reason, refused.detail.unwrap_or_default()))
    }

    #[test]
    fn an_eap_packet_is_padded_to_four_octets() {
        let packet = [2, 0, 0, 7, 1, b'm', b'e'];
        let message = message(&packet);
        assert_eq!(message, [0, 0, 0, 79, 0x40, 0, 0, 15, 2, 0, 0, 7, 1, b'm', b'e', 0]);
        assert_eq!(read(&message), Ok(packet.to_vec()));
        // "The AVP Length does not include the padding"; that it is missing at the end is not minded
        assert_eq!(read(&message[..15]), Ok(packet.to_vec()));
    }

    #[test]
    fn a_packet_in_two_avps_is_put_together() {
        let both = [message(&[1, 2, 3]), message(&[4])].concat();
        assert_eq!(read(&both), Ok(vec![1, 2, 3, 4]));
    }

    #[test]
    fn password_methods_are_refused_by_name() {
        let avp = |code: u8, vendor: Option<u16>, data: &[u8]| {
            let vendor: Vec<u8> = vendor.map_or(vec![], |vendor| u32::from(vendor).to_be_bytes().to_vec());
            let flags = if vendor.is_empty() { 0x40 } else { 0xc0 };
            let length = (8 + vendor.len() + data.len()) as u8;
            let mut avp = [&[0, 0, 0, code, flags, 0, 0, length][..], &vendor, data].concat();
            avp.resize(avp.len().next_multiple_of(4), 0);
            avp
        };
        let user = avp(1, None, b"me");
        for (name, tried) in [
            ("pap", avp(2, None, &[0; 16])),
            ("chap", avp(60, None, &[7; 16])),
            ("chap", avp(3, None, &[7; 17])),
            ("ms-chap", avp(1, Some(311), &[7; 50])),
            (
                "ms-chap-v2",
                [avp(11, Some(311), &[7; 16]), avp(25, Some(311), &[7; 50])].concat(),
            ),
        ] {
            let detail = format!("inside eap-ttls the supplicant tries {name}: configure eap-tls as its inner method");
            let both = [user.clone(), tried].concat();
            assert_eq!(read(&both), Err((Reason::MethodRefused, detail)));
        }
        // User-Name beside EAP is no method
        assert_eq!(read(&[user.clone(), message(&[9])].concat()), Ok(vec![9]));
        assert_eq!(read(&user).map_err(|(reason, _)| reason), Err(Reason::MethodRefused));
        // what is not understood: ignored, or not
        let unknown = [0, 0, 1, 44, 0x00, 0, 0, 9, 7, 0, 0, 0];
        assert_eq!(read(&[&unknown[..], &message(&[9])].concat()), Ok(vec![9]));
        let mandatory = [0, 0, 1, 44, 0x40, 0, 0, 9, 7, 0, 0, 0];
        let (reason, detail) = read(&[&mandatory[..], &message(&[9])].concat()).unwrap_err();
        assert_eq!(reason, Reason::MethodRefused);
        assert!(detail.contains("avp 300 of vendor 0"), "{detail}");
    }

    #[test]
    fn lengths_that_are_not_true() {
        for (octets, detail) in [
            (&[0, 0, 0, 79, 0][..], "an avp of 5 octets"),
            (
                &[0, 0, 0, 79, 0, 0, 0, 7],
                "an avp that says it has 7 octets, and 8 are left",
            ),
            (
                &[0, 0, 0, 79, 0, 0xff, 0xff, 0xff],
                "an avp that says it has 16777215 octets, and 8 are left",
            ),
            (
                &[0, 0, 0, 79, 0x80, 0, 0, 10, 0, 0],
                "an avp that says it has 10 octets, and 10 are left",
            ),
        ] {
            let expected = (Reason::EapInvalid, format!("inside eap-ttls: {detail}"));
            assert_eq!(read(octets), Err(expected));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        /// Whatever comes, the AVPs lie inside of it, one behind the other, and an error is the last.
        #[test]
        fn avps_of_arbitrary_octets(octets in proptest::collection::vec(any::<u8>(), 0..400), small in any::<bool>()) {
            let mut octets = octets;
            if small {
                // lengths that have a chance to be true
                for header in octets.chunks_mut(16) {
                    header.iter_mut().skip(5).take(2).for_each(|octet| *octet = 0);
                    if let Some(octet) = header.get_mut(7) { *octet %= 24; }
                }
            }
            let read: Vec<_> = avps(&octets).collect();
            prop_assert!(read.len() <= octets.len() / HEADER_OCTETS + 1);
            let data: usize = read.iter().flatten().map(|avp| avp.data.len() + HEADER_OCTETS).sum();
            prop_assert!(data <= octets.len());
            let failed = read.iter().position(Result::is_err);
            prop_assert!(failed.is_none_or(|at| at + 1 == read.len()));
            let _ = eap_packet(&octets);
        }

        #[test]
        fn what_is_written_is_read_back(packet in proptest::collection::vec(any::<u8>(), 0..4100)) {
            let message = message(&packet);
            prop_assert_eq!(message.len() % BOUNDARY, 0);
            prop_assert_eq!(read(&message), Ok(packet));
        }
    }
}
