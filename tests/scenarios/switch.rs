//! The switch's side: requests, also such as no switch sends, and the look at replies.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use portreeve::nas::Attempt;
use portreeve::radius::attribute::encode_attribute;
use portreeve::radius::code::Code;
use portreeve::radius::crypto::Secret;
use portreeve::radius::dictionary::Dictionary;
use portreeve::radius::packet::{Packet, number};
use portreeve::radius::value;
use portreeve::radius::writer::Writer;

/// Every client's secret, unless a test says otherwise.
pub const SECRET: &[u8] = b"testing123";

/// A switch: where it sends from, and its identifiers.
#[derive(Clone, Debug)]
pub struct Switch {
    pub source: SocketAddr,
    pub secret: Arc<Secret>,
    identifier: u8,
}

impl Switch {
    pub fn new(source: &str) -> Switch {
        Switch {
            source: source.parse().unwrap(),
            secret: Arc::new(Secret::new(SECRET)),
            identifier: 0,
        }
    }

    /// The next identifier, and an authenticator that was never used.
    pub fn fresh(&mut self) -> (u8, [u8; 16]) {
        static COUNT: AtomicU64 = AtomicU64::new(1);
        self.identifier = self.identifier.wrapping_add(1);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let spread = [count.wrapping_mul(0x9e37_79b9_7f4a_7c15), count].map(u64::to_be_bytes);
        let mut authenticator = [0; 16];
        authenticator.copy_from_slice(spread.as_flattened());
        (self.identifier, authenticator)
    }

    /// The attempt's next request.
    pub fn next(&mut self, attempt: &mut Attempt) -> Vec<u8> {
        let (identifier, authenticator) = self.fresh();
        let mut datagram = Vec::new();
        attempt.request(identifier, authenticator, &mut datagram).unwrap();
        datagram
    }

    /// A request written by hand.
    pub fn write(&mut self, code: Code, write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
        let (identifier, authenticator) = self.fresh();
        let mut datagram = Vec::new();
        let mut writer = Writer::request(&mut datagram, code, identifier, &self.secret, &authenticator);
        write(&mut writer);
        writer.finish().unwrap();
        datagram
    }

    /// The same request under a new identifier and authenticator, with its attributes changed; EAP-Message is one of
    /// them.
    pub fn rewrite(&mut self, datagram: &[u8], change: impl FnOnce(&mut Vec<(u8, Vec<u8>)>)) -> Vec<u8> {
        let fresh = self.fresh();
        self.rewrite_as(datagram, fresh, change)
    }

    /// The same under its own identifier and authenticator, so that whoever wrote it takes the reply for its own.
    pub fn alter(&mut self, datagram: &[u8], change: impl FnOnce(&mut Vec<(u8, Vec<u8>)>)) -> Vec<u8> {
        let packet = Packet::parse(datagram).unwrap();
        self.rewrite_as(datagram, (packet.identifier(), *packet.authenticator()), change)
    }

    /// The same without Message-Authenticator.
    pub fn unsigned(&self, datagram: &[u8]) -> Vec<u8> {
        let packet = Packet::parse(datagram).unwrap();
        let (code, identifier) = (packet.code(), packet.identifier());
        let mut out = Vec::new();
        let mut writer = Writer::request(&mut out, code, identifier, &self.secret, packet.authenticator());
        for attribute in packet.attributes() {
            if attribute.number != number::MESSAGE_AUTHENTICATOR {
                writer.attribute(attribute.number, attribute.value);
            }
        }
        writer.finish().unwrap();
        out
    }

    fn rewrite_as(
        &self,
        datagram: &[u8],
        (identifier, authenticator): (u8, [u8; 16]),
        change: impl FnOnce(&mut Vec<(u8, Vec<u8>)>),
    ) -> Vec<u8> {
        let packet = Packet::parse(datagram).unwrap();
        let whole = [number::MESSAGE_AUTHENTICATOR, number::EAP_MESSAGE];
        let mut attributes: Vec<(u8, Vec<u8>)> = packet
            .attributes()
            .filter(|attribute| !whole.contains(&attribute.number))
            .map(|attribute| (attribute.number, attribute.value.to_vec()))
            .collect();
        if let Some(message) = packet.eap_message() {
            attributes.push((number::EAP_MESSAGE, message.into_owned()));
        }
        change(&mut attributes);
        let mut out = Vec::new();
        let mut writer = Writer::request(&mut out, packet.code(), identifier, &self.secret, &authenticator);
        writer.message_authenticator();
        for (number, value) in &attributes {
            match *number {
                number::EAP_MESSAGE => writer.eap_message(value),
                number => writer.attribute(number, value),
            };
        }
        writer.finish().unwrap();
        out
    }

    /// Checks a reply to `request` as a switch does.
    #[track_caller]
    pub fn read<'a>(&self, request: &[u8], reply: &'a [u8]) -> Packet<'a> {
        let request = Packet::parse(request).unwrap();
        let reply =
            portreeve::radius::reply::verify(reply, request.identifier(), request.authenticator(), &self.secret);
        let reply = reply.unwrap();
        assert!(reply.message_authenticator_first);
        reply.packet
    }
}

/// Changes the value of an attribute.
pub fn set(attributes: &mut Vec<(u8, Vec<u8>)>, number: u8, value: &[u8]) {
    for attribute in attributes.iter_mut().filter(|attribute| attribute.0 == number) {
        attribute.1 = value.to_vec();
    }
    if !attributes.iter().any(|attribute| attribute.0 == number) {
        attributes.push((number, value.to_vec()));
    }
}

/// The value of an attribute, to be changed.
pub fn value_of(attributes: &mut [(u8, Vec<u8>)], number: u8) -> &mut Vec<u8> {
    let attribute = attributes.iter_mut().find(|attribute| attribute.0 == number);
    &mut attribute.expect("no such attribute").1
}

/// Attributes from `Name = value` lines, encoded.
pub fn attributes(lines: &[&str]) -> Arc<[u8]> {
    let dictionary = Dictionary::builtin();
    let mut out = Vec::new();
    for line in lines {
        let (name, text) = line.split_once(" = ").unwrap();
        let id = dictionary.by_name(name).expect(name);
        let value = value::parse(dictionary.definition(id), text).expect(line);
        encode_attribute(dictionary, id, None, &value, None, &mut out).expect(line);
    }
    out.into()
}
