//! The floor for EAP-TLS: the server's half of a rustls handshake in memory, both sides with a certificate.

use std::sync::Arc;
use std::time::Duration;

use ::portreeve::eap::tls::provider;
use ::portreeve::trust::pki::Files;
use rustls::client::Resumption;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, SupportedProtocolVersion};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};

use super::{Fallible, processor};

/// Both ends, ready for any number of full handshakes of one TLS version.
pub struct Bare {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

impl Bare {
    pub fn new(files: &Files, version: &'static SupportedProtocolVersion) -> Fallible<Bare> {
        let chain = |path| -> Fallible<Vec<CertificateDer<'static>>> {
            Ok(CertificateDer::pem_file_iter(path)?.collect::<Result<_, _>>()?)
        };
        let mut roots = RootCertStore::empty();
        for ca in chain(&files.ca)? {
            roots.add(ca)?;
        }
        let roots = Arc::new(roots);
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider()).build()?;
        let mut server = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[version])?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain(&files.server)?, PrivateKeyDer::from_pem_file(&files.server_key)?)?;
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        let mut client = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[version])?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain(&files.client)?, PrivateKeyDer::from_pem_file(&files.client_key)?)?;
        client.resumption = Resumption::disabled();
        Ok(Bare {
            server: Arc::new(server),
            client: Arc::new(client),
        })
    }

    /// Runs one handshake, and returns what the server used of the processor.
    pub fn run(&self) -> Fallible<Duration> {
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
        let before = processor::of_thread()?;
        drop(server);
        Ok(used + (processor::of_thread()? - before))
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
