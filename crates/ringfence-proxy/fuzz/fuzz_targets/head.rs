//! Heads of HTTP requests: what is accepted has one host, one port and one end.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ringfence_proxy::fuzzing;
use ringfence_types::Host;

fuzz_target!(|bytes: &[u8]| {
    let Some((_, host, port, length)) = fuzzing::head(bytes) else { return };
    let head = &bytes[..length];
    assert!(port != 0 && head.ends_with(b"\r\n\r\n"));
    assert!(!String::from_utf8_lossy(head).replace("\r\n", "").contains(['\r', '\n', '\0']));
    assert_eq!(host.parse::<Host>().map(|host| host.to_string()).as_ref(), Ok(&host));
    // What follows belongs to somebody else and changes nothing.
    let followed = [head, b"GET http://b.test/ HTTP/1.1\r\nHost: b.test\r\n\r\n"].concat();
    assert_eq!(fuzzing::head(&followed).map(|(_, host, port, _)| (host, port)), Some((host, port)));
});
