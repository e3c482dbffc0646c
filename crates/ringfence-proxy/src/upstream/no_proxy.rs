use ringfence_types::{Host, HostPattern};

/// `NO_PROXY`: what does not go through a proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NoProxy {
    all: bool,
    entries: Vec<(HostPattern, Option<u16>)>,
}

impl NoProxy {
    /// Entries between commas or spaces: `*`, a name with all that lies below it (with or without a leading dot), an
    /// address, a network; a name or address may have a port. What is none of these means nothing, as in curl(1).
    pub(super) fn parse(value: &str) -> Self {
        let mut parsed = Self::default();
        for entry in value.split([',', ' ', '\t']).filter(|entry| !entry.is_empty()) {
            if entry == "*" {
                parsed.all = true;
                continue;
            }
            let (bare, port) = match entry.rsplit_once(':') {
                Some((host, port)) if !host.contains(':') || host.ends_with(']') => match port.parse() {
                    Ok(port) => (host, Some(port)),
                    Err(_) => continue,
                },
                _ => (entry, None),
            };
            let bare = bare.trim_start_matches("*.").trim_start_matches('.');
            let address = bare.parse::<HostPattern>().ok().filter(|pattern| pattern.network().is_some());
            if let Some(pattern) = address.or_else(|| format!("**.{bare}").parse().ok()) {
                parsed.entries.push((pattern, port));
            }
        }
        parsed
    }

    pub(super) fn matches(&self, host: &Host, port: u16) -> bool {
        self.all
            || self
                .entries
                .iter()
                .any(|(pattern, own)| own.is_none_or(|own| own == port) && pattern.matches_host(host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_like_curl_reads_them() {
        let list =
            NoProxy::parse("a.com, .b.com,*.c.com 10.0.0.0/8,[fd00::1],fd00::2,d.com:8080,bad:port, ,e..f");
        let hit = |host: &str, port| list.matches(&host.parse().unwrap(), port);
        for host in ["a.com", "x.a.com", "b.com", "x.b.com", "c.com", "10.9.9.9", "fd00::1", "fd00::2"] {
            assert!(hit(host, 443), "{host}");
        }
        for host in ["xa.com", "com", "11.0.0.1", "fd00::3", "bad", "e..f.com"] {
            assert!(host.parse::<Host>().is_err() || !hit(host, 443), "{host}");
        }
        assert!(hit("d.com", 8080) && !hit("d.com", 443));
        assert!(NoProxy::parse("*").matches(&"x.y".parse().unwrap(), 1));
    }
}
