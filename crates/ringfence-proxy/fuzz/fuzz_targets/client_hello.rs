//! The first message of a TLS client: what is known of a prefix stays true.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ringfence_proxy::fuzzing;

fuzz_target!(|bytes: &[u8]| {
    let whole = fuzzing::client_hello(bytes);
    if let Some(known) = fuzzing::client_hello(&bytes[..bytes.len() / 2]) {
        assert_eq!(Some(known), whole);
    }
});
