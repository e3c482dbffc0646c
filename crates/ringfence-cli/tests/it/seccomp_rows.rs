//! Every row of the seccomp table is sent to the kernel from inside the box: under the same table with an error of
//! its own for each row, and under the filter that the box installed itself.

use ringfence_plan::linux::seccomp::{
    Action, Arch, Filter, FilterPolicy, Probe, SocketGate, compile, compile_marked, probes,
};
use ringfence_testkit::{Fixture, needs};
use serde_json::{Value, json};

use crate::support::{as_each_caller, binaries};

const ARCH: Arch = if cfg!(target_arch = "x86_64") { Arch::X86_64 } else { Arch::Aarch64 };

/// Runs of the box and the filter that each must have.
const BOXES: &[(&[&str], FilterPolicy)] = &[
    (&[], DEFAULT),
    (&["--no-spawn"], FilterPolicy { spawn: false, ..DEFAULT }),
    (&["--mode", "strict", "--read", "{probe}"], STRICT),
    (&["--net", "all"], FilterPolicy { gate: SocketGate::Unrestricted, ..DEFAULT }),
    (&["--allow-host", "a.test"], FilterPolicy { gate: SocketGate::ProxyRouted, ..DEFAULT }),
    (&["--config", "{host}/nested.toml"], FilterPolicy { nested_userns: true, ..DEFAULT }),
    (&["--config", "{host}/i386.toml"], FilterPolicy { allow_i386: true, ..DEFAULT }),
];

const DEFAULT: FilterPolicy =
    FilterPolicy { gate: SocketGate::LoopbackOnly, spawn: true, nested_userns: false, allow_i386: false };
const STRICT: FilterPolicy = FilterPolicy { gate: SocketGate::UnixOnly, spawn: false, ..DEFAULT };

fn configurations(fixture: &Fixture) {
    fixture.write("host/nested.toml", "[sandbox.linux]\nnested_userns = true\n");
    fixture.write("host/i386.toml", "[sandbox.linux]\nallow_i386 = true\n");
}

/// Sends the probes inside the box under a further filter, and returns their errors.
#[track_caller]
fn send(fixture: &Fixture, flags: &[&str], filter: Value, probes: &[Probe]) -> Vec<u16> {
    let request = json!({ "filter": filter, "calls": probes });
    let run = fixture.probe_inside(flags, &["calls-from-stdin"]).stdin(request.to_string());
    let answer = run.finish().code_is(0).allowed();
    let errors: Vec<u16> = serde_json::from_value(answer).expect("a list of errors");
    assert_eq!(errors.len(), probes.len());
    errors
}

#[test]
fn every_row_of_the_table_answers() {
    needs!(binaries(); "i386");
    as_each_caller(|fixture| {
        configurations(fixture);
        let mut sent = 0;
        for (flags, policy) in BOXES {
            let program = compile_marked(ARCH, policy).expect("a filter");
            let probes = probes(ARCH, policy);
            let errors = send(fixture, flags, json!(program.instructions()), &probes);
            for (probe, error) in probes.iter().zip(errors) {
                assert!(probe.is_met_by(error), "{policy:?}: {probe:?} got {error}");
            }
            sent += probes.len();
        }
        println!("seccomp: {sent} calls sent under marked filters as {:?}", fixture.caller());
    });
}

#[test]
fn the_box_has_the_filter_of_its_policy() {
    needs!(binaries(); "i386");
    as_each_caller(|fixture| {
        configurations(fixture);
        for (flags, policy) in BOXES {
            let program = compile(ARCH, policy).expect("a filter");
            assert_eq!(program.filter(), Filter::Command(*policy));
            let rows = program.rows();
            let refused: Vec<_> =
                probes(ARCH, policy).into_iter().filter(|probe| probe.expected.is_some()).collect();
            let errors = send(fixture, flags, Value::Null, &refused);
            for (probe, error) in refused.iter().zip(errors) {
                // Several rows may bear a call's name; one of their errors it must be.
                let own = rows.iter().filter(|row| row.call == probe.call);
                let met = own.into_iter().any(|row| match row.action {
                    Action::Fail(errno) => errno as u16 == error,
                    Action::Allow | Action::Kill => false,
                });
                assert!(met, "{policy:?}: {probe:?} got {error}");
            }
        }
    });
}

#[test]
fn a_wider_policy_shows_in_the_layers() {
    as_each_caller(|fixture| {
        configurations(fixture);
        for (file, word) in [("nested.toml", "namespaces"), ("i386.toml", "i386")] {
            let config = fixture.expand("{host}/") + file;
            let value =
                fixture.inside(&["--json", "--config", &config], &["true"]).finish().code_is(0).json();
            let layers = value["layers"].as_array().expect("layers");
            let seccomp = layers.iter().find(|layer| layer["name"] == "seccomp").expect("seccomp");
            assert!(seccomp["detail"].as_str().is_some_and(|text| text.contains(word)), "{file}: {seccomp}");
        }
    });
}
