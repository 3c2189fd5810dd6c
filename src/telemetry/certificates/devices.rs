//! Which devices authenticated by certificate lately, for `portreeve check`: one whose address is listed for MAC
//! authentication as well would come back by it after its certificate was revoked.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::mac::MacAddress;
use crate::server::record::{Authentication, Text};

/// How long a device is remembered that comes no more, in seconds.
const KEPT_SECONDS: u64 = 30 * 86_400;
/// Devices that are remembered: 6 MB. With more, those go that came longest ago.
const DEVICES_MAX: usize = 50_000;
/// Octets kept of what a certificate is called.
const NAME_OCTETS_MAX: usize = 120;

/// The memory. Written by the recorder thread only; gone with the process.
#[derive(Debug)]
pub struct Devices {
    since: u64,
    memory: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    /// Tags of sites, so that each is there once.
    sites: BTreeSet<Arc<[u8]>>,
    devices: HashMap<(Arc<[u8]>, MacAddress), Seen>,
}

#[derive(Debug)]
struct Seen {
    at: u64,
    certificate: Box<[u8]>,
}

/// A device that was let in by its certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// The site's tag.
    pub site: String,
    /// Its address, as the switch gave it.
    pub mac: MacAddress,
    /// Common name and serial number.
    pub certificate: String,
    /// When it was last, in Unix seconds.
    pub last: u64,
}

impl Devices {
    /// A memory that begins now.
    pub fn new(now: SystemTime) -> Devices {
        Devices {
            since: seconds(now),
            memory: Mutex::default(),
        }
    }

    /// When it began, in Unix seconds: who came before is not known.
    pub fn since(&self) -> u64 {
        self.since
    }

    /// Those that came within the last 30 days before `now`, by site and address.
    pub fn list(&self, now: SystemTime) -> Vec<Device> {
        let now = seconds(now);
        let mut all: Vec<Device> = {
            let memory = self.memory();
            let kept = memory.devices.iter().filter(|(_, seen)| seen.is_recent(now));
            kept.map(|((site, mac), seen)| Device {
                site: text(site),
                mac: *mac,
                certificate: text(&seen.certificate),
                last: seen.at,
            })
            .collect()
        };
        all.sort_by(|one, other| (&one.site, one.mac).cmp(&(&other.site, other.mac)));
        all
    }

    /// A device was let in by its certificate.
    pub(super) fn accepted(&self, record: &Authentication) {
        let (Some(site), Some(mac)) = (record.text(Text::Site), record.mac) else {
            return;
        };
        let certificate = name(record);
        let at = seconds(record.time);
        let mut memory = self.memory();
        let site = memory.site(site);
        if memory.devices.len() >= DEVICES_MAX && !memory.devices.contains_key(&(Arc::clone(&site), mac)) {
            memory.make_room(at);
        }
        memory.devices.insert((site, mac), Seen { at, certificate });
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    fn site(&mut self, tag: &[u8]) -> Arc<[u8]> {
        if let Some(known) = self.sites.get(tag) {
            return Arc::clone(known);
        }
        let site: Arc<[u8]> = tag.into();
        self.sites.insert(Arc::clone(&site));
        site
    }

    /// Forgets those that are too old, and else the eighth that came longest ago.
    fn make_room(&mut self, now: u64) {
        self.devices.retain(|_, seen| seen.is_recent(now));
        if self.devices.len() >= DEVICES_MAX {
            let mut times: Vec<u64> = self.devices.values().map(|seen| seen.at).collect();
            let (_, oldest, _) = times.select_nth_unstable(DEVICES_MAX / 8);
            let oldest = *oldest;
            let mut left = DEVICES_MAX / 8;
            self.devices.retain(|_, seen| {
                let goes = seen.at <= oldest && left > 0;
                left -= usize::from(goes);
                !goes
            });
        }
        // what no device names is named by this set alone
        self.sites.retain(|site| Arc::strong_count(site) > 1);
    }
}

impl Seen {
    /// One in the future is recent: the clock was put back.
    fn is_recent(&self, now: u64) -> bool {
        now.saturating_sub(self.at) <= KEPT_SECONDS
    }
}

/// What a certificate is called: `laptop-7, serial 0abc`.
fn name(record: &Authentication) -> Box<[u8]> {
    let octets = |text| record.text(text).unwrap_or_default();
    let mut name = octets(Text::Cn).to_vec();
    name.truncate(NAME_OCTETS_MAX);
    name.extend_from_slice(b", serial ");
    name.extend(octets(Text::Serial).iter().take(NAME_OCTETS_MAX));
    name.into()
}

fn text(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).into_owned()
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::reason::Reason;
    use crate::server::record::Outcome;

    fn at(second: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(second)
    }

    fn record(second: u64, site: &'static str, number: u32) -> Authentication {
        let mut record = Authentication::new(
            at(second),
            "192.0.2.1".parse().unwrap(),
            Outcome::Accept,
            Reason::PolicyAccept,
        );
        let [a, b, c, d] = number.to_be_bytes();
        record.mac = Some(MacAddress([2, 0, a, b, c, d]));
        record.texts.set(Text::Site, site.as_bytes());
        record.texts.set(Text::Cn, b"laptop-7");
        record.texts.set(Text::Serial, b"0abc");
        record
    }

    #[test]
    fn the_last_visit_of_each_device_at_each_site_is_remembered() {
        let devices = Devices::new(at(1));
        for (second, site, number) in [(10, "leeds", 1), (20, "york", 1), (30, "leeds", 2), (40, "leeds", 1)] {
            devices.accepted(&record(second, site, number));
        }
        let mut nowhere = record(50, "leeds", 3);
        nowhere.mac = None;
        devices.accepted(&nowhere);
        let list = devices.list(at(100));
        let seen: Vec<_> = list
            .iter()
            .map(|device| (&*device.site, device.mac.0[5], device.last))
            .collect();
        assert_eq!(seen, [("leeds", 1, 40), ("leeds", 2, 30), ("york", 1, 20)]);
        assert_eq!(list[0].certificate, "laptop-7, serial 0abc");
        assert_eq!(devices.list(at(35 + KEPT_SECONDS)).len(), 1);
        assert_eq!(devices.list(at(0)).len(), 3, "the clock was put back");
        assert_eq!(devices.since(), 1);
    }

    #[test]
    fn memory_is_bounded_and_the_latest_stay() {
        let devices = Devices::new(at(0));
        let count = u32::try_from(DEVICES_MAX + DEVICES_MAX / 2).unwrap();
        for number in 0..count {
            let site = if number < 100 { "old" } else { "new" };
            devices.accepted(&record(u64::from(number), site, number));
            assert!(devices.memory().devices.len() <= DEVICES_MAX);
        }
        let list = devices.list(at(u64::from(count)));
        assert!(list.len() > DEVICES_MAX * 3 / 4);
        assert!(list.iter().all(|device| device.site == "new"));
        assert_eq!(list.iter().map(|device| device.last).max(), Some(u64::from(count) - 1));
        assert_eq!(devices.memory().sites.len(), 1);
        // the same second for all is no reason to forget all
        for number in 0..count {
            devices.accepted(&record(u64::from(count), "same", number));
        }
        assert!(devices.list(at(u64::from(count))).len() > DEVICES_MAX * 3 / 4);
    }
}
