//! Revocation: the real binary, real OCSP responders (`openssl ocsp`) and servers of lists, and devices whose certificates
//! name them. Each outcome is held against both `require` and `prefer`, and against the clock.
//!
//! `authority` issues certificates and lists, `responder` runs `openssl ocsp`, `web` the servers that do not do what they
//! should, with `canned` responses that openssl does not make; `device` authenticates. `ocsp` and `lists` are the outcomes, `waiting` is the crowd that waits for a silent
//! responder, `staple` is what the node sends beside its own certificate, `commands` what
//! `check`, `decide` and `cert show` say.
#![cfg(feature = "server")]

#[cfg(test)]
mod authority;
#[cfg(test)]
mod canned;
#[cfg(test)]
mod commands;
#[cfg(test)]
mod device;
#[cfg(test)]
mod lists;
#[cfg(test)]
#[path = "../common/memory.rs"]
mod memory;
#[cfg(test)]
mod ocsp;
#[cfg(test)]
#[path = "../common/pki.rs"]
mod pki;
#[cfg(test)]
mod responder;
#[cfg(test)]
mod staple;
#[cfg(test)]
#[path = "../interop/support/mod.rs"]
#[expect(
    dead_code,
    reason = "the node, its log and the switch are wanted, and not all else that stands beside them"
)]
mod support;
#[cfg(test)]
mod waiting;
#[cfg(test)]
mod web;
