//! What the box may not plant: git's executable parts and the files that tools outside obey.

use libc::{EACCES, EBUSY, EPERM, EROFS, EXDEV};
use ringfence_testkit::Fixture;

use super::row::{Closed, Row, Setup, row};
use crate::support::git;

const PROTECTED: Closed = Closed::Errno(&[EROFS, EACCES, EBUSY, EXDEV, EPERM]);

/// A repository with everything that page 1.6 names, a nested one and a linked worktree.
fn repository(fixture: &Fixture) -> Setup {
    fixture.search_patiently();
    let ws = fixture.ws();
    git(fixture, &ws, &["init", "-q"]);
    fixture.write("ws/file", "1");
    git(fixture, &ws, &["add", "file"]);
    git(fixture, &ws, &["commit", "-qm", "one"]);
    git(fixture, &ws, &["config", "core.hooksPath", ".githooks"]);
    fixture.write("ws/.git/hooks/pre-commit.sample", "#!/bin/sh\n");
    fixture.write("ws/.githooks/pre-push.sample", "#!/bin/sh\n");
    fixture.write("ws/.git/info/attributes", "*.x -text\n");
    fixture.write("ws/.git/modules/m/config", "[core]\n");
    fixture.write("ws/.git/modules/m/HEAD", "ref: refs/heads/main\n");
    fixture.mkdir("ws/.git/modules/m/hooks");
    fixture.mkdir("ws/.git/modules/m/objects");
    fixture.mkdir("ws/.git/modules/m/refs");
    git(fixture, &ws, &["worktree", "add", "-q", "tree"]);
    fixture.mkdir("ws/nested/deep");
    git(fixture, &ws.join("nested/deep"), &["init", "-q"]);
    fixture.mkdir("ws/nested/deep/.git/hooks");
    fixture.script("ws/evil", "#!/bin/sh\ntouch planted\n");
    fixture.mkdir("ws/evil-folder");
    fixture.symlink(".git/hooks", "ws/alias");
    Setup::default()
}

/// Files that programs outside obey, untracked.
fn names(fixture: &Fixture) -> Setup {
    for path in [
        ".envrc",
        ".mcp.json",
        ".vscode/tasks.json",
        ".idea/workspace.xml",
        ".claude/settings.json",
        ".codex/config.toml",
        ".agents/one",
        ".ringfence.toml",
        ".ringfence/config",
    ] {
        fixture.write(format!("ws/{path}"), "# untouched\n");
    }
    fixture.write("ws/evil", "planted\n");
    Setup::default()
}

const fn plant(name: &'static str, act: &'static [&'static str]) -> Row {
    row(name, "1.6", act, PROTECTED).setup(repository)
}

const fn obeyed(name: &'static str, act: &'static [&'static str]) -> Row {
    row(name, "1.6", act, PROTECTED).setup(names)
}

pub(crate) const ROWS: &[Row] = &[
    plant("create a hook", &["create", "{ws}/.git/hooks/pre-commit"]),
    plant("link a hook", &["link", "{ws}/evil", "{ws}/.git/hooks/pre-commit"]),
    plant("symlink a hook", &["symlink", "../../evil", "{ws}/.git/hooks/pre-commit"]),
    plant("move a hook in", &["rename", "{ws}/evil", "{ws}/.git/hooks/pre-commit"]),
    plant("arm a sample", &["chmod", "{ws}/.git/hooks/pre-commit.sample", "755"]),
    plant("name a sample as a hook", &["rename", HOOK_SAMPLE, "{ws}/.git/hooks/pre-commit"]),
    plant("name an unnamed file as a hook", &["tmpfile-link", "{ws}", "{ws}/.git/hooks/pre-commit"]),
    plant("create a hook through a symlink", &["create", "{ws}/alias/pre-commit"]),
    plant("create a hook through /proc/self/cwd", &["create", "/proc/self/cwd/.git/hooks/pre-commit"]),
    plant("move the hooks away", &["rename", "{ws}/.git/hooks", "{ws}/hooks"]),
    plant("exchange the hooks", &["exchange", "{ws}/evil-folder", "{ws}/.git/hooks"]),
    plant("create a hook in the configured folder", &["create", "{ws}/.githooks/pre-commit"]),
    plant("move the configured folder away", &["rename", "{ws}/.githooks", "{ws}/hooks"]),
    plant("write the configuration", &["write", "{ws}/.git/config"]),
    plant("append to the configuration", &["append", "{ws}/.git/config"]),
    plant("truncate the configuration", &["truncate", "{ws}/.git/config"]),
    plant("replace the configuration", &["replace", "{ws}/.git/config"]),
    plant("remove the configuration", &["unlink", "{ws}/.git/config"]),
    plant("exchange the configuration", &["exchange", "{ws}/evil", "{ws}/.git/config"]),
    plant("write the configuration by path descriptor", &["opath-reopen", "{ws}/.git/config", "w"]),
    plant("link the configuration to a free name", &["link", "{ws}/.git/config", "{ws}/free"]),
    plant("write the attributes", &["append", "{ws}/.git/info/attributes"]),
    plant("move the folder of the attributes", &["rename", "{ws}/.git/info", "{ws}/.git/moved"]),
    plant("move the repository", &["rename", "{ws}/.git", "{ws}/moved"]),
    plant("exchange the repository", &["exchange", "{ws}/evil-folder", "{ws}/.git"]),
    plant("create a hook of a submodule", &["create", "{ws}/.git/modules/m/hooks/post-checkout"]),
    plant("write the configuration of a submodule", &["append", "{ws}/.git/modules/m/config"]),
    plant("move a submodule", &["rename", "{ws}/.git/modules/m", "{ws}/.git/modules/n"]),
    plant("move the submodules", &["rename", "{ws}/.git/modules", "{ws}/.git/moved"]),
    plant("create a hook of a nested repository", &["create", "{ws}/nested/deep/.git/hooks/pre-commit"]),
    plant("write the configuration of a nested repository", &["append", "{ws}/nested/deep/.git/config"]),
    plant("move a nested repository", &["rename", "{ws}/nested/deep/.git", "{ws}/nested/deep/moved"]),
    plant("move the folder of a nested repository", &["rename", "{ws}/nested/deep", "{ws}/nested/moved"]),
    plant("move a folder further up", &["rename", "{ws}/nested", "{ws}/moved"]),
    row("undo the protection", "1.6", &["userns-umount", "{ws}/.git/hooks"], Closed::Errno(&[EPERM]))
        .setup(repository)
        .control(&["in-new", "user,mnt", "--", "mount-fs", "tmpfs", "{ws}/evil-folder"]),
    obeyed("write .envrc", &["append", "{ws}/.envrc"]),
    obeyed("replace .envrc", &["rename", "{ws}/evil", "{ws}/.envrc"]),
    obeyed("write .mcp.json", &["append", "{ws}/.mcp.json"]),
    obeyed("write editor tasks", &["append", "{ws}/.vscode/tasks.json"]),
    obeyed("create editor settings", &["create", "{ws}/.vscode/settings.json"]),
    obeyed("move editor settings", &["rename", "{ws}/.vscode", "{ws}/moved"]),
    obeyed("write another editor's settings", &["append", "{ws}/.idea/workspace.xml"]),
    obeyed("write settings of an assistant", &["append", "{ws}/.claude/settings.json"]),
    obeyed("write settings of another assistant", &["append", "{ws}/.codex/config.toml"]),
    obeyed("create in a shared assistants' folder", &["create", "{ws}/.agents/two"]),
    obeyed("write Ringfence's project file", &["append", "{ws}/.ringfence.toml"]),
    obeyed("remove Ringfence's project file", &["unlink", "{ws}/.ringfence.toml"]),
    obeyed("write in Ringfence's project folder", &["create", "{ws}/.ringfence/new"]),
];

const HOOK_SAMPLE: &str = "{ws}/.git/hooks/pre-commit.sample";
