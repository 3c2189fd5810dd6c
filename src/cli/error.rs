//! How errors are shown: one line that says what failed and why, then what can be done.

use std::fmt;
use std::io::Write;

use anyhow::Error;

use crate::telemetry::escape;

/// Writes `error` to standard error. That nobody reads our output any more (`| head`) is not worth a word.
pub fn print(error: &Error) {
    let is_broken_pipe = |cause: &std::io::Error| cause.kind() == std::io::ErrorKind::BrokenPipe;
    if error
        .chain()
        .filter_map(|cause| cause.downcast_ref())
        .any(is_broken_pipe)
    {
        return;
    }
    // where standard error is closed there is nobody to tell
    let _ = writeln!(std::io::stderr(), "error: {}", escape::terminal(&render(error)));
}

/// The error and its causes on one line; their hints after it, each on its own.
fn render(error: &Error) -> String {
    let mut text = String::new();
    let mut hints = Vec::new();
    let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
    for (index, cause) in causes.iter().enumerate() {
        let is_last = index + 1 == causes.len();
        // a library's error often repeats its cause in its own text
        if text.ends_with(cause.as_str()) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        if is_last {
            // the last may have several lines of its own, each with its hint
            text.push_str(cause.trim_end());
        } else {
            let mut lines = cause.trim_end().lines();
            text.push_str(lines.next().unwrap_or_default());
            hints.extend(lines.map(str::to_owned));
        }
    }
    for hint in hints {
        text.push('\n');
        text.push_str(&hint);
    }
    text
}

/// An error of our own with a hint.
pub fn hinted(message: impl fmt::Display, hint: impl fmt::Display) -> Error {
    anyhow::anyhow!("{message}\nhint: {hint}")
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn causes_are_one_line_and_hints_come_last() {
        let cause: Result<(), Error> = Err(hinted("address in use", "stop the other one"));
        let error = cause
            .context("cannot listen on `0.0.0.0:1812`\nhint: outer")
            .unwrap_err();
        assert_eq!(
            render(&error),
            "cannot listen on `0.0.0.0:1812`: address in use\nhint: stop the other one\nhint: outer"
        );
    }
}
