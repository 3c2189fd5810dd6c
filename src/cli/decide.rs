//! `portreeve decide`: what the policies would say, explained, without a packet.

use std::io::Write;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, UnixTime};
use serde::Serialize;

use super::Context;
use super::error::hinted;
use super::node::{trust_store, unix_seconds};
use crate::clients::{Client, SiteId};
use crate::config::Config;
use crate::eap::method::EapType;
use crate::endpoints::Found;
use crate::mac::MacAddress;
use crate::policy::compile::CompiledResponse;
use crate::policy::explain::{Explanation, explain};
use crate::policy::facts;
use crate::policy::model::{Action, Method};
use crate::radius::dictionary::Dictionary;
use crate::radius::dictionary::types::{AttributeId, Value};
use crate::reason::Reason;
use crate::server::facts::{About, Names, collect};
use crate::server::ssid;
use crate::store::Directory;
use crate::store::directory::{Options, SiteState, Snapshot};
use crate::trust::revocation::{Revocation, Standing};
use crate::trust::{Clock, TrustSet, TrustSets};

#[derive(Debug, clap::Args)]
#[command(
    group = clap::ArgGroup::new("where").required(true).args(["client", "site"]),
    after_help = "\
Examples:
  portreeve decide --client 192.0.2.7 --mac 00:1b:78:00:00:01 NAS-Port-Type=Ethernet
  portreeve decide --site london --cert laptop.pem NAS-Port-Type=Wireless-802.11 Called-Station-Id=00-10-a4-23-19-c0:corp
  portreeve decide --site london Time-Of-Day=03:00 TLS-Client-Cert-Common-Name=laptop-7
The policies are read from the database; no node is asked, and none is disturbed. Exit code 0 for any decision."
)]
pub struct Args {
    /// The switch that asks, by its address.
    #[arg(long, value_name = "IP")]
    client: Option<IpAddr>,
    /// The site, by its tag.
    #[arg(long, value_name = "TAG")]
    site: Option<String>,
    /// The method: `eap-tls`, `mab`, `mab-unknown`. Without it, what --cert and --mac mean.
    #[arg(long, value_name = "METHOD", value_parser = parse_method)]
    method: Option<Method>,
    /// The device's MAC address, in any spelling.
    #[arg(long, value_name = "MAC")]
    mac: Option<MacAddress>,
    /// The device's certificate: PEM, its own first, then what it sends besides.
    #[arg(long, value_name = "PEM")]
    cert: Option<PathBuf>,
    /// Attributes of the request, or any fact: `NAS-Port-Type=Ethernet`.
    #[arg(value_name = "ATTRIBUTE=VALUE")]
    facts: Vec<String>,
    /// Print the decision as JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let config = context.config()?;
    let dictionary = context.dictionary(&config)?;
    let given = given(args, dictionary)?;
    let certificate = args.cert.as_ref().map(|path| certificate(path, &config)).transpose()?;
    context.block_on(async {
        let store = context.store(&config).await?;
        let directory = Directory::start(store, dictionary, Options::default()).await;
        if let Some(problem) = directory.health().problem {
            anyhow::bail!(problem);
        }
        let snapshot = directory.snapshot();
        let (client, site) = place(args, &snapshot)?;
        let certificate = match certificate {
            Some(shown) => Some(shown.judge(client.as_deref(), site, &snapshot).await),
            None => None,
        };
        let compiled = directory.load(&snapshot, site).await;
        let question = Question {
            args,
            config: &config,
            dictionary,
            given: &given,
            snapshot: &snapshot,
            site,
        };
        let explanation = question.ask(&compiled, certificate.as_ref());
        let mut out = std::io::stdout().lock();
        let revision = snapshot
            .revision_of(snapshot.site(site).map(|site| &**site))
            .to_string();
        if args.json {
            serde_json::to_writer_pretty(
                &mut out,
                &Answer {
                    explanation: &explanation,
                    revision: &revision,
                },
            )?;
            writeln!(out)?;
        } else {
            write!(out, "{explanation}")?;
            writeln!(out, "\nrevision {revision}")?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// What `--json` prints.
#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    explanation: &'a Explanation,
    revision: &'a str,
}

/// Facts from the command line.
type Given = Vec<(AttributeId, Value<'static>)>;

/// What is to be decided.
struct Question<'a> {
    args: &'a Args,
    config: &'a Config,
    dictionary: &'static Dictionary,
    given: &'a Given,
    snapshot: &'a Snapshot,
    site: SiteId,
}

/// What the database has of the device.
#[derive(Default)]
struct Listing<'a> {
    is_listed: bool,
    is_expired: bool,
    elsewhere: Option<SiteId>,
    responses: Option<&'a [CompiledResponse]>,
}

impl Question<'_> {
    /// Decides in the order in which a node does.
    fn ask(&self, state: &SiteState, certificate: Option<&Certificate>) -> Explanation {
        let listing = self.listing();
        let method = self.method(&listing);
        if let Some((reason, detail)) = certificate.and_then(|certificate| certificate.refused.clone()) {
            return self.rejected(method, reason, detail);
        }
        let compiled = match state {
            SiteState::Ready(compiled) => compiled,
            SiteState::Broken(rows) => {
                return self.rejected(method, Reason::PolicyBroken, rows.first().map(ToString::to_string));
            }
            SiteState::Load => return self.rejected(method, Reason::InternalError, None),
        };
        if method == Method::Mab && listing.is_expired {
            return self.rejected(method, Reason::MacExpired, None);
        }
        let site = self.snapshot.site(self.site);
        let called_station_id = self.dictionary.by_name("Called-Station-Id");
        let ssid = self
            .given
            .iter()
            .filter(|(id, _)| Some(*id) == called_station_id)
            .find_map(|(_, value)| match value {
                Value::Text(text) => ssid(text.as_bytes()),
                _ => None,
            });
        let now = SystemTime::now();
        let about = About {
            packet: None,
            ssid,
            source: self.args.client,
            site_tag: compiled.tag(),
            site: site.map(|site| &**site),
            timezone: &self.config.policy.timezone,
            method,
            eap_type: (method == Method::EapTls).then_some(EapType::TLS),
            certificate: certificate.map(|certificate| (&*certificate.trust, certificate.chain.as_slice())),
            now,
        };
        let names = Names::new(self.dictionary);
        // what is given on the command line takes the place of what would be found out
        let is_given = |id| self.given.iter().any(|(given, _)| *given == id);
        let mut facts = collect(self.dictionary, &names, &about, |id| !is_given(id));
        for (id, value) in self.given {
            facts.push(*id, value.clone());
        }
        let mut explanation = explain(compiled, method, listing.responses, &facts);
        if let (Reason::MacNotListed, Some(other)) = (explanation.reason, listing.elsewhere) {
            explanation.reason = Reason::MacListedElsewhere;
            explanation.detail = self
                .snapshot
                .site(other)
                .map(|site| format!("it is listed for site `{}`", site.tag()));
        }
        explanation
    }

    fn listing(&self) -> Listing<'_> {
        let Some(mac) = self.args.mac else {
            return Listing::default();
        };
        match self.snapshot.endpoints.find(self.site, mac) {
            Found::Listed(endpoint) => Listing {
                is_listed: true,
                is_expired: endpoint.is_expired(unix_seconds(SystemTime::now())),
                elsewhere: None,
                responses: endpoint.responses.as_deref(),
            },
            Found::Elsewhere(other) => Listing {
                elsewhere: Some(other),
                ..Listing::default()
            },
            Found::Unknown => Listing::default(),
        }
    }

    fn method(&self, listing: &Listing<'_>) -> Method {
        match (self.args.method, &self.args.cert, self.args.mac) {
            // which of the two it is, the site's list says, as in a running node
            (Some(Method::Mab | Method::MabUnknown), _, Some(_)) | (None, None, Some(_)) => match listing.is_listed {
                true => Method::Mab,
                false => Method::MabUnknown,
            },
            (Some(method), _, _) => method,
            (None, _, _) => Method::EapTls,
        }
    }

    /// A decision that no policy made.
    fn rejected(&self, method: Method, reason: Reason, detail: Option<String>) -> Explanation {
        Explanation {
            action: Action::Reject,
            reason,
            site: self
                .snapshot
                .site(self.site)
                .map(|site| site.tag().to_owned())
                .unwrap_or_default(),
            policy: None,
            method,
            responses: Vec::new(),
            detail,
            trace: Vec::new(),
        }
    }
}

/// A chain of certificates, and the client CAs that may be asked about it.
struct Shown {
    sets: Arc<TrustSets>,
    chain: Vec<CertificateDer<'static>>,
    revocation: Option<Revocation>,
}

/// A certificate, and what the client CAs say of it.
struct Certificate {
    trust: Arc<TrustSet>,
    chain: Vec<CertificateDer<'static>>,
    refused: Option<(Reason, Option<String>)>,
}

fn certificate(path: &PathBuf, config: &Config) -> anyhow::Result<Shown> {
    let hint = "`portreeve cert show FILE` says what is in a file";
    let unreadable = |error: &dyn std::fmt::Display| hinted(format!("cannot read `{}`: {error}", path.display()), hint);
    let chain: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| unreadable(&error))?;
    if chain.is_empty() {
        return Err(unreadable(&"it holds no certificate"));
    }
    let sets = trust_store(config)?.current();
    let revocation = config.revocation.as_ref().map(|settings| {
        let revocation = Revocation::new(settings, Arc::new(Clock));
        // what cannot be read is `check`'s to say; what cannot be learned for it is in the decision
        drop(revocation.reload());
        revocation
    });
    Ok(Shown {
        sets,
        chain,
        revocation,
    })
}

impl Shown {
    /// What the CAs of the client, or else of the site, make of it, and whoever knows of revocation.
    async fn judge(self, client: Option<&Client>, site: SiteId, snapshot: &Snapshot) -> Certificate {
        let tag = snapshot.site(site).map_or("", |site| site.tag());
        let trust = Arc::clone(match client {
            Some(client) => self.sets.for_client(client, || Some(tag)),
            None => self.sets.for_site(tag),
        });
        let since = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or(Duration::ZERO);
        let now = UnixTime::since_unix_epoch(since);
        let verifier = trust.verifier();
        let verified = match self.chain.split_first() {
            Some((leaf, presented)) => verifier.verify(leaf, presented, now),
            None => Err(Reason::NoCertificate.into()),
        };
        let verified = verified.and_then(|()| verifier.path(&self.chain, now));
        let refused = match (verified, &self.revocation) {
            (Err(refused), _) => Some(refused),
            (Ok(path), Some(revocation)) => match revocation.ask(&path).await {
                Standing::Good(_) => None,
                Standing::Refused(refused) => Some(refused),
            },
            (Ok(_), None) => None,
        };
        Certificate {
            trust,
            chain: self.chain,
            refused: refused.map(|refused| (refused.reason, refused.detail)),
        }
    }
}

/// Facts from the command line, with what `--mac` means for the request.
fn given(args: &Args, dictionary: &Dictionary) -> anyhow::Result<Given> {
    let mut given: Given = Vec::new();
    for text in &args.facts {
        given.push(facts::parse(dictionary, text).map_err(|wrong| hinted(wrong.problem, wrong.hint))?);
    }
    if let Some(mac) = args.mac {
        for name in ["User-Name", "Calling-Station-Id"] {
            match dictionary.by_name(name) {
                // a certificate's User-Name is not its MAC address
                Some(_) if name == "User-Name" && args.cert.is_some() => {}
                Some(id) if !given.iter().any(|(known, _)| *known == id) => {
                    given.push((id, Value::Text(mac.to_string().into())));
                }
                _ => {}
            }
        }
    }
    Ok(given)
}

/// The client, where one is named, and the site.
fn place(args: &Args, snapshot: &Snapshot) -> anyhow::Result<(Option<Arc<Client>>, SiteId)> {
    if let Some(address) = args.client {
        let client = snapshot
            .clients
            .lookup(address, false)
            .or_else(|| snapshot.clients.lookup(address, true));
        return client
            .map(|client| (Some(Arc::clone(client)), client.site))
            .ok_or_else(|| hinted(format!("no client covers `{address}`"), Reason::UnknownClient.hint()));
    }
    let tag = args.site.as_deref().unwrap_or_default();
    match snapshot.site_by_tag(tag) {
        Some((id, _)) => Ok((None, id)),
        None => Err(hinted(
            format!("there is no site `{tag}`"),
            "`portreeve site list` shows their tags",
        )),
    }
}

fn parse_method(word: &str) -> Result<Method, String> {
    Method::parse(word).ok_or_else(|| "write `eap-tls`, `mab` or `mab-unknown`".to_owned())
}
