//! MAC Authentication Bypass: is this request MAB, and for which MAC address.
