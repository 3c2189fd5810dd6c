//! The documentation says what the program says.

use std::fmt::Write as _;

use portreeve::reason::{Kind, Reason};

const KINDS: [(Kind, &str, &str); 9] = [
    (Kind::Accept, "Accepted", ""),
    (
        Kind::Silent,
        "No answer",
        "Nothing is sent, so the switch tries again and then turns to its next server. These are counted in \
         `portreeve_dropped_packets_total{reason}`; the log says so for each source once in a while, not for each packet.",
    ),
    (Kind::Mab, "MAC authentication refused", ""),
    (Kind::Request, "Not a request that can be granted", ""),
    (Kind::Policy, "Refused by the site's policies", ""),
    (Kind::Eap, "EAP", ""),
    (
        Kind::Tls,
        "TLS",
        "The supplicant's own log has the other half of the story; the log line's `detail` names the alert and who sent it.",
    ),
    (
        Kind::Certificate,
        "Certificate refused",
        "The log line names the certificate: `cn`, `serial`, `issuer`, `not_after`. The supplicant gets the TLS alert that fits.",
    ),
    (Kind::Node, "The node itself", ""),
];

#[test]
fn the_page_of_reasons_is_what_the_program_says() {
    let mut page = String::from(
        "# Reasons\n\nEvery authentication ends with one of these words. It is the same in the log line (`reason`), in the metric \
         `portreeve_authentications_total{reason}`, in `portreeve why` and in `portreeve decide`.\n",
    );
    for (kind, title, about) in KINDS {
        let _ = write!(page, "\n## {title}\n\n");
        if !about.is_empty() {
            let _ = write!(page, "{about}\n\n");
        }
        page.push_str("| reason | what happened | what to do |\n|---|---|---|\n");
        for reason in Reason::ALL.iter().filter(|reason| reason.kind() == kind) {
            let _ = writeln!(page, "| `{reason}` | {} | {} |", reason.meaning(), reason.hint());
        }
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reasons.md");
    if std::env::var_os("WRITE_DOCS").is_some() {
        std::fs::write(path, &page).expect("docs/reasons.md can be written");
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        found == page,
        "docs/reasons.md is not up to date\nhint: WRITE_DOCS=1 cargo test --test docs"
    );
}

#[test]
fn no_reason_is_left_out_of_the_page() {
    for reason in Reason::ALL {
        assert!(KINDS.iter().any(|(kind, ..)| *kind == reason.kind()), "{reason}");
    }
}
