//! The server's half of an exchange of TLS messages: fragments, their acknowledgements, and patience with a supplicant
//! that says nothing (RFC 5216, 2.1.5). The same for EAP-TLS, EAP-TTLS and PEAP, which differ in the Type octet.

use std::borrow::Cow;

use super::flags::{TlsData, VERSION};
use super::fragments::{FragmentError, Incoming, Outgoing, Received};
use super::reason::Refused;
use crate::eap::method::EapType;
use crate::eap::packet::Code;
use crate::reason::Reason;

/// Acknowledgements that nobody asked for, and half records: tolerated, since some supplicants send one too many.
const IDLE_ROUNDS_MAX: u8 = 4;

/// The longest ClientHello that is put together. With every extension and a hybrid key share it has 3 KB; until it is
/// whole nothing was proven, and each of many conversations could hold as much.
pub(crate) const CLIENT_HELLO_OCTETS_MAX: usize = 16 * 1024;

pub(crate) struct Exchange {
    eap_type: EapType,
    packet_octets: usize,
    incoming: Incoming,
    outgoing: Outgoing,
    idle_rounds: u8,
}

/// What a response amounts to.
#[derive(Debug)]
pub(crate) enum Taken<'a> {
    /// Send [`Exchange::packet`]: the next fragment of ours, or the acknowledgement of one of theirs.
    Send,
    /// No data, and nothing that it acknowledges but the message sent last.
    Acknowledgement,
    /// A whole message.
    Message(Cow<'a, [u8]>),
    /// Not to be understood, and nothing was changed.
    Malformed,
    /// It breaks a rule.
    Broken(Refused),
}

impl Exchange {
    /// Sends EAP packets of `eap_type`, of at most `packet_octets`.
    pub(crate) fn new(eap_type: EapType, packet_octets: usize) -> Exchange {
        Exchange {
            eap_type,
            packet_octets,
            incoming: Incoming::default(),
            outgoing: Outgoing::default(),
            idle_rounds: 0,
        }
    }

    /// The data of a response whose identifier and type were found right. An unfinished message may have at most
    /// `longest` octets.
    pub(crate) fn take<'a>(&mut self, data: &'a [u8], longest: usize) -> Taken<'a> {
        let Some(fragment) = TlsData::parse(data) else {
            return Taken::Malformed;
        };
        // in EAP-TLS these bits are reserved, and ignored
        if self.eap_type != EapType::TLS && fragment.flags & VERSION != 0 {
            let detail = format!(
                "the supplicant speaks version {} of {}, and 0 was offered",
                fragment.flags & VERSION,
                self.eap_type
            );
            return Taken::Broken(Refused::new(Reason::MethodRefused, detail));
        }
        if self.outgoing.is_pending() {
            // "The EAP server MUST wait until it receives the EAP-Response before sending another fragment"
            return match fragment.is_acknowledgement() {
                true => Taken::Send,
                false => Taken::Broken(Refused::new(
                    Reason::EapInvalid,
                    "data where a fragment had to be acknowledged",
                )),
            };
        }
        if fragment.is_acknowledgement() && self.incoming.pending().is_none() {
            return Taken::Acknowledgement;
        }
        // taken out, so that a message in one fragment need not be copied
        let mut incoming = std::mem::take(&mut self.incoming);
        let received = incoming.push(fragment);
        self.incoming = incoming;
        if let Some((_, octets)) = self.incoming.pending()
            && octets > longest
        {
            return broken(FragmentError::TooLong(octets));
        }
        match received {
            Ok(Received::More) => Taken::Send,
            Ok(Received::Complete(message)) => Taken::Message(message),
            Err(error) => broken(error),
        }
    }

    /// Begins to send a message; an empty one is an acknowledgement.
    pub(crate) fn send(&mut self, message: Vec<u8>) {
        self.idle_rounds = 0;
        self.outgoing = Outgoing::new(message, self.packet_octets);
    }

    /// There is nothing to say to what came: an empty request, a few times.
    pub(crate) fn idle(&mut self) -> Result<(), Refused> {
        self.idle_rounds += 1;
        match self.idle_rounds {
            ..=IDLE_ROUNDS_MAX => Ok(()),
            _ => Err(Refused::new(Reason::EapInvalid, "nothing but acknowledgements")),
        }
    }

    /// The next fragment, or an empty request that acknowledges one.
    pub(crate) fn packet(&mut self, identifier: u8) -> Vec<u8> {
        self.outgoing.packet(Code::Request, identifier, self.eap_type)
    }

    /// Nothing more is sent.
    pub(crate) fn clear(&mut self) {
        self.outgoing = Outgoing::default();
    }

    pub(crate) fn incoming(&self) -> &Incoming {
        &self.incoming
    }

    pub(crate) fn outgoing(&self) -> &Outgoing {
        &self.outgoing
    }
}

fn broken(error: FragmentError) -> Taken<'static> {
    Taken::Broken(Refused::new(Reason::EapInvalid, error.to_string()))
}
