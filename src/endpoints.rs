//! All listed MAC addresses in one compact table.
