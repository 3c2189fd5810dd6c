//! Certificates: the server's own, the client CAs, and what a client's certificate says.

pub mod pki;
