//! The table of the command's filter, sorted by name within each group.

use super::SocketGate::{LoopbackOnly, ProxyRouted, UnixOnly, Unrestricted};
use super::row::Errno::{EAFNOSUPPORT, ENOSYS, EPERM};
use super::row::Group::{Gates, Namespaces, NoSpawn};
use super::row::{Action, Call, Check, Errno, Row, call};

// <linux/sched.h>. CLONE_NEWTIME (0x80) is missing here: in clone(2) that bit belongs to the exit signal.
const CLONE_VM: u32 = 0x100;
const CLONE_FS: u32 = 0x200;
const CLONE_FILES: u32 = 0x400;
const CLONE_SIGHAND: u32 = 0x800;
const CLONE_THREAD: u32 = 0x1_0000;
const CLONE_NEWNS: u32 = 0x2_0000;
const CLONE_SYSVSEM: u32 = 0x4_0000;
const CLONE_NEWCGROUP: u32 = 0x200_0000;
const CLONE_NEWUTS: u32 = 0x400_0000;
const CLONE_NEWIPC: u32 = 0x800_0000;
const CLONE_NEWUSER: u32 = 0x1000_0000;
const CLONE_NEWPID: u32 = 0x2000_0000;
const CLONE_NEWNET: u32 = 0x4000_0000;
const CLONE_NEWTIME: u32 = 0x80;
const NAMESPACES: u32 =
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
/// What unshare(2) can undo without making a namespace.
const UNSHARE_PLAIN: u32 = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;

// <linux/stat.h>
const S_IFMT: u32 = 0o170_000;
const S_IFIFO: u32 = 0o010_000;
const S_IFCHR: u32 = 0o020_000;
const S_IFBLK: u32 = 0o060_000;
const S_IFREG: u32 = 0o100_000;
const S_IFSOCK: u32 = 0o140_000;

// <linux/personality.h>
const ADDR_NO_RANDOMIZE: u32 = 0x4_0000;
const PERSONALITY_QUERY: u32 = u32::MAX;
const PER_LINUX32: u32 = 8;

// <asm-generic/ioctls.h>, <asm/ioctls.h>
const TIOCGWINSZ: u32 = 0x5413;
const TIOCLINUX: u32 = 0x541c;
const TIOCSTI: u32 = 0x5412;

// <linux/socket.h>, <linux/net.h>, <linux/netlink.h>
const AF_UNIX: u32 = 1;
const AF_INET: u32 = 2;
const AF_INET6: u32 = 10;
const AF_NETLINK: u32 = 16;
const AF_PACKET: u32 = 17;
const AF_ALG: u32 = 38;
const AF_VSOCK: u32 = 40;
const SOCK_STREAM: u32 = 1;
const SOCK_DGRAM: u32 = 2;
const SOCK_RAW: u32 = 3;
const SOCK_PACKET: u32 = 10;
/// The rest of the type argument are SOCK_NONBLOCK and SOCK_CLOEXEC.
const SOCK_TYPE: u32 = 0xf;
const SOCK_CLOEXEC: u32 = 0o2_000_000;
const SOCK_NONBLOCK: u32 = 0o4_000;
const NETLINK_ROUTE: u32 = 0;
const NETLINK_KOBJECT_UEVENT: u32 = 15;
/// Call numbers of the multiplexer socketcall(2).
const SYS_SOCKET: u32 = 1;
const SYS_BIND: u32 = 2;
const SYS_SOCKETPAIR: u32 = 8;

/// A descriptor that is never open.
const BAD_FD: u32 = u32::MAX;

const fn refuse(errno: Errno, call: Call, reason: &'static str) -> Row {
    Row::new(Action::Fail(errno), call, reason)
}

/// Architectures other than the box's own.
pub(super) static FOREIGN: Row = Row::new(
    Action::Kill,
    Call::named("other architectures"),
    "their call numbers mean other calls, so that no row would hold",
);

/// x32 calls of x86_64.
pub(super) static X32: Row = refuse(
    ENOSYS,
    Call::named("x32 calls"),
    "a second set of numbers for the same calls, which no row covers",
);

/// Calls beyond [`Abi::known`](super::Abi::known).
pub(super) static UNKNOWN: Row = refuse(
    ENOSYS,
    Call::named("calls newer than Linux 6.18"),
    "nobody has looked at them; libraries fall back",
);

/// Every row for a named call.
#[rustfmt::skip] // a row a line
pub(super) static ROWS: &[Row] = &[
    refuse(EPERM, call!(acct), "writes accounting records for the whole host"),
    refuse(EPERM, call!(add_key), "kernel keyrings are shared beyond the box"),
    refuse(EPERM, call!(adjtimex), "the clock belongs to the host"),
    refuse(EPERM, call!(bpf), "runs programs inside the kernel"),
    refuse(EPERM, call!(clock_adjtime), "the clock belongs to the host"),
    refuse(EPERM, call!(clock_adjtime64 on x86), "the clock belongs to the host"),
    refuse(EPERM, call!(clock_settime), "the clock belongs to the host"),
    refuse(EPERM, call!(clock_settime64 on x86), "the clock belongs to the host"),
    refuse(ENOSYS, call!(clone3), "its flags lie in memory, where no filter sees them; libraries use clone"),
    refuse(EPERM, call!(delete_module), "changes the kernel"),
    refuse(EPERM, call!(finit_module), "changes the kernel"),
    refuse(EPERM, call!(init_module), "changes the kernel"),
    refuse(ENOSYS, call!(io_uring_enter), "performs other calls without passing this filter"),
    refuse(ENOSYS, call!(io_uring_register), "performs other calls without passing this filter"),
    refuse(ENOSYS, call!(io_uring_setup), "performs other calls without passing this filter"),
    refuse(EPERM, call!(ioctl), "types into the terminal as if the user did")
        .when(&[Check::is(1, &[TIOCLINUX, TIOCSTI])])
        .hits(&[&[BAD_FD, TIOCSTI], &[BAD_FD, TIOCLINUX]])
        .misses(&[&[BAD_FD, TIOCGWINSZ], &[BAD_FD, 0]]),
    refuse(EPERM, call!(ioperm on x86_64, x86), "gives access to hardware ports"),
    refuse(EPERM, call!(iopl on x86_64, x86), "gives access to hardware ports"),
    refuse(EPERM, call!(kcmp), "reveals kernel objects of other processes"),
    refuse(EPERM, call!(kexec_file_load on x86_64, aarch64), "replaces the kernel"),
    refuse(EPERM, call!(kexec_load), "replaces the kernel"),
    refuse(EPERM, call!(keyctl), "kernel keyrings are shared beyond the box"),
    refuse(EPERM, call!(lookup_dcookie), "reveals paths outside the box"),
    refuse(EPERM, call!(mknod on x86_64, x86), "a device node leads to hardware; a pipe or socket does not")
        .when(&[Check::masked(1, S_IFMT, &[S_IFBLK, S_IFCHR])])
        .hits(&[&[0, S_IFCHR | 0o600], &[0, S_IFBLK], &[0, S_IFCHR | 0x1_0000]])
        .misses(&[&[0, S_IFIFO | 0o644], &[0, S_IFSOCK], &[0, S_IFREG], &[0, 0o644]]),
    refuse(EPERM, call!(mknodat), "a device node leads to hardware; a pipe or socket does not")
        .when(&[Check::masked(2, S_IFMT, &[S_IFBLK, S_IFCHR])])
        .hits(&[&[BAD_FD, 0, S_IFCHR | 0o600], &[BAD_FD, 0, S_IFBLK]])
        .misses(&[&[BAD_FD, 0, S_IFIFO | 0o644], &[BAD_FD, 0, S_IFSOCK], &[BAD_FD, 0, 0o644]]),
    refuse(EPERM, call!(name_to_handle_at), "makes handles that lead past the mount plan"),
    refuse(EPERM, call!(open_by_handle_at), "opens files past the mount plan"),
    refuse(EPERM, call!(perf_event_open), "observes the kernel and other processes"),
    refuse(EPERM, call!(personality), "odd execution domains switch off hardening; gdb's and the query pass")
        .when(&[Check::is_not(0, &[0, ADDR_NO_RANDOMIZE, PERSONALITY_QUERY])])
        .hits(&[&[PER_LINUX32], &[ADDR_NO_RANDOMIZE | PER_LINUX32]])
        .misses(&[&[0], &[ADDR_NO_RANDOMIZE], &[PERSONALITY_QUERY]]),
    refuse(EPERM, call!(pidfd_getfd), "takes descriptors out of other processes"),
    refuse(EPERM, call!(process_madvise), "acts on the memory of other processes"),
    refuse(EPERM, call!(process_vm_readv), "reads the memory of other processes; debuggers use ptrace"),
    refuse(EPERM, call!(process_vm_writev), "writes the memory of other processes; debuggers use ptrace"),
    refuse(EPERM, call!(quotactl), "quotas belong to the host"),
    refuse(EPERM, call!(quotactl_fd), "quotas belong to the host"),
    refuse(EPERM, call!(reboot), "stops the host"),
    refuse(EPERM, call!(request_key), "kernel keyrings are shared beyond the box; starts a host program"),
    refuse(EPERM, call!(settimeofday), "the clock belongs to the host"),
    refuse(EPERM, call!(stime on x86), "the clock belongs to the host"),
    refuse(EPERM, call!(swapoff), "swap belongs to the host"),
    refuse(EPERM, call!(swapon), "swap belongs to the host"),
    refuse(EPERM, call!(syslog), "the kernel's log belongs to the host"),
    refuse(EPERM, call!(userfaultfd), "stalls the kernel at chosen points, a help for exploits"),
    refuse(EPERM, call!(vhangup), "hangs up the caller's terminal"),

    refuse(EPERM, call!(chroot), "changes the file view").group(Namespaces),
    refuse(EPERM, call!(clone), "with a namespace flag: a new namespace would give capabilities in it")
        .group(Namespaces)
        .when(&[Check::any_bit(0, NAMESPACES)])
        .hits(&[
            &[CLONE_NEWCGROUP | CLONE_SIGHAND],
            &[CLONE_NEWIPC | CLONE_SIGHAND],
            &[CLONE_NEWNET | CLONE_SIGHAND],
            &[CLONE_NEWNS | CLONE_SIGHAND],
            &[CLONE_NEWPID | CLONE_SIGHAND],
            &[CLONE_NEWUSER | CLONE_THREAD],
            &[CLONE_NEWUTS | CLONE_SIGHAND],
        ])
        .misses(&[&[CLONE_THREAD], &[CLONE_THREAD | CLONE_NEWTIME]]),
    refuse(EPERM, call!(fsconfig), "new mount API: changes the file view").group(Namespaces),
    refuse(EPERM, call!(fsmount), "new mount API: changes the file view").group(Namespaces),
    refuse(EPERM, call!(fsopen), "new mount API: changes the file view").group(Namespaces),
    refuse(EPERM, call!(fspick), "new mount API: changes the file view").group(Namespaces),
    refuse(EPERM, call!(mount), "changes the file view").group(Namespaces),
    refuse(EPERM, call!(mount_setattr), "new mount API: changes the file view").group(Namespaces),
    refuse(EPERM, call!(move_mount), "new mount API: changes the file view").group(Namespaces),
    refuse(EPERM, call!(open_tree), "new mount API: changes the file view").group(Namespaces),
    refuse(EPERM, call!(open_tree_attr), "new mount API: changes the file view").group(Namespaces),
    refuse(EPERM, call!(pivot_root), "changes the file view").group(Namespaces),
    refuse(EPERM, call!(setns), "enters other namespaces").group(Namespaces),
    refuse(EPERM, call!(umount on x86), "changes the file view").group(Namespaces),
    refuse(EPERM, call!(umount2), "changes the file view").group(Namespaces),
    refuse(EPERM, call!(unshare), "with a flag that makes a namespace, which would give capabilities in it")
        .group(Namespaces)
        .when(&[Check::any_bit(0, !UNSHARE_PLAIN)])
        .hits(&[
            &[CLONE_NEWCGROUP],
            &[CLONE_NEWIPC],
            &[CLONE_NEWNET],
            &[CLONE_NEWNS],
            &[CLONE_NEWPID],
            &[CLONE_NEWTIME],
            &[CLONE_NEWUSER],
            &[CLONE_NEWUTS],
        ])
        .misses(&[&[0], &[CLONE_FILES], &[CLONE_FS | CLONE_SYSVSEM]]),

    refuse(EPERM, call!(clone), "without CLONE_THREAD: the box may not start processes")
        .group(NoSpawn)
        .when(&[Check::no_bit(0, CLONE_THREAD)])
        .hits(&[&[CLONE_SIGHAND], &[CLONE_FS | CLONE_SIGHAND]])
        .misses(&[&[CLONE_THREAD], &[CLONE_THREAD | CLONE_SIGHAND]]),
    refuse(EPERM, call!(fork on x86_64, x86), "the box may not start processes").group(NoSpawn),
    refuse(EPERM, call!(vfork on x86_64, x86), "the box may not start processes").group(NoSpawn),

    refuse(EAFNOSUPPORT, call!(socket), "no network: only Unix sockets and route queries")
        .group(Gates(&[UnixOnly]))
        .when(&[Check::is_not(0, &[AF_UNIX, AF_NETLINK])])
        .hits(&[
            &[AF_INET, SOCK_STREAM],
            &[AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC],
            &[AF_VSOCK, SOCK_STREAM],
        ])
        .misses(&[&[AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC], &[AF_NETLINK, SOCK_RAW]]),
    refuse(EAFNOSUPPORT, call!(socket), "no network: only Unix sockets, IP on own loopback, route queries")
        .group(Gates(&[LoopbackOnly, ProxyRouted]))
        .when(&[Check::is_not(0, &[AF_UNIX, AF_INET, AF_INET6, AF_NETLINK])])
        .hits(&[
            &[AF_ALG, SOCK_STREAM],
            &[AF_PACKET, SOCK_RAW],
            &[AF_VSOCK, SOCK_STREAM],
        ])
        .misses(&[&[AF_INET, SOCK_STREAM], &[AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK]]),
    refuse(EAFNOSUPPORT, call!(socket), "of netlink only route queries, which list addresses and interfaces")
        .group(Gates(&[UnixOnly, LoopbackOnly, ProxyRouted]))
        .when(&[Check::is(0, &[AF_NETLINK]), Check::is_not(2, &[NETLINK_ROUTE])])
        .hits(&[
            &[AF_NETLINK, SOCK_RAW, NETLINK_KOBJECT_UEVENT],
            &[AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, 4],
        ])
        .misses(&[
            &[AF_NETLINK, SOCK_RAW, NETLINK_ROUTE],
            &[AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC],
        ]),
    refuse(EPERM, call!(socket), "raw sockets forge packets")
        .group(Gates(&[LoopbackOnly, ProxyRouted]))
        .when(&[Check::is(0, &[AF_INET, AF_INET6]), Check::masked(1, SOCK_TYPE, &[SOCK_RAW, SOCK_PACKET])])
        .hits(&[
            &[AF_INET, SOCK_RAW, 1],
            &[AF_INET6, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 58],
            &[AF_INET, SOCK_PACKET, 3],
        ])
        .misses(&[&[AF_INET, SOCK_STREAM | SOCK_CLOEXEC], &[AF_UNIX, SOCK_RAW]]),
    refuse(EAFNOSUPPORT, call!(socket), "reaches the kernel's ciphers or the hypervisor, not the network")
        .group(Gates(&[Unrestricted]))
        .when(&[Check::is(0, &[AF_ALG, AF_VSOCK])])
        .hits(&[&[AF_ALG, SOCK_STREAM], &[AF_VSOCK, SOCK_STREAM]])
        .misses(&[&[AF_INET, SOCK_STREAM], &[AF_NETLINK, SOCK_RAW, 4]]),
    refuse(EAFNOSUPPORT, call!(socketcall on x86), "its arguments lie in memory, where no filter sees them")
        .group(Gates(&[UnixOnly, LoopbackOnly, ProxyRouted]))
        .when(&[Check::is(0, &[SYS_SOCKET, SYS_SOCKETPAIR])])
        .hits(&[&[SYS_SOCKET], &[SYS_SOCKETPAIR]])
        .misses(&[&[SYS_BIND]]),
    refuse(EAFNOSUPPORT, call!(socketpair), "only Unix sockets come in pairs")
        .group(Gates(&[UnixOnly, LoopbackOnly, ProxyRouted]))
        .when(&[Check::is_not(0, &[AF_UNIX])])
        .hits(&[&[AF_INET, SOCK_STREAM], &[AF_NETLINK, SOCK_RAW]])
        .misses(&[&[AF_UNIX, SOCK_STREAM], &[AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC]]),
];
