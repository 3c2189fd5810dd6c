//! EAP-TTLS and PEAP: decided on by the certificate that was shown inside, and refused by what the site says of it.

use portreeve::eap::method::{Method, Methods};
use portreeve::eap::peer::Failure;
use portreeve::eap::tls::TlsVersion;
use portreeve::eap::tunnel::Kind;
use portreeve::reason::Reason;
use portreeve::trust::IdentityCheck;

use crate::support::*;

/// The laptop gets in by PEAP; by EAP-TTLS a policy keeps it out, whatever it is called outside.
const SITES: &str = r#"
[[policy]]
name = "no ttls"
action = "reject"
rules = ["EAP-Type == EAP-TTLS"]

[[policy]]
name = "laptops"
rules = ["TLS-Client-Cert-Common-Name == laptop-7", "Auth-Method == eap-tls"]
responses = ["Tunnel-Type:1 = VLAN", "Tunnel-Medium-Type:1 = IEEE-802", "Tunnel-Private-Group-Id:1 = 120"]

[[site]]
name = "Leeds"
tag = "leeds"
policies = [{ policy = "no ttls", priority = 5 }, { policy = "laptops", priority = 10 }]

[[site.client]]
network = "192.0.2.0/24"
secret = "testing123"
"#;

const CASES: [(Kind, TlsVersion); 4] = [
    (Kind::Ttls, TlsVersion::V12),
    (Kind::Ttls, TlsVersion::V13),
    (Kind::Peap, TlsVersion::V12),
    (Kind::Peap, TlsVersion::V13),
];

#[tokio::test]
async fn the_certificate_inside_is_decided_on_and_its_refusal_is_told_inside() {
    let mut node = Node::start(SITES).await;
    let mut switch = Switch::new(LEEDS);
    for (kind, version) in CASES {
        let supplicant = laptop().version(version).tunnel(kind);
        let end = node.authenticate(&mut switch, &mut supplicant.attempt(LAPTOP_PORT));
        let record = node.record();
        let expected = match kind {
            Kind::Ttls => Reason::PolicyReject,
            Kind::Peap => Reason::PolicyAccept,
        };
        assert_eq!(record.reason, expected, "{kind:?} {version}");
        match (kind, end) {
            (Kind::Peap, End::Accept(_)) => assert_eq!(text(&record, Text::Vlan), "120"),
            // inside, an alert; outside, EAP-Failure in the reject
            (Kind::Ttls, End::Reject(_, Some(Failure::Alert(alert)))) => assert_eq!(alert, "access_denied"),
            (_, end) => panic!("{kind:?} {version}: {end:?}"),
        }
        let word = if kind == Kind::Ttls { "ttls" } else { "peap" };
        assert_eq!((record.eap_type, record.tls), (Some(word), Some(version.word())));
        assert_eq!(record.method.map(|method| method.word()), Some("eap-tls"));
        // who it says it is outside, and what was proven inside
        let (user, cn) = (text(&record, Text::User), text(&record, Text::Cn));
        assert_eq!((user.as_str(), cn.as_str()), ("anonymous", "laptop-7"));
        assert!(
            record.text(Text::Serial).is_some() && record.text(Text::Issuer).is_some() && record.not_after.is_some()
        );
    }
}

#[tokio::test]
async fn a_method_that_is_left_out_is_not_spoken() {
    let mut node = Node::with(SITES, |setup| {
        setup.settings.methods = Methods::new(&[Method::Tls, Method::Ttls]).unwrap();
    })
    .await;
    let mut attempt = laptop().tunnel(Kind::Peap).attempt(LAPTOP_PORT);
    node.authenticate(&mut Switch::new(LEEDS), &mut attempt).reject();
    let record = node.record();
    assert_eq!(record.reason, Reason::MethodRefused);
    let detail = "offered EAP-TLS, wanted PEAP, which is not among the methods allowed";
    assert_eq!(text(&record, Text::Detail), detail);
}

/// The identity that is compared with the certificate is the one inside: outside it is anybody's.
#[tokio::test]
async fn the_identity_inside_is_compared_with_the_certificate() {
    for (check, is_good) in [(IdentityCheck::CommonName, true), (IdentityCheck::Dns, false)] {
        let mut node = Node::with(SITES, |setup| setup.trust.identity_check = check).await;
        let supplicant = laptop().tunnel(Kind::Peap);
        let end = node.authenticate(&mut Switch::new(LEEDS), &mut supplicant.attempt(LAPTOP_PORT));
        match is_good {
            true => drop(end.accept()),
            false => assert_eq!(node.record().reason, Reason::IdentityMismatch),
        }
    }
}

/// The inner method is not configured: the line says so, and what to do.
#[tokio::test]
async fn a_tunnel_without_a_certificate_inside_says_what_to_configure() {
    let mut node = Node::start(SITES).await;
    for (kind, version) in CASES {
        let supplicant = Supplicant {
            speaks_tls: false,
            ..laptop().version(version).tunnel(kind)
        };
        let end = node.authenticate(&mut Switch::new(LEEDS), &mut supplicant.attempt(LAPTOP_PORT));
        end.reject();
        let record = node.record();
        assert_eq!(record.reason, Reason::MethodRefused);
        let name = if kind == Kind::Ttls { "eap-ttls" } else { "peap" };
        let detail =
            format!("inside {name}: offered EAP-TLS, wanted none: configure eap-tls as the supplicant's inner method");
        assert_eq!(text(&record, Text::Detail), detail);
    }
}
