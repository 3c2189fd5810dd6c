//! What a request asks for, told from its attributes.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::net::IpAddr;
use std::sync::Arc;

use super::access::Sent;
use super::record::{Authentication, Outcome, Text, Texts};
use super::{Moment, Settings};
use crate::clients::Client;
use crate::mab::{self, Attempt, Credential, Mab, MabRequest};
use crate::mac::MacAddress;
use crate::radius::code::Code;
use crate::radius::crypto;
use crate::radius::packet::{Packet, number};
use crate::reason::Reason;
use crate::store::directory::Snapshot;

/// Service-Types that are looked at; switches that send several send two or three.
const SERVICE_TYPES: usize = 8;

/// A request whose sender knows the client's secret.
pub(super) struct Request<'a> {
    /// The packet.
    pub packet: Packet<'a>,
    /// Who sent it.
    pub client: &'a Arc<Client>,
    /// The policy data that it is answered by.
    pub snapshot: &'a Snapshot,
    /// When and from where.
    pub moment: Moment,
    /// The node's own, for `/readyz`.
    pub is_probe: bool,
    is_probe_user: bool,
    mab: OnceCell<Mab>,
}

/// What a request asks for.
pub(super) enum Kind<'a> {
    /// Whether this server is alive (RFC 5997).
    Status,
    /// EAP: the joined EAP-Message, empty for EAP-Start.
    Eap(Cow<'a, [u8]>),
    /// MAC authentication by PAP, CHAP or without a password, of an address whose password was right.
    Mab(MacAddress),
    /// Nothing that can be granted.
    Refused(Reason),
}

impl<'a> Request<'a> {
    /// A request that passed step 3.
    pub(super) fn new(sent: Sent<'a>, snapshot: &'a Snapshot, moment: Moment, settings: &Settings) -> Request<'a> {
        let Sent {
            packet,
            client,
            is_probe,
        } = sent;
        // The node's own probe has a name too, which may well be one that switches use.
        let is_probe_user = !is_probe
            && packet
                .first(number::USER_NAME)
                .is_some_and(|user| settings.probe_users.iter().any(|probe| probe.as_bytes() == user));
        Request {
            packet,
            client,
            snapshot,
            moment,
            is_probe,
            is_probe_user,
            mab: OnceCell::new(),
        }
    }

    /// Step 5: what it asks for.
    pub(super) fn kind(&self) -> Kind<'a> {
        if self.packet.code() == Code::StatusServer {
            return Kind::Status;
        }
        if self.is_probe_user {
            return Kind::Refused(Reason::Probe);
        }
        if let Some(message) = self.packet.eap_message() {
            return Kind::Eap(message);
        }
        match self.mab() {
            Mab::Mac(mac) if self.password_is_right(mac) => Kind::Mab(mac),
            Mab::Mac(_) => Kind::Refused(Reason::MabPassword),
            other => Kind::Refused(other.refusal(Attempt::WithoutEap).unwrap_or(Reason::NoCredentials)),
        }
    }

    /// Whether it is MAC authentication, whatever its credentials.
    pub(super) fn mab(&self) -> Mab {
        *self.mab.get_or_init(|| self.classify())
    }

    fn classify(&self) -> Mab {
        let mut service_types = [0; SERVICE_TYPES];
        let mut count = 0;
        for (place, value) in service_types
            .iter_mut()
            .zip(self.packet.all(number::SERVICE_TYPE).filter_map(integer))
        {
            *place = value;
            count += 1;
        }
        mab::classify(&MabRequest {
            user_name: self.user_name(),
            calling_station_id: self.packet.first(number::CALLING_STATION_ID),
            service_types: service_types.get(..count).unwrap_or_default(),
            nas_port_type: self.packet.first(number::NAS_PORT_TYPE).and_then(integer),
            identity: self.client.mab_identity,
        })
    }

    fn password_is_right(&self, mac: MacAddress) -> bool {
        let authenticator = self.packet.authenticator();
        let (setting, user_name) = (&self.client.mab_password, self.user_name());
        if let Some(hidden) = self.packet.first(number::USER_PASSWORD) {
            return crypto::reveal_user_password(hidden, &self.client.secret, authenticator).is_some_and(|password| {
                mab::check_password(setting, mac, &Credential::Pap(password.as_bytes()), user_name)
            });
        }
        let Some(chap) = self.packet.first(number::CHAP_PASSWORD) else {
            return mab::check_password(setting, mac, &Credential::None, user_name);
        };
        let Some((&identifier, response)) = chap.split_first() else {
            return false;
        };
        // RFC 2865 section 5.40: the request authenticator is the challenge where there is no CHAP-Challenge.
        let challenge = self.packet.first(number::CHAP_CHALLENGE).unwrap_or(authenticator);
        mab::check_password(
            setting,
            mac,
            &Credential::Chap {
                identifier,
                challenge,
                response,
            },
            user_name,
        )
    }

    /// User-Name.
    pub(super) fn user_name(&self) -> Option<&'a [u8]> {
        self.packet.first(number::USER_NAME)
    }

    /// Calling-Station-Id, empty where there is none.
    pub(super) fn calling_station_id(&self) -> &'a [u8] {
        self.packet.first(number::CALLING_STATION_ID).unwrap_or_default()
    }

    /// What names the NAS, and what its port; `None` where the request names no port or no device.
    pub(super) fn port(&self) -> Option<(&'a [u8], &'a [u8])> {
        let port = self
            .packet
            .first(number::NAS_PORT_ID)
            .or_else(|| self.packet.first(number::NAS_PORT))?;
        let nas = self
            .packet
            .first(number::NAS_IDENTIFIER)
            .or_else(|| self.packet.first(number::NAS_IP_ADDRESS));
        self.packet.first(number::CALLING_STATION_ID)?;
        Some((nas.unwrap_or_default(), port))
    }

    /// Framed-MTU (RFC 3579 section 2.4): the EAP packet and its header of 4 octets must fit.
    pub(super) fn framed_mtu(&self) -> Option<u32> {
        self.packet.first(number::FRAMED_MTU).and_then(integer)
    }

    /// The record of this request, as far as its attributes go.
    pub(super) fn record(&self, outcome: Outcome, reason: Reason) -> Authentication {
        let source = self.moment.source.ip();
        let mut record = Authentication::new(self.moment.wall, source, outcome, reason);
        let texts = &mut record.texts;
        match self.packet.first(number::NAS_IDENTIFIER) {
            Some(name) => texts.set(Text::NasId, name),
            None => self.nas_address(texts),
        }
        match self.packet.first(number::NAS_PORT_ID) {
            Some(port) => texts.set(Text::PortId, port),
            None => self.nas_port(texts),
        }
        if let Some(ssid) = self.ssid() {
            texts.set(Text::Ssid, ssid);
        }
        if let Some(user) = self.user_name() {
            texts.set(Text::User, user);
        }
        record.mac = match self.mab() {
            Mab::Mac(mac) | Mab::User(mac) => Some(mac),
            Mab::No => None,
            Mab::Mismatch | Mab::NotNetworkAccess => {
                MacAddress::parse(self.calling_station_id()).or_else(|| self.user_name().and_then(MacAddress::parse))
            }
        };
        record
    }

    /// The network's name from any Called-Station-Id (RFC 3580 section 3.20: `00-10-A4-23-19-C0:AP1`).
    pub(super) fn ssid(&self) -> Option<&'a [u8]> {
        self.packet.all(number::CALLED_STATION_ID).find_map(ssid)
    }

    fn nas_address(&self, texts: &mut Texts) {
        let address = self.packet.first(number::NAS_IP_ADDRESS);
        if let Some(Ok(octets)) = address.map(<[u8; 4]>::try_from) {
            texts.set(Text::NasId, IpAddr::from(octets).to_string().as_bytes());
        }
    }

    fn nas_port(&self, texts: &mut Texts) {
        if let Some(port) = self.packet.first(number::NAS_PORT).and_then(integer) {
            texts.set(Text::PortId, port.to_string().as_bytes());
        }
    }
}

/// The part of a Called-Station-Id behind the MAC address and a colon. The address may be written with colons itself.
pub fn ssid(called_station_id: &[u8]) -> Option<&[u8]> {
    called_station_id
        .iter()
        .enumerate()
        .filter(|(_, octet)| **octet == b':')
        .find_map(|(at, _)| {
            let (address, rest) = called_station_id.split_at_checked(at)?;
            MacAddress::parse(address)?;
            rest.get(1..).filter(|ssid| !ssid.is_empty())
        })
}

fn integer(octets: &[u8]) -> Option<u32> {
    octets.try_into().ok().map(u32::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::ssid;

    #[test]
    fn the_ssid_stands_behind_the_address() {
        assert_eq!(ssid(b"00-10-A4-23-19-C0:AP1"), Some(&b"AP1"[..]));
        assert_eq!(ssid(b"00:10:a4:23:19:c0:corp:guest"), Some(&b"corp:guest"[..]));
        assert_eq!(ssid(b"0010.a423.19c0:corp"), Some(&b"corp"[..]));
        assert_eq!(ssid(b"00-10-A4-23-19-C0"), None);
        assert_eq!(ssid(b"00-10-A4-23-19-C0:"), None);
        assert_eq!(ssid(b"+44 20 7946 0000:1"), None);
        assert_eq!(ssid(b""), None);
    }
}
