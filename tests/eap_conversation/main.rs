//! EAP conversations: both ends in memory, in one process, without a socket.
//!
//! `support` wires them together as a NAS and the RADIUS floor would; `scenarios` are the conversations that have to
//! succeed, `refusals` those that have to end with the right reason, `pedantry` what the supplicant finds wrong with
//! servers, `resumption` sessions that are taken up again, `hostile` octets that no supplicant should send. `tunnels` are
//! EAP-TTLS and PEAP, `tunnel_resumption` the sessions inside, `resumed_tunnels` their own, `inside` what is said inside of
//! them; `compatibility` what supplicants do that nobody asked for.
#![cfg(feature = "server")]

#[cfg(test)]
mod compatibility;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod inside;
#[cfg(test)]
mod pedantry;
#[cfg(test)]
#[path = "../common/pki.rs"]
mod pki;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod resumed_tunnels;
#[cfg(test)]
mod resumption;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod support;
#[cfg(test)]
mod tunnel_resumption;
#[cfg(test)]
mod tunnels;
