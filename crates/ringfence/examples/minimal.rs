//! Runs one command in a box with the strict preset: no network, no home directory, nothing to write but the
//! session's own workspace.
//!
//! ```sh
//! cargo run -p ringfence --example minimal
//! ```

#![allow(clippy::print_stdout, reason = "an example shows its result")]

use std::error::Error;

use ringfence::{HostEnv, SandboxCommand, SandboxConfig, SandboxParts, build_sandbox};

fn main() -> Result<(), Box<dyn Error>> {
    // Lets this binary serve as the launcher of its own boxes. Before any thread is started.
    ringfence::init();
    tokio::runtime::Runtime::new()?.block_on(run())
}

async fn run() -> Result<(), Box<dyn Error>> {
    let config = SandboxConfig::new(HostEnv::current().ringfence_home()?);
    let sandbox = build_sandbox(config, SandboxParts::default())?;

    let command = SandboxCommand::new("example", "ls").args(["-la", "/"]);
    let output = sandbox.execute(command).await?;
    println!("{}", String::from_utf8_lossy(&output.stdout));
    for layer in output.layers.iter() {
        println!("{}: {}", layer.name, layer.status.as_str());
    }
    Ok(())
}
