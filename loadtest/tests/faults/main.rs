//! `portreeve-load` as a user runs it, also against servers that do something wrong: each fault is found, under its own name.

#[cfg(test)]
mod answers;
#[cfg(test)]
mod client;
#[cfg(test)]
mod reports;
#[cfg(test)]
mod schedule;
#[cfg(test)]
mod server;
#[cfg(test)]
mod usage;
