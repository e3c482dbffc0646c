use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OnceCell;

/// Lets concurrent callers with the same key share one answer. If whoever asks gives up, another of those who
/// wait asks in its place.
#[derive(Debug)]
pub(super) struct Flights<K, V> {
    in_flight: Mutex<HashMap<K, Arc<OnceCell<V>>>>,
}

impl<K, V> Default for Flights<K, V> {
    fn default() -> Self {
        Self { in_flight: Mutex::default() }
    }
}

/// A caller's part in a flight. The last to leave, or the first after the answer, takes it off the map.
struct Member<'a, K: Eq + Hash, V> {
    flights: &'a Flights<K, V>,
    key: &'a K,
    cell: Arc<OnceCell<V>>,
}

impl<K: Eq + Hash + Clone, V: Clone> Flights<K, V> {
    /// The answer, and whether this caller was the one who asked.
    pub(super) async fn share<F: Future<Output = V>>(&self, key: &K, ask: impl FnOnce() -> F) -> (V, bool) {
        let cell = {
            let mut in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(in_flight.entry(key.clone()).or_default())
        };
        let member = Member { flights: self, key, cell };
        let mut asked = false;
        let answer = member.cell.get_or_init(|| {
            asked = true;
            ask()
        });
        let answer = answer.await.clone();
        (answer, asked)
    }
}

impl<K: Eq + Hash, V> Drop for Member<'_, K, V> {
    fn drop(&mut self) {
        let mut in_flight = self.flights.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        // New members come in under the lock, so this count is exact: the map's and ours.
        let alone = Arc::strong_count(&self.cell) == 2;
        let ours = in_flight.get(self.key).is_some_and(|cell| Arc::ptr_eq(cell, &self.cell));
        if ours && (alone || self.cell.initialized()) {
            in_flight.remove(self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn equal_keys_share_one_answer_and_leave_nothing() {
        let flights = Flights::<&str, u32>::default();
        let (asked, answer) = (AtomicU32::new(0), Notify::new());
        let ask = || async {
            asked.fetch_add(1, Ordering::Relaxed);
            answer.notified().await;
            7
        };
        let (a, b, c, ()) = tokio::join!(
            flights.share(&"k", ask),
            flights.share(&"k", ask),
            flights.share(&"k", ask),
            async {
                tokio::task::yield_now().await;
                answer.notify_one();
            }
        );
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        assert_eq!([a, b, c].map(|(answer, _)| answer), [7, 7, 7]);
        assert_eq!([a, b, c].iter().filter(|(_, asked)| *asked).count(), 1);
        assert!(flights.in_flight.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn who_waits_asks_when_the_first_gives_up() {
        let flights = Flights::<&str, u32>::default();
        let forever = || std::future::pending::<u32>();
        {
            let mut first = Box::pin(flights.share(&"k", forever));
            assert!(futures_poll(first.as_mut()).await.is_none());
            let mut second = Box::pin(flights.share(&"k", || async { 1 }));
            assert!(futures_poll(second.as_mut()).await.is_none());
            drop(first);
            assert_eq!(second.await, (1, true));
        }
        drop(flights.share(&"k", forever));
        let mut abandoned = Box::pin(flights.share(&"k", forever));
        assert!(futures_poll(abandoned.as_mut()).await.is_none());
        drop(abandoned);
        assert!(flights.in_flight.lock().unwrap().is_empty());
    }

    /// Polls once.
    async fn futures_poll<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
        std::future::poll_fn(|cx| match std::pin::Pin::new(&mut future).poll(cx) {
            std::task::Poll::Ready(output) => std::task::Poll::Ready(Some(output)),
            std::task::Poll::Pending => std::task::Poll::Ready(None),
        })
        .await
    }
}
