//! Look-ups: every answer belongs to its query and is small.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ringfence_proxy::{EgressPolicy, fuzzing};

fuzz_target!(|bytes: &[u8]| {
    let policy = EgressPolicy { allow: vec!["**.example:*".parse().expect("a pattern")], ..EgressPolicy::default() };
    if let Some(answer) = fuzzing::Dns::new(policy).answer(bytes) {
        assert!(answer[..2] == bytes[..2] && answer[2] & 0x80 != 0 && answer.len() <= 512);
    }
});
