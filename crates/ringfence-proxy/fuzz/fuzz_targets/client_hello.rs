//! The first message of a TLS client: what is known of a prefix stays true.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ringfence_proxy::fuzzing;

fuzz_target!(|bytes: &[u8]| {
    let whole = fuzzing::client_hello(bytes);
    let early = (0..bytes.len()).find_map(|end| fuzzing::client_hello(&bytes[..end]));
    assert!(early.is_none() || early == whole);
});
