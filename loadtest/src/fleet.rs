//! The devices: what each shows of itself, and what the switch says of it.

use std::sync::Arc;

use anyhow::anyhow;
use portreeve::eap::peer::{Peer, PeerSettings, Strictness};
use portreeve::mac::MacAddress;
use portreeve::nas::{Attempt, Credentials};
use portreeve::radius::attribute::encode_attribute;
use portreeve::radius::crypto::Secret;
use portreeve::radius::dictionary::Dictionary;
use portreeve::radius::dictionary::types::{AttributeId, Value};

use crate::attributes::{self, Attribute, Expectations};
use crate::macs::MacList;
use crate::options::{Devices, Mab, MabMethod};
use crate::socket::BATCH;
use crate::sources::Sources;
use crate::supplicants::{FRAGMENT_OCTETS, supplicants};

/// All devices.
pub struct Fleet {
    pub secret: Arc<Secret>,
    method: Method,
    macs: MacList,
    sources: Option<Sources>,
    expectations: Expectations,
    /// Encoded attributes that stand in every request.
    fixed: Vec<u8>,
    /// What is added for each port and device, unless the user set it for all.
    nas_port: Option<AttributeId>,
    nas_port_id: Option<AttributeId>,
    calling_station_id: Option<AttributeId>,
}

enum Method {
    /// Devices take turns with the certificates.
    EapTls(Vec<Arc<PeerSettings>>),
    Mab {
        method: MabMethod,
        password: Option<String>,
        identity: Option<String>,
    },
}

impl Fleet {
    /// Reads the files and encodes the attributes.
    ///
    /// # Errors
    /// What the user has to change.
    pub fn new(devices: &Devices) -> anyhow::Result<Fleet> {
        let common = devices.common();
        let (method, macs, defaults): (_, _, &[&str]) = match devices {
            Devices::EapTls(options) => (
                Method::EapTls(supplicants(options)?),
                &options.mac,
                &["Service-Type=Framed-User", "Framed-MTU=1400"],
            ),
            Devices::Mab(Mab {
                method,
                password,
                identity,
                mac,
                ..
            }) => (
                Method::Mab {
                    method: *method,
                    password: password.clone(),
                    identity: identity.clone(),
                },
                mac,
                &["Service-Type=Call-Check"],
            ),
        };
        let defaults = defaults
            .iter()
            .chain(&["NAS-Port-Type=Ethernet", "NAS-Identifier=portreeve-load"])
            .map(|text| text.parse::<Attribute>().map_err(|error| anyhow!(error)))
            .collect::<Result<Vec<_>, _>>()?;
        let unless_set = |name| {
            let id = Dictionary::builtin().by_name(name)?;
            (!attributes::names(&common.attr, id)).then_some(id)
        };
        Ok(Fleet {
            secret: Arc::new(Secret::new(common.secret.as_bytes())),
            method,
            macs: macs.clone(),
            sources: common.sources.clone(),
            expectations: Expectations::new(&common.expect),
            fixed: attributes::encode(&defaults, &common.attr)?,
            nas_port: unless_set("NAS-Port"),
            nas_port_id: unless_set("NAS-Port-Id"),
            calling_station_id: unless_set("Calling-Station-Id"),
        })
    }

    /// The attributes of requests from one port of the switch. No two devices share a port at a time: a server may well
    /// take the second for the first, begun anew.
    pub fn port_attributes(&self, port: u32) -> anyhow::Result<Vec<u8>> {
        let mut octets = self.fixed.clone();
        let mut add = |id: Option<AttributeId>, value: Value<'_>| match id {
            Some(id) => encode_attribute(Dictionary::builtin(), id, None, &value, None, &mut octets),
            None => Ok(()),
        };
        add(self.nas_port, Value::Unsigned(port.into()))?;
        // two runs at once have different ports too
        let name = format!("load{}/{port}", std::process::id());
        add(self.nas_port_id, Value::Text(name.into()))?;
        Ok(octets)
    }

    /// The source addresses, unless the system chooses one.
    pub fn sources(&self) -> Option<&Sources> {
        self.sources.as_ref()
    }

    /// The number of the source address of a device.
    pub fn source(&self, device: u64) -> usize {
        let count = self.sources.as_ref().map_or(1, Sources::count).max(1);
        usize::try_from(device % count as u64).unwrap_or_default()
    }

    /// What the accept of a device must carry.
    pub fn expectations(&self, _device: u64) -> &Expectations {
        &self.expectations
    }

    /// Requests that are worth waiting for to send them together: few where each takes long to compute.
    pub fn batch(&self) -> usize {
        match self.method {
            Method::EapTls(_) => 4,
            Method::Mab { .. } => BATCH,
        }
    }

    /// The address of a device.
    pub fn mac(&self, device: u64) -> MacAddress {
        self.macs.at(device)
    }

    /// The authentication of a device at a port with these attributes.
    pub fn attempt(&self, device: u64, port_attributes: &[u8]) -> anyhow::Result<Attempt> {
        let mac = self.mac(device);
        let mut octets = Vec::with_capacity(port_attributes.len() + 19);
        octets.extend_from_slice(port_attributes);
        if let Some(id) = self.calling_station_id {
            let value = Value::Text(mac.to_string().into());
            encode_attribute(Dictionary::builtin(), id, None, &value, None, &mut octets)?;
        }
        let (user_name, credentials) = match &self.method {
            Method::EapTls(certificates) => {
                let at = usize::try_from(device % certificates.len().max(1) as u64)?;
                let settings = certificates.get(at).ok_or_else(|| anyhow!("there is no certificate"))?;
                (
                    settings.identity.clone(),
                    Credentials::Eap(Box::new(Peer::new(Arc::clone(settings)))),
                )
            }
            Method::Mab {
                method,
                password,
                identity,
            } => {
                let plain = format!("{:012x}", mac.to_u64());
                let user_name = identity.as_ref().unwrap_or(&plain).clone().into_bytes();
                let password = password.as_ref().unwrap_or(&plain).clone().into_bytes();
                let credentials = match method {
                    MabMethod::Pap => Credentials::Pap(password),
                    MabMethod::Chap => Credentials::Chap(password),
                    MabMethod::None => Credentials::None,
                    MabMethod::EapMd5 => Credentials::Eap(Box::new(Peer::new(Arc::new(PeerSettings {
                        identity: user_name.clone(),
                        md5_password: Some(password.into()),
                        tls: None,
                        tunnel: None,
                        fragment_size: FRAGMENT_OCTETS,
                        strictness: Strictness::Strict,
                    })))),
                };
                (user_name, credentials)
            }
        };
        Ok(Attempt::new(
            Arc::clone(&self.secret),
            user_name,
            octets.into(),
            credentials,
        ))
    }
}
