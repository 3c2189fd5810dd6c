//! What operators see: log lines, metrics, the last attempts, and the signals they send.
//!
//! Nothing here can hold up an authentication. The request path hands a record to a bounded queue
//! ([`crate::server::record::Sink`]); the *recorder* thread takes it from there, counts it, remembers it for
//! `portreeve why` and formats its line into a bounded buffer; the *output* thread writes that buffer. Only the output
//! thread ever waits for a slow pipe or a full disk, and what is lost meanwhile is counted and said.

pub mod attempts;
pub mod escape;
pub mod exporter;
pub mod line;
pub mod log;
pub mod output;
pub mod recorder;
pub mod signals;
