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
    /// EAP-TTLS with EAP-TLS inside.
    Ttls,
    /// PEAP with EAP-TLS inside.
    Peap,
}

impl Method {
    /// Its Type octet.
    pub const fn eap_type(self) -> EapType {
        match self {
            Method::Md5 => EapType::MD5,
            Method::Tls => EapType::TLS,
            Method::Ttls => EapType::TTLS,
            Method::Peap => EapType::PEAP,
        }
    }

    /// The word of the log line and of the configuration.
    pub const fn word(self) -> &'static str {
        match self {
            Method::Md5 => "md5",
            Method::Tls => "tls",
            Method::Ttls => "ttls",
            Method::Peap => "peap",
        }
    }
}

/// The methods by which a certificate may be shown, in the order in which they are offered: at least one, each once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Methods([Option<Method>; 3]);

impl Methods {
    /// EAP-TLS first, then the tunnels for those who ask for them.
    pub const ALL: Methods = Methods([Some(Method::Tls), Some(Method::Ttls), Some(Method::Peap)]);
    /// EAP-TLS and nothing else: what runs inside a tunnel.
    pub const TLS: Methods = Methods([Some(Method::Tls), None, None]);

    /// Those of a list. `None` when it is empty, names one twice, or EAP-MD5, which shows no certificate.
    pub fn new(list: &[Method]) -> Option<Methods> {
        let mut methods = [None; 3];
        if list.is_empty() || list.contains(&Method::Md5) || list.len() > methods.len() {
            return None;
        }
        for (place, method) in methods.iter_mut().zip(list) {
            *place = Some(*method);
        }
        let is_twice = |(index, method)| list.iter().skip(index + 1).any(|other| other == method);
        (!list.iter().enumerate().any(is_twice)).then_some(Methods(methods))
    }

    /// The same with `first` before the others, if it is one of them.
    pub fn beginning_with(self, first: Method) -> Methods {
        let Methods(mut methods) = self;
        if let Some(at) = methods.iter().position(|method| *method == Some(first))
            && let Some(part) = methods.get_mut(..=at)
        {
            part.rotate_right(1);
        }
        Methods(methods)
    }

    /// One after another.
    pub fn iter(self) -> impl Iterator<Item = Method> {
        self.0.into_iter().flatten()
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
        assert_eq!(Method::Md5.word(), "md5");
    }

    #[test]
    fn a_list_of_methods_has_at_least_one_and_each_once() {
        let listed = |list: &[Method]| Methods::new(list).map(|methods| methods.iter().collect::<Vec<_>>());
        let all = [Method::Peap, Method::Tls, Method::Ttls];
        assert_eq!(listed(&all).as_deref(), Some(&all[..]));
        let ordered = |first| Methods::ALL.beginning_with(first).iter().collect::<Vec<_>>();
        assert_eq!(ordered(Method::Peap), [Method::Peap, Method::Tls, Method::Ttls]);
        assert_eq!(ordered(Method::Ttls), [Method::Ttls, Method::Tls, Method::Peap]);
        assert_eq!(ordered(Method::Tls), [Method::Tls, Method::Ttls, Method::Peap]);
        assert_eq!(Methods::TLS.beginning_with(Method::Peap), Methods::TLS);
        assert_eq!(listed(&[Method::Tls]).as_deref(), Some(&[Method::Tls][..]));
        for refused in [&[][..], &[Method::Md5], &[Method::Tls, Method::Tls], &[Method::Tls; 4]] {
            assert_eq!(listed(refused), None, "{refused:?}");
        }
        assert_eq!(
            Methods::new(&[Method::Tls, Method::Ttls, Method::Peap]),
            Some(Methods::ALL)
        );
    }
}
