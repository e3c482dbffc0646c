use std::collections::HashSet;
use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use ringfence_types::{Excess, SandboxCommand};

use super::ApprovalOutcome;

/// Refusals in a row that open the breaker.
const THRESHOLD: u32 = 3;
/// How long it stays open before one question is let through.
const COOLDOWN: Duration = Duration::from_secs(300);

/// What a refusal is remembered by: the program, however it is spelled, and what was asked for. Arguments don't
/// count, or a model could ask again by adding a space.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fingerprint {
    program: OsString,
    excess: Vec<Excess>,
}

impl Fingerprint {
    pub(crate) fn new(command: &SandboxCommand, excess: &[Excess]) -> Self {
        let program = Path::new(&command.program).file_name().unwrap_or(&command.program);
        Self { program: program.to_owned(), excess: excess.to_vec() }
    }
}

/// What has been refused in one session. Only answers of somebody who refused count: nobody's silence does.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    refused: HashSet<Fingerprint>,
    in_a_row: u32,
    open_until: Option<Instant>,
    probing: bool,
}

/// Leave to ask one question; to be given back with [`Refusals::settle`].
#[derive(Debug)]
#[must_use]
pub(crate) struct Admission {
    probe: bool,
}

impl Refusals {
    /// Whether this has been refused before.
    pub(crate) fn remembers(&self, fingerprint: &Fingerprint) -> bool {
        self.refused.contains(fingerprint)
    }

    /// How long the breaker stays open.
    pub(crate) fn paused(&self, now: Instant) -> Option<Duration> {
        let left = self.open_until?.saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }

    /// Leave to ask, or how long the breaker stays open. When it has been open long enough, one question is let
    /// through to see whether the answers have changed.
    pub(crate) fn admit(&mut self, now: Instant) -> Result<Admission, Duration> {
        if self.open_until.is_none() {
            return Ok(Admission { probe: false });
        }
        if let Some(left) = self.paused(now) {
            return Err(left);
        }
        if self.probing {
            return Err(COOLDOWN);
        }
        self.probing = true;
        Ok(Admission { probe: true })
    }

    /// Takes note of how a question ended; `None` if it was abandoned.
    pub(crate) fn settle(
        &mut self,
        admission: &Admission,
        fingerprint: &Fingerprint,
        outcome: Option<ApprovalOutcome>,
        now: Instant,
    ) {
        if admission.probe {
            self.probing = false;
        }
        match outcome {
            Some(ApprovalOutcome::Denied) => {
                self.refused.insert(fingerprint.clone());
                self.in_a_row = self.in_a_row.saturating_add(1);
                if self.in_a_row >= THRESHOLD {
                    self.open_until = now.checked_add(COOLDOWN);
                }
            }
            Some(outcome) if outcome.is_approved() => {
                self.in_a_row = 0;
                self.open_until = None;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprint(program: &str) -> Fingerprint {
        Fingerprint::new(&SandboxCommand::new("s", program), &[Excess::Spawn])
    }

    fn ask(refusals: &mut Refusals, program: &str, outcome: ApprovalOutcome, now: Instant) -> bool {
        let Ok(admission) = refusals.admit(now) else { return false };
        refusals.settle(&admission, &fingerprint(program), Some(outcome), now);
        true
    }

    #[test]
    fn a_refusal_is_remembered_by_program_and_request() {
        let mut refusals = Refusals::default();
        assert!(ask(&mut refusals, "/usr/bin/curl", ApprovalOutcome::Denied, Instant::now()));
        assert!(refusals.remembers(&fingerprint("curl")), "however the program is spelled");
        assert!(!refusals.remembers(&fingerprint("wget")));
        let other = Fingerprint::new(&SandboxCommand::new("s", "curl"), &[Excess::AllNetwork]);
        assert!(!refusals.remembers(&other));
    }

    #[test]
    fn three_in_a_row_open_the_breaker_and_a_probe_may_close_it() {
        let (mut refusals, start) = (Refusals::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        for program in ["a", "b", "c"] {
            assert!(ask(&mut refusals, program, ApprovalOutcome::Denied, start));
        }
        assert_eq!(refusals.admit(at(100)).unwrap_err(), Duration::from_secs(200));

        let probe = refusals.admit(at(300)).unwrap();
        assert!(refusals.admit(at(300)).is_err(), "one probe at a time");
        refusals.settle(&probe, &fingerprint("d"), Some(ApprovalOutcome::Denied), at(310));
        assert_eq!(refusals.admit(at(310)).unwrap_err(), COOLDOWN, "a refused probe opens it again");

        assert!(ask(&mut refusals, "e", ApprovalOutcome::ApprovedOnce, at(610)));
        for program in ["f", "g"] {
            assert!(ask(&mut refusals, program, ApprovalOutcome::Denied, at(610)), "the count starts anew");
        }
        assert!(refusals.remembers(&fingerprint("a")), "an approval forgives nothing");
    }

    #[test]
    fn silence_is_not_counted_and_returns_the_probe() {
        let (mut refusals, now) = (Refusals::default(), Instant::now());
        for _ in 0..2 {
            assert!(ask(&mut refusals, "a", ApprovalOutcome::Denied, now));
        }
        for outcome in [ApprovalOutcome::Timeout, ApprovalOutcome::Unavailable] {
            for _ in 0..5 {
                assert!(ask(&mut refusals, "b", outcome, now));
            }
        }
        assert!(!refusals.remembers(&fingerprint("b")));
        assert!(ask(&mut refusals, "c", ApprovalOutcome::Denied, now), "the third in a row");
        assert!(!ask(&mut refusals, "d", ApprovalOutcome::Denied, now));

        let later = now + COOLDOWN;
        assert!(ask(&mut refusals, "d", ApprovalOutcome::Timeout, later));
        let abandoned = refusals.admit(later).unwrap();
        refusals.settle(&abandoned, &fingerprint("d"), None, later);
        assert!(ask(&mut refusals, "d", ApprovalOutcome::Approved, later));
    }
}
