//! Asks before a command gets more than its session's baseline. Here everybody may read `/var/log`, and nobody
//! may do anything else; a real host would ask a person.
//!
//! ```sh
//! cargo run -p ringfence --example approval
//! ```

#![allow(clippy::print_stdout, reason = "an example shows its result")]

use std::error::Error;
use std::sync::Arc;

use async_trait::async_trait;
use ringfence::{
    ApprovalAction, ApprovalGate, ApprovalOutcome, ApprovalRequester, ApprovalResponse, Excess, HostEnv,
    SandboxCapabilities, SandboxCommand, SandboxConfig, SandboxParts, build_sandbox,
};

struct LogsOnly;

#[async_trait]
impl ApprovalRequester for LogsOnly {
    async fn request_approval(&self, a: &ApprovalAction) -> ApprovalResponse {
        for excess in &a.excess {
            println!("{} wants to {excess}", a.program.display());
        }
        let logs = |excess: &Excess| matches!(excess, Excess::Read(path) if path.to_string() == "/var/log");
        let outcome =
            if a.excess.iter().all(logs) { ApprovalOutcome::Approved } else { ApprovalOutcome::Denied };
        ApprovalResponse::new(outcome, "house rules")
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    ringfence::init();
    tokio::runtime::Runtime::new()?.block_on(run())
}

async fn run() -> Result<(), Box<dyn Error>> {
    let config = SandboxConfig::new(HostEnv::current().ringfence_home()?);
    let gate = ApprovalGate::new(Some(Arc::new(LogsOnly)));
    let sandbox = build_sandbox(config, SandboxParts { gate: Some(gate), ..SandboxParts::default() })?;

    for directory in ["/var/log", "/var/log", "/var/lib"] {
        let capabilities =
            SandboxCapabilities { fs_read: vec![directory.into()], ..SandboxCapabilities::strict() };
        let command = SandboxCommand::new("example", "ls").args([directory]).capabilities(capabilities);
        match sandbox.execute(command).await {
            Ok(output) => println!("{directory}: {} bytes", output.stdout.len()),
            Err(error) => println!("{directory}: {}", error.message()),
        }
    }
    Ok(())
}
