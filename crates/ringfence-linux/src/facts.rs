//! What the plan has to know of this host.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use ringfence_gate::DriverError;
use ringfence_plan::LinuxFacts;
use ringfence_plan::linux::RootEntry;
use ringfence_plan::linux::SYSTEM_ROOTS;
use ringfence_plan::linux::seccomp::Arch;
use ringfence_types::UnixPath;
use rustix::buffer::spare_capacity;
use rustix::fs::{FileType, Mode, OFlags, RawDir};
use rustix::io::{Errno, retry_on_intr};

use crate::sys;

#[cfg(target_arch = "x86_64")]
const ARCH: Arch = Arch::X86_64;
#[cfg(target_arch = "aarch64")]
const ARCH: Arch = Arch::Aarch64;

/// Gathers the facts.
pub(crate) fn gather() -> Result<LinuxFacts, DriverError> {
    let io = |action| move |source| DriverError::Io { action, source };
    let top = TopLevel::list();
    Ok(LinuxFacts {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        arch: ARCH,
        landlock_abi: sys::landlock_abi(),
        system: system_roots(&top),
        present: ["/proc", "/run", "/sys", "/tmp"]
            .into_iter()
            .filter(|path| top.file_type(path) == Some(FileType::Directory))
            .map(PathBuf::from)
            .collect(),
        sockets: reachable_sockets().map_err(io("read /proc/net/unix"))?,
        resolv_conf: in_etc(&top, "/etc/resolv.conf"),
        nsswitch: in_etc(&top, "/etc/nsswitch.conf"),
        hosts_file: in_etc(&top, "/etc/hosts"),
        env: std::env::vars_os()
            .map(|(name, value)| (UnixPath::new(name.into_vec()), UnixPath::new(value.into_vec())))
            .collect(),
    })
}

/// What lies directly in `/`, by one listing instead of a look at each name.
struct TopLevel {
    /// `None` if `/` can't be listed.
    entries: Option<Vec<(Vec<u8>, FileType)>>,
}

impl TopLevel {
    fn list() -> Self {
        Self { entries: Self::read().ok() }
    }

    fn read() -> rustix::io::Result<Vec<(Vec<u8>, FileType)>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open("/", flags, Mode::empty())?;
        let mut buffer = [MaybeUninit::uninit(); 4 << 10];
        let mut listing = RawDir::new(root, &mut buffer);
        let mut entries = Vec::with_capacity(32);
        while let Some(entry) = listing.next() {
            let entry = entry?;
            entries.push((entry.file_name().to_bytes().to_vec(), entry.file_type()));
        }
        Ok(entries)
    }

    /// Type of what lies at an absolute path, a symlink at its end not followed.
    fn file_type(&self, path: &str) -> Option<FileType> {
        let (name, below) = path[1..].split_once('/').map_or((&path[1..], false), |(name, _)| (name, true));
        if let Some(entries) = &self.entries {
            let (_, file_type) = entries.iter().find(|(known, _)| known == name.as_bytes())?;
            if !below && *file_type != FileType::Unknown {
                return Some(*file_type);
            }
        }
        let stat = rustix::fs::lstat(path).ok()?;
        Some(FileType::from_raw_mode(stat.st_mode))
    }
}

/// Whether a directory lies at the path itself; a symlink to one doesn't count.
pub(crate) fn is_directory(path: &str) -> bool {
    rustix::fs::lstat(path).is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Directory)
}

fn system_roots(top: &TopLevel) -> Vec<RootEntry> {
    SYSTEM_ROOTS
        .iter()
        .filter_map(|path| match top.file_type(path)? {
            FileType::Directory => Some(RootEntry::Directory(path.into())),
            FileType::Symlink => {
                Some(RootEntry::Symlink { path: path.into(), target: fs::read_link(path).ok()? })
            }
            _ => None,
        })
        .collect()
}

/// Canonical path of a file in `/etc`.
fn in_etc(top: &TopLevel, path: &str) -> Option<PathBuf> {
    // Where neither the directory nor the file is a symlink, the path is canonical as it is.
    if top.file_type("/etc") == Some(FileType::Directory) {
        match rustix::fs::readlink(path, Vec::with_capacity(256)) {
            Err(Errno::INVAL) => return Some(path.into()),
            Err(Errno::NOENT) => return None,
            _ => {}
        }
    }
    fs::canonicalize(path).ok()
}

/// Pathname sockets that can be connected or sent to, as canonical paths. A mount is no hindrance to that, not
/// even a read-only one, so each of them has to be covered.
///
/// The kernel lists those of this network namespace, by the path that they were bound with. What somebody mounted here one
/// by one may be of another's, as a container's host does with its own; those are found by their mounts.
fn reachable_sockets() -> io::Result<Vec<PathBuf>> {
    let mut found = mounted_sockets(&read_table("/proc/self/mountinfo")?);
    let table = match read_table("/proc/net/unix") {
        // A kernel without Unix sockets.
        Err(Errno::NOENT) => return Ok(found.into_iter().collect()),
        table => table?,
    };
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

/// Mount points that are sockets. The root of such a mount is no root of a file system, so few lines need a look.
fn mounted_sockets(mountinfo: &[u8]) -> BTreeSet<PathBuf> {
    let lines = mountinfo.split(|&byte| byte == b'\n');
    let points = lines.filter_map(mounted_part);
    points.filter(|point| fs::symlink_metadata(point).is_ok_and(|found| is_socket(&found))).collect()
}

/// Mount point of a line of `/proc/self/mountinfo` (proc_pid_mountinfo(5): fields 4 and 5 are root and mount point), if what
/// it shows is a part of a file system.
fn mounted_part(line: &[u8]) -> Option<PathBuf> {
    let mut fields = line.split(|&byte| byte == b' ').skip(3);
    let (root, point) = (fields.next()?, fields.next()?);
    if root == b"/" {
        return None;
    }
    // Blanks and backslashes are written as a backslash and three octal digits.
    let mut pieces = point.split(|&byte| byte == b'\\');
    let mut bytes = pieces.next()?.to_vec();
    for piece in pieces {
        let (octal, rest) = piece.split_at_checked(3)?;
        bytes.push(u8::from_str_radix(std::str::from_utf8(octal).ok()?, 8).ok()?);
        bytes.extend_from_slice(rest);
    }
    Some(std::ffi::OsString::from_vec(bytes).into())
}

/// The whole of a file of /proc, whose size nobody knows before: read in large pieces.
fn read_table(path: &str) -> rustix::io::Result<Vec<u8>> {
    const PIECE: usize = 16 << 10;
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut table = Vec::new();
    loop {
        table.reserve(PIECE);
        if retry_on_intr(|| rustix::io::read(&file, spare_capacity(&mut table)))? == 0 {
            return Ok(table);
        }
    }
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
    fn a_listing_says_what_a_look_at_each_name_says() {
        let top = TopLevel::list();
        assert!(top.entries.as_ref().is_some_and(|entries| entries.len() > 3));
        let unlisted = TopLevel { entries: None };
        for path in SYSTEM_ROOTS.iter().chain(&["/proc", "/tmp", "/absent", "/absent/too", "/etc/hosts"]) {
            assert_eq!(top.file_type(path), unlisted.file_type(path), "{path}");
        }
        assert_eq!(top.file_type("/proc"), Some(FileType::Directory));
        // The box is begun by the same judgement as its plan is made by, also of a symlink to a directory.
        for path in ["/proc", "/tmp", "/run", "/bin", "/proc/self", "/absent"] {
            assert_eq!(top.file_type(path) == Some(FileType::Directory), is_directory(path), "{path}");
        }
        assert!(!is_directory("/proc/self") && std::path::Path::new("/proc/self").is_dir());
        assert_eq!(system_roots(&top), system_roots(&unlisted));
        for path in ["/etc/hosts", "/etc/resolv.conf", "/etc/absent"] {
            assert_eq!(in_etc(&top, path), fs::canonicalize(path).ok(), "{path}");
        }
    }

    #[test]
    fn sockets_that_were_mounted_are_found_by_their_mounts() {
        let directory = tempfile::tempdir().unwrap();
        let (socket, file) = (directory.path().join("a socket"), directory.path().join("file"));
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        fs::write(&file, "").unwrap();
        let line = |root: &str, at: &Path| {
            let at = at.to_str().unwrap().replace(' ', "\\040");
            format!("36 35 98:0 {root} {at} rw,noatime master:1 - ext3 /dev/root rw\n")
        };
        let table =
            [line("/run/host.sock", &socket), line("/file", &file), line("/", directory.path())].concat();
        assert_eq!(mounted_sockets(table.as_bytes()), [socket].into());
        assert!(
            mounted_sockets(&read_table("/proc/self/mountinfo").unwrap())
                .iter()
                .all(|path| path.is_absolute())
        );
    }

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
