//! From a packet to values.

use std::borrow::Cow;

use super::super::crypto;
use super::super::dictionary::Dictionary;
use super::super::dictionary::types::{
    AttributeId, DataType, Definition, Encryption, Parent, Value, VendorFormat, VendorId,
};
use super::super::packet::{Attributes, MAX_VALUE_OCTETS, Packet, RawAttribute, number};
use super::super::value;
use super::container::{VendorAttribute, split_vendor, tlvs, vendor_attributes};
use super::{MAX_DEPTH, Malformed, Revealing};

/// One thing found in a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// An attribute of the dictionary. One with several values is found several times.
    Known {
        /// Which.
        id: AttributeId,
        /// Its tag, 1 to 31, where it has one.
        tag: Option<u8>,
        /// Its value.
        value: Result<Value<'a>, Malformed>,
    },
    /// Octets of an attribute, or of all attributes of a vendor, that the dictionary does not know.
    Unknown {
        /// Where its number counts.
        parent: Parent,
        /// Its number there. `None` for an unknown vendor: its format isn't known either.
        number: Option<u32>,
        /// All that is there.
        octets: Cow<'a, [u8]>,
    },
}

/// Calls `f` for each value of each attribute that the dictionary knows and that is `wanted`, in the packet's order: the
/// attribute, its tag, its value. What was split is joined where its first part stands. Hidden attributes are reported as
/// malformed: see [`visit`] to read them.
pub fn for_each_value<'a>(
    dictionary: &Dictionary,
    packet: &Packet<'a>,
    wanted: &dyn Fn(AttributeId) -> bool,
    mut f: impl FnMut(AttributeId, Option<u8>, Result<Value<'a>, Malformed>),
) {
    let decoder = Decoder {
        dictionary,
        revealing: None,
        wanted,
    };
    decoder.packet(packet, &mut |found| {
        if let Found::Known { id, tag, value } = found
            && wanted(id)
        {
            f(id, tag, value);
        }
    });
}

/// Calls `f` for everything in the packet, known or not; with `revealing` hidden values are read.
pub fn visit<'a>(
    dictionary: &Dictionary,
    packet: &Packet<'a>,
    revealing: Option<Revealing<'_>>,
    f: &mut dyn FnMut(Found<'a>),
) {
    let decoder = Decoder {
        dictionary,
        revealing,
        wanted: &|_| true,
    };
    decoder.packet(packet, f);
}

/// Up to which offset the parts of an attribute belong to a series that was joined before. Empty in most packets.
#[derive(Default)]
struct Joined(Vec<(Series, usize)>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Series {
    Attribute(u8),
    Vendor(VendorId),
}

impl Joined {
    fn covers(&self, series: Series, offset: usize) -> bool {
        self.0
            .iter()
            .any(|(known, through)| *known == series && offset <= *through)
    }

    fn set(&mut self, series: Series, through: usize) {
        match self.0.iter_mut().find(|(known, _)| *known == series) {
            Some(entry) => entry.1 = through,
            None => self.0.push((series, through)),
        }
    }
}

type Emit<'e, 'x> = &'e mut dyn FnMut(Found<'x>);

#[derive(Clone, Copy)]
struct Decoder<'d> {
    dictionary: &'d Dictionary,
    revealing: Option<Revealing<'d>>,
    /// Values of no others are decoded.
    wanted: &'d dyn Fn(AttributeId) -> bool,
}

impl<'d> Decoder<'d> {
    fn packet<'a>(&self, packet: &Packet<'a>, emit: Emit<'_, 'a>) {
        let mut joined = Joined::default();
        let mut attributes = packet.attributes();
        while let Some(attribute) = attributes.next() {
            self.attribute(attribute, &attributes, &mut joined, emit);
        }
    }

    fn attribute<'a>(
        &self,
        attribute: RawAttribute<'a>,
        later: &Attributes<'a>,
        joined: &mut Joined,
        emit: Emit<'_, 'a>,
    ) {
        let RawAttribute { number, value, offset } = attribute;
        if number == number::VENDOR_SPECIFIC {
            return self.vendor_specific(value, offset, later, joined, emit);
        }
        let Some(definition) = self.find(Parent::Root, number.into()) else {
            return emit(unknown(Parent::Root, Some(number.into()), value));
        };
        if joined.covers(Series::Attribute(number), offset) {
            return;
        }
        match definition.data_type {
            DataType::Extended { long: false } => match value {
                // RFC 6929 section 2.1: of a length of 2 or 3 it "MUST be considered to be an invalid attribute"
                [] | [_] => self.extended_malformed(definition, value.first().copied(), emit),
                [extended_type, octets @ ..] => self.extended(definition, *extended_type, octets, emit),
            },
            DataType::Extended { long: true } => {
                self.long_extended(definition, attribute, later, joined, emit);
            }
            _ if definition.flags.concat => {
                let mut parts = later.clone().filter(|part| part.number == number).peekable();
                if parts.peek().is_none() {
                    return self.value(definition, value, 0, emit);
                }
                let mut octets = value.to_vec();
                for part in parts {
                    octets.extend_from_slice(part.value);
                    joined.set(Series::Attribute(number), part.offset);
                }
                self.value(definition, &octets, 0, &mut |found| emit(found.into_owned()));
            }
            _ => self.value(definition, value, 0, emit),
        }
    }

    /// RFC 6929 section 2.2. Fragments may have attributes of other types between them, none of their own.
    fn long_extended<'a>(
        &self,
        container: &Definition,
        attribute: RawAttribute<'a>,
        later: &Attributes<'a>,
        joined: &mut Joined,
        emit: Emit<'_, 'a>,
    ) {
        // "If a client or server receives a Long Extended Type with a Length of 2, 3, or 4, then that Attribute MUST be
        // considered to be an invalid attribute"
        let &[extended_type, flags, ref octets @ ..] = attribute.value else {
            return self.extended_malformed(container, attribute.value.first().copied(), emit);
        };
        if octets.is_empty() {
            return self.extended_malformed(container, Some(extended_type), emit);
        }
        if flags & MORE == 0 {
            return self.extended(container, extended_type, octets, emit);
        }
        // "When the More field is set (1), the Attribute MUST have a Length field of value 255"
        let mut whole = attribute.value.len() == MAX_VALUE_OCTETS;
        let mut more = true;
        let mut octets = octets.to_vec();
        for part in later.clone().filter(|part| part.number == attribute.number) {
            // "the next attribute MUST have both the same Type and Extended Type"
            let &[part_type, flags, ref part_octets @ ..] = part.value else {
                break;
            };
            if part_type != extended_type || part_octets.is_empty() {
                break;
            }
            octets.extend_from_slice(part_octets);
            joined.set(Series::Attribute(attribute.number), part.offset);
            more = flags & MORE != 0;
            if !more {
                break;
            }
            whole &= part.value.len() == MAX_VALUE_OCTETS;
        }
        // "for which no subsequent fragment can be found, then the fragmented attribute is considered to be an invalid
        // attribute"
        if more || !whole {
            return self.extended_malformed(container, Some(extended_type), emit);
        }
        self.extended(container, extended_type, &octets, &mut |found| emit(found.into_owned()));
    }

    fn extended<'x>(&self, container: &Definition, extended_type: u8, octets: &'x [u8], emit: Emit<'_, 'x>) {
        let parent = Parent::Attribute(container.id);
        match self.find(parent, extended_type.into()) {
            Some(definition) => self.value(definition, octets, 1, emit),
            None => emit(unknown(parent, Some(extended_type.into()), octets)),
        }
    }

    fn extended_malformed(&self, container: &Definition, extended_type: Option<u8>, emit: Emit<'_, '_>) {
        emit(malformed(container, EXTENDED));
        let parent = Parent::Attribute(container.id);
        if let Some(definition) = extended_type.and_then(|number| self.find(parent, number.into())) {
            emit(malformed(definition, EXTENDED));
        }
    }

    /// Attribute 26: a vendor's number and, when the vendor is known, its attributes.
    fn vendor_specific<'a>(
        &self,
        octets: &'a [u8],
        offset: usize,
        later: &Attributes<'a>,
        joined: &mut Joined,
        emit: Emit<'_, 'a>,
    ) {
        let Some((vendor, octets)) = split_vendor(octets).filter(|(_, octets)| !octets.is_empty()) else {
            return self.vendor_specific_malformed(emit);
        };
        if self.dictionary.vendor_name(vendor).is_none() {
            return emit(unknown(Parent::Vendor(vendor), None, octets));
        }
        if joined.covers(Series::Vendor(vendor), offset) {
            return;
        }
        let format = self.dictionary.vendor_format(vendor);
        let parent = Parent::Vendor(vendor);
        // The structure first: values of a container that is broken further on are not trusted either.
        let whole = vendor_attributes(format, octets).all(|entry| entry.octets.is_some());
        if !whole {
            self.vendor_specific_malformed(emit);
        }
        for VendorAttribute { number, octets, more } in vendor_attributes(format, octets) {
            let octets = match octets.filter(|_| whole) {
                None => Err(VENDOR),
                Some(octets) if !more => Ok(Cow::Borrowed(octets)),
                Some(octets) => {
                    let octets = join_vendor(format, vendor, number, octets, later, joined);
                    octets.map(Cow::Owned).ok_or(CONTINUATION)
                }
            };
            match (self.find(parent, number), octets) {
                (Some(definition), Ok(Cow::Borrowed(octets))) => self.value(definition, octets, 1, emit),
                (Some(definition), Ok(Cow::Owned(octets))) => {
                    self.value(definition, &octets, 1, &mut |found| emit(found.into_owned()));
                }
                (Some(definition), Err(reason)) => emit(malformed(definition, reason)),
                (None, Ok(octets)) => emit(Found::Unknown {
                    parent,
                    number: Some(number),
                    octets,
                }),
                (None, Err(_)) => {}
            }
        }
    }

    fn vendor_specific_malformed(&self, emit: Emit<'_, '_>) {
        if let Some(container) = self.find(Parent::Root, number::VENDOR_SPECIFIC.into()) {
            emit(malformed(container, VENDOR));
        }
    }

    /// What an attribute holds: more attributes, or a value.
    fn value<'x>(&self, definition: &Definition, octets: &'x [u8], depth: usize, emit: Emit<'_, 'x>) {
        match definition.data_type {
            _ if depth > MAX_DEPTH => emit(malformed(definition, DEPTH)),
            DataType::Tlv => self.tlvs(definition, octets, depth, emit),
            DataType::ExtendedVendorSpecific => self.extended_vendor_specific(definition, octets, depth, emit),
            _ => match array_element_octets(definition) {
                Some(size) if !octets.is_empty() && octets.len().is_multiple_of(size) => {
                    octets
                        .chunks(size)
                        .for_each(|octets| self.scalar(definition, octets, emit));
                }
                _ => self.scalar(definition, octets, emit),
            },
        }
    }

    /// RFC 6929 section 2.3. "If a client or server receives a TLV with an invalid TLV-Length, then the Attribute that
    /// encapsulates that TLV MUST be considered to be an invalid attribute".
    fn tlvs<'x>(&self, container: &Definition, octets: &'x [u8], depth: usize, emit: Emit<'_, 'x>) {
        let parent = Parent::Attribute(container.id);
        let whole = !octets.is_empty() && tlvs(octets).all(|(_, octets)| octets.is_some());
        if !whole {
            emit(malformed(container, TLV));
        }
        for (number, octets) in tlvs(octets) {
            match (self.find(parent, number.into()), octets.filter(|_| whole)) {
                (Some(definition), Some(octets)) => self.value(definition, octets, depth + 1, emit),
                (Some(definition), None) => emit(malformed(definition, TLV)),
                (None, Some(octets)) => emit(unknown(parent, Some(number.into()), octets)),
                (None, None) => {}
            }
        }
    }

    /// RFC 6929 section 2.4: a vendor's number, a type octet, and one octet or more.
    fn extended_vendor_specific<'x>(&self, container: &Definition, octets: &'x [u8], depth: usize, emit: Emit<'_, 'x>) {
        let Some((vendor, [number, octets @ ..])) = split_vendor(octets) else {
            return emit(malformed(container, EXTENDED_VENDOR));
        };
        let parent = Parent::ExtendedVendor(container.id, vendor);
        let definition = self.find(parent, (*number).into());
        if octets.is_empty() {
            emit(malformed(container, EXTENDED_VENDOR));
            return definition
                .into_iter()
                .for_each(|definition| emit(malformed(definition, EXTENDED_VENDOR)));
        }
        match definition {
            Some(definition) => self.value(definition, octets, depth + 1, emit),
            None => emit(unknown(parent, Some((*number).into()), octets)),
        }
    }

    /// Tag, hiding, value.
    fn scalar<'x>(&self, definition: &Definition, octets: &'x [u8], emit: Emit<'_, 'x>) {
        if !(self.wanted)(definition.id) {
            return;
        }
        let (tag, octets) = match untag(definition, octets) {
            Ok(untagged) => untagged,
            Err(reason) => return emit(malformed(definition, reason)),
        };
        let value = match octets {
            Cow::Borrowed(octets) => self.reveal(definition, octets),
            Cow::Owned(octets) => self.reveal(definition, &octets).map(owned),
        };
        emit(Found::Known {
            id: definition.id,
            tag,
            value,
        });
    }

    fn reveal<'x>(&self, definition: &Definition, octets: &'x [u8]) -> Result<Value<'x>, Malformed> {
        if definition.flags.encryption == Encryption::None {
            return Ok(value::decode(definition, octets)?);
        }
        let Revealing {
            secret,
            request_authenticator,
        } = self.revealing.ok_or(Malformed::Hidden)?;
        let not_hidden = Malformed::Structure(HIDDEN);
        match definition.flags.encryption {
            Encryption::None => Ok(value::decode(definition, octets)?),
            Encryption::UserPassword => {
                let plain = crypto::reveal_user_password(octets, secret, request_authenticator).ok_or(not_hidden)?;
                Ok(owned(value::decode(definition, plain.as_bytes())?))
            }
            Encryption::TunnelPassword => {
                let plain = crypto::reveal_tunnel_password(octets, secret, request_authenticator).ok_or(not_hidden)?;
                Ok(owned(value::decode(definition, &plain)?))
            }
            Encryption::AscendSecret => {
                let plain = crypto::ascend_secret(octets, secret, request_authenticator).ok_or(not_hidden)?;
                let padding = plain.iter().rev().take_while(|&&octet| octet == 0).count();
                let plain = plain.get(..plain.len() - padding).unwrap_or_default();
                Ok(owned(value::decode(definition, plain)?))
            }
        }
    }

    fn find(&self, parent: Parent, number: u32) -> Option<&'d Definition> {
        Some(self.dictionary.definition(self.dictionary.by_number(parent, number)?))
    }
}

/// RFC 6929 section 2.2.
const MORE: u8 = 0x80;
const EXTENDED: &str = "an extended attribute is empty, or a fragment of it is missing";
const VENDOR: &str = "the attributes in Vendor-Specific are longer than it, or shorter than their headers";
const CONTINUATION: &str = "a part of the vendor's attribute is missing";
const TLV: &str = "the TLVs in it are longer than it, or empty";
const EXTENDED_VENDOR: &str = "it has no room for a vendor, a type and a value";
const DEPTH: &str = "it is nested too deep";
const TAG: &str = "it has no room for a tag";
const HIDDEN: &str = "it is not hidden as its type is, or with another secret";

/// RFC 2868 section 3.1: in text and octets a first octet up to 0x1F is a tag, above it is data ("If the value of the Tag field
/// is greater than 0x1F, it SHOULD be interpreted as the first byte of the following String field"); in a number the first
/// of four is always the tag's, a value outside 0x01 to 0x1F means none; before a hidden value there is always one.
fn untag<'x>(definition: &Definition, octets: &'x [u8]) -> Result<(Option<u8>, Cow<'x, [u8]>), &'static str> {
    if !definition.flags.has_tag {
        return Ok((None, Cow::Borrowed(octets)));
    }
    let is_hidden = definition.flags.encryption != Encryption::None;
    let is_number = definition.data_type == DataType::Integer && !is_hidden;
    match octets {
        // Of another length it is malformed, and has no tag.
        &[tag, a, b, c] if is_number => Ok((valid_tag(tag), Cow::Owned(vec![0, a, b, c]))),
        _ if is_number => Ok((None, Cow::Borrowed(octets))),
        [first, rest @ ..] if is_hidden || *first <= MAX_TAG => Ok((valid_tag(*first), Cow::Borrowed(rest))),
        [] if is_hidden => Err(TAG),
        _ => Ok((None, Cow::Borrowed(octets))),
    }
}

/// RFC 2868 section 3.1: "Valid values for this field are 0x01 through 0x1F, inclusive."
pub(super) const MAX_TAG: u8 = 0x1F;

fn valid_tag(octet: u8) -> Option<u8> {
    (1..=MAX_TAG).contains(&octet).then_some(octet)
}

/// Octets of each value in an attribute that packs several.
fn array_element_octets(definition: &Definition) -> Option<usize> {
    let size = match definition.data_type {
        DataType::Byte => 1,
        DataType::Short => 2,
        DataType::Integer | DataType::Signed | DataType::Date | DataType::Ipv4 => 4,
        DataType::Ether => 6,
        DataType::Integer64 | DataType::InterfaceId => 8,
        DataType::Ipv6 => 16,
        DataType::Octets(Some(size)) => size.into(),
        _ => return None,
    };
    (definition.flags.array && size > 0).then_some(size)
}

/// Joins a vendor's attribute over the Vendor-Specifics of that vendor that follow. `None` when a part is missing.
fn join_vendor<'a>(
    format: VendorFormat,
    vendor: VendorId,
    number: u32,
    first: &[u8],
    later: &Attributes<'a>,
    joined: &mut Joined,
) -> Option<Vec<u8>> {
    let mut octets = first.to_vec();
    for attribute in later
        .clone()
        .filter(|attribute| attribute.number == number::VENDOR_SPECIFIC)
    {
        let Some((_, value)) = split_vendor(attribute.value).filter(|(found, _)| *found == vendor) else {
            continue;
        };
        let mut parts = vendor_attributes(format, value);
        let part = parts.next().filter(|part| part.number == number)?;
        // A part stands alone in its Vendor-Specific.
        let part_octets = part.octets.filter(|_| parts.next().is_none())?;
        octets.extend_from_slice(part_octets);
        joined.set(Series::Vendor(vendor), attribute.offset);
        if !part.more {
            return Some(octets);
        }
    }
    None
}

fn unknown(parent: Parent, number: Option<u32>, octets: &[u8]) -> Found<'_> {
    Found::Unknown {
        parent,
        number,
        octets: Cow::Borrowed(octets),
    }
}

fn malformed<'x>(definition: &Definition, reason: &'static str) -> Found<'x> {
    Found::Known {
        id: definition.id,
        tag: None,
        value: Err(Malformed::Structure(reason)),
    }
}

impl Found<'_> {
    /// Without borrowing from the packet.
    pub fn into_owned<'x>(self) -> Found<'x> {
        match self {
            Found::Known { id, tag, value } => Found::Known {
                id,
                tag,
                value: value.map(owned),
            },
            Found::Unknown { parent, number, octets } => Found::Unknown {
                parent,
                number,
                octets: Cow::Owned(octets.into_owned()),
            },
        }
    }
}

fn owned<'x>(value: Value<'_>) -> Value<'x> {
    match value {
        Value::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
        Value::Octets(octets) => Value::Octets(Cow::Owned(octets.into_owned())),
        Value::Unsigned(number) => Value::Unsigned(number),
        Value::Signed(number) => Value::Signed(number),
        Value::Date(seconds) => Value::Date(seconds),
        Value::Address(address) => Value::Address(address),
        Value::Prefix(prefix) => Value::Prefix(prefix),
        Value::InterfaceId(octets) => Value::InterfaceId(octets),
        Value::Mac(mac) => Value::Mac(mac),
    }
}
