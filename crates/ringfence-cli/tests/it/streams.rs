//! Standard streams of every kind: pipes, files, closed ones, full ones, and captured ones within a budget.

use std::fs::File;

use ringfence_testkit::Fixture;
use serde_json::{Value, json};

use crate::support::as_each_caller;

/// A script that starts programs by `$RUN --` must print and end alike with the box and with `env` in its place.
#[track_caller]
fn same(fixture: &Fixture, script: &str) {
    let outside = fixture.shell_outside(&script.replace("$RUN", "env")).finish();
    let inside = fixture.shell_outside(script).finish();
    assert_eq!(
        (outside.code, outside.out()),
        (inside.code, inside.out()),
        "{script}\noutside: {}\ninside: {}",
        outside.report(),
        inside.report()
    );
}

#[test]
fn pipes_pass_through() {
    as_each_caller(|fixture| {
        for script in [
            "echo one | $RUN -- cat",
            "$RUN -- sh -c 'echo out; echo err >&2' 2>/dev/null",
            "$RUN -- sh -c 'echo out; echo err >&2' 2>&1 >/dev/null",
            "printf 'b\\na\\n' | $RUN -- sort | $RUN -- tr ab AB",
            "$RUN -- seq 1 100000 | tail -n 1",
            "yes | $RUN -- head -n 3",
            "$RUN -- true </dev/null",
        ] {
            same(fixture, script);
        }
    });
}

#[test]
fn a_reader_that_closes_ends_the_writer() {
    as_each_caller(|fixture| {
        let run = fixture.shell_outside("$RUN -- yes | head -n 1; echo ${PIPESTATUS[0]}");
        assert_eq!(run.finish().code_is(0).out(), "y\n141\n");
    });
}

#[test]
fn large_input_passes_whole() {
    as_each_caller(|fixture| {
        let input: Vec<u8> = (0..3_u32 << 20).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let finished = fixture.inside(&[], &["cat"]).stdin(input.clone()).finish().code_is(0);
        assert!(finished.stdout == input, "{} of {} bytes came back", finished.stdout.len(), input.len());
        let finished = fixture.inside(&[], &["wc", "-c"]).stdin(input.clone()).finish().code_is(0);
        assert_eq!(finished.out().trim(), input.len().to_string());
        let value =
            fixture.inside(&["--json"], &["wc", "-c"]).stdin(input.clone()).finish().code_is(0).json();
        assert_eq!(value["stdout"].as_str().map(str::trim), Some(input.len().to_string().as_str()));
        // A program that does not read its input is no error.
        fixture.inside(&[], &["true"]).stdin(input.clone()).finish().code_is(0);
        let value = fixture.inside(&["--json"], &["true"]).stdin(input).finish().code_is(0).json();
        assert_eq!(value["error"], Value::Null);
    });
}

#[test]
fn large_output_passes_whole() {
    as_each_caller(|fixture| {
        let finished = fixture.inside(&[], &["head", "-c", "8000000", "/dev/zero"]).finish().code_is(0);
        assert_eq!(finished.stdout.len(), 8_000_000);
        let script = "head -c 4000000 /dev/zero & head -c 4000000 /dev/zero >&2; wait";
        let finished = fixture.shell_inside(&[], script).finish().code_is(0);
        assert_eq!((finished.stdout.len(), finished.stderr.len()), (4_000_000, 4_000_000));
    });
}

/// Bytes that were kept of a stream, and the number that was dropped.
fn kept(value: &Value, stream: &str) -> (String, u64) {
    let text = value[stream].as_str().expect("text").to_owned();
    (text, value[format!("dropped_{stream}")].as_u64().expect("a number"))
}

const MIB: usize = 1 << 20;

#[test]
fn captured_output_keeps_head_and_tail_within_its_budget() {
    as_each_caller(|fixture| {
        let script = "echo HEAD; head -c 5000000 /dev/zero | tr '\\0' x; echo TAIL";
        let value = fixture.shell_inside(&["--json"], script).finish().code_is(0).json();
        let (text, dropped) = kept(&value, "stdout");
        assert!(text.starts_with("HEAD\n") && text.ends_with("TAIL\n"));
        assert!(text.len() <= MIB + 256 && text.len() > MIB / 2, "{}", text.len());
        assert!(dropped >= 5_000_010 - text.len() as u64 && dropped < 5_000_010, "{dropped}");
        assert_eq!(value["truncated"], json!(true));
        // What one stream leaves unused the other may take; both full get half each.
        assert!(text.len() > MIB * 9 / 10, "{}", text.len());
        let script =
            "(head -c 5000000 /dev/zero | tr '\\0' x) & (head -c 5000000 /dev/zero | tr '\\0' y) >&2; wait";
        let value = fixture.shell_inside(&["--json"], script).finish().code_is(0).json();
        for stream in ["stdout", "stderr"] {
            let (text, dropped) = kept(&value, stream);
            assert!(text.len() <= MIB / 2 + 256 && text.len() > MIB / 4, "{stream}: {}", text.len());
            assert!(dropped > 0);
        }
    });
}

#[test]
fn captured_output_is_cut_between_characters() {
    as_each_caller(|fixture| {
        let script = "for i in $(seq 1 300); do printf 'xé€😀%.0s' $(seq 1 50); done";
        for budget in ["4093", "4094", "4095", "4096", "4097"] {
            let value = fixture.shell_inside(&["--json", "--max-output", budget], script).finish().json();
            assert_eq!(value["stdout_encoding"], "utf-8", "budget {budget}");
            assert_eq!(value["truncated"], json!(true));
        }
        let value = fixture.shell_inside(&["--json"], "echo small").finish().json();
        assert_eq!((&value["truncated"], &value["dropped_stdout"]), (&json!(false), &json!(0)));
    });
}

#[test]
fn regular_files_serve_as_streams() {
    as_each_caller(|fixture| {
        fixture.write("host/in", "3\n1\n2\n");
        for mode in ["workspace-write", "strict"] {
            let script = format!(
                "$RUN --mode {mode} -- sort <$HOST/in >$HOST/out 2>$HOST/err; echo $?; cat $HOST/out"
            );
            let finished = fixture.shell_outside(&script).finish();
            assert_eq!(finished.out(), "0\n1\n2\n3\n", "{mode}: {}", fixture.read("host/err"));
            let script = format!(
                "echo first >$HOST/log; $RUN --mode {mode} -- echo second >>$HOST/log; cat $HOST/log"
            );
            assert_eq!(fixture.shell_outside(&script).finish().out(), "first\nsecond\n");
            let both = format!(
                "$RUN --mode {mode} -- bash -c 'echo a; echo b >&2; echo c' >$HOST/both 2>&1; cat $HOST/both"
            );
            assert_eq!(fixture.shell_outside(&both).finish().out(), "a\nb\nc\n");
            // Where the file was read to, the program goes on.
            let rest = format!("{{ read line; $RUN --mode {mode} -- cat; }} <$HOST/in");
            assert_eq!(fixture.shell_outside(&rest).finish().out(), "1\n2\n");
        }
        let file = File::options().append(true).open(fixture.host().join("log")).expect("the log");
        fixture.inside(&[], &["echo", "third"]).stream(1, file).finish().code_is(0);
        assert_eq!(fixture.read("host/log"), "first\nsecond\nthird\n");
    });
}

#[test]
fn a_private_file_of_the_callers_serves_as_stdin() {
    as_each_caller(|fixture| {
        // What the caller opened is given on purpose, also a file that the box could not open by name.
        fixture.write("home/.ssh/config", "given\n");
        let run = fixture.shell_outside("$RUN -- cat <$HOME/.ssh/config");
        assert_eq!(run.finish().code_is(0).out(), "given\n");
    });
}

#[test]
fn closed_streams_are_no_error() {
    as_each_caller(|fixture| {
        for script in
            ["$RUN -- true <&-", "$RUN -- true >&-", "$RUN -- true 2>&-", "$RUN -- true <&- >&- 2>&-"]
        {
            fixture.shell_outside(script).finish().code_is(0);
        }
        // No other descriptor takes the place of a closed one.
        let script = "$RUN -- $PROBE fds <&- 2>&-";
        let open = fixture.shell_outside(script).finish().code_is(0).allowed();
        for (fd, target) in open.as_object().expect("an object") {
            let target = target.as_str().unwrap_or_default();
            assert!(["0", "1", "2"].contains(&fd.as_str()), "{open}");
            assert!(target.starts_with("pipe:") || target == "/dev/null", "{open}");
        }
        let finished = fixture.shell_outside("$RUN -- cat <&-; echo $?").finish();
        assert!(["0\n", "1\n"].contains(&finished.out().as_str()), "{}", finished.report());
        let value = fixture.shell_outside("$RUN --json -- echo hi <&- 2>&-").finish().code_is(0).json();
        assert_eq!(value["stdout"], "hi\n");
    });
}

#[test]
fn full_streams_are_the_programs_affair() {
    as_each_caller(|fixture| {
        let finished = fixture.shell_outside("$RUN -- echo hi >/dev/full; echo $?").finish();
        assert_eq!(finished.out(), "1\n", "{}", finished.report());
        // Our own report that can't be written is our failure, said on stderr.
        let finished = fixture.shell_outside("$RUN --json -- echo hi >/dev/full").finish().code_is(125);
        assert!(
            finished.err().contains("standard output") && !finished.err().contains("panic"),
            "{}",
            finished.report()
        );
    });
}

#[test]
fn what_could_not_be_reported_is_not_run() {
    as_each_caller(|fixture| {
        let error = "ringfence: cannot write to standard output: bad file descriptor\n";
        for redirect in [">&-", "1</dev/null", ">&- <&-"] {
            let run = fixture.shell_outside(&format!("$RUN --json -- touch ran {redirect}"));
            let finished = run.finish().code_is(125);
            assert_eq!(finished.err(), error, "{redirect}");
            assert!(!fixture.exists("ws/ran"), "{redirect}");
        }
        fixture.shell_outside("$RUN --json -- touch ran >&- 2>&-").finish().code_is(125);
        assert!(!fixture.exists("ws/ran"));
        for (words, code) in [
            ("explain --json", 125),
            ("explain", 125),
            ("doctor --json", 1),
            ("doctor", 1),
            ("config check", 1),
            ("man", 1),
            ("completions bash", 1),
            ("--help", 1),
            ("--version", 1),
        ] {
            let finished = fixture.shell_outside(&format!("$RINGFENCE {words} >&-")).finish().code_is(code);
            assert_eq!(finished.err(), error, "{words}");
            let finished =
                fixture.shell_outside(&format!("$RINGFENCE {words} >/dev/full")).finish().code_is(code);
            assert!(
                finished.err().contains("standard output: no space left on device"),
                "{}",
                finished.report()
            );
        }
        // Nobody wants to read it, which is another thing.
        for redirect in [">/dev/null", "1<>/dev/null"] {
            fixture.shell_outside(&format!("$RUN --json -- touch ran {redirect}")).finish().code_is(0);
            fixture.shell_outside("rm ran").finish().code_is(0);
        }
        // The output is the program's own affair.
        fixture.shell_outside("$RUN -- touch ran >&-").finish().code_is(0);
        assert!(fixture.exists("ws/ran"));
    });
}

#[test]
fn an_unread_input_does_not_hold_the_run() {
    as_each_caller(|fixture| {
        // A pipe that nobody closes and nobody reads.
        let (reader, writer) = std::io::pipe().expect("a pipe");
        fixture.inside(&[], &["true"]).stream(0, reader).finish().code_is(0);
        drop(writer);
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let run = fixture.inside(&["--json"], &["echo", "done"]).stream(0, reader);
        assert_eq!(run.finish().code_is(0).json()["stdout"], "done\n");
        drop(writer);
    });
}
