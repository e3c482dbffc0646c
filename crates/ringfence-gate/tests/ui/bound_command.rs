//! A bound command comes from a gate alone.
use ringfence_gate::BoundCommand;
use ringfence_types::SandboxCommand;

fn main() {
    let _ = BoundCommand { command: SandboxCommand::new("session", "true") };
}
