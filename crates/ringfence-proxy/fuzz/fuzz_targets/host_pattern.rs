//! Two patterns and a host, one a line: what is shown means the same when it is read again, and what one pattern covers
//! it matches.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ringfence_types::{Host, HostPattern};

fuzz_target!(|text: &str| {
    let mut lines = text.lines();
    let mut pattern = || lines.next().and_then(|line| line.parse::<HostPattern>().ok());
    let (one, other) = (pattern(), pattern());
    for pattern in one.iter().chain(&other) {
        assert_eq!(pattern.to_string().parse().as_ref(), Ok(pattern));
    }
    let Some(Ok(host)) = lines.next().map(str::parse::<Host>) else { return };
    assert_eq!(host.to_string().parse().as_ref(), Ok(&host));
    assert!(HostPattern::exact(&host, 443).matches(&host, 443));
    if let (Some(one), Some(other)) = (one, other)
        && one.covers(&other)
    {
        for port in [1, 80, 443, 65535] {
            assert!(!other.matches(&host, port) || one.matches(&host, port));
        }
    }
});
