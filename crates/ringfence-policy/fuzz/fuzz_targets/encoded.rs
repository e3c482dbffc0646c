//! The value of `-EncodedCommand`, as it is and nested.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use ringfence_policy::command_policy::{CommandPolicy, CommandPolicyConfig, Disposition, Input};

static POLICY: LazyLock<CommandPolicy> = LazyLock::new(|| CommandPolicy::new(&CommandPolicyConfig::default()));

fuzz_target!(|text: &[u8]| {
    let argv: Vec<&[u8]> = vec![b"powershell", b"-enc", text];
    assert_ne!(POLICY.evaluate(&Input { argv, ..Input::default() }).disposition, Disposition::Allow);
});
