use super::source::{Source, line_of, words};
use super::{Tree, Violation, is_test_file};

/// Who may start a process, each for a reason of its own.
const ALLOWED: [&str; 7] = [
    // The driver starts the sandboxed process.
    "crates/ringfence-linux/src/",
    // `doctor` tries Ringfence itself, in a process that it can end after half a second.
    "crates/ringfence-cli/src/commands/doctor/probe.rs",
    // Asks the linker for its files when the binary is built.
    "crates/ringfence-cli/build.rs",
    // Compares the library with a plain start.
    "crates/ringfence/examples/bench_host.rs",
    // Plays an unvetted program.
    "crates/ringfence-probe/src/",
    // Helpers of tests.
    "crates/ringfence-testkit/src/",
    "xtask/src/",
];

/// Calls that start a process.
const STARTS: [&str; 12] = [
    "fork(",
    "vfork(",
    "clone3(",
    "execv(",
    "execve(",
    "execvp(",
    "execvpe(",
    "execveat(",
    "fexecve(",
    "posix_spawn(",
    "posix_spawnp(",
    "system(",
];

pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, text) in tree.find("", ".rs") {
        if ALLOWED.iter().any(|place| path.starts_with(place)) || is_test_file(path) {
            continue;
        }
        let code = Source::parse(text).code_without_tests();
        let commands = ["std::process::", "tokio::process::"].into_iter().flat_map(|module| {
            code.match_indices(module)
                .map(|(at, _)| at)
                .filter(|&at| names_command(&code[at..]))
                .collect::<Vec<_>>()
        });
        for at in STARTS.iter().flat_map(|start| words(&code, start)).chain(commands) {
            found.push(Violation::new(path, line_of(text, at), "starts a process outside a driver"));
        }
    }
    found
}

/// Whether a path that starts with a `process` module leads to its `Command`, by name or through a use group.
fn names_command(code: &str) -> bool {
    let end = code.find(';').unwrap_or(code.len());
    let after_module = code[..end].split_once("process::").map_or("", |(_, rest)| rest);
    if let Some(group) = after_module.strip_prefix('{') {
        let group = group.split('}').next().unwrap_or_default();
        return words(group, "Command").next().is_some();
    }
    after_module.starts_with('*') || words(after_module, "Command").next() == Some(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)])).into_iter().map(|found| found.line).collect()
    }

    #[test]
    fn each_way_to_a_process_is_found() {
        let cli = "crates/ringfence-cli/src/run.rs";
        assert_eq!(lines(cli, "use std::process::Command;"), [1]);
        assert_eq!(lines(cli, "use std::process::{ExitCode,\n    Command};"), [1]);
        assert_eq!(lines(cli, "let a = 1;\nstd::process::Command::new(a);"), [2]);
        assert_eq!(lines(cli, "x();\nexecve(a, b, c);"), [2]);
        assert_eq!(lines(cli, "use std::process::ExitCode; use clap::Command; Command::new(a);"), [0; 0]);
        assert_eq!(lines(cli, "#[cfg(test)]\nmod tests { use std::process::Command; }"), [0; 0]);
    }

    #[test]
    fn drivers_and_tests_may() {
        assert_eq!(lines("crates/ringfence-linux/src/launcher/exec.rs", "execve(a);"), [0; 0]);
        assert_eq!(lines("crates/ringfence-cli/tests/run.rs", "use std::process::Command;"), [0; 0]);
    }
}
