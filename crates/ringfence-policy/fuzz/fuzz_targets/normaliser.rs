//! Any text in each language has a verdict, and the same one again.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use ringfence_policy::command_policy::{CommandPolicy, CommandPolicyConfig, Input, Shell};

static POLICY: LazyLock<CommandPolicy> = LazyLock::new(|| CommandPolicy::new(&CommandPolicyConfig::default()));

fuzz_target!(|text: &[u8]| {
    for shell in [Shell::Posix, Shell::Cmd, Shell::PowerShell] {
        let input = Input { stdin: Some(text), shell: Some(shell), ..Input::default() };
        assert_eq!(POLICY.explain(&input).verdict, POLICY.evaluate(&input));
    }
});
