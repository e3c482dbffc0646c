//! Moving away what a run left, and finishing that after a crash.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use ringfence_gate::protected::{
    Findings, Pending, QuarantineError, Quarantined, final_look, quarantine, recover,
};

use crate::support::{Place, git, git_command, offending, repository, script, settle, write};

/// What a run did, looked at and moved away.
fn run(place: &Place, act: impl FnOnce(&Place)) -> (Findings, Quarantined) {
    let found = place.search();
    act(place);
    let findings = final_look(&found.snapshot);
    let done = quarantine(&findings, &directory(place), &place.state);
    assert!(done.unjournaled.is_none(), "{done:?}");
    assert_eq!(fs::read_dir(place.state.join("journals")).map_or(0, Iterator::count), 0);
    (findings, done)
}

fn directory(place: &Place) -> PathBuf {
    place.state.join("quarantine/session")
}

/// Nothing that offends is left for another look at the same run.
#[track_caller]
fn is_clean(place: &Place) {
    let found = place.search();
    assert_eq!(offending(place, &final_look(&found.snapshot)), Vec::<String>::new());
}

/// Git still takes the directory for a repository.
#[track_caller]
fn works(dir: &Path) {
    git(dir, &["status", "-s"]);
    git(dir, &["commit", "-q", "--allow-empty", "-m", "again"]);
}

#[test]
fn hooks_are_moved_and_harmless_things_stay() {
    let place = Place::repository();
    let (_, done) = run(&place, |place| {
        place.git(&["init", "-q", "new"]);
        script(&place.path("new/.git/hooks/pre-commit"));
    });
    assert!(done.failed.is_empty(), "{done:?}");
    let [moved] = &done.moved[..] else { panic!("{done:?}") };
    assert_eq!(moved.from, place.path("new/.git/hooks/pre-commit"));
    assert_eq!(moved.to, directory(&place).join("1/1-pre-commit"));
    assert!(!moved.rewritten);
    assert!(!moved.from.exists());
    let metadata = fs::metadata(&moved.to).unwrap();
    assert_eq!((metadata.mode() & 0o777, fs::read(&moved.to).unwrap()), (0o600, b"#!/bin/sh\n".to_vec()));
    // A list tells where it came from.
    let list = fs::read_to_string(directory(&place).join("1/moved.json")).unwrap();
    assert!(list.contains("new/.git/hooks"), "{list}");
    assert!(place.path("new/.git/hooks/pre-commit.sample").exists());
    works(&place.path("new"));
    is_clean(&place);
}

#[test]
fn a_configuration_leaves_a_harmless_copy() {
    let place = Place::repository();
    let text = "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = x ; comment\n\tbare = false\n\
                [user]\n\tname = someone\n[url \"ext::x\"]\n\tinsteadOf = a\n[alias]\n\tst = status\n\tx = !y \\\n z\n";
    let (_, done) = run(&place, |place| {
        place.git(&["init", "-q", "new"]);
        place.write("new/.git/config", text);
        fs::set_permissions(place.path("new/.git/config"), fs::Permissions::from_mode(0o640)).unwrap();
    });
    let [moved] = &done.moved[..] else { panic!("{done:?}") };
    assert!(moved.rewritten && done.failed.is_empty());
    assert_eq!(fs::read_to_string(&moved.to).unwrap(), text);
    let copy = place.path("new/.git/config");
    let left = git_command(&place.root).args(["config", "--list", "--file"]).arg(&copy).output().unwrap();
    assert_eq!(
        String::from_utf8(left.stdout).unwrap(),
        "core.repositoryformatversion=0\ncore.bare=false\nuser.name=someone\nalias.st=status\n"
    );
    let copied = fs::read_to_string(&copy).unwrap();
    assert!(!copied.contains("ext::"), "{copied}");
    assert_eq!(fs::metadata(&copy).unwrap().mode() & 0o777, 0o640);
    works(&place.path("new"));
    is_clean(&place);
    let names = fs::read_dir(place.path("new/.git")).unwrap();
    assert!(names.flatten().all(|entry| !entry.file_name().to_string_lossy().contains("ringfence")));
}

#[test]
fn a_replaced_configuration_keeps_what_it_had() {
    let place = Place::repository();
    place.git(&["config", "core.editor", "mine"]);
    let (_, done) = run(&place, |place| {
        place.git(&["config", "alias.x", "!planted"]);
        place.git(&["config", "host.key", "value"]);
    });
    assert!(done.moved[0].rewritten);
    let text = fs::read_to_string(place.path(".git/config")).unwrap();
    assert!(text.contains("mine") && text.contains("value") && !text.contains("planted"), "{text}");
    works(&place.root);
}

#[test]
fn what_an_existing_repository_did_not_have_leaves_nothing() {
    let place = Place::repository();
    fs::remove_dir_all(place.path(".git/hooks")).unwrap();
    let (_, done) = run(&place, |place| {
        place.write(".git/config.worktree", "[core]\n\tfsmonitor = x\n\tbare = false\n");
        place.write(".git/commondir", "../elsewhere\n");
        symlink("../elsewhere", place.path(".git/hooks")).unwrap();
    });
    assert_eq!(done.moved.len(), 3);
    for name in ["config.worktree", "commondir", "hooks"] {
        assert!(fs::symlink_metadata(place.path(".git").join(name)).is_err(), "{name}");
    }
    works(&place.root);
    is_clean(&place);
}

#[test]
fn a_configuration_that_nobody_understands_leaves_nothing() {
    let place = Place::new();
    let (_, done) = run(&place, |place| place.write("new/.git/config", b"[core \"pager\0\"]\n\tx = evil\n"));
    assert!(!done.moved[0].rewritten && !place.path("new/.git/config").exists());
}

#[test]
fn nothing_is_done_where_nothing_offends() {
    let place = Place::repository();
    let (findings, done) = run(&place, |place| place.write(".envrc", ""));
    assert_eq!(findings.list.len(), 1);
    assert!(done.moved.is_empty() && done.failed.is_empty());
    assert!(!directory(&place).exists());
}

/// Another file system can't be renamed to; `/dev/shm` and the temporary directory usually are two.
#[test]
fn on_another_file_system_it_is_renamed_in_place() {
    let place = Place::repository();
    let Ok(elsewhere) = tempfile::tempdir_in("/dev/shm") else { return println!("SKIP: no /dev/shm") };
    if fs::metadata(elsewhere.path()).unwrap().dev() == fs::metadata(&place.root).unwrap().dev() {
        return println!("SKIP: /dev/shm is no file system of its own");
    }
    let found = place.search();
    place.write("new/.git/hooks/pre-commit", "planted");
    let findings = final_look(&found.snapshot);
    let done = quarantine(&findings, &elsewhere.path().join("q"), &place.state);
    assert_eq!(done.moved[0].to, place.path("new/.git/hooks/.ringfence-quarantined-1"));
    assert_eq!(fs::read_to_string(&done.moved[0].to).unwrap(), "planted");
    assert_eq!(fs::read_dir(elsewhere.path().join("q")).unwrap().count(), 0, "an empty directory is left");
    // The look at the same run finds it disarmed.
    assert!(!final_look(&found.snapshot).violation());
}

#[test]
fn a_quarantine_inside_a_root_is_not_used() {
    let place = Place::new();
    let found = place.search();
    place.write("new/.git/hooks/pre-commit", "");
    let findings = final_look(&found.snapshot);
    let done = quarantine(&findings, &place.path("q"), &place.state);
    assert!(is_in_place(&done.moved[0].to) && !place.path("q").exists());
}

fn is_in_place(path: &Path) -> bool {
    path.file_name().unwrap().to_string_lossy().starts_with(".ringfence-quarantined-")
}

/// Another box is alive and puts a symlink on the way between look and quarantine.
#[test]
fn symlinks_on_the_way_are_not_followed() {
    let place = Place::new();
    write(&place.outside.join("hooks/pre-commit"), "victim");
    let found = place.search();
    place.write("new/.git/hooks/pre-commit", "planted");
    let findings = final_look(&found.snapshot);
    fs::rename(place.path("new/.git"), place.path("new/moved")).unwrap();
    symlink("../../outside", place.path("new/.git")).unwrap();
    let done = quarantine(&findings, &directory(&place), &place.state);
    assert!(matches!(&done.failed[..], [(_, QuarantineError::Reach { .. })]), "{done:?}");
    assert_eq!(fs::read_to_string(place.outside.join("hooks/pre-commit")).unwrap(), "victim");
}

#[test]
fn what_is_something_else_by_now_is_left() {
    let place = Place::new();
    let found = place.search();
    for name in ["a", "b"] {
        place.write(&format!("new/.git/hooks/{name}"), "planted");
    }
    let findings = final_look(&found.snapshot);
    fs::rename(place.path("new/.git/hooks/a"), place.path("kept")).unwrap();
    place.write("new/.git/hooks/a", "other");
    fs::remove_file(place.path("new/.git/hooks/b")).unwrap();
    let done = quarantine(&findings, &directory(&place), &place.state);
    assert!(
        matches!(
            &done.failed[..],
            [(_, QuarantineError::Replaced { .. }), (_, QuarantineError::Gone { .. })]
        ),
        "{done:?}"
    );
    assert_eq!(fs::read_to_string(place.path("new/.git/hooks/a")).unwrap(), "other");
}

#[test]
fn without_a_journal_things_are_moved_all_the_same() {
    let place = Place::new();
    let found = place.search();
    place.write("new/.git/hooks/a", "planted");
    let findings = final_look(&found.snapshot);
    let file = place.outside.join("file");
    fs::write(&file, "").unwrap();
    let done = quarantine(&findings, &directory(&place), &file);
    assert!(matches!(done.unjournaled, Some(QuarantineError::Journal { .. })));
    assert_eq!(done.moved.len(), 1);
}

#[test]
fn names_that_are_not_text_are_moved() {
    use std::os::unix::ffi::OsStrExt;
    let place = Place::new();
    let name = std::ffi::OsStr::from_bytes(b"x\n\xff");
    let hook = place.path("a").join(name).join(".git/hooks").join(name);
    let (_, done) = run(&place, |_| write(&hook, "planted"));
    assert!(!hook.exists());
    assert_eq!(fs::read_to_string(&done.moved[0].to).unwrap(), "planted");
}

/// Runs this test in another process, up to where it ends without cleaning up.
#[track_caller]
fn crashes(test: &str, place: &Place) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env("CRASH_IN", place.root.parent().unwrap())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(77), "{}", String::from_utf8_lossy(&output.stderr));
}

fn crash_site() -> Option<Place> {
    std::env::var_os("CRASH_IN").map(|base| Place::at(Path::new(&base)))
}

#[test]
fn the_start_after_a_crash_looks_at_what_was_left() {
    if let Some(place) = crash_site() {
        let found = place.search();
        let pending = Pending::begin(&found.snapshot, &directory(&place), &place.state).unwrap().unwrap();
        script(&place.path("deep/new/.git/hooks/pre-commit"));
        place.write(".git/commondir", "../x\n");
        place.write("deep/new/.git/config", "[alias]\n\tx = !y\n");
        std::mem::forget(pending);
        std::process::exit(77);
    }
    let place = Place::repository();
    repository(&place.path("mine"));
    script(&place.path("mine/.git/hooks/pre-commit"));
    git(&place.path("mine"), &["config", "core.pager", "mine"]);
    settle();
    crashes("quarantine::the_start_after_a_crash_looks_at_what_was_left", &place);
    // What a person did since then to what was there before.
    script(&place.path("mine/.git/hooks/pre-push"));
    git(&place.path("mine"), &["config", "core.editor", "mine"]);
    // Another run that starts and ends in between takes nothing away from that.
    let found = place.search();
    assert!(!final_look(&found.snapshot).violation());

    let recovered = recover(&place.state).unwrap();
    let [done] = &recovered[..] else { panic!("{recovered:?}") };
    let mut from: Vec<_> = done.moved.iter().map(|moved| moved.from.clone()).collect();
    from.sort();
    let expected = [".git/commondir", "deep/new/.git/config", "deep/new/.git/hooks/pre-commit"];
    assert_eq!(from, expected.map(|path| place.path(path)));
    assert!(done.moved.iter().all(|moved| moved.to.starts_with(directory(&place))));
    assert!(recover(&place.state).unwrap().is_empty());
}

#[test]
fn a_run_that_goes_on_is_left_alone() {
    let place = Place::new();
    let found = place.search();
    let pending = Pending::begin(&found.snapshot, &directory(&place), &place.state).unwrap();
    place.write("new/.git/hooks/a", "planted");
    assert!(recover(&place.state).unwrap().is_empty());
    assert!(place.path("new/.git/hooks/a").exists());
    drop(pending);
    assert_eq!(fs::read_dir(place.state.join("journals")).unwrap().count(), 0);
}

/// As `sudo -E` leaves it, with the caller's home and root's files. Only root can make one.
#[test]
fn a_note_of_another_user_stops_nobody() {
    if let Some(place) = crash_site() {
        assert!(recover(&place.state).unwrap().is_empty());
        // The control: what is one's own and can't be read is no note that is left to somebody else.
        let own = place.state.join("journals/run-4000000-1.json");
        write(&own, "{}");
        fs::set_permissions(&own, fs::Permissions::from_mode(0o000)).unwrap();
        assert!(recover(&place.state).is_err());
        std::process::exit(77);
    }
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let place = Place::new();
    let nobody = 65534;
    let note = place.state.join("journals/run-4000000-0.json");
    write(&note, "{}");
    fs::set_permissions(&note, fs::Permissions::from_mode(0o600)).unwrap();
    for dir in [place.root.parent().unwrap(), &place.state, &place.state.join("journals")] {
        std::os::unix::fs::chown(dir, Some(nobody), Some(nobody)).unwrap();
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "quarantine::a_note_of_another_user_stops_nobody", "--nocapture"])
        .env("CRASH_IN", place.root.parent().unwrap())
        .current_dir("/")
        .uid(nobody)
        .gid(nobody)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(77), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(note.exists());
}

#[test]
fn the_start_after_a_crash_waits_for_the_box_to_die() {
    if let Some(place) = crash_site() {
        let found = place.search();
        let pending = Pending::begin(&found.snapshot, &directory(&place), &place.state).unwrap().unwrap();
        // The box lives on for a while with a copy of the lock.
        let lock = rustix::io::dup(pending.lock()).unwrap();
        let hook = place.path("new/.git/hooks");
        fs::create_dir_all(&hook).unwrap();
        let script = "sleep 0.3; echo planted >pre-commit";
        Command::new("sh").args(["-c", script]).current_dir(hook).stdin(lock).spawn().unwrap();
        std::mem::forget(pending);
        std::process::exit(77);
    }
    let place = Place::new();
    crashes("quarantine::the_start_after_a_crash_waits_for_the_box_to_die", &place);
    let recovered = recover(&place.state).unwrap();
    assert_eq!(recovered[0].moved[0].from, place.path("new/.git/hooks/pre-commit"));
}

#[test]
fn the_start_after_a_crash_finishes_what_was_begun() {
    let place = Place::repository();
    let found = place.search();
    for name in ["a", "b", "c"] {
        place.write(&format!("new/.git/hooks/{name}"), "planted");
    }
    place.write("new/.git/config", "[core]\n\tbare = false\n\tpager = x\n");
    let findings = final_look(&found.snapshot);
    let journal = journal_of(&place, &findings);
    // The crash came after the first hook and the configuration, and before the rest.
    let target = directory(&place).join("1");
    fs::create_dir_all(&target).unwrap();
    fs::rename(place.path("new/.git/hooks/a"), target.join("2-a")).unwrap();
    fs::rename(place.path("new/.git/config"), target.join("1-config")).unwrap();
    // Meanwhile a person has put something else in the place of one.
    fs::rename(place.path("new/.git/hooks/c"), place.path("c")).unwrap();
    place.write("new/.git/hooks/c", "mine");
    fs::create_dir_all(place.state.join("journals")).unwrap();
    fs::write(place.state.join("journals/quarantine-4000000-0.json"), journal).unwrap();

    let recovered = recover(&place.state).unwrap();
    let [done] = &recovered[..] else { panic!("{recovered:?}") };
    assert!(done.failed.is_empty(), "{done:?}");
    assert_eq!(done.moved.len(), 1);
    assert_eq!(done.moved[0].from, place.path("new/.git/hooks/b"));
    assert_eq!(fs::read_to_string(place.path("new/.git/hooks/c")).unwrap(), "mine");
    let config = fs::read_to_string(place.path("new/.git/config")).unwrap();
    assert!(config.contains("bare") && !config.contains("pager"), "{config}");
    assert_eq!(fs::read_dir(place.state.join("journals")).unwrap().count(), 0);
}

/// The journal as it is on disk before the first move, kept by a quarantine that can't reach anything.
fn journal_of(place: &Place, findings: &Findings) -> String {
    let hidden = place.outside.join("hidden");
    let list = directory(place).join("1/moved.json");
    // The list beside the moved files is the journal's text.
    let copy = place.outside.join("copy");
    copy_tree(&place.root, &copy);
    let done = quarantine(findings, &directory(place), &place.state);
    assert_eq!(done.moved.len(), 4);
    let text = fs::read_to_string(&list).unwrap();
    fs::remove_dir_all(directory(place)).unwrap();
    fs::rename(&place.root, &hidden).unwrap();
    fs::rename(&copy, &place.root).unwrap();
    with_new_identities(place, &text)
}

/// The copy has other inodes than those that were written down.
fn with_new_identities(place: &Place, text: &str) -> String {
    let mut moves: serde_json::Value = serde_json::from_str(text).unwrap();
    for planned in moves.as_array_mut().unwrap() {
        let path =
            place.root.join(planned["parent"].as_str().unwrap()).join(planned["name"].as_str().unwrap());
        let metadata = fs::symlink_metadata(&path).unwrap();
        let birth = metadata.created().ok().map(|time| {
            i64::try_from(time.duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos()).unwrap()
        });
        planned["id"] = serde_json::json!({
            "dev": metadata.dev(), "ino": metadata.ino(), "birth": birth, "handle": null
        });
    }
    moves.to_string()
}

fn copy_tree(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(status.success());
}
