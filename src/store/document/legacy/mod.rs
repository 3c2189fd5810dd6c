//! The policy set of the system that users come from: a Rails application over MySQL that feeds FreeRADIUS, whose tables have
//! the names of ours.
//!
//! Read top-down: a file is a dump ([`mysql`], over [`scanner`]) or a table ([`csv`]); both give rows of values ([`row`]), which
//! are read by column ([`table`]) into what they mean ([`rows`]) and kept with their places ([`collect`]). When all files are
//! read, [`assemble`] puts the rows together, sites' policies in the older system's [`order`], and [`merge`] puts the result
//! over the set that the database has. Nothing is taken in silence: what cannot be is an error with its file and line, and
//! what is not as it was there is a note.

mod assemble;
mod collect;
mod csv;
mod merge;
mod mysql;
mod order;
mod row;
mod rows;
mod scanner;
mod table;
mod tag;

use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

pub(super) use assemble::Older;
use collect::Collected;

use super::build::Problem;
use crate::radius::dictionary::Dictionary;

/// Octets that are read at once.
const BUFFER: usize = 256 << 10;

/// A file of the older system.
#[derive(Clone, Debug)]
pub struct OlderFile {
    path: PathBuf,
    format: Format,
}

#[derive(Clone, Debug)]
enum Format {
    /// Of a database.
    Dump,
    /// Of the table of this name.
    Csv(String),
}

impl OlderFile {
    /// A file by its name: `*.sql` is a dump, `sites.csv` the table `sites`. None: it is neither.
    pub fn at(path: &Path) -> Option<OlderFile> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        let format = match extension.as_str() {
            "sql" => Format::Dump,
            "csv" => Format::Csv(path.file_stem()?.to_string_lossy().to_ascii_lowercase()),
            _ => return None,
        };
        Some(OlderFile {
            path: path.to_path_buf(),
            format,
        })
    }
}

/// Why files of the older system cannot be taken.
pub(super) enum Refusal {
    /// A file cannot be opened.
    Unreadable(PathBuf, io::Error),
    /// All that is wrong.
    Problems(Vec<Problem>),
}

/// Reads files, which are one set together.
pub(super) fn read(dictionary: &Dictionary, files: &[OlderFile]) -> Result<Older, Refusal> {
    let mut rows = Collected::default();
    for file in files {
        let opened = File::open(&file.path).map_err(|error| Refusal::Unreadable(file.path.clone(), error))?;
        let name = file.path.display().to_string();
        let input = BufReader::with_capacity(BUFFER, opened);
        match &file.format {
            Format::Dump => rows.dump(&name, input),
            Format::Csv(table) => rows.csv(&name, table, input),
        }
    }
    for table in rows.missing() {
        let what = format!(
            "no file has the table `{}`\nhint: give all tables of the older system, those without rows as well",
            table.name()
        );
        rows.problems.of_file(1, what);
    }
    assemble::assemble(dictionary, rows).map_err(Refusal::Problems)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    const TABLES: &str = "CREATE TABLE sites (id int, name text, tag text);
        CREATE TABLE clients (id int, site_id int, ip_range text, shared_secret text);
        CREATE TABLE policies (id int, name text, fallback int);
        CREATE TABLE site_policies (id int, site_id int, policy_id int, priority int);
        CREATE TABLE rules (policy_id int, request_attribute text, operator text, value text);
        CREATE TABLE responses (policy_id int, mac_authentication_bypass_id int, response_attribute text, value text);
        CREATE TABLE mac_authentication_bypasses (id int, site_id int, address text);";

    #[derive(Clone, Copy, Debug)]
    struct Link {
        id: i64,
        site: i64,
        policy: i64,
        priority: Option<i64>,
    }

    /// What the older system would try for a site, in its order, and the site's fallback.
    fn tried(links: &[Link], fallbacks: &[bool], site: i64) -> (Vec<String>, Option<String>) {
        let mut links: Vec<&Link> = links.iter().filter(|link| link.site == site).collect();
        // ORDER BY priority, id
        links.sort_by_key(|link| (link.priority.is_some(), link.priority, link.id));
        let is_fallback = |link: &&Link| fallbacks[usize::try_from(link.policy).unwrap()];
        let name = |link: &Link| format!("p{}", link.policy);
        let (fallback, others): (Vec<&Link>, Vec<&Link>) = links.into_iter().partition(is_fallback);
        (
            others.into_iter().map(name).collect(),
            fallback.into_iter().map(name).next(),
        )
    }

    /// Whether all that links say can be.
    fn is_sound(links: &[Link], fallbacks: &[bool], sites: i64) -> bool {
        let mut pairs = BTreeSet::new();
        let mut fallback_of = BTreeMap::new();
        links.iter().all(|link| {
            let fallback = usize::try_from(link.policy)
                .ok()
                .and_then(|policy| fallbacks.get(policy));
            let is_second = fallback == Some(&true) && fallback_of.insert(link.site, link.policy).is_some();
            link.site < sites && fallback.is_some() && pairs.insert((link.site, link.policy)) && !is_second
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        /// A slow and obvious reading of the rows says the same, in whatever order they are.
        #[test]
        fn sites_try_the_same_policies_in_the_same_order(
            sites in 1_i64..4,
            fallbacks in prop::collection::vec(any::<bool>(), 1..5),
            links in prop::collection::vec((0_i64..4, 0_i64..5, prop::option::of(-1_i64..2)), 0..8),
            ids in Just((1_i64..9).collect::<Vec<_>>()).prop_shuffle(),
        ) {
            let links: Vec<Link> = links
                .into_iter()
                .zip(ids)
                .map(|((site, policy, priority), id)| Link { id, site, policy, priority })
                .collect();
            let mut text = TABLES.to_owned();
            for (policy, fallback) in fallbacks.iter().enumerate() {
                text += &format!("INSERT INTO policies VALUES ({policy},'p{policy}',{});", u8::from(*fallback));
                text += &format!("INSERT INTO rules VALUES ({policy},'User-Name','equals','{policy}');");
            }
            for Link { id, site, policy, priority } in &links {
                let priority = priority.map_or_else(|| "NULL".to_owned(), |priority| priority.to_string());
                text += &format!("INSERT INTO site_policies VALUES ({id},{site},{policy},{priority});");
            }
            for site in 0..sites {
                text += &format!("INSERT INTO sites VALUES ({site},'Site {site}','s{site}');");
            }
            let mut rows = Collected::default();
            rows.dump("nac.sql", text.as_bytes());
            prop_assert!(rows.missing().is_empty());
            let older = assemble::assemble(Dictionary::builtin(), rows);
            prop_assert_eq!(older.is_ok(), is_sound(&links, &fallbacks, sites));
            if let Ok(older) = older {
                for site in 0..sites {
                    let found = &older.set.sites[&format!("s{site}")];
                    let order: Vec<String> = found.policies.values().cloned().collect();
                    prop_assert_eq!((order, found.fallback.clone()), tried(&links, &fallbacks, site));
                }
            }
        }
    }
}
