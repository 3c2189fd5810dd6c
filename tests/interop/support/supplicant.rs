//! wpa_supplicant's `eapol_test`: supplicant and switch in one.

use std::fs;
use std::process::Command;

use super::node::{Node, pem};
use super::{Fallible, SECRET, ensure, run};

/// One run.
#[derive(Clone)]
pub struct Eapol<'a> {
    /// NAS-Identifier, by which the log line is found.
    pub name: &'a str,
    /// The source address.
    pub source: &'a str,
    /// Calling-Station-Id.
    pub mac: &'a str,
    /// More attributes: `6:d:7` is Service-Type (6), an integer, 7.
    pub attributes: &'a [&'a str],
    /// The lines of the configuration's network block.
    pub network: String,
    /// How often it authenticates again, from the same process, which remembers sessions.
    pub again: u32,
    /// Whether keys are made of the conversation.
    pub has_keys: bool,
}

/// What came of it.
pub struct Ran {
    pub succeeded: bool,
    pub output: String,
}

impl Eapol<'_> {
    /// A supplicant that is configured for MD5.
    pub fn md5<'a>(name: &'a str, identity: &str, password: &str) -> Eapol<'a> {
        Eapol {
            network: format!("eap=MD5\nidentity=\"{identity}\"\npassword=\"{password}\"\n"),
            has_keys: false,
            ..Eapol::new(name)
        }
    }

    /// A supplicant that is configured for EAP-TLS with the certificate `X.pem`, `X.key`, and believes in `ca`.
    pub fn tls<'a>(name: &'a str, version: &str, identity: &str, certificate: &str, ca: &str) -> Fallible<Eapol<'a>> {
        let is_off = u8::from(version == "1.2");
        let file = |name: String| pem(&name).map(|path| path.display().to_string());
        Ok(Eapol {
            network: format!(
                "eap=TLS\nidentity=\"{identity}\"\nphase1=\"tls_disable_tlsv1_3={is_off} tls_disable_session_ticket=0\"\n\
                 ca_cert=\"{}\"\nclient_cert=\"{}\"\nprivate_key=\"{}\"\n",
                file(format!("{ca}.pem"))?,
                file(format!("{certificate}.pem"))?,
                file(format!("{certificate}.key"))?,
            ),
            has_keys: true,
            ..Eapol::new(name)
        })
    }

    /// A supplicant that is configured for a tunnel, `TTLS` or `PEAP`, and in it for EAP-TLS as with [`Eapol::tls`].
    pub fn tunnel<'a>(
        name: &'a str,
        (tunnel, version): (&str, &str),
        identity: &str,
        certificate: &str,
        ca: &str,
    ) -> Fallible<Eapol<'a>> {
        let is_off = u8::from(version == "1.2");
        let inner = match tunnel {
            "TTLS" => "autheap=TLS",
            _ => "auth=TLS",
        };
        let file = |name: String| pem(&name).map(|path| path.display().to_string());
        let ca = file(format!("{ca}.pem"))?;
        Ok(Eapol {
            network: format!(
                "eap={tunnel}\nanonymous_identity=\"anonymous\"\nidentity=\"{identity}\"\n\
                 phase1=\"tls_disable_tlsv1_3={is_off} tls_disable_session_ticket=0\"\nca_cert=\"{ca}\"\n\
                 phase2=\"{inner} tls_disable_tlsv1_3={is_off} tls_disable_session_ticket=0\"\nca_cert2=\"{ca}\"\n\
                 client_cert2=\"{}\"\nprivate_key2=\"{}\"\n",
                file(format!("{certificate}.pem"))?,
                file(format!("{certificate}.key"))?,
            ),
            has_keys: true,
            ..Eapol::new(name)
        })
    }

    /// A supplicant that is configured for a tunnel and a password in it.
    pub fn password<'a>(name: &'a str, tunnel: &str, inner: &str, ca: &str) -> Fallible<Eapol<'a>> {
        let ca = pem(&format!("{ca}.pem"))?.display().to_string();
        Ok(Eapol {
            network: format!(
                "eap={tunnel}\nidentity=\"somebody\"\npassword=\"secret\"\nca_cert=\"{ca}\"\nphase2=\"{inner}\"\n"
            ),
            has_keys: true,
            ..Eapol::new(name)
        })
    }

    fn new(name: &str) -> Eapol<'_> {
        Eapol {
            name,
            source: "127.0.0.1",
            mac: "02:00:00:00:00:99",
            attributes: &[],
            network: String::new(),
            again: 0,
            has_keys: false,
        }
    }

    pub fn run(&self, node: &Node) -> Fallible<Ran> {
        let file = node
            .folder()
            .join(format!("{}.conf", self.name.replace([' ', '/'], "-")));
        fs::write(&file, format!("network={{\nkey_mgmt=IEEE8021X\n{}}}\n", self.network))?;
        let mut command = Command::new("eapol_test");
        command
            .arg("-c")
            .arg(&file)
            .args(["-a", &node.address().ip().to_string()])
            .args(["-p", &node.address().port().to_string()])
            .args(["-s", SECRET, "-t", "30", "-M", self.mac])
            .args(["-A", self.source])
            .arg(format!("-N32:s:{}", self.name));
        for attribute in self.attributes {
            command.arg(format!("-N{attribute}"));
        }
        if !self.has_keys {
            command.arg("-n");
        }
        if self.again > 0 {
            command.arg(format!("-r{}", self.again));
        }
        let output = String::from_utf8_lossy(&run(&mut command)?.stdout).into_owned();
        Ok(Ran {
            succeeded: output.lines().last() == Some("SUCCESS"),
            output,
        })
    }

    /// Runs, and expects to get in, with the keys that the supplicant has.
    pub fn gets_in(&self, node: &Node) -> Fallible<Ran> {
        let ran = self.run(node)?;
        ensure(ran.succeeded, || format!("it was not let in\n{}", ran.output))?;
        if self.has_keys {
            ran.expect(&format!("MPPE keys OK: {}  mismatch: 0", 1 + self.again))?;
        }
        Ok(ran)
    }

    /// Runs, and expects to be refused for `reason`, as the log says.
    pub fn is_refused(&self, node: &Node, reason: &str) -> Fallible<Ran> {
        let ran = self.run(node)?;
        ensure(!ran.succeeded, || "it was let in".to_owned())?;
        ran.expect("Access-Reject")?;
        node.expect(self.name, &[("outcome", "reject"), ("reason", reason)])?;
        Ok(ran)
    }
}

impl Ran {
    /// An error unless the output says so.
    pub fn expect(&self, text: &str) -> Fallible {
        ensure(self.output.contains(text), || {
            format!("eapol_test does not say `{text}`\n{}", self.output)
        })
    }
}
