//! Kinds of repositories: linked worktrees, submodules, bare ones, symlinked parts; and hosts that rewrite them.

use ringfence_testkit::{Fixture, needs};

use super::{inside, repository, repository_at};
use crate::support::{as_each_caller, binaries, git};

/// Acts that must be refused inside; each was possible before the run.
#[track_caller]
fn all_refused(fixture: &Fixture, acts: &[&[&str]]) {
    for act in acts {
        let finished = fixture.probe_inside(&[], act).finish();
        let errno = finished.refused();
        let refusals = [libc::EROFS, libc::EACCES, libc::EBUSY, libc::EXDEV, libc::EPERM];
        assert!(refusals.contains(&errno), "{act:?}: {}", finished.report());
    }
}

#[test]
fn a_linked_worktree() {
    needs!(binaries(); "git");
    as_each_caller(|fixture| {
        repository_at(fixture, "host/main");
        let main = fixture.host().join("main");
        std::fs::remove_dir(fixture.ws()).expect("rmdir");
        git(fixture, &main, &["worktree", "add", "-q", &fixture.expand("{ws}"), "-b", "topic"]);
        inside(fixture, &[], "echo two >>file && git add file && git commit -qm two").code_is(0);
        let log = git(fixture, &main, &["log", "--oneline", "topic"]).out();
        assert_eq!(log.lines().count(), 2, "{log}");
        all_refused(
            fixture,
            &[
                &["create", "{host}/main/.git/hooks/pre-commit"],
                &["append", "{host}/main/.git/config"],
                &["append", "{host}/main/file"],
                &["create", "{host}/main/new"],
                &["rename", "{host}/main/.git/hooks", "{host}/main/.git/moved"],
                &["append", "{ws}/.git"],
                &["rename", "{ws}/.git", "{ws}/moved"],
                &["replace", "{ws}/.git"],
            ],
        );
    });
}

#[test]
fn a_forged_link_to_anothers_repository_grants_nothing() {
    needs!(binaries(); "git");
    as_each_caller(|fixture| {
        repository_at(fixture, "host/main");
        fixture.mkdir("host/tree");
        std::fs::remove_dir(fixture.host().join("tree")).expect("rmdir");
        let main = fixture.host().join("main");
        git(fixture, &main, &["worktree", "add", "-q", &fixture.expand("{host}/tree")]);
        // The workspace claims a worktree that points elsewhere.
        fixture.write("ws/.git", fixture.expand("gitdir: {host}/main/.git/worktrees/tree\n"));
        all_refused(
            fixture,
            &[
                &["create", "{host}/main/.git/new"],
                &["create", "{host}/main/.git/objects/new"],
                &["write", "{host}/main/.git/HEAD"],
                &["create", "{host}/main/.git/worktrees/tree/new"],
            ],
        );
        // The same with a plain repository.
        fixture.write("ws/.git", fixture.expand("gitdir: {host}/main/.git\n"));
        all_refused(fixture, &[&["create", "{host}/main/.git/new"], &["write", "{host}/main/.git/HEAD"]]);
    });
}

#[test]
fn a_submodule() {
    needs!(binaries(); "git");
    as_each_caller(|fixture| {
        repository(fixture);
        repository_at(fixture, "host/library");
        let library = fixture.expand("{host}/library");
        git(
            fixture,
            &fixture.ws(),
            &["-c", "protocol.file.allow=always", "submodule", "add", "-q", &library, "sub"],
        );
        git(fixture, &fixture.ws(), &["commit", "-qam", "sub"]);
        inside(
            fixture,
            &[],
            "cd sub && echo two >>file && git commit -qam two && cd .. && git commit -qam sub",
        )
        .code_is(0);
        all_refused(
            fixture,
            &[
                &["create", "{ws}/.git/modules/sub/hooks/pre-commit"],
                &["append", "{ws}/.git/modules/sub/config"],
                &["rename", "{ws}/.git/modules/sub", "{ws}/.git/modules/gone"],
                &["rename", "{ws}/.git/modules", "{ws}/.git/gone"],
                &["rename", "{ws}/sub", "{ws}/gone"],
                &["replace", "{ws}/sub/.git"],
            ],
        );
    });
}

#[test]
fn a_bare_repository_that_a_submodule_names() {
    needs!(binaries(); "git");
    as_each_caller(|fixture| {
        repository(fixture);
        git(fixture, &fixture.ws(), &["clone", "-q", "--bare", ".", "bare.git"]);
        fixture.mkdir("ws/bare.git/hooks");
        fixture.write("ws/.gitmodules", "[submodule \"b\"]\n\tpath = bare.git\n\turl = ./bare.git\n");
        all_refused(
            fixture,
            &[
                &["create", "{ws}/bare.git/hooks/post-update"],
                &["append", "{ws}/bare.git/config"],
                &["rename", "{ws}/bare.git", "{ws}/gone"],
            ],
        );
        inside(fixture, &[], "git push -q bare.git HEAD:refs/heads/pushed").code_is(0);
    });
}

#[test]
fn a_symlinked_git_folder() {
    needs!(binaries(); "git");
    as_each_caller(|fixture| {
        repository(fixture);
        std::fs::rename(fixture.ws().join(".git"), fixture.ws().join("real")).expect("rename");
        fixture.symlink("real", "ws/.git");
        fixture.mkdir("ws/real/hooks");
        fixture.mkdir("ws/other");
        all_refused(
            fixture,
            &[
                &["create", "{ws}/real/hooks/pre-commit"],
                &["create", "{ws}/.git/hooks/pre-commit"],
                &["append", "{ws}/real/config"],
                &["rename", "{ws}/real", "{ws}/gone"],
                &["rename", "{ws}/.git", "{ws}/gone"],
                &["unlink", "{ws}/.git"],
                &["exchange", "{ws}/.git", "{ws}/other"],
            ],
        );
        inside(fixture, &[], "echo two >>file && git commit -qam two").code_is(0);
    });
}

#[test]
fn a_git_folder_symlinked_to_the_outside() {
    needs!(binaries(); "git");
    as_each_caller(|fixture| {
        repository(fixture);
        std::fs::rename(fixture.ws().join(".git"), fixture.host().join("real")).expect("rename");
        fixture.symlink("../host/real", "ws/.git");
        fixture.mkdir("host/real/hooks");
        all_refused(
            fixture,
            &[
                &["create", "{ws}/.git/hooks/pre-commit"],
                &["append", "{host}/real/config"],
                &["create", "{host}/real/new"],
                &["unlink", "{ws}/.git"],
            ],
        );
        inside(fixture, &[], "git log --oneline").code_is(0);
    });
}

#[test]
fn symlinked_hooks() {
    needs!(binaries(); "git");
    as_each_caller(|fixture| {
        repository(fixture);
        std::fs::remove_dir_all(fixture.ws().join(".git/hooks")).expect("rm");
        fixture.script("ws/shared/hooks/pre-push", "#!/bin/sh\n");
        fixture.symlink("../shared/hooks", "ws/.git/hooks");
        fixture.mkdir("ws/other");
        all_refused(
            fixture,
            &[
                &["create", "{ws}/shared/hooks/pre-commit"],
                &["append", "{ws}/shared/hooks/pre-push"],
                &["rename", "{ws}/shared", "{ws}/gone"],
                &["rename", "{ws}/shared/hooks", "{ws}/gone"],
                &["unlink", "{ws}/.git/hooks"],
                &["rename", "{ws}/.git/hooks", "{ws}/.git/gone"],
                &["exchange", "{ws}/.git/hooks", "{ws}/other"],
            ],
        );
        inside(fixture, &[], "echo two >>file && git commit -qam two").code_is(0);
    });
}

#[test]
fn a_hook_that_is_a_symlink_to_a_file_of_the_workspace() {
    needs!(binaries(); "git");
    as_each_caller(|fixture| {
        repository(fixture);
        fixture.script("ws/tools/check", "#!/bin/sh\nexit 0\n");
        fixture.symlink("../../tools/check", "ws/.git/hooks/pre-push");
        all_refused(
            fixture,
            &[
                &["append", "{ws}/tools/check"],
                &["replace", "{ws}/tools/check"],
                &["rename", "{ws}/tools", "{ws}/t"],
            ],
        );
    });
}

#[test]
fn a_host_that_rewrites_the_configuration_during_the_run() {
    needs!(binaries(); "git");
    as_each_caller(|fixture| {
        repository(fixture);
        let script = "echo ready; until [ -e go ]; do sleep 0.02; done; sleep 0.5; \
                      for i in 1 2 3 4 5; do echo '[alias] x = !touch planted' >>.git/config; sleep 0.1; done; \
                      cp /dev/null .git/hooks/pre-commit";
        let mut running = fixture.shell_inside(&[], script).spawn();
        running.wait_for("ready");
        // git writes beside and renames over, which takes the mount on the old file away.
        git(fixture, &fixture.ws(), &["config", "host.key", "value"]);
        fixture.write("ws/go", "");
        let finished = running.wait();
        let text = fixture.read("ws/.git/config");
        assert_eq!(finished.code, Some(125), "{}", finished.report());
        assert!(finished.err().contains("ended its protection"), "{}", finished.report());
        assert!(text.contains("[host]"), "the host's change is lost: {text}");
        assert!(!text.contains("planted"), "{text}\n{}", finished.report());
        assert!(!fixture.exists("ws/.git/hooks/pre-commit"), "{}", finished.report());
    });
}

#[test]
fn a_host_that_does_other_git_work_during_the_run() {
    needs!(binaries(); "git");
    as_each_caller(|fixture| {
        repository(fixture);
        let script = "echo ready; until [ -e go ]; do sleep 0.02; done; sleep 0.5; echo over";
        let mut running = fixture.shell_inside(&[], script).spawn();
        running.wait_for("ready");
        fixture.write("ws/more", "");
        for words in [&["add", "more"][..], &["commit", "-qm", "two"], &["branch", "other"], &["gc", "-q"]] {
            git(fixture, &fixture.ws(), words);
        }
        fixture.write("ws/go", "");
        let finished = running.wait().code_is(0);
        assert!(finished.out().contains("over"), "{}", finished.report());
    });
}

/// A directory that is moved keeps its mount, so that the mount table stays as it is: what was planted in the
/// new one is found after the run.
#[test]
fn a_host_that_replaces_the_hooks_during_the_run() {
    needs!(binaries(); "git");
    as_each_caller(|fixture| {
        repository(fixture);
        fixture.mkdir("ws/.git/hooks");
        let script = "echo ready; until [ -e go ]; do sleep 0.02; done; sleep 0.5; \
                      for i in 1 2 3 4 5; do echo planted >.git/hooks/pre-commit; sleep 0.1; done";
        let mut running = fixture.shell_inside(&[], script).spawn();
        running.wait_for("ready");
        std::fs::rename(fixture.ws().join(".git/hooks"), fixture.ws().join(".git/old-hooks"))
            .expect("rename");
        fixture.mkdir("ws/.git/hooks");
        fixture.write("ws/go", "");
        let finished = running.wait().code_is(125);
        assert!(!fixture.exists("ws/.git/hooks/pre-commit"), "{}", finished.report());
    });
}

#[test]
fn a_working_folder_inside_a_protected_one_is_refused() {
    needs!(binaries(); "git");
    as_each_caller(|fixture| {
        repository(fixture);
        fixture.mkdir("ws/.git/hooks");
        fixture.mkdir("ws/.vscode");
        for folder in [".git/hooks", ".git", ".vscode"] {
            let finished = fixture.inside(&["--cwd", folder], &["true"]).finish();
            assert_eq!(finished.code, Some(125), "{folder}: {}", finished.report());
            assert!(finished.err().contains("hint:"), "{}", finished.report());
        }
        // Roots that begin inside a protected folder would leave its protection out of sight.
        let hooks = fixture.expand("{ws}/.git/hooks");
        let finished = fixture.ringfence(["run", "--workspace", &hooks, "--", "touch", "planted"]).finish();
        assert_eq!(finished.code, Some(125), "{}", finished.report());
        let finished =
            fixture.inside(&["--write", ".git/hooks"], &["touch", ".git/hooks/pre-commit"]).finish();
        assert!(finished.code != Some(0), "{}", finished.report());
        assert!(!fixture.exists("ws/.git/hooks/pre-commit") && !fixture.exists("ws/.git/hooks/planted"));
    });
}

#[test]
fn a_workspace_named_through_a_symlink() {
    needs!(binaries(); "git");
    as_each_caller(|fixture| {
        repository(fixture);
        fixture.mkdir("ws/.git/hooks");
        let link = fixture.symlink("ws", "link");
        let run = fixture.ringfence(["run", "--workspace"]).arg(&link).arg("--").arg(&binaries().probe);
        let errno = run.args(["create"]).arg(link.join(".git/hooks/pre-commit")).finish().refused();
        assert!([libc::EROFS, libc::EACCES].contains(&errno), "{errno}");
    });
}

#[test]
fn repositories_below_another_writable_root() {
    needs!(binaries(); "git");
    as_each_caller(|fixture| {
        repository_at(fixture, "host/other/repository");
        fixture.mkdir("host/other/repository/.git/hooks");
        let flags = ["--write", "{host}/other"];
        for act in [
            ["create", "{host}/other/repository/.git/hooks/pre-commit"],
            ["append", "{host}/other/repository/.git/config"],
        ] {
            fixture.probe_inside(&flags, &act).finish().refused();
        }
        fixture
            .probe_inside(&flags, &["rename", "{host}/other/repository", "{host}/other/gone"])
            .finish()
            .refused();
        fixture.probe_inside(&flags, &["append", "{host}/other/repository/file"]).finish().allowed();
    });
}
