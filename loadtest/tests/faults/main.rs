//! `portreeve-load` against a server that does something wrong: each fault is found, under its own name.

#[cfg(test)]
mod server;

#[cfg(test)]
mod tests;
