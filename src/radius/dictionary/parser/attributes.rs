//! ATTRIBUTE, DEFINE and ALIAS lines: where a number counts, and what a name means there.

use super::super::build::{Defined, MAX_ATTRIBUTES, New};
use super::super::types::{AttributeId, DataType, Flags, Parent};
use super::words::{self, Options, shown};
use super::{Frame, Line, Loader, MAX_NAME, MAX_NESTING, Place};

/// Where a dotted number or name has led so far.
#[derive(Clone, Copy)]
enum Step {
    In(Parent),
    /// Inside Vendor-Specific: a vendor is next.
    Vendors,
    ExtendedVendors(AttributeId),
}

impl Loader<'_> {
    /// `ATTRIBUTE name number type [flags]`.
    pub(super) fn attribute(&mut self, place: &Place, line: &[&str]) -> Line {
        self.in_struct = false;
        let (&[name, number_text, type_name], rest) = words::first(line, "ATTRIBUTE name number type")?;
        let name = words::name(name)?;
        let (mut parent, number) = self.locate(number_text)?;
        let mut rest = rest.to_vec();
        // an old spelling names the vendor in the last column
        if parent == Parent::Root
            && let Some(at) = rest
                .iter()
                .position(|word| self.dictionary.vendor_by_name(word).is_some())
            && let Some(vendor) = self.dictionary.vendor_by_name(rest.remove(at))
        {
            parent = Parent::Vendor(vendor);
        }
        let Options {
            mut data_type,
            mut flags,
            shared,
            note,
        } = words::options(type_name, &rest)?;
        // version 4 says `vsa` for both
        if data_type == DataType::VendorSpecific && matches!(parent, Parent::Attribute(_)) {
            data_type = DataType::ExtendedVendorSpecific;
        }
        if parent == Parent::Root && (number > 255 || self.internal || flags.internal) {
            parent = Parent::Internal;
        }
        flags.internal = parent == Parent::Internal || flags.internal;
        self.check_number(parent, number)?;
        let id = self.add(place, name, parent, number, data_type, flags)?;
        if !number_text.starts_with('.') {
            self.relative = data_type.is_container().then_some(id);
        }
        self.in_struct = data_type == DataType::Opaque;
        shared.map_or(Ok(()), |shared| self.use_shared(id, &shared))?;
        note.map_or(Ok(()), Err)
    }

    /// `DEFINE name type [flags]`: an internal attribute without a number.
    pub(super) fn define(&mut self, place: &Place, line: &[&str]) -> Line {
        let (&[name, type_name], rest) = words::first(line, "DEFINE name type")?;
        let Options {
            data_type,
            flags,
            shared,
            note,
        } = words::options(type_name, rest)?;
        let flags = Flags {
            internal: true,
            ..flags
        };
        let id = self.add(place, words::name(name)?, Parent::Internal, 0, data_type, flags)?;
        shared.map_or(Ok(()), |shared| self.use_shared(id, &shared))?;
        note.map_or(Ok(()), Err)
    }

    /// `ALIAS name target`: the target is a name, a path of names (`Vendor-Specific.Cisco.AVPair`) or a number
    /// (`26.9.1`).
    pub(super) fn alias(&mut self, line: &[&str]) -> Line {
        let &[name, target] = line else {
            return Err("expected `ALIAS name target`".into());
        };
        let name = words::name(name)?;
        let id = self
            .target(target)
            .ok_or_else(|| format!("unknown attribute `{}`", shown(target)))?;
        if self.dictionary.alias(name, id) {
            Ok(())
        } else {
            Err(taken(name))
        }
    }

    /// An attribute by the name that a line of this block would use.
    pub(super) fn find(&self, name: &str) -> Option<AttributeId> {
        if self.in_version_4() {
            let local = self.local.get(&(self.base(), name.to_ascii_lowercase())).copied();
            if let Some(id) = local.or_else(|| self.dictionary.by_name(&self.qualified(name)?)) {
                return Some(id);
            }
        }
        self.dictionary.by_name(name)
    }

    fn add(
        &mut self,
        place: &Place,
        local: &str,
        parent: Parent,
        number: u32,
        data_type: DataType,
        flags: Flags,
    ) -> Result<AttributeId, String> {
        let qualified = self.qualified(local);
        let name = qualified.as_deref().unwrap_or(local);
        // each TLV around it has put its own name before it
        if name.len() > MAX_NAME {
            return Err(format!(
                "`{}`: with the names of what it stands in it has {} characters, more than {MAX_NAME}",
                shown(local),
                name.len()
            ));
        }
        let new = New {
            name,
            made_up: qualified.is_some(),
            parent,
            number,
            data_type,
            flags,
        };
        let id = match self.dictionary.define(new, place.number, place.line) {
            Defined::As(id) => id,
            Defined::Moved(id, from) => {
                let by = self
                    .dictionary
                    .source(from)
                    .map_or(String::new(), |(file, line)| format!(" by {file}:{line}"));
                let before = self.dictionary.oid(from).unwrap_or_else(|| "internal".into());
                self.warn(
                    place,
                    format!("`{name}` was defined as {before}{by}: the name now means this attribute"),
                );
                id
            }
            Defined::Fact(id) if parent == Parent::Internal => id,
            Defined::Fact(_) => return Err(taken(name)),
            Defined::Full => return Err(format!("more than {MAX_ATTRIBUTES} attributes")),
        };
        self.loaded.attributes += 1;
        if self.in_version_4() {
            self.local.insert((parent, local.to_ascii_lowercase()), id);
        }
        self.take_waiting(name, id);
        Ok(id)
    }

    // numbers

    /// Where a number of an ATTRIBUTE line counts, and the number there. With a leading dot it counts in the last
    /// tlv that was defined without one.
    fn locate(&self, text: &str) -> Result<(Parent, u32), String> {
        let (parent, rest) = match text.strip_prefix('.') {
            Some(rest) => {
                let base = self
                    .relative
                    .ok_or_else(|| format!("`{}` follows no tlv", shown(text)))?;
                (Parent::Attribute(base), rest)
            }
            None => (self.base(), text),
        };
        self.walk(parent, rest)
    }

    fn walk(&self, from: Parent, text: &str) -> Result<(Parent, u32), String> {
        let bad = || format!("`{}` is no attribute number", shown(text));
        let mut at = Step::In(from);
        let mut components = text.split('.');
        let mut number = components.next().and_then(words::number).ok_or_else(bad)?;
        for (depth, component) in components.enumerate() {
            if depth >= MAX_NESTING {
                return Err(bad());
            }
            at = self.step(at, number).ok_or_else(|| {
                format!(
                    "`{}`: {number} is not defined before as something that holds attributes",
                    shown(text)
                )
            })?;
            number = words::number(component).ok_or_else(bad)?;
        }
        match at {
            Step::In(parent) => Ok((parent, number)),
            _ => Err(bad()),
        }
    }

    fn step(&self, at: Step, number: u32) -> Option<Step> {
        match at {
            Step::Vendors => Some(Step::In(Parent::Vendor(number))),
            Step::ExtendedVendors(id) => Some(Step::In(Parent::ExtendedVendor(id, number))),
            Step::In(parent) => self.inside(self.dictionary.by_number(parent, number)?),
        }
    }

    fn inside(&self, id: AttributeId) -> Option<Step> {
        match self.dictionary.definition(id).data_type {
            DataType::VendorSpecific => Some(Step::Vendors),
            DataType::ExtendedVendorSpecific => Some(Step::ExtendedVendors(id)),
            data_type if data_type.is_container() => Some(Step::In(Parent::Attribute(id))),
            _ => None,
        }
    }

    fn check_number(&self, parent: Parent, number: u32) -> Line {
        let limit = match parent {
            Parent::Internal => u32::MAX,
            Parent::Vendor(vendor) => match self.dictionary.vendor_format(vendor).type_octets {
                1 => 0xff,
                2 => 0xffff,
                _ => u32::MAX,
            },
            _ => 0xff,
        };
        if number > limit {
            return Err(format!("number {number} does not fit: it is at most {limit} here"));
        }
        if number == 0 && parent == Parent::Root {
            return Err("number 0 is no attribute of RADIUS".into());
        }
        Ok(())
    }

    /// What plain numbers count in here.
    fn base(&self) -> Parent {
        match self.frames.last() {
            Some(Frame::Vendor { base, .. }) => *base,
            Some(Frame::Tlv { id }) => Parent::Attribute(*id),
            _ => Parent::Root,
        }
    }

    // names

    fn in_version_4(&self) -> bool {
        self.frames.iter().any(|frame| matches!(frame, Frame::Protocol))
    }

    /// The name as policies know it, where version 4 has a local one: with the vendor's or the TLV's as a prefix.
    fn qualified(&self, name: &str) -> Option<String> {
        let prefix = match self.frames.last()? {
            _ if !self.in_version_4() => return None,
            Frame::Vendor { name, .. } => name,
            Frame::Tlv { id } => &self.dictionary.definition(*id).name,
            _ => return None,
        };
        let (start, rest) = name.split_at_checked(prefix.len()).unwrap_or_default();
        let has_it = start.eq_ignore_ascii_case(prefix) && rest.starts_with('-');
        (!has_it).then(|| format!("{prefix}-{name}"))
    }

    fn target(&self, text: &str) -> Option<AttributeId> {
        if let Some(id) = self.find(text) {
            return Some(id);
        }
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            let (parent, number) = self.walk(Parent::Root, text).ok()?;
            return self.dictionary.by_number(parent, number);
        }
        // a leading dot says that the path begins here; `find` looks here first in any case
        let mut parts = text.strip_prefix('.').unwrap_or(text).split('.');
        let mut id = self.find(parts.next()?)?;
        let mut at = self.inside(id);
        for part in parts.take(MAX_NESTING) {
            at = match at? {
                Step::Vendors => Some(Step::In(Parent::Vendor(self.dictionary.vendor_by_name(part)?))),
                Step::ExtendedVendors(of) => Some(Step::In(Parent::ExtendedVendor(
                    of,
                    self.dictionary.vendor_by_name(part)?,
                ))),
                Step::In(parent) => {
                    let known = |id: &AttributeId| self.dictionary.definition(*id).parent == parent;
                    let local = self.local.get(&(parent, part.to_ascii_lowercase())).copied();
                    id = local.or_else(|| self.dictionary.by_name(part).filter(known))?;
                    self.inside(id)
                }
            };
        }
        Some(id)
    }
}

fn taken(name: &str) -> String {
    format!("`{name}` is the name of a fact of this software, and stays it")
}
