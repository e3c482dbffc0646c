//! Writes outside the grants, in every form that changes a name, a content or a metadatum.

use libc::{EACCES, EBUSY, ENOENT, EPERM, EROFS, EXDEV};
use ringfence_testkit::Fixture;
use serde_json::{Value, json};

use super::row::{Closed, Row, Setup, row};

/// Read-only by mount or by Landlock, whichever the kernel asks first.
const READ_ONLY: Closed = Closed::Errno(&[EROFS, EACCES]);
/// The same for calls on two paths, which may also lie on two mounts.
const APART: Closed = Closed::Errno(&[EROFS, EACCES, EXDEV, EPERM]);
const PINNED: Closed = Closed::Errno(&[EBUSY, EROFS, EACCES, EXDEV]);
const ABSENT: Closed = Closed::Errno(&[ENOENT, EACCES]);

fn victim(fixture: &Fixture) -> Setup {
    fixture.write("host/victim", "untouched");
    fixture.mkdir("host/dir");
    fixture.write("home/notes", "untouched");
    fixture.write("ws/own", "mine");
    fixture.mkdir("ws/sub");
    fixture.symlink("../host", "ws/way-out");
    fixture.symlink("../host/victim", "ws/link");
    Setup::default()
}

/// The private home has the place of the caller's own.
fn is_empty(names: &Value) -> bool {
    *names == json!([])
}

const fn outside(name: &'static str, act: &'static [&'static str]) -> Row {
    row(name, "2.3", act, READ_ONLY).setup(victim)
}

const fn across(name: &'static str, act: &'static [&'static str]) -> Row {
    row(name, "2.3", act, APART).setup(victim)
}

/// A system file: root alone could change it outside.
const fn system(name: &'static str, act: &'static [&'static str], path: &'static str) -> Row {
    row(name, "2.3", act, READ_ONLY).control_as_root().exists(path)
}

const STRICT: &[&str] = &["--mode", "strict", "--read", "{probe}"];
const STRICT_READ: &[&str] = &["--mode", "strict", "--read", "{probe}", "--read", "{host}"];
const READ_ONLY_MODE: &[&str] = &["--mode", "read-only"];

pub(crate) const ROWS: &[Row] = &[
    outside("write a file", &["write", "{host}/victim"]),
    outside("append to a file", &["append", "{host}/victim"]),
    outside("truncate a file", &["truncate", "{host}/victim"]),
    outside("create a file", &["create", "{host}/new"]),
    outside("replace a file", &["replace", "{host}/victim"]),
    outside("remove a file", &["unlink", "{host}/victim"]),
    outside("make a folder", &["mkdir", "{host}/new"]),
    outside("remove a folder", &["rmdir", "{host}/dir"]),
    outside("rename outside", &["rename", "{host}/victim", "{host}/moved"]),
    across("move a file out", &["rename", "{ws}/own", "{host}/own"]),
    across("move a file in", &["rename", "{host}/victim", "{ws}/victim"]),
    across("exchange with a file outside", &["exchange", "{ws}/own", "{host}/victim"]),
    across("hard link a file in", &["link", "{host}/victim", "{ws}/victim"]),
    across("hard link a file out", &["link", "{ws}/own", "{host}/own"]),
    outside("symlink outside", &["symlink", "/etc/passwd", "{host}/new"]),
    outside("named pipe outside", &["mkfifo", "{host}/new"]),
    outside("socket outside", &["bind-unix", "{host}/new"]),
    outside("regular node outside", &["mknod-regular", "{host}/new"]),
    outside("unnamed file outside", &["tmpfile", "{host}"]),
    across("name an unnamed file outside", &["tmpfile-link", "{ws}", "{host}/new"]),
    outside("change permission bits", &["chmod", "{host}/victim", "777"]),
    outside("change the owner", &["chown", "{host}/victim", "-1", "-1"]),
    outside("change times", &["utimes", "{host}/victim"]),
    outside("set an attribute", &["set-xattr", "{host}/victim"]),
    outside("change permission bits by descriptor", &["fd-chmod", "{host}/victim", "777"]),
    outside("change the owner by descriptor", &["fd-chown", "{host}/victim", "-1", "-1"]),
    outside("change times by descriptor", &["fd-utimes", "{host}/victim"]),
    outside("set an attribute by descriptor", &["fd-set-xattr", "{host}/victim"]),
    outside("set inode flags by descriptor", &["fd-set-flags", "{host}/victim"]),
    outside("change permission bits by path descriptor", &["opath-chmod", "{host}/victim", "777"]),
    outside("write through a reopened path descriptor", &["opath-reopen", "{host}/victim", "w"]),
    outside("write through a symlink", &["write", "{ws}/link"]),
    outside("create through a symlinked folder", &["create", "{ws}/way-out/new"]),
    outside("write through dots", &["write", "{ws}/sub/../../host/victim"]),
    outside("write through /proc/self/root", &["write", "/proc/self/root{host}/victim"]),
    outside("write through /proc/self/cwd", &["write", "/proc/self/cwd/../host/victim"]),
    outside("write in the home", &["write", "{home}/notes"]),
    outside("create beside the workspace", &["create", "{root}/new"]),
    row("rename the workspace", "2.3", &["rename", "{ws}", "{root}/moved"], PINNED).setup(victim),
    row("rename the workspace's parent", "2.3", &["rename", "{root}", "{root}.moved"], PINNED)
        .setup(victim)
        .control(&["rename", "{ws}", "{root}/moved"]),
    row("write what is granted for reading", "2.3", &["write", "{host}/victim"], READ_ONLY)
        .setup(victim)
        .flags(STRICT_READ),
    row("create beside a writable grant", "2.3", &["create", "{host}/new"], READ_ONLY)
        .setup(victim)
        .flags(&["--write", "{host}/dir"]),
    row("replace a file granted alone", "2.3", &["rename", "{ws}/own", "{host}/victim"], PINNED)
        .setup(victim)
        .flags(&["--write", "{host}/victim"]),
    row("create in a read-only workspace", "1.10", &["create", "{ws}/new"], READ_ONLY).flags(READ_ONLY_MODE),
    row("write in a read-only workspace", "1.10", &["write", "{ws}/own"], READ_ONLY)
        .setup(victim)
        .flags(READ_ONLY_MODE),
    row("chmod in a read-only workspace", "1.10", &["fd-chmod", "{ws}/own", "777"], READ_ONLY)
        .setup(victim)
        .flags(READ_ONLY_MODE),
    row("read outside in strict mode", "1.10", &["read", "{host}/victim"], ABSENT)
        .setup(victim)
        .flags(STRICT),
    row("list the home in strict mode", "1.10", &["list", "{home}"], Closed::State(is_empty))
        .setup(victim)
        .flags(STRICT),
    row("look at a file in strict mode", "1.10", &["stat", "{host}/victim"], ABSENT)
        .setup(victim)
        .flags(STRICT),
    row("read through a symlink in strict mode", "1.10", &["read", "{ws}/link"], ABSENT)
        .setup(victim)
        .flags(STRICT),
    row("read the state of the host in strict mode", "1.10", &["list", "/var/lib"], ABSENT).flags(STRICT),
    system("open the account list for writing", &["open-write", "/etc/passwd"], "/etc/passwd"),
    system("open the host list for writing", &["open-write", "/etc/hosts"], "/etc/hosts"),
    system("open a program for writing", &["open-write", "/usr/bin/chfn"], "/usr/bin/chfn"),
    system("open a library folder for an unnamed file", &["tmpfile", "/usr/lib"], "/usr/lib"),
    system("unnamed file in the root", &["tmpfile", "/"], "/"),
    system("unnamed file in /etc", &["tmpfile", "/etc"], "/etc"),
    system("unnamed file in /var", &["tmpfile", "/var"], "/var"),
    system("unnamed file in /dev", &["tmpfile", "/dev"], "/dev"),
];
