//! Policies, and their places in sites.

use std::collections::BTreeMap;

use super::{EditError, Edited, Outcome, begin, commit, policy_id, site_id};
use crate::policy::compile::CompiledSite;
use crate::policy::lint;
use crate::policy::model::{ResponseRow, Rule};
use crate::radius::dictionary::Dictionary;
use crate::store::db::{Transaction, query, query_scalar};
use crate::store::rows::{self, Scope};
use crate::store::set::{self, Policy};
use crate::store::{Store, write};

/// A policy in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Its name.
    pub name: String,
    /// `accept` or `reject`.
    pub action: String,
    /// Words; none: `eap-tls`.
    pub methods: Vec<String>,
    /// Whether it is a fallback.
    pub fallback: bool,
    /// How many rules it has.
    pub rules: i64,
    /// How many responses.
    pub responses: i64,
    /// How many sites use it.
    pub sites: i64,
}

/// Where a site has a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The site's tag.
    pub site: String,
    /// Lower is tried first; none: it is the fallback.
    pub priority: Option<i64>,
}

/// All policies by name.
pub async fn list(store: &Store) -> Result<Vec<Summary>, EditError> {
    let mut transaction = store.read().await?;
    type Row = (String, String, Option<String>, bool, i64, i64, i64);
    let rows: Vec<Row> = query(
        "SELECT name, action, methods, fallback, \
           (SELECT count(*) FROM rules r WHERE r.policy_id = p.id), \
           (SELECT count(*) FROM responses r WHERE r.policy_id = p.id), \
           (SELECT count(*) FROM site_policies s WHERE s.policy_id = p.id) \
         FROM policies p ORDER BY name",
    )
    .fetch_all(&mut transaction)
    .await?;
    let summary = |(name, action, methods, fallback, rules, responses, sites): Row| {
        let methods = set::words(&methods.unwrap_or_default());
        Summary {
            name,
            action,
            methods,
            fallback,
            rules,
            responses,
            sites,
        }
    };
    Ok(rows.into_iter().map(summary).collect())
}

/// A policy, and the sites that use it, by tag.
pub async fn show(store: &Store, name: &str) -> Result<(Policy, Vec<Place>), EditError> {
    let mut transaction = store.read().await?;
    let (id, _) = policy_id(&mut transaction, name).await?;
    let policy = read(&mut transaction, id).await?;
    Ok((policy, places(&mut transaction, id).await?))
}

/// Adds a policy; with `replace`, one of this name may be there and becomes this one, in all sites that use it.
pub async fn add(
    store: &Store,
    dictionary: &Dictionary,
    name: &str,
    policy: &Policy,
    replace: bool,
) -> Result<Edited, EditError> {
    if name.trim().is_empty() {
        return Err(EditError::invalid(
            "a policy needs a name\nhint: `portreeve policy add NAME …`",
        ));
    }
    let compiled = policy.compile(dictionary, name).map_err(EditError::Invalid)?;
    let findings = lint::policy(dictionary, &compiled);
    let mut transaction = begin(store).await?;
    let known: Option<i64> = query_scalar("SELECT id FROM policies WHERE name = $1")
        .bind(name)
        .fetch_optional(&mut transaction)
        .await?;
    let Some(id) = known else {
        write::insert_policy(&mut transaction, name, policy).await?;
        return commit(transaction, Outcome::Added, findings).await;
    };
    if !replace {
        return Err(EditError::conflict(
            format!("there is a policy `{name}` already"),
            "`--replace` changes it",
        ));
    }
    let before = read(&mut transaction, id).await?;
    if before == *policy {
        return commit(transaction, Outcome::Unchanged, findings).await;
    }
    let places = places(&mut transaction, id).await?;
    if before.fallback != policy.fallback
        && let Some(place) = places.first()
    {
        return Err(EditError::conflict(
            format!(
                "site `{}` uses `{name}`, which would be a fallback no longer, or become one",
                place.site
            ),
            "add it under another name",
        ));
    }
    write::update_policy(&mut transaction, id, &before, policy).await?;
    commit(transaction, Outcome::Changed, findings).await
}

/// Removes a policy that no site uses.
pub async fn remove(store: &Store, name: &str) -> Result<Edited, EditError> {
    let mut transaction = begin(store).await?;
    let (id, _) = policy_id(&mut transaction, name).await?;
    let places = places(&mut transaction, id).await?;
    if let Some(first) = places.first() {
        let more = places.len().saturating_sub(1);
        return Err(EditError::conflict(
            format!("site `{}` and {more} others use policy `{name}`", first.site),
            "take it out of them first: without a rejecting policy a site accepts what it refused",
        ));
    }
    write::delete_policy(&mut transaction, id).await?;
    commit(transaction, Outcome::Removed, Vec::new()).await
}

/// Gives a policy this priority in a site, whether the site had it already or not. Policies that stand there move down
/// by one, as far as they must. A fallback has no priority: `None` makes it the site's, in the place of another.
pub async fn place(
    store: &Store,
    dictionary: &Dictionary,
    site: &str,
    policy: &str,
    priority: Option<i64>,
) -> Result<Edited, EditError> {
    let mut transaction = begin(store).await?;
    let site_key = site_id(&mut transaction, site).await?;
    let (id, fallback) = policy_id(&mut transaction, policy).await?;
    let priority = match (priority, fallback) {
        (Some(priority), false) => priority,
        (None, true) => {
            let findings = set_fallback(&mut transaction, dictionary, (site, site_key), policy).await?;
            return commit(transaction, Outcome::Changed, findings).await;
        }
        (Some(_), true) => {
            let what = format!("`{policy}` is a fallback policy, which has no priority");
            return Err(EditError::conflict(
                what,
                "leave the priority out to make it the site's fallback",
            ));
        }
        (None, false) => {
            let what = format!("`{policy}` is no fallback policy, and needs a priority");
            return Err(EditError::conflict(
                what,
                "lower is tried first; `portreeve site show` has the others'",
            ));
        }
    };
    let links = rows::links(&mut transaction, Scope::Site(site_key)).await?;
    let mut outcome = Outcome::Added;
    let mut order: BTreeMap<i64, i64> = BTreeMap::new();
    for link in &links {
        if link.policy_id == id {
            outcome = Outcome::Changed;
            if link.priority == Some(priority) {
                return commit(transaction, Outcome::Unchanged, Vec::new()).await;
            }
            write::unlink(&mut transaction, site_key, id).await?;
        } else if let Some(priority) = link.priority {
            order.insert(priority, link.policy_id);
        }
    }
    let mut shifted = Vec::new();
    let mut at = priority;
    while let Some(other) = order.get(&at) {
        shifted.push((*other, at));
        at = at
            .checked_add(1)
            .ok_or_else(|| EditError::invalid("no priority is left below\nhint: choose a smaller one"))?;
    }
    // From the last: each moves to a place that is free.
    for (other, at) in shifted.into_iter().rev() {
        query("UPDATE site_policies SET priority = $1 WHERE site_id = $2 AND policy_id = $3")
            .bind(at.saturating_add(1))
            .bind(site_key)
            .bind(other)
            .execute(&mut transaction)
            .await?;
    }
    write::link(&mut transaction, site_key, id, Some(priority)).await?;
    let findings = check(&mut transaction, dictionary, (site, site_key), policy).await?;
    commit(transaction, outcome, findings).await
}

/// Takes a policy out of a site; its fallback too.
pub async fn withdraw(store: &Store, site: &str, policy: &str) -> Result<Edited, EditError> {
    let mut transaction = begin(store).await?;
    let site_key = site_id(&mut transaction, site).await?;
    let (id, _) = policy_id(&mut transaction, policy).await?;
    let links = rows::links(&mut transaction, Scope::Site(site_key)).await?;
    if !links.iter().any(|link| link.policy_id == id) {
        return Err(EditError::conflict(
            format!("site `{site}` does not use policy `{policy}`"),
            format!("`portreeve site show {site}` shows those it does"),
        ));
    }
    write::unlink(&mut transaction, site_key, id).await?;
    commit(transaction, Outcome::Removed, Vec::new()).await
}

/// Makes a policy the site's fallback, in the place of another; an empty name leaves it without.
pub(super) async fn set_fallback(
    transaction: &mut Transaction,
    dictionary: &Dictionary,
    (site, site_key): (&str, i64),
    policy: &str,
) -> Result<Vec<lint::Finding>, EditError> {
    let new = match policy {
        "" => None,
        name => match policy_id(transaction, name).await? {
            (id, true) => Some(id),
            (_, false) => {
                let what = format!("`{name}` is no fallback policy");
                return Err(EditError::conflict(
                    what,
                    "make one: `portreeve policy add NAME --fallback`",
                ));
            }
        },
    };
    query("DELETE FROM site_policies WHERE site_id = $1 AND policy_id IN (SELECT id FROM policies WHERE fallback)")
        .bind(site_key)
        .execute(transaction)
        .await?;
    match new {
        None => Ok(Vec::new()),
        Some(id) => {
            write::link(transaction, site_key, id, None).await?;
            check(transaction, dictionary, (site, site_key), policy).await
        }
    }
}

/// The policy that an edit puts into a site must compile. The site's findings are told if all of it does.
async fn check(
    transaction: &mut Transaction,
    dictionary: &Dictionary,
    (tag, site_key): (&str, i64),
    touched: &str,
) -> Result<Vec<lint::Finding>, EditError> {
    let current = set::read_policies_of(transaction, site_key).await?;
    let mut compiled = BTreeMap::new();
    for (name, policy) in &current.policies {
        match policy.compile(dictionary, name) {
            Ok(policy) => _ = compiled.insert(name.as_str(), std::sync::Arc::new(policy)),
            Err(errors) if name == touched => return Err(EditError::Invalid(errors)),
            // It was broken before, and `portreeve check` says so.
            Err(_) => {}
        }
    }
    let Some(site) = current
        .sites
        .get(tag)
        .filter(|_| compiled.len() == current.policies.len())
    else {
        return Ok(Vec::new());
    };
    let policies = site
        .policies
        .values()
        .filter_map(|name| compiled.get(name.as_str()).cloned());
    let fallback = site.fallback.as_deref().and_then(|name| compiled.get(name).cloned());
    Ok(lint::site(&CompiledSite::new(tag, policies, fallback)))
}

async fn places(transaction: &mut Transaction, policy: i64) -> Result<Vec<Place>, EditError> {
    let rows: Vec<(String, Option<i64>, bool)> = query(
        "SELECT s.tag, l.priority, p.fallback FROM site_policies l JOIN sites s ON s.id = l.site_id \
         JOIN policies p ON p.id = l.policy_id WHERE l.policy_id = $1 ORDER BY s.tag",
    )
    .bind(policy)
    .fetch_all(transaction)
    .await?;
    let place = |(site, priority, fallback): (String, Option<i64>, bool)| Place {
        site,
        priority: priority.filter(|_| !fallback),
    };
    Ok(rows.into_iter().map(place).collect())
}

async fn read(transaction: &mut Transaction, id: i64) -> Result<Policy, EditError> {
    let row: (Option<String>, bool, String, Option<String>) =
        query("SELECT description, fallback, action, methods FROM policies WHERE id = $1")
            .bind(id)
            .fetch_one(transaction)
            .await?;
    let rules: Vec<(String, String, String)> =
        query("SELECT request_attribute, operator, value FROM rules WHERE policy_id = $1 ORDER BY id")
            .bind(id)
            .fetch_all(transaction)
            .await?;
    let responses: Vec<(String, String)> =
        query("SELECT response_attribute, value FROM responses WHERE policy_id = $1 ORDER BY position, id")
            .bind(id)
            .fetch_all(transaction)
            .await?;
    let (description, fallback, action, methods) = row;
    Ok(Policy {
        description: description.unwrap_or_default(),
        action,
        methods: set::words(&methods.unwrap_or_default()),
        fallback,
        rules: rules
            .into_iter()
            .map(|(attribute, operator, value)| Rule {
                attribute,
                operator,
                value,
            })
            .collect(),
        responses: responses
            .into_iter()
            .map(|(attribute, value)| ResponseRow { attribute, value })
            .collect(),
    })
}
