//! RADIUS clients: longest-prefix table of NAS networks.
