//! Portreeve: network access control over RADIUS.
//!
//! The modules stand on floors, and one imports only from floors below its own: `ARCHITECTURE.md` has the table,
//! `tests/layers.rs` holds the imports against it. Without the feature `server` only floor 0 is built: bytes in, bytes
//! out, with time, randomness and data as arguments.

// floor 0: pure
pub mod eap;
pub mod mab;
pub mod mac;
pub mod nas;
pub mod policy;
pub mod radius;
pub mod reason;

// floor 1: state in memory
#[cfg(feature = "server")]
pub mod clients;
#[cfg(feature = "server")]
pub mod conversations;
#[cfg(feature = "server")]
pub mod duplicates;
#[cfg(feature = "server")]
pub mod endpoints;
#[cfg(feature = "server")]
pub mod preferences;

// floor 2: services
#[cfg(feature = "server")]
pub mod store;
#[cfg(feature = "server")]
pub mod trust;

// floor 3: the request
#[cfg(feature = "server")]
pub mod listen;
#[cfg(feature = "server")]
pub mod server;

// floor 4: the operator
#[cfg(feature = "server")]
pub mod cli;
#[cfg(feature = "server")]
pub mod config;
#[cfg(feature = "server")]
pub mod ops;
#[cfg(feature = "server")]
pub mod telemetry;
