//! MAC Authentication Bypass: is this request MAB, and for which MAC address; and is its password the one MAB uses.
//!
//! A switch that does MAB sends the device's address as User-Name and as Calling-Station-Id, each in a spelling of its
//! own. [`classify`] says what User-Name, Calling-Station-Id, Service-Type and NAS-Port-Type make of a request, whatever its
//! credentials; [`Mab::refusal`] says why it is refused when it asks to be let in without EAP (PAP, CHAP, no password) or by
//! EAP-MD5, the only EAP method that MAB may use. TLS stays open to every one of them.
//!
//! | User-Name | Calling-Station-Id | class | without EAP | EAP: peer asks for MD5 |
//! |---|---|---|---|---|
//! | MAC A | MAC A | `Mac(A)` | password, then the list | password, then the list |
//! | MAC A | MAC B | `Mismatch` | `mac-mismatch` | `mac-mismatch` |
//! | MAC A | no MAC (a telephone number, an IP address) | `Mismatch` | `mac-mismatch` | `mac-mismatch` |
//! | MAC A | missing | `Mismatch`; `Mac(A)` with `mab_identity = "user-name"` | `mac-mismatch` | `mac-mismatch` |
//! | a name | MAC B | `User` | `mac-mismatch` | `method-refused` |
//! | missing | MAC B | `Mismatch` | `mac-mismatch` | `mac-mismatch` |
//! | a name, or missing | no MAC, or missing | `No` | `no-credentials` | `method-refused` |
//! | any | any, with Service-Type Administrative or NAS-Prompt, or NAS-Port-Type Virtual | `NotNetworkAccess` | `not-network-access` | `not-network-access` |
//!
//! `User` is every 802.1X user behind a switch: with EAP the ordinary case, so a wish for MD5 is a wish for a method that
//! is not offered. Without EAP it is a name and a password for an address that is not its own: one of the two is a MAC
//! and the other differs.
//!
//! Whether MD5 is offered first is [`Mab::offers_md5`]. A request without a password also needs a Message-Authenticator,
//! which the caller knows about.

use crate::mac::MacAddress;
use crate::radius::crypto::{self, Secret};
use crate::reason::Reason;

/// Service-Type Administrative (RFC 2865 section 5.6): a login to the switch, for its administration.
pub const SERVICE_TYPE_ADMINISTRATIVE: u32 = 6;
/// Service-Type NAS-Prompt: a login to the switch.
pub const SERVICE_TYPE_NAS_PROMPT: u32 = 7;
/// NAS-Port-Type Virtual (RFC 2865 section 5.41): no physical port, so no device at one.
pub const NAS_PORT_TYPE_VIRTUAL: u32 = 5;

/// What of a request decides whether it is MAB.
#[derive(Clone, Copy, Debug, Default)]
pub struct MabRequest<'a> {
    /// User-Name.
    pub user_name: Option<&'a [u8]>,
    /// Calling-Station-Id.
    pub calling_station_id: Option<&'a [u8]>,
    /// Every Service-Type: some switches send several in one request.
    pub service_types: &'a [u32],
    /// NAS-Port-Type.
    pub nas_port_type: Option<u32>,
    /// The client's setting.
    pub identity: MabIdentity,
}

/// Which attributes carry the address: the client setting `mab_identity`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum MabIdentity {
    /// User-Name and Calling-Station-Id must be the same address.
    #[default]
    CallingStationId,
    /// User-Name alone is enough, for gear that sends no Calling-Station-Id. A different one is still a mismatch.
    UserName,
}

/// What a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mab {
    /// It carries no MAC address as an identity.
    No,
    /// MAB, for this address.
    Mac(MacAddress),
    /// The User-Name is a MAC address that Calling-Station-Id does not confirm, or the reverse without any User-Name.
    Mismatch,
    /// A user's name, and the MAC address of the device as Calling-Station-Id.
    User(MacAddress),
    /// A login to the switch itself.
    NotNetworkAccess,
}

/// How a request asks to be let in without TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// PAP, CHAP or no password.
    WithoutEap,
    /// EAP-MD5: the peer answered it or asked for it by Nak.
    EapMd5,
}

/// Says what a request is: see the table of this module.
pub fn classify(request: &MabRequest<'_>) -> Mab {
    let is_login = |service: &u32| matches!(*service, SERVICE_TYPE_ADMINISTRATIVE | SERVICE_TYPE_NAS_PROMPT);
    if request.service_types.iter().any(is_login) || request.nas_port_type == Some(NAS_PORT_TYPE_VIRTUAL) {
        return Mab::NotNetworkAccess;
    }
    // RFC 2865 section 5 allows no empty text; where one is sent it says as little as a missing one.
    let user_name = request.user_name.filter(|text| !text.is_empty());
    let calling_station_id = request.calling_station_id.filter(|text| !text.is_empty());
    let name = user_name.and_then(MacAddress::parse);
    let station = calling_station_id.and_then(MacAddress::parse);
    match (name, station) {
        (Some(name), Some(station)) if name == station => Mab::Mac(name),
        (Some(name), None) if calling_station_id.is_none() && request.identity == MabIdentity::UserName => {
            Mab::Mac(name)
        }
        (Some(_), _) => Mab::Mismatch,
        (None, Some(station)) if user_name.is_some() => Mab::User(station),
        (None, Some(_)) => Mab::Mismatch,
        (None, None) => Mab::No,
    }
}

impl Mab {
    /// Whether EAP offers MD5 first (and TLS after a Nak). Everybody else is offered TLS alone.
    pub fn offers_md5(self) -> bool {
        matches!(self, Mab::Mac(_))
    }

    /// Why this request may not be let in by such an attempt; `None` when it is MAB and the password decides.
    pub fn refusal(self, attempt: Attempt) -> Option<Reason> {
        match (self, attempt) {
            (Mab::Mac(_), _) => None,
            (Mab::NotNetworkAccess, _) => Some(Reason::NotNetworkAccess),
            (Mab::Mismatch, _) | (Mab::User(_), Attempt::WithoutEap) => Some(Reason::MacMismatch),
            (Mab::No, Attempt::WithoutEap) => Some(Reason::NoCredentials),
            (Mab::No | Mab::User(_), Attempt::EapMd5) => Some(Reason::MethodRefused),
        }
    }
}

impl MabIdentity {
    /// The word of the setting.
    pub const fn word(self) -> &'static str {
        match self {
            MabIdentity::CallingStationId => "calling-station-id",
            MabIdentity::UserName => "user-name",
        }
    }

    /// Reads the word of the setting.
    pub fn parse(word: &str) -> Option<MabIdentity> {
        [MabIdentity::CallingStationId, MabIdentity::UserName]
            .into_iter()
            .find(|identity| identity.word() == word)
    }
}

/// What password MAB uses: the client setting `mab_password`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum MabPassword {
    /// The MAC address in any spelling, or none.
    #[default]
    Mac,
    /// Any, or none.
    Any,
    /// This one. Few clients have one, and all would be larger.
    Fixed(Box<Secret>),
}

impl MabPassword {
    /// Reads the setting: `mac`, `any`, or else the password itself.
    pub fn parse(text: &str) -> MabPassword {
        match text {
            "mac" => MabPassword::Mac,
            "any" => MabPassword::Any,
            password => MabPassword::Fixed(Box::new(Secret::new(password.as_bytes()))),
        }
    }
}

/// The password of a request, or the proof of one.
#[derive(Clone, Copy, Debug)]
pub enum Credential<'a> {
    /// No password at all: only for a request with a valid Message-Authenticator.
    None,
    /// User-Password, in the clear.
    Pap(&'a [u8]),
    /// CHAP-Password, with CHAP-Challenge or the request authenticator in its place.
    Chap {
        /// The first octet of CHAP-Password.
        identifier: u8,
        /// CHAP-Challenge, or the request authenticator.
        challenge: &'a [u8],
        /// The other sixteen.
        response: &'a [u8],
    },
    /// An EAP-MD5 response.
    EapMd5 {
        /// Of the EAP packet.
        identifier: u8,
        /// What was sent to the peer.
        challenge: &'a [u8],
        /// The peer's sixteen octets.
        response: &'a [u8],
    },
}

/// Whether the credential is the one that MAB uses at this client. `user_name` is what the request sent: of all spellings
/// a switch may have hashed, the likeliest.
pub fn check_password(
    policy: &MabPassword,
    address: MacAddress,
    credential: &Credential<'_>,
    user_name: Option<&[u8]>,
) -> bool {
    let proves: &dyn Fn(&[u8]) -> bool = match credential {
        Credential::None => return !matches!(policy, MabPassword::Fixed(_)),
        Credential::Pap(password) => {
            return match policy {
                MabPassword::Any => true,
                MabPassword::Fixed(secret) => secret.is(password),
                MabPassword::Mac => password.is_empty() || MacAddress::parse(password) == Some(address),
            };
        }
        Credential::Chap {
            identifier,
            challenge,
            response,
        }
        | Credential::EapMd5 {
            identifier,
            challenge,
            response,
        } => &|password| crypto::verify_chap(*identifier, password, challenge, response),
    };
    match policy {
        MabPassword::Any => true,
        MabPassword::Fixed(secret) => proves(secret.expose()),
        MabPassword::Mac => {
            // Only a name that is this address: it stands in for the spellings that mix upper and lower case.
            user_name
                .filter(|name| MacAddress::parse(name) == Some(address))
                .is_some_and(proves)
                || address.spellings().any(|spelling| proves(spelling.as_bytes()))
                || proves(b"")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTER: MacAddress = MacAddress([0x00, 0x1b, 0x78, 0xca, 0xfe, 0x0f]);

    fn class(user_name: Option<&str>, station: Option<&str>, identity: MabIdentity) -> Mab {
        classify(&MabRequest {
            user_name: user_name.map(str::as_bytes),
            calling_station_id: station.map(str::as_bytes),
            identity,
            ..Default::default()
        })
    }

    #[test]
    fn the_table_of_the_module_holds() {
        use Attempt::{EapMd5, WithoutEap};
        let same = Mab::Mac(PRINTER);
        for (name, station, expected, without_eap, md5) in [
            (Some("001b78cafe0f"), Some("00-1B-78-CA-FE-0F"), same, None, None),
            (
                Some("001b78cafe0f"),
                Some("00-1B-78-CA-FE-10"),
                Mab::Mismatch,
                Some(Reason::MacMismatch),
                Some(Reason::MacMismatch),
            ),
            (
                Some("001b78cafe0f"),
                Some("10.0.0.7"),
                Mab::Mismatch,
                Some(Reason::MacMismatch),
                Some(Reason::MacMismatch),
            ),
            (
                Some("001b78cafe0f"),
                None,
                Mab::Mismatch,
                Some(Reason::MacMismatch),
                Some(Reason::MacMismatch),
            ),
            (
                Some("host/laptop-7"),
                Some("00-1B-78-CA-FE-0F"),
                Mab::User(PRINTER),
                Some(Reason::MacMismatch),
                Some(Reason::MethodRefused),
            ),
            (
                None,
                Some("00-1B-78-CA-FE-0F"),
                Mab::Mismatch,
                Some(Reason::MacMismatch),
                Some(Reason::MacMismatch),
            ),
            (
                Some("alice"),
                Some("10.0.0.7"),
                Mab::No,
                Some(Reason::NoCredentials),
                Some(Reason::MethodRefused),
            ),
            (
                Some("alice"),
                None,
                Mab::No,
                Some(Reason::NoCredentials),
                Some(Reason::MethodRefused),
            ),
            (
                None,
                None,
                Mab::No,
                Some(Reason::NoCredentials),
                Some(Reason::MethodRefused),
            ),
        ] {
            let class = class(name, station, MabIdentity::CallingStationId);
            assert_eq!(class, expected, "{name:?} {station:?}");
            assert_eq!(class.refusal(WithoutEap), without_eap, "{name:?} {station:?}");
            assert_eq!(class.refusal(EapMd5), md5, "{name:?} {station:?}");
            assert_eq!(class.offers_md5(), md5.is_none());
        }
    }

    #[test]
    fn user_name_alone_is_enough_where_the_client_says_so() {
        let named = |station| class(Some("00:1b:78:ca:fe:0f"), station, MabIdentity::UserName);
        assert_eq!(named(None), Mab::Mac(PRINTER));
        assert_eq!(named(Some("001b.78ca.fe0f")), Mab::Mac(PRINTER));
        assert_eq!(
            named(Some("001b.78ca.fe10")),
            Mab::Mismatch,
            "a different one is still a mismatch"
        );
        assert_eq!(named(Some("")), Mab::Mac(PRINTER), "an empty one is none");
        let user = class(Some("alice"), Some("001b.78ca.fe0f"), MabIdentity::UserName);
        assert_eq!(user, Mab::User(PRINTER));
    }

    #[test]
    fn logins_to_the_switch_are_never_mab() {
        let mac = Some(&b"001b78cafe0f"[..]);
        let request = |service_types, nas_port_type| {
            classify(&MabRequest {
                user_name: mac,
                calling_station_id: mac,
                service_types,
                nas_port_type,
                ..Default::default()
            })
        };
        for (services, port) in [
            (&[6][..], None),
            (&[7], Some(15)),
            (&[10, 7], None),
            (&[10], Some(5)),
            (&[], Some(5)),
        ] {
            let class = request(services, port);
            assert_eq!(class, Mab::NotNetworkAccess, "{services:?} {port:?}");
            assert!(!class.offers_md5());
            assert_eq!(class.refusal(Attempt::WithoutEap), Some(Reason::NotNetworkAccess));
            assert_eq!(class.refusal(Attempt::EapMd5), Some(Reason::NotNetworkAccess));
        }
        // Call-Check is not required, Framed and Login are what other switches send.
        for (services, port) in [(&[10][..], Some(15)), (&[2], Some(19)), (&[1, 2], None), (&[], None)] {
            assert_eq!(request(services, port), Mab::Mac(PRINTER), "{services:?} {port:?}");
        }
    }

    fn check(policy: &MabPassword, credential: Credential<'_>) -> bool {
        check_password(policy, PRINTER, &credential, Some(b"001B78cafe0F"))
    }

    #[test]
    fn pap_is_the_address_in_any_spelling_or_nothing() {
        for password in ["001b78cafe0f", "00:1B:78:CA:FE:0F", "001b.78CA.fe0f", ""] {
            assert!(
                check(&MabPassword::Mac, Credential::Pap(password.as_bytes())),
                "{password}"
            );
        }
        for password in ["001b78cafe10", "NOPASSWORD", "0"] {
            assert!(
                !check(&MabPassword::Mac, Credential::Pap(password.as_bytes())),
                "{password}"
            );
            assert!(
                check(&MabPassword::Any, Credential::Pap(password.as_bytes())),
                "{password}"
            );
        }
        let fixed = MabPassword::parse("NOPASSWORD");
        assert!(check(&fixed, Credential::Pap(b"NOPASSWORD")));
        assert!(!check(&fixed, Credential::Pap(b"nopassword")));
        assert!(!check(&fixed, Credential::Pap(b"001b78cafe0f")));
        assert!(!check(&fixed, Credential::Pap(b"")));
    }

    #[test]
    fn no_password_is_enough_unless_one_is_fixed() {
        assert!(check(&MabPassword::Mac, Credential::None));
        assert!(check(&MabPassword::Any, Credential::None));
        assert!(!check(&MabPassword::parse("secret"), Credential::None));
    }

    #[test]
    fn chap_and_eap_md5_are_tried_with_every_spelling() {
        let proofs = |password: &[u8]| {
            let response = crypto::chap_response(22, password, b"challenge");
            [
                |response| Credential::Chap {
                    identifier: 22,
                    challenge: b"challenge",
                    response,
                },
                |response| Credential::EapMd5 {
                    identifier: 22,
                    challenge: b"challenge",
                    response,
                },
            ]
            .map(|credential| {
                [MabPassword::Mac, MabPassword::Any, MabPassword::parse("hunter2")]
                    .map(|policy| check(&policy, credential(&response)))
            })
        };
        for spelling in PRINTER.spellings() {
            assert_eq!(proofs(spelling.as_bytes()), [[true, true, false]; 2], "{spelling:?}");
        }
        assert_eq!(
            proofs(b"001B78cafe0F"),
            [[true, true, false]; 2],
            "as User-Name is written, mixed case"
        );
        assert_eq!(proofs(b""), [[true, true, false]; 2]);
        assert_eq!(proofs(b"hunter2"), [[false, true, true]; 2]);
        assert_eq!(proofs(b"001b78cafe10"), [[false, true, false]; 2]);
        assert!(!check(
            &MabPassword::Mac,
            Credential::Chap {
                identifier: 1,
                challenge: b"c",
                response: b"short"
            }
        ));
    }

    #[test]
    fn settings_are_read() {
        assert_eq!(MabPassword::parse("mac"), MabPassword::Mac);
        assert_eq!(MabPassword::parse("any"), MabPassword::Any);
        assert_eq!(
            MabPassword::parse("Any"),
            MabPassword::Fixed(Box::new(Secret::new(b"Any")))
        );
        for identity in [MabIdentity::CallingStationId, MabIdentity::UserName] {
            assert_eq!(MabIdentity::parse(identity.word()), Some(identity));
        }
        assert_eq!(MabIdentity::parse("mac"), None);
    }
}
