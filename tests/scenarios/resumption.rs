//! Sessions that are taken up again, here and at another node of the fleet: everything is judged anew, by what is known and
//! configured now.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use portreeve::eap::peer::{ClientCertificate, Failure, PeerSettings, remembering};
use portreeve::eap::tls::TlsVersion;
use portreeve::eap::tls::ticket::Offered;
use portreeve::eap::tunnel::Kind;
use portreeve::reason::Reason;
use portreeve::server::record::{Authentication, Outcome};
use portreeve::trust::facts::{Fact, Role};
use portreeve::trust::revocation::Mode;
use portreeve::trust::{Profile, Resumption, Settings};
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair, KeyUsagePurpose};
use rustls_pki_types::PrivateKeyDer;

use crate::pki;
use crate::revocation;
use crate::support::*;

const VERSIONS: [TlsVersion; 2] = [TlsVersion::V12, TlsVersion::V13];
const HOUR: Duration = Duration::from_secs(3_600);
const YORK: &str = "198.51.100.1:50000";
const OLD: &str = "a secret that the fleet has had since spring";
const NEW: &str = "a secret that the fleet is given in summer";

/// The file that the nodes of a fleet share.
struct Fleet {
    folder: tempfile::TempDir,
}

impl Fleet {
    fn new() -> Fleet {
        let fleet = Fleet {
            folder: tempfile::tempdir().unwrap(),
        };
        fleet.share(&[OLD]);
        fleet
    }

    fn share(&self, secrets: &[&str]) {
        fs::write(self.file(), secrets.join("\n")).unwrap();
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("ticket.keys")
    }

    async fn node(&self, document: &str, change: impl FnOnce(&mut Setup)) -> Node {
        Node::with(document, |setup| {
            setup.trust.resumption = Some(Resumption {
                keys_file: Some(self.file()),
                ..Resumption::default()
            });
            change(setup);
        })
        .await
    }
}

/// One authentication of a device, and what was recorded of it.
#[track_caller]
pub fn authenticate(node: &mut Node, switch: &str, device: &Arc<PeerSettings>) -> (End, Authentication) {
    let end = node.authenticate(&mut Switch::new(switch), &mut eap_attempt(device, LAPTOP_PORT));
    (end, node.record())
}

/// The same of one that is let in, in a full handshake or not.
#[track_caller]
pub fn gets_in(node: &mut Node, switch: &str, device: &Arc<PeerSettings>, ticket: Option<Offered>) -> Authentication {
    let (end, record) = authenticate(node, switch, device);
    end.accept();
    assert_eq!(record.resumed, Some(ticket == Some(Offered::Resumed)));
    assert_eq!(record.ticket, ticket);
    record
}

/// Every fact of the certificate and of its issuer, in a document's responses.
pub fn with_all_facts() -> String {
    let roles = [Role::Client, Role::Issuer];
    let one_value = |fact: &&Fact| !matches!(fact, Fact::Dns | Fact::Email | Fact::Upn | Fact::Uri);
    let facts = roles.into_iter().flat_map(|role| {
        let all = Fact::ALL.iter().filter(one_value);
        all.map(move |fact| format!("\"Class = %{{{}{}}}\"", role.prefix(), fact.suffix()))
    });
    // an issuer has no extended key usage
    let facts: Vec<String> = facts.filter(|fact| !fact.contains("{TLS-Cert-X509v3")).collect();
    SITES.replacen("responses = [", &format!("responses = [{}, ", facts.join(", ")), 1)
}

/// The whole line of an authentication, but for what differs from one to the next.
pub fn facts_of(record: &Authentication) -> String {
    let mut record = Authentication {
        resumed: None,
        ticket: None,
        time: std::time::SystemTime::UNIX_EPOCH,
        duration: Duration::ZERO,
        rounds: 0,
        conversation: None,
        revision: None,
        ..record.clone()
    };
    record.texts.clear(Text::Epoch);
    format!("{record:?}")
}

/// At a node that has never seen the device. The intermediate that it sends is a client CA, as every node knows it: one that is
/// not would be in the ticket by name where it does not fit.
#[tokio::test]
async fn a_session_brings_all_that_policies_and_the_log_know_of_a_device_to_another_node() {
    let (fleet, document) = (Fleet::new(), with_all_facts());
    let with_intermediate = |setup: &mut Setup| {
        let intermediate = setup
            .trust
            .client_ca
            .first()
            .map(|ca| ca.with_file_name("intermediate.pem"));
        setup.trust.client_ca.extend(intermediate);
    };
    let mut one = fleet.node(&document, with_intermediate).await;
    let mut other = fleet.node(&document, with_intermediate).await;
    for version in VERSIONS {
        for certificate in ["client", "chain"] {
            let device = laptop().version(version).certificate(certificate).remembering();
            let class = |end: &End| -> Vec<Vec<u8>> { end.accept().all(25).map(<[u8]>::to_vec).collect() };
            let (end, full) = authenticate(&mut one, LEEDS, &device);
            let facts = class(&end);
            assert_eq!(facts.len(), 16, "{:?}", full);
            let (end, resumed) = authenticate(&mut other, LEEDS, &device);
            assert_eq!(class(&end), facts);
            assert_eq!((full.resumed, resumed.resumed), (Some(false), Some(true)), "{version}");
            assert_eq!(facts_of(&resumed), facts_of(&full));
            let names = [Text::Cn, Text::Serial, Text::Issuer].map(|name| text(&resumed, name));
            assert!(
                names.iter().all(|name| !name.is_empty()) && resumed.not_after.is_some(),
                "{names:?}"
            );
        }
    }
}

#[tokio::test]
async fn round_trips_are_counted() {
    let mut node = Node::start(SITES).await;
    for version in VERSIONS {
        let device = laptop().version(version).remembering();
        assert_eq!(gets_in(&mut node, LEEDS, &device, None).rounds, 4, "{version}");
        let expected = if version == TlsVersion::V12 { 3 } else { 4 };
        let resumed = gets_in(&mut node, LEEDS, &device, Some(Offered::Resumed));
        assert_eq!(resumed.rounds, expected, "{version}");
    }
}

/// The device's session is good, and the site no longer lets it in.
#[tokio::test]
async fn a_policy_that_rejects_since_refuses_a_resumed_session() {
    for version in VERSIONS {
        let mut node = Node::start(SITES).await;
        let device = laptop().version(version).remembering();
        gets_in(&mut node, LEEDS, &device, None);
        node.import(&SITES.replace("== laptop-7", "== laptop-8")).await;
        let (end, record) = authenticate(&mut node, LEEDS, &device);
        assert_eq!(
            (record.outcome, record.reason),
            (Outcome::Reject, Reason::FallbackReject)
        );
        assert_eq!(
            (record.resumed, text(&record, Text::Cn).as_str()),
            (Some(true), "laptop-7")
        );
        let End::Reject(_, failure) = end else {
            panic!("{end:?}")
        };
        // a supplicant of TLS 1.2 has the server's Finished by then, and done with TLS
        let expected = match version {
            TlsVersion::V12 => Failure::Rejected,
            TlsVersion::V13 => Failure::Alert("access_denied".to_owned()),
        };
        assert_eq!(failure, Some(expected));
    }
}

/// One node let it in; another knows that the certificate was revoked.
#[tokio::test]
async fn a_revoked_certificate_is_refused_in_a_resumed_session() {
    let (fleet, folder) = (Fleet::new(), tempfile::tempdir().unwrap());
    let list = revocation::list(&folder, true);
    for version in VERSIONS {
        let mut one = fleet.node(SITES, |_| ()).await;
        let mut other = fleet
            .node(SITES, |setup| {
                setup.revocation = Some(revocation::settings(Mode::Require, Some(list.clone())));
            })
            .await;
        let device = laptop().version(version).remembering();
        gets_in(&mut one, LEEDS, &device, None);
        let (mut switch, mut attempt) = (Switch::new(LEEDS), eap_attempt(&device, LAPTOP_PORT));
        let (_, pending) = until_it_waits(&mut other, &mut switch, &mut attempt);
        let reply = other.resume(pending).await.reply();
        if matches!(told(&mut attempt, &reply), Told::Challenge) {
            other.authenticate(&mut switch, &mut attempt).reject();
        }
        let record = other.record();
        assert_eq!(
            (record.reason, record.resumed),
            (Reason::CertificateRevoked, Some(true))
        );
    }
}

/// A certificate of the laptop's that is good for two hours.
pub fn short_lived() -> ClientCertificate {
    let read = |name: &str| fs::read_to_string(pki::folder().unwrap().join(name)).unwrap();
    let issuer = Issuer::from_ca_cert_pem(&read("ca.pem"), KeyPair::from_pem(&read("ca.key")).unwrap()).unwrap();
    let since_1970 = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH);
    let now = rcgen::date_time_ymd(1970, 1, 1) + since_1970.unwrap();
    let mut params = CertificateParams::default();
    (params.not_before, params.not_after) = (now - HOUR, now + 2 * HOUR);
    params.distinguished_name.push(DnType::CommonName, "laptop-7");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    ClientCertificate {
        chain: vec![params.signed_by(&key, &issuer).unwrap().der().clone()],
        key: PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
    }
}

#[tokio::test]
async fn nobody_outlives_the_certificate_by_resuming() {
    for version in VERSIONS {
        let mut node = Node::start(SITES).await;
        let mut tls = laptop().version(version).tls();
        tls.certificate = Some(short_lived());
        let settings = settings_over(tls);
        let device = Arc::new(PeerSettings {
            tls: settings.tls.as_deref().map(|tls| remembering(tls, 8)),
            ..(*settings).clone()
        });
        gets_in(&mut node, LEEDS, &device, None);
        node.advance(HOUR);
        gets_in(&mut node, LEEDS, &device, Some(Offered::Resumed));
        // the certificate may be some seconds younger than the clock, which stands
        node.advance(HOUR + Duration::from_secs(60));
        let (end, record) = authenticate(&mut node, LEEDS, &device);
        assert_eq!(
            (record.reason, record.resumed),
            (Reason::CertificateExpired, Some(false))
        );
        assert_eq!(record.ticket, Some(Offered::Refused));
        let End::Reject(_, Some(Failure::Alert(alert))) = end else {
            panic!("{end:?}")
        };
        assert_eq!(alert, "certificate_expired");
    }
}

/// A day, if nothing else is configured, and however often it was taken up meanwhile.
#[tokio::test]
async fn a_session_ends_a_day_after_the_full_handshake() {
    for version in VERSIONS {
        let mut node = Node::start(SITES).await;
        ends_a_day_after_the_full_handshake(&mut node, &laptop().version(version).remembering());
    }
}

/// What this device resumes, whatever it is.
pub fn ends_a_day_after_the_full_handshake(node: &mut Node, device: &Arc<PeerSettings>) {
    gets_in(node, LEEDS, device, None);
    for _ in 0..2 {
        node.advance(11 * HOUR);
        gets_in(node, LEEDS, device, Some(Offered::Resumed));
    }
    node.advance(2 * HOUR);
    gets_in(node, LEEDS, device, Some(Offered::Expired));
    gets_in(node, LEEDS, device, Some(Offered::Resumed));
}

#[tokio::test]
async fn a_ca_that_was_taken_out_lets_nobody_in_by_an_old_session() {
    for version in VERSIONS {
        let folder = tempfile::tempdir().unwrap();
        let copy = |name: &str| fs::copy(pki::folder().unwrap().join(name), folder.path().join(name)).unwrap();
        copy("ca.pem");
        copy("foreign-ca.pem");
        let mut node = Node::with(SITES, |setup| setup.trust.client_ca = vec![folder.path().to_owned()]).await;
        let device = laptop().version(version).remembering();
        gets_in(&mut node, LEEDS, &device, None);
        gets_in(&mut node, LEEDS, &device, Some(Offered::Resumed));
        fs::remove_file(folder.path().join("ca.pem")).unwrap();
        assert!(node.trust.reload().refused.is_empty());
        let (end, record) = authenticate(&mut node, LEEDS, &device);
        end.reject();
        assert_eq!((record.reason, record.resumed), (Reason::UnknownCa, Some(false)));
        assert_eq!(record.ticket, Some(Offered::Unusable));
    }
}

/// The new secret first opens, then seals; the old one goes when nothing sealed by it is young enough.
#[tokio::test]
async fn secrets_are_rotated_without_a_full_handshake_and_an_old_one_opens_nothing_once_it_is_gone() {
    let fleet = Fleet::new();
    for version in VERSIONS {
        fleet.share(&[OLD]);
        let mut node = fleet.node(SITES, |_| ()).await;
        let (device, idle) = (
            laptop().version(version).remembering(),
            laptop().version(version).remembering(),
        );
        gets_in(&mut node, LEEDS, &device, None);
        gets_in(&mut node, LEEDS, &idle, None);
        for secrets in [&[OLD, NEW][..], &[NEW, OLD], &[NEW]] {
            fleet.share(secrets);
            assert!(node.trust.reload().refused.is_empty());
            gets_in(&mut node, LEEDS, &device, Some(Offered::Resumed));
        }
        gets_in(&mut node, LEEDS, &idle, Some(Offered::Unusable));
        gets_in(&mut node, LEEDS, &idle, Some(Offered::Resumed));
        // a file that does not read changes nothing
        fleet.share(&["short"]);
        assert_eq!(node.trust.reload().refused.len(), 1);
        gets_in(&mut node, LEEDS, &idle, Some(Offered::Resumed));
    }
}

/// Without a file a node takes up what it has begun, as long as it lives, whatever is read again meanwhile.
#[tokio::test]
async fn a_node_by_itself_takes_up_its_own_sessions_and_no_others() {
    for version in VERSIONS {
        let (mut node, mut other) = (Node::start(SITES).await, Node::start(SITES).await);
        let device = laptop().version(version).remembering();
        gets_in(&mut node, LEEDS, &device, None);
        assert!(node.trust.reload().refused.is_empty());
        gets_in(&mut node, LEEDS, &device, Some(Offered::Resumed));
        gets_in(&mut other, LEEDS, &device, Some(Offered::Unusable));
    }
}

#[tokio::test]
async fn without_a_lifetime_nothing_is_taken_up() {
    let mut node = Node::with(SITES, |setup| setup.trust.resumption = None).await;
    for version in VERSIONS {
        let device = laptop().version(version).remembering();
        gets_in(&mut node, LEEDS, &device, None);
        gets_in(&mut node, LEEDS, &device, None);
    }
}

/// A site's sessions are its own: what was proven there was proven to its policies' satisfaction, not to those of another.
#[tokio::test]
async fn a_session_of_another_site_or_profile_is_not_taken_up() {
    let mut node = Node::with(SITES, |setup| {
        setup.profiles = vec![Profile {
            settings: Settings {
                name: "labs".to_owned(),
                ..trust_files("server", &["ca"])
            },
            sites: Vec::new(),
            clients: vec!["192.0.3.0/24".parse().unwrap()],
        }];
    })
    .await;
    let labs = SITES.replace(
        "[[site.mac]]\naddress = \"02-00-00-00-00-01\"",
        "[[site.client]]\nnetwork = \"192.0.3.0/24\"\nsecret = \"testing123\"\n",
    );
    node.import(&labs).await;
    for version in VERSIONS {
        let device = laptop().version(version).remembering();
        gets_in(&mut node, LEEDS, &device, None);
        for elsewhere in [YORK, "192.0.3.1:50000", LEEDS] {
            gets_in(&mut node, elsewhere, &device, Some(Offered::Unusable));
            gets_in(&mut node, elsewhere, &device, Some(Offered::Resumed));
        }
    }
}

/// A session that was begun inside of a tunnel goes on inside of such a tunnel, and nowhere else.
#[tokio::test]
async fn a_session_of_another_method_is_not_taken_up() {
    let mut node = Node::start(SITES).await;
    for version in VERSIONS {
        let plain = laptop().version(version).remembering();
        let inside = |kind: Kind| {
            Arc::new(PeerSettings {
                // the same sessions
                tls: plain.tls.clone(),
                ..(*laptop().version(version).tunnel(kind).settings()).clone()
            })
        };
        let methods = [
            inside(Kind::Ttls),
            Arc::clone(&plain),
            inside(Kind::Peap),
            plain.clone(),
        ];
        gets_in(&mut node, LEEDS, &methods[3], None);
        for device in &methods {
            gets_in(&mut node, LEEDS, device, Some(Offered::Unusable));
            gets_in(&mut node, LEEDS, device, Some(Offered::Resumed));
        }
    }
}
