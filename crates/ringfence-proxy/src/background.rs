use std::io;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use tokio::runtime::Builder;
use tokio::sync::oneshot;

use crate::error::ProxyError;
use crate::server::{Proxy, Run};

/// A run that is served by a thread and runtime of its own, for hosts without one. Dropping it ends every connection
/// and waits for the thread.
#[must_use = "the run ends when this is dropped"]
#[derive(Debug)]
pub struct Background {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Serves a run's listeners; when this returns they are being served. Should one of them fail, the run ends. `life`
    /// is dropped when it has ended, for whatever reason.
    ///
    /// # Errors
    /// A socket, thread or runtime that can't be used.
    pub fn start(proxy: Proxy, run: Run, life: impl Send + 'static) -> Result<Self, ProxyError> {
        let (stop, stopped) = oneshot::channel();
        let (report, started) = mpsc::channel();
        let runtime = Builder::new_current_thread().enable_all().build().map_err(ProxyError::Runtime)?;
        let serve = move || {
            // However this thread ends, a panic included, its end is told.
            let _life = life;
            runtime.block_on(async {
                match proxy.start(run) {
                    Ok(mut handle) => {
                        let _ = report.send(Ok(()));
                        tokio::select! {
                            // A dropped sender means the same as a message.
                            _ = stopped => {}
                            () = handle.failed() => {}
                        }
                        handle.stop().await;
                    }
                    Err(error) => {
                        let _ = report.send(Err(error));
                    }
                }
            });
            // A look-up that nobody waits for any more must not hold the thread.
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new()
            .name("ringfence-proxy".to_owned())
            .spawn(serve)
            .map_err(ProxyError::Thread)?;
        let background = Self { stop: Some(stop), thread: Some(thread) };
        match started.recv() {
            Ok(result) => result.map(|()| background),
            Err(error) => Err(ProxyError::Thread(io::Error::other(error))),
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It has told whatever it had to tell.
            let _ = thread.join();
        }
    }
}
