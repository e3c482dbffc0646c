use std::time::Duration;

#[cfg(unix)]
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Open files beside those of the connections: listeners, look-ups, pipes of bulk transfers.
#[cfg(unix)]
const OTHER_FILES: u64 = 256;

/// Bounds of what clients of one run may cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a request's head.
    pub head: usize,
    /// From the connection to the complete request.
    pub handshake: Duration,
    /// For a look-up, and again for connecting.
    pub dial: Duration,
    /// Without a byte in either direction.
    pub idle: Duration,
    /// For somebody to answer a question.
    pub ask: Duration,
    /// Connections at one time; further ones wait in the listeners' backlogs. One whose receiver does not read holds
    /// up to 16 KiB for each direction.
    pub connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head: 16 * 1024,
            handshake: Duration::from_secs(10),
            dial: Duration::from_secs(10),
            idle: Duration::from_secs(30 * 60),
            ask: Duration::from_secs(5 * 60),
            connections: 4096,
        }
    }
}

#[cfg(unix)]
impl Limits {
    /// Raises the process's own limit of open files (setrlimit(2), `RLIMIT_NOFILE`) to what so many connections need.
    /// Where that is not to be had, `connections` becomes what the limit is enough for; it gives the limit then.
    pub fn fit_open_files(&mut self) -> Option<u64> {
        let needed =
            u64::try_from(self.connections).unwrap_or(u64::MAX).saturating_mul(2).saturating_add(OTHER_FILES);
        let Rlimit { current: Some(current), maximum } = getrlimit(Resource::Nofile) else { return None };
        if current >= needed {
            return None;
        }
        let wanted = maximum.map_or(needed, |maximum| maximum.min(needed));
        let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
        let limit = if raised.is_ok() { wanted.max(current) } else { current };
        self.connections = self.connections.min(enough_for(limit));
        (limit < needed).then_some(limit)
    }
}

/// Connections that so many open files are enough for: a tunnel has two.
#[cfg(unix)]
fn enough_for(files: u64) -> usize {
    let connections = (files.saturating_sub(OTHER_FILES) / 2).max(files / 4).max(1);
    usize::try_from(connections).unwrap_or(usize::MAX)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn connections_fit_the_open_files() {
        assert_eq!(enough_for(20_256), 10_000);
        assert_eq!(enough_for(300), 75);
        assert_eq!(enough_for(1), 1);
        let mut limits = Limits { connections: 1, ..Limits::default() };
        assert_eq!((limits.fit_open_files(), limits.connections), (None, 1));
        let mut limits = Limits { connections: usize::MAX, ..Limits::default() };
        let limit = limits.fit_open_files().unwrap();
        assert_eq!(limits.connections, enough_for(limit));
    }
}
