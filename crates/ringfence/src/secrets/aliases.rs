use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// One mount of /proc/self/mountinfo (proc_pid_mountinfo(5)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    /// `major:minor` of the file system.
    device: Vec<u8>,
    /// Which of its directories is the root of this mount.
    root: PathBuf,
    /// Where it is seen.
    at: PathBuf,
}

/// The text of the mount table; empty on a system without one.
pub(super) struct MountTable(Vec<u8>);

impl MountTable {
    pub(super) fn read() -> Self {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let Ok(file) = rustix::fs::open("/proc/self/mountinfo", flags, Mode::empty()) else {
            return Self(Vec::new());
        };
        let mut text = Vec::with_capacity(4 << 10);
        loop {
            match rustix::io::read(&file, rustix::buffer::spare_capacity(&mut text)) {
                Ok(0) | Err(_) => return Self(text),
                Ok(_) => text.reserve(4 << 10),
            }
        }
    }

    /// The mounts, if a file system has more than one: else nothing is seen twice.
    pub(super) fn mounts(&self) -> Vec<Mount> {
        let lines = || self.0.split(|&byte| byte == b'\n');
        let mut devices: Vec<&[u8]> =
            lines().filter_map(|line| fields(line).map(|[device, ..]| device)).collect();
        devices.sort_unstable();
        if devices.windows(2).all(|pair| pair[0] != pair[1]) {
            return Vec::new();
        }
        lines().filter_map(mount).collect()
    }
}

/// Device, root and mount point of a line. Every box has a /proc of its own, so what lies there doesn't count.
fn fields(line: &[u8]) -> Option<[&[u8]; 3]> {
    let mut fields = line.split(|&byte| byte == b' ').skip(2);
    let found = [fields.next()?, fields.next()?, fields.next()?];
    let below = found[2].strip_prefix(b"/proc");
    (!below.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))).then_some(found)
}

fn mount(line: &[u8]) -> Option<Mount> {
    let [device, root, at] = fields(line)?;
    Some(Mount { device: device.to_vec(), root: unescape(root), at: unescape(at) })
}

/// Space, tab, newline and backslash are written as `\` and three octal digits.
fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        let octal = |digits: &[u8]| {
            digits
                .iter()
                .try_fold(0u32, |sum, d| (b'0'..=b'7').contains(d).then(|| sum * 8 + u32::from(d - b'0')))
        };
        match (*first, tail.get(..3).and_then(octal).and_then(|value| u8::try_from(value).ok())) {
            (b'\\', Some(byte)) => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            (byte, _) => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

/// Other places at which the same files are seen through bind mounts: for each path its place within its file
/// system, looked for in every other mount of that file system.
pub(super) fn of(paths: &[PathBuf], mounts: &[Mount]) -> Vec<PathBuf> {
    let mut aliases = Vec::new();
    if mounts.is_empty() {
        return aliases;
    }
    for path in paths {
        let Ok(path) = path.canonicalize() else { continue };
        let Some(home) = covering(mounts, &path) else { continue };
        let Ok(below) = path.strip_prefix(&home.at) else { continue };
        let inside = home.root.join(below);
        for mount in mounts.iter().filter(|mount| mount.device == home.device) {
            let alias = if let Ok(rest) = inside.strip_prefix(&mount.root) {
                join(&mount.at, rest)
            } else if mount.root.starts_with(&inside) {
                // A part of a secret directory is mounted elsewhere.
                mount.at.clone()
            } else {
                continue;
            };
            // Hidden below a later mount, or the path itself.
            let seen = covering(mounts, &alias)
                .is_some_and(|top| top.device == mount.device && top.root == mount.root);
            if seen && alias != path && alias.symlink_metadata().is_ok() {
                aliases.push(alias);
            }
        }
    }
    aliases
}

/// The mount at which a path is seen: the last of those with the longest mount point.
fn covering<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    mounts
        .iter()
        .filter(|mount| path.starts_with(&mount.at))
        .max_by_key(|mount| mount.at.components().count())
}

fn join(base: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() { base.to_path_buf() } else { base.join(rest) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_unescaped() {
        let line = b"36 35 98:0 /mnt1 /mnt\\0402\\134x rw,noatime master:1 - ext3 /dev/root rw";
        let text = [&line[..], b"37 35 98:0 / /proc/x rw - ext3 /dev/root rw\nshort\n"].join(&b'\n');
        assert_eq!(MountTable(text.clone()).mounts(), [], "nothing is seen twice");
        let mounts = MountTable([&text, &line[..]].concat()).mounts();
        assert_eq!(mounts.len(), 2);
        assert_eq!(mounts[0].root, Path::new("/mnt1"));
        assert_eq!(mounts[0].at, Path::new("/mnt 2\\x"));
        assert_eq!(unescape(b"a\\"), Path::new("a\\"));
        assert_eq!(unescape(b"a\\999"), Path::new("a\\999"));
    }

    fn mount(device: &str, root: &Path, at: &Path) -> Mount {
        Mount { device: device.as_bytes().to_vec(), root: root.to_path_buf(), at: at.to_path_buf() }
    }

    #[test]
    fn a_secret_is_found_at_every_place_where_it_is_mounted() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let secret = base.join("home/.ssh");
        for path in ["home/.ssh/keys", "copy/.ssh", "part", "other/home/.ssh", "hidden/home/.ssh"] {
            std::fs::create_dir_all(base.join(path)).unwrap();
        }
        let mounts = [
            mount("8:1", Path::new("/"), &base),
            mount("8:1", Path::new("/home"), &base.join("copy")),
            mount("8:1", Path::new("/home/.ssh/keys"), &base.join("part")),
            mount("8:2", Path::new("/"), &base.join("other")),
            mount("8:1", Path::new("/"), &base.join("hidden")),
            mount("8:3", Path::new("/"), &base.join("hidden")),
        ];
        assert_eq!(of(&[secret], &mounts), [base.join("copy/.ssh"), base.join("part")]);
        assert_eq!(of(&[base.join("absent")], &mounts), [] as [PathBuf; 0]);
    }
}
