//! A gate binds nothing that the hooks have not seen.
use ringfence_gate::Gate;
use ringfence_types::SandboxCommand;

fn bind(gate: &Gate) {
    let _ = gate.bind(SandboxCommand::new("session", "true"));
}

fn main() {}
