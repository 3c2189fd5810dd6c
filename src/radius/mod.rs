//! RADIUS: packets, attributes, dictionaries (RFC 2865, 2868, 2869, 6929).

pub mod dictionary;
pub mod value;
