//! A caller whose session and process group were made outside of its PID namespace, as in a container whose
//! first process started none of its own: getsid(2), getpgrp(2) and tcgetpgrp(3) answer 0 there.

use ringfence_testkit::{Caller, Fixture, Invocation, Terminal, needs};

use crate::pty::{answer, modes, on_terminal};
use crate::support::{as_each_caller, binaries};

/// `program` as PID 1 of a new PID namespace, in the session of its caller. `/proc` stays that of the caller, so
/// that it says nothing about the ids inside.
fn in_foreign_session(fixture: &Fixture, program: Invocation) -> Invocation {
    let program = program.into_command();
    let mut words = vec!["--pid", "--fork"];
    if fixture.caller() == Caller::User {
        words.extend(["--user", "--map-current-user"]);
    }
    fixture.outside("unshare").args(words).arg("--").arg(program.get_program()).args(program.get_args())
}

fn terminal(fixture: &Fixture, argv: &[&str]) -> Terminal {
    on_terminal(fixture, in_foreign_session(fixture, fixture.inside(&[], argv)))
}

fn as_each_foreigner(test: impl Fn(&Fixture)) {
    needs!(binaries(); "unshare");
    as_each_caller(test);
}

#[test]
fn ids_of_the_session_are_0_there() {
    as_each_foreigner(|fixture| {
        let control = in_foreign_session(fixture, fixture.probe_outside(&["ids"]));
        let (status, shown) = on_terminal(fixture, control).wait();
        assert_eq!(status.code(), Some(0), "{shown}");
        let ids = answer(&shown);
        assert_eq!((&ids["pid"], &ids["sid"], &ids["pgid"]), (&1.into(), &0.into(), &0.into()), "{ids}");
    });
}

#[test]
fn the_program_has_a_terminal_of_its_own() {
    as_each_foreigner(|fixture| {
        let (status, shown) = terminal(fixture, &["{probe}", "terminal"]).wait();
        assert_eq!(status.code(), Some(0), "{shown}");
        let state = answer(&shown);
        assert_eq!(state["is_terminal"], serde_json::json!([true, true, true]), "{state}");
        assert!(state["foreground_group"].as_u64().is_some_and(|group| group > 0), "{state}");
    });
}

#[test]
fn the_terminal_is_relayed_and_given_back() {
    as_each_foreigner(|fixture| {
        fixture.write(
            "ws/inside.sh",
            "trap 'echo caught; exit 5' INT; trap 'stty size' WINCH; echo ready; read line; \
             echo \"got $line\"; while :; do sleep 0.02; done",
        );
        let outside = "before=$(stty -g); {ringfence} run --workspace {ws} -- bash inside.sh; status=$?; \
                       [ \"$before\" = \"$(stty -g)\" ] && echo same modes; exit $status";
        let shell = fixture.outside("bash").args(["-c", &fixture.expand(outside)]);
        let mut terminal = on_terminal(fixture, in_foreign_session(fixture, shell));
        let before = modes(&terminal.modes());
        terminal.expect("ready");
        assert_ne!(modes(&terminal.modes()), before, "the terminal is raw while the program has it");
        terminal.send("typed\n");
        terminal.expect("got typed");
        terminal.resize(51, 132);
        terminal.expect("51 132");
        terminal.send("\x03");
        terminal.expect("caught");
        terminal.expect("same modes");
        assert_eq!(terminal.wait().0.code(), Some(5));
    });
}

#[test]
fn a_script_there_runs_as_anywhere() {
    as_each_foreigner(|fixture| {
        let run = fixture.expand("{ringfence} run --workspace {ws} --");
        let script =
            format!("{run} sh -c 'exit 3'; echo status $?; echo text | {run} cat; {run} true </dev/null");
        let shell = fixture.outside("sh").args(["-c", &script]);
        let (status, shown) = on_terminal(fixture, in_foreign_session(fixture, shell)).wait();
        assert_eq!(status.code(), Some(0), "{shown}");
        assert!(shown.contains("status 3") && shown.contains("text"), "{shown}");
    });
}
