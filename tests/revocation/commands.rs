//! What the commands say of revocation: `check`, `decide`, `cert show`.

use std::fs;
use std::process::Command;

use crate::authority::{Authority, Names, unix};
use crate::device::bare_node;
use crate::responder::{Plan, Responder};
use crate::support::node::Node;
use crate::support::{Fallible, ensure};
use crate::web::closed_port;

const HOUR: u64 = 3_600;

/// What `portreeve check` prints in the node's folder, and whether it found no error.
fn check(node: &Node) -> Fallible<(bool, String)> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portreeve"));
    let output = command.arg("check").current_dir(node.folder()).output()?;
    Ok((output.status.success(), String::from_utf8(output.stdout)?))
}

fn says(printed: &str, lines: &[&str]) -> Fallible {
    let missing: Vec<_> = lines.iter().filter(|line| !printed.contains(**line)).collect();
    ensure(missing.is_empty(), || format!("{missing:?} is not in\n{printed}"))
}

#[test]
fn check_says_what_revocation_will_do() -> Fallible {
    let (ca, stranger, other) = (Authority::new("ca")?, Authority::new("ca")?, Authority::new("other")?);
    let folder = ca.folder().join("lists");
    fs::create_dir(&folder)?;
    let file = |name: &str, list: &[u8]| fs::write(folder.join(name), list);
    file("good.crl", &ca.list(&[7, 8, 9], 60, HOUR)?)?;
    file("old.crl", &ca.list(&[], 3 * HOUR, HOUR)?)?;
    file("stranger.crl", &stranger.list(&[], 60, HOUR)?)?;
    file("other.crl", &other.list(&[], 60, HOUR)?)?;
    file("tomorrow.crl", ca.list_from(&[], unix() + 24 * HOUR, HOUR)?.der())?;
    file("garbage.crl", b"garbage")?;
    let index = ca.index(&[], &[])?;
    let responder = Responder::start(Plan {
        ca: &ca,
        index: &index,
        signer: &ca.path(),
        minutes: None,
    })?;
    let settings = |mode: &str, url: &str| {
        let crl = folder.display();
        format!("mode = \"{mode}\"\nfetch = false\nocsp_responder = \"{url}\"\ncrl = \"{crl}\"")
    };
    let answers = format!("ok: the OCSP responder `{}` answers\n", responder.url);
    let closed = closed_port()?;
    let silent = format!("the OCSP responder `{closed}` cannot be reached: Connection refused");
    for (mode, level, url) in [("require", "error", &responder.url), ("prefer", "warning", &closed)] {
        let node = bare_node(&[&ca], &settings(mode, url))?;
        let (succeeded, printed) = check(&node)?;
        ensure(!succeeded, || printed.clone())?; // two lists cannot be used in either mode
        let of = |name: &str| format!("{}: the list of `/CN=ca/O=Revocation`", folder.join(name).display());
        let lines = [
            format!("ok: {}: 3 revoked, issued at ", of("good.crl")),
            format!("{level}: {} expired at ", of("old.crl")),
            format!(
                "error: {} is not signed by the client CA of this name",
                of("stranger.crl")
            ),
            format!("{level}: {} is from the future", of("tomorrow.crl")),
            format!(
                "warning: {}: the list of `/CN=other/O=Revocation`\n  hint: no client CA",
                folder.join("other.crl").display()
            ),
            format!(
                "error: `{}`: neither DER nor a PEM block",
                folder.join("garbage.crl").display()
            ),
            if mode == "require" {
                answers.clone()
            } else {
                format!("warning: {silent}")
            },
        ];
        says(&printed, &lines.iter().map(String::as_str).collect::<Vec<_>>())?;
    }
    // nobody can say anything of this CA
    let settings = format!(
        "mode = \"require\"\nfetch = false\ncrl = \"{}\"",
        folder.join("other.crl").display()
    );
    let (_, printed) = check(&bare_node(&[&ca], &settings)?)?;
    says(
        &printed,
        &["warning: of certificates of the client CA `/CN=ca/O=Revocation` nothing can be learned"],
    )
}

#[test]
fn decide_refuses_a_revoked_certificate_and_cert_show_says_where_it_is_learned() -> Fallible {
    let ca = Authority::new("ca")?;
    let names = Names {
        ocsp: Some("http://ocsp.example.com/"),
        crl: Some("http://pki.example.com/ca.crl"),
    };
    let (good, revoked) = (ca.device("good", names)?, ca.device("revoked", names)?);
    let file = ca.folder().join("ca.crl");
    fs::write(&file, ca.list(&[revoked.serial], 60, HOUR)?)?;
    let node = bare_node(
        &[&ca],
        &format!("mode = \"require\"\nfetch = false\ncrl = \"{}\"", file.display()),
    )?;
    for (device, reason) in [(&good, "policy-accept"), (&revoked, "certificate-revoked")] {
        let pem = format!("{}.pem", device.name());
        let printed = node.command(&["decide", "--site", "site", "--cert", &pem, "--json"])?;
        says(&printed, &[&format!("\"reason\": \"{reason}\"")])?;
        let shown = node.command(&["cert", "show", &pem])?;
        says(
            &shown,
            &[
                "ocsp         http://ocsp.example.com/\n",
                "crl          http://pki.example.com/ca.crl\n",
            ],
        )?;
    }
    Ok(())
}
