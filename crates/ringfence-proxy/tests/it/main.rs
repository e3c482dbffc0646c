//! The proxy between clients and servers on the loopback. Every refusal is shown beside a control that passes.

#![allow(clippy::unwrap_used, reason = "a test says what it expects by failing")]
#![allow(clippy::print_stderr, reason = "a test that is left out says why")]

mod admission;
mod asking;
mod handed_over;
mod lifetime;
mod messages;
mod plain;
mod redirected;
mod server_name;
mod spellings;
mod support;
mod transparent;
mod tunnels;
mod upstream;
