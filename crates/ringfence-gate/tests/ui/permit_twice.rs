//! A permit makes one run.
use ringfence_gate::Permit;
use ringfence_plan::HostFacts;

fn plan(permit: Permit, facts: &HostFacts) {
    let _ = permit.plan(facts);
    let _ = permit.plan(facts);
}

fn main() {}
