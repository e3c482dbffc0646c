//! One reader for each language. Each goes through a text once and hands over its commands as they end.

mod ansi;
mod builder;
mod class;
mod closing;
pub(super) mod cmd;
pub(super) mod expand;
pub(super) mod foreign;
mod heredoc;
pub(super) mod posix;
pub(super) mod powershell;
mod windows;
mod windows_env;
