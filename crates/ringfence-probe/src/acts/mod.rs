//! The acts, grouped by what they attack.

mod bench;
mod descriptors;
mod files;
mod filtered;
mod metadata;
mod namespaces;
mod process;
mod sockets;
mod state;
mod syscalls;
mod terminal;
mod wrappers;

use crate::args::{Args, Outcome};

/// One act by name.
pub(crate) struct Act {
    pub(crate) name: &'static str,
    pub(crate) usage: &'static str,
    pub(crate) run: fn(&Args) -> Outcome,
}

const GROUPS: &[&[Act]] = &[
    files::ACTS,
    metadata::ACTS,
    descriptors::ACTS,
    process::ACTS,
    namespaces::ACTS,
    syscalls::ACTS,
    filtered::ACTS,
    sockets::ACTS,
    state::ACTS,
    terminal::ACTS,
    wrappers::ACTS,
    bench::ACTS,
];

/// All acts.
pub(crate) fn all() -> impl Iterator<Item = &'static Act> {
    GROUPS.iter().copied().flatten()
}

/// The act of that name.
pub(crate) fn find(name: &str) -> Option<&'static Act> {
    all().find(|act| act.name == name)
}

/// A table row.
const fn act(name: &'static str, usage: &'static str, run: fn(&Args) -> Outcome) -> Act {
    Act { name, usage, run }
}
