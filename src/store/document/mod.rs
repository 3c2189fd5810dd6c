//! The policy set as a TOML document: what `portreeve export` writes and `portreeve import` reads.
//!
//! An import reads all its files, builds the set that they mean, checks all of it, and writes what differs from the
//! database's in one transaction. Rows that say the same stay as they are, so that importing an export changes nothing, not
//! even the revision. The set of the system that users come from is read as well, and goes the same way.

mod apply;
mod build;
mod difference;
mod export;
mod import;
mod legacy;
mod parse;

pub use build::Problem;
pub use export::{Exported, export};
pub use import::{ImportError, Imported, Options, import, import_older};
pub use legacy::OlderFile;
pub use parse::Source;

/// What stands for a secret in a redacted document.
pub const REDACTED: &str = "<redacted>";
