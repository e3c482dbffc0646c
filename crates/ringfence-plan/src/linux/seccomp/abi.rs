use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

/// Processor architecture of a box. Both are little-endian, which the offsets of the filters rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arch {
    /// AMD64.
    #[serde(rename = "x86_64")]
    X86_64,
    /// 64-bit ARM.
    Aarch64,
}

/// A system call convention as a filter sees it: the `arch` field of `struct seccomp_data` (seccomp(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Abi {
    /// 64-bit calls of x86. x32 shares its audit architecture and has bit 30 set in the call number.
    #[serde(rename = "x86_64")]
    X86_64,
    /// 64-bit calls of ARM.
    Aarch64,
    /// 32-bit calls of x86, which a 64-bit process can make as well (`int 0x80`).
    I386,
}

/// Set in the number of every x32 call (`__X32_SYSCALL_BIT` of `<asm/unistd.h>`).
pub(super) const X32_BIT: u32 = 0x4000_0000;

/// Not a call: with this number a tracer makes the kernel skip one (ptrace(2)).
pub(super) const NO_CALL: u32 = u32::MAX;

impl Arch {
    /// The convention of ordinary programs.
    pub fn native(self) -> Abi {
        match self {
            Self::X86_64 => Abi::X86_64,
            Self::Aarch64 => Abi::Aarch64,
        }
    }
}

impl Abi {
    /// `AUDIT_ARCH_*` of `<linux/audit.h>`.
    pub fn audit_arch(self) -> u32 {
        match self {
            Self::X86_64 => 0xc000_003e,
            Self::Aarch64 => 0xc000_00b7,
            Self::I386 => 0x4000_0003,
        }
    }

    /// Numbers of the calls that Linux 6.18 has, in ascending ranges. They are written out so that a newer
    /// list of numbers can't let new calls through that nobody has looked at.
    pub(super) fn known(self) -> &'static [RangeInclusive<u32>] {
        match self {
            Self::X86_64 => &[0..=336, 424..=469],
            Self::Aarch64 => &[0..=243, 260..=294, 424..=469],
            Self::I386 => &[0..=221, 224..=250, 252..=284, 286..=386, 393..=414, 416..=469],
        }
    }
}
