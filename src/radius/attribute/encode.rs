//! From values to the octets of whole attributes.

use super::super::crypto::{self, TooLongToHide};
use super::super::dictionary::Dictionary;
use super::super::dictionary::types::{AttributeId, DataType, Definition, Encryption, Parent, Value, VendorId};
use super::super::packet::{HEADER_OCTETS, MAX_PACKET_OCTETS, MAX_VALUE_OCTETS, number};
use super::super::value::{self, ValueError};
use super::container::CONTINUED;
use super::decode::MAX_TAG;
use super::{Hiding, MAX_DEPTH};

/// A value to write.
#[derive(Clone, Copy, Debug)]
pub struct Item<'v> {
    /// Of which attribute.
    pub id: AttributeId,
    /// Its tag; `None` and 0 mean none.
    pub tag: Option<u8>,
    /// The value.
    pub value: &'v Value<'v>,
}

/// Why a value cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// It is no value of the attribute.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// The attribute takes no tag, or not that one.
    #[error("`{name}` takes {} tag `{tag}`", if *takes_tags { "tags 0 to 31, not" } else { "no tag, so not" })]
    Tag {
        /// Of the attribute.
        name: Box<str>,
        /// Whether it takes any.
        takes_tags: bool,
        /// What was asked for.
        tag: u8,
    },
    /// It does not fit, and the attribute's format has no way to split it.
    #[error("a value of {octets} octets does not fit `{name}`: at most {most} do")]
    TooLong {
        /// Of the attribute.
        name: Box<str>,
        /// Octets of the value as it would stand in the attribute.
        octets: usize,
        /// The most that fit.
        most: usize,
    },
    /// It is too long to be hidden.
    #[error(transparent)]
    Hide(#[from] TooLongToHide),
    /// It is hidden on the wire, under the secret and the authenticator of one packet: write it when the packet is written.
    #[error("`{0}` is hidden with the client's secret, and there is none here")]
    NeedsSecret(Box<str>),
    /// It is a fact of this software, or of another server's, or one that only holds others.
    #[error("`{0}` cannot be sent in a packet")]
    NotOnTheWire(Box<str>),
}

/// Appends one value as a whole attribute, or as several where its format splits long values (`concat`, long extended
/// types, WiMAX's continuation). On an error `out` is as it was. Hidden attributes need `hiding`.
pub fn encode_attribute(
    dictionary: &Dictionary,
    id: AttributeId,
    tag: Option<u8>,
    value: &Value<'_>,
    hiding: Option<Hiding<'_>>,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    encode_items(dictionary, &[Item { id, tag, value }], hiding, out)
}

/// Appends values in order, each as [`encode_attribute`] does, except that neighbours inside one TLV share it as long as they
/// fit: `241.2 { 1 23 45 } { 2 67 89 }`. Devices that read a TLV as one record need that.
pub fn encode_items(
    dictionary: &Dictionary,
    items: &[Item<'_>],
    mut hiding: Option<Hiding<'_>>,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let start = out.len();
    let mut encoder = Encoder {
        dictionary,
        out,
        open: Vec::new(),
    };
    let mut result = Ok(());
    for item in items {
        result = result.and_then(|()| encoder.item(item, &mut hiding));
    }
    result = result.and_then(|()| encoder.close_to(0));
    if result.is_err() {
        out.truncate(start);
    }
    result
}

struct Encoder<'d, 'o> {
    dictionary: &'d Dictionary,
    out: &'o mut Vec<u8>,
    /// The TLVs being filled, outermost first.
    open: Vec<Open<'d>>,
}

struct Open<'d> {
    definition: &'d Definition,
    octets: Vec<u8>,
}

impl<'d> Encoder<'d, '_> {
    fn item(&mut self, item: &Item<'_>, hiding: &mut Option<Hiding<'_>>) -> Result<(), EncodeError> {
        let definition = self.dictionary.definition(item.id);
        let containers = self.containers(definition)?;
        let mut octets = Vec::new();
        scalar(definition, item.tag, item.value, hiding, &mut octets)?;
        if containers.is_empty() {
            self.close_to(0)?;
            return self.whole(definition, &octets);
        }
        let shared = self
            .open
            .iter()
            .zip(&containers)
            .take_while(|(open, wanted)| open.definition.id == wanted.id)
            .count();
        self.close_to(shared)?;
        if !self.fits(octets.len() + 2 + 2 * (containers.len() - shared)) {
            self.close_to(0)?;
        }
        for definition in containers.into_iter().skip(self.open.len()) {
            self.open.push(Open {
                definition,
                octets: Vec::new(),
            });
        }
        match self.open.last_mut() {
            Some(container) => append_tlv(&mut container.octets, definition, &octets),
            None => Err(EncodeError::NotOnTheWire(definition.name.clone())),
        }
    }

    /// The TLVs around an attribute, outermost first; of the outermost the parent is no TLV.
    fn containers(&self, definition: &'d Definition) -> Result<Vec<&'d Definition>, EncodeError> {
        let mut containers = Vec::new();
        let mut inner = definition;
        while let Parent::Attribute(id) = inner.parent {
            let container = self.dictionary.definition(id);
            if container.data_type != DataType::Tlv {
                break;
            }
            if containers.len() == MAX_DEPTH {
                return Err(EncodeError::NotOnTheWire(definition.name.clone()));
            }
            containers.push(container);
            inner = container;
        }
        containers.reverse();
        Ok(containers)
    }

    /// Whether the innermost open TLV can take `more` octets without any of those around it growing too long.
    fn fits(&self, more: usize) -> bool {
        let mut octets = more;
        self.open.iter().rev().all(|open| {
            octets += open.octets.len();
            let fits = octets <= self.most(open.definition);
            octets += 2;
            fits
        })
    }

    /// Closes the innermost TLVs until only `depth` are open.
    fn close_to(&mut self, depth: usize) -> Result<(), EncodeError> {
        while self.open.len() > depth {
            let Some(Open { definition, octets }) = self.open.pop() else {
                break;
            };
            match self.open.last_mut() {
                Some(container) => append_tlv(&mut container.octets, definition, &octets)?,
                None => self.whole(definition, &octets)?,
            }
        }
        Ok(())
    }

    /// The longest value of an attribute, as its format has it.
    fn most(&self, definition: &Definition) -> usize {
        match definition.parent {
            Parent::Root if definition.flags.concat => SPLIT,
            Parent::Root => MAX_VALUE_OCTETS,
            Parent::Vendor(vendor) => {
                let format = self.dictionary.vendor_format(vendor);
                match format.continuation {
                    true => SPLIT,
                    false => MAX_VALUE_OCTETS - 4 - usize::from(format.type_octets + format.length_octets),
                }
            }
            Parent::Attribute(id) => match self.dictionary.definition(id).data_type {
                DataType::Extended { long: true } => SPLIT,
                DataType::Extended { long: false } => MAX_VALUE_OCTETS - 1,
                _ => MAX_VALUE_OCTETS,
            },
            Parent::ExtendedVendor(id, _) => self.most(self.dictionary.definition(id)).saturating_sub(5),
            Parent::Internal => 0,
        }
    }

    /// Writes an attribute that no TLV is around.
    fn whole(&mut self, definition: &Definition, octets: &[u8]) -> Result<(), EncodeError> {
        let not_on_the_wire = || EncodeError::NotOnTheWire(definition.name.clone());
        let most = self.most(definition);
        if most > 0 && octets.len() > most {
            return Err(EncodeError::TooLong {
                name: definition.name.clone(),
                octets: octets.len(),
                most,
            });
        }
        let number = |definition: &Definition| u8::try_from(definition.number).map_err(|_| not_on_the_wire());
        match definition.parent {
            Parent::Root => {
                let number = number(definition)?;
                octets
                    .chunks(MAX_VALUE_OCTETS)
                    .for_each(|part| self.attribute(number, &[], part));
            }
            Parent::Vendor(vendor) => self.vendor(vendor, definition, octets)?,
            Parent::Attribute(id) => {
                let container = self.dictionary.definition(id);
                let (outer, inner) = (number(container)?, number(definition)?);
                match container.data_type {
                    DataType::Extended { long: false } => self.attribute(outer, &[inner], octets),
                    DataType::Extended { long: true } => {
                        let mut parts = octets.chunks(MAX_VALUE_OCTETS - 2).peekable();
                        while let Some(part) = parts.next() {
                            let flags = if parts.peek().is_some() { MORE } else { 0 };
                            self.attribute(outer, &[inner, flags], part);
                        }
                    }
                    _ => return Err(not_on_the_wire()),
                }
            }
            Parent::ExtendedVendor(id, vendor) => {
                let container = self.dictionary.definition(id);
                if container.data_type != DataType::ExtendedVendorSpecific {
                    return Err(not_on_the_wire());
                }
                let octets = [&vendor.to_be_bytes(), &[number(definition)?][..], octets].concat();
                // Its parent is an extended type, never another vendor's space.
                return match container.parent {
                    Parent::Attribute(_) => self.whole(container, &octets),
                    _ => Err(not_on_the_wire()),
                };
            }
            Parent::Internal => return Err(not_on_the_wire()),
        }
        Ok(())
    }

    fn vendor(&mut self, vendor: VendorId, definition: &Definition, octets: &[u8]) -> Result<(), EncodeError> {
        let format = self.dictionary.vendor_format(vendor);
        let header = usize::from(format.type_octets + format.length_octets) + usize::from(format.continuation);
        let mut parts = octets.chunks(MAX_VALUE_OCTETS - 4 - header).peekable();
        while let Some(part) = parts.next() {
            let mut start = vendor.to_be_bytes().to_vec();
            let length = u32::try_from(header + part.len()).unwrap_or_default();
            for (number, octets) in [(definition.number, format.type_octets), (length, format.length_octets)] {
                let number = number.to_be_bytes();
                let (zeros, number) = number
                    .split_at_checked(4usize.saturating_sub(octets.into()))
                    .unwrap_or_default();
                if zeros.iter().any(|&octet| octet != 0) && octets > 0 {
                    return Err(EncodeError::NotOnTheWire(definition.name.clone()));
                }
                start.extend_from_slice(number);
            }
            if format.continuation {
                start.push(if parts.peek().is_some() { CONTINUED } else { 0 });
            }
            self.attribute(number::VENDOR_SPECIFIC, &start, part);
        }
        Ok(())
    }

    /// Header and value of one attribute, in two parts that together fit.
    fn attribute(&mut self, number: u8, start: &[u8], rest: &[u8]) {
        let length = u8::try_from(2 + start.len() + rest.len()).unwrap_or(u8::MAX);
        self.out.extend_from_slice(&[number, length]);
        self.out.extend_from_slice(start);
        self.out.extend_from_slice(rest);
    }
}

/// The longest value that is split over attributes: no packet holds more.
const SPLIT: usize = MAX_PACKET_OCTETS - HEADER_OCTETS;
const MORE: u8 = 0x80;

fn append_tlv(out: &mut Vec<u8>, definition: &Definition, octets: &[u8]) -> Result<(), EncodeError> {
    let Ok(number) = u8::try_from(definition.number) else {
        return Err(EncodeError::NotOnTheWire(definition.name.clone()));
    };
    match u8::try_from(octets.len() + 2) {
        Ok(length) => {
            out.extend_from_slice(&[number, length]);
            out.extend_from_slice(octets);
            Ok(())
        }
        Err(_) => Err(EncodeError::TooLong {
            name: definition.name.clone(),
            octets: octets.len(),
            most: MAX_VALUE_OCTETS,
        }),
    }
}

/// Value, hiding, tag.
fn scalar(
    definition: &Definition,
    tag: Option<u8>,
    value: &Value<'_>,
    hiding: &mut Option<Hiding<'_>>,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let takes_tags = definition.flags.has_tag;
    let tag = tag.unwrap_or(0);
    if tag > if takes_tags { MAX_TAG } else { 0 } {
        return Err(EncodeError::Tag {
            name: definition.name.clone(),
            takes_tags,
            tag,
        });
    }
    if definition.flags.encryption != Encryption::None {
        let mut plain = zeroize::Zeroizing::new(Vec::new());
        value::encode(definition, value, &mut plain)?;
        if takes_tags {
            out.push(tag);
        }
        let hiding = hiding
            .as_mut()
            .ok_or_else(|| EncodeError::NeedsSecret(definition.name.clone()))?;
        return hide(definition, &plain, hiding, out);
    }
    value::encode(definition, value, out)?;
    if takes_tags && definition.data_type == DataType::Integer {
        // RFC 2868 section 3.1: the tag takes the place of the number's first octet.
        match out.first_mut() {
            Some(first) if *first == 0 => *first = tag,
            _ => return Err(ValueError("a number that leaves no room for the tag: at most 16777215".into()).into()),
        }
    } else if takes_tags && (tag != 0 || out.first().is_some_and(|first| *first <= MAX_TAG)) {
        // Without a tag the octet is left out, unless the value would be taken to begin with one.
        out.insert(0, tag);
    }
    Ok(())
}

fn hide(definition: &Definition, plain: &[u8], hiding: &mut Hiding<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let Hiding {
        secret,
        request_authenticator,
        salts,
    } = hiding;
    match definition.flags.encryption {
        Encryption::None => out.extend_from_slice(plain),
        Encryption::UserPassword => crypto::hide_user_password(plain, secret, request_authenticator, out)?,
        Encryption::TunnelPassword => {
            crypto::hide_tunnel_password(plain, salts.next_salt(), secret, request_authenticator, out)?;
        }
        Encryption::AscendSecret => match crypto::ascend_secret(plain, secret, request_authenticator) {
            Some(block) => out.extend_from_slice(&block),
            None => {
                return Err(TooLongToHide {
                    octets: plain.len(),
                    most: 16,
                }
                .into());
            }
        },
    }
    Ok(())
}
