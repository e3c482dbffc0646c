//! Acts on the terminal behind standard input.

use std::io::IsTerminal;

use serde_json::json;

use super::files::done;
use super::{Act, act};
use crate::args::{Args, Failure, Outcome};
use crate::sys::{Arg, call, sys};

pub(super) const ACTS: &[Act] = &[
    act("terminal", "", terminal),
    act("inject", "[HIGH]", |args| ioctl_byte(args, libc::TIOCSTI as i64, b'#')),
    act("console", "[HIGH]", |args| {
        const TIOCLINUX: i64 = 0x541c;
        const TIOCL_GETSHIFTSTATE: u8 = 6;
        ioctl_byte(args, TIOCLINUX, TIOCL_GETSHIFTSTATE)
    }),
    act("make-exclusive", "", |_| done(sys!(libc::SYS_ioctl, 0, libc::TIOCEXCL as i64))),
    act("make-raw", "", make_raw),
    act("make-nonblocking", "", |_| {
        let flags = sys!(libc::SYS_fcntl, 0, libc::F_GETFL)?;
        done(sys!(libc::SYS_fcntl, 0, libc::F_SETFL, flags | i64::from(libc::O_NONBLOCK)))
    }),
    act("resize", "ROWS COLUMNS", |args| {
        let size = [args.int(0)? as u16, args.int(1)? as u16, 0, 0];
        let bytes: Vec<u8> = size.iter().flat_map(|field| field.to_ne_bytes()).collect();
        done(sys!(libc::SYS_ioctl, 0, libc::TIOCSWINSZ as i64, bytes))
    }),
    act("break-terminal-and-die", "", |args| {
        for act in ["make-exclusive", "make-raw", "make-nonblocking"] {
            super::find(act).map(|act| (act.run)(args)).transpose()?;
        }
        done(sys!(libc::SYS_kill, std::process::id(), libc::SIGKILL))
    }),
];

/// An ioctl with a pointer to one byte. `HIGH`, if given, is or-ed into the upper half of the request, which the
/// kernel ignores and a careless filter compares.
fn ioctl_byte(args: &Args, request: i64, byte: u8) -> Outcome {
    let high = if args.all().is_empty() { 0 } else { args.int(0)? };
    done(sys!(libc::SYS_ioctl, 0, request | high, vec![byte]))
}

/// Size of the kernel's `struct termios`: four flag words, the line discipline, 19 control characters.
const TERMIOS: usize = 36;

fn modes() -> Result<Vec<u8>, Failure> {
    let mut get = [Arg::Int(0), Arg::Int(libc::TCGETS as i64), Arg::from(vec![0; TERMIOS])];
    call(libc::SYS_ioctl, &mut get)?;
    match get {
        [_, _, Arg::Bytes(modes)] => Ok(modes),
        _ => Err(Failure::Usage),
    }
}

const LOCAL_FLAGS: usize = 12;

fn local_flags(modes: &[u8]) -> u32 {
    let word = &modes[LOCAL_FLAGS..LOCAL_FLAGS + 4];
    u32::from_ne_bytes([word[0], word[1], word[2], word[3]])
}

/// No echo, no lines, no signals.
fn make_raw(_: &Args) -> Outcome {
    let mut modes = modes()?;
    let flags = local_flags(&modes) & !(libc::ECHO | libc::ICANON | libc::ISIG);
    modes[LOCAL_FLAGS..LOCAL_FLAGS + 4].copy_from_slice(&flags.to_ne_bytes());
    done(sys!(libc::SYS_ioctl, 0, libc::TCSETS as i64, modes))
}

/// Which streams are terminals, the size, the modes and the foreground group.
fn terminal(_: &Args) -> Outcome {
    let streams =
        [std::io::stdin().is_terminal(), std::io::stdout().is_terminal(), std::io::stderr().is_terminal()];
    if !streams[0] {
        return Ok(json!({ "is_terminal": streams }));
    }
    let mut get = [Arg::Int(0), Arg::Int(libc::TIOCGWINSZ as i64), Arg::from(vec![0; 8])];
    call(libc::SYS_ioctl, &mut get)?;
    let Arg::Bytes(size) = &get[2] else { return Err(Failure::Usage) };
    let flags = local_flags(&modes()?);
    let mut group = [Arg::Int(0), Arg::Int(libc::TIOCGPGRP as i64), Arg::from(vec![0; 4])];
    let foreground = call(libc::SYS_ioctl, &mut group).is_ok();
    let Arg::Bytes(group) = &group[2] else { return Err(Failure::Usage) };
    Ok(json!({
        "is_terminal": streams,
        "rows": u16::from_ne_bytes([size[0], size[1]]),
        "columns": u16::from_ne_bytes([size[2], size[3]]),
        "echo": flags & libc::ECHO != 0,
        "lines": flags & libc::ICANON != 0,
        "signals": flags & libc::ISIG != 0,
        "nonblocking": sys!(libc::SYS_fcntl, 0, libc::F_GETFL)? & i64::from(libc::O_NONBLOCK) != 0,
        "foreground_group": foreground.then(|| u32::from_ne_bytes([group[0], group[1], group[2], group[3]])),
        "name": std::fs::read_link("/proc/self/fd/0")?.to_string_lossy(),
    }))
}
