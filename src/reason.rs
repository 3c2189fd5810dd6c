//! Why an authentication ended as it did, or why a packet got no answer.
//!
//! One closed list. The word is the same in the log line, the metrics' label, the explanation and the documentation,
//! and never changes its meaning once released. [`Reason::meaning`] and [`Reason::hint`] are what `portreeve why` prints.

/// Which group of the documentation a reason belongs to; also says what the client saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An Access-Accept was sent.
    Accept,
    /// Nothing was sent.
    Silent,
    /// MAC authentication was refused.
    Mab,
    /// The request was none that can be authenticated.
    Request,
    /// The site's policies refused.
    Policy,
    /// The EAP conversation went wrong before or beside the certificate.
    Eap,
    /// The TLS handshake failed.
    Tls,
    /// The certificate was refused.
    Certificate,
    /// This node is at fault.
    Node,
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident, $word:literal, $kind:ident, $meaning:literal, $hint:literal;)*) => {
        /// Why: see the module's documentation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Reason { $(#[doc = $meaning] $name,)* }

        impl Reason {
            /// Every reason, in the order of the documentation.
            pub const ALL: &'static [Reason] = &[$(Reason::$name,)*];

            /// The word that users see, the same everywhere.
            pub const fn word(self) -> &'static str {
                match self { $(Reason::$name => $word,)* }
            }

            /// Its group.
            pub const fn kind(self) -> Kind {
                match self { $(Reason::$name => Kind::$kind,)* }
            }

            /// One sentence: what happened.
            pub const fn meaning(self) -> &'static str {
                match self { $(Reason::$name => $meaning,)* }
            }

            /// What to do about it; empty where nothing is to be done.
            pub const fn hint(self) -> &'static str {
                match self { $(Reason::$name => $hint,)* }
            }
        }
    };
}

reasons! {
    PolicyAccept, "policy-accept", Accept, "a policy of the site matched and accepts", "";
    FallbackAccept, "fallback-accept", Accept, "no policy matched, and the site's fallback accepts", "";
    MacListed, "mac-listed", Accept, "the MAC address is listed for the site, and no `mab` policy says otherwise", "";

    UnknownClient, "unknown-client", Silent, "no client covers the source address",
        "add the switch: `portreeve client add SITE NETWORK SECRET`; behind NAT or a balancer, check which source address arrives";
    BadMessageAuthenticator, "bad-message-authenticator", Silent, "the Message-Authenticator does not verify",
        "the shared secret on the switch and here differ";
    NoMessageAuthenticator, "no-message-authenticator", Silent, "the client must send Message-Authenticator and did not (CVE-2024-3596)",
        "update or configure the switch to send it; until then `require_message_authenticator = false` for this client excuses requests with a password, and no others";
    ProxyStateUnsigned, "proxy-state-unsigned", Silent, "Proxy-State without Message-Authenticator (CVE-2024-3596)",
        "let the proxy send Message-Authenticator, or set `limit_proxy_state = false` for this client";
    MalformedPacket, "malformed-packet", Silent, "the datagram is no well-formed RADIUS request",
        "look at the packet with tcpdump; something other than a RADIUS client may be sending here";
    Duplicate, "duplicate", Silent, "a retransmission of a request that is still being worked on", "";
    Overload, "overload", Silent, "more work is waiting than can be done before the client gives up",
        "add nodes, or look for a client that floods";
    NotReady, "not-ready", Silent, "this node has no usable policy set yet", "see `/readyz` and the log of the start";

    MacNotListed, "mac-not-listed", Mab, "the MAC address is not listed for the site, and no `mab-unknown` policy accepts it",
        "add it: `portreeve mac add SITE MAC`";
    MacListedElsewhere, "mac-listed-elsewhere", Mab, "the MAC address is listed, but for another site",
        "the device has moved: `portreeve mac find MAC`, then `portreeve mac move MAC FROM TO`";
    MacMismatch, "mac-mismatch", Mab, "of User-Name and Calling-Station-Id one is a MAC address and the other is missing or a different one",
        "either somebody borrows a printer's address, or the switch sends no Calling-Station-Id: then set `mab_identity = \"user-name\"` for this client";
    MacExpired, "mac-expired", Mab, "the MAC address is listed, and its `valid_until` has passed",
        "extend it: `portreeve mac add SITE MAC --valid-until DATE`";
    MabPassword, "mab-password", Mab, "the password is not the one that this client's MAC authentication uses",
        "compare the switch's MAB password with the client's `mab_password`";

    NotNetworkAccess, "not-network-access", Request, "a login to the switch itself, or accounting, not a device asking for network access",
        "Portreeve does not authenticate administrators, and takes no accounting yet: point the switch's login at another server, and configure no accounting";
    NoCredentials, "no-credentials", Request, "the request carries neither EAP nor a MAC address to authenticate",
        "enable 802.1X or MAC authentication on the port";
    Probe, "probe", Request, "a test user that a switch sends to see whether the server is alive", "";

    PolicyReject, "policy-reject", Policy, "a policy of the site matched and rejects", "`portreeve decide` shows which rule of which policy";
    FallbackReject, "fallback-reject", Policy, "no policy matched, and the site's fallback rejects",
        "`portreeve decide` shows the rule at which each policy failed";
    NoFallback, "no-fallback", Policy, "no policy matched, and the site has no fallback for this method",
        "`portreeve decide` shows the rule at which each policy failed";
    PolicyBroken, "policy-broken", Policy, "the site's rows in the database do not compile, and no good version is known",
        "`portreeve check` names the row";
    ResponseFailed, "response-failed", Policy, "a response's template could not be filled from this request",
        "the fact it names is absent, has several values, holds control octets or does not fit the attribute";
    ReplyTooLong, "reply-too-long", Policy, "the reply would exceed 4,096 octets", "name fewer responses";

    MethodRefused, "method-refused", Eap, "the supplicant wants an EAP method that is not offered",
        "configure the supplicant for EAP-TLS with a certificate";
    SupplicantStopped, "supplicant-stopped", Eap, "the supplicant stopped answering",
        "see how far it came: often a supplicant that does not trust the server's certificate";
    FragmentLost, "fragment-lost", Eap, "the conversation stopped in the middle of a fragmented message",
        "large packets vanish on the path: check the MTU, or set a smaller `fragment_size`";
    SessionUnknown, "session-unknown", Eap, "the State belongs to no conversation of this node",
        "the node was restarted, a balancer sends one client's packets to several nodes, or a final answer was lost in a rush and forgotten: see `max_conversations`";
    SessionEvicted, "session-evicted", Eap, "the conversation was given up to make room",
        "more conversations are open than allowed: look for a client that begins and never finishes";
    ConversationChanged, "conversation-changed", Eap, "the client or the Calling-Station-Id changed in mid-conversation",
        "compare the addresses in the log: a switch that changes its format, or somebody who tries";
    EapInvalid, "eap-invalid", Eap, "the supplicant broke the EAP protocol",
        "the log line's detail says which rule; update the supplicant, or the switch if it is all devices behind it";
    IdentityMismatch, "identity-mismatch", Eap, "the EAP identity and the User-Name, or the certificate where configured, differ",
        "let the supplicant send the certificate's name as its identity, or see `identity_check`";

    ServerCertificateRefused, "server-certificate-refused", Tls, "the supplicant does not trust this server's certificate",
        "install the CA of the server's certificate on the device, and check the server name it expects";
    TlsVersion, "tls-version", Tls, "the supplicant offers no TLS version that is allowed here",
        "update the supplicant, or allow the version: `min_tls` of the client";
    TlsNoCommon, "tls-no-common", Tls, "no common cipher suite, group or signature algorithm", "update the supplicant";
    TlsFailed, "tls-failed", Tls, "the TLS handshake failed", "the log line's detail names the alert";

    NoCertificate, "no-certificate", Certificate, "the supplicant sent no certificate",
        "enrol the device; the log line's detail names the CAs whose certificates it was asked for";
    UnknownCa, "unknown-ca", Certificate, "the certificate's issuer is none of the client CAs",
        "enrol the device at the right CA, or add that CA to `client_ca`";
    ChainIncomplete, "chain-incomplete", Certificate, "an intermediate certificate is missing between the certificate and the client CAs",
        "let the supplicant send it, or add it to `client_ca`";
    CertificateExpired, "certificate-expired", Certificate, "the certificate has expired", "renew it; if all devices fail so, look at this machine's clock";
    CertificateNotYetValid, "certificate-not-yet-valid", Certificate, "the certificate is not valid yet", "check the clocks, this machine's first";
    CertificateWrongUsage, "certificate-wrong-usage", Certificate, "the certificate is not for client authentication",
        "issue it with the extended key usage clientAuth";
    CertificateConstraint, "certificate-constraint", Certificate, "a constraint of the chain forbids the certificate",
        "the log line's detail says which; issue it by a CA that may";
    CertificateWeak, "certificate-weak", Certificate, "the certificate's key or signature is too weak, or of a kind that is not supported",
        "RSA of 2,048 to 8,192 bits, P-256, P-384, P-521 or Ed25519, signed with SHA-256, SHA-384 or SHA-512";
    CertificateMalformed, "certificate-malformed", Certificate, "the certificate cannot be parsed",
        "look at it with `portreeve cert show FILE`, and issue it anew";
    CertificateRevoked, "certificate-revoked", Certificate, "the certificate, or that of a CA above it, was revoked",
        "the log line's detail says since when and who says so; a device that is to come back needs a new certificate";
    RevocationUnknown, "revocation-unknown", Certificate, "the OCSP responder does not know the certificate",
        "it is not the CA's responder, or its database is behind; `[revocation] mode = \"prefer\"` lets such a device in";
    RevocationUnavailable, "revocation-unavailable", Certificate, "whether the certificate was revoked could not be learned",
        "the log line's detail names each source and what it did: see that this node reaches it, and `[revocation]` in docs/configuration.md";

    DatabaseUnavailable, "database-unavailable", Node, "the site's policies had to be read, and no database answers",
        "see the database's state in `/readyz`";
    InternalError, "internal-error", Node, "a fault of this software", "report it with the log line";
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}
