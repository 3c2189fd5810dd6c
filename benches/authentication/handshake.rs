//! The floor for EAP-TLS: the server's half of a rustls handshake in memory, both sides with a certificate.

use std::sync::Arc;
use std::time::Duration;

use ::portreeve::eap::tls::provider;
use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{
    ClientConfig, ClientConnection, HandshakeKind, RootCertStore, ServerConfig, ServerConnection,
    SupportedProtocolVersion,
};
use rustls_pki_types::ServerName;

use super::certificates::{Identity, Pki};
use super::{Fallible, processor};

/// Both ends, ready for any number of full handshakes of one TLS version.
pub struct Bare {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
    resumed: bool,
}

impl Bare {
    /// As rustls has it by default, but that the server's key exchange is Portreeve's: no hybrid with ML-KEM. With `resumed`
    /// each handshake after the first resumes the session of the one before.
    pub fn new(pki: &Pki, version: &'static SupportedProtocolVersion, resumed: bool) -> Fallible<Bare> {
        let mut roots = RootCertStore::empty();
        roots.add(pki.ca())?;
        let roots = Arc::new(roots);
        let chain = |identity: &Identity| (vec![identity.certificate.clone()], identity.key.clone_key());
        let (server_chain, server_key) = chain(&pki.server);
        let (client_chain, client_key) = chain(&pki.device);
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider()).build()?;
        let mut server = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[version])?
            .with_client_cert_verifier(verifier)
            .with_single_cert(server_chain, server_key)?;
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        let mut client = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[version])?
            .with_root_certificates(roots)
            .with_client_auth_cert(client_chain, client_key)?;
        client.resumption = Resumption::disabled();
        if resumed {
            server.ticketer = Ticketer::new()?;
            server.send_tls13_tickets = 1;
            client.resumption = Resumption::in_memory_sessions(1);
        }
        let bare = Bare {
            server: Arc::new(server),
            client: Arc::new(client),
            resumed,
        };
        if resumed {
            bare.handshake()?;
        }
        Ok(bare)
    }

    /// Runs one handshake, and returns what the server used of the processor.
    pub fn run(&self) -> Fallible<Duration> {
        let (used, kind) = self.handshake()?;
        let expected = if self.resumed {
            HandshakeKind::Resumed
        } else {
            HandshakeKind::Full
        };
        match kind == Some(expected) {
            true => Ok(used),
            false => Err(format!("the bare handshake is {kind:?}").into()),
        }
    }

    fn handshake(&self) -> Fallible<(Duration, Option<HandshakeKind>)> {
        let name = ServerName::try_from(::portreeve::trust::pki::SERVER_NAME)?;
        let mut client = ClientConnection::new(self.client.clone(), name)?;
        let before = processor::of_thread()?;
        let mut server = ServerConnection::new(self.server.clone())?;
        let mut used = processor::of_thread()? - before;
        while client.is_handshaking() || server.is_handshaking() {
            let mut flight = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut flight)?;
            }
            let before = processor::of_thread()?;
            let answer = answer(&mut server, &flight)?;
            used += processor::of_thread()? - before;
            if flight.is_empty() && answer.is_empty() {
                return Err("the handshake does not move".into());
            }
            let mut answer = answer.as_slice();
            while !answer.is_empty() {
                client.read_tls(&mut answer)?;
                client.process_new_packets()?;
            }
        }
        let kind = server.handshake_kind();
        let before = processor::of_thread()?;
        drop(server);
        Ok((used + (processor::of_thread()? - before), kind))
    }
}

fn answer(server: &mut ServerConnection, mut flight: &[u8]) -> Fallible<Vec<u8>> {
    while !flight.is_empty() {
        server.read_tls(&mut flight)?;
        server.process_new_packets()?;
    }
    let mut answer = Vec::new();
    while server.wants_write() {
        server.write_tls(&mut answer)?;
    }
    Ok(answer)
}
