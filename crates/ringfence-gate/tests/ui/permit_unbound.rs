//! A gate permits nothing that has no workspace.
use ringfence_gate::Gate;
use ringfence_policy::VettedCommand;

async fn permit(gate: &Gate, vetted: VettedCommand) {
    let _ = gate.permit(vetted).await;
}

fn main() {}
