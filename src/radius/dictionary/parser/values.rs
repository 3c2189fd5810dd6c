//! VALUE and ENUM lines: names of numbers.

use std::collections::HashMap;

use super::super::build::MAX_VALUES;
use super::super::types::{AttributeId, DataType};
use super::{Line, Loader, Place, words};

/// Values that may wait for the attribute they name.
const MAX_WAITING: usize = 65_536;

/// A value whose attribute is not defined yet: version 3 allows that.
pub(super) struct Waiting {
    place: Place,
    name: Box<str>,
    number: i64,
}

/// An `ENUM`: values that attributes with `enum=` share.
#[derive(Default)]
pub(super) struct Shared {
    values: Vec<(Box<str>, i64)>,
    users: Vec<AttributeId>,
}

#[derive(Default)]
pub(super) struct Values {
    /// By lower-case name of the attribute.
    waiting: HashMap<String, Vec<Waiting>>,
    waiting_count: usize,
    enums: HashMap<String, Shared>,
}

impl Loader<'_> {
    /// `VALUE attribute name number`.
    pub(super) fn value(&mut self, place: &Place, line: &[&str]) -> Line {
        let &[attribute, name, number] = line else {
            return Err("expected `VALUE attribute name number`".into());
        };
        let name = words::name(name)?;
        let parsed = words::signed(number).ok_or_else(|| format!("`{}` is no number", words::shown(number)))?;
        if self.shared_value(attribute, name, parsed)? {
            return Ok(());
        }
        match self.find(attribute) {
            Some(id) => self.set_value(place, id, name, parsed),
            None if self.values.waiting_count >= MAX_WAITING => {
                return Err(format!("unknown attribute `{}`", words::shown(attribute)));
            }
            None => {
                self.values.waiting_count += 1;
                self.values
                    .waiting
                    .entry(attribute.to_ascii_lowercase())
                    .or_default()
                    .push(Waiting {
                        place: place.clone(),
                        name: name.into(),
                        number: parsed,
                    });
            }
        }
        Ok(())
    }

    /// `ENUM name type`.
    pub(super) fn shared(&mut self, line: &[&str]) -> Line {
        let (&[name, _type_name], _) = words::first(line, "ENUM name type")?;
        self.values
            .enums
            .entry(words::name(name)?.to_ascii_lowercase())
            .or_default();
        Ok(())
    }

    /// `enum=name` of an attribute: the values of an ENUM, or those of another attribute.
    pub(super) fn use_shared(&mut self, id: AttributeId, name: &str) -> Line {
        let values = match self.values.enums.get_mut(&name.to_ascii_lowercase()) {
            Some(shared) => {
                shared.users.push(id);
                shared.values.clone()
            }
            None => {
                let from = self
                    .find(name)
                    .ok_or_else(|| format!("unknown enum `{}`", words::shown(name)))?;
                self.dictionary.definition(from).values.clone()
            }
        };
        for (name, number) in values {
            self.dictionary.define_value(id, &name, number);
        }
        Ok(())
    }

    /// Gives an attribute that was just defined the values that came before it.
    pub(super) fn take_waiting(&mut self, attribute: &str, id: AttributeId) {
        for value in self
            .values
            .waiting
            .remove(&attribute.to_ascii_lowercase())
            .unwrap_or_default()
        {
            self.values.waiting_count = self.values.waiting_count.saturating_sub(1);
            self.set_value(&value.place, id, &value.name, value.number);
        }
    }

    /// At the end of a load: values of attributes that never came.
    pub(super) fn warn_waiting(&mut self) {
        let mut unknown: Vec<(String, Waiting)> = std::mem::take(&mut self.values.waiting)
            .into_iter()
            .flat_map(|(attribute, values)| values.into_iter().map(move |value| (attribute.clone(), value)))
            .collect();
        unknown.sort_by_key(|(_, value)| (value.place.number, value.place.line));
        for (attribute, value) in unknown {
            let attribute = words::shown(&attribute);
            self.warn(
                &value.place,
                format!("value `{}` of the unknown attribute `{attribute}`", value.name),
            );
        }
    }

    fn shared_value(&mut self, enumeration: &str, name: &str, number: i64) -> Result<bool, String> {
        let Some(shared) = self.values.enums.get_mut(&enumeration.to_ascii_lowercase()) else {
            return Ok(false);
        };
        if shared.values.len() >= MAX_VALUES {
            return Err(format!("more than {MAX_VALUES} values"));
        }
        shared.values.push((name.into(), number));
        self.loaded.values += 1;
        for id in shared.users.clone() {
            self.dictionary.define_value(id, name, number);
        }
        Ok(true)
    }

    fn set_value(&mut self, place: &Place, id: AttributeId, name: &str, number: i64) {
        let definition = self.dictionary.definition(id);
        let attribute = &definition.name;
        let range = match definition.data_type {
            DataType::Byte => 0..=0xff,
            DataType::Short => 0..=0xffff,
            DataType::Integer | DataType::Date => 0..=0xffff_ffff,
            DataType::Integer64 => 0..=i64::MAX,
            DataType::Signed => i64::from(i32::MIN)..=i64::from(i32::MAX),
            _ => {
                let message = format!("`{attribute}` is no number: names of its values mean nothing");
                if self.nameless.insert(id) {
                    self.warn(place, message);
                }
                return;
            }
        };
        if !range.contains(&number) {
            let (least, most) = range.into_inner();
            let message = format!("{number} is no value of `{attribute}`: expected {least} to {most}");
            return self.warn(place, message);
        }
        self.loaded.values += 1;
        if let Some(before) = self.dictionary.define_value(id, name, number) {
            let attribute = &self.dictionary.definition(id).name;
            let message = format!("`{name}` of `{attribute}` was {before} before");
            self.warn(place, message);
        }
    }
}
