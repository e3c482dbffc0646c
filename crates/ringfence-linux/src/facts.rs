//! What the plan has to know of this host.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ringfence_gate::DriverError;
use ringfence_plan::LinuxFacts;
use ringfence_plan::linux::RootEntry;
use ringfence_plan::linux::SYSTEM_ROOTS;
use ringfence_plan::linux::seccomp::Arch;
use ringfence_types::UnixPath;

use crate::sys;

#[cfg(target_arch = "x86_64")]
const ARCH: Arch = Arch::X86_64;
#[cfg(target_arch = "aarch64")]
const ARCH: Arch = Arch::Aarch64;

/// Gathers the facts.
pub(crate) fn gather() -> Result<LinuxFacts, DriverError> {
    let io = |action| move |source| DriverError::Io { action, source };
    Ok(LinuxFacts {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        arch: ARCH,
        landlock_abi: sys::landlock_abi(),
        system: system_roots(),
        present: ["/proc", "/run", "/sys", "/tmp"]
            .into_iter()
            .filter(|path| is_real_directory(path))
            .map(PathBuf::from)
            .collect(),
        sockets: reachable_sockets().map_err(io("read /proc/net/unix"))?,
        resolv_conf: fs::canonicalize("/etc/resolv.conf").ok().filter(|path| !path.starts_with("/etc")),
        hosts_file: fs::canonicalize("/etc/hosts").ok(),
        env: std::env::vars_os()
            .map(|(name, value)| (UnixPath::new(name.as_bytes()), UnixPath::new(value.as_bytes())))
            .collect(),
    })
}

fn is_real_directory(path: &str) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

fn system_roots() -> Vec<RootEntry> {
    SYSTEM_ROOTS
        .iter()
        .map(PathBuf::from)
        .filter_map(|path| {
            let metadata = fs::symlink_metadata(&path).ok()?;
            if metadata.is_symlink() {
                let target = fs::read_link(&path).ok()?;
                Some(RootEntry::Symlink { path, target })
            } else {
                metadata.is_dir().then_some(RootEntry::Directory(path))
            }
        })
        .collect()
}

/// Pathname sockets that can be connected or sent to, as canonical paths. A mount is no hindrance to that, not
/// even a read-only one, so each of them has to be covered.
fn reachable_sockets() -> io::Result<Vec<PathBuf>> {
    let table = match fs::read("/proc/net/unix") {
        // A kernel without Unix sockets.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        table => table?,
    };
    let mut found = BTreeSet::new();
    for line in table.split(|&byte| byte == b'\n').skip(1) {
        let Some(path) = reachable_path(line) else { continue };
        let Some((parent, name)) = path.parent().zip(path.file_name()) else { continue };
        // What the caller can't reach, the box can't either.
        if let Ok(parent) = fs::canonicalize(parent) {
            let path = parent.join(name);
            if fs::symlink_metadata(&path).is_ok_and(|metadata| is_socket(&metadata)) {
                found.insert(path);
            }
        }
    }
    Ok(found.into_iter().collect())
}

fn is_socket(metadata: &fs::Metadata) -> bool {
    std::os::unix::fs::FileTypeExt::is_socket(&metadata.file_type())
}

/// The pathname of a line of `/proc/net/unix` (proc_net(5): `Num RefCount Protocol Flags Type St Inode Path`), if
/// its socket listens (flag `__SO_ACCEPTCON`) or takes datagrams.
fn reachable_path(line: &[u8]) -> Option<&Path> {
    const ACCEPTS: u32 = 0x10000;
    const DATAGRAM: u32 = 2;
    let hexadecimal = |field: &[u8]| u32::from_str_radix(std::str::from_utf8(field).ok()?, 16).ok();
    let mut fields = line.split(|&byte| byte == b' ').filter(|field| !field.is_empty());
    let flags = hexadecimal(fields.nth(3)?)?;
    let kind = hexadecimal(fields.next()?)?;
    let start = line.windows(2).position(|pair| pair == b" /")? + 1;
    (flags & ACCEPTS != 0 || kind == DATAGRAM).then(|| Path::new(OsStr::from_bytes(&line[start..])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pathname_sockets_that_can_be_reached_count() {
        let line = b"0000000000000000: 00000002 00000000 00010000 0001 01 12345 /run/a socket";
        assert_eq!(reachable_path(line), Some(Path::new("/run/a socket")));
        assert_eq!(reachable_path(b"0: 00000002 00000000 00000000 0001 03 12 /run/x"), None);
        let datagram = b"0: 00000002 00000000 00000000 0002 01 12 /run/log";
        assert_eq!(reachable_path(datagram), Some(Path::new("/run/log")));
        assert_eq!(reachable_path(b"0: 00000002 00000000 00010000 0001 01 12 @abstract"), None);
        assert_eq!(reachable_path(b"0: 00000002 00000000 00010000 0001 01 12"), None);
    }
}
