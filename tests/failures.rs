//! Two nodes under load, the policies being edited, and everything that can happen to their databases.
//!
//! `load` authenticates devices at a fixed rate whatever the answers do, `editor` changes the policies and knows what each
//! change must lead to, `judge` holds every answer and every log line against that, `bench` has the nodes and servers,
//! `scenarios`, `histories` and `chaos` break them; `queries` counts what nodes ask. Each scenario prints a line with its counts.
#![cfg(feature = "server")]

#[cfg(test)]
#[path = "failures/bench.rs"]
mod bench;
#[cfg(test)]
#[path = "failures/chaos.rs"]
mod chaos;
#[cfg(test)]
#[path = "failures/editor.rs"]
mod editor;
#[cfg(test)]
#[path = "common/faketime.rs"]
mod faketime;
#[cfg(test)]
#[path = "failures/histories.rs"]
mod histories;
#[cfg(test)]
#[path = "failures/judge.rs"]
mod judge;
#[cfg(test)]
#[path = "failures/load.rs"]
mod load;
#[cfg(test)]
#[path = "common/memory.rs"]
mod memory;
#[cfg(test)]
#[path = "failures/model.rs"]
mod model;
#[cfg(test)]
#[path = "failures/node.rs"]
mod node;
#[cfg(test)]
#[path = "common/postgres.rs"]
mod postgres;
#[cfg(test)]
#[path = "failures/queries.rs"]
mod queries;
#[cfg(test)]
#[path = "failures/scenarios.rs"]
mod scenarios;
