//! Lists of MAC addresses: `02-00-00-00-00-01, 001b.7801.0203..001b.7801.02ff`, in any spelling, or `@FILE` with such lists.

use std::fs;
use std::str::FromStr;

use portreeve::mac::MacAddress;

/// The largest file that is read, in octets: some millions of addresses.
const MOST_FILE_OCTETS: u64 = 256 << 20;

/// MAC addresses in order, as ranges: a list of millions in a row costs nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MacList {
    /// First address, how many, and how many are in the ranges before.
    ranges: Vec<(u64, u64, u64)>,
    total: u64,
}

impl MacList {
    /// The address of a device: after the last the first comes again.
    pub fn at(&self, device: u64) -> MacAddress {
        let at = device % self.total.max(1);
        let next = self.ranges.partition_point(|(_, _, before)| *before <= at);
        match next.checked_sub(1).and_then(|range| self.ranges.get(range)) {
            Some((first, _, before)) => MacAddress::from_u64(first + (at - before)),
            None => MacAddress([0; 6]),
        }
    }

    /// Adds a list with commas between.
    fn add(&mut self, text: &str) -> Result<(), String> {
        let mac = |text: &str| {
            MacAddress::parse(text.trim().as_bytes())
                .map(MacAddress::to_u64)
                .ok_or_else(|| format!("`{}` is no MAC address\nhint: write `aa-bb-cc-dd-ee-ff`", text.trim()))
        };
        for item in text.split(',') {
            let (first, last) = match item.split_once("..") {
                Some((first, last)) => (mac(first)?, mac(last)?),
                None => (mac(item)?, mac(item)?),
            };
            let count = last
                .checked_sub(first)
                .ok_or_else(|| format!("the range `{}` ends before it begins", item.trim()))?
                + 1;
            match self.ranges.last_mut() {
                Some((start, length, _)) if *start + *length == first => *length += count,
                _ => self.ranges.push((first, count, self.total)),
            }
            self.total += count;
        }
        Ok(())
    }

    /// A file has a list on each line; what follows a `#` is a comment.
    fn read(path: &str) -> Result<MacList, String> {
        let cannot = |error: std::io::Error| format!("cannot read `{path}`: {error}");
        if fs::metadata(path).map_err(cannot)?.len() > MOST_FILE_OCTETS {
            return Err(format!("`{path}` has more than {MOST_FILE_OCTETS} octets"));
        }
        let text = fs::read_to_string(path).map_err(cannot)?;
        let mut list = MacList {
            ranges: Vec::new(),
            total: 0,
        };
        for (line, number) in text.lines().zip(1..) {
            let addresses = line.split_once('#').map_or(line, |(before, _)| before).trim();
            if !addresses.is_empty() {
                list.add(addresses)
                    .map_err(|error| format!("`{path}`, line {number}: {error}"))?;
            }
        }
        match list.total {
            0 => Err(format!("no MAC address is in `{path}`")),
            _ => Ok(list),
        }
    }
}

/// The twelve digits of an address, as switches mostly send them for a user's name.
pub fn digits(mac: MacAddress) -> [u8; 12] {
    let number = mac.to_u64();
    std::array::from_fn(|at| match (number >> (44 - 4 * at)) as u8 & 0x0f {
        digit @ 0..=9 => b'0' + digit,
        digit => b'a' + digit - 10,
    })
}

impl FromStr for MacList {
    type Err = String;

    fn from_str(text: &str) -> Result<MacList, String> {
        if let Some(path) = text.strip_prefix('@') {
            return MacList::read(path);
        }
        let mut list = MacList {
            ranges: Vec::new(),
            total: 0,
        };
        list.add(text)?;
        Ok(list)
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
    fn a_file_has_lists_on_its_lines() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let list = |text: &str| {
            fs::write(file.path(), text).unwrap();
            format!("@{}", file.path().display()).parse::<MacList>()
        };
        let macs = list("# printers\n02-00-00-00-00-01\n\n020000000002..020000000004, 020000000009 # a row\n").unwrap();
        assert_eq!((macs.total, macs.ranges.len()), (5, 2));
        assert_eq!(macs.at(4).to_string(), "02-00-00-00-00-09");
        let error = list("02-00-00-00-00-01\nprinter\n").unwrap_err();
        assert!(error.contains(", line 2: `printer` is no MAC address"), "{error}");
        assert!(list("# nothing\n").is_err() && "@/no/such/file".parse::<MacList>().is_err());
    }

    #[test]
    fn digits_are_lower_case() {
        let mac = MacAddress([0x02, 0x9a, 0xbc, 0xde, 0xf0, 0x01]);
        assert_eq!(&digits(mac), b"029abcdef001");
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
