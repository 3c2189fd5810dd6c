//! A site as its rows have it: what compiles to the site's policies, kept in memory in the rows' own compact form.
//!
//! Because the source stays in memory, a compiled site that the cache gave up is made again without a database, and the
//! last good version of a site whose rows broke can never be lost. Policies are shared: sites that use one policy hold the
//! same [`PolicySource`], and through it the same compiled policy.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use jiff::tz::TimeZone;

use super::db::Transaction;
use super::rows::{self, Scope};
use super::saved::Key;
use super::time;
use crate::clients::SiteId;
use crate::policy::compile::{self, CompiledPolicy, CompiledSite, Tests};
use crate::policy::model::{Action, Method, Policy, ResponseRow, Rule};
use crate::radius::dictionary::Dictionary;

/// A row that does not compile.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RowError {
    /// Its table.
    pub table: &'static str,
    /// Its key there.
    pub id: i64,
    /// What is wrong, with a hint.
    pub what: String,
}

impl fmt::Display for RowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.table, self.id, self.what)
    }
}

/// A policy's rows.
#[derive(Debug)]
pub struct PolicySource {
    /// Its key.
    pub id: i64,
    /// The policy as text.
    pub policy: Policy,
    /// What of its columns is not even text of a policy.
    errors: Vec<RowError>,
    compiled: Mutex<Weak<CompiledPolicy>>,
}

impl PolicySource {
    /// A policy of its rows: `rules` and `responses` in their order.
    pub(super) fn new(row: rows::Policy, rules: Vec<Rule>, responses: Vec<ResponseRow>) -> PolicySource {
        let (policy, errors) = policy(row.clone(), rules, responses);
        let errors = errors
            .into_iter()
            .map(|what| RowError {
                table: "policies",
                id: row.id,
                what,
            })
            .collect();
        PolicySource {
            id: row.id,
            policy,
            errors,
            compiled: Mutex::default(),
        }
    }

    /// Compiles it, or gives what others compiled and still hold.
    pub(super) fn compile(
        &self,
        dictionary: &Dictionary,
        shared: &Tests,
    ) -> Result<Arc<CompiledPolicy>, Vec<RowError>> {
        if !self.errors.is_empty() {
            return Err(self.errors.clone());
        }
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = compiled.upgrade() {
            return Ok(known);
        }
        let error = |error: compile::CompileError| RowError {
            table: "policies",
            id: self.id,
            what: error.to_string(),
        };
        let made = compile::policy_sharing(dictionary, &self.policy, shared)
            .map(Arc::new)
            .map_err(|errors| errors.into_iter().map(error).collect::<Vec<_>>())?;
        *compiled = Arc::downgrade(&made);
        Ok(made)
    }

    fn same(&self, other: &PolicySource) -> bool {
        (self.id, &self.policy, &self.errors) == (other.id, &other.policy, &other.errors)
    }
}

/// A row as a policy, and what could not be read of it.
pub(super) fn policy(row: rows::Policy, rules: Vec<Rule>, responses: Vec<ResponseRow>) -> (Policy, Vec<String>) {
    let mut errors = Vec::new();
    let action = Action::parse(&row.action).unwrap_or_else(|| {
        errors.push(format!(
            "`{}`: `{}` is no action; hint: `accept` or `reject`",
            row.name, row.action
        ));
        Action::Reject
    });
    let methods = Method::parse_list(&row.methods)
        .map_err(str::to_owned)
        .unwrap_or_else(|word| {
            errors.push(format!(
                "`{}`: `{word}` is no method; hint: `eap-tls`, `mab` or `mab-unknown`",
                row.name
            ));
            Vec::new()
        });
    let policy = Policy {
        name: row.name,
        description: row.description,
        action,
        methods,
        rules,
        responses,
        fallback: row.fallback,
    };
    (policy, errors)
}

/// A site's rows, and its policies.
#[derive(Debug)]
pub struct SiteSource {
    /// The site's row.
    pub site: rows::Site,
    /// The row's time zone; none: the configuration's.
    pub timezone: Option<TimeZone>,
    /// In the order of evaluation, without the fallback.
    pub policies: Vec<Arc<PolicySource>>,
    /// Decides where none matches.
    pub fallback: Option<Arc<PolicySource>>,
    /// Differs between any two sources that differ.
    pub version: u64,
    priorities: Vec<Option<i64>>,
    errors: Vec<RowError>,
}

static VERSIONS: AtomicU64 = AtomicU64::new(1);

impl SiteSource {
    fn new(site: rows::Site, links: &[rows::Link], known: &HashMap<i64, Arc<PolicySource>>) -> SiteSource {
        let mut errors = Vec::new();
        let mut error = |what: String| {
            errors.push(RowError {
                table: "sites",
                id: site.id,
                what,
            })
        };
        let timezone = site
            .timezone
            .as_deref()
            .filter(|name| !name.is_empty())
            .and_then(|name| time::zone(name).map_err(|no_zone| error(no_zone.to_string())).ok());
        let (mut policies, mut priorities, mut fallback) = (Vec::new(), Vec::new(), None);
        for link in links {
            match known.get(&link.policy_id) {
                // A policy is never skipped: skipping a reject would be an accept.
                None => error(format!(
                    "uses policy {}, which does not exist; hint: DELETE FROM site_policies WHERE policy_id = {}",
                    link.policy_id, link.policy_id
                )),
                Some(policy) if policy.policy.fallback => {
                    if fallback.replace(Arc::clone(policy)).is_some() {
                        error("has two fallback policies; hint: remove one".to_owned());
                    }
                }
                Some(policy) if link.priority.is_none() => error(format!(
                    "uses `{}` without a priority; hint: only a fallback may have none",
                    policy.policy.name
                )),
                Some(policy) => {
                    policies.push(Arc::clone(policy));
                    priorities.push(link.priority);
                }
            }
        }
        let version = VERSIONS.fetch_add(1, Ordering::Relaxed);
        SiteSource {
            site,
            timezone,
            policies,
            fallback,
            version,
            priorities,
            errors,
        }
    }

    /// Compiles the site: all of it or nothing. What its rules test is shared with others.
    pub fn compile(&self, dictionary: &Dictionary, shared: &Tests) -> Result<CompiledSite, Vec<RowError>> {
        let mut errors = self.errors.clone();
        let mut compile = |policy: &Arc<PolicySource>| {
            policy
                .compile(dictionary, shared)
                .map_err(|mut found| errors.append(&mut found))
                .ok()
        };
        let policies: Vec<Arc<CompiledPolicy>> = self.policies.iter().filter_map(&mut compile).collect();
        let fallback = self.fallback.as_ref().and_then(&mut compile);
        match errors.is_empty() {
            true => Ok(CompiledSite::new(&self.site.tag, policies, fallback)),
            false => Err(errors),
        }
    }

    /// Roughly the octets that its compiled form adds: its own, and of each policy the share that falls to it among the
    /// sites that use it. What a policy takes beyond that while few of those are compiled is bounded by the policies' number.
    pub(super) fn weight(&self, compiled: &CompiledSite) -> u32 {
        let of_rule = |rule: &Rule| {
            // A compiled regular expression takes some kilobytes.
            let regex = if rule.operator.contains("matches") { 16 << 10 } else { 0 };
            160 + rule.attribute.len() + 2 * rule.value.len() + regex
        };
        let of_policy = |shared: &Arc<PolicySource>| {
            let policy = &shared.policy;
            let rules: usize = policy.rules.iter().map(of_rule).sum();
            let responses: usize = policy
                .responses
                .iter()
                .map(|response| 160 + 3 * response.value.len())
                .sum();
            let octets = 200 + policy.name.len() + policy.description.len() + rules + responses;
            octets / Arc::strong_count(shared).max(1)
        };
        let octets: usize = self.policies.iter().chain(&self.fallback).map(of_policy).sum();
        u32::try_from(200 + compiled.octets() + octets).unwrap_or(u32::MAX)
    }

    /// Whether it compiles to the same as `other`.
    pub(super) fn same(&self, other: &SiteSource) -> bool {
        let pointers = |source: &SiteSource| -> Vec<_> {
            source
                .policies
                .iter()
                .chain(&source.fallback)
                .map(Arc::as_ptr)
                .collect()
        };
        self.site == other.site
            && self.priorities == other.priorities
            && self.errors == other.errors
            && self.fallback.is_some() == other.fallback.is_some()
            && pointers(self) == pointers(other)
    }
}

/// The policies that are in memory, so that unchanged ones are shared between readings.
#[derive(Debug, Default)]
pub(super) struct Policies(HashMap<i64, Weak<PolicySource>>);

impl Policies {
    fn intern(&mut self, source: PolicySource) -> Arc<PolicySource> {
        if let Some(known) = self.0.get(&source.id).and_then(Weak::upgrade)
            && known.same(&source)
        {
            return known;
        }
        let source = Arc::new(source);
        self.0.insert(source.id, Arc::downgrade(&source));
        source
    }

    /// Forgets policies that nobody holds any more.
    pub(super) fn prune(&mut self) {
        self.0.retain(|_, policy| policy.strong_count() > 0);
    }
}

/// Reads sites with their policies.
pub(super) async fn read(
    transaction: &mut Transaction,
    scope: Scope,
    known: &mut Policies,
    key: Option<&Key>,
) -> sqlx::Result<HashMap<SiteId, SiteSource>> {
    let sites = rows::sites(transaction, scope).await?;
    let links = rows::links(transaction, scope).await?;
    let policies = read_policies(transaction, scope, key).await?;
    let policies: HashMap<i64, Arc<PolicySource>> = policies
        .into_iter()
        .map(|source| (source.id, known.intern(source)))
        .collect();
    let sites = sites
        .into_iter()
        .map(|site| {
            let from = links.partition_point(|link| link.site_id < site.id);
            let to = links.partition_point(|link| link.site_id <= site.id);
            (
                SiteId(site.id),
                SiteSource::new(site, links.get(from..to).unwrap_or_default(), &policies),
            )
        })
        .collect();
    Ok(sites)
}

/// Reads policies with their rules and responses.
async fn read_policies(
    transaction: &mut Transaction,
    scope: Scope,
    key: Option<&Key>,
) -> sqlx::Result<Vec<PolicySource>> {
    let mut rules: HashMap<i64, Vec<Rule>> = HashMap::new();
    for (policy, rule) in rows::rules(transaction, scope).await? {
        rules.entry(policy).or_default().push(rule);
    }
    let mut responses: HashMap<i64, Vec<ResponseRow>> = HashMap::new();
    for (policy, response) in rows::policy_responses(transaction, scope, key).await? {
        responses.entry(policy).or_default().push(response);
    }
    let policies = rows::policies(transaction, scope).await?;
    Ok(policies
        .into_iter()
        .map(|row| {
            let rules = rules.remove(&row.id).unwrap_or_default();
            let responses = responses.remove(&row.id).unwrap_or_default();
            PolicySource::new(row, rules, responses)
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::cache::DEFAULT_OCTETS;

    /// 20,000 sites with 50 policies each out of a thousand are a thousand policies and 20,000 short lists.
    #[test]
    fn a_policy_that_many_sites_share_weighs_once() {
        let policy = |number: i64| {
            let row = rows::Policy {
                id: number,
                name: format!("policy-{number:04}"),
                description: String::new(),
                fallback: false,
                action: "accept".to_owned(),
                methods: String::new(),
            };
            let mut rules: Vec<Rule> = vec!["NAS-Port-Type == Ethernet".parse().unwrap(); 4];
            rules.push(format!("NAS-Identifier contains role-{number:04}").parse().unwrap());
            Arc::new(PolicySource::new(row, rules, Vec::new()))
        };
        let policies: Vec<Arc<PolicySource>> = (0..50).map(policy).collect();
        let site = |policies: Vec<Arc<PolicySource>>| SiteSource {
            site: rows::Site {
                id: 1,
                name: "Leeds".to_owned(),
                tag: "leeds".to_owned(),
                timezone: None,
            },
            timezone: None,
            policies,
            fallback: None,
            version: 1,
            priorities: Vec::new(),
            errors: Vec::new(),
        };
        let shared = Tests::default();
        let weight = |site: &SiteSource| site.weight(&site.compile(Dictionary::builtin(), &shared).unwrap());
        let alone = weight(&site(policies.clone()));
        assert!(alone > 25_000, "{alone}");
        let many: Vec<SiteSource> = (0..1_000).map(|_| site(policies.clone())).collect();
        let together: u64 = many.iter().map(|site| u64::from(weight(site))).sum();
        assert!(20 * together < DEFAULT_OCTETS, "{together} for 1,000 sites");
    }
}
