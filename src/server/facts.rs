//! Facts: what the site's rules may see of a request (step 8). Only those that they name are computed.

use std::borrow::Cow;
use std::net::IpAddr;
use std::time::SystemTime;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rustls_pki_types::{CertificateDer, UnixTime};

use crate::eap::method::EapType;
use crate::policy::facts::Facts;
use crate::policy::model::Method;
use crate::policy::prepared::ShownNames;
use crate::radius::attribute::for_each_value;
use crate::radius::dictionary::Dictionary;
use crate::radius::dictionary::types::{AttributeId, Value};
use crate::radius::packet::Packet;
use crate::store::directory::Site;
use crate::trust::TrustSet;
use crate::trust::facts::FactIds;

/// Attributes that the request path knows by name: looked up once.
#[derive(Debug)]
pub struct Names {
    client_shortname: Option<AttributeId>,
    packet_src_ip_address: Option<AttributeId>,
    auth_method: Option<AttributeId>,
    eap_type: Option<AttributeId>,
    ssid: Option<AttributeId>,
    time_of_day: Option<AttributeId>,
    day_of_week: Option<AttributeId>,
    certificate: FactIds,
    pub(super) user_name: Option<AttributeId>,
    /// What the log line shows.
    pub(super) shown: ShownNames,
}

impl Names {
    /// Those of `dictionary`.
    pub fn new(dictionary: &Dictionary) -> Names {
        Names {
            client_shortname: dictionary.by_name("Client-Shortname"),
            packet_src_ip_address: dictionary.by_name("Packet-Src-IP-Address"),
            auth_method: dictionary.by_name("Auth-Method"),
            eap_type: dictionary.by_name("EAP-Type"),
            ssid: dictionary.by_name("SSID"),
            time_of_day: dictionary.by_name("Time-Of-Day"),
            day_of_week: dictionary.by_name("Day-Of-Week"),
            certificate: FactIds::new(dictionary),
            user_name: dictionary.by_name("User-Name"),
            shown: ShownNames::new(dictionary),
        }
    }
}

/// What facts are made of.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// The request's attributes.
    pub packet: Option<&'a Packet<'a>>,
    /// The network's name.
    pub ssid: Option<&'a [u8]>,
    /// The client's address.
    pub source: Option<IpAddr>,
    /// The site's tag.
    pub site_tag: &'a str,
    /// The site, which may have a time zone of its own.
    pub site: Option<&'a Site>,
    /// Where the clocks of other sites are.
    pub timezone: &'a TimeZone,
    /// How the device authenticated.
    pub method: Method,
    /// By which EAP method, if any.
    pub eap_type: Option<EapType>,
    /// The chain that was verified, and the set that verified it.
    pub certificate: Option<(&'a TrustSet, &'a [CertificateDer<'static>])>,
    /// The time.
    pub now: SystemTime,
}

/// Collects the facts that are `wanted`.
pub fn collect<'a>(
    dictionary: &'a Dictionary,
    names: &Names,
    about: &About<'a>,
    wanted: impl Fn(AttributeId) -> bool,
) -> Facts<'a> {
    let mut facts = Facts::new(dictionary);
    if let Some(packet) = about.packet {
        for_each_value(dictionary, packet, &wanted, |id, _, value| match value {
            Ok(value) => facts.push(id, value),
            Err(_) => facts.push_malformed(id),
        });
    }
    // A network's name may be any octets. One that is no text is malformed, not absent, so that `SSID != guest` does not
    // hold for it (rule 2.8).
    if let (Some(id), Some(ssid)) = (names.ssid.filter(|id| wanted(*id)), about.ssid) {
        match std::str::from_utf8(ssid) {
            Ok(ssid) => facts.push(id, Value::Text(ssid.into())),
            Err(_) => facts.push_malformed(id),
        }
    }
    let mut push = |id: Option<AttributeId>, value: &dyn Fn() -> Option<Value<'a>>| {
        if let Some(id) = id.filter(|id| wanted(*id))
            && let Some(value) = value()
        {
            facts.push(id, value);
        }
    };
    push(names.client_shortname, &|| Some(Value::Text(about.site_tag.into())));
    push(names.packet_src_ip_address, &|| about.source.map(Value::Address));
    push(names.auth_method, &|| Some(Value::Text(about.method.word().into())));
    push(names.eap_type, &|| {
        about.eap_type.map(|eap_type| Value::Unsigned(eap_type.0.into()))
    });
    let local = || {
        Timestamp::try_from(about.now).ok().map(|now| {
            about
                .site
                .and_then(Site::timezone)
                .unwrap_or(about.timezone)
                .to_datetime(now)
        })
    };
    push(names.time_of_day, &|| {
        local().map(|now| text(now.strftime("%H:%M").to_string()))
    });
    push(names.day_of_week, &|| {
        local().map(|now| text(now.strftime("%a").to_string().to_ascii_lowercase()))
    });
    if let Some((trust, chain)) = about.certificate {
        let since = about.now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        trust.push_facts(
            chain,
            &names.certificate,
            &wanted,
            UnixTime::since_unix_epoch(since),
            &mut facts,
        );
    }
    facts
}

fn text(text: String) -> Value<'static> {
    Value::Text(Cow::Owned(text))
}
