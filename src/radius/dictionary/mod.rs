//! Dictionaries: names, numbers, types and named values of attributes, in FreeRADIUS's file format.

pub mod types;

use types::{AttributeId, Definition, Parent, VendorFormat, VendorId};

/// A set of attribute definitions. Built once, then only read.
#[derive(Debug, Default)]
pub struct Dictionary {}

impl Dictionary {
    /// The dictionary that is compiled into the program (`dictionaries/`), with the internal facts of policies.
    pub fn builtin() -> &'static Dictionary {
        todo!()
    }

    /// An attribute by name, any case.
    pub fn by_name(&self, _name: &str) -> Option<AttributeId> {
        todo!()
    }

    /// The definition of an attribute of this dictionary.
    pub fn definition(&self, _id: AttributeId) -> &Definition {
        todo!()
    }

    /// An attribute by its number.
    pub fn by_number(&self, _parent: Parent, _number: u32) -> Option<AttributeId> {
        todo!()
    }

    /// A vendor's format; (1,1) where the vendor is unknown.
    pub fn vendor_format(&self, _vendor: VendorId) -> VendorFormat {
        todo!()
    }

    /// A vendor's name.
    pub fn vendor_name(&self, _vendor: VendorId) -> Option<&str> {
        todo!()
    }
}
