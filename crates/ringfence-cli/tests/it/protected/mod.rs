//! What the box may not plant: git's executable parts in every kind of repository, and names that tools obey.

mod kinds;
mod names;
mod planted;
mod work;

use ringfence_testkit::{Finished, Fixture};

use crate::support::git;

/// A repository with one commit in the workspace.
fn repository(fixture: &Fixture) {
    repository_at(fixture, "ws");
}

/// A repository with one commit at a folder of the fixture.
fn repository_at(fixture: &Fixture, folder: &str) {
    fixture.search_patiently();
    let dir = fixture.mkdir(folder);
    git(fixture, &dir, &["init", "-q"]);
    fixture.write(format!("{folder}/file"), "one\n");
    git(fixture, &dir, &["add", "file"]);
    git(fixture, &dir, &["commit", "-qm", "one"]);
}

/// A script inside, with an identity for git.
fn inside(fixture: &Fixture, flags: &[&str], script: &str) -> Finished {
    let identity = "git() { command git -c user.name=t -c user.email=t@example.invalid \
                    -c init.defaultBranch=main -c protocol.file.allow=always \"$@\"; }";
    fixture.shell_inside(flags, &format!("{identity}; {script}")).finish()
}

/// Asserts that a run was ended as a violation, and returns where things were moved.
#[track_caller]
fn violation(fixture: &Fixture, finished: &Finished, what: &str) {
    assert_eq!(finished.code, Some(125), "{}", finished.report());
    let text = finished.err();
    let name = std::path::Path::new(what).file_name().expect("a name").to_string_lossy().into_owned();
    assert!(text.contains(&name), "the message does not name {what}: {}", finished.report());
    assert!(!text.contains("panicked"), "{}", finished.report());
    assert!(
        text.contains(&*fixture.state().to_string_lossy()),
        "no quarantine is named: {}",
        finished.report()
    );
}
