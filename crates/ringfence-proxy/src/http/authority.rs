//! `host:port` as it stands in requests.

/// A text that is no `host[:port]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed host or port")]
pub(crate) struct Malformed;

/// Splits `host`, `host:port`, `[v6]` and `[v6]:port` (RFC 3986, section 3.2). User information, an empty port and
/// port 0 are refused.
pub(crate) fn split(text: &str) -> Result<(&str, Option<u16>), Malformed> {
    let (host, rest) = match text.find(']') {
        Some(end) if text.starts_with('[') => text.split_at(end + 1),
        Some(_) => return Err(Malformed),
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    if host.is_empty() || host.contains('@') {
        return Err(Malformed);
    }
    match rest.strip_prefix(':') {
        None if rest.is_empty() => Ok((host, None)),
        None => Err(Malformed),
        Some(digits) if digits.len() <= 5 && digits.bytes().all(|b| b.is_ascii_digit()) => {
            match digits.parse() {
                Ok(0) | Err(_) => Err(Malformed),
                Ok(port) => Ok((host, Some(port))),
            }
        }
        Some(_) => Err(Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_split() {
        assert_eq!(split("a.com"), Ok(("a.com", None)));
        assert_eq!(split("a.com:443"), Ok(("a.com", Some(443))));
        assert_eq!(split("[::1]:443"), Ok(("[::1]", Some(443))));
        assert_eq!(split("[::1]"), Ok(("[::1]", None)));
    }

    #[test]
    fn what_is_no_authority_is_refused() {
        for text in [
            "", ":443", "a:", "a:0", "a:00", "a:65536", "a:+1", "a:1 ", "a:1:2", "::1", "[::1", "::1]:1",
            "[::1]x", "u@a", "u:p@a:1", "a:443@b", "a:000443",
        ] {
            assert_eq!(split(text), Err(Malformed), "{text}");
        }
    }
}
