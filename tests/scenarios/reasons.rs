//! Every reason of the closed list is reached by somebody, or is known to belong to what is not built yet. A new reason
//! does not compile here until it has its proof.

use std::pin::Pin;
use std::sync::Arc;

use portreeve::eap::packet;
use portreeve::eap::tls::{TlsVersion, provider};
use portreeve::listen::{Handler, Lost};
use portreeve::nas::{Attempt, Credentials};
use portreeve::radius::packet::number;
use portreeve::reason::Reason;
use rustls::crypto::{CryptoProvider, aws_lc_rs};

use crate::support::*;

enum Proof {
    /// The reason that was met.
    Met(Pin<Box<dyn Future<Output = Reason>>>),
    /// Why nobody can meet it yet.
    Later(&'static str),
}

fn met(future: impl Future<Output = Reason> + 'static) -> Proof {
    Proof::Met(Box::pin(future))
}

/// What an authentication at Leeds is recorded with.
fn recorded(document: String, attempt: Attempt) -> Proof {
    met(async move {
        let mut node = Node::start(&document).await;
        end(&mut node, attempt)
    })
}

fn end(node: &mut Node, mut attempt: Attempt) -> Reason {
    node.authenticate(&mut Switch::new(LEEDS), &mut attempt);
    node.record().reason
}

fn mab(attempt: Attempt) -> Proof {
    recorded(SITES.to_owned(), attempt)
}

fn by_pap(user: &str, password: &str, lines: &[&str]) -> Attempt {
    mab_attempt(user, Credentials::Pap(password.as_bytes().to_vec()), lines)
}

fn eap(supplicant: Supplicant) -> Proof {
    recorded(SITES.to_owned(), supplicant.attempt(LAPTOP_PORT))
}

fn shows(certificate: &'static str) -> Proof {
    eap(laptop().certificate(certificate))
}

/// What a packet is dropped for, of which the counter then says one.
fn dropped(expected: Reason, change: fn(&mut Switch, Vec<u8>) -> Vec<u8>) -> Proof {
    met(async move {
        let mut node = Node::start(SITES).await;
        let mut switch = Switch::new(LEEDS);
        let request = switch.next(&mut printer(PRINTER));
        let request = change(&mut switch, request);
        assert!(node.deliver(switch.source, &request).is_silent());
        counted(&node, expected)
    })
}

#[track_caller]
fn counted(node: &Node, expected: Reason) -> Reason {
    assert_eq!(node.dropped(expected), 1);
    expected
}

/// A conversation of which nothing more is heard after so many rounds.
fn silent_after(rounds: usize) -> Proof {
    met(async move {
        let mut node = Node::with(SITES, |setup| setup.settings.fragment_size = 200).await;
        node.rounds(&mut Switch::new(LEEDS), &mut laptop().attempt(LAPTOP_PORT), rounds);
        node.advance(std::time::Duration::from_secs(31));
        node.record().reason
    })
}

/// A conversation whose third request is changed.
fn changed_midway(change: fn(&mut Vec<(u8, Vec<u8>)>)) -> Proof {
    met(async move {
        let mut node = Node::start(SITES).await;
        let mut switch = Switch::new(LEEDS);
        let mut attempt = laptop().attempt(LAPTOP_PORT);
        node.rounds(&mut switch, &mut attempt, 2);
        let request = switch.next(&mut attempt);
        let request = switch.rewrite(&request, change);
        node.deliver(switch.source, &request).reply();
        node.record().reason
    })
}

/// Laptops whose policy says this.
fn with_policy(policy: &str) -> Proof {
    let document = SITES.replacen("rules = [\"TLS-Client-Cert-Common-Name == laptop-7\"]", policy, 1);
    assert_ne!(document, SITES);
    recorded(document, laptop().attempt(LAPTOP_PORT))
}

fn proof(reason: Reason) -> Proof {
    match reason {
        Reason::PolicyAccept => mab(printer(PRINTER)),
        Reason::FallbackAccept => recorded(
            SITES
                .replace("action = \"reject\"", "action = \"accept\"")
                .replace("== laptop-7", "== laptop-8"),
            laptop().attempt(LAPTOP_PORT),
        ),
        Reason::MacListed => mab(by_pap(PRINTER, PRINTER, &["Calling-Station-Id = 02-00-00-00-00-01"])),

        Reason::UnknownClient => met(async {
            let mut node = Node::start(SITES).await;
            node.authenticate(&mut Switch::new("203.0.113.9:50000"), &mut printer(PRINTER));
            counted(&node, Reason::UnknownClient)
        }),
        Reason::BadMessageAuthenticator => dropped(reason, |_, mut request| {
            request[25] ^= 1;
            request
        }),
        Reason::NoMessageAuthenticator => dropped(reason, |switch, request| switch.unsigned(&request)),
        Reason::ProxyStateUnsigned => dropped(reason, |switch, request| {
            let request = switch.alter(&request, |attributes| set(attributes, number::PROXY_STATE, b"x"));
            switch.unsigned(&request)
        }),
        Reason::MalformedPacket => dropped(reason, |_, request| request[..19].to_vec()),
        Reason::Duplicate => met(async {
            let mut node = Node::with(SITES, |setup| setup.directory.cache_octets = 0).await;
            let mut switch = Switch::new(LEEDS);
            let request = switch.next(&mut printer(PRINTER));
            let _pending = node.deliver(switch.source, &request).later();
            assert!(node.deliver(switch.source, &request).is_silent());
            counted(&node, Reason::Duplicate)
        }),
        Reason::Overload => met(async {
            let mut node = Node::with(SITES, |setup| setup.directory.cache_octets = 0).await;
            let mut switch = Switch::new(LEEDS);
            let request = switch.next(&mut printer(PRINTER));
            assert!(node.deliver_to(switch.source, &request, false).is_silent());
            counted(&node, Reason::Overload)
        }),
        Reason::NotReady => met(async {
            let mut node = Node::without_database().await;
            node.authenticate(&mut Switch::new(LEEDS), &mut printer(PRINTER));
            counted(&node, Reason::NotReady)
        }),

        Reason::MacNotListed => mab(printer("02-00-00-00-00-99")),
        Reason::MacListedElsewhere => mab(printer("02-00-00-00-00-02")),
        Reason::MacMismatch => mab(by_pap(PRINTER, PRINTER, LAPTOP_PORT)),
        Reason::MacExpired => recorded(
            SITES.replacen(
                "address = \"02-00-00-00-00-01\"",
                "address = \"02-00-00-00-00-01\"\nvalid_until = 2020-01-01",
                1,
            ),
            printer(PRINTER),
        ),
        Reason::MabPassword => mab(by_pap(PRINTER, "x", &["Calling-Station-Id = 02-00-00-00-00-01"])),

        Reason::NotNetworkAccess => mab(by_pap("admin", "x", &["Service-Type = NAS-Prompt-User"])),
        Reason::NoCredentials => mab(by_pap("alice", "x", &[])),
        Reason::Probe => mab(by_pap("radius-test", "x", &[])),

        Reason::PolicyReject => with_policy("action = \"reject\"\nrules = [\"User-Name present\"]"),
        Reason::FallbackReject => with_policy("rules = [\"User-Name absent\"]"),
        Reason::NoFallback => recorded(
            SITES
                .replace("fallback = \"nobody else\"", "")
                .replace("== laptop-7", "== laptop-8"),
            laptop().attempt(LAPTOP_PORT),
        ),
        Reason::PolicyBroken => met(async {
            let mut node = Node::start(SITES).await;
            node.sql(
                "INSERT INTO sites (id, name, tag) VALUES (90, 'Hull', 'hull');
                 INSERT INTO clients (site_id, ip_range, shared_secret) VALUES (90, '192.0.2.1', 'testing123');
                 INSERT INTO policies (id, name) VALUES (90, 'broken');
                 INSERT INTO rules (policy_id, request_attribute, operator, value) VALUES (90, 'No-Such', 'equals', 'x');
                 INSERT INTO site_policies (site_id, policy_id, priority) VALUES (90, 90, 1);",
            )
            .await;
            end(&mut node, printer(PRINTER))
        }),
        Reason::ResponseFailed => recorded(
            SITES.replacen("responses = [", "responses = [\"Reply-Message = %{SSID}\", ", 1),
            laptop().attempt(LAPTOP_PORT),
        ),
        Reason::ReplyTooLong => met(async {
            let filler = format!("\"Cisco-AVPair = {}\", ", "x".repeat(230)).repeat(15);
            let document = SITES.replace("responses = [", &format!("responses = [{filler}"));
            let mut node = Node::start(&document).await;
            let mut switch = Switch::new(LEEDS);
            let request = switch.next(&mut printer(PRINTER));
            let request = switch.alter(&request, |attributes| {
                attributes.extend([(); 3].map(|()| (number::PROXY_STATE, vec![1; 240])));
            });
            node.deliver(switch.source, &request).reply();
            node.record().reason
        }),

        Reason::MethodRefused => eap(Supplicant {
            identity: "laptop-7",
            ..md5_printer("x")
        }),
        Reason::SupplicantStopped => silent_after(1),
        Reason::FragmentLost => silent_after(2),
        Reason::SessionUnknown => changed_midway(|attributes| set(attributes, number::STATE, &[9; 20])),
        Reason::SessionEvicted => met(async {
            let mut node = Node::with(SITES, |setup| setup.settings.conversations.per_client = 1).await;
            let mut switch = Switch::new(LEEDS);
            node.rounds(&mut switch, &mut laptop().attempt(LAPTOP_PORT), 1);
            node.rounds(&mut switch, &mut laptop().attempt(&[]), 1);
            node.record().reason
        }),
        Reason::ConversationChanged => {
            changed_midway(|attributes| set(attributes, number::CALLING_STATION_ID, b"02-00-00-00-00-78"))
        }
        Reason::EapInvalid => changed_midway(|attributes| {
            // TLS data that no TLS library sends: a fragment that says it is longer than what was announced.
            let eap = value_of(attributes, number::EAP_MESSAGE);
            let data = [0x80, 0, 0, 0, 1, 1, 2, 3];
            *eap = packet::build(
                packet::Code::Response,
                eap[1],
                portreeve::eap::method::EapType::TLS,
                &[&data],
            );
        }),
        Reason::IdentityMismatch => changed_midway(|attributes| set(attributes, number::USER_NAME, b"somebody")),

        Reason::ServerCertificateRefused => eap(Supplicant {
            root: "foreign-ca",
            ..laptop()
        }),
        Reason::TlsVersion => met(async {
            let mut node = Node::with(SITES, |setup| setup.trust.min_version = TlsVersion::V13).await;
            end(&mut node, laptop().version(TlsVersion::V12).attempt(LAPTOP_PORT))
        }),
        Reason::TlsNoCommon => {
            let mut tls = laptop().tls();
            tls.provider = Arc::new(CryptoProvider {
                kx_groups: vec![aws_lc_rs::kx_group::X25519MLKEM768],
                ..(*provider()).clone()
            });
            recorded(SITES.to_owned(), eap_attempt(&settings_over(tls), LAPTOP_PORT))
        }
        Reason::TlsFailed => met(async {
            let mut node = Node::start(SITES).await;
            let mut switch = Switch::new(LEEDS);
            let mut attempt = laptop().version(TlsVersion::V12).attempt(LAPTOP_PORT);
            node.rounds(&mut switch, &mut attempt, 2);
            // The first message behind the ClientHello that is more than an acknowledgement.
            let request = loop {
                let request = switch.next(&mut attempt);
                let packet = portreeve::radius::packet::Packet::parse(&request).unwrap();
                if packet.eap_message().unwrap().len() > 100 {
                    break request;
                }
                told(&mut attempt, &node.deliver(switch.source, &request).reply());
            };
            let request = switch.alter(&request, |attributes| {
                // A handshake message of a type that does not exist.
                let eap = value_of(attributes, number::EAP_MESSAGE);
                let record = eap.windows(3).position(|octets| octets == [0x16, 3, 3]).unwrap();
                eap[record + 5] = 99;
            });
            told(&mut attempt, &node.deliver(switch.source, &request).reply());
            end(&mut node, attempt)
        }),

        Reason::NoCertificate => eap(Supplicant {
            certificate: None,
            ..laptop()
        }),
        Reason::UnknownCa => shows("foreign"),
        Reason::ChainIncomplete => shows("incomplete"),
        Reason::CertificateExpired => shows("expired"),
        Reason::CertificateNotYetValid => shows("future"),
        Reason::CertificateWrongUsage => shows("wrong-eku"),
        Reason::CertificateConstraint => met(crate::certificates::outside_a_name_constraint()),
        Reason::CertificateWeak => shows("rsa1024"),
        Reason::CertificateMalformed => shows("v1"),
        Reason::CertificateRevoked => met(crate::revocation::a_device_in_a_list()),
        Reason::RevocationUnavailable => met(crate::revocation::a_device_without_a_list()),
        Reason::RevocationUnknown => {
            Proof::Later("only a responder says so, and here is no socket: `tests/revocation`")
        }

        Reason::DatabaseUnavailable => Proof::Later("everything that decides is in memory: no request asks SQLite"),
        Reason::InternalError => met(async {
            let node = Node::start(SITES).await;
            node.server.lost(Lost::Reply, 1);
            counted(&node, Reason::InternalError)
        }),
    }
}

#[tokio::test]
async fn every_reason_is_met() {
    let mut later = Vec::new();
    for reason in Reason::ALL {
        match proof(*reason) {
            Proof::Met(future) => assert_eq!(future.await, *reason),
            Proof::Later(why) => later.push((reason.word(), why)),
        }
    }
    let words: Vec<_> = later.iter().map(|(word, _)| *word).collect();
    let known = ["revocation-unknown", "database-unavailable"];
    assert_eq!(words, known, "{later:?}");
}
