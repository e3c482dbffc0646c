use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde_json::Value;

/// After this time a run hangs: it is ended and the test fails. A machine that does much else is no reason.
pub(crate) const PATIENCE: Duration = Duration::from_secs(240);

/// A program to be run outside the box: Ringfence itself, or a control.
#[derive(Debug)]
pub struct Invocation {
    command: Command,
    stdin: Option<Vec<u8>>,
    streams: [Option<Stdio>; 3],
    patience: Duration,
}

impl Invocation {
    /// Takes over a command's program, arguments, environment and identity.
    pub fn new(command: Command) -> Self {
        Self { command, stdin: None, streams: [None, None, None], patience: PATIENCE }
    }

    /// Adds one argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    /// Adds arguments.
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.command.args(args);
        self
    }

    /// Sets a variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Removes a variable.
    pub fn without_env(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    /// Sets the working directory.
    pub fn current_dir(mut self, dir: impl AsRef<Path>) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// Bytes for standard input, then end of file. Without this, standard input is empty.
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(bytes.into());
        self
    }

    /// A file, pipe or terminal in place of stream 0, 1 or 2. What goes there is not captured.
    pub fn stream(mut self, number: usize, stdio: impl Into<Stdio>) -> Self {
        self.streams[number] = Some(stdio.into());
        self
    }

    /// How long it may take before the test fails.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The command itself, for who starts it in another way.
    pub fn into_command(self) -> Command {
        self.command
    }

    /// Starts it.
    ///
    /// # Panics
    /// If it can't be started.
    pub fn spawn(mut self) -> Running {
        let [stdin, stdout, stderr] = self.streams;
        let feed = self.stdin.is_some();
        self.command.stdin(stdin.unwrap_or_else(|| if feed { Stdio::piped() } else { Stdio::null() }));
        self.command.stdout(stdout.unwrap_or_else(Stdio::piped));
        self.command.stderr(stderr.unwrap_or_else(Stdio::piped));
        let words = std::iter::once(self.command.get_program()).chain(self.command.get_args());
        let line = words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        let mut child = self.command.spawn().unwrap_or_else(|error| panic!("{line}: {error}"));
        if let Some((mut pipe, bytes)) = child.stdin.take().zip(self.stdin) {
            // A program may end without reading its input.
            std::thread::spawn(move || drop(pipe.write_all(&bytes)));
        }
        let stdout = child.stdout.take().map(Collector::start);
        let stderr = child.stderr.take().map(Collector::start);
        Running { child, line, stdout, stderr, deadline: Instant::now() + self.patience }
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// If it can't be started or does not end.
    pub fn finish(self) -> Finished {
        self.spawn().wait()
    }
}

#[derive(Debug)]
struct Collector {
    bytes: Arc<Mutex<Vec<u8>>>,
    thread: JoinHandle<()>,
}

impl Collector {
    fn start(mut source: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&bytes);
        let thread = std::thread::spawn(move || {
            let mut buffer = [0; 65_536];
            while let Ok(length @ 1..) = source.read(&mut buffer) {
                sink.lock().expect("no reader panics").extend_from_slice(&buffer[..length]);
            }
        });
        Self { bytes, thread }
    }

    fn so_far(&self) -> Vec<u8> {
        self.bytes.lock().expect("no reader panics").clone()
    }

    /// All bytes. If another process holds the pipe open, what came within the grace period: nothing else keeps the thread
    /// from the end of the file but a lack of processor time.
    fn finish(self) -> (Vec<u8>, bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !self.thread.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        (self.so_far(), self.thread.is_finished())
    }
}

/// A started program.
#[derive(Debug)]
pub struct Running {
    child: Child,
    line: String,
    stdout: Option<Collector>,
    stderr: Option<Collector>,
    deadline: Instant,
}

impl Running {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to it alone.
    ///
    /// # Panics
    /// If it has been waited for.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid() as i32).expect("a process id is positive");
        rustix::process::kill_process(pid, signal).expect("kill");
    }

    /// Waits until its standard output holds `text`.
    ///
    /// # Panics
    /// If it does not in time.
    pub fn wait_for(&mut self, text: &str) {
        let found = |this: &Self| this.out_so_far().contains(text);
        while !found(self) {
            let ended = self.child.try_wait().expect("wait").is_some();
            if (ended && !found(self)) || Instant::now() > self.deadline {
                self.give_up(&format!("never printed {text:?}"));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// What its standard output holds up to now.
    pub fn out_so_far(&self) -> String {
        let bytes = self.stdout.as_ref().map(Collector::so_far).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Ends it by force.
    pub fn end(mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Whether it still runs.
    ///
    /// # Panics
    /// If the system does not say.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("wait").is_none()
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// If it does not end in time.
    pub fn wait(mut self) -> Finished {
        let status = loop {
            match self.child.try_wait().expect("wait") {
                Some(status) => break status,
                None if Instant::now() > self.deadline => self.give_up("did not end"),
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        };
        let (stdout, closed) = self.stdout.take().map_or((Vec::new(), true), Collector::finish);
        let (stderr, also_closed) = self.stderr.take().map_or((Vec::new(), true), Collector::finish);
        Finished {
            line: self.line,
            code: status.code(),
            signal: status.signal(),
            stdout,
            stderr,
            closed: closed && also_closed,
        }
    }

    fn give_up(&mut self, why: &str) -> ! {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let text = |collector: &Option<Collector>| {
            let bytes = collector.as_ref().map(Collector::so_far).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        panic!("{}: {why}\nstdout: {}\nstderr: {}", self.line, text(&self.stdout), text(&self.stderr));
    }
}

/// A program that has ended.
#[derive(Debug)]
pub struct Finished {
    /// The command line, for messages.
    pub line: String,
    /// Exit status; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Signal that ended it.
    pub signal: Option<i32>,
    /// Standard output, if it was captured.
    pub stdout: Vec<u8>,
    /// Standard error, if it was captured.
    pub stderr: Vec<u8>,
    /// Whether nobody holds the captured streams open any more.
    pub closed: bool,
}

/// The answer of the probe.
#[derive(Clone, Debug, PartialEq)]
pub struct Probed {
    /// Whether the act was done.
    pub allowed: bool,
    /// Errno, if it was not.
    pub errno: Option<i32>,
    /// Details of the act, or the error's text.
    pub detail: Value,
}

impl Finished {
    /// Standard output as text.
    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard error as text.
    pub fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Command line, status and both streams.
    pub fn report(&self) -> String {
        let (out, err) = (self.out(), self.err());
        format!("{}\ncode {:?} signal {:?}\nstdout: {out}\nstderr: {err}", self.line, self.code, self.signal)
    }

    /// Asserts the exit status.
    ///
    /// # Panics
    /// If it is another one.
    #[track_caller]
    pub fn code_is(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}", self.report());
        self
    }

    /// Standard output as the one JSON value that it must be.
    ///
    /// # Panics
    /// If it is not.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.stdout)
            .unwrap_or_else(|error| panic!("not one JSON value ({error}): {}", self.report()))
    }

    /// The probe's line on standard output, if it got so far.
    pub fn probed(&self) -> Option<Probed> {
        let text = self.out();
        let value: Value = serde_json::from_str(text.lines().last()?).ok()?;
        Some(Probed {
            allowed: value.get("result")? == "allowed",
            errno: value.get("errno")?.as_i64().map(|errno| errno as i32),
            detail: value.get("detail")?.clone(),
        })
    }

    /// The details of an act that was done.
    ///
    /// # Panics
    /// If it was not.
    #[track_caller]
    pub fn allowed(&self) -> Value {
        match self.probed() {
            Some(Probed { allowed: true, detail, .. }) => detail,
            _ => panic!("the act was not done: {}", self.report()),
        }
    }

    /// The errno of an act that was refused.
    ///
    /// # Panics
    /// If it was done.
    #[track_caller]
    pub fn refused(&self) -> i32 {
        match self.probed() {
            Some(Probed { allowed: false, errno: Some(errno), .. }) => errno,
            _ => panic!("the act was not refused: {}", self.report()),
        }
    }
}
