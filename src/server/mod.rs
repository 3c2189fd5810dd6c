//! One request: from the packet to the reply.
