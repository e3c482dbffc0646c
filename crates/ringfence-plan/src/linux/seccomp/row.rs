use std::fmt;

use serde::{Serialize, Serializer};

use super::abi::Abi;
use super::{FilterPolicy, SocketGate};

/// What a filter does with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The call goes on.
    Allow,
    /// The call fails with this error and has no effect.
    Fail(Errno),
    /// The process dies of SIGSYS.
    Kill,
}

/// The errors that the table uses; their numbers are the same on every architecture here (errno(3)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::upper_case_acronyms, reason = "the names of errno(3)")]
pub enum Errno {
    /// Not permitted.
    EPERM = 1,
    /// Not there, so that libraries use an older call.
    ENOSYS = 38,
    /// The address family is not there.
    EAFNOSUPPORT = 97,
}

impl Action {
    /// The value that the filter returns (`SECCOMP_RET_*` of `<linux/seccomp.h>`).
    pub(super) fn value(self) -> u32 {
        match self {
            Self::Allow => 0x7fff_0000,
            Self::Fail(errno) => errno_value(errno as u16),
            Self::Kill => 0x8000_0000,
        }
    }
}

/// `SECCOMP_RET_ERRNO` with this error.
pub(super) fn errno_value(errno: u16) -> u32 {
    0x0005_0000 | u32::from(errno)
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allow => f.write_str("allow"),
            Self::Fail(errno) => write!(f, "{errno:?}"),
            Self::Kill => f.write_str("kill"),
        }
    }
}

impl Serialize for Action {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A system call: its name and its number for each [`Abi`] that has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) name: &'static str,
    pub(super) x86_64: Option<u32>,
    pub(super) aarch64: Option<u32>,
    pub(super) x86: Option<u32>,
}

impl Call {
    pub(super) const fn named(name: &'static str) -> Self {
        Self { name, x86_64: None, aarch64: None, x86: None }
    }

    pub(super) fn number(&self, abi: Abi) -> Option<u32> {
        match abi {
            Abi::X86_64 => self.x86_64,
            Abi::Aarch64 => self.aarch64,
            Abi::I386 => self.x86,
        }
    }
}

/// A [`Call`] by name, on every architecture or on those that are listed.
macro_rules! call {
    ($name:ident) => {
        call!($name on x86_64, aarch64, x86)
    };
    ($name:ident on $($arch:ident),+) => {{
        let mut call = Call::named(stringify!($name));
        $(call.$arch = Some(syscalls::$arch::Sysno::$name as u32);)+
        call
    }};
}
pub(super) use call;

/// A test of one argument.
///
/// Only the low 32 bits are compared. The kernel takes every argument that the table tests as an `int`, an
/// `unsigned int` or less, or ignores or refuses what lies above: a test of all 64 bits could be dodged by
/// setting a high one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Check {
    /// Index of the argument, from 0.
    pub(super) arg: u8,
    /// Bits that count.
    pub(super) mask: u32,
    /// What they are compared with.
    pub(super) values: &'static [u32],
    /// Whether the check holds if they equal one of the values, or if they equal none.
    pub(super) member: bool,
}

impl Check {
    /// The argument is one of these values.
    pub(super) const fn is(arg: u8, values: &'static [u32]) -> Self {
        Self { arg, mask: u32::MAX, values, member: true }
    }

    /// The argument is none of these values.
    pub(super) const fn is_not(arg: u8, values: &'static [u32]) -> Self {
        Self { arg, mask: u32::MAX, values, member: false }
    }

    /// The argument's bits under the mask are one of these values.
    pub(super) const fn masked(arg: u8, mask: u32, values: &'static [u32]) -> Self {
        Self { arg, mask, values, member: true }
    }

    /// The argument has a bit of the mask.
    pub(super) const fn any_bit(arg: u8, mask: u32) -> Self {
        Self { arg, mask, values: &[0], member: false }
    }

    /// The argument has no bit of the mask.
    pub(super) const fn no_bit(arg: u8, mask: u32) -> Self {
        Self { arg, mask, values: &[0], member: true }
    }

    fn holds(&self, args: &[u64; 6]) -> bool {
        let low = args[usize::from(self.arg)] as u32;
        self.values.contains(&(low & self.mask)) == self.member
    }
}

/// When a row is part of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    /// Always.
    Always,
    /// Unless the box may make namespaces of its own.
    Namespaces,
    /// If the box may not start processes.
    NoSpawn,
    /// With one of these socket gates.
    Gates(&'static [SocketGate]),
}

/// What to do with a system call, and why. Of several rows for one call the first that matches decides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) call: Call,
    pub(super) action: Action,
    pub(super) reason: &'static str,
    pub(super) group: Group,
    /// All must hold.
    pub(super) checks: &'static [Check],
    /// Arguments that the row matches, the rest being 0, with which the call itself does no harm.
    pub(super) hits: &'static [&'static [u32]],
    /// Arguments that no row matches.
    pub(super) misses: &'static [&'static [u32]],
}

impl Row {
    pub(super) const fn new(action: Action, call: Call, reason: &'static str) -> Self {
        Self { call, action, reason, group: Group::Always, checks: &[], hits: &[], misses: &[] }
    }

    pub(super) const fn group(mut self, group: Group) -> Self {
        self.group = group;
        self
    }

    pub(super) const fn when(mut self, checks: &'static [Check]) -> Self {
        self.checks = checks;
        self
    }

    pub(super) const fn hits(mut self, examples: &'static [&'static [u32]]) -> Self {
        self.hits = examples;
        self
    }

    pub(super) const fn misses(mut self, examples: &'static [&'static [u32]]) -> Self {
        self.misses = examples;
        self
    }

    pub(super) fn applies(&self, policy: &FilterPolicy) -> bool {
        match self.group {
            Group::Always => true,
            Group::Namespaces => !policy.nested_userns,
            Group::NoSpawn => !policy.spawn,
            Group::Gates(gates) => gates.contains(&policy.gate),
        }
    }

    pub(super) fn matches(&self, args: &[u64; 6]) -> bool {
        self.checks.iter().all(|check| check.holds(args))
    }
}

/// The arguments of an example: those that are given, the rest 0.
pub(super) fn example_args(given: &[u32]) -> [u64; 6] {
    let mut args = [0; 6];
    args.iter_mut().zip(given).for_each(|(arg, given)| *arg = u64::from(*given));
    args
}
