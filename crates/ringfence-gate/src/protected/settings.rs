use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How much of a git directory is read-only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GitProtection {
    /// What git executes or obeys: hooks, configuration, attributes, redirections. Commits work.
    #[default]
    Executable,
    /// The whole directory: nothing that git writes works, and no absent name can appear.
    All,
}

/// What the box may not plant, and how long the search for it may take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// How much of each git directory is read-only.
    pub git: GitProtection,
    /// Names directly below a writable root that programs outside obey.
    pub names: Vec<PathBuf>,
    /// Time for the search of directories in milliseconds. What is known already is always looked at.
    pub search_ms: u64,
    /// Age in seconds up to which a complete look at a workspace counts: within it only the top directory and
    /// the known repositories are looked at again before a run. The look after each run is always complete.
    pub recheck_seconds: u64,
    /// Look at every directory before each run, however long it takes: `--require protected`.
    pub exhaustive: bool,
    /// Where git reads the user's own configuration.
    #[serde(skip, default = "UserGit::from_environment")]
    pub user: UserGit,
}

/// Names of files and directories that editors, agents and shells obey when they are found in a workspace.
const NAMES: [&str; 9] = [
    ".ringfence",
    ".ringfence.toml",
    ".codex",
    ".agents",
    ".claude",
    ".mcp.json",
    ".vscode",
    ".idea",
    ".envrc",
];

impl Default for Settings {
    fn default() -> Self {
        Self {
            git: GitProtection::Executable,
            names: NAMES.iter().map(PathBuf::from).collect(),
            search_ms: 25,
            recheck_seconds: 60,
            exhaustive: false,
            user: UserGit::from_environment(),
        }
    }
}

impl Settings {
    pub(super) fn budget(&self) -> Option<Duration> {
        (!self.exhaustive).then(|| Duration::from_millis(self.search_ms))
    }

    pub(super) fn recheck(&self) -> Duration {
        if self.exhaustive { Duration::ZERO } else { Duration::from_secs(self.recheck_seconds) }
    }
}

/// Where git reads the user's and the system's configuration (git-config(1), FILES and ENVIRONMENT).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserGit {
    /// Configuration files, whether or not they exist.
    pub files: Vec<PathBuf>,
    /// What `~/` in a path means.
    pub home: Option<PathBuf>,
}

impl UserGit {
    /// As git itself would find them in this process's environment.
    pub fn from_environment() -> Self {
        Self::from_variables(|name| std::env::var_os(name).filter(|value| !value.is_empty()))
    }

    fn from_variables(get: impl Fn(&str) -> Option<OsString>) -> Self {
        let path = |name: &str| get(name).map(PathBuf::from);
        let home = path("HOME");
        let mut files = vec![path("GIT_CONFIG_SYSTEM").unwrap_or_else(|| PathBuf::from("/etc/gitconfig"))];
        if let Some(global) = path("GIT_CONFIG_GLOBAL") {
            files.push(global);
        } else {
            let xdg = path("XDG_CONFIG_HOME").or_else(|| home.as_ref().map(|home| home.join(".config")));
            files.extend(xdg.map(|dir| dir.join("git/config")));
            files.extend(home.as_ref().map(|home| home.join(".gitconfig")));
        }
        files.retain(|file| file.is_absolute() && file.as_os_str() != OsStr::new("/dev/null"));
        Self { files, home }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(set: &[(&str, &str)]) -> UserGit {
        UserGit::from_variables(|name| {
            set.iter().find(|(key, _)| *key == name).map(|(_, v)| OsString::from(v))
        })
    }

    #[test]
    fn finds_the_files_that_git_reads() {
        let user = variables(&[("HOME", "/h")]);
        assert_eq!(
            user.files,
            ["/etc/gitconfig", "/h/.config/git/config", "/h/.gitconfig"].map(PathBuf::from)
        );
        let user = variables(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "/x"), ("GIT_CONFIG_SYSTEM", "/s")]);
        assert_eq!(user.files, ["/s", "/x/git/config", "/h/.gitconfig"].map(PathBuf::from));
        let user = variables(&[("HOME", "/h"), ("GIT_CONFIG_GLOBAL", "/dev/null")]);
        assert_eq!(user.files, ["/etc/gitconfig"].map(PathBuf::from));
        assert_eq!(variables(&[]).home, None);
    }

    #[test]
    fn a_name_is_never_a_path() {
        assert!(Settings::default().names.iter().all(|name| name.components().count() == 1));
    }
}
