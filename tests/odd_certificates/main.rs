//! Odd but real certificates of devices: each is accepted or refused as the table in `docs/certificates.md` says, for the
//! reason that it says, and nothing panics. The page is the expectation: a shape without a row is as wrong as a row
//! without a shape.
//!
//! `der` writes octets, `make` certificates of them, `table` reads the page, `page` holds one against the other; `mutations`
//! changes what was made, and the other modules make it.
#![cfg(feature = "server")]

#[cfg(test)]
mod chains;
#[cfg(test)]
mod dates;
#[cfg(test)]
mod der;
#[cfg(test)]
mod encoding;
#[cfg(test)]
mod keys;
#[cfg(test)]
mod make;
#[cfg(test)]
mod mutations;
#[cfg(test)]
mod names;
#[cfg(test)]
mod outcome;
#[cfg(test)]
mod page;
#[cfg(test)]
#[path = "../common/pki.rs"]
mod pki;
#[cfg(test)]
mod products;
#[cfg(test)]
mod shape;
#[cfg(test)]
mod table;
#[cfg(test)]
mod usages;
