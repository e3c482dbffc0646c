//! Placeholder until the search lands.
mod settings;
pub use settings::{GitProtection, Settings, UserGit};
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct WatchList {}
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct WatchEvent {}
#[derive(Debug, thiserror::Error)]
#[error("protected")]
#[allow(missing_docs)]
pub struct ProtectedError {}
#[derive(Debug)]
#[allow(missing_docs)]
pub struct Search {
    pub protected: ringfence_types::Protected,
    pub watch: WatchList,
}
#[allow(missing_docs)]
pub fn search(
    _: &Settings,
    _: &std::path::Path,
    _: &ringfence_types::ResolvedPolicy,
) -> Result<Search, ProtectedError> {
    Ok(Search { protected: Default::default(), watch: WatchList {} })
}
#[derive(Debug)]
#[allow(missing_docs)]
pub struct Watch {
    fd: std::os::fd::OwnedFd,
}
#[allow(missing_docs)]
impl Watch {
    pub fn new(_: &WatchList) -> std::io::Result<Option<Self>> {
        Ok(None)
    }
    pub fn fd(&self) -> std::os::fd::BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.fd)
    }
    pub fn drain(&mut self) -> Vec<WatchEvent> {
        Vec::new()
    }
}
#[allow(missing_docs)]
impl WatchEvent {
    pub fn lost_mount(&self) -> Option<&std::path::Path> {
        None
    }
}
