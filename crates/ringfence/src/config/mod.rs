//! Configuration: TOML files, read strictly, merged in a fixed order.
//!
//! 1. the defaults ([`SandboxConfig::new`]);
//! 2. `$RINGFENCE_HOME/config.toml`, or the file that the caller names instead;
//! 3. `.ringfence.toml` in the workspace, which may only tighten: it is part of what the box can be asked to
//!    work on, so it is read as hostile input.
//!
//! What the command line adds comes after that ([`crate::RunOptions`]). Every unknown key is an error that
//! names the nearest known one and the line; so is a key whose feature this version doesn't have.

mod default_text;
mod layers;
mod problem;
mod raw;
mod reader;
mod settings;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};

pub use default_text::commented_default;
pub use problem::{ConfigError, Problem, ProblemKind};
pub use ringfence_gate::protected::{GitProtection, Settings as ProtectedSettings};
pub use settings::{Profile, SandboxConfig};

use crate::bounded::{self, Follow, ReadError};
use crate::host::HostEnv;

/// Name of the user's file in [`SandboxConfig::home`].
pub const CONFIG_FILE: &str = "config.toml";

/// Name of a workspace's own file.
pub const WORKSPACE_FILE: &str = ".ringfence.toml";

const USER_LIMIT: u64 = 1 << 20;
const WORKSPACE_LIMIT: u64 = 64 << 10;

/// Where the configuration comes from.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    /// Environment of the caller.
    pub host: &'a HostEnv,
    /// Read instead of `$RINGFENCE_HOME/config.toml`; it must exist.
    pub file: Option<&'a Path>,
    /// Workspace whose own file is read.
    pub workspace: Option<&'a Path>,
}

/// A merged configuration and the files that took part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// The result.
    pub config: SandboxConfig,
    /// Files that existed, in the order in which they were applied.
    pub files: Vec<PathBuf>,
}

impl Sources<'_> {
    /// Reads and merges the files.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] lists every problem of the first file that has any; the other variants say why
    /// a file can't be read.
    pub fn load(&self) -> Result<Loaded, ConfigError> {
        let home = self.host.ringfence_home()?;
        let mut loaded = Loaded { config: SandboxConfig::new(&home), files: Vec::new() };
        let path = self.file.map_or_else(|| home.join(CONFIG_FILE), Path::to_path_buf);
        match read(&path, Follow::Yes, USER_LIMIT) {
            Ok(text) => {
                let raw = parse(&path, &text)?;
                layers::apply(&mut loaded.config, raw, self.host)
                    .map_err(|problems| invalid(&path, problems))?;
                loaded.files.push(path);
            }
            Err(error) if self.file.is_none() && absent(&error) => {}
            Err(error) => return Err(error),
        }
        if let Some(workspace) = self.workspace {
            let path = workspace.join(WORKSPACE_FILE);
            match read(&path, Follow::No, WORKSPACE_LIMIT) {
                Ok(text) => {
                    let raw = parse(&path, &text)?;
                    layers::tighten(&mut loaded.config, raw).map_err(|problems| invalid(&path, problems))?;
                    loaded.files.push(path);
                }
                Err(error) if absent(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(loaded)
    }
}

/// Checks one text by itself.
///
/// # Errors
/// Every problem found, in the order of the lines.
pub fn check(text: &str) -> Result<(), Vec<Problem>> {
    raw::parse(text).map(drop)
}

fn read(path: &Path, follow: Follow, limit: u64) -> Result<String, ConfigError> {
    let bytes = bounded::read(path, follow, limit).map_err(|error| match error {
        ReadError::Io(source) => ConfigError::Read { path: path.to_path_buf(), source },
        ReadError::NotRegular => ConfigError::NotRegular(path.to_path_buf()),
        ReadError::TooLarge => ConfigError::TooLarge { path: path.to_path_buf(), limit },
    })?;
    String::from_utf8(bytes).map_err(|_| ConfigError::NotUtf8(path.to_path_buf()))
}

fn parse(path: &Path, text: &str) -> Result<raw::RawConfig, ConfigError> {
    raw::parse(text).map_err(|problems| invalid(path, problems))
}

fn invalid(path: &Path, problems: Vec<Problem>) -> ConfigError {
    ConfigError::Invalid { path: path.to_path_buf(), problems }
}

fn absent(error: &ConfigError) -> bool {
    let kinds = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
    matches!(error, ConfigError::Read { source, .. } if kinds.contains(&source.kind()))
}
