//! What a dictionary knows of an attribute: name, number, type, flags.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An attribute of the dictionary it came from: an index, small and copied freely.
/// Facts, rules and responses name attributes by it, never by a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AttributeId(pub(crate) u32);

/// An IANA private enterprise number.
pub type VendorId = u32;

/// The data types of FreeRADIUS dictionaries (RFC 2865 section 5, RFC 6929 section 2, RFC 8044), under one name each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DataType {
    /// UTF-8 text.
    Text,
    /// Octets; `octets[n]` has a fixed length.
    Octets(Option<u16>),
    /// Unsigned, 1 octet (`byte`, `uint8`, `bool`).
    Byte,
    /// Unsigned, 2 octets (`short`, `uint16`).
    Short,
    /// Unsigned, 4 octets (`integer`, `uint32`, `time_delta`).
    Integer,
    /// Unsigned, 8 octets (`integer64`, `uint64`).
    Integer64,
    /// Signed, 4 octets (`signed`, `int32`).
    Signed,
    /// Seconds since 1970, 4 octets.
    Date,
    /// An IPv4 address.
    Ipv4,
    /// An IPv4 prefix (RFC 6572 form).
    Ipv4Prefix,
    /// An IPv6 address.
    Ipv6,
    /// An IPv6 prefix (RFC 3162).
    Ipv6Prefix,
    /// An IPv4 or an IPv6 address, told apart by length.
    ComboIp,
    /// An IPv6 interface identifier (RFC 3162), 8 octets.
    InterfaceId,
    /// A MAC address, 6 octets (`ether`).
    Ether,
    /// Ascend's binary filter: octets.
    AscendBinary,
    /// A container of other attributes (RFC 6929 section 2.3).
    Tlv,
    /// Vendor-Specific (`vsa`), the container that attribute 26 and 241.26 and so on are.
    VendorSpecific,
    /// Extended-Vendor-Specific (`evs`).
    ExtendedVendorSpecific,
    /// A container of RFC 6929 (`extended`, `long-extended`): 241 to 244 and 245 to 246.
    Extended {
        /// With the flags octet and continuation of RFC 6929 section 2.2.
        long: bool,
    },
    /// A type this software does not decode (`struct`, `union` …): its octets are kept.
    Opaque,
}

/// How an attribute's value is hidden on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Encryption {
    /// It is not.
    #[default]
    None,
    /// RFC 2865 section 5.2 (`encrypt=1`).
    UserPassword,
    /// RFC 2868 section 3.5, with a salt (`encrypt=2`): Tunnel-Password, MS-MPPE keys.
    TunnelPassword,
    /// Ascend's secret (`encrypt=3`).
    AscendSecret,
}

/// Flags of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Flags {
    /// Carries a tag octet (RFC 2868 section 3.1).
    pub has_tag: bool,
    /// How it is hidden.
    pub encryption: Encryption,
    /// Split over several attributes and joined again (EAP-Message).
    pub concat: bool,
    /// Several values packed in one attribute.
    pub array: bool,
    /// Never on the wire: a fact of this software, or a server's internal attribute.
    pub internal: bool,
}

/// A vendor's attribute format (`format=type,length[,c]`): octets of the type field, of the length field, and
/// whether a continuation octet follows (WiMAX).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VendorFormat {
    /// 1, 2 or 4.
    pub type_octets: u8,
    /// 0, 1 or 2.
    pub length_octets: u8,
    /// A continuation octet follows the length.
    pub continuation: bool,
}

/// What an attribute's number counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Parent {
    /// RADIUS's own space of 1 to 255.
    Root,
    /// A vendor's space inside attribute 26.
    Vendor(VendorId),
    /// A vendor's space inside an Extended-Vendor-Specific attribute (241.26 …).
    ExtendedVendor(AttributeId, VendorId),
    /// Inside a TLV or extended attribute.
    Attribute(AttributeId),
    /// Never on the wire.
    Internal,
}

/// An attribute's definition.
#[derive(Clone, Debug)]
pub struct Definition {
    /// Its index.
    pub id: AttributeId,
    /// `Tunnel-Private-Group-Id`, in the dictionary's own spelling.
    pub name: Box<str>,
    /// Where its number counts.
    pub parent: Parent,
    /// Its number there.
    pub number: u32,
    /// Its type.
    pub data_type: DataType,
    /// Its flags.
    pub flags: Flags,
    /// Named values (`VALUE NAS-Port-Type Ethernet 15`), in definition order.
    pub values: Vec<(Box<str>, i64)>,
}

/// A value of one attribute, typed by the dictionary. Text and octets are borrowed from the packet where they can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// Text; from the wire it is what the sender sent, checked to be UTF-8.
    Text(std::borrow::Cow<'a, str>),
    /// Octets.
    Octets(std::borrow::Cow<'a, [u8]>),
    /// Any unsigned number.
    Unsigned(u64),
    /// A signed number.
    Signed(i64),
    /// Seconds since 1970.
    Date(u32),
    /// An address.
    Address(IpAddr),
    /// A prefix; host bits are zero.
    Prefix(ipnet::IpNet),
    /// An interface identifier.
    InterfaceId([u8; 8]),
    /// A MAC address.
    Mac(crate::mac::MacAddress),
}

impl From<Ipv4Addr> for Value<'_> {
    fn from(address: Ipv4Addr) -> Self {
        Value::Address(address.into())
    }
}

impl From<Ipv6Addr> for Value<'_> {
    fn from(address: Ipv6Addr) -> Self {
        Value::Address(address.into())
    }
}
