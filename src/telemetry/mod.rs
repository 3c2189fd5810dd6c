//! What operators see: log lines, metrics, the last attempts, and the signals they send.
//!
//! Nothing here can hold up an authentication. The request path hands a record to a bounded queue
//! ([`crate::server::record::Sink`]); the *recorder* thread takes it from there, counts it, remembers it for
//! `portreeve why`, looks at its certificate and formats its line into a bounded buffer; the *output* thread writes that buffer. Only the output
//! thread ever waits for a slow pipe or a full disk, and what is lost meanwhile is counted and said.

pub mod attempts;
pub mod certificates;
pub mod clock;
pub mod escape;
pub mod exporter;
pub mod line;
pub mod log;
pub mod output;
pub mod recorder;
pub mod signals;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use attempts::Attempts;
use certificates::{Certificates, Devices};
use exporter::Exporter;
use output::Output;
use recorder::{Learners, Recorder};

use crate::config::Config;
use crate::server::metrics::Metrics;
use crate::server::record::Sink;

/// The telemetry of one node, started and wired.
#[derive(Debug)]
pub struct Telemetry {
    /// Where finished authentications go.
    pub sink: Sink,
    /// Where the request path counts.
    pub metrics: Arc<Metrics>,
    /// What `portreeve why` asks.
    pub attempts: Arc<Attempts>,
    /// What `portreeve check` asks.
    pub devices: Arc<Devices>,
    /// What `/metrics` renders.
    pub exporter: Exporter,
    recorder: Recorder,
    output: Output,
}

impl Telemetry {
    /// Starts the threads and sends the process's operational log to standard error.
    pub fn start(config: &Config) -> io::Result<Telemetry> {
        let (node, format) = (&config.node.name, config.log.format);
        let output = Output::stderr(log::lost_notice(format))?;
        log::install(output.clone(), format, node, &config.log.level);
        Telemetry::to(output, config)
    }

    /// As [`Telemetry::start`], to any output, and without the operational log.
    pub fn to(output: Output, config: &Config) -> io::Result<Telemetry> {
        let (exporter, registry) = Exporter::new().map_err(io::Error::other)?;
        let metrics = Arc::new(Metrics::new(registry));
        let attempts = Arc::new(Attempts::default());
        let (sink, records) = Sink::channel(Sink::CAPACITY);
        let (node, format) = (&config.node.name, config.log.format);
        let devices = Arc::new(Devices::new(SystemTime::now()));
        let expiry_warning = config.eap_tls.as_ref().map(|tls| tls.expiry_warning);
        let learners = Learners {
            metrics: Arc::clone(&metrics),
            fold: Box::new({
                let exporter = exporter.clone();
                move || exporter.fold()
            }),
            attempts: Arc::clone(&attempts),
            certificates: Certificates::new(
                expiry_warning.unwrap_or_default(),
                Arc::clone(&devices),
                Arc::clone(&metrics),
            ),
        };
        let recorder = Recorder::start(records, node, format, learners, output.clone())?;
        Ok(Telemetry {
            sink,
            metrics,
            attempts,
            devices,
            exporter,
            recorder,
            output,
        })
    }

    /// Writes what is left and ends, within `patience`: to be called last, before the process ends. Whether everything
    /// was written.
    pub fn close(self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        let recorded = self.recorder.close(patience);
        self.output.close(deadline.saturating_duration_since(Instant::now())) && recorded
    }
}
