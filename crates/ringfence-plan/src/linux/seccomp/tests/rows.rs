use std::collections::{BTreeMap, BTreeSet};

use super::super::row::{Group, example_args};
use super::super::{Abi, Action, Errno, init, table};
use super::{exists, numbers};

const GROUPS: [fn(Group) -> bool; 4] = [
    |group| group == Group::Always,
    |group| group == Group::Namespaces,
    |group| group == Group::NoSpawn,
    |group| matches!(group, Group::Gates(_)),
];

/// The table once more, so that no row is lost or changes its action unseen.
#[test]
fn the_table_refuses_what_it_should() {
    let [always, namespaces, no_spawn, gates] = GROUPS;
    let lists = [
        (
            always,
            Errno::EPERM,
            "acct add_key adjtimex bpf clock_adjtime clock_adjtime64 clock_settime clock_settime64 \
             delete_module finit_module init_module ioctl ioperm iopl kcmp kexec_file_load kexec_load keyctl \
             lookup_dcookie mknod mknodat name_to_handle_at open_by_handle_at perf_event_open personality \
             pidfd_getfd process_madvise process_vm_readv process_vm_writev quotactl quotactl_fd reboot \
             request_key settimeofday stime swapoff swapon syslog userfaultfd vhangup",
        ),
        (always, Errno::ENOSYS, "clone3 io_uring_enter io_uring_register io_uring_setup"),
        (
            namespaces,
            Errno::EPERM,
            "chroot clone fsconfig fsmount fsopen fspick mount mount_setattr move_mount open_tree \
             open_tree_attr pivot_root setns umount umount2 unshare",
        ),
        (no_spawn, Errno::EPERM, "clone fork vfork"),
        (gates, Errno::EPERM, "socket"),
        (gates, Errno::EAFNOSUPPORT, "socket socket socket socket socketcall socketpair"),
    ];
    let mut listed = 0;
    for (group, errno, names) in lists {
        let rows = table::ROWS.iter().filter(|row| row.action == Action::Fail(errno) && group(row.group));
        let own: Vec<&str> = rows.map(|row| row.call.name).collect();
        assert_eq!(own.join(" "), names);
        listed += own.len();
    }
    assert_eq!(listed, table::ROWS.len());
}

#[test]
fn numbers_are_those_of_the_kernel_headers() {
    let headers: BTreeMap<&str, [Option<u32>; 3]> = numbers::HEADERS
        .iter()
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let [name, rest @ ..] = words.as_slice() else { panic!("empty line") };
            (*name, std::array::from_fn(|column| rest[column].parse().ok()))
        })
        .collect();
    let mut seen = BTreeSet::new();
    for row in table::ROWS.iter().chain(init::ROWS) {
        let own = [Abi::X86_64, Abi::Aarch64, Abi::I386].map(|abi| row.call.number(abi));
        assert_eq!(Some(&own), headers.get(row.call.name), "{}", row.call.name);
        seen.insert(row.call.name);
    }
    assert!(headers.keys().eq(&seen), "a line of the headers belongs to no row");
}

#[test]
fn known_calls_are_those_of_linux_6_18() {
    for abi in [Abi::X86_64, Abi::Aarch64, Abi::I386] {
        for number in 0..2000 {
            let known = abi.known().iter().any(|range| range.contains(&number));
            assert_eq!(known, exists(abi, number), "{abi:?} {number}");
        }
        let ends: Vec<u32> = abi.known().iter().flat_map(|range| [*range.start(), *range.end()]).collect();
        assert!(ends.is_sorted() && ends.last() == Some(&469));
    }
}

/// Sorted by name within each group, no row twice, a reason in each, examples wherever there are checks.
#[test]
fn the_table_is_in_order() {
    let reasons = table::ROWS.iter().chain(init::ROWS).chain([&table::X32, &table::UNKNOWN, &table::FOREIGN]);
    for row in reasons.chain([&init::REST]) {
        assert!(row.reason.len() > 5 && !row.reason.ends_with('.'), "{}", row.call.name);
    }
    let rank = |group: Group| GROUPS.iter().position(|is_it| is_it(group));
    for rows in [table::ROWS, init::ROWS] {
        assert!(rows.is_sorted_by_key(|row| (rank(row.group), row.call.name)));
        let mut seen = BTreeSet::new();
        for row in rows {
            assert!(seen.insert((row.call.name, row.reason)), "{} is there twice", row.call.name);
            assert_eq!(row.checks.is_empty(), row.hits.is_empty(), "{}", row.call.name);
            assert_eq!(row.checks.is_empty(), row.misses.is_empty(), "{}", row.call.name);
        }
    }
}

/// Each example does what it is there for, and each value that a row names is in an example of a hit.
#[test]
fn examples_hit_and_miss() {
    for row in table::ROWS.iter().chain(init::ROWS) {
        for hit in row.hits {
            assert!(row.matches(&example_args(hit)), "{} {hit:x?}", row.call.name);
        }
        for miss in row.misses {
            assert!(!row.matches(&example_args(miss)), "{} {miss:x?}", row.call.name);
        }
        for check in row.checks.iter().filter(|check| check.member) {
            for value in check.values {
                let shown = row
                    .hits
                    .iter()
                    .any(|hit| example_args(hit)[usize::from(check.arg)] as u32 & check.mask == *value);
                assert!(shown, "{}: no example for {value:#x}", row.call.name);
            }
        }
    }
}
