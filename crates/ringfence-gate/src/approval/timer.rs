use std::io;
use std::pin::pin;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::oneshot;

/// Waits for `future`, at most for `limit`; `None` if it wasn't ready by then.
///
/// The time is kept by a thread, so that it runs out on any executor. It costs one only while a person is asked.
///
/// # Errors
/// The system's answer if there can be no such thread.
pub(super) async fn within<F: Future>(limit: Duration, future: F) -> io::Result<Option<F::Output>> {
    let (over, mut is_over) = oneshot::channel();
    // Dropping this end wakes the thread before its time.
    let (_waiting, done) = mpsc::channel::<()>();
    std::thread::Builder::new().name(String::from("ringfence-timer")).spawn(move || {
        if done.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            // Nobody listens any more if the future was ready or dropped at this moment.
            let _ = over.send(());
        }
    })?;
    let mut future = pin!(future);
    Ok(std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => std::pin::Pin::new(&mut is_over).poll(cx).map(|_| None),
    })
    .await)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whichever_is_first() {
        let long = Duration::from_secs(3600);
        assert_eq!(within(long, async { 1 }).await.unwrap(), Some(1));
        let never = std::future::pending::<u32>();
        assert_eq!(within(Duration::from_millis(5), never).await.unwrap(), None);
    }
}
