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

/// A final answer in little room: thousands are kept, and hardly one is asked for.
#[derive(Debug)]
pub(super) struct Kept {
    code: Code,
    eap_octets: u32,
    /// The EAP packet, and the attributes.
    octets: Box<[u8]>,
    secret: Option<Box<Secret>>,
}

#[derive(Clone, Debug)]
struct Secret {
    hidden: Vec<Hidden>,
    msk: Option<Msk>,
}

impl Kept {
    pub(super) fn new(answer: Answer) -> Kept {
        let Answer {
            code,
            eap,
            attributes,
            hidden,
            msk,
        } = answer;
        Kept {
            code,
            // no EAP packet is longer than 65,535 octets
            eap_octets: u32::try_from(eap.len()).unwrap_or(u32::MAX),
            octets: [eap, attributes].concat().into_boxed_slice(),
            secret: (msk.is_some() || !hidden.is_empty()).then(|| Box::new(Secret { hidden, msk })),
        }
    }

    pub(super) fn answer(&self) -> Answer {
        let (eap, attributes) = self
            .octets
            .split_at_checked(self.eap_octets as usize)
            .unwrap_or((&self.octets, &[]));
        let secret = self.secret.as_deref();
        Answer {
            code: self.code,
            eap: eap.to_vec(),
            attributes: attributes.to_vec(),
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
            assert_eq!(Kept::new(answer.clone()).answer(), answer);
        }
    }
}
