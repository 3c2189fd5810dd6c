//! What devices remember of their sessions, to resume them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use portreeve::eap::peer::{PeerSettings, remembering};

/// Who comes after these remembers nothing: a memory has about a kilobyte, and a ticket in it another.
const MEMORIES_MAX: usize = 65_536;
/// Sessions in each: so many may be under way with one certificate at one source, and each resume one.
const SESSIONS: usize = 8;

/// A memory for each certificate at each source address: a server takes sessions up at the site where they were begun.
#[derive(Default)]
pub struct Memories(Mutex<HashMap<(usize, usize), Arc<PeerSettings>>>);

impl Memories {
    /// The settings of the certificate `at`, with what was remembered at `source`.
    pub fn of(&self, at: usize, source: usize, settings: &Arc<PeerSettings>) -> Arc<PeerSettings> {
        let mut memories = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if memories.len() >= MEMORIES_MAX && !memories.contains_key(&(at, source)) {
            return Arc::clone(settings);
        }
        let memory = memories.entry((at, source)).or_insert_with(|| {
            Arc::new(PeerSettings {
                tls: settings.tls.as_deref().map(|tls| remembering(tls, SESSIONS)),
                ..(**settings).clone()
            })
        });
        Arc::clone(memory)
    }
}
