//! Acts on processes. A process id may be written as `self` or `parent`.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use super::files::done;
use super::{Act, act};
use crate::args::{Args, Failure, Outcome};
use crate::sys::{fork, sys, wait};

pub(super) const ACTS: &[Act] = &[
    act("kill", "PID SIGNAL", |args| done(sys!(libc::SYS_kill, pid(args, 0)?, args.int(1)?))),
    act("kill-group", "SIGNAL", |args| done(sys!(libc::SYS_kill, 0, args.int(0)?))),
    act("kill-all", "SIGNAL", |args| done(sys!(libc::SYS_kill, -1, args.int(0)?))),
    act("pidfd-open", "PID", |args| done(sys!(libc::SYS_pidfd_open, pid(args, 0)?, 0))),
    act("ptrace-attach", "PID", |args| ptrace(args, libc::PTRACE_ATTACH)),
    act("ptrace-seize", "PID", |args| ptrace(args, libc::PTRACE_SEIZE)),
    act("ptrace-child", "", ptrace_child),
    act("vm-read", "PID", |args| vm_access(args, libc::SYS_process_vm_readv)),
    act("vm-write", "PID", |args| vm_access(args, libc::SYS_process_vm_writev)),
    act("prlimit", "PID", |args| done(sys!(libc::SYS_prlimit64, pid(args, 0)?, libc::RLIMIT_CPU, 0, 0))),
    act("priority-of-group", "NICE", |args| {
        done(sys!(libc::SYS_setpriority, libc::PRIO_PGRP, 0, args.int(0)?))
    }),
    act("proc-file", "PID NAME", proc_file),
    act("proc-link", "PID NAME", proc_link),
    act("proc-list", "PID NAME", proc_list),
    act("proc-first-link", "PID NAME", proc_first_link),
    act("processes", "", processes),
    act("fork", "", |_| fork_with(0)),
    act("vfork", "", |_| fork_with(libc::CLONE_VFORK)),
    act("spawn", "", |_| done(Command::new("/proc/self/exe").arg("--list").output())),
    act("thread", "", thread),
    act("raise", "SIGNAL", |args| {
        // The program's own signal handling is the default one, but that SIGPIPE is ignored by the runtime.
        done(sys!(libc::SYS_kill, std::process::id(), args.int(0)?))
    }),
    act("nested", "PROGRAM [ARGS…]", |args| {
        let status = Command::new(args.os(0)?).args(&args.all()[1..]).status()?;
        Ok(json!(status.code()))
    }),
];

/// A process id argument.
pub(super) fn pid(args: &Args, at: usize) -> Result<i64, Failure> {
    match args.text(at)? {
        "self" => Ok(std::process::id().into()),
        "parent" => Ok(std::os::unix::process::parent_id().into()),
        _ => args.int(at),
    }
}

fn ptrace(args: &Args, request: libc::c_uint) -> Outcome {
    let pid = pid(args, 0)?;
    sys!(libc::SYS_ptrace, request, pid, 0, 0)?;
    // The tracee goes on when its tracer exits (ptrace(2)).
    Ok(Value::Null)
}

/// A child asks to be traced, stops and is let go: what gdb, strace and leak checkers need.
fn ptrace_child(_: &Args) -> Outcome {
    let child = fork(0, || match sys!(libc::SYS_ptrace, libc::PTRACE_TRACEME, 0, 0, 0) {
        Ok(_) => sys!(libc::SYS_kill, std::process::id(), libc::SIGSTOP).map_or(100, |_| 0),
        Err(error) => error.raw_os_error().unwrap_or(100),
    })?;
    let status = wait(child)?;
    if !libc::WIFSTOPPED(status) {
        return Err(std::io::Error::from_raw_os_error(libc::WEXITSTATUS(status)).into());
    }
    sys!(libc::SYS_ptrace, libc::PTRACE_CONT, child, 0, 0)?;
    Ok(json!(libc::WEXITSTATUS(wait(child)?)))
}

/// process_vm_readv(2) or process_vm_writev(2) of eight bytes: of our own variable for `self`, else at address 0,
/// where a permitted access answers EFAULT.
fn vm_access(args: &Args, number: i64) -> Outcome {
    let pid = pid(args, 0)?;
    let local = 7_u64;
    let remote = if pid == i64::from(std::process::id()) { &raw const local as u64 } else { 0 };
    let mut buffer = [0_u64; 1];
    let vector = |address: u64| [address.to_ne_bytes(), 8_u64.to_ne_bytes()].concat();
    done(sys!(number, pid, vector(buffer.as_mut_ptr() as u64), 1, vector(remote), 1, 0))
}

/// Reads a file of another process, e.g. `environ`.
fn proc_file(args: &Args) -> Outcome {
    let bytes = fs::read(format!("/proc/{}/{}", pid(args, 0)?, args.text(1)?))?;
    Ok(json!(String::from_utf8_lossy(&bytes)))
}

/// Follows a magic link of another process, e.g. `root` or `fd/3`.
fn proc_link(args: &Args) -> Outcome {
    let path = format!("/proc/{}/{}", pid(args, 0)?, args.text(1)?);
    let found = fs::metadata(&path)?;
    Ok(json!({ "is_dir": found.is_dir(), "target": fs::read_link(path)?.to_string_lossy() }))
}

fn proc_list(args: &Args) -> Outcome {
    let path = format!("/proc/{}/{}", pid(args, 0)?, args.text(1)?);
    Ok(json!(fs::read_dir(path)?.collect::<Result<Vec<_>, _>>()?.len()))
}

/// Follows the first magic link of a folder of another process, e.g. of `fd`, whatever its name.
fn proc_first_link(args: &Args) -> Outcome {
    let folder = format!("/proc/{}/{}", pid(args, 0)?, args.text(1)?);
    let first = fs::read_dir(folder)?.next().ok_or(std::io::Error::from_raw_os_error(libc::ENODATA))??;
    fs::metadata(first.path())?;
    Ok(json!(first.file_name().to_string_lossy()))
}

/// Command lines of all visible processes, by id.
fn processes(_: &Args) -> Outcome {
    let mut found = serde_json::Map::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.bytes().all(|byte| byte.is_ascii_digit())
            && let Ok(line) = fs::read(format!("/proc/{name}/cmdline"))
        {
            found.insert(
                name,
                json!(String::from_utf8_lossy(&line).trim_end_matches('\0').replace('\0', " ")),
            );
        }
    }
    Ok(Value::Object(found))
}

fn fork_with(flags: i32) -> Outcome {
    let child = fork(flags, || 0)?;
    Ok(json!(libc::WEXITSTATUS(wait(child)?)))
}

fn thread(_: &Args) -> Outcome {
    let handle = std::thread::Builder::new().spawn(|| 1)?;
    Ok(json!(handle.join().unwrap_or_default()))
}
