//! What a run leaves behind: the summary, the files, the page, and the watched server's part in them.

use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::client::{against, command};
use super::server::{Fault, Server};
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
