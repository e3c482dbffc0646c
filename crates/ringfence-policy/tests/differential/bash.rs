//! bash runs a generated script; every program in it is a function that notes its arguments.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};
use regex::bytes::Regex;

use crate::{found, generate};

/// Names that the policy knows nothing about.
pub(crate) const PROGRAMS: [&str; 4] = ["alpha", "beta", "gamma", "delta"];

/// Ends the words of one command in the log.
const END: &[u8] = b"\x04";

/// Functions that write their words, each followed by NUL. All that a script starts keeps
/// descriptor 8, so that its other end is closed when the last of it has ended: `wait` waits for
/// children alone.
fn prelude() -> String {
    let note = |name: &&str| {
        format!("{name}() {{ printf '%s\\0' {name} \"$@\" $'\\x04' >&9; }}; export -f {name}; ")
    };
    format!("exec 8>&1 9>>log; {}", PROGRAMS.iter().map(note).collect::<String>())
}

/// A directory with nothing in it but the two shells that a script may call.
struct Bench {
    dir: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let tools = dir.path().join("tools");
        fs::create_dir(&tools).expect("tools");
        for name in ["bash", "sh"] {
            symlink("/bin/bash", tools.join(name)).expect("a link");
        }
        Self { dir }
    }

    /// The commands that ran, as the policy would write them; `None` if bash finds a mistake in the script.
    fn run(&self, script: &str) -> Option<BTreeSet<Vec<u8>>> {
        let work = self.dir.path().join("work");
        let _ = fs::remove_dir_all(&work);
        fs::create_dir(&work).expect("work");
        let bash = |args: &[&str]| {
            Command::new("/bin/bash")
                .args(args)
                .env_clear()
                .env("PATH", self.dir.path().join("tools"))
                .current_dir(&work)
                .stdin(Stdio::null())
                .stderr(Stdio::null())
                .output()
                .expect("bash")
        };
        if !bash(&["-n", "-c", script]).status.success() {
            return None;
        }
        bash(&["-f", "-c", &format!("{}\n{script}", prelude())]);
        let log = fs::read(work.join("log")).unwrap_or_default();
        let mut commands = BTreeSet::new();
        let mut words: Vec<&[u8]> = Vec::new();
        for word in log.split(|&byte| byte == 0) {
            if word == END {
                commands.insert(line(&words));
                words.clear();
            } else if !word.is_empty() {
                words.push(word);
            }
        }
        Some(commands)
    }
}

/// As the policy writes a command.
fn line(words: &[&[u8]]) -> Vec<u8> {
    let mut out = words[0].to_vec();
    for word in &words[1..] {
        out.push(b' ');
        let quoted = word.iter().any(|byte| byte.is_ascii_whitespace() || matches!(byte, b'\'' | b'"'));
        if quoted {
            out.push(b'\'');
        }
        out.extend(word.iter().map(|&byte| if byte == b'\n' { b' ' } else { byte }));
        if quoted {
            out.push(b'\'');
        }
    }
    out
}

/// What is not known in a command of the policy stands for anything; empty words don't count.
fn agree(ours: &[u8], theirs: &[u8]) -> bool {
    let plain = |text: &[u8]| String::from_utf8_lossy(text).replace(" ''", "");
    let (ours, theirs) = (plain(ours), plain(theirs));
    if !ours.contains(['\u{1}', '\u{2}']) {
        return ours == theirs;
    }
    let unquoted = |text: &str| text.replace(['\'', '"'], "");
    let pattern = regex::escape(&unquoted(&ours)).replace(" \u{1}", " ?\u{1}");
    let pattern = format!("^{}$", pattern.replace('\u{1}', ".*").replace('\u{2}', ".+"));
    Regex::new(&pattern).expect("a pattern").is_match(unquoted(&theirs).as_bytes())
}

fn is_program(line: &[u8]) -> bool {
    let name = line.split(|&byte| byte == b' ').next().unwrap_or_default();
    PROGRAMS.iter().any(|known| known.as_bytes() == name)
}

/// Each command that ran was found, and none was found that did not run.
fn compare(bench: &Bench, script: &str, all_run: bool) -> Result<usize, TestCaseError> {
    let Some(ran) = bench.run(script) else {
        // Here-documents in each other may have the same delimiter.
        return Err(TestCaseError::reject("no script of bash"));
    };
    let found: Vec<_> = found(script.as_bytes()).into_iter().filter(|line| is_program(line)).collect();
    let text = |lines: &[Vec<u8>]| {
        lines.iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect::<Vec<_>>()
    };
    for theirs in &ran {
        prop_assert!(
            found.iter().any(|ours| agree(ours, theirs)),
            "missed {:?} in {script:?}\nfound {:?}",
            String::from_utf8_lossy(theirs),
            text(&found)
        );
    }
    for ours in found.iter().filter(|_| all_run) {
        prop_assert!(
            ran.iter().any(|theirs| agree(ours, theirs)),
            "nothing runs {:?} of {script:?}\nran {:?}",
            String::from_utf8_lossy(ours),
            text(&ran.iter().cloned().collect::<Vec<_>>())
        );
    }
    Ok(ran.len())
}

fn generated(scripts: impl Strategy<Value = String>, all_run: bool, cases: u32) {
    if !crate::has_bash() {
        return;
    }
    let bench = Bench::new();
    let config = ProptestConfig {
        cases,
        max_shrink_iters: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let ran = std::cell::Cell::new(0);
    let result = TestRunner::new(config).run(&scripts, |script| {
        ran.set(ran.get() + compare(&bench, &script, all_run)?);
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    assert!(ran.get() * 4 > cases as usize * 3, "only {} commands ran", ran.get());
}

#[test]
fn the_words_of_a_command_are_those_that_bash_sees() {
    generated(generate::command(), true, 300);
}

#[test]
fn the_commands_of_a_script_are_those_that_bash_runs() {
    generated(generate::script(), true, 200);
}

#[test]
fn functions_and_loops_hide_no_command() {
    generated(generate::indirect(), false, 100);
}
