//! What a person can do about a step that fails because of the system around it.

use std::fs;

use ringfence_types::Step;
use rustix::io::Errno;

use crate::launcher::Fault;

/// The cause that is most likely behind a fault, and its remedy.
pub(crate) fn of(fault: &Fault) -> Option<String> {
    let errno = Errno::from_raw_os_error(fault.errno);
    let below_dev = fault.subject.as_ref().is_some_and(|subject| subject.starts_with("/dev/"));
    let hint = match (fault.step, errno) {
        (_, Errno::MFILE) => "the limit of open files is too low; raise it (`ulimit -n`)",
        (_, Errno::FBIG) => "the limit of file sizes is too low; raise it (`ulimit -f`)",
        // The first call that an older kernel lacks is close_range(2), or its CLOSE_RANGE_CLOEXEC.
        (Step::Prepare, Errno::INVAL | Errno::NOSYS) => {
            "this kernel is too old; Linux 5.12 or newer is needed"
        }
        (Step::Prepare, Errno::DEADLK) => {
            "only a process with one thread is its own launcher; others have LinuxDriver::run, and call ringfence::init() \
             before they start a thread"
        }
        (Step::Prepare, Errno::PERM) => {
            "root without the right to change groups (CAP_SETGID) can't drop them; start it without any, as with \
             `setpriv --clear-groups`"
        }
        (Step::Clone, Errno::PERM) if has_no_id() => {
            "this user has no id in its user namespace; map it, as with `unshare --map-current-user`"
        }
        (Step::Clone, Errno::PERM) if in_a_box() => {
            "this is a box of Ringfence already; nested_userns = true under [sandbox.linux] of the outer run's \
             configuration allows boxes in it"
        }
        (Step::Clone, Errno::PERM | Errno::ACCESS) => {
            "user namespaces are forbidden here (container profile, AppArmor or chroot); `ringfence doctor` tells which"
        }
        (Step::Clone, Errno::NOSPC | Errno::USERS) => {
            "no more user namespaces are allowed: nested in another sandbox, or user.max_user_namespaces is too low"
        }
        (Step::Clone, Errno::INVAL | Errno::NOSYS) => {
            "this kernel has no user namespaces; `ringfence doctor` tells more"
        }
        (Step::Clone, Errno::AGAIN | Errno::NOMEM) => {
            "no more processes are allowed (`ulimit -u`), or memory is short"
        }
        (Step::Idmap, Errno::ROFS) => "the /proc around this process is read-only; mount a fresh one",
        (Step::Idmap, Errno::PERM) if rustix::process::geteuid().is_root() => {
            "root needs the rights to change ids (CAP_SETUID, CAP_SETGID, CAP_SETFCAP) for this; an ordinary user does \
             without"
        }
        (Step::Idmap, Errno::PERM | Errno::ACCESS) => {
            "AppArmor or a container takes rights from new user namespaces; `ringfence doctor` tells which"
        }
        (Step::Mounts | Step::Limits, Errno::ACCESS) => {
            "the user that the command runs as can't reach this path; root runs it as the workspace's owner"
        }
        (Step::Caps, Errno::ACCESS) => {
            "root runs the command without its privileges; make the folder writable for its owner, or use --mode read-only"
        }
        (Step::Mounts, Errno::NOENT) if below_dev => "a device is missing here; start it with a whole /dev",
        (Step::Mounts, Errno::NOENT) => "the path vanished while the box was set up; run the command again",
        (Step::Mounts, Errno::NOSYS) => "this kernel is too old; Linux 5.12 or newer is needed",
        (Step::Mounts | Step::Proc, Errno::PERM) => {
            "another sandbox around this one forbids mounts; `ringfence doctor` tells more"
        }
        (Step::Mounts | Step::Init, Errno::NFILE) => {
            "the system's limit of open files is reached (fs.file-max)"
        }
        (Step::Pivot, Errno::INVAL) => {
            "the root is no mount point (initial ramdisk or chroot); start from a mounted root"
        }
        (Step::Exec, Errno::TOOBIG) => "arguments and environment are too long (execve(2))",
        _ => return None,
    };
    Some(hint.to_owned())
}

/// Whether nothing is mapped in this process's user namespace, which then may make no other (clone(2), EPERM).
fn has_no_id() -> bool {
    fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| map.trim().is_empty())
}

/// Whether the variable is there that every box has.
fn in_a_box() -> bool {
    std::env::var_os("RINGFENCE_SANDBOX").is_some()
}
