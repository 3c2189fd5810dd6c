//! Whole authentications in one process: a server over its database and certificates, a switch and a supplicant before
//! it, a clock that only the test moves, and no socket.
//!
//! `support` is the node, `switch` and `supplicant` are the other ends, `network` is the lossy wire between them. Each
//! test's name is the rule that it shows.
#![cfg(all(test, feature = "server"))]

#[path = "../common/pki.rs"]
mod pki;

mod certificates;
mod flood;
mod interruptions;
mod mab;
mod network;
mod node;
mod policies;
mod reasons;
mod replies;
mod retransmissions;
mod supplicant;
mod support;
mod switch;
mod waiting;
