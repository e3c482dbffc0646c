//! Every branch of the pipeline, with a driver that starts nothing and a requester that asks nobody.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod support;

use std::ffi::OsString;
use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use async_trait::async_trait;
use ringfence::{
    ApprovalGate, ApprovalOutcome, Connection, Connections, Denial, DenialKind, DenialSource, DriverError,
    DriverOutput, HookContext, HookDecision, LayerName, LayerReport, LayerStatus, MockSandbox, NetworkPolicy,
    OutputFloor, RunOptions, Sandbox, SandboxBeforeHook, SandboxCapabilities, SandboxCommand, SandboxError,
    SessionId, SessionSettings, SessionStart, Stdio, Step, WorkspaceSandbox, build_sandbox, current_session,
    invoke_with_session_trace, session_directory, spawn_in_session,
};
use support::{FakeDriver, FakeRequester, Ledger, Reply, World};

fn network() -> SandboxCapabilities {
    SandboxCapabilities { network: NetworkPolicy::AllowAll, ..SandboxCapabilities::strict() }
}

fn command(session: &str) -> SandboxCommand {
    SandboxCommand::new(session, "true")
}

fn sandbox(world: &World) -> WorkspaceSandbox {
    WorkspaceSandbox::new(&world.config, world.parts()).unwrap()
}

fn asking(world: &World, requester: &Arc<FakeRequester>) -> WorkspaceSandbox {
    let gate = ApprovalGate::new(Some(Arc::clone(requester) as _));
    WorkspaceSandbox::new(&world.config, ringfence::SandboxParts { gate: Some(gate), ..world.parts() })
        .unwrap()
}

#[tokio::test]
async fn what_lies_within_the_baseline_asks_nobody() {
    let (world, ledger) = (World::new(), Ledger::listen());
    let requester = FakeRequester::new(ApprovalOutcome::Denied);
    world.driver.reply(Reply::Output(DriverOutput {
        stdout: b"out".to_vec(),
        stderr: b"err".to_vec(),
        exit_code: Some(3),
        dropped_stderr: 7,
        duration: Duration::from_millis(5),
        ..DriverOutput::default()
    }));
    let output = asking(&world, &requester).execute(command("demo").args(["x"])).await.unwrap();
    assert_eq!(requester.count(), 0);
    assert_eq!(
        (output.stdout.as_slice(), output.stderr.as_slice(), output.exit_code),
        (&b"out"[..], &b"err"[..], Some(3))
    );
    assert!(output.truncated && output.dropped_stderr == 7);
    assert_eq!(output.backend, "linux/fake");

    let runs = world.driver.runs.lock().unwrap();
    let directory = session_directory(&world.config.workspace_root, &"demo".into());
    assert!(directory.ends_with("99e5095aacce94d035c31d3e08425401"));
    assert_eq!(runs[0].policy.workspace.path, directory.canonicalize().unwrap());
    assert_eq!(runs[0].policy.cwd.path, runs[0].policy.workspace.path);
    assert!(!runs[0].policy.spawn && !runs[0].policy.loopback);

    let record = ledger.one();
    assert_eq!(record["session"], "demo");
    assert_eq!(record["program"], "true");
    // printf 'true\0x\0' | sha256sum
    assert_eq!(record["argv_sha256"], "6efae4aa45652d93df1279bb5b5cc66919457777c707ce56c0d22e33bcd2117c");
    assert_eq!(record["decision"], "baseline");
    assert_eq!(record["outcome"], "exited");
    assert_eq!(record["exit_code"], "3");
    assert_eq!((record["stdout_bytes"].as_str(), record["stderr_bytes"].as_str()), ("3", "10"));
    assert_eq!(record["cwd"], runs[0].policy.cwd.path.to_str().unwrap());
    assert!(!record.contains_key("error") && !record.contains_key("signal"));
}

#[tokio::test]
async fn an_approval_reaches_the_driver_and_is_remembered_for_its_session() {
    let (world, ledger) = (World::new(), Ledger::listen());
    let requester = FakeRequester::new(ApprovalOutcome::Approved);
    let sandbox = asking(&world, &requester);
    let mut asked = command("a").capabilities(network());
    asked.justification = Some("to\u{7} download".into());
    sandbox.execute(asked).await.unwrap();
    assert_eq!(requester.count(), 1);
    assert_eq!(world.driver.runs.lock().unwrap()[0].policy.network, ringfence_types::Network::AllowAll);
    let action = requester.last.lock().unwrap().take().unwrap();
    assert_eq!(action.program, "true");
    assert!(!action.justification.unwrap().contains('\u{7}'));
    let record = ledger.one();
    assert_eq!((record["decision"].as_str(), record["by"].as_str()), ("approved", "tester"));
    assert!(record["effective"].contains("\"network\":\"all\""));

    sandbox.execute(command("a").capabilities(network())).await.unwrap();
    assert_eq!(requester.count(), 1, "granted for the session");
    assert_eq!(ledger.one()["decision"], "grant");

    sandbox.execute(command("b").capabilities(network())).await.unwrap();
    assert_eq!(requester.count(), 2, "another session has no part in it");
}

#[tokio::test]
async fn an_approval_for_once_is_not_remembered() {
    let world = World::new();
    let requester = FakeRequester::new(ApprovalOutcome::ApprovedOnce);
    let sandbox = asking(&world, &requester);
    for asked in 1..=2 {
        sandbox.execute(command("a").capabilities(network())).await.unwrap();
        assert_eq!(requester.count(), asked);
    }
}

#[tokio::test]
async fn a_refusal_stops_the_command() {
    let (world, ledger) = (World::new(), Ledger::listen());
    let requester = FakeRequester::new(ApprovalOutcome::Denied);
    let error = asking(&world, &requester).execute(command("a").capabilities(network())).await.unwrap_err();
    assert_eq!((error.kind(), error.exit_code()), ("capability_denied", 125));
    assert_eq!(error.hint().unwrap(), "allow it with --net all");
    assert_eq!(world.driver.count(), 0);
    let record = ledger.one();
    assert_eq!((record["decision"].as_str(), record["by"].as_str()), ("denied", "tester"));
    assert_eq!(record["outcome"], "capability_denied");
    assert!(record["requested"].contains("\"network\":\"all\"") && !record.contains_key("effective"));
    assert!(record["denials"].contains("--net all"));
}

#[tokio::test]
async fn nobody_to_ask_is_an_answer_at_once() {
    let (world, ledger) = (World::new(), Ledger::listen());
    let error = sandbox(&world).execute(command("a").capabilities(network())).await.unwrap_err();
    assert_eq!(error.kind(), "approval_unavailable");
    assert_eq!(ledger.one()["decision"], "unavailable");
    assert_eq!(world.driver.count(), 0);
}

#[tokio::test]
async fn nobody_answering_is_a_timeout() {
    let (world, ledger) = (World::new(), Ledger::listen());
    let requester = FakeRequester::silent();
    let gate = ApprovalGate::new(Some(requester as _)).with_timeout(Duration::from_millis(20));
    let parts = ringfence::SandboxParts { gate: Some(gate), ..world.parts() };
    let sandbox = WorkspaceSandbox::new(&world.config, parts).unwrap();
    let error = sandbox.execute(command("a").capabilities(network())).await.unwrap_err();
    assert_eq!(error.kind(), "approval_timeout");
    assert_eq!(ledger.one()["decision"], "timeout");
}

#[tokio::test]
async fn the_most_specific_timeout_counts() {
    let mut world = World::new();
    world.config.default_timeout = Some(Duration::from_secs(9));
    world.config.max_output_bytes = 4096;
    let settings =
        SessionSettings::resolve(&world.config, &world.host, world.dir.path(), &RunOptions::default());
    let mut settings = settings.unwrap();
    settings.policy.baseline.timeout_secs = None;
    world.config.session = Some(settings);
    let sandbox = sandbox(&world);

    let of = |capability, own| {
        let mut command = command("a");
        command.capabilities.timeout_secs = capability;
        command.timeout = own;
        command
    };
    sandbox.execute(of(None, None)).await.unwrap();
    sandbox.execute(of(Some(5), None)).await.unwrap();
    sandbox.execute(of(Some(5), Some(Duration::from_millis(300)))).await.unwrap();
    let runs = world.driver.runs.lock().unwrap();
    let timeouts: Vec<_> = runs.iter().map(|run| run.timeout.unwrap()).collect();
    assert_eq!(timeouts, [Duration::from_secs(9), Duration::from_secs(5), Duration::from_millis(300)]);
    assert_eq!(runs[0].max_output_bytes, 4096);
}

#[tokio::test]
async fn denials_that_are_incomplete_make_the_layer_partial() {
    for incomplete in [Vec::new(), vec!["~/keys*".into()]] {
        let mut world = World::new();
        let options = RunOptions::default();
        let settings = SessionSettings::resolve(&world.config, &world.host, world.dir.path(), &options);
        let mut settings = settings.unwrap();
        settings.policy.deny_incomplete = incomplete;
        let partial = !settings.policy.deny_incomplete.is_empty();
        world.config.session = Some(settings);
        let output = sandbox(&world).execute(command("a")).await.unwrap();
        let layer = output.layers.get(LayerName::MountNs);
        let told = layer
            .is_some_and(|layer| layer.status == LayerStatus::Partial && layer.detail.contains("~/keys*"));
        assert_eq!(told, partial, "{layer:?}");
    }
}

/// Records that it was asked, and refuses programs named after it.
struct Named {
    name: &'static str,
    asked: Arc<Mutex<Vec<&'static str>>>,
}

#[async_trait]
impl SandboxBeforeHook for Named {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn before(&self, ctx: &HookContext<'_>) -> HookDecision {
        self.asked.lock().unwrap().push(self.name);
        if ctx.command().program == self.name {
            HookDecision::Deny { reason: format!("{} says no", self.name) }
        } else {
            HookDecision::Allow
        }
    }
}

#[tokio::test]
async fn the_command_policy_comes_first_and_is_audited_by_rule_without_the_text() {
    let (mut world, ledger) = (World::new(), Ledger::listen());
    world.config.rate_limit.enabled = false;
    let asked = Arc::new(Mutex::new(Vec::new()));
    let hooks: Vec<Box<dyn SandboxBeforeHook>> =
        vec![Box::new(Named { name: "x", asked: Arc::clone(&asked) })];
    let parts = ringfence::SandboxParts { hooks, ..world.parts() };
    let sandbox = build_sandbox(world.config.clone(), parts).unwrap();
    let script = |text: &str| SandboxCommand { program: "sh".into(), ..command("a") }.args(["-c", text]);

    let error = sandbox.execute(script("true; rm -rf / secret-name")).await.unwrap_err();
    assert_eq!((error.kind(), error.rules()), ("policy_denied", &["rm-root".to_owned()][..]));
    assert!(!error.message().contains("secret-name"), "{}", error.message());
    assert!(asked.lock().unwrap().is_empty(), "the command policy comes before every other hook");
    let record = ledger.one();
    assert_eq!(record["rules"], "rm-root");
    assert!(record.values().all(|value| !value.contains("secret-name")), "{record:?}");

    sandbox.execute(script("reboot")).await.unwrap();
    assert_eq!(ledger.one()["rules"], "power-off");
    sandbox.execute(script("ls")).await.unwrap();
    assert!(!ledger.one().contains_key("rules"));
}

#[tokio::test]
async fn hooks_run_in_order_after_the_floor_and_the_rate_limit() {
    let (mut world, ledger) = (World::new(), Ledger::listen());
    world.config.rate_limit.enabled = true;
    world.config.rate_limit.dangerous.max_requests = Some(3);
    world.config.rate_limit.dangerous.burst = Some(0);
    let asked = Arc::new(Mutex::new(Vec::new()));
    let hooks = ["first", "second"].map(|name| Box::new(Named { name, asked: Arc::clone(&asked) }) as _);
    let parts = ringfence::SandboxParts { hooks: Vec::from(hooks), ..world.parts() };
    let sandbox = build_sandbox(world.config.clone(), parts).unwrap();

    sandbox.execute(command("a")).await.unwrap();
    assert_eq!(std::mem::take(&mut *asked.lock().unwrap()), ["first", "second"]);
    ledger.one();

    let error = sandbox.execute(SandboxCommand::new("a", "first")).await.unwrap_err();
    assert_eq!(error.message(), "refused by policy: first says no");
    assert_eq!(std::mem::take(&mut *asked.lock().unwrap()), ["first"]);
    assert_eq!(ledger.one()["outcome"], "policy_denied");

    let error = sandbox.execute(SandboxCommand::new("a", "a\0b")).await.unwrap_err();
    assert_eq!(error.kind(), "policy_denied");
    assert!(asked.lock().unwrap().is_empty(), "the floor comes first");
    assert_eq!(ledger.one()["program"], "a\\u{0}b");

    sandbox.execute(command("a")).await.unwrap();
    ledger.one();
    asked.lock().unwrap().clear();
    let error = sandbox.execute(command("a")).await.unwrap_err();
    assert_eq!(error.kind(), "rate_limited");
    assert!(asked.lock().unwrap().is_empty(), "the rate limit comes before the host's hooks");
    assert_eq!(ledger.one()["outcome"], "rate_limited");
    sandbox.execute(command("b")).await.unwrap();
    assert_eq!(world.driver.count(), 3);
}

#[tokio::test]
async fn a_cwd_outside_the_workspace_is_denied() {
    let (world, ledger) = (World::new(), Ledger::listen());
    let mut outside = command("a");
    outside.cwd = Some("/".into());
    let error = sandbox(&world).execute(outside).await.unwrap_err();
    assert_eq!(error.kind(), "capability_denied");
    assert!(error.message().contains("cwd outside workspace root"), "{}", error.message());
    assert_eq!(ledger.one()["outcome"], "capability_denied");
    assert_eq!(world.driver.count(), 0);
}

#[tokio::test]
async fn what_cannot_be_enforced_is_refused() {
    let (world, ledger) = (World::new(), Ledger::listen());
    let mut limited = command("a");
    limited.capabilities.max_memory_mb = Some(64);
    let error = sandbox(&world).execute(limited).await.unwrap_err();
    assert_eq!(error.kind(), "unsupported_policy");
    assert_eq!(ledger.one()["outcome"], "unsupported_policy");
    assert_eq!(world.driver.count(), 0);
}

#[tokio::test]
async fn every_error_of_the_driver_has_its_kind_and_one_record() {
    let (world, ledger) = (World::new(), Ledger::listen());
    let sandbox = sandbox(&world);
    let denied = || io::Error::from_raw_os_error(13);
    let partial = || Box::new(DriverOutput { stdout: b"half".to_vec(), ..DriverOutput::default() });
    let launch = DriverError::Launch {
        step: Step::Mounts,
        subject: Some("/x".into()),
        source: denied(),
        hint: Some("do this".into()),
        layers: LayerReport::new(),
    };
    let cases: Vec<(DriverError, &str, Option<Step>, u8)> = vec![
        (launch, "launch", Some(Step::Mounts), 125),
        (DriverError::NotFound("x".into()), "not_found", Some(Step::Exec), 127),
        (
            DriverError::NotExecutable { program: "x".into(), source: denied() },
            "not_executable",
            Some(Step::Exec),
            126,
        ),
        (DriverError::Timeout { output: partial() }, "timeout", None, 124),
        (DriverError::Violation { reason: "lost".into(), output: partial() }, "violation", None, 125),
        (DriverError::Cancelled, "io", None, 125),
        (
            DriverError::Unsupported { platform: "p", feature: "f", reason: "r".into() },
            "unsupported_policy",
            None,
            125,
        ),
        (DriverError::Io { action: "poll", source: denied() }, "io", None, 125),
    ];
    for (error, kind, step, code) in cases {
        world.driver.reply(Reply::Error(error));
        let error = sandbox.execute(command("a")).await.unwrap_err();
        assert_eq!((error.kind(), error.step(), error.exit_code()), (kind, step, code));
        let record = ledger.one();
        assert_eq!(record["outcome"], kind);
        assert_eq!(record["error"], error.message());
        assert!(!error.message().contains('\n'));
        if let SandboxError::Timeout { output } | SandboxError::Violation { output, .. } = &error {
            assert_eq!(output.stdout, b"half");
            assert_eq!(record["stdout_bytes"], "4");
        }
        if kind == "launch" {
            assert_eq!(error.hint().unwrap(), "do this");
            assert_eq!(
                error.message(),
                "cannot launch the box: step mounts failed on /x: Permission denied (os error 13)"
            );
        }
    }
}

#[tokio::test]
async fn what_was_connected_to_is_in_the_record() {
    let (world, ledger) = (World::new(), Ledger::listen());
    let sandbox = sandbox(&world);
    sandbox.execute(command("a")).await.unwrap();
    assert!(!ledger.one().contains_key("connections"), "nothing was connected to");
    let connection = Connection {
        host: "a.test".to_owned(),
        port: Some(443),
        allowed: true,
        rule: "allowed".to_owned(),
        detail: Some("*.test".to_owned()),
        address: None,
        count: 2,
        sent: 10,
        received: 20,
        duration_ms: 7,
    };
    let connections = Connections { list: vec![connection], omitted: 3 };
    world.driver.reply(Reply::Output(DriverOutput {
        exit_code: Some(0),
        connections: connections.clone(),
        ..DriverOutput::default()
    }));
    let output = sandbox.execute(command("a")).await.unwrap();
    assert_eq!(output.connections, connections);
    let record: serde_json::Value = serde_json::from_str(&ledger.one()["connections"]).unwrap();
    assert_eq!(record["omitted"], 3);
    let one = &record["list"][0];
    assert_eq!(
        (&one["host"], &one["port"], &one["rule"]),
        (&"a.test".into(), &443.into(), &"allowed".into())
    );
    assert_eq!((&one["count"], &one["sent"], &one["received"]), (&2.into(), &10.into(), &20.into()));
}

#[tokio::test]
async fn output_passes_the_floor_and_is_searched_for_denials_only_if_captured() {
    let mut world = World::new();
    world.config.output = OutputFloor::all();
    let sandbox = sandbox(&world);
    let stderr =
        format!("touch: cannot touch '/etc/x': Read-only file system\nghp_{}\n", "a".repeat(36)).into_bytes();
    let failed = || DriverOutput { exit_code: Some(1), stderr: stderr.clone(), ..DriverOutput::default() };
    for (stdio, guesses) in [(Stdio::Capture, 1), (Stdio::Inherit, 0)] {
        world.driver.reply(Reply::Output(failed()));
        let output = sandbox.execute(SandboxCommand { stdio, ..command("a") }).await.unwrap();
        assert!(output.stderr.ends_with(b"[redacted: GitHub token]\n"));
        assert_eq!(output.denials.len(), guesses, "{stdio:?}");
    }
    let known = Denial {
        kind: DenialKind::Write,
        target: "/etc/x".into(),
        allow_with: None,
        source: DenialSource::Landlock,
        certain: true,
    };
    world.driver.reply(Reply::Output(DriverOutput { denials: vec![known.clone()], ..failed() }));
    assert_eq!(
        sandbox.execute(command("a")).await.unwrap().denials,
        [known],
        "what is certain needs no guess"
    );
    world.driver.reply(Reply::Output(DriverOutput { exit_code: Some(0), ..failed() }));
    assert!(sandbox.execute(command("a")).await.unwrap().denials.is_empty(), "nothing failed");
    world.driver.reply(Reply::Error(DriverError::Timeout { output: Box::new(failed()) }));
    let error = sandbox.execute(command("a")).await.unwrap_err();
    assert!(error.output().unwrap().stderr.ends_with(b"[redacted: GitHub token]\n"));
}

#[tokio::test]
async fn a_signal_is_no_exit_status() {
    let (world, ledger) = (World::new(), Ledger::listen());
    world.driver.reply(Reply::Output(DriverOutput { signal: Some(9), ..DriverOutput::default() }));
    let output = sandbox(&world).execute(command("a")).await.unwrap();
    assert_eq!((output.exit_code, output.signal), (None, Some(9)));
    let record = ledger.one();
    assert_eq!((record["outcome"].as_str(), record["signal"].as_str()), ("signalled", "9"));
    assert!(!record.contains_key("exit_code"));
}

#[tokio::test]
async fn a_dropped_run_is_ended_and_audited_once() {
    let (world, ledger) = (World::new(), Ledger::listen());
    world.driver.reply(Reply::Hang);
    let sandbox = sandbox(&world);
    tokio::select! {
        result = sandbox.execute(command("a")) => panic!("{result:?}"),
        () = world.driver.began.notified() => {}
    }
    assert!(world.driver.dropped.load(std::sync::atomic::Ordering::SeqCst));
    let record = ledger.one();
    assert_eq!((record["outcome"].as_str(), record["decision"].as_str()), ("cancelled", "baseline"));
}

#[tokio::test]
async fn a_dropped_question_is_audited_once() {
    let (world, ledger) = (World::new(), Ledger::listen());
    let requester = FakeRequester::silent();
    let sandbox = asking(&world, &requester);
    tokio::select! {
        result = sandbox.execute(command("a").capabilities(network())) => panic!("{result:?}"),
        () = requester.began.notified() => {}
    }
    let record = ledger.one();
    assert_eq!(record["outcome"], "cancelled");
    assert!(!record.contains_key("decision"));
    assert_eq!(world.driver.count(), 0);
}

#[tokio::test]
async fn a_switched_off_sandbox_runs_nothing() {
    let (mut world, ledger) = (World::new(), Ledger::listen());
    world.config.enabled = false;
    let sandbox = build_sandbox(world.config.clone(), world.parts()).unwrap();
    let error = sandbox.execute(command("a")).await.unwrap_err();
    assert_eq!((error.kind(), error.to_string().as_str()), ("disabled", "sandbox disabled"));
    assert_eq!(ledger.one()["outcome"], "disabled");
    assert_eq!(world.driver.count(), 0);
    assert!(!world.config.home.exists(), "nothing is created");
}

#[tokio::test]
async fn sessions_have_workspaces_of_their_own_or_of_the_hosts_choice() {
    let world = World::new();
    let sandbox = sandbox(&world);
    let chosen = world.dir.path().join("project");
    std::fs::create_dir(&chosen).unwrap();
    let start = SessionStart { directory: Some(chosen.clone()), ..SessionStart::default() };
    assert_eq!(sandbox.start_session(&"c".into(), start).unwrap(), chosen.canonicalize().unwrap());
    for session in ["a", "b", "c"] {
        sandbox.execute(command(session)).await.unwrap();
    }
    let runs = world.driver.runs.lock().unwrap();
    let roots: Vec<_> = runs.iter().map(|run| run.policy.workspace.path.clone()).collect();
    assert!(roots[0] != roots[1]);
    assert_eq!(roots[2], chosen.canonicalize().unwrap());
}

#[tokio::test]
async fn an_ended_session_keeps_no_grant() {
    let world = World::new();
    let requester = FakeRequester::new(ApprovalOutcome::Approved);
    let sandbox = asking(&world, &requester);
    sandbox.execute(command("a").capabilities(network())).await.unwrap();
    sandbox.end_session(&"a".into());
    sandbox.execute(command("a").capabilities(network())).await.unwrap();
    assert_eq!(requester.count(), 2);
}

#[tokio::test]
async fn a_commands_variables_beat_the_sessions() {
    let mut world = World::new();
    let options = RunOptions { env: ["A=1", "B=2"].map(OsString::from).to_vec(), ..RunOptions::default() };
    world.config.session =
        Some(SessionSettings::resolve(&world.config, &world.host, world.dir.path(), &options).unwrap());
    let mut own = command("a");
    own.env.push(("B".into(), "3".into()));
    sandbox(&world).execute(own).await.unwrap();
    let pair = |name: &str, value: &str| (OsString::from(name), OsString::from(value));
    assert_eq!(
        world.driver.runs.lock().unwrap()[0].command.env,
        [pair("A", "1"), pair("B", "2"), pair("B", "3")]
    );
}

#[test]
fn an_explanation_asks_nobody_and_runs_nothing() {
    let (world, ledger) = (World::new(), Ledger::listen());
    let requester = FakeRequester::new(ApprovalOutcome::Denied);
    let explanation = asking(&world, &requester).explain(command("a").capabilities(network())).unwrap();
    assert_eq!(explanation.beyond, ["the host's whole network"]);
    assert_eq!(explanation.backend, "linux/fake");
    assert_eq!(explanation.policy.network, ringfence_types::Network::AllowAll);
    assert_eq!((requester.count(), world.driver.count()), (0, 0));
    assert!(ledger.is_empty());
}

#[test]
fn the_pipeline_needs_no_runtime() {
    let (world, ledger) = (World::new(), Ledger::listen());
    let requester = FakeRequester::new(ApprovalOutcome::Approved);
    let sandbox = asking(&world, &requester);
    let driver: &FakeDriver = &world.driver;
    let run = |approved| match driver.take(approved) {
        Reply::Output(output) => Ok(output),
        Reply::Error(error) => Err(error),
        Reply::Hang => panic!("nothing hangs here"),
    };
    let output = sandbox.run_blocking(command("a").capabilities(network()), run).unwrap();
    assert_eq!(output.exit_code, Some(0));
    assert_eq!(ledger.one()["decision"], "approved");

    driver.reply(Reply::Error(DriverError::NotFound("x".into())));
    assert_eq!(sandbox.run_blocking(command("a"), run).unwrap_err().exit_code(), 127);
    assert_eq!(ledger.one()["outcome"], "not_found");

    // The asynchronous entry on an executor that isn't tokio's: nothing waits, so one poll is enough.
    let mut future = std::pin::pin!(sandbox.execute(command("a")));
    let mut context = Context::from_waker(Waker::noop());
    assert!(future.as_mut().poll(&mut context).is_ready());
    ledger.one();
}

#[test]
fn any_number_of_threads_share_one_sandbox() {
    for threads in [1, 4] {
        let world = World::new();
        let sandbox: Arc<dyn Sandbox> = build_sandbox(world.config.clone(), world.parts()).unwrap();
        let mut builder = match threads {
            1 => tokio::runtime::Builder::new_current_thread(),
            _ => tokio::runtime::Builder::new_multi_thread(),
        };
        let runtime = builder.worker_threads(threads).build().unwrap();
        runtime.block_on(async {
            let tasks: Vec<_> = (0..32)
                .map(|number| {
                    let sandbox = Arc::clone(&sandbox);
                    tokio::spawn(async move { sandbox.execute(command(&format!("s{}", number % 5))).await })
                })
                .collect();
            for task in tasks {
                task.await.unwrap().unwrap();
            }
        });
        assert_eq!(world.driver.count(), 32);
    }
}

#[tokio::test]
async fn the_session_is_known_inside_its_scope_only() {
    assert_eq!(current_session(), None);
    let (inside, plain, taken) = invoke_with_session_trace(SessionId::new("s"), async {
        let plain = tokio::spawn(async { current_session() }).await.unwrap();
        let taken = spawn_in_session(async { current_session() }).await.unwrap();
        (current_session(), plain, taken)
    })
    .await;
    assert_eq!(inside, Some("s".into()));
    assert_eq!(plain, None, "a plain spawn leaves the scope");
    assert_eq!(taken, Some("s".into()));
    assert_eq!(spawn_in_session(async { current_session() }).await.unwrap(), None);
}

#[tokio::test]
async fn a_mock_records_commands_and_returns_what_was_prepared() {
    let mock = Arc::new(MockSandbox::new());
    mock.reply(Err(SandboxError::Disabled));
    let sandbox: Arc<dyn Sandbox> = mock.clone();
    assert!(matches!(sandbox.execute(command("a")).await, Err(SandboxError::Disabled)));
    assert_eq!(sandbox.execute(command("b")).await.unwrap().exit_code, Some(0));
    let sessions: Vec<_> =
        mock.take_commands().iter().map(|command| command.session_id.to_string()).collect();
    assert_eq!(sessions, ["a", "b"]);
    assert!(mock.take_commands().is_empty());
}
