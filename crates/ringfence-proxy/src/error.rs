use std::io;

/// Why a run can't be served.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message says it")]
pub enum ProxyError {
    #[error("cannot use a listener's socket")]
    Listener(#[source] io::Error),
    #[error("cannot start the proxy's runtime")]
    Runtime(#[source] io::Error),
    #[error("cannot start the proxy's thread")]
    Thread(#[source] io::Error),
}
