//! When devices begin, from where, and how much load there is: schedules, ramps, sources, plans, the search for a limit.

use serde_json::Value;

use super::client::{PATIENT, against, run};
use super::server::{Fault, Server};
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
    // the third is due when two are under way, and all after it
    assert_eq!(run.number("held_back"), 18);
    assert!(
        run.text
            .contains("warning: 18 devices were due when 2 others were under way"),
        "{}",
        run.text
    );
}

#[test]
fn the_steady_part_has_neither_the_ramp_nor_the_end() {
    let load = ["mab", "--rate", "200", "--ramp", "500ms", "--duration", "3s"];
    let run = against(Fault::Nothing, &load);
    assert_eq!(run.code, 0, "{}", run.text);
    let steady = &run.json["steady"];
    assert_eq!(
        (&steady["from_s"], &steady["to_s"]),
        (&1.into(), &3.into()),
        "{}",
        run.text
    );
    let seconds = &run.json["series"].as_array().unwrap()[1..3];
    let right: f64 = seconds.iter().map(|point| point["right"].as_f64().unwrap()).sum();
    assert_eq!(steady["right_per_s"].as_f64().unwrap(), right / 2.0);
    assert!(
        (steady["began_per_s"].as_f64().unwrap() - 200.0).abs() < 40.0,
        "{}",
        run.text
    );
    assert!(run.text.contains("that began; seconds 1 to 3"), "{}", run.text);
    let short = against(Fault::Nothing, &["mab", "--count", "3"]);
    assert!(short.json["steady"].is_null(), "{}", short.json);
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
