//! What a server may not do, each with the sentence and the section that forbids it.

use std::fmt;

macro_rules! violations {
    ($($name:ident, $strict:literal, $section:literal, $sentence:literal;)*) => {
        /// A rule that the server broke.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Violation { $(#[doc = $sentence] $name,)* }

        impl Violation {
            /// Each of them.
            pub const ALL: &'static [Violation] = &[$(Violation::$name,)*];

            /// What the server did, one sentence.
            pub const fn sentence(self) -> &'static str {
                match self { $(Violation::$name => $sentence,)* }
            }

            /// The section that forbids it.
            pub const fn section(self) -> &'static str {
                match self { $(Violation::$name => $section,)* }
            }

            /// Whether a tolerant supplicant goes on: many servers do it, and no harm comes of it.
            pub const fn is_harmless(self) -> bool {
                match self { $(Violation::$name => !$strict,)* }
            }
        }
    };
}

violations! {
    Malformed, true, "RFC 3748, 4", "a packet that is no eap request, success or failure";
    IdentifierStood, true, "RFC 3748, 4.1", "a new request with the identifier of the one before it";
    ResultIdentifier, true, "RFC 3748, 4.2", "success or failure with another identifier than the last response's";
    ResultData, true, "RFC 3748, 4.2", "success or failure with data";
    SuccessEarly, true, "RFC 3748, 4.2", "success before the method had finished";
    NakRequested, true, "RFC 3748, 5", "a request of type nak";
    IdentityAgain, true, "RFC 3748, 2.1", "a request for the identity after the method had begun";
    MethodChanged, true, "RFC 3748, 2.1", "a request of another method after the first was answered";
    Md5Malformed, true, "RFC 3748, 5.4", "an md5 challenge without a value";
    Md5Again, true, "RFC 3748, 5.4", "a second md5 challenge after the first was answered";
    NoFlags, true, "RFC 5216, 3.1", "an eap-tls request without flags, or with a length cut short";
    ReservedFlags, false, "RFC 5216, 3.1", "reserved flags that are not zero";
    NoStart, true, "RFC 5216, 2.1.1", "a first eap-tls request that is no start";
    StartAgain, true, "RFC 5216, 3.1", "a start in the middle of the conversation";
    StartLength, false, "RFC 5216, 2.1.1", "a start with a length field";
    StartData, true, "RFC 5216, 2.1.1", "a start with data";
    LengthUnfragmented, false, "RFC 9190, 2.1.9", "a length field in a message of one fragment";
    LengthMissing, false, "RFC 5216, 2.1.5", "no length field in the first of several fragments";
    LengthLater, false, "RFC 5216, 2.1.5", "a length field in a fragment that is not the first";
    Fragments, true, "RFC 5216, 2.1.5", "fragments that do not make up the message announced, or more than 64 kib";
    DataBeforeAcknowledgement, true, "RFC 5216, 2.1.5", "data while fragments of ours had to be acknowledged";
    NothingSaid, false, "RFC 5216, 2.1.5", "an empty request that acknowledges nothing";
    ApplicationData, true, "RFC 9190, 2.5", "application data other than the one octet 0x00";
    CommitmentEarly, true, "RFC 9190, 2.5", "the octet 0x00 before our finished message was processed";
    CommitmentMissing, true, "RFC 9190, 2.5", "success without the octet 0x00";
    AfterCommitment, true, "RFC 9190, 2.5", "a request or a failure after the octet 0x00";
    TunnelEarly, true, "RFC 9427, 3", "data inside a tunnel whose handshake was not finished";
    TunnelData, true, "RFC 5281, 11.2.1", "data inside a tunnel that are no eap request, or out of turn";
    ResultMissing, true, "[MS-PEAP], 3.2.5.4.7", "success of peap without a result inside the tunnel";
    BindingMissing, true, "[MS-PEAP], 3.1.5.5", "a result of peap without a crypto-binding";
    BindingWrong, true, "[MS-PEAP], 3.2.5.3", "a crypto-binding of other keys";
    TlsAfterAlert, true, "RFC 9190, 2.5", "a request where only failure may follow an alert";
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server sent {} ({})", self.sentence(), self.section())
    }
}

impl std::error::Error for Violation {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_violation_reads_as_a_sentence_with_its_section() {
        let text = Violation::CommitmentMissing.to_string();
        assert_eq!(text, "the server sent success without the octet 0x00 (RFC 9190, 2.5)");
        assert!(Violation::ALL.iter().all(|violation| {
            ["RFC ", "[MS-PEAP], "]
                .iter()
                .any(|source| violation.section().starts_with(source))
        }));
        assert!(Violation::LengthUnfragmented.is_harmless() && !Violation::CommitmentMissing.is_harmless());
    }
}
