//! Clients that speak HTTP/1: tunnels by CONNECT, and plain requests with an absolute URL.

pub(crate) mod authority;
pub(crate) mod forward;
pub(crate) mod head;
pub(crate) mod reply;
