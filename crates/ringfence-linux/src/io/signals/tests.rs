use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio as Io};
use std::time::{Duration, Instant};

use ringfence_types::{Stdin, Stdio};
use rustix::process::{Pid, WaitOptions, WaitStatus, getpid, kill_process, setsid, waitpid};
use rustix::termios::{
    LocalModes, OptionalActions, OutputModes, SpecialCodeIndex, Winsize, tcgetattr, tcgetwinsize, tcsetattr,
    tcsetpgrp, tcsetwinsize,
};

use super::*;
use crate::io::pty::tests::open_pair;
use crate::io::{Caller, Resume, Streams};
use crate::sys::{self, Quiet};

#[test]
fn each_signal_has_one_destination() {
    for (signal, delivery) in [
        (Signal::TERM, Delivery::Target),
        (Signal::USR1, Delivery::Target),
        (Signal::USR2, Delivery::Target),
        (Signal::INT, Delivery::Group),
        (Signal::QUIT, Delivery::Group),
        (Signal::HUP, Delivery::Group),
        (Signal::TSTP, Delivery::Group),
        (Signal::CONT, Delivery::Own),
        (Signal::WINCH, Delivery::Own),
        (Signal::CHILD, Delivery::Own),
    ] {
        assert_eq!(Delivery::of(signal), delivery, "{signal:?}");
    }
}

#[test]
fn signals_are_events_until_the_end() {
    // Masks and the signals of this test belong to a thread.
    std::thread::spawn(|| {
        let before = block_signals(0).unwrap();
        let mut signals = Signals::block().unwrap();
        assert_eq!(signals.original_mask(), before);
        assert_eq!(signals.next(), None);
        for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
            sys::signal_this_thread(signal).unwrap();
            assert_eq!(signals.next(), Some(signal));
        }
        assert_eq!(signals.next(), None);
        drop(signals);
        assert_eq!(block_signals(0).unwrap(), before);
    })
    .join()
    .unwrap();
}

/// Starts this test program again for one test that needs a process of its own, through a shell script that
/// ends with `exec "$@"`. `terminal` becomes its standard input.
fn again(test: &str, script: &str, terminal: impl Into<Io>) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script, "sh"]).arg(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"]);
    command.stdin(terminal);
    command
}

/// What the current test's name is to the test program, which may call the crate's root anything.
fn sibling(name: &str) -> String {
    let path = module_path!();
    format!("{}::{name}", path.split_once("::").unwrap().1)
}

fn assert_success(mut command: Command) {
    // The test program runs tests in threads, and a signal for the process must find none that lets it through.
    let spawn = std::thread::spawn(move || {
        block_signals(u64::MAX).unwrap();
        command.output().unwrap()
    });
    let output = spawn.join().unwrap();
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("1 passed"), "{}\n{text}", output.status);
}

#[test]
fn what_was_ignored_stays_ignored() {
    assert_success(again(&sibling("with_ignored_signals"), "trap '' HUP INT; exec \"$@\"", Io::null()));
}

#[test]
#[ignore = "a process of its own, started by another test"]
fn with_ignored_signals() {
    let mut signals = Signals::block().unwrap();
    for signal in [Signal::HUP, Signal::INT, Signal::TERM] {
        kill_process(getpid(), signal).unwrap();
    }
    assert_eq!(signals.next(), Some(Signal::TERM));
    assert_eq!(signals.next(), None);
}

#[test]
fn a_job_follows_the_shells_orders() {
    let (_person, terminal) = open_pair();
    assert_success(again(&sibling("shell"), "exec \"$@\"", terminal));
}

/// A shell with job control: leads a session, has the terminal, and starts one job.
#[test]
#[ignore = "a process of its own, started by another test"]
fn shell() {
    let terminal = rustix::stdio::stdin();
    setsid().unwrap();
    rustix::process::ioctl_tiocsctty(terminal).unwrap();
    orphans_are_not_stopped();

    // While a line is edited the terminal has other modes, which are none of a background job's business.
    let mut modes = tcgetattr(terminal).unwrap();
    modes.local_modes.remove(LocalModes::ECHO);
    tcsetattr(terminal, OptionalActions::Now, &modes).unwrap();
    let editing = format!("{modes:?}");

    let mut job = Job::start();
    // In the background it doesn't touch the terminal; when the box reads, it stops as any other job does.
    assert_eq!(job.wait().stopping_signal(), Some(Signal::TTIN.as_raw()));
    job.wait_for_members("TT");
    assert_eq!(format!("{:?}", tcgetattr(terminal).unwrap()), editing);

    modes.local_modes.insert(LocalModes::ECHO);
    modes.special_codes[SpecialCodeIndex::VQUIT] = 6;
    tcsetattr(terminal, OptionalActions::Now, &modes).unwrap();
    let own_modes = format!("{modes:?}");
    tcsetwinsize(terminal, Winsize { ws_row: 7, ws_col: 8, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    job.continue_in_foreground();
    // Ctrl-Z in the box.
    assert_eq!(job.wait().stopping_signal(), Some(Signal::TSTP.as_raw()));
    job.wait_for_members("TT");
    assert_eq!(format!("{:?}", tcgetattr(terminal).unwrap()), own_modes);

    take_foreground(getpid());
    job.go_on();
    // It went on in the background until the box configured its terminal.
    assert_eq!(job.wait().stopping_signal(), Some(Signal::TTOU.as_raw()));
    job.wait_for_members("TT");
    assert_eq!(format!("{:?}", tcgetattr(terminal).unwrap()), own_modes);

    job.continue_in_foreground();
    assert_eq!(job.wait().stopping_signal(), Some(Signal::STOP.as_raw()));
    job.continue_in_foreground();
    // Sent by the job to itself.
    assert_eq!(job.wait().stopping_signal(), Some(Signal::TSTP.as_raw()));
    job.wait_for_members("ST");
    job.continue_in_foreground();

    // Stopped without a chance to give the modes back, so the shell restores its own, and changes one.
    assert_eq!(job.wait().stopping_signal(), Some(Signal::STOP.as_raw()));
    take_foreground(getpid());
    let mut modes = tcgetattr(terminal).unwrap();
    modes.special_codes[SpecialCodeIndex::VINTR] = 7;
    tcsetattr(terminal, OptionalActions::Now, &modes).unwrap();
    job.go_on();
    assert_eq!(job.wait().exit_status(), Some(0));
    assert_eq!(tcgetattr(terminal).unwrap().special_codes[SpecialCodeIndex::VINTR], 7);
}

/// The shell's own process group has nobody in its session who could continue it.
fn orphans_are_not_stopped() {
    let mut signals = Signals::block().unwrap();
    assert!(!signals.stop(Signal::TSTP, true).unwrap());
}

struct Job(Child);

impl Job {
    fn start() -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", &sibling("job"), "--ignored", "--nocapture", "--test-threads=1"]);
        Self(command.process_group(0).spawn().unwrap())
    }

    fn group(&self) -> Pid {
        Pid::from_raw(self.0.id() as i32).unwrap()
    }

    fn wait(&mut self) -> WaitStatus {
        waitpid(Some(self.group()), WaitOptions::UNTRACED).unwrap().unwrap().1
    }

    /// Waits until the states (proc_pid_stat(5)) of the job's processes are these, in order of the alphabet.
    fn wait_for_members(&self, states: &str) {
        let start = Instant::now();
        while self.member_states() != states {
            assert!(start.elapsed() < Duration::from_secs(60), "{}", self.member_states());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn member_states(&self) -> String {
        let processes = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path().join("stat"));
        let mut states: Vec<char> = processes.filter_map(|stat| self.member_state(&stat)).collect();
        states.sort_unstable();
        states.into_iter().collect()
    }

    /// `None` if this is no process of the job.
    fn member_state(&self, stat: &Path) -> Option<char> {
        let stat = std::fs::read_to_string(stat).ok()?;
        // The fields after the name are state, parent, process group.
        let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
        let state = fields.next()?.chars().next()?;
        (fields.nth(1)? == self.group().as_raw_pid().to_string()).then_some(state)
    }

    fn go_on(&self) {
        rustix::process::kill_process_group(self.group(), Signal::CONT).unwrap();
    }

    fn continue_in_foreground(&self) {
        take_foreground(self.group());
        self.go_on();
    }
}

fn take_foreground(group: Pid) {
    let _quiet = Quiet::new().unwrap();
    tcsetpgrp(rustix::stdio::stdin(), group).unwrap();
}

/// Another process of the supervisor's job, as in a pipeline.
struct Member(Child);

impl Member {
    fn start() -> Self {
        // It inherits the mask of the thread that starts it.
        let start = || {
            sys::set_signal_mask(0).unwrap();
            Command::new("sleep").arg("600").stdin(Io::null()).spawn().unwrap()
        };
        Self(std::thread::spawn(start).join().unwrap())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// A supervisor as the shell's job. Each call of `job_stopped` is one report of the box.
#[test]
#[ignore = "a process of its own, started by another test"]
fn job() {
    let terminal = rustix::stdio::stdin();
    let raw = || !tcgetattr(terminal).unwrap().local_modes.contains(LocalModes::ICANON);
    let (foreground, background) =
        (Resume::Continue { foreground: true }, Resume::Continue { foreground: false });
    let mut signals = Signals::block().unwrap();
    let caller = Caller { fds: [terminal, terminal, terminal] };
    let (mut streams, _child) = Streams::new(Stdio::Inherit, Stdin::Null, 0, caller).unwrap();
    let (master, program) = open_pair();
    let (mut program, kept_master) = (File::from(program), master.try_clone().unwrap());
    let _member = Member::start();
    assert!(!streams.attach_pty(master.into()).unwrap(), "started in the background");
    assert!(!raw());

    assert_eq!(
        streams.job_stopped(Signal::TTIN, Some(&mut signals)).unwrap(),
        foreground,
        "continued in the foreground"
    );
    assert!(raw());
    assert_eq!(tcgetwinsize(program.as_fd()).unwrap().ws_col, 8);
    let inner = tcgetattr(&program).unwrap();
    assert!(inner.local_modes.contains(LocalModes::ECHO) && inner.output_modes.contains(OutputModes::OPOST));
    assert_eq!(inner.special_codes[SpecialCodeIndex::VQUIT], 6);

    // An editor's last act before it stops.
    program.write_all(&[b'x'; 3000]).unwrap();
    assert_eq!(
        streams.job_stopped(Signal::TSTP, Some(&mut signals)).unwrap(),
        background,
        "continued in the background"
    );
    assert_eq!(rustix::io::read(&kept_master, &mut [0; 1]), Err(Errno::AGAIN), "has been relayed");
    assert!(!raw());
    assert!(!streams.continued().unwrap(), "still in the background");

    assert_eq!(
        streams.job_stopped(Signal::TTOU, Some(&mut signals)).unwrap(),
        foreground,
        "continued in the foreground"
    );
    assert!(raw());
    assert_eq!(
        streams.job_stopped(Signal::TTIN, Some(&mut signals)).unwrap(),
        foreground,
        "has the terminal already"
    );

    assert_eq!(
        streams.job_stopped(Signal::STOP, Some(&mut signals)).unwrap(),
        foreground,
        "continued in the foreground"
    );
    assert!(raw());
    // Those of the member's stops are.
    let next =
        |signals: &mut Signals| std::iter::from_fn(|| signals.next()).find(|next| *next != Signal::CHILD);
    assert_eq!(next(&mut signals), None, "the signals of its own stops are no events");

    // Someone sends this process the signal, and perhaps the others of the job; it is not its task to do that.
    kill_process(getpid(), Signal::TSTP).unwrap();
    assert_eq!(next(&mut signals), Some(Signal::TSTP));
    assert_eq!(
        streams.job_stopped(Signal::TSTP, Some(&mut signals)).unwrap(),
        foreground,
        "continued in the foreground"
    );

    // As if someone had sent SIGSTOP.
    signals.stop(Signal::STOP, false).unwrap();
    streams.finish();
}
