//! What is known of a host that may keep a sandbox from working. Only small files of `/proc` and `/sys` are read,
//! never a path that a network file system could serve.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

/// Software that started the container this runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Container {
    Docker,
    Podman,
    Kubernetes,
}

/// Facts that explain a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Host {
    /// Effective user id, from `/proc/self/status`.
    pub(super) uid: Option<u32>,
    /// Nobody has an id in the user namespace that this runs in.
    pub(super) unmapped: bool,
    /// Kernel release such as `6.8.0-31-generic`.
    pub(super) kernel: String,
    pub(super) container: Option<Container>,
    /// A seccomp filter is already in force on this process.
    pub(super) filtered: bool,
    /// Smallest of `user.max_{user,mnt,pid,ipc,uts,net}_namespaces`, with its name.
    pub(super) namespaces_max: Option<(&'static str, u64)>,
    /// `kernel.unprivileged_userns_clone` of Debian kernels.
    pub(super) unprivileged_clone: Option<bool>,
    /// `kernel.apparmor_restrict_unprivileged_userns` of Ubuntu kernels.
    pub(super) apparmor_restricts: bool,
    /// Security modules in force, where `/sys/kernel/security` is mounted.
    pub(super) modules: Option<Vec<String>>,
    /// File system of `/`; `None` in a chroot below a mount point.
    pub(super) root_type: Option<String>,
    /// Mount points below `/proc`.
    pub(super) proc_covers: Vec<String>,
    /// File system type below the home directory if a network serves it.
    pub(super) network_home: Option<String>,
    /// Inside a box of Ringfence.
    pub(super) nested: bool,
}

const NAMESPACES: [&str; 6] = ["user", "mnt", "pid", "ipc", "uts", "net"];
const NETWORK_TYPES: [&str; 8] = ["nfs", "nfs4", "autofs", "cifs", "smb3", "9p", "fuse.sshfs", "afs"];

impl Host {
    /// Reads the files below `root` (`/`, or a tree made by a test) and the variables that `env` knows.
    pub(super) fn gather(root: &Path, env: impl Fn(&str) -> Option<OsString>) -> Self {
        let read = |path: &str| fs::read_to_string(root.join(path)).ok();
        let number = |path: &str| read(path)?.trim().parse::<u64>().ok();
        let status = read("proc/self/status").unwrap_or_default();
        let mounts = Mounts::parse(&read("proc/self/mountinfo").unwrap_or_default());
        let home = env("HOME").and_then(|home| home.into_string().ok());
        Self {
            uid: field(&status, "Uid:").and_then(|ids| ids.split_whitespace().nth(1)?.parse().ok()),
            unmapped: read("proc/self/uid_map").is_some_and(|map| map.trim().is_empty()),
            kernel: read("proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            container: container(root, &env),
            filtered: field(&status, "Seccomp:").is_some_and(|mode| mode.trim() == "2"),
            namespaces_max: NAMESPACES
                .into_iter()
                .filter_map(|name| Some((name, number(&format!("proc/sys/user/max_{name}_namespaces"))?)))
                .min_by_key(|(_, max)| *max),
            unprivileged_clone: number("proc/sys/kernel/unprivileged_userns_clone")
                .map(|allowed| allowed != 0),
            apparmor_restricts: number("proc/sys/kernel/apparmor_restrict_unprivileged_userns") == Some(1),
            modules: read("sys/kernel/security/lsm")
                .map(|list| list.trim().split(',').map(str::to_owned).collect()),
            root_type: mounts.type_at("/"),
            proc_covers: mounts.below("/proc"),
            network_home: home
                .and_then(|home| mounts.type_of(&home))
                .filter(|kind| NETWORK_TYPES.contains(&kind.as_str())),
            nested: env("RINGFENCE_SANDBOX").is_some(),
        }
    }

    /// Windows Subsystem for Linux without a Linux kernel: its release ends in `-Microsoft`, that of the second
    /// generation in `-microsoft-standard-WSL2`.
    pub(super) fn is_wsl1(&self) -> bool {
        self.kernel.ends_with("-Microsoft")
    }

    /// Major and minor number of the kernel.
    pub(super) fn kernel_version(&self) -> Option<(u32, u32)> {
        let mut parts = self.kernel.split(|c: char| !c.is_ascii_digit());
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    }
}

fn container(root: &Path, env: &impl Fn(&str) -> Option<OsString>) -> Option<Container> {
    if env("KUBERNETES_SERVICE_HOST").is_some() {
        Some(Container::Kubernetes)
    } else if root.join("run/.containerenv").exists() {
        Some(Container::Podman)
    } else if root.join(".dockerenv").exists() {
        Some(Container::Docker)
    } else {
        None
    }
}

/// The rest of the line that begins with `name`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name))
}

/// Mount points and file system types in the order of mounting (proc_pid_mountinfo(5)).
struct Mounts(Vec<(String, String)>);

impl Mounts {
    fn parse(mountinfo: &str) -> Self {
        let entry = |line: &str| {
            let (before, after) = line.split_once(" - ")?;
            Some((unescape(before.split(' ').nth(4)?), after.split(' ').next()?.to_owned()))
        };
        Self(mountinfo.lines().filter_map(entry).collect())
    }

    /// Type of the last mount at exactly `point`.
    fn type_at(&self, point: &str) -> Option<String> {
        self.0.iter().rev().find(|(at, _)| at == point).map(|(_, kind)| kind.clone())
    }

    /// Type of the mount that `path` lies on.
    fn type_of(&self, path: &str) -> Option<String> {
        let covers = |at: &str| Path::new(path).starts_with(at);
        let deepest = self.0.iter().filter(|(at, _)| covers(at)).max_by_key(|(at, _)| at.len());
        deepest.and_then(|(at, _)| self.type_at(at))
    }

    fn below(&self, point: &str) -> Vec<String> {
        let inside = |at: &str| at != point && Path::new(at).starts_with(point);
        self.0.iter().filter(|(at, _)| inside(at)).map(|(at, _)| at.clone()).collect()
    }
}

/// Space, tab, newline and backslash are written in octal.
fn unescape(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (code, plain)| text.replace(code, plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file tree with these files, and the environment of a test.
    fn gather(files: &[(&str, &str)], vars: &[(&str, &str)]) -> Host {
        let root = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        Host::gather(root.path(), |name| {
            vars.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn nothing_is_known_of_an_empty_tree() {
        assert_eq!(gather(&[], &[]), Host::default());
    }

    #[test]
    fn reads_identity_filter_and_limits() {
        let host = gather(
            &[
                (
                    "proc/self/status",
                    "Name:\tx\nUid:\t1000\t1001\t1000\t1000\nSeccomp:\t2\nSeccomp_filters:\t1\n",
                ),
                ("proc/sys/kernel/osrelease", "6.8.0-31-generic\n"),
                ("proc/sys/user/max_user_namespaces", "7000\n"),
                ("proc/sys/user/max_net_namespaces", "0\n"),
                ("proc/sys/kernel/unprivileged_userns_clone", "0\n"),
                ("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n"),
                ("sys/kernel/security/lsm", "lockdown,capability,landlock,yama,apparmor"),
            ],
            &[],
        );
        assert_eq!(host.uid, Some(1001));
        assert!(!host.unmapped, "unknown");
        assert!(host.filtered);
        assert_eq!(host.namespaces_max, Some(("net", 0)));
        assert_eq!(host.unprivileged_clone, Some(false));
        assert!(host.apparmor_restricts);
        assert!(host.modules.as_ref().unwrap().contains(&String::from("landlock")));
        assert_eq!(host.kernel_version(), Some((6, 8)));
        assert!(!host.is_wsl1());
    }

    #[test]
    fn an_empty_map_is_told_from_one_with_an_id() {
        let unmapped = |map| gather(&[("proc/self/uid_map", map)], &[]).unmapped;
        assert!(unmapped(""));
        assert!(!unmapped("         0       1000          1\n"));
    }

    #[test]
    fn tells_the_two_generations_of_wsl_apart() {
        let release = |text| gather(&[("proc/sys/kernel/osrelease", text)], &[]).is_wsl1();
        assert!(release("4.4.0-19041-Microsoft\n"));
        assert!(!release("5.15.153.1-microsoft-standard-WSL2\n"));
    }

    #[test]
    fn reads_the_mount_table() {
        let mountinfo = "\
21 1 0:19 / / rw - rootfs rootfs rw
22 21 0:20 / /proc rw,nosuid shared:5 - proc proc rw
23 22 0:20 /kcore /proc/kcore ro - proc proc ro
24 21 0:33 / /home rw - autofs systemd-1 rw
25 24 0:34 / /home/a\\040b rw - nfs4 server:/export rw
26 21 0:35 / /procedures rw - ext4 /dev/sda1 rw
";
        let host = |home| gather(&[("proc/self/mountinfo", mountinfo)], &[("HOME", home)]);
        assert_eq!(host("/root").root_type.as_deref(), Some("rootfs"));
        assert_eq!(host("/root").proc_covers, ["/proc/kcore"]);
        assert_eq!(host("/root").network_home, None);
        assert_eq!(host("/home/c").network_home.as_deref(), Some("autofs"));
        assert_eq!(host("/home/a b/x").network_home.as_deref(), Some("nfs4"));
    }

    #[test]
    fn recognises_containers_and_its_own_box() {
        assert_eq!(gather(&[(".dockerenv", "")], &[]).container, Some(Container::Docker));
        assert_eq!(gather(&[("run/.containerenv", "")], &[]).container, Some(Container::Podman));
        let pod = gather(&[(".dockerenv", "")], &[("KUBERNETES_SERVICE_HOST", "10.0.0.1")]);
        assert_eq!(pod.container, Some(Container::Kubernetes));
        assert!(gather(&[], &[("RINGFENCE_SANDBOX", "native")]).nested);
    }
}
