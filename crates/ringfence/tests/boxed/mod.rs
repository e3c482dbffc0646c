//! What is tried, and the world that it is tried in.

#![allow(clippy::print_stderr, reason = "what a test skips must be seen")]

mod asking;
mod lifetime;
mod planting;
mod policy;

use std::ffi::{OsStr, OsString};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed, Trial};
use ringfence::profiles::ProfileChoice;
use ringfence::{
    ApprovalGate, HostEnv, Mode, RunOptions, Sandbox, SandboxCapabilities, SandboxCommand, SandboxConfig,
    SandboxError, SandboxOutput, SandboxParts, SessionSettings, SessionStart, Step, WorkspaceSandbox,
};

/// Names the requirements whose absence is a failure instead of a skip, joined by commas, or `all`.
const MUST_HAVE: &str = "RINGFENCE_MUST_HAVE";

pub(crate) fn run() {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    let skip = if arguments.list { None } else { no_namespaces() };
    for (name, test) in
        policy::TESTS.iter().chain(lifetime::TESTS).chain(planting::TESTS).chain(asking::TESTS)
    {
        let skip = skip.clone();
        trials.push(Trial::test(*name, move || {
            if let Some(why) = skip {
                eprintln!("SKIP: needs userns: {why}");
                return Ok(());
            }
            test();
            Ok::<(), Failed>(())
        }));
    }
    libtest_mimic::run(&arguments, trials).exit();
}

type Test = (&'static str, fn());

/// Why this system lets nobody have namespaces.
///
/// # Panics
/// If the environment says that they must be there.
fn no_namespaces() -> Option<String> {
    let world = World::new(Mode::Strict, &[]);
    let failed = runtime().block_on(world.execute(world.command("true", &[])));
    let why = match failed {
        Err(error) if matches!(error.step(), Some(Step::Clone | Step::Idmap)) => error.message(),
        _ => return None,
    };
    let must = std::env::var(MUST_HAVE).unwrap_or_default();
    let required = must.split(',').any(|entry| entry == "all" || entry == "userns");
    assert!(!required, "{MUST_HAVE} names `userns`, but {why}");
    Some(why)
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// A home, a workspace and a sandbox of one test's own. Below `/var/tmp`, since `/tmp` is private in the box.
pub(crate) struct World {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) sandbox: WorkspaceSandbox,
    capabilities: SandboxCapabilities,
}

impl World {
    pub(crate) fn new(mode: Mode, profiles: &[&str]) -> Self {
        Self::furnished(mode, profiles, |_| {})
    }

    /// `furnish` fills the directory, which holds `home` and `work`, before the policy is resolved.
    pub(crate) fn furnished(mode: Mode, profiles: &[&str], furnish: impl FnOnce(&Path)) -> Self {
        Self::build(mode, profiles, furnish, &[], None)
    }

    /// A world that reaches these hosts, and asks about others.
    pub(crate) fn asking(hosts: &[&str], gate: ApprovalGate) -> Self {
        Self::build(Mode::WorkspaceWrite, &[], |_| {}, hosts, Some(gate))
    }

    fn build(
        mode: Mode,
        profiles: &[&str],
        furnish: impl FnOnce(&Path),
        hosts: &[&str],
        gate: Option<ApprovalGate>,
    ) -> Self {
        let dir = tempfile::Builder::new().prefix("ringfence-library-").tempdir_in("/var/tmp").unwrap();
        let (home, work) = (dir.path().join("home"), dir.path().join("work"));
        std::fs::create_dir(&home).unwrap();
        std::fs::create_dir(&work).unwrap();
        furnish(dir.path());
        let vars = vec![(OsString::from("HOME"), home.clone().into_os_string())];
        let host = HostEnv::new(vars, 0, PathBuf::from("/nonexistent"));
        let mut config = SandboxConfig::new(dir.path().join("state"));
        config.rate_limit.enabled = false;
        config.default_timeout = Some(Duration::from_secs(60));
        let options = RunOptions {
            mode: Some(mode),
            profiles: profiles.iter().map(|name| name.parse::<ProfileChoice>().unwrap()).collect(),
            allow_hosts: hosts.iter().map(|host| host.parse().unwrap()).collect(),
            env: vec![
                [OsStr::new("HOME="), home.as_os_str()].join(OsStr::new("")),
                "PATH=/usr/bin:/bin".into(),
            ],
            ..RunOptions::default()
        };
        let settings = SessionSettings::resolve(&config, &host, &work, &options).unwrap();
        let capabilities = settings.policy.baseline.clone();
        config.session = Some(settings);
        let parts = SandboxParts { host: Some(host), gate, ..SandboxParts::default() };
        let sandbox = WorkspaceSandbox::new(&config, parts).unwrap();
        let start = SessionStart { directory: Some(work), ..SessionStart::default() };
        sandbox.start_session(&"s".into(), start).unwrap();
        Self { dir, sandbox, capabilities }
    }

    pub(crate) fn home(&self, path: &str) -> PathBuf {
        self.dir.path().join("home").join(path)
    }

    pub(crate) fn work(&self, path: &str) -> PathBuf {
        self.dir.path().join("work").join(path)
    }

    /// A command that asks for all that the session may do.
    pub(crate) fn command(&self, program: &str, args: &[&str]) -> SandboxCommand {
        SandboxCommand::new("s", program).args(args.iter().copied()).capabilities(self.capabilities.clone())
    }

    pub(crate) async fn execute(&self, command: SandboxCommand) -> Result<SandboxOutput, SandboxError> {
        self.sandbox.execute(command).await
    }

    /// Runs a script to its end.
    pub(crate) fn script(&self, script: &str) -> SandboxOutput {
        runtime().block_on(self.execute(self.command("sh", &["-c", script]))).unwrap()
    }
}

impl Drop for World {
    /// The kernel makes overlayfs' scratch directories with mode 000 (`work/work`), which keeps an unprivileged
    /// caller from removing the tree.
    fn drop(&mut self) {
        open_directories(&self.dir.path().join("state/cache"));
    }
}

fn open_directories(path: &Path) {
    let _ = std::fs::set_permissions(path, Permissions::from_mode(0o700));
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_directories(&entry.path());
        }
    }
}

/// Waits until it is true.
///
/// # Panics
/// If it isn't for long.
pub(crate) fn eventually(what: &str, check: impl Fn() -> bool) {
    let limit = Instant::now() + Duration::from_secs(30);
    while !check() {
        assert!(Instant::now() < limit, "never came true: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a process of this system has `token` in its arguments.
pub(crate) fn runs(token: &str) -> bool {
    std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let cmdline = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        cmdline.windows(token.len()).any(|window| window == token.as_bytes())
    })
}

/// Text that no other process has in its arguments.
pub(crate) fn token() -> String {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    format!("ringfence-token-{}-{number}", std::process::id())
}

pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}
