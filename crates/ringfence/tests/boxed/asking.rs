//! Hosts that a running command wants and nobody listed: a host's own requester is asked.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use ringfence::{
    ApprovalAction, ApprovalGate, ApprovalOutcome, ApprovalRequester, ApprovalResponse, Excess, Occasion,
};

use super::{Test, World, text};

pub(super) const TESTS: &[Test] = &[
    ("a_requester_is_asked_about_a_connection", a_requester_is_asked_about_a_connection),
    ("silence_refuses_the_connection_in_each_protocol", silence_refuses_the_connection_in_each_protocol),
    ("what_was_connected_to_is_counted", what_was_connected_to_is_counted),
];

/// Refuses, or never answers; keeps what it was asked.
#[derive(Default)]
struct Fake {
    silent: bool,
    asked: Mutex<Vec<ApprovalAction>>,
    given_up: Arc<AtomicUsize>,
}

struct OnDrop(Arc<AtomicUsize>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl ApprovalRequester for Fake {
    async fn request_approval(&self, a: &ApprovalAction) -> ApprovalResponse {
        self.asked.lock().unwrap().push(a.clone());
        if self.silent {
            let _given_up = OnDrop(Arc::clone(&self.given_up));
            std::future::pending::<()>().await;
        }
        ApprovalResponse::new(ApprovalOutcome::Denied, "fake")
    }
}

/// An address that is public: nobody connects to it before somebody agrees, which nobody does.
const PLACE: &str = "http://8.8.8.8:8080/";

fn a_requester_is_asked_about_a_connection() {
    let fake = Arc::new(Fake::default());
    let world = World::asking(&["a.test"], ApprovalGate::new(Some(Arc::clone(&fake) as _)));
    let curl = "curl -sS --max-time 20";
    let output =
        world.script(&format!("{curl} {PLACE}; {curl} {PLACE}; env -i /usr/bin/{curl} {PLACE}; true"));
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(out.contains("8.8.8.8:8080 was not approved: refused when asked\n"), "{out}");
    assert!(out.contains("8.8.8.8:8080 was not approved: refused earlier\n"), "{out}");
    assert!(out.contains("hint: --allow-host 8.8.8.8:8080 would allow it\n"), "{out}");
    // A refusal that comes quickly meets curl before it has seen that it is connected.
    assert!(err.contains("reset by peer") || err.contains("curl: (7)"), "{err}");
    let [action] = &fake.asked.lock().unwrap()[..] else { panic!("asked once, then remembered") };
    assert_eq!(action.excess, [Excess::Host("8.8.8.8:8080".parse().unwrap())]);
    assert_eq!(action.occasion, Occasion::Connection { program: Some("curl".to_owned()) });
    assert_eq!(action.program, "sh");
    assert_eq!(output.denials.len(), 1, "{:?}", output.denials);
    assert_eq!(output.denials[0].allow_with.as_deref(), Some("--allow-host 8.8.8.8:8080"));
}

fn silence_refuses_the_connection_in_each_protocol() {
    let fake = Arc::new(Fake { silent: true, ..Fake::default() });
    let gate = ApprovalGate::new(Some(Arc::clone(&fake) as _)).with_timeout(Duration::from_millis(200));
    let world = World::asking(&["a.test"], gate);
    let curl = "/usr/bin/curl -sS --max-time 20";
    let output = world.script(&format!(
        "{curl} {PLACE}; {curl} --proxy socks5h://127.0.0.1:808 {PLACE}; env -i {curl} {PLACE}; true"
    ));
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(out.contains("8.8.8.8:8080 was not approved: nobody answered in time\n"), "{out}");
    assert!(err.contains("curl: (97)") && err.contains("(2)"), "{err}");
    assert!(err.contains("curl: (56)") || err.contains("curl: (35)"), "{err}");
    assert_eq!(fake.asked.lock().unwrap().len(), 3);
    assert_eq!(fake.given_up.load(Ordering::SeqCst), 3, "what was shown can go");
}

fn what_was_connected_to_is_counted() {
    let world = World::asking(&["a.test"], ApprovalGate::new(None));
    let output = world.script(&format!(
        "for i in 1 2 3; do curl -sS --max-time 20 {PLACE}; getent hosts b.test; done; true"
    ));
    let list = &output.connections.list;
    let count = |host: &str, port: Option<u16>| {
        let found = list.iter().find(|one| one.host == host && one.port == port);
        let found = found.unwrap_or_else(|| panic!("{host}: {list:?}"));
        assert_eq!((found.allowed, found.rule.as_str()), (false, "not-listed"));
        found.count
    };
    assert_eq!(count("8.8.8.8", Some(8080)), 3);
    assert!(count("b.test", None) >= 3);
    assert_eq!((list.len(), output.connections.omitted), (2, 0), "{list:?}");
}
