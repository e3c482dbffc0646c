//! Stage 3 through its public surface, with an approver that answers from a script.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use common::{Fixture, Script, block_on, command, reads, spawns};
use ringfence_gate::{ApprovalGate, ApprovalOutcome, BoundCommand, Decision, PermitError};
use ringfence_types::{Excess, NetworkPolicy, SandboxCapabilities, UnixPath};

use ApprovalOutcome::{Approved, ApprovedAlways, ApprovedOnce, Denied, Timeout, Unavailable};

fn approved(outcome: ApprovalOutcome) -> Decision {
    Decision::Approved { outcome, by: String::from("script") }
}

fn granted() -> Decision {
    Decision::Grant { by: String::from("script") }
}

fn read_of(path: &Path) -> Excess {
    Excess::Read(UnixPath::from(path))
}

#[tokio::test]
async fn within_the_baseline_nobody_is_asked() {
    let script = Script::new(&[]);
    let fixture = Fixture::asking(&script);
    let permit = fixture.permit(command("true", SandboxCapabilities::strict())).await.unwrap();
    assert_eq!(*permit.decision(), Decision::Baseline);
    assert_eq!(script.count(), 0);
}

#[tokio::test]
async fn nobody_to_ask_is_answered_at_once() {
    let fixture = Fixture::alone();
    let refused = fixture.permit(command("true", spawns())).await.unwrap_err();
    assert!(matches!(&refused, PermitError::Unavailable { .. }), "{refused}");
    assert_eq!(refused.excess(), [Excess::Spawn]);

    let script = Script::new(&[ApprovedOnce]);
    fixture.gate.approval().set_requester(Some(script));
    assert!(fixture.permit(command("true", spawns())).await.is_ok(), "an approver may come later");
}

#[tokio::test]
async fn the_question_shows_what_is_asked_beyond_the_baseline() {
    let script = Script::new(&[ApprovedOnce]);
    let fixture = Fixture::new(ApprovalGate::new(Some(Arc::clone(&script) as _)), |config| {
        config.session.baseline.spawn_subprocess = true;
    });
    let data = fixture.make_dir("data");
    let mut asking = command("cat", SandboxCapabilities { spawn_subprocess: true, ..reads([&data]) });
    asking.args.push("x\u{1b}[1m".into());
    asking.justification = Some(format!("because\u{7}{}", "x".repeat(300)));
    let permit = fixture.permit(asking).await.unwrap();
    assert_eq!(*permit.decision(), approved(ApprovedOnce));
    assert_eq!(permit.effective().fs_read, std::slice::from_ref(&data));

    let asked = script.asked().remove(0);
    assert_eq!(asked.excess, [read_of(&data)], "spawning is in the baseline");
    assert_eq!(asked.command_line(), r"cat 'x\u{1b}[1m'");
    assert_eq!(asked.cwd, permit.bound().session().cwd());
    let justification = asked.justification.unwrap();
    assert!(justification.starts_with("because x"));
    assert_eq!(justification.chars().count(), 240);
}

#[tokio::test]
async fn approved_covers_the_same_and_narrower_requests_of_the_session() {
    let script = Script::new(&[Approved, Denied, Denied]);
    let fixture = Fixture::asking(&script);
    let data = fixture.make_dir("data/sub");
    let data = data.parent().unwrap();
    let request = SandboxCapabilities { spawn_subprocess: true, ..reads([data]) };
    let permit = fixture.permit(command("cat", request.clone())).await.unwrap();
    assert_eq!(*permit.decision(), approved(Approved));

    for (program, narrower) in [("cat", request.clone()), ("ls", reads([data.join("sub")])), ("sh", spawns())]
    {
        let permit = fixture.permit(command(program, narrower)).await.unwrap();
        assert_eq!(*permit.decision(), granted());
    }
    assert_eq!(script.count(), 1);
    let granted: Vec<_> = permit.bound().session().granted_elevations();
    assert_eq!(granted.len(), 1);
    assert!(granted[0].spawn_subprocess && granted[0].fs_read == [data]);

    let wider = SandboxCapabilities { network: NetworkPolicy::AllowAll, ..request.clone() };
    fixture.permit(command("cat", wider)).await.unwrap_err();
    let mut other = command("cat", request);
    other.session_id = "another".into();
    fixture.permit(other).await.unwrap_err();
    assert_eq!(script.count(), 3, "neither a wider request nor another session is covered");
}

#[tokio::test]
async fn approved_once_is_asked_again() {
    let script = Script::new(&[ApprovedOnce, ApprovedOnce]);
    let fixture = Fixture::asking(&script);
    for n in 1..=2 {
        let permit = fixture.permit(command("sh", spawns())).await.unwrap();
        assert_eq!(*permit.decision(), approved(ApprovedOnce));
        assert_eq!(script.count(), n);
        assert!(permit.bound().session().granted_elevations().is_empty());
    }
}

#[tokio::test]
async fn approved_always_needs_the_grant_store() {
    let fixture = Fixture::asking(&Script::new(&[ApprovedAlways]));
    let refused = fixture.permit(command("sh", spawns())).await.unwrap_err();
    assert!(matches!(refused, PermitError::NoGrantStore { .. }));
}

#[tokio::test]
async fn a_refusal_is_remembered_for_the_session() {
    let script = Script::new(&[Denied, ApprovedOnce, ApprovedOnce]);
    let fixture = Fixture::asking(&script);
    let refused = fixture.permit(command("/usr/bin/curl", spawns())).await.unwrap_err();
    assert!(matches!(&refused, PermitError::Denied { by, .. } if by == "script"), "{refused}");
    let refused = fixture.permit(command("curl", spawns())).await.unwrap_err();
    assert!(matches!(refused, PermitError::Remembered { .. }), "{refused}");
    assert_eq!(script.count(), 1);

    assert!(fixture.permit(command("wget", spawns())).await.is_ok(), "another program");
    let mut elsewhere = command("curl", spawns());
    elsewhere.session_id = "another".into();
    assert!(fixture.permit(elsewhere).await.is_ok(), "another session");
}

#[tokio::test]
async fn three_refusals_in_a_row_open_the_breaker() {
    let script = Script::new(&[Denied, Denied, Denied, ApprovedOnce]);
    let fixture = Fixture::asking(&script);
    for program in ["a", "b", "c"] {
        fixture.permit(command(program, spawns())).await.unwrap_err();
    }
    let refused = fixture.permit(command("d", spawns())).await.unwrap_err();
    let PermitError::BreakerOpen { retry_after, .. } = refused else { panic!("{refused}") };
    assert!(retry_after <= Duration::from_secs(300) && retry_after > Duration::from_secs(290));
    assert_eq!(script.count(), 3);
    assert!(
        fixture.permit(command("d", SandboxCapabilities::strict())).await.is_ok(),
        "the baseline goes on"
    );
}

#[tokio::test]
async fn the_gate_has_a_time_of_its_own() {
    let script = Script::new(&[]);
    let gate = ApprovalGate::new(Some(Arc::clone(&script) as _)).with_timeout(Duration::from_millis(20));
    let fixture = Fixture::new(gate, |_| {});
    for _ in 0..4 {
        let refused = fixture.permit(command("sh", spawns())).await.unwrap_err();
        assert!(matches!(refused, PermitError::Timeout { .. }), "silence is not counted: {refused}");
    }
    assert_eq!((script.count(), script.given_up()), (4, 4), "each question was taken away");
}

#[tokio::test]
async fn what_the_approver_says_of_itself_is_passed_on() {
    let fixture = Fixture::asking(&Script::new(&[Timeout, Unavailable]));
    let refused = fixture.permit(command("sh", spawns())).await.unwrap_err();
    assert!(matches!(refused, PermitError::Timeout { .. }));
    let refused = fixture.permit(command("sh", spawns())).await.unwrap_err();
    assert!(matches!(refused, PermitError::Unavailable { .. }));
}

/// Starts `n` identical requests, waits until the first has asked, lets every one of them run, and answers.
async fn concurrently(fixture: &Fixture, script: &Script, n: usize) -> Vec<Result<Decision, PermitError>> {
    let tasks: Vec<_> = (0..n)
        .map(|_| {
            let gate = Arc::clone(&fixture.gate);
            let bound = bound(fixture);
            tokio::spawn(async move { gate.permit(bound).await.map(|permit| permit.decision().clone()) })
        })
        .collect();
    while script.count() == 0 {
        tokio::task::yield_now().await;
    }
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(script.count(), 1, "they share one question");
    script.release(n);
    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await.unwrap());
    }
    results
}

fn bound(fixture: &Fixture) -> BoundCommand {
    block_on(fixture.bind(command("sh", spawns()))).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn identical_requests_share_one_question() {
    let script = Script::held(&[Approved]);
    let fixture = Fixture::asking(&script);
    let results = concurrently(&fixture, &script, 8).await;
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(script.count(), 1);

    let script = Script::held(&[Denied, ApprovedOnce]);
    let fixture = Fixture::asking(&script);
    let results = concurrently(&fixture, &script, 3).await;
    // On a busy machine one may come after the answer, which it then finds remembered.
    let refused = |result: &Result<_, _>| {
        matches!(result, Err(PermitError::Denied { .. } | PermitError::Remembered { .. }))
    };
    assert!(results.iter().all(refused), "{results:?}");
    let other = fixture.permit(command("other", spawns())).await;
    assert!(other.is_ok(), "one refusal was counted, not three");
}

#[tokio::test]
async fn an_approval_for_one_run_is_not_shared() {
    let script = Script::held(&[ApprovedOnce, Denied]);
    let fixture = Fixture::asking(&script);
    let results = concurrently(&fixture, &script, 3).await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1, "{results:?}");
    assert_eq!(script.count(), 2, "the others asked again, together");
}

/// Who waited for an answer that was for somebody else runs by a grant that came meanwhile, and by what is there then.
#[tokio::test]
async fn what_a_grant_covers_after_a_wait_is_looked_at_again() {
    for replaced in [false, true] {
        let script = Script::held(&[Approved, ApprovedOnce]);
        let fixture = Fixture::asking(&script);
        let spawn = |program: &str, cwd: Option<&str>| {
            let mut asked = command(program, spawns());
            asked.cwd = cwd.map(Into::into);
            let gate = Arc::clone(&fixture.gate);
            let bound = block_on(fixture.bind(asked)).unwrap();
            let root = bound.session().cwd().to_path_buf();
            (
                root,
                tokio::spawn(async move { gate.permit(bound).await.map(|permit| permit.decision().clone()) }),
            )
        };
        let (root, wide) = spawn("other", None);
        let sub = root.join("sub");
        std::fs::create_dir(&sub).unwrap();
        let settle = || async {
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
        };
        settle().await;
        let (_, first) = spawn("sh", Some("sub"));
        settle().await;
        let (_, waiting) = spawn("sh", Some("sub"));
        settle().await;
        assert_eq!(script.count(), 2);
        if replaced {
            std::fs::rename(&sub, root.join("old")).unwrap();
            std::fs::create_dir(&sub).unwrap();
        }
        script.release(2);
        assert!(wide.await.unwrap().is_ok());
        let (first, waiting) = (first.await.unwrap(), waiting.await.unwrap());
        if replaced {
            assert!(matches!(first, Err(PermitError::Changed { .. })), "{first:?}");
            assert!(matches!(waiting, Err(PermitError::Changed { .. })), "{waiting:?}");
        } else {
            assert!(first.is_ok());
            assert_eq!(waiting.unwrap(), granted());
        }
    }
}

#[tokio::test]
async fn who_waits_asks_when_the_first_gives_up() {
    let script = Script::held(&[ApprovedOnce]);
    let fixture = Fixture::asking(&script);
    let spawn = || {
        let gate = Arc::clone(&fixture.gate);
        let bound = bound(&fixture);
        tokio::spawn(async move { gate.permit(bound).await.is_ok() })
    };
    let first = spawn();
    while script.count() == 0 {
        tokio::task::yield_now().await;
    }
    let second = spawn();
    tokio::task::yield_now().await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    script.release(1);
    assert!(second.await.unwrap());
    assert_eq!((script.count(), script.given_up()), (2, 1));
}

#[tokio::test]
async fn a_path_that_changed_identity_is_asked_again() {
    let script = Script::new(&[Approved, Approved, Approved]);
    let fixture = Fixture::asking(&script);
    let data = fixture.make_dir("data");
    let ask = || fixture.permit(command("ls", reads([&data])));
    ask().await.unwrap();
    assert_eq!(*ask().await.unwrap().decision(), granted());

    std::fs::rename(&data, fixture.path("moved")).unwrap();
    std::fs::create_dir(&data).unwrap();
    assert_eq!(*ask().await.unwrap().decision(), approved(Approved), "another directory");

    std::fs::remove_dir(&data).unwrap();
    std::fs::create_dir(&data).unwrap();
    assert_eq!(*ask().await.unwrap().decision(), approved(Approved), "an inode number may be reused at once");
    assert_eq!(script.count(), 3);
}

#[tokio::test]
async fn a_file_that_was_replaced_is_asked_again() {
    let script = Script::new(&[Approved, Approved, Approved]);
    let fixture = Fixture::asking(&script);
    let file = fixture.path("file");
    std::fs::write(&file, "one").unwrap();
    let ask = || fixture.permit(command("cat", reads([&file])));
    ask().await.unwrap();
    std::fs::write(&file, "more of the same file").unwrap();
    assert_eq!(*ask().await.unwrap().decision(), granted(), "content is not identity");

    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, "two").unwrap();
    assert_eq!(*ask().await.unwrap().decision(), approved(Approved));

    std::fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", &file).unwrap();
    assert_eq!(*ask().await.unwrap().decision(), approved(Approved));
    assert_eq!(
        script.asked()[2].excess,
        [read_of(Path::new("/etc/passwd"))],
        "a symlink is shown by its target"
    );
}

#[tokio::test]
async fn what_changes_while_somebody_is_asked_does_not_run() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().canonicalize().unwrap().join("data");
    std::fs::create_dir(&data).unwrap();
    let swapped = data.clone();
    let script = Script::doing(&[Approved], move |_| {
        std::fs::rename(&swapped, swapped.with_file_name("old")).unwrap();
        std::fs::create_dir(&swapped).unwrap();
    });
    let fixture = Fixture::asking(&script);
    let refused = fixture.permit(command("ls", reads([&data]))).await.unwrap_err();
    assert!(matches!(&refused, PermitError::Changed { path, .. } if *path == data), "{refused}");
    assert!(
        fixture.bind(command("ls", reads([&data]))).await.unwrap().session().granted_elevations().is_empty()
    );
}

#[tokio::test]
async fn cwd_is_checked_again_after_the_wait() {
    let script = Script::doing(&[ApprovedOnce, ApprovedOnce], |asked| {
        std::fs::remove_dir(&asked.cwd).unwrap();
        if asked.args.is_empty() {
            std::os::unix::fs::symlink("/", &asked.cwd).unwrap();
        } else {
            std::fs::create_dir(&asked.cwd).unwrap();
        }
    });
    let fixture = Fixture::asking(&script);
    let bound = fixture.bind(command("true", SandboxCapabilities::strict())).await.unwrap();
    let sub = bound.session().cwd().join("sub");
    let asking = |args: &[&str]| {
        let mut command = command("sh", spawns()).args(args.iter().copied());
        command.cwd = Some(sub.clone());
        command
    };
    std::fs::create_dir(&sub).unwrap();
    let refused = fixture.permit(asking(&["again"])).await.unwrap_err();
    assert!(matches!(&refused, PermitError::Changed { path, .. } if *path == sub), "{refused}");
    let refused = fixture.permit(asking(&[])).await.unwrap_err();
    assert!(matches!(&refused, PermitError::Rebind { .. }), "{refused}");
    assert!(refused.to_string().contains("cwd outside workspace root"), "{refused}");
}

#[tokio::test]
async fn secrets_that_appear_while_somebody_is_asked_are_denied() {
    let directory = tempfile::tempdir().unwrap();
    let secret = directory.path().canonicalize().unwrap().join("secret");
    let appears = secret.clone();
    let script = Script::doing(&[ApprovedOnce], move |_| std::fs::write(&appears, "key").unwrap());
    let fixture = Fixture::new(ApprovalGate::new(Some(script)), |config| {
        config.session.baseline.fs_deny = vec![secret.clone()];
    });
    let permit = fixture.permit(command("sh", spawns())).await.unwrap();
    let denied = permit.bound().policy().deny.iter().find(|path| path.path == secret).unwrap();
    assert_eq!(denied.kind, ringfence_types::PathKind::File);
}

#[test]
fn no_runtime_is_needed() {
    let script = Script::new(&[Approved]);
    let gate = ApprovalGate::new(Some(Arc::clone(&script) as _)).with_timeout(Duration::from_millis(20));
    let fixture = Fixture::new(gate, |_| {});
    let permit = block_on(fixture.permit(command("sh", spawns()))).unwrap();
    assert_eq!(*permit.decision(), approved(Approved));
    let wider = SandboxCapabilities { loopback: true, ..spawns() };
    let refused = block_on(fixture.permit(command("sh", wider))).unwrap_err();
    assert!(matches!(refused, PermitError::Timeout { .. }), "time runs out without a runtime: {refused}");
}
