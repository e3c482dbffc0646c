//! Any system call by name or number, and calls through foreign entries.

use serde_json::json;

use super::{Act, act};
use crate::args::{Args, Failure, Outcome, parse_int};
use crate::sys::{Arg, call, i386};

pub(super) const ACTS: &[Act] = &[
    act("syscall", "NAME|NUMBER [INT|self|str:TEXT|buf:SIZE]…", syscall),
    act("syscall-x32", "NUMBER", |args| {
        const X32_SYSCALL_BIT: i64 = 0x4000_0000;
        Ok(json!(call(args.int(0)? | X32_SYSCALL_BIT, &mut [])?))
    }),
    act("syscall-i386", "", |_| {
        const I386_GETPID: u32 = 20;
        Ok(json!(i386(I386_GETPID, [0; 6])?))
    }),
];

macro_rules! numbers {
    ($($name:ident)*) => { &[$((stringify!($name), libc::$name),)*] };
}

/// Calls that exist on every architecture and that rows name.
const NUMBERS: &[(&str, i64)] = numbers! {
    SYS_acct SYS_add_key SYS_adjtimex SYS_bpf SYS_chroot SYS_clock_adjtime SYS_clock_settime SYS_delete_module
    SYS_fanotify_init SYS_finit_module SYS_fsconfig SYS_fsmount SYS_fsopen SYS_fspick SYS_getpid SYS_init_module
    SYS_io_uring_enter SYS_io_uring_register SYS_io_uring_setup SYS_kcmp SYS_kexec_load SYS_keyctl
    SYS_landlock_create_ruleset SYS_mbind SYS_memfd_secret SYS_mount_setattr SYS_mq_open SYS_mq_unlink SYS_msgctl SYS_msgget
    SYS_name_to_handle_at SYS_open_by_handle_at SYS_open_tree SYS_perf_event_open SYS_personality SYS_pidfd_getfd SYS_process_madvise
    SYS_quotactl SYS_quotactl_fd SYS_reboot SYS_request_key SYS_semget SYS_setdomainname SYS_setfsuid
    SYS_sethostname SYS_setns SYS_settimeofday SYS_setuid SYS_shmctl SYS_shmget SYS_swapoff SYS_swapon SYS_syslog
    SYS_userfaultfd SYS_vhangup
};

#[cfg(target_arch = "x86_64")]
const X86_NUMBERS: &[(&str, i64)] =
    numbers! { SYS_ioperm SYS_iopl SYS_kexec_file_load SYS_mknod SYS_modify_ldt SYS_lookup_dcookie };
#[cfg(not(target_arch = "x86_64"))]
const X86_NUMBERS: &[(&str, i64)] = numbers! { SYS_kexec_file_load SYS_lookup_dcookie };

fn number(text: &str) -> Option<i64> {
    let named = |(name, _): &&(&str, i64)| name.strip_prefix("SYS_") == Some(text);
    NUMBERS.iter().chain(X86_NUMBERS).find(named).map(|&(_, number)| number).or_else(|| parse_int(text))
}

fn argument(text: &str) -> Result<Arg, Failure> {
    if let Some(text) = text.strip_prefix("str:") {
        return Ok(Arg::from(text));
    }
    if let Some(size) = text.strip_prefix("buf:") {
        return Ok(Arg::from(vec![0; parse_int(size).ok_or(Failure::Usage)? as usize]));
    }
    if text == "self" {
        return Ok(Arg::from(std::process::id()));
    }
    parse_int(text).map(Arg::Int).ok_or(Failure::Usage)
}

/// Calls with arguments as written; the result is the detail.
fn syscall(args: &Args) -> Outcome {
    let number = number(args.text(0)?).ok_or(Failure::Usage)?;
    let words = args.all()[1..].iter().map(|word| word.to_str().ok_or(Failure::Usage));
    let mut values = words.map(|word| argument(word?)).collect::<Result<Vec<_>, _>>()?;
    if values.len() > 6 {
        return Err(Failure::Usage);
    }
    Ok(json!(call(number, &mut values)?))
}
