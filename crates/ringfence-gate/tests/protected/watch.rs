//! What is seen during a run.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ringfence_gate::protected::{Appearance, Found, Watch, WatchEvent};
use ringfence_types::PathKind;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::support::{Place, git, repository};

/// A watch that is in force.
fn watch(found: &Found) -> Watch {
    let mut watch = Watch::with_interval(&found.watch, Duration::from_millis(1)).unwrap().unwrap();
    wait(&watch);
    assert_eq!(watch.drain(), []);
    watch
}

#[track_caller]
fn wait(watch: &Watch) {
    let fd = watch.fd();
    let ready = poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&Timespec { tv_sec: 10, tv_nsec: 0 }));
    assert_eq!(ready, Ok(1));
}

fn lost(path: &Path) -> WatchEvent {
    WatchEvent::LostMount { path: path.to_path_buf() }
}

fn appeared(path: &Path, what: Appearance) -> WatchEvent {
    WatchEvent::Appeared { path: path.to_path_buf(), what }
}

#[test]
fn git_outside_replaces_the_configuration() {
    let place = Place::repository();
    let mut watch = watch(&place.search());
    assert_eq!(watch.unwatched(), 0);
    assert!(watch.drain().is_empty());
    place.git(&["config", "a.b", "c"]);
    wait(&watch);
    let events = watch.drain();
    assert_eq!(events, [lost(&place.path(".git/config"))]);
    assert_eq!(events[0].lost_mount(), Some(&*place.path(".git/config")));
    // Once.
    place.git(&["config", "a.b", "d"]);
    assert!(watch.drain().is_empty());
}

#[test]
fn what_takes_no_mount_away_is_not_reported() {
    let place = Place::repository();
    repository(&place.path("nested"));
    let mut watch = watch(&place.search());
    place.git(&["commit", "-q", "--allow-empty", "-m", "two"]);
    place.git(&["gc", "-q"]);
    place.git(&["branch", "other"]);
    place.write("new", "");
    // Written in place, other mode, other time: the mounted inode is the same.
    fs::write(place.path(".git/config"), "[core]\n").unwrap();
    fs::set_permissions(place.path(".git/config"), std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .unwrap();
    place.write(".git/hooks/new", "");
    git(&place.path("nested"), &["commit", "-q", "--allow-empty", "-m", "two"]);
    assert_eq!(watch.drain(), []);
}

#[test]
fn directories_that_are_moved_or_removed() {
    let place = Place::repository();
    place.write(".vscode/x", "");
    repository(&place.path("nested"));
    let mut watch = watch(&place.search());
    fs::rename(place.path(".git/hooks"), place.path(".git/old")).unwrap();
    fs::remove_dir_all(place.path("nested/.git")).unwrap();
    fs::rename(place.path(".vscode"), place.path("vscode")).unwrap();
    let mut events = watch.drain();
    events.sort();
    let paths = [".git/hooks", ".vscode", "nested/.git", "nested/.git/config", "nested/.git/hooks"];
    assert_eq!(events, paths.map(|path| lost(&place.path(path))));
}

#[test]
fn names_that_appear() {
    let mut place = Place::repository();
    fs::remove_dir_all(place.path(".git/hooks")).unwrap();
    place.git(&["config", "core.hooksPath", "tools/hooks"]);
    place.deny("secret", PathKind::Missing);
    let mut watch = watch(&place.search());
    for path in [".git/commondir", ".git/config.worktree", ".mcp.json", "secret", "ordinary", ".git/other"] {
        place.write(path, "");
    }
    fs::rename(place.path("ordinary"), place.path(".envrc")).unwrap();
    fs::create_dir(place.path(".git/hooks")).unwrap();
    // Only the directory on the way: what is meant is not there.
    fs::create_dir(place.path("tools")).unwrap();
    let mut events = watch.drain();
    events.sort();
    let mut expected = [
        appeared(&place.path(".git/commondir"), Appearance::Obeyed),
        appeared(&place.path(".git/config.worktree"), Appearance::Obeyed),
        appeared(&place.path(".git/hooks"), Appearance::Obeyed),
        appeared(&place.path(".mcp.json"), Appearance::Name),
        appeared(&place.path(".envrc"), Appearance::Name),
        appeared(&place.path("secret"), Appearance::Denied),
    ];
    expected.sort();
    assert_eq!(events, expected);
}

#[test]
fn a_repository_that_appears_at_the_root() {
    let place = Place::new();
    let mut watch = watch(&place.search());
    place.git(&["init", "-q"]);
    assert_eq!(watch.drain(), [appeared(&place.path(".git"), Appearance::Repository)]);
}

#[test]
fn what_happens_before_the_watch_is_set() {
    let place = Place::repository();
    let found = place.search();
    let mut watch = Watch::with_interval(&found.watch, Duration::from_millis(50)).unwrap().unwrap();
    place.git(&["config", "a.b", "c"]);
    fs::remove_dir_all(place.path(".git/hooks")).unwrap();
    place.write(".git/commondir", "");
    wait(&watch);
    let mut events = watch.drain();
    events.sort();
    assert_eq!(
        events,
        [
            lost(&place.path(".git/config")),
            lost(&place.path(".git/hooks")),
            appeared(&place.path(".git/commondir"), Appearance::Obeyed)
        ]
    );
    // From then on at once.
    place.write(".envrc", "");
    assert_eq!(watch.drain(), [appeared(&place.path(".envrc"), Appearance::Name)]);
}

/// Each user may have 128 instances or so, and each process so many descriptors; there may be more runs.
#[test]
fn without_inotify_everything_is_compared_again_and_again() {
    if std::env::var_os("WITHOUT_INOTIFY").is_none() {
        // The limit is the whole process's.
        let test = "watch::without_inotify_everything_is_compared_again_and_again";
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test])
            .env("WITHOUT_INOTIFY", "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        return assert!(output.status.success() && text.contains("1 passed"), "{text}");
    }
    let place = Place::repository();
    let found = place.search();
    let mut watch = Watch::with_interval(&found.watch, Duration::from_millis(1)).unwrap().unwrap();
    let limit = Rlimit { current: Some(64), maximum: Some(64) };
    setrlimit(Resource::Nofile, limit).unwrap();
    let taken: Vec<_> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    wait(&watch);
    assert_eq!(watch.drain(), []);
    fs::rename(place.path(".git/config"), place.path(".git/other")).unwrap();
    wait(&watch);
    assert_eq!(watch.drain(), [lost(&place.path(".git/config"))]);
    drop(taken);
}

#[test]
fn two_paths_of_one_inode() {
    let place = Place::repository();
    fs::hard_link(place.path(".git/config"), place.path(".mcp.json")).unwrap();
    let mut watch = watch(&place.search());
    fs::remove_file(place.path(".mcp.json")).unwrap();
    assert_eq!(watch.drain(), [lost(&place.path(".mcp.json"))]);
}

#[test]
fn a_target_behind_a_link() {
    let place = Place::repository();
    place.write("settings/x", "");
    symlink("settings", place.path(".vscode")).unwrap();
    let mut watch = watch(&place.search());
    fs::rename(place.path("settings"), place.path("gone")).unwrap();
    assert_eq!(watch.drain(), [lost(&place.path("settings"))]);
}

#[test]
fn the_number_of_watches_is_bounded() {
    let mut place = Place::repository();
    for number in 0..600 {
        fs::create_dir_all(place.path(&format!("deep/er/{number}/.git"))).unwrap();
    }
    place.settings.exhaustive = true;
    let found = place.search();
    assert_eq!(found.watch.len(), 512);
    let mut watch = watch(&found);
    assert!(watch.unwatched() > 0);
    // Those nearest to the root are watched.
    place.git(&["config", "a.b", "c"]);
    assert_eq!(watch.drain(), [lost(&place.path(".git/config"))]);
}

#[test]
fn a_flood_of_events_does_not_hold_the_supervisor_up() {
    let place = Place::new();
    let mut watch = watch(&place.search());
    for number in 0..3000 {
        fs::write(place.path(&format!("f{number}")), "").unwrap();
    }
    place.write(".envrc", "");
    let mut events = Vec::new();
    for _ in 0..10 {
        events.extend(watch.drain());
    }
    assert_eq!(events, [appeared(&place.path(".envrc"), Appearance::Name)]);
}

#[test]
fn nothing_to_watch() {
    let found = Place::new().search_in(&[]);
    assert!(found.watch.is_empty());
    assert!(Watch::new(&found.watch).unwrap().is_none());
}
