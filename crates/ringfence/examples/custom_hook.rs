//! A check of the host's own: every command passes it after the command policy and the rate limit.
//!
//! ```sh
//! cargo run -p ringfence --example custom_hook
//! ```

#![allow(clippy::print_stdout, reason = "an example shows its result")]

use std::error::Error;

use async_trait::async_trait;
use ringfence::{
    HookContext, HookDecision, HostEnv, SandboxBeforeHook, SandboxCommand, SandboxConfig, SandboxParts,
    build_sandbox,
};

/// Lets a session run only the programs on a list. A convenience, not a boundary: what a program starts is not
/// seen here.
struct Programs(&'static [&'static str]);

#[async_trait]
impl SandboxBeforeHook for Programs {
    fn name(&self) -> &'static str {
        "programs"
    }

    async fn before(&self, ctx: &HookContext<'_>) -> HookDecision {
        let program = &ctx.command().program;
        if self.0.iter().any(|allowed| program == allowed) {
            HookDecision::Allow
        } else {
            HookDecision::Deny { reason: format!("{} is not on the list of programs", program.display()) }
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    ringfence::init();
    tokio::runtime::Runtime::new()?.block_on(run())
}

async fn run() -> Result<(), Box<dyn Error>> {
    let config = SandboxConfig::new(HostEnv::current().ringfence_home()?);
    let hooks: Vec<Box<dyn SandboxBeforeHook>> = vec![Box::new(Programs(&["uname", "ls"]))];
    let sandbox = build_sandbox(config, SandboxParts { hooks, ..SandboxParts::default() })?;

    for program in ["uname", "curl"] {
        match sandbox.execute(SandboxCommand::new("example", program)).await {
            Ok(output) => println!("{program}: {}", String::from_utf8_lossy(&output.stdout).trim_end()),
            Err(error) => println!("{program}: {}", error.message()),
        }
    }
    Ok(())
}
