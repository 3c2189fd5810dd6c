//! The Prometheus side of the metrics.

use std::sync::Arc;

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

use crate::server::metrics::{DURATION, Registry};

/// Upper bounds of the duration histogram, seconds: a MAB takes less than a millisecond, an EAP-TLS waits for the
/// supplicant, and nothing outlives a conversation's time.
const BUCKETS: [f64; 15] = [
    0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0,
];

/// Renders what was counted.
#[derive(Clone)]
pub struct Exporter(PrometheusHandle);

impl Exporter {
    /// An exporter, and the registry that feeds it.
    pub fn new() -> Result<(Exporter, Registry), BuildError> {
        let recorder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Full(DURATION.to_owned()), &BUCKETS)?
            .build_recorder();
        Ok((Exporter(recorder.handle()), Arc::new(recorder)))
    }

    /// The Prometheus text format, without what is [`NOT_SHOWN`](crate::server::metrics::NOT_SHOWN).
    pub fn render(&self) -> String {
        let text = self.0.render();
        match text.contains(" NaN\n") {
            true => text
                .split_inclusive('\n')
                .filter(|line| !line.ends_with(" NaN\n"))
                .collect(),
            false => text,
        }
    }

    /// Folds samples that wait into their histogram; without this, once in a while, they pile up between scrapes. It takes
    /// time in proportion to them.
    pub fn fold(&self) {
        self.0.run_upkeep();
    }
}

impl std::fmt::Debug for Exporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Exporter")
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::reason::Reason;
    use crate::server::metrics::{CacheResult, Metrics};
    use crate::server::record::{Authentication, Method, Outcome};

    /// Names and labels are a contract with dashboards: they are spelled out here.
    #[test]
    fn every_metric_has_its_name_and_labels() {
        let (exporter, registry) = Exporter::new().unwrap();
        let metrics = Metrics::new(registry);
        let mut record = Authentication::new(
            UNIX_EPOCH,
            "192.0.2.1".parse().unwrap(),
            Outcome::Accept,
            Reason::PolicyAccept,
        );
        record.method = Some(Method::EapTls);
        record.duration = Duration::from_millis(7);
        metrics.authentication(&record);
        metrics.authentication(&record);
        metrics.request(1);
        metrics.request(99);
        metrics.dropped(Reason::UnknownClient);
        metrics.kernel_drops(3);
        metrics.open_conversations(4);
        metrics.cache(CacheResult::Hit);
        metrics.replica("db-1", true, 0.25);
        metrics.policy_set(42, 1.5);
        metrics.expiring_client_certificates(3);
        metrics.certificates([("server", "CN=\"radius\"", 86_400.0)]);
        let text = exporter.render();
        for line in [
            "portreeve_requests_total{code=\"access-request\"} 1",
            "portreeve_requests_total{code=\"other\"} 1",
            "portreeve_requests_total{code=\"status-server\"} 0",
            "portreeve_authentications_total{method=\"eap-tls\",outcome=\"accept\",reason=\"policy-accept\"} 2",
            "portreeve_authentication_duration_seconds_bucket{method=\"eap-tls\",le=\"0.005\"} 0",
            "portreeve_authentication_duration_seconds_bucket{method=\"eap-tls\",le=\"0.01\"} 2",
            "portreeve_authentication_duration_seconds_count{method=\"eap-tls\"} 2",
            "portreeve_dropped_packets_total{reason=\"unknown-client\"} 1",
            "portreeve_dropped_packets_total{reason=\"overload\"} 0",
            "portreeve_kernel_drops_total 3",
            "portreeve_open_conversations 4",
            "portreeve_cache_requests_total{result=\"hit\"} 1",
            "portreeve_replica_up{replica=\"db-1\"} 1",
            "portreeve_replica_lag_seconds{replica=\"db-1\"} 0.25",
            "portreeve_revision 42",
            "portreeve_policy_age_seconds 1.5",
            "portreeve_expiring_client_certificates 3",
            "portreeve_certificate_expiry_seconds{kind=\"server\",subject=\"CN=\\\"radius\\\"\"} 86400",
        ] {
            assert!(text.lines().any(|have| have == line), "{line}\nin\n{text}");
        }
    }

    #[test]
    fn certificates_are_those_in_force() {
        let (exporter, registry) = Exporter::new().unwrap();
        let metrics = Metrics::new(registry);
        let shown = || {
            let text = exporter.render();
            let lines = text
                .lines()
                .filter_map(|line| line.strip_prefix("portreeve_certificate_expiry_seconds"));
            let mut lines: Vec<_> = lines.map(str::to_owned).collect();
            lines.sort();
            lines
        };
        metrics.certificates([
            ("server", "/CN=radius", 30.0),
            ("client-ca", "/CN=old", 20.0),
            ("client-ca", "/CN=renewed", 10.0),
            ("client-ca", "/CN=renewed", 1_000.0),
        ]);
        let old = "{kind=\"client-ca\",subject=\"/CN=old\"} 20";
        let renewed = "{kind=\"client-ca\",subject=\"/CN=renewed\"} 10";
        let server = "{kind=\"server\",subject=\"/CN=radius\"} 30";
        assert_eq!(shown(), [old, renewed, server]);
        metrics.certificates([("server", "/CN=radius", 30.0), ("client-ca", "/CN=renewed", 1_000.0)]);
        assert_eq!(shown(), [&renewed.replace(" 10", " 1000"), server]);
        metrics.certificates([("server", "/CN=radius", 30.0), ("client-ca", "/CN=old", 20.0)]);
        assert_eq!(shown(), [old, server], "and one that comes back is shown again");
    }
}
