//! Descriptors that lead out: inherited ones, standard streams, handles.

use libc::{EACCES, EBADF, ENOENT, ENOTDIR, EPERM, EROFS};
use ringfence_testkit::Fixture;
use serde_json::Value;

use super::SECRET;
use super::row::{Closed, Row, Setup, row};

fn victim(fixture: &Fixture) -> Setup {
    fixture.write("host/victim", "untouched");
    fixture.write("home/.ssh/key", SECRET);
    Setup::default()
}

/// A descriptor that Ringfence's caller forgot to close.
const LEAKED_FILE: &[&str] = &["bash", "-c", "exec 9<>{host}/victim; exec \"$@\"", "bash"];
const LEAKED_FOLDER: &[&str] = &["bash", "-c", "exec 9<{host}; exec \"$@\"", "bash"];
const STDIN_FILE: &[&str] = &["bash", "-c", "exec \"$@\" <{host}/victim", "bash"];
const STDIN_FILE_WRITABLE: &[&str] = &["bash", "-c", "exec \"$@\" <>{host}/victim", "bash"];
const STDIN_FOLDER: &[&str] = &["bash", "-c", "exec \"$@\" <{host}", "bash"];
const STDIN_SECRETS: &[&str] = &["bash", "-c", "exec \"$@\" <{home}/.ssh", "bash"];
const STDERR_FILE: &[&str] = &["bash", "-c", "exec \"$@\" 2>>{host}/victim", "bash"];

const fn leak(
    name: &'static str,
    prefix: &'static [&'static str],
    act: &'static [&'static str],
    closed: Closed,
) -> Row {
    row(name, "2.2.1", act, closed).setup(victim).prefix(prefix)
}

const GONE: Closed = Closed::Errno(&[EBADF]);
const NO_WAY: Closed = Closed::Errno(&[EROFS, EACCES, EBADF, ENOTDIR, ENOENT]);

fn only_standard_streams(open: &Value) -> bool {
    open.as_object().is_some_and(|open| open.keys().all(|fd| ["0", "1", "2"].contains(&fd.as_str())))
}

pub(crate) const ROWS: &[Row] = &[
    leak("see a leaked descriptor", LEAKED_FILE, &["fds"], Closed::State(only_standard_streams)),
    leak("write through a leaked descriptor", LEAKED_FILE, &["write-fd", "9"], GONE),
    leak("reopen a leaked descriptor", LEAKED_FILE, &["reopen", "9", "w"], Closed::Errno(&[ENOENT])),
    leak("create below a leaked folder", LEAKED_FOLDER, &["create-at-fd", "9", "new"], GONE),
    leak("read below a leaked folder", LEAKED_FOLDER, &["read-at-fd", "9", "victim"], GONE),
    leak("enter a leaked folder", LEAKED_FOLDER, &["chdir-fd", "9"], GONE),
    row("reopen standard input for writing", "2.2", &["reopen", "0", "w"], NO_WAY)
        .setup(victim)
        .prefix(STDIN_FILE),
    row("write to a standard input that is open both ways", "2.2", &["write-fd", "0"], NO_WAY)
        .setup(victim)
        .prefix(STDIN_FILE_WRITABLE),
    row(
        "truncate a standard input that is open both ways",
        "2.2",
        &["truncate-fd", "0"],
        Closed::Errno(TRUNCATE),
    )
    .setup(victim)
    .prefix(STDIN_FILE_WRITABLE),
    row("change permission bits of standard input", "2.2", &["fd-chmod", "/proc/self/fd/0", "777"], NO_WAY)
        .setup(victim)
        .prefix(STDIN_FILE),
    row("create below a folder that is standard input", "2.2", &["create-at-fd", "0", "new"], NO_WAY)
        .setup(victim)
        .prefix(STDIN_FOLDER),
    row("leave a folder that is standard input upwards", "2.2", &["create-at-fd", "0", "../new"], NO_WAY)
        .setup(victim)
        .prefix(STDIN_FOLDER),
    row(
        "read secrets below a folder that is standard input",
        "2.2",
        &["read-at-fd", "0", "key"],
        Closed::Hidden,
    )
    .setup(victim)
    .prefix(STDIN_SECRETS),
    row("reopen a write-only standard error for reading", "2.2", &["reopen", "2", "r"], NO_WAY)
        .setup(|fixture| {
            fixture.write("host/victim", SECRET);
            fixture.chmod("host/victim", 0o600);
            Setup::default()
        })
        .prefix(STDERR_FILE)
        .flags(&["--mode", "strict", "--read", "{probe}"]),
    row("take a file's handle", "2.5", &["name-to-handle", "{host}/victim"], Closed::Errno(&[EPERM]))
        .setup(victim),
    row("open a file by its handle", "2.5", &["open-by-handle", "{host}/victim"], Closed::Errno(&[EPERM]))
        .setup(victim)
        .control_as_root(),
    row("open a made-up handle", "2.5", &["syscall", "open_by_handle_at", "-1", "buf:16", "0"], HANDLE)
        .differs()
        .control_as_root(),
    row(
        "take a descriptor of another process",
        "2.5",
        &["pidfd-getfd", "self", "1"],
        Closed::Errno(&[EPERM]),
    ),
];

/// ftruncate(2) of a read-only descriptor is EINVAL.
const TRUNCATE: &[i32] = &[libc::EINVAL, EBADF, EROFS, EACCES];
const HANDLE: Closed = Closed::Errno(&[EPERM]);
