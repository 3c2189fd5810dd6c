//! A crowd that waits for a responder which accepts connections and stays silent, and everybody else meanwhile.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use portreeve::eap::tls::TlsVersion;
use portreeve::nas::{Answer, Attempt, Credentials};

use crate::authority::{Authority, Issued, Names};
use crate::device::{SLACK, count, node, patient_node};
use crate::support::nas::{Nas, Round, attributes, peer};
use crate::support::node::Node;
use crate::support::{Fallible, ensure};
use crate::web::{Page, Web};

/// Conversations that wait at once.
const WAITING: usize = 500;
/// How long they do.
const WAIT: Duration = Duration::from_secs(5);
/// Others that come each second.
const OTHERS: u32 = 100;
const PRINTER: &[u8] = b"02-00-00-00-00-01";

/// A conversation before its last message, which the node will have to wait over.
struct Begun {
    nas: Nas,
    attempt: Attempt,
    request: Vec<u8>,
}

/// Takes a device's authentication to the message that carries its certificate and its proof.
fn begin(node: &Node, name: &str, device: &Issued) -> Fallible<Begun> {
    let mut nas = Nas::new(node.address(), "127.0.0.1")?;
    let mut attempt = nas.begin(name, peer(name, TlsVersion::V13, Some(device.name()), "ca")?);
    loop {
        let request = nas.request(&mut attempt)?;
        // the largest that a supplicant sends: everything before it is shorter by far
        if request.len() > 600 {
            return Ok(Begun { nas, attempt, request });
        }
        let answer = nas.exchange(&request)?;
        ensure(matches!(attempt.reply(&answer)?, Answer::Challenge), || {
            format!("{name} ended early")
        })?;
    }
}

/// One authentication to its end: by certificate, or of a printer by its address.
fn other(node: &Node, number: usize, device: &Issued) -> Fallible {
    let mut nas = Nas::new(node.address(), "127.0.0.1")?;
    let mut attempt = match number % 2 {
        0 => nas.begin(
            &format!("other {number}"),
            peer("other", TlsVersion::V13, Some(device.name()), "ca")?,
        ),
        _ => {
            let station = attributes(&[(31, PRINTER), (32, format!("other {number}").as_bytes())]);
            let password = Credentials::Pap(PRINTER.to_vec());
            Attempt::new(Arc::clone(&nas.secret), PRINTER.to_vec(), station.into(), password)
        }
    };
    let end = nas.finish(&mut attempt)?;
    ensure(end == Round::Accept, || format!("other {number}: {end:?}"))
}

/// Lets others come at their rate for so long: how long each took, the slowest last.
fn others(node: &Node, device: &Issued, last: Duration) -> Fallible<Vec<Duration>> {
    const THREADS: u32 = 8;
    let (took, failures) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let next = AtomicUsize::new(0);
    let all = usize::try_from(OTHERS).unwrap() * usize::try_from(last.as_millis()).unwrap() / 1_000;
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= all {
                        return;
                    }
                    let due = Duration::from_secs(1) / OTHERS * u32::try_from(number).unwrap();
                    std::thread::sleep(due.saturating_sub(begun.elapsed()));
                    let start = Instant::now();
                    match other(node, number, device) {
                        Ok(()) => took.lock().unwrap().push(start.elapsed()),
                        Err(error) => failures.lock().unwrap().push(error.to_string()),
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    ensure(failures.is_empty(), || {
        format!("{} of {all} failed: {failures:?}", failures.len())
    })?;
    let mut took = took.into_inner().unwrap();
    took.sort_unstable();
    Ok(took)
}

fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    sorted[(sorted.len() * percent).div_ceil(100) - 1]
}

#[test]
fn five_hundred_wait_for_a_silent_responder_and_hold_up_nobody() -> Fallible {
    let (ca, other_ca, web) = (Authority::new("waiting")?, Authority::new("other")?, Web::start()?);
    let silent = web.put("/", Page::Silence);
    let file = other_ca.folder().join("other.crl");
    std::fs::write(&file, other_ca.list(&[], 60, 3_600)?)?;
    let settings = format!(
        "mode = \"require\"\nfetch = [\"127.0.0.1\"]\ncrl = \"{}\"",
        file.display()
    );
    let node = patient_node(&[&ca, &other_ca], &settings, "5s")?;
    let known = other_ca.device("known", Names::default())?;
    let quiet = others(&node, &known, Duration::from_secs(2))?;

    let names = Names {
        ocsp: Some(&silent),
        crl: None,
    };
    let devices = (0..WAITING)
        .map(|_| ca.device("waiting", names))
        .collect::<Fallible<Vec<_>>>()?;
    let begun: Vec<Begun> = devices
        .iter()
        .map(|device| begin(&node, "waiting", device))
        .collect::<Fallible<_>>()?;
    let start = Instant::now();
    // and a switch that asks again gets silence: the first copy is being worked on
    for _ in 0..2 {
        for Begun { nas, request, .. } in &begun {
            nas.send(request)?;
        }
    }
    // until the last of them has been verified, and waits
    node.drops("duplicate", WAITING as u64)?;
    let crowded = others(
        &node,
        &known,
        WAIT.saturating_sub(start.elapsed() + Duration::from_millis(500)),
    )?;
    for Begun { nas, attempt, .. } in begun {
        finish(nas, attempt)?;
    }
    let waited = start.elapsed();
    ensure(crowded.len() >= 100, || {
        format!("only {} others came meanwhile", crowded.len())
    })?;
    ensure(waited < WAIT + 3 * SLACK, || {
        format!("the crowd was answered after {waited:?}")
    })?;
    let series =
        "portreeve_authentications_total{method=\"eap-tls\",outcome=\"reject\",reason=\"revocation-unavailable\"}";
    count(&node, series, WAITING as f64)?;
    ensure(node.dropped("overload")? == 0, || "some might not wait".to_owned())?;

    let (before, meanwhile) = (percentile(&quiet, 99), percentile(&crowded, 99));
    println!(
        "{WAITING} waited; of {} others meanwhile none was lost: median {:?}, p99 {meanwhile:?} ({before:?} before)",
        crowded.len(),
        percentile(&crowded, 50),
    );
    // a machine that is busy with something else is slow before the crowd comes, too
    let bound = Duration::from_millis(200).max(before * 2);
    ensure(meanwhile < bound, || {
        format!("p99 was {meanwhile:?}, and {before:?} before the crowd")
    })?;
    // no more connections than are allowed, however many wait: those that were given up may not have been closed here yet
    ensure(web.most_at_once() <= 2 * 32, || {
        format!("{} connections at once", web.most_at_once())
    })
}

/// Waits for the answer to what was sent, and takes the authentication to its end.
fn finish(mut nas: Nas, mut attempt: Attempt) -> Fallible {
    let answer = nas.receive(WAIT + 2 * SLACK)?.ok_or("the crowd was forgotten")?;
    if let Answer::Challenge = attempt.reply(&answer)? {
        let end = nas.finish(&mut attempt)?;
        ensure(matches!(end, Round::Reject(_)), || format!("{end:?}"))?;
    }
    Ok(())
}

/// Many conversations of one certificate cause one question.
#[test]
fn one_certificate_is_asked_about_once() -> Fallible {
    let (ca, web) = (Authority::new("ca")?, Web::start()?);
    let url = web.put("/", Page::Silence);
    let device = ca.device(
        "device",
        Names {
            ocsp: Some(&url),
            crl: None,
        },
    )?;
    let node = node(&[&ca], "mode = \"prefer\"")?;
    let begun = (0..20)
        .map(|_| begin(&node, "many", &device))
        .collect::<Fallible<Vec<_>>>()?;
    for Begun { nas, request, .. } in &begun {
        nas.send(request)?;
    }
    for Begun {
        mut nas, mut attempt, ..
    } in begun
    {
        let answer = nas.receive(WAIT)?.ok_or("no answer")?;
        attempt.reply(&answer)?;
        let end = nas.finish(&mut attempt)?;
        ensure(end == Round::Accept, || format!("{end:?}"))?;
    }
    ensure(web.requests() == 1, || format!("{} requests", web.requests()))
}
