//! The filter of PID 1, the box's reaper: an allowlist, since it does so little.

use super::row::Errno::EPERM;
use super::row::{Action, Call, Check, Row, call};

const PROT_EXEC: u32 = 4; // <asm-generic/mman-common.h>
const TIOCSPGRP: u32 = 0x5410; // <asm-generic/ioctls.h>

const fn allow(call: Call, reason: &'static str) -> Row {
    Row::new(Action::Allow, call, reason)
}

const fn refuse(call: Call, reason: &'static str) -> Row {
    Row::new(Action::Fail(EPERM), call, reason)
}

/// Every call without a row.
pub(super) static REST: Row = refuse(Call::named("every other call"), "the reaper has no use for it");

#[rustfmt::skip] // a row a line
pub(super) static ROWS: &[Row] = &[
    allow(call!(brk), "memory"),
    allow(call!(clock_gettime), "deadlines"),
    allow(call!(close), "descriptors of the status pipe and the target"),
    allow(call!(exit), "end with the target's status"),
    allow(call!(exit_group), "end with the target's status"),
    allow(call!(futex), "locks of the allocator and the standard library"),
    allow(call!(getpid), "needed by raise and abort"),
    allow(call!(gettid), "needed by raise and abort"),
    allow(call!(ioctl), "give the terminal to the target's job")
        .when(&[Check::is(1, &[TIOCSPGRP])])
        .hits(&[&[u32::MAX, TIOCSPGRP]])
        .misses(&[&[u32::MAX, 0x5412]]),
    allow(call!(kill), "forward signals, end what is left"),
    allow(call!(madvise), "memory"),
    refuse(call!(mmap), "executable memory")
        .when(&[Check::any_bit(2, PROT_EXEC)])
        .hits(&[&[0, 4096, PROT_EXEC], &[0, 4096, 7]])
        .misses(&[&[0, 4096, 3], &[0, 4096, 0]]),
    allow(call!(mmap), "memory"),
    refuse(call!(mprotect), "executable memory")
        .when(&[Check::any_bit(2, PROT_EXEC)])
        .hits(&[&[0, 4096, PROT_EXEC], &[0, 4096, 7]])
        .misses(&[&[0, 4096, 3], &[0, 4096, 0]]),
    allow(call!(mprotect), "memory"),
    allow(call!(mremap), "memory"),
    allow(call!(munmap), "memory"),
    allow(call!(poll on x86_64), "wait for the status pipe and signals"),
    allow(call!(ppoll), "wait for the status pipe and signals"),
    allow(call!(pread64), "the mount table"),
    allow(call!(read), "the status pipe and signals"),
    allow(call!(recvfrom), "the control socket"),
    allow(call!(recvmsg), "the control socket"),
    allow(call!(restart_syscall), "the kernel makes it after a stop"),
    allow(call!(rt_sigprocmask), "block signals around work"),
    allow(call!(rt_sigreturn), "leave a signal handler"),
    allow(call!(sendmsg), "the control socket"),
    allow(call!(sendto), "the control socket"),
    allow(call!(tgkill), "needed by raise and abort"),
    allow(call!(wait4), "reap children"),
    allow(call!(waitid), "reap children"),
    allow(call!(write), "the status pipe"),
    allow(call!(writev), "the status pipe"),
];
