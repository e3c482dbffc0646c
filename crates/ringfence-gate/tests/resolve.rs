//! What a request means on this host: denials and limits that it inherits, what is never granted, pins.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::{Fixture, command, reads};
use ringfence_gate::{ApprovalGate, BindError, CacheRequest, CwdError, Decision, GateConfig, ResolveError};
use ringfence_types::{
    Excess, Network, NetworkPolicy, PathKind, ResolvedPolicy, SandboxCapabilities, SandboxCommand, UnixPath,
};

fn with_baseline(baseline: SandboxCapabilities) -> Fixture {
    Fixture::new(ApprovalGate::new(None), |config| config.session.baseline = baseline)
}

async fn resolve(
    fixture: &Fixture,
    capabilities: SandboxCapabilities,
) -> Result<ResolvedPolicy, ResolveError> {
    match fixture.bind(command("true", capabilities)).await {
        Ok(bound) => Ok(bound.policy().clone()),
        Err(BindError::Resolve(error)) => Err(error),
        Err(other) => panic!("{other}"),
    }
}

async fn excess(fixture: &Fixture, capabilities: SandboxCapabilities) -> Vec<Excess> {
    match fixture.permit(command("true", capabilities)).await {
        Ok(permit) => {
            assert_eq!(*permit.decision(), Decision::Baseline);
            Vec::new()
        }
        Err(refused) => refused.excess().to_vec(),
    }
}

fn denied(policy: &ResolvedPolicy) -> Vec<&Path> {
    policy.deny.iter().map(|path| path.path.as_path()).collect()
}

#[tokio::test]
async fn grants_are_canonical_sorted_and_without_duplicates() {
    let fixture = Fixture::alone();
    let (a, b) = (fixture.make_dir("a"), fixture.make_dir("b"));
    symlink(&a, fixture.path("link")).unwrap();
    let policy = resolve(&fixture, reads([&b, &fixture.path("link"), &a, &a.join(".")])).await.unwrap();
    let paths: Vec<_> = policy.read.iter().map(|path| path.path.clone()).collect();
    assert_eq!(paths, [a, b]);
    assert!(policy.read.iter().all(|path| path.id.is_some() && path.kind == PathKind::Directory));
    let refused = resolve(&fixture, reads(["../x"])).await.unwrap_err();
    assert!(matches!(refused, ResolveError::ParentComponent(_)));
}

#[tokio::test]
async fn relative_paths_count_from_the_workspace() {
    let fixture = Fixture::alone();
    let policy = resolve(&fixture, reads(["sub/none"])).await.unwrap();
    assert_eq!(policy.read[0].path, policy.workspace.path.join("sub/none"));
    assert_eq!(policy.read[0].kind, PathKind::Missing);
}

#[tokio::test]
async fn a_request_inherits_the_denials_of_its_baseline() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    std::fs::create_dir_all(root.join("home/.ssh/keys")).unwrap();
    let fixture =
        with_baseline(SandboxCapabilities { fs_deny: vec![root.join("home/.ssh")], ..reads([&root]) });
    let ssh = root.join("home/.ssh");

    let silent = resolve(&fixture, reads([root.join("home")])).await.unwrap();
    assert!(denied(&silent).contains(&ssh.as_path()));
    assert_eq!(excess(&fixture, reads([root.join("home")])).await, []);
    assert_eq!(excess(&fixture, SandboxCapabilities::strict()).await, []);

    let named = Excess::Read(UnixPath::from(ssh.as_path()));
    assert_eq!(excess(&fixture, reads([&ssh])).await, [named], "a path that is named is asked for");
    let below = Excess::Read(UnixPath::from(ssh.join("keys").as_path()));
    assert_eq!(excess(&fixture, reads([ssh.join("keys")])).await, [below]);
}

#[tokio::test]
async fn a_denied_symlink_denies_its_old_and_its_new_target() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    for name in ["old", "new"] {
        std::fs::create_dir(root.join(name)).unwrap();
    }
    let link = root.join("secrets");
    symlink("old", &link).unwrap();
    let fixture = with_baseline(SandboxCapabilities { fs_deny: vec![link.clone()], ..reads([&root]) });
    resolve(&fixture, reads([&root])).await.unwrap();
    std::fs::remove_file(&link).unwrap();
    symlink("new", &link).unwrap();
    let policy = resolve(&fixture, reads([&root])).await.unwrap();
    assert!(denied(&policy).contains(&root.join("old").as_path()));
    assert!(denied(&policy).contains(&root.join("new").as_path()));
    assert_eq!(excess(&fixture, reads([&root])).await, []);
}

#[tokio::test]
async fn a_request_inherits_limits() {
    let limits = SandboxCapabilities { max_memory_mb: Some(512), timeout_secs: Some(60), ..reads([""; 0]) };
    let fixture = with_baseline(limits.clone());
    assert_eq!(excess(&fixture, SandboxCapabilities::strict()).await, []);
    let policy = resolve(&fixture, SandboxCapabilities::strict()).await.unwrap();
    assert_eq!((policy.max_memory_mb, policy.timeout_secs), (Some(512), Some(60)));
    let more = SandboxCapabilities { max_memory_mb: Some(513), ..SandboxCapabilities::strict() };
    assert_eq!(excess(&fixture, more).await, [Excess::Memory(Some(513))]);

    let mut slow = command("true", SandboxCapabilities::strict());
    slow.timeout = Some(Duration::from_millis(60_001));
    let refused = fixture.permit(slow).await.unwrap_err();
    assert_eq!(refused.excess(), [Excess::Timeout(Some(61))], "the command's own limit counts too");
}

#[tokio::test]
async fn ringfence_itself_is_never_granted() {
    let fixture = Fixture::alone();
    symlink(fixture.path("home"), fixture.path("alias")).unwrap();
    let home = fixture.path("home");
    let others = fixture.gate.sessions().open(&"another".into()).unwrap().cwd().to_path_buf();
    for path in [home.clone(), home.join("state"), home.join("none"), fixture.path("alias/state"), others] {
        let refused = resolve(&fixture, reads([&path])).await.unwrap_err();
        assert!(matches!(refused, ResolveError::RingfenceHome(_)), "{}: {refused}", path.display());
        let write = SandboxCapabilities { fs_write: vec![path], ..SandboxCapabilities::strict() };
        assert!(matches!(resolve(&fixture, write).await.unwrap_err(), ResolveError::RingfenceHome(_)));
    }
    let policy = resolve(&fixture, reads([fixture.path("")])).await.unwrap();
    assert!(!policy.may_read(&home.join("config.toml")), "nor as part of something larger");
    assert!(policy.may_write(&policy.workspace.path.join("x")), "the session's own workspace lies below it");
}

#[tokio::test]
async fn the_running_program_is_read_only_inside_a_writable_root() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().canonicalize().unwrap().join("bin/ringfence");
    std::fs::create_dir(program.parent().unwrap()).unwrap();
    std::fs::write(&program, "").unwrap();
    let fixture = Fixture::new(ApprovalGate::new(None), |config| config.executables = vec![program.clone()]);
    let writes =
        |path: &Path| SandboxCapabilities { fs_write: vec![path.into()], ..SandboxCapabilities::strict() };
    let policy = resolve(&fixture, writes(directory.path())).await.unwrap();
    assert!(policy.protected.read_only.iter().any(|path| path.path == program && path.id.is_some()));
    let policy = resolve(&fixture, SandboxCapabilities::strict()).await.unwrap();
    assert!(
        policy.protected.read_only.iter().all(|path| path.path != program),
        "elsewhere it is read-only anyway"
    );
    assert!(GateConfig::new("/h").executables.contains(&std::env::current_exe().unwrap()));
}

#[tokio::test]
async fn a_home_known_by_a_symlink_keeps_the_symlink() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    std::fs::create_dir_all(root.join("data/rf")).unwrap();
    symlink(root.join("data/rf"), root.join("link")).unwrap();
    let gate =
        ringfence_gate::Gate::new(GateConfig::new(root.join("link")), ApprovalGate::new(None)).unwrap();
    let fixture = Fixture { directory, gate: gate.into() };
    let writes = SandboxCapabilities { fs_write: vec![root.clone()], ..SandboxCapabilities::strict() };
    let policy = resolve(&fixture, writes).await.unwrap();
    let pin = policy.protected.pins.iter().find(|pin| pin.path == root.join("link")).unwrap();
    assert_eq!(pin.kind, PathKind::Symlink);
    assert!(denied(&policy).contains(&root.join("data/rf").as_path()));
}

#[tokio::test]
async fn networks_are_parsed_and_an_empty_list_is_none() {
    let fixture = Fixture::alone();
    let network = |hosts: &[&str]| SandboxCapabilities {
        network: NetworkPolicy::AllowHosts { hosts: hosts.iter().map(ToString::to_string).collect() },
        ..SandboxCapabilities::strict()
    };
    assert_eq!(resolve(&fixture, network(&[])).await.unwrap().network, Network::None);
    let policy = resolve(&fixture, network(&["B.com", "a.com.", "b.com"])).await.unwrap();
    let Network::AllowHosts { hosts } = policy.network else { panic!() };
    assert_eq!(hosts.iter().map(ToString::to_string).collect::<Vec<_>>(), ["a.com", "b.com"]);
    assert!(matches!(resolve(&fixture, network(&["http://a"])).await, Err(ResolveError::Host(_))));
}

#[tokio::test]
async fn a_unix_socket_is_one() {
    let fixture = Fixture::alone();
    let (socket, file) = (fixture.path("socket"), fixture.path("file"));
    let _listener = UnixListener::bind(&socket).unwrap();
    std::fs::write(&file, "").unwrap();
    let grant = |path: &Path| SandboxCapabilities {
        unix_sockets: vec![path.into()],
        ..SandboxCapabilities::strict()
    };
    let policy = resolve(&fixture, grant(&socket)).await.unwrap();
    assert_eq!(policy.unix_sockets[0].kind, PathKind::Special);
    assert_eq!(
        excess(&fixture, grant(&socket)).await,
        [Excess::UnixSocket(UnixPath::from(socket.as_path()))]
    );
    for path in [file, fixture.path("none")] {
        assert!(matches!(resolve(&fixture, grant(&path)).await, Err(ResolveError::NotASocket(_))));
    }
}

#[tokio::test]
async fn caches_get_a_private_layer_of_their_workspace() {
    let directory = tempfile::tempdir().unwrap();
    let cache = directory.path().canonicalize().unwrap().join("registry");
    std::fs::create_dir(&cache).unwrap();
    let missing = cache.with_file_name("none");
    let fixture = Fixture::new(ApprovalGate::new(None), |config| {
        let request = |at: &PathBuf| CacheRequest { at: at.clone(), env: Some(String::from("X_CACHE")) };
        config.session.caches = vec![request(&cache), request(&missing), request(&cache)];
    });
    let caches = async |session: &str| {
        fixture.bind(SandboxCommand::new(session, "true")).await.unwrap().policy().caches.clone()
    };
    let (first, second) = (caches("a").await, caches("b").await);
    assert_eq!(first.iter().map(|cache| cache.at.path.clone()).collect::<Vec<_>>(), [missing, cache]);
    assert!(!first[0].upper.exists(), "a cache that isn't there has no layer");
    for directory in [&first[1].upper, &first[1].work] {
        assert!(directory.is_dir() && directory.starts_with(fixture.path("home/cache")));
    }
    assert_ne!(first[1].upper, second[1].upper, "what one workspace planted, another doesn't see");
    assert_eq!(first, caches("a").await);
}

#[tokio::test]
async fn cwd_is_refused_inside_git_directories() {
    let fixture = Fixture::alone();
    let bound = fixture.bind(command("true", SandboxCapabilities::strict())).await.unwrap();
    let git = bound.session().cwd().join("nested/.git/hooks");
    std::fs::create_dir_all(&git).unwrap();
    let mut asking = command("true", SandboxCapabilities::strict());
    asking.cwd = Some(git);
    let refused = fixture.bind(asking).await.unwrap_err();
    assert!(matches!(refused, BindError::Cwd(CwdError::Protected { .. })), "{refused}");
}

#[tokio::test]
async fn timeouts_have_their_precedence() {
    let fixture = Fixture::new(ApprovalGate::new(None), |config| {
        config.default_timeout = Some(Duration::from_secs(7));
    });
    let limit = async |own: Option<u64>, command_limit: Option<u64>| {
        let capabilities = SandboxCapabilities { timeout_secs: own, ..SandboxCapabilities::strict() };
        let mut asking = command("true", capabilities);
        asking.timeout = command_limit.map(Duration::from_millis);
        fixture.permit(asking).await.unwrap().limits().timeout
    };
    assert_eq!(limit(None, None).await, Some(Duration::from_secs(7)));
    assert_eq!(limit(Some(5), None).await, Some(Duration::from_secs(5)));
    assert_eq!(limit(Some(5), Some(1500)).await, Some(Duration::from_millis(1500)));
}

#[tokio::test]
async fn ten_thousand_grants_are_resolved_with_few_descriptors() {
    let fixture = Fixture::alone();
    let paths: Vec<_> = (0..100).flat_map(|n| (0..100).map(move |m| format!("many/{n}/{m}"))).collect();
    let paths: Vec<_> = paths.iter().map(|path| fixture.path(path)).collect();
    for path in &paths {
        std::fs::create_dir_all(path).unwrap();
    }
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let before = open();
    let request = SandboxCapabilities { fs_deny: paths.clone(), ..reads(&paths) };
    let bound = fixture.bind(command("true", request)).await.unwrap();
    assert_eq!(bound.policy().read.len(), 10_000);
    assert_eq!(bound.policy().deny.len(), 10_001);
    let held = open() - before;
    assert!(held <= 520, "{held} descriptors held");
    assert!(bound.policy().read.iter().all(|path| path.id.is_some()), "identity carries the rest");
}
#[tokio::test]
async fn the_first_command_of_a_session_means_what_a_later_one_does() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    let baseline = SandboxCapabilities { fs_deny: vec![root.join("a"), root.join("b")], ..reads([&root]) };
    std::fs::create_dir(root.join("a")).unwrap();
    let fixture = with_baseline(baseline.clone());
    let first = resolve(&fixture, baseline.clone()).await.unwrap();
    assert_eq!(first, resolve(&fixture, baseline.clone()).await.unwrap());
    std::fs::create_dir(root.join("b")).unwrap();
    let later = resolve(&fixture, baseline).await.unwrap();
    assert!(later.deny.iter().any(|path| path.path == root.join("b") && path.kind == PathKind::Directory));
}
