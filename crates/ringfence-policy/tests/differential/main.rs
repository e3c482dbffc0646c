//! The reader of POSIX shells against others that read the same text: bash itself, which runs generated scripts whose
//! programs only note what they are given, and a grammar of bash.

mod bash;
mod generate;
mod grammar;

use ringfence_policy::command_policy::{CommandPolicy, CommandPolicyConfig, Input, Shell};

/// The commands that the policy finds in a script, normalised, one line each.
fn found(script: &[u8]) -> Vec<Vec<u8>> {
    let policy = CommandPolicy::new(&CommandPolicyConfig::default());
    let input = Input { stdin: Some(script), shell: Some(Shell::Posix), ..Input::default() };
    policy.explain(&input).lines.into_iter().map(|line| line.text).collect()
}

/// Whether bash is there. `RINGFENCE_MUST_HAVE` makes its absence a failure, as `needs!` of the test kit does; the kit
/// lies above this crate.
#[expect(clippy::print_stderr, reason = "a skip says why")]
fn has_bash() -> bool {
    let found = std::path::Path::new("/bin/bash").exists();
    let must = std::env::var("RINGFENCE_MUST_HAVE").unwrap_or_default();
    let required = must.split(',').any(|entry| entry == "all" || entry == "bash");
    assert!(found || !required, "RINGFENCE_MUST_HAVE names `bash`, but there is no /bin/bash");
    if !found {
        eprintln!("SKIP: needs bash: no /bin/bash");
    }
    found
}
