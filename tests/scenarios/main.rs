//! Whole authentications in one process: a server over its database and certificates, a switch and a supplicant before
//! it, a clock that only the test moves, and no socket.
//!
//! `support` is the node, `switch` and `supplicant` are the other ends, `network` is the lossy wire between them. Each
//! test's name is the rule that it shows.
#![cfg(feature = "server")]

#[cfg(test)]
#[path = "../common/memory.rs"]
mod memory;
#[cfg(test)]
#[path = "../common/pki.rs"]
mod pki;

#[cfg(test)]
mod certificates;
#[cfg(test)]
mod clock;
#[cfg(test)]
mod diagnosis;
#[cfg(test)]
mod flood;
#[cfg(test)]
mod interruptions;
#[cfg(test)]
mod mab;
#[cfg(test)]
mod network;
#[cfg(test)]
mod node;
#[cfg(test)]
mod policies;
#[cfg(test)]
mod profiles;
#[cfg(test)]
mod reasons;
#[cfg(test)]
mod replies;
#[cfg(test)]
mod resumed_tunnels;
#[cfg(test)]
mod resumption;
#[cfg(test)]
mod retransmissions;
#[cfg(test)]
mod revocation;
#[cfg(test)]
mod supplicant;
#[cfg(test)]
mod support;
#[cfg(test)]
mod switch;
#[cfg(test)]
mod together;
#[cfg(test)]
mod tunnels;
#[cfg(test)]
mod waiting;
