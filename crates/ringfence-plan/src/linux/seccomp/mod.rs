//! System call filters (seccomp(2)) as plain instructions: a table of rows and a compiler for it.
//!
//! A filter first checks the architecture: one that is neither the box's own nor, by option, i386 kills the
//! process. Then a binary decision tree over the call number leads to the rows of that call, whose checks
//! look at arguments. A call without a row is allowed if Linux 6.18 has it, else it isn't there (ENOSYS); nor
//! are x32 calls. Since Linux 5.11 a call that is allowed whatever its arguments skips the filter, as long as
//! the filter only compares numbers and never computes with them.
//!
//! With [`FilterPolicy::allow_i386`] the same rows hold for the i386 calls, with one gap: `socketcall` has
//! its arguments in memory. [`SocketGate::Unrestricted`] therefore checks no socket that is made that way,
//! and the other gates refuse them all, Unix sockets too.

mod abi;
mod compile;
mod init;
mod probes;
mod row;
mod table;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use abi::{Abi, Arch};
pub use probes::{Probe, probes};
pub use row::{Action, Errno};

use abi::{NO_CALL, X32_BIT};
use compile::{Branch, Rule, assemble};
use row::{Row, errno_value};

/// Longest filter that the kernel takes (`BPF_MAXINSNS`).
const MAX_INSTRUCTIONS: usize = 4096;

/// Errors of [`compile_marked`] start here: above every real one and the kernel's internal ones, below 4096.
const MARKER_BASE: u16 = 2000;

/// Which sockets the command may make. Every gate but `Unrestricted` is an allowlist of address families; a
/// refused family is EAFNOSUPPORT. Sockets that exist work without restriction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SocketGate {
    /// Unix sockets, and netlink for route queries.
    UnixOnly,
    /// IP sockets too, none of them raw. Meant for a network namespace that has nothing but its own loopback.
    LoopbackOnly,
    /// The same sockets, where the loopback has a proxy. Stream sockets reach what it lets through; nothing but the
    /// proxy's look-up service takes datagrams that leave the box, as the namespace has no other way out.
    ProxyRouted,
    /// All but `AF_ALG` and `AF_VSOCK`. Packet and raw sockets are left to the kernel, which asks for a
    /// capability that the box doesn't have.
    Unrestricted,
}

/// What a command's filter depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FilterPolicy {
    /// Sockets.
    pub gate: SocketGate,
    /// Whether the command may start processes. Threads it may always start.
    pub spawn: bool,
    /// Lifts the rows that keep the command from making namespaces and from mounting in them.
    pub nested_userns: bool,
    /// Lets i386 programs run. Without effect on ARM.
    pub allow_i386: bool,
}

/// Which filter a [`Program`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Filter {
    /// For the command and all that it starts.
    Command(FilterPolicy),
    /// The same with a distinct error for each row, for tests.
    Marked(FilterPolicy),
    /// For PID 1.
    Init,
}

/// One instruction of classic BPF: `struct sock_filter` of `<linux/filter.h>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u16, u8, u8, u32)", into = "(u16, u8, u8, u32)")]
pub struct Instruction {
    /// Operation.
    pub code: u16,
    /// Instructions to skip if a comparison holds.
    pub jt: u8,
    /// Instructions to skip if it doesn't.
    pub jf: u8,
    /// Operand.
    pub k: u32,
}

impl From<(u16, u8, u8, u32)> for Instruction {
    fn from((code, jt, jf, k): (u16, u8, u8, u32)) -> Self {
        Self { code, jt, jf, k }
    }
}

impl From<Instruction> for (u16, u8, u8, u32) {
    fn from(Instruction { code, jt, jf, k }: Instruction) -> Self {
        (code, jt, jf, k)
    }
}

/// A filter that is neither empty nor too long, ready for seccomp(2).
///
/// Installed without `SECCOMP_FILTER_FLAG_SPEC_ALLOW`: kernels before 5.16 then keep a mitigation against
/// speculation on for the command, which costs speed there and is what a command that nobody has vetted should have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Parts")]
pub struct Program {
    arch: Arch,
    filter: Filter,
    code: Vec<Instruction>,
}

#[derive(Deserialize)]
struct Parts {
    arch: Arch,
    filter: Filter,
    code: Vec<Instruction>,
}

/// A filter that must not be installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SeccompError {
    /// It would let everything through.
    #[error("the seccomp filter is empty")]
    Empty,
    /// The kernel would refuse it.
    #[error("the seccomp filter has {len} instructions, more than {MAX_INSTRUCTIONS}")]
    TooLong {
        /// Number of instructions.
        len: usize,
    },
}

/// One line of a filter in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RuleSummary {
    /// The system call, or a description of several.
    pub call: &'static str,
    /// What happens to it.
    pub action: Action,
    /// Why.
    pub reason: &'static str,
}

impl TryFrom<Parts> for Program {
    type Error = SeccompError;

    fn try_from(Parts { arch, filter, code }: Parts) -> Result<Self, SeccompError> {
        match code.len() {
            0 => Err(SeccompError::Empty),
            len if len > MAX_INSTRUCTIONS => Err(SeccompError::TooLong { len }),
            _ => Ok(Self { arch, filter, code }),
        }
    }
}

impl Program {
    /// What the kernel runs.
    pub fn instructions(&self) -> &[Instruction] {
        &self.code
    }

    /// The architecture it is for.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// Which filter it is.
    pub fn filter(&self) -> Filter {
        self.filter
    }

    /// The filter in words: its rows, then what happens to all other calls.
    pub fn rows(&self) -> Vec<RuleSummary> {
        let mut rows: Vec<&Row> = match self.filter {
            Filter::Command(policy) | Filter::Marked(policy) => {
                let x32 = (self.arch == Arch::X86_64).then_some(&table::X32);
                let named = command_rows(self.arch, &policy).map(|marked| marked.row);
                named.chain(x32).chain([&table::UNKNOWN]).collect()
            }
            Filter::Init => init_rows(self.arch).chain([&init::REST]).collect(),
        };
        rows.push(&table::FOREIGN);
        let summary = |row: &Row| RuleSummary { call: row.call.name, action: row.action, reason: row.reason };
        rows.into_iter().map(summary).collect()
    }
}

/// The command's filter.
///
/// # Errors
/// [`SeccompError`] if the result could not be installed.
pub fn compile(arch: Arch, policy: &FilterPolicy) -> Result<Program, SeccompError> {
    command_filter(arch, policy, Filter::Command(*policy), |marked| marked.row.action.value())
}

/// The command's filter with an error of its own for each row instead of EPERM and the like, so that a test
/// that sends calls to the kernel ([`probes`]) sees which row answered. Works like [`compile`] otherwise.
///
/// # Errors
/// [`SeccompError`] if the result could not be installed.
pub fn compile_marked(arch: Arch, policy: &FilterPolicy) -> Result<Program, SeccompError> {
    command_filter(arch, policy, Filter::Marked(*policy), |marked| errno_value(marked.marker))
}

/// The filter of PID 1: a short allowlist, EPERM for the rest.
///
/// # Errors
/// [`SeccompError`] if the result could not be installed.
pub fn init_filter(arch: Arch) -> Result<Program, SeccompError> {
    let rules: Vec<Rule> = init_rows(arch).map(|row| Rule { row, value: row.action.value() }).collect();
    let branch = Branch { abi: arch.native(), base: vec![(0, init::REST.action.value())] };
    let code = assemble(&[branch], &rules, table::FOREIGN.action.value());
    Parts { arch, filter: Filter::Init, code }.try_into()
}

fn command_filter(
    arch: Arch,
    policy: &FilterPolicy,
    filter: Filter,
    value: impl Fn(Marked) -> u32,
) -> Result<Program, SeccompError> {
    let rules: Vec<Rule> =
        command_rows(arch, policy).map(|marked| Rule { row: marked.row, value: value(marked) }).collect();
    let branches: Vec<Branch> = abis(arch, policy)
        .map(|abi| {
            let mut base = Vec::new();
            for range in abi.known() {
                base.push((*range.start(), Action::Allow.value()));
                base.push((range.end() + 1, value(UNKNOWN)));
            }
            if abi == Abi::X86_64 {
                base.push((X32_BIT, value(X32)));
                base.push((X32_BIT << 1, value(UNKNOWN)));
            }
            base.push((NO_CALL, Action::Allow.value()));
            Branch { abi, base }
        })
        .collect();
    let code = assemble(&branches, &rules, table::FOREIGN.action.value());
    Parts { arch, filter, code }.try_into()
}

/// A row of the command's filter and its error in [`compile_marked`].
#[derive(Clone, Copy)]
struct Marked {
    marker: u16,
    row: &'static Row,
}

const X32: Marked = Marked { marker: MARKER_BASE, row: &table::X32 };
const UNKNOWN: Marked = Marked { marker: MARKER_BASE + 1, row: &table::UNKNOWN };

/// The rows for named calls that a command's filter has.
fn command_rows(arch: Arch, policy: &FilterPolicy) -> impl Iterator<Item = Marked> {
    (MARKER_BASE + 2..)
        .zip(table::ROWS)
        .map(|(marker, row)| Marked { marker, row })
        .filter(move |Marked { row, .. }| row.applies(policy))
        .filter(move |Marked { row, .. }| abis(arch, policy).any(|abi| row.call.number(abi).is_some()))
}

/// The rows of PID 1's filter.
fn init_rows(arch: Arch) -> impl Iterator<Item = &'static Row> {
    init::ROWS.iter().filter(move |row| row.call.number(arch.native()).is_some())
}

/// The ABIs that a command may use, the native one first.
fn abis(arch: Arch, policy: &FilterPolicy) -> impl Iterator<Item = Abi> + use<> {
    let i386 = (policy.allow_i386 && arch == Arch::X86_64).then_some(Abi::I386);
    [arch.native()].into_iter().chain(i386)
}
