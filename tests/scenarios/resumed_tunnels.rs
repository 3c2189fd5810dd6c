//! Tunnels that are taken up again, where `resume_tunnels` says so: nothing runs inside, and everything is judged anew.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use portreeve::eap::peer::{Failure, PeerSettings, PeerTunnel, remembering};
use portreeve::eap::tls::TlsVersion;
use portreeve::eap::tls::ticket::Offered;
use portreeve::eap::tunnel::Kind;
use portreeve::reason::Reason;
use portreeve::server::record::{Authentication, Outcome};
use portreeve::trust::Resumption;
use portreeve::trust::revocation::Mode;

use crate::pki;
use crate::resumption::{
    authenticate, ends_a_day_after_the_full_handshake, facts_of, gets_in, short_lived, with_all_facts,
};
use crate::revocation;
use crate::support::*;

const HOUR: Duration = Duration::from_secs(3_600);
const YORK: &str = "198.51.100.1:50000";
const CASES: [(Kind, TlsVersion); 4] = [
    (Kind::Ttls, TlsVersion::V12),
    (Kind::Ttls, TlsVersion::V13),
    (Kind::Peap, TlsVersion::V12),
    (Kind::Peap, TlsVersion::V13),
];

async fn node(document: &str, change: impl FnOnce(&mut Setup)) -> Node {
    Node::with(document, |setup| {
        setup.trust.resume_tunnels = true;
        change(setup);
    })
    .await
}

/// A device that remembers the sessions of its tunnel, and none of the EAP-TLS inside.
fn device((kind, version): (Kind, TlsVersion)) -> Arc<PeerSettings> {
    remembering_tunnels(&laptop().version(version).tunnel(kind).settings())
}

fn remembering_tunnels(settings: &PeerSettings) -> Arc<PeerSettings> {
    Arc::new(PeerSettings {
        tunnel: settings.tunnel.clone().map(|tunnel| PeerTunnel {
            tls: remembering(&tunnel.tls, 8),
            ..tunnel
        }),
        ..settings.clone()
    })
}

/// In few round trips: identity, Start, ClientHello, Finished; but for EAP-TTLS in TLS 1.2 there is one more thing to hear.
#[tokio::test]
async fn a_tunnel_brings_all_that_policies_and_the_log_know_of_a_device() {
    let mut node = node(&with_all_facts(), |_| ()).await;
    for case in CASES {
        let device = device(case);
        let class = |end: &End| -> Vec<Vec<u8>> { end.accept().all(25).map(<[u8]>::to_vec).collect() };
        let (end, full) = authenticate(&mut node, LEEDS, &device);
        let facts = class(&end);
        assert_eq!((facts.len(), full.resumed), (16, Some(false)), "{full:?}");
        let (end, resumed) = authenticate(&mut node, LEEDS, &device);
        assert_eq!(class(&end), facts);
        assert_eq!((resumed.resumed, resumed.ticket), (Some(true), Some(Offered::Resumed)));
        assert_eq!(facts_of(&resumed), facts_of(&full));
        let word = if case.0 == Kind::Ttls { "ttls" } else { "peap" };
        assert_eq!((resumed.eap_type, resumed.tls), (Some(word), Some(case.1.word())));
        assert_eq!(resumed.method.map(|method| method.word()), Some("eap-tls"));
        let expected = if case == (Kind::Ttls, TlsVersion::V12) { 3 } else { 4 };
        assert_eq!(resumed.rounds, expected, "{case:?}");
    }
}

#[tokio::test]
async fn tunnels_are_made_anew_where_nothing_is_configured() {
    let mut node = Node::start(SITES).await;
    for case in CASES {
        let device = device(case);
        gets_in(&mut node, LEEDS, &device, None);
        gets_in(&mut node, LEEDS, &device, None);
    }
}

/// The device's session is good, and the site no longer lets it in. An alert says so where one can be sent; PEAP's result.
#[tokio::test]
async fn a_policy_that_rejects_since_refuses_a_tunnel_that_was_taken_up() {
    for case in CASES {
        let mut node = node(SITES, |_| ()).await;
        let device = device(case);
        gets_in(&mut node, LEEDS, &device, None);
        node.import(&SITES.replace("== laptop-7", "== laptop-8")).await;
        let (end, record) = authenticate(&mut node, LEEDS, &device);
        assert_eq!(
            (record.outcome, record.reason, record.resumed),
            (Outcome::Reject, Reason::FallbackReject, Some(true))
        );
        assert_eq!(text(&record, Text::Cn), "laptop-7");
        let End::Reject(_, failure) = end else {
            panic!("{end:?}")
        };
        let expected = match case {
            (Kind::Ttls, TlsVersion::V13) => Failure::Alert("access_denied".to_owned()),
            _ => Failure::Rejected,
        };
        assert_eq!(failure, Some(expected), "{case:?}");
    }
}

/// An authentication that may wait for what is known of the certificate.
async fn to_the_end(node: &mut Node, device: &Arc<PeerSettings>) -> Authentication {
    let (mut switch, mut attempt) = (Switch::new(LEEDS), eap_attempt(device, LAPTOP_PORT));
    for _ in 0..40 {
        let request = switch.next(&mut attempt);
        let reply = match node.deliver(switch.source, &request) {
            Response::Later(pending) => node.resume(pending).await.reply(),
            response => response.reply(),
        };
        if let Told::End(_) = told(&mut attempt, &reply) {
            return node.record();
        }
    }
    panic!("no end")
}

#[tokio::test]
async fn a_certificate_that_was_revoked_since_is_refused() {
    for case in CASES {
        let folder = tempfile::tempdir().unwrap();
        let list = revocation::list(&folder, false);
        let mut node = node(SITES, |setup| {
            setup.revocation = Some(revocation::settings(Mode::Require, Some(list.clone())));
        })
        .await;
        let device = device(case);
        for resumed in [false, true] {
            let record = to_the_end(&mut node, &device).await;
            assert_eq!((record.reason, record.resumed), (Reason::PolicyAccept, Some(resumed)));
        }
        fs::rename(revocation::list(&folder, true), &list).unwrap();
        assert!(node.revocation.as_ref().unwrap().reload().is_empty());
        let record = to_the_end(&mut node, &device).await;
        assert_eq!(
            (record.reason, record.resumed),
            (Reason::CertificateRevoked, Some(true)),
            "{case:?}"
        );
    }
}

#[tokio::test]
async fn nobody_outlives_the_certificate_by_a_tunnel() {
    for case in CASES {
        let mut node = node(SITES, |_| ()).await;
        let mut tls = laptop().version(case.1).tls();
        tls.certificate = Some(short_lived());
        let device = remembering_tunnels(&PeerSettings {
            tls: Some(tls.build().unwrap()),
            ..(*laptop().version(case.1).tunnel(case.0).settings()).clone()
        });
        gets_in(&mut node, LEEDS, &device, None);
        node.advance(HOUR);
        gets_in(&mut node, LEEDS, &device, Some(Offered::Resumed));
        // the certificate may be some seconds younger than the clock, which stands
        node.advance(HOUR + Duration::from_secs(60));
        let (end, record) = authenticate(&mut node, LEEDS, &device);
        end.reject();
        assert_eq!(
            (record.reason, record.resumed, record.ticket),
            (Reason::CertificateExpired, Some(false), Some(Offered::Refused))
        );
    }
}

/// A day, if nothing else is configured, and however often it was taken up meanwhile.
#[tokio::test]
async fn a_tunnel_ends_a_day_after_the_full_handshake() {
    for case in CASES {
        let mut node = node(SITES, |_| ()).await;
        ends_a_day_after_the_full_handshake(&mut node, &device(case));
    }
}

/// The sessions outlive a reload; but not the CA, nor the secrets under which they are sealed.
#[tokio::test]
async fn tunnels_outlive_a_reload_but_neither_the_client_ca_nor_the_secrets() {
    for case in CASES {
        let folder = tempfile::tempdir().unwrap();
        let (cas, secrets) = (folder.path().join("ca"), folder.path().join("ticket.keys"));
        fs::create_dir(&cas).unwrap();
        for name in ["ca.pem", "foreign-ca.pem"] {
            fs::copy(pki::folder().unwrap().join(name), cas.join(name)).unwrap();
        }
        fs::write(&secrets, "a secret that is as long as it has to be").unwrap();
        let mut node = node(SITES, |setup| {
            setup.trust.client_ca = vec![cas.clone()];
            setup.trust.resumption = Some(Resumption {
                keys_file: Some(secrets.clone()),
                ..Resumption::default()
            });
        })
        .await;
        let reload = |node: &Node| assert!(node.trust.reload().refused.is_empty());
        let device = device(case);
        gets_in(&mut node, LEEDS, &device, None);
        reload(&node);
        gets_in(&mut node, LEEDS, &device, Some(Offered::Resumed));
        fs::write(&secrets, "another secret, in place of the first one").unwrap();
        reload(&node);
        gets_in(&mut node, LEEDS, &device, Some(Offered::Unusable));
        gets_in(&mut node, LEEDS, &device, Some(Offered::Resumed));
        fs::remove_file(cas.join("ca.pem")).unwrap();
        reload(&node);
        let (end, record) = authenticate(&mut node, LEEDS, &device);
        end.reject();
        assert_eq!(
            (record.reason, record.resumed, record.ticket),
            (Reason::UnknownCa, Some(false), Some(Offered::Unusable))
        );
    }
}

#[tokio::test]
async fn a_tunnel_of_another_site_is_not_taken_up() {
    let mut node = node(SITES, |_| ()).await;
    for case in CASES {
        let device = device(case);
        gets_in(&mut node, LEEDS, &device, None);
        for elsewhere in [YORK, LEEDS] {
            gets_in(&mut node, elsewhere, &device, Some(Offered::Unusable));
            gets_in(&mut node, elsewhere, &device, Some(Offered::Resumed));
        }
    }
}

/// What a device was given for one method it offers to the next, from one memory: nothing of a tunnel resumes EAP-TLS, nor the
/// other way round.
#[tokio::test]
async fn a_session_is_of_no_use_to_another_method() {
    let mut node = node(SITES, |_| ()).await;
    let methods = [None, Some(Kind::Ttls), Some(Kind::Peap)];
    for version in [TlsVersion::V12, TlsVersion::V13] {
        for (first, second) in methods.iter().flat_map(|first| methods.map(|second| (*first, second))) {
            let supplicant = laptop().version(version);
            let tls = remembering(&supplicant.tls().build().unwrap(), 8);
            let by = |kind: Option<Kind>| {
                Arc::new(PeerSettings {
                    tls: match kind {
                        None => Some(Arc::clone(&tls)),
                        // inside, it remembers nothing
                        Some(_) => supplicant.settings().tls.clone(),
                    },
                    tunnel: kind.map(|kind| PeerTunnel {
                        kind,
                        tls: Arc::clone(&tls),
                        identity: b"laptop-7".to_vec(),
                    }),
                    ..(*supplicant.settings()).clone()
                })
            };
            gets_in(&mut node, LEEDS, &by(first), None);
            gets_in(&mut node, LEEDS, &by(first), Some(Offered::Resumed));
            let (end, record) = authenticate(&mut node, LEEDS, &by(second));
            end.accept();
            assert_eq!(record.resumed, Some(first == second), "{version} {first:?} {second:?}");
        }
    }
}
