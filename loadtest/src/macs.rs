//! Lists of MAC addresses: `02-00-00-00-00-01, 001b.7801.0203..001b.7801.02ff`, in any spelling.

use std::str::FromStr;

use portreeve::mac::MacAddress;

/// MAC addresses in order, as ranges: a list of millions costs nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MacList {
    /// First address and how many, at least one.
    ranges: Vec<(u64, u64)>,
    total: u64,
}

impl MacList {
    /// The address of a device: after the last the first comes again.
    pub fn at(&self, device: u64) -> MacAddress {
        let mut at = device % self.total.max(1);
        for (first, count) in &self.ranges {
            if at < *count {
                return MacAddress::from_u64(first + at);
            }
            at -= count;
        }
        MacAddress([0; 6])
    }
}

impl FromStr for MacList {
    type Err = String;

    fn from_str(text: &str) -> Result<MacList, String> {
        let mac = |text: &str| {
            MacAddress::parse(text.trim().as_bytes())
                .map(MacAddress::to_u64)
                .ok_or_else(|| format!("`{}` is no MAC address\nhint: write `aa-bb-cc-dd-ee-ff`", text.trim()))
        };
        let mut ranges = Vec::new();
        for item in text.split(',') {
            let (first, last) = match item.split_once("..") {
                Some((first, last)) => (mac(first)?, mac(last)?),
                None => (mac(item)?, mac(item)?),
            };
            let count = last
                .checked_sub(first)
                .ok_or_else(|| format!("the range `{}` ends before it begins", item.trim()))?
                + 1;
            ranges.push((first, count));
        }
        let total = ranges.iter().map(|(_, count)| count).sum();
        Ok(MacList { ranges, total })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges_are_walked_in_order_and_begin_again() {
        let list: MacList = "020000000009, 02:00:00:00:00:fe..02-00-00-00-01-01,0200.0000.0001"
            .parse()
            .unwrap();
        assert_eq!(list.total, 6);
        let macs: Vec<_> = (0..7).map(|device| list.at(device).to_string()).collect();
        let ends = ["00-09", "00-fe", "00-ff", "01-00", "01-01", "00-01", "00-09"];
        assert_eq!(macs, ends.map(|end| format!("02-00-00-00-{end}")));
        assert_eq!(list.at(u64::MAX), list.at(u64::MAX % 6));
    }

    #[test]
    fn what_is_no_list() {
        for text in [
            "",
            "printer",
            "020000000009,",
            "020000000009..020000000001",
            "020000000001..",
        ] {
            assert!(text.parse::<MacList>().is_err(), "{text}");
        }
    }
}
