//! What the search before a run finds.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use ringfence_gate::protected::{GitProtection, Settings, UserGit, search};
use ringfence_types::PathKind;

use crate::support::{Place, as_nobody, git, relative, repository, script, settle, write};

/// Compares what is read-only and what is pinned, both relative to the root and in order.
#[track_caller]
fn protects(place: &Place, read_only: &[&str], pins: &[&str]) {
    let found = place.search();
    assert_eq!(relative(place, &found.protected.read_only), read_only);
    assert_eq!(relative(place, &found.protected.pins), pins);
    assert_eq!(found.protected.incomplete, None);
    for path in found.protected.read_only.iter().chain(&found.protected.pins) {
        assert!(path.id.is_some(), "{path:?}");
    }
    // A second search relies on the index of the first and finds the same.
    let again = place.search();
    assert_eq!(again.protected, found.protected);
    assert!(again.report.relied_on.is_some());
}

#[test]
fn nothing_where_there_is_nothing() {
    protects(&Place::new(), &[], &[]);
}

#[test]
fn a_repository_at_the_root() {
    let place = Place::repository();
    protects(&place, &[".git/config", ".git/hooks"], &[".git"]);
}

#[test]
fn everything_that_git_obeys() {
    let place = Place::repository();
    place.write(".git/info/attributes", "* text\n");
    place.write(".git/config.worktree", "");
    place.write(".git/commondir", ".\n");
    protects(
        &place,
        &[".git/commondir", ".git/config", ".git/config.worktree", ".git/hooks", ".git/info/attributes"],
        &[".git", ".git/info"],
    );
}

#[test]
fn nested_repositories_at_any_depth() {
    let place = Place::repository();
    repository(&place.path("a"));
    repository(&place.path("b/c/d/e"));
    place.write("b/other/file", "");
    protects(
        &place,
        &[
            ".git/config",
            ".git/hooks",
            "a/.git/config",
            "a/.git/hooks",
            "b/c/d/e/.git/config",
            "b/c/d/e/.git/hooks",
        ],
        &[".git", "a", "a/.git", "b", "b/c", "b/c/d", "b/c/d/e", "b/c/d/e/.git"],
    );
}

#[test]
fn a_linked_work_tree_inside() {
    let place = Place::repository();
    place.git(&["worktree", "add", "-q", "tree"]);
    place.git(&["config", "extensions.worktreeConfig", "true"]);
    git(&place.path("tree"), &["config", "--worktree", "x.y", "z"]);
    protects(
        &place,
        &[
            ".git/config",
            ".git/hooks",
            ".git/worktrees/tree/commondir",
            ".git/worktrees/tree/config.worktree",
            "tree/.git",
        ],
        &[".git", ".git/worktrees", ".git/worktrees/tree", "tree"],
    );
}

#[test]
fn submodules_and_theirs() {
    let place = Place::repository();
    repository(&place.outside.join("inner"));
    repository(&place.outside.join("lib"));
    git(&place.outside.join("lib"), &["submodule", "add", "-q", "../inner", "deep"]);
    git(&place.outside.join("lib"), &["commit", "-qam", "inner"]);
    let lib = place.outside.join("lib").display().to_string();
    place.git(&["submodule", "add", "-q", "--name", "third/lib", &lib, "vendor/lib"]);
    place.git(&["submodule", "update", "-q", "--init", "--recursive"]);
    let found = place.search();
    let read_only = relative(&place, &found.protected.read_only);
    for path in [
        ".git/modules/third/lib/config",
        ".git/modules/third/lib/hooks",
        ".git/modules/third/lib/modules/deep/config",
        ".git/modules/third/lib/modules/deep/hooks",
        "vendor/lib/.git",
        "vendor/lib/deep/.git",
    ] {
        assert!(read_only.contains(&path.to_owned()), "{path} is not in {read_only:?}");
    }
    let pins = relative(&place, &found.protected.pins);
    for path in [".git/modules", ".git/modules/third", ".git/modules/third/lib", "vendor", "vendor/lib"] {
        assert!(pins.contains(&path.to_owned()), "{path} is not in {pins:?}");
    }
}

#[test]
fn bare_repositories() {
    let place = Place::repository();
    place.git(&["clone", "-q", "--bare", ".", "deep/bare.git"]);
    script(&place.path("deep/bare.git/hooks/update"));
    protects(
        &place,
        &[".git/config", ".git/hooks", "deep/bare.git/config", "deep/bare.git/hooks"],
        &[".git", "deep", "deep/bare.git"],
    );
}

#[test]
fn a_symlinked_git_directory() {
    let place = Place::repository();
    fs::rename(place.path(".git"), place.path("real")).unwrap();
    symlink("link", place.path(".git")).unwrap();
    symlink("real", place.path("link")).unwrap();
    protects(&place, &["real/config", "real/hooks"], &[".git", "link", "real"]);
    let found = place.search();
    let kind = |name: &str| found.protected.pins.iter().find(|pin| pin.path.ends_with(name)).unwrap().kind;
    assert_eq!(
        [kind(".git"), kind("link"), kind("real")],
        [PathKind::Symlink, PathKind::Symlink, PathKind::Directory]
    );
}

#[test]
fn a_git_directory_symlinked_to_the_outside() {
    let place = Place::repository();
    fs::rename(place.path(".git"), place.outside.join("real")).unwrap();
    symlink("../outside/real", place.path(".git")).unwrap();
    protects(&place, &[], &[".git"]);
}

#[test]
fn symlinked_hooks_and_configuration() {
    let place = Place::repository();
    fs::remove_dir_all(place.path(".git/hooks")).unwrap();
    fs::create_dir_all(place.path("shared/hooks")).unwrap();
    symlink("../shared/hooks", place.path(".git/hooks")).unwrap();
    fs::rename(place.path(".git/config"), place.path("shared/config")).unwrap();
    symlink(place.path("shared/config"), place.path(".git/config")).unwrap();
    protects(&place, &["shared/config", "shared/hooks"], &[".git", ".git/config", ".git/hooks", "shared"]);
}

#[test]
fn a_single_hook_that_leads_into_the_workspace() {
    let place = Place::repository();
    script(&place.path("tools/check"));
    symlink("../../tools/check", place.path(".git/hooks/pre-push")).unwrap();
    symlink("../../tools/none", place.path(".git/hooks/pre-commit")).unwrap();
    protects(&place, &[".git/config", ".git/hooks", "tools/check"], &[".git", "tools"]);
}

#[test]
fn hooks_that_the_configuration_names() {
    let place = Place::repository();
    place.write(".husky/pre-commit", "");
    place.git(&["config", "core.hooksPath", ".husky"]);
    place.git(&["add", "."]);
    place.git(&["commit", "-qm", "hooks"]);
    place.git(&["worktree", "add", "-q", "tree"]);
    let found = place.search();
    let read_only = relative(&place, &found.protected.read_only);
    // A relative path counts from each work tree.
    assert!(read_only.contains(&".husky".to_owned()) && read_only.contains(&"tree/.husky".to_owned()));
}

#[test]
fn hooks_that_the_users_own_configuration_names() {
    let mut place = Place::repository();
    let user = place.outside.join("gitconfig");
    write(&user, "[core]\n\thooksPath = ~/hooks\n[include]\n\tpath = more\n");
    write(&place.outside.join("more"), "[core]\n\thooksPath = githooks\n");
    place.settings.user = UserGit { files: vec![user], home: Some(place.root.clone()) };
    place.write("hooks/pre-commit", "");
    place.write("githooks/pre-commit", "");
    protects(&place, &[".git/config", ".git/hooks", "githooks", "hooks"], &[".git"]);
}

#[test]
fn hooks_outside_that_lead_into_a_root() {
    let mut place = Place::repository();
    for name in ["pre-commit", "pre-push", "own"] {
        script(&place.path("packages/app/scripts").join(name));
    }
    symlink("../../packages/app/scripts/pre-commit", place.path(".git/hooks/pre-commit")).unwrap();
    // The same of the hooks that the user has for all repositories.
    let hooks = place.outside.join("hooks");
    fs::create_dir(&hooks).unwrap();
    symlink(place.path("packages/app/scripts/pre-push"), hooks.join("pre-push")).unwrap();
    let user = place.outside.join("gitconfig");
    write(&user, format!("[core]\n\thooksPath = {}\n", hooks.display()));
    place.settings.user = UserGit { files: vec![user], home: None };
    let found = place.search_in(&[place.path("packages/app")]);
    let read_only = relative(&place, &found.protected.read_only);
    assert_eq!(read_only, ["packages/app/scripts/pre-commit", "packages/app/scripts/pre-push"]);
}

#[test]
fn the_users_own_configuration_in_a_root() {
    let mut place = Place::new();
    place.write("dotfiles/gitconfig", "[include]\n\tpath = ../more\n");
    place.write("more", "");
    symlink("dotfiles/gitconfig", place.path(".gitconfig")).unwrap();
    place.settings.user = UserGit { files: vec![place.path(".gitconfig")], home: Some(place.root.clone()) };
    protects(&place, &["dotfiles/gitconfig", "more"], &[".gitconfig", "dotfiles"]);
}

#[test]
fn configuration_that_is_included() {
    let place = Place::repository();
    place.write("settings/git", "[core]\n\thooksPath = from-include\n[include]\n\tpath = deeper\n");
    place.write("settings/deeper", "");
    place.write("from-include/pre-commit", "");
    place.git(&["config", "include.path", "../settings/git"]);
    place.git(&["config", "includeIf.onbranch:x.path", "../missing"]);
    protects(
        &place,
        &[".git/config", ".git/hooks", "from-include", "settings/deeper", "settings/git"],
        &[".git", "settings"],
    );
    // Includes in a circle are read once. Git itself gives up on them.
    place.write("settings/deeper", "[include]\n\tpath = git\n");
    place.search();
}

#[test]
fn a_workspace_inside_a_repository() {
    let place = Place::new();
    repository(&place.outside);
    fs::create_dir(place.outside.join("sub")).unwrap();
    write(&place.outside.join("sub/hooks/pre-commit"), "");
    git(&place.outside, &["config", "core.hooksPath", "sub/hooks"]);
    write(&place.outside.join("sub/.envrc"), "");
    write(&place.outside.join("sub/.vscode/x"), "");
    git(&place.outside, &["add", "sub/.envrc"]);
    let root = place.outside.join("sub");
    let found = place.search_in(std::slice::from_ref(&root));
    let paths: Vec<_> = found.protected.read_only.iter().map(|path| path.path.clone()).collect();
    assert_eq!(paths, [root.join(".vscode"), root.join("hooks")]);
    assert!(found.protected.pins.is_empty());
}

#[test]
fn a_root_that_is_a_git_directory() {
    let place = Place::repository();
    let root = place.path(".git");
    let found = place.search_in(std::slice::from_ref(&root));
    let paths: Vec<_> = found.protected.read_only.iter().map(|path| path.path.clone()).collect();
    assert_eq!(paths, [root.join("config"), root.join("hooks")]);
    assert!(found.protected.pins.is_empty());
}

#[test]
fn roots_in_one_another_and_denied_parts() {
    let mut place = Place::repository();
    repository(&place.path("a/denied/open/repo"));
    repository(&place.path("a/denied/hidden"));
    place.deny("a/denied", PathKind::Directory);
    place.deny("b/c/missing/x", PathKind::Missing);
    fs::create_dir_all(place.path("b/c")).unwrap();
    let roots = [place.path("a/denied/open"), place.root.clone()];
    let found = place.search_in(&roots);
    assert_eq!(
        relative(&place, &found.protected.read_only),
        [".git/config", ".git/hooks", "a/denied/open/repo/.git/config", "a/denied/open/repo/.git/hooks"]
    );
    assert_eq!(
        relative(&place, &found.protected.pins),
        [".git", "a", "a/denied/open/repo", "a/denied/open/repo/.git", "b", "b/c"]
    );
}

#[test]
fn the_whole_git_directory() {
    let mut place = Place::repository();
    place.settings.git = GitProtection::All;
    place.write(".husky/x", "");
    place.git(&["config", "core.hooksPath", ".husky"]);
    place.git(&["add", ".husky"]);
    place.git(&["commit", "-qm", "hooks"]);
    place.git(&["worktree", "add", "-q", "tree"]);
    protects(&place, &[".git", ".husky", "tree/.git", "tree/.husky"], &["tree"]);
}

#[test]
fn hooks_that_are_the_root_itself_are_reported() {
    let place = Place::repository();
    place.git(&["config", "core.hooksPath", "."]);
    let found = place.search();
    assert_eq!(relative(&place, &found.protected.read_only), [".git/config", ".git/hooks"]);
    assert!(found.protected.incomplete.unwrap().contains("holds a writable root"));
}

/// The index that says what is tracked is written by the box.
#[test]
fn what_the_next_run_obeys_is_held_though_git_tracks_it() {
    let place = Place::repository();
    for name in [".ringfence.toml", ".ringfence/x", ".envrc"] {
        place.write(name, "");
    }
    place.git(&["add", "."]);
    protects(&place, &[".git/config", ".git/hooks", ".ringfence", ".ringfence.toml"], &[".git"]);
}

#[test]
fn names_directly_below_a_root() {
    let place = Place::repository();
    for name in [".envrc", ".mcp.json", "deep/.envrc"] {
        place.write(name, "");
    }
    for name in [".vscode/a", ".vscode-extra/a", ".idea/b", "settings/x"] {
        place.write(name, "");
    }
    symlink("settings", place.path(".claude")).unwrap();
    place.git(&["add", ".envrc", ".vscode-extra", ".idea/b"]);
    protects(
        &place,
        &[".git/config", ".git/hooks", ".mcp.json", ".vscode", "settings"],
        &[".claude", ".git"],
    );
}

/// Which names git tracks is read from every form of its index.
#[test]
fn every_form_of_the_index() {
    for args in [
        &["update-index", "--index-version", "2"][..],
        &["update-index", "--index-version", "3"],
        &["update-index", "--index-version", "4"],
        &["update-index", "--split-index"],
        &["update-index", "--skip-worktree", "a"],
    ] {
        let place = Place::repository();
        for name in ["a", ".envrc", ".vscode/tasks.json", "z", ".zzz", "deep/er/x"] {
            place.write(name, "");
        }
        place.git(&["add", "."]);
        place.git(args);
        // In a split index this is an entry of the other part.
        place.write(".mcp.json", "");
        place.git(&["add", ".mcp.json"]);
        place.write(".idea/x", "");
        let found = place.search();
        let read_only = relative(&place, &found.protected.read_only);
        assert_eq!(read_only, [".git/config", ".git/hooks", ".idea"], "{args:?}");
        assert_eq!(found.protected.incomplete, None);
    }
}

#[test]
fn an_index_with_the_long_hash() {
    let place = Place::new();
    git(&place.root, &["init", "-q", "--object-format=sha256"]);
    place.write(".envrc", "");
    place.write(".idea/x", "");
    place.git(&["add", ".envrc"]);
    protects(&place, &[".git/config", ".git/hooks", ".idea"], &[".git"]);
}

#[test]
fn a_sparse_index() {
    let place = Place::repository();
    for name in [".vscode/a", ".envrc", "kept/b", "other/c"] {
        place.write(name, "");
    }
    place.git(&["add", "."]);
    place.git(&["commit", "-qm", "all"]);
    place.git(&["sparse-checkout", "set", "--cone", "--sparse-index", "kept"]);
    place.write(".vscode/b", "");
    let found = place.search();
    assert!(!relative(&place, &found.protected.read_only).contains(&".vscode".to_owned()));
}

#[test]
fn a_damaged_index_protects_everything() {
    let place = Place::repository();
    place.write(".envrc", "");
    place.git(&["add", ".envrc"]);
    place.write(".git/index", "DIRC\0\0\0\u{2}\0\0\u{1}");
    let found = place.search();
    assert!(relative(&place, &found.protected.read_only).contains(&".envrc".to_owned()));
    assert!(found.protected.incomplete.unwrap().contains("damaged"));
}

#[test]
fn names_that_are_not_text() {
    let place = Place::new();
    let odd = place.root.join(OsStr::from_bytes(b"a\nb\xff \"c"));
    repository(&odd.join("sub"));
    write(&odd.join(".envrc"), "");
    let found = place.search();
    let paths: Vec<_> = found.protected.read_only.iter().map(|path| path.path.clone()).collect();
    assert_eq!(paths, [odd.join("sub/.git/config"), odd.join("sub/.git/hooks")]);
    assert_eq!(place.search().protected, found.protected);
    // A root of such a name has an index of its own.
    let found = place.search_in(std::slice::from_ref(&odd));
    assert_eq!(found.protected.read_only.len(), 3);
}

#[test]
fn odd_kinds_of_entries() {
    let place = Place::repository();
    // A link in a loop, a link to nothing, a file that points nowhere, a directory in the place of a file.
    for (dir, target) in [("loop", "../loop/.git"), ("dangling", "../nowhere")] {
        fs::create_dir(place.path(dir)).unwrap();
        symlink(target, place.path(dir).join(".git")).unwrap();
    }
    place.write("empty/.git", "");
    place.write("nowhere-else/.git", "gitdir: ../nothing\n");
    fs::create_dir_all(place.path("strange/.git/config")).unwrap();
    fs::create_dir_all(place.path("strange/.git/hooks")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        place.path("strange/.git/commondir"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o644),
        0,
    )
    .unwrap();
    let found = place.search();
    let read_only = relative(&place, &found.protected.read_only);
    for path in ["empty/.git", "nowhere-else/.git", "strange/.git/config", "strange/.git/commondir"] {
        assert!(read_only.contains(&path.to_owned()), "{path} is not in {read_only:?}");
    }
    let pins = relative(&place, &found.protected.pins);
    assert!(pins.contains(&"loop".to_owned()) || found.protected.incomplete.is_some());
    assert!(pins.contains(&"dangling/.git".to_owned()));
}

#[test]
fn a_configuration_that_git_refuses_is_protected_all_the_same() {
    let place = Place::repository();
    place.write(".git/config", "[core\n");
    protects(&place, &[".git/config", ".git/hooks"], &[".git"]);
}

#[test]
fn a_thousand_repositories() {
    let place = Place::new();
    for number in 0..1000 {
        let git_dir = place.path(&format!("{}/r{number}/.git", number % 10));
        fs::create_dir_all(git_dir.join("hooks")).unwrap();
        fs::write(git_dir.join("config"), "").unwrap();
    }
    let mut place = place;
    place.settings.exhaustive = true;
    let found = place.search();
    assert_eq!(found.protected.read_only.len(), 2000);
    assert_eq!(found.protected.pins.len(), 10 + 2 * 1000);
    assert_eq!(found.report.repositories, 1000);
    // They are known from then on.
    place.settings.exhaustive = false;
    let again = place.search();
    assert_eq!(again.protected, found.protected);
    assert_eq!(again.report.checked, 1);
}

#[test]
fn a_search_without_time_says_so_and_the_next_goes_on() {
    let mut place = Place::repository();
    repository(&place.path("named"));
    git(&place.root, &["-c", "advice.addEmbeddedRepo=false", "add", "named"]);
    repository(&place.path("unnamed/deep"));
    place.settings.search_ms = 0;
    let found = place.search();
    let incomplete = found.protected.incomplete.unwrap();
    assert!(incomplete.contains("not looked at within 0 ms"), "{incomplete}");
    // What is known without a search is there.
    let read_only = relative(&place, &found.protected.read_only);
    assert!(read_only.contains(&".git/hooks".to_owned()));
    assert!(!read_only.contains(&"unnamed/deep/.git/hooks".to_owned()));
    place.settings.search_ms = 60_000;
    let found = place.search();
    assert_eq!(found.protected.incomplete, None);
    assert!(relative(&place, &found.protected.read_only).contains(&"unnamed/deep/.git/hooks".to_owned()));
}

#[test]
fn a_recent_look_is_relied_on_but_for_the_top() {
    let place = Place::repository();
    place.write("deep/er/x", "");
    place.search();
    // New in the top directory: found at once. Deeper: when the last look is too old.
    repository(&place.path("top"));
    repository(&place.path("deep/er/repo"));
    let found = place.search();
    let read_only = relative(&place, &found.protected.read_only);
    assert!(read_only.contains(&"top/.git/hooks".to_owned()));
    assert!(!read_only.contains(&"deep/er/repo/.git/hooks".to_owned()));
    assert!(found.report.relied_on.is_some());
    let settings = Settings { recheck_seconds: 0, ..place.settings.clone() };
    let found = search(std::slice::from_ref(&place.root), &[], &settings, Some(&place.state)).unwrap();
    assert!(relative(&place, &found.protected.read_only).contains(&"deep/er/repo/.git/hooks".to_owned()));
    assert_eq!(found.report.relied_on, None);
}

#[test]
fn directories_that_vanish_are_forgotten() {
    let mut place = Place::repository();
    repository(&place.path("a/b"));
    place.search();
    fs::remove_dir_all(place.path("a")).unwrap();
    place.settings.recheck_seconds = 0;
    protects_without_a(&place);
    place.settings.recheck_seconds = 60;
    protects_without_a(&place);
}

#[track_caller]
fn protects_without_a(place: &Place) {
    let found = place.search();
    assert_eq!(relative(place, &found.protected.read_only), [".git/config", ".git/hooks"]);
    assert_eq!(found.report.directories, 1);
}

#[test]
fn without_a_state_directory() {
    let place = Place::repository();
    settle();
    let found = search(std::slice::from_ref(&place.root), &[], &place.settings, None).unwrap();
    assert_eq!(found.protected.read_only.len(), 2);
    assert_eq!(fs::read_dir(&place.state).unwrap().count(), 0);
    // One that can't be written is reported and does no harm.
    let file = place.outside.join("file");
    fs::write(&file, "").unwrap();
    let found = search(std::slice::from_ref(&place.root), &[], &place.settings, Some(&file)).unwrap();
    assert_eq!(found.protected.read_only.len(), 2);
    assert!(found.report.index_error.is_some());
}

#[test]
fn a_damaged_state_is_built_anew() {
    let place = Place::repository();
    repository(&place.path("a"));
    let found = place.search();
    let index = fs::read_dir(place.state.join("protected")).unwrap().next().unwrap().unwrap().path();
    for text in [&b""[..], b"rfindex1", b"rfindex1\x01\0\0\0\xff\xff\xff\xff"] {
        fs::write(&index, text).unwrap();
        assert_eq!(place.search().protected, found.protected);
    }
    // Leftovers of temporary files there would be a defect.
    assert_eq!(fs::read_dir(place.state.join("protected")).unwrap().count(), 1);
}

#[test]
fn a_missing_root_is_an_error() {
    let place = Place::new();
    let missing = place.path("missing");
    let error = search(std::slice::from_ref(&missing), &[], &place.settings, None).unwrap_err();
    assert!(error.to_string().contains("missing"));
}

#[test]
fn a_root_that_is_a_file() {
    let place = Place::repository();
    let root = place.path("file");
    let found = place.search_in(std::slice::from_ref(&root));
    assert!(found.protected.read_only.is_empty() && found.protected.pins.is_empty());
}

#[test]
fn a_directory_that_cannot_be_read() {
    if rustix::process::geteuid().is_root() {
        return as_nobody("search::a_directory_that_cannot_be_read");
    }
    let place = Place::repository();
    place.write("closed/x", "");
    fs::set_permissions(place.path("closed"), fs::Permissions::from_mode(0o000)).unwrap();
    let found = place.search();
    assert!(found.protected.incomplete.unwrap().contains("closed"));
    let again = place.search();
    assert!(again.protected.incomplete.unwrap().contains("closed"), "the index remembers it");
    fs::set_permissions(place.path("closed"), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn symlinked_directories_are_not_searched() {
    let place = Place::new();
    repository(&place.outside.join("repo"));
    symlink("../outside", place.path("link")).unwrap();
    protects(&place, &[], &[]);
}

#[test]
fn a_deep_tree() {
    let place = Place::new();
    let mut path = PathBuf::from(&place.root);
    for _ in 0..300 {
        path.push("d");
    }
    repository(&path);
    let found = place.search();
    assert_eq!(found.protected.read_only.len(), 2);
    assert_eq!(found.protected.pins.len(), 301);
    assert!(found.protected.pins.windows(2).all(|pair| pair[1].path.starts_with(&pair[0].path)));
    assert!(Path::new(&found.protected.pins[0].path).ends_with("root/d"));
}
