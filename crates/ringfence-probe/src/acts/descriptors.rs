//! Acts through descriptors: inherited ones, magic links, file handles.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;

use serde_json::{Value, json};

use super::files::done;
use super::metadata::open_path;
use super::{Act, act};
use crate::args::{Args, Failure, Outcome};
use crate::sys::{Arg, call, sys};

pub(super) const ACTS: &[Act] = &[
    act("fds", "", fds),
    act("opath-reopen", "PATH r|w", |args| {
        let held = open_path(args)?;
        reopen(held.as_raw_fd(), args.text(1)?)
    }),
    act("reopen", "FD r|w", |args| reopen(args.int(0)? as i32, args.text(1)?)),
    act("create-at-fd", "FD NAME", |args| {
        let flags = libc::O_CREAT | libc::O_WRONLY;
        done(sys!(libc::SYS_openat, args.int(0)?, args.os(1)?, flags, 0o644))
    }),
    act("read-at-fd", "FD NAME", read_at_fd),
    act("write-fd", "FD", |args| done(sys!(libc::SYS_write, args.int(0)?, b"planted\n".to_vec(), 8))),
    act("truncate-fd", "FD", |args| done(sys!(libc::SYS_ftruncate, args.int(0)?, 0))),
    act("chdir-fd", "FD", |args| {
        sys!(libc::SYS_fchdir, args.int(0)?)?;
        Ok(json!(fs::read_link("/proc/self/cwd")?.to_string_lossy()))
    }),
    act("name-to-handle", "PATH", |args| done(handle_of(args.os(0)?))),
    act("open-by-handle", "PATH", open_by_handle),
    act("pidfd-getfd", "PID FD", pidfd_getfd),
];

/// Each open descriptor and what it leads to, but that of the listing itself.
fn fds(_: &Args) -> Outcome {
    let mut open = serde_json::Map::new();
    for entry in fs::read_dir("/proc/self/fd")? {
        let entry = entry?;
        let number = entry.file_name().to_string_lossy().into_owned();
        let target = fs::read_link(entry.path())?.to_string_lossy().into_owned();
        if !(target.starts_with("/proc/") && target.ends_with("/fd")) {
            open.insert(number, Value::String(target));
        }
    }
    Ok(Value::Object(open))
}

/// Opens a descriptor's file anew through its magic link, and uses it.
fn reopen(fd: i32, how: &str) -> Outcome {
    let magic = format!("/proc/self/fd/{fd}");
    match how {
        "r" => {
            let mut text = String::new();
            File::open(magic)?.take(4096).read_to_string(&mut text)?;
            Ok(json!(text))
        }
        "w" => done(OpenOptions::new().write(true).open(magic)?.write_all(b"planted\n")),
        _ => Err(Failure::Usage),
    }
}

fn read_at_fd(args: &Args) -> Outcome {
    let fd = sys!(libc::SYS_openat, args.int(0)?, args.os(1)?, libc::O_RDONLY, 0)?;
    let mut bytes = [Arg::from(fd), Arg::from(vec![0; 4096]), Arg::from(4096)];
    let length = call(libc::SYS_read, &mut bytes)? as usize;
    let Arg::Bytes(buffer) = &bytes[1] else { return Err(Failure::Usage) };
    Ok(json!(String::from_utf8_lossy(&buffer[..length])))
}

/// Size of `struct file_handle` without its bytes: length and type.
const HANDLE_HEADER: usize = 8;

/// name_to_handle_at(2): the handle as the kernel wrote it.
fn handle_of(path: &OsStr) -> std::io::Result<Vec<u8>> {
    let mut handle = vec![0; HANDLE_HEADER + 128];
    handle[..4].copy_from_slice(&128_u32.to_ne_bytes());
    let mut call_args =
        [Arg::from(libc::AT_FDCWD), Arg::from(path), Arg::from(handle), Arg::from(vec![0; 4]), Arg::from(0)];
    call(libc::SYS_name_to_handle_at, &mut call_args)?;
    match call_args {
        [_, _, Arg::Bytes(handle), ..] => Ok(handle),
        _ => Err(std::io::ErrorKind::InvalidData.into()),
    }
}

/// Opens a file by its handle: the way out of a box known as "shocker". If even the handle can't be had, a made-up
/// one is tried, so that the second call is judged by itself.
fn open_by_handle(args: &Args) -> Outcome {
    let mount = File::open("/")?;
    let handle = handle_of(args.os(0)?).unwrap_or_else(|_| {
        let mut made_up = vec![0; HANDLE_HEADER + 8];
        made_up[..4].copy_from_slice(&8_u32.to_ne_bytes());
        made_up[4..8].copy_from_slice(&1_u32.to_ne_bytes());
        made_up[8..12].copy_from_slice(&2_u32.to_ne_bytes());
        made_up
    });
    done(sys!(libc::SYS_open_by_handle_at, mount.as_raw_fd(), handle, libc::O_RDONLY))
}

/// Takes a descriptor out of another process. `self` stands for this process.
fn pidfd_getfd(args: &Args) -> Outcome {
    let pid = super::process::pid(args, 0)?;
    let pidfd = sys!(libc::SYS_pidfd_open, pid, 0)?;
    done(sys!(libc::SYS_pidfd_getfd, pidfd, args.int(1)?, 0))
}
