//! URLs of tools' configuration, as what a connection goes to.

use ringfence_types::{Host, HostPattern};
use url::Url;

use super::Target;

/// The host and port of a URL. Prefixes by which tools name a protocol, such as `sparse+`, are left out. `None` for
/// a path, or a URL without a host or port.
pub(super) fn target(text: &str) -> Option<Target> {
    let text = text.trim();
    let text = match text.split_once('+') {
        Some(("sparse" | "registry" | "git" | "hg" | "bzr" | "svn", rest)) => rest,
        _ => text,
    };
    let url = Url::parse(text).ok()?;
    let port = url.port_or_known_default().or_else(|| match url.scheme() {
        "ssh" => Some(22),
        "git" => Some(9418),
        _ => None,
    })?;
    let host = match url.host()? {
        url::Host::Domain(name) => return named(name, port),
        url::Host::Ipv4(ip) => ip.into(),
        url::Host::Ipv6(ip) => ip.into(),
    };
    Some(at(Host::Ip(host), port))
}

/// A host by its name, which may turn out to be an address.
pub(super) fn named(name: &str, port: u16) -> Option<Target> {
    Some(at(name.parse().ok()?, port))
}

fn at(host: Host, port: u16) -> Target {
    let own = host.is_localhost() || matches!(host, Host::Ip(ip) if ip.is_loopback());
    if own { Target::LoopbackPort(port) } else { Target::Host(HostPattern::exact(&host, port)) }
}

/// A URL without the login that it may hold. What is no URL stays as it is; `None` if it may hold one nevertheless.
pub(super) fn without_login(text: &str) -> Option<String> {
    let Some(mut url) = Url::parse(text).ok().filter(Url::has_host) else {
        return (!text.contains('@')).then(|| text.to_owned());
    };
    if url.username().is_empty() && url.password().is_none() {
        return Some(text.to_owned());
    }
    url.set_username("").ok()?;
    url.set_password(None).ok()?;
    Some(url.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports() {
        for (text, expected) in [
            ("https://npm.a.test/path/", Some("npm.a.test:443")),
            ("http://user:secret@A.test", Some("a.test:80")),
            ("sparse+https://index.a.test:8443/x", Some("index.a.test:8443")),
            ("git+ssh://git@a.test/x.git", Some("a.test:22")),
            ("https://[2001:db8::1]/", Some("[2001:db8::1]:443")),
            ("http://10.0.0.1:81/", Some("10.0.0.1:81")),
            ("http://localhost:4873/", Some("port 4873 of this machine")),
            ("http://127.0.0.1/", Some("port 80 of this machine")),
            ("http://[::1]:8/", Some("port 8 of this machine")),
            ("./wheels", None),
            ("file:///srv/wheels", None),
            ("https://", None),
            ("direct", None),
        ] {
            assert_eq!(target(text).map(|target| target.to_string()).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn logins_are_left_out() {
        for (text, expected) in [
            ("https://user:secret@a.test/x", Some("https://a.test/x")),
            ("https://token@a.test/", Some("https://a.test/")),
            ("https://a.test/x/@scope", Some("https://a.test/x/@scope")),
            ("direct", Some("direct")),
            ("user:secret@a.test", None),
        ] {
            assert_eq!(without_login(text).as_deref(), expected, "{text}");
        }
    }
}
