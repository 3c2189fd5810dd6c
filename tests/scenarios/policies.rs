//! How a decision is made (section 2 of the contract), at the whole server: nothing is ever accepted because something was
//! missing, unknown or broken.

use std::fmt::Write as _;

use portreeve::eap::tls::TlsVersion;
use portreeve::nas::Credentials;
use portreeve::radius::code::Code;
use portreeve::radius::packet::number;
use portreeve::reason::Reason;
use portreeve::server::record::{Authentication, Method, Outcome};

use crate::support::*;

/// A site `leeds` whose policies are tried in the order given; each is the inside of a `[[policy]]`.
fn site(policies: &[&str]) -> String {
    let mut document = String::new();
    let mut links = String::new();
    let mut fallback = String::new();
    for (index, policy) in policies.iter().enumerate() {
        writeln!(document, "[[policy]]\nname = \"p{index}\"\n{policy}").unwrap();
        match policy.contains("fallback = true") {
            true => fallback = format!("fallback = \"p{index}\"\n"),
            false => write!(links, "{{ policy = \"p{index}\", priority = {index} }}, ").unwrap(),
        }
    }
    let links = links.trim_end_matches(", ");
    format!(
        "{document}\n[[site]]\nname = \"Leeds\"\ntag = \"leeds\"\n{fallback}policies = [{links}]\n\
         [[site.client]]\nnetwork = \"192.0.2.0/24\"\nsecret = \"testing123\"\n\
         [[site.mac]]\naddress = \"02-00-00-00-00-01\"\n"
    )
}

/// The certificate's owner, by both versions: the end, which is the same, and the record.
async fn laptop_at(policies: &[&str]) -> (End, Authentication) {
    let mut node = Node::start(&site(policies)).await;
    let mut switch = Switch::new(LEEDS);
    let [(_, old), (end, record)] = [TlsVersion::V12, TlsVersion::V13].map(|version| {
        let end = node.authenticate(&mut switch, &mut laptop().version(version).attempt(LAPTOP_PORT));
        (end, node.record())
    });
    assert_eq!((old.outcome, old.reason), (record.outcome, record.reason));
    (end, record)
}

const ALWAYS: &str = "rules = [\"User-Name present\"]";

#[tokio::test]
async fn rule_2_2_the_first_policy_whose_rules_all_match_decides() {
    let no = "rules = [\"NAS-Port-Type == Ethernet\", \"User-Name == somebody\"]\nresponses = [\"Filter-Id = no\"]";
    let yes = "rules = [\"NAS-Port-Type == Ethernet\", \"User-Name == anonymous\"]\nresponses = [\"Filter-Id = yes\"]";
    let (end, record) = laptop_at(&[no, yes, "action = \"reject\"\nrules = [\"User-Name present\"]"]).await;
    assert_eq!(end.accept().first(11), Some(&b"yes"[..]));
    assert_eq!(
        (text(&record, Text::Policy).as_str(), record.reason),
        ("p1", Reason::PolicyAccept)
    );
    assert_eq!(
        (text(&record, Text::Acl).as_str(), record.method),
        ("yes", Some(Method::EapTls))
    );
}

#[tokio::test]
async fn rule_2_2_a_policy_that_rejects_is_a_reject() {
    let (end, record) = laptop_at(&["action = \"reject\"\nrules = [\"User-Name present\"]", ALWAYS]).await;
    end.reject();
    assert_eq!(
        (text(&record, Text::Policy).as_str(), record.reason),
        ("p0", Reason::PolicyReject)
    );
}

#[tokio::test]
async fn rule_2_2_the_fallback_decides_where_no_policy_matches() {
    let never = "rules = [\"User-Name == somebody\"]";
    for (fallback, reason) in [
        ("fallback = true\naction = \"accept\"", Reason::FallbackAccept),
        ("fallback = true\naction = \"reject\"", Reason::FallbackReject),
        // What our own documents make of a fallback that says nothing.
        ("fallback = true", Reason::FallbackReject),
        // For the methods it lists.
        (
            "fallback = true\naction = \"accept\"\nmethods = [\"mab\"]",
            Reason::NoFallback,
        ),
    ] {
        let (end, record) = laptop_at(&[never, fallback]).await;
        assert_eq!(record.reason, reason, "{fallback}");
        assert_eq!(matches!(end, End::Accept(_)), reason == Reason::FallbackAccept);
        assert_eq!(text(&record, Text::FailedRule), "p0: User-Name == somebody");
    }
}

#[tokio::test]
async fn rule_2_2_nothing_is_accepted_because_something_is_missing() {
    let (end, record) = laptop_at(&["rules = [\"User-Name == somebody\"]"]).await;
    end.reject();
    assert_eq!(record.reason, Reason::NoFallback);
    // Rule 2.5: a policy without rules matches nothing.
    let (end, record) = laptop_at(&["responses = [\"Filter-Id = all\"]"]).await;
    end.reject();
    assert_eq!(record.reason, Reason::NoFallback);
    let (end, record) = laptop_at(&[]).await;
    end.reject();
    assert_eq!(
        (record.reason, text(&record, Text::Site).as_str()),
        (Reason::NoFallback, "leeds")
    );
}

/// A rule written for laptops never lets in a printer, nor the reverse.
#[tokio::test]
async fn rule_2_3_a_policy_is_for_the_methods_it_lists() {
    let (end, record) = laptop_at(&["methods = [\"mab\", \"mab-unknown\"]\nrules = [\"User-Name present\"]"]).await;
    end.reject();
    assert_eq!(record.reason, Reason::NoFallback);
    let mut node = Node::start(&site(&[ALWAYS])).await;
    let mut switch = Switch::new(LEEDS);
    node.authenticate(&mut switch, &mut printer("02-00-00-00-00-99"))
        .reject();
    assert_eq!(node.record().reason, Reason::MacNotListed);
}

/// An attribute that is present but malformed makes every rule on it false, complements too.
#[tokio::test]
async fn rule_2_8_a_malformed_attribute_matches_nothing() {
    for rule in [
        "NAS-Port-Type != Virtual",
        "NAS-Port-Type absent",
        "NAS-Port-Type present",
        "NAS-Port-Type == Ethernet",
    ] {
        let mut node = Node::start(&site(&[&format!("rules = [\"{rule}\", \"User-Name present\"]")])).await;
        let mut switch = Switch::new(LEEDS);
        let settings = laptop().settings();
        let mut ends = [&[0, 0, 0][..], &[], &[0, 0, 0, 15, 0]].map(|value| {
            let mut attempt = eap_attempt(&settings, &["Calling-Station-Id = 02-00-00-00-00-77"]);
            loop {
                let request = switch.next(&mut attempt);
                let request = switch.alter(&request, |attributes| set(attributes, number::NAS_PORT_TYPE, value));
                match told(&mut attempt, &node.deliver(switch.source, &request).reply()) {
                    Told::Challenge => {}
                    Told::End(end) => break end,
                }
            }
        });
        for end in &mut ends {
            end.reject();
        }
        assert!(
            node.records().iter().all(|record| record.reason == Reason::NoFallback),
            "{rule}"
        );
        // Without the attribute the complements hold.
        let end = node.authenticate(&mut switch, &mut eap_attempt(&settings, &[]));
        let holds = rule.contains("!=") || rule.contains("absent");
        assert_eq!(matches!(end, End::Accept(_)), holds, "{rule}");
    }
}

/// RFC 6929 section 2: a bad extended attribute is an invalid attribute, and the packet is good all the same.
#[tokio::test]
async fn rule_2_8_a_malformed_extended_attribute_is_no_malformed_packet() {
    let mut node = Node::start(SITES).await;
    let mut switch = Switch::new(LEEDS);
    for (number, value) in [
        (241, &[][..]),
        (245, &[26]),
        (246, &[1, 0x80]),
        (26, &[0, 0, 0, 9, 1, 200, 1]),
    ] {
        let request = switch.next(&mut printer(PRINTER));
        let request = switch.alter(&request, |attributes| attributes.push((number, value.to_vec())));
        let reply = node.deliver(switch.source, &request).reply();
        assert_eq!(switch.read(&request, &reply).code(), Code::AccessAccept, "{number}");
    }
}

/// A fact that is absent, has several values or holds a control octet, where a response's template needs it.
#[tokio::test]
async fn rule_2_10_a_template_without_its_fact_is_a_reject() {
    let policy = "rules = [\"User-Name present\"]\nresponses = [\"Reply-Message = welcome to %{SSID}\"]";
    let (end, record) = laptop_at(&[policy]).await;
    let reject = end.reject();
    assert!(reject.all(number::REPLY_MESSAGE).next().is_none());
    assert_eq!(record.reason, Reason::ResponseFailed);
    assert!(
        text(&record, Text::Detail).starts_with("Reply-Message: "),
        "{:?}",
        record.text(Text::Detail)
    );

    let mut node = Node::start(&site(&[policy])).await;
    let mut switch = Switch::new(LEEDS);
    let settings = laptop().settings();
    let with_ssid = eap_attempt(&settings, &["Called-Station-Id = 00-10-A4-23-19-C0:corp"]);
    let control = eap_attempt(&settings, &["Called-Station-Id = 00-10-A4-23-19-C0:co\u{7}rp"]);
    for (mut attempt, accepted) in [(with_ssid, true), (control, false)] {
        let end = node.authenticate(&mut switch, &mut attempt);
        assert_eq!(matches!(end, End::Accept(_)), accepted);
        let record = node.record();
        assert_eq!(record.reason == Reason::ResponseFailed, !accepted);
    }
}

/// A template that fills a hidden attribute with more than can be hidden: found before anything is promised.
#[tokio::test]
async fn rule_2_10_a_hidden_response_that_grows_too_long_is_a_reject() {
    let hidden =
        "rules = [\"User-Name present\"]\nresponses = [\"Tunnel-Password:1 = %{Client-Shortname}%{Client-Shortname}\"]";
    let document = site(&[hidden]).replace("tag = \"leeds\"", &format!("tag = \"{}\"", "x".repeat(140)));
    let mut node = Node::start(&document).await;
    let mut switch = Switch::new(LEEDS);
    for version in [TlsVersion::V12, TlsVersion::V13] {
        node.authenticate(&mut switch, &mut laptop().version(version).attempt(LAPTOP_PORT))
            .reject();
        let record = node.record();
        assert_eq!(
            (record.outcome, record.reason),
            (Outcome::Reject, Reason::ResponseFailed)
        );
    }
}

/// Plain SQL can write anything. A site whose rows do not compile keeps its last good version.
#[tokio::test]
async fn rule_2_11_a_broken_site_keeps_its_last_good_version() {
    let mut node = Node::start(SITES).await;
    let mut switch = Switch::new(LEEDS);
    let good = node.directory.snapshot().revision.clone();
    node.sql("UPDATE rules SET value = 'Nonsense' WHERE request_attribute = 'NAS-Port-Type'")
        .await;
    let end = node.authenticate(&mut switch, &mut laptop().attempt(LAPTOP_PORT));
    assert_eq!(vlan(&end.accept()).as_deref(), Some("120"));
    assert_eq!(decided_at(&node.record()), Some(good));
    let end = node.authenticate(&mut switch, &mut printer(PRINTER));
    assert_eq!(vlan(&end.accept()).as_deref(), Some("130"));
    node.record();
    node.sql("UPDATE rules SET value = 'Virtual' WHERE request_attribute = 'NAS-Port-Type'")
        .await;
    node.authenticate(&mut switch, &mut printer(PRINTER)).accept();
    assert_eq!(node.record().reason, Reason::MacListed);
}

/// With no good version a broken site rejects: skipping the broken policy could skip a reject.
#[tokio::test]
async fn rule_2_11_a_site_that_never_compiled_rejects_everybody() {
    let mut node = Node::start(SITES).await;
    node.sql(
        "INSERT INTO sites (id, name, tag) VALUES (90, 'Hull', 'hull');
         INSERT INTO clients (site_id, ip_range, shared_secret) VALUES (90, '10.0.0.0/8', 'testing123');
         INSERT INTO mac_authentication_bypasses (site_id, address) VALUES (90, '02-00-00-00-00-05');
         INSERT INTO policies (id, name, action) VALUES (90, 'broken', 'reject'), (91, 'good', 'accept');
         INSERT INTO rules (policy_id, request_attribute, operator, value) VALUES
             (90, 'No-Such-Attribute', 'equals', 'x'), (91, 'User-Name', 'present', '');
         INSERT INTO site_policies (site_id, policy_id, priority) VALUES (90, 90, 1), (90, 91, 2);",
    )
    .await;
    let mut switch = Switch::new("10.0.0.1:50000");
    node.authenticate(&mut switch, &mut laptop().attempt(LAPTOP_PORT))
        .reject();
    let record = node.record();
    assert_eq!(
        (record.reason, text(&record, Text::Site).as_str()),
        (Reason::PolicyBroken, "hull")
    );
    for mac in ["02-00-00-00-00-05", "02-00-00-00-00-99"] {
        node.authenticate(&mut switch, &mut printer(mac)).reject();
        assert_eq!(node.record().reason, Reason::PolicyBroken);
    }
}

/// An edit is in force for the next request, and its record names the revision.
#[tokio::test]
async fn rule_2_12_a_decision_names_the_revision_that_made_it() {
    let mut node = Node::start(SITES).await;
    let mut switch = Switch::new(LEEDS);
    // A conversation that is open while the policies change is decided by those in force at its end.
    let mut open = laptop().attempt(LAPTOP_PORT);
    node.rounds(&mut switch, &mut open, 2);
    let revision = node.import(&SITES.replace("= 120", "= 121")).await;
    let end = node.authenticate(&mut switch, &mut open);
    assert_eq!(vlan(&end.accept()).as_deref(), Some("121"));
    assert_eq!(decided_at(&node.record()), Some(revision));
}

/// Facts of a certificate exist only after it was verified, and only for who showed one.
#[tokio::test]
async fn rule_2_9_certificate_facts_are_the_verified_certificates() {
    let serial = "rules = [\"TLS-Client-Cert-Subject == /C=GB/O=Example/CN=laptop-7\", \"TLS-Cert-Subject == /C=GB/O=Example/CN=Example Root\", \"TLS-Client-Cert-Subject-Alt-Name-Dns == laptop-7.corp.example.com\", \"Client-Shortname == leeds\", \"EAP-Type == EAP-TLS\", \"Auth-Method == eap-tls\", \"Packet-Src-IP-Address in 192.0.2.0/24\"]\nresponses = [\"Filter-Id = %{TLS-Client-Cert-Common-Name}\"]";
    let (end, record) = laptop_at(&[serial]).await;
    assert_eq!(end.accept().first(11), Some(&b"laptop-7"[..]));
    assert_eq!(
        (text(&record, Text::Cn).as_str(), text(&record, Text::Acl).as_str()),
        ("laptop-7", "laptop-7")
    );
    let absent = "methods = [\"mab\"]\naction = \"reject\"\nrules = [\"TLS-Client-Cert-Common-Name present\"]";
    let mut node = Node::start(&site(&[absent])).await;
    let mut switch = Switch::new(LEEDS);
    node.authenticate(&mut switch, &mut printer(PRINTER)).accept();
    assert_eq!(node.record().reason, Reason::MacListed);
}

/// The time is the site's.
#[tokio::test]
async fn rule_2_9_the_time_is_that_of_the_site() {
    let zone = jiff::tz::TimeZone::get("Asia/Kolkata").unwrap();
    let mut node = Node::start(SITES).await;
    for (ahead, accepted) in [(0, true), (60, false), (86_400, false)] {
        let then = node.clock.wall() + std::time::Duration::from_secs(ahead);
        let local = zone.to_datetime(jiff::Timestamp::try_from(then).unwrap());
        let day = local.strftime("%a").to_string().to_lowercase();
        let rules = format!(
            "rules = [\"Time-Of-Day == {}\", \"Day-Of-Week == {day}\"]",
            local.strftime("%H:%M")
        );
        let document = site(&[&rules]).replace("tag = \"leeds\"", "tag = \"leeds\"\ntimezone = \"Asia/Kolkata\"");
        node.import(&document).await;
        let end = node.authenticate(&mut Switch::new(LEEDS), &mut laptop().attempt(LAPTOP_PORT));
        assert_eq!(matches!(end, End::Accept(_)), accepted, "{rules}");
    }
}

/// The outer identity never authorises by itself: who names himself after the policy's user still needs a certificate.
#[tokio::test]
async fn a_name_is_no_credential() {
    let mut node = Node::start(&site(&[ALWAYS])).await;
    let mut switch = Switch::new(LEEDS);
    for credentials in [
        Credentials::Pap(b"secret".to_vec()),
        Credentials::Chap(b"secret".to_vec()),
        Credentials::None,
    ] {
        node.authenticate(&mut switch, &mut mab_attempt("anonymous", credentials, &[]))
            .reject();
        assert_eq!(node.record().reason, Reason::NoCredentials);
    }
    let without = Supplicant {
        certificate: None,
        ..laptop()
    };
    node.authenticate(&mut switch, &mut without.attempt(LAPTOP_PORT))
        .reject();
    assert_eq!(node.record().reason, Reason::NoCertificate);
}
