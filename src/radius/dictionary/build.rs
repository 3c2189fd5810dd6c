//! Building a dictionary: what a second definition of a name or of a number means.
//!
//! - The same name at the same number: redefined in place, and its named values stay.
//! - A new name for a number whose definition agrees: the same attribute, now under this name; the former one still
//!   leads to it. (So a rule that says `Client-Id` means `NAS-IP-Address`, where a dictionary has both.)
//! - A new name for a number, with another type: another attribute, and the number is now its.
//! - The same name at another number: the name moves, and the caller warns.
//! - An internal attribute under the name of one that packets carry: means nothing here, and the name stays.
//! - A fact of this software: stays what it is.

use super::types::{AttributeId, DataType, Definition, Flags, Parent, VendorFormat, VendorId};
use super::{Dictionary, Source, Vendor};

/// Attributes that one dictionary may have: three times what FreeRADIUS's 237 files define, and far below memory.
pub(super) const MAX_ATTRIBUTES: usize = 32_768;
/// Named values that one attribute may have.
pub(super) const MAX_VALUES: usize = 4_096;

/// A definition as a file gives it.
pub(super) struct New<'a> {
    pub name: &'a str,
    /// The name is ours (a vendor's prefix before version 4's local name): it replaces no other.
    pub made_up: bool,
    pub parent: Parent,
    pub number: u32,
    pub data_type: DataType,
    pub flags: Flags,
}

/// What became of it.
pub(super) enum Defined {
    /// It is this attribute.
    As(AttributeId),
    /// It is this attribute, and its name meant another one before.
    Moved(AttributeId, AttributeId),
    /// Its name belongs to a fact of this software, which stays.
    Fact(AttributeId),
    /// [`MAX_ATTRIBUTES`] is reached.
    Full,
}

impl Dictionary {
    pub(super) fn add_file(&mut self, name: &str) -> u32 {
        self.files.push(name.into());
        u32::try_from(self.files.len().saturating_sub(1)).unwrap_or(u32::MAX)
    }

    /// All that is here now is this software's own: its internal attributes are facts from now on.
    pub(super) fn seal(&mut self) {
        self.sealed = u32::try_from(self.definitions.len()).unwrap_or(u32::MAX);
    }

    pub(super) fn define(&mut self, new: New<'_>, file: u32, line: u32) -> Defined {
        let named = self.by_name(new.name);
        if let Some(id) = named {
            if self.is_fact(id) {
                return Defined::Fact(id);
            }
            let old = self.definition(id);
            if old.parent != Parent::Internal && new.parent == Parent::Internal {
                return Defined::As(id);
            }
            if new.parent == Parent::Internal || (old.parent == new.parent && old.number == new.number) {
                self.redefine(id, &new, file, line);
                return Defined::As(id);
            }
        }
        // Numbers of internal attributes mean nothing: two names at one number are two attributes.
        let numbered = if new.parent == Parent::Internal {
            None
        } else {
            self.by_number(new.parent, new.number)
        };
        let id = match numbered {
            Some(id) if self.agrees(id, &new) => {
                if new.made_up {
                    self.aliases.push((id, new.name.into()));
                } else {
                    self.redefine(id, &new, file, line);
                }
                id
            }
            _ => match self.add(&new, file, line) {
                Some(id) => id,
                None => return Defined::Full,
            },
        };
        self.names.insert(new.name.to_ascii_lowercase().into(), id);
        match named {
            Some(old) if old != id => Defined::Moved(id, old),
            _ => Defined::As(id),
        }
    }

    /// Another name for an attribute. False where the name is taken by a fact.
    pub(super) fn alias(&mut self, name: &str, id: AttributeId) -> bool {
        let taken = self.by_name(name);
        if taken == Some(id) {
            return true;
        }
        if taken.is_some_and(|taken| self.is_fact(taken)) {
            return false;
        }
        self.names.insert(name.to_ascii_lowercase().into(), id);
        self.aliases.push((id, name.into()));
        true
    }

    pub(super) fn define_vendor(&mut self, name: &str, id: VendorId, format: VendorFormat) {
        self.vendors.insert(
            id,
            Vendor {
                name: name.into(),
                format,
            },
        );
        self.vendor_names.insert(name.to_ascii_lowercase().into(), id);
    }

    /// A named value. Returns the number that the name stood for before, where it was another.
    pub(super) fn define_value(&mut self, id: AttributeId, name: &str, number: i64) -> Option<i64> {
        let fact = self.is_fact(id);
        let values = &mut usize::try_from(id.0)
            .ok()
            .and_then(|index| self.definitions.get_mut(index))?
            .values;
        let at = values.iter().position(|(known, _)| known.eq_ignore_ascii_case(name));
        if fact {
            // More spellings are welcome, before ours: the last name of a number is the one that is displayed.
            if at.is_none() && values.len() < MAX_VALUES {
                values.insert(0, (name.into(), number));
            }
            return None;
        }
        let before = at.map(|at| values.remove(at).1).filter(|&before| before != number);
        if values.len() < MAX_VALUES {
            values.push((name.into(), number));
        }
        before
    }

    fn agrees(&self, id: AttributeId, new: &New<'_>) -> bool {
        let old = self.definition(id);
        old.data_type == new.data_type && old.flags == new.flags
    }

    fn redefine(&mut self, id: AttributeId, new: &New<'_>, file: u32, line: u32) {
        let Ok(index) = usize::try_from(id.0) else { return };
        let (Some(definition), Some(source)) = (self.definitions.get_mut(index), self.sources.get_mut(index)) else {
            return;
        };
        if !definition.name.eq_ignore_ascii_case(new.name) {
            let former = std::mem::take(&mut definition.name);
            if !self.aliases.iter().any(|(of, name)| *of == id && *name == former) {
                self.aliases.push((id, former));
            }
        }
        definition.name = new.name.into();
        definition.number = new.number;
        definition.data_type = new.data_type;
        definition.flags = new.flags;
        if !new.data_type.is_number() {
            definition.values.clear();
        }
        *source = Source { file, line };
        self.number(new, id);
    }

    fn add(&mut self, new: &New<'_>, file: u32, line: u32) -> Option<AttributeId> {
        if self.definitions.len() >= MAX_ATTRIBUTES {
            return None;
        }
        let id = AttributeId(u32::try_from(self.definitions.len()).ok()?);
        self.definitions.push(Definition {
            id,
            name: new.name.into(),
            parent: new.parent,
            number: new.number,
            data_type: new.data_type,
            flags: new.flags,
            values: Vec::new(),
        });
        self.sources.push(Source { file, line });
        self.number(new, id);
        Some(id)
    }

    fn number(&mut self, new: &New<'_>, id: AttributeId) {
        match new.parent {
            Parent::Root => {
                if let Some(place) = usize::try_from(new.number)
                    .ok()
                    .and_then(|number| self.root.get_mut(number))
                {
                    *place = Some(id);
                }
            }
            Parent::Internal => {
                self.numbers.entry((new.parent, new.number)).or_insert(id);
            }
            _ => {
                self.numbers.insert((new.parent, new.number), id);
            }
        }
    }
}

impl DataType {
    /// Whether its values are numbers, which can have names.
    pub fn is_number(self) -> bool {
        matches!(
            self,
            DataType::Byte
                | DataType::Short
                | DataType::Integer
                | DataType::Integer64
                | DataType::Signed
                | DataType::Date
        )
    }

    /// Whether attributes can be defined inside it.
    pub(super) fn is_container(self) -> bool {
        matches!(self, DataType::Tlv | DataType::Extended { .. })
    }
}
