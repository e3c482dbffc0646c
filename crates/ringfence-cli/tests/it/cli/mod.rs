//! Whole commands: exit status, standard output and standard error together. What is compared word by word starts
//! no box, so that the snapshots hold on every machine.

mod behaviour;
mod check;
mod config;
mod help;
mod proxy;
mod refused;

use ringfence_testkit::{Caller, Finished, Fixture, Invocation};

use crate::support::binaries;

fn fixture() -> Fixture {
    Fixture::new(binaries(), Caller::all()[0])
}

/// The whole of a command's outcome as one text.
fn outcome(fixture: &Fixture, command: Invocation) -> String {
    shown(fixture, &command.finish())
}

fn shown(fixture: &Fixture, finished: &Finished) -> String {
    let code = finished.code.map_or_else(|| "none".to_owned(), |code| code.to_string());
    let text = format!("exit: {code}\n--- stdout\n{}--- stderr\n{}", finished.out(), finished.err());
    fixture.redact(&text)
}

fn ringfence(words: &[&str]) -> String {
    let fixture = fixture();
    let words: Vec<_> = words.iter().map(|word| fixture.expand(word)).collect();
    outcome(&fixture, fixture.ringfence(words))
}
