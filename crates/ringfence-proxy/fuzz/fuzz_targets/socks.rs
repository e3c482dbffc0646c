//! What a SOCKS client sends: a request has a host and a port.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ringfence_proxy::fuzzing;
use ringfence_types::Host;

fuzz_target!(|bytes: &[u8]| {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    if let Some((host, port)) = runtime.block_on(fuzzing::socks(bytes)) {
        assert!(port != 0 && host.parse::<Host>().is_ok());
    }
});
