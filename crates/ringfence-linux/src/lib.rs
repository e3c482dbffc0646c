//! Stage 5 on Linux: starts the command in a box and supervises it.
//!
//! - `launcher`: the steps that make the box, in a process of their own.
//! - `egress`: the proxy that serves what the box may reach.
//! - `publish`: ports of the host that lead into the box.
//! - `running`: a started box, and how it ends.
//! - `supervise`: relays its streams, enforces limits in time, reports how it ended.
//! - `io`: the standard streams.
//! - `facts`: what the plan has to know of this host.
//! - `sys`: system calls without a safe wrapper elsewhere.

#![cfg(target_os = "linux")]
#![deny(unsafe_code)]

mod covers;
mod desk;
mod driver;
mod egress;
mod facts;
mod failure;
mod hints;
mod io;
mod launcher;
mod publish;
mod running;
mod supervise;
#[allow(unsafe_code, reason = "system calls without a safe wrapper elsewhere")]
mod sys;

pub use driver::{LinuxDriver, LocalBox};
pub use launcher::init;
pub use sys::{ignore_file_size_signal, stdout_was_closed};
