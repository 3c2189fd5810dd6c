//! FreeRADIUS's dictionary format, in the spellings of its versions 3 and 4.
//!
//! Words of a line are separated by blanks, a word that starts with `#` begins a comment, keywords and types have no
//! case. A line that is not understood is a [`Warning`] and is skipped; what would put the lines after it in the wrong
//! place (an include that loops or is missing, a block of an unknown vendor) is a [`DictionaryError`].
//!
//! Version 4 writes everything inside `BEGIN-PROTOCOL RADIUS` and names attributes within their vendor or TLV only
//! (`AVPair` of Cisco). Here such an attribute has the name that policies use, with the prefix: `Cisco-AVPair`.
//! `struct`, `union` and `group` keep their octets; their members are not attributes here.

mod attributes;
mod values;
mod words;

use std::collections::{HashMap, HashSet};
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

use super::Dictionary;
use super::types::{AttributeId, DataType, Parent, VendorFormat};
pub(super) use words::number;
use words::shown;

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
/// Words of a line after its keyword.
const MAX_WORDS: usize = 8;
/// Components of a dotted number, and blocks that may be open at once.
const MAX_NESTING: usize = 16;

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
        values: values::Values::default(),
        local: HashMap::new(),
        nameless: HashSet::new(),
        relative: None,
        in_struct: false,
        internal: false,
    };
    let text = (loader.read)(root).map_err(|error| {
        let file = root.display().to_string();
        DictionaryError {
            file: file.clone(),
            line: 0,
            problem: Problem::Unreadable { file, error },
        }
    })?;
    loader.file(root, &text)?;
    loader.warn_waiting();
    Ok(loader.loaded)
}

/// Where the loader is.
#[derive(Clone)]
struct Place {
    file: Rc<str>,
    /// The file's number in the dictionary.
    number: u32,
    line: u32,
}

/// A block that is open.
enum Frame {
    Vendor {
        name: Box<str>,
        base: Parent,
    },
    Tlv {
        id: AttributeId,
    },
    /// RADIUS's own: a sign of version 4.
    Protocol,
    /// Another protocol, or a struct's members: all of it is skipped.
    Skipped {
        begin: &'static str,
        depth: u32,
    },
}

struct Loader<'a> {
    dictionary: &'a mut Dictionary,
    read: &'a mut dyn FnMut(&Path) -> Result<String, ReadError>,
    loaded: Loaded,
    octets: usize,
    /// The files that are open, outermost first.
    stack: Vec<PathBuf>,
    frames: Vec<Frame>,
    values: values::Values,
    /// Version 4's names within a vendor or TLV, lower case.
    local: HashMap<(Parent, String), AttributeId>,
    /// Attributes that were warned about because they have named values and are no numbers.
    nameless: HashSet<AttributeId>,
    /// What a number that starts with a dot counts in.
    relative: Option<AttributeId>,
    /// The last attribute keeps its octets, so that MEMBER lines may follow.
    in_struct: bool,
    /// `FLAGS internal` holds to the end of the file.
    internal: bool,
}

/// A line is understood, or not: then why.
type Line = Result<(), String>;

impl Loader<'_> {
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
                    format!("{} is still open at the end of the file", frame.begin()),
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
        let mut rest = [""; MAX_WORDS];
        let mut count = 0;
        for word in words {
            let Some(slot) = rest.get_mut(count) else {
                self.warn(
                    place,
                    format!("`{}`: more words than a line can have", shown(line.trim())),
                );
                return Ok(());
            };
            *slot = word;
            count += 1;
        }
        let rest = rest.get(..count).unwrap_or_default();
        let is = |name: &str| keyword.eq_ignore_ascii_case(name);
        if self.skip(keyword) {
            return Ok(());
        }
        if !is("MEMBER") && !is("STRUCT") && !is("VALUE") {
            self.in_struct = false;
        }
        let understood = if is("ATTRIBUTE") {
            self.attribute(place, rest)
        } else if is("VALUE") {
            self.value(place, rest)
        } else if is("$INCLUDE") || is("$INCLUDE-") {
            return self.include(place, path, rest, keyword.ends_with('-'));
        } else if is("VENDOR") {
            self.vendor(rest)
        } else if is("BEGIN-VENDOR") {
            return self.begin_vendor(place, rest);
        } else if is("END-VENDOR") {
            return self.end(
                place,
                depth,
                |frame| matches!(frame, Frame::Vendor { .. }),
                "END-VENDOR",
            );
        } else if is("BEGIN-TLV") {
            return self.begin_tlv(place, rest, "BEGIN-TLV");
        } else if is("BEGIN") {
            return self.begin_tlv(place, rest, "BEGIN");
        } else if is("END-TLV") || is("END") {
            return self.end(place, depth, |frame| matches!(frame, Frame::Tlv { .. }), "END-TLV");
        } else if is("BEGIN-PROTOCOL") {
            return self.begin_protocol(place, rest);
        } else if is("END-PROTOCOL") {
            return self.end(place, depth, |frame| matches!(frame, Frame::Protocol), "END-PROTOCOL");
        } else if is("PROTOCOL") {
            Ok(()) // its number and options say nothing that RADIUS's attributes need
        } else if is("FLAGS") || is("FLAG") {
            self.flags(rest)
        } else if is("ALIAS") {
            self.alias(rest)
        } else if is("ENUM") {
            self.shared(rest)
        } else if is("DEFINE") {
            self.define(place, rest)
        } else if is("STRUCT") || is("MEMBER") {
            // their octets stay with the attribute
            if self.in_struct {
                Ok(())
            } else {
                Err(format!("{keyword} outside of a struct"))
            }
        } else {
            Err(format!("unknown keyword `{}`", shown(keyword)))
        };
        if let Err(message) = understood {
            self.warn(place, message);
        }
        Ok(())
    }

    /// Whether the line is inside of a skipped block, or ends one.
    fn skip(&mut self, keyword: &str) -> bool {
        let Some(Frame::Skipped { begin, depth }) = self.frames.last_mut() else {
            return false;
        };
        let end = begin.replacen("BEGIN", "END", 1);
        if keyword.eq_ignore_ascii_case(begin) {
            *depth = depth.saturating_add(1);
        } else if keyword.eq_ignore_ascii_case(&end) {
            match depth.checked_sub(1) {
                Some(less) => *depth = less,
                None => drop(self.frames.pop()),
            }
        }
        true
    }

    fn include(&mut self, place: &Place, path: &Path, line: &[&str], optional: bool) -> Result<(), DictionaryError> {
        let &[name] = line else {
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
        match (self.read)(&target) {
            Ok(text) => self.file(&target, &text),
            Err(ReadError::Missing) if optional => Ok(()),
            Err(error) => Err(place.error(Problem::Unreadable {
                file: target.display().to_string(),
                error,
            })),
        }
    }

    /// `VENDOR name number [format=type,length[,c]]`.
    fn vendor(&mut self, line: &[&str]) -> Line {
        let (&[name, number], options) = words::first(line, "VENDOR name number")?;
        let name = words::name(name)?;
        let id = words::number(number).ok_or_else(|| format!("`{}` is no vendor number", shown(number)))?;
        let mut format = VendorFormat::STANDARD;
        for option in options {
            format = option
                .split_once('=')
                .filter(|(key, _)| key.eq_ignore_ascii_case("format"))
                .and_then(|(_, text)| words::vendor_format(text))
                .ok_or_else(|| format!("`{}`: expected format=type,length[,c]", shown(option)))?;
        }
        self.dictionary.define_vendor(name, id, format);
        Ok(())
    }

    /// `BEGIN-VENDOR name [format=Extended-Vendor-Specific-1]`; version 4 says `parent=`.
    fn begin_vendor(&mut self, place: &Place, line: &[&str]) -> Result<(), DictionaryError> {
        let block = |message: String| place.error(Problem::Block(message));
        let (&name, options) = line
            .split_first()
            .ok_or_else(|| block("expected `BEGIN-VENDOR name`".into()))?;
        let vendor = self
            .dictionary
            .vendor_by_name(name)
            .ok_or_else(|| block(format!("unknown vendor `{}`: no VENDOR line names it", shown(name))))?;
        let mut base = Parent::Vendor(vendor);
        for option in options {
            let container = option
                .split_once('=')
                .filter(|(key, _)| key.eq_ignore_ascii_case("format") || key.eq_ignore_ascii_case("parent"))
                .and_then(|(_, path)| path.rsplit('.').next())
                .ok_or_else(|| block(format!("unknown option `{}` of BEGIN-VENDOR", shown(option))))?;
            let id = self.dictionary.by_name(container);
            base = match id.map(|id| (id, self.dictionary.definition(id).data_type)) {
                Some((id, DataType::ExtendedVendorSpecific)) => Parent::ExtendedVendor(id, vendor),
                Some((_, DataType::VendorSpecific)) => Parent::Vendor(vendor),
                _ => {
                    let message = format!("`{}` is no attribute that holds vendors' attributes", shown(container));
                    return Err(block(message));
                }
            };
        }
        let name = self.dictionary.vendor_name(vendor).unwrap_or(name).into();
        self.open(place, Frame::Vendor { name, base })
    }

    /// `BEGIN-TLV name`; newer version 4 says `BEGIN`, of structs too.
    fn begin_tlv(&mut self, place: &Place, line: &[&str], begin: &'static str) -> Result<(), DictionaryError> {
        let block = |message: String| place.error(Problem::Block(message));
        let &[name] = line else {
            return Err(block("expected `BEGIN-TLV name`".into()));
        };
        let id = self
            .find(name)
            .ok_or_else(|| block(format!("unknown tlv `{}`", shown(name))))?;
        match self.dictionary.definition(id).data_type {
            DataType::Opaque => self.open(place, Frame::Skipped { begin, depth: 0 }),
            data_type if data_type.is_container() => self.open(place, Frame::Tlv { id }),
            _ => Err(block(format!("`{}` is no tlv", shown(name)))),
        }
    }

    fn begin_protocol(&mut self, place: &Place, line: &[&str]) -> Result<(), DictionaryError> {
        let name = line.first().copied().unwrap_or_default();
        if name.eq_ignore_ascii_case("RADIUS") || name.eq_ignore_ascii_case("freeradius") {
            return self.open(place, Frame::Protocol);
        }
        self.warn(
            place,
            format!("protocol `{}` is not RADIUS: its attributes are skipped", shown(name)),
        );
        self.open(
            place,
            Frame::Skipped {
                begin: "BEGIN-PROTOCOL",
                depth: 0,
            },
        )
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

    /// `FLAGS internal`.
    fn flags(&mut self, line: &[&str]) -> Line {
        match line {
            [word] if word.eq_ignore_ascii_case("internal") => self.internal = true,
            [word] if word.eq_ignore_ascii_case("!internal") => self.internal = false,
            _ => return Err(format!("unknown FLAGS `{}`", shown(&line.join(" ")))),
        }
        Ok(())
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
    fn begin(&self) -> &'static str {
        match self {
            Frame::Vendor { .. } => "BEGIN-VENDOR",
            Frame::Tlv { .. } => "BEGIN-TLV",
            Frame::Protocol => "BEGIN-PROTOCOL",
            Frame::Skipped { begin, .. } => begin,
        }
    }
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
