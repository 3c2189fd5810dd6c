//! What a node looks after beside requests: the ends of its certificates, and its clock.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::time::{MissedTickBehavior, interval_at};

use super::node::unix_seconds;
use crate::config::Config;
use crate::telemetry::clock::{Event, HINT, Watch};
use crate::trust::TrustStore;
use crate::trust::check::{Finding, Severity, findings};

/// How often a certificate that ends is warned of.
pub(super) const DAY: Duration = Duration::from_secs(86_400);
/// Between two looks at the clock.
const LOOK: Duration = Duration::from_secs(1);

/// Says for ever, `every` so often, which of the node's certificates end soon, have ended or not begun. The first time is
/// after the first `every`: the start has said it.
pub(super) async fn remind(
    trust: Arc<TrustStore>,
    expiry_warning: Duration,
    every: Duration,
    mut say: impl FnMut(Finding),
) {
    let mut times = interval_at(tokio::time::Instant::now() + every, every);
    times.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        times.tick().await;
        let sets = trust.current();
        let found = findings(
            sets.iter().map(|set| &**set),
            unix_seconds(SystemTime::now()),
            expiry_warning,
        );
        found
            .into_iter()
            .filter(|finding| finding.is_of_dates)
            .for_each(&mut say);
    }
}

/// Writes a finding to the log.
pub(super) fn say(finding: Finding) {
    let Finding {
        severity, text, hint, ..
    } = finding;
    match severity {
        Severity::Note => {}
        Severity::Warning => tracing::warn!(hint, "{text}"),
        Severity::Error => tracing::error!(hint, "{text}"),
    }
}

/// Looks at the clock for ever.
pub(super) async fn clock(trust: Arc<TrustStore>, files: Vec<PathBuf>) {
    let mut watch = Watch::default();
    let mut looks = interval_at(tokio::time::Instant::now(), LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        let complaint = watch.look(Instant::now(), SystemTime::now(), || events(&trust, &files));
        if let Some(complaint) = complaint {
            tracing::warn!(hint = HINT, "{complaint}");
        }
    }
}

/// The files whose dates a right clock is not behind of: what was installed, configured, or written by a node before.
pub(super) fn files(config: &Config) -> Vec<PathBuf> {
    let sets = config.eap_tls.iter().flat_map(|tls| {
        let profiles = tls.profiles.iter().map(|profile| &profile.settings);
        std::iter::once(&tls.default).chain(profiles)
    });
    let certificates = sets.flat_map(|set| {
        let files = set.certificates.iter().map(|files| &files.certificate);
        files.chain(&set.client_ca).cloned()
    });
    let saved = config.cache.saved.iter().map(|saved| saved.path().to_owned());
    let own = [Some(config.file.clone()), std::env::current_exe().ok()];
    own.into_iter().flatten().chain(saved).chain(certificates).collect()
}

fn events(trust: &TrustStore, files: &[PathBuf]) -> Vec<Event> {
    let written = files.iter().filter_map(|file| {
        let at = fs::metadata(file).and_then(|metadata| metadata.modified()).ok()?;
        let what = format!("`{}` was written", file.display());
        Some(Event { what, at })
    });
    let sets = trust.current();
    let issued = sets.iter().flat_map(|set| set.servers()).filter_map(|server| {
        let since_1970 = Duration::from_secs(u64::try_from(server.summary.not_before).ok()?);
        let what = format!("the server's certificate `{}` begins", server.path.display());
        Some(Event {
            what,
            at: UNIX_EPOCH.checked_add(since_1970)?,
        })
    });
    written.chain(issued).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trust::{Clock, Settings, pki};

    /// A set whose certificates end in 824 days.
    fn trust(dir: &std::path::Path) -> Arc<TrustStore> {
        let files = pki::init(dir, pki::Names::default(), unix_seconds(SystemTime::now())).unwrap();
        let settings = Settings::new(files.server, files.server_key, vec![files.ca]);
        Arc::new(TrustStore::load(settings, Vec::new(), Arc::new(Clock)).unwrap())
    }

    #[tokio::test]
    async fn an_end_that_is_near_is_said_again_and_again() {
        let dir = tempfile::tempdir().unwrap();
        let trust = trust(dir.path());
        for (warning, is_said) in [(DAY * 900, true), (DAY * 30, false), (Duration::ZERO, false)] {
            let mut said = Vec::new();
            let reminding = remind(Arc::clone(&trust), warning, Duration::from_millis(20), |finding| {
                said.push(finding.text);
            });
            let _ = tokio::time::timeout(Duration::from_millis(500), reminding).await;
            let count = said
                .iter()
                .filter(|text| text.contains("the server certificate `"))
                .count();
            assert_eq!(count > 1, is_said, "{warning:?}: {said:?}");
            assert!(said.iter().all(|text| text.contains(" expires in ")), "{said:?}");
        }
    }

    #[test]
    fn what_has_happened_is_read_from_files_and_certificates() {
        let dir = tempfile::tempdir().unwrap();
        let trust = trust(dir.path());
        let file = dir.path().join("written");
        fs::write(&file, "").unwrap();
        let events = events(&trust, &[file, dir.path().join("missing")]);
        let what: Vec<_> = events.iter().map(|event| event.what.as_str()).collect();
        assert_eq!(what.len(), 2, "{what:?}");
        assert!(what[0].ends_with("written` was written") && what[1].ends_with("server.pem` begins"));
        assert!(events.iter().all(|event| event.at <= SystemTime::now()));
    }
}
