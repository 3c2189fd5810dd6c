//! `[eap.tls]` and its profiles: which certificates the server shows to whom, and whose it accepts.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::reader::{Reader, Section};
use crate::clients;
use crate::eap::tls::TlsVersion;
use crate::eap::tls::cipher::Ciphers;
use crate::eap::tls::ticket::LIFETIME_MAX;
use crate::trust::verify::DEPTH_MAX;
use crate::trust::{CertificateFiles, DEFAULT_NAME, Demands, IdentityCheck, Profile, Resumption, Settings};

/// Every profile is a set of certificates in memory, and is read at each start.
const PROFILES_MAX: usize = 256;

/// `[eap.tls]`
#[derive(Clone, Debug)]
pub struct EapTls {
    /// What all use whom no profile names.
    ///
    /// - `certificate`: PEM, the server's certificate and its intermediates; or a list, one for each kind of key
    /// - `private_key`: PEM, for the certificate; or a list in the same order
    /// - `private_key_passphrase_file`: a file with the passphrase of the encrypted keys; or a list in the same order
    /// - `client_ca`: PEM files or folders: the CAs whose certificates are let in. Never a public CA
    /// - `min_version`: `1.2` (default) or `1.3`
    /// - `max_version`: `1.2` or `1.3` (default)
    /// - `ciphers`: cipher suites by IANA's names, the preferred one first; left out, all that are known here, and the
    ///   supplicant's preference counts
    /// - `max_depth`: CAs between a device's certificate and a client CA, 0 to 6. Default 6
    /// - `allow_any_eku`: whether anyExtendedKeyUsage is enough. Default false
    /// - `identity_check`: which names of the certificate the EAP identity must be among. Default `none`
    /// - `resumption_lifetime`: how long after a full handshake a session is resumed, up to 7 d; `0s` never. Default 24 h.
    ///   Too low: full handshakes, with all their signatures; too high: a stolen session is of use for longer, though
    ///   never beyond the certificate, revocation or the policies
    /// - `ticket_keys_file`: secrets that all nodes share, one in each line, so that each resumes the others' sessions.
    ///   Default: a secret of the node's own, until it is restarted
    /// - `resume_tunnels`: whether EAP-TTLS and PEAP are resumed as a whole, rather than the EAP-TLS inside. Default false:
    ///   wpa_supplicant waits for a second transmission in each authentication after such a one
    pub default: Settings,
    /// `[[eap.tls.profile]]`: the same for some `sites` and `clients`; a key left out is that of `[eap.tls]`.
    pub profiles: Vec<Profile>,
    /// `fragment_size`: EAP octets in one packet, 64 to 4,000. Default 1,024. Too low: more round trips; too high:
    /// fragments of IP, which firewalls like to lose. Framed-MTU of the request limits it further.
    pub fragment_size: u16,
    /// `expiry_warning`: how long before its end a certificate is warned of, in the log and by the metric: the server's,
    /// the CAs', and devices' as they come. Default 30 d; zero: not at all. Too low: no time to renew; too high: each
    /// device whose certificate is made for a shorter time is warned of always.
    pub expiry_warning: Duration,
    /// `staple`: whether what their responders say of our own certificates is fetched, and sent to supplicants that ask.
    /// Default true.
    pub staple: bool,
}

/// `expiry_warning`, where the configuration does not say.
pub const EXPIRY_WARNING: Duration = Duration::from_secs(30 * 86_400);

/// The keys that both kinds of section have, as they are written.
#[derive(Clone, Debug, Default)]
struct Keys {
    certificate: Option<Vec<PathBuf>>,
    private_key: Option<Vec<PathBuf>>,
    passphrase_file: Option<Vec<PathBuf>>,
    client_ca: Option<Vec<PathBuf>>,
    min_version: Option<TlsVersion>,
    max_version: Option<TlsVersion>,
    /// And where they stand.
    ciphers: Option<(Vec<String>, String)>,
    max_depth: Option<usize>,
    allow_any_eku: Option<bool>,
    identity_check: Option<IdentityCheck>,
    resume_tunnels: Option<bool>,
    /// Where `min_version` stands, or the section.
    versions_place: String,
}

pub(super) fn take(reader: &mut Reader) -> Option<EapTls> {
    const PROFILE: &str = "eap.tls.profile";
    let mut section = reader.section("eap.tls");
    let present = section.is_present();
    let keys = Keys::take(&mut section);
    let fragment_size = section
        .integer("fragment_size", 64..=4_000)
        .and_then(|size| u16::try_from(size).ok());
    let resumption = resumption(&mut section);
    let expiry_warning = section.duration("expiry_warning", Duration::ZERO..=Duration::from_secs(3_650 * 86_400));
    let staple = section.boolean("staple").unwrap_or(true);
    let default = present
        .then(|| settings(&mut section, DEFAULT_NAME.to_owned(), keys.clone()))
        .flatten();

    let mut profiles = Profiles::default();
    let mut numbers = reader.numbers(PROFILE);
    if numbers.is_empty() {
        numbers.insert(0); // absent, and asked for all the same: what may be written is known by what is asked for
    }
    for number in numbers {
        profiles.take(reader.numbered(PROFILE, number), &keys);
    }
    let (mut default, mut profiles) = (default?, profiles.all);
    for settings in std::iter::once(&mut default).chain(profiles.iter_mut().map(|profile| &mut profile.settings)) {
        settings.resumption.clone_from(&resumption);
    }
    Some(EapTls {
        default,
        profiles,
        fragment_size: fragment_size.unwrap_or(1_024),
        expiry_warning: expiry_warning.unwrap_or(EXPIRY_WARNING),
        staple,
    })
}

/// How sessions are resumed, which is the same in all sets.
fn resumption(section: &mut Section<'_>) -> Option<Resumption> {
    let lifetime = section.duration("resumption_lifetime", Duration::ZERO..=LIFETIME_MAX);
    let keys_file = section.path("ticket_keys_file");
    let lifetime = lifetime.unwrap_or(Resumption::default().lifetime);
    (!lifetime.is_zero()).then_some(Resumption { lifetime, keys_file })
}

impl Keys {
    fn take(section: &mut Section<'_>) -> Keys {
        let versions = [("1.2", TlsVersion::V12), ("1.3", TlsVersion::V13)];
        Keys {
            versions_place: section.place("min_version"),
            certificate: files(section, "certificate"),
            private_key: files(section, "private_key"),
            passphrase_file: files(section, "private_key_passphrase_file"),
            client_ca: files(section, "client_ca"),
            min_version: section.word("min_version", &versions),
            max_version: section.word("max_version", &versions),
            ciphers: ciphers(section),
            max_depth: section
                .integer("max_depth", 0..=DEPTH_MAX as u64)
                .and_then(|depth| usize::try_from(depth).ok()),
            allow_any_eku: section.boolean("allow_any_eku"),
            identity_check: section.word("identity_check", &IdentityCheck::WORDS),
            resume_tunnels: section.boolean("resume_tunnels"),
        }
    }

    /// A profile's keys, and for those that it leaves out the default's.
    fn over(self, default: &Keys) -> Keys {
        let Keys {
            certificate,
            private_key,
            passphrase_file,
            client_ca,
            min_version,
            max_version,
            ciphers,
            max_depth,
            allow_any_eku,
            identity_check,
            resume_tunnels,
            versions_place: _,
        } = default.clone();
        Keys {
            certificate: self.certificate.or(certificate),
            private_key: self.private_key.or(private_key),
            passphrase_file: self.passphrase_file.or(passphrase_file),
            client_ca: self.client_ca.or(client_ca),
            min_version: self.min_version.or(min_version),
            max_version: self.max_version.or(max_version),
            ciphers: self.ciphers.or(ciphers),
            max_depth: self.max_depth.or(max_depth),
            allow_any_eku: self.allow_any_eku.or(allow_any_eku),
            identity_check: self.identity_check.or(identity_check),
            resume_tunnels: self.resume_tunnels.or(resume_tunnels),
            versions_place: self.versions_place,
        }
    }
}

fn ciphers(section: &mut Section<'_>) -> Option<(Vec<String>, String)> {
    let place = section.place("ciphers");
    Some((section.strings("ciphers")?, place))
}

fn files(section: &mut Section<'_>, key: &'static str) -> Option<Vec<PathBuf>> {
    let place = section.place(key);
    let files = section.paths(key)?;
    if files.is_empty() {
        section.complain_about(key, &place, "is an empty list", "name at least one file");
    }
    Some(files)
}

/// A set of all keys; a complaint for each that is missing.
fn settings(section: &mut Section<'_>, name: String, keys: Keys) -> Option<Settings> {
    for (key, absent) in [
        ("certificate", keys.certificate.is_none()),
        ("private_key", keys.private_key.is_none()),
        ("client_ca", keys.client_ca.is_none()),
    ] {
        if absent {
            section.missing(
                key,
                "name a PEM file; `portreeve cert init DIR` makes a set to try with",
            );
        }
    }
    let min_version = keys.min_version.unwrap_or(TlsVersion::V12);
    let max_version = keys.max_version.unwrap_or(TlsVersion::V13);
    if min_version > max_version {
        section.complain_about("min_version", &keys.versions_place, "is above `max_version`", "");
    }
    let mut ciphers = Ciphers::default();
    if let Some((names, place)) = keys.ciphers {
        match Ciphers::new(&names, min_version, max_version) {
            Ok(named) => ciphers = named,
            Err(error) => {
                let known: Vec<&str> = Ciphers::names().collect();
                let hint = format!("these are known: {}", known.join(", "));
                section.complain_about("ciphers", &place, &error.to_string(), &hint);
            }
        }
    }
    let (certificates, private_keys) = (keys.certificate?, keys.private_key?);
    let passphrases = keys.passphrase_file.unwrap_or_default();
    let mut counted = |key: &'static str, count: usize| {
        let is_right = count == certificates.len();
        if !is_right {
            let message = format!(
                "has {}, and `certificate` {}",
                files_counted(count),
                files_counted(certificates.len())
            );
            let place = section.header();
            section.complain_about(
                key,
                &place,
                &message,
                "name one for each certificate, in the same order",
            );
        }
        is_right
    };
    let keys_fit = counted("private_key", private_keys.len());
    let passphrases_fit = passphrases.len() <= 1 || counted("private_key_passphrase_file", passphrases.len());
    if !keys_fit || !passphrases_fit {
        return None;
    }
    let one_for_all = (passphrases.len() == 1).then(|| passphrases.first()).flatten();
    let pairs = certificates.into_iter().zip(private_keys).enumerate();
    Some(Settings {
        name,
        certificates: pairs
            .map(|(index, (certificate, private_key))| CertificateFiles {
                certificate,
                private_key,
                passphrase_file: one_for_all.or_else(|| passphrases.get(index)).cloned(),
            })
            .collect(),
        client_ca: keys.client_ca?,
        min_version,
        max_version,
        ciphers,
        demands: Demands {
            max_depth: keys.max_depth.unwrap_or(DEPTH_MAX),
            allow_any_eku: keys.allow_any_eku.unwrap_or(false),
        },
        identity_check: keys.identity_check.unwrap_or_default(),
        resumption: None,
        resume_tunnels: keys.resume_tunnels.unwrap_or(false),
    })
}

fn files_counted(count: usize) -> String {
    super::units::counted(count, "file", "files")
}

/// The profiles while they are read: what each names must be named once.
#[derive(Default)]
struct Profiles {
    all: Vec<Profile>,
    /// What was named, by key and spelling, and by which profile.
    owners: BTreeMap<(&'static str, String), String>,
}

impl Profiles {
    fn take(&mut self, mut section: Section<'_>, default: &Keys) {
        let present = section.is_present();
        let name_place = section.place("name");
        let name = section.string("name");
        let sites = Named::take(&mut section, "sites");
        let clients = Named::take(&mut section, "clients");
        let keys = Keys::take(&mut section).over(default);
        if !present {
            return;
        }
        let Some(name) = name else {
            return section.missing("name", "a word that says whose certificates they are, like `guests`");
        };
        if name.is_empty() || name == DEFAULT_NAME || name.chars().any(char::is_control) {
            let message = format!("`{}` is no name for a profile", name.escape_debug());
            section.complain_about("name", &name_place, &message, "another word, like `guests`");
        }
        self.own(&mut section, ("name", &name_place), &name, name.clone());
        if sites.texts.is_empty() && clients.texts.is_empty() {
            let header = section.header();
            let message = format!("and `clients` of profile `{name}` are missing or empty");
            section.complain_about(
                "sites",
                &header,
                &message,
                "name the tags of sites, or networks of clients",
            );
        }
        for tag in &sites.texts {
            self.own(&mut section, ("sites", &sites.place), &name, tag.clone());
        }
        let mut networks = Vec::with_capacity(clients.texts.len());
        for text in &clients.texts {
            match clients::parse_network(text) {
                Ok(network) => {
                    self.own(&mut section, ("clients", &clients.place), &name, network.to_string());
                    networks.push(network);
                }
                Err(_) => {
                    let message = format!("has `{text}`, which is no network");
                    section.complain_about(
                        "clients",
                        &clients.place,
                        &message,
                        "write `10.1.0.0/16` or `192.0.2.7`",
                    );
                }
            }
        }
        if self.all.len() >= PROFILES_MAX {
            let header = section.header();
            let message = format!("`{name}` is one profile too many: there may be {PROFILES_MAX}");
            return section.complain_about(
                "name",
                &header,
                &message,
                "let sites with the same certificates share one",
            );
        }
        // What the default lacks is its own complaint, and not that of each profile.
        let is_whole = keys.certificate.is_some() && keys.private_key.is_some() && keys.client_ca.is_some();
        if is_whole && let Some(settings) = settings(&mut section, name, keys) {
            self.all.push(Profile {
                settings,
                sites: sites.texts,
                clients: networks,
            });
        }
    }

    /// Notes that a profile names something, which no other may, nor itself again.
    fn own(&mut self, section: &mut Section<'_>, (key, place): (&'static str, &str), profile: &str, what: String) {
        if let Some(owner) = self.owners.get(&(key, what.clone())) {
            let message = match key {
                "name" => format!("`{what}` is another profile's too"),
                _ => format!("names `{what}`, which profile `{owner}` has named already"),
            };
            section.complain_about(key, place, &message, "name it once");
            return;
        }
        self.owners.insert((key, what), profile.to_owned());
    }
}

/// A list of a profile's, and where it stands.
struct Named {
    texts: Vec<String>,
    place: String,
}

impl Named {
    fn take(section: &mut Section<'_>, key: &'static str) -> Named {
        Named {
            place: section.place(key),
            texts: section.strings(key).unwrap_or_default(),
        }
    }
}
