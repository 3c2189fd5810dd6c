//! What responders say, or do not say, and what becomes of the device.

use std::fs;

use portreeve::eap::peer::Failure;
use rcgen::ExtendedKeyUsagePurpose as Usage;

use crate::authority::{Authority, Issued, Names, reserve};
use crate::canned::Canned;
use crate::device::{SLACK, TIMEOUT, authenticate, bare_node, count, node};
use crate::responder::{Plan, Responder};
use crate::support::nas::Round;
use crate::support::{Fallible, each, ensure};
use crate::web::{Page, Web, closed_port};

/// What a device's authentication has to come to.
#[derive(Clone, Copy)]
enum Expected {
    Good,
    Revoked,
    /// The reason in `require`, and what the detail has to say in both modes.
    NotLearned(&'static str, &'static str),
}

struct Case {
    name: &'static str,
    device: Issued,
    expected: Expected,
}

/// All that a responder may do, and who is behind it.
struct World {
    ca: Authority,
    stranger: Authority,
    cases: Vec<Case>,
    /// The list in it says that a responder's certificate was revoked.
    list: std::path::PathBuf,
    /// One for each case: what one does must not be held against another.
    webs: Vec<Web>,
    responders: Vec<Responder>,
}

impl World {
    fn new() -> Fallible<World> {
        let ca = Authority::new("ca")?;
        let mut world = World {
            list: ca.folder().join("responders.crl"),
            stranger: Authority::new("ca")?,
            ca,
            cases: Vec::new(),
            webs: Vec::new(),
            responders: Vec::new(),
        };
        world.real_responders()?;
        world.broken_responders()?;
        world.canned_responses()?;
        Ok(world)
    }

    fn case(&mut self, name: &'static str, serial: u64, url: Option<&str>, expected: Expected) -> Fallible {
        let device = self.ca.device_numbered(serial, name, Names { ocsp: url, crl: None })?;
        self.cases.push(Case { name, device, expected });
        Ok(())
    }

    fn put(&mut self, page: Page) -> Fallible<String> {
        let web = Web::start()?;
        let url = web.put("/", page);
        self.webs.push(web);
        Ok(url)
    }

    /// `openssl ocsp`, by whom it may be and by whom it may not.
    fn real_responders(&mut self) -> Fallible {
        let delegate = |name, usage, has_no_check| self.ca.delegate(name, usage, has_no_check);
        let exempt = delegate("responder", Usage::OcspSigning, true)?;
        let unexempt = delegate("unexempt responder", Usage::OcspSigning, false)?;
        let of_no_use = delegate("a device", Usage::ClientAuth, false)?;
        let revoked = delegate("revoked responder", Usage::OcspSigning, false)?;
        fs::write(&self.list, self.ca.list(&[revoked.serial], 60, 3_600)?)?;
        let [good_one, revoked_one, unknown_one] = [reserve(), reserve(), reserve()];
        let numbers: Vec<u64> = (0..6).map(|_| reserve()).collect();
        let good = [&numbers[..], &[good_one]].concat();
        let index = self.ca.index(&good, &[revoked_one])?;
        let signers = [
            self.ca.path(),
            exempt.path,
            unexempt.path,
            of_no_use.path,
            revoked.path,
            self.stranger.path(),
        ];
        for signer in &signers {
            let plan = Plan {
                ca: &self.ca,
                index: &index,
                signer,
                minutes: Some(60),
            };
            self.responders.push(Responder::start(plan)?);
        }
        let urls: Vec<String> = self.responders.iter().map(|responder| responder.url.clone()).collect();
        let unknown = Expected::NotLearned("revocation-unknown", "ocsp: the responder does not know it");
        for (name, serial, by, expected) in [
            ("good", good_one, 0, Expected::Good),
            ("revoked", revoked_one, 0, Expected::Revoked),
            ("unknown", unknown_one, 0, unknown),
            ("delegated", numbers[1], 1, Expected::Good),
            ("delegated, not exempt", numbers[2], 2, Expected::Good),
            (
                "a delegate of another purpose",
                numbers[3],
                3,
                unavailable("has a certificate that is not for signing OCSP responses"),
            ),
            (
                "a revoked delegate",
                numbers[4],
                4,
                unavailable("has a certificate that was revoked"),
            ),
            (
                "another CA of the same name",
                numbers[5],
                5,
                unavailable("sends a response whose signature does not verify"),
            ),
        ] {
            self.case(name, serial, Some(&urls[by]), expected)?;
        }
        Ok(())
    }

    /// Whoever else may be behind a URL.
    fn broken_responders(&mut self) -> Fallible {
        self.case(
            "no responder",
            reserve(),
            None,
            unavailable("there is no ocsp responder to ask"),
        )?;
        let closed = closed_port()?;
        self.case(
            "closed port",
            reserve(),
            Some(&closed),
            unavailable("cannot be reached"),
        )?;
        let raw = |text: &str| Page::Raw(text.replace('\n', "\r\n").into_bytes());
        let malformed = "not a well-formed OCSP response";
        for (name, page, detail) in [
            ("silence", Page::Silence, "does not answer within 500ms"),
            ("garbage", Page::Body(b"<html>hello</html>".to_vec()), malformed),
            ("nothing", Page::Body(Vec::new()), malformed),
            ("a megabyte", Page::Body(vec![0x30; 1 << 20]), "more than 65536 octets"),
            ("a megabyte in chunks", Page::Raw(chunks()), "more than 65536 octets"),
            ("no http", raw("SSH-2.0-OpenSSH_9.2\n"), "breaks off"),
            (
                "half an answer",
                raw("HTTP/1.1 200 OK\nContent-Length: 100\n\n0"),
                "breaks off",
            ),
            (
                "an error",
                raw("HTTP/1.1 500 Sorry\nContent-Length: 0\n\n"),
                "HTTP status 500",
            ),
            (
                "a redirection",
                raw("HTTP/1.1 302 Found\nLocation: https://example.com/\nContent-Length: 0\n\n"),
                "HTTP status 302",
            ),
            ("try later", Page::Body(vec![0x30, 3, 0x0A, 1, 3]), "says `tryLater`"),
            (
                "unauthorized",
                Page::Body(vec![0x30, 3, 0x0A, 1, 6]),
                "says `unauthorized`",
            ),
        ] {
            let url = self.put(page)?;
            self.case(name, reserve(), Some(&url), unavailable(detail))?;
        }
        Ok(())
    }

    /// Responses of the right signer that come at the wrong time, or for another device.
    fn canned_responses(&mut self) -> Fallible {
        for (name, this_update, next_update, other, expected) in [
            ("dated", -60, Some(60), 0, Expected::Good),
            ("undated", -60, None, 0, Expected::Good),
            (
                "expired",
                -7_200,
                Some(-3_600),
                0,
                unavailable("sends a response that has expired"),
            ),
            (
                "undated and old",
                -7_200,
                None,
                0,
                unavailable("sends a response that has expired"),
            ),
            (
                "of tomorrow",
                86_400,
                Some(90_000),
                0,
                unavailable("sends a response from the future"),
            ),
            (
                "of another",
                -60,
                Some(60),
                1,
                unavailable("sends a response about another certificate"),
            ),
        ] {
            let serial = reserve();
            let canned = Canned {
                this_update,
                next_update,
                ..Canned::new(&self.ca, serial + other)
            };
            let url = self.put(Page::Body(canned.response()?))?;
            self.case(name, serial, Some(&url), expected)?;
        }
        Ok(())
    }

    /// Authenticates every device at a node in this mode.
    fn run(&self, mode: &str) -> Fallible {
        let list = self.list.display();
        let settings = format!("mode = \"{mode}\"\norder = [\"ocsp\"]\ncrl = \"{list}\"");
        let node = node(&[&self.ca], &settings)?;
        each(
            &self.cases,
            |case| case.name.to_owned(),
            |case| {
                let ended = authenticate(&node, case.name, &case.device)?;
                let waited = ended.waited;
                ensure(waited < TIMEOUT + SLACK, || format!("it waited for {waited:?}"))?;
                match (case.expected, mode) {
                    (Expected::Good, _) => ended.expect("accept", "policy-accept", ""),
                    (Expected::Revoked, _) => {
                        let alert = Failure::Alert("certificate_revoked".to_owned());
                        ensure(ended.round == Round::Reject(Some(alert)), || {
                            format!("{:?}", ended.round)
                        })?;
                        let detail = "revoked at 2025-01-01T00:00:00Z (key compromise), says ocsp";
                        ended.expect("reject", "certificate-revoked", detail)
                    }
                    (Expected::NotLearned(reason, detail), "require") => ended.expect("reject", reason, detail),
                    (Expected::NotLearned(reason, detail), _) => {
                        ended.expect("accept", "policy-accept", &format!("let in all the same, {reason}: "))?;
                        ended.expect("accept", "policy-accept", detail)
                    }
                }
            },
        )
    }
}

const fn unavailable(detail: &'static str) -> Expected {
    Expected::NotLearned("revocation-unavailable", detail)
}

fn path(name: &str) -> String {
    format!("/{}", name.replace(' ', "-"))
}

#[test]
fn whatever_a_responder_does_require_refuses_who_is_not_good() -> Fallible {
    World::new()?.run("require")
}

#[test]
fn whatever_a_responder_does_prefer_refuses_only_who_is_revoked() -> Fallible {
    World::new()?.run("prefer")
}

#[test]
fn a_nonce_that_comes_back_is_the_one_that_was_sent() -> Fallible {
    let (ca, web) = (Authority::new("ca")?, Web::start()?);
    let node = node(&[&ca], "mode = \"require\"\nocsp_nonce = true")?;
    let serial = reserve();
    let index = ca.index(&[serial], &[])?;
    let responder = Responder::start(Plan {
        ca: &ca,
        index: &index,
        signer: &ca.path(),
        minutes: None,
    })?;
    let ocsp = Some(responder.url.as_str());
    let device = ca.device_numbered(serial, "repeated", Names { ocsp, crl: None })?;
    authenticate(&node, "repeated", &device)?.expect("accept", "policy-accept", "")?;
    for (name, nonce, expected) in [
        ("left out", None, ("accept", "policy-accept", "")),
        (
            "another",
            Some(&[7; 32][..]),
            ("reject", "revocation-unavailable", "another nonce than the request"),
        ),
    ] {
        let serial = reserve();
        let canned = Canned {
            nonce,
            ..Canned::new(&ca, serial)
        };
        let url = web.put(&path(name), Page::Body(canned.response()?));
        let names = Names {
            ocsp: Some(&url),
            crl: None,
        };
        let device = ca.device_numbered(serial, name, names)?;
        let (outcome, reason, detail) = expected;
        authenticate(&node, name, &device)?.expect(outcome, reason, detail)?;
    }
    Ok(())
}

/// An answer counts for all who come after; so does, for some seconds, that there was none.
#[test]
fn what_was_said_is_remembered_and_so_is_silence() -> Fallible {
    let (ca, web) = (Authority::new("ca")?, Web::start()?);
    let node = node(&[&ca], "mode = \"require\"")?;
    let serial = reserve();
    let url = web.put("/good", Page::Body(Canned::new(&ca, serial).response()?));
    let good = ca.device_numbered(
        serial,
        "good",
        Names {
            ocsp: Some(&url),
            crl: None,
        },
    )?;
    for name in ["good 1", "good 2", "good 3"] {
        authenticate(&node, name, &good)?.expect("accept", "policy-accept", "")?;
    }
    ensure(web.requests() == 1, || {
        format!("{} requests for one answer", web.requests())
    })?;
    let url = web.put("/silent", Page::Silence);
    let silent = ca.device(
        "silent",
        Names {
            ocsp: Some(&url),
            crl: None,
        },
    )?;
    let first = authenticate(&node, "silent 1", &silent)?;
    ensure(first.waited >= TIMEOUT, || {
        format!("it waited for {:?} only", first.waited)
    })?;
    let second = authenticate(&node, "silent 2", &silent)?;
    second.expect("reject", "revocation-unavailable", "does not answer within")?;
    ensure(web.requests() == 2, || "it was asked again at once".to_owned())?;
    count(
        &node,
        "portreeve_revocation_checks_total{source=\"ocsp\",result=\"good\"}",
        3.0,
    )?;
    count(
        &node,
        "portreeve_revocation_checks_total{source=\"ocsp\",result=\"unavailable\"}",
        2.0,
    )?;
    count(
        &node,
        "portreeve_revocation_fetches_total{source=\"ocsp\",result=\"failed\"}",
        1.0,
    )
}

/// Where nothing lists the host, certificates do not send this machine to itself.
#[test]
fn no_certificate_reaches_what_listens_to_this_machine_only() -> Fallible {
    let (ca, web) = (Authority::new("ca")?, Web::start()?);
    let serial = reserve();
    let url = web.put("/good", Page::Body(Canned::new(&ca, serial).response()?));
    let device = ca.device_numbered(
        serial,
        "near",
        Names {
            ocsp: Some(&url),
            crl: Some(&url),
        },
    )?;
    for (fetch, detail) in [
        ("true", "its address is this machine's, or its link's"),
        ("false", "there is no ocsp responder to ask; crl: there is no list of"),
        (
            "[\"pki.example.com\"]",
            "there is no ocsp responder to ask; crl: there is no list of",
        ),
    ] {
        let settings = format!(
            "mode = \"require\"\nfetch = {fetch}\nocsp_nonce = false\ncrl = \"{}\"",
            ca.folder().join("none").display()
        );
        fs::create_dir_all(ca.folder().join("none"))?;
        let node = bare_node(&[&ca], &settings)?;
        authenticate(&node, "near", &device)?.expect("reject", "revocation-unavailable", detail)?;
    }
    // the configuration's own responder is asked wherever it is
    let node = bare_node(
        &[&ca],
        &format!("mode = \"require\"\nfetch = false\nocsp_responder = \"{url}\""),
    )?;
    authenticate(&node, "near", &device)?.expect("accept", "policy-accept", "")?;
    ensure(web.requests() == 1, || format!("{} requests", web.requests()))
}

/// A body of a megabyte without a length in front.
fn chunks() -> Vec<u8> {
    let mut answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for _ in 0..256 {
        answer.extend(b"1000\r\n");
        answer.extend([0x30; 4_096]);
        answer.extend(b"\r\n");
    }
    answer.extend(b"0\r\n\r\n");
    answer
}
