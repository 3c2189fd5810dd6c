//! Requests in flight and replies sent, for each socket (RFC 5080 section 2.2.2).
