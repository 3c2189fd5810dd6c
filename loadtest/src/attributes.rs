//! Attributes by the dictionary: those that every request carries, and those that every accept must.

use std::str::FromStr;
use std::sync::OnceLock;

use portreeve::policy::model::ResponseRow;
use portreeve::radius::attribute::{EncodeError, Found, Revealing, encode_attribute, visit};
use portreeve::radius::dictionary::Dictionary;
use portreeve::radius::dictionary::types::{AttributeId, Encryption, Parent, Value};
use portreeve::radius::packet::{Packet, number};
use portreeve::radius::{display, value};

/// What the client writes itself, from other options or because the protocol asks for it.
const OWN: &[(u8, &str)] = &[
    (number::USER_NAME, "`--identity` sets it"),
    (number::USER_PASSWORD, "`mab --password` sets it"),
    (number::CHAP_PASSWORD, "`mab --method chap` sends it"),
    (number::STATE, "it comes from the server"),
    (number::EAP_MESSAGE, "the supplicant writes it"),
    (number::MESSAGE_AUTHENTICATOR, "every request has one"),
];

/// What is another in the answer to every device.
const PASSING: [u8; 3] = [number::USER_NAME, number::EAP_MESSAGE, number::MESSAGE_AUTHENTICATOR];

/// `Name=value` or `Name:tag=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    pub id: AttributeId,
    /// As written; `Some(0)` is the explicit absence of a tag.
    pub tag: Option<u8>,
    pub value: Value<'static>,
}

impl FromStr for Attribute {
    type Err = String;

    fn from_str(text: &str) -> Result<Attribute, String> {
        let row: ResponseRow = text.parse().map_err(|error| format!("{error}"))?;
        let (name, tag) = match row.attribute.rsplit_once(':') {
            Some((name, tag)) => {
                let tag = tag.parse().ok().filter(|tag| *tag <= 31);
                let tag = tag.ok_or_else(|| format!("`{}` has no tag from 0 to 31", row.attribute))?;
                (name, Some(tag))
            }
            None => (row.attribute.as_str(), None),
        };
        let dictionary = Dictionary::builtin();
        let id = dictionary.by_name(name).ok_or_else(|| unknown(dictionary, name))?;
        let value = value::parse(dictionary.definition(id), &row.value).map_err(|error| error.to_string())?;
        Ok(Attribute { id, tag, value })
    }
}

/// What to say of a name that the dictionary does not know.
fn unknown(dictionary: &Dictionary, name: &str) -> String {
    let near = dictionary.suggest(name);
    match near.is_empty() {
        true => format!("`{name}` is no attribute of the dictionary\nhint: `portreeve dict` looks for names"),
        false => format!(
            "`{name}` is no attribute of the dictionary\nhint: did you mean `{}`?",
            near.join("`, `")
        ),
    }
}

/// The attributes of a request, encoded, from several layers: what a layer names, those before it do not set.
pub fn encode(layers: &[&[Attribute]]) -> anyhow::Result<Vec<u8>> {
    let dictionary = Dictionary::builtin();
    let mut octets = Vec::new();
    for (at, layer) in layers.iter().enumerate() {
        let above = layers.get(at + 1..).unwrap_or_default();
        for Attribute { id, tag, value } in *layer {
            let definition = dictionary.definition(*id);
            let own = OWN.iter().find(|(number, _)| u32::from(*number) == definition.number);
            if let (Some((_, who)), Parent::Root) = (own, definition.parent) {
                anyhow::bail!("`{}` cannot be set: {who}", definition.name);
            }
            if above.iter().any(|layer| names(layer, *id)) {
                continue;
            }
            encode_attribute(dictionary, *id, *tag, value, None, &mut octets).map_err(|error| match error {
                EncodeError::NeedsSecret(name) => {
                    anyhow::anyhow!("`{name}` cannot be sent: it is hidden anew in every request")
                }
                error => error.into(),
            })?;
        }
    }
    Ok(octets)
}

/// Whether one of them is of that name.
pub fn names(attributes: &[Attribute], id: AttributeId) -> bool {
    attributes.iter().any(|attribute| attribute.id == id)
}

/// What every accept must carry.
#[derive(Debug, Default)]
pub struct Expectations {
    expected: Vec<Expected>,
    /// The attributes of an accept that was right, as they came: another that has the same is right too.
    right: OnceLock<Box<[u8]>>,
}

#[derive(Debug)]
struct Expected {
    id: AttributeId,
    values: Vec<(Option<u8>, Value<'static>)>,
}

impl Expectations {
    /// Those of several layers: what a layer names, those before it do not ask for.
    pub fn new(layers: &[&[Attribute]]) -> Expectations {
        let mut all: Vec<Expected> = Vec::new();
        let attributes = layers.iter().enumerate().flat_map(|(at, layer)| {
            let above = layers.get(at + 1..).unwrap_or_default();
            layer.iter().filter(|it| !above.iter().any(|layer| names(layer, it.id)))
        });
        for Attribute { id, tag, value } in attributes.cloned() {
            match all.iter_mut().find(|expected| expected.id == id) {
                Some(expected) => expected.values.push((tag, value)),
                None => all.push(Expected {
                    id,
                    values: vec![(tag, value)],
                }),
            }
        }
        Expectations {
            expected: all,
            right: OnceLock::new(),
        }
    }

    /// Whether the attributes named have just the values named, in their order. The error says what is there instead.
    pub fn check(&self, packet: &Packet<'_>, revealing: Revealing<'_>) -> Result<(), String> {
        if self.expected.is_empty() || self.is_as_before(packet) {
            return Ok(());
        }
        let dictionary = Dictionary::builtin();
        let mut seen = vec![0_usize; self.expected.len()];
        let mut wrong = None;
        let mut lasting = true;
        visit(dictionary, packet, Some(revealing), &mut |found| {
            let Found::Known { id, tag, value } = &found else {
                return;
            };
            let definition = dictionary.definition(*id);
            lasting &= definition.flags.encryption == Encryption::None;
            let pair = self
                .expected
                .iter()
                .zip(&mut seen)
                .find(|(expected, _)| expected.id == *id);
            let Some((expected, seen)) = pair else {
                return;
            };
            lasting &=
                !(definition.parent == Parent::Root && PASSING.iter().any(|it| u32::from(*it) == definition.number));
            let next = expected.values.get(*seen);
            *seen += 1;
            let right = next.is_some_and(|(wanted_tag, wanted)| {
                wanted_tag.is_none_or(|wanted| wanted == tag.unwrap_or(0)) && value.as_ref() == Ok(wanted)
            });
            if !right && wrong.is_none() {
                let wanted = next.map_or_else(|| "no more of it".to_owned(), |next| show(*id, next));
                wrong = Some(format!(
                    "{}, expected {wanted}",
                    display::line(dictionary, found.clone())
                ));
            }
        });
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
        for (expected, seen) in self.expected.iter().zip(seen) {
            if let Some(next) = expected.values.get(seen) {
                return Err(format!("{} is missing", show(expected.id, next)));
            }
        }
        if lasting {
            self.right
                .get_or_init(|| without_passing(packet).flatten().copied().collect());
        }
        Ok(())
    }

    /// Whether its attributes are those of one that was right.
    fn is_as_before(&self, packet: &Packet<'_>) -> bool {
        let Some(mut rest) = self.right.get().map(|right| &right[..]) else {
            return false;
        };
        for attribute in without_passing(packet) {
            match rest.strip_prefix(attribute) {
                Some(after) => rest = after,
                None => return false,
            }
        }
        rest.is_empty()
    }
}

/// The attributes of a packet as they stand there, but of those that are another for every device the number alone.
fn without_passing<'a>(packet: &Packet<'a>) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    let octets = packet.as_bytes();
    packet.attributes().map(move |attribute| {
        let length = match PASSING.contains(&attribute.number) {
            true => 1,
            false => 2 + attribute.value.len(),
        };
        octets
            .get(attribute.offset..attribute.offset + length)
            .unwrap_or_default()
    })
}

fn show(id: AttributeId, (tag, value): &(Option<u8>, Value<'static>)) -> String {
    let dictionary = Dictionary::builtin();
    let found = Found::Known {
        id,
        tag: tag.filter(|tag| *tag != 0),
        value: Ok(value.clone()),
    };
    display::line(dictionary, found)
}

#[cfg(test)]
mod tests {
    use portreeve::radius::code::Code;
    use portreeve::radius::crypto::Secret;
    use portreeve::radius::writer::Writer;

    use super::*;

    fn attributes(texts: &[&str]) -> Vec<Attribute> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn check(expected: &[&str], sent: &[&str]) -> Result<(), String> {
        let (secret, authenticator) = (Secret::new(b"testing123"), [7; 16]);
        let encoded = encode(&[&attributes(sent)]).unwrap();
        let mut accept = Vec::new();
        let mut writer = Writer::reply(&mut accept, Code::AccessAccept, 1, &secret, &authenticator);
        writer.encoded(&encoded);
        writer.finish().unwrap();
        let revealing = Revealing {
            secret: &secret,
            request_authenticator: &authenticator,
        };
        Expectations::new(&[&attributes(expected)]).check(&Packet::parse(&accept).unwrap(), revealing)
    }

    #[test]
    fn an_accept_carries_just_what_is_expected_in_order() {
        let vlan = ["Tunnel-Type:1=VLAN", "Tunnel-Private-Group-Id:1=120"];
        let pairs = ["Cisco-AVPair=a=1", "Session-Timeout=60", "Cisco-AVPair=b=2"];
        for (expected, sent) in [
            (&[][..], &vlan[..]),
            (&["Tunnel-Private-Group-Id=120"], &vlan),
            (&["Tunnel-Private-Group-Id:1=120", "Tunnel-Type=13"], &vlan),
            (&["Tunnel-Private-Group-Id:0=120"], &["Tunnel-Private-Group-Id=120"]),
            (&["Cisco-AVPair=a=1", "Cisco-AVPair=b=2"], &pairs),
        ] {
            assert_eq!(check(expected, sent), Ok(()), "{expected:?} {sent:?}");
        }
        for (expected, sent, error) in [
            (
                &["Tunnel-Private-Group-Id=130"][..],
                &vlan[..],
                "Tunnel-Private-Group-Id:1 = \"120\", expected Tunnel-Private-Group-Id = \"130\"",
            ),
            (
                &["Tunnel-Private-Group-Id:2=120"],
                &vlan,
                "Tunnel-Private-Group-Id:1 = \"120\", expected Tunnel-Private-Group-Id:2 = \"120\"",
            ),
            (&["Filter-Id=staff"], &vlan, "Filter-Id = \"staff\" is missing"),
            (
                &["Cisco-AVPair=a=1"],
                &pairs,
                "Cisco-AVPair = \"b=2\", expected no more of it",
            ),
            (
                &["Cisco-AVPair=b=2", "Cisco-AVPair=a=1"],
                &pairs,
                "Cisco-AVPair = \"a=1\", expected Cisco-AVPair = \"b=2\"",
            ),
        ] {
            assert_eq!(check(expected, sent), Err(error.to_owned()), "{expected:?} {sent:?}");
        }
    }

    #[test]
    fn what_is_compared_octet_for_octet_is_checked_no_less() {
        let (secret, authenticator) = (Secret::new(b"testing123"), [7; 16]);
        let accept = |eap: u8, sent: &[&str], last: &[&str]| {
            let mut octets = Vec::new();
            let mut writer = Writer::reply(&mut octets, Code::AccessAccept, 1, &secret, &authenticator);
            writer
                .message_authenticator()
                .encoded(&encode(&[&attributes(sent)]).unwrap())
                .eap_message(&[3, eap, 0, 4])
                .encoded(&encode(&[&attributes(last)]).unwrap());
            writer.finish().unwrap();
            octets
        };
        let revealing = Revealing {
            secret: &secret,
            request_authenticator: &authenticator,
        };
        let expectations = Expectations::new(&[&attributes(&["Filter-Id=staff", "Class=0x61"])]);
        let check = |octets: &[u8]| {
            let packet = Packet::parse(octets).unwrap();
            (
                expectations.is_as_before(&packet),
                expectations.check(&packet, revealing).is_ok(),
            )
        };
        let right = ["Filter-Id=staff", "Class=0x61"];
        assert_eq!(check(&accept(1, &right[..1], &[])), (false, false));
        assert_eq!(check(&accept(1, &right, &[])), (false, true));
        assert_eq!(
            check(&accept(2, &right, &[])),
            (true, true),
            "the EAP packet is new in every answer"
        );
        for (sent, last, is_right) in [
            (&right[..], &["Session-Timeout=60"][..], true),
            (&right, &["Filter-Id=staff"], false),
            (&right[..1], &right[1..], true),
            (&right[..1], &[], false),
            (&["Filter-Id=staff", "Class=0x62"], &[], false),
            (&[], &[], false),
        ] {
            assert_eq!(check(&accept(1, sent, last)), (false, is_right), "{sent:?} {last:?}");
        }
    }

    #[test]
    fn hidden_values_are_read_in_every_answer() {
        let secret = Secret::new(b"testing123");
        let expectations = Expectations::new(&[&attributes(&["Filter-Id=staff"])]);
        let mut accept = Vec::new();
        let mut writer = Writer::reply(&mut accept, Code::AccessAccept, 1, &secret, &[7; 16]);
        let hidden = [&[69, 21, 0, 0x80, 1][..], &[0; 16]].concat();
        writer
            .encoded(&encode(&[&attributes(&["Filter-Id=staff"])]).unwrap())
            .encoded(&hidden);
        writer.finish().unwrap();
        let packet = Packet::parse(&accept).unwrap();
        let revealing = Revealing {
            secret: &secret,
            request_authenticator: &[7; 16],
        };
        assert_eq!(expectations.check(&packet, revealing), Ok(()));
        assert!(!expectations.is_as_before(&packet));
    }

    #[test]
    fn a_name_that_the_user_sets_is_not_sent_by_default_too() {
        let defaults = attributes(&["NAS-Port-Type=Ethernet", "Service-Type=Call-Check"]);
        let octets = encode(&[&defaults, &attributes(&["NAS-Port-Type=Wireless-802.11"])]).unwrap();
        assert_eq!(octets, [6, 6, 0, 0, 0, 10, 61, 6, 0, 0, 0, 19]);
    }

    #[test]
    fn what_the_client_writes_itself_cannot_be_set() {
        for text in ["User-Name=bob", "State=0x00", "EAP-Message=0x00", "Tunnel-Password=x"] {
            assert!(encode(&[&attributes(&[text])]).is_err(), "{text}");
        }
        for text in [
            "Filter-Id",
            "No-Such-Thing=1",
            "NAS-Port-Type=Carrier-Pigeon",
            "Tunnel-Type:32=VLAN",
        ] {
            assert!(text.parse::<Attribute>().is_err(), "{text}");
        }
    }
}
