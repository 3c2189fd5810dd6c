//! Log lines and signals.
