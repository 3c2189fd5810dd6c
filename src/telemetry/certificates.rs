//! What a node notices of the devices' certificates that come by, beside letting them in or not: those that end soon, which
//! device came with which, so that none comes back by its MAC address, and whether all are out of date at once.
//!
//! All of it is the recorder thread's, behind the request path, and bounded.

mod dates;
mod devices;
mod expiring;

use std::sync::Arc;
use std::time::{Duration, Instant};

pub use devices::{Device, Devices};

use dates::Dates;
use expiring::Expiring;

use super::clock::HINT;
use crate::server::metrics::Metrics;
use crate::server::record::{Authentication, Method, Outcome};

/// The notices. Written by the recorder thread only.
#[derive(Debug)]
pub struct Certificates {
    devices: Arc<Devices>,
    expiring: Expiring,
    dates: Dates,
}

impl Certificates {
    /// `expiry_warning` is `[eap.tls] expiry_warning`.
    pub fn new(expiry_warning: Duration, devices: Arc<Devices>, metrics: Arc<Metrics>) -> Certificates {
        Certificates {
            devices,
            expiring: Expiring::new(expiry_warning, metrics),
            dates: Dates::default(),
        }
    }

    /// An authentication has finished. Its line says what is noticed of it.
    pub(super) fn see(&mut self, record: &mut Authentication) {
        if record.method != Some(Method::EapTls) {
            return;
        }
        let now = Instant::now();
        if record.outcome == Outcome::Accept {
            self.devices.accepted(record);
            self.expiring.accepted(record, now);
        }
        if let Some(complaint) = self.dates.see(record, now) {
            tracing::warn!(hint = HINT, "{complaint}");
        }
    }

    /// To be called now and then, also when nothing finishes.
    pub(super) fn tick(&mut self, now: Instant) {
        self.expiring.tick(now);
    }
}
