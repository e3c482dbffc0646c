use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::{Binaries, Caller, Invocation};

/// `PATH` of everything that a test runs.
const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A folder of one test's own, with a workspace (`ws`), a home (`home`), a place outside both (`host`) and
/// `RINGFENCE_HOME` (`state`). All of it belongs to the caller and goes when this is dropped.
///
/// It lies below `/var/tmp`: `/tmp` is private in the box, and a file there would be out of reach for that
/// reason alone.
#[derive(Debug)]
pub struct Fixture {
    dir: TempDir,
    binaries: Binaries,
    caller: Caller,
}

impl Fixture {
    /// A fixture for runs by `caller`.
    ///
    /// # Panics
    /// If it can't be made.
    pub fn new(binaries: &Binaries, caller: Caller) -> Self {
        Self::below(Path::new("/var/tmp"), binaries, caller)
    }

    /// The same below another folder.
    ///
    /// # Panics
    /// If it can't be made.
    pub fn below(base: &Path, binaries: &Binaries, caller: Caller) -> Self {
        let dir = tempfile::Builder::new().prefix("ringfence-test-").tempdir_in(base).expect("tempdir");
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).expect("chmod");
        for name in ["ws", "home", "host", "state"] {
            fs::create_dir(dir.path().join(name)).expect("mkdir");
        }
        caller.own(dir.path());
        Self { dir, binaries: binaries.clone(), caller }
    }

    /// The folder of this fixture.
    pub fn root(&self) -> &Path {
        self.dir.path()
    }

    /// The workspace.
    pub fn ws(&self) -> PathBuf {
        self.root().join("ws")
    }

    /// The caller's home.
    pub fn home(&self) -> PathBuf {
        self.root().join("home")
    }

    /// A place outside every grant.
    pub fn host(&self) -> PathBuf {
        self.root().join("host")
    }

    /// `RINGFENCE_HOME`.
    pub fn state(&self) -> PathBuf {
        self.root().join("state")
    }

    /// The binaries.
    pub fn binaries(&self) -> &Binaries {
        &self.binaries
    }

    /// Who calls.
    pub fn caller(&self) -> Caller {
        self.caller
    }

    /// Writes a file at a path relative to the fixture, with its folders.
    ///
    /// # Panics
    /// If it can't be written.
    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root().join(path);
        self.mkdir(path.parent().expect("a file lies in a folder"));
        fs::write(&path, content).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        self.caller.own(&path);
        path
    }

    /// Writes an executable script.
    ///
    /// # Panics
    /// If it can't be written.
    pub fn script(&self, path: impl AsRef<Path>, content: &str) -> PathBuf {
        let path = self.write(path, content);
        self.chmod(&path, 0o755);
        path
    }

    /// Makes a folder and those above it.
    ///
    /// # Panics
    /// If it can't be made.
    pub fn mkdir(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = self.root().join(path);
        let missing: Vec<_> = path.ancestors().take_while(|folder| !folder.exists()).collect();
        for folder in missing.into_iter().rev() {
            fs::create_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
            self.caller.own(folder);
        }
        path
    }

    /// Makes a symlink at a path relative to the fixture.
    ///
    /// # Panics
    /// If it can't be made.
    pub fn symlink(&self, target: impl AsRef<Path>, path: impl AsRef<Path>) -> PathBuf {
        let path = self.root().join(path);
        symlink(target, &path).expect("symlink");
        self.caller.own(&path);
        path
    }

    /// Sets permission bits.
    ///
    /// # Panics
    /// If they can't be set.
    pub fn chmod(&self, path: impl AsRef<Path>, mode: u32) {
        fs::set_permissions(self.root().join(path), Permissions::from_mode(mode)).expect("chmod");
    }

    /// Reads a file at a path relative to the fixture.
    ///
    /// # Panics
    /// If it can't be read.
    #[track_caller]
    pub fn read(&self, path: impl AsRef<Path>) -> String {
        let path = self.root().join(path);
        let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Whether anything, be it a dangling symlink, lies at a path relative to the fixture.
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        fs::symlink_metadata(self.root().join(path)).is_ok()
    }

    /// Lifts the time limit of the search for protected paths, which a busy machine would exceed: what is missed
    /// is then found at the end instead.
    pub fn search_patiently(&self) {
        self.write("state/config.toml", "[sandbox.protected]\nsearch_ms = 10000\n");
    }

    /// Replaces `{ws}`, `{home}`, `{host}`, `{state}`, `{root}`, `{probe}` and `{ringfence}`.
    pub fn expand(&self, text: &str) -> String {
        let names = [
            ("{ws}", self.ws()),
            ("{home}", self.home()),
            ("{host}", self.host()),
            ("{state}", self.state()),
            ("{root}", self.root().to_path_buf()),
            ("{probe}", self.binaries.probe.clone()),
            ("{ringfence}", self.binaries.ringfence.clone()),
        ];
        names.iter().fold(text.to_owned(), |text, (name, path)| text.replace(name, &path.to_string_lossy()))
    }

    /// A program run outside the box by the caller, in the workspace, with the fixture's environment alone.
    pub fn outside(&self, program: impl AsRef<OsStr>) -> Invocation {
        let mut command = self.caller.command(program);
        command.env_clear().current_dir(self.ws()).envs([
            ("PATH", OsString::from(SEARCH_PATH)),
            ("HOME", self.home().into()),
            ("RINGFENCE_HOME", self.state().into()),
            ("USER", "tester".into()),
            ("LANG", "C.UTF-8".into()),
            ("TERM", "xterm".into()),
        ]);
        Invocation::new(command)
    }

    /// The `ringfence` binary with the words given.
    pub fn ringfence<A: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = A>) -> Invocation {
        self.outside(&self.binaries.ringfence).args(words)
    }

    /// `ringfence run --workspace WS FLAGS -- ARGV`. Flags and words may hold the names of [`Self::expand`].
    pub fn inside(&self, flags: &[&str], argv: &[&str]) -> Invocation {
        let expand = |words: &[&str]| words.iter().map(|word| self.expand(word)).collect::<Vec<_>>();
        self.ringfence(["run", "--workspace"]).arg(self.ws()).args(expand(flags)).arg("--").args(expand(argv))
    }

    /// The probe's act inside the box.
    pub fn probe_inside(&self, flags: &[&str], act: &[&str]) -> Invocation {
        self.inside(flags, &[&["{probe}"], act].concat())
    }

    /// The probe's act outside the box.
    pub fn probe_outside(&self, act: &[&str]) -> Invocation {
        self.outside(&self.binaries.probe).args(act.iter().map(|word| self.expand(word)))
    }

    /// A shell script inside the box.
    pub fn shell_inside(&self, flags: &[&str], script: &str) -> Invocation {
        self.inside(flags, &["bash", "-c", script])
    }

    /// A shell script outside the box, where `$RINGFENCE`, `$PROBE`, `$WS`, `$HOST` and `$RUN` (the beginning of a
    /// run in the workspace, unquoted) are set.
    pub fn shell_outside(&self, script: &str) -> Invocation {
        let run = self.expand("{ringfence} run --workspace {ws}");
        self.outside("bash")
            .args(["-c", script])
            .env("RINGFENCE", &self.binaries.ringfence)
            .env("PROBE", &self.binaries.probe)
            .env("WS", self.ws())
            .env("HOST", self.host())
            .env("RUN", run)
    }

    /// Text with the fixture's and the binaries' paths and the version replaced, for snapshots.
    pub fn redact(&self, text: &str) -> String {
        let folder = |path: &Path| path.to_string_lossy().into_owned();
        text.replace(&folder(self.root()), "[ROOT]")
            .replace(&folder(&self.binaries.ringfence), "ringfence")
            .replace(&folder(&self.binaries.probe), "ringfence-probe")
            .replace(env!("CARGO_PKG_VERSION"), "[VERSION]")
    }
}

impl Drop for Fixture {
    /// Folders that a test made unreadable would keep their owner, if not root, from removing them.
    fn drop(&mut self) {
        open_folders(self.dir.path());
    }
}

fn open_folders(path: &Path) {
    let Ok(found) = fs::symlink_metadata(path) else { return };
    if !found.is_dir() {
        return;
    }
    if found.permissions().mode() & 0o700 != 0o700 {
        // A folder of another owner stays; the removal then says so.
        let _ = fs::set_permissions(path, Permissions::from_mode(0o700));
    }
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        open_folders(&entry.path());
    }
}
