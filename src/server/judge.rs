//! Evidence before the site's policies: steps 8 and 9, and the attributes of the reply.

use std::borrow::Cow;
use std::sync::Arc;

use rustls_pki_types::CertificateDer;

use super::Server;
use super::facts::{self, About};
use super::metrics::CacheResult;
use super::open::Open;
use super::record::{Authentication, Text, Texts};
use super::request::Request;
use crate::clients::SiteId;
use crate::conversations::Hidden;
use crate::endpoints::Found;
use crate::mac::MacAddress;
use crate::policy::compile::{CompiledResponse, CompiledSite};
use crate::policy::evaluate::{Decision, decide, needs};
use crate::policy::model::{Action, Method};
use crate::policy::prepared::Shown;
use crate::radius::packet::{HEADER_OCTETS, MAX_PACKET_OCTETS, number};
use crate::reason::Reason;
use crate::store::directory::{Site, SiteState, Snapshot};

/// What was proven of a device.
#[derive(Debug)]
pub(super) enum Evidence {
    /// That it, or the switch for it, uses this address; the password was right.
    Mac(MacAddress),
    /// That it has the key of this certificate, which the client CAs vouch for.
    Certificate {
        /// The device's own certificate first.
        chain: Vec<CertificateDer<'static>>,
    },
}

/// The outcome of [`Server::judge`].
pub(super) enum Judged {
    /// A decision.
    Decided(Box<Decided>),
    /// The site's policies are not in memory.
    Load,
}

/// The policies of a site as they were read for a request that waited.
#[derive(Debug)]
pub(super) struct Loaded {
    /// The revision they are of.
    pub snapshot: Arc<Snapshot>,
    /// What decides.
    pub site: SiteState,
}

/// A decision as a reply and a log line need it.
#[derive(Debug)]
pub(super) struct Decided {
    /// Accept or reject.
    pub action: Action,
    /// Why.
    pub reason: Reason,
    /// Attributes of the reply, encoded.
    pub attributes: Vec<u8>,
    /// Attributes of the reply that each reply hides anew.
    pub hidden: Vec<Hidden>,
    method: Method,
    /// Site, policy, rule, epoch, VLAN and ACL, and perhaps a detail.
    texts: Texts,
    revision: Option<u64>,
    /// Where the policies in force come from. Never a database: no decision waits for one.
    source: &'static str,
}

impl Decided {
    /// Puts what is known of the decision into the record of the authentication.
    pub(super) fn describe(&self, record: &mut Authentication) {
        record.reason = self.reason;
        record.method = Some(self.method);
        record.revision = self.revision;
        record.source = Some(self.source);
        record.texts.set_all(&self.texts);
        if self.action == Action::Reject {
            record.texts.forget_reply();
        }
    }

    fn reject(reason: Reason, method: Method) -> Decided {
        Decided {
            action: Action::Reject,
            reason,
            attributes: Vec::new(),
            hidden: Vec::new(),
            method,
            texts: Texts::default(),
            revision: None,
            source: "memory",
        }
    }
}

/// What a listing says of a device.
struct Listing<'a> {
    method: Method,
    responses: Option<&'a [CompiledResponse]>,
    is_expired: bool,
    is_elsewhere: bool,
}

impl Server {
    /// Puts the evidence before the policies of the client's site. `open` is the EAP conversation it comes from.
    pub(super) fn judge(&self, request: &Request<'_>, open: Option<&Open>, evidence: &Evidence) -> Judged {
        let snapshot = request.snapshot;
        if request.is_probe {
            let listing = Listing {
                method: method(evidence, true),
                responses: None,
                is_expired: false,
                is_elsewhere: false,
            };
            let info = snapshot.site(request.client.site).map(|site| &**site);
            let decided = self.decide(request, open, evidence, info, self.probe.site(), &listing);
            return Judged::Decided(Box::new(decided));
        }
        let site_id = request.client.site;
        let site = self.directory.site(snapshot, site_id);
        let is_stale = || snapshot.site(site_id).is_some_and(|site| site.broken().is_some());
        self.metrics.cache(match &site {
            SiteState::Ready(_) if is_stale() => CacheResult::Stale,
            SiteState::Ready(_) => CacheResult::Hit,
            SiteState::Load => CacheResult::Miss,
            SiteState::Broken(_) => CacheResult::Failed,
        });
        match site {
            SiteState::Load => Judged::Load,
            site => Judged::Decided(Box::new(self.judge_by(request, open, evidence, snapshot, &site))),
        }
    }

    /// The same by policies that were read before.
    pub(super) fn judge_by(
        &self,
        request: &Request<'_>,
        open: Option<&Open>,
        evidence: &Evidence,
        snapshot: &Snapshot,
        site: &SiteState,
    ) -> Decided {
        let site_id = request.client.site;
        let listing = listing(snapshot, site_id, evidence, seconds(request.moment.wall));
        let info = snapshot.site(site_id).map(|site| &**site);
        let mut decided = match site {
            // A reading ends in one of the other two.
            SiteState::Load | SiteState::Broken(_) => Decided::reject(Reason::PolicyBroken, listing.method),
            SiteState::Ready(_) if listing.is_expired => Decided::reject(Reason::MacExpired, listing.method),
            SiteState::Ready(site) => self.decide(request, open, evidence, info, site, &listing),
        };
        let tag = match site {
            SiteState::Ready(site) => Some(site.tag()),
            SiteState::Load | SiteState::Broken(_) => info.map(Site::tag),
        };
        if let Some(tag) = tag {
            decided.texts.set(Text::Site, tag.as_bytes());
        }
        let revision = snapshot.revision_of(info);
        decided.texts.set(Text::Epoch, revision.epoch.as_bytes());
        decided.revision = Some(revision.number);
        if snapshot.is_from_disk {
            decided.source = "disk";
        }
        decided
    }

    fn decide(
        &self,
        request: &Request<'_>,
        open: Option<&Open>,
        evidence: &Evidence,
        info: Option<&Site>,
        site: &CompiledSite,
        listing: &Listing<'_>,
    ) -> Decided {
        let certificate = match (open, evidence) {
            (Some(open), Evidence::Certificate { chain }) => Some((&*open.trust, chain.as_slice())),
            _ => None,
        };
        let about = About {
            packet: Some(&request.packet),
            ssid: request.ssid(),
            source: Some(request.moment.source.ip()),
            site_tag: site.tag(),
            site: info,
            timezone: &self.settings.timezone,
            method: listing.method,
            eap_type: open.and_then(|open| open.eap.method()).map(|method| method.eap_type()),
            certificate,
            now: request.moment.wall,
        };
        let facts = facts::collect(self.dictionary, &self.names, &about, |id| {
            needs(site, listing.responses, id)
        });
        let decision = decide(site, listing.method, listing.responses, &facts);
        self.decided(request, open, decision, listing)
    }

    /// The decision's attributes encoded, its names kept for the log line.
    fn decided(
        &self,
        request: &Request<'_>,
        open: Option<&Open>,
        decision: Decision<'_>,
        listing: &Listing<'_>,
    ) -> Decided {
        let mut decided = Decided::reject(decision.reason, listing.method);
        decided.action = decision.action;
        if decision.reason == Reason::MacNotListed && listing.is_elsewhere {
            decided.reason = Reason::MacListedElsewhere;
        }
        match (decision.prepared, decision.policy) {
            (Some(prepared), _) => decided.texts.set(Text::Policy, prepared.policy()),
            (None, Some(policy)) => decided.texts.set(Text::Policy, policy.name().as_bytes()),
            (None, None) => {}
        }
        if let Some(failed) = &decision.failed_rule {
            decided.texts.set(Text::FailedRule, failed.rule.labelled().as_bytes());
        }
        if let Some((response, why)) = &decision.failed_response {
            let name = &self.dictionary.definition(response.attribute()).name;
            let detail = format!("{name}: {}", why.sentence(self.dictionary));
            decided.texts.set(Text::Detail, detail.as_bytes());
        }
        // RFC 3579 section 2.6.5: a Reply-Message beside an EAP-Message only where an accepting policy names it.
        if decision.action == Action::Reject && open.is_some() {
            return decided;
        }
        let responses = match decision.prepared {
            Some(_) => Cow::default(),
            None => decision.responses(),
        };
        // RFC 2865 section 5.1: User-Name may be sent in an Access-Accept, and the NAS then uses it in accounting. One
        // that a policy names takes its place, and such a policy is not prepared.
        let names_user = responses
            .iter()
            .any(|response| Some(response.attribute) == self.names.user_name);
        if decision.action == Action::Accept
            && !names_user
            // "Text of length zero (0) MUST NOT be sent" (RFC 2865 section 5), though some switches do.
            && let Some(user_name) = request.user_name().filter(|name| !name.is_empty())
        {
            let length = u8::try_from(user_name.len() + 2).unwrap_or(u8::MAX);
            let prepared = decision.prepared.map_or(0, |prepared| prepared.attributes().len());
            decided.attributes.reserve_exact(usize::from(length) + prepared);
            decided.attributes.extend_from_slice(&[number::USER_NAME, length]);
            decided.attributes.extend_from_slice(user_name);
        }
        if let Some(prepared) = decision.prepared {
            decided.attributes.extend_from_slice(prepared.attributes());
        }
        let mut shown = Shown::default();
        for response in &*responses {
            self.names
                .shown
                .note(self.dictionary, response.attribute, &response.value, &mut shown);
            match &response.encoded {
                Some(encoded) => decided.attributes.extend_from_slice(encoded),
                None => decided.hidden.push(Hidden {
                    attribute: response.attribute,
                    tag: response.tag,
                    value: response.value.clone().into_owned(),
                }),
            }
        }
        let (vlan, acl) = match decision.prepared {
            Some(prepared) => (prepared.vlan(), prepared.acl()),
            None => (
                shown.vlan.as_deref().map(str::as_bytes),
                shown.acl.as_deref().map(str::as_bytes),
            ),
        };
        for (text, octets) in [(Text::Vlan, vlan), (Text::Acl, acl)] {
            if let Some(octets) = octets {
                decided.texts.set(text, octets);
            }
        }
        // Now, while it can still become a reject: after the protected success of TLS 1.3 it could not.
        if decision.action == Action::Accept && reply_octets(request, &decided) > MAX_PACKET_OCTETS {
            decided.action = Action::Reject;
            decided.reason = Reason::ReplyTooLong;
            decided.attributes.clear();
            decided.hidden.clear();
        }
        decided
    }
}

/// Octets of the reply, at most.
fn reply_octets(request: &Request<'_>, decided: &Decided) -> usize {
    const MESSAGE_AUTHENTICATOR: usize = 18;
    const EAP_SUCCESS: usize = 6;
    const MPPE_KEYS: usize = 2 * 58;
    const HIDDEN: usize = 255;
    let proxy_states: usize = request
        .packet
        .all(number::PROXY_STATE)
        .map(|value| value.len() + 2)
        .sum();
    HEADER_OCTETS
        + MESSAGE_AUTHENTICATOR
        + EAP_SUCCESS
        + MPPE_KEYS
        + proxy_states
        + decided.attributes.len()
        + HIDDEN * decided.hidden.len()
}

fn method(evidence: &Evidence, is_listed: bool) -> Method {
    match evidence {
        Evidence::Certificate { .. } => Method::EapTls,
        Evidence::Mac(_) if is_listed => Method::Mab,
        Evidence::Mac(_) => Method::MabUnknown,
    }
}

fn listing<'a>(snapshot: &'a Snapshot, site: SiteId, evidence: &Evidence, now: i64) -> Listing<'a> {
    let mut listing = Listing {
        method: method(evidence, false),
        responses: None,
        is_expired: false,
        is_elsewhere: false,
    };
    if let Evidence::Mac(mac) = evidence {
        match snapshot.endpoints.find(site, *mac) {
            Found::Listed(endpoint) => {
                listing.method = Method::Mab;
                listing.responses = endpoint.responses.as_deref();
                listing.is_expired = endpoint.is_expired(now);
            }
            Found::Elsewhere(_) => listing.is_elsewhere = true,
            Found::Unknown => {}
        }
    }
    listing
}

/// Unix seconds.
fn seconds(wall: std::time::SystemTime) -> i64 {
    match wall.duration_since(std::time::SystemTime::UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_secs()).map_or(i64::MIN, |seconds| -seconds),
    }
}
