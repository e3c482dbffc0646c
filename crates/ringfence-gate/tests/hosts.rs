//! Hosts that a running command wants, with an approver that answers from a script.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use common::{Fixture, Script, command};
use ringfence_gate::{
    ApprovalAction, ApprovalGate, ApprovalOutcome, ApprovalRequester, ApprovalResponse, HostAnswer,
    HostApproval, Occasion, PermitError, TerminalHolder, TerminalLoan,
};
use ringfence_plan::linux::seccomp::Arch;
use ringfence_plan::{HostFacts, LinuxFacts};
use ringfence_types::{Excess, HostPattern, NetworkPolicy, SandboxCapabilities};

use ApprovalOutcome::{Approved, ApprovedAlways, ApprovedOnce, Denied, Unavailable};

fn hosts(hosts: &[&str]) -> SandboxCapabilities {
    let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
    SandboxCapabilities { network: NetworkPolicy::AllowHosts { hosts }, ..SandboxCapabilities::strict() }
}

/// What comes with an approved run of `program`, which may reach one host.
async fn run(fixture: &Fixture, program: &str) -> HostApproval {
    let permit = fixture.permit(command(program, hosts(&["listed.test"]))).await.unwrap();
    permit.plan(&facts()).unwrap().into_parts().hosts
}

fn facts() -> HostFacts {
    HostFacts::Linux(LinuxFacts {
        uid: 1000,
        gid: 1000,
        arch: Arch::X86_64,
        landlock_abi: 7,
        system: Vec::new(),
        present: Vec::new(),
        sockets: Vec::new(),
        resolv_conf: None,
        nsswitch: None,
        hosts_file: None,
        env: Vec::new(),
    })
}

fn fixture(approval: ApprovalGate) -> Fixture {
    Fixture::new(approval, |config| config.session.baseline = hosts(&["listed.test"]))
}

fn asking(script: &Arc<Script>) -> Fixture {
    fixture(ApprovalGate::new(Some(Arc::clone(script) as _)))
}

fn to(text: &str) -> HostPattern {
    text.parse().unwrap()
}

async fn named(program: &[u8]) -> Option<Vec<u8>> {
    Some(program.to_vec())
}

fn by() -> String {
    "script".to_owned()
}

#[tokio::test]
async fn the_question_names_host_port_and_program() {
    let script = Script::new(&[ApprovedOnce, ApprovedOnce]);
    let fixture = asking(&script);
    let run = run(&fixture, "make").await;
    assert!(run.can_ask());
    let answer = run.decide(to("api.test:8443"), named(b"curl\x1b[2J")).await;
    assert_eq!(answer, HostAnswer::Once { by: by() });
    run.decide(to("api.test:8443"), named(b"")).await;
    let [first, second] = &script.asked()[..] else { panic!("once is asked again") };
    assert_eq!(first.excess, [Excess::Host(to("api.test:8443"))]);
    assert_eq!(first.program, "make");
    let program = Some(r"curl\u{1b}[2J".to_owned());
    assert_eq!(first.occasion, Occasion::Connection { program });
    assert_eq!(second.occasion, Occasion::Connection { program: None });
}

#[tokio::test]
async fn approved_for_the_session_is_for_this_host_and_port_in_all_its_runs() {
    let script = Script::new(&[Approved, Denied]);
    let fixture = asking(&script);
    let first = run(&fixture, "make").await;
    for _ in 0..2 {
        assert_eq!(first.decide(to("a.test:443"), named(b"")).await, HostAnswer::Session { by: by() });
    }
    let other = run(&fixture, "curl").await;
    assert_eq!(other.decide(to("a.test:443"), named(b"")).await, HostAnswer::Session { by: by() });
    assert_eq!(script.count(), 1);
    assert_eq!(other.decide(to("a.test:80"), named(b"")).await, HostAnswer::Denied);
    // A later command that asks for the same from the start has it.
    let permit = fixture.permit(command("make", hosts(&["a.test:443", "listed.test"]))).await;
    assert!(permit.is_ok(), "{permit:?}");
    assert_eq!(script.count(), 2);
}

#[tokio::test]
async fn a_host_for_the_session_keeps_nothing_that_was_approved_once() {
    let script = Script::new(&[ApprovedOnce, Approved, Denied, Approved]);
    let fixture = asking(&script);
    let data = fixture.make_dir("data");
    let with_data = |list: &[&str]| SandboxCapabilities { fs_write: vec![data.clone()], ..hosts(list) };
    let permit = fixture.permit(command("make", with_data(&["listed.test"]))).await.unwrap();
    let run = permit.plan(&facts()).unwrap().into_parts().hosts;
    assert_eq!(run.decide(to("a.test:443"), named(b"")).await, HostAnswer::Session { by: by() });
    // Neither the directory alone nor both together.
    let again = fixture.permit(command("make", with_data(&["listed.test"]))).await;
    assert!(matches!(again, Err(PermitError::Denied { .. })), "{again:?}");
    assert_eq!(script.count(), 3);
    // The control: the host itself is granted, to this run and to others.
    assert_eq!(run.decide(to("a.test:443"), named(b"")).await, HostAnswer::Session { by: by() });
    let host = fixture.permit(command("curl", hosts(&["a.test:443", "listed.test"]))).await;
    assert!(host.is_ok(), "{host:?}");
    assert_eq!(script.count(), 3);
    let both = fixture.permit(command("curl", with_data(&["a.test:443", "listed.test"]))).await;
    assert!(both.is_ok() && script.count() == 4, "{both:?}");
}

#[tokio::test]
async fn refusals_are_remembered_and_open_the_breaker() {
    let script = Script::new(&[Denied, Denied, Denied, Approved]);
    let fixture = asking(&script);
    let run = run(&fixture, "make").await;
    assert_eq!(run.decide(to("a.test:443"), named(b"")).await, HostAnswer::Denied);
    let unneeded = async { panic!("nothing is asked") };
    assert_eq!(run.decide(to("a.test:443"), unneeded).await, HostAnswer::Remembered);
    assert_eq!(run.decide(to("b.test:443"), named(b"")).await, HostAnswer::Denied);
    assert_eq!(run.decide(to("c.test:443"), named(b"")).await, HostAnswer::Denied);
    let paused = run.decide(to("d.test:443"), async { panic!("nothing is asked") }).await;
    assert!(matches!(paused, HostAnswer::BreakerOpen(_)), "{paused:?}");
    assert_eq!(script.count(), 3);
}

#[tokio::test]
async fn nobody_and_silence_are_no() {
    let nobody = fixture(ApprovalGate::new(None));
    let alone = run(&nobody, "make").await;
    assert!(!alone.can_ask());
    assert_eq!(alone.decide(to("a.test:443"), named(b"")).await, HostAnswer::Unavailable);

    let silent = Script::new(&[]);
    let gate = ApprovalGate::new(Some(Arc::clone(&silent) as _)).with_timeout(Duration::from_millis(20));
    let silence = fixture(gate);
    let run = run(&silence, "make").await;
    assert_eq!(run.decide(to("a.test:443"), named(b"")).await, HostAnswer::Timeout);
    assert_eq!(silent.given_up(), 1);

    let script = Script::new(&[Unavailable, ApprovedAlways]);
    let fixture = asking(&script);
    let run = self::run(&fixture, "make").await;
    for _ in 0..2 {
        assert_eq!(run.decide(to("a.test:443"), named(b"")).await, HostAnswer::Unavailable);
    }
}

#[tokio::test]
async fn one_question_of_a_run_is_open_at_a_time() {
    let script = Script::held(&[Denied, Denied]);
    let fixture = asking(&script);
    let run = run(&fixture, "make").await;
    let decide = |host: &'static str| run.decide(to(host), named(b""));
    let watch = async {
        while script.count() == 0 {
            tokio::task::yield_now().await;
        }
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        assert_eq!(script.count(), 1);
        script.release(2);
    };
    let (a, b, ()) = tokio::join!(decide("a.test:443"), decide("b.test:443"), watch);
    assert_eq!((a, b, script.count()), (HostAnswer::Denied, HostAnswer::Denied, 2));
}

/// Counts who has the terminal.
#[derive(Default)]
struct Counter {
    lent: Arc<AtomicUsize>,
    times: AtomicUsize,
}

#[async_trait]
impl TerminalHolder for Counter {
    async fn lend(&self) -> TerminalLoan {
        self.lent.fetch_add(1, Ordering::SeqCst);
        self.times.fetch_add(1, Ordering::SeqCst);
        let lent = Arc::clone(&self.lent);
        TerminalLoan::new(move || {
            lent.fetch_sub(1, Ordering::SeqCst);
        })
    }
}

/// Asks on the terminal, which must be lent then.
struct OnTerminal(Arc<AtomicUsize>);

#[async_trait]
impl ApprovalRequester for OnTerminal {
    async fn request_approval(&self, _: &ApprovalAction) -> ApprovalResponse {
        assert_eq!(self.0.load(Ordering::SeqCst), 1);
        ApprovalResponse::new(ApprovedOnce, "terminal")
    }

    fn uses_terminal(&self) -> bool {
        true
    }
}

/// Never lets go.
struct Clinging;

#[async_trait]
impl TerminalHolder for Clinging {
    async fn lend(&self) -> TerminalLoan {
        std::future::pending().await
    }
}

#[tokio::test]
async fn a_terminal_that_nobody_lends_is_a_timeout() {
    let gate =
        ApprovalGate::new(Some(Arc::new(OnTerminal(Arc::default())))).with_timeout(Duration::from_millis(20));
    let fixture = fixture(gate);
    let run = run(&fixture, "make").await;
    run.set_terminal(Arc::new(Clinging));
    assert_eq!(run.decide(to("a.test:443"), named(b"")).await, HostAnswer::Timeout);
}

#[tokio::test]
async fn the_terminal_is_lent_to_who_asks_on_it_and_to_nobody_else() {
    let holder = Arc::new(Counter::default());
    let gate = ApprovalGate::new(Some(Arc::new(OnTerminal(Arc::clone(&holder.lent)))));
    let on_terminal = fixture(gate);
    let asking_there = run(&on_terminal, "make").await;
    asking_there.set_terminal(Arc::clone(&holder) as _);
    let answer = asking_there.decide(to("a.test:443"), named(b"")).await;
    assert_eq!(answer, HostAnswer::Once { by: "terminal".to_owned() });
    assert_eq!((holder.lent.load(Ordering::SeqCst), holder.times.load(Ordering::SeqCst)), (0, 1));

    let script = Script::new(&[Denied]);
    let fixture = asking(&script);
    let elsewhere = run(&fixture, "make").await;
    elsewhere.set_terminal(Arc::clone(&holder) as _);
    elsewhere.decide(to("a.test:443"), named(b"")).await;
    assert_eq!(holder.times.load(Ordering::SeqCst), 1);
}
