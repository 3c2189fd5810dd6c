//! The floors of the house, held against what the source files import: `ARCHITECTURE.md` has the table.
//!
//! A module names nothing on a floor above its own; some rooms are blind to what lies below them as well; and the two lower
//! floors are handed time, randomness and files rather than reaching for them. Paths are read from `use` trees and from
//! expressions, those through `super` included.

use std::fs;
use std::path::{Path, PathBuf};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

/// From the ground up. Every module at the top of `src/` is here.
const FLOORS: [&[&str]; 5] = [
    &["mac", "radius", "eap", "mab", "nas", "policy", "reason"],
    &["clients", "duplicates", "conversations", "endpoints", "preferences"],
    &["store", "trust"],
    &["server", "listen"],
    &["config", "cli", "ops", "telemetry"],
];

/// What a room does not see, though it lies on its own floor or below: the room, the path, and why.
const BLIND: &[(&str, &[&str], &str)] = &[
    ("listen", &["policy"], "a listener never sees policies"),
    ("listen", &["store"], "a listener asks its handler, not the database"),
    ("listen", &["trust"], "a listener never sees certificates"),
    ("listen", &["eap"], "a listener carries octets"),
    ("listen", &["server"], "a listener knows only that it has a handler"),
    ("store", &["radius", "packet"], "the store never sees packets"),
    ("store", &["radius", "writer"], "the store never sees packets"),
    ("store", &["eap"], "the store never sees conversations"),
    (
        "policy",
        &["radius", "packet"],
        "a policy never sees packets: its facts come from anywhere",
    ),
    ("policy", &["radius", "writer"], "a decision is data, not a reply"),
    ("policy", &["eap"], "a policy never sees conversations"),
    ("radius", &["eap"], "RADIUS carries EAP and does not understand it"),
    ("radius", &["policy"], "RADIUS knows nothing of policies"),
    ("eap", &["policy"], "EAP asks for a decision and does not make it"),
    ("eap", &["radius"], "EAP is carried by RADIUS and does not know it"),
];

/// What the two lower floors are given as arguments, outside their tests.
const ARGUMENTS: &[(&[&str], &str)] = &[
    (&["Instant", "now"], "time is an argument"),
    (&["SystemTime", "now"], "time is an argument"),
    (&["UnixTime", "now"], "time is an argument"),
    (&["rand", "fill"], "randomness is an argument"),
    (&["fs"], "files are read above"),
    (&["File", "open"], "files are read above"),
    (&["UdpSocket"], "sockets are opened above"),
    (&["TcpStream"], "sockets are opened above"),
    (&["tokio"], "nothing waits down here"),
];

#[test]
fn no_floor_names_one_above_it() -> Fallible<()> {
    let mut wrong = Vec::new();
    for file in sources()? {
        let Some(own) = floor(file.room()) else {
            wrong.push(format!(
                "{}: `{}` has no floor: add it to the table",
                file.name,
                file.room()
            ));
            continue;
        };
        for path in file.paths() {
            let Some(Some(room)) = path.inside().map(<[String]>::first) else {
                continue;
            };
            match floor(room) {
                Some(other) if other > own => wrong.push(format!(
                    "{}:{}: `{}` is on floor {own} and names `{room}` of floor {other}",
                    file.name,
                    path.line,
                    file.room()
                )),
                _ => {}
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
    Ok(())
}

#[test]
fn some_rooms_are_blind_on_purpose() -> Fallible<()> {
    let mut wrong = Vec::new();
    for file in sources()? {
        for path in file.paths() {
            for (room, hidden, why) in BLIND {
                let seen = path
                    .inside()
                    .is_some_and(|inside| inside.iter().zip(*hidden).filter(|(a, b)| a == b).count() == hidden.len());
                if file.room() == *room && seen && !path.in_test {
                    wrong.push(format!(
                        "{}:{}: `{room}` names `{}`: {why}",
                        file.name,
                        path.line,
                        hidden.join("::")
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
    Ok(())
}

#[test]
fn the_lower_floors_are_handed_time_randomness_and_files() -> Fallible<()> {
    let mut wrong = Vec::new();
    for file in sources()? {
        if floor(file.room()).is_none_or(|floor| floor > 1) {
            continue;
        }
        for path in file.paths().into_iter().filter(|path| !path.in_test) {
            for (argument, why) in ARGUMENTS {
                if path.names.windows(argument.len()).any(|names| names == *argument) {
                    wrong.push(format!(
                        "{}:{}: `{}`: {why}",
                        file.name,
                        path.line,
                        path.names.join("::")
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
    Ok(())
}

#[test]
fn the_table_names_the_rooms_there_are() -> Fallible<()> {
    let rooms: Vec<String> = sources()?.iter().map(|file| file.room().to_owned()).collect();
    for room in FLOORS.concat() {
        assert!(
            rooms.iter().any(|other| other == room),
            "`{room}` is in the table and not in `src/`"
        );
    }
    Ok(())
}

#[test]
fn paths_are_found_wherever_they_are_written() {
    let text = r##"
        use crate::{eap, radius::{packet::Packet, writer as w}, policy::*};
        pub(crate) use super::sibling;
        // use crate::comment::one;
        /* crate::comment::two /* nested */ crate::comment::three */
        const A: &str = "crate::string::one"; const B: &str = r#"crate::string::"two""#; const C: char = '"';
        fn f<'a>(x: &'a crate::inline::Type) -> super::super::up::Thing { crate::call::now(); self::own::it() }
        #[cfg(test)]
        mod tests { use super::*; fn g() { crate::only::in_test(); super::f() } mod deep { use super::super::h; } }
        fn after() { std::time::Instant::now(); }
    "##;
    let file = Source {
        name: "src/room/part/file.rs".to_owned(),
        text: text.to_owned(),
    };
    let found: Vec<String> = file
        .paths()
        .iter()
        .filter_map(|path| path.inside().map(|inside| inside.join("::")))
        .collect();
    assert_eq!(
        found,
        [
            "eap",
            "radius::packet::Packet",
            "radius::writer",
            "policy::*",
            "room::part::sibling",
            "inline::Type",
            "room::up::Thing",
            "call::now",
            "room::part::file::own::it",
            "room::part::file::*",
            "only::in_test",
            "room::part::file::f",
            "room::part::file::h",
        ]
    );
    let tested: Vec<bool> = file.paths().iter().map(|path| path.in_test).collect();
    assert_eq!(tested.iter().filter(|tested| **tested).count(), 4);
    assert_eq!(
        file.paths().last().map(|path| path.names.join("::")).as_deref(),
        Some("std::time::Instant::now")
    );
}

fn floor(room: &str) -> Option<usize> {
    match room {
        "main" | "lib" => Some(FLOORS.len()),
        room => FLOORS.iter().position(|rooms| rooms.contains(&room)),
    }
}

struct Source {
    /// From the repository's root.
    name: String,
    text: String,
}

/// A path of two names or more, or what a `use` brings in.
#[derive(Debug)]
struct Named {
    /// With `crate` in front if it stays inside this crate.
    names: Vec<String>,
    line: usize,
    in_test: bool,
}

impl Named {
    /// Inside this crate, from its root.
    fn inside(&self) -> Option<&[String]> {
        match self.names.split_first() {
            Some((first, rest)) if first == "crate" => Some(rest),
            _ => None,
        }
    }
}

/// All of `src/`.
fn sources() -> Fallible<Vec<Source>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut folders, mut sources) = (vec![root.join("src")], Vec::new());
    while let Some(folder) = folders.pop() {
        let mut entries: Vec<PathBuf> = fs::read_dir(folder)?
            .map(|entry| Ok(entry?.path()))
            .collect::<std::io::Result<_>>()?;
        entries.sort();
        for path in entries {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root)?.to_string_lossy().into_owned();
                sources.push(Source {
                    name,
                    text: fs::read_to_string(path)?,
                });
            }
        }
    }
    Ok(sources)
}

impl Source {
    /// The path of its module.
    fn module(&self) -> Vec<String> {
        let path = self
            .name
            .trim_start_matches("src/")
            .trim_end_matches(".rs")
            .trim_end_matches("/mod");
        path.split('/').map(str::to_owned).collect()
    }

    /// The name at the top of `src/`.
    fn room(&self) -> &str {
        self.name
            .trim_start_matches("src/")
            .split(['/', '.'])
            .next()
            .unwrap_or_default()
    }

    /// A file of its own for a module's tests.
    fn is_for_tests(&self) -> bool {
        self.name.split(['/', '.']).any(|part| part == "tests")
    }

    fn paths(&self) -> Vec<Named> {
        let tokens = tokens(&self.text);
        let module = match self.room() {
            "lib" | "main" => Vec::new(),
            _ => self.module(),
        };
        let (mut found, mut reader) = (Vec::new(), Reader { tokens: &tokens, at: 0 });
        // of each open brace, the module that it opens, and whether that is for tests
        let mut open: Vec<(Option<String>, bool)> = Vec::new();
        let mut test_next = false;
        while let Some(token) = reader.next() {
            let line = reader.line();
            let in_test = self.is_for_tests() || open.iter().any(|(_, test)| *test);
            let inner = || {
                let modules = open.iter().filter_map(|(name, _)| name.clone());
                module.iter().cloned().chain(modules).collect::<Vec<String>>()
            };
            match token {
                "{" => open.push((None, false)),
                "}" => drop(open.pop()),
                "#" if reader.rest().starts_with(&["[", "cfg", "(", "test", ")", "]"]) => test_next = true,
                ";" => test_next = false,
                "mod" if reader.rest().get(1) == Some(&"{") => {
                    let name = reader.next().map(str::to_owned);
                    reader.next();
                    open.push((name, std::mem::take(&mut test_next)));
                }
                "use" => {
                    for names in reader.tree(&[]) {
                        found.push(Named {
                            names: resolve(names, &inner()),
                            line,
                            in_test,
                        });
                    }
                }
                name if is_name(name) && reader.rest().first() == Some(&"::") => {
                    let names = reader.path(name);
                    found.push(Named {
                        names: resolve(names, &inner()),
                        line,
                        in_test,
                    });
                }
                _ => {}
            }
        }
        found
    }
}

/// From the crate's root, if the path starts at `self` or `super`, or names this crate from outside.
fn resolve(names: Vec<String>, module: &[String]) -> Vec<String> {
    let ups = names.iter().take_while(|name| *name == "super").count();
    let (base, rest) = match names.first().map(String::as_str) {
        Some("portreeve") => (module.get(..0), names.get(1..)),
        Some("self") => (Some(module), names.get(1..)),
        Some("super") => (module.get(..module.len().saturating_sub(ups)), names.get(ups..)),
        _ => return names,
    };
    let root = std::iter::once("crate".to_owned());
    root.chain(base.into_iter().flatten().cloned())
        .chain(rest.into_iter().flatten().cloned())
        .collect()
}

struct Reader<'a> {
    tokens: &'a [(&'a str, usize)],
    at: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let token = self.tokens.get(self.at)?.0;
        self.at += 1;
        Some(token)
    }

    /// Of the token that was taken last.
    fn line(&self) -> usize {
        self.tokens.get(self.at.saturating_sub(1)).map_or(0, |(_, line)| *line)
    }

    /// The next few tokens.
    fn rest(&self) -> Vec<&'a str> {
        self.tokens
            .iter()
            .skip(self.at)
            .take(6)
            .map(|(token, _)| *token)
            .collect()
    }

    /// The rest of a path whose first name was taken.
    fn path(&mut self, first: &str) -> Vec<String> {
        let mut names = vec![first.to_owned()];
        while let ["::", name, ..] = self.rest().as_slice()
            && is_name(name)
        {
            names.push((*name).to_owned());
            self.at += 2;
        }
        names
    }

    /// The paths of a `use` tree, after `prefix`.
    fn tree(&mut self, prefix: &[String]) -> Vec<Vec<String>> {
        let mut names = prefix.to_vec();
        loop {
            match self.rest().first().copied() {
                Some("::") => {}
                Some("{") => {
                    self.at += 1;
                    let mut paths = Vec::new();
                    while !matches!(self.rest().first(), None | Some(&"}")) {
                        paths.extend(self.tree(&names));
                        if self.rest().first() == Some(&",") {
                            self.at += 1;
                        }
                    }
                    self.at += 1;
                    return paths;
                }
                Some("as") => {
                    self.at += 2;
                    return vec![names];
                }
                Some(name) if is_name(name) || name == "*" => names.push(name.to_owned()),
                _ => return vec![names],
            }
            self.at += 1;
        }
    }
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Names, `::` and single signs, each with its line; without comments, texts and characters.
fn tokens(text: &str) -> Vec<(&str, usize)> {
    let (mut tokens, mut rest, mut line) = (Vec::new(), text, 1);
    while let Some(first) = rest.chars().next() {
        let (length, wanted) = match first {
            '/' if rest.starts_with("//") => (rest.find('\n').unwrap_or(rest.len()), false),
            '/' if rest.starts_with("/*") => (block_comment(rest), false),
            '"' => (quoted(rest), false),
            'r' | 'b' | 'c' if raw_text(rest).is_some() => (raw_text(rest).unwrap_or(1), false),
            '\'' => (character(rest), false),
            ':' if rest.starts_with("::") => (2, true),
            c if c.is_alphabetic() || c == '_' => (
                rest.find(|c: char| !c.is_alphanumeric() && c != '_')
                    .unwrap_or(rest.len()),
                true,
            ),
            c => (c.len_utf8(), !c.is_whitespace()),
        };
        let (token, after) = rest.split_at_checked(length.max(1)).unwrap_or((rest, ""));
        if wanted {
            tokens.push((token, line));
        }
        line += token.matches('\n').count();
        rest = after;
    }
    tokens
}

fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0usize, 0);
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest.starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                break;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    at
}

fn quoted(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// `r"…"`, `br#"…"#` and their like.
fn raw_text(text: &str) -> Option<usize> {
    let start = ["r", "br", "cr"].iter().find_map(|prefix| text.strip_prefix(prefix))?;
    let hashes = start.len() - start.trim_start_matches('#').len();
    let inside = start.get(hashes..)?.strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let length = inside.find(&end).map_or(inside.len(), |at| at + end.len());
    Some(text.len() - inside.len() + length)
}

/// A character, or the mark of a lifetime.
fn character(text: &str) -> usize {
    let mut inside = text.char_indices().skip(1);
    match (inside.next(), inside.next()) {
        (Some((_, '\\')), Some((at, escaped))) => {
            let after = at + escaped.len_utf8();
            text.get(after..)
                .and_then(|rest| rest.find('\''))
                .map_or(text.len(), |more| after + more + 1)
        }
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 1,
    }
}
