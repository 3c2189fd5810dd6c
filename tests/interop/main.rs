//! Interoperability: the real binary, over real sockets, against programs that were written by others.
//!
//! `eapol` runs wpa_supplicant's `eapol_test`, `tunnels` too, `radclient` FreeRADIUS's client of the same name, `attributes` lets that
//! client decode every kind of attribute with FreeRADIUS's own dictionaries, `mtu` carries a large reply over a narrow
//! link, `live_changes` edits the database under a running node, `reload` its certificates, `ops` asks for its health, `certificates` for what
//! it has noticed of certificates, `clock` puts it under a wrong one,
//! `seeded` follows the plan of a data set.
//! What those programs cannot do (a certificate signed with SHA-1, a broken Message-Authenticator, half a conversation)
//! is done by this project's own supplicant and switch.
//!
//! A program that is missing is a failure that says what to install. Nothing is skipped.
#![cfg(feature = "server")]

#[cfg(test)]
mod attributes;
#[cfg(test)]
mod certificates;
#[cfg(test)]
mod clock;
#[cfg(test)]
mod eapol;
#[cfg(test)]
#[path = "../common/faketime.rs"]
mod faketime;
#[cfg(test)]
mod fleet;
#[cfg(test)]
mod live_changes;

#[cfg(test)]
mod matrix;
#[cfg(test)]
#[path = "../common/memory.rs"]
mod memory;
#[cfg(test)]
mod mtu;
#[cfg(test)]
#[path = "../common/namespace.rs"]
mod namespace;
#[cfg(test)]
mod ops;
#[cfg(test)]
#[path = "../common/pki.rs"]
mod pki;
#[cfg(test)]
mod radclient;
#[cfg(test)]
mod reload;
#[cfg(test)]
mod seeded;
#[cfg(test)]
mod support;
#[cfg(test)]
mod tunnels;
