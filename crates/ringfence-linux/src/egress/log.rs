//! What a run connected to, and what it was refused, bounded whatever the command does.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use ringfence_proxy::{Event, EventSink, Phase, Rule, Wanted};
use ringfence_types::{Connection, Connections, Denial};

/// Refusals that the output lists, each once.
const DENIALS: usize = 100;
/// Hosts and ports that the audit lists; the others are counted.
const CONNECTIONS: usize = 500;

/// Collects the events of a run.
#[derive(Debug, Default)]
pub(super) struct Log(Mutex<Collected>);

#[derive(Debug, Default)]
struct Collected {
    denials: Vec<Denial>,
    connections: Connections,
    /// Where in the list each is.
    places: HashMap<Key, usize>,
}

/// What is counted together.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    wanted: Wanted,
    rule: &'static str,
    detail: Option<String>,
}

impl Log {
    /// What was refused and what was connected to.
    pub(super) fn take(&self) -> (Vec<Denial>, Connections) {
        let mut collected = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Collected { denials, connections, .. } = std::mem::take(&mut *collected);
        (denials, connections)
    }
}

impl EventSink for Log {
    fn event(&self, event: &Event) {
        tracing::debug!(
            target: "ringfence::proxy",
            wanted = %event.wanted,
            rule = event.rule.name(),
            allowed = event.allowed,
            sent = event.sent,
            received = event.received,
            "{:?}",
            event.event
        );
        self.0.lock().unwrap_or_else(PoisonError::into_inner).add(event);
        #[cfg(feature = "fault-injection")]
        assert!(!is_injected_fault(&event.wanted), "injected fault");
    }
}

/// Whether a test wants whatever serves this host to panic.
#[cfg(feature = "fault-injection")]
fn is_injected_fault(wanted: &Wanted) -> bool {
    std::env::var("RINGFENCE_TEST_PROXY_FAULT").is_ok_and(|host| host == wanted.host.to_string())
}

impl Collected {
    fn add(&mut self, event: &Event) {
        if let Some(denial) = event.denial()
            && self.denials.len() < DENIALS
            && !self.denials.contains(&denial)
        {
            self.denials.push(denial);
        }
        let key = Key { wanted: event.wanted.clone(), rule: event.rule.name(), detail: detail(&event.rule) };
        let list = &mut self.connections.list;
        let place = match self.places.get(&key) {
            Some(place) => *place,
            None if list.len() < CONNECTIONS => {
                list.push(Connection {
                    host: key.wanted.host.to_string(),
                    port: key.wanted.port,
                    allowed: event.allowed,
                    rule: key.rule.to_owned(),
                    detail: key.detail.clone(),
                    address: None,
                    count: 0,
                    sent: 0,
                    received: 0,
                    duration_ms: 0,
                });
                self.places.insert(key, list.len() - 1);
                list.len() - 1
            }
            None => {
                self.connections.omitted += u64::from(event.event == Phase::Decision);
                return;
            }
        };
        let entry = &mut list[place];
        match event.event {
            Phase::Decision => entry.count += 1,
            Phase::End => {
                entry.address = event.address.map(|address| address.ip()).or(entry.address);
                entry.sent += event.sent;
                entry.received += event.received;
                let duration = u64::try_from(event.duration.as_millis()).unwrap_or(u64::MAX);
                entry.duration_ms = entry.duration_ms.saturating_add(duration);
            }
        }
    }
}

/// What the rule names besides itself.
fn detail(rule: &Rule) -> Option<String> {
    match rule {
        Rule::Allowed { pattern } | Rule::Denied { pattern } => Some(pattern.to_string()),
        Rule::Asked { by } => Some(by.clone()),
        Rule::NotApproved { reason } => Some(reason.name().to_owned()),
        Rule::Guarded { guarded, .. } => Some(guarded.to_string()),
        Rule::ServerName { found } => Some(found.clone()),
        Rule::Public | Rule::LoopbackPort | Rule::NotListed | Rule::UnknownAddress => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ringfence_proxy::Protocol;

    use super::*;

    fn event(phase: Phase, host: &str, rule: Rule) -> Event {
        Event {
            event: phase,
            run: "box".into(),
            connection: 1,
            protocol: Protocol::Connect,
            wanted: Wanted { host: host.parse().unwrap(), port: Some(443) },
            allowed: rule.allows(),
            rule,
            address: (phase == Phase::End).then(|| "203.0.113.7:443".parse().unwrap()),
            ending: None,
            sent: 10,
            received: 100,
            duration: Duration::from_millis(5),
        }
    }

    #[test]
    fn connections_to_one_place_are_one_entry() {
        let log = Log::default();
        let rule = || Rule::Allowed { pattern: "*.a.test".parse().unwrap() };
        for _ in 0..3 {
            for phase in [Phase::Decision, Phase::End] {
                log.event(&event(phase, "x.a.test", rule()));
            }
        }
        log.event(&event(Phase::Decision, "b.test", Rule::NotListed));
        let (denials, connections) = log.take();
        let [allowed, refused] = &connections.list[..] else { panic!("{connections:?}") };
        assert_eq!((allowed.host.as_str(), allowed.port, allowed.allowed), ("x.a.test", Some(443), true));
        assert_eq!((allowed.rule.as_str(), allowed.detail.as_deref()), ("allowed", Some("*.a.test")));
        assert_eq!((allowed.count, allowed.sent, allowed.received), (3, 30, 300));
        assert_eq!((allowed.duration_ms, allowed.address), (15, Some("203.0.113.7".parse().unwrap())));
        assert_eq!((refused.rule.as_str(), refused.allowed, refused.count), ("not-listed", false, 1));
        assert_eq!(denials.len(), 1);
        assert_eq!(denials[0].allow_with.as_deref(), Some("--allow-host b.test:443"));
    }

    #[test]
    fn any_number_of_places_takes_bounded_memory() {
        let log = Log::default();
        for number in 0..10_000 {
            log.event(&event(Phase::Decision, &format!("h{number}.test"), Rule::NotListed));
        }
        log.event(&event(Phase::Decision, "h7.test", Rule::NotListed));
        let (denials, connections) = log.take();
        assert_eq!((denials.len(), connections.list.len()), (DENIALS, CONNECTIONS));
        assert_eq!(connections.omitted, 10_000 - CONNECTIONS as u64);
        assert_eq!(connections.list[7].count, 2);
    }
}
