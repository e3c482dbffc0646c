//! Names to addresses.

use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::Semaphore;

/// Looks names up.
#[async_trait]
pub trait Resolve: Send + Sync {
    /// The addresses of a name in the order in which they should be tried.
    ///
    /// # Errors
    /// Those of the look-up; an empty list is none.
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// Look-ups at one time; each occupies a thread.
const LOOKUPS: usize = 32;

/// The host's own resolver: getaddrinfo(3), with its hosts file and order of addresses.
#[derive(Debug)]
pub struct SystemResolver {
    lookups: Arc<Semaphore>,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self { lookups: Arc::new(Semaphore::new(LOOKUPS)) }
    }
}

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let permit = Arc::clone(&self.lookups).acquire_owned().await.map_err(io::Error::other)?;
        let name = name.to_owned();
        // A look-up can't be cancelled: its place is free when it is over, not when nobody waits for it any more.
        let look_up = move || {
            let _permit = permit;
            Ok((name.as_str(), 0).to_socket_addrs()?.map(|address| address.ip()).collect())
        };
        tokio::task::spawn_blocking(look_up).await.map_err(io::Error::other)?
    }
}
