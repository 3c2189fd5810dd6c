//! Listeners: sockets in, sockets out.
