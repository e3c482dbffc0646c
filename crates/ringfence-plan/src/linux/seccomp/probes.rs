use serde::Serialize;

use super::abi::{Abi, Arch, NO_CALL, X32_BIT};
use super::row::{Row, example_args};
use super::{FilterPolicy, Marked, UNKNOWN, X32, abis, command_rows};

/// A system call to send to the kernel under the filter of [`compile_marked`](super::compile_marked).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Probe {
    /// Name of the call.
    pub call: &'static str,
    /// How to make it. i386 calls take the low half of each argument.
    pub abi: Abi,
    /// Its number.
    pub number: u32,
    /// Its arguments.
    pub args: [u64; 6],
    /// The error that it must fail with; `None` if it may do anything but fail with one of the marked filter's
    /// errors.
    pub expected: Option<u16>,
}

impl Probe {
    /// Whether an error, 0 for success, is what the probe should see.
    pub fn is_met_by(&self, errno: u16) -> bool {
        match self.expected {
            Some(expected) => errno == expected,
            None => !is_marker(errno),
        }
    }
}

/// Whether an error comes from a row of a marked filter: the kernel has none that large.
fn is_marker(errno: u16) -> bool {
    errno >= super::MARKER_BASE
}

/// Calls that show every row of a command's filter at work, and near misses that no row must stop.
///
/// With these arguments a call fails in the kernel or has no effect beyond the calling process, except for
/// `fork` and `vfork`, tried only if the policy refuses them: they make a process if the filter is broken.
pub fn probes(arch: Arch, policy: &FilterPolicy) -> Vec<Probe> {
    let rows: Vec<Marked> = command_rows(arch, policy).collect();
    let mut all = Vec::new();
    for abi in abis(arch, policy) {
        for row in rows.iter().map(|marked| marked.row) {
            let Some(number) = row.call.number(abi) else { continue };
            for args in examples(row) {
                let first = |marked: &&Marked| {
                    marked.row.call.number(abi) == Some(number) && marked.row.matches(&args)
                };
                let expected = rows.iter().find(first).map(|marked| marked.marker);
                all.push(Probe { call: row.call.name, abi, number, args, expected });
            }
        }
        all.extend(strangers(abi));
    }
    all
}

/// Arguments for a row's call, each also with high halves that the kernel ignores or refuses.
fn examples(row: &Row) -> Vec<[u64; 6]> {
    if row.checks.is_empty() {
        return vec![[u64::MAX; 6]];
    }
    let low = row.hits.iter().chain(row.misses).map(|given| example_args(given));
    low.flat_map(|args| [args, args.map(|arg| arg | 1 << 32)]).collect()
}

/// Numbers at the edges of what is unknown, x32 numbers, and what is no call.
fn strangers(abi: Abi) -> Vec<Probe> {
    let probe = |number, Marked { marker, row }: Marked| Probe {
        call: row.call.name,
        abi,
        number,
        args: [u64::MAX; 6],
        expected: Some(marker),
    };
    let after = abi.known().iter().map(|range| range.end() + 1);
    let before = abi.known().iter().filter_map(|range| range.start().checked_sub(1));
    let mut all: Vec<Probe> =
        after.chain(before).chain([NO_CALL - 1]).map(|number| probe(number, UNKNOWN)).collect();
    all.push(Probe { call: "no call", abi, number: NO_CALL, args: [0; 6], expected: None });
    if abi == Abi::X86_64 {
        let last = abi.known().iter().map(|range| *range.end()).max();
        all.extend([Some(0), last].into_iter().flatten().map(|number| probe(X32_BIT | number, X32)));
    }
    all
}
