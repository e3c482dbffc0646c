use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use tokio::runtime::Handle;

use crate::error::SandboxError;

/// Where the pipeline does what blocks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Execution {
    /// On tokio's blocking threads; on another executor in place.
    Runtime,
    /// On the calling thread.
    Here,
}

impl Execution {
    /// Runs `work`, which may block.
    ///
    /// # Errors
    /// [`SandboxError::Io`] if its thread ended early.
    pub(super) async fn blocking<T: Send + 'static>(
        self,
        action: &'static str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, SandboxError> {
        match Handle::try_current() {
            Ok(runtime) if self == Self::Runtime => {
                let done = runtime.spawn_blocking(work).await;
                done.map_err(|error| SandboxError::Io { action, source: io::Error::other(error) })
            }
            _ => Ok(work()),
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Drives a future on the calling thread, which sleeps while the future waits.
pub(super) fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            // A wake-up in between makes this return at once (std::thread::park).
            Poll::Pending => thread::park(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_future_that_waits_for_another_thread_is_woken() {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let other = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            sender.send(7).unwrap();
        });
        assert_eq!(block_on(receiver).unwrap(), 7);
        other.join().unwrap();
    }
}
