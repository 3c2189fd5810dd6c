//! Answers that are kept, to be signed again for another request.

use crate::eap::keys::Msk;
use crate::radius::code::Code;
use crate::radius::dictionary::types::{AttributeId, Value};

/// What was sent last, complete enough to be signed again for another request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Access-Challenge, Access-Accept or Access-Reject.
    pub code: Code,
    /// The EAP packet.
    pub eap: Vec<u8>,
    /// Attributes that stand in the reply as they are.
    pub attributes: Vec<u8>,
    /// Attributes that are hidden with each request's authenticator (Tunnel-Password).
    pub hidden: Vec<Hidden>,
    /// Key material of an accept; hidden anew with each request's authenticator.
    pub msk: Option<Msk>,
}

impl Answer {
    /// One that carries nothing.
    pub fn new(code: Code) -> Answer {
        Answer {
            code,
            eap: Vec::new(),
            attributes: Vec::new(),
            hidden: Vec::new(),
            msk: None,
        }
    }
}

/// An attribute of a reply that is hidden on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hidden {
    /// Which.
    pub attribute: AttributeId,
    /// Its tag.
    pub tag: Option<u8>,
    /// Its value in the clear.
    pub value: Value<'static>,
}

/// A final answer in little room: thousands are kept, and hardly one is asked for. Its octets lie with those of the
/// others.
#[derive(Debug)]
pub(super) struct Kept {
    code: Code,
    eap_octets: u16,
    attributes_octets: u16,
    secret: Option<Box<Secret>>,
}

#[derive(Clone, Debug)]
struct Secret {
    hidden: Vec<Hidden>,
    msk: Option<Msk>,
}

impl Kept {
    /// What is kept of `answer` beside its EAP packet and its attributes. Neither is longer than 65,535 octets, nor would
    /// one that is be kept.
    pub(super) fn new(answer: &Answer) -> Option<Kept> {
        let Answer {
            code,
            eap,
            attributes,
            hidden,
            msk,
        } = answer;
        let secret = || {
            Box::new(Secret {
                hidden: hidden.clone(),
                msk: msk.clone(),
            })
        };
        Some(Kept {
            code: *code,
            eap_octets: u16::try_from(eap.len()).ok()?,
            attributes_octets: u16::try_from(attributes.len()).ok()?,
            secret: (msk.is_some() || !hidden.is_empty()).then(secret),
        })
    }

    /// How many octets it has among those of the others.
    pub(super) fn octets(&self) -> usize {
        usize::from(self.eap_octets) + usize::from(self.attributes_octets)
    }

    /// The answer whose octets these are.
    pub(super) fn answer(&self, mut octets: impl Iterator<Item = u8>) -> Answer {
        let secret = self.secret.as_deref();
        Answer {
            code: self.code,
            eap: octets.by_ref().take(self.eap_octets.into()).collect(),
            attributes: octets.take(self.attributes_octets.into()).collect(),
            hidden: secret.map(|secret| secret.hidden.clone()).unwrap_or_default(),
            msk: secret.and_then(|secret| secret.msk.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_kept_whole() {
        let plain = Answer {
            eap: vec![3, 7, 0, 4],
            attributes: vec![1, 3, b'x'],
            ..Answer::new(Code::AccessAccept)
        };
        let keys = Answer {
            msk: Some(Msk::new([7; 64])),
            ..plain.clone()
        };
        let password = Answer {
            hidden: vec![Hidden {
                attribute: crate::radius::dictionary::Dictionary::builtin()
                    .by_name("Tunnel-Password")
                    .unwrap(),
                tag: Some(1),
                value: Value::Text("secret".into()),
            }],
            ..Answer::new(Code::AccessAccept)
        };
        for answer in [plain, keys, password, Answer::new(Code::AccessReject)] {
            let kept = Kept::new(&answer).unwrap();
            let octets = [&answer.eap[..], &answer.attributes[..]].concat();
            assert_eq!(kept.octets(), octets.len());
            assert_eq!(kept.answer(octets.into_iter()), answer);
        }
    }
}
