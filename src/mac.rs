//! MAC addresses: every vendor's spelling in, one out.

/// A MAC address. Displayed as `aa-bb-cc-dd-ee-ff`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MacAddress(pub [u8; 6]);
