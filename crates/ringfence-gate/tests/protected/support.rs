use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ringfence_gate::protected::{Finding, FindingKind, Findings, Found, Settings, UserGit, search};
use ringfence_types::{PathKind, ResolvedPath};

/// A writable root, a place outside of it, and a state directory.
pub(crate) struct Place {
    #[expect(dead_code, reason = "removes the directories at the end")]
    temp: Option<tempfile::TempDir>,
    pub(crate) root: PathBuf,
    pub(crate) outside: PathBuf,
    pub(crate) state: PathBuf,
    pub(crate) settings: Settings,
    pub(crate) deny: Vec<ResolvedPath>,
}

impl Place {
    pub(crate) fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let base = temp.path().canonicalize().unwrap();
        for name in ["root", "outside", "state"] {
            fs::create_dir(base.join(name)).unwrap();
        }
        Self { temp: Some(temp), ..Self::at(&base) }
    }

    /// One that another process made and will remove.
    pub(crate) fn at(base: &Path) -> Self {
        let [root, outside, state] = ["root", "outside", "state"].map(|name| base.join(name));
        // A loaded machine is no reason to fail.
        let settings = Settings { user: UserGit::default(), search_ms: 60_000, ..Settings::default() };
        Self { temp: None, root, outside, state, settings, deny: Vec::new() }
    }

    /// With a repository that has one commit in the root.
    pub(crate) fn repository() -> Self {
        let place = Self::new();
        repository(&place.root);
        place
    }

    /// The search as it is before a run, some time after whatever was done to the files.
    pub(crate) fn search(&self) -> Found {
        self.search_in(std::slice::from_ref(&self.root))
    }

    pub(crate) fn search_in(&self, roots: &[PathBuf]) -> Found {
        settle();
        search(roots, &self.deny, &self.settings, Some(&self.state)).unwrap()
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    pub(crate) fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        write(&self.path(path), text);
    }

    pub(crate) fn git(&self, args: &[&str]) {
        git(&self.root, args);
    }

    pub(crate) fn deny(&mut self, path: &str, kind: PathKind) {
        self.deny.push(ResolvedPath { path: self.path(path), kind, id: None });
    }
}

/// Past the grain of the clock that the kernel stamps files with.
pub(crate) fn settle() {
    std::thread::sleep(Duration::from_millis(30));
}

pub(crate) fn write(path: &Path, text: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

pub(crate) fn script(path: &Path) {
    write(path, "#!/bin/sh\n");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

pub(crate) fn git_command(dir: &Path) -> Command {
    let mut command = Command::new("git");
    command
        .current_dir(dir)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.invalid"])
        .args(["-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always"]);
    command
}

/// Runs git and expects it to succeed.
#[track_caller]
pub(crate) fn git<A: AsRef<OsStr>>(dir: &Path, args: &[A]) {
    let output = git_command(dir).args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

pub(crate) fn repository(dir: &Path) {
    fs::create_dir_all(dir).unwrap();
    git(dir, &["init", "-q"]);
    write(&dir.join("file"), "one\n");
    git(dir, &["add", "file"]);
    git(dir, &["commit", "-qm", "one"]);
}

/// Paths relative to the root.
pub(crate) fn relative(place: &Place, paths: &[ResolvedPath]) -> Vec<String> {
    paths.iter().map(|path| path.path.strip_prefix(&place.root).unwrap().display().to_string()).collect()
}

/// What offends, relative to the root.
pub(crate) fn offending(place: &Place, findings: &Findings) -> Vec<String> {
    let offends = findings.list.iter().filter(|finding| finding.kind.offends());
    offends.map(|finding| shown(place, finding)).collect()
}

pub(crate) fn reported(place: &Place, findings: &Findings) -> Vec<(String, FindingKind)> {
    let reported = findings.list.iter().filter(|finding| !finding.kind.offends());
    reported.map(|finding| (shown(place, finding), finding.kind.clone())).collect()
}

fn shown(place: &Place, finding: &Finding) -> String {
    finding.path.strip_prefix(&place.root).unwrap_or(&finding.path).display().to_string()
}

/// Runs one test as somebody who can't read everything.
#[track_caller]
pub(crate) fn as_nobody(test: &str) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .current_dir("/")
        .uid(65534)
        .gid(65534)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}
