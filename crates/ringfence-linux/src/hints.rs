//! What a person can do about a step that fails because of the system around it.

use ringfence_types::Step;
use rustix::io::Errno;

use crate::launcher::Fault;

/// The cause that is most likely behind a fault, and its remedy.
pub(crate) fn of(fault: &Fault) -> Option<String> {
    let errno = Errno::from_raw_os_error(fault.errno);
    let hint = match (fault.step, errno) {
        (Step::Clone, Errno::PERM | Errno::ACCESS) => {
            "user namespaces are forbidden here (container profile or AppArmor); `ringfence doctor` tells which"
        }
        (Step::Clone, Errno::NOSPC | Errno::USERS) => {
            "no more user namespaces are allowed: nested in another sandbox, or user.max_user_namespaces is too low"
        }
        (Step::Clone, Errno::INVAL | Errno::NOSYS) => {
            "this kernel has no user namespaces; `ringfence doctor` tells more"
        }
        (Step::Clone, Errno::AGAIN | Errno::NOMEM) => "the system is out of processes or memory; try again",
        (Step::Idmap, Errno::PERM | Errno::ACCESS) => {
            "AppArmor or a container takes rights from new user namespaces; `ringfence doctor` tells which"
        }
        (Step::Mounts | Step::Limits, Errno::ACCESS) => {
            "the user that the command runs as can't reach this path; root runs it as the workspace's owner"
        }
        (Step::Caps, Errno::ACCESS) => {
            "root runs the command without its privileges; make the folder writable for its owner, or use --mode read-only"
        }
        (Step::Mounts, Errno::NOENT) => "the path vanished while the box was set up; run the command again",
        (Step::Mounts, Errno::NOSYS) => "this kernel is too old for the mount calls (Linux 5.12 has them)",
        (Step::Mounts | Step::Proc, Errno::PERM) => {
            "another sandbox around this one forbids mounts; `ringfence doctor` tells more"
        }
        (Step::Mounts | Step::Init, Errno::NFILE | Errno::MFILE) => {
            "too many open files; raise the limit (ulimit -n)"
        }
        (Step::Pivot, Errno::INVAL) => {
            "the root is no mount point (initial ramdisk or chroot); start from a mounted root"
        }
        (Step::Exec, Errno::TOOBIG) => "arguments and environment are too long (execve(2))",
        _ => return None,
    };
    Some(hint.to_owned())
}
