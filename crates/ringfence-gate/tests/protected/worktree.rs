//! Which repositories outside of the roots a linked work tree opens up.

use std::fs;
use std::os::unix::fs::symlink;

use ringfence_gate::protected::{common_dir_grants, enclosing_git_dir};

use crate::support::{Place, git, repository};

fn linked() -> Place {
    let place = Place::new();
    repository(&place.outside);
    fs::remove_dir(&place.root).unwrap();
    git(&place.outside, &["worktree", "add", "-q", place.root.to_str().unwrap()]);
    place
}

#[test]
fn a_linked_work_tree_has_its_common_directory() {
    let place = linked();
    assert_eq!(common_dir_grants(&place.root), [place.outside.join(".git")]);
    // With relative links too, and through a symlink.
    let git_dir = place.outside.join(".git/worktrees/root");
    place.write(".git", "gitdir: ../outside/.git/worktrees/root\n");
    fs::write(git_dir.join("gitdir"), "../../../../root/.git\n").unwrap();
    assert_eq!(common_dir_grants(&place.root), [place.outside.join(".git")]);
    fs::rename(place.outside.join(".git"), place.outside.join("real")).unwrap();
    symlink("real", place.outside.join(".git")).unwrap();
    fs::write(place.outside.join("real/worktrees/root/gitdir"), place.path(".git").to_str().unwrap())
        .unwrap();
    assert_eq!(common_dir_grants(&place.root), [place.outside.join("real")]);
}

#[test]
fn with_it_as_a_root_its_parts_are_protected() {
    let place = linked();
    let common = place.outside.join(".git");
    let found = place.search_in(&[place.root.clone(), common.clone()]);
    let paths: Vec<_> = found.protected.read_only.iter().map(|path| path.path.clone()).collect();
    assert_eq!(
        paths,
        [
            common.join("config"),
            common.join("hooks"),
            common.join("worktrees/root/commondir"),
            place.path(".git")
        ]
    );
    let pins: Vec<_> = found.protected.pins.iter().map(|path| path.path.clone()).collect();
    assert_eq!(pins, [common.join("worktrees"), common.join("worktrees/root")]);
}

#[test]
fn what_has_no_way_back_has_nothing() {
    let place = linked();
    let git_dir = place.outside.join(".git/worktrees/root");
    let links = |text: &str| {
        fs::write(git_dir.join("gitdir"), text).unwrap();
        common_dir_grants(&place.root)
    };
    assert!(links("/elsewhere/.git\n").is_empty());
    assert!(links("").is_empty());
    assert!(!links(&format!("{}/.git\n", place.root.display())).is_empty());
    fs::write(git_dir.join("commondir"), "../../..\n").unwrap();
    assert!(common_dir_grants(&place.root).is_empty());
    fs::write(git_dir.join("commondir"), "../..\n").unwrap();
    for forged in [
        format!("gitdir: {}\n", place.outside.join(".git").display()),
        format!("gitdir: {}\n", place.outside.display()),
        "gitdir: \n".to_owned(),
        "nothing".to_owned(),
    ] {
        place.write(".git", forged);
        assert!(common_dir_grants(&place.root).is_empty());
    }
    fs::remove_file(place.path(".git")).unwrap();
    assert!(common_dir_grants(&place.root).is_empty());
}

#[test]
fn what_belongs_to_another_user_has_nothing() {
    if !rustix::process::geteuid().is_root() {
        return println!("SKIP: only root can give files away");
    }
    for given in [".git", ".git/worktrees/root"] {
        let place = linked();
        std::os::unix::fs::chown(place.outside.join(given), Some(65534), None).unwrap();
        assert!(common_dir_grants(&place.root).is_empty(), "{given}");
    }
    let place = linked();
    std::os::unix::fs::chown(place.path(".git"), Some(65534), None).unwrap();
    assert!(common_dir_grants(&place.root).is_empty());
}

#[test]
fn a_repository_inside_needs_no_grant() {
    let place = Place::repository();
    place.git(&["worktree", "add", "-q", "tree"]);
    assert_eq!(common_dir_grants(&place.path("tree")), [place.path(".git")]);
    assert!(common_dir_grants(&place.root).is_empty());
}

#[test]
fn directories_that_are_gits_own() {
    let place = Place::repository();
    place.git(&["clone", "-q", "--bare", ".", "bare.git"]);
    fs::create_dir(place.path("sub")).unwrap();
    let enclosing = |path: &str| enclosing_git_dir(&place.root, &place.path(path));
    assert_eq!(enclosing(".git"), Some(place.path(".git")));
    assert_eq!(enclosing(".git/refs/heads"), Some(place.path(".git")));
    assert_eq!(enclosing("bare.git/objects"), Some(place.path("bare.git")));
    assert_eq!(enclosing("sub"), None);
    assert_eq!(enclosing(""), None);
}
