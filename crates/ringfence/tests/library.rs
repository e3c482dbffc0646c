//! The library with the driver of this system, as a host uses it: real boxes, both of tokio's runtimes.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
#![cfg_attr(not(target_os = "linux"), allow(unused))]

#[cfg(target_os = "linux")]
mod boxed;

fn main() {
    ringfence::init();
    #[cfg(target_os = "linux")]
    boxed::run();
}
