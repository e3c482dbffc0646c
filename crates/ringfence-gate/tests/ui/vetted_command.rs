//! A vetted command comes from the hook chain alone.
use ringfence_policy::VettedCommand;
use ringfence_types::SandboxCommand;

fn main() {
    let _ = VettedCommand { command: SandboxCommand::new("session", "true") };
}
