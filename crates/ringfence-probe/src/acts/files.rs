//! Acts on names and contents of files.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::{Act, act};
use crate::args::{Args, Outcome};
use crate::sys::sys;

/// At most so much of a file is shown.
const SHOWN: u64 = 4096;

pub(super) const ACTS: &[Act] = &[
    act("read", "PATH", read),
    act("read-link", "PATH", |args| Ok(json!(fs::read_link(args.path(0)?)?.to_string_lossy()))),
    act("list", "DIR", list),
    act("stat", "PATH", |args| Ok(json!(fs::symlink_metadata(args.path(0)?)?.len()))),
    act("write", "PATH", |args| write(args, OpenOptions::new().write(true))),
    act("open-read", "PATH", |args| done(File::open(args.path(0)?))),
    act("open-write", "PATH", open_write),
    act("append", "PATH", |args| write(args, OpenOptions::new().append(true))),
    act("create", "PATH", |args| write(args, OpenOptions::new().write(true).create_new(true))),
    act("replace", "PATH", replace),
    act("truncate", "PATH", |args| done(sys!(libc::SYS_truncate, args.os(0)?, 0))),
    act("tmpfile", "DIR", tmpfile),
    act("tmpfile-link", "DIR TARGET", tmpfile_link),
    act("unlink", "PATH", |args| done(fs::remove_file(args.path(0)?))),
    act("mkdir", "PATH", |args| done(fs::create_dir(args.path(0)?))),
    act("rmdir", "PATH", |args| done(fs::remove_dir(args.path(0)?))),
    act("rename", "FROM TO", |args| done(fs::rename(args.path(0)?, args.path(1)?))),
    act("exchange", "A B", exchange),
    act("link", "FROM TO", |args| done(fs::hard_link(args.path(0)?, args.path(1)?))),
    act("symlink", "TARGET LINK", |args| done(std::os::unix::fs::symlink(args.path(0)?, args.path(1)?))),
    act("mkfifo", "PATH", |args| mknod(args, libc::S_IFIFO, 0)),
    act("mknod-regular", "PATH", |args| mknod(args, libc::S_IFREG, 0)),
    act("mknod-char", "PATH", |args| mknod(args, libc::S_IFCHR, NULL_DEVICE)),
    act("mknod-block", "PATH", |args| mknod(args, libc::S_IFBLK, 0)),
    act("bind-unix", "PATH", |args| done(UnixListener::bind(args.path(0)?))),
    act("connect-unix", "PATH", |args| done(std::os::unix::net::UnixStream::connect(args.path(0)?))),
    act("send-unix", "PATH", |args| done(UnixDatagram::unbound()?.send_to(b"x", args.path(0)?))),
    act("exec", "PROGRAM [ARGS…]", exec),
];

/// Major 1, minor 3: `/dev/null`.
const NULL_DEVICE: u32 = 0x103;

/// An act without details.
pub(super) fn done<T>(result: std::io::Result<T>) -> Outcome {
    Ok(result.map(|_| Value::Null)?)
}

fn read(args: &Args) -> Outcome {
    let mut bytes = Vec::new();
    File::open(args.path(0)?)?.take(SHOWN).read_to_end(&mut bytes)?;
    Ok(json!(String::from_utf8_lossy(&bytes)))
}

fn list(args: &Args) -> Outcome {
    let mut names = Vec::new();
    for entry in fs::read_dir(args.path(0)?)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(json!(names))
}

fn write(args: &Args, options: &mut OpenOptions) -> Outcome {
    done(options.open(args.path(0)?)?.write_all(b"planted\n"))
}

/// Opens for writing and writes nothing, as `open-read` reads nothing: for files of the kernel, where a write acts at once.
fn open_write(args: &Args) -> Outcome {
    done(OpenOptions::new().write(true).open(args.path(0)?))
}

/// Writes a new file beside and renames it over the old one, as editors and git do.
fn replace(args: &Args) -> Outcome {
    let path = args.path(0)?;
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    fs::write(&beside, b"planted\n")?;
    done(fs::rename(&beside, path).inspect_err(|_| {
        // The refused rename is what counts; a file left beside is seen by who compares listings.
        let _ = fs::remove_file(&beside);
    }))
}

fn open_tmpfile(dir: &Path) -> std::io::Result<File> {
    OpenOptions::new().write(true).custom_flags(libc::O_TMPFILE).open(dir)
}

fn tmpfile(args: &Args) -> Outcome {
    done(open_tmpfile(args.path(0)?))
}

/// Gives an unnamed file a name: linkat(2) through `/proc/self/fd`.
fn tmpfile_link(args: &Args) -> Outcome {
    let target = args.os(1)?;
    let file = open_tmpfile(args.path(0)?)?;
    let magic = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    done(sys!(
        libc::SYS_linkat,
        libc::AT_FDCWD,
        magic.as_str(),
        libc::AT_FDCWD,
        target,
        libc::AT_SYMLINK_FOLLOW
    ))
}

fn exchange(args: &Args) -> Outcome {
    done(sys!(
        libc::SYS_renameat2,
        libc::AT_FDCWD,
        args.os(0)?,
        libc::AT_FDCWD,
        args.os(1)?,
        libc::RENAME_EXCHANGE
    ))
}

fn mknod(args: &Args, kind: u32, device: u32) -> Outcome {
    done(sys!(libc::SYS_mknodat, libc::AT_FDCWD, args.os(0)?, kind | 0o644, device))
}

/// Starts a program and waits for it. Only a failed start is a failure.
fn exec(args: &Args) -> Outcome {
    let output = Command::new(args.os(0)?).args(&args.all()[1..]).output()?;
    Ok(json!({
        "code": output.status.code(),
        "stdout": String::from_utf8_lossy(&output.stdout),
    }))
}
