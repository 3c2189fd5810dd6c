//! FreeRADIUS's dictionary format, in the spellings of its versions 3 and 4.
//!
//! Words of a line are separated by blanks, a word that starts with `#` begins a comment, keywords and types have no
//! case. A line that is not understood is a [`Warning`] and is skipped; what would put the lines after it in the wrong
//! place (an include that loops or is missing, a block of an unknown vendor) is a [`DictionaryError`].
//!
//! Version 4 writes everything inside `BEGIN-PROTOCOL RADIUS` and names attributes within their vendor or TLV only
//! (`AVPair` of Cisco). Here such an attribute has the name that policies use, with the prefix: `Cisco-AVPair`.
//! `struct`, `union` and `group` keep their octets; their members are not attributes here.

use std::collections::{HashMap, HashSet};
use std::path::{Component, Path, PathBuf};

use super::Dictionary;
use super::build::{Defined, New};
use super::types::{AttributeId, DataType, Encryption, Flags, Parent, VendorFormat};

/// Files that one load may read, counting a file each time it is included.
pub const MAX_FILES: usize = 2_048;
/// Octets that one load may read.
pub const MAX_OCTETS: usize = 64 * 1_024 * 1_024;
/// How deep includes may nest.
pub const MAX_DEPTH: usize = 16;
/// Warnings that are kept; the rest is counted.
pub const MAX_WARNINGS: usize = 100;
/// Octets of a name of an attribute, a vendor or a value.
pub const MAX_NAME: usize = 128;
/// Components of a dotted number, and blocks that may be open at once.
const MAX_NESTING: usize = 16;
/// Values that may wait for the attribute they name.
const MAX_WAITING: usize = 65_536;

/// Why the text of a file could not be given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// There is no such file. An optional include (`$INCLUDE-`) goes on.
    #[error("no such file")]
    Missing,
    /// Anything else, in words.
    #[error("{0}")]
    Other(String),
}

/// Why a dictionary could not be read on: `file:line: problem`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {problem}")]
pub struct DictionaryError {
    /// The file, as it was named to the reader.
    pub file: String,
    /// The line; 0 where it is the whole file.
    pub line: u32,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong in a [`DictionaryError`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// An include that can't be read.
    #[error("can't read `{file}`: {error}")]
    Unreadable {
        /// The file that was wanted.
        file: String,
        /// Why not.
        error: ReadError,
    },
    /// A file includes itself, perhaps through others.
    #[error("`{0}` includes itself")]
    Loop(String),
    /// A block whose content can't be placed.
    #[error("{0}")]
    Block(String),
    /// A bound was reached.
    #[error("{0}")]
    TooMuch(String),
}

/// A line that was skipped, or that means less than it says: `file:line: message`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The file, as it was named to the reader.
    pub file: String,
    /// The line.
    pub line: u32,
    /// What was wrong with it.
    pub message: String,
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.message)
    }
}

/// What a load found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Files read.
    pub files: usize,
    /// Attribute definitions understood.
    pub attributes: usize,
    /// Named values understood.
    pub values: usize,
    /// The first [`MAX_WARNINGS`] warnings.
    pub warnings: Vec<Warning>,
    /// How many more there were.
    pub more_warnings: usize,
}

/// Reads `root` and what it includes into `dictionary`.
pub(super) fn load(
    dictionary: &mut Dictionary,
    root: &Path,
    read: &mut dyn FnMut(&Path) -> Result<String, ReadError>,
) -> Result<Loaded, DictionaryError> {
    let mut loader = Loader {
        dictionary,
        read,
        loaded: Loaded::default(),
        octets: 0,
        stack: Vec::new(),
        frames: Vec::new(),
        waiting: HashMap::new(),
        waiting_count: 0,
        local: HashMap::new(),
        enums: HashMap::new(),
        relative: None,
        in_struct: false,
        nameless: HashSet::new(),
        internal: false,
    };
    let place = Place {
        file: root.display().to_string().into(),
        number: 0,
        line: 0,
    };
    let text = loader.text(root).map_err(|error| {
        let problem = Problem::Unreadable {
            file: root.display().to_string(),
            error,
        };
        DictionaryError {
            file: place.file.to_string(),
            line: 0,
            problem,
        }
    })?;
    loader.file(root, &text)?;
    loader.finish();
    Ok(loader.loaded)
}

/// Where the loader is.
#[derive(Clone)]
struct Place {
    file: std::rc::Rc<str>,
    /// The file's number in the dictionary.
    number: u32,
    line: u32,
}

/// A block that is open.
enum Frame {
    Vendor { name: Box<str>, base: Parent },
    Tlv { id: AttributeId },
    Protocol { radius: bool },
}

/// An `ENUM`: values that attributes with `enum=` share.
#[derive(Default)]
struct Shared {
    values: Vec<(Box<str>, i64)>,
    users: Vec<AttributeId>,
}

struct Waiting {
    place: Place,
    name: Box<str>,
    number: i64,
}

struct Loader<'a> {
    dictionary: &'a mut Dictionary,
    read: &'a mut dyn FnMut(&Path) -> Result<String, ReadError>,
    loaded: Loaded,
    octets: usize,
    /// The files that are open, outermost first.
    stack: Vec<PathBuf>,
    frames: Vec<Frame>,
    /// Values of attributes that are not defined yet, by lower-case attribute name.
    waiting: HashMap<String, Vec<Waiting>>,
    waiting_count: usize,
    /// Version 4's names within a vendor or TLV, lower case.
    local: HashMap<(Parent, String), AttributeId>,
    enums: HashMap<String, Shared>,
    /// What a number that starts with a dot counts in.
    relative: Option<AttributeId>,
    /// The last attribute is a struct, so that MEMBER lines may follow.
    in_struct: bool,
    /// Attributes that were warned about because they have named values and are no numbers.
    nameless: HashSet<AttributeId>,
    /// `FLAGS internal` holds to the end of the file.
    internal: bool,
}

/// A line is understood, or not: then why.
type Line = Result<(), String>;

impl Loader<'_> {
    fn text(&mut self, path: &Path) -> Result<String, ReadError> {
        (self.read)(path)
    }

    fn file(&mut self, path: &Path, text: &str) -> Result<(), DictionaryError> {
        let name = path.display().to_string();
        let number = self.dictionary.add_file(&name);
        let mut place = Place {
            file: name.into(),
            number,
            line: 0,
        };
        self.loaded.files += 1;
        self.octets = self.octets.saturating_add(text.len());
        if self.loaded.files > MAX_FILES {
            return Err(place.error(Problem::TooMuch(format!("more than {MAX_FILES} files are included"))));
        }
        if self.octets > MAX_OCTETS {
            return Err(place.error(Problem::TooMuch(format!(
                "the files are larger than {MAX_OCTETS} octets"
            ))));
        }
        self.stack.push(normal(path));
        let internal = self.internal;
        let depth = self.frames.len();
        for line in text.lines() {
            place.line = place.line.saturating_add(1);
            self.line(&place, path, line, depth)?;
        }
        while self.frames.len() > depth {
            if let Some(frame) = self.frames.pop() {
                self.warn(
                    &place,
                    format!("{} is still open at the end of the file", frame.opened()),
                );
            }
        }
        self.internal = internal;
        self.stack.pop();
        Ok(())
    }

    fn line(&mut self, place: &Place, path: &Path, line: &str, depth: usize) -> Result<(), DictionaryError> {
        let mut words = line.split_ascii_whitespace().take_while(|word| !word.starts_with('#'));
        let Some(keyword) = words.next() else { return Ok(()) };
        let mut rest = [""; 6];
        let mut count = 0;
        for word in words {
            let Some(slot) = rest.get_mut(count) else {
                self.warn(place, format!("`{}`: more words than this line can have", shown(line)));
                return Ok(());
            };
            *slot = word;
            count += 1;
        }
        let words = rest.get(..count).unwrap_or_default();
        let is = |name: &str| keyword.eq_ignore_ascii_case(name);

        if is("END-PROTOCOL") {
            return self.end(
                place,
                depth,
                |frame| matches!(frame, Frame::Protocol { .. }),
                "END-PROTOCOL",
            );
        }
        if self
            .frames
            .iter()
            .any(|frame| matches!(frame, Frame::Protocol { radius: false }))
        {
            return Ok(()); // another protocol's; its BEGIN-PROTOCOL was warned about
        }
        if !is("MEMBER") {
            self.in_struct = self.in_struct && is("ATTRIBUTE");
        }
        let understood = if is("ATTRIBUTE") {
            self.attribute(place, words)
        } else if is("VALUE") {
            self.value(place, words)
        } else if is("$INCLUDE") || is("$INCLUDE-") {
            return self.include(place, path, words, keyword.ends_with('-'));
        } else if is("VENDOR") {
            self.vendor(words)
        } else if is("BEGIN-VENDOR") {
            return self.begin_vendor(place, words);
        } else if is("END-VENDOR") {
            return self.end(
                place,
                depth,
                |frame| matches!(frame, Frame::Vendor { .. }),
                "END-VENDOR",
            );
        } else if is("BEGIN-TLV") {
            return self.begin_tlv(place, words);
        } else if is("END-TLV") {
            return self.end(place, depth, |frame| matches!(frame, Frame::Tlv { .. }), "END-TLV");
        } else if is("BEGIN-PROTOCOL") {
            return self.begin_protocol(place, words);
        } else if is("PROTOCOL") {
            Ok(()) // its number and options say nothing that RADIUS's attributes need
        } else if is("FLAGS") {
            self.flags(words)
        } else if is("ALIAS") {
            self.alias(words)
        } else if is("ENUM") {
            self.shared(words)
        } else if is("DEFINE") {
            self.define_unnumbered(place, words)
        } else if is("STRUCT") {
            self.in_struct = true;
            Err("a STRUCT that a key selects is not decoded: its octets stay with the attribute".into())
        } else if is("MEMBER") {
            if self.in_struct {
                Ok(())
            } else {
                Err("MEMBER outside of a struct".into())
            }
        } else {
            Err(format!("unknown keyword `{}`", shown(keyword)))
        };
        if let Err(message) = understood {
            self.warn(place, message);
        }
        Ok(())
    }

    // files and blocks

    fn include(&mut self, place: &Place, path: &Path, words: &[&str], optional: bool) -> Result<(), DictionaryError> {
        let &[name] = words else {
            self.warn(place, "expected `$INCLUDE file`".into());
            return Ok(());
        };
        let target = path.parent().unwrap_or(Path::new("")).join(name);
        if self.stack.contains(&normal(&target)) {
            return Err(place.error(Problem::Loop(target.display().to_string())));
        }
        if self.stack.len() >= MAX_DEPTH {
            return Err(place.error(Problem::TooMuch(format!("includes nest deeper than {MAX_DEPTH} files"))));
        }
        match self.text(&target) {
            Ok(text) => self.file(&target, &text),
            Err(ReadError::Missing) if optional => Ok(()),
            Err(error) => Err(place.error(Problem::Unreadable {
                file: target.display().to_string(),
                error,
            })),
        }
    }

    fn vendor(&mut self, words: &[&str]) -> Line {
        let (&[name, number], options) = split(words).ok_or("expected `VENDOR name number`")?;
        let name = checked_name(name)?;
        let id = integer(number).ok_or_else(|| format!("`{}` is no vendor number", shown(number)))?;
        let mut format = VendorFormat::STANDARD;
        for option in options {
            match option.split_once('=') {
                Some((key, text)) if key.eq_ignore_ascii_case("format") => {
                    format = vendor_format(text)
                        .ok_or_else(|| format!("`{}`: expected format=type,length[,c]", shown(option)))?;
                }
                _ => return Err(format!("unknown option `{}` of a vendor", shown(option))),
            }
        }
        self.dictionary.define_vendor(name, id, format);
        Ok(())
    }

    fn begin_vendor(&mut self, place: &Place, words: &[&str]) -> Result<(), DictionaryError> {
        let block = |message: String| place.error(Problem::Block(message));
        let Some((&name, options)) = words.split_first() else {
            return Err(block("expected `BEGIN-VENDOR name`".into()));
        };
        let Some(vendor) = self.dictionary.vendor_by_name(name) else {
            return Err(block(format!(
                "unknown vendor `{}`: no VENDOR line names it",
                shown(name)
            )));
        };
        let mut base = Parent::Vendor(vendor);
        for option in options {
            let container = match option.split_once('=') {
                Some((key, value)) if key.eq_ignore_ascii_case("format") || key.eq_ignore_ascii_case("parent") => value,
                _ => return Err(block(format!("unknown option `{}` of BEGIN-VENDOR", shown(option)))),
            };
            let last = container.rsplit('.').next().unwrap_or(container);
            let id = self
                .dictionary
                .by_name(last)
                .map(|id| (id, self.dictionary.definition(id).data_type));
            base = match id {
                Some((id, DataType::ExtendedVendorSpecific)) => Parent::ExtendedVendor(id, vendor),
                Some((_, DataType::VendorSpecific)) => Parent::Vendor(vendor),
                _ => {
                    return Err(block(format!(
                        "`{}` is no attribute that holds vendors' attributes",
                        shown(last)
                    )));
                }
            };
        }
        let name = self.dictionary.vendor_name(vendor).unwrap_or(name).into();
        self.open(place, Frame::Vendor { name, base })
    }

    fn begin_tlv(&mut self, place: &Place, words: &[&str]) -> Result<(), DictionaryError> {
        let &[name] = words else {
            return Err(place.error(Problem::Block("expected `BEGIN-TLV name`".into())));
        };
        match self.find(name) {
            Some(id) if self.dictionary.definition(id).data_type.is_container() => self.open(place, Frame::Tlv { id }),
            Some(_) => Err(place.error(Problem::Block(format!("`{}` is no tlv", shown(name))))),
            None => Err(place.error(Problem::Block(format!("unknown tlv `{}`", shown(name))))),
        }
    }

    fn begin_protocol(&mut self, place: &Place, words: &[&str]) -> Result<(), DictionaryError> {
        let name = words.first().copied().unwrap_or_default();
        let radius = name.eq_ignore_ascii_case("RADIUS") || name.eq_ignore_ascii_case("freeradius");
        if !radius {
            self.warn(
                place,
                format!("protocol `{}` is not RADIUS: its attributes are skipped", shown(name)),
            );
        }
        self.open(place, Frame::Protocol { radius })
    }

    fn open(&mut self, place: &Place, frame: Frame) -> Result<(), DictionaryError> {
        if self.frames.len() >= MAX_NESTING {
            return Err(place.error(Problem::TooMuch(format!("more than {MAX_NESTING} blocks are open"))));
        }
        self.relative = None;
        self.frames.push(frame);
        Ok(())
    }

    fn end(
        &mut self,
        place: &Place,
        depth: usize,
        fits: impl Fn(&Frame) -> bool,
        keyword: &str,
    ) -> Result<(), DictionaryError> {
        self.relative = None;
        if self.frames.len() > depth && self.frames.last().is_some_and(fits) {
            self.frames.pop();
            return Ok(());
        }
        Err(place.error(Problem::Block(format!(
            "{keyword} where no such block was begun in this file"
        ))))
    }

    fn flags(&mut self, words: &[&str]) -> Line {
        match words {
            [word] if word.eq_ignore_ascii_case("internal") => self.internal = true,
            [word] if word.eq_ignore_ascii_case("!internal") => self.internal = false,
            _ => return Err(format!("unknown FLAGS `{}`", shown(&words.join(" ")))),
        }
        Ok(())
    }

    // attributes

    fn attribute(&mut self, place: &Place, words: &[&str]) -> Line {
        self.in_struct = false;
        let (&[name, number, type_name], options) = split(words).ok_or("expected `ATTRIBUTE name number type`")?;
        let name = checked_name(name)?;
        let relative = number.starts_with('.');
        let (mut parent, number) = self.place_number(number)?;
        let mut options = options.to_vec();
        // an old spelling names the vendor in the last column
        if parent == Parent::Root
            && let Some(at) = options
                .iter()
                .position(|option| self.dictionary.vendor_by_name(option).is_some())
            && let Some(vendor) = self.dictionary.vendor_by_name(options.remove(at))
        {
            parent = Parent::Vendor(vendor);
        }
        let Options {
            data_type,
            mut flags,
            shared,
        } = read_type(type_name, &options)?;
        if parent == Parent::Root && (number > 255 || self.internal || flags.internal) {
            parent = Parent::Internal;
        }
        flags.internal = parent == Parent::Internal || flags.internal;
        self.check_number(parent, number)?;
        let id = self.add(
            place,
            name,
            New {
                name,
                parent,
                number,
                data_type,
                flags,
            },
        )?;
        if let Some(shared) = shared {
            self.use_shared(id, &shared)?;
        }
        if !relative {
            self.relative = data_type.is_container().then_some(id);
        }
        if type_name.eq_ignore_ascii_case("struct") || type_name.eq_ignore_ascii_case("union") {
            self.in_struct = true;
        }
        Ok(())
    }

    /// `DEFINE name type`: an internal attribute without a number.
    fn define_unnumbered(&mut self, place: &Place, words: &[&str]) -> Line {
        let (&[name, type_name], options) = split(words).ok_or("expected `DEFINE name type`")?;
        let name = checked_name(name)?;
        let Options {
            data_type,
            flags,
            shared,
        } = read_type(type_name, options)?;
        let flags = Flags {
            internal: true,
            ..flags
        };
        let id = self.add(
            place,
            name,
            New {
                name,
                parent: Parent::Internal,
                number: 0,
                data_type,
                flags,
            },
        )?;
        shared.map_or(Ok(()), |shared| self.use_shared(id, &shared))
    }

    fn add(&mut self, place: &Place, local: &str, new: New<'_>) -> Result<AttributeId, String> {
        let parent = new.parent;
        let qualified = self.qualified(local);
        let new = New {
            name: &qualified,
            ..new
        };
        let id = match self.dictionary.define(new, place.number, place.line) {
            Defined::As(id) => id,
            Defined::Moved(id, from) => {
                let where_from = self
                    .dictionary
                    .source(from)
                    .map_or(String::new(), |(f, l)| format!(" by {f}:{l}"));
                let before = self.dictionary.oid(from).unwrap_or_else(|| "internal".into());
                self.warn(
                    place,
                    format!("`{qualified}` was defined as {before}{where_from}: the name now means this attribute"),
                );
                id
            }
            Defined::Fact(id) if parent == Parent::Internal => id,
            Defined::Fact(_) => {
                return Err(format!(
                    "`{qualified}` is the name of a fact of this software, and stays it"
                ));
            }
            Defined::Full => return Err(format!("more than {} attributes", super::build::MAX_ATTRIBUTES)),
        };
        self.loaded.attributes += 1;
        if self.in_version_4() {
            self.local.insert((parent, local.to_ascii_lowercase()), id);
        }
        for value in self.waiting.remove(&qualified.to_ascii_lowercase()).unwrap_or_default() {
            self.waiting_count = self.waiting_count.saturating_sub(1);
            self.set_value(&value.place, id, &value.name, value.number);
        }
        Ok(id)
    }

    /// Where a number of an ATTRIBUTE line counts, and the number there.
    fn place_number(&self, text: &str) -> Result<(Parent, u32), String> {
        let bad = || format!("`{}` is no attribute number", shown(text));
        let (mut at, rest) = match text.strip_prefix('.') {
            Some(rest) => {
                let base = self
                    .relative
                    .ok_or_else(|| format!("`{}` follows no tlv", shown(text)))?;
                (Step::In(Parent::Attribute(base)), rest)
            }
            None => (Step::In(self.base()), text),
        };
        let mut components = rest.split('.');
        let mut number = components.next().and_then(integer).ok_or_else(bad)?;
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
            number = integer(component).ok_or_else(bad)?;
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
            Step::In(parent) => {
                let id = self.dictionary.by_number(parent, number)?;
                match self.dictionary.definition(id).data_type {
                    DataType::VendorSpecific => Some(Step::Vendors),
                    DataType::ExtendedVendorSpecific => Some(Step::ExtendedVendors(id)),
                    data_type if data_type.is_container() => Some(Step::In(Parent::Attribute(id))),
                    _ => None,
                }
            }
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
        self.frames.iter().any(|frame| matches!(frame, Frame::Protocol { .. }))
    }

    /// The name as policies know it: version 4's local names get their vendor's or TLV's as a prefix.
    fn qualified(&self, name: &str) -> String {
        let prefix = match self.frames.last() {
            _ if !self.in_version_4() => return name.into(),
            Some(Frame::Vendor { name, .. }) => name,
            Some(Frame::Tlv { id }) => &self.dictionary.definition(*id).name,
            _ => return name.into(),
        };
        let has_it = name.get(..prefix.len()).is_some_and(|start| {
            start.eq_ignore_ascii_case(prefix) && name.as_bytes().get(prefix.len()) == Some(&b'-')
        });
        if has_it {
            name.into()
        } else {
            format!("{prefix}-{name}")
        }
    }

    /// An attribute by the name that a line of this block would use.
    fn find(&self, name: &str) -> Option<AttributeId> {
        if self.in_version_4() {
            let local = self.local.get(&(self.base(), name.to_ascii_lowercase())).copied();
            if let Some(id) = local.or_else(|| self.dictionary.by_name(&self.qualified(name))) {
                return Some(id);
            }
        }
        self.dictionary.by_name(name)
    }

    /// `ALIAS name target`, where the target may be a path: `Vendor-Specific.Cisco.AVPair`.
    fn alias(&mut self, words: &[&str]) -> Line {
        let &[name, target] = words else {
            return Err("expected `ALIAS name target`".into());
        };
        let name = checked_name(name)?;
        let id = self
            .follow(target)
            .ok_or_else(|| format!("unknown attribute `{}`", shown(target)))?;
        if self.dictionary.alias(name, id) {
            Ok(())
        } else {
            Err(format!("`{name}` is the name of a fact of this software, and stays it"))
        }
    }

    fn follow(&self, path: &str) -> Option<AttributeId> {
        if let Some(id) = self.find(path) {
            return Some(id);
        }
        let mut parts = path.split('.');
        let mut id = self.find(parts.next()?)?;
        let mut at = self.inside(id)?;
        for part in parts.take(MAX_NESTING) {
            at = match at {
                Step::Vendors => Step::In(Parent::Vendor(self.dictionary.vendor_by_name(part)?)),
                Step::ExtendedVendors(of) => {
                    Step::In(Parent::ExtendedVendor(of, self.dictionary.vendor_by_name(part)?))
                }
                Step::In(parent) => {
                    let local = self.local.get(&(parent, part.to_ascii_lowercase())).copied();
                    id = local.or_else(|| {
                        self.dictionary
                            .by_name(part)
                            .filter(|&id| self.dictionary.definition(id).parent == parent)
                    })?;
                    self.inside(id).unwrap_or(Step::In(Parent::Attribute(id)))
                }
            };
        }
        Some(id)
    }

    fn inside(&self, id: AttributeId) -> Option<Step> {
        match self.dictionary.definition(id).data_type {
            DataType::VendorSpecific => Some(Step::Vendors),
            DataType::ExtendedVendorSpecific => Some(Step::ExtendedVendors(id)),
            data_type if data_type.is_container() => Some(Step::In(Parent::Attribute(id))),
            _ => None,
        }
    }

    // values

    fn value(&mut self, place: &Place, words: &[&str]) -> Line {
        let (&[attribute, name, number], &[]) = split(words).ok_or("expected `VALUE attribute name number`")? else {
            return Err("expected `VALUE attribute name number`".into());
        };
        let name = checked_name(name)?;
        let parsed = signed(number).ok_or_else(|| format!("`{}` is no number", shown(number)))?;
        if let Some(shared) = self.enums.get_mut(&attribute.to_ascii_lowercase()) {
            if shared.values.len() >= super::build::MAX_VALUES {
                return Err(format!("more than {} values", super::build::MAX_VALUES));
            }
            shared.values.push((name.into(), parsed));
            let users = shared.users.clone();
            self.loaded.values += 1;
            for id in users {
                self.dictionary.define_value(id, name, parsed);
            }
            return Ok(());
        }
        match self.find(attribute) {
            Some(id) => self.set_value(place, id, name, parsed),
            None if self.waiting_count >= MAX_WAITING => {
                return Err(format!("unknown attribute `{}`", shown(attribute)));
            }
            None => {
                // version 3 allows a value before its attribute
                self.waiting_count += 1;
                self.waiting
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

    fn set_value(&mut self, place: &Place, id: AttributeId, name: &str, number: i64) {
        let definition = self.dictionary.definition(id);
        let (data_type, attribute) = (definition.data_type, &definition.name);
        let range = match data_type {
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
            let message = format!(
                "{number} is no value of `{attribute}`: expected {} to {}",
                range.start(),
                range.end()
            );
            return self.warn(place, message);
        }
        self.loaded.values += 1;
        if let Some(before) = self.dictionary.define_value(id, name, number) {
            let attribute = &self.dictionary.definition(id).name;
            let message = format!("`{name}` of `{attribute}` was {before} before");
            self.warn(place, message);
        }
    }

    /// `ENUM name type`.
    fn shared(&mut self, words: &[&str]) -> Line {
        let (&[name, _type_name], _) = split(words).ok_or("expected `ENUM name type`")?;
        let name = checked_name(name)?;
        self.enums.entry(name.to_ascii_lowercase()).or_default();
        Ok(())
    }

    fn use_shared(&mut self, id: AttributeId, name: &str) -> Line {
        let Some(shared) = self.enums.get_mut(&name.to_ascii_lowercase()) else {
            // the values of another attribute, copied
            let from = self
                .find(name)
                .ok_or_else(|| format!("unknown enum `{}`", shown(name)))?;
            for (name, number) in self.dictionary.definition(from).values.clone() {
                self.dictionary.define_value(id, &name, number);
            }
            return Ok(());
        };
        shared.users.push(id);
        for (name, number) in &shared.values {
            self.dictionary.define_value(id, name, *number);
        }
        Ok(())
    }

    // the end

    fn finish(&mut self) {
        let mut unknown: Vec<(String, Waiting)> = std::mem::take(&mut self.waiting)
            .into_iter()
            .flat_map(|(attribute, values)| values.into_iter().map(move |value| (attribute.clone(), value)))
            .collect();
        unknown.sort_by_key(|(_, value)| (value.place.number, value.place.line));
        for (attribute, value) in unknown {
            let message = format!(
                "value `{}` of the unknown attribute `{}`",
                value.name,
                shown(&attribute)
            );
            self.warn(&value.place, message);
        }
    }

    fn warn(&mut self, place: &Place, message: String) {
        if self.loaded.warnings.len() < MAX_WARNINGS {
            self.loaded.warnings.push(Warning {
                file: place.file.to_string(),
                line: place.line,
                message,
            });
        } else {
            self.loaded.more_warnings += 1;
        }
    }
}

/// Where a dotted number has led so far.
#[derive(Clone, Copy)]
enum Step {
    In(Parent),
    /// Inside Vendor-Specific: a vendor's number is next.
    Vendors,
    ExtendedVendors(AttributeId),
}

impl Place {
    fn error(&self, problem: Problem) -> DictionaryError {
        DictionaryError {
            file: self.file.to_string(),
            line: self.line,
            problem,
        }
    }
}

impl Frame {
    fn opened(&self) -> String {
        match self {
            Frame::Vendor { name, .. } => format!("BEGIN-VENDOR {name}"),
            Frame::Tlv { .. } => "BEGIN-TLV".into(),
            Frame::Protocol { .. } => "BEGIN-PROTOCOL".into(),
        }
    }
}

/// What the type and the flags of an ATTRIBUTE line say.
struct Options {
    data_type: DataType,
    flags: Flags,
    /// `enum=name`
    shared: Option<String>,
}

fn read_type(name: &str, options: &[&str]) -> Result<Options, String> {
    let mut data_type = data_type(name).ok_or_else(|| format!("unknown type `{}`", shown(name)))?;
    let mut flags = Flags::default();
    let mut shared = None;
    for option in options
        .iter()
        .flat_map(|options| options.split(','))
        .filter(|option| !option.is_empty())
    {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        match (key.to_ascii_lowercase().as_str(), value.to_ascii_lowercase().as_str()) {
            ("has_tag", "") => flags.has_tag = true,
            ("concat", "") => flags.concat = true,
            ("array", "") => flags.array = true,
            ("virtual" | "internal", "") => flags.internal = true,
            ("encrypt", "1" | "user-password") => flags.encryption = Encryption::UserPassword,
            ("encrypt", "2" | "tunnel-password") => flags.encryption = Encryption::TunnelPassword,
            ("encrypt", "3" | "ascend-secret") => flags.encryption = Encryption::AscendSecret,
            ("extended", "") => data_type = DataType::Extended { long: false },
            ("long" | "long_extended" | "long-extended", "") => data_type = DataType::Extended { long: true },
            ("abinary", "") => data_type = DataType::AscendBinary,
            ("enum", name) if !name.is_empty() => shared = Some(name.into()),
            // hiding from logs is for all octets that this software does not know to be harmless
            ("secret", "") => {}
            _ => return Err(format!("unknown flag `{}`", shown(option))),
        }
    }
    Ok(Options {
        data_type,
        flags,
        shared,
    })
}

fn data_type(name: &str) -> Option<DataType> {
    let lower = name.to_ascii_lowercase();
    Some(match lower.as_str() {
        "string" | "text" => DataType::Text,
        "octets" => DataType::Octets(None),
        "byte" | "uint8" | "bool" => DataType::Byte,
        "short" | "uint16" => DataType::Short,
        "integer" | "uint32" | "time_delta" => DataType::Integer,
        "integer64" | "uint64" => DataType::Integer64,
        "signed" | "int32" => DataType::Signed,
        "date" => DataType::Date,
        "ipaddr" | "ipv4addr" => DataType::Ipv4,
        "ipv4prefix" => DataType::Ipv4Prefix,
        "ipv6addr" => DataType::Ipv6,
        "ipv6prefix" => DataType::Ipv6Prefix,
        "combo-ip" | "combo_ip" => DataType::ComboIp,
        "ifid" => DataType::InterfaceId,
        "ether" | "ethernet" => DataType::Ether,
        "abinary" => DataType::AscendBinary,
        "tlv" => DataType::Tlv,
        "vsa" => DataType::VendorSpecific,
        "evs" => DataType::ExtendedVendorSpecific,
        "extended" => DataType::Extended { long: false },
        "long-extended" | "long_extended" => DataType::Extended { long: true },
        "struct" | "union" | "group" | "vendor" | "int8" | "int16" | "int64" | "float32" | "float64" | "size"
        | "combo-prefix" | "combo-ip-prefix" | "attribute" | "void" | "null" => DataType::Opaque,
        _ => {
            let length = lower.strip_prefix("octets[")?.strip_suffix(']')?.parse::<u16>().ok()?;
            if !(1..=4_096).contains(&length) {
                return None;
            }
            DataType::Octets(Some(length))
        }
    })
}

fn vendor_format(text: &str) -> Option<VendorFormat> {
    let mut parts = text.split(',');
    let type_octets = parts
        .next()?
        .parse()
        .ok()
        .filter(|octets| matches!(octets, 1 | 2 | 4))?;
    let length_octets = parts.next()?.parse().ok().filter(|octets| matches!(octets, 0..=2))?;
    let continuation = match parts.next() {
        None => false,
        // WiMAX's octet is defined with one octet of type and one of length only
        Some("c") if (type_octets, length_octets) == (1, 1) => true,
        Some(_) => return None,
    };
    parts.next().is_none().then_some(VendorFormat {
        type_octets,
        length_octets,
        continuation,
    })
}

/// The first words of a line, and what follows them.
fn split<'w, 'a, const N: usize>(words: &'w [&'a str]) -> Option<(&'w [&'a str; N], &'w [&'a str])> {
    words.split_first_chunk::<N>()
}

fn checked_name(name: &str) -> Result<&str, String> {
    let fits = name.len() <= MAX_NAME && name.bytes().all(|octet| octet.is_ascii_graphic());
    if fits {
        Ok(name)
    } else {
        Err(format!(
            "`{}` is no name: expected 1 to {MAX_NAME} ASCII characters",
            shown(name)
        ))
    }
}

/// A number, decimal or `0x` hexadecimal.
fn integer(text: &str) -> Option<u32> {
    u32::try_from(signed(text)?).ok()
}

fn signed(text: &str) -> Option<i64> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let (digits, radix) = digits
        .strip_prefix("0x")
        .or_else(|| digits.strip_prefix("0X"))
        .map_or((digits, 10), |digits| (digits, 16));
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let number = i64::from_str_radix(digits, radix).ok()?;
    Some(if negative { -number } else { number })
}

/// Input as a message may quote it: short, on one line.
fn shown(text: &str) -> String {
    text.chars()
        .take(80)
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

/// A path without `.` and `..`, so that one file has one spelling.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if normal.file_name().is_some() => {
                normal.pop();
            }
            component => normal.push(component),
        }
    }
    normal
}
