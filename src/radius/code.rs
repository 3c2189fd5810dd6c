//! Packet codes (RFC 2865 section 3, RFC 2866 section 3, RFC 5176 section 2.3, RFC 5997 section 3).

use std::fmt;

/// What a packet is. Codes that this software has no use for are kept as numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// 1
    AccessRequest,
    /// 2
    AccessAccept,
    /// 3
    AccessReject,
    /// 4
    AccountingRequest,
    /// 5
    AccountingResponse,
    /// 11
    AccessChallenge,
    /// 12
    StatusServer,
    /// 40
    DisconnectRequest,
    /// 41
    DisconnectAck,
    /// 42
    DisconnectNak,
    /// 43
    CoaRequest,
    /// 44
    CoaAck,
    /// 45
    CoaNak,
    /// Any other.
    Other(u8),
}

impl Code {
    /// The octet on the wire.
    pub const fn number(self) -> u8 {
        match self {
            Code::AccessRequest => 1,
            Code::AccessAccept => 2,
            Code::AccessReject => 3,
            Code::AccountingRequest => 4,
            Code::AccountingResponse => 5,
            Code::AccessChallenge => 11,
            Code::StatusServer => 12,
            Code::DisconnectRequest => 40,
            Code::DisconnectAck => 41,
            Code::DisconnectNak => 42,
            Code::CoaRequest => 43,
            Code::CoaAck => 44,
            Code::CoaNak => 45,
            Code::Other(number) => number,
        }
    }

    /// Whether the authenticator of such a request is a checksum rather than random (RFC 2866 section 3, RFC 5176
    /// section 2.3): it is computed over the request with sixteen octets of zero in its place.
    pub const fn has_computed_authenticator(self) -> bool {
        matches!(
            self,
            Code::AccountingRequest | Code::DisconnectRequest | Code::CoaRequest
        )
    }

    /// Whether such a packet answers another one.
    pub const fn is_reply(self) -> bool {
        matches!(
            self,
            Code::AccessAccept
                | Code::AccessReject
                | Code::AccessChallenge
                | Code::AccountingResponse
                | Code::DisconnectAck
                | Code::DisconnectNak
                | Code::CoaAck
                | Code::CoaNak
        )
    }

    /// The name in RFCs and logs; `other` for those that have none here.
    pub const fn name(self) -> &'static str {
        match self {
            Code::AccessRequest => "Access-Request",
            Code::AccessAccept => "Access-Accept",
            Code::AccessReject => "Access-Reject",
            Code::AccountingRequest => "Accounting-Request",
            Code::AccountingResponse => "Accounting-Response",
            Code::AccessChallenge => "Access-Challenge",
            Code::StatusServer => "Status-Server",
            Code::DisconnectRequest => "Disconnect-Request",
            Code::DisconnectAck => "Disconnect-ACK",
            Code::DisconnectNak => "Disconnect-NAK",
            Code::CoaRequest => "CoA-Request",
            Code::CoaAck => "CoA-ACK",
            Code::CoaNak => "CoA-NAK",
            Code::Other(_) => "other",
        }
    }
}

impl From<u8> for Code {
    fn from(number: u8) -> Self {
        match number {
            1 => Code::AccessRequest,
            2 => Code::AccessAccept,
            3 => Code::AccessReject,
            4 => Code::AccountingRequest,
            5 => Code::AccountingResponse,
            11 => Code::AccessChallenge,
            12 => Code::StatusServer,
            40 => Code::DisconnectRequest,
            41 => Code::DisconnectAck,
            42 => Code::DisconnectNak,
            43 => Code::CoaRequest,
            44 => Code::CoaAck,
            45 => Code::CoaNak,
            other => Code::Other(other),
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Code::Other(number) => write!(f, "code {number}"),
            known => f.write_str(known.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_octet_is_a_code_and_back() {
        for number in 0..=u8::MAX {
            assert_eq!(Code::from(number).number(), number);
        }
    }
}
