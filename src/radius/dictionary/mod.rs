//! Dictionaries: names, numbers, types and named values of attributes, in FreeRADIUS's file format.
//!
//! [`Dictionary::builtin`] is what is compiled in (`dictionaries/` at the top of the repository): the standard
//! attributes of RADIUS, some vendors', and the facts that policies may ask for. [`Dictionary::extend`] reads more
//! files over a copy of it, through a function that the caller gives: this module opens nothing itself.
//!
//! What several definitions of one thing mean is decided in `build`; the file format is in [`parser`].

mod build;
mod builtin;
pub mod describe;
pub mod parser;
pub mod types;

use std::collections::HashMap;
use std::path::Path;
use std::sync::OnceLock;

use parser::{DictionaryError, Loaded, ReadError};
use types::{AttributeId, DataType, Definition, Flags, Parent, VendorFormat, VendorId};

/// A set of attribute definitions. Built once, then only read.
///
/// An [`AttributeId`] of the built-in set names the same attribute in every dictionary that was extended from it.
#[derive(Clone, Debug)]
pub struct Dictionary {
    definitions: Vec<Definition>,
    /// Where each definition was read, in step with `definitions`.
    sources: Vec<Source>,
    files: Vec<Box<str>>,
    /// Lower-case names, former ones too.
    names: HashMap<Box<str>, AttributeId>,
    /// Names that a later definition of the same attribute replaced; `names` still leads them to it.
    aliases: Vec<(AttributeId, Box<str>)>,
    /// RADIUS's own space, in one array: each attribute of each packet is looked up here.
    root: Box<[Option<AttributeId>; 256]>,
    numbers: HashMap<(Parent, u32), AttributeId>,
    vendors: HashMap<VendorId, Vendor>,
    /// Lower-case names of vendors.
    vendor_names: HashMap<Box<str>, VendorId>,
    /// Internal attributes below this index are facts of this software: nothing that is read later changes them.
    sealed: u32,
    unknown: Definition,
}

#[derive(Clone, Copy, Debug)]
struct Source {
    file: u32,
    line: u32,
}

#[derive(Clone, Debug)]
struct Vendor {
    name: Box<str>,
    format: VendorFormat,
}

impl Dictionary {
    /// The dictionary that is compiled into the program (`dictionaries/`), with the internal facts of policies.
    pub fn builtin() -> &'static Dictionary {
        static BUILTIN: OnceLock<Dictionary> = OnceLock::new();
        // What the load found is left aside: a test reads the same files and refuses so much as a warning.
        BUILTIN.get_or_init(|| builtin::load().0)
    }

    /// A dictionary that knows nothing.
    pub fn empty() -> Dictionary {
        Dictionary {
            definitions: Vec::new(),
            sources: Vec::new(),
            files: Vec::new(),
            names: HashMap::new(),
            aliases: Vec::new(),
            root: Box::new([None; 256]),
            numbers: HashMap::new(),
            vendors: HashMap::new(),
            vendor_names: HashMap::new(),
            sealed: 0,
            unknown: Definition {
                id: AttributeId(u32::MAX),
                name: "unknown".into(),
                parent: Parent::Internal,
                number: 0,
                data_type: DataType::Opaque,
                flags: Flags {
                    internal: true,
                    ..Flags::default()
                },
                values: Vec::new(),
            },
        }
    }

    /// Reads the dictionary file `root`, and all that it includes, over what is here. `read` gives a file's text.
    ///
    /// A later definition wins over an earlier one, except over the facts of this software. On an error the
    /// dictionary holds what was read up to there: work on a copy.
    pub fn extend(
        &mut self,
        root: &Path,
        read: &mut dyn FnMut(&Path) -> Result<String, ReadError>,
    ) -> Result<Loaded, DictionaryError> {
        parser::load(self, root, read)
    }

    /// An attribute by name, any case. Names that a later definition of the same attribute replaced still work.
    pub fn by_name(&self, name: &str) -> Option<AttributeId> {
        self.names.get(name.to_ascii_lowercase().as_str()).copied()
    }

    /// The definition of an attribute of this dictionary. (One of a stranger's is an opaque attribute named `unknown`.)
    pub fn definition(&self, id: AttributeId) -> &Definition {
        self.at(id).unwrap_or(&self.unknown)
    }

    /// An attribute by its number.
    pub fn by_number(&self, parent: Parent, number: u32) -> Option<AttributeId> {
        match parent {
            Parent::Root => *self.root.get(usize::try_from(number).ok()?)?,
            _ => self.numbers.get(&(parent, number)).copied(),
        }
    }

    /// The attribute that this one's number means: itself, unless a later definition of another type took the number.
    /// Then no request carries this one, and a rule on it is a mistake.
    pub fn current(&self, id: AttributeId) -> AttributeId {
        let definition = self.definition(id);
        match definition.parent {
            Parent::Internal => id,
            parent => self.by_number(parent, definition.number).unwrap_or(id),
        }
    }

    /// Whether this is a fact of this software (`dictionaries/dictionary.portreeve`), which policies may ask for
    /// although no packet carries it.
    pub fn is_fact(&self, id: AttributeId) -> bool {
        id.0 < self.sealed && self.definition(id).parent == Parent::Internal
    }

    /// A vendor's format; (1,1) where the vendor is unknown.
    pub fn vendor_format(&self, vendor: VendorId) -> VendorFormat {
        self.vendors
            .get(&vendor)
            .map_or(VendorFormat::STANDARD, |vendor| vendor.format)
    }

    /// A vendor's name.
    pub fn vendor_name(&self, vendor: VendorId) -> Option<&str> {
        self.vendors.get(&vendor).map(|vendor| &*vendor.name)
    }

    /// A vendor by name, any case.
    pub fn vendor_by_name(&self, name: &str) -> Option<VendorId> {
        self.vendor_names.get(name.to_ascii_lowercase().as_str()).copied()
    }

    /// Every definition, in the order of their first appearance.
    pub fn definitions(&self) -> impl Iterator<Item = &Definition> {
        self.definitions.iter()
    }

    /// The file and line that define an attribute.
    pub fn source(&self, id: AttributeId) -> Option<(&str, u32)> {
        let source = self.sources.get(usize::try_from(id.0).ok()?)?;
        let file = self.files.get(usize::try_from(source.file).ok()?)?;
        Some((file, source.line))
    }

    /// An attribute's number, dotted from the outermost: `81`, `26.9.1`, `241.26.11344.1`. None for an internal one.
    pub fn oid(&self, id: AttributeId) -> Option<String> {
        let definition = self.at(id)?;
        let number = definition.number;
        Some(match definition.parent {
            Parent::Internal => return None,
            Parent::Root => number.to_string(),
            Parent::Vendor(vendor) => format!("26.{vendor}.{number}"),
            Parent::ExtendedVendor(container, vendor) => format!("{}.{vendor}.{number}", self.oid(container)?),
            Parent::Attribute(container) => format!("{}.{number}", self.oid(container)?),
        })
    }

    fn at(&self, id: AttributeId) -> Option<&Definition> {
        self.definitions.get(usize::try_from(id.0).ok()?)
    }
}

impl Default for Dictionary {
    fn default() -> Dictionary {
        Dictionary::empty()
    }
}

impl VendorFormat {
    /// What RFC 2865 section 5.26 recommends: a type octet and a length octet.
    pub const STANDARD: VendorFormat = VendorFormat {
        type_octets: 1,
        length_octets: 1,
        continuation: false,
    };
}

#[cfg(test)]
mod tests;
