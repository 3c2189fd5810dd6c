//! FreeRADIUS's `radclient`, with FreeRADIUS's dictionaries.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use super::node::Node;
use super::{Fallible, SECRET, ensure, run};

/// One run of `radclient`.
pub struct Radclient<'a> {
    pub server: SocketAddr,
    pub secret: &'a str,
    /// `auth`, `status`.
    pub command: &'a str,
    /// How long each packet waits for its answer; none is sent twice.
    pub timeout_seconds: &'a str,
}

/// What an answer was.
#[derive(Debug)]
pub struct Answer {
    /// `Access-Accept`, and so on.
    pub code: String,
    /// As `radclient -x` prints them: name and value.
    pub attributes: Vec<(String, String)>,
}

impl Radclient<'_> {
    pub fn new(node: &Node) -> Radclient<'static> {
        Radclient {
            server: node.address(),
            secret: SECRET,
            command: "auth",
            timeout_seconds: "20",
        }
    }

    /// Sends packets, each a list of `Attribute = value` lines, one after another; the answers in the same order.
    pub fn send(&self, node: &Node, packets: &[String]) -> Fallible<Vec<Option<Answer>>> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let file = node.folder().join(format!("{number}.packets"));
        // an empty line ends a packet
        let lines = |packet: &String| {
            packet
                .lines()
                .filter(|line| !line.is_empty())
                .collect::<Vec<_>>()
                .join("\n")
        };
        fs::write(&file, packets.iter().map(lines).collect::<Vec<_>>().join("\n\n") + "\n")?;
        let mut command = Command::new("radclient");
        command
            .args(["-x", "-r", "1", "-t", self.timeout_seconds, "-f"])
            .arg(&file)
            .arg(self.server.to_string())
            .args([self.command, self.secret]);
        let output = run(&mut command)?;
        let text = String::from_utf8_lossy(&output.stdout);
        let answers = answers(&text);
        ensure(answers.len() == packets.len(), || {
            let stderr = String::from_utf8_lossy(&output.stderr);
            format!(
                "radclient sent {} of {} packets\n{text}{stderr}",
                answers.len(),
                packets.len()
            )
        })?;
        Ok(answers)
    }

    /// As [`Radclient::send`], where each must be answered.
    pub fn ask(&self, node: &Node, packets: &[String]) -> Fallible<Vec<Answer>> {
        let answers = self.send(node, packets)?.into_iter().enumerate();
        answers
            .map(|(index, answer)| {
                answer.ok_or_else(|| format!("no answer to packet {index}: {}", packets[index]).into())
            })
            .collect()
    }
}

impl Answer {
    pub fn is_accept(&self) -> bool {
        self.code == "Access-Accept"
    }

    /// Every value of an attribute, in order.
    pub fn all(&self, name: &str) -> Vec<&str> {
        let values = self.attributes.iter().filter(|(each, _)| each == name);
        values.map(|(_, value)| value.as_str()).collect()
    }
}

/// `Sent Access-Request Id 7 from …` and `Received Access-Accept Id 7 from …`, each with its attributes indented below.
fn answers(text: &str) -> Vec<Option<Answer>> {
    let mut answers: Vec<(&str, Option<Answer>)> = Vec::new();
    let mut receiving = false;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["Sent", _, "Id", id, ..] => {
                receiving = false;
                answers.push((id, None));
            }
            ["Received", code, "Id", id, ..] => {
                receiving = true;
                if let Some((_, answer)) = answers.last_mut().filter(|(sent, _)| *sent == id) {
                    *answer = Some(Answer {
                        code: code.to_owned(),
                        attributes: Vec::new(),
                    });
                }
            }
            _ => {
                let answer = answers.last_mut().and_then(|(_, answer)| answer.as_mut());
                if let (true, Some(answer), Some((name, value))) = (receiving, answer, line.trim().split_once(" = ")) {
                    answer
                        .attributes
                        .push((name.to_owned(), value.trim_matches('"').to_owned()));
                }
            }
        }
    }
    answers.into_iter().map(|(_, answer)| answer).collect()
}
