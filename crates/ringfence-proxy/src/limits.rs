use std::time::Duration;

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
