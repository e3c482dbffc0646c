//! Plans for Linux: golden ones, and laws that hold for every one.

#![allow(clippy::unwrap_used, reason = "tests")]

mod fixture;
mod golden;
mod laws;
