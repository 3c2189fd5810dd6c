//! By which EAP method a device got in last, where it is not the one that is offered first: offered at once, it saves the
//! device a Nak, and so a round trip of each authentication (RFC 3748, 5.3.1).
//!
//! It is a guess and nothing more: what is forgotten, or mistaken for another device, costs that Nak. So the table has one
//! place for each of many devices, no lock, and room for as many as it will ever have.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::eap::method::{Method, Methods};

/// Devices that are remembered, at most: 512 KB. Too few: devices push each other out, and send a Nak; too many: memory.
const PLACES: usize = 1 << 16;

/// The bits of a place that name the method; the others are the device's hash.
const METHOD: u64 = 0b11;

/// The methods by which devices got in last, by Calling-Station-Id.
pub struct Preferences {
    hasher: RandomState,
    /// Zero where nothing is known.
    places: Box<[AtomicU64]>,
}

impl Preferences {
    /// `methods` with the one before the others by which the device got in last. An empty Calling-Station-Id is no device's.
    pub fn order(&self, methods: Methods, calling_station: &[u8]) -> Methods {
        let known = self.place(calling_station).and_then(|(place, device)| {
            let known = place.load(Ordering::Relaxed);
            (known & !METHOD == device).then_some(known & METHOD)
        });
        match known.and_then(method) {
            Some(method) => methods.beginning_with(method),
            None => methods,
        }
    }

    /// The device got in by `used`, where these `methods` are allowed.
    pub fn remember(&self, methods: Methods, calling_station: &[u8], used: Method) {
        let Some((number, (place, device))) =
            number(used).and_then(|number| Some((number, self.place(calling_station)?)))
        else {
            return;
        };
        if methods.iter().next() != Some(used) {
            place.store(device | number, Ordering::Relaxed);
        } else if place.load(Ordering::Relaxed) & !METHOD == device {
            // nothing has to be known of most devices
            place.store(0, Ordering::Relaxed);
        }
    }

    /// A device's place, and its hash.
    fn place(&self, calling_station: &[u8]) -> Option<(&AtomicU64, u64)> {
        if calling_station.is_empty() {
            return None;
        }
        let hash = self.hasher.hash_one(calling_station);
        let index = usize::try_from(hash >> 32).ok()? % PLACES;
        Some((self.places.get(index)?, hash & !METHOD))
    }
}

impl Default for Preferences {
    fn default() -> Preferences {
        Preferences {
            hasher: RandomState::new(),
            places: std::iter::repeat_with(AtomicU64::default).take(PLACES).collect(),
        }
    }
}

impl std::fmt::Debug for Preferences {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Preferences").finish_non_exhaustive()
    }
}

/// What stands for a method by which a certificate is shown.
const fn number(method: Method) -> Option<u64> {
    match method {
        Method::Md5 => None,
        Method::Tls => Some(1),
        Method::Ttls => Some(2),
        Method::Peap => Some(3),
    }
}

const fn method(number: u64) -> Option<Method> {
    match number {
        1 => Some(Method::Tls),
        2 => Some(Method::Ttls),
        3 => Some(Method::Peap),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &[u8] = b"02-00-00-00-00-01";

    fn first(preferences: &Preferences, methods: Methods, device: &[u8]) -> Method {
        preferences.order(methods, device).iter().next().unwrap()
    }

    #[test]
    fn a_device_is_offered_first_what_it_got_in_by_last() {
        let preferences = Preferences::default();
        let used = [Method::Peap, Method::Ttls, Method::Tls, Method::Peap];
        for method in used {
            preferences.remember(Methods::ALL, ONE, method);
            assert_eq!(first(&preferences, Methods::ALL, ONE), method);
            assert_eq!(preferences.order(Methods::ALL, ONE).iter().count(), 3);
            // that is nothing to another device, nor to all those that name none
            assert_eq!(first(&preferences, Methods::ALL, b"02-00-00-00-00-02"), Method::Tls);
            preferences.remember(Methods::ALL, b"", method);
            assert_eq!(first(&preferences, Methods::ALL, b""), Method::Tls);
        }
        // what is not allowed is not offered, whatever was once used
        assert_eq!(preferences.order(Methods::TLS, ONE), Methods::TLS);
        let tunnels = Methods::new(&[Method::Ttls, Method::Peap]).unwrap();
        assert_eq!(first(&preferences, tunnels, ONE), Method::Peap);
        // MAC authentication says nothing of certificates
        preferences.remember(Methods::ALL, ONE, Method::Md5);
        assert_eq!(first(&preferences, Methods::ALL, ONE), Method::Peap);
    }

    #[test]
    fn devices_that_use_the_first_method_push_nobody_out() {
        let preferences = Preferences::default();
        preferences.remember(Methods::ALL, ONE, Method::Peap);
        for other in 0..4 * PLACES as u32 {
            preferences.remember(Methods::ALL, &other.to_be_bytes(), Method::Tls);
        }
        assert_eq!(first(&preferences, Methods::ALL, ONE), Method::Peap);
        // and those that do are forgotten in time, not piled up
        let others = (0..4 * PLACES as u32).map(u32::to_be_bytes);
        for other in others.clone() {
            preferences.remember(Methods::ALL, &other, Method::Ttls);
        }
        let known = others.filter(|other| first(&preferences, Methods::ALL, other) == Method::Ttls);
        assert!((PLACES / 2..=PLACES).contains(&known.count()));
    }
}
