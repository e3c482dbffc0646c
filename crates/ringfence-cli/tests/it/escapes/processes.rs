//! Processes outside, and the box's own PID 1, which is set up by the launcher and knows what lies outside.

use libc::{EACCES, ENOENT, ENOSYS, EPERM, EROFS, ESRCH};
use ringfence_testkit::{Fixture, Running};
use serde_json::Value;

use super::row::{Closed, Row, Setup, row};

/// An argument that no other process has.
const TOKEN: &str = "86399.25";

/// A process of the caller's own outside, dumpable and with an environment.
struct Bystander(Option<Running>);

impl Drop for Bystander {
    fn drop(&mut self) {
        if let Some(running) = self.0.take() {
            running.end();
        }
    }
}

fn bystander(fixture: &Fixture) -> Setup {
    let running = fixture.outside("sleep").arg(TOKEN).spawn();
    let pid = running.pid();
    Setup::default().keep(Bystander(Some(running))).name("{pid}", pid)
}

const UNSEEN: Closed = Closed::Errno(&[ESRCH, ENOENT]);
const REFUSED: Closed = Closed::Errno(&[EPERM, EACCES]);
/// In a box of root's all of `/proc` is read-only, and the kernel asks that first.
const WRITE_REFUSED: Closed = Closed::Errno(&[EPERM, EACCES, EROFS]);
const BARRED: Closed = Closed::Errno(&[EPERM]);

const fn outside(name: &'static str, act: &'static [&'static str]) -> Row {
    row(name, "2.2.2", act, UNSEEN).setup(bystander)
}

/// An act on PID 1; the control makes it on a process of the caller's own.
const fn init(name: &'static str, act: &'static [&'static str], control: &'static [&'static str]) -> Row {
    row(name, "2.2.8", act, REFUSED).setup(bystander).control(control)
}

const NO_SPAWN: &[&str] = &["--no-spawn"];

const fn spawn(name: &'static str, act: &'static [&'static str]) -> Row {
    row(name, "2.5", act, BARRED).flags(NO_SPAWN)
}

fn sees_no_bystander(processes: &Value) -> bool {
    !processes.to_string().contains(TOKEN)
}

pub(crate) const ROWS: &[Row] = &[
    outside("signal a process outside", &["kill", "{pid}", "0"]),
    outside("attach to a process outside", &["ptrace-attach", "{pid}"]),
    outside("seize a process outside", &["ptrace-seize", "{pid}"]),
    outside("open a process outside", &["pidfd-open", "{pid}"]),
    outside("read limits of a process outside", &["prlimit", "{pid}"]),
    outside("read the environment of a process outside", &["proc-file", "{pid}", "environ"]),
    outside("read the memory map of a process outside", &["proc-file", "{pid}", "maps"]),
    outside("enter the root of a process outside", &["proc-link", "{pid}", "root"]),
    outside("enter the folder of a process outside", &["proc-link", "{pid}", "cwd"]),
    outside("list descriptors of a process outside", &["proc-list", "{pid}", "fd"]),
    outside("open the memory of a process outside", &["open-write", "/proc/{pid}/mem"]),
    row("see processes outside", "2.2.2", &["processes"], Closed::State(sees_no_bystander)).setup(bystander),
    row("read memory of a process outside", "2.5", &["vm-read", "{pid}"], BARRED).setup(bystander).differs(),
    row("write memory of a process outside", "2.5", &["vm-write", "{pid}"], BARRED)
        .setup(bystander)
        .differs(),
    row("read memory by call", "2.5", &["vm-read", "self"], BARRED),
    row("write memory by call", "2.5", &["vm-write", "self"], BARRED),
    init("read the environment of PID 1", &["proc-file", "1", "environ"], &["proc-file", "{pid}", "environ"]),
    init("read the memory map of PID 1", &["proc-file", "1", "maps"], &["proc-file", "{pid}", "maps"]),
    init("read the auxiliary vector of PID 1", &["proc-file", "1", "auxv"], &["proc-file", "{pid}", "auxv"]),
    init("open the memory of PID 1", &["open-read", "/proc/1/mem"], &["open-read", "/proc/{pid}/mem"]),
    row("open the memory of PID 1 for writing", "2.2.8", &["open-write", "/proc/1/mem"], WRITE_REFUSED)
        .setup(bystander)
        .control(&["open-write", "/proc/{pid}/mem"]),
    init("enter the root of PID 1", &["proc-link", "1", "root"], &["proc-link", "{pid}", "root"]),
    init("enter the folder of PID 1", &["proc-link", "1", "cwd"], &["proc-link", "{pid}", "cwd"]),
    init("open the program of PID 1", &["proc-link", "1", "exe"], &["proc-link", "{pid}", "exe"]),
    init("open a descriptor of PID 1", &["proc-first-link", "1", "fd"], &["proc-first-link", "{pid}", "fd"]),
    init(
        "look into a descriptor of PID 1",
        &["proc-first-link", "1", "fdinfo"],
        &["proc-first-link", "{pid}", "fdinfo"],
    ),
    init(
        "list memory files of PID 1",
        &["proc-list", "1", "map_files"],
        &["proc-list", "{pid}", "map_files"],
    ),
    init("find the namespaces of PID 1", &["proc-link", "1", "ns/mnt"], &["proc-link", "{pid}", "ns/mnt"]),
    init(
        "list a folder through the root of PID 1",
        &["list", "/proc/1/root/"],
        &["list", "/proc/{pid}/root/"],
    ),
    init("attach to PID 1", &["ptrace-attach", "1"], &["ptrace-attach", "{pid}"]),
    init("seize PID 1", &["ptrace-seize", "1"], &["ptrace-seize", "{pid}"]),
    init("read memory of PID 1", &["vm-read", "1"], &["vm-read", "self"]),
    init("take a descriptor of PID 1", &["pidfd-getfd", "1", "0"], &["pidfd-getfd", "{pid}", "0"]),
    init("join a namespace of PID 1", &["setns-of", "1", "mnt"], &["proc-link", "{pid}", "ns/mnt"]),
    spawn("fork without leave to spawn", &["fork"]),
    spawn("vfork without leave to spawn", &["vfork"]),
    spawn("start a program without leave to spawn", &["spawn"]),
    spawn("clone into a namespace without leave to spawn", &["clone", "user"]),
    row("clone3 without leave to spawn", "2.5", &["clone3", "user"], Closed::Errno(&[ENOSYS, EPERM]))
        .flags(NO_SPAWN),
];
