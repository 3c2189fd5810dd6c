//! Data sets to measure and to try with, written straight into the database: none of it is ever in memory as a whole.

mod dataset;
mod plan;

pub use dataset::{Counts, Nacs, SECRET};
pub use plan::{Case, Plan};

use super::db::{Transaction, query, query_scalar};
use super::set::{Mac, Policy};
use super::{Revision, Store, StoreError, bulk, changes};

/// How to write a data set.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Delete the policy set that is there.
    pub replace: bool,
}

/// Why a data set was not written; nothing was changed then.
#[derive(Debug, thiserror::Error)]
pub enum SeedError {
    /// A site cannot have so many different policies.
    #[error(
        "a site cannot have {policies_per_site} of {policies} policies\nhint: give a greater `--policies`, or a smaller \
         `--policies-per-site`"
    )]
    TooFewPolicies {
        /// Shared policies.
        policies: u32,
        /// Of each site.
        policies_per_site: u32,
    },
    /// The loopback network has not enough addresses.
    #[error(
        "{sites} sites of {clients} clients need {wanted} addresses, and from 127.1.0.0 to 127.255.255.254 there are {most}\n\
         hint: give fewer `--sites` or `--clients`"
    )]
    OutOfAddresses {
        /// Sites.
        sites: u32,
        /// Of each site.
        clients: u32,
        /// All of them.
        wanted: u64,
        /// What there is.
        most: u64,
    },
    /// More than a node can hold.
    #[error(
        "{sites} sites of {macs} mac addresses are {wanted}, and a node holds {most}\nhint: give fewer `--sites` or `--macs`"
    )]
    TooManyMacs {
        /// Sites.
        sites: u32,
        /// Of each site.
        macs: u32,
        /// All of them.
        wanted: u64,
        /// What is possible.
        most: u64,
    },
    /// There is something in the database.
    #[error(
        "the database has {sites} sites, {policies} policies, {clients} clients and {macs} listed addresses\n\
         hint: seed a database of its own; `--replace` deletes everything in this one first"
    )]
    Occupied {
        /// How many.
        sites: i64,
        /// How many.
        policies: i64,
        /// How many.
        clients: i64,
        /// How many.
        macs: i64,
    },
    /// The database failed, or refused.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<sqlx::Error> for SeedError {
    fn from(error: sqlx::Error) -> SeedError {
        SeedError::Store(error.into())
    }
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The policy set that was there is being deleted.
    Deleting,
    /// Rows.
    Rows {
        /// So far.
        written: u64,
        /// In all.
        total: u64,
    },
    /// All are written; what is left is the database's.
    Committing,
}

/// Rows between two words of progress.
const SLICE: usize = 8_192;

/// Writes the data set in one transaction: all of it or nothing. `progress` is told every few thousand rows.
pub async fn seed(
    store: &Store,
    nacs: &Nacs,
    options: Options,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Revision, SeedError> {
    let mut transaction = store.write().await?;
    match options.replace {
        true => progress(Progress::Deleting),
        false => refuse_occupied(&mut transaction).await?,
    }
    // In an empty database these are rows that belong to nothing: new sites and policies could get their keys.
    delete_everything(&mut transaction).await?;
    let mut seeding = Seeding {
        transaction,
        nacs,
        written: 0,
        progress,
    };
    seeding.write().await?;
    let Seeding {
        mut transaction,
        progress,
        ..
    } = seeding;
    progress(Progress::Committing);
    let revision = changes::revision(&mut transaction).await?;
    transaction.commit().await?;
    Ok(revision)
}

async fn refuse_occupied(transaction: &mut Transaction) -> Result<(), SeedError> {
    let mut count = async |sql| query_scalar(sql).fetch_one::<i64>(transaction).await;
    let sites = count("SELECT count(*) FROM sites").await?;
    let policies = count("SELECT count(*) FROM policies").await?;
    let clients = count("SELECT count(*) FROM clients").await?;
    let macs = count("SELECT count(*) FROM mac_authentication_bypasses").await?;
    match (sites, policies, clients, macs) {
        (0, 0, 0, 0) => Ok(()),
        _ => Err(SeedError::Occupied {
            sites,
            policies,
            clients,
            macs,
        }),
    }
}

/// Links go first: a policy that is in use cannot be deleted.
async fn delete_everything(transaction: &mut Transaction) -> Result<(), SeedError> {
    for sql in [
        "DELETE FROM site_policies",
        "DELETE FROM responses",
        "DELETE FROM rules",
        "DELETE FROM mac_authentication_bypasses",
        "DELETE FROM clients",
        "DELETE FROM sites",
        "DELETE FROM policies",
    ] {
        query(sql).execute(transaction).await?;
    }
    Ok(())
}

struct Seeding<'a> {
    transaction: Transaction,
    nacs: &'a Nacs,
    written: u64,
    progress: &'a mut (dyn FnMut(Progress) + Send),
}

impl Seeding<'_> {
    /// Table by table.
    async fn write(&mut self) -> Result<(), SeedError> {
        let nacs = *self.nacs;
        let counts = nacs.counts();
        let shared = (0..counts.policies).map(|policy| (nacs.policy_name(policy), nacs.policy(policy)));
        let shared = self.policies(shared).await?;
        let fallbacks = (0..counts.sites).map(|site| (nacs.fallback_name(site), nacs.fallback(site)));
        let fallbacks = self.policies(fallbacks).await?;
        let sites = self.sites().await?;

        let links = (0..)
            .zip(sites.iter().zip(&fallbacks))
            .flat_map(|(at, (site, fallback))| {
                let ids = nacs.policies_of(at).filter_map(|policy| shared.get(policy as usize));
                let ordered = (1..).zip(ids).map(|(place, policy)| (*site, *policy, Some(place * 10)));
                ordered.chain([(*site, *fallback, None)])
            });
        self.slices(links, bulk::insert_links).await?;

        let client = dataset::client();
        let clients = (0..).zip(&sites).flat_map(|(at, site)| {
            let addresses = nacs.clients_of(at);
            addresses.map(|address| (*site, dataset::client_key(address), &client))
        });
        self.slices(clients, bulk::insert_clients).await?;

        let mac = Mac::default();
        let macs = (0..)
            .zip(&sites)
            .flat_map(|(at, site)| nacs.macs_of(at).map(|address| (*site, address, &mac)));
        self.slices(macs, bulk::insert_macs).await
    }

    /// All rows, and word of them slice by slice.
    async fn slices<R>(
        &mut self,
        rows: impl Iterator<Item = R>,
        write: impl AsyncFn(&mut Transaction, Vec<R>) -> sqlx::Result<()>,
    ) -> Result<(), SeedError> {
        let mut rows = rows.fuse();
        loop {
            let slice: Vec<_> = rows.by_ref().take(SLICE).collect();
            if slice.is_empty() {
                return Ok(());
            }
            let count = slice.len();
            write(&mut self.transaction, slice).await?;
            self.wrote(count);
        }
    }

    /// Their keys in the same order.
    async fn policies(&mut self, policies: impl Iterator<Item = (String, Policy)>) -> Result<Vec<i64>, SeedError> {
        let mut policies = policies.fuse();
        let mut keys = Vec::new();
        loop {
            let slice: Vec<_> = policies.by_ref().take(SLICE / 8).collect();
            if slice.is_empty() {
                return Ok(keys);
            }
            let rows: Vec<_> = slice.iter().map(|(name, policy)| (name.as_str(), policy)).collect();
            let ids = bulk::insert_policies(&mut self.transaction, &rows).await?;
            keys.extend(rows.iter().filter_map(|(name, _)| ids.get(*name).copied()));
            self.wrote(
                rows.iter()
                    .map(|(_, policy)| 1 + policy.rules.len() + policy.responses.len())
                    .sum(),
            );
        }
    }

    /// Their keys in the same order.
    async fn sites(&mut self) -> Result<Vec<i64>, SeedError> {
        let mut keys = Vec::new();
        let mut sites = (0..self.nacs.counts().sites).map(|site| (self.nacs.tag(site), self.nacs.site_name(site)));
        loop {
            let slice: Vec<_> = sites.by_ref().take(SLICE / 8).collect();
            if slice.is_empty() {
                return Ok(keys);
            }
            let rows: Vec<_> = slice
                .iter()
                .map(|(tag, name)| (tag.as_str(), name.as_str(), None))
                .collect();
            let ids = bulk::insert_sites(&mut self.transaction, &rows).await?;
            keys.extend(rows.iter().filter_map(|(tag, ..)| ids.get(*tag).copied()));
            self.wrote(rows.len());
        }
    }

    fn wrote(&mut self, rows: usize) {
        self.written += rows as u64;
        (self.progress)(Progress::Rows {
            written: self.written,
            total: self.nacs.rows(),
        });
    }
}
