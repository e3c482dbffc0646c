//! A host and policies on it, without any I/O.

use std::path::{Path, PathBuf};

use ringfence_plan::LinuxFacts;
use ringfence_plan::linux::{LinuxPlan, MountOp, RootEntry, linux, seccomp::Arch};
use ringfence_types::{
    FileId, Linux, Network, Owner, PathKind, Protected, ProxySettings, ResolvedPath, ResolvedPolicy, Rlimits,
    WorkspaceAccess,
};

pub(crate) const WORKSPACE: &str = "/home/u/project";

pub(crate) fn facts() -> LinuxFacts {
    let symlink = |path: &str, target: &str| RootEntry::Symlink { path: path.into(), target: target.into() };
    LinuxFacts {
        uid: 1000,
        gid: 1000,
        arch: Arch::X86_64,
        landlock_abi: 7,
        system: vec![
            symlink("/bin", "usr/bin"),
            RootEntry::Directory("/etc".into()),
            symlink("/lib", "usr/lib"),
            RootEntry::Directory("/nix/store".into()),
            RootEntry::Directory("/usr".into()),
        ],
        present: ["/proc", "/run", "/sys", "/tmp"].map(PathBuf::from).into(),
        sockets: Vec::new(),
        resolv_conf: Some("/run/systemd/resolve/stub-resolv.conf".into()),
        nsswitch: Some("/etc/nsswitch.conf".into()),
        hosts_file: Some("/etc/hosts".into()),
        env: [
            ("PATH", "/usr/bin"),
            ("HOME", "/home/u"),
            ("AWS_SECRET", "x"),
            ("LC_ALL", "C"),
            ("LD_PRELOAD", "x"),
        ]
        .map(|(name, value)| (name.into(), value.into()))
        .into(),
    }
}

pub(crate) fn path(path: impl AsRef<Path>, kind: PathKind) -> ResolvedPath {
    let id =
        (kind != PathKind::Missing).then(|| Box::new(FileId { dev: 1, ino: 2, birth: None, handle: None }));
    ResolvedPath { path: path.as_ref().to_path_buf(), kind, id }
}

pub(crate) fn dir(at: &str) -> ResolvedPath {
    path(at, PathKind::Directory)
}

pub(crate) fn file(at: &str) -> ResolvedPath {
    path(at, PathKind::File)
}

pub(crate) fn strict() -> ResolvedPolicy {
    ResolvedPolicy {
        workspace: dir(WORKSPACE),
        workspace_owner: Some(Owner { uid: 1000, gid: 1000 }),
        workspace_access: WorkspaceAccess::Write,
        cwd: dir(WORKSPACE),
        read: Vec::new(),
        write: Vec::new(),
        deny: Vec::new(),
        deny_patterns: Vec::new(),
        deny_linked: Vec::new(),
        deny_incomplete: Vec::new(),
        network: Network::None,
        deny_hosts: Vec::new(),
        internal_hosts: Vec::new(),
        loopback_ports: Vec::new(),
        publish: Vec::new(),
        loopback: false,
        spawn: false,
        unix_sockets: Vec::new(),
        devices: Vec::new(),
        max_memory_mb: None,
        max_processes: None,
        timeout_secs: None,
        private_home: Some("/home/u".into()),
        host_tmpdir: None,
        session_tmp: None,
        caches: Vec::new(),
        protected: Protected::default(),
        rlimits: Rlimits::default(),
        proxy: ProxySettings::default(),
        linux: Linux::default(),
    }
}

/// The whole disk readable, the workspace writable.
pub(crate) fn workspace_write() -> ResolvedPolicy {
    ResolvedPolicy { read: vec![dir("/")], loopback: true, spawn: true, private_home: None, ..strict() }
}

pub(crate) fn plan(policy: &ResolvedPolicy) -> LinuxPlan {
    linux(policy, &facts()).unwrap()
}

/// One operation a line, without identities.
pub(crate) fn mounts(plan: &LinuxPlan) -> String {
    let line = |op: &MountOp| {
        let serde_json::Value::Object(ops) = serde_json::to_value(op).unwrap() else {
            return "empty_root ".into();
        };
        let (name, fields) = ops.iter().next().unwrap();
        let shown: Vec<String> = fields
            .as_object()
            .unwrap()
            .iter()
            .filter(|(name, value)| *name != "id" && **value != false)
            .map(|(name, value)| match (name.as_str(), value) {
                ("mode", value) => format!("mode={:o}", value.as_u64().unwrap()),
                (_, serde_json::Value::String(text)) => format!("{name}={text:?}"),
                _ => format!("{name}={value}"),
            })
            .collect();
        format!("{name} {}", shown.join(" "))
    };
    plan.mounts.iter().map(line).collect::<Vec<_>>().join("\n")
}
