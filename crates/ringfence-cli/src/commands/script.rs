//! The script that a shell or another interpreter will read from our own standard input.

use std::io::{self, IsTerminal as _};
use std::os::fd::AsFd as _;

use ringfence::SandboxCommand;
use ringfence::command_policy::{SCAN_LIMIT, executes_stdin};
use rustix::fs::{FileType, SeekFrom, fstat, seek};
use rustix::io::{Errno, pread};

/// Beyond this the command policy reads no text as a whole, and says so.
const LIMIT: usize = 2 * SCAN_LIMIT;

/// Lets the command policy read what the program will execute: a regular file from where it stands, which stays where
/// it is. Of a pipe nothing is known; at a terminal a person writes the script. Nothing happens for other programs.
pub(super) fn look(command: &mut SandboxCommand) {
    let program = std::iter::once(&command.program).chain(&command.args);
    let argv: Vec<&[u8]> = program.map(|word| word.as_encoded_bytes()).collect();
    if executes_stdin(&argv) {
        let stdin = io::stdin();
        command.known_stdin =
            if stdin.is_terminal() { Some(Vec::new()) } else { rest_of_file().ok().flatten() };
    }
}

/// The part of standard input that has not been read, without reading it; `None` if it is no regular file, or one that
/// names no size, as those of /proc: reading such a file may wait for ever.
fn rest_of_file() -> Result<Option<Vec<u8>>, Errno> {
    let stdin = io::stdin();
    let stdin = stdin.as_fd();
    let found = fstat(stdin)?;
    let kind = FileType::from_raw_mode(found.st_mode);
    if kind == FileType::CharacterDevice && is_null(stdin)? {
        return Ok(Some(Vec::new()));
    }
    let size = u64::try_from(found.st_size).unwrap_or_default();
    if kind != FileType::RegularFile || size == 0 {
        return Ok(None);
    }
    let mut at = seek(stdin, SeekFrom::Current(0))?;
    let mut text = Vec::new();
    let mut block = vec![0; 64 * 1024];
    while text.len() < LIMIT && at < size {
        let count = match pread(stdin, &mut block[..], at) {
            Ok(0) => break,
            Err(Errno::INTR) => continue,
            other => other?,
        };
        text.extend_from_slice(&block[..count]);
        at += u64::try_from(count).unwrap_or_default();
    }
    Ok(Some(text))
}

/// Whether it is `/dev/null` (null(4): device 1, 3).
fn is_null(fd: std::os::fd::BorrowedFd<'_>) -> Result<bool, Errno> {
    Ok(fstat(fd)?.st_rdev == rustix::fs::makedev(1, 3))
}
