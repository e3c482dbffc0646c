use super::*;

fn patterns(list: &[&str]) -> Vec<HostPattern> {
    list.iter().map(|text| text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))).collect()
}

fn policy(allow: &[&str], deny: &[&str]) -> EgressPolicy {
    EgressPolicy { allow: patterns(allow), deny: patterns(deny), ..EgressPolicy::default() }
}

fn public(deny: &[&str]) -> EgressPolicy {
    EgressPolicy { reach: Reach::Public, ..policy(&[], deny) }
}

/// The name of the rule, for a host and its address.
fn rule(policy: &EgressPolicy, host: &str, port: u16) -> &'static str {
    match policy.judge(&host.parse().unwrap(), port) {
        Judgement::Allowed(rule) | Judgement::Denied(rule) => rule.name(),
        Judgement::Unlisted => Rule::NotListed.name(),
    }
}

fn leads_to(policy: &EgressPolicy, address: &str, port: u16) -> bool {
    name_leads_to(policy, "a.com", address, port)
}

fn name_leads_to(policy: &EgressPolicy, host: &str, address: &str, port: u16) -> bool {
    policy.check_address(&host.parse().unwrap(), address.parse().unwrap(), port).is_ok()
}

#[test]
fn the_default_allows_nothing() {
    let policy = EgressPolicy::default();
    for host in ["a.com", "1.1.1.1", "2606:4700::1111"] {
        assert_eq!(rule(&policy, host, 443), "not-listed");
    }
    assert_eq!(rule(&policy, "127.0.0.1", 443), "guarded");
    assert_eq!(rule(&policy, "localhost", 443), "not-listed");
}

#[test]
fn deny_beats_allow_on_every_port_unless_it_names_one() {
    let policy = policy(&["**.a.com:*", "b.com:*"], &["x.a.com", "b.com:22"]);
    assert_eq!(rule(&policy, "y.a.com", 8080), "allowed");
    assert_eq!(rule(&policy, "x.a.com", 443), "denied");
    assert_eq!(rule(&policy, "X.A.com.", 8080), "denied");
    assert_eq!(rule(&policy, "b.com", 22), "denied");
    assert_eq!(rule(&policy, "b.com", 443), "allowed");
}

#[test]
fn a_denied_address_is_denied_behind_a_name_and_in_an_embedding() {
    let policy = EgressPolicy {
        allow: patterns(&["[64:ff9b::/96]:*", "[::ffff:9.9.9.9]:*"]),
        ..public(&["9.9.9.0/24"])
    };
    assert!(leads_to(&policy, "9.9.8.9", 443));
    assert!(!leads_to(&policy, "9.9.9.9", 443));
    assert_eq!(rule(&policy, "9.9.9.9", 443), "denied");
    assert_eq!(rule(&policy, "::ffff:9.9.9.9", 443), "denied");
    assert_eq!(rule(&policy, "64:ff9b::9.9.9.9", 443), "denied");
    assert!(!leads_to(&policy, "64:ff9b::9.9.9.9", 443));
    assert!(leads_to(&policy, "64:ff9b::9.9.8.9", 443));
}

#[test]
fn a_denied_address_is_denied_in_its_other_spelling() {
    let policy = public(&["[::ffff:9.9.9.9]"]);
    assert_eq!(rule(&policy, "9.9.9.9", 443), "denied");
    assert!(!leads_to(&policy, "9.9.9.9", 443) && leads_to(&policy, "9.9.9.8", 443));
}

#[test]
fn public_means_public() {
    let policy = public(&[]);
    assert_eq!(rule(&policy, "a.com", 25), "public");
    assert_eq!(rule(&policy, "1.1.1.1", 443), "public");
    for address in [
        "127.0.0.1",
        "::1",
        "10.0.0.1",
        "169.254.169.254",
        "168.63.129.16",
        "0.0.0.0",
        "::",
        "fe80::1",
        "fd00::1",
        "::ffff:1.1.1.1",
        "64:ff9b::1.1.1.1",
        "64:ff9b:1::1.1.1.1",
        "2002:101:101::1",
        "2001:0:1:2:3:4:5:6",
        "100.64.0.1",
        "224.0.0.1",
        "fec0::1",
        "192.0.2.1",
        "198.18.0.1",
        "240.0.0.1",
        "::1.1.1.1",
        "2a00::5efe:1.1.1.1",
    ] {
        assert_eq!(rule(&policy, address, 443), "guarded", "{address}");
        assert!(!leads_to(&policy, address, 443), "{address}");
    }
}

#[test]
fn the_guard_is_lifted_for_what_is_listed_and_no_more() {
    let policy =
        policy(&["a.com", "10.0.0.5:443", "192.168.0.0/16:*", "[fd00:1::/32]:443", "0.0.0.0/0:*"], &[]);
    assert!(leads_to(&policy, "10.0.0.5", 443));
    assert!(!leads_to(&policy, "10.0.0.5", 444));
    assert!(!leads_to(&policy, "10.0.0.6", 443));
    assert!(leads_to(&policy, "192.168.9.9", 1));
    assert!(leads_to(&policy, "fd00:1::9", 443) && !leads_to(&policy, "fd00:2::9", 443));
    // A network that also holds public addresses lifts nothing.
    assert!(!leads_to(&policy, "127.0.0.1", 443));
    assert_eq!(rule(&policy, "9.9.9.9", 1), "allowed");
}

#[test]
fn a_listed_network_of_embeddings_does_not_open_what_it_leads_to() {
    let policy = policy(&["[64:ff9b::/96]:*", "[64:ff9b:1::/48]:*", "[64:ff9b:1::1]:*", "10.0.0.1:*"], &[]);
    assert!(leads_to(&policy, "64:ff9b::9.9.9.9", 443));
    assert!(leads_to(&policy, "64:ff9b::10.0.0.1", 443));
    assert!(!leads_to(&policy, "64:ff9b::10.0.0.2", 443));
    assert!(!leads_to(&policy, "64:ff9b::127.0.0.1", 443));
    assert!(!leads_to(&policy, "64:ff9b:1:a00:0:100:808:808", 443));
    assert!(leads_to(&policy, "64:ff9b:1::1", 443));
}

#[test]
fn the_two_switches_open_what_they_name() {
    let private = EgressPolicy { allow_private: true, ..policy(&["a.com"], &[]) };
    assert!(
        leads_to(&private, "10.0.0.1", 443)
            && leads_to(&private, "fd00::1", 443)
            && leads_to(&private, "100.64.0.1", 443)
    );
    for address in ["127.0.0.1", "169.254.169.254", "fd00:ec2::254", "169.254.1.1", "::ffff:10.0.0.1"] {
        assert!(!leads_to(&private, address, 443), "{address}");
    }
    assert_eq!(rule(&private, "10.0.0.1", 443), "not-listed");
    let ports = EgressPolicy { allow_loopback_ports: [5432].into(), ..policy(&["a.com:*"], &[]) };
    for host in ["localhost", "db.localhost", "127.0.0.1", "127.9.9.9", "::1"] {
        assert_eq!(rule(&ports, host, 5432), "loopback-port", "{host}");
        assert_ne!(rule(&ports, host, 5433), "loopback-port", "{host}");
    }
    assert!(leads_to(&ports, "127.0.0.1", 5432) && !leads_to(&ports, "127.0.0.1", 443));
    assert_eq!(rule(&ports, "::ffff:127.0.0.1", 5432), "guarded");
}

#[test]
fn names_are_looked_up_if_some_port_is_allowed() {
    let policy = policy(&["a.com:22", "*.b.com", "c.com"], &["x.b.com", "c.com:443"]);
    let may = |host: &str, asks| policy.may_look_up(&host.parse().unwrap(), asks);
    assert!(may("a.com", false) && may("y.b.com", false) && may("c.com", false));
    assert!(!may("x.b.com", false) && !may("d.com", false) && !may("b.com", false));
    assert!(may("d.com", true) && !may("x.b.com", true));
    assert!(public(&[]).may_look_up(&"d.com".parse().unwrap(), false));
}

#[test]
fn a_refusal_names_what_would_allow_it() {
    let wanted = |host: &str, port| Wanted { host: host.parse().unwrap(), port };
    let guarded = |text: &str| {
        let guarded = text.parse().unwrap();
        Rule::Guarded { guarded, kind: classify(guarded).unwrap() }
    };
    let flag = |rule: &Rule, host: &str, port| rule.allow_with(&wanted(host, port)).unwrap_or_default();
    assert_eq!(flag(&Rule::NotListed, "a.com", Some(8443)), "--allow-host a.com:8443");
    assert_eq!(flag(&Rule::NotListed, "a.com", None), "--allow-host a.com");
    assert_eq!(flag(&guarded("10.0.0.1"), "a.com", Some(443)), "--allow-host 10.0.0.1:443");
    assert_eq!(flag(&guarded("fd00::1"), "a.com", Some(443)), "--allow-host [fd00::1]:443");
    assert_eq!(flag(&guarded("::1"), "a.com", Some(443)), "--allow-loopback 443");
    assert_eq!(flag(&Rule::Denied { pattern: "a.com".parse().unwrap() }, "a.com", Some(443)), "");
    let why = |host: &str| guarded("10.0.0.1").explain(&wanted(host, Some(443)));
    assert_eq!(why("a.com"), "a.com:443 leads to 10.0.0.1, a private address");
    assert_eq!(why("10.0.0.1"), "10.0.0.1:443 is a private address");
}

#[test]
fn an_internal_name_leads_to_internal_services_and_not_to_this_machine() {
    let internal =
        EgressPolicy { internal: patterns(&["mirror.a.com:443", "*.b.com:443"]), ..policy(&[], &[]) };
    for address in ["10.0.0.1", "192.168.1.1", "100.64.0.1", "203.0.113.80", "fd00::1", "64:ff9b::10.0.0.1"] {
        assert!(name_leads_to(&internal, "mirror.a.com", address, 443), "{address}");
        assert!(name_leads_to(&internal, "x.b.com", address, 443), "{address}");
        assert!(!name_leads_to(&internal, "mirror.a.com", address, 80), "another port: {address}");
        assert!(!name_leads_to(&internal, "other.a.com", address, 443), "another name: {address}");
        assert!(!name_leads_to(&internal, address, address, 443), "the address itself: {address}");
    }
    for address in [
        "127.0.0.1",
        "::1",
        "0.0.0.0",
        "169.254.1.1",
        "169.254.169.254",
        "100.100.100.200",
        "fe80::1",
        "224.0.0.1",
        "::ffff:127.0.0.1",
        "64:ff9b::169.254.169.254",
        "2002:7f00:1::1",
    ] {
        assert!(!name_leads_to(&internal, "mirror.a.com", address, 443), "{address}");
    }
    let denied = EgressPolicy { deny: patterns(&["10.0.0.0/8"]), ..internal.clone() };
    assert!(!name_leads_to(&denied, "mirror.a.com", "10.0.0.1", 443));
    assert_eq!(rule(&internal, "mirror.a.com", 443), "not-listed", "nothing is allowed by this alone");
}
