//! A tool of an agent: it takes a script that a model wrote, runs it in the project's directory, and returns
//! what the model should read. The tool doesn't know its session; the host scopes it around the call.
//!
//! ```sh
//! cargo run -p ringfence --example agent_tool
//! ```

#![allow(clippy::print_stdout, reason = "an example shows its result")]

use std::error::Error;
use std::fmt::Write as _;
use std::time::Duration;

use ringfence::config::Sources;
use ringfence::profiles::ProfileChoice;
use ringfence::{
    HostEnv, Mode, OutputFloor, RunOptions, Sandbox, SandboxCapabilities, SandboxCommand, SandboxError,
    SandboxParts, SessionId, SessionSettings, SessionStart, Stdin, WorkspaceSandbox, current_session,
    invoke_with_session_trace,
};

struct ShellTool {
    sandbox: WorkspaceSandbox,
    capabilities: SandboxCapabilities,
}

impl ShellTool {
    async fn call(&self, script: &str) -> String {
        let Some(session) = current_session() else { return "error: no session".into() };
        let mut command =
            SandboxCommand::new(session, "sh").args(["-s"]).capabilities(self.capabilities.clone());
        command.tool_name = "shell".into();
        command.stdin = Stdin::Bytes(script.as_bytes().to_vec());
        command.timeout = Some(Duration::from_secs(20));
        match self.sandbox.execute(command).await {
            Ok(output) => {
                let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
                text.push_str(&String::from_utf8_lossy(&output.stderr));
                for denial in &output.denials {
                    let sure = if denial.certain { "was" } else { "may have been" };
                    let _ = writeln!(text, "note: {} {sure} refused by the sandbox", denial.target);
                }
                text
            }
            Err(SandboxError::Timeout { output }) => {
                format!("{}\nerror: timed out", String::from_utf8_lossy(&output.stdout))
            }
            Err(error) => format!("error: {}", error.message()),
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    ringfence::init();
    // The ways of a server: threads of its own, one task for each call.
    tokio::runtime::Runtime::new()?.block_on(run())
}

async fn run() -> Result<(), Box<dyn Error>> {
    let project = std::env::current_dir()?;
    let host = HostEnv::current();
    let mut config = Sources { host: &host, file: None, workspace: Some(&project) }.load()?.config;
    let options = RunOptions {
        mode: Some(Mode::WorkspaceWrite),
        profiles: vec![ProfileChoice::Auto],
        ..RunOptions::default()
    };
    let settings = SessionSettings::resolve(&config, &host, &project, &options)?;
    let capabilities = settings.policy.baseline.clone();
    config.session = Some(settings);
    config.output = OutputFloor::all();
    let sandbox = WorkspaceSandbox::new(&config, SandboxParts::default())?;

    let session = SessionId::new("conversation 1");
    let start = SessionStart { directory: Some(project), ..SessionStart::default() };
    sandbox.start_session(&session, start)?;
    let tool = ShellTool { sandbox, capabilities };

    for script in
        ["ls | head -n 3", "cat ~/.ssh/id_ed25519", "echo x > /etc/motd", "sleep 1 & wait; echo done"]
    {
        let answer = invoke_with_session_trace(session.clone(), tool.call(script)).await;
        println!("$ {script}\n{answer}");
    }
    Ok(())
}
