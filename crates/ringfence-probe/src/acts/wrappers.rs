//! Acts that put another act or program into a state of its own. They serve controls outside the box.

use std::os::unix::process::CommandExt;
use std::process::Command;

use serde_json::Value;

use super::namespaces::enter_new;
use super::{Act, act};
use crate::args::{Args, Failure, Outcome};
use crate::sys::{fork, sys, wait};

pub(super) const ACTS: &[Act] = &[
    act("in-new", "KINDS -- ACT [ARGS…]", in_new),
    act("in-session", "-- ACT [ARGS…]", in_session),
    act("as", "UID GID [GROUPS] -- PROGRAM [ARGS…]", as_user),
    act("with-terminal", "-- PROGRAM [ARGS…]", with_terminal),
    act("without-fds", "FDS -- PROGRAM [ARGS…]", without_fds),
    act("without-packet-filter", "-- PROGRAM [ARGS…]", without_packet_filter),
    act("after-fork", "-- ACT [ARGS…]", after_fork),
];

/// Runs an act in new namespaces. Of a new PID namespace only children are members: see `after-fork`.
fn in_new(args: &Args) -> Outcome {
    let (before, act) = args.split()?;
    let kinds = before.first().and_then(|kinds| kinds.to_str()).ok_or(Failure::Usage)?;
    enter_new(kinds)?;
    inner(act)
}

/// Runs an act as the leader of a session without a terminal.
fn in_session(args: &Args) -> Outcome {
    let (_, act) = args.split()?;
    sys!(libc::SYS_setsid)?;
    inner(act)
}

fn inner(words: &[std::ffi::OsString]) -> Outcome {
    let (name, rest) = words.split_first().ok_or(Failure::Usage)?;
    let act = super::find(&name.to_string_lossy()).ok_or(Failure::Usage)?;
    (act.run)(&Args::new(rest.to_vec()))
}

/// Runs an act in a child; its errno comes back as the exit status.
fn after_fork(args: &Args) -> Outcome {
    let (_, act) = args.split()?;
    let child = fork(0, || match inner(act) {
        Ok(_) => 0,
        Err(Failure::Kernel(error)) => error.raw_os_error().unwrap_or(255),
        Err(Failure::Usage) => 255,
    })?;
    match libc::WEXITSTATUS(wait(child)?) {
        0 => Ok(Value::Null),
        255 => Err(Failure::Usage),
        errno => Err(std::io::Error::from_raw_os_error(errno).into()),
    }
}

/// Becomes another user with exactly these supplementary groups (comma-separated), and executes a program.
fn as_user(args: &Args) -> Outcome {
    let (before, command) = args.split()?;
    let numbers = Args::new(before.to_vec());
    let (uid, gid) = (numbers.int(0)?, numbers.int(1)?);
    let mut groups = Vec::new();
    if before.len() > 2 {
        for group in numbers.text(2)?.split(',') {
            groups.extend(group.parse::<u32>().map_err(|_| Failure::Usage)?.to_ne_bytes());
        }
    }
    let count = groups.len() / 4;
    sys!(libc::SYS_setgroups, count, groups)?;
    sys!(libc::SYS_setresgid, gid, gid, gid)?;
    sys!(libc::SYS_setresuid, uid, uid, uid)?;
    exec(command)
}

/// Leads a new session whose controlling terminal is standard input, and executes a program.
fn with_terminal(args: &Args) -> Outcome {
    let (_, command) = args.split()?;
    sys!(libc::SYS_setsid)?;
    sys!(libc::SYS_ioctl, 0, libc::TIOCSCTTY as i64, 0)?;
    exec(command)
}

/// Closes descriptors (comma-separated) and executes a program.
fn without_fds(args: &Args) -> Outcome {
    let (before, command) = args.split()?;
    let list = before.first().and_then(|list| list.to_str()).ok_or(Failure::Usage)?;
    for fd in list.split(',') {
        let fd: i32 = fd.parse().map_err(|_| Failure::Usage)?;
        sys!(libc::SYS_close, fd)?;
    }
    exec(command)
}

/// Executes a program for which the kernel has no nftables: there are no sockets of `NETLINK_NETFILTER`.
fn without_packet_filter(args: &Args) -> Outcome {
    let (_, command) = args.split()?;
    // Offsets in struct seccomp_data (seccomp(2)), the lower half of each argument.
    let low_half = if cfg!(target_endian = "little") { 0 } else { 4 };
    let (number, family, protocol) = (0, 16 + low_half, 32 + low_half);
    let load = |offset: u32| filter(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset);
    // Anything else jumps over the rest, to the last instruction.
    let is = |value: u32, left: u8| filter(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, left, value);
    let end = |action: u32| filter(libc::BPF_RET | libc::BPF_K, 0, 0, action);
    let mut program = [
        load(number),
        is(libc::SYS_socket as u32, 5),
        load(family),
        is(libc::AF_NETLINK as u32, 3),
        load(protocol),
        is(libc::NETLINK_NETFILTER as u32, 1),
        end(libc::SECCOMP_RET_ERRNO | libc::EPROTONOSUPPORT as u32),
        end(libc::SECCOMP_RET_ALLOW),
    ];
    let header = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    sys!(libc::SYS_prctl, libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)?;
    sys!(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, (&raw const header) as usize)?;
    exec(command)
}

fn filter(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

fn exec(command: &[std::ffi::OsString]) -> Outcome {
    let (program, rest) = command.split_first().ok_or(Failure::Usage)?;
    Err(Command::new(program).args(rest).exec().into())
}
