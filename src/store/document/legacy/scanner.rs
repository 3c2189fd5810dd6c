//! Octets of a dump one after the other, with the line that they are on: what MySQL's lexer knows of white space, comments,
//! names and strings. Nothing is kept but what the caller keeps, however long the file and its lines are.

use std::io::{self, BufRead};

/// Octets of a name that are kept: MySQL's are 64 characters at most.
const MAX_NAME: usize = 256;

/// Why a dump cannot be read on.
#[derive(Debug, thiserror::Error)]
pub(super) enum DumpError {
    /// The file cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Not what `mysqldump` writes.
    #[error("{what}")]
    Syntax {
        /// Counted from 1.
        line: u32,
        /// What is wrong, with a hint.
        what: String,
    },
}

pub(super) struct Scanner<R> {
    input: R,
    /// An octet that was taken to look behind it.
    held: Option<u8>,
    line: u32,
}

impl<R: BufRead> Scanner<R> {
    pub(super) fn new(input: R) -> Scanner<R> {
        Scanner {
            input,
            held: None,
            line: 1,
        }
    }

    /// The line of the next octet, counted from 1.
    pub(super) fn line(&self) -> u32 {
        self.line
    }

    /// The next octet, which stays; none at the end.
    pub(super) fn peek(&mut self) -> io::Result<Option<u8>> {
        match self.held {
            Some(octet) => Ok(Some(octet)),
            None => self.buffered(),
        }
    }

    /// Takes the next octet.
    pub(super) fn next(&mut self) -> io::Result<Option<u8>> {
        let octet = match self.held.take() {
            Some(octet) => Some(octet),
            None => {
                let octet = self.buffered()?;
                self.input.consume(usize::from(octet.is_some()));
                octet
            }
        };
        if octet == Some(b'\n') {
            self.line = self.line.saturating_add(1);
        }
        Ok(octet)
    }

    /// The octet after the next, which stays as well.
    pub(super) fn second(&mut self) -> io::Result<Option<u8>> {
        if self.held.is_none() {
            self.held = self.buffered()?;
            self.input.consume(usize::from(self.held.is_some()));
        }
        match self.held {
            Some(_) => self.buffered(),
            None => Ok(None),
        }
    }

    /// Takes the next octet if it is this one.
    pub(super) fn take(&mut self, octet: u8) -> io::Result<bool> {
        let there = self.peek()? == Some(octet);
        if there {
            self.next()?;
        }
        Ok(there)
    }

    /// Takes octets as long as they are wanted, in pieces.
    pub(super) fn take_while(&mut self, wanted: impl Fn(u8) -> bool, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        if let Some(octet) = self.held {
            if !wanted(octet) {
                return Ok(());
            }
            self.next()?;
            each(&[octet]);
        }
        while self.buffered()?.is_some() {
            let octets = self.input.fill_buf()?;
            let end = octets.iter().position(|octet| !wanted(*octet));
            let piece = octets.get(..end.unwrap_or(octets.len())).unwrap_or_default();
            let lines = piece.iter().filter(|octet| **octet == b'\n').count();
            self.line = self.line.saturating_add(u32::try_from(lines).unwrap_or(u32::MAX));
            each(piece);
            let taken = piece.len();
            self.input.consume(taken);
            if end.is_some() {
                break;
            }
        }
        Ok(())
    }

    /// Takes white space and comments.
    pub(super) fn blank(&mut self) -> Result<(), DumpError> {
        loop {
            self.take_while(|octet| octet.is_ascii_whitespace(), |_| {})?;
            match self.peek()? {
                Some(b'#') => self.take_while(|octet| octet != b'\n', |_| {})?,
                Some(b'-') if self.second()? == Some(b'-') => self.take_while(|octet| octet != b'\n', |_| {})?,
                Some(b'/') if self.second()? == Some(b'*') => self.comment()?,
                _ => return Ok(()),
            }
        }
    }

    /// Takes a comment. One that MySQL runs (`/*!40101 … */`, MariaDB's `/*M!…`) holds SQL, and so perhaps an end of a
    /// comment in a string.
    fn comment(&mut self) -> Result<(), DumpError> {
        let line = self.line;
        self.next()?;
        self.next()?;
        let mut is_sql = self.take(b'!')?;
        if !is_sql && self.peek()? == Some(b'M') && self.second()? == Some(b'!') {
            is_sql = true;
        }
        loop {
            match self.peek()? {
                None => return Err(unfinished(line, "comment")),
                Some(quote @ (b'\'' | b'"')) if is_sql => self.string(quote, |_| {})?,
                Some(b'*') if self.second()? == Some(b'/') => {
                    self.next()?;
                    self.next()?;
                    return Ok(());
                }
                Some(_) => _ = self.next()?,
            }
        }
    }

    /// Takes letters, digits, `_` and `$`; their upper case, of which only the beginning is kept.
    pub(super) fn word(&mut self) -> io::Result<String> {
        Ok(self.bare_name()?.to_ascii_uppercase())
    }

    /// Takes a table's or column's name, quoted or not; of `database.table` the table.
    pub(super) fn name(&mut self) -> Result<String, DumpError> {
        loop {
            self.blank()?;
            let name = match self.peek()? {
                Some(quote @ (b'`' | b'"')) => self.quoted_name(quote)?,
                _ => self.bare_name()?,
            };
            if name.is_empty() {
                return Err(self.unexpected("a name is missing")?);
            }
            self.blank()?;
            if !self.take(b'.')? {
                return Ok(name);
            }
        }
    }

    fn bare_name(&mut self) -> io::Result<String> {
        let mut name = Vec::new();
        let keep = |octet: u8| octet.is_ascii_alphanumeric() || octet == b'_' || octet == b'$' || octet >= 0x80;
        self.take_while(keep, |piece| extend(&mut name, piece))?;
        Ok(String::from_utf8_lossy(&name).into_owned())
    }

    fn quoted_name(&mut self, quote: u8) -> Result<String, DumpError> {
        let line = self.line;
        let mut name = Vec::new();
        self.next()?;
        loop {
            self.take_while(|octet| octet != quote, |piece| extend(&mut name, piece))?;
            if self.next()?.is_none() {
                return Err(unfinished(line, "name"));
            }
            if !self.take(quote)? {
                return Ok(String::from_utf8_lossy(&name).into_owned());
            }
            extend(&mut name, &[quote]);
        }
    }

    /// Takes a string with its quotes, and gives what it stands for in pieces.
    pub(super) fn string(&mut self, quote: u8, mut each: impl FnMut(&[u8])) -> Result<(), DumpError> {
        let line = self.line;
        self.next()?;
        loop {
            self.take_while(|octet| octet != quote && octet != b'\\', &mut each)?;
            match self.next()? {
                None => return Err(unfinished(line, "string")),
                Some(b'\\') => match self.next()? {
                    None => return Err(unfinished(line, "string")),
                    Some(b'0') => each(b"\0"),
                    Some(b'b') => each(b"\x08"),
                    Some(b'n') => each(b"\n"),
                    Some(b'r') => each(b"\r"),
                    Some(b't') => each(b"\t"),
                    Some(b'Z') => each(b"\x1a"),
                    // The wildcards of LIKE keep their backslash.
                    Some(octet @ (b'%' | b'_')) => each(&[b'\\', octet]),
                    Some(octet) => each(&[octet]),
                },
                Some(_) if self.take(quote)? => each(&[quote]),
                Some(_) => return Ok(()),
            }
        }
    }

    /// An error at the next octet, which is named.
    pub(super) fn unexpected(&mut self, what: &str) -> io::Result<DumpError> {
        let found = match self.peek()? {
            None => "the file ends here: is the dump complete?".to_owned(),
            Some(octet) => format!("`{}` stands there", octet.escape_ascii()),
        };
        Ok(DumpError::Syntax {
            line: self.line,
            what: format!("{what}, {found}\nhint: give the file as `mysqldump` writes it"),
        })
    }

    fn buffered(&mut self) -> io::Result<Option<u8>> {
        loop {
            match self.input.fill_buf() {
                Ok(octets) => return Ok(octets.first().copied()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn extend(name: &mut Vec<u8>, piece: &[u8]) {
    let room = MAX_NAME.saturating_sub(name.len());
    name.extend_from_slice(piece.get(..room).unwrap_or(piece));
}

fn unfinished(line: u32, what: &str) -> DumpError {
    DumpError::Syntax {
        line,
        what: format!("the {what} that begins here has no end\nhint: is the dump complete?"),
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use proptest::prelude::*;

    use super::*;

    fn read(text: &[u8]) -> Result<Vec<u8>, DumpError> {
        let mut value = Vec::new();
        Scanner::new(text).string(b'\'', |piece| value.extend_from_slice(piece))?;
        Ok(value)
    }

    #[test]
    fn strings_mean_what_mysql_says() -> Result<(), DumpError> {
        for (text, value) in [
            (r"'a''b'", "a'b"),
            (r"'a\'b\\' c", "a'b\\"),
            (r"'\0\b\n\r\t\Z'", "\0\x08\n\r\t\x1a"),
            (r"'\%\_\x\é'", r"\%\_xé"),
            ("'two\nlines'", "two\nlines"),
            ("''", ""),
        ] {
            assert_eq!(read(text.as_bytes())?, value.as_bytes(), "{text}");
        }
        for text in ["'", "'a", r"'a\'", r"'a\", "'a''"] {
            assert!(read(text.as_bytes()).is_err(), "{text}");
        }
        Ok(())
    }

    #[test]
    fn blanks_and_names() -> Result<(), DumpError> {
        let text =
            b" -- a ' quote\n# another '\n/* it's */ /*!40101 SET x='*/' */ /*M!999999\\- x */\n `a``b` . \"c d\" (";
        let mut scanner = Scanner::new(&text[..]);
        assert_eq!(scanner.name()?, "c d");
        assert_eq!((scanner.line(), scanner.peek()?), (4, Some(b'(')));
        assert!(Scanner::new(&b"/* a"[..]).blank().is_err());
        assert!(Scanner::new(&b"(a"[..]).name().is_err());
        assert_eq!(Scanner::new("x".repeat(9_999).as_bytes()).name()?.len(), MAX_NAME);
        Ok(())
    }

    proptest! {
        /// However the file comes in.
        #[test]
        fn the_size_of_a_buffer_does_not_matter(text in "['\\\\a\\n/*!M#` .-]{0,40}", size in 1_usize..5) {
            let walk = |input: &mut dyn BufRead| {
                let mut scanner = Scanner::new(input);
                let mut seen = Vec::new();
                let end = loop {
                    match scanner.blank().and_then(|()| Ok(scanner.peek()?)) {
                        Ok(None) => break "end".to_owned(),
                        Ok(Some(b'\'')) => match scanner.string(b'\'', |piece| seen.extend_from_slice(piece)) {
                            Ok(()) => {}
                            Err(error) => break error.to_string(),
                        },
                        Ok(Some(octet)) => {
                            seen.push(octet);
                            let _ = scanner.next();
                        }
                        Err(error) => break error.to_string(),
                    }
                };
                (seen, end, scanner.line())
            };
            let whole = walk(&mut text.as_bytes());
            prop_assert_eq!(whole, walk(&mut BufReader::with_capacity(size, text.as_bytes())));
        }
    }
}
