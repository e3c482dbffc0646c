//! Heads of HTTP requests: what is accepted has one host, one port and one end.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ringfence_proxy::fuzzing;
use ringfence_types::Host;

fuzz_target!(|bytes: &[u8]| {
    if let Some((_, host, port, length)) = fuzzing::head(bytes) {
        assert!(port != 0 && bytes[..length].ends_with(b"\r\n\r\n"));
        assert_eq!(host.parse::<Host>().map(|host| host.to_string()).as_ref(), Ok(&host));
    }
});
