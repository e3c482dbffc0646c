use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::bounded::{self, Follow};
use crate::config::ConfigError;

/// Bytes of a password file; a longer one is not used.
const MAX_PASSWD: u64 = 16 << 20;

/// What the library reads from its process: the environment and the user id. Tests pass their own.
#[derive(Clone, Debug)]
pub struct HostEnv {
    vars: Vec<(OsString, OsString)>,
    uid: u32,
    passwd: PathBuf,
}

impl HostEnv {
    /// The calling process'.
    pub fn current() -> Self {
        Self {
            vars: std::env::vars_os().collect(),
            uid: rustix::process::geteuid().as_raw(),
            passwd: PathBuf::from("/etc/passwd"),
        }
    }

    /// An environment of the caller's making. `passwd` is the password file searched where `HOME` is not set.
    pub fn new(vars: Vec<(OsString, OsString)>, uid: u32, passwd: PathBuf) -> Self {
        Self { vars, uid, passwd }
    }

    /// The value of a variable; an empty one counts as not set.
    pub fn var(&self, name: &str) -> Option<&OsStr> {
        let found = self.vars.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_os_str()).filter(|value| !value.is_empty())
    }

    /// The value of a variable, empty or not.
    pub fn var_os(&self, name: &OsStr) -> Option<&OsStr> {
        self.vars.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_os_str())
    }

    /// All variables.
    pub(crate) fn vars(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.vars.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }

    /// A variable that holds an absolute path.
    pub fn path_var(&self, name: &str) -> Option<&Path> {
        self.var(name).map(Path::new).filter(|path| path.is_absolute())
    }

    /// Effective user id.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// The user's home directory: `HOME` if it is an absolute path, else that of the password file.
    pub fn home(&self) -> Option<PathBuf> {
        self.path_var("HOME").map(Path::to_path_buf).or_else(|| self.listed_home())
    }

    /// [`Self::home`], and the password file's if it is another: where `HOME` leads elsewhere, what the user keeps
    /// is still there.
    pub fn homes(&self) -> Vec<PathBuf> {
        let mut homes: Vec<PathBuf> =
            self.path_var("HOME").map(Path::to_path_buf).into_iter().chain(self.listed_home()).collect();
        homes.dedup();
        homes
    }

    /// The home directory of the effective user id in the password file (passwd(5)). Other sources of accounts are
    /// not asked: they could be a network away.
    fn listed_home(&self) -> Option<PathBuf> {
        let passwd = bounded::read(&self.passwd, Follow::Yes, MAX_PASSWD).ok()?;
        let uid = self.uid.to_string();
        let home = passwd.split(|&byte| byte == b'\n').find_map(|line| {
            let fields: Vec<&[u8]> = line.split(|&byte| byte == b':').collect();
            (fields.len() >= 7 && fields[2] == uid.as_bytes()).then(|| fields[5].to_vec())
        })?;
        let home = PathBuf::from(OsString::from_vec(home));
        home.is_absolute().then_some(home)
    }

    /// Where Ringfence keeps its configuration and state: `RINGFENCE_HOME`, else `~/.ringfence`.
    ///
    /// # Errors
    /// [`ConfigError::RelativeHome`] if `RINGFENCE_HOME` is a relative path; [`ConfigError::NoHome`] if neither
    /// it nor a home directory is known.
    pub fn ringfence_home(&self) -> Result<PathBuf, ConfigError> {
        match self.var("RINGFENCE_HOME").map(Path::new) {
            Some(home) if home.is_absolute() => Ok(home.to_path_buf()),
            Some(home) => Err(ConfigError::RelativeHome(home.to_path_buf())),
            None => Ok(self.home().ok_or(ConfigError::NoHome)?.join(".ringfence")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(vars: &[(&str, &str)], passwd: &Path) -> HostEnv {
        let vars = vars.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect();
        HostEnv::new(vars, 1000, passwd.to_path_buf())
    }

    #[test]
    fn home_comes_from_the_password_file_if_the_variable_is_missing_or_relative() {
        let dir = tempfile::tempdir().unwrap();
        let passwd = dir.path().join("passwd");
        std::fs::write(
            &passwd,
            "root:x:0:0::/root:/bin/sh\nbad line\nuser:x:1000:1000:,,,:/home/user:/bin/sh\n",
        )
        .unwrap();
        assert_eq!(env(&[], &passwd).home(), Some(PathBuf::from("/home/user")));
        assert_eq!(env(&[("HOME", "relative")], &passwd).home(), Some(PathBuf::from("/home/user")));
        assert_eq!(env(&[("HOME", "/h")], &passwd).home(), Some(PathBuf::from("/h")));
        assert_eq!(env(&[], &dir.path().join("absent")).home(), None);
        let homes = |home: &[(&str, &str)]| env(home, &passwd).homes();
        assert_eq!(homes(&[("HOME", "/h")]), [Path::new("/h"), Path::new("/home/user")]);
        assert_eq!(homes(&[("HOME", "/home/user")]), [Path::new("/home/user")]);
        assert_eq!(homes(&[]), [Path::new("/home/user")]);
    }

    #[test]
    fn ringfence_home_must_be_absolute() {
        let none = Path::new("/nonexistent");
        assert_eq!(
            env(&[("RINGFENCE_HOME", "/r"), ("HOME", "/h")], none).ringfence_home().unwrap(),
            Path::new("/r")
        );
        assert_eq!(env(&[("HOME", "/h")], none).ringfence_home().unwrap(), Path::new("/h/.ringfence"));
        let relative = env(&[("RINGFENCE_HOME", "r"), ("HOME", "/h")], none).ringfence_home();
        assert!(matches!(relative, Err(ConfigError::RelativeHome(_))));
        assert!(matches!(env(&[], none).ringfence_home(), Err(ConfigError::NoHome)));
    }
}
