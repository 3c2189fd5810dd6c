//! Attributes by dictionary: from a packet to typed values, and from a value to the octets of whole attributes.
//!
//! Between an attribute's octets and its value lie, in this order, its container (Vendor-Specific in every vendor's
//! format, RFC 2865 section 5.26; extended and long extended types, TLV and Extended-Vendor-Specific, RFC 6929), the joining of
//! what was split (`concat`, the More flag, WiMAX's continuation), the tag (RFC 2868 section 3.1) and the hiding (RFC 2865 section 5.2,
//! RFC 2868 section 3.5). The value itself is left to `value`, names and numbers to `dictionary`.
//!
//! Nothing here refuses a packet. RFC 6929 section 2.8: an "invalid attribute" in a packet "MUST NOT result in the
//! implementation discarding the entire packet"; it is reported as [`Malformed`] under its own name and its container's.

pub(in crate::radius) mod container;
mod decode;
mod encode;

pub use decode::{Found, for_each_value, visit};
pub use encode::{EncodeError, Item, encode_attribute, encode_items};

use super::crypto::{Salts, Secret};
use super::value::ValueError;

/// How many containers may hold each other. Dictionaries need 4, RFC 6929's examples 6.
pub const MAX_DEPTH: usize = 16;

/// What it takes to read hidden values.
#[derive(Clone, Copy, Debug)]
pub struct Revealing<'a> {
    /// The shared secret.
    pub secret: &'a Secret,
    /// The request's authenticator, for the values of its reply too.
    pub request_authenticator: &'a [u8; 16],
}

/// What it takes to write hidden values into one packet.
#[derive(Debug)]
pub struct Hiding<'a> {
    /// The shared secret.
    pub secret: &'a Secret,
    /// The request's authenticator, for the values of its reply too.
    pub request_authenticator: &'a [u8; 16],
    /// The packet's salts.
    pub salts: &'a mut Salts,
}

/// Why an attribute that is present has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Its octets are none of its type.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// It, or what holds it, isn't built as its format demands.
    #[error("{0}")]
    Structure(&'static str),
    /// It is hidden, and nobody gave the means to read it.
    #[error("hidden")]
    Hidden,
}

#[cfg(test)]
mod tests;
