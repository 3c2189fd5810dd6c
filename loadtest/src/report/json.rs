//! The summary, as JSON. Its keys stay: `docs/load.md` says what they mean.

use serde_json::{Map, Value, json};

use super::{Report, percentiles, response_times};
use crate::series::Point;

impl Report<'_> {
    pub fn json(&self) -> String {
        let (results, common) = (&self.results, self.devices.common());
        let tally = &results.tally;
        let failures: Vec<_> = tally
            .failures
            .iter()
            .map(|failures| {
                json!({
                    "kind": failures.kind.word(),
                    "wrong_answer": failures.kind.is_wrong_answer(),
                    "count": failures.count,
                    "example": failures.example,
                })
            })
            .collect();
        let handshakes: Vec<_> = tally
            .handshakes
            .iter()
            .map(|(handshake, count)| {
                json!({
                    "version": handshake.version.word(),
                    "cipher": handshake.cipher,
                    "resumed": handshake.resumed,
                    "count": count,
                })
            })
            .collect();
        let phases: Vec<_> = self
            .phases()
            .map(|(phase, counts)| {
                json!({
                    "name": phase.name,
                    "right": counts.right,
                    "failed": counts.failed,
                    "latency_us": latency(&counts.latency),
                })
            })
            .collect();
        let levels: Vec<_> = tally
            .levels
            .iter()
            .map(|(users, counts)| {
                let row = response_times(counts, self.buckets);
                let columns = self.buckets.iter().map(|bucket| json!(bucket.as_secs_f64() * 1e6));
                let buckets: Vec<_> = columns
                    .chain([Value::Null])
                    .zip(row)
                    .map(|(most, count)| json!({"up_to_us": most, "count": count}))
                    .collect();
                json!({"up_to_users": users, "right": counts.right, "failed": counts.failed, "buckets": buckets})
            })
            .collect();
        let server = results.server.map(|server| {
            json!({
                "processor_time_us": server.processor.as_secs_f64() * 1e6,
                "per_device_us": self.a_device(server.processor),
                "resident_bytes": server.resident,
            })
        });
        let steady = self.steady().map(|steady| {
            json!({
                "from_s": steady.from,
                "to_s": steady.to,
                "began_per_s": steady.began,
                "requests_per_s": steady.sent,
                "right_per_s": steady.right,
                "least_per_s": steady.least,
                "most_per_s": steady.most,
                "client_busy_s": steady.busy,
            })
        });
        let report = json!({
            "command": self.devices.word(),
            "target": common.target.to_string(),
            "plan": self.scenario.map(|scenario| &scenario.name),
            "concurrency": self.shared.most_open,
            "rate": common.rate,
            "elapsed_s": self.seconds(),
            "interrupted": results.interrupted,
            "passed": self.passed(),
            "accepted": tally.accepted,
            "refused": tally.refused,
            "failed": tally.failed,
            "unfinished": tally.unfinished,
            "wrong_answers": tally.wrong_answers(),
            "other_failures": tally.other_failures(),
            "max_failures": common.max_failures,
            "message_authenticator": common.message_authenticator.word(),
            "accepted_per_s": tally.accepted as f64 / self.seconds().max(f64::MIN_POSITIVE),
            "right_per_s": self.rate(),
            "latency_us": latency(&tally.latency),
            "start_delay_us": latency(&tally.start_delay),
            "requests": tally.requests,
            "retransmissions": tally.retransmissions,
            "duplicate_answers": tally.duplicate_answers,
            "lost_in_client": results.dropped,
            "not_taken": tally.not_taken,
            "held_back": tally.held_back,
            "answered": tally.answered,
            "answer_us": latency(&tally.answer),
            "steady": steady,
            "handshakes": handshakes,
            "processor_time_us": {
                "total": results.processor_time.as_secs_f64() * 1e6,
                "per_device": self.a_device(results.processor_time),
            },
            "server": server,
            "failures": failures,
            "phases": phases,
            "levels": levels,
            "series": results.series.points.iter().map(point).collect::<Vec<_>>(),
        });
        format!("{report:#}\n")
    }
}

/// Percentiles in microseconds; nothing where nothing was measured.
fn latency(histogram: &hdrhistogram::Histogram<u64>) -> Map<String, Value> {
    let measured = percentiles(histogram).into_iter().filter(|_| !histogram.is_empty());
    measured
        .map(|(name, nanoseconds)| (name.to_owned(), json!(nanoseconds / 1e3)))
        .collect()
}

fn point(point: &Point) -> Value {
    let failures: Map<_, _> = point
        .failures
        .iter()
        .map(|(kind, count)| (kind.word().to_owned(), json!(count)))
        .collect();
    let server = point.server.map(
        |server| json!({"processor_time_us": server.processor.as_secs_f64() * 1e6, "resident_bytes": server.resident}),
    );
    json!({
        "second": point.second,
        "seconds": point.seconds,
        "started": point.started,
        "requests": point.sent,
        "right": point.right,
        "failed": point.failed,
        "open": point.open,
        "latency_us": {"p50": point.p50 as f64 / 1e3, "p99": point.p99 as f64 / 1e3, "max": point.max as f64 / 1e3},
        "client_processor_time_us": point.client.processor.as_secs_f64() * 1e6,
        "server": server,
        "failures": failures,
    })
}
