//! Runs the golden files: `tests/golden/*.txt`, one a topic. A line is a command, a line that begins with a blank goes on
//! with the one before it, `#` begins a comment. Each command leaves a result, which `match` compares.
//!
//! | line | does | result |
//! |---|---|---|
//! | `dictionary LINE; …` | more lines for the dictionary, over the built-in one | |
//! | `secret TEXT`, `authenticator HEX`, `salt HEX` | what the following lines compute with | |
//! | `encode NAME[:TAG] = VALUE, …` | values to attributes | hex, or `error: …` |
//! | `decode HEX` or `decode -` | attributes to values; `-` is the last result | `NAME[:TAG] = VALUE, …` |
//! | `request HEX` | a whole packet; its authenticator is taken | code, identifier, values, or `error: …` |
//! | `reply HEX` | a whole reply to the last request, its authenticators checked | the same |
//! | `write CODE IDENTIFIER NAME = VALUE, …` | a request, without Message-Authenticator unless it is named (its value is computed) | hex |
//! | `answer CODE IDENTIFIER NAME = VALUE, …` | a reply to the last request | hex |
//! | `chap PASSWORD` | checks CHAP-Password of the last request | `valid` or `invalid` |
//! | `verify` | checks Message-Authenticator of the last request | `absent`, `valid`, `invalid` |
//! | `match TEXT` | fails unless it is the last result | |

use std::fmt::Write as _;
use std::path::Path;

use portreeve::radius::attribute::{Hiding, Item, Revealing, encode_items};
use portreeve::radius::code::Code;
use portreeve::radius::crypto::{self, MessageAuthenticator, Salts, Secret};
use portreeve::radius::dictionary::Dictionary;
use portreeve::radius::dictionary::parser::ReadError;
use portreeve::radius::dictionary::types::{AttributeId, Value};
use portreeve::radius::packet::{Packet, number};
use portreeve::radius::{Writer, display, reply, value};

#[test]
fn golden_files_hold() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let (mut matches, mut failures) = (0, String::new());
    for file in &files {
        let text = std::fs::read_to_string(file).unwrap();
        let name = file.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap().display();
        let mut bench = Bench::new();
        for (line, command) in commands(&text) {
            matches += usize::from(command.starts_with("match "));
            if let Err(problem) = bench.run(&command) {
                let _ = writeln!(failures, "{name}:{line}: `{command}`: {problem}\n");
            }
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
    assert!(
        files.len() >= 7 && matches > 100,
        "{} files, {matches} matches: some are missing",
        files.len()
    );
}

/// The commands of a file with their first lines' numbers, continuation lines joined, blanks collapsed outside quotes.
fn commands(text: &str) -> Vec<(usize, String)> {
    let mut commands: Vec<(usize, String)> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let continues = line.starts_with([' ', '\t']);
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match commands.last_mut() {
            Some((_, command)) if continues => {
                command.push(' ');
                command.push_str(line);
            }
            _ => commands.push((at + 1, line.to_owned())),
        }
    }
    commands
}

struct Bench {
    dictionary: Dictionary,
    secret: Secret,
    authenticator: [u8; 16],
    salt: [u8; 2],
    request: Vec<u8>,
    result: String,
}

type Outcome<T> = Result<T, String>;

impl Bench {
    fn new() -> Bench {
        Bench {
            dictionary: Dictionary::builtin().clone(),
            secret: Secret::new(b"testing123"),
            authenticator: [0; 16],
            salt: [0x80, 0],
            request: Vec::new(),
            result: String::new(),
        }
    }

    fn run(&mut self, command: &str) -> Outcome<()> {
        let (verb, rest) = command.split_once(' ').unwrap_or((command, ""));
        let rest = rest.trim();
        self.result = match verb {
            "dictionary" => self.define(rest)?,
            "secret" => {
                self.secret = Secret::new(rest.as_bytes());
                String::new()
            }
            "authenticator" => {
                self.authenticator = exactly(rest)?;
                String::new()
            }
            "salt" => {
                self.salt = exactly(rest)?;
                String::new()
            }
            "encode" => match self.encode(rest) {
                Ok(octets) => hex(&octets),
                Err(error) => format!("error: {error}"),
            },
            "decode" => {
                let octets = octets(if rest == "-" { &self.result } else { rest })?;
                let packet = [
                    &[1, 0],
                    &(octets.len() as u16 + 20).to_be_bytes()[..],
                    &[0; 16],
                    &octets,
                ]
                .concat();
                match Packet::parse(&packet) {
                    Ok(packet) => self.values(&packet),
                    Err(error) => format!("error: {error}"),
                }
            }
            "request" => {
                self.request = octets(if rest == "-" { &self.result } else { rest })?;
                match Packet::parse(&self.request) {
                    Ok(packet) => {
                        self.authenticator = *packet.authenticator();
                        self.packet(&packet)
                    }
                    Err(error) => format!("error: {error}"),
                }
            }
            "reply" => {
                let octets = octets(if rest == "-" { &self.result } else { rest })?;
                let identifier = self.request.get(1).copied().unwrap_or_default();
                match reply::verify(&octets, identifier, &self.authenticator, &self.secret) {
                    Ok(reply) => self.packet(&reply.packet),
                    Err(error) => format!("error: {error}"),
                }
            }
            "write" => self.write(rest)?,
            "answer" => self.answer(rest)?,
            "chap" => self.chap(rest.as_bytes())?,
            "verify" => {
                let packet = Packet::parse(&self.request).map_err(|error| error.to_string())?;
                match crypto::verify_message_authenticator(&packet, &self.secret) {
                    MessageAuthenticator::Absent => "absent".into(),
                    MessageAuthenticator::Valid => "valid".into(),
                    MessageAuthenticator::Invalid => "invalid".into(),
                }
            }
            "match" => {
                if self.result != rest {
                    return Err(format!("\n    got {}", self.result));
                }
                rest.to_owned()
            }
            _ => return Err("unknown command".into()),
        };
        Ok(())
    }

    fn define(&mut self, line: &str) -> Outcome<String> {
        let mut read = |path: &Path| match path.to_str() {
            Some("golden") => Ok(line.replace(';', "\n")),
            _ => Err(ReadError::Missing),
        };
        let loaded = self
            .dictionary
            .extend(Path::new("golden"), &mut read)
            .map_err(|error| error.to_string())?;
        match loaded.warnings.first() {
            Some(warning) => Err(warning.to_string()),
            None => Ok(String::new()),
        }
    }

    fn encode(&self, list: &str) -> Outcome<Vec<u8>> {
        let items = self.items(list)?;
        let items: Vec<_> = items
            .iter()
            .map(|(id, tag, value)| Item {
                id: *id,
                tag: *tag,
                value,
            })
            .collect();
        let mut salts = self.salts();
        let hiding = Hiding {
            secret: &self.secret,
            request_authenticator: &self.authenticator,
            salts: &mut salts,
        };
        let mut out = Vec::new();
        encode_items(&self.dictionary, &items, Some(hiding), &mut out).map_err(|error| error.to_string())?;
        Ok(out)
    }

    /// Salts of which the next one is `self.salt`.
    fn salts(&self) -> Salts {
        let before = u16::from_be_bytes(self.salt).wrapping_sub(1);
        Salts::new(&mut |octets| octets.copy_from_slice(&before.to_be_bytes()))
    }

    /// `NAME[:TAG] = VALUE, …`; a value in quotes may hold commas and is not trimmed.
    fn items(&self, list: &str) -> Outcome<Vec<(AttributeId, Option<u8>, Value<'static>)>> {
        let mut items = Vec::new();
        let mut rest = list.trim();
        while !rest.is_empty() {
            let (name, after) = rest.split_once('=').ok_or("expected `NAME = VALUE`")?;
            let (name, tag) = match name.trim().split_once(':') {
                Some((name, tag)) => (name, Some(tag.parse().map_err(|_| format!("`{tag}` is no tag"))?)),
                None => (name.trim(), None),
            };
            let after = after.trim_start();
            let (text, after) = match after.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"').ok_or("no closing quote")?,
                None => after.split_at(after.find(',').unwrap_or(after.len())),
            };
            let id = self
                .dictionary
                .by_name(name)
                .ok_or_else(|| format!("`{name}` is no attribute"))?;
            let value = value::parse(self.dictionary.definition(id), text).map_err(|error| error.to_string())?;
            items.push((id, tag, value));
            rest = after.trim_start().trim_start_matches(',').trim_start();
        }
        Ok(items)
    }

    fn values(&self, packet: &Packet<'_>) -> String {
        let revealing = Revealing {
            secret: &self.secret,
            request_authenticator: &self.authenticator,
        };
        display::attributes(&self.dictionary, packet, Some(revealing)).join(", ")
    }

    fn packet(&self, packet: &Packet<'_>) -> String {
        format!("{} {} {}", packet.code(), packet.identifier(), self.values(packet))
            .trim_end()
            .to_owned()
    }

    fn write(&self, rest: &str) -> Outcome<String> {
        let (code, identifier, list) = head(rest)?;
        let mut out = Vec::new();
        let mut writer = Writer::request(&mut out, code, identifier, &self.secret, &self.authenticator);
        for item in list.split_inclusive(',') {
            if item.trim().trim_end_matches(',') == "Message-Authenticator" {
                writer.message_authenticator();
            } else {
                writer.encoded(&self.encode(item)?);
            }
        }
        writer.finish().map_err(|error| error.to_string())?;
        Ok(hex(&out))
    }

    fn answer(&self, rest: &str) -> Outcome<String> {
        let (code, identifier, list) = head(rest)?;
        let mut out = Vec::new();
        let mut writer = Writer::reply(&mut out, code, identifier, &self.secret, &self.authenticator);
        writer.encoded(&self.encode(list)?);
        writer.finish().map_err(|error| error.to_string())?;
        Ok(hex(&out))
    }

    fn chap(&self, password: &[u8]) -> Outcome<String> {
        let packet = Packet::parse(&self.request).map_err(|error| error.to_string())?;
        let (identifier, response) = packet
            .first(number::CHAP_PASSWORD)
            .and_then(<[u8]>::split_first)
            .ok_or("no CHAP-Password")?;
        let challenge = packet.first(number::CHAP_CHALLENGE).unwrap_or(packet.authenticator());
        let valid = crypto::verify_chap(*identifier, password, challenge, response);
        Ok(if valid { "valid" } else { "invalid" }.to_owned())
    }
}

/// `CODE IDENTIFIER` and the rest of the line.
fn head(rest: &str) -> Outcome<(Code, u8, &str)> {
    let mut words = rest.splitn(3, ' ');
    let name = words.next().unwrap_or_default();
    let code = (0..=u8::MAX)
        .map(Code::from)
        .find(|code| code.name() == name)
        .ok_or(format!("`{name}` is no code"))?;
    let identifier = words.next().unwrap_or_default();
    let identifier = identifier
        .parse()
        .map_err(|_| format!("`{identifier}` is no identifier"))?;
    Ok((code, identifier, words.next().unwrap_or_default()))
}

fn octets(text: &str) -> Outcome<Vec<u8>> {
    let digits: String = text.split_whitespace().collect();
    if !digits.len().is_multiple_of(2) || !digits.is_ascii() {
        return Err(format!("`{text}` is not hexadecimal"));
    }
    let pairs = (0..digits.len())
        .step_by(2)
        .map(|at| digits.get(at..at + 2).unwrap_or_default());
    pairs
        .map(|pair| u8::from_str_radix(pair, 16).map_err(|_| format!("`{pair}` is not hexadecimal")))
        .collect()
}

fn exactly<const N: usize>(text: &str) -> Outcome<[u8; N]> {
    octets(text)?
        .try_into()
        .map_err(|octets: Vec<u8>| format!("{} octets: expected {N}", octets.len()))
}

fn hex(octets: &[u8]) -> String {
    octets
        .iter()
        .map(|octet| format!("{octet:02x}"))
        .collect::<Vec<_>>()
        .join(" ")
}
