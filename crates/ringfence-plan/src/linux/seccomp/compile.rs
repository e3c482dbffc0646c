//! Rows to classic BPF (`Documentation/networking/filter.rst` of Linux).
//!
//! Code is emitted from its end to its beginning: every jump of classic BPF leads forward, so all targets of
//! an instruction are known when it is made, and one that lies too far gets a stepping stone.

use super::Instruction;
use super::abi::Abi;
use super::row::{Check, Row};

const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
const AND: u16 = 0x54; // BPF_ALU | BPF_AND | BPF_K
const JUMP: u16 = 0x05; // BPF_JMP | BPF_JA
const JUMP_EQ: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
const JUMP_GE: u16 = 0x35; // BPF_JMP | BPF_JGE | BPF_K
const RETURN: u16 = 0x06; // BPF_RET | BPF_K

// Offsets in struct seccomp_data (seccomp(2)). An argument has 8 bytes, the low half first.
const NUMBER: u32 = 0;
const AUDIT_ARCH: u32 = 4;
const ARGS: u32 = 16;

/// Instructions of the longest filter of the default policies, about.
const USUAL: usize = 512;

/// A row and the value that the filter returns where it matches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    pub(super) row: &'static Row,
    pub(super) value: u32,
}

/// The part of a filter for one ABI.
#[derive(Debug)]
pub(super) struct Branch {
    pub(super) abi: Abi,
    /// What happens to calls from this number on where no rule matches: number and value, ascending, from 0.
    pub(super) base: Vec<(u32, u32)>,
}

/// Code of a filter: `branches` with `rules`, the most frequent branch first, and `foreign` for every other
/// architecture.
pub(super) fn assemble(branches: &[Branch], rules: &[Rule], foreign: u32) -> Vec<Instruction> {
    let mut code = Assembler { reversed: Vec::with_capacity(USUAL), returns: Vec::new() };
    let mut next = code.value(foreign);
    for branch in branches.iter().rev() {
        let rules = by_number(branch, rules);
        let tree = code.tree(&segments(branch, &rules));
        code.fall_into(tree);
        let load = code.push(LOAD, 0, 0, NUMBER);
        next = code.branch(JUMP_EQ, branch.abi.audit_arch(), load, next);
    }
    code.fall_into(next);
    code.push(LOAD, 0, 0, AUDIT_ARCH);
    code.reversed.reverse();
    code.reversed
}

/// Calls from `start` up to the next segment, which all meet the same rules.
#[derive(Debug)]
struct Segment<'a> {
    start: u32,
    /// With the number of the call, which is the segment's only one if there are any.
    rules: &'a [(u32, Rule)],
    otherwise: u32,
}

impl Segment<'_> {
    /// The value that every call of the segment gets, if it is one.
    fn constant(&self) -> Option<u32> {
        self.rules.is_empty().then_some(self.otherwise)
    }
}

/// The branch's rules in the order of their calls, those of one call in their own order.
fn by_number(branch: &Branch, rules: &[Rule]) -> Vec<(u32, Rule)> {
    let number = |rule: &Rule| Some((rule.row.call.number(branch.abi)?, *rule));
    let mut numbered: Vec<_> = rules.iter().filter_map(number).collect();
    numbered.sort_by_key(|(number, _)| *number);
    numbered
}

fn segments<'a>(branch: &Branch, mut rules: &'a [(u32, Rule)]) -> Vec<Segment<'a>> {
    let base = |number: u32| {
        let after = branch.base.partition_point(|(start, _)| *start <= number);
        branch.base[after - 1].1
    };
    let mut starts: Vec<u32> = branch.base.iter().map(|(start, _)| *start).collect();
    starts.extend(rules.iter().flat_map(|(number, _)| [*number, number + 1]));
    starts.sort_unstable();
    starts.dedup();
    let mut merged: Vec<Segment<'_>> = Vec::with_capacity(starts.len());
    for start in starts {
        let (own, rest) = rules.split_at(rules.partition_point(|(number, _)| *number <= start));
        rules = rest;
        let segment = match own {
            // What follows a rule that always matches is out of reach.
            [(_, first), ..] if first.row.checks.is_empty() => {
                Segment { start, rules: &[], otherwise: first.value }
            }
            own => Segment { start, rules: own, otherwise: base(start) },
        };
        let same = |last: &Segment<'_>| last.constant().is_some() && last.constant() == segment.constant();
        if !merged.last().is_some_and(same) {
            merged.push(segment);
        }
    }
    merged
}

/// Index of an instruction, counted from the end of the code.
type Label = usize;

struct Assembler {
    /// The code so far, last instruction first.
    reversed: Vec<Instruction>,
    /// The nearest return of each value; there are few.
    returns: Vec<(u32, Label)>,
}

impl Assembler {
    fn push(&mut self, code: u16, jt: u8, jf: u8, k: u32) -> Label {
        self.reversed.push(Instruction { code, jt, jf, k });
        self.reversed.len() - 1
    }

    /// Returns `value`.
    fn value(&mut self, value: u32) -> Label {
        match self.returns.iter().find(|(known, _)| *known == value) {
            Some((_, label)) => *label,
            None => self.new_return(value),
        }
    }

    fn new_return(&mut self, value: u32) -> Label {
        let label = self.push(RETURN, 0, 0, value);
        match self.returns.iter_mut().find(|(known, _)| *known == value) {
            Some((_, nearest)) => *nearest = label,
            None => self.returns.push((value, label)),
        }
        label
    }

    /// Makes what is emitted next continue at `target`.
    fn fall_into(&mut self, target: Label) {
        if target + 1 != self.reversed.len() {
            self.stepping_stone(target);
        }
    }

    /// A near equivalent of a target: a return is repeated, anything else is jumped to.
    fn stepping_stone(&mut self, target: Label) -> Label {
        let Instruction { code, k, .. } = self.reversed[target];
        if code == RETURN {
            self.new_return(k)
        } else {
            let distance = self.reversed.len() - target - 1;
            self.push(JUMP, 0, 0, distance as u32)
        }
    }

    /// Goes to `yes` if the comparison holds, else to `no`.
    fn branch(&mut self, code: u16, k: u32, mut yes: Label, mut no: Label) -> Label {
        loop {
            let here = self.reversed.len();
            match (u8::try_from(here - yes - 1), u8::try_from(here - no - 1)) {
                (Ok(jt), Ok(jf)) => return self.push(code, jt, jf, k),
                (Err(_), _) => yes = self.stepping_stone(yes),
                (_, Err(_)) => no = self.stepping_stone(no),
            }
        }
    }

    /// Finds the segment of the loaded number.
    fn tree(&mut self, segments: &[Segment<'_>]) -> Label {
        match segments {
            [only] => self.rules(only),
            [before, single, after]
                if single.start + 1 == after.start
                    && before.constant().is_some()
                    && before.constant() == after.constant() =>
            {
                let no = self.rules(after);
                let yes = self.rules(single);
                self.branch(JUMP_EQ, single.start, yes, no)
            }
            _ => {
                let (lower, upper) = segments.split_at(segments.len() / 2);
                let yes = self.tree(upper);
                let no = self.tree(lower);
                self.branch(JUMP_GE, upper[0].start, yes, no)
            }
        }
    }

    /// The rules of one segment, in order.
    fn rules(&mut self, segment: &Segment<'_>) -> Label {
        let mut next = self.value(segment.otherwise);
        for (_, rule) in segment.rules.iter().rev() {
            let mut hit = self.value(rule.value);
            for check in rule.row.checks.iter().rev() {
                hit = self.check(check, hit, next);
            }
            next = hit;
        }
        next
    }

    fn check(&mut self, check: &Check, holds: Label, fails: Label) -> Label {
        let (equal, mut next) = if check.member { (holds, fails) } else { (fails, holds) };
        for value in check.values.iter().rev() {
            next = self.branch(JUMP_EQ, *value, equal, next);
        }
        self.fall_into(next);
        if check.mask != u32::MAX {
            self.push(AND, 0, 0, check.mask);
        }
        self.push(LOAD, 0, 0, ARGS + 8 * u32::from(check.arg))
    }
}
