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
         `portreeve_authentications_total{reason}`, in `portreeve why` and in `portreeve decide`. [troubleshooting.md](troubleshooting.md) has \
         more on those of EAP, TLS and certificates: how each looks on the switch and on the supplicant, and what to do.\n",
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

/// Each reason of EAP, TLS and certificates has its paragraphs, in the order of the list, and nothing else has. That each
/// is reached by somebody is shown in `tests/scenarios/reasons.rs`, `revocation-unknown` in `tests/revocation`.
#[test]
fn troubleshooting_has_a_section_for_each_reason_of_a_conversation() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/troubleshooting.md");
    let page = std::fs::read_to_string(path).expect("docs/troubleshooting.md can be read");
    let mut sections = page.split("\n### `").skip(1).map(|section| {
        let (word, text) = section.split_once("`\n").expect("a heading ends with its line");
        (word, text.split("\n## ").next().unwrap_or_default())
    });
    for kind in [Kind::Eap, Kind::Tls, Kind::Certificate] {
        for reason in Reason::ALL.iter().filter(|reason| reason.kind() == kind) {
            let (word, text) = sections.next().unwrap_or_default();
            assert_eq!(word, reason.word(), "the order is that of the list");
            let mut rest = text;
            for part in [
                "**Means.** ",
                "**On the switch.** ",
                "**On the supplicant.** ",
                "**Do.** ",
            ] {
                let (_, after) = rest.split_once(&format!("\n{part}")).unwrap_or_default();
                assert!(after.len() > 20, "{word} lacks {part}");
                rest = after;
            }
        }
    }
    assert_eq!(sections.next(), None);
}

#[test]
fn no_reason_is_left_out_of_the_page() {
    for reason in Reason::ALL {
        assert!(KINDS.iter().any(|(kind, ..)| *kind == reason.kind()), "{reason}");
    }
}
