//! This project's own switch and supplicant, for what the programs of others cannot do: half a conversation, a broken
//! signature, a certificate that no careful library loads.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use portreeve::eap::peer::{ClientCertificate, ClientTls, Failure, Peer, PeerSettings, ServerTrust, Strictness};
use portreeve::eap::tls::{TlsVersion, provider};
use portreeve::nas::{self, Attempt, Credentials};
use portreeve::radius::crypto::Secret;
use portreeve::trust::Clock;
use rustls::RootCertStore;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::node::{PATIENCE, pem};
use super::{Fallible, SECRET};

/// A switch with one socket.
pub struct Nas {
    socket: UdpSocket,
    pub secret: Arc<Secret>,
    identifier: u8,
}

/// What one round led to.
#[derive(Debug, PartialEq)]
pub enum Round {
    Challenge,
    Accept,
    Reject(Option<Failure>),
}

impl Nas {
    /// At a source address, `127.0.0.1` as a rule.
    pub fn new(server: SocketAddr, source: &str) -> Fallible<Nas> {
        let socket = UdpSocket::bind((source, 0))?;
        socket.connect(server)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(Nas {
            socket,
            secret: Arc::new(Secret::new(SECRET.as_bytes())),
            identifier: 0,
        })
    }

    /// Sends octets, and waits for an answer.
    pub fn exchange(&self, octets: &[u8]) -> Fallible<Vec<u8>> {
        self.socket.send(octets)?;
        let mut answer = vec![0; 4_096];
        let length = self
            .socket
            .recv(&mut answer)
            .map_err(|error| format!("no answer: {error}"))?;
        answer.truncate(length);
        Ok(answer)
    }

    /// Sends octets, and looks for an answer that must not come. The caller has to show that the node has seen them.
    pub fn send(&self, octets: &[u8]) -> Fallible {
        self.socket.send(octets)?;
        Ok(())
    }

    /// What comes within this time.
    pub fn receive(&self, within: Duration) -> Fallible<Option<Vec<u8>>> {
        let mut answer = vec![0; 4_096];
        self.socket.set_read_timeout(Some(within))?;
        let received = self.socket.recv(&mut answer);
        self.socket.set_read_timeout(Some(PATIENCE))?;
        match received {
            Ok(length) => {
                answer.truncate(length);
                Ok(Some(answer))
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether an answer lies there.
    pub fn has_answer(&self) -> Fallible<bool> {
        Ok(self.receive(Duration::from_millis(1))?.is_some())
    }

    /// An authentication of a supplicant; `name` becomes NAS-Identifier.
    pub fn begin(&self, name: &str, peer: PeerSettings) -> Attempt {
        let (user, peer) = (peer.identity.clone(), Peer::new(Arc::new(peer)));
        let attributes = attributes(&[(32, name.as_bytes()), (31, b"02-00-00-00-00-99")]);
        Attempt::new(
            Arc::clone(&self.secret),
            user,
            attributes.into(),
            Credentials::Eap(Box::new(peer)),
        )
    }

    /// The next request of an authentication, without sending it.
    pub fn request(&mut self, attempt: &mut Attempt) -> Fallible<Vec<u8>> {
        self.identifier = self.identifier.wrapping_add(1);
        let mut request = Vec::new();
        attempt.request(self.identifier, random()?, &mut request)?;
        Ok(request)
    }

    /// One round of an authentication.
    pub fn round(&mut self, attempt: &mut Attempt) -> Fallible<Round> {
        let request = self.request(attempt)?;
        let answer = self.exchange(&request)?;
        Ok(match attempt.reply(&answer)? {
            nas::Answer::Challenge => Round::Challenge,
            nas::Answer::Accept(_) => Round::Accept,
            nas::Answer::Reject(_, why) => Round::Reject(why),
        })
    }

    /// All rounds that are left.
    pub fn finish(&mut self, attempt: &mut Attempt) -> Fallible<Round> {
        loop {
            match self.round(attempt)? {
                Round::Challenge => {}
                end => return Ok(end),
            }
        }
    }
}

/// A supplicant that shows the certificate `X.pem` (none where it is `None`) and believes in the CA `ca`.
pub fn peer(identity: &str, version: TlsVersion, certificate: Option<&str>, ca: &str) -> Fallible<PeerSettings> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(pem(&format!("{ca}.pem"))?)?)?;
    let certificate = match certificate {
        None => None,
        Some(name) => {
            // no provider loads so weak a key; the certificate is refused before anything that it signs is looked at
            let key = if name == "rsa1024" { "client" } else { name };
            Some(ClientCertificate {
                chain: CertificateDer::pem_file_iter(pem(&format!("{name}.pem"))?)?.collect::<Result<_, _>>()?,
                key: PrivateKeyDer::from_pem_file(pem(&format!("{key}.key"))?)?,
            })
        }
    };
    let tls = ClientTls {
        provider: provider(),
        time: Arc::new(Clock),
        trust: ServerTrust::Ca {
            roots: Arc::new(roots),
            names: Vec::new(),
        },
        certificate,
        min_version: version,
        max_version: version,
    };
    Ok(PeerSettings {
        identity: identity.as_bytes().to_vec(),
        md5_password: None,
        tls: Some(tls.build()?),
        tunnel: None,
        fragment_size: 1_024,
        strictness: Strictness::Strict,
    })
}

/// Attributes as octets.
pub fn attributes(attributes: &[(u8, &[u8])]) -> Vec<u8> {
    let mut octets = Vec::new();
    for (number, value) in attributes {
        octets.extend_from_slice(&[*number, u8::try_from(value.len() + 2).unwrap()]);
        octets.extend_from_slice(value);
    }
    octets
}

/// A request authenticator.
pub fn random() -> Fallible<[u8; 16]> {
    let mut octets = [0; 16];
    aws_lc_rs::rand::fill(&mut octets).map_err(|_| "no randomness")?;
    Ok(octets)
}
