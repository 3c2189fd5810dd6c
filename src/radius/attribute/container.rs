//! What containers hold, by their format alone: the attributes in a Vendor-Specific (RFC 2865 section 5.26), the TLVs in a TLV
//! (RFC 6929 section 2.3). No dictionary, no values.

use super::super::dictionary::types::{VendorFormat, VendorId};

/// Vendor-Specific's vendor, and what follows it.
pub(in super::super) fn split_vendor(octets: &[u8]) -> Option<(VendorId, &[u8])> {
    let (vendor, rest) = octets.split_first_chunk::<4>()?;
    Some((u32::from_be_bytes(*vendor), rest))
}

/// One attribute in a Vendor-Specific.
pub(in super::super) struct VendorAttribute<'a> {
    /// Its number among the vendor's.
    pub number: u32,
    /// `None` when its length is impossible; nothing follows it then.
    pub octets: Option<&'a [u8]>,
    /// It goes on in the vendor's next Vendor-Specific.
    pub more: bool,
}

/// The attributes in one Vendor-Specific, by the vendor's format. Ends after the first that is broken.
pub(in super::super) fn vendor_attributes(
    format: VendorFormat,
    octets: &[u8],
) -> impl Iterator<Item = VendorAttribute<'_>> {
    let mut rest = octets;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let here = std::mem::take(&mut rest);
        let big_endian = |octets: &[u8]| octets.iter().fold(0u32, |sum, &octet| sum << 8 | u32::from(octet));
        let type_octets = usize::from(format.type_octets);
        let Some((number, after)) = here.split_at_checked(type_octets) else {
            // Too short even for a type: no number to report it under.
            return Some(VendorAttribute {
                number: u32::MAX,
                octets: None,
                more: false,
            });
        };
        let number = big_endian(number);
        let broken = VendorAttribute {
            number,
            octets: None,
            more: false,
        };
        let Some((length, after)) = after.split_at_checked(format.length_octets.into()) else {
            return Some(broken);
        };
        let (flags, _) = match after.split_first() {
            Some((flags, after)) if format.continuation => (*flags, after),
            None if format.continuation => return Some(broken),
            _ => (0, after),
        };
        let header = type_octets + usize::from(format.length_octets) + usize::from(format.continuation);
        let length = if length.is_empty() {
            here.len()
        } else {
            big_endian(length) as usize
        };
        let Some((whole, after)) = here.split_at_checked(length) else {
            return Some(broken);
        };
        let more = flags & CONTINUED != 0;
        // What goes on in the next Vendor-Specific is the last in this one.
        let octets = whole.get(header..).filter(|_| !more || after.is_empty());
        if octets.is_some() {
            rest = after;
        }
        Some(VendorAttribute { number, octets, more })
    })
}

/// The TLVs in a container: type and value, `None` for one whose length is impossible (nothing follows it then). RFC 6929
/// section 2.3: the length "MUST have a value between 3 and 255".
pub(super) fn tlvs(octets: &[u8]) -> impl Iterator<Item = (u8, Option<&[u8]>)> {
    let mut rest = octets;
    std::iter::from_fn(move || {
        let here = std::mem::take(&mut rest);
        let (&number, after) = here.split_first()?;
        let length = after.first().copied().map(usize::from).filter(|&length| length >= 3);
        let Some((whole, after)) = length.and_then(|length| here.split_at_checked(length)) else {
            return Some((number, None));
        };
        rest = after;
        Some((number, whole.get(2..)))
    })
}

/// WiMAX: another part of the attribute follows in the next Vendor-Specific.
pub(super) const CONTINUED: u8 = 0x80;
