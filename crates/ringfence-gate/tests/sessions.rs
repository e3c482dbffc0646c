//! Sessions: where they lie on disk, who may start them how, what of them ends when.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use common::{Fixture, Script, block_on, command, spawns};
use ringfence_gate::{
    ApprovalGate, ApprovalOutcome, BindError, Decision, Gate, GateConfig, GateError, Lifetime, PermitError,
    ResolveError, SessionError, SessionPolicy, SessionStart, session_directory,
};
use ringfence_types::{SandboxCapabilities, SandboxCommand, SessionId, WorkspaceAccess};

fn start_in(directory: &Path) -> SessionStart {
    SessionStart {
        directory: Some(directory.to_path_buf()),
        lifetime: Lifetime::Run,
        ..SessionStart::default()
    }
}

#[test]
fn the_directory_of_a_session_is_a_pure_function_of_its_id() {
    let path = session_directory(Path::new("/w"), &SessionId::new("demo"));
    assert_eq!(path, Path::new("/w/99e5095aacce94d035c31d3e08425401"));
}

#[test]
fn a_session_has_a_private_directory_of_its_own() {
    let fixture = Fixture::alone();
    let id = SessionId::new("../../etc");
    let workspace = fixture.gate.sessions().open(&id).unwrap();
    assert_eq!(workspace.cwd(), session_directory(&fixture.path("home/workspaces"), &id));
    assert_eq!(workspace.cwd().metadata().unwrap().mode() & 0o7777, 0o700);
    assert!(Arc::ptr_eq(&workspace, &fixture.gate.sessions().open(&id).unwrap()), "it is made once");
    assert_eq!(*workspace.id(), id);
    assert_eq!(workspace.baseline().workspace_access, WorkspaceAccess::Write);
}

#[test]
fn threads_that_meet_get_one_session() {
    let fixture = Fixture::alone();
    let open = || fixture.gate.sessions().open(&SessionId::new("s")).unwrap();
    let all: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(all.iter().all(|workspace| Arc::ptr_eq(workspace, &all[0])));
}

#[test]
fn a_symlink_in_the_place_of_the_directory_is_refused() {
    let fixture = Fixture::alone();
    let id = SessionId::new("s");
    let workspaces = fixture.make_dir("home/workspaces");
    let elsewhere = fixture.make_dir("elsewhere");
    let path = session_directory(&workspaces, &id);
    for target in [&elsewhere, Path::new("nowhere")] {
        symlink(target, &path).unwrap();
        assert!(matches!(fixture.gate.sessions().open(&id), Err(SessionError::Symlink(at)) if at == path));
        std::fs::remove_file(&path).unwrap();
    }
    std::fs::write(&path, "").unwrap();
    assert!(matches!(fixture.gate.sessions().open(&id), Err(SessionError::Io { .. })), "nor is a file");
    std::fs::remove_file(&path).unwrap();
    assert!(fixture.gate.sessions().open(&id).is_ok(), "a failure is not remembered");
}

#[test]
fn a_directory_of_somebody_else_is_refused() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can give a directory away");
        return;
    }
    let fixture = Fixture::alone();
    let id = SessionId::new("s");
    let path = session_directory(&fixture.make_dir("home/workspaces"), &id);
    std::fs::create_dir(&path).unwrap();
    std::os::unix::fs::chown(&path, Some(1), Some(1)).unwrap();
    let refused = fixture.gate.sessions().open(&id).unwrap_err();
    assert!(matches!(refused, SessionError::ForeignOwner { owner: 1, caller: 0, .. }), "{refused}");
}

#[tokio::test]
async fn a_host_may_bind_a_session_to_a_directory() {
    let fixture = Fixture::alone();
    let project = fixture.make_dir("project/sub");
    let project = project.parent().unwrap();
    symlink(project, fixture.path("link")).unwrap();
    let id = SessionId::new("session");
    let workspace = fixture.gate.sessions().start(&id, start_in(&fixture.path("link"))).unwrap();
    assert_eq!(workspace.cwd(), project);
    let mut asking = command("true", SandboxCapabilities::strict());
    asking.cwd = Some("sub".into());
    let bound = fixture.bind(asking).await.unwrap();
    assert_eq!(bound.cwd(), project.join("sub"));
    assert_eq!(bound.policy().workspace.path, project);
    assert_eq!(bound.policy().session_tmp, None, "a session of one run has nothing on disk");

    assert!(
        fixture.gate.sessions().start(&id, start_in(&fixture.path("link"))).is_ok(),
        "again in the same way"
    );
    let otherwise = fixture.gate.sessions().start(&id, SessionStart::default());
    assert!(matches!(otherwise, Err(SessionError::AlreadyStarted(_))));
}

#[test]
fn directories_that_cannot_be_a_workspace_are_refused() {
    let fixture = Fixture::alone();
    let file = fixture.path("file");
    std::fs::write(&file, "").unwrap();
    let state = fixture.make_dir("home/state/x");
    let start = |path: &Path| fixture.gate.sessions().start(&SessionId::new("s"), start_in(path)).map(drop);
    assert!(matches!(start(&fixture.path("none")), Err(SessionError::Missing(_))));
    assert!(matches!(start(&file), Err(SessionError::NotADirectory(_))));
    assert!(matches!(start(&state), Err(SessionError::RingfenceHome(_))));
    assert!(matches!(start(&fixture.path("home")), Err(SessionError::RingfenceHome(_))));
    for root in ["/", "/etc", "/usr/lib", "/tmp"] {
        let refused = start(Path::new(root)).unwrap_err();
        assert!(
            matches!(refused, SessionError::Baseline(ResolveError::DangerousRoot(_))),
            "{root}: {refused}"
        );
        assert!(refused.hint().is_some());
    }
    if !rustix::process::geteuid().is_root() {
        let locked = fixture.make_dir("locked");
        std::fs::set_permissions(&locked, Permissions::from_mode(0o600)).unwrap();
        assert!(matches!(start(&locked), Err(SessionError::Io { .. })));
    }
}

#[test]
fn a_dangerous_root_can_be_forced_or_only_read() {
    let fixture = Fixture::new(ApprovalGate::new(None), |_| {});
    let reading = SandboxCapabilities { workspace: WorkspaceAccess::Read, ..SandboxCapabilities::strict() };
    let policies = [
        SessionPolicy { force_root: true, ..SessionPolicy::default() },
        SessionPolicy { baseline: reading, ..SessionPolicy::default() },
    ];
    for (n, policy) in policies.into_iter().enumerate() {
        let start = SessionStart { policy: Some(policy), ..start_in(Path::new("/var")) };
        assert!(fixture.gate.sessions().start(&SessionId::new(n.to_string()), start).is_ok());
    }
}

#[tokio::test]
async fn the_home_directory_and_its_ancestors_are_dangerous() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    std::fs::create_dir_all(root.join("people/u/project")).unwrap();
    let fixture = Fixture::new(ApprovalGate::new(None), |config| {
        config.user_homes = vec![root.join("elsewhere"), root.join("people/u")];
    });
    std::fs::create_dir(root.join("elsewhere")).unwrap();
    for (n, (path, fine)) in
        [("people/u/project", true), ("people/u", false), ("people", false), ("elsewhere", false)]
            .iter()
            .enumerate()
    {
        let id = SessionId::new(n.to_string());
        assert_eq!(fixture.gate.sessions().start(&id, start_in(&root.join(path))).is_ok(), *fine, "{path}");
    }
    let writes = SandboxCapabilities { fs_write: vec![root.join("people")], ..SandboxCapabilities::strict() };
    let refused = fixture.bind(command("true", writes)).await.unwrap_err();
    assert!(
        matches!(refused, BindError::Resolve(ResolveError::DangerousRoot(_))),
        "in a request too: {refused}"
    );
}

#[tokio::test]
async fn a_workspace_that_was_replaced_is_refused() {
    let fixture = Fixture::alone();
    let bound = fixture.bind(command("true", SandboxCapabilities::strict())).await.unwrap();
    let path = bound.session().cwd().to_path_buf();
    std::fs::rename(&path, path.with_extension("old")).unwrap();
    std::fs::create_dir(&path).unwrap();
    let refused = fixture.bind(command("true", SandboxCapabilities::strict())).await.unwrap_err();
    assert!(matches!(refused, BindError::Session(SessionError::Replaced(_))), "{refused}");
    fixture.gate.sessions().end(bound.session().id());
    assert!(fixture.bind(command("true", SandboxCapabilities::strict())).await.is_ok());
}

#[tokio::test]
async fn commands_of_a_session_share_a_private_temp_that_ends_with_it() {
    let fixture = Fixture::alone();
    let first = fixture.bind(command("true", SandboxCapabilities::strict())).await.unwrap();
    let second = fixture.bind(command("true", SandboxCapabilities::strict())).await.unwrap();
    let temp = first.policy().session_tmp.clone().unwrap();
    assert_eq!(second.policy().session_tmp, Some(temp.clone()));
    assert_eq!(temp.metadata().unwrap().mode() & 0o7777, 0o700);
    std::fs::write(temp.join("left"), "").unwrap();

    let id = first.session().id().clone();
    assert!(fixture.gate.sessions().end(&id));
    drop(first);
    assert!(temp.exists(), "a command of the session is still under way");
    drop(second);
    assert!(!temp.exists());
    assert!(!fixture.gate.sessions().end(&id), "there is no such session any more");
    let locks: Vec<_> = std::fs::read_dir(fixture.path("home/state/locks")).unwrap().collect();
    assert!(locks.is_empty(), "{locks:?}");
}

#[tokio::test]
async fn idle_sessions_are_dropped_and_those_in_use_are_not() {
    let script = Script::new(&[ApprovalOutcome::Approved, ApprovalOutcome::Denied]);
    let fixture = Fixture::asking(&script);
    let project = fixture.make_dir("project");
    let sessions = fixture.gate.sessions();
    let bound_id = SessionId::new("bound");
    sessions.start(&bound_id, start_in(&project)).unwrap();
    let in_use = fixture.bind(SandboxCommand::new("busy", "true")).await.unwrap();
    fixture.permit(command("sh", spawns())).await.unwrap();
    assert_eq!(sessions.len(), 3);
    assert!(sessions.evict_idle(Duration::from_secs(3600)).is_empty());

    let mut evicted = sessions.evict_idle(Duration::ZERO);
    evicted.sort();
    assert_eq!(evicted, [bound_id.clone(), SessionId::new("session")]);
    let refused = fixture.permit(command("sh", spawns())).await.unwrap_err();
    assert!(matches!(refused, PermitError::Denied { .. }), "grants go with the session");
    assert_eq!(sessions.open(&bound_id).unwrap().cwd(), project, "a bound session keeps its directory");
    assert!(sessions.open(in_use.session().id()).is_ok_and(|live| Arc::ptr_eq(&live, in_use.session())));
}

#[test]
fn two_hosts_share_a_session_on_disk() {
    let fixture = Fixture::alone();
    let other = Gate::new(GateConfig::new(fixture.path("home")), ApprovalGate::new(None)).unwrap();
    let id = SessionId::new("s");
    let here = fixture.gate.sessions().open(&id).unwrap();
    let there = other.sessions().open(&id).unwrap();
    assert_eq!(here.cwd(), there.cwd());
    let temp = here.baseline().session_tmp.clone().unwrap();
    fixture.gate.sessions().end(&id);
    drop(here);
    assert!(temp.exists(), "the other host has it in use");
    other.sessions().end(&id);
    drop(there);
    assert!(!temp.exists());
}

#[test]
fn a_home_that_cannot_be_had_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    let refused = Gate::new(GateConfig::new(file.join("home")), ApprovalGate::new(None)).unwrap_err();
    assert!(matches!(&refused, GateError::Home { path, .. } if *path == file.join("home")), "{refused}");
    assert!(refused.hint().is_some());
}

#[test]
fn the_policy_of_a_session_is_frozen_when_it_starts() {
    let fixture = Fixture::alone();
    let (a, b) = (fixture.make_dir("a"), fixture.make_dir("b"));
    let link = fixture.path("link");
    symlink(&a, &link).unwrap();
    let baseline = SandboxCapabilities { fs_read: vec![link.clone()], ..SandboxCapabilities::strict() };
    let policy = SessionPolicy { baseline: baseline.clone(), ..SessionPolicy::default() };
    let start = SessionStart { policy: Some(policy), ..SessionStart::default() };
    fixture.gate.sessions().start(&SessionId::new("session"), start).unwrap();
    let permit = block_on(fixture.permit(command("true", baseline.clone()))).unwrap();
    assert_eq!(*permit.decision(), Decision::Baseline);
    assert_eq!(permit.effective().fs_read, [a]);

    std::fs::remove_file(&link).unwrap();
    symlink(&b, &link).unwrap();
    let refused = block_on(fixture.permit(command("true", baseline))).unwrap_err();
    assert!(refused.to_string().contains(&b.display().to_string()), "{refused}");
}
