//! Keeping the set on disk: written when it moved, confirmed while it did not, read when there is no database.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

use super::changes::{self, Changes};
use super::directory::Directory;
use super::load::{self, Memory, Reading};
use super::saved::Saved;
use super::{Revision, StoreError};
use crate::radius::dictionary::Dictionary;

/// How often a set that did not move is marked as confirmed. Its age on disk is wrong by as much.
const CONFIRM: Duration = Duration::from_secs(60);

/// Which state of the database is on disk, and which epochs were in force before it; none: nothing is there that can be read.
pub(super) async fn known(saved: &Saved) -> Option<(Revision, Vec<Arc<str>>)> {
    // Why it cannot be read is told when it is needed.
    let kept = saved.open(SystemTime::now()).await.ok()??;
    _ = kept.transaction.end().await;
    Some((kept.revision, kept.left))
}

/// Reads the set on disk; none: there is none. And how old it is.
pub(super) async fn read(
    saved: &Saved,
    memory: &mut Memory,
    dictionary: &Dictionary,
) -> Result<Option<(Reading, Duration)>, StoreError> {
    let Some(mut kept) = saved.open(SystemTime::now()).await? else {
        return Ok(None);
    };
    memory.key = Some(saved.key().clone());
    let reading = load::read(
        &mut kept.transaction,
        kept.revision,
        Changes::All,
        memory,
        &HashMap::new(),
        dictionary,
    )
    .await;
    memory.key = None;
    kept.transaction.end().await?;
    Ok(Some((reading?, kept.age)))
}

/// Keeps the set on disk, as long as there is a directory.
pub(super) async fn keep(directory: Weak<Directory>, saved: Saved, calm: Duration) {
    let mut kept: Option<Revision> = None;
    let mut confirmed: Option<Instant> = None;
    let mut told = None;
    let mut pause = calm;
    loop {
        tokio::time::sleep(pause).await;
        pause = calm;
        let Some(directory) = directory.upgrade() else { return };
        // What no database confirms is on disk already, or is not worth it.
        if directory.age().is_none_or(|age| age > CONFIRM) {
            continue;
        }
        let result = match &kept {
            Some(kept) if *kept == directory.snapshot().revision => {
                match confirmed.is_some_and(|at| at.elapsed() < CONFIRM) {
                    true => continue,
                    false => saved.confirm(now(&directory)).await.map(|()| kept.clone()),
                }
            }
            _ => {
                let began = Instant::now();
                let result = write(&directory, &saved).await;
                // A large set that moves all the time takes a twentieth of a processor at most, and is on disk as much later
                // (docs/configuration.md says so).
                pause = calm.max(20 * began.elapsed());
                result
            }
        };
        match result {
            Ok(revision) => {
                kept = Some(revision);
                confirmed = Some(Instant::now());
                told = None;
            }
            Err(error) => {
                // Once for each kind of failure.
                let text = error.to_string();
                if told.as_ref() != Some(&text) {
                    tracing::error!("the policies are not kept on disk: {text}");
                    told = Some(text);
                }
                kept = None;
            }
        }
    }
}

async fn write(directory: &Directory, saved: &Saved) -> Result<Revision, StoreError> {
    let mut transaction = directory.store().read().await?;
    let in_force = directory.snapshot().revision.clone();
    // A set that is held back is not what a start should find.
    if changes::revision(&mut transaction).await? != in_force {
        transaction.end().await?;
        return Ok(Revision::none());
    }
    let left = directory.left().await;
    let revision = saved.write(&mut transaction, now(directory), &left).await?;
    transaction.end().await?;
    tracing::debug!(%revision, "the policies are kept on disk");
    Ok(revision)
}

/// When the database last confirmed the set, by the machine's clock.
fn now(directory: &Directory) -> SystemTime {
    let now = SystemTime::now();
    now.checked_sub(directory.age().unwrap_or_default()).unwrap_or(now)
}
