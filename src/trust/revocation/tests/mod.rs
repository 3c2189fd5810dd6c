//! Revocation without a node: the formats, and what is kept of lists and answers. `tests/revocation` has the whole.

mod authority;
mod crl;
mod lists;
mod responses;
mod web;
