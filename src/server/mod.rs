//! One request: from the packet to the reply.

pub mod metrics;
pub mod readiness;
pub mod record;
