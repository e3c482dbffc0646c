//! Values of options: sizes, shares, durations, environment entries.

use std::ffi::OsString;
use std::time::Duration;

/// Why a value was refused; shown after the option and the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ValueError {
    #[error("expected a size such as 512M or 2G")]
    Size,
    #[error("expected a share of one processor such as 50%")]
    Percent,
    #[error("expected a duration such as 60s, 5m or 1h30m")]
    Duration,
    #[error("0 is no limit that a program could run under; leave the option out for no limit")]
    Zero,
    #[error("too large")]
    TooLarge,
    #[error("expected a port from 1 to 65535")]
    Port,
    #[error("expected KEY=VALUE, or KEY to pass the variable through")]
    EnvName,
}

/// Bytes: digits and an optional binary suffix (`K M G T`, also spelled `KB` or `KiB`, in either case).
pub(crate) fn size(text: &str) -> Result<u64, ValueError> {
    let (number, suffix) = number_prefix(text).ok_or(ValueError::Size)?;
    let shift = match suffix.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(ValueError::Size),
    };
    let bytes = number?.checked_mul(1 << shift).ok_or(ValueError::TooLarge)?;
    if bytes == 0 { Err(ValueError::Zero) } else { Ok(bytes) }
}

/// A TCP port that something can be reached at.
pub(crate) fn port(text: &str) -> Result<u16, ValueError> {
    text.parse().ok().filter(|&port| port > 0).ok_or(ValueError::Port)
}

/// Percent of one processor: 50 is half of one, 200 is two.
pub(crate) fn percent(text: &str) -> Result<u32, ValueError> {
    let (number, suffix) = number_prefix(text).ok_or(ValueError::Percent)?;
    if !matches!(suffix, "" | "%") {
        return Err(ValueError::Percent);
    }
    match u32::try_from(number?) {
        Ok(0) => Err(ValueError::Zero),
        Ok(percent) => Ok(percent),
        Err(_) => Err(ValueError::TooLarge),
    }
}

/// A count of at least one.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(0) => Err(ValueError::Zero.to_string()),
        Ok(count) => Ok(count),
        Err(_) => Err(String::from("expected a number")),
    }
}

/// Hours, minutes, seconds and milliseconds from large to small (`1h30m`, `250ms`); a bare number is seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, ValueError> {
    const UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];
    let mut rest = text;
    let mut millis = 0u64;
    let mut largest_allowed = 0;
    while !rest.is_empty() {
        let (number, tail) = number_prefix(rest).ok_or(ValueError::Duration)?;
        let end = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let unit = if tail.is_empty() && rest.len() == text.len() { "s" } else { &tail[..end] };
        let at = UNITS.iter().position(|(name, _)| *name == unit).ok_or(ValueError::Duration)?;
        if at < largest_allowed {
            return Err(ValueError::Duration);
        }
        largest_allowed = at + 1;
        let part = number?.checked_mul(UNITS[at].1).ok_or(ValueError::TooLarge)?;
        millis = millis.checked_add(part).ok_or(ValueError::TooLarge)?;
        rest = &tail[end..];
    }
    match (text.is_empty(), millis) {
        (true, _) => Err(ValueError::Duration),
        (false, 0) => Err(ValueError::Zero),
        (false, _) => Ok(Duration::from_millis(millis)),
    }
}

/// `KEY=VALUE` or `KEY`: the name must not be empty; bytes that are not text survive.
pub(crate) fn env_entry(entry: OsString) -> Result<OsString, ValueError> {
    match entry.as_encoded_bytes().first() {
        None | Some(b'=') => Err(ValueError::EnvName),
        Some(_) => Ok(entry),
    }
}

/// Leading digits, parsed, and what follows them; `None` without digits.
fn number_prefix(text: &str) -> Option<(Result<u64, ValueError>, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (end > 0).then(|| (text[..end].parse().map_err(|_| ValueError::TooLarge), &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_binary() {
        assert_eq!(size("512M"), Ok(512 << 20));
        assert_eq!(size("1k"), Ok(1024));
        assert_eq!(size("2GiB"), Ok(2 << 30));
        assert_eq!(size("4096"), Ok(4096));
        assert_eq!(size("7b"), Ok(7));
        assert_eq!(size("1T"), Ok(1 << 40));
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "M", "1.5G", "-1", "+1", "1 M", "1MM", "0x10", "½"] {
            assert_eq!(size(text), Err(ValueError::Size), "{text}");
        }
        assert_eq!(size("0"), Err(ValueError::Zero));
        assert_eq!(size("99999999T"), Err(ValueError::TooLarge));
        assert_eq!(size("99999999999999999999"), Err(ValueError::TooLarge));
    }

    #[test]
    fn a_port_can_be_reached() {
        assert_eq!((port("1"), port("65535")), (Ok(1), Ok(65_535)));
        for text in ["0", "65536", "-1", "x", "", "8 0"] {
            assert_eq!(port(text), Err(ValueError::Port), "{text}");
        }
    }

    #[test]
    fn percent_may_exceed_one_processor() {
        assert_eq!(percent("50%"), Ok(50));
        assert_eq!(percent("250"), Ok(250));
        assert_eq!(percent("0%"), Err(ValueError::Zero));
        assert_eq!(percent("50%%"), Err(ValueError::Percent));
        assert_eq!(percent("%"), Err(ValueError::Percent));
        assert_eq!(percent("5000000000%"), Err(ValueError::TooLarge));
    }

    #[test]
    fn durations_go_from_large_to_small() {
        assert_eq!(duration("60s"), Ok(Duration::from_secs(60)));
        assert_eq!(duration("60"), Ok(Duration::from_secs(60)));
        assert_eq!(duration("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(duration("1m250ms"), Ok(Duration::from_millis(60_250)));
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in ["", "s", "1.5s", "1m1h", "1s1s", "1h30", "-1s", "1d", "1 s", "1s ", "ms"] {
            assert_eq!(duration(text), Err(ValueError::Duration), "{text}");
        }
        assert_eq!(duration("0s"), Err(ValueError::Zero));
        assert_eq!(duration("9999999999999999999h"), Err(ValueError::TooLarge));
    }

    #[test]
    fn env_entries_need_a_name() {
        for entry in ["A=b=c", "A=", "A"] {
            assert_eq!(env_entry(entry.into()), Ok(entry.into()));
        }
        for entry in ["", "=", "=b"] {
            assert_eq!(env_entry(entry.into()), Err(ValueError::EnvName));
        }
    }
}
