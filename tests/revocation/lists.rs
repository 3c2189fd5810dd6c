//! Lists of revoked certificates, from files and from where certificates say, and what becomes of the device.

use std::fs;

use crate::authority::{Authority, Issued, Names, reserve, unix};
use crate::canned::Canned;
use crate::device::{SLACK, TIMEOUT, authenticate, bare_node, count, node};
use crate::support::node::message;
use crate::support::{Fallible, each, ensure};
use crate::web::{Page, Web, closed_port};

const HOUR: u64 = 3_600;
const IN_FORCE: &str = "a list of revoked certificates is in force";
const NOT_NEWER: &str = "a list of revoked certificates in a file is not newer than the one in force, which stays";

/// A device, its CA, and what lies where its certificate says that the CA's list is.
struct Case {
    name: &'static str,
    ca: Authority,
    device: Issued,
    /// Empty where it is good.
    detail: &'static str,
    _web: Option<Web>,
}

/// A page from the CA, and what comes of it.
type Publishes = (&'static str, fn(&Authority) -> Fallible<Page>, &'static str);

const PAGES: [Publishes; 12] = [
    ("good", |ca| Ok(Page::Body(ca.list(&[7, 8], 60, HOUR)?)), ""),
    (
        "pem",
        |ca| Ok(Page::Body(ca.list_from(&[7], unix() - 60, HOUR)?.pem()?.into_bytes())),
        "",
    ),
    (
        "expired",
        |ca| Ok(Page::Body(ca.list(&[], 3 * HOUR, HOUR)?)),
        "has expired: a newer one was to be there at",
    ),
    (
        "of a stranger",
        |_| Ok(Page::Body(Authority::new("ca")?.list(&[], 60, HOUR)?)),
        "is not signed by its issuer",
    ),
    (
        "of tomorrow",
        |ca| Ok(Page::Body(ca.list_from(&[], unix() + 24 * HOUR, HOUR)?.der().to_vec())),
        "is from the future",
    ),
    (
        "a certificate",
        |ca| Ok(Page::Body(ca.pem().into_bytes())),
        "neither DER nor a PEM block",
    ),
    (
        "garbage",
        |_| Ok(Page::Body(b"<html>hello</html>".to_vec())),
        "neither DER nor a PEM block",
    ),
    (
        "half",
        |ca| {
            let list = ca.list(&[], 60, HOUR)?;
            Ok(Page::Body(list[..list.len() - 9].to_vec()))
        },
        "not a well-formed certificate revocation list",
    ),
    (
        "too large",
        |_| Ok(Page::Body(vec![0x30; 9 << 20])),
        "more than 8388608 octets",
    ),
    (
        "absent",
        |_| {
            Ok(Page::Raw(
                b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec(),
            ))
        },
        "HTTP status 404",
    ),
    ("silent", |_| Ok(Page::Silence), "is still on its way"),
    (
        "cut off",
        |_| Ok(Page::Raw(b"HTTP/1.1 200 OK\r\n".to_vec())),
        "breaks off",
    ),
];

/// All of them, and certificates that name no list that is reached.
fn cases() -> Fallible<Vec<Case>> {
    let mut cases = Vec::new();
    for (name, page, detail) in PAGES {
        let (ca, web) = (Authority::new("ca")?, Web::start()?);
        let url = web.put("/ca.crl", page(&ca)?);
        let device = ca.device(
            name,
            Names {
                ocsp: None,
                crl: Some(&url),
            },
        )?;
        cases.push(Case {
            name,
            ca,
            device,
            detail,
            _web: Some(web),
        });
    }
    let closed = closed_port()?;
    for (name, url, detail) in [
        ("closed port", Some(closed.as_str()), "cannot be reached"),
        (
            "ldap",
            Some("ldap:///CN=ca"),
            "there is no list of `/CN=ca/O=Revocation`",
        ),
        ("nowhere", None, "there is no list of `/CN=ca/O=Revocation`"),
    ] {
        let ca = Authority::new("ca")?;
        let device = ca.device(name, Names { ocsp: None, crl: url })?;
        cases.push(Case {
            name,
            ca,
            device,
            detail,
            _web: None,
        });
    }
    Ok(cases)
}

/// A node in this mode, before which every device authenticates. All their CAs have one name.
fn every_outcome(mode: &str) -> Fallible {
    let cases = cases()?;
    let authorities: Vec<&Authority> = cases.iter().map(|case| &case.ca).collect();
    let node = node(&authorities, &format!("mode = \"{mode}\"\ncrl_max_bytes = \"8MiB\""))?;
    each(
        &cases,
        |case| case.name.to_owned(),
        |case| {
            let ended = authenticate(&node, case.name, &case.device)?;
            let waited = ended.waited;
            ensure(waited < TIMEOUT + SLACK, || format!("it waited for {waited:?}"))?;
            match (case.detail, mode) {
                ("", _) => ended.expect("accept", "policy-accept", ""),
                (detail, "require") => ended.expect("reject", "revocation-unavailable", detail),
                (detail, _) => {
                    ended.expect(
                        "accept",
                        "policy-accept",
                        "let in all the same, revocation-unavailable: ocsp:",
                    )?;
                    ended.expect("accept", "policy-accept", detail)
                }
            }
        },
    )
}

#[test]
fn whatever_lies_at_a_distribution_point_require_refuses_who_is_not_good() -> Fallible {
    every_outcome("require")
}

#[test]
fn whatever_lies_at_a_distribution_point_prefer_lets_in_who_is_not_revoked() -> Fallible {
    every_outcome("prefer")
}

#[test]
fn a_revoked_device_is_refused_in_each_mode_and_by_each_kind_of_list() -> Fallible {
    for (mode, max_stale) in [("require", "0s"), ("prefer", "0s"), ("prefer", "7d")] {
        let (by_http, by_file, web) = (Authority::new("http")?, Authority::new("file")?, Web::start()?);
        let serials = [reserve(), reserve()];
        // out of date: who is in it is revoked all the same
        let url = web.put("/ca.crl", Page::Body(by_http.list(&serials, 3 * HOUR, HOUR)?));
        let names = Names {
            ocsp: None,
            crl: Some(&url),
        };
        let fetched = by_http.device_numbered(serials[0], "fetched", names)?;
        let read = by_file.device_numbered(serials[1], "read", Names::default())?;
        let file = by_file.folder().join("ca.crl");
        fs::write(&file, by_file.list_from(&serials, unix() - 60, HOUR)?.pem()?)?;
        let settings = format!(
            "mode = \"{mode}\"\nmax_stale = \"{max_stale}\"\ncrl = \"{}\"",
            file.display()
        );
        let node = node(&[&by_http, &by_file], &settings)?;
        for (name, device) in [("fetched", &fetched), ("read", &read), ("fetched again", &fetched)] {
            let ended = authenticate(&node, name, device)?;
            ended.expect("reject", "certificate-revoked", "(cessation of operation), says crl")?;
        }
    }
    Ok(())
}

/// A list that takes longer than a request waits comes into force all the same, and whoever comes then does not wait.
#[test]
fn a_large_list_comes_while_nobody_waits() -> Fallible {
    let (ca, web) = (Authority::new("ca")?, Web::start()?);
    let serials = [reserve(), reserve()];
    let many: Vec<u64> = (1..100_000).map(|number| number << 32).chain([serials[1]]).collect();
    let url = web.put("/ca.crl", Page::Body(ca.list(&many, 60, HOUR)?));
    let names = Names {
        ocsp: None,
        crl: Some(&url),
    };
    let good = ca.device_numbered(serials[0], "good", names)?;
    let revoked = ca.device_numbered(serials[1], "revoked", names)?;
    let node = node(&[&ca], "mode = \"require\"")?;
    let first = authenticate(&node, "first", &good)?;
    ensure(first.waited < TIMEOUT + SLACK, || {
        format!("it waited for {:?}", first.waited)
    })?;
    node.line("the list", |line| {
        message(line) == IN_FORCE && line["entries"] == 100_000
    })?;
    let second = authenticate(&node, "second", &good)?;
    second.expect("accept", "policy-accept", "")?;
    ensure(second.waited < TIMEOUT, || format!("it waited for {:?}", second.waited))?;
    authenticate(&node, "revoked", &revoked)?.expect("reject", "certificate-revoked", "says crl")?;
    ensure(web.requests() == 1, || {
        format!("{} requests for one list", web.requests())
    })
}

/// A list that has ended lets in for as long as is configured.
#[test]
fn a_list_that_is_out_of_date_is_good_for_as_long_as_configured() -> Fallible {
    let ca = Authority::new("ca")?;
    let device = ca.device("device", Names::default())?;
    let file = ca.folder().join("ca.crl");
    fs::write(&file, ca.list(&[], 3 * HOUR, HOUR)?)?;
    for (max_stale, outcome, reason, detail) in [
        (
            "1h",
            "reject",
            "revocation-unavailable",
            "the list of `/CN=ca/O=Revocation` expired at",
        ),
        ("3h", "accept", "policy-accept", ""),
    ] {
        let settings = format!(
            "mode = \"require\"\nmax_stale = \"{max_stale}\"\ncrl = \"{}\"",
            file.display()
        );
        let node = bare_node(&[&ca], &settings)?;
        authenticate(&node, "device", &device)?.expect(outcome, reason, detail)?;
    }
    Ok(())
}

/// Files are read again when they change; a list that was issued before the one in force changes nothing.
#[test]
fn a_newer_list_is_in_force_at_once_and_an_older_one_never() -> Fallible {
    let ca = Authority::new("ca")?;
    let (first, second) = (
        ca.device("first", Names::default())?,
        ca.device("second", Names::default())?,
    );
    let folder = ca.folder().join("lists");
    fs::create_dir(&folder)?;
    let put = |list: &[u8]| {
        let beside = folder.join("new");
        fs::write(&beside, list)?;
        fs::rename(&beside, folder.join("ca.crl"))
    };
    put(&ca.list(&[first.serial], 120, HOUR)?)?;
    let node = bare_node(&[&ca], &format!("mode = \"require\"\ncrl = \"{}\"", folder.display()))?;
    let refused =
        |name: &str, device| authenticate(&node, name, device)?.expect("reject", "certificate-revoked", "revoked at");
    let let_in = |name: &str, device| authenticate(&node, name, device)?.expect("accept", "policy-accept", "");
    let said = |seen, text| node.line_after(seen, text, |line| message(line) == text).map(drop);
    refused("first 1", &first)?;
    let_in("second 1", &second)?;

    let seen = node.lines().len();
    put(&ca.list(&[second.serial], 60, HOUR)?)?;
    said(seen, IN_FORCE)?;
    let_in("first 2", &first)?;
    refused("second 2", &second)?;

    for (number, older) in [ca.list(&[first.serial], 120, HOUR)?, ca.list(&[], 61, 9 * HOUR)?]
        .iter()
        .enumerate()
    {
        let seen = node.lines().len();
        put(older)?;
        said(seen, NOT_NEWER)?;
        let_in(&format!("first after {number}"), &first)?;
        refused(&format!("second after {number}"), &second)?;
    }
    // neither does one that is gone, or broken
    let seen = node.lines().len();
    put(b"garbage")?;
    node.line_after(seen, "the broken list", |line| {
        message(line).starts_with("a list of revoked certificates is not used: `") && message(line).contains("hint: ")
    })?;
    refused("second at the end", &second)?;
    count(
        &node,
        "portreeve_revocation_checks_total{source=\"crl\",result=\"revoked\"}",
        5.0,
    )
}

/// The whole chain below the trusted CA is looked at, unless only the device is to be.
#[test]
fn a_revoked_intermediate_is_refused() -> Fallible {
    let root = Authority::new("root")?;
    let (good, _) = root.intermediate("good", Names::default())?;
    let (bad, serial) = root.intermediate("bad", Names::default())?;
    let file = root.folder().join("all.crl");
    let lists = [
        root.list_from(&[serial], unix() - 60, HOUR)?,
        good.list_from(&[], unix() - 60, HOUR)?,
    ];
    let of_bad = bad.list_from(&[], unix() - 60, HOUR)?.pem()?;
    fs::write(&file, lists[0].pem()? + &lists[1].pem()? + &of_bad)?;
    let devices = [
        good.device_with_chain("of good", Names::default())?,
        bad.device_with_chain("of bad", Names::default())?,
    ];
    let settings = format!("mode = \"require\"\ncrl = \"{}\"", file.display());
    let node = bare_node(&[&root], &settings)?;
    authenticate(&node, "of good", &devices[0])?.expect("accept", "policy-accept", "")?;
    let ended = authenticate(&node, "of bad", &devices[1])?;
    ended.expect(
        "reject",
        "certificate-revoked",
        "the CA `/CN=bad/O=Revocation`: revoked at",
    )?;
    let node = bare_node(&[&root], &format!("{settings}\ncheck_chain = false"))?;
    authenticate(&node, "of bad", &devices[1])?.expect("accept", "policy-accept", "")
}

/// The sources are asked in order, and the first that knows is believed.
#[test]
fn what_a_responder_does_not_know_a_list_may() -> Fallible {
    let (ca, web) = (Authority::new("ca")?, Web::start()?);
    let file = ca.folder().join("ca.crl");
    let serials = [reserve(), reserve()];
    fs::write(&file, ca.list(&[serials[1]], 60, HOUR)?)?;
    let silent = web.put("/silent", Page::Silence);
    let says_good = web.put("/good", Page::Body(Canned::new(&ca, serials[1]).response()?));
    let unknown = ca.device_numbered(
        serials[0],
        "unknown",
        Names {
            ocsp: Some(&silent),
            crl: None,
        },
    )?;
    let disputed = ca.device_numbered(
        serials[1],
        "disputed",
        Names {
            ocsp: Some(&says_good),
            crl: None,
        },
    )?;
    let settings = |order: &str| format!("mode = \"require\"\norder = {order}\ncrl = \"{}\"", file.display());
    let by_ocsp_first = node(&[&ca], &settings("[\"ocsp\", \"crl\"]"))?;
    authenticate(&by_ocsp_first, "unknown", &unknown)?.expect("accept", "policy-accept", "")?;
    authenticate(&by_ocsp_first, "disputed", &disputed)?.expect("accept", "policy-accept", "")?;
    let by_lists_first = node(&[&ca], &settings("[\"crl\", \"ocsp\"]"))?;
    authenticate(&by_lists_first, "unknown", &unknown)?.expect("accept", "policy-accept", "")?;
    let ended = authenticate(&by_lists_first, "disputed", &disputed)?;
    ended.expect("reject", "certificate-revoked", "says crl")?;
    let requests = web.requests();
    ensure(requests == 2, || format!("{requests} requests: the list was enough"))
}
