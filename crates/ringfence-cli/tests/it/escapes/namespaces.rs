//! Namespaces of one's own and changes of mounts. Controls act in namespaces made for them.

use libc::{ENOSYS, EPERM};
use ringfence_testkit::Fixture;

use super::row::{Closed, Row, Setup, row};

const BARRED: Closed = Closed::Errno(&[EPERM]);
const UNKNOWN: Closed = Closed::Errno(&[ENOSYS]);

const fn make(name: &'static str, act: &'static [&'static str], control: &'static [&'static str]) -> Row {
    row(name, "2.5", act, BARRED).control(control)
}

/// A mount call with names of its own inside.
const fn mount(name: &'static str, act: &'static [&'static str], control: &'static [&'static str]) -> Row {
    row(name, "2.5", act, BARRED).setup(folders).control(control)
}

fn folders(fixture: &Fixture) -> Setup {
    fixture.mkdir("ws/a");
    fixture.mkdir("ws/b");
    fixture.write("host/victim", "untouched");
    Setup::default()
}

pub(crate) const ROWS: &[Row] =
    &[
        row("new user namespace", "2.5", &["unshare", "user"], BARRED),
        make("new mount namespace", &["unshare", "mnt"], &["in-new", "user", "--", "unshare", "mnt"]),
        make("new PID namespace", &["unshare", "pid"], &["in-new", "user", "--", "unshare", "pid"]),
        make("new network namespace", &["unshare", "net"], &["in-new", "user", "--", "unshare", "net"]),
        make("new IPC namespace", &["unshare", "ipc"], &["in-new", "user", "--", "unshare", "ipc"]),
        make("new UTS namespace", &["unshare", "uts"], &["in-new", "user", "--", "unshare", "uts"]),
        make("new cgroup namespace", &["unshare", "cgroup"], &["in-new", "user", "--", "unshare", "cgroup"]),
        make("new time namespace", &["unshare", "time"], &["in-new", "user", "--", "unshare", "time"]),
        row("new user and mount namespaces", "2.5", &["unshare", "user,mnt"], BARRED),
        row("child in a new user namespace", "2.5", &["clone", "user"], BARRED),
        row("child in new user and network namespaces", "2.5", &["clone", "user,net"], BARRED),
        make("child in a new PID namespace", &["clone", "pid"], &["in-new", "user", "--", "clone", "pid"]),
        make("child in a new mount namespace", &["clone", "mnt"], &["in-new", "user", "--", "clone", "mnt"]),
        row("child in a new user namespace by clone3", "2.5", &["clone3", "user"], UNKNOWN),
        row("child in new user and mount namespaces by clone3", "2.5", &["clone3", "user,mnt"], UNKNOWN),
        make("join its own UTS namespace", &["setns", "uts"], &["in-new", "user,uts", "--", "setns", "uts"]),
        make(
            "join its own mount namespace",
            &["setns", "mnt"],
            &["in-new", "user,mnt", "--", "setns", "mnt"],
        ),
        row("join its own user namespace", "2.5", &["setns", "user"], BARRED).differs(),
        make("change the root", &["chroot", "{ws}"], &["in-new", "user", "--", "chroot", "{ws}"]),
        row("pivot the root", "2.5", &["pivot-root", ".", "."], BARRED)
            .control(&["in-new", "user,mnt", "--", "mount-fs", "tmpfs", "{ws}"]),
        mount(
            "bind a folder",
            &["mount-bind", "{host}", "{ws}/a"],
            &["in-new", "user,mnt", "--", "mount-bind", "{host}", "{ws}/a"],
        ),
        mount(
            "mount a tmpfs",
            &["mount-fs", "tmpfs", "{ws}/a"],
            &["in-new", "user,mnt", "--", "mount-fs", "tmpfs", "{ws}/a"],
        ),
        mount(
            "make the root writable",
            &["remount-writable", "/"],
            &["in-new", "user,mnt", "--", "mount-bind", "{ws}/a", "{ws}/b"],
        ),
        mount(
            "take the process list away",
            &["umount", "/proc"],
            &["in-new", "user,mnt", "--", "mount-fs", "tmpfs", "{ws}/a"],
        ),
        mount(
            "clone a tree of mounts",
            &["open-tree", "{host}"],
            &["in-new", "user,mnt", "--", "open-tree", "{host}"],
        ),
        mount(
            "move a mount",
            &["move-mount", "{host}", "{ws}/a"],
            &["in-new", "user,mnt", "--", "move-mount", "{host}", "{ws}/a"],
        ),
        mount("open a file system", &["fsopen", "tmpfs"], &["in-new", "user,mnt", "--", "fsopen", "tmpfs"]),
        mount(
            "configure a file system",
            &["fsconfig", "tmpfs"],
            &["in-new", "user,mnt", "--", "fsconfig", "tmpfs"],
        ),
        mount("make a mount", &["fsmount", "tmpfs"], &["in-new", "user,mnt", "--", "fsmount", "tmpfs"]),
        mount("pick a mount", &["fspick", "/"], &["in-new", "user,mnt", "--", "fsopen", "tmpfs"]),
        mount(
            "make a mount writable by its attributes",
            &["mount-setattr", "/"],
            &["in-new", "user,mnt", "--", "mount-setattr", "/"],
        ),
        mount(
            "write outside after a remount of one's own",
            &["userns-write", "{host}"],
            &["in-new", "user,mnt", "--", "mount-bind", "{host}", "{ws}/a"],
        ),
        row("rename the machine", "2.2.10", &["set-hostname", "planted"], BARRED).control(&[
            "in-new",
            "user,uts",
            "--",
            "set-hostname",
            "planted",
        ]),
        row("change the domain name", "2.2.10", &["syscall", "setdomainname", "str:x", "1"], BARRED)
            .control(&["in-new", "user,uts", "--", "syscall", "setdomainname", "str:x", "1"]),
    ];
