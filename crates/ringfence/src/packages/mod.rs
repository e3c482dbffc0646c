//! Package hosts: where the tools of a profile fetch packages from, by their own configuration on this machine.
//!
//! The tools' files are read the way the tools read them; no tool is run. What no file configures is the tool's
//! built-in default, which is read from the installed tool. Files that a command may have written, those of the
//! workspace above all, grant nothing: what they name is [`Packages::wanted`].

mod cargo;
mod go;
mod ini;
mod literal;
mod maven;
mod npm;
mod pip;
mod survey;
mod url;

#[cfg(test)]
mod tests;

use std::fmt;
use std::path::{Path, PathBuf};

use ringfence_types::{EnvVar, HostPattern, UnixPath};
use serde::Serialize;

use crate::host::HostEnv;
use survey::Survey;

/// What is known of the package hosts of the profiles that were named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Packages {
    /// Named by the user's configuration, the machine's or the tools' own defaults: the box may reach them, at
    /// whatever addresses they have.
    pub granted: Vec<PackageHost>,
    /// Named by files that a command may have written. They are not granted.
    pub wanted: Vec<PackageHost>,
    /// What is not known or not followed, one line each.
    pub gaps: Vec<String>,
    /// Variables that tell the tools inside what they could not read there.
    #[serde(skip)]
    pub env: Vec<EnvVar>,
}

/// A host of packages and who named it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PackageHost {
    /// The tool that asks it.
    pub tool: &'static str,
    /// The host.
    #[serde(flatten)]
    pub target: Target,
    /// Where it is named.
    pub source: Source,
}

/// What a tool connects to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// A host and port.
    Host(HostPattern),
    /// A port of this machine's loopback.
    LoopbackPort(u16),
}

/// Where a package host is named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A variable of the environment.
    Variable(String),
    /// A configuration file.
    File(UnixPath),
    /// A file of the tool itself, which holds its default.
    Default(UnixPath),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(host) => host.fmt(f),
            Self::LoopbackPort(port) => write!(f, "port {port} of this machine"),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => write!(f, "variable {name}"),
            Self::File(path) => path.fmt(f),
            Self::Default(path) => write!(f, "default in {path}"),
        }
    }
}

impl Target {
    /// The option that would allow it.
    pub fn allow_with(&self) -> String {
        match self {
            Self::Host(host) => format!("--allow-host {host}"),
            Self::LoopbackPort(port) => format!("--allow-loopback {port}"),
        }
    }
}

impl Packages {
    /// The granted hosts.
    pub fn hosts(&self) -> impl Iterator<Item = &HostPattern> {
        self.granted.iter().filter_map(|named| match &named.target {
            Target::Host(host) => Some(host),
            Target::LoopbackPort(_) => None,
        })
    }

    /// The granted ports of this machine's loopback.
    pub fn loopback_ports(&self) -> impl Iterator<Item = u16> {
        self.granted.iter().filter_map(|named| match named.target {
            Target::Host(_) => None,
            Target::LoopbackPort(port) => Some(port),
        })
    }

    /// Forgets what is wanted and allowed anyway. `public` says whether every public address may be reached.
    pub(crate) fn settle(&mut self, public: bool, hosts: &[HostPattern], ports: &[u16]) {
        self.wanted.retain(|wanted| match &wanted.target {
            Target::Host(host) if public && host.network().is_none() => false,
            Target::Host(host) => !hosts.iter().any(|known| known.covers(host)),
            Target::LoopbackPort(port) => !ports.contains(port),
        });
    }
}

/// Where a command runs, as far as it matters for what can be believed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site<'a> {
    /// The jail root.
    pub(crate) workspace: &'a Path,
    /// Further places that a command may write.
    pub(crate) writable: &'a [PathBuf],
    /// Files that a command can't read.
    pub(crate) hidden: &'a [PathBuf],
}

/// Looks for the package hosts of built-in profiles.
pub(crate) fn find(host: &HostEnv, site: Site<'_>, profiles: &[&str]) -> Packages {
    let mut survey = Survey::new(host, site);
    for profile in profiles {
        match *profile {
            "node" => npm::read(&mut survey),
            "python" => pip::read(&mut survey),
            "rust" => cargo::read(&mut survey),
            "go" => go::read(&mut survey),
            "java" => maven::read(&mut survey),
            _ => {}
        }
    }
    survey.finish()
}
