//! Policies: rules over facts, and the decision they make.
//!
//! A [`model::Policy`] is text as people and tables write it. [`compile`] turns it into typed tests and ready-made reply
//! attributes and finds every error there is to find; [`evaluate`] then decides, total and without a way to fail;
//! [`mod@explain`] shows the same decision policy by policy and rule by rule; [`lint`] names what compiles but is probably
//! not meant.
//!
//! Nothing here knows packets, certificates, clocks or databases: facts are named, typed values from anywhere, and a
//! decision is data.

pub mod attributes;
mod compact;
pub mod compile;
pub mod compiled;
pub mod condition;
pub mod evaluate;
pub mod explain;
pub mod facts;
pub mod lint;
mod macs;
pub mod model;
pub mod operator;
pub mod prepared;
#[cfg(test)]
mod reference;
mod rule;
pub mod template;
#[cfg(test)]
mod testing;
pub mod text;

pub use compiled::{CompiledPolicy, CompiledResponse, CompiledRule, CompiledSite};
pub use evaluate::{Decision, Response, decide};
pub use explain::{Explanation, explain};
pub use facts::Facts;
pub use model::{Action, Method};
