//! Calls and files that reach the kernel or the machine itself. Where an act would harm the machine, its arguments
//! are wrong on purpose: outside the kernel answers that they are, inside the filter answers first.

use libc::{EACCES, ENOENT, ENOSYS, EPERM, EROFS, SIGSYS};
use ringfence_testkit::Caller;
use serde_json::Value;

use super::row::{Closed, Row, Setup, row};

const BARRED: Closed = Closed::Errno(&[EPERM]);
const UNKNOWN: Closed = Closed::Errno(&[ENOSYS]);

/// A call whose arguments are wrong; outside, any caller hears about them.
const fn call(name: &'static str, act: &'static [&'static str]) -> Row {
    row(name, "2.5", act, BARRED).differs()
}

/// The same where the kernel asks for a privilege first.
const fn privileged(name: &'static str, act: &'static [&'static str]) -> Row {
    row(name, "2.5", act, BARRED).differs().control_as_root()
}

/// A file of the kernel's that root could open for writing outside.
const fn knob(name: &'static str, act: &'static [&'static str], path: &'static str) -> Row {
    row(name, "2.2.5", act, Closed::Errno(&[EROFS, EACCES, ENOENT])).control_as_root().exists(path)
}

/// A file of the kernel's that root could open for reading outside.
const fn masked(name: &'static str, act: &'static [&'static str], path: &'static str) -> Row {
    row(name, "2.2.5", act, Closed::Errno(&[EACCES, EPERM, ENOENT])).control_as_root().exists(path)
}

/// A file of the machine's below `/proc`: whoever owns it, root, can change mode and owner without any capability. Here
/// they are given what they have.
const fn shared(name: &'static str, act: &'static [&'static str]) -> Row {
    row(name, "2.2.5", act, Closed::Errno(&[EROFS, EPERM])).control_as_root().exists("/proc/uptime")
}

fn nesting(fixture: &ringfence_testkit::Fixture) -> Setup {
    fixture.write("host/nested.toml", "[sandbox.linux]\nnested_userns = true\n");
    Setup::default()
}

/// A device node.
const fn device(name: &'static str, act: &'static [&'static str], path: &'static str) -> Row {
    row(name, "2.3", act, Closed::Errno(&[ENOENT])).control_as_root().exists(path)
}

const DEVICES: &[&str] = &[
    "null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "stdin", "stdout", "stderr",
    "fd",
];

fn is_zero(text: &Value) -> bool {
    text.as_str().is_some_and(|text| text.trim_end() == "0")
}

fn only_plain_devices(names: &Value) -> bool {
    names.as_array().is_some_and(|names| {
        names.iter().all(|name| name.as_str().is_some_and(|name| DEVICES.contains(&name)))
    })
}

/// The first cgroup that the machine shows.
fn cgroup(_: &ringfence_testkit::Fixture) -> Setup {
    let files = ["/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/cpu/cgroup.procs"];
    let found = files.into_iter().find(|path| std::path::Path::new(path).exists());
    Setup::default().name("{cgroup}", found.unwrap_or("/sys/fs/cgroup/none"))
}

fn disk(_: &ringfence_testkit::Fixture) -> Setup {
    let names = ["/dev/vda", "/dev/sda", "/dev/nvme0n1", "/dev/loop0"];
    let found = names.into_iter().find(|path| std::path::Path::new(path).exists());
    Setup::default().name("{disk}", found.unwrap_or("/dev/no-disk"))
}

pub(crate) const ROWS: &[Row] = &[
    call("read a key", &["syscall", "keyctl", "0", "-1", "0"]),
    row("add a key", "2.5", &["syscall", "add_key", "str:user", "str:planted", "str:x", "1", "-2"], BARRED),
    call("ask for a key", &["syscall", "request_key", "str:user", "str:none", "0", "0"]),
    call("load a kernel program", &["syscall", "bpf", "7", "1", "8"]),
    call("open a performance counter", &["syscall", "perf_event_open", "1", "0", "0", "0", "0"]),
    row("handle page faults", "2.5", &["syscall", "userfaultfd", "1"], BARRED),
    row("set up an I/O ring", "2.5", &["syscall", "io_uring_setup", "1", "0"], UNKNOWN).differs(),
    row("enter an I/O ring", "2.5", &["syscall", "io_uring_enter", "-1", "0", "0", "0", "0"], UNKNOWN)
        .differs(),
    row("register with an I/O ring", "2.5", &["syscall", "io_uring_register", "-1", "0", "0", "0"], UNKNOWN)
        .differs(),
    privileged("load another kernel", &["syscall", "kexec_load", "0", "99999", "0", "0"]),
    privileged("load another kernel from a file", &["syscall", "kexec_file_load", "-1", "-1", "0", "0", "0"]),
    privileged("load a module", &["syscall", "init_module", "0", "0", "0"]),
    privileged("load a module from a file", &["syscall", "finit_module", "-1", "0", "0"]),
    privileged("remove a module", &["syscall", "delete_module", "0", "0"]),
    privileged("add swap", &["syscall", "swapon", "0", "0"]),
    privileged("remove swap", &["syscall", "swapoff", "0"]),
    privileged("restart the machine", &["syscall", "reboot", "0", "0", "0", "0"]),
    row("read the kernel's log", "2.5", &["syscall", "syslog", "10", "0", "0"], BARRED).control_as_root(),
    call("set the time of day", &["syscall", "settimeofday", "1", "0"]),
    call("set a clock", &["syscall", "clock_settime", "0", "0"]),
    row("look at a clock's discipline", "2.5", &["syscall", "clock_adjtime", "0", "buf:208"], BARRED),
    row("look at the clock's discipline", "2.5", &["syscall", "adjtimex", "buf:208"], BARRED),
    call("set a quota", &["syscall", "quotactl", "0", "0", "0", "0"]),
    call("set a quota by descriptor", &["syscall", "quotactl_fd", "-1", "0", "0", "0"]),
    privileged("write process accounts", &["syscall", "acct", "1"]),
    row("hang up the terminal", "2.5", &["syscall", "vhangup"], BARRED)
        .control(&["in-session", "--", "syscall", "vhangup"])
        .control_as_root(),
    call("advise on memory of another process", &["syscall", "process_madvise", "-1", "0", "0", "0", "0"]),
    row("compare kernel objects", "2.5", &["syscall", "kcmp", "self", "self", "1", "0", "0"], BARRED),
    row("become a Linux of 32 bits", "2.5", &["syscall", "personality", "8"], BARRED),
    row("make all memory executable", "2.5", &["syscall", "personality", "0x0400000"], BARRED),
    row("switch off the zero page", "2.5", &["syscall", "personality", "0x0100000"], BARRED),
    x86("raise the I/O privilege", &["syscall", "iopl", "4"]),
    x86("open I/O ports", &["syscall", "ioperm", "70000", "1", "1"]),
    call("look up a profiler's cookie", &["syscall", "lookup_dcookie", "0", "0", "0"]),
    row("inject input into a terminal", "2.5", &["inject"], BARRED).differs(),
    row("inject input, request with high bits", "2.5", &["inject", "0x100000000"], BARRED).differs(),
    row("drive the console", "2.5", &["console"], BARRED).differs(),
    row("drive the console, request with high bits", "2.5", &["console", "0x7fffffff00000000"], BARRED)
        .differs(),
    row("character device", "2.5", &["mknod-char", "{ws}/null"], BARRED).control_as_root(),
    row("block device", "2.5", &["mknod-block", "{ws}/disk"], BARRED).control_as_root(),
    x86("character device by the old call", &["syscall", "mknod", "str:{ws}/null", "0o020644", "0x103"])
        .control_as_root(),
    row("call through the 32-bit entry", "2.5", &["syscall-i386"], Closed::Signal(SIGSYS)),
    row("call by an x32 number", "2.5", &["syscall-x32", "39"], UNKNOWN).kernel_may_lack_it(),
    row("gain a user id", "2.2.10", &["syscall", "setuid", "12345"], Closed::Errno(&[EPERM, libc::EINVAL]))
        .only(Caller::Root),
    knob(
        "change the core dump handler",
        &["open-write", "/proc/sys/kernel/core_pattern"],
        "/proc/sys/kernel",
    ),
    knob("drop the page cache", &["open-write", "/proc/sys/vm/drop_caches"], "/proc/sys/vm/drop_caches"),
    knob("change a network setting", &["open-write", "/proc/sys/net/ipv4/ip_forward"], "/proc/sys/net/ipv4"),
    row("find user namespaces allowed", "2.2.5", &["read", MAX_USER_NAMESPACES], Closed::State(is_zero)),
    knob("press the magic key", &["open-write", "/proc/sysrq-trigger"], "/proc/sysrq-trigger"),
    knob("steer interrupts", &["open-write", "/proc/irq/default_smp_affinity"], "/proc/irq"),
    knob("tune memory", &["open-write", "/sys/kernel/mm/ksm/run"], "/sys/kernel/mm/ksm/run"),
    knob("tune huge pages", &["open-write", SYS_HUGE_PAGES], SYS_HUGE_PAGES),
    knob("write a firmware hook", &["open-write", "/sys/kernel/uevent_helper"], "/sys/kernel/uevent_helper"),
    knob("move to another cgroup", &["open-write", "{cgroup}"], "{cgroup}").setup(cgroup),
    shared("change a mode that all instances of proc share", &["chmod", "/proc/uptime", "444"]),
    shared("change such a mode by descriptor", &["fd-chmod", "/proc/uptime", "444"]),
    shared("change an owner that all instances of proc share", &["chown", "/proc/uptime", "-1", "0"])
        .only(Caller::Root),
    shared("change such a mode in a box that may nest", &["chmod", "/proc/uptime", "444"])
        .setup(nesting)
        .flags(&["--config", "{host}/nested.toml"]),
    masked("read the kernel's memory", &["open-read", "/proc/kcore"], "/proc/kcore"),
    masked("read the kernel's messages", &["open-read", "/proc/kmsg"], "/proc/kmsg"),
    masked("read the timers", &["open-read", "/proc/timer_list"], "/proc/timer_list"),
    row("list keys", "2.2.5", &["read", "/proc/keys"], Closed::Empty).control_as_root(),
    device("open the disk", &["stat", "{disk}"], "{disk}").setup(disk),
    device("open the kernel's message device", &["open-read", "/dev/kmsg"], "/dev/kmsg"),
    device("open the machine's memory", &["open-read", "/dev/mem"], "/dev/mem"),
    device("open the virtual machine device", &["open-read", "/dev/kvm"], "/dev/kvm"),
    device("open the file system device", &["open-read", "/dev/fuse"], "/dev/fuse"),
    device("open the tunnel device", &["open-read", "/dev/net/tun"], "/dev/net/tun"),
    device("open the loop control", &["open-read", "/dev/loop-control"], "/dev/loop-control"),
    device("open a virtual console", &["open-read", "/dev/tty0"], "/dev/tty0"),
    device("open the page fault device", &["open-read", "/dev/userfaultfd"], "/dev/userfaultfd"),
    row("see other devices", "2.3", &["list", "/dev"], Closed::State(only_plain_devices)),
];

const MAX_USER_NAMESPACES: &str = "/proc/sys/user/max_user_namespaces";
const SYS_HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// A call that only x86 has.
const fn x86(name: &'static str, act: &'static [&'static str]) -> Row {
    let row = call(name, act);
    if cfg!(target_arch = "x86_64") { row } else { row.exists("/no-such-call-on-this-architecture") }
}
