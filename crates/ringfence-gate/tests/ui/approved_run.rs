//! An approved run comes from a permit alone.
use ringfence_gate::ApprovedRun;
use ringfence_plan::LaunchPlan;
use ringfence_types::SandboxCommand;

fn forge(plan: LaunchPlan) -> ApprovedRun {
    ApprovedRun { command: SandboxCommand::new("session", "true"), plan }
}

fn main() {}
