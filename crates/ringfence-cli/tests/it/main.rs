//! Enforcement on a real kernel: the binary is driven as a person would, the probe acts inside the box.
//!
//! What a machine lacks is skipped with a printed reason; `RINGFENCE_MUST_HAVE` turns a skip into a failure.

#![allow(clippy::print_stdout, reason = "the length of the table and what is skipped must be seen")]

mod allowed;
mod bad_input;
mod caches;
mod cli;
mod commands;
mod deny;
mod deny_patterns;
mod devices;
mod escapes;
mod exit_codes;
#[cfg(feature = "fault-injection")]
mod faults;
mod foreign_session;
mod groundwork;
mod lifetime;
mod net;
mod places;
mod protected;
mod pty;
mod seccomp_rows;
mod streams;
mod support;
mod surroundings;
