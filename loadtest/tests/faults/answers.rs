//! Right answers pass, and each wrong one is found under its own name; so are refusals, silence and what comes late.

use std::process::Command;

use super::client::{against, run};
use super::server::{Fault, LISTED, Pki, Server};
#[test]
fn right_answers_pass() {
    for (arguments, requests) in [
        (&["eap-tls", "--tls", "1.2"][..], 4),
        (&["eap-tls", "--tls", "1.3"], 4),
        (&["mab"], 1),
        (&["mab", "--method", "chap"], 1),
        (&["mab", "--method", "none"], 1),
        (&["mab", "--method", "eap-md5"], 2),
    ] {
        let vlan = if arguments[0] == "mab" { "130" } else { "120" };
        let expect = format!("Tunnel-Private-Group-Id:1={vlan}");
        let more = [
            "--count",
            "20",
            "--concurrency",
            "4",
            "--expect",
            &expect,
            "--expect",
            "Tunnel-Type=VLAN",
        ];
        let run = against(Fault::Nothing, &[arguments, &more].concat());
        assert_eq!(
            (run.code, run.number("accepted")),
            (0, 20),
            "{arguments:?}: {}{}",
            run.text,
            run.errors
        );
        assert_eq!(run.number("requests"), 20 * requests, "{arguments:?}");
        assert_eq!(run.kinds(), [], "{arguments:?}");
        assert!(
            run.text.contains("20 accepted, 0 failed") && run.text.contains("p99"),
            "{}",
            run.text
        );
        assert!(run.json["latency_us"]["p50"].as_f64().unwrap() > 0.0);
        assert!(run.json["processor_time_us"]["per_device"].as_f64().unwrap() > 0.0);
        if let Some(version) = arguments.get(2).filter(|_| arguments[0] == "eap-tls") {
            assert_eq!(run.json["handshakes"][0]["version"], *version);
            assert_eq!(run.json["handshakes"][0]["count"], 20);
        }
    }
}

/// A device is a certificate at a source address: each begins once, and then goes on.
#[test]
fn sessions_are_resumed_where_they_were_begun() {
    for version in ["1.2", "1.3"] {
        for (sources, devices) in [("127.0.0.1", 1), ("127.0.0.1..127.0.0.3", 3)] {
            let arguments = ["eap-tls", "--tls", version, "--resume", "--sources", sources];
            let more = ["--count", "12", "--concurrency", "1"];
            let run = against(Fault::Nothing, &[&arguments[..], &more].concat());
            assert_eq!(
                (run.code, run.number("accepted")),
                (0, 12),
                "{}{}",
                run.text,
                run.errors
            );
            let handshakes = run.json["handshakes"].as_array().unwrap();
            let count =
                |resumed: bool| handshakes.iter().find(|kind| kind["resumed"] == resumed).unwrap()["count"].as_u64();
            assert_eq!(
                (count(false), count(true)),
                (Some(devices), Some(12 - devices)),
                "{version} {sources}"
            );
        }
    }
}

#[test]
fn each_wrong_answer_is_found_under_its_name() {
    let vlan = &["--expect", "Tunnel-Private-Group-Id=130"][..];
    for (fault, arguments, more, kind, part) in [
        (
            Fault::WrongVlan,
            &["mab"][..],
            vlan,
            "wrong-attributes",
            "Group-Id:1 = \"666\", expected",
        ),
        (
            Fault::WrongKeys,
            &["eap-tls"],
            &[],
            "wrong-keys",
            "not those of the supplicant",
        ),
        (
            Fault::NoKeys,
            &["eap-tls", "--tls", "1.2"],
            &[],
            "wrong-keys",
            "missing",
        ),
        (
            Fault::BadAuthenticator,
            &["mab"],
            &[],
            "bad-authenticator",
            "response authenticator",
        ),
        (
            Fault::BadAuthenticator,
            &["eap-tls"],
            &[],
            "bad-authenticator",
            "response authenticator",
        ),
        (
            Fault::NoCommitment,
            &["eap-tls", "--tls", "1.3"],
            &[],
            "eap-violation",
            "octet 0x00",
        ),
        (
            Fault::MessageAuthenticatorLast,
            &["mab"],
            &[],
            "no-message-authenticator",
            "first attribute",
        ),
        (Fault::Garbage, &["mab"], &[], "malformed-packet", "octets"),
    ] {
        for load in [&["--concurrency", "2"][..], &["--rate", "500"]] {
            // however many failures may be, no wrong answer may
            let limits = ["--count", "6", "--max-failures", "100"];
            let run = against(fault, &[arguments, more, load, &limits].concat());
            assert_eq!(run.kinds(), [(kind, 6)], "{fault:?}: {}{}", run.text, run.errors);
            assert_eq!(
                (run.code, run.number("accepted"), run.number("failed")),
                (1, 0, 6),
                "{fault:?}"
            );
            assert_eq!(run.number("wrong_answers"), 6, "{fault:?}");
            let example = run.json["failures"][0]["example"].as_str().unwrap();
            assert!(
                example.contains(part) && example.starts_with("02-00-00-00-00-0"),
                "{example}"
            );
            assert!(run.text.contains(&format!("6  wrong answer: {kind}")), "{}", run.text);
            assert!(run.text.ends_with("failed: 6 wrong answers\n"), "{}", run.text);
        }
    }
}

/// RFC 3579 section 3.2: Message-Authenticator "MUST be used in any Access-Request, Access-Accept, Access-Reject or
/// Access-Challenge that includes an EAP-Message attribute"; CVE-2024-3596: in every reply, first. What is there is right.
#[test]
fn message_authenticator_may_be_anywhere_only_where_that_was_asked_for() {
    let (pap, eap) = (&["mab"][..], &["mab", "--method", "eap-md5"][..]);
    let (missing, wrong) = ("no-message-authenticator", "bad-message-authenticator");
    for (fault, arguments, first, optional) in [
        (Fault::Nothing, pap, None, None),
        (Fault::Nothing, eap, None, None),
        (Fault::NoMessageAuthenticator, pap, Some(missing), None),
        (Fault::MessageAuthenticatorLast, pap, Some(missing), None),
        (Fault::MessageAuthenticatorLast, eap, Some(missing), None),
        (Fault::NoMessageAuthenticator, eap, Some(missing), Some(missing)),
        (Fault::BadMessageAuthenticator, pap, Some(wrong), Some(wrong)),
        (Fault::BadMessageAuthenticator, eap, Some(wrong), Some(wrong)),
        (
            Fault::BadAuthenticator,
            pap,
            Some("bad-authenticator"),
            Some("bad-authenticator"),
        ),
        (Fault::WrongKeys, &["eap-tls"], Some("wrong-keys"), Some("wrong-keys")),
    ] {
        for (place, kind) in [("", first), ("first", first), ("optional", optional)] {
            let option = ["--message-authenticator", place];
            let option = if place.is_empty() { &[][..] } else { &option };
            let run = against(fault, &[arguments, &["--count", "3"], option].concat());
            let expected: Vec<_> = kind.map(|kind| (kind, 3)).into_iter().collect();
            assert_eq!(run.kinds(), expected, "{fault:?} {arguments:?} {place}: {}", run.text);
            assert_eq!(
                (run.code, run.number("accepted")),
                if kind.is_some() { (1, 0) } else { (0, 3) }
            );
            let lenient = place == "optional";
            assert_eq!(
                run.text.contains("--message-authenticator first"),
                lenient,
                "{}",
                run.text
            );
            assert_eq!(
                run.json["message_authenticator"],
                if lenient { "optional" } else { "first" }
            );
        }
    }
}

#[test]
fn devices_have_certificates_of_their_own() {
    let pki = Pki::shared();
    let path = |name: &str| pki.file(name).to_str().unwrap().to_owned();
    for (keys, count) in [("p256", 5), ("p384", 1), ("rsa2048", 18)] {
        let folder = path(&format!("devices-{keys}"));
        let number = count.to_string();
        let make = |more: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_portreeve-load"));
            let arguments = ["certificates", &folder, "--count", &number, "--keys", keys];
            command.args(arguments).args(more).output().unwrap()
        };
        let made = make(&["--ca", &path("ca.pem"), "--ca-key", &path("ca.key")]);
        assert!(made.status.success(), "{made:?}");
        let again = make(&["--ca", &path("ca.pem"), "--ca-key", &path("ca.key")]);
        assert!(
            String::from_utf8_lossy(&again.stderr).contains("exists already"),
            "{again:?}"
        );
        let devices = (2 * count).to_string();
        let run = against(Fault::Nothing, &["eap-tls", "--cert-dir", &folder, "--count", &devices]);
        assert_eq!(
            (run.code, run.number("accepted")),
            (0, 2 * count),
            "{}{}",
            run.text,
            run.errors
        );
        assert!(!pki.file(&format!("devices-{keys}/ca.pem")).exists());
    }
    // of a CA that the server does not know
    let folder = path("strangers");
    let arguments = ["certificates", &folder, "--count", "2"];
    let made = Command::new(env!("CARGO_BIN_EXE_portreeve-load"))
        .args(arguments)
        .output()
        .unwrap();
    assert!(
        String::from_utf8_lossy(&made.stdout).contains("strangers/ca.pem"),
        "{made:?}"
    );
    let run = against(Fault::Nothing, &["eap-tls", "--cert-dir", &folder, "--count", "2"]);
    assert_eq!(
        (run.code, run.kinds()),
        (1, vec![("rejected-by-alert", 2)]),
        "{}",
        run.text
    );
}

#[test]
fn refusals_fail_unless_they_may_be() {
    let all = &["mab", "--count", "5"][..];
    let run = against(Fault::Rejects, all);
    assert_eq!((run.code, run.kinds()), (1, vec![("rejected", 5)]), "{}", run.text);
    let run = against(Fault::Rejects, &[all, &["--max-failures", "5"]].concat());
    assert_eq!((run.code, run.number("other_failures")), (0, 5), "{}", run.text);
    // one of the two addresses is not listed, and the fleet takes them in turn
    let list = format!("{LISTED},02-00-00-00-00-02");
    let run = against(
        Fault::Nothing,
        &["mab", "--count", "10", "--mac", &list, "--max-failures", "4"],
    );
    assert_eq!(
        (run.code, run.number("accepted"), run.number("failed")),
        (1, 5, 5),
        "{}",
        run.text
    );
    assert!(
        run.json["failures"][0]["example"]
            .as_str()
            .unwrap()
            .starts_with("02-00-00-00-00-02: ")
    );
}

#[test]
fn a_server_of_another_ca_is_not_trusted() {
    let ca = Pki::shared().file("other-ca.pem");
    let run = against(
        Fault::Nothing,
        &["eap-tls", "--count", "1", "--ca", ca.to_str().unwrap()],
    );
    assert_eq!(
        (run.code, run.kinds()),
        (1, vec![("server-not-trusted", 1)]),
        "{}",
        run.text
    );
}

#[test]
fn silence_is_a_timeout_after_the_retransmissions() {
    let server = Server::start(Fault::Silence);
    let arguments = [
        "mab",
        "--count",
        "2",
        "--concurrency",
        "2",
        "--timeout",
        "20ms",
        "--retries",
        "3",
    ];
    let run = run(server.address, &arguments);
    assert_eq!((run.code, run.kinds()), (1, vec![("timeout", 2)]), "{}", run.text);
    assert_eq!((run.number("requests"), run.number("retransmissions")), (2, 6));
    assert!(run.text.contains("hint: there was no answer at all"), "{}", run.text);
    assert_eq!(server.requests.try_iter().count(), 8);
}

#[test]
fn a_lost_request_is_sent_again_in_the_same_octets_from_the_same_port() {
    let server = Server::start(Fault::DropsTheFirst);
    let arguments = [
        "mab",
        "--method",
        "eap-md5",
        "--count",
        "6",
        "--timeout",
        "100ms",
        "--retries",
        "50",
    ];
    let run = run(server.address, &arguments);
    assert_eq!((run.code, run.number("accepted")), (0, 6), "{}", run.text);
    assert!(run.number("retransmissions") >= 12, "{}", run.text);
    let answered = run.json["answered"].as_array().unwrap();
    let sum: u64 = answered.iter().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!((sum, &answered[0]), (run.number("requests"), &0.into()), "{}", run.json);
    assert!(run.text.contains(" sent 2x 100.00 %; since sent last "), "{}", run.text);
    let [first, last] = ["latency_us", "answer_us"].map(|name| run.json[name]["min"].as_f64().unwrap());
    assert!(last < first / 2.0, "each waited for two time-outs: {first} {last}");
}

#[test]
fn an_answer_after_the_time_out_is_late_and_no_wrong_answer_to_the_next_request() {
    for load in [&["--concurrency", "1"][..], &["--rate", "10"]] {
        let server = Server::start(Fault::Late);
        let arguments = ["mab", "--count", "4", "--timeout", "50ms", "--retries", "0"];
        let run = run(server.address, &[&arguments, load].concat());
        assert_eq!(
            (run.code, run.number("failed"), run.number("wrong_answers")),
            (1, 4, 0),
            "{}",
            run.text
        );
        // the answer to the last waits for a request that never comes
        assert_eq!(run.kinds(), [("late-answer", 3), ("timeout", 1)], "{}", run.text);
    }
}

#[test]
fn a_second_answer_is_counted_and_harmless() {
    // more requests than there are identifiers: a second answer may find a newer request under its own
    let run = against(Fault::AnswersTwice, &["mab", "--count", "600", "--concurrency", "1"]);
    assert_eq!((run.code, run.number("accepted")), (0, 600), "{}", run.text);
    assert!(run.number("duplicate_answers") >= 598, "{}", run.text);
}

#[test]
fn thousands_of_identifiers_over_many_ports() {
    let server = Server::start(Fault::Nothing);
    let arguments = [
        "mab",
        "--count",
        "3000",
        "--concurrency",
        "1000",
        "--threads",
        "2",
        "--timeout",
        "1s",
        "--retries",
        "60",
    ];
    let run = run(server.address, &arguments);
    assert_eq!((run.code, run.number("accepted")), (0, 3000), "{}", run.text);
}
