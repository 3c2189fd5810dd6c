//! The devices: what each shows of itself, and what the switch says of it.

use std::sync::Arc;

use anyhow::{anyhow, bail};
use portreeve::eap::peer::{Peer, PeerSettings, Strictness};
use portreeve::mac::MacAddress;
use portreeve::nas::{Attempt, Credentials, Signing};
use portreeve::radius::attribute::encode_attribute;
use portreeve::radius::crypto::Secret;
use portreeve::radius::dictionary::Dictionary;
use portreeve::radius::dictionary::types::{AttributeId, Value};
use portreeve::radius::packet::number;

use crate::attributes::{self, Attribute};
use crate::cases::{Group, Groups, Layers};
use crate::macs::{MacList, digits};
use crate::memories::Memories;
use crate::options::{Devices, Mab, MabMethod};
use crate::plan::Plan;
use crate::socket::BATCH;
use crate::sources::Sources;
use crate::supplicants::{FRAGMENT_OCTETS, supplicants};

/// Of `portreeve demo`.
const DEFAULT_SECRET: &str = "testing123";

/// All devices.
pub struct Fleet {
    pub secret: Arc<Secret>,
    signing: Signing,
    method: Method,
    /// Of devices whose group has none.
    macs: MacList,
    groups: Groups,
    /// What is added for each port and device, unless the user or a plan sets it.
    nas_port: Option<AttributeId>,
    nas_port_id: Option<AttributeId>,
    calling_station_id: bool,
}

/// Which device of the plan one is.
#[derive(Clone, Copy)]
pub struct Device<'f> {
    /// Of all, from 0.
    pub number: u64,
    pub group: &'f Group,
    /// In its group, from 0.
    in_group: u64,
}

enum Method {
    /// Devices take turns with the certificates.
    EapTls {
        certificates: Vec<Arc<PeerSettings>>,
        memories: Option<Memories>,
    },
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
    pub fn new(devices: &Devices, plan: &Plan) -> anyhow::Result<Fleet> {
        let common = devices.common();
        let (method, macs, defaults): (_, _, &[&str]) = match devices {
            Devices::EapTls(options) => (
                Method::EapTls {
                    certificates: supplicants(options)?,
                    memories: options.resume.then(Memories::default),
                },
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
        let layers = Layers {
            defaults: &defaults,
            attributes: &common.attr,
            expect: &common.expect,
        };
        let groups = match plan.cases.is_empty() {
            true => Groups::single(&layers, common.sources.clone())?,
            false if common.sources.is_some() => {
                bail!("the plan's cases say where requests come from, not `--sources`")
            }
            false => Groups::of_cases(&plan.cases, devices.word(), &layers)?,
        };
        let unless_set = |name| {
            let id = Dictionary::builtin().by_name(name)?;
            let set = [&common.attr, &groups.set];
            (!set.iter().any(|set| attributes::names(set, id))).then_some(id)
        };
        let secret = common.secret.as_ref().or(plan.secret.as_ref());
        Ok(Fleet {
            secret: Arc::new(Secret::new(secret.map_or(DEFAULT_SECRET, String::as_str).as_bytes())),
            signing: common.message_authenticator.into(),
            method,
            macs: macs.clone(),
            nas_port: unless_set("NAS-Port"),
            nas_port_id: unless_set("NAS-Port-Id"),
            calling_station_id: unless_set("Calling-Station-Id").is_some(),
            groups,
        })
    }

    /// The attributes that name one port of the switch. No two devices share a port at a time: a server may well
    /// take the second for the first, begun anew.
    pub fn port_attributes(&self, port: u32) -> anyhow::Result<Vec<u8>> {
        let mut octets = Vec::new();
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
        self.groups.sources.as_ref()
    }

    /// A device by its number.
    pub fn device(&self, number: u64) -> Option<Device<'_>> {
        let (group, in_group) = self.groups.find(number)?;
        Some(Device {
            number,
            group,
            in_group,
        })
    }

    /// The number of the source address of a device.
    pub fn source(&self, device: Device<'_>) -> usize {
        let all = self.sources().map_or(1, Sources::count);
        device.group.source(device.in_group, all)
    }

    /// Requests that are worth waiting for to send them together: few where each takes long to compute.
    pub fn batch(&self) -> usize {
        match self.method {
            Method::EapTls { .. } => 4,
            Method::Mab { .. } => BATCH,
        }
    }

    /// The address of a device.
    fn mac(&self, device: Device<'_>) -> MacAddress {
        let own = device.group.mac(device.in_group);
        own.unwrap_or_else(|| self.macs.at(device.number))
    }

    /// A device, for messages.
    pub fn name(&self, device: Device<'_>) -> String {
        match &device.group.name {
            Some(site) => format!("{} at {site}", self.mac(device)),
            None => self.mac(device).to_string(),
        }
    }

    /// The authentication of a device at a port with these attributes, from that source; `scratch` is overwritten.
    pub fn attempt(
        &self,
        device: Device<'_>,
        source: usize,
        port_attributes: &[u8],
        scratch: &mut Vec<u8>,
    ) -> anyhow::Result<Attempt> {
        let plain = digits(self.mac(device));
        scratch.clear();
        scratch.extend_from_slice(&device.group.attributes);
        scratch.extend_from_slice(port_attributes);
        if self.calling_station_id {
            const OCTETS: u8 = 17;
            scratch.extend_from_slice(&[number::CALLING_STATION_ID, 2 + OCTETS]);
            for (at, pair) in plain.chunks_exact(2).enumerate() {
                scratch.extend_from_slice(if at > 0 { b"-" } else { b"" });
                scratch.extend_from_slice(pair);
            }
        }
        let (user_name, credentials) = match &self.method {
            Method::EapTls { certificates, memories } => {
                let at = usize::try_from(device.number % certificates.len().max(1) as u64)?;
                let settings = certificates.get(at).ok_or_else(|| anyhow!("there is no certificate"))?;
                let settings = match memories {
                    Some(memories) => memories.of(at, source, settings),
                    None => Arc::clone(settings),
                };
                (
                    settings.identity.clone(),
                    Credentials::Eap(Box::new(Peer::new(settings))),
                )
            }
            Method::Mab {
                method,
                password,
                identity,
            } => {
                let user_name = identity
                    .as_ref()
                    .map_or(&plain[..], |identity| identity.as_bytes())
                    .to_vec();
                let password = password
                    .as_ref()
                    .map_or(&plain[..], |password| password.as_bytes())
                    .to_vec();
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
        let attributes = Arc::from(scratch.as_slice());
        let attempt = Attempt::new(Arc::clone(&self.secret), user_name, attributes, credentials);
        Ok(attempt.signed(self.signing))
    }
}
