//! A permit comes from a gate alone.
use ringfence_gate::{BoundCommand, Decision, Permit};

fn forge(bound: BoundCommand) -> Permit {
    Permit { bound, decision: Decision::Baseline }
}

fn main() {}
