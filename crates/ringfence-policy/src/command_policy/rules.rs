//! The rules as data. `rules/*.toml` is turned into these tables when the crate is built.

use std::sync::{LazyLock, OnceLock};

use regex_automata::dfa::Automaton as _;
use regex_automata::dfa::dense::{Builder, Config, DFA};
use regex_automata::nfa::thompson;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input};

use super::verdict::Tier;

include!(concat!(env!("OUT_DIR"), "/tables.rs"));

/// A language that commands are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shell {
    /// POSIX shells and those that are like them.
    Posix,
    /// The Windows command processor.
    Cmd,
    /// Windows PowerShell and PowerShell 7.
    PowerShell,
}

impl Shell {
    /// What a script is most likely written in, by its first lines; a POSIX shell's language if nothing speaks for
    /// another one.
    pub fn guess(script: &[u8]) -> Self {
        let head = script[..script.len().min(4096)].to_ascii_lowercase();
        let has = |part: &[u8]| memchr::memmem::find(&head, part).is_some();
        let starts = |part: &[u8]| head.trim_ascii_start().starts_with(part);
        if starts(b"#!") {
            return if has(b"pwsh") { Self::PowerShell } else { Self::Posix };
        }
        if starts(b"@echo") || starts(b"rem ") || starts(b"::") || has(b"\nsetlocal") || has(b" /s /q ") {
            return Self::Cmd;
        }
        let cmdlets: [&[u8]; 12] = [
            b"get-",
            b"set-",
            b"remove-item",
            b"new-object",
            b"invoke-",
            b"write-host",
            b"$env:",
            b"param(",
            b"param (",
            b"start-process",
            b"$erroractionpreference",
            b"-recurse",
        ];
        if cmdlets.iter().any(|part| has(part)) && !has(b"apt-get") || head.starts_with(b"$") && has(b"=") {
            return Self::PowerShell;
        }
        Self::Posix
    }
}

/// A set of languages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dialects(u8);

impl Dialects {
    pub(super) const ALL: Self = Self(7);
    pub(super) const CMD: Self = Self(2);
    pub(super) const POWERSHELL: Self = Self(4);

    pub(super) fn holds(self, shell: Shell) -> bool {
        let bit = match shell {
            Shell::Posix => 1,
            Shell::Cmd => 2,
            Shell::PowerShell => 4,
        };
        self.0 & bit != 0
    }
}

/// A curated rule.
#[derive(Debug)]
pub struct Rule {
    /// Name in verdicts, in the audit and in the documentation.
    pub name: &'static str,
    /// What a match means.
    pub tier: Tier,
    /// Language of the examples.
    pub shell: Shell,
    pub(super) programs: &'static [&'static str],
    pub(super) dialects: Dialects,
    pub(super) all: &'static [Condition],
    pub(super) none: &'static [Condition],
    /// What such a command does.
    pub why: &'static str,
    /// What to do instead.
    pub instead: &'static str,
    /// Scripts that match.
    pub matches: Examples,
    /// Scripts that look alike and don't.
    pub near: Examples,
}

/// Scripts, each ended by a NUL but the last.
#[derive(Clone, Copy, Debug)]
pub struct Examples(pub(super) &'static str);

impl Examples {
    /// The scripts, in the order in which the rule lists them.
    pub fn iter(self) -> impl Iterator<Item = &'static str> {
        self.0.split('\0').filter(|script| !script.is_empty())
    }
}

/// What one condition looks at. Patterns are indices into [`PATTERNS`].
#[derive(Debug)]
pub(super) enum Condition {
    Text {
        kind: Kind,
        pattern: usize,
        /// A text that matches this too does not count.
        except: Option<usize>,
    },
    /// A PowerShell parameter, abbreviated to `least` letters or more.
    Param { name: &'static str, least: usize, value: Option<usize> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An argument that starts with a dash, before `--`.
    Option,
    /// Any argument.
    Argument,
    /// An operand as a canonical path.
    Path,
    /// Any argument as a canonical Windows path.
    WindowsPath,
    /// The first operand.
    First,
    /// The last operand as a canonical path.
    Last,
    /// All arguments, joined by spaces.
    Line,
}

/// A program that runs what its arguments say.
#[derive(Debug)]
pub(super) struct Wrapper {
    pub(super) subcommands: &'static [&'static str],
    pub(super) values: &'static [&'static str],
    /// Options that take two values.
    pub(super) pairs: &'static [&'static str],
    pub(super) code: &'static [&'static str],
    pub(super) query: &'static [&'static str],
    pub(super) mounts: &'static [&'static str],
    pub(super) dialects: Dialects,
    pub(super) operands: usize,
    pub(super) assignments: bool,
    /// Words after an option's code are part of it.
    pub(super) appends: bool,
    /// Options may follow operands.
    pub(super) permute: bool,
    /// Options may start with a slash.
    pub(super) slash: bool,
    pub(super) then: Then,
}

/// What follows a wrapper's own options and operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// An argument vector.
    Command,
    /// Words that a shell gets, joined by spaces.
    Code,
    /// One word for a shell.
    First,
    /// Arguments of a shell.
    Shell,
    Nothing,
}

/// A program that writes files which its arguments name.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) operands: Operands,
    pub(super) options: &'static [&'static str],
    pub(super) values: &'static [&'static str],
    /// Only with an option of this form.
    pub(super) needs: Option<usize>,
}

/// Where a program has a text that it runs.
#[derive(Debug)]
pub(super) struct Text {
    pub(super) options: &'static [&'static str],
    pub(super) values: &'static [&'static str],
    pub(super) operands: Operands,
    /// Whether standard input is one.
    pub(super) stdin: bool,
    /// What stands in a line before code for a shell.
    pub(super) after: Option<usize>,
    /// Bytes of which the first ends that code.
    pub(super) until: &'static [u8],
    /// What the text as a whole is.
    pub(super) language: Option<Language>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    Shell,
    /// A program in another language, whose calls of other programs count.
    Foreign,
    Sed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operands {
    All,
    First,
    Second,
    Last,
    None,
}

include!("hash.rs");

/// Programs and what belongs to each, as the build script writes them.
#[derive(Debug)]
pub(super) struct Table {
    /// By hash: the entry's number, counted from 1; 0 is free. As many as a power of two.
    slots: &'static [u16],
    /// All names, one after the other.
    names: &'static str,
    /// All that belongs to them, likewise.
    ids: &'static [u16],
    /// Where the name of each entry ends, and its rules, wrappers, writers and texts.
    ends: &'static [(u16, [u16; 4])],
}

/// What belongs to a program: indices into [`RULES`], [`WRAPPERS`], [`WRITERS`] and [`TEXTS`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Program {
    pub(super) rules: &'static [u16],
    pub(super) wrappers: &'static [u16],
    pub(super) writers: &'static [u16],
    pub(super) texts: &'static [u16],
}

impl Table {
    /// What belongs to a program; most are not in the table.
    pub(super) fn lookup(&self, name: &[u8]) -> Program {
        let mask = self.slots.len() - 1;
        let mut at = hash(name) as usize & mask;
        loop {
            let Some(entry) = usize::from(self.slots[at]).checked_sub(1) else { return Program::default() };
            let (name_end, ends) = self.ends[entry];
            let (name_start, before) = match entry.checked_sub(1) {
                Some(before) => (self.ends[before].0, self.ends[before].1[3]),
                None => (0, 0),
            };
            if &self.names.as_bytes()[usize::from(name_start)..usize::from(name_end)] == name {
                let ids = |start: u16, end: u16| &self.ids[usize::from(start)..usize::from(end)];
                return Program {
                    rules: ids(before, ends[0]),
                    wrappers: ids(ends[0], ends[1]),
                    writers: ids(ends[1], ends[2]),
                    texts: ids(ends[2], ends[3]),
                };
            }
            at = (at + 1) & mask;
        }
    }
}

type Dfa = DFA<Vec<u32>>;

/// A pattern, and what a glance at a text rules out.
struct Compiled {
    /// A table of states: no cache that a hostile text could exhaust, and one step for each byte.
    dfa: Dfa,
    /// Length of the shortest text that matches.
    least: usize,
    /// The bytes that a text which matches can begin with.
    first: [bool; 256],
}

static COMPILED: LazyLock<Box<[OnceLock<Option<Compiled>>]>> =
    LazyLock::new(|| PATTERNS.iter().map(|_| OnceLock::new()).collect());

fn compile(pattern: &str) -> Option<Compiled> {
    let bytes = syntax::Config::new().utf8(false);
    let least = syntax::parse_with(pattern, &bytes).ok()?.properties().minimum_len()?;
    let dfa = Builder::new()
        .syntax(bytes)
        .thompson(thompson::Config::new().utf8(false))
        .configure(Config::new().dfa_size_limit(Some(4 << 20)))
        .build(pattern)
        .ok()?;
    let start = dfa.start_state_forward(&Input::new(b"")).ok()?;
    let mut first = [false; 256];
    for byte in 0..=u8::MAX {
        first[usize::from(byte)] = !dfa.is_dead_state(dfa.next_state(start, byte));
    }
    Some(Compiled { dfa, least, first })
}

/// The pattern, compiled when it is first needed.
fn compiled(pattern: usize) -> Option<&'static Compiled> {
    COMPILED[pattern].get_or_init(|| compile(PATTERNS[pattern])).as_ref()
}

/// Whether a pattern matches. One that can't be compiled matches everything; a test shows that there is none.
pub(super) fn matches(pattern: usize, text: &[u8]) -> bool {
    let Some(Compiled { dfa, least, first }) = compiled(pattern) else { return true };
    if text.len() < *least || text.first().is_some_and(|&byte| !first[usize::from(byte)]) {
        return false;
    }
    let input = Input::new(text).anchored(Anchored::No).earliest(true);
    dfa.try_search_fwd(&input).map_or(true, |found| found.is_some())
}

/// Where the text goes on behind a pattern that it starts with.
pub(super) fn prefix(pattern: usize, text: &[u8]) -> Option<usize> {
    let input = Input::new(text).anchored(Anchored::Yes);
    compiled(pattern)?.dfa.try_search_fwd(&input).ok().flatten().map(|found| found.offset())
}

/// All curated rules, in the order of the documentation.
pub fn curated() -> &'static [Rule] {
    RULES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glance_rules_out_nothing_that_matches() {
        for (pattern, text, expected) in [
            ("(?-u)^(?:/|/etc)$", "/", true),
            ("(?-u)^(?:/|/etc)$", "x/", false),
            ("(?-u)b+c", "abbc", true),
            ("(?i-u)^A", "aB", true),
            ("(?-u)^(?:a?)$", "", true),
            ("(?-u)^", "x", true),
            ("(?-u)\\bx", " x", true),
        ] {
            let Compiled { dfa, least, first } = compile(pattern).unwrap();
            let found = dfa.try_search_fwd(&Input::new(text)).unwrap().is_some();
            let glance =
                text.len() >= least && text.bytes().next().is_none_or(|byte| first[usize::from(byte)]);
            assert_eq!((found, found && glance), (expected, expected), "{pattern} {text}");
        }
    }

    #[test]
    fn every_pattern_compiles() {
        for pattern in PATTERNS {
            assert!(compile(pattern).is_some(), "{pattern}");
        }
    }

    #[test]
    fn names_are_unique_and_examples_are_there() {
        let mut names: Vec<_> = RULES.iter().map(|rule| rule.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), RULES.len());
        for rule in
            RULES.iter().filter(|rule| rule.programs != ["@not-scanned"] && rule.programs != ["@too-deep"])
        {
            assert!(
                rule.matches.iter().next().is_some() && rule.near.iter().next().is_some(),
                "{}",
                rule.name
            );
        }
    }
}
