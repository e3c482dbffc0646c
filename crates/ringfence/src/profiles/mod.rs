//! Profiles: what ecosystems of tools need beyond a preset, built in or from the configuration.
//!
//! A host cache is never mounted writable, since what a box writes there would later run outside it. An
//! overlay shows the host's cache below and a layer private to the workspace above. Never is one laid over
//! configuration, `bin` or start-up scripts.

mod builtin;
mod detect;
mod merge;

use std::convert::Infallible;
use std::str::FromStr;

pub use builtin::{BUILTIN, Base, Builtin, BuiltinCache, Place};
pub use detect::detect;
pub(crate) use merge::select;

/// One `--profile`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProfileChoice {
    /// The built-in ones whose files lie in the workspace.
    Auto,
    /// None, whatever else is named.
    None,
    /// A built-in one or one of the configuration.
    Named(String),
}

impl FromStr for ProfileChoice {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text {
            "auto" => Self::Auto,
            "none" => Self::None,
            name => Self::Named(name.to_owned()),
        })
    }
}
