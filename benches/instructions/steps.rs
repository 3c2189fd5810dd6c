//! The steps of RADIUS and policies, for one request: MAC authentication by PAP, as a switch sends it, at a site with five
//! policies of five rules. The first four fail at their last rule, the fifth decides.

use std::hint::black_box;
use std::sync::Arc;

use portreeve::policy::compile::{self, CompiledSite};
use portreeve::policy::evaluate::decide;
use portreeve::policy::facts::Facts;
use portreeve::policy::model::{Action, Method, Policy};
use portreeve::radius::attribute::for_each_value;
use portreeve::radius::code::Code;
use portreeve::radius::crypto::{
    AT_ONCE, MessageAuthenticator, Secret, sign_replies, verify_message_authenticator, verify_message_authenticators,
};
use portreeve::radius::dictionary::Dictionary;
use portreeve::radius::packet::{Packet, number};
use portreeve::radius::writer::Writer;

use super::{Fallible, repeat};

const AUTHENTICATOR: [u8; 16] = *b"not random here ";
const IDENTIFIER: u8 = 7;

pub fn parse() -> Fallible<()> {
    let request = request()?;
    Packet::parse(&request)?;
    repeat(|| Packet::parse(black_box(&request)).map(|packet| packet.code()));
    Ok(())
}

pub fn verify() -> Fallible<()> {
    let (request, secret) = (request()?, secret());
    let packet = Packet::parse(&request)?;
    if verify_message_authenticator(&packet, &secret) != MessageAuthenticator::Valid {
        return Err("the request does not verify".into());
    }
    repeat(|| verify_message_authenticator(black_box(&packet), &secret));
    Ok(())
}

/// As many requests as are checked at once.
pub fn verify_three() -> Fallible<()> {
    let (request, secret) = (request()?, secret());
    let packet = Packet::parse(&request)?;
    let verify = || verify_message_authenticators([black_box(Some((&packet, &secret))); AT_ONCE]);
    if verify() != [MessageAuthenticator::Valid; AT_ONCE] {
        return Err("the requests do not verify".into());
    }
    repeat(verify);
    Ok(())
}

/// The attributes that the site's rules name, as typed values.
pub fn facts() -> Fallible<()> {
    let (request, site) = (request()?, site()?);
    let packet = Packet::parse(&request)?;
    match facts_of(&packet, &site).ids().len() {
        3 => repeat(|| facts_of(black_box(&packet), &site)),
        other => return Err(format!("{other} facts").into()),
    }
    Ok(())
}

pub fn evaluate() -> Fallible<()> {
    let (request, site) = (request()?, site()?);
    let packet = Packet::parse(&request)?;
    let facts = facts_of(&packet, &site);
    let decision = decide(&site, Method::Mab, None, &facts);
    if decision.action != Action::Accept || decision.policy.is_none_or(|policy| policy.name() != "policy-5") {
        return Err("the fifth policy does not decide".into());
    }
    repeat(|| decide(black_box(&site), Method::Mab, None, &facts));
    Ok(())
}

/// The accept with what the fifth policy answers, its Message-Authenticator and its response authenticator.
pub fn encode() -> Fallible<()> {
    let (request, site, secret) = (request()?, site()?, secret());
    let packet = Packet::parse(&request)?;
    let decision = decide(&site, Method::Mab, None, &facts_of(&packet, &site));
    let attributes = decision.prepared.ok_or("nothing is prepared")?.attributes();
    let mut reply = Vec::with_capacity(4096);
    let mut write = || {
        reply.clear();
        let mut writer = Writer::reply(
            &mut reply,
            Code::AccessAccept,
            packet.identifier(),
            &secret,
            packet.authenticator(),
        );
        writer.encoded(black_box(attributes));
        let written = writer.finish_unsigned();
        sign_replies([Some((&mut reply, &secret)), None, None]);
        written
    };
    write()?;
    repeat(write);
    Ok(())
}

/// The two authenticators of as many accepts as are signed at once.
pub fn sign_three() -> Fallible<()> {
    let (request, site, secret) = (request()?, site()?, secret());
    let decision = decide(&site, Method::Mab, None, &facts_of(&Packet::parse(&request)?, &site));
    let attributes = decision.prepared.ok_or("nothing is prepared")?.attributes();
    let mut replies = [const { Vec::new() }; AT_ONCE];
    for reply in &mut replies {
        let mut writer = Writer::reply(reply, Code::AccessAccept, IDENTIFIER, &secret, &AUTHENTICATOR);
        writer.encoded(attributes);
        writer.finish_unsigned()?;
    }
    repeat(|| sign_replies(replies.each_mut().map(|reply| Some((reply.as_mut_slice(), &secret)))));
    Ok(())
}

fn secret() -> Secret {
    Secret::new(b"testing123")
}

fn request() -> Fallible<Vec<u8>> {
    let (secret, mut request) = (secret(), Vec::new());
    let mut writer = Writer::request(&mut request, Code::AccessRequest, IDENTIFIER, &secret, &AUTHENTICATOR);
    writer
        .message_authenticator()
        .attribute(number::USER_NAME, b"020000000001")
        .user_password(b"020000000001")
        .attribute(number::NAS_IP_ADDRESS, &[192, 0, 2, 10])
        .attribute(number::NAS_PORT, &50_101u32.to_be_bytes())
        .attribute(number::NAS_PORT_TYPE, &15u32.to_be_bytes())
        .attribute(number::SERVICE_TYPE, &10u32.to_be_bytes())
        .attribute(number::FRAMED_MTU, &1400u32.to_be_bytes())
        .attribute(number::CALLED_STATION_ID, b"00-1b-78-00-00-01")
        .attribute(number::CALLING_STATION_ID, b"02-00-00-00-00-01")
        .attribute(number::NAS_IDENTIFIER, b"switch-7.leeds.role-5");
    writer.finish()?;
    Ok(request)
}

fn site() -> Fallible<CompiledSite> {
    let policies = (1..=5).map(policy).collect::<Fallible<Vec<_>>>()?;
    Ok(CompiledSite::new("leeds", policies, None))
}

fn policy(at: u32) -> Fallible<Arc<compile::CompiledPolicy>> {
    let rules = [
        "NAS-Port-Type == Ethernet".to_owned(),
        "NAS-Identifier starts-with switch-".to_owned(),
        "NAS-Identifier contains leeds".to_owned(),
        "Calling-Station-Id starts-with 02-00".to_owned(),
        format!("NAS-Identifier ends-with role-{at}"),
    ];
    let responses = [
        "Tunnel-Type:1 = VLAN".to_owned(),
        "Tunnel-Medium-Type:1 = IEEE-802".to_owned(),
        format!("Tunnel-Private-Group-Id:1 = {at}0"),
        format!("Filter-Id = acl-{at}"),
        "Session-Timeout = 28800".to_owned(),
    ];
    let policy = Policy {
        name: format!("policy-{at}"),
        description: String::new(),
        action: Action::Accept,
        methods: vec![Method::Mab],
        rules: rules.iter().map(|rule| rule.parse()).collect::<Result<_, _>>()?,
        responses: responses
            .iter()
            .map(|response| response.parse())
            .collect::<Result<_, _>>()?,
        fallback: false,
    };
    let compiled = compile::policy(Dictionary::builtin(), &policy);
    Ok(Arc::new(compiled.map_err(|errors| format!("{errors:?}"))?))
}

fn facts_of<'a>(packet: &Packet<'a>, site: &CompiledSite) -> Facts<'a> {
    let dictionary = Dictionary::builtin();
    let mut facts = Facts::new(dictionary);
    for_each_value(dictionary, packet, &|id| site.needs(id), |id, _, value| {
        if let Ok(value) = value {
            facts.push(id, value);
        }
    });
    facts
}
