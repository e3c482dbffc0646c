//! What the look after a run finds. The box is played by the tests: what they do between search and look is what a
//! command with those writable roots could do.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use ringfence_gate::protected::{FindingKind, Findings, Found, final_look, search};
use ringfence_types::{DenialKind, DenialSource, PathKind, ResolvedPath};

use crate::support::{Place, as_nobody, git, offending, reported, repository, script, settle, write};

/// What is found after `act`, which is done between search and look.
fn after(place: &Place, act: impl FnOnce(&Place)) -> Findings {
    let found = place.search();
    act(place);
    final_look(&found.snapshot)
}

#[track_caller]
fn finds(place: &Place, expected: &[&str], act: impl FnOnce(&Place)) {
    let findings = after(place, act);
    assert_eq!(offending(place, &findings), expected, "{:?}", findings.list);
    assert_eq!(findings.violation(), !expected.is_empty());
    assert!(findings.incomplete.is_empty(), "{:?}", findings.incomplete);
}

#[track_caller]
fn finds_nothing(place: &Place, act: impl FnOnce(&Place)) {
    let findings = after(place, act);
    assert!(findings.list.is_empty(), "{:?}", findings.list);
    assert!(findings.incomplete.is_empty(), "{:?}", findings.incomplete);
}

#[test]
fn ordinary_git_work_is_harmless() {
    let place = Place::repository();
    repository(&place.path("nested"));
    finds_nothing(&place, |place| {
        for commands in [
            &["checkout", "-qb", "topic"][..],
            &["commit", "-q", "--allow-empty", "-m", "two"],
            &["stash", "-q"],
            &["checkout", "-q", "main"],
            &["merge", "-q", "topic"],
            &["rebase", "-q", "topic"],
            &["gc", "-q"],
            &["worktree", "add", "-q", "tree"],
            &["clone", "-q", ".", "clone"],
            &["clone", "-q", "--bare", ".", "bare.git"],
            &["init", "-q", "new"],
            &["init", "-q", "--separate-git-dir=store", "separate"],
        ] {
            if commands[0] == "stash" {
                place.write("file", "changed\n");
            }
            place.git(commands);
        }
        git(&place.path("nested"), &["commit", "-q", "--allow-empty", "-m", "two"]);
        git(&place.path("new"), &["config", "user.name", "someone"]);
        git(&place.path("new"), &["config", "alias.st", "status"]);
        git(&place.path("new"), &["sparse-checkout", "set", "--cone"]);
        git(&place.path("tree"), &["commit", "-q", "--allow-empty", "-m", "three"]);
    });
    // What was harmless and new is protected in the next run.
    let found = place.search();
    for path in ["new/.git/hooks", "clone/.git/config", "bare.git/config", "store/config", "tree/.git"] {
        assert!(found.protected.read_only.iter().any(|held| held.path == place.path(path)), "{path}");
    }
}

#[test]
fn new_submodules_are_harmless() {
    let place = Place::repository();
    repository(&place.outside.join("lib"));
    let lib = place.outside.join("lib").display().to_string();
    finds_nothing(&place, |place| {
        fs::create_dir(place.path(".git/modules")).unwrap();
        // As inside, where `config` can't be written, but the clone is made.
        place.git(&["clone", "-q", "--separate-git-dir=.git/modules/lib", &lib, "lib"]);
        git(&place.path("lib"), &["config", "core.worktree", "../../../lib"]);
    });
}

#[test]
fn hooks_of_new_repositories() {
    finds(&Place::repository(), &["new/.git/hooks/post-commit", "new/.git/hooks/x"], |place| {
        place.git(&["init", "-q", "new"]);
        script(&place.path("new/.git/hooks/post-commit"));
        // Neither executable nor a name that git knows now.
        place.write("new/.git/hooks/x", "");
        place.write("new/.git/hooks/y.sample", "");
        place.write("new/.git/hooks/dir/z", "");
    });
}

#[test]
fn hooks_that_were_moved_along() {
    // The directory is older than the run, and so are its files; only its place is new.
    let place = Place::repository();
    place.write("data/hooks/pre-commit", "");
    place.write("data/config", "[core]\n\tpager = x\n");
    place.write("data/HEAD", "ref: refs/heads/main\n");
    fs::create_dir_all(place.path("deep/er")).unwrap();
    finds(&place, &["deep/er/.git/config", "deep/er/.git/hooks/pre-commit"], |place| {
        fs::rename(place.path("data"), place.path("deep/er/.git")).unwrap();
    });
}

#[test]
fn a_repository_that_came_with_its_parent() {
    let place = Place::repository();
    finds(&place, &["a/b/moved/.git/hooks/pre-push"], |place| {
        place.git(&["init", "-q", "new"]);
        place.write("new/.git/hooks/pre-push", "");
        fs::create_dir_all(place.path("a/b")).unwrap();
        fs::rename(place.path("new"), place.path("a/b/moved")).unwrap();
    });
}

#[test]
fn an_old_directory_that_becomes_a_repository() {
    let place = Place::repository();
    place.write("data/hooks/pre-commit", "");
    place.write("data/config", "[alias]\n\tst = !x\n");
    finds(&place, &["data/config", "data/hooks/pre-commit"], |place| {
        place.write("data/HEAD", "ref: refs/heads/main\n");
        fs::create_dir_all(place.path("data/objects")).unwrap();
        fs::create_dir_all(place.path("data/refs")).unwrap();
    });
}

#[test]
fn a_bare_repository_hides_nothing_below_it() {
    finds(&Place::new(), &["sub/objects/.git/hooks/pre-commit", "sub/x/.git/hooks/pre-commit"], |place| {
        for name in ["HEAD", "objects/x", "refs/x"] {
            place.write(&format!("sub/{name}"), "");
        }
        place.write("sub/x/.git/hooks/pre-commit", "");
        place.write("sub/objects/.git/hooks/pre-commit", "");
    });
}

#[test]
fn modification_times_that_were_put_back_hide_nothing() {
    let place = Place::new();
    place.write("a/b/x", "");
    let dir = place.path("a/b");
    let old = fs::metadata(&dir).unwrap().modified().unwrap();
    finds(&place, &["a/b/.git/hooks/pre-commit"], |place| {
        place.write("a/b/.git/hooks/pre-commit", "");
        for path in [place.path("a/b/.git/hooks/pre-commit"), place.path("a/b/.git"), dir.clone()] {
            fs::File::open(path).unwrap().set_modified(old).unwrap();
        }
    });
}

#[test]
fn repositories_behind_links() {
    let place = Place::repository();
    finds(&place, &["e/store/hooks/x", "store/hooks/y"], |place| {
        place.git(&["init", "-q", "--separate-git-dir=store", "tree"]);
        place.write("store/hooks/y", "");
        place.git(&["init", "-q", "e"]);
        fs::rename(place.path("e/.git"), place.path("e/store")).unwrap();
        symlink("store", place.path("e/.git")).unwrap();
        place.write("e/store/hooks/x", "");
    });
}

#[test]
fn symlinks_in_a_new_repository() {
    let place = Place::new();
    script(&place.outside.join("hooks/pre-commit"));
    write(&place.outside.join("victim"), "");
    finds(&place, &["a/.git/config", "a/.git/hooks", "b/.git/hooks/pre-push"], |place| {
        for name in ["a", "b"] {
            place.git(&["init", "-q", name]);
        }
        fs::remove_file(place.path("a/.git/config")).unwrap();
        symlink(place.outside.join("victim"), place.path("a/.git/config")).unwrap();
        fs::remove_dir_all(place.path("a/.git/hooks")).unwrap();
        symlink(place.outside.join("hooks"), place.path("a/.git/hooks")).unwrap();
        symlink(place.outside.join("victim"), place.path("b/.git/hooks/pre-push")).unwrap();
    });
}

#[test]
fn configuration_that_executes() {
    let findings = after(&Place::repository(), |place| {
        place.git(&["init", "-q", "new"]);
        let text = "[core]\n\tfsmonitor = x\n\tbare = false\n[Filter \"a.b\"]\n\tCLEAN = y\n[url \"ext::z\"]\ninsteadOf=a\n";
        place.write("new/.git/config", text);
    });
    let FindingKind::Configuration { keys } = &findings.list[0].kind else { panic!("{:?}", findings.list) };
    assert_eq!(keys, &["core.fsmonitor", "filter.a.b.clean", "url.ext::z.insteadof"]);
}

#[test]
fn configuration_that_nobody_understands() {
    for text in [&b"[core\n"[..], b"[core \"pager\0\"]\n\tx = evil\n", &[b'#'; 2 << 20]] {
        let findings = after(&Place::new(), |place| place.write("new/.git/config", text));
        assert_eq!(findings.list[0].kind, FindingKind::UnreadableConfiguration);
    }
}

#[test]
fn a_work_tree_that_leads_out() {
    finds(&Place::new(), &["new/.git/config"], |place| {
        place.git(&["init", "-q", "new"]);
        git(&place.path("new"), &["config", "core.worktree", "../../../outside"]);
    });
}

#[test]
fn names_that_an_existing_repository_did_not_have() {
    let place = Place::repository();
    fs::remove_dir_all(place.path(".git/hooks")).unwrap();
    repository(&place.path("nested"));
    finds(
        &place,
        &[".git/commondir", ".git/config.worktree", ".git/hooks/pre-commit", "nested/.git/commondir"],
        |place| {
            place.write(".git/hooks/pre-commit", "");
            place.write(".git/hooks/pre-push.sample", "");
            place.write(".git/config.worktree", "[core]\n\tpager = x\n");
            place.write(".git/commondir", "../elsewhere\n");
            place.write("nested/.git/commondir", "../..\n");
        },
    );
}

#[test]
fn hooks_that_an_existing_repository_did_not_have_as_a_link() {
    let place = Place::repository();
    fs::remove_dir_all(place.path(".git/hooks")).unwrap();
    place.write("data/pre-commit", "");
    let findings = after(&place, |place| symlink("../data", place.path(".git/hooks")).unwrap());
    assert!(offending(&place, &findings).contains(&".git/hooks".to_owned()), "{:?}", findings.list);
}

#[test]
fn an_empty_git_directory_may_be_filled() {
    let place = Place::new();
    fs::create_dir(place.path(".git")).unwrap();
    finds_nothing(&place, |place| place.git(&["init", "-q"]));
}

#[test]
fn a_hooks_path_that_did_not_exist() {
    let place = Place::repository();
    place.git(&["config", "core.hooksPath", "tools/hooks"]);
    finds(&place, &["tools/hooks/pre-commit"], |place| {
        place.write("tools/hooks/pre-commit", "");
        place.write("tools/hooks/README", "");
    });
}

#[test]
fn the_target_of_a_hook_that_led_nowhere() {
    let place = Place::repository();
    symlink("../../tools/check", place.path(".git/hooks/pre-commit")).unwrap();
    finds(&place, &["tools/check"], |place| script(&place.path("tools/check")));
}

#[test]
fn the_target_of_an_include_that_did_not_exist() {
    let place = Place::repository();
    place.git(&["config", "include.path", "../settings"]);
    finds(&place, &["settings"], |place| place.write("settings", "[core]\n\teditor = x\n"));
}

#[test]
fn redirections_of_new_linked_work_trees() {
    let place = Place::repository();
    finds(&place, &[".git/worktrees/tree/commondir"], |place| {
        place.git(&["worktree", "add", "-q", "tree"]);
        place.git(&["init", "-q", "evil"]);
        place.write(".git/worktrees/tree/commondir", "../../../evil/.git\n");
    });
}

#[test]
fn tracked_hooks_in_a_new_work_tree_are_copies() {
    let place = Place::repository();
    script(&place.path(".husky/pre-commit"));
    place.write(".husky/helper", "");
    place.git(&["config", "core.hooksPath", ".husky"]);
    place.git(&["add", "."]);
    place.git(&["commit", "-qm", "hooks"]);
    finds(&place, &["other/.husky/pre-commit"], |place| {
        place.git(&["-c", "core.hooksPath=", "worktree", "add", "-q", "tree"]);
        place.git(&["-c", "core.hooksPath=", "worktree", "add", "-q", "other"]);
        place.write("other/.husky/pre-commit", "planted");
    });
}

#[test]
fn hooks_from_the_users_templates_are_copies() {
    let mut place = Place::new();
    let template = place.outside.join("template");
    script(&template.join("hooks/pre-commit"));
    let config = place.outside.join("gitconfig");
    write(&config, format!("[init]\n\ttemplateDir = {}\n", template.display()));
    place.settings.user.files = vec![config];
    finds(&place, &["new/.git/hooks/pre-push"], |place| {
        place.git(&["init", "-q", "--template", template.to_str().unwrap(), "new"]);
        script(&place.path("new/.git/hooks/pre-push"));
    });
}

/// A host program that replaces a protected file: the box could write the new one.
#[test]
fn what_was_replaced_from_outside() {
    let place = Place::repository();
    place.git(&["config", "core.editor", "mine"]);
    let findings = after(&place, |place| {
        place.git(&["config", "host.key", "value"]);
        write(&place.path(".git/config"), fs::read(place.path(".git/config")).unwrap());
    });
    assert_eq!(offending(&place, &findings), Vec::<String>::new());
    assert_eq!(reported(&place, &findings), [(".git/config".to_owned(), FindingKind::LostMount)]);
    // With something planted in it.
    let findings = after(&place, |place| place.git(&["config", "alias.x", "!planted"]));
    let kind = FindingKind::Configuration { keys: vec!["alias.x".to_owned()] };
    assert_eq!(
        findings.list.iter().map(|finding| &finding.kind).collect::<Vec<_>>(),
        [&kind, &FindingKind::LostMount]
    );
}

#[test]
fn hooks_that_were_replaced_from_outside() {
    let place = Place::repository();
    script(&place.path(".git/hooks/pre-commit"));
    let findings = after(&place, |place| {
        fs::rename(place.path(".git/hooks"), place.path(".git/old")).unwrap();
        script(&place.path(".git/hooks/pre-push"));
    });
    assert_eq!(offending(&place, &findings), [".git/hooks/pre-push"]);
    assert_eq!(reported(&place, &findings), [(".git/hooks".to_owned(), FindingKind::LostMount)]);
    // Gone altogether.
    let findings = after(&place, |place| fs::remove_dir_all(place.path(".git/hooks")).unwrap());
    assert_eq!(reported(&place, &findings), [(".git/hooks".to_owned(), FindingKind::LostMount)]);
}

#[test]
fn hooks_that_were_changed_in_place_are_the_hosts() {
    let place = Place::repository();
    let findings = after(&place, |place| script(&place.path(".git/hooks/pre-commit")));
    assert_eq!(offending(&place, &findings), Vec::<String>::new());
    assert_eq!(reported(&place, &findings), [(".git/hooks".to_owned(), FindingKind::Changed)]);
}

#[test]
fn a_link_to_a_git_directory_that_was_turned() {
    let place = Place::repository();
    place.git(&["worktree", "add", "-q", "tree"]);
    let findings = after(&place, |place| {
        place.git(&["init", "-q", "evil"]);
        fs::remove_file(place.path("tree/.git")).unwrap();
        place.write("tree/.git", "gitdir: ../evil/.git\n");
    });
    assert_eq!(offending(&place, &findings), ["tree/.git"]);
}

#[test]
fn other_names_are_reported() {
    let mut place = Place::repository();
    place.write(".vscode/tasks.json", "{}");
    place.write(".envrc", "");
    place.write(".idea/x", "");
    place.git(&["add", ".vscode", ".envrc"]);
    place.deny("secret", PathKind::Missing);
    let findings = after(&place, |place| {
        place.write(".vscode/tasks.json", "{ }");
        fs::remove_file(place.path(".envrc")).unwrap();
        place.write(".mcp.json", "{}");
        place.write("deep/.mcp.json", "{}");
        place.write("secret", "");
        fs::rename(place.path(".idea"), place.path("idea")).unwrap();
    });
    // No mount can cover what is not there.
    assert_eq!(offending(&place, &findings), ["secret"]);
    let named = |path: &str, kind| (path.to_owned(), kind);
    assert_eq!(
        reported(&place, &findings),
        [
            named(".envrc", FindingKind::TrackedName),
            named(".idea", FindingKind::LostMount),
            named(".mcp.json", FindingKind::NewName),
            named(".vscode", FindingKind::TrackedName),
        ]
    );
    for denial in findings.denials() {
        assert_eq!(
            (denial.kind, denial.source, denial.certain),
            (DenialKind::Protected, DenialSource::Watch, true)
        );
    }
    assert!(findings.denials()[2].target.ends_with("/.mcp.json"));
}

#[test]
fn what_a_linked_name_leads_to_is_reported() {
    let place = Place::repository();
    place.write("settings/x", "");
    symlink("settings", place.path(".vscode")).unwrap();
    symlink(place.outside.join("elsewhere"), place.path(".idea")).unwrap();
    fs::create_dir(place.outside.join("elsewhere")).unwrap();
    let findings = after(&place, |place| {
        fs::rename(place.path("settings"), place.path("gone")).unwrap();
        place.write("settings/tasks.json", "{}");
        // No box can write there.
        fs::remove_dir(place.outside.join("elsewhere")).unwrap();
    });
    assert_eq!(reported(&place, &findings), [("settings".to_owned(), FindingKind::LostMount)]);
}

/// A repository that the search missed is not the run's, what the run put into it is.
#[test]
fn repositories_that_the_search_missed() {
    let mut place = Place::repository();
    repository(&place.path("deep/er/mine"));
    script(&place.path("deep/er/mine/.git/hooks/pre-commit"));
    git(&place.path("deep/er/mine"), &["config", "core.pager", "mine"]);
    place.settings.search_ms = 0;
    let found = place.search();
    assert!(found.protected.incomplete.is_some());
    script(&place.path("deep/er/mine/.git/hooks/pre-push"));
    let findings = final_look(&found.snapshot);
    assert_eq!(offending(&place, &findings), ["deep/er/mine/.git/hooks/pre-push"]);
    fs::remove_file(place.path("deep/er/mine/.git/hooks/pre-push")).unwrap();
    // The look has made the index complete.
    let found = place.search();
    assert_eq!(found.protected.incomplete, None);
    assert!(found.protected.read_only.iter().any(|held| held.path.ends_with("mine/.git/hooks")));
    finds_nothing(&place, |_| {});
}

#[test]
fn runs_at_the_same_time_see_their_own_changes() {
    let place = Place::repository();
    let first = place.search();
    place.git(&["init", "-q", "new"]);
    place.write("new/.git/hooks/pre-commit", "");
    // The second run starts and ends in between, and takes the hook into the index.
    let second = place.search();
    assert!(!final_look(&second.snapshot).violation());
    assert_eq!(offending(&place, &final_look(&first.snapshot)), ["new/.git/hooks/pre-commit"]);
}

#[test]
fn without_a_state_directory_the_index_is_kept_in_memory() {
    let place = Place::repository();
    place.write("a/b/c", "");
    settle();
    let settings = &place.settings;
    let found: Found = search(std::slice::from_ref(&place.root), &[], settings, None).unwrap();
    place.write("a/b/.git/hooks/x", "");
    assert_eq!(offending(&place, &final_look(&found.snapshot)), ["a/b/.git/hooks/x"]);
}

#[test]
fn several_roots() {
    let place = Place::new();
    let roots = [place.path("one"), place.path("two"), place.path("one/inner")];
    for root in &roots {
        fs::create_dir_all(root).unwrap();
    }
    let found = place.search_in(&roots);
    for root in &roots {
        write(&root.join("sub/.git/hooks/x"), "");
    }
    write(&place.path("three/.git/hooks/x"), "");
    assert_eq!(
        offending(&place, &final_look(&found.snapshot)),
        ["one/inner/sub/.git/hooks/x", "one/sub/.git/hooks/x", "two/sub/.git/hooks/x"]
    );
}

#[test]
fn a_root_that_was_replaced_is_reported() {
    let place = Place::repository();
    let findings = after(&place, |place| {
        fs::rename(&place.root, place.outside.join("gone")).unwrap();
        fs::create_dir(&place.root).unwrap();
    });
    assert!(findings.incomplete.iter().any(|note| note.contains("another directory")), "{findings:?}");
}

#[test]
fn what_cannot_be_looked_into() {
    if rustix::process::geteuid().is_root() {
        return as_nobody("look::what_cannot_be_looked_into");
    }
    let place = Place::repository();
    place.write("mine/.git/hooks/pre-commit", "");
    let closed = fs::Permissions::from_mode(0o000);
    fs::set_permissions(place.path("mine/.git"), closed.clone()).unwrap();
    let findings = after(&place, |place| {
        place.write("new/.git/hooks/pre-commit", "");
        fs::set_permissions(place.path("new/.git"), closed.clone()).unwrap();
        place.write("shut/.git/hooks/pre-commit", "");
        fs::set_permissions(place.path("shut"), closed.clone()).unwrap();
    });
    assert_eq!(offending(&place, &findings), ["new/.git", "shut"]);
    assert!(findings.incomplete.iter().any(|note| note.contains("shut")), "{findings:?}");
    for path in ["mine/.git", "new/.git", "shut"] {
        fs::set_permissions(place.path(path), fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn hooks_that_can_be_run_and_not_listed() {
    if rustix::process::geteuid().is_root() {
        return as_nobody("look::hooks_that_can_be_run_and_not_listed");
    }
    // The second can be listed, and then opened up.
    for mode in [0o311, 0o600] {
        closed_hooks(mode);
    }
}

fn closed_hooks(mode: u32) {
    let closed = fs::Permissions::from_mode(mode);
    let place = Place::repository();
    fs::remove_dir_all(place.path(".git/hooks")).unwrap();
    let findings = after(&place, |place| {
        place.git(&["init", "-q", "new"]);
        place.git(&["init", "-q", "other"]);
        for hooks in [".git/hooks", "new/.git/hooks"] {
            script(&place.path(hooks).join("pre-commit"));
            fs::set_permissions(place.path(hooks), closed.clone()).unwrap();
        }
    });
    assert_eq!(offending(&place, &findings), [".git/hooks", "new/.git/hooks"]);
    // Those that were there before can hide a link into the root, unless they can be listed.
    let incomplete = place.search().protected.incomplete;
    assert_eq!(incomplete.is_some_and(|note| note.contains("hooks")), mode == 0o311);
    for hooks in [".git/hooks", "new/.git/hooks"] {
        fs::set_permissions(place.path(hooks), fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn links_to_git_directories_where_nothing_is_judged() {
    let plant = |place: &Place| {
        let store = place.outside.join("tmp/store");
        for name in ["pointer", "missing", "link"] {
            fs::create_dir_all(place.path(name)).unwrap();
        }
        place.write("pointer/.git", format!("gitdir: {}\n", store.display()));
        place.write("missing/.git", format!("gitdir: {}\n", place.outside.join("tmp/later").display()));
        symlink(&store, place.path("link/.git")).unwrap();
    };
    let place = || {
        let place = Place::repository();
        git(&place.outside, &["init", "-q", "--bare", "tmp/store"]);
        script(&place.outside.join("tmp/store/hooks/pre-commit"));
        place
    };
    let mut denied = place();
    // As Ringfence's home is, with the private temp and the caches of other boxes in it.
    let path = denied.outside.clone();
    denied.deny.push(ResolvedPath { path, kind: PathKind::Directory, id: None });
    finds(&denied, &["link/.git", "missing/.git", "pointer/.git"], plant);
    // What no box writes is the user's own.
    finds(&place(), &[], plant);
}

#[test]
fn denied_parts_are_not_judged() {
    let mut place = Place::repository();
    fs::create_dir_all(place.path("denied/x")).unwrap();
    place.deny("denied", PathKind::Directory);
    finds_nothing(&place, |place| place.write("denied/x/.git/hooks/pre-commit", ""));
}

#[test]
fn names_that_are_not_text_are_found() {
    use std::os::unix::ffi::OsStrExt;
    let place = Place::new();
    let odd = place.root.join(std::ffi::OsStr::from_bytes(b"a\nb\xff"));
    fs::create_dir(&odd).unwrap();
    let findings = after(&place, |_| write(&odd.join(".git/hooks/x\n"), ""));
    assert_eq!(findings.list[0].path, odd.join(".git/hooks/x\n"));
    assert!(findings.denials()[0].target.contains("a\\nb\\xff/.git/hooks/x\\n"));
}

#[test]
fn a_second_look_finds_the_same() {
    let place = Place::repository();
    let found = place.search();
    place.git(&["init", "-q", "new"]);
    place.write("new/.git/hooks/pre-commit", "");
    let first = offending(&place, &final_look(&found.snapshot));
    assert_eq!(first, offending(&place, &final_look(&found.snapshot)));
    assert_eq!(first, ["new/.git/hooks/pre-commit"]);
}
