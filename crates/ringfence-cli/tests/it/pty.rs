//! The binary on a real terminal: job control, resizing, full-screen programs, and a caller's terminal that stays
//! as it was.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use ringfence_testkit::{Fixture, Invocation, Terminal, end_all, needs};
use rustix::termios::LocalModes;
use serde_json::Value;

use crate::support::{as_each_caller, binaries};

const ROWS: u16 = 33;
const COLUMNS: u16 = 101;

pub(crate) fn on_terminal(fixture: &Fixture, program: Invocation) -> Terminal {
    Terminal::start(fixture.binaries(), fixture.caller(), program, ROWS, COLUMNS)
}

fn run(fixture: &Fixture, argv: &[&str]) -> Terminal {
    on_terminal(fixture, fixture.inside(&[], argv))
}

/// An interactive shell outside, where `run` stands for the beginning of a run.
fn shell(fixture: &Fixture) -> Terminal {
    let program = fixture.outside("bash").args(["--norc", "--noprofile", "-i"]);
    let program = program.env("PS1", "outside> ").env("HISTFILE", "/dev/null");
    let mut terminal = on_terminal(fixture, program);
    terminal.expect("outside> ");
    terminal.send(&fixture.expand("run() { {ringfence} run --workspace {ws} -- \"$@\"; }; probe={probe}\n"));
    terminal.expect("outside> ");
    terminal
}

/// The probe's answer in what a terminal showed.
pub(crate) fn answer(shown: &str) -> Value {
    let line = shown.lines().find(|line| line.starts_with("{\"act\"")).unwrap_or_else(|| panic!("{shown:?}"));
    serde_json::from_str::<Value>(line.trim_end()).expect("JSON")["detail"].clone()
}

#[test]
fn the_program_has_a_terminal_of_its_own() {
    as_each_caller(|fixture| {
        let (status, shown) = run(fixture, &["{probe}", "terminal"]).wait();
        assert_eq!(status.code(), Some(0), "{shown}");
        let state = answer(&shown);
        assert_eq!(state["is_terminal"], serde_json::json!([true, true, true]));
        assert_eq!((&state["rows"], &state["columns"]), (&ROWS.into(), &COLUMNS.into()));
        for mode in ["echo", "lines", "signals"] {
            assert_eq!(state[mode], true, "{mode}: {state}");
        }
        let group = state["foreground_group"].as_u64().expect("a foreground group");
        assert!(group > 0, "no job control: {state}");
        assert!(state["name"].as_str().is_some_and(|name| name.starts_with("/dev/pts/")), "{state}");
    });
}

#[test]
fn a_new_size_reaches_the_program() {
    as_each_caller(|fixture| {
        let script = "trap 'stty size; exit 3' WINCH; echo ready; while :; do sleep 0.02; done";
        let mut terminal = run(fixture, &["bash", "-c", script]);
        terminal.expect("ready");
        terminal.resize(51, 132);
        terminal.expect("51 132");
        let (status, shown) = terminal.wait();
        assert_eq!(status.code(), Some(3), "{shown}");
    });
}

#[test]
fn ctrl_c_reaches_the_program_alone() {
    as_each_caller(|fixture| {
        let mut terminal = run(
            fixture,
            &["bash", "-c", "trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.02; done"],
        );
        terminal.expect("ready");
        terminal.send("\x03");
        terminal.expect("caught");
        assert_eq!(terminal.wait().0.code(), Some(5));

        let mut terminal = run(fixture, &["sh", "-c", "echo ready; exec sleep 600"]);
        terminal.expect("ready");
        terminal.send("\x03");
        assert_eq!(terminal.wait().0.code(), Some(130));

        let mut terminal = run(fixture, &["sh", "-c", "echo ready; exec sleep 600"]);
        terminal.expect("ready");
        terminal.send("\x1c");
        assert_eq!(terminal.wait().0.code(), Some(131));
    });
}

/// From the moment on when the outer terminal is raw, which is before the program is in the inner one's foreground.
#[test]
fn ctrl_c_reaches_a_program_that_is_just_starting() {
    as_each_caller(|fixture| {
        for _ in 0..12 {
            let mut terminal = run(fixture, &["sleep", "600"]);
            while terminal.modes().local_modes.contains(LocalModes::ISIG) {
                std::hint::spin_loop();
            }
            terminal.send("\x03");
            assert_eq!(terminal.wait().0.code(), Some(130));
        }
    });
}

#[test]
fn ctrl_d_ends_the_input() {
    as_each_caller(|fixture| {
        let mut terminal = run(fixture, &["cat"]);
        terminal.send("typed\n");
        terminal.expect("typed\r\ntyped\r\n");
        terminal.send("\x04");
        assert_eq!(terminal.wait().0.code(), Some(0));
    });
}

#[test]
fn ctrl_z_stops_the_run_and_fg_goes_on() {
    as_each_caller(|fixture| {
        let mut terminal = shell(fixture);
        let before = terminal.modes();
        terminal.send("run bash -c 'echo ready; while read line; do echo \"got $line\"; done; echo end'\n");
        terminal.expect("ready\r\n");
        terminal.send("one\n");
        terminal.expect("got one");
        for round in ["two", "three"] {
            terminal.send("\x1a");
            terminal.expect("Stopped");
            terminal.expect("outside> ");
            assert_eq!(
                modes(&before),
                modes(&terminal.modes()),
                "the shell's modes while the run is stopped"
            );
            terminal.send("echo $((40 + 2))\n");
            terminal.expect("42\r\n");
            terminal.send("fg\n");
            terminal.expect("\"$@\"\r\n");
            terminal.send(&format!("{round}\n"));
            terminal.expect(&format!("got {round}"));
        }
        terminal.send("\x04");
        terminal.expect("end");
        terminal.expect("outside> ");
        terminal.send("exit 9\n");
        assert_eq!(terminal.wait().0.code(), Some(9));
    });
}

#[test]
fn a_run_in_the_background_finishes() {
    as_each_caller(|fixture| {
        let mut terminal = shell(fixture);
        terminal.send("run bash -c 'exit 6' & wait $!; echo status $?\n");
        terminal.expect("status 6");
        terminal.expect("outside> ");
        terminal.send("exit\n");
        terminal.wait();
    });
}

#[test]
fn a_shell_inside_has_job_control() {
    as_each_caller(|fixture| {
        let argv = ["env", "PS1=inside> ", "bash", "--norc", "--noprofile", "-i"];
        let mut terminal = run(fixture, &argv);
        let greeting = terminal.expect("inside> ");
        assert!(!greeting.contains("no job control"), "{greeting}");
        // The quotes tell what it prints from what was typed.
        let job = r#"trap "echo go""ing" CONT; echo sta""rted; while :; do sleep 0.02; done"#;
        terminal.send(&format!("bash -c '{job}'\n"));
        terminal.expect("started\r\n");
        terminal.send("\x1a");
        terminal.expect("Stopped");
        terminal.expect("inside> ");
        terminal.send("fg\n");
        terminal.expect("going\r\n");
        terminal.send("\x03");
        terminal.expect("inside> ");
        terminal.send("exit 4\n");
        assert_eq!(terminal.wait().0.code(), Some(4));
    });
}

#[test]
fn a_full_screen_editor_writes_its_file() {
    needs!(binaries(); "vi");
    as_each_caller(|fixture| {
        fixture.write("ws/text", "old\n");
        let mut terminal = shell(fixture);
        let before = terminal.modes();
        terminal.send("run vi -u NONE -U NONE -i NONE -n text\n");
        terminal.expect("old");
        terminal.send("Oinserted\x1b:wq\r");
        terminal.expect("outside> ");
        assert_eq!(fixture.read("ws/text"), "inserted\nold\n");
        assert_eq!(modes(&before), modes(&terminal.modes()));
        terminal.send("exit\n");
        terminal.wait();
    });
}

/// The words that make up a terminal's state, without what the line discipline keeps for itself.
pub(crate) fn modes(modes: &rustix::termios::Termios) -> String {
    format!(
        "{:?} {:?} {:?} {:?}",
        modes.input_modes, modes.output_modes, modes.control_modes, modes.local_modes
    )
}

#[test]
fn the_callers_terminal_survives_a_program_that_breaks_its_own() {
    as_each_caller(|fixture| {
        let mut terminal = shell(fixture);
        terminal.send("stty -a >before\n");
        terminal.expect("outside> ");
        let (before, size) = (terminal.modes(), terminal.size());
        terminal.send("run $probe resize 5 6; run $probe break-terminal-and-die; echo status $?\n");
        terminal.expect("status 137");
        terminal.expect("outside> ");
        assert_eq!(modes(&before), modes(&terminal.modes()));
        assert!(terminal.is_blocking());
        assert_eq!(terminal.size(), size);
        // An exclusive terminal could not be opened again (but by root).
        terminal.send("stty -a >after; : <$(tty) && cmp before after && echo un$((2 - 2))harmed\n");
        terminal.expect("un0harmed");
        terminal.send("exit\n");
        terminal.wait();
    });
}

#[test]
fn a_program_whose_output_alone_is_the_terminal_cannot_change_it() {
    as_each_caller(|fixture| {
        let mut terminal = shell(fixture);
        let before = terminal.modes();
        for redirect in ["stty -echo -icanon <&1 2>/dev/null", "stty -echo -icanon <&2 2>/dev/null"] {
            terminal.send(&format!("run bash -c '{redirect}; echo tried' </dev/null\n"));
            terminal.expect("tried");
            terminal.expect("tried");
            terminal.expect("outside> ");
            assert_eq!(modes(&before), modes(&terminal.modes()), "{redirect}");
        }
        terminal.send("exit\n");
        terminal.wait();
    });
}

#[test]
fn lines_end_alike_whatever_the_program_sets() {
    as_each_caller(|fixture| {
        let mut terminal = shell(fixture);
        for script in ["true", "stty -echo <&1", "stty sane <&1"] {
            terminal.send(&format!("run bash -c '{script}; echo so; echo it; echo ends' </dev/null\n"));
            terminal.expect("so\r\nit\r\nends\r\n");
            terminal.expect("outside> ");
        }
        terminal.send("exit\n");
        terminal.wait();
    });
}

#[test]
fn what_was_typed_ahead_is_not_run_afterwards() {
    as_each_caller(|fixture| {
        let mut terminal = shell(fixture);
        terminal.send("run bash -c 'echo ready; until [ -e typed ]; do sleep 0.02; done'\n");
        terminal.expect("ready\r\n");
        terminal.send("touch typed-ahead\n");
        terminal.expect("touch typed-ahead\r\n");
        fixture.write("ws/typed", "");
        terminal.expect("outside> ");
        terminal.send("echo $((40 + 2))\n");
        terminal.expect("42\r\n");
        assert!(!fixture.exists("ws/typed-ahead"));
        terminal.send("exit\n");
        terminal.wait();
    });
}

#[test]
fn only_the_streams_that_are_terminals_are_relayed() {
    as_each_caller(|fixture| {
        let mut terminal = shell(fixture);
        terminal.send("run $probe terminal 2>/dev/null | cat >state; run seq 1 5000 | tail -n 1\n");
        terminal.expect("5000\r\n");
        let state = answer(&fixture.read("ws/state"));
        assert_eq!(state["is_terminal"], serde_json::json!([true, false, false]));
        terminal.send("echo piped | run cat\n");
        terminal.expect("piped\r\n");
        terminal.send("exit\n");
        terminal.wait();
    });
}

#[test]
fn nothing_of_a_long_output_is_lost() {
    as_each_caller(|fixture| {
        let (status, shown) = run(fixture, &["seq", "1", "30000"]).wait();
        assert_eq!(status.code(), Some(0));
        let lines: Vec<_> = shown.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
        assert_eq!((lines.len(), lines.last().copied()), (30_000, Some("30000")));
    });
}

#[test]
fn a_closed_window_ends_the_run() {
    as_each_caller(|fixture| {
        let token = format!("7654322.{}", std::process::id());
        let script = format!("setsid sleep {token} & echo ready; sleep {token}");
        let mut terminal = run(fixture, &["bash", "-c", &script]);
        terminal.expect("ready");
        let status = terminal.hang_up();
        assert!(status.code().is_some() || status.signal().is_some());
        assert!(end_all(&token, Duration::from_secs(60)).is_empty());
    });
}

#[test]
fn a_terminal_can_be_asked_for() {
    as_each_caller(|fixture| {
        let finished = fixture.probe_inside(&["--tty"], &["terminal"]).finish().code_is(0);
        assert_eq!(answer(&finished.out())["is_terminal"], serde_json::json!([true, true, true]));
        let finished = fixture.inside(&["--tty"], &["cat"]).stdin("given\n").finish().code_is(0);
        assert!(finished.out().contains("given"), "{}", finished.report());
        fixture.shell_inside(&["--tty"], "exit 11").finish().code_is(11);
    });
}

/// Start-up files that make a prompt of their own, some of them anew each time, and what the prompt then ends with.
const PROMPTS: &[(&str, &str, &str)] = &[
    ("bash", ".bashrc", "PS1='mine> '"),
    ("bash", ".bashrc", "PROMPT_COMMAND='PS1=\"mine> \"'"),
    ("bash", ".bashrc", "again() { PS1='mine> '; }; PROMPT_COMMAND=(again)"),
    ("zsh", ".zshrc", "PS1='mine> '; RPS1=''; unset RPS1"),
    ("zsh", ".zshrc", "setopt prompt_subst; precmd() { PROMPT='mine> ' }"),
    ("zsh", ".zshrc", "again() { PROMPT='mine> ' }; precmd_functions=(again); PS1=first"),
    ("zsh", ".zshenv", "export ZDOTDIR=$HOME/.zsh"),
    ("fish", ".config/fish/config.fish", "function fish_prompt; echo -n 'mine> '; end"),
    ("fish", ".config/fish/functions/fish_prompt.fish", "function fish_prompt; echo -n 'mine> '; end"),
];

#[test]
fn the_prompt_is_marked_whatever_start_up_files_do() {
    needs!(binaries(); "bash", "zsh", "fish");
    as_each_caller(|fixture| {
        for (shell, file, text) in PROMPTS {
            fixture.write(format!("home/{file}"), format!("{text}\n"));
            fixture.write("home/.zsh/.zshrc", "PS1='mine> '\n");
            let program = fixture.ringfence(["shell", "--read"]).arg(fixture.home()).arg("--workspace");
            let program = program.arg(fixture.ws()).env("SHELL", format!("/usr/bin/{shell}"));
            let mut terminal = on_terminal(fixture, program);
            for round in 0..3 {
                let before = terminal.expect("mine> ");
                assert!(before.contains("(ringfence) "), "{shell} {text} {round}: {before:?}");
                terminal.send("true\n");
            }
            // What the start-up took to do so is gone.
            terminal.send("ls -A /tmp | grep -c ringfence- | sed s/^/left-/\n");
            terminal.expect("left-0");
            terminal.send("exit 13\n");
            assert_eq!(terminal.wait().0.code(), Some(13), "{shell} {text}");
            std::fs::remove_file(fixture.home().join(file)).expect("rm");
        }
    });
}

/// The home directory is readable only, with and without directories of fish's own.
#[test]
fn fish_does_not_complain_of_its_directories() {
    needs!(binaries(); "fish");
    as_each_caller(|fixture| {
        for config in [None, Some("set -gx FROM_CONFIG yes\n"), Some("set -gx FROM_CONFIG again\n")] {
            if let Some(text) = config {
                fixture.write("home/.config/fish/config.fish", text);
                fixture.write("home/.config/other", "beside");
            }
            let shell = fixture.ringfence(["shell", "--workspace"]).arg(fixture.ws());
            let shell = shell.env("SHELL", "/usr/bin/fish").env("USER", "tester");
            let mut terminal = on_terminal(fixture, shell);
            let start = terminal.expect("(ringfence) ");
            for word in ["error", "warning", "cannot", "Read-only"] {
                assert!(!start.contains(word), "{config:?}: {start}");
            }
            terminal.send("set -U kept 5; echo \"universal-$kept-$XDG_CONFIG_HOME-$FROM_CONFIG-\"\n");
            let from = config.map_or("", |text| text.trim().rsplit(' ').next().expect("a word"));
            let said = terminal.expect(&format!("universal-5--{from}-"));
            assert!(!said.contains("error"), "{said}");
            terminal.send("exit 13\n");
            assert_eq!(terminal.wait().0.code(), Some(13), "{config:?}");
            assert!(!fixture.exists("home/.local") && !fixture.exists("home/.config/fish/fish_variables"));
        }
    });
}

#[test]
fn the_interactive_shell_is_marked() {
    as_each_caller(|fixture| {
        let program = fixture.ringfence(["shell", "--workspace"]).arg(fixture.ws()).env("SHELL", "/bin/bash");
        let mut terminal = on_terminal(fixture, program);
        let prompt = terminal.expect("ringfence");
        assert!(prompt.len() < 4096, "{prompt}");
        terminal.send("$0 -c 'echo $RINGFENCE_SANDBOX' | tr a-z A-Z\n");
        terminal.expect("NATIVE");
        terminal.send("exit 13\n");
        assert_eq!(terminal.wait().0.code(), Some(13));
    });
}
