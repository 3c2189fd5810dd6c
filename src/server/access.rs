//! One request, from the datagram to the reply, read top-down: the steps of ARCHITECTURE.md's "One request".
//!
//! All the branching of a request is here; what helps returns values, never replies. RFC 2865 (access), RFC 3579 (EAP
//! over RADIUS), RFC 5997 (Status-Server).

use std::net::SocketAddr;
use std::sync::Arc;

use super::certificate::{Checked, Question};
use super::judge::{Decided, Evidence, Judged, Loaded};
use super::open::{Open, offer};
use super::random::random;
use super::record::{self, Authentication, Text};
use super::request::{Kind, Request};
use super::{Moment, Server, reply};
use crate::clients::{Client, SiteId};
use crate::conversations::{Answer, Owner, STATE_OCTETS, State, Taken};
use crate::eap::method::EapType;
use crate::eap::packet::{self, EapPacket};
use crate::eap::server::{self as eap, Conversation, Credentials, FirstMessage, Offer, Step};
use crate::eap::tls::Refused;
use crate::eap::tls::ticket::Scope;
use crate::mab::{self, Attempt, Credential, Mab};
use crate::policy::model::Action;
use crate::radius::code::Code;
use crate::radius::crypto::MessageAuthenticator;
use crate::radius::packet::{HEADER_OCTETS, MAX_PACKET_OCTETS, MAX_VALUE_OCTETS, Packet, number};
use crate::reason::Reason;
use crate::store::directory::Snapshot;
use crate::trust::TrustSet;
use crate::trust::revocation::Standing;

/// Octets of an Access-Challenge beside header, Message-Authenticator and State.
const CHALLENGE_ROOM_OCTETS: usize = MAX_PACKET_OCTETS - HEADER_OCTETS - 18 - (2 + STATE_OCTETS);

/// A well-formed packet, and the client from whose address it came. Whether the client sent it is not known.
pub(super) struct Sent<'a> {
    pub packet: Packet<'a>,
    pub client: &'a Arc<Client>,
    /// From the node itself, for `/readyz`.
    pub is_probe: bool,
}

/// What became of a request.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The reply is in the buffer, and not signed.
    Reply,
    /// No answer, and why.
    Drop(Reason),
    /// Something must be learned before it can be decided.
    Wait(Box<Waiting>),
}

/// A request that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    /// Who sent it.
    pub client: Arc<Client>,
    /// The EAP conversation, which waits for a decision; none for MAC authentication.
    pub conversation: Option<(State, Box<Open>)>,
    /// The hash of the EAP response that is to be answered.
    pub response: u64,
    /// What is to be judged.
    pub evidence: Evidence,
    /// What it waits for.
    pub wanted: Wanted,
}

/// What a request may have to wait for, the one before the other.
#[derive(Debug)]
pub(super) enum Wanted {
    /// Whether its certificate was revoked.
    Standing(Question),
    /// Its site's policies.
    Site,
}

/// What a request has waited for.
#[derive(Debug)]
pub(super) enum Found {
    /// How its certificate stands.
    Standing(Standing),
    /// Its site's policies.
    Site(Loaded),
}

/// An EAP conversation that was taken out of the table, or just begun, and the response that is being answered.
struct Working {
    state: State,
    open: Box<Open>,
    response: u64,
}

impl Server {
    /// Steps 1 and 2: from the datagram to a packet, and the client that it says it is from.
    pub(super) fn find_client<'a>(
        &'a self,
        datagram: &'a [u8],
        snapshot: &'a Snapshot,
        source: SocketAddr,
    ) -> Result<Sent<'a>, Reason> {
        let packet = Packet::parse(datagram).map_err(|_| Reason::MalformedPacket)?;
        let is_answered = matches!(packet.code(), Code::AccessRequest | Code::StatusServer);
        if let Some(client) = self.probe.client(source).filter(|_| is_answered) {
            return Ok(Sent {
                packet,
                client,
                is_probe: true,
            });
        }
        if !snapshot.is_loaded() || self.directory.age().is_none_or(|age| age > self.settings.max_stale) {
            return Err(Reason::NotReady);
        }
        let client = snapshot
            .clients
            .lookup(source.ip(), false)
            .ok_or(Reason::UnknownClient)?;
        if !is_answered {
            self.metrics.request(packet.code().number());
            return Err(match packet.code() {
                Code::AccountingRequest => Reason::NotNetworkAccess,
                _ => Reason::MalformedPacket,
            });
        }
        Ok(Sent {
            packet,
            client,
            is_probe: false,
        })
    }

    /// Step 3: whether a request whose Message-Authenticator is worth that may pass: RFC 3579 section 3.2, and the rules
    /// against CVE-2024-3596.
    pub(super) fn accepts(&self, sent: &Sent<'_>, found: MessageAuthenticator, moment: &Moment) -> Result<(), Reason> {
        let Sent { packet, client, .. } = sent;
        match found {
            MessageAuthenticator::Valid => return Ok(()),
            MessageAuthenticator::Invalid => return Err(Reason::BadMessageAuthenticator),
            MessageAuthenticator::Absent => {}
        }
        // RFC 3579 section 3.1: an EAP-Message without a Message-Authenticator "MUST be silently discarded". RFC 5997
        // section 3 demands it of Status-Server. And where there is no password either, nothing proves that the sender
        // knows the secret.
        let has_password = [number::USER_PASSWORD, number::CHAP_PASSWORD]
            .iter()
            .any(|n| packet.first(*n).is_some());
        if packet.code() == Code::StatusServer || packet.first(number::EAP_MESSAGE).is_some() || !has_password {
            return Err(Reason::NoMessageAuthenticator);
        }
        let refused = if client.limit_proxy_state && packet.first(number::PROXY_STATE).is_some() {
            Reason::ProxyStateUnsigned
        } else if client.require_message_authenticator {
            Reason::NoMessageAuthenticator
        } else {
            return Ok(());
        };
        if self.settings.observe_message_authenticator && !sent.is_probe {
            self.notices
                .unsigned(client, refused, moment.source.ip(), moment.instant);
            return Ok(());
        }
        Err(refused)
    }

    /// Steps 5 to 10: what an authentic, new request gets.
    pub(super) fn answer(&self, request: &Request<'_>, out: &mut Vec<u8>) -> Outcome {
        match request.kind() {
            Kind::Status => self.write(request, &Answer::new(Code::AccessAccept), None, out),
            Kind::Eap(message) => self.eap(request, &message, out),
            Kind::Mab(mac) => self.mab(request, Evidence::Mac(mac), out),
            Kind::Refused(reason) => {
                let mut answer = Answer::new(Code::AccessReject);
                if let Some(message) = request.packet.eap_message() {
                    answer.eap = packet::failure(identifier(&message));
                }
                self.finish(
                    request,
                    &mut answer,
                    request.record(record::Outcome::Reject, reason),
                    out,
                )
            }
        }
    }

    /// Goes on with a request that has waited. It may have to wait for what comes next.
    pub(super) fn go_on(&self, request: &Request<'_>, waiting: Waiting, found: Found, out: &mut Vec<u8>) -> Outcome {
        let Waiting {
            conversation,
            response,
            evidence,
            ..
        } = waiting;
        match (conversation, found) {
            (Some((state, mut open)), found) => match self.proven(request, &mut open, &evidence, Some(found)) {
                Ok(step) => self.advance(request, Working { state, open, response }, step, out),
                Err(wanted) => self.wait(request, Some((state, open)), response, evidence, wanted),
            },
            (None, Found::Site(loaded)) => {
                let decided = self.judge_by(request, None, &evidence, &loaded.snapshot, &loaded.site);
                self.mab_decided(request, Box::new(decided), out)
            }
            // without a conversation there is no certificate
            (None, Found::Standing(_)) => Outcome::Drop(Reason::InternalError),
        }
    }

    /// MAC authentication without EAP: one request, one decision.
    fn mab(&self, request: &Request<'_>, evidence: Evidence, out: &mut Vec<u8>) -> Outcome {
        match self.judge(request, None, &evidence) {
            Judged::Load => self.wait(request, None, 0, evidence, Wanted::Site),
            Judged::Decided(decided) => self.mab_decided(request, decided, out),
        }
    }

    fn mab_decided(&self, request: &Request<'_>, decided: Box<Decided>, out: &mut Vec<u8>) -> Outcome {
        let mut record = request.record(record::Outcome::Reject, decided.reason);
        decided.describe(&mut record);
        let mut answer = Answer::new(Code::AccessReject);
        if decided.action == Action::Accept {
            record.outcome = record::Outcome::Accept;
            answer.code = Code::AccessAccept;
        }
        answer.attributes = decided.attributes;
        answer.hidden = decided.hidden;
        self.finish(request, &mut answer, record, out)
    }

    /// A request with an EAP-Message: begins a conversation, or goes on with one.
    fn eap(&self, request: &Request<'_>, message: &[u8], out: &mut Vec<u8>) -> Outcome {
        if let Ok(EapPacket {
            code: packet::Code::Request,
            identifier,
            ..
        }) = EapPacket::parse(message)
        {
            return self.refuse_role_reversal(request, identifier, out);
        }
        let names_its_identity = names_its_identity(request, message);
        let response = self.conversations.response(message);
        let Some(octets) = request.packet.first(number::STATE) else {
            return match names_its_identity {
                true => self.begin(request, message, response, out),
                false => self.refuse(request, message, Reason::IdentityMismatch, out),
            };
        };
        let Some(state) = self.conversations.state(octets) else {
            return self.unknown_state(request, message, Reason::SessionUnknown, out);
        };
        let calling_station = self.conversations.hash(request.calling_station_id());
        match self
            .conversations
            .take(&state, request.client.id, calling_station, response)
        {
            Taken::Conversation(mut open) => {
                open.rounds += 1;
                // RFC 3579 section 2.6.3: the Failure that a reject carries terminates the conversation.
                let step = match names_its_identity && open.accepts_user_name(request) {
                    true => open.eap.step(message, &mut random),
                    false => open.eap.abandon(Reason::IdentityMismatch),
                };
                self.advance(request, Working { state, open, response }, step, out)
            }
            Taken::Busy => Outcome::Drop(Reason::Duplicate),
            Taken::Again(answer) => self.write(request, &answer, Some(&state), out),
            Taken::Changed => self.refuse(request, message, Reason::ConversationChanged, out),
            Taken::Evicted => self.unknown_state(request, message, Reason::SessionEvicted, out),
            Taken::Finished | Taken::Unknown => self.unknown_state(request, message, Reason::SessionUnknown, out),
        }
    }

    /// The first request of a conversation: EAP-Start, or an EAP-Response/Identity that the NAS has asked for.
    fn begin(&self, request: &Request<'_>, message: &[u8], response: u64, out: &mut Vec<u8>) -> Outcome {
        if self.is_draining() {
            return Outcome::Drop(Reason::NotReady);
        }
        let first = match EapPacket::parse(message) {
            _ if message.is_empty() => FirstMessage::Start,
            Ok(EapPacket {
                eap_type: Some(EapType::IDENTITY),
                code: packet::Code::Response,
                ..
            }) => FirstMessage::Response(message),
            // A response to a request of another conversation, without its State: it can't be gone on with.
            Ok(EapPacket {
                code: packet::Code::Response,
                ..
            }) => return self.unknown_state(request, message, Reason::SessionUnknown, out),
            // RFC 3748 section 4: what is not well-formed, and Success and Failure, which are no supplicant's to send, "MUST
            // be silently discarded".
            _ => return Outcome::Drop(Reason::EapInvalid),
        };
        let mab = request.mab();
        let trust = self.trust_for(request);
        let (eap, step) = Conversation::begin(self.eap_settings(request, mab, &trust), first, &mut random);
        if let Step::Discard(_) = step {
            return Outcome::Drop(Reason::EapInvalid);
        }
        let owner = Owner {
            client: request.client.id,
            calling_station: self.conversations.hash(request.calling_station_id()),
            port: request.port().map(|port| self.conversations.hash(port)),
        };
        let mut state = [0; 16];
        random(&mut state);
        let mut ended = Vec::new();
        let state = self
            .conversations
            .begin(owner, request.moment.instant, state, &mut ended);
        self.report(ended, request.moment.instant);
        let first = request.record(record::Outcome::Unfinished, Reason::SupplicantStopped);
        let open = Box::new(Open::new(eap, request, mab, trust, &state, first));
        self.advance(request, Working { state, open, response }, step, out)
    }

    /// Step 6: goes on until there is something to send.
    fn advance(&self, request: &Request<'_>, working: Working, step: Step, out: &mut Vec<u8>) -> Outcome {
        let (client, now) = (request.client.id, request.moment.instant);
        let Working {
            state,
            mut open,
            response,
        } = working;
        let mut step = step;
        loop {
            step = match step {
                Step::Send(eap) => {
                    let answer = Answer {
                        eap,
                        ..Answer::new(Code::AccessChallenge)
                    };
                    let outcome = self.write(request, &answer, Some(&state), out);
                    let class = open.class();
                    let ended = self
                        .conversations
                        .put(&state, client, now, class, open, (response, answer.eap));
                    self.report(ended, now);
                    return outcome;
                }
                // RFC 3748 section 4.1: what doesn't fit the request that is out is silently discarded.
                Step::Discard(_) => {
                    let ended = self
                        .conversations
                        .put_unchanged(&state, client, now, open.class(), open);
                    self.report(ended, now);
                    return Outcome::Drop(Reason::EapInvalid);
                }
                Step::Decide(credentials) => match evidence(request, &open, credentials) {
                    Err(refused) => open.refuse(refused),
                    Ok(evidence) => match self.proven(request, &mut open, &evidence, None) {
                        Ok(step) => step,
                        Err(wanted) => return self.wait(request, Some((state, open)), response, evidence, wanted),
                    },
                },
                Step::Success { eap, msk } => {
                    // The machine succeeds only after a decision that accepts; a fault must not become an accept.
                    let decided = match open.decided.take() {
                        Some(decided) if decided.action == Action::Accept => decided,
                        _ => {
                            step = open.eap.abandon(Reason::InternalError);
                            continue;
                        }
                    };
                    let mut record = open.record(&state, request.moment);
                    record.outcome = record::Outcome::Accept;
                    decided.describe(&mut record);
                    let mut answer = Answer {
                        eap,
                        msk,
                        attributes: decided.attributes,
                        hidden: decided.hidden,
                        ..Answer::new(Code::AccessAccept)
                    };
                    if let Some(method) = open.eap.method() {
                        self.preferences
                            .remember(self.settings.methods, request.calling_station_id(), method);
                    }
                    let outcome = self.finish(request, &mut answer, record, out);
                    self.conversations
                        .finish(&state, client, now, Some((response, &answer)));
                    return outcome;
                }
                Step::Failure { eap, reason, detail } => {
                    let mut record = open.record(&state, request.moment);
                    if let Some(decided) = open.decided.take() {
                        decided.describe(&mut record);
                    }
                    record.texts.forget_reply();
                    record.reason = open.why(reason);
                    if let Some(detail) = open.detail(record.reason, detail) {
                        record.texts.set(Text::Detail, detail.as_bytes());
                    }
                    let mut answer = Answer {
                        eap,
                        ..Answer::new(Code::AccessReject)
                    };
                    let outcome = self.finish(request, &mut answer, record, out);
                    self.conversations
                        .finish(&state, client, now, Some((response, &answer)));
                    return outcome;
                }
            };
        }
    }

    /// Steps 7 to 9 of a conversation whose credentials are proven: its next step, or what it has to wait for. `found` is
    /// what it has waited for.
    fn proven(
        &self,
        request: &Request<'_>,
        open: &mut Open,
        evidence: &Evidence,
        found: Option<Found>,
    ) -> Result<Step, Wanted> {
        let checked = match found {
            Some(Found::Site(loaded)) => {
                let decided = self.judge_by(request, Some(open), evidence, &loaded.snapshot, &loaded.site);
                return Ok(open.decide(Box::new(decided)));
            }
            Some(Found::Standing(standing)) => Checked::Settled(standing),
            None => self.check_certificate(request, open, evidence),
        };
        match checked {
            Checked::Settled(Standing::Good(note)) => open.note(note),
            Checked::Settled(Standing::Refused(refused)) => return Ok(open.refuse(refused)),
            Checked::Ask(question) => return Err(Wanted::Standing(question)),
        }
        match self.judge(request, Some(open), evidence) {
            Judged::Decided(decided) => Ok(open.decide(decided)),
            Judged::Load => Err(Wanted::Site),
        }
    }

    fn wait(
        &self,
        request: &Request<'_>,
        conversation: Option<(State, Box<Open>)>,
        response: u64,
        evidence: Evidence,
        wanted: Wanted,
    ) -> Outcome {
        Outcome::Wait(Box::new(Waiting {
            client: Arc::clone(request.client),
            conversation,
            response,
            evidence,
            wanted,
        }))
    }

    /// The certificates for the request's client. The node's own probe has the default's: it belongs to no site.
    fn trust_for(&self, request: &Request<'_>) -> Arc<TrustSet> {
        let sets = self.trust.current_for_request();
        let tag = || request.snapshot.site(request.client.site).map(|site| site.tag());
        Arc::clone(match request.is_probe {
            true => sets.default_set(),
            false => sets.for_client(request.client, tag),
        })
    }

    /// How the conversation is to be held: the settings of its certificates, and the client's over them.
    fn eap_settings(&self, request: &Request<'_>, mab: Mab, trust: &TrustSet) -> eap::Settings {
        let (client, settings) = (request.client, &self.settings);
        let configured = usize::from(client.fragment_size.unwrap_or(settings.fragment_size));
        // RFC 3579 section 2.4: the packet and the link's own header of 4 octets must fit Framed-MTU.
        let link = request
            .framed_mtu()
            .and_then(|mtu| usize::try_from(mtu.saturating_sub(4)).ok());
        // RFC 2865 section 5.33: the request's Proxy-State goes into each reply, which must still fit.
        let proxy_states: usize = request
            .packet
            .all(number::PROXY_STATE)
            .map(|value| value.len() + 2)
            .sum();
        let room = CHALLENGE_ROOM_OCTETS.saturating_sub(proxy_states);
        let room = room.saturating_sub(room.div_ceil(MAX_VALUE_OCTETS + 2) * 2);
        let configured = configured.min(room);
        let offer = offer(mab);
        eap::Settings {
            tls: match request.is_probe {
                true => self.probe.tls(trust),
                false => Arc::clone(&trust.tls),
            },
            min_version: client.min_tls.unwrap_or(trust.min_version),
            max_version: client.max_tls.unwrap_or(trust.max_version),
            fragment_size: link.map_or(configured, |link| configured.min(link)),
            scope: Scope::at(client.site.0),
            methods: match offer {
                Offer::Tls => self.preferences.order(settings.methods, request.calling_station_id()),
                // a device that takes no MD5 names what it wants instead
                Offer::Md5ThenTls => settings.methods,
            },
            offer,
        }
    }

    /// A State that cannot be gone on with.
    fn unknown_state(&self, request: &Request<'_>, message: &[u8], reason: Reason, out: &mut Vec<u8>) -> Outcome {
        if self.settings.unknown_state_is_silent {
            return Outcome::Drop(reason);
        }
        self.refuse(request, message, reason, out)
    }

    /// RFC 3579 section 2.2: after a fatal error, "an Access-Reject packet including an EAP-Message attribute
    /// encapsulating EAP-Failure".
    fn refuse(&self, request: &Request<'_>, message: &[u8], reason: Reason, out: &mut Vec<u8>) -> Outcome {
        let mut answer = Answer {
            eap: packet::failure(identifier(message)),
            ..Answer::new(Code::AccessReject)
        };
        self.finish(
            request,
            &mut answer,
            request.record(record::Outcome::Reject, reason),
            out,
        )
    }

    /// RFC 3579 section 2.6.2: a server "MUST respond to an Access-Request encapsulating an EAP-Request with an
    /// Access-Reject", which "SHOULD include an EAP-Response/Nak packet indicating no preferred method". The reject ends the
    /// conversation that it came in.
    fn refuse_role_reversal(&self, request: &Request<'_>, identifier: u8, out: &mut Vec<u8>) -> Outcome {
        let mut record = request.record(record::Outcome::Reject, Reason::EapInvalid);
        let state = request.packet.first(number::STATE);
        if let Some(state) = state.and_then(|octets| self.conversations.state(octets)) {
            let calling_station = self.conversations.hash(request.calling_station_id());
            let taken = self.conversations.take(&state, request.client.id, calling_station, 0);
            if let Taken::Conversation(mut open) = taken {
                open.rounds += 1;
                record = open.record(&state, request.moment);
                record.reason = Reason::EapInvalid;
                self.conversations
                    .finish(&state, request.client.id, request.moment.instant, None);
            }
        }
        let mut answer = Answer {
            eap: packet::build(packet::Code::Response, identifier, EapType::NAK, &[&[0]]),
            ..Answer::new(Code::AccessReject)
        };
        self.finish(request, &mut answer, record, out)
    }

    /// The last reply of an authentication, and its record. `answer` becomes what was sent.
    fn finish(
        &self,
        request: &Request<'_>,
        answer: &mut Answer,
        mut record: Authentication,
        out: &mut Vec<u8>,
    ) -> Outcome {
        let mut outcome = self.write(request, answer, None, out);
        if let Outcome::Drop(reason) = outcome {
            // Sizes are looked at before the decision is made. Proxy-State that has grown since is the one exception.
            let mut reject = Answer::new(Code::AccessReject);
            if !answer.eap.is_empty() {
                reject.eap = packet::failure(identifier(&answer.eap));
            }
            (record.outcome, record.reason) = (record::Outcome::Reject, reason);
            record.texts.forget_reply();
            *answer = reject;
            outcome = self.write(request, answer, None, out);
        }
        if !request.is_probe {
            name_site(&mut record, request.snapshot, request.client.site);
            if record.duration.is_zero() {
                record.duration = request.moment.instant.elapsed();
            }
            self.records.push(record);
        }
        outcome
    }

    fn write(&self, request: &Request<'_>, answer: &Answer, state: Option<&State>, out: &mut Vec<u8>) -> Outcome {
        match reply::write(self.dictionary, request, answer, state, out) {
            Ok(()) => Outcome::Reply,
            Err(reason) => Outcome::Drop(reason),
        }
    }
}

/// Names the site in a record where no decision has: as it is called now, and not at all if it was removed. Most records
/// have it from their decision, and to look it up earlier reads cold memory.
pub(super) fn name_site(record: &mut Authentication, snapshot: &Snapshot, site: SiteId) {
    if record.text(Text::Site).is_none()
        && let Some(site) = snapshot.site(site)
    {
        record.texts.set(Text::Site, site.tag().as_bytes());
    }
}

/// Whether an EAP-Response/Identity is what User-Name says (RFC 3579 section 2.1: the NAS "MUST copy the contents of
/// the Type-Data field" there). Of any other message there is nothing to compare.
fn names_its_identity(request: &Request<'_>, message: &[u8]) -> bool {
    match (EapPacket::parse(message), request.user_name()) {
        (
            Ok(EapPacket {
                eap_type: Some(EapType::IDENTITY),
                data,
                ..
            }),
            Some(user_name),
        ) => data == user_name,
        _ => true,
    }
}

/// What the credentials of an EAP conversation prove.
fn evidence(request: &Request<'_>, open: &Open, credentials: Credentials) -> Result<Evidence, Refused> {
    match credentials {
        Credentials::Certificate { chain, .. } => match open.claims_a_name_of(&chain) {
            true => Ok(Evidence::Certificate { chain }),
            false => Err(Refused::new(
                Reason::IdentityMismatch,
                "the EAP identity is no name of the certificate (`identity_check`)",
            )),
        },
        Credentials::Md5 {
            identifier,
            challenge,
            response,
        } => {
            let Mab::Mac(mac) = open.mab else {
                let reason = open.mab.refusal(Attempt::EapMd5);
                return Err(reason.unwrap_or(Reason::MethodRefused).into());
            };
            let credential = Credential::EapMd5 {
                identifier,
                challenge: &challenge,
                response: &response,
            };
            match mab::check_password(&request.client.mab_password, mac, &credential, request.user_name()) {
                true => Ok(Evidence::Mac(mac)),
                false => Err(Reason::MabPassword.into()),
            }
        }
    }
}

/// The identifier of an EAP packet, for the Failure that answers it (RFC 3748 section 4.2).
fn identifier(message: &[u8]) -> u8 {
    message.get(1).copied().unwrap_or_default()
}
