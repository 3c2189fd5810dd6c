//! RADIUS: packets, attributes, dictionaries (RFC 2865, 2868, 2869, 6929).
//!
//! | RFC | what of it | where |
//! |---|---|---|
//! | 1321, 2104 | MD5 and HMAC of several messages at once | `md5`, `crypto` |
//! | 2865 | packet, attributes, User-Password, CHAP, response authenticator | `packet`, `writer`, `crypto` |
//! | 2866, 5176 | computed request authenticators | `crypto`, `writer` |
//! | 2548 | MS-MPPE-Send-Key, MS-MPPE-Recv-Key | `crypto`, `writer`, `reply` |
//! | 2868 | tags, Tunnel-Password | `attribute`, `crypto` |
//! | 3579 | EAP-Message, Message-Authenticator | `packet`, `crypto`, `writer` |
//! | 5997 | Status-Server | `code`, `crypto` |
//! | 6929 | extended attributes, TLV, EVS | `attribute` |

pub mod attribute;
pub mod code;
pub mod crypto;
pub mod dictionary;
pub mod display;
mod md5;
pub mod packet;
pub mod reply;
pub mod value;
pub mod writer;

pub use code::Code;
pub use crypto::Secret;
pub use packet::{Packet, PacketError};
pub use writer::{WriteError, Writer};
