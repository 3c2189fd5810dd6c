//! The supplicant's chain as it stands in a ticket: in the form of TLS, deflated with the certificates of the client CAs as
//! a dictionary.
//!
//! A ticket travels in fragments of EAP, twice, and each costs a round trip. Most of a device's certificate is what its
//! issuer's has too, and what every certificate has; intermediates and roots that supplicants send along are found whole.
//! A chain that is short anyway is put in as it stands: deflating takes longer than the server's signature.

use std::cell::RefCell;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use rustls_pki_types::CertificateDer;

/// The longest chain that a ticket is made of.
pub(super) const CHAIN_OCTETS_MAX: usize = 16 * 1024;

/// A chain of so many octets makes a ticket of less than half a fragment.
const SHORT_OCTETS: usize = 512;

/// The first octet: what follows is the chain as it stands, or deflated.
const STORED: u8 = 0;
const DEFLATED: u8 = 1;

/// Six RSA certificates, or three times as many of P-256. A longer dictionary is read for every ticket, and helps few.
const DICTIONARY_OCTETS_MAX: usize = 8 * 1024;

/// What devices' certificates have beside names and keys: the AlgorithmIdentifiers of RFC 5280 and RFC 5480, extensions in
/// their usual order, and the words of AD CS's pointers into the directory.
const COMMON: &[&[u8]] = &[
    b"ldap:///CN=,CN=CDP,CN=AIA,CN=Public%20Key%20Services,CN=Services,CN=Configuration,DC=\
      ?certificateRevocationList?base?objectClass=cRLDistributionPoint\
      ?cACertificate?base?objectClass=certificationAuthority",
    b"http://ocsp.pki.crl.com/.crl.crt",
    // cRLDistributionPoints, authorityInfoAccess with caIssuers and ocsp
    b"\x06\x03\x55\x1d\x1f\x04\x81\x30\x81\xa0\x81\x86\x81",
    b"\x06\x08\x2b\x06\x01\x05\x05\x07\x01\x01\x04\x81\x30\x81\x06\x08\x2b\x06\x01\x05\x05\x07\x30\x02\x86\x81\
      \x30\x81\x06\x08\x2b\x06\x01\x05\x05\x07\x30\x01\x86",
    // Microsoft's template, application policies and security identifier
    b"\x30\x3d\x06\x09\x2b\x06\x01\x04\x01\x82\x37\x15\x07\x04\x30\x30\x2e\x06\x26\x2b\x06\x01\x04\x01\x82\x37\x15\x08",
    b"\x02\x01\x64\x02\x01\x30\x06\x09\x2b\x06\x01\x04\x01\x82\x37\x15\x0a\x04\x30\x30\x0a\x06\x08\x2b\x06\x01\x05\x05\x07\x03\x02",
    b"\x06\x09\x2b\x06\x01\x04\x01\x82\x37\x19\x02\x04\x41\x30\x3f\xa0\x3d\x06\x0a\x2b\x06\x01\x04\x01\x82\x37\x19\x02\x01\xa0\x2f\x04\
      \x2dS-1-5-21-",
    // names: C, O, OU, CN, DC
    b"\x31\x0b\x30\x09\x06\x03\x55\x04\x06\x13\x02\x31\x10\x30\x0e\x06\x03\x55\x04\x0a\x0c\x31\x10\x30\x0e\x06\x03\x55\x04\x0b\x0c",
    b"\x31\x13\x30\x11\x06\x0a\x09\x92\x26\x89\x93\xf2\x2c\x64\x01\x19\x16\x03com\x31\x11\x30\x0f\x06\x03\x55\x04\x03\x0c\x08",
    // an RSA key of 2,048 bits, and sha256WithRSAEncryption
    b"\x30\x82\x01\x22\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00\x03\x82\x01\x0f\x00\x30\x82\x01\x0a\x02\x82\x01\x01\x00",
    b"\x02\x03\x01\x00\x01\xa3\x82\x01\x30\x82\x01\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0b\x05\x00\x03\x82\x01\x01\x00",
    // basicConstraints, keyUsage, extendedKeyUsage, subjectAltName with a UPN, the key identifiers
    b"\x30\x0c\x06\x03\x55\x1d\x13\x01\x01\xff\x04\x02\x30\x00\x30\x0e\x06\x03\x55\x1d\x0f\x01\x01\xff\x04\x04\x03\x02\x05\xa0\x03\x02\x07\x80",
    b"\x30\x13\x06\x03\x55\x1d\x25\x04\x0c\x30\x0a\x06\x08\x2b\x06\x01\x05\x05\x07\x03\x02\
      \x30\x1d\x06\x03\x55\x1d\x25\x04\x16\x30\x14\x06\x08\x2b\x06\x01\x05\x05\x07\x03\x02\x06\x08\x2b\x06\x01\x05\x05\x07\x03\x04",
    b"\x06\x03\x55\x1d\x11\x04\x30\xa0\x06\x0a\x2b\x06\x01\x04\x01\x82\x37\x14\x02\x03\xa0\x0c@.com\x82\x81\x86urn:uuid:",
    b"\x30\x1d\x06\x03\x55\x1d\x0e\x04\x16\x04\x14\x30\x1f\x06\x03\x55\x1d\x23\x04\x18\x30\x16\x80\x14",
    // a P-256 key, and ecdsa-with-SHA256
    b"\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00\x04\xa3\x81\x30\x81",
    b"\x30\x0a\x06\x08\x2a\x86\x48\xce\x3d\x04\x03\x02\x03\x48\x00\x30\x45\x02\x21\x00\x02\x20\x03\x47\x00\x30\x44\x02\x20",
    b"\x30\x82\x03\xa0\x03\x02\x01\x02\x02\x14\x30\x1e\x17\x0d",
];

/// What deflating finds again. All nodes of a fleet that trust the same CAs have the same.
pub(super) struct Dictionary {
    octets: Vec<u8>,
    /// The certificates that are in it.
    whole: Vec<Box<[u8]>>,
}

impl Dictionary {
    /// `authorities` in the order of their use; those that do not fit are left out.
    pub(super) fn new<'a>(authorities: impl IntoIterator<Item = &'a [u8]>) -> Dictionary {
        let common = COMMON.concat();
        let mut room = DICTIONARY_OCTETS_MAX.saturating_sub(common.len());
        let fit = authorities.into_iter().filter(|der| match room.checked_sub(der.len()) {
            Some(left) => {
                room = left;
                true
            }
            None => false,
        });
        let mut parts: Vec<&[u8]> = fit.collect();
        // what is near is named in fewer bits
        parts.reverse();
        Dictionary {
            octets: [common, parts.concat()].concat(),
            whole: parts.into_iter().map(Box::from).collect(),
        }
    }

    /// Whether all of a certificate is in it.
    pub(super) fn has(&self, der: &[u8]) -> bool {
        self.whole.iter().any(|known| **known == *der)
    }

    /// The dictionary itself.
    pub(super) fn octets(&self) -> &[u8] {
        &self.octets
    }

    /// `None` where it cannot be done; then there is no ticket.
    pub(super) fn deflate(&self, octets: &[u8]) -> Option<Vec<u8>> {
        if octets.len() <= SHORT_OCTETS {
            return Some([&[STORED], octets].concat());
        }
        thread_local! {
            /// It clears a quarter of a megabyte when it is made. The lowest level: the others take three times as long for a
            /// hundredth less.
            static DEFLATE: RefCell<Compress> = RefCell::new(Compress::new(Compression::fast(), false));
        }
        // nine bits for an octet that nothing is known of
        let mut deflated = Vec::with_capacity(octets.len() + octets.len() / 8 + 17);
        deflated.push(DEFLATED);
        let status = DEFLATE.with_borrow_mut(|deflate| {
            deflate.reset();
            deflate.set_dictionary(&self.octets).ok()?;
            deflate.compress_vec(octets, &mut deflated, FlushCompress::Finish).ok()
        })?;
        (status == Status::StreamEnd).then_some(deflated)
    }

    /// What [`Dictionary::deflate`] was given, if it is not above [`CHAIN_OCTETS_MAX`].
    pub(super) fn inflate(&self, deflated: &[u8]) -> Option<Vec<u8>> {
        let deflated = match deflated.split_first()? {
            (&STORED, octets) => return (octets.len() <= SHORT_OCTETS).then(|| octets.to_vec()),
            (&DEFLATED, deflated) => deflated,
            _ => return None,
        };
        thread_local! {
            /// 47 KiB, aligned to a line of the cache. Made anew for each ticket, they fitted into none of the gaps that the
            /// C library's allocator had left before, and left new ones: hundreds of megabytes.
            static INFLATE: RefCell<Decompress> = RefCell::new(Decompress::new(false));
        }
        let mut octets = Vec::with_capacity(CHAIN_OCTETS_MAX);
        let status = INFLATE.with_borrow_mut(|inflate| {
            inflate.reset(false);
            inflate.set_dictionary(&self.octets).ok()?;
            inflate
                .decompress_vec(deflated, &mut octets, FlushDecompress::Finish)
                .ok()
        })?;
        (status == Status::StreamEnd).then_some(octets)
    }
}

/// A chain as rustls has it in a session, and TLS 1.2 in a Certificate message: each certificate behind its length in
/// three octets.
pub(super) fn encode(chain: &[CertificateDer<'_>]) -> Vec<u8> {
    let mut octets = Vec::with_capacity(chain.iter().map(|der| der.len() + 3).sum());
    chain.iter().for_each(|der| write(der, &mut octets));
    octets
}

/// What [`encode`] made.
pub(super) fn decode(mut octets: &[u8]) -> Option<Vec<CertificateDer<'_>>> {
    let mut chain = Vec::new();
    while !octets.is_empty() {
        let (der, rest) = read(octets)?;
        chain.push(CertificateDer::from(der));
        octets = rest;
    }
    Some(chain)
}

/// One certificate behind its length.
pub(super) fn write(der: &[u8], out: &mut Vec<u8>) {
    let [_, length @ ..] = u32::try_from(der.len()).unwrap_or(u32::MAX).to_be_bytes();
    out.extend(length);
    out.extend_from_slice(der);
}

/// What [`write()`] wrote, and what follows it.
pub(super) fn read(octets: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&[high, middle, low], rest) = octets.split_first_chunk::<3>()?;
    let length = usize::try_from(u32::from_be_bytes([0, high, middle, low])).ok()?;
    rest.split_at_checked(length)
}

#[cfg(test)]
#[path = "../../../../tests/common/memory.rs"]
mod memory;

#[cfg(test)]
mod tests {
    use super::memory::resident_octets;
    use super::*;

    #[test]
    fn chains_are_read_back() {
        let chain = [CertificateDer::from(&b"leaf"[..]), CertificateDer::from(&b""[..])];
        let octets = encode(&chain);
        assert_eq!(octets, b"\0\0\x04leaf\0\0\0");
        assert_eq!(decode(&octets).as_deref(), Some(&chain[..]));
        for length in [1, 2, 3, 5] {
            assert_eq!(decode(&octets[..length]), None);
        }
    }

    #[test]
    fn what_the_dictionary_has_costs_next_to_nothing() {
        // no period that deflating could find by itself
        let authority: Vec<u8> = (0_u32..1_500)
            .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        let dictionary = Dictionary::new([&authority[..]]);
        let deflated = dictionary.deflate(&authority).unwrap();
        assert!(deflated.len() < 60, "{}", deflated.len());
        assert_eq!(dictionary.inflate(&deflated).as_deref(), Some(&authority[..]));
        let other = Dictionary::new([]);
        assert_ne!(other.inflate(&deflated), Some(authority));
    }

    /// What was kept between one ticket and the next took the place that the next one would have needed. These came to half a
    /// gigabyte; other tests, in the same process, need some tens of megabytes.
    #[test]
    fn inflating_leaves_no_gaps_in_memory() {
        let dictionary = Dictionary::new([]);
        let deflated = dictionary.deflate(&[7; 1_000]).unwrap();
        let before = resident_octets(std::process::id()).unwrap();
        let kept: Vec<[Box<[u8]>; 2]> = (0..20_000)
            .map(|_| {
                let octets = dictionary.inflate(&deflated).unwrap();
                [octets.into_boxed_slice(), Box::from([0; 100])]
            })
            .collect();
        let grown = resident_octets(std::process::id()).unwrap().saturating_sub(before);
        assert!(grown < 256 << 20, "{grown} octets for {} tickets", kept.len());
    }

    #[test]
    fn the_dictionary_is_bounded_and_so_is_what_is_inflated() {
        let many = vec![vec![1; 3_000]; 20];
        assert!(Dictionary::new(many.iter().map(Vec::as_slice)).octets().len() <= DICTIONARY_OCTETS_MAX);
        let dictionary = Dictionary::new([]);
        for (octets, fits) in [
            (CHAIN_OCTETS_MAX, true),
            (CHAIN_OCTETS_MAX + 1, false),
            (1 << 20, false),
        ] {
            let deflated = dictionary.deflate(&vec![7; octets]).unwrap();
            assert_eq!(dictionary.inflate(&deflated).is_some(), fits, "{octets}");
        }
    }

    #[test]
    fn what_is_broken_leaves_nothing_behind_for_the_next() {
        let dictionary = Dictionary::new([]);
        let chain = [COMMON[3], &[7; 600]].concat();
        let whole = dictionary.deflate(&chain).unwrap();
        let cut = whole.split_at(whole.len() / 2).0;
        let longer = dictionary.deflate(&[7; CHAIN_OCTETS_MAX + 1]).unwrap();
        for broken in [
            &b""[..],
            b"\xff",
            b"not deflated at all",
            b"\x01not deflated",
            cut,
            &longer,
        ] {
            assert_eq!(dictionary.inflate(broken), None);
            assert_eq!(dictionary.inflate(&whole).as_deref(), Some(&chain[..]));
        }
    }
}
