//! Conversations that nobody finishes, and what changes around those that are open.

use std::fs;
use std::time::Duration;

use portreeve::eap::tls::TlsVersion;
use portreeve::eap::tunnel::Kind;
use portreeve::nas::Attempt;
use portreeve::radius::code::Code;
use portreeve::reason::Reason;
use portreeve::server::record::{Authentication, Outcome};
use portreeve::trust;

use crate::support::*;

/// Runs so many rounds, lets the conversation time out, and returns what was said of it; `None` when it had ended by then.
fn stop_after(node: &mut Node, attempt: &mut Attempt, rounds: usize) -> Option<Authentication> {
    let mut switch = Switch::new(LEEDS);
    for _ in 0..rounds {
        if let Told::End(_) = node.round(&mut switch, attempt) {
            return None;
        }
    }
    node.advance(Duration::from_secs(31));
    let record = node.record();
    assert_eq!((record.outcome, record.rounds), (Outcome::Unfinished, rounds as u32));
    assert_eq!(
        (text(&record, Text::Site).as_str(), text(&record, Text::NasId).as_str()),
        ("leeds", "switch-1")
    );
    Some(record)
}

/// How far a conversation that stops half way says it came, with why, each once and in order.
async fn phases(supplicant: &Supplicant, document: &str) -> Vec<(&'static str, Reason, String)> {
    let mut node = Node::with(document, |setup| setup.settings.fragment_size = 200).await;
    let settings = supplicant.settings();
    let mut phases: Vec<(&str, Reason, String)> = Vec::new();
    for rounds in 1..100 {
        let Some(record) = stop_after(&mut node, &mut eap_attempt(&settings, LAPTOP_PORT), rounds) else {
            break;
        };
        let phase = record.phase.expect("a phase");
        if phases.last().is_none_or(|(last, ..)| *last != phase) {
            phases.push((phase, record.reason, text(&record, Text::Detail)));
        }
    }
    assert_eq!(node.server.open_conversations(), 0);
    phases
}

/// What hurts most: sessions that "did not finish" with no reason. Here each says how far it came, and the likely cause.
#[tokio::test]
async fn a_supplicant_that_stops_is_logged_with_how_far_it_came() {
    use Reason::{FragmentLost, SupplicantStopped};
    for version in [TlsVersion::V12, TlsVersion::V13] {
        let supplicant = Supplicant {
            fragment_size: 100,
            ..laptop().version(version)
        };
        let phases = phases(&supplicant, SITES).await;
        let seen: Vec<_> = phases.iter().map(|(phase, reason, _)| (*phase, *reason)).collect();
        let expected = [
            ("tls-offered", SupplicantStopped),
            ("client-hello-arriving", FragmentLost),
            ("server-flight-sending", FragmentLost),
            ("client-certificate-pending", SupplicantStopped),
            ("client-certificate-arriving", FragmentLost),
            // in TLS 1.3 a ticket is part of it, and of several fragments
            match version {
                TlsVersion::V12 => ("finishing", SupplicantStopped),
                TlsVersion::V13 => ("finishing", FragmentLost),
            },
        ];
        assert_eq!(seen, expected, "{version}");
        for (phase, _, cause) in &phases {
            let words = match *phase {
                "tls-offered" => "no tls handshake was begun",
                "client-hello-arriving" => "the rest of the client hello never arrived",
                "server-flight-sending" => "fragment 1 of",
                "client-certificate-pending" => "the client's certificate never arrived",
                "client-certificate-arriving" => "100-octet fragments, check the path mtu",
                _ => "the supplicant never acknowledged the end of the handshake",
            };
            assert!(cause.contains(words), "{version} {phase}: {cause}");
        }
    }
}

/// The same inside of a tunnel.
#[tokio::test]
async fn a_tunnel_that_stops_is_logged_with_how_far_it_came() {
    use Reason::{FragmentLost, SupplicantStopped};
    for (kind, version) in [(Kind::Ttls, TlsVersion::V12), (Kind::Peap, TlsVersion::V13)] {
        let supplicant = Supplicant {
            fragment_size: 100,
            ..laptop().version(version).tunnel(kind)
        };
        let phases = phases(&supplicant, SITES).await;
        let seen: Vec<_> = phases.iter().map(|(phase, reason, _)| (*phase, *reason)).collect();
        let mut expected = vec![
            // of EAP-TLS, and of the tunnel after the Nak
            ("tls-offered", SupplicantStopped),
            ("client-hello-arriving", FragmentLost),
            ("server-flight-sending", FragmentLost),
            ("tunnel-pending", SupplicantStopped),
            ("inner-identity-pending", SupplicantStopped),
            ("inner-tls-offered", SupplicantStopped),
            ("inner-server-flight-sending", FragmentLost),
            ("inner-certificate-pending", SupplicantStopped),
            ("inner-certificate-arriving", FragmentLost),
            // in TLS 1.3 a ticket is part of it, and of several fragments
            match version {
                TlsVersion::V12 => ("finishing", SupplicantStopped),
                TlsVersion::V13 => ("finishing", FragmentLost),
            },
        ];
        if kind == Kind::Peap {
            expected.push(("result-pending", SupplicantStopped));
        }
        assert_eq!(seen, expected, "{kind:?} {version}");
        for (phase, _, cause) in &phases {
            let words = match *phase {
                "tunnel-pending" => "the tunnel's handshake was never finished",
                "inner-identity-pending" => "nothing was said inside the tunnel",
                "inner-tls-offered" => "is the supplicant configured for eap-tls as its inner method",
                "inner-server-flight-sending" => "fragment 1 of",
                "inner-certificate-pending" => "the client's certificate never arrived inside the tunnel",
                "inner-certificate-arriving" => "100-octet fragments, check the path mtu",
                "result-pending" => "the supplicant never answered the result",
                _ => "",
            };
            assert!(cause.contains(words), "{kind:?} {version} {phase}: {cause}");
        }
    }
}

/// A supplicant that is refused and then says nothing: why it was refused is not lost.
#[tokio::test]
async fn a_supplicant_that_stops_after_its_refusal() {
    let rejecting = SITES.replace("== laptop-7", "== laptop-8");
    for version in [TlsVersion::V12, TlsVersion::V13] {
        for (supplicant, document, expected, words) in [
            (laptop(), &*rejecting, Reason::FallbackReject, ""),
            (
                laptop().certificate("expired"),
                SITES,
                Reason::CertificateExpired,
                "expired at 20",
            ),
        ] {
            let phases = phases(&supplicant.version(version), document).await;
            let (phase, reason, cause) = phases.last().unwrap();
            assert_eq!((*phase, *reason), ("alert-sent", expected), "{version}");
            assert!(cause.starts_with(words), "{cause}");
            assert!(cause.contains("the supplicant never answered the alert"), "{cause}");
        }
    }
}

#[tokio::test]
async fn a_supplicant_that_never_names_itself_or_never_answers_the_challenge() {
    let mut node = Node::start(SITES).await;
    let mut switch = Switch::new(LEEDS);
    let start = switch.write(Code::AccessRequest, |writer| {
        writer
            .message_authenticator()
            .eap_message(&[])
            .encoded(&attributes(LAPTOP_PORT));
    });
    node.deliver(switch.source, &start).reply();
    node.advance(Duration::from_secs(31));
    let record = node.record();
    assert_eq!(
        (record.phase, record.reason),
        (Some("identity-requested"), Reason::SupplicantStopped)
    );
    assert_eq!(text(&record, Text::Detail), "the identity never arrived");

    let lines = ["NAS-Identifier = switch-1", "Calling-Station-Id = 02-00-00-00-00-01"];
    let record = stop_after(&mut node, &mut md5_printer("x").attempt(&lines), 1).unwrap();
    assert_eq!(
        (record.phase, record.reason),
        (Some("md5-offered"), Reason::SupplicantStopped)
    );
    assert_eq!(
        text(&record, Text::Detail),
        "the answer to the md5 challenge never arrived"
    );
}

/// The certificate that was shown is known even where nothing came of it.
#[tokio::test]
async fn an_unfinished_conversation_names_the_certificate_that_was_shown() {
    let mut node = Node::start(SITES).await;
    let mut rounds = 1;
    let record = loop {
        let record = stop_after(&mut node, &mut laptop().attempt(LAPTOP_PORT), rounds).expect("unfinished");
        if record.phase == Some("finishing") {
            break record;
        }
        rounds += 1;
    };
    assert_eq!(text(&record, Text::Cn), "laptop-7");
    assert_eq!(text(&record, Text::Issuer), "/C=GB/O=Example/CN=Example Root");
    assert_eq!(
        (text(&record, Text::Policy).as_str(), record.outcome),
        ("laptops", Outcome::Unfinished)
    );
    assert_eq!(
        (record.text(Text::Vlan), record.text(Text::Acl)),
        (None, None),
        "nobody was put anywhere"
    );
}

/// A node on its way out begins nothing new and finishes what is open.
#[tokio::test]
async fn a_draining_node_finishes_what_is_open() {
    let mut node = Node::start(SITES).await;
    let mut switch = Switch::new(LEEDS);
    let mut open = laptop().attempt(LAPTOP_PORT);
    node.rounds(&mut switch, &mut open, 2);
    node.server.drain();
    let new = node.authenticate(
        &mut switch,
        &mut laptop().attempt(&["Calling-Station-Id = 02-00-00-00-00-78"]),
    );
    assert!(matches!(new, End::Silent));
    assert_eq!(node.dropped(Reason::NotReady), 1);
    // One request, one answer: nothing is begun that could be cut short.
    assert_eq!(
        vlan(&node.authenticate(&mut switch, &mut printer(PRINTER)).accept()).as_deref(),
        Some("130")
    );
    assert_eq!(
        vlan(&node.authenticate(&mut switch, &mut open).accept()).as_deref(),
        Some("120")
    );
    assert_eq!(node.server.open_conversations(), 0);
}

/// What is still open when the node stops is said, not forgotten.
#[tokio::test]
async fn a_node_that_stops_says_what_was_open() {
    let mut node = Node::start(SITES).await;
    let mut switch = Switch::new(LEEDS);
    node.rounds(&mut switch, &mut laptop().attempt(LAPTOP_PORT), 2);
    node.server.stop(node.clock.now());
    let record = node.record();
    assert_eq!(record.outcome, Outcome::Unfinished);
    assert_eq!(node.server.open_conversations(), 0);
}

/// A conversation keeps the certificates it began with; those that begin later have the new ones.
#[tokio::test]
async fn certificates_reloaded_in_mid_conversation_do_not_disturb_it() {
    let dir = tempfile::tempdir().unwrap();
    let install = |kind: &str| {
        for name in ["server.pem", "server.key", "ca.pem"] {
            let from = crate::pki::folder().unwrap().join(format!("{kind}{name}"));
            fs::copy(from, dir.path().join(name)).unwrap();
        }
    };
    install("");
    let document = SITES.replace(
        r#"["TLS-Client-Cert-Common-Name == laptop-7"]"#,
        r#"["TLS-Client-Cert-Common-Name == laptop-7", "TLS-Cert-Common-Name starts-with Example"]"#,
    );
    for version in [TlsVersion::V12, TlsVersion::V13] {
        install("");
        let mut node = Node::with(&document, |setup| {
            let file = |name| dir.path().join(name);
            setup.trust = trust::Settings::new(file("server.pem"), file("server.key"), vec![file("ca.pem")]);
        })
        .await;
        let mut switch = Switch::new(LEEDS);
        let old = laptop().version(version);
        for rounds in 1..10 {
            let mut open = old.attempt(LAPTOP_PORT);
            node.rounds(&mut switch, &mut open, rounds);
            install("p384-");
            assert!(node.trust.reload().refused.is_empty());
            let end = node.authenticate(&mut switch, &mut open);
            assert_eq!(vlan(&end.accept()).as_deref(), Some("120"), "{version}, after {rounds}");
            node.record();

            node.authenticate(&mut switch, &mut old.attempt(LAPTOP_PORT)).reject();
            assert_eq!(node.record().reason, Reason::ServerCertificateRefused);
            let new = Supplicant {
                root: "p384-ca",
                ..laptop().version(version).certificate("p384-client")
            };
            node.authenticate(&mut switch, &mut new.attempt(LAPTOP_PORT)).accept();
            node.record();
            install("");
            assert!(node.trust.reload().refused.is_empty());
            if open.rounds() as usize == rounds + 1 {
                break;
            }
        }
    }
}
