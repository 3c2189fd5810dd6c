//! EAP types (RFC 3748, 5; IANA's registry) and the methods that this server speaks.

/// The Type octet of a request or response.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EapType(pub u8);

impl EapType {
    /// Who are you? (RFC 3748, 5.1)
    pub const IDENTITY: EapType = EapType(1);
    /// A message for the user (RFC 3748, 5.2).
    pub const NOTIFICATION: EapType = EapType(2);
    /// "Not that method", in responses only (RFC 3748, 5.3.1).
    pub const NAK: EapType = EapType(3);
    /// MD5-Challenge (RFC 3748, 5.4).
    pub const MD5: EapType = EapType(4);
    /// EAP-TLS (RFC 5216).
    pub const TLS: EapType = EapType(13);
    /// EAP-TTLS (RFC 5281).
    pub const TTLS: EapType = EapType(21);
    /// PEAP.
    pub const PEAP: EapType = EapType(25);
    /// Expanded types, and the expanded Nak (RFC 3748, 5.7 and 5.3.2).
    pub const EXPANDED: EapType = EapType(254);

    /// The type's usual name, `None` where it has none that anybody uses.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            1 => "Identity",
            2 => "Notification",
            3 => "Nak",
            4 => "MD5-Challenge",
            5 => "OTP",
            6 => "GTC",
            13 => "EAP-TLS",
            17 => "LEAP",
            18 => "EAP-SIM",
            21 => "EAP-TTLS",
            23 => "EAP-AKA",
            25 => "PEAP",
            26 => "EAP-MSCHAPv2",
            29 => "EAP-MSCHAPv2",
            43 => "EAP-FAST",
            47 => "EAP-PSK",
            50 => "EAP-AKA'",
            52 => "EAP-PWD",
            55 => "TEAP",
            254 => "expanded",
            _ => return None,
        })
    }
}

impl std::fmt::Display for EapType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "type {}", self.0),
        }
    }
}

impl std::fmt::Debug for EapType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "EapType({} {self})", self.0)
    }
}

/// A method that this server can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// EAP-MD5, for MAC authentication only.
    Md5,
    /// EAP-TLS.
    Tls,
}

impl Method {
    /// Its Type octet.
    pub const fn eap_type(self) -> EapType {
        match self {
            Method::Md5 => EapType::MD5,
            Method::Tls => EapType::TLS,
        }
    }

    /// The word of the log line.
    pub const fn word(self) -> &'static str {
        match self {
            Method::Md5 => "eap-md5",
            Method::Tls => "eap-tls",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_print_by_name_and_unknown_ones_by_number() {
        assert_eq!(EapType::TLS.to_string(), "EAP-TLS");
        assert_eq!(EapType(99).to_string(), "type 99");
        assert_eq!(Method::Tls.eap_type(), EapType(13));
        assert_eq!(Method::Md5.word(), "eap-md5");
    }
}
