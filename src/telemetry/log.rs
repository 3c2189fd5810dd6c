//! The operational log: what happens beside authentications, on the same output and in the same format.

use std::fmt::{self, Write as _};
use std::time::{SystemTime, UNIX_EPOCH};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::{EnvFilter, Layer, Registry};

use super::escape;
use super::line::whole_second;
use super::output::Output;
use crate::config::LogFormat;

/// Sends every event of `tracing` at `level` (directives as of `[log] level`) to `output`, from now on, for the whole
/// process. A second call changes nothing.
pub fn install(output: Output, format: LogFormat, node: &str, level: &str) {
    let filter = EnvFilter::builder().parse_lossy(level);
    let layer = Lines {
        output,
        format,
        node: node.to_owned(),
    };
    // fails only when one is installed already
    let _ = tracing::subscriber::set_global_default(Registry::default().with(layer.with_filter(filter)));
}

/// The line that says how many lines were lost. Its time is the time it is written.
pub fn lost_notice(format: LogFormat) -> fn(u64) -> Vec<u8> {
    fn notice(format: LogFormat, lost: u64) -> Vec<u8> {
        let mut line = Line::new(format, "", Level::WARN);
        line.field("message", &format!("dropped {lost} log lines"));
        line.field("dropped", &lost);
        line.finish()
    }
    match format {
        LogFormat::Json => |lost| notice(LogFormat::Json, lost),
        LogFormat::Text => |lost| notice(LogFormat::Text, lost),
    }
}

struct Lines {
    output: Output,
    format: LogFormat,
    node: String,
}

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = Line::new(self.format, &self.node, *event.metadata().level());
        event.record(&mut line);
        self.output.write(&line.finish());
    }
}

/// One line in the making.
struct Line {
    format: LogFormat,
    out: Vec<u8>,
}

impl Line {
    fn new(format: LogFormat, node: &str, level: Level) -> Line {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let second = whole_second(i64::try_from(since.as_secs()).unwrap_or_default());
        let mut line = Line {
            format,
            out: Vec::with_capacity(256),
        };
        line.field("time", &format_args!("{second}.{:06}Z", since.subsec_micros()));
        if !node.is_empty() {
            line.field("node", &node);
        }
        let level = match level {
            Level::ERROR => "error",
            Level::WARN => "warn",
            Level::INFO => "info",
            Level::DEBUG => "debug",
            Level::TRACE => "trace",
        };
        line.field("level", &level);
        line
    }

    fn key(&mut self, key: &str) {
        match self.format {
            LogFormat::Json => {
                self.out.push(if self.out.is_empty() { b'{' } else { b',' });
                escape::json_string(key.as_bytes(), &mut self.out);
                self.out.push(b':');
            }
            LogFormat::Text => {
                if !self.out.is_empty() {
                    self.out.push(b' ');
                }
                self.out.extend_from_slice(key.as_bytes());
                self.out.push(b'=');
            }
        }
    }

    fn field(&mut self, key: &str, value: &dyn fmt::Display) {
        self.key(key);
        let mut text = String::new();
        // writing to a string does not fail; a Display that does leaves what it wrote
        let _ = write!(text, "{value}");
        match self.format {
            LogFormat::Json => escape::json_string(text.as_bytes(), &mut self.out),
            LogFormat::Text => escape::word(text.as_bytes(), &mut self.out),
        }
    }

    fn bare(&mut self, key: &str, value: &dyn fmt::Display) {
        self.key(key);
        self.out.extend_from_slice(value.to_string().as_bytes());
    }

    fn finish(mut self) -> Vec<u8> {
        if self.format == LogFormat::Json {
            self.out.push(b'}');
        }
        self.out.push(b'\n');
        self.out
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.field(field.name(), &format_args!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.field(field.name(), &value);
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.field(field.name(), &value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.bare(field.name(), &value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.bare(field.name(), &value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.bare(field.name(), &value);
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::time::Duration;

    use super::*;

    fn logged(format: LogFormat, log: impl FnOnce()) -> String {
        let (reader, writer) = io::pipe().unwrap();
        let output = Output::new(Box::new(writer), 1 << 20, lost_notice(format)).unwrap();
        let filter = EnvFilter::builder().parse_lossy("info");
        let layer = Lines {
            output: output.clone(),
            format,
            node: "node-a".to_owned(),
        };
        tracing::subscriber::with_default(Registry::default().with(layer.with_filter(filter)), log);
        assert!(output.close(Duration::from_secs(30)));
        drop(output);
        io::read_to_string(reader).unwrap()
    }

    #[test]
    fn events_become_lines_that_hold_together() {
        let log = || {
            let file = "a\nb";
            tracing::warn!(file, count = 3, %file, "certificate `{}` not reloaded", "\x1b[2J");
            tracing::debug!("not at this level");
        };
        let text = logged(LogFormat::Json, log);
        assert_eq!(text.lines().count(), 1);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["level"], "warn");
        assert_eq!(value["node"], "node-a");
        assert_eq!(value["count"], 3);
        assert_eq!(value["file"], "a\nb");
        assert_eq!(value["message"], "certificate `\u{1b}[2J` not reloaded");
        let text = logged(LogFormat::Text, log);
        assert_eq!(text.lines().count(), 1);
        assert!(
            text.contains(
                " node=node-a level=warn message=\"certificate `\\u001b[2J` not reloaded\" file=\"a\\nb\" count=3"
            ),
            "{text}"
        );
    }

    #[test]
    fn a_loss_is_said_in_the_log_s_own_format() {
        let json: serde_json::Value = serde_json::from_slice(&lost_notice(LogFormat::Json)(7)).unwrap();
        assert_eq!(json["message"], "dropped 7 log lines");
        let text = String::from_utf8(lost_notice(LogFormat::Text)(7)).unwrap();
        assert!(
            text.ends_with("level=warn message=\"dropped 7 log lines\" dropped=7\n"),
            "{text}"
        );
    }
}
