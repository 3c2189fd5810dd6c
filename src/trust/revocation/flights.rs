//! Many who ask the same at once cause one question, and all get its answer.

use std::collections::HashMap;
use std::future::Future;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// Questions that are being asked.
#[derive(Debug)]
pub(super) struct Flights<K, V> {
    open: Mutex<HashMap<K, watch::Receiver<Option<V>>>>,
}

impl<K, V> Default for Flights<K, V> {
    fn default() -> Self {
        Flights { open: Mutex::default() }
    }
}

impl<K, V> Flights<K, V>
where
    K: Clone + Eq + Hash + Send + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// Waits for the answer to the question `key`; where nobody is asking it yet, `work` does. It goes on when whoever
    /// waits gives up. `None` if it broke down.
    pub(super) async fn join(self: &Arc<Self>, key: K, work: impl Future<Output = V> + Send + 'static) -> Option<V> {
        let mut answer = self.begin(key, work);
        let answer = answer.wait_for(Option::is_some).await.ok()?;
        answer.clone()
    }

    fn begin(self: &Arc<Self>, key: K, work: impl Future<Output = V> + Send + 'static) -> watch::Receiver<Option<V>> {
        let mut open = self.open();
        if let Some(asked) = open.get(&key).filter(|asked| asked.has_changed().is_ok()) {
            return asked.clone();
        }
        let (tell, answer) = watch::channel(None);
        open.insert(key.clone(), answer.clone());
        drop(open);
        let flights = Arc::clone(self);
        tokio::spawn(async move {
            let value = work.await;
            let _ = tell.send(Some(value)); // nobody waits any more
            flights.open().remove(&key);
        });
        answer
    }

    fn open(&self) -> MutexGuard<'_, HashMap<K, watch::Receiver<Option<V>>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn many_who_ask_at_once_ask_once() {
        let (flights, asked) = (Arc::new(Flights::default()), Arc::new(AtomicU32::new(0)));
        let mut waiting = tokio::task::JoinSet::new();
        for number in 0..100 {
            let (flights, asked) = (Arc::clone(&flights), Arc::clone(&asked));
            waiting.spawn(async move {
                let work = async move {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    asked.fetch_add(1, Ordering::Relaxed)
                };
                flights.join(number % 2, work).await
            });
        }
        let answers = waiting.join_all().await;
        assert_eq!(asked.load(Ordering::Relaxed), 2);
        assert!(answers.iter().all(Option::is_some));
        assert!(flights.open().is_empty());
        assert_eq!(flights.join(0, async { 7 }).await, Some(7), "and then anew");
    }

    #[tokio::test]
    async fn it_is_asked_again_after_it_broke_down_and_goes_on_when_a_waiter_leaves() {
        let flights: Arc<Flights<u8, u8>> = Arc::default();
        assert_eq!(flights.join(1, async { panic!("on purpose") }).await, None);
        assert_eq!(flights.join(1, async { 2 }).await, Some(2));
        let slow = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            3
        };
        let impatient = tokio::time::timeout(Duration::from_millis(5), flights.join(1, slow)).await;
        assert!(impatient.is_err());
        assert_eq!(flights.join(1, async { 4 }).await, Some(3));
    }
}
