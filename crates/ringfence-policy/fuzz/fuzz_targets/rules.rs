//! Argument vectors, split at newlines: a verdict, and none of the padding after `--` changes a refusal of `rm`.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use ringfence_policy::command_policy::{CommandPolicy, CommandPolicyConfig, Disposition, Input};

static POLICY: LazyLock<CommandPolicy> = LazyLock::new(|| CommandPolicy::new(&CommandPolicyConfig::default()));

fuzz_target!(|text: &[u8]| {
    let words: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
    POLICY.evaluate(&Input { argv: words.clone(), ..Input::default() });
    let mut argv: Vec<&[u8]> = vec![b"rm", b"-rf", b"--", b"/"];
    argv.extend(words);
    let verdict = POLICY.evaluate(&Input { argv, ..Input::default() });
    assert_eq!(verdict.disposition, Disposition::Block);
});
