use std::path::Path;

use ringfence_types::{Network, PathKind, ResolvedPath, ResolvedPolicy, UnixPath, WorkspaceAccess};

use super::mounts::Mounts;
use super::seccomp::{self, FilterPolicy, SocketGate};
use super::{EnvBytes, Identity, LinuxFacts, LinuxPlan, NetworkPlan, landlock, network};
use crate::ProfileError;

/// Host variables that pass into the box; also every `LC_*`.
const ENV_ALLOWED: [&str; 10] =
    ["COLORTERM", "HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];

/// Searched when the host has no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Where tools keep a cache that the host has no directory for.
const PRIVATE_CACHES: &str = "/tmp/.ringfence-cache";

/// Makes the launch plan of a policy on a Linux host. Pure: the same inputs give the same plan.
///
/// # Errors
/// A [`ProfileError`] if the policy asks for something that can't be enforced or mounted.
pub fn linux(policy: &ResolvedPolicy, facts: &LinuxFacts) -> Result<LinuxPlan, ProfileError> {
    refuse_what_is_missing(policy)?;
    if !policy.may_read(&policy.cwd.path) {
        return Err(ProfileError::CwdHidden(policy.cwd.path.clone()));
    }
    let identity = Identity::of(facts.uid, facts.gid, policy.workspace_owner, policy.linux.nested_userns);
    let network = NetworkPlan::of(policy);
    let socket_gate = match (&policy.network, &network) {
        (Network::AllowAll, _) => SocketGate::Unrestricted,
        (_, Some(_)) => SocketGate::ProxyRouted,
        (_, None) if policy.loopback => SocketGate::LoopbackOnly,
        (_, None) => SocketGate::UnixOnly,
    };
    let filter = FilterPolicy {
        gate: socket_gate,
        spawn: policy.spawn,
        nested_userns: policy.linux.nested_userns,
        allow_i386: policy.linux.allow_i386,
    };
    let mounts = Mounts::plan(policy, facts)?;
    Ok(LinuxPlan {
        own_network: policy.network != Network::AllowAll,
        network,
        nested_userns: policy.linux.nested_userns,
        landlock: landlock::plan(facts.landlock_abi, &mounts, policy.linux.nested_userns),
        mounts,
        seccomp: seccomp::compile(facts.arch, &filter)?,
        init_seccomp: seccomp::init_filter(facts.arch)?,
        socket_gate,
        rlimits: policy.rlimits,
        workspace: policy.may_write(&policy.workspace.path).then(|| policy.workspace.path.as_path().into()),
        cwd: policy.cwd.path.as_path().into(),
        cwd_id: policy.cwd.id.clone(),
        env_host: host_environment(policy, facts, identity),
        env_forced: forced_environment(policy),
        writable: policy.writable().map(UnixPath::from).collect(),
        protected_incomplete: policy.protected.incomplete.clone(),
        protected_count: u32::try_from(policy.protected.read_only.len()).unwrap_or(u32::MAX),
        identity,
    })
}

/// What later backends will enforce is an error until they do, never less isolation.
fn refuse_what_is_missing(policy: &ResolvedPolicy) -> Result<(), ProfileError> {
    let unsupported = |feature, reason| Err(ProfileError::Unsupported { feature, reason });
    let single =
        !policy.deny_hosts.is_empty() || !policy.loopback_ports.is_empty() || !policy.publish.is_empty();
    if policy.network == Network::AllowAll && single {
        return unsupported("a rule on single hosts or ports", "the box has the host's whole network");
    }
    if policy.max_memory_mb.is_some() {
        return unsupported("a memory limit", "cgroup limits are not built yet");
    }
    if policy.max_processes.is_some() {
        return unsupported("a process limit", "cgroup limits are not built yet");
    }
    // Nothing can be mounted over the root, and what no mount hides is not denied.
    if policy.deny.iter().any(|path| path.path.parent().is_none()) {
        return unsupported(
            "denying / as a whole",
            "it leaves nothing to run; deny what is meant, or show less by the mode `strict`",
        );
    }
    let own = |path: &ResolvedPath| {
        ["/dev", "/proc"].iter().any(|own| path.path.starts_with(own)) && !path.path.starts_with("/dev/shm")
    };
    if policy.deny.iter().chain(&policy.read).chain(&policy.write).any(own) {
        return unsupported("a rule on a path below /dev or /proc", "the box has its own");
    }
    let private = |path: &ResolvedPath| ["/run", "/tmp"].iter().any(|own| path.path == Path::new(own));
    if !writes_everything(policy) && policy.deny.iter().any(private) {
        return unsupported("denying /tmp or /run as a whole", "the box has its own");
    }
    Ok(())
}

fn host_environment(
    policy: &ResolvedPolicy,
    facts: &LinuxFacts,
    identity: Identity,
) -> Vec<(EnvBytes, EnvBytes)> {
    let passes = |name: &[u8]| {
        name.starts_with(b"LC_") || ENV_ALLOWED.iter().any(|allowed| allowed.as_bytes() == name)
    };
    let mut env: Vec<_> = facts.env.iter().filter(|(name, _)| passes(name.as_bytes())).cloned().collect();
    let mut set = |name: &str, value: UnixPath| {
        let name = UnixPath::from(name);
        match env.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = value,
            None => env.push((name, value)),
        }
    };
    if !writes_everything(policy) {
        set("TMPDIR", "/tmp".into());
    }
    if let Some(home) = &policy.private_home {
        set("HOME", home.as_path().into());
    }
    if identity.switch && policy.private_home.is_none() && !writes_everything(policy) {
        // Root's own is nothing that the workspace's owner could write.
        set("HOME", "/tmp".into());
    }
    if identity.seen_uid == 0 {
        // Without CAP_CHOWN, extracting an archive as uid 0 would fail on each file of another owner.
        set("TAR_OPTIONS", "--no-same-owner".into());
    }
    if policy.network.is_by_host() {
        for (name, value) in network::git_variables() {
            set(name, value);
        }
    }
    for cache in policy.caches.iter().filter(|cache| cache.at.kind != PathKind::Directory) {
        if let (Some(variable), Some(name)) = (&cache.env, cache.at.path.file_name()) {
            set(variable, UnixPath::from(PRIVATE_CACHES).join(name.as_encoded_bytes()));
        }
    }
    if !env.iter().any(|(name, _)| name.as_bytes() == b"PATH") {
        env.push(("PATH".into(), DEFAULT_PATH.into()));
    }
    env
}

fn forced_environment(policy: &ResolvedPolicy) -> Vec<(EnvBytes, EnvBytes)> {
    let mut env = vec![("RINGFENCE_SANDBOX".into(), "native".into())];
    if policy.network == Network::None {
        env.push(("RINGFENCE_NETWORK_DISABLED".into(), "1".into()));
    }
    if policy.network.is_by_host() {
        env.extend(network::proxy_variables());
    }
    env
}

/// `full-access`: the whole host tree is writable, so nothing private replaces parts of it.
pub(super) fn writes_everything(policy: &ResolvedPolicy) -> bool {
    policy.write.iter().any(|path| path.path.parent().is_none())
        || (policy.workspace_access == WorkspaceAccess::Write && policy.workspace.path.parent().is_none())
}
