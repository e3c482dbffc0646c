//! The escape table: each way out is tried inside the box by the probe and must be closed, and the same act must
//! work outside, or the refusal would prove nothing. Every row runs as root and as an unprivileged user, in a
//! fixture of its own, and must leave the host's side as it was.

mod descriptors;
mod files;
mod git;
mod kernel;
mod namespaces;
mod network;
mod processes;
mod row;
mod secrets;
mod state;

use std::collections::HashSet;

use ringfence_testkit::{Caller, Finished, Fixture, Invocation, Listing};

use self::row::{Closed, Control, Row, Setup};
use crate::support::{binaries, has_box};

/// What a secret file holds.
const SECRET: &str = "the-secret-marker";

const TABLES: &[(&str, &[Row])] = &[
    ("files", files::ROWS),
    ("secrets", secrets::ROWS),
    ("descriptors", descriptors::ROWS),
    ("processes", processes::ROWS),
    ("namespaces", namespaces::ROWS),
    ("kernel", kernel::ROWS),
    ("network", network::ROWS),
    ("git", git::ROWS),
    ("state", state::ROWS),
];

/// The table is at least this long.
const LEAST: usize = 120;

#[test]
fn table_is_complete_and_its_names_are_unique() {
    let names: Vec<_> = TABLES.iter().flat_map(|(_, rows)| rows.iter().map(|row| row.name)).collect();
    let unique: HashSet<_> = names.iter().collect();
    assert_eq!(unique.len(), names.len());
    assert!(names.len() >= LEAST, "{} rows", names.len());
    println!("escape table: {} ways out", names.len());
}

macro_rules! tables {
    ($($name:ident)*) => { $(
        #[test]
        fn $name() {
            run_table(stringify!($name));
        }
    )* };
}
tables! { files secrets descriptors processes namespaces kernel network git state }

fn run_table(name: &str) {
    if !has_box() {
        return;
    }
    let rows = TABLES.iter().find(|(table, _)| *table == name).expect("a table of that name").1;
    let mut tally = Tally::default();
    for caller in Caller::all() {
        for row in rows {
            tally.count(row, caller, run_row(row, caller));
        }
    }
    println!("{name}: {} rows, {} closed, {} skipped", rows.len(), tally.closed, tally.skipped.len());
    for reason in &tally.skipped {
        println!("SKIP: {reason}");
    }
    assert!(tally.open.is_empty(), "{} open:\n{}", tally.open.len(), tally.open.join("\n"));
}

#[derive(Default)]
struct Tally {
    closed: usize,
    skipped: Vec<String>,
    open: Vec<String>,
}

impl Tally {
    fn count(&mut self, row: &Row, caller: Caller, verdict: Verdict) {
        let label = format!("{} (spec {}) as {caller:?}", row.name, row.spec);
        match verdict {
            Verdict::Closed => self.closed += 1,
            Verdict::Moot(why) => self.skipped.push(format!("{label}: {why}")),
            Verdict::Open(why) => self.open.push(format!("- {label}: {why}")),
        }
    }
}

enum Verdict {
    Closed,
    /// There is nothing to attack here, or no proof to be had.
    Moot(String),
    Open(String),
}

fn run_row(row: &Row, caller: Caller) -> Verdict {
    if row.only.is_some_and(|only| only != caller) {
        return Verdict::Moot(format!("only for {:?}", row.only));
    }
    if let Some(why) = control_fails(row, caller) {
        return why;
    }
    let fixture = Fixture::new(binaries(), caller);
    let setup = (row.setup)(&fixture);
    let before = [Listing::of(&fixture.host()), Listing::of(&fixture.home())];
    let run = fixture.ringfence(["run", "--workspace"]).arg(fixture.ws());
    let flags = words(&fixture, &setup, row.flags);
    let act = words(&fixture, &setup, row.act);
    let run = run.args(flags).arg("--").arg(&binaries().probe).args(act);
    let finished = start(row, &fixture, &setup, run).finish();
    if let Some(why) = not_closed(row, &finished) {
        return Verdict::Open(format!("{why}: {}", finished.report()));
    }
    let after = [Listing::of(&fixture.host()), Listing::of(&fixture.home())];
    let changes: Vec<_> =
        before.iter().zip(&after).flat_map(|(before, after)| after.changes(before)).collect();
    if changes.is_empty() { Verdict::Closed } else { Verdict::Open(format!("the host changed: {changes:?}")) }
}

/// Runs the proof. `None` if it holds.
fn control_fails(row: &Row, caller: Caller) -> Option<Verdict> {
    let caller = if row.control_as_root { Caller::Root } else { caller };
    if !Caller::all().contains(&caller) {
        return Some(Verdict::Moot("its control needs root".to_owned()));
    }
    let fixture = Fixture::new(binaries(), caller);
    let setup = (row.setup)(&fixture);
    if let Some(why) = setup.moot {
        return Some(Verdict::Moot(why.to_owned()));
    }
    let path = row.exists.map(|path| words(&fixture, &setup, &[path]).remove(0));
    if let Some(path) = path.filter(|path| std::fs::symlink_metadata(path).is_err()) {
        return Some(Verdict::Moot(format!("this machine has no {path:?}")));
    }
    let act = if let Control::Act(act) = row.control { act } else { row.act };
    let run = fixture.outside(&binaries().probe).args(words(&fixture, &setup, act));
    let finished = start(row, &fixture, &setup, run).finish();
    let holds = match row.control {
        Control::Works | Control::Act(_) if finished.probed().is_none_or(|probed| !probed.allowed) => false,
        Control::Act(_) => true,
        Control::Works | Control::Differs => not_closed(row, &finished).is_some(),
    };
    if holds {
        return None;
    }
    if row.kernel_may_lack_it && finished.probed().is_some() {
        return Some(Verdict::Moot("this kernel lacks what is attacked".to_owned()));
    }
    Some(Verdict::Open(format!("its control proves nothing: {}", finished.report())))
}

/// Why the answer does not count as closed.
fn not_closed(row: &Row, finished: &Finished) -> Option<String> {
    let probed = finished.probed();
    let closed = match (row.closed, &probed) {
        (Closed::Signal(signal), _) => finished.code == Some(128 + signal) || finished.signal == Some(signal),
        (_, None) => return Some("the probe did not answer".to_owned()),
        (Closed::Errno(expected), Some(probed)) => {
            !probed.allowed && probed.errno.is_some_and(|errno| expected.contains(&errno))
        }
        (Closed::Hidden, Some(probed)) => !probed.allowed || !probed.detail.to_string().contains(SECRET),
        (Closed::Empty, Some(probed)) => !probed.allowed || probed.detail == "",
        (Closed::State(holds), Some(probed)) => probed.allowed && holds(&probed.detail),
    };
    (!closed).then(|| "not closed".to_owned())
}

fn words(fixture: &Fixture, setup: &Setup, words: &[&str]) -> Vec<String> {
    let own = |word: &str| {
        setup.names.iter().fold(word.to_owned(), |word, (name, value)| word.replace(name, value))
    };
    words.iter().map(|word| fixture.expand(&own(word))).collect()
}

/// Puts the row's prefix and variables around a run.
fn start(row: &Row, fixture: &Fixture, setup: &Setup, run: Invocation) -> Invocation {
    let run = row.env.iter().fold(run, |run, (name, value)| run.env(name, value));
    let prefix = words(fixture, setup, row.prefix);
    let Some((program, rest)) = prefix.split_first() else { return run };
    let inner = run.into_command();
    let outer = fixture.outside(program).args(rest).arg(inner.get_program()).args(inner.get_args());
    row.env.iter().fold(outer, |outer, (name, value)| outer.env(name, value))
}
