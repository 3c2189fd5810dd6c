//! Source addresses: networks, ranges and single addresses, `127.1.0.0/16, 10.0.0.1..10.0.0.9, 10.0.1.1`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// The most addresses that are used at once: each costs some memory. Of more, so many are taken, evenly spread.
pub const MAX_SOURCES: u64 = 65_536;

/// Addresses of one family, numbered from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sources {
    ipv6: bool,
    /// First address, how many, and how many are in the ranges before; ascending, none touches the next.
    ranges: Vec<(u128, u128, u128)>,
    total: u128,
    /// Each so-manieth address is used.
    stride: u128,
}

impl Sources {
    /// All addresses of several sets.
    ///
    /// # Errors
    /// When they are of both families.
    pub fn union<'s>(sets: impl IntoIterator<Item = &'s Sources>) -> Result<Sources, String> {
        let (mut ranges, mut families) = (Vec::new(), Vec::new());
        for set in sets {
            ranges.extend(set.ranges.iter().map(|(first, count, _)| (*first, *count)));
            families.push(set.ipv6);
        }
        families.dedup();
        match families[..] {
            [ipv6] => Ok(Sources::new(ipv6, ranges)),
            [] => Err("there are none".to_owned()),
            _ => Err("they are IPv4 and IPv6 addresses".to_owned()),
        }
    }

    fn new(ipv6: bool, mut ranges: Vec<(u128, u128)>) -> Sources {
        ranges.sort_unstable();
        let mut merged: Vec<(u128, u128, u128)> = Vec::new();
        for (first, count) in ranges {
            match merged.last_mut() {
                Some((start, length, _)) if first - *start <= *length => {
                    *length = (*length).max(first - *start + count);
                }
                _ => {
                    let before = merged.last().map_or(0, |(_, count, before)| count + before);
                    merged.push((first, count, before));
                }
            }
        }
        let total = merged.last().map_or(0, |(_, count, before)| count + before);
        Sources {
            ipv6,
            ranges: merged,
            total,
            stride: u128::div_ceil(total, MAX_SOURCES.into()).max(1),
        }
    }

    /// How many are used.
    pub fn count(&self) -> usize {
        usize::try_from(self.total.div_ceil(self.stride)).unwrap_or(usize::MAX)
    }

    pub fn is_ipv6(&self) -> bool {
        self.ipv6
    }

    /// The address with that number; after the last the first comes again.
    pub fn at(&self, number: u64) -> IpAddr {
        let at = u128::from(number) % (self.count() as u128).max(1) * self.stride;
        let next = self.ranges.partition_point(|(_, _, before)| *before <= at);
        let range = next.checked_sub(1).and_then(|range| self.ranges.get(range));
        address(range.map_or(0, |(first, _, before)| first + (at - before)), self.ipv6)
    }

    /// The first so many of them.
    pub fn first(&self, most: u64) -> Sources {
        let mut left = u128::from(most);
        let ranges = self.ranges.iter().map(|(first, count, _)| {
            let taken = left.min(*count);
            left -= taken;
            (*first, taken)
        });
        Sources::new(self.ipv6, ranges.filter(|(_, count)| *count > 0).collect())
    }

    /// The number of an address that is used.
    pub fn number(&self, address: IpAddr) -> Option<usize> {
        let bits = bits(address);
        let next = self.ranges.partition_point(|(first, ..)| *first <= bits);
        let (first, count, before) = self.ranges.get(next.checked_sub(1)?)?;
        let at = bits - first;
        let is_used = at < *count && (before + at).is_multiple_of(self.stride) && address.is_ipv6() == self.ipv6;
        is_used.then(|| usize::try_from((before + at) / self.stride).ok())?
    }

    /// The first and the last address of each range.
    pub fn ends(&self) -> impl Iterator<Item = IpAddr> {
        let ends = self
            .ranges
            .iter()
            .flat_map(|(first, count, _)| [*first, first + count - 1]);
        ends.map(|bits| address(bits, self.ipv6))
    }
}

impl FromStr for Sources {
    type Err = String;

    fn from_str(text: &str) -> Result<Sources, String> {
        let one = |text: &str| {
            text.trim().parse::<IpAddr>().map_err(|_| {
                format!(
                    "`{}` is no address\nhint: write `127.0.0.0/8`, `10.0.0.1..10.0.0.9` or `10.0.0.1`",
                    text.trim()
                )
            })
        };
        let sets = text
            .split(',')
            .map(|item| match (item.split_once(".."), item.split_once('/')) {
                (Some((first, last)), _) => range(one(first)?, one(last)?)
                    .ok_or_else(|| format!("`{}` is no range: it ends before it begins", item.trim())),
                (None, Some((first, length))) => {
                    network(one(first)?, length.trim()).ok_or_else(|| format!("`{}` is no network", item.trim()))
                }
                (None, None) => {
                    let address = one(item)?;
                    Ok(Sources::new(address.is_ipv6(), vec![(bits(address), 1)]))
                }
            })
            .collect::<Result<Vec<_>, String>>()?;
        Sources::union(&sets)
    }
}

impl fmt::Display for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count() {
            1 => write!(f, "{}", self.at(0)),
            count => write!(f, "{count} addresses from {}", self.at(0)),
        }
    }
}

fn range(first: IpAddr, last: IpAddr) -> Option<Sources> {
    let count = bits(last).checked_sub(bits(first))?.checked_add(1)?;
    (first.is_ipv6() == last.is_ipv6()).then(|| Sources::new(first.is_ipv6(), vec![(bits(first), count)]))
}

/// The addresses of a network that a machine may have: in IPv4 not the first and the last, unless it has no others.
fn network(address: IpAddr, length: &str) -> Option<Sources> {
    let most = if address.is_ipv6() { 128 } else { 32 };
    let host_bits = most - length.parse::<u32>().ok().filter(|length| *length <= most)?;
    // no set of more than 2^64 is of use to anybody
    let count = 1_u128 << host_bits.min(64);
    let first = bits(address) & !(u128::MAX.checked_shr(128 - host_bits).unwrap_or(0));
    Some(Sources::new(
        address.is_ipv6(),
        match address.is_ipv4() && count > 2 {
            true => vec![(first + 1, count - 2)],
            false => vec![(first, count)],
        },
    ))
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn address(bits: u128, ipv6: bool) -> IpAddr {
    match ipv6 {
        true => Ipv6Addr::from_bits(bits).into(),
        false => Ipv4Addr::from_bits(u32::try_from(bits).unwrap_or_default()).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(text: &str) -> Sources {
        text.parse().unwrap()
    }

    #[test]
    fn addresses_have_numbers_in_their_order() {
        let set = sources("127.2.0.1, 127.1.0.254..127.1.1.1,127.1.0.255, 127.1.1.2");
        assert_eq!((set.count(), set.ranges.len()), (6, 2));
        let all: Vec<_> = (0..7).map(|number| set.at(number).to_string()).collect();
        let ends = ["1.0.254", "1.0.255", "1.1.0", "1.1.1", "1.1.2", "2.0.1", "1.0.254"];
        assert_eq!(all, ends.map(|end| format!("127.{end}")));
        for number in 0..6 {
            assert_eq!(set.number(set.at(number as u64)), Some(number));
        }
        let first = set.first(3);
        assert_eq!((first.count(), first.at(2), set.first(99)), (3, set.at(2), set.clone()));
        for other in ["127.1.0.253", "127.1.1.3", "127.2.0.2", "::1"] {
            assert_eq!(set.number(other.parse().unwrap()), None, "{other}");
        }
    }

    #[test]
    fn networks() {
        for (text, count, first) in [
            ("127.0.0.0/24", 254, "127.0.0.1"),
            ("127.0.0.77/24", 254, "127.0.0.1"),
            ("10.0.0.4/31", 2, "10.0.0.4"),
            ("10.0.0.4/32", 1, "10.0.0.4"),
            ("fd00::/120", 256, "fd00::"),
        ] {
            let set = sources(text);
            assert_eq!(
                (set.count(), set.at(0).to_string()),
                (count, first.to_owned()),
                "{text}"
            );
        }
        // spread over the whole network, and still found
        let wide = sources("127.0.0.0/8");
        assert!(wide.count() <= MAX_SOURCES as usize && wide.count() > MAX_SOURCES as usize * 9 / 10);
        assert_eq!(wide.at(1).to_string(), "127.0.1.1");
        assert_eq!(wide.number("127.0.1.1".parse().unwrap()), Some(1));
        assert_eq!(wide.number("127.0.1.2".parse().unwrap()), None);
        assert_eq!(sources("::/0").count(), MAX_SOURCES as usize);
    }

    #[test]
    fn what_is_no_set_of_addresses() {
        for text in [
            "",
            "host",
            "127.0.0.0/33",
            "10.0.0.9..10.0.0.1",
            "::1,127.0.0.1",
            "10.0.0.1..::1",
            "10.0.0.1,",
        ] {
            assert!(text.parse::<Sources>().is_err(), "{text}");
        }
    }
}
