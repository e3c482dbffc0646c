//! An interpreter for the part of classic BPF that filters consist of, as strict as the kernel's checker.

use super::super::{Abi, Instruction};

/// What `struct seccomp_data` holds for a call; the instruction pointer is left at 0.
pub(super) fn seccomp_data(audit_arch: u32, number: u32, args: &[u64; 6]) -> [u8; 64] {
    let mut data = [0; 64];
    data[0..4].copy_from_slice(&number.to_le_bytes());
    data[4..8].copy_from_slice(&audit_arch.to_le_bytes());
    for (bytes, arg) in data[16..].chunks_exact_mut(8).zip(args) {
        bytes.copy_from_slice(&arg.to_le_bytes());
    }
    data
}

/// Runs a filter on a call: its value and the number of instructions that it took.
pub(super) fn run(code: &[Instruction], abi: Abi, number: u32, args: &[u64; 6]) -> (u32, usize) {
    run_on(code, &seccomp_data(abi.audit_arch(), number, args))
}

pub(super) fn run_on(code: &[Instruction], data: &[u8; 64]) -> (u32, usize) {
    let mut accumulator = 0_u32;
    let mut at = 0;
    for steps in 1.. {
        let Instruction { code: operation, jt, jf, k } = code[at];
        at += 1;
        let skip = |holds: bool| usize::from(if holds { jt } else { jf });
        match operation {
            0x20 => {
                assert!(k.is_multiple_of(4) && k < 64, "load at {k}");
                let at = k as usize;
                accumulator = u32::from_le_bytes(data[at..at + 4].try_into().unwrap());
            }
            0x54 => accumulator &= k,
            0x05 => at += k as usize,
            0x15 => at += skip(accumulator == k),
            0x35 => at += skip(accumulator >= k),
            0x06 => return (k, steps),
            _ => panic!("operation {operation:#x}"),
        }
    }
    unreachable!("a filter has no loops")
}
