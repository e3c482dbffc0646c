//! The command policy: a hard filter on what a command says, in front of the box that enforces.
//!
//! A command's text is read by one scanner for each language ([`Shell`]): quotes, comments and here-documents from
//! the raw text, commands as they end, wrappers taken off, nested and encoded texts read in turn. Small rules that are
//! data then look at one normalised command each. See `docs/guide/command-policy.md`.

mod config;
mod definitions;
mod fold;
mod hook;
mod input;
mod path;
mod posix_names;
mod rules;
mod run;
mod scan;
mod state;
mod verdict;
mod word;

use std::borrow::Cow;
use std::rc::Rc;

pub use config::{CommandPolicyConfig, CustomAction, CustomRule, Enforcement};
pub use hook::{COMMAND_POLICY_TARGET, CommandPolicyHook};
pub use input::{Input, executes_stdin};
pub use rules::{Examples, Rule, Shell, curated};
pub use state::ViewLine;
pub use verdict::{Disposition, Match, Tier, Verdict, View};

use config::Compiled;
use run::Around;
use state::{Code, Job, Place, Scan, Upstream};
use word::{LITERAL_TILDE, Word};

/// Most bytes of one text that are read. Of a longer one the head, the tail and slabs of the middle are.
pub const SCAN_LIMIT: usize = 512 * 1024;

/// The rules in force.
#[derive(Debug)]
pub struct CommandPolicy {
    config: Compiled,
}

/// A verdict, and how it came about.
#[derive(Clone, Debug)]
pub struct Explained {
    /// The verdict.
    pub verdict: Verdict,
    /// Every command that was found, normalised.
    pub lines: Vec<ViewLine>,
}

impl CommandPolicy {
    /// The curated rules and those of the configuration. A custom rule that can't be used is left out, and named with
    /// the reason in [`CommandPolicy::problems`].
    pub fn new(config: &CommandPolicyConfig) -> Self {
        Self { config: Compiled::new(config) }
    }

    /// Custom rules that are not in force: name and reason.
    pub fn problems(&self) -> &[(String, String)] {
        &self.config.problems
    }

    /// What the rules say of a command.
    pub fn evaluate(&self, input: &Input<'_>) -> Verdict {
        self.scan(input, false).0
    }

    /// The same with every view of the command.
    pub fn explain(&self, input: &Input<'_>) -> Explained {
        let (verdict, lines) = self.scan(input, true);
        Explained { verdict, lines }
    }

    fn scan(&self, input: &Input<'_>, lines: bool) -> (Verdict, Vec<ViewLine>) {
        let mut scan = Scan::new(lines || self.config.wants_lines());
        let mut cut = false;
        let stdin = input.stdin.map(|text| bounded(text, &mut cut));
        self.arguments(&mut scan, input, stdin.as_deref(), &mut cut);
        self.environment(&mut scan, input, &mut cut);
        while let Some(job) = scan.queue.pop_front() {
            read(&mut scan, &job);
        }
        let place = Place { shell: input.shell(), view: View::Argv, depth: 0 };
        if scan.forgot {
            scan.not_scanned(place);
        }
        if cut && input.is_executed() {
            scan.event("@not-scanned", &[], place);
        }
        let mut verdict = self.config.verdict(&scan.found);
        self.config.custom(&mut verdict, input, &scan.lines.lines);
        verdict.truncated = cut || scan.truncated();
        (verdict, scan.lines.lines)
    }

    fn arguments(&self, scan: &mut Scan, input: &Input<'_>, stdin: Option<&[u8]>, cut: &mut bool) {
        let place = Place { shell: input.shell(), view: View::Argv, depth: 0 };
        let upstream =
            Upstream { output: stdin.map(<[u8]>::to_vec), unseen: input.unseen, ..Upstream::default() };
        let upstream = Rc::new(upstream);
        if input.argv.is_empty() {
            // A script and nothing else.
            if let Some(text) = stdin {
                let place = Place { view: View::Stdin, ..place };
                scan.enqueue_stdin(text.to_vec(), Code::Script(input.shell()), place);
            }
            return;
        }
        let mut words: Vec<Word<'_>> = Vec::with_capacity(input.argv.len());
        let mut left = SCAN_LIMIT;
        for (at, text) in input.argv.iter().enumerate() {
            let text: Cow<'_, [u8]> =
                if text.len() <= left { Cow::Borrowed(text) } else { bounded_to(text, left.max(4096), cut) };
            left = left.saturating_sub(text.len() + 1);
            let folded = match text {
                Cow::Borrowed(text) => fold::invisible(text),
                Cow::Owned(text) => Cow::Owned(fold::invisible(&text).into_owned()),
            };
            // No shell reads these words: a tilde is a name.
            words.push(Word { text: folded, flags: LITERAL_TILDE });
            // Of very many arguments the first and the last are read.
            if left == 0 && input.argv.len() - at > 4096 {
                *cut = true;
                let rest = &input.argv[input.argv.len() - 1024..];
                words.extend(
                    rest.iter()
                        .filter(|text| text.len() <= 4096)
                        .map(|text| Word { text: fold::invisible(text), flags: LITERAL_TILDE }),
                );
                break;
            }
        }
        let around =
            Around { place, stdin: &upstream, positional: &Rc::default(), process: &[], wanted: false };
        run::run(scan, &words, &around);
    }

    /// Variables that a shell executes, and those in which it runs substitutions.
    fn environment(&self, scan: &mut Scan, input: &Input<'_>, cut: &mut bool) {
        for (name, value) in &input.env {
            let Some(kind) = posix_names::executed_variable(name) else { continue };
            let text = bounded(value, cut);
            let text: &[u8] = match (*name, text.first()) {
                // An exported function, `() { ...; }`: its body is what counts.
                (name, _) if name.starts_with(b"BASH_FUNC_") => text.strip_prefix(b"()").unwrap_or(&text),
                (b"LESSOPEN" | b"LESSCLOSE", Some(b'|')) => {
                    text[1..].strip_prefix(b"|").unwrap_or(&text[1..])
                }
                _ => &text,
            };
            let place = Place { shell: Shell::Posix, view: View::Env, depth: 0 };
            scan.enqueue_env(text.to_vec(), kind, place);
        }
    }
}

fn read(scan: &mut Scan, job: &Job) {
    scan.variables = Rc::clone(&job.variables);
    scan.cwd.clone_from(&job.cwd);
    scan.parameters = None;
    scan.definitions.forget();
    let text = fold::invisible(&job.text);
    match job.kind {
        Code::Script(Shell::Posix) | Code::Expanded => scan::posix::read(scan, job, &text),
        Code::Script(Shell::Cmd) => scan::cmd::read(scan, job, &text),
        Code::Script(Shell::PowerShell) => scan::powershell::read(scan, job, &text),
        Code::Foreign => scan::foreign::read(scan, job, &text),
    }
}

fn bounded<'t>(text: &'t [u8], cut: &mut bool) -> Cow<'t, [u8]> {
    bounded_to(text, SCAN_LIMIT, cut)
}

/// The whole text, or head, tail and evenly spaced slabs of the middle, each on lines of its own.
fn bounded_to<'t>(text: &'t [u8], limit: usize, cut: &mut bool) -> Cow<'t, [u8]> {
    const SLABS: usize = 14;
    if text.len() <= limit {
        return Cow::Borrowed(text);
    }
    *cut = true;
    // A little more than fits, so that a text just above the limit is read without gaps.
    let slab = limit / (SLABS + 2) + 256;
    let mut out = Vec::with_capacity(limit + 2 * SLABS);
    for at in 0..SLABS + 2 {
        let start = (text.len() - slab) / (SLABS + 1) * at;
        let start = if at == SLABS + 1 { text.len() - slab } else { start };
        out.extend_from_slice(&text[start..start + slab]);
        out.push(b'\n');
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests;
