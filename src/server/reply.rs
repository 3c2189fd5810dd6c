//! The reply (step 10).

use super::random::random;
use super::request::Request;
use crate::conversations::{Answer, State};
use crate::radius::attribute::{Hiding, encode_attribute};
use crate::radius::crypto::Salts;
use crate::radius::dictionary::Dictionary;
use crate::radius::packet::number;
use crate::radius::writer::{WriteError, Writer};
use crate::reason::Reason;

/// Writes `answer` as the reply to `request`: Message-Authenticator first, EAP, attributes, keys, State, and the request's
/// Proxy-State in order (RFC 2865 section 5.33: "MUST be copied unmodified"). It is to be signed ([`crypto::sign_replies`]).
/// An error leaves `out` as it was.
///
/// [`crypto::sign_replies`]: crate::radius::crypto::sign_replies
pub(super) fn write(
    dictionary: &Dictionary,
    request: &Request<'_>,
    answer: &Answer,
    state: Option<&State>,
    out: &mut Vec<u8>,
) -> Result<(), Reason> {
    let packet = &request.packet;
    let secret = &request.client.secret;
    let mut hidden = Vec::new();
    let mut salts = (answer.msk.is_some() || !answer.hidden.is_empty()).then(|| Salts::new(&mut random));
    if let Some(salts) = &mut salts {
        for each in &answer.hidden {
            let hiding = Hiding {
                secret,
                request_authenticator: packet.authenticator(),
                salts: &mut *salts,
            };
            encode_attribute(
                dictionary,
                each.attribute,
                each.tag,
                &each.value,
                Some(hiding),
                &mut hidden,
            )
            .map_err(|_| Reason::ResponseFailed)?;
        }
    }
    let mut writer = Writer::reply(out, answer.code, packet.identifier(), secret, packet.authenticator());
    if !answer.eap.is_empty() {
        writer.eap_message(&answer.eap);
    }
    writer.encoded(&answer.attributes).encoded(&hidden);
    if let (Some(msk), Some(salts)) = (&answer.msk, &mut salts) {
        writer.mppe_keys(msk.recv_key(), msk.send_key(), salts);
    }
    // RFC 2865 section 5.24: State goes into an Access-Challenge; there is nothing to go on with after the others.
    if let Some(state) = state.filter(|_| answer.code == crate::radius::code::Code::AccessChallenge) {
        writer.attribute(number::STATE, state.as_bytes());
    }
    for proxy_state in packet.all(number::PROXY_STATE) {
        writer.attribute(number::PROXY_STATE, proxy_state);
    }
    writer.finish_unsigned().map(|_| ()).map_err(|error| match error {
        WriteError::PacketTooLong => Reason::ReplyTooLong,
        WriteError::ValueTooLong { .. } | WriteError::Hide(_) => Reason::ResponseFailed,
    })
}
