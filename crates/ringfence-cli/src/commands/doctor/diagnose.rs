//! From a failure and the host's facts to the reason and what to do about it.

use ringfence_types::{Layer, LayerName, LayerStatus};

use super::host::{Container, Host};
use super::probe::Failure;

/// Why something does not work, and how to make it work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Advice {
    pub(super) why: String,
    pub(super) fix: Option<String>,
}

impl Advice {
    fn new(why: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { why: why.into(), fix: Some(fix.into()) }
    }
}

/// Steps at which a host that refuses namespaces fails.
const NAMESPACE_STEPS: [&str; 6] = ["clone", "idmap", "mounts", "proc", "pivot", "loopback"];

/// Explains why a run of the native backend failed.
pub(super) fn native(failure: &Failure, host: &Host) -> Advice {
    let step = failure.step.as_deref().unwrap_or_default();
    let cause = if NAMESPACE_STEPS.contains(&step) { cause(step, host) } else { None };
    let mut advice = cause.unwrap_or(Advice { why: String::new(), fix: failure.hint.clone() });
    advice.why = if advice.why.is_empty() {
        failure.message.clone()
    } else {
        format!("{} ({})", advice.why, failure.message)
    };
    advice
}

/// The first fact that explains a refusal at `step`; the surest come first.
fn cause(step: &str, host: &Host) -> Option<Advice> {
    let unprivileged = host.uid != Some(0);
    if host.is_wsl1() {
        return Some(Advice::new(
            "WSL 1 has no Linux kernel and no namespaces",
            "convert the distribution from Windows: wsl --set-version NAME 2",
        ));
    }
    if host.unmapped {
        return Some(Advice::new(
            "the user has no id in the user namespace around it",
            "map it where that namespace is made, as with `unshare --map-current-user`",
        ));
    }
    if let Some((name, 0)) = host.namespaces_max {
        let fix = if host.nested {
            "in the config of the outer run, set nested_userns = true under [sandbox.linux]".to_owned()
        } else {
            format!("as root: sysctl -w user.max_{name}_namespaces=15000")
        };
        return Some(Advice::new(format!("user.max_{name}_namespaces is 0"), fix));
    }
    if unprivileged && host.unprivileged_clone == Some(false) {
        return Some(Advice::new(
            "kernel.unprivileged_userns_clone is 0",
            "as root: sysctl -w kernel.unprivileged_userns_clone=1",
        ));
    }
    if unprivileged && host.apparmor_restricts {
        return Some(Advice::new(
            "AppArmor takes all rights from user namespaces of ordinary users",
            "give the ringfence binary an AppArmor profile with flags=(unconfined) and the rule `userns,`, or as \
             root: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        ));
    }
    if step == "pivot" && host.root_type.as_deref() == Some("rootfs") {
        return Some(Advice::new(
            "the root file system is the initial one, which pivot_root can't leave",
            "boot into a real root (switch_root), or start ringfence below one: unshare -m, then pivot_root",
        ));
    }
    if step == "clone" && host.root_type.is_none() {
        return Some(Advice::new(
            "in a chroot the kernel allows no user namespace",
            "start ringfence outside the chroot, or enter the tree with systemd-nspawn instead of chroot",
        ));
    }
    if step == "clone" && host.nested && host.filtered {
        return Some(Advice::new(
            "a box of Ringfence allows no namespaces inside",
            "in the config of the outer run, set nested_userns = true under [sandbox.linux]",
        ));
    }
    let container = host.container?;
    if step == "proc" && !host.proc_covers.is_empty() {
        return Some(Advice::new(
            format!("the container masks parts of /proc ({})", shown(&host.proc_covers)),
            unmask_proc(container),
        ));
    }
    Some(Advice::new(
        "the container's security profile refuses namespaces or mounts",
        allow_namespaces(container),
    ))
}

fn allow_namespaces(container: Container) -> &'static str {
    match container {
        Container::Docker => {
            "start the container with --security-opt seccomp=unconfined --security-opt apparmor=unconfined \
             --security-opt systempaths=unconfined, or with profiles that allow clone, mount and pivot_root"
        }
        Container::Podman => {
            "start the container with --security-opt seccomp=unconfined --security-opt unmask=ALL"
        }
        Container::Kubernetes => {
            "in the pod's securityContext: seccompProfile and appArmorProfile of type Unconfined, procMount: Unmasked; \
             in its spec: hostUsers: false"
        }
    }
}

fn unmask_proc(container: Container) -> &'static str {
    match container {
        Container::Docker => "start the container with --security-opt systempaths=unconfined",
        Container::Podman => "start the container with --security-opt unmask=ALL",
        Container::Kubernetes => {
            "in the container's securityContext: procMount: Unmasked (needs hostUsers: false)"
        }
    }
}

/// How to bring a layer into force that is missing or partial in a run that worked.
pub(super) fn layer_fix(layer: &Layer, host: &Host) -> Option<String> {
    if !matches!(layer.status, LayerStatus::Missing | LayerStatus::Partial) {
        return None;
    }
    match layer.name {
        LayerName::Landlock => landlock_fix(layer.status, host),
        LayerName::PidNs | LayerName::MountNs if !host.proc_covers.is_empty() => {
            host.container.map(|container| unmask_proc(container).to_owned())
        }
        _ => None,
    }
}

fn landlock_fix(status: LayerStatus, host: &Host) -> Option<String> {
    let absent =
        host.modules.as_ref().is_some_and(|modules| modules.iter().all(|module| module != "landlock"));
    let old = |oldest| host.kernel_version().is_some_and(|version| version < oldest);
    if status == LayerStatus::Partial {
        return old((6, 12)).then(|| "use Linux 6.12 or newer for all rights and scopes".to_owned());
    }
    if old((5, 13)) {
        Some("use Linux 5.13 or newer".to_owned())
    } else if absent {
        Some("add landlock to the list of lsm= on the kernel's command line".to_owned())
    } else if host.filtered && host.container.is_some() {
        Some("let the container's seccomp profile allow landlock_create_ruleset".to_owned())
    } else {
        Some("use a kernel built with CONFIG_SECURITY_LANDLOCK".to_owned())
    }
}

/// A home directory that a network serves is worth a word even when all works.
pub(super) fn home_note(host: &Host) -> Option<String> {
    host.network_home.as_ref().map(|kind| {
        format!("the home directory is on {kind}: automounts may not appear inside, and root of this host may have no access")
    })
}

fn shown(paths: &[String]) -> String {
    match paths {
        [first, second, _, ..] => format!("{first}, {second}, …"),
        _ => paths.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(step: &str) -> Failure {
        Failure {
            step: Some(step.to_owned()),
            message: "step failed: EPERM".to_owned(),
            hint: Some("ask".to_owned()),
        }
    }

    fn host() -> Host {
        Host {
            uid: Some(1000),
            kernel: "6.8.0".to_owned(),
            root_type: Some("ext4".to_owned()),
            ..Host::default()
        }
    }

    #[test]
    fn each_known_cause_has_its_fix() {
        let docker = Host { container: Some(Container::Docker), ..host() };
        let cases = [
            (
                "clone",
                Host { kernel: "4.4.0-19041-Microsoft".to_owned(), ..host() },
                "WSL 1",
                "wsl --set-version",
            ),
            (
                "clone",
                Host { namespaces_max: Some(("user", 0)), ..host() },
                "max_user_namespaces is 0",
                "sysctl",
            ),
            (
                "clone",
                Host { namespaces_max: Some(("user", 0)), nested: true, ..host() },
                "max_user_namespaces is 0",
                "nested_userns = true",
            ),
            ("clone", Host { unmapped: true, ..host() }, "no id", "--map-current-user"),
            ("clone", Host { unprivileged_clone: Some(false), ..host() }, "userns_clone is 0", "sysctl"),
            ("mounts", Host { apparmor_restricts: true, ..host() }, "AppArmor", "flags=(unconfined)"),
            ("pivot", Host { root_type: Some("rootfs".to_owned()), ..host() }, "initial", "switch_root"),
            ("clone", Host { root_type: None, ..host() }, "chroot", "systemd-nspawn"),
            ("clone", docker.clone(), "security profile", "seccomp=unconfined"),
            (
                "proc",
                Host { proc_covers: vec!["/proc/kcore".to_owned()], ..docker.clone() },
                "/proc/kcore",
                "systempaths=unconfined",
            ),
            (
                "clone",
                Host { container: Some(Container::Podman), ..host() },
                "security profile",
                "unmask=ALL",
            ),
            (
                "mounts",
                Host { container: Some(Container::Kubernetes), ..host() },
                "security profile",
                "procMount",
            ),
        ];
        for (step, host, why, fix) in cases {
            let advice = native(&failure(step), &host);
            assert!(advice.why.contains(why), "{step}: {advice:?}");
            assert!(advice.why.contains("EPERM"), "the failure itself is named: {advice:?}");
            assert!(advice.fix.as_ref().is_some_and(|text| text.contains(fix)), "{step}: {advice:?}");
        }
    }

    #[test]
    fn settings_that_bind_only_ordinary_users_do_not_explain_a_failure_of_root() {
        let root = Host { uid: Some(0), unprivileged_clone: Some(false), apparmor_restricts: true, ..host() };
        let advice = native(&failure("clone"), &root);
        assert_eq!(advice, Advice::new("step failed: EPERM", "ask"));
    }

    #[test]
    fn a_failure_that_has_nothing_to_do_with_namespaces_speaks_for_itself() {
        let host = Host { namespaces_max: Some(("user", 0)), ..host() };
        assert_eq!(native(&failure("exec"), &host).why, "step failed: EPERM");
        let config = Failure { step: None, message: "unknown key".to_owned(), hint: None };
        assert_eq!(native(&config, &host), Advice { why: "unknown key".to_owned(), fix: None });
    }

    #[test]
    fn a_missing_landlock_is_explained_by_kernel_boot_line_or_container() {
        let fix = |host: &Host, status| {
            layer_fix(&Layer { name: LayerName::Landlock, status, detail: String::new() }, host)
                .unwrap_or_default()
        };
        let modules = |list: &[&str]| Some(list.iter().map(|name| (*name).to_owned()).collect());
        let missing = LayerStatus::Missing;
        assert!(fix(&Host { kernel: "5.10.0-28-amd64".to_owned(), ..host() }, missing).contains("5.13"));
        assert!(fix(&Host { modules: modules(&["capability", "yama"]), ..host() }, missing).contains("lsm="));
        let filtered = Host {
            filtered: true,
            container: Some(Container::Docker),
            modules: modules(&["landlock"]),
            ..host()
        };
        assert!(fix(&filtered, missing).contains("landlock_create_ruleset"));
        assert!(fix(&host(), LayerStatus::Partial).contains("6.12"));
        assert_eq!(fix(&host(), LayerStatus::Enforced), "");
    }
}
