use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcgetwinsize, tcsetwinsize};

use crate::invocation::PATIENCE;
use crate::{Binaries, Caller, Invocation};

/// Shown after all that a program has shown.
const LAST: &[u8] = b"\0the end\0";

/// A pseudo-terminal with a program on it, seen from where a person sits.
#[derive(Debug)]
pub struct Terminal {
    master: File,
    slave: OwnedFd,
    seen: Arc<Mutex<Vec<u8>>>,
    /// How far `expect` has read.
    read: usize,
    child: Child,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Terminal {
    /// Starts a program as the leader of a session on a new terminal of `rows` and `columns`.
    ///
    /// # Panics
    /// If the system gives no terminal or the program can't be started.
    pub fn start(binaries: &Binaries, caller: Caller, program: Invocation, rows: u16, columns: u16) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("openpt");
        grantpt(&master).expect("grantpt");
        unlockpt(&master).expect("unlockpt");
        let name = ptsname(&master, Vec::new()).expect("ptsname");
        let open = || {
            let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
            rustix::fs::open(name.as_c_str(), flags, Mode::empty()).expect("slave")
        };
        let slave = open();
        rustix::fs::fchown(&slave, Some(rustix::fs::Uid::from_raw(caller.uid())), None).expect("fchown");
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).expect("size");

        let program = program.into_command();
        let mut command = caller.command(&binaries.probe);
        command.args(["with-terminal", "--"]).arg(program.get_program()).args(program.get_args());
        command.env_clear();
        for (name, value) in program.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        if let Some(dir) = program.get_current_dir() {
            command.current_dir(dir);
        }
        command.stdin(Stdio::from(open())).stdout(Stdio::from(open())).stderr(Stdio::from(open()));
        let child = command.spawn().expect("the program starts");
        drop(command);

        let master = File::from(master);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&seen);
        let reader = master.try_clone().expect("dup");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || read_until(&reader, &sink, &stopped));
        Self { master, slave, seen, read: 0, child, stop, thread: Some(thread) }
    }

    /// Process id of the program.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Types text.
    ///
    /// # Panics
    /// If the terminal is gone.
    pub fn send(&mut self, text: &str) {
        self.master.write_all(text.as_bytes()).expect("the terminal takes input");
    }

    /// Waits for `text` in what has not been expected yet, and returns what came before it.
    ///
    /// # Panics
    /// If it does not come.
    #[track_caller]
    pub fn expect(&mut self, text: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let seen = self.screen();
            let rest = seen.get(self.read..).unwrap_or_default();
            if let Some(at) = find(rest, text.as_bytes()) {
                let before = String::from_utf8_lossy(&rest[..at]).into_owned();
                self.read += at + text.len();
                return before;
            }
            assert!(
                Instant::now() < deadline,
                "{text:?} never came; seen: {:?}, unread: {:?}",
                String::from_utf8_lossy(&seen),
                String::from_utf8_lossy(rest)
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// All that was shown.
    ///
    /// # Panics
    /// Never: the reader does not panic.
    pub fn screen(&self) -> Vec<u8> {
        self.seen.lock().expect("no reader panics").clone()
    }

    /// Changes the size, as a window does.
    ///
    /// # Panics
    /// If the terminal is gone.
    pub fn resize(&self, rows: u16, columns: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.master, size).expect("size");
    }

    /// Rows and columns.
    ///
    /// # Panics
    /// If the terminal is gone.
    pub fn size(&self) -> (u16, u16) {
        let size = tcgetwinsize(&self.slave).expect("size");
        (size.ws_row, size.ws_col)
    }

    /// Modes as the programs on it see them.
    ///
    /// # Panics
    /// If the terminal is gone.
    pub fn modes(&self) -> Termios {
        tcgetattr(&self.slave).expect("modes")
    }

    /// Whether a program that reads from it waits for input.
    ///
    /// # Panics
    /// If the flags can't be read.
    pub fn is_blocking(&self) -> bool {
        !rustix::fs::fcntl_getfl(&self.slave).expect("flags").contains(OFlags::NONBLOCK)
    }

    /// Takes the terminal away, as a closed window does, and waits for the program's end.
    ///
    /// # Panics
    /// If it does not end.
    #[track_caller]
    pub fn hang_up(mut self) -> ExitStatus {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("no reader panics");
        }
        let nothing = || File::open("/dev/null").expect("/dev/null");
        drop(std::mem::replace(&mut self.master, nothing()));
        self.slave = nothing().into();
        self.wait().0
    }

    /// Waits for the program's end.
    ///
    /// # Panics
    /// If it does not end.
    #[track_caller]
    pub fn wait(mut self) -> (ExitStatus, String) {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("wait") {
                break status;
            }
            assert!(
                Instant::now() < deadline,
                "the program did not end; seen: {:?}",
                String::from_utf8_lossy(&self.screen())
            );
            std::thread::sleep(Duration::from_millis(5));
        };
        (status, String::from_utf8_lossy(&self.shown(deadline)).into_owned())
    }
}

impl Terminal {
    /// All that was shown, what is still on its way through the line discipline included: what is written last comes
    /// last. A terminal that was taken away shows no more.
    #[track_caller]
    fn shown(&self, deadline: Instant) -> Vec<u8> {
        if self.thread.is_none() {
            return self.screen();
        }
        rustix::io::write(&self.slave, LAST).expect("the terminal takes output");
        loop {
            let mut screen = self.screen();
            if let Some(end) = find(&screen, LAST) {
                screen.truncate(end);
                return screen;
            }
            assert!(Instant::now() < deadline, "the terminal shows no more");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Collects what is shown, and lets go of the terminal when it is told to.
fn read_until(mut reader: &File, sink: &Mutex<Vec<u8>>, stop: &AtomicBool) {
    let pause = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
    let mut buffer = [0; 4096];
    while !stop.load(Ordering::Relaxed) {
        let mut ready = [PollFd::new(reader, PollFlags::IN)];
        if rustix::event::poll(&mut ready, Some(&pause)).is_ok_and(|count| count > 0) {
            match reader.read(&mut buffer) {
                Ok(length @ 1..) => {
                    sink.lock().expect("no reader panics").extend_from_slice(&buffer[..length])
                }
                _ => return,
            }
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Ends a program that a failed test left behind; one that has ended is only reaped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}
