mod machine;
mod numbers;
mod rows;

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::compile::{Branch, Rule, assemble};
use super::row::{Call, Check, example_args};
use super::*;
use machine::{run, run_on, seccomp_data};

const ALLOW: u32 = 0x7fff_0000;
const EPERM: u32 = 0x0005_0001;
const ENOSYS: u32 = 0x0005_0026;
const EAFNOSUPPORT: u32 = 0x0005_0061;
const KILL: u32 = 0x8000_0000;

const ARCHES: [Arch; 2] = [Arch::X86_64, Arch::Aarch64];
const GATES: [SocketGate; 4] =
    [SocketGate::UnixOnly, SocketGate::LoopbackOnly, SocketGate::ProxyRouted, SocketGate::Unrestricted];
const DEFAULT: FilterPolicy =
    FilterPolicy { gate: SocketGate::LoopbackOnly, spawn: true, nested_userns: false, allow_i386: false };

fn policies() -> Vec<FilterPolicy> {
    let switches = [false, true];
    let mut all = Vec::new();
    for gate in GATES {
        for spawn in switches {
            for nested_userns in switches {
                for allow_i386 in switches {
                    all.push(FilterPolicy { gate, spawn, nested_userns, allow_i386 });
                }
            }
        }
    }
    all
}

/// Whether Linux 6.18 has the call, by another list of numbers.
fn exists(abi: Abi, number: u32) -> bool {
    let number = number as usize;
    match abi {
        Abi::X86_64 => syscalls::x86_64::Sysno::new(number).is_some(),
        // 403 to 423 are the 64-bit times of 32-bit systems.
        Abi::Aarch64 => syscalls::aarch64::Sysno::new(number).is_some() && !(403..=423).contains(&number),
        Abi::I386 => syscalls::x86::Sysno::new(number).is_some(),
    }
}

/// What the table says of a call, row by row.
fn by_the_table(arch: Arch, policy: &FilterPolicy, abi: Abi, number: u32, args: &[u64; 6]) -> u32 {
    let usable = abi == arch.native() || (abi == Abi::I386 && arch == Arch::X86_64 && policy.allow_i386);
    if !usable {
        return KILL;
    }
    let row = table::ROWS
        .iter()
        .find(|row| row.applies(policy) && row.call.number(abi) == Some(number) && row.matches(args));
    match row {
        Some(row) => row.action.value(),
        None if exists(abi, number) || number == u32::MAX => ALLOW,
        None => ENOSYS,
    }
}

/// Calls that bring out every difference: no arguments, all ones, and what the rows name.
fn interesting_arguments() -> Vec<[u64; 6]> {
    let mut all = vec![[0; 6], [u64::MAX; 6], [u64::from(u32::MAX); 6], [1 << 32; 6]];
    let examples = table::ROWS.iter().chain(init::ROWS).flat_map(|row| row.hits.iter().chain(row.misses));
    all.extend(examples.map(|example| example_args(example)));
    all
}

#[test]
fn every_number_gets_what_the_table_says() {
    let arguments = interesting_arguments();
    for (arch, policy) in ARCHES.into_iter().flat_map(|arch| policies().into_iter().map(move |p| (arch, p))) {
        let program = compile(arch, &policy).unwrap();
        for abi in [Abi::X86_64, Abi::Aarch64, Abi::I386] {
            for number in (0..=600).chain([X32_BIT - 1, u32::MAX - 1, u32::MAX]) {
                let checked = table::ROWS
                    .iter()
                    .any(|row| row.call.number(abi) == Some(number) && !row.checks.is_empty());
                for args in arguments.iter().take(if checked { usize::MAX } else { 2 }) {
                    let (got, _) = run(program.instructions(), abi, number, args);
                    let want = by_the_table(arch, &policy, abi, number, args);
                    assert_eq!(got, want, "{arch:?} {policy:?} {abi:?} {number} {args:x?}");
                }
            }
        }
    }
}

#[test]
fn the_init_filter_allows_its_list_only() {
    for arch in ARCHES {
        let program = init_filter(arch).unwrap();
        let abi = arch.native();
        for number in (0..=600).chain([X32_BIT | 1, u32::MAX]) {
            for args in interesting_arguments() {
                let row =
                    init::ROWS.iter().find(|row| row.call.number(abi) == Some(number) && row.matches(&args));
                let want = row.map_or(EPERM, |row| row.action.value());
                assert_eq!(run(program.instructions(), abi, number, &args).0, want, "{arch:?} {number}");
            }
        }
    }
}

#[test]
fn an_executable_mapping_is_not_for_pid_1() {
    let program = init_filter(Arch::X86_64).unwrap();
    let mmap = |protection| run(program.instructions(), Abi::X86_64, 9, &[0, 4096, protection, 0x22, 0, 0]).0;
    assert_eq!(mmap(3), ALLOW);
    assert_eq!(mmap(7), EPERM);
    let execve = run(program.instructions(), Abi::X86_64, 59, &[0; 6]).0;
    assert_eq!(execve, EPERM);
}

#[test]
fn x32_numbers_and_foreign_architectures_are_refused() {
    for policy in policies() {
        let x86 = compile(Arch::X86_64, &policy).unwrap();
        for number in 0..=1100 {
            assert_eq!(run(x86.instructions(), Abi::X86_64, X32_BIT | number, &[0; 6]).0, ENOSYS);
        }
        let arm = compile(Arch::Aarch64, &policy).unwrap();
        // AUDIT_ARCH_ARM, AUDIT_ARCH_RISCV64, and the big-endian twin of aarch64
        for foreign in [0x4000_0028, 0xc000_00f3, 0x8000_00b7] {
            for program in [&x86, &arm, &init_filter(Arch::X86_64).unwrap()] {
                assert_eq!(run_on(program.instructions(), &seccomp_data(foreign, 1, &[0; 6])).0, KILL);
            }
        }
        assert_eq!(run(arm.instructions(), Abi::X86_64, 63, &[0; 6]).0, KILL);
        let write = run(x86.instructions(), Abi::I386, 4, &[0; 6]).0;
        assert_eq!(write, if policy.allow_i386 { ALLOW } else { KILL });
    }
}

/// Calls as programs make them, with the outcome that the documentation promises.
#[test]
fn the_promises_of_the_documentation_hold() {
    let unix_only = FilterPolicy { gate: SocketGate::UnixOnly, ..DEFAULT };
    let open = FilterPolicy { gate: SocketGate::Unrestricted, ..DEFAULT };
    let no_spawn = FilterPolicy { spawn: false, ..DEFAULT };
    let nested = FilterPolicy { nested_userns: true, ..DEFAULT };
    let (socket, clone, unshare, ioctl, mknodat, personality) = (41, 56, 272, 16, 259, 135);
    let thread = 0x003d_0f00;
    let cases: &[(&str, FilterPolicy, u32, &[u64], u32)] = &[
        ("a Unix socket", unix_only, socket, &[1, 0o2_000_001, 0], ALLOW),
        ("a route query", unix_only, socket, &[16, 0o2_000_003, 0], ALLOW),
        ("socket diagnosis", unix_only, socket, &[16, 3, 4], EAFNOSUPPORT),
        ("TCP", unix_only, socket, &[2, 1, 6], EAFNOSUPPORT),
        ("TCP with a high bit in the family", unix_only, socket, &[1 << 32 | 2, 1, 6], EAFNOSUPPORT),
        ("a pair of Unix sockets", unix_only, 53, &[1, 1, 0], ALLOW),
        ("bind", unix_only, 49, &[3, 0, 0], ALLOW),
        ("getsockopt", unix_only, 55, &[3, 0, 0], ALLOW),
        ("sendmsg", unix_only, 46, &[3, 0, 0], ALLOW),
        ("TCP on loopback", DEFAULT, socket, &[2, 0o2_004_001, 6], ALLOW),
        ("UDP on IPv6 loopback", DEFAULT, socket, &[10, 2, 0], ALLOW),
        ("a raw socket", DEFAULT, socket, &[2, 3, 1], EPERM),
        ("a raw socket with flags", DEFAULT, socket, &[10, 0o2_004_003, 58], EPERM),
        ("an old packet socket", DEFAULT, socket, &[2, 10, 3], EPERM),
        ("a packet socket", DEFAULT, socket, &[17, 3, 3], EAFNOSUPPORT),
        ("the hypervisor", DEFAULT, socket, &[40, 1, 0], EAFNOSUPPORT),
        ("the hypervisor under AllowAll", open, socket, &[40, 1, 0], EAFNOSUPPORT),
        ("socket diagnosis under AllowAll", open, socket, &[16, 3, 4], ALLOW),
        ("a new process", DEFAULT, clone, &[17], ALLOW),
        ("a process with an unused exit signal", DEFAULT, clone, &[0x80 | 0x100], ALLOW),
        ("a process in a user namespace", DEFAULT, clone, &[0x1000_0000 | 17], EPERM),
        ("clone3", DEFAULT, 435, &[0, 88], ENOSYS),
        ("a thread without spawning", no_spawn, clone, &[thread], ALLOW),
        ("a process without spawning", no_spawn, clone, &[17], EPERM),
        ("posix_spawn without spawning", no_spawn, clone, &[0x4111], EPERM),
        ("fork without spawning", no_spawn, 57, &[], EPERM),
        ("vfork without spawning", no_spawn, 58, &[], EPERM),
        ("clone3 without spawning", no_spawn, 435, &[0, 88], ENOSYS),
        ("unsharing descriptors", DEFAULT, unshare, &[0x400], ALLOW),
        ("unsharing time", DEFAULT, unshare, &[0x80], EPERM),
        ("unsharing users, nested", nested, unshare, &[0x1000_0000], ALLOW),
        ("mounting", DEFAULT, 165, &[], EPERM),
        ("mounting, nested", nested, 165, &[], ALLOW),
        ("pivot_root, nested", nested, 155, &[], ALLOW),
        ("open_tree_attr, nested", nested, 467, &[], ALLOW),
        ("bpf, nested", nested, 321, &[], EPERM),
        ("typing into the terminal", DEFAULT, ioctl, &[0, 0x5412], EPERM),
        ("the same with a high bit", DEFAULT, ioctl, &[0, 1 << 40 | 0x5412], EPERM),
        ("the window size", DEFAULT, ioctl, &[0, 0x5413], ALLOW),
        ("mkfifo", DEFAULT, mknodat, &[0, 0, 0o010_644], ALLOW),
        ("mknod without a type", DEFAULT, mknodat, &[0, 0, 0o644], ALLOW),
        ("a block device", DEFAULT, mknodat, &[0, 0, 0o060_600], EPERM),
        ("asking for the personality", DEFAULT, personality, &[u64::from(u32::MAX)], ALLOW),
        ("gdb's personality", DEFAULT, personality, &[0x4_0000], ALLOW),
        ("READ_IMPLIES_EXEC", DEFAULT, personality, &[0x40_0000], EPERM),
        ("ptrace", DEFAULT, 101, &[], ALLOW),
        ("io_uring_setup", DEFAULT, 425, &[], ENOSYS),
        ("a call of a later kernel", DEFAULT, 470, &[], ENOSYS),
        ("a call that a tracer skips", DEFAULT, u32::MAX, &[], ALLOW),
    ];
    for (what, policy, number, given, want) in cases {
        let mut args = [0; 6];
        args[..given.len()].copy_from_slice(given);
        let program = compile(Arch::X86_64, policy).unwrap();
        assert_eq!(run(program.instructions(), Abi::X86_64, *number, &args).0, *want, "{what}");
    }
}

fn checked_rows() -> Vec<&'static Row> {
    table::ROWS.iter().filter(|row| !row.checks.is_empty()).collect()
}

fn noise() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), any::<u64>(), (0..64).prop_map(|bit| 1_u64 << bit)]
}

proptest! {
    #[test]
    fn arguments_are_judged_as_the_table_says(
        policy in prop::sample::select(policies()),
        row in prop::sample::select(checked_rows()),
        example in any::<prop::sample::Index>(),
        noise in prop::array::uniform6(noise()),
        which in 0_usize..7,
    ) {
        let examples: Vec<&[u32]> = row.hits.iter().chain(row.misses).copied().collect();
        let mut args = example_args(example.get::<&[u32]>(&examples));
        if let Some(arg) = args.get_mut(which) {
            *arg ^= noise[which];
        } else {
            args = noise;
        }
        for arch in ARCHES {
            let program = compile(arch, &policy).unwrap();
            for abi in [Abi::X86_64, Abi::Aarch64, Abi::I386] {
                let Some(number) = row.call.number(abi) else { continue };
                let want = by_the_table(arch, &policy, abi, number, &args);
                prop_assert_eq!(run(program.instructions(), abi, number, &args).0, want);
                let high = args.map(|arg| arg ^ 0xdead_beef_0000_0000);
                prop_assert_eq!(run(program.instructions(), abi, number, &high).0, want);
            }
        }
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Segments, jumps and stepping stones on tables unlike ours, with hundreds of rows.
    #[test]
    fn any_table_compiles_to_what_it_says(
        numbers in prop::collection::btree_map(0_u32..3000, 0_usize..4, 0..900),
        base in prop::collection::btree_map(1_u32..4000, 0_u32..3, 0..20),
        order in any::<bool>(),
    ) {
        static CHECKS: [&[Check]; 4] = [
            &[],
            &[Check::is(0, &[1, 2, 3])],
            &[Check::any_bit(1, 0xf0), Check::is_not(2, &[7, 9])],
            &[Check::masked(5, 0xff, &[0x11, 0x22]), Check::no_bit(0, 4)],
        ];
        let rules: Vec<Rule> = numbers.iter().map(|(number, kind)| {
            let call = Call { x86_64: Some(*number), x86: number.checked_add(7), ..Call::named("x") };
            let row = Box::leak(Box::new(Row::new(Action::Allow, call, "x").when(CHECKS[*kind])));
            Rule { row, value: 0x5_0000 | (number % 5) }
        }).collect();
        let base: Vec<(u32, u32)> = [(0, ALLOW)].into_iter().chain(base).collect();
        let mut abis = [Abi::X86_64, Abi::I386];
        if order {
            abis.reverse();
        }
        let branches: Vec<Branch> = abis.into_iter().map(|abi| Branch { abi, base: base.clone() }).collect();
        let code = assemble(&branches, &rules, KILL);
        for abi in abis {
            for number in (0..3020).chain([3999, 4000, u32::MAX]) {
                for args in [[0; 6], [1, 0x10, 8, 0, 0, 0x11], [4, 0x20, 7, 0, 0, 0x1122]] {
                    let rule = rules.iter().find(|rule| {
                        rule.row.call.number(abi) == Some(number) && rule.row.matches(&args)
                    });
                    let otherwise = || base.iter().rfind(|(start, _)| *start <= number).map(|base| base.1);
                    let want = rule.map(|rule| rule.value).or_else(otherwise);
                    prop_assert_eq!(Some(run(&code, abi, number, &args).0), want, "{:?} {}", abi, number);
                }
            }
        }
        prop_assert_eq!(run(&code, Abi::Aarch64, 0, &[0; 6]).0, KILL);
    }
}

#[test]
fn common_calls_take_few_instructions() {
    let policy = FilterPolicy { allow_i386: true, ..DEFAULT };
    for arch in ARCHES {
        let program = compile(arch, &policy).unwrap();
        for number in 0..600 {
            let (_, steps) = run(program.instructions(), arch.native(), number, &[0; 6]);
            assert!(steps <= 24, "{arch:?} {number} takes {steps}");
        }
    }
}

#[test]
fn probes_cover_every_row_and_agree_with_the_filter() {
    for (arch, policy) in ARCHES.into_iter().flat_map(|arch| policies().into_iter().map(move |p| (arch, p))) {
        let program = compile_marked(arch, &policy).unwrap();
        let probes = probes(arch, &policy);
        for probe in &probes {
            let (got, _) = run(program.instructions(), probe.abi, probe.number, &probe.args);
            assert_eq!(got, probe.expected.map_or(ALLOW, errno_value), "{probe:?}");
        }
        let reached: BTreeSet<u16> = probes.iter().filter_map(|probe| probe.expected).collect();
        for marked in command_rows(arch, &policy).chain([UNKNOWN]) {
            assert!(reached.contains(&marked.marker), "{} is never reached", marked.row.call.name);
        }
        assert_eq!(reached.contains(&X32.marker), arch == Arch::X86_64);
        assert!(probes.iter().any(|probe| probe.expected.is_none()));
    }
}

#[test]
fn markers_are_distinct_errors() {
    let policy = FilterPolicy { allow_i386: true, spawn: false, ..DEFAULT };
    let markers: Vec<u16> =
        command_rows(Arch::X86_64, &policy).chain([X32, UNKNOWN]).map(|m| m.marker).collect();
    assert_eq!(markers.iter().collect::<BTreeSet<_>>().len(), markers.len());
    // MAX_ERRNO of the kernel; internal codes end at 530
    assert!(markers.iter().all(|marker| (531..4096).contains(marker)));
}

#[test]
fn rows_are_told_in_words() {
    let rows = compile(Arch::X86_64, &DEFAULT).unwrap().rows();
    let find = |call: &str| rows.iter().find(|row| row.call == call);
    assert_eq!(find("mount").map(|row| row.action.to_string()).as_deref(), Some("EPERM"));
    assert_eq!(find("clone3").map(|row| row.action.to_string()).as_deref(), Some("ENOSYS"));
    assert_eq!(find("other architectures").map(|row| row.action), Some(Action::Kill));
    assert!(find("x32 calls").is_some() && find("socketcall").is_none() && find("fork").is_none());
    let arm = compile(Arch::Aarch64, &DEFAULT).unwrap().rows();
    assert!(!arm.iter().any(|row| row.call == "x32 calls" || row.call == "mknod"));
    assert!(init_filter(Arch::Aarch64).unwrap().rows().iter().any(|row| row.call == "every other call"));
    let line = serde_json::to_string(&rows[0]).unwrap();
    assert_eq!(
        line,
        r#"{"call":"acct","action":"EPERM","reason":"writes accounting records for the whole host"}"#
    );
}

#[test]
fn a_program_survives_serialisation_unless_it_is_useless() {
    let program = compile(Arch::X86_64, &DEFAULT).unwrap();
    let text = serde_json::to_string(&program).unwrap();
    assert_eq!(serde_json::from_str::<Program>(&text).unwrap(), program);

    let refused = |code: Vec<Instruction>| {
        Program::try_from(Parts { arch: Arch::X86_64, filter: Filter::Init, code }).unwrap_err()
    };
    let allow = Instruction { code: 6, jt: 0, jf: 0, k: ALLOW };
    assert_eq!(refused(Vec::new()), SeccompError::Empty);
    assert_eq!(refused(vec![allow; 4097]), SeccompError::TooLong { len: 4097 });
    let empty = r#"{"arch":"x86_64","filter":"init","code":[]}"#;
    assert!(serde_json::from_str::<Program>(empty).unwrap_err().to_string().contains("empty"));
}
