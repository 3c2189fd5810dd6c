//! `[revocation]`: whether and how it is learned that a certificate was revoked.

use std::time::Duration;

use super::reader::{Reader, Section, SwitchOrList};
use crate::trust::revocation::{Fetch, Mode, Settings, Source, Url};

const MIB: u64 = 1 << 20;

/// What `mode` may be; `None` is off.
const MODES: [(&str, Option<Mode>); 3] = [
    ("off", None),
    ("prefer", Some(Mode::Prefer)),
    ("require", Some(Mode::Require)),
];

/// `[revocation]`
///
/// - `mode`: `off`, `prefer` or `require`; required. Without the section it is off
/// - `order`: `["ocsp", "crl"]`, the default, or one of them, or the other way round: the first that knows is believed
/// - `crl`: PEM or DER files or folders with lists of revoked certificates. Read again when they change
/// - `ocsp_responder`: an `http://` URL that is asked instead of those in certificates
/// - `ocsp_nonce`: requests carry one, and a response that repeats another is refused. Default false
/// - `fetch`: whether URLs in certificates are followed: true (default), false, or a list of hosts
/// - `timeout`: how long a request waits for OCSP, and as long again for a list. Default 1 s. Too low: a responder that is
///   far away looks dead; too high: switches give up before the answer
/// - `max_age`: how long what was learned counts, where the source itself would allow more. Default 1 h. Too low: each
///   device is asked about again and again; too high: a revocation is noticed as late
/// - `max_stale`: how long after its nextUpdate a list still lets certificates in. Default 0. Too low: a CA that publishes
///   late takes the network with it; too high: so does a device that was revoked meanwhile
/// - `check_chain`: CAs below the trusted ones are looked at too. Default true
/// - `crl_max_bytes`: octets of the largest list. Default 64 MiB. Too low: a large list is refused; too high: memory
pub(super) fn take(reader: &mut Reader) -> Option<Settings> {
    let mut section = reader.section("revocation");
    let is_present = section.is_present();
    let place = section.place("mode");
    let is_written = section.has("mode");
    let mode = section.word("mode", &MODES);
    let (ms, second, day) = (
        Duration::from_millis(1),
        Duration::from_secs(1),
        Duration::from_secs(86_400),
    );
    let responder = section.parsed("ocsp_responder", "OCSP is spoken over plain HTTP", Url::configured);
    let settings = Settings {
        mode: mode.flatten().unwrap_or(Mode::Require),
        order: order(&mut section),
        crl: section.paths("crl").unwrap_or_default(),
        ocsp_responder: responder,
        ocsp_nonce: section.boolean("ocsp_nonce").unwrap_or(false),
        fetch: match section.switch_or_list("fetch") {
            None | Some(SwitchOrList::Switch(true)) => Fetch::Anywhere,
            Some(SwitchOrList::Switch(false)) => Fetch::Never,
            Some(SwitchOrList::List(hosts)) => Fetch::From(hosts),
        },
        timeout: section.duration("timeout", 50 * ms..=10 * second).unwrap_or(second),
        max_age: section
            .duration("max_age", 60 * second..=7 * day)
            .unwrap_or(3_600 * second),
        max_stale: section
            .duration("max_stale", Duration::ZERO..=30 * day)
            .unwrap_or(Duration::ZERO),
        check_chain: section.boolean("check_chain").unwrap_or(true),
        crl_max_octets: section.size("crl_max_bytes", MIB..=1_024 * MIB).unwrap_or(64 << 20),
    };
    if !is_present {
        return None;
    }
    match mode {
        Some(None) => return None,
        None if !is_written => section.missing(
            "mode",
            "write \"require\", or \"prefer\" to let in whom nothing can be learned of, or \"off\"",
        ),
        _ => {}
    }
    let can_know = |source: &Source| {
        settings.fetch != Fetch::Never
            || match source {
                Source::Ocsp => settings.ocsp_responder.is_some(),
                Source::Crl => !settings.crl.is_empty(),
            }
    };
    if !settings.order.iter().any(can_know) {
        let message = "cannot be kept: nobody is left who could be asked";
        section.complain_about(
            "mode",
            &place,
            message,
            "name `crl` or `ocsp_responder`, or let `fetch` be true",
        );
    }
    Some(settings)
}

fn order(section: &mut Section<'_>) -> Vec<Source> {
    let place = section.place("order");
    let Some(words) = section.strings("order") else {
        return Source::ALL.to_vec();
    };
    let mut order = Vec::new();
    for word in &words {
        match Source::ALL.into_iter().find(|source| source.word() == word) {
            Some(source) if !order.contains(&source) => order.push(source),
            Some(_) => section.complain_about("order", &place, &format!("names `{word}` twice"), ""),
            None => section.complain_about(
                "order",
                &place,
                &format!("names `{word}`, and may name \"ocsp\" and \"crl\""),
                "",
            ),
        }
    }
    if words.is_empty() {
        section.complain_about("order", &place, "is an empty list", "`mode = \"off\"` asks nobody");
    }
    order
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Config;

    fn read(text: &str) -> Result<Option<Settings>, String> {
        let config = Config::parse(Path::new("/etc/portreeve.toml"), text, []);
        config
            .map(|config| config.revocation)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn without_the_section_or_when_it_says_so_it_is_off() {
        assert!(read("").unwrap().is_none());
        assert!(
            read("[revocation]\nmode = \"off\"\ncrl = \"lists\"\n")
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn defaults_and_all_keys() {
        let least = read("[revocation]\nmode = \"require\"\n").unwrap().unwrap();
        assert_eq!(
            (least.mode, least.order),
            (Mode::Require, vec![Source::Ocsp, Source::Crl])
        );
        assert_eq!(
            (least.fetch, least.check_chain, least.ocsp_nonce),
            (Fetch::Anywhere, true, false)
        );
        assert_eq!(
            (least.timeout, least.max_age),
            (Duration::from_secs(1), Duration::from_secs(3_600))
        );
        assert_eq!((least.max_stale, least.crl_max_octets), (Duration::ZERO, 64 << 20));
        let all = "[revocation]\nmode = \"prefer\"\norder = \"crl\"\ncrl = [\"a.crl\", \"lists\"]\n\
             ocsp_responder = \"http://ocsp.example.com/x\"\nocsp_nonce = true\nfetch = [\"pki.example.com\"]\n\
             timeout = \"250ms\"\nmax_age = \"5m\"\nmax_stale = \"7d\"\ncheck_chain = false\ncrl_max_bytes = \"1MiB\"\n";
        let all = read(all).unwrap().unwrap();
        assert_eq!((all.mode, all.order), (Mode::Prefer, vec![Source::Crl]));
        assert_eq!(all.crl, [Path::new("/etc/a.crl"), Path::new("/etc/lists")]);
        assert_eq!(all.ocsp_responder.unwrap().to_string(), "http://ocsp.example.com/x");
        assert_eq!(all.fetch, Fetch::From(vec!["pki.example.com".to_owned()]));
        assert!(all.ocsp_nonce && !all.check_chain);
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for (lines, complaint) in [
            (
                "timeout = \"1s\"",
                "`mode` is missing in [revocation]\nhint: write \"require\", or \"prefer\"",
            ),
            (
                "mode = \"on\"",
                "`mode` is `on`, and may be \"off\" or \"prefer\" or \"require\"",
            ),
            (
                "mode = \"require\"\norder = [\"crl\", \"crl\"]",
                "toml:3: `order` names `crl` twice",
            ),
            ("mode = \"require\"\norder = []", "`order` is an empty list"),
            (
                "mode = \"require\"\norder = \"dns\"",
                "`order` names `dns`, and may name \"ocsp\" and \"crl\"",
            ),
            (
                "mode = \"require\"\nfetch = false",
                "toml:2: `mode` cannot be kept: nobody is left who could be asked",
            ),
            (
                "mode = \"prefer\"\norder = \"ocsp\"\nfetch = false\ncrl = \"x\"",
                "`mode` cannot be kept",
            ),
            (
                "mode = \"require\"\nocsp_responder = \"https://ocsp.example.com/\"",
                "`https://ocsp.example.com/` is no URL that begins with `http://`\nhint: OCSP is spoken over plain HTTP",
            ),
            (
                "mode = \"require\"\nfetch = 5",
                "`fetch` must be true or false, not `5`",
            ),
            (
                "mode = \"require\"\ntimeout = \"1m\"",
                "`timeout` is 1m, and may be 50ms to 10s",
            ),
        ] {
            let error = read(&format!("[revocation]\n{lines}\n")).unwrap_err();
            assert!(error.contains(complaint), "{lines}: {error}");
        }
    }
}
