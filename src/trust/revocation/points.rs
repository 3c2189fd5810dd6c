//! Where lists are fetched: the distribution points that certificates have named, and when each is to be asked again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::RETRY;
use super::http::Url;
use super::target::IssuerId;
use crate::trust::verify::Link;

/// Points that are remembered. Certificates of one CA name the same few.
pub(super) const POINTS_MAX: usize = 256;
/// The longest pause after failures in a row.
const RETRY_MAX: Duration = Duration::from_secs(60);

/// A URL, and whose list is to lie there.
pub(super) type PointId = (IssuerId, Url);

/// All points.
#[derive(Debug, Default)]
pub(super) struct Points(Mutex<HashMap<PointId, Point>>);

#[derive(Debug)]
struct Point {
    /// A certificate that names it.
    link: Arc<Link>,
    /// When it is to be asked again.
    due: Instant,
    /// Since when it is being asked.
    asked: Option<Instant>,
    failures: u32,
    /// Why there was no list when it was last asked.
    error: Option<Arc<str>>,
}

/// What is to be expected of a point.
pub(super) enum Prospect {
    /// A list, before long.
    Soon,
    /// None for now; and why, where something went wrong.
    None(Option<Arc<str>>),
}

impl Points {
    /// Whether asking it would lead to a list while somebody waits so long.
    pub(super) fn prospect(&self, id: &PointId, wait: Duration) -> Prospect {
        let points = self.points();
        let Some(point) = points.get(id) else {
            return match points.len() < POINTS_MAX {
                true => Prospect::Soon,
                false => Prospect::None(Some(
                    format!("`{}` is one place too many to fetch lists from", id.1).into(),
                )),
            };
        };
        match point.asked {
            Some(asked) if asked.elapsed() < wait => Prospect::Soon,
            Some(_) => Prospect::None(Some(format!("the list at `{}` is still on its way", id.1).into())),
            None if point.due <= Instant::now() => Prospect::Soon,
            None => Prospect::None(point.error.clone()),
        }
    }

    /// Notes that a point is asked from now on, if it is to be; it gets its place when it is new.
    pub(super) fn begin(&self, id: &PointId, link: &Arc<Link>) -> bool {
        let now = Instant::now();
        let mut points = self.points();
        if !points.contains_key(id) && points.len() >= POINTS_MAX {
            return false;
        }
        let point = points.entry(id.clone()).or_insert_with(|| Point {
            link: Arc::clone(link),
            due: now,
            asked: None,
            failures: 0,
            error: None,
        });
        let is_due = point.asked.is_some() || point.due <= now;
        if is_due {
            point.asked.get_or_insert(now);
        }
        is_due
    }

    /// Notes what came of it: the time after which it is to be asked again, or why there was no list.
    pub(super) fn end(&self, id: &PointId, fetched: Result<Duration, String>) {
        let mut points = self.points();
        let Some(point) = points.get_mut(id) else { return };
        point.asked = None;
        match fetched {
            Ok(pause) => {
                let was_failing = point.error.take().is_some();
                (point.due, point.failures) = (Instant::now() + pause, 0);
                drop(points);
                if was_failing {
                    tracing::info!("the list at `{}` was fetched again", id.1);
                }
            }
            Err(why) => {
                let pause = RETRY.saturating_mul(1 << point.failures.min(8)).min(RETRY_MAX);
                (point.due, point.failures) = (Instant::now() + pause, point.failures.saturating_add(1));
                let error: Arc<str> = format!("`{}` {why}", id.1).into();
                let is_new = point.error.replace(Arc::clone(&error)).is_none_or(|last| last != error);
                drop(points);
                if is_new {
                    tracing::warn!(
                        hint = "the list in force stays; see that this machine reaches the URL, and that the CA publishes there",
                        "a list of revoked certificates was not fetched: {error}"
                    );
                }
            }
        }
    }

    /// Those that are to be asked, each with a certificate that names it.
    pub(super) fn due(&self) -> Vec<(PointId, Arc<Link>)> {
        let now = Instant::now();
        let points = self.points();
        let due = points
            .iter()
            .filter(|(_, point)| point.asked.is_none() && point.due <= now);
        due.map(|(id, point)| (id.clone(), Arc::clone(&point.link))).collect()
    }

    fn points(&self) -> MutexGuard<'_, HashMap<PointId, Point>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes all of them due.
    #[cfg(test)]
    pub(super) fn hurry(&self) {
        for point in self.points().values_mut() {
            point.due = Instant::now();
        }
    }
}
