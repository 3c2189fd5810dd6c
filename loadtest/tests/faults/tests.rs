//! The program as a user runs it.

use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::server::{Fault, LISTED, Pki, Server};

/// What a run said.
struct Run {
    code: i32,
    text: String,
    errors: String,
    json: Value,
}

impl Run {
    fn number(&self, name: &str) -> u64 {
        self.json[name]
            .as_u64()
            .unwrap_or_else(|| panic!("no {name}: {}", self.json))
    }

    /// Kinds of failures, how many of each.
    fn kinds(&self) -> Vec<(&str, u64)> {
        let failures = self.json["failures"].as_array().unwrap();
        failures
            .iter()
            .map(|failure| (failure["kind"].as_str().unwrap(), failure["count"].as_u64().unwrap()))
            .collect()
    }
}

fn command(target: SocketAddr, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portreeve-load"));
    command.args(arguments).arg("--target").arg(target.to_string());
    if arguments[0] == "eap-tls" {
        let pki = Pki::shared();
        for (option, file) in [("--cert", "client.pem"), ("--key", "client.key"), ("--ca", "ca.pem")] {
            if !arguments.contains(&option) && (option == "--ca" || !arguments.contains(&"--cert-dir")) {
                command.arg(option).arg(pki.file(file));
            }
        }
    }
    command.stdin(Stdio::null());
    command
}

fn run(target: SocketAddr, arguments: &[&str]) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("summary.json");
    let mut command = command(target, arguments);
    let output: Output = command.arg("--json").arg(&json).output().unwrap();
    let written = std::fs::read_to_string(&json).unwrap_or_default();
    Run {
        code: output.status.code().unwrap(),
        text: String::from_utf8(output.stdout).unwrap(),
        errors: String::from_utf8(output.stderr).unwrap(),
        json: serde_json::from_str(&written).unwrap_or_default(),
    }
}

/// Long enough that nothing is sent again because the machine is busy.
const PATIENT: &[&str] = &["--timeout", "30s"];

fn against(fault: Fault, arguments: &[&str]) -> Run {
    let server = Server::start(fault);
    run(server.address, &[arguments, PATIENT].concat())
}

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
fn a_schedule_is_kept() {
    for (arguments, devices) in [
        (&["--rate", "200", "--duration", "500ms"][..], 100),
        (&["--rate", "200", "--duration", "1s", "--ramp", "1s"], 100),
        (
            &[
                "--rate",
                "200",
                "--duration",
                "600ms",
                "--ramp",
                "200ms",
                "--threads",
                "3",
            ],
            100,
        ),
        (&["--rate", "200", "--count", "30"], 30),
    ] {
        let run = against(Fault::Nothing, &[&["mab"], arguments].concat());
        assert_eq!(
            (run.code, run.number("accepted")),
            (0, devices),
            "{arguments:?}: {}",
            run.text
        );
        assert!(run.json["start_delay_us"]["p99"].is_number(), "{}", run.json);
        assert!(run.text.contains("by schedule"), "{}", run.text);
        let series = run.json["series"].as_array().unwrap();
        let started: u64 = series.iter().map(|point| point["started"].as_u64().unwrap()).sum();
        assert_eq!(started, devices);
    }
}

#[test]
fn between_devices_the_client_sleeps() {
    let run = against(Fault::Nothing, &["mab", "--rate", "5", "--duration", "1200ms"]);
    assert_eq!((run.code, run.number("accepted")), (0, 6), "{}", run.text);
    let processor_time = run.json["processor_time_us"]["total"].as_f64().unwrap();
    assert!(processor_time < 400_000.0, "{processor_time} us");
}

#[test]
fn those_who_wait_behind_a_slow_answer_have_waited() {
    // one answer takes 300 ms. With a user, it is one of fifty that was slow; by schedule thirty were due meanwhile
    let p50 = |load: &[&str]| {
        let run = against(Fault::Stalls, &[&["mab", "--count", "50"], load].concat());
        assert_eq!((run.code, run.number("accepted")), (0, 50), "{}", run.text);
        run.json["latency_us"]["p50"].as_f64().unwrap()
    };
    assert!(p50(&["--concurrency", "1"]) < 20_000.0);
    assert!(p50(&["--rate", "100", "--most-open", "1"]) > 20_000.0);
}

#[test]
fn devices_without_room_fail_when_their_time_is_up() {
    let server = Server::start(Fault::Silence);
    let load = ["mab", "--rate", "100", "--duration", "200ms", "--most-open", "2"];
    let patience = ["--timeout", "400ms", "--retries", "0"];
    let run = run(server.address, &[&load[..], &patience].concat());
    assert_eq!(
        (run.code, run.kinds()),
        (1, vec![("not-begun", 18), ("timeout", 2)]),
        "{}",
        run.text
    );
    assert_eq!((run.number("failed"), run.number("requests")), (20, 2));
}

#[test]
fn users_come_one_by_one() {
    let load = ["mab", "--concurrency", "4", "--ramp", "400ms", "--duration", "600ms"];
    let run = against(Fault::Nothing, &load);
    assert_eq!(run.code, 0, "{}", run.text);
    let phases = run.json["phases"].as_array().unwrap();
    let names: Vec<_> = phases.iter().map(|phase| phase["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["ramp", "steady"]);
    let accepted: u64 = phases.iter().map(|phase| phase["right"].as_u64().unwrap()).sum();
    assert_eq!(accepted, run.number("accepted"));
}

#[test]
fn requests_come_from_many_addresses() {
    let server = Server::start(Fault::Nothing);
    for (method, requests) in [(&["mab"][..], 1), (&["eap-tls", "--tls", "1.2"], 4)] {
        let load = [
            "--count",
            "14",
            "--sources",
            "127.9.0.0/29,127.9.1.1",
            "--timeout",
            "30s",
        ];
        let run = run(server.address, &[method, &load].concat());
        assert_eq!(
            (run.code, run.number("accepted")),
            (0, 14),
            "{}{}",
            run.text,
            run.errors
        );
        let mut from: Vec<_> = server.requests.try_iter().map(|from| from.ip().to_string()).collect();
        from.sort();
        let expected = (1..7)
            .map(|host| format!("127.9.0.{host}"))
            .chain(["127.9.1.1".to_owned()]);
        let expected: Vec<_> = expected.flat_map(|address| vec![address; 2 * requests]).collect();
        assert_eq!(from, expected);
    }
}

/// A plan in a file that is gone with its folder.
fn plan(text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.toml");
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

const CASES: &str = r#"
secret = "testing123"

[[case]]
site = "north"
methods = ["mab", "eap-tls"]
sources = "127.9.0.1..127.9.0.2"
macs = "02-00-00-00-00-01"
attributes = ["NAS-Identifier = switch-7"]
outcome = "accept"
responses = ["Tunnel-Type = VLAN", "Tunnel-Private-Group-Id:1 = 130"]

[[case]]
site = "south"
methods = ["mab"]
sources = "127.9.0.3"
macs = "02-00-00-00-00-07..02-00-00-00-00-08"
attributes = []
outcome = "reject"
responses = []
"#;

#[test]
fn a_plan_says_who_asks_and_what_must_be_answered() {
    let (_folder, cases) = plan(CASES);
    let server = Server::start(Fault::Nothing);
    let run_all = |address, more: &[&str]| {
        run(
            address,
            &[&["mab", "--count", "8", "--plan", &cases], more, PATIENT].concat(),
        )
    };
    let right = run_all(server.address, &[]);
    assert_eq!(
        (right.code, right.number("accepted"), right.number("refused")),
        (0, 4, 4),
        "{}{}",
        right.text,
        right.errors
    );
    assert!(
        right.text.contains("4 accepted, 4 refused as they must, 0 failed"),
        "{}",
        right.text
    );
    let mut from: Vec<_> = server.requests.try_iter().map(|from| from.ip().to_string()).collect();
    from.sort();
    let expected = [
        "127.9.0.1",
        "127.9.0.1",
        "127.9.0.2",
        "127.9.0.2",
        "127.9.0.3",
        "127.9.0.3",
        "127.9.0.3",
        "127.9.0.3",
    ];
    assert_eq!(from, expected);

    let wrong = run_all(Server::start(Fault::WrongVlan).address, &[]);
    assert_eq!(wrong.kinds(), [("wrong-attributes", 4)], "{}", wrong.text);
    let example = wrong.json["failures"][0]["example"].as_str().unwrap();
    assert!(example.starts_with("02-00-00-00-00-01 at north: "), "{example}");
    let wrong = run_all(Server::start(Fault::LetsAllIn).address, &["--rate", "100"]);
    assert_eq!(
        (wrong.code, wrong.kinds()),
        (1, vec![("wrong-accept", 4)]),
        "{}",
        wrong.text
    );

    // the other method has the other case no more, and this server another VLAN for it
    let arguments = ["eap-tls", "--count", "4", "--plan", &cases];
    let right = run(
        server.address,
        &[&arguments[..], PATIENT, &["--expect", "Tunnel-Private-Group-Id=120"]].concat(),
    );
    assert_eq!(
        (right.code, right.number("accepted")),
        (0, 4),
        "{}{}",
        right.text,
        right.errors
    );
}

#[test]
fn a_plan_says_how_much_load_there_is() {
    let (_folder, cases) = plan(CASES);
    let server = Server::start(Fault::Nothing);
    let run_plan = |plans: &[&str], more: &[&str]| {
        let plans = plans.iter().flat_map(|plan| ["--plan", plan]).collect::<Vec<_>>();
        run(server.address, &[&["mab"], &plans[..], more, PATIENT].concat())
    };
    let day = run_plan(&["office-day", &cases], &["--time-scale", "0.0005"]);
    assert_eq!(day.code, 0, "{}{}", day.text, day.errors);
    assert_eq!(day.json["plan"], "office-day");
    let line = |start: &str| day.text.lines().find(|line| line.trim_start().starts_with(start));
    for start in ["morning  ", "day  ", "users      ended", "1 to 9 ", "40 to 49 ", "50 "] {
        assert!(line(start).is_some(), "{start}: {}", day.text);
    }
    let levels = day.json["levels"].as_array().unwrap();
    let ended = |level: &Value| level["right"].as_u64().unwrap() + level["failed"].as_u64().unwrap();
    assert_eq!(
        levels.iter().map(ended).sum::<u64>(),
        day.number("accepted") + day.number("refused")
    );
    assert!(ended(&levels[5]) > ended(&levels[0]), "{}", day.json);

    let (_folder, soak) = plan("summary_every = '1s'\n[[phase]]\nduration = '2500ms'\nrate = { from = 0, to = 40 }\n");
    let soaked = run_plan(&[&soak], &[]);
    assert_eq!(
        (soaked.code, soaked.number("accepted")),
        (0, 50),
        "{}{}",
        soaked.text,
        soaked.errors
    );
    let lines: Vec<_> = soaked
        .text
        .lines()
        .filter(|line| line.starts_with("summary = "))
        .collect();
    assert_eq!(lines.len(), 3, "{}", soaked.text);
    assert!(
        lines[1].contains(" in 00:00:02 = ") && lines[1].ends_with(" Err: 0 (0.00%)"),
        "{}",
        lines[1]
    );
    assert!(lines[2].starts_with("summary = 50 in 00:00:02 = "), "{}", lines[2]);

    let both = run_plan(&["doubling"], &["--rate", "5"]);
    assert!(
        both.errors
            .contains("the plan `doubling` says how much load there is, not `--rate`"),
        "{}",
        both.errors
    );
    let both = run_plan(&[&cases], &["--sources", "127.0.0.1"]);
    assert!(both.errors.contains("say where requests come from"), "{}", both.errors);
}

#[test]
fn the_limit_is_found() {
    let steps = ["--from", "50", "--step", "400ms", "--p99", "60ms", "--precision", "20"];
    let found = against(Fault::Slow, &[&["find-limit", "mab"], &steps[..]].concat());
    assert_eq!(found.code, 0, "{}{}", found.text, found.errors);
    let limit = found.json["limit_per_s"].as_f64().unwrap();
    assert!((50.0..400.0).contains(&limit), "{}", found.text);
    assert!(
        found.text.contains("not carried: ") && found.text.contains("\nlimit  "),
        "{}",
        found.text
    );
    // a port an hour, and in the morning all within a quarter of one
    let switches = found.json["switches_in_the_morning"].as_f64().unwrap();
    assert_eq!(switches, (limit / (48.0 / 900.0 + 48.0 / 3600.0)).floor());

    let wrong = [
        "find-limit",
        "mab",
        "--step",
        "100ms",
        "--expect",
        "Tunnel-Private-Group-Id=130",
    ];
    let wrong = against(Fault::WrongVlan, &wrong);
    assert_eq!(
        (wrong.code, wrong.json["steps"].as_array().unwrap().len()),
        (1, 1),
        "{}",
        wrong.text
    );
    assert!(
        wrong.text.contains("wrong answers: wrong-attributes; one of them: "),
        "{}",
        wrong.text
    );
    let both = against(Fault::Nothing, &["find-limit", "mab", "--rate", "5"]);
    assert!(both.errors.contains("not --rate"), "{}", both.errors);
}

#[test]
fn the_server_is_watched() {
    let pid = std::process::id().to_string();
    let run = against(Fault::Nothing, &["mab", "--duration", "1200ms", "--server-pid", &pid]);
    assert_eq!(run.code, 0, "{}", run.text);
    assert!(
        run.text.contains("of one core, ") && run.text.contains(" of memory"),
        "{}",
        run.text
    );
    let total = run.json["server"]["processor_time_us"].as_f64().unwrap();
    assert!(total > 0.0 && run.json["server"]["resident_bytes"].as_u64().unwrap() > 1 << 20);
    let seconds = run.json["series"].as_array().unwrap();
    assert!(seconds.len() >= 2, "{}", run.json);
    let sum: f64 = seconds
        .iter()
        .map(|point| point["server"]["processor_time_us"].as_f64().unwrap())
        .sum();
    assert!((sum - total).abs() < 1.0, "{sum} {total}");
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

#[test]
fn an_interrupt_still_prints_the_summary_and_writes_the_reports() {
    let server = Server::start(Fault::Silence);
    let folder = tempfile::tempdir().unwrap();
    let (json, html) = (folder.path().join("report.json"), folder.path().join("report.html"));
    let child = command(
        server.address,
        &["mab", "--duration", "1h", "--concurrency", "3", "--timeout", "1h"],
    )
    .arg("--json")
    .arg(&json)
    .arg("--html")
    .arg(&html)
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    for _ in 0..3 {
        server.requests.recv().unwrap();
    }
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("interrupted") && text.contains("0 accepted, 0 failed, 3 unfinished"),
        "{text}"
    );
    assert_eq!(output.status.code(), Some(0), "nothing has failed: {text}");
    let json: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!((&json["interrupted"], &json["unfinished"]), (&true.into(), &3.into()));
    let page = std::fs::read_to_string(html).unwrap();
    assert!(page.contains(">interrupted<") && page.ends_with("</html>\n"), "{page}");
}

/// The page of a run.
fn page(fault: Fault, arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let html = folder.path().join("report.html");
    let run = against(fault, &[arguments, &["--html", html.to_str().unwrap()]].concat());
    let page = std::fs::read_to_string(&html).unwrap_or_default();
    assert!(page.ends_with("</html>\n"), "{}{}", run.text, run.errors);
    page
}

#[test]
fn the_report_is_a_page_that_needs_no_other_file() {
    let pid = std::process::id().to_string();
    let load = [
        "--rate",
        "100",
        "--ramp",
        "500ms",
        "--duration",
        "2200ms",
        "--server-pid",
        &pid,
    ];
    let good = page(
        Fault::Nothing,
        &[&["mab", "--secret", "testing123"], &load[..]].concat(),
    );
    for word in ["http", "src=", "href=", "@import", "url(", "testing123"] {
        assert!(!good.contains(word), "{word}");
    }
    let titles = [
        "Rate",
        "Latency",
        "Latency by percentile",
        "Devices at once",
        "Processor time",
        "Server's memory",
    ];
    for title in titles {
        assert!(good.contains(&format!("<h2>{title}</h2>")), "{title}");
    }
    assert!(good.contains(">passed<") && good.contains("every answer was right") && !good.contains("NaN"));
    let plots: Vec<_> = good.split("<figure").skip(1).collect();
    assert_eq!(plots.len(), titles.len());
    for plot in plots {
        let (_, text) = plot.split_once("<script type=\"application/json\">").unwrap();
        let readings: Value = serde_json::from_str(text.split_once("</script>").unwrap().0).unwrap();
        let places = readings["places"].as_array().unwrap();
        assert!(
            places.len() >= 2
                && places
                    .iter()
                    .all(|place| (0.0..=1.0).contains(&place.as_f64().unwrap()))
        );
        for values in readings["values"].as_array().unwrap() {
            assert_eq!(values.as_array().unwrap().len(), places.len());
        }
        assert!(plot.contains("<path class=\"line "), "{plot}");
    }
}

#[test]
fn the_report_names_failures_and_nothing_in_it_is_taken_for_a_tag() {
    let wrong = page(
        Fault::WrongVlan,
        &[
            "mab",
            "--count",
            "9",
            "--expect",
            "Filter-Id=<img src=x onerror=alert(1)>",
        ],
    );
    assert!(
        wrong.contains(">failed<") && wrong.contains("9 wrong answers"),
        "{wrong}"
    );
    assert!(
        wrong.contains("<b>wrong-attributes</b> <em>wrong answer</em><span>9</span>"),
        "{wrong}"
    );
    assert!(wrong.contains("&lt;img src=x") && !wrong.contains("<img"), "{wrong}");
    assert!(
        wrong.contains("<h2>Failures</h2>") && wrong.contains("columns red"),
        "{wrong}"
    );
}

#[test]
fn nobody_there_is_said_at_once() {
    let target = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for sources in [&[][..], &["--sources", "127.0.0.9"], &["--sources", "127.9.0.0/24"]] {
        let run = run(target, &[&["mab", "--duration", "1h"], sources].concat());
        assert_eq!(run.code, 1);
        assert!(
            run.errors
                .starts_with(&format!("error: nothing listens on {target}\nhint: ")),
            "{}",
            run.errors
        );
    }
}

#[test]
fn mistakes_are_explained() {
    let target: SocketAddr = "127.0.0.1:1".parse().unwrap();
    let key = Pki::shared().folder().join("missing.key");
    for (arguments, code, part) in [
        (&["eap-tls", "--key", key.to_str().unwrap()][..], 1, "missing.key`"),
        (
            &["mab", "--expect", "Tunnel-Private-Group=1"],
            2,
            "is no attribute of the dictionary",
        ),
        (&["mab", "--attr", "User-Name=bob"], 1, "`--identity` sets it"),
        (
            &["mab", "--attr", "Tunnel-Password=x"],
            1,
            "hidden anew in every request",
        ),
        (&["mab", "--password", &"x".repeat(129)], 1, "cannot write a request"),
        (&["mab", "--mac", "printer"], 2, "is no MAC address"),
        (&["mab", "--count", "1", "--duration", "1s"], 2, "cannot be used with"),
        (
            &["mab", "--json", "/no/such/folder/x.json"],
            1,
            "cannot write `/no/such/folder/x.json`",
        ),
        (&["mab", "--rate", "0"], 2, "not between 0.001"),
        (&["mab", "--rate", "5", "--concurrency", "5"], 2, "cannot be used with"),
        (&["mab", "--ramp", "20s"], 1, "longer than the run"),
        (&["mab", "--sources", "192.0.2.7"], 1, "cannot send from 192.0.2.7"),
        (&["mab", "--sources", "::1"], 1, "of another family"),
        (&["mab", "--sources", "127.0.0.0/33"], 2, "is no network"),
        (
            &["mab", "--server-pid", "4294967295"],
            1,
            "cannot watch process 4294967295",
        ),
    ] {
        let output = command(target, arguments).output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {errors}");
        assert!(errors.contains(part), "{arguments:?}: {errors}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn attributes_are_sent() {
    // the server lets in only what it can verify, so that what is sent is read here from the request itself
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let target = socket.local_addr().unwrap();
    let reader = std::thread::spawn(move || {
        let mut datagram = [0; 4096];
        let octets = socket.recv(&mut datagram).unwrap();
        datagram[..octets].to_vec()
    });
    let arguments = [
        "mab",
        "--count",
        "1",
        "--timeout",
        "50ms",
        "--retries",
        "0",
        "--attr",
        "NAS-Port-Type=Wireless-802.11",
    ];
    let more = [
        "--attr",
        "Cisco-AVPair=audit-session-id=1",
        "--attr",
        "Called-Station-Id=00-11-22-33-44-55:Staff",
    ];
    run(target, &[&arguments[..], &more].concat());
    let request = reader.join().unwrap();
    let packet = portreeve::radius::packet::Packet::parse(&request).unwrap();
    let dictionary = portreeve::radius::dictionary::Dictionary::builtin();
    let lines = portreeve::radius::display::attributes(dictionary, &packet, None);
    let lines: Vec<_> = lines
        .iter()
        .map(String::as_str)
        .filter(|line| !line.starts_with("Message-Authenticator") && !line.starts_with("NAS-Port-Id"))
        .collect();
    assert_eq!(
        lines,
        [
            "User-Name = \"020000000001\"",
            "User-Password = hidden",
            "Service-Type = Call-Check",
            "NAS-Identifier = \"portreeve-load\"",
            "NAS-Port-Type = Wireless-802.11",
            "Cisco-AVPair = \"audit-session-id=1\"",
            "Called-Station-Id = \"00-11-22-33-44-55:Staff\"",
            "NAS-Port = 1",
            "Calling-Station-Id = \"02-00-00-00-00-01\"",
        ]
    );
}
