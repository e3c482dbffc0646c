//! Host patterns: what is shown means the same when it is read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ringfence_types::{Host, HostPattern};

fuzz_target!(|text: &str| {
    if let Ok(pattern) = text.parse::<HostPattern>() {
        assert_eq!(pattern.to_string().parse(), Ok(pattern));
    }
    if let Ok(host) = text.parse::<Host>() {
        assert_eq!(host.to_string().parse(), Ok(host.clone()));
        assert!(HostPattern::exact(&host, 443).matches(&host, 443));
    }
});
