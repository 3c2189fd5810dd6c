//! The policy data: database, snapshot in memory, cache of compiled sites.
