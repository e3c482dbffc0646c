use std::fs::File;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

use ringfence_types::{Stdin, Stdio};
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::process::Signal;
use rustix::pty::{openpt, unlockpt};
use rustix::termios::{InputModes, OutputModes, Termios, tcgetwinsize};

use super::*;
use crate::io::{Caller, Flow, PollSet, Resume, Streams};

const PATIENCE: Duration = Duration::from_secs(60);

/// A terminal: what the person or the supervisor holds, and what programs have.
pub(crate) fn open_pair() -> (File, OwnedFd) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags).unwrap();
    unlockpt(&master).unwrap();
    let slave = ioctl_tiocgptpeer(&master, flags).unwrap();
    (File::from(master), slave)
}

/// A person at a terminal, the streams of a run, and a program in the box. None of the terminals is a controlling
/// one, so this process counts as being in their foreground.
struct Rig {
    person: Option<File>,
    outer: OwnedFd,
    streams: Streams,
    program: File,
    foreground: bool,
}

impl Rig {
    /// With the streams that `choose` makes of the outer terminal.
    fn new(stdio: Stdio, stdin: Stdin, choose: impl Fn(&OwnedFd) -> [OwnedFd; 3]) -> Self {
        let (person, outer) = open_pair();
        let size = Winsize { ws_row: 12, ws_col: 34, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&outer, size).unwrap();
        ioctl_fionbio(&person, true).unwrap();
        let fds = choose(&outer);
        let caller = Caller { fds: [fds[0].as_fd(), fds[1].as_fd(), fds[2].as_fd()] };
        let (mut streams, child) = Streams::new(stdio, stdin, 0, caller).unwrap();
        assert!(child.fds.iter().any(|fd| matches!(fd, crate::io::ChildFd::Terminal)));
        streams.start().unwrap();
        let (master, program) = open_pair();
        let foreground = streams.attach_pty(master.into()).unwrap();
        Self { person: Some(person), outer, streams, program: File::from(program), foreground }
    }

    fn interactive() -> Self {
        Self::new(Stdio::Inherit, Stdin::Null, |outer| [copy(outer), copy(outer), copy(outer)])
    }

    fn person(&self) -> &File {
        self.person.as_ref().unwrap()
    }

    fn turn(&mut self) -> Flow {
        let mut set = PollSet::new();
        self.streams.interest(&mut |source, fd, events| set.push(source, fd, events));
        let wait = rustix::event::Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        for (source, ready) in set.wait(Some(wait)).unwrap() {
            if self.streams.handle(source, ready).unwrap() == Flow::HungUp {
                return Flow::HungUp;
            }
        }
        Flow::Continue
    }

    /// Runs the loop until `done` gives a value.
    fn until<T>(&mut self, mut done: impl FnMut(&mut Self) -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            if let Some(value) = done(self) {
                return value;
            }
            assert_eq!(self.turn(), Flow::Continue);
            assert!(start.elapsed() < PATIENCE, "waited in vain");
        }
    }

    fn until_hang_up(&mut self) {
        let start = Instant::now();
        while self.turn() != Flow::HungUp {
            assert!(start.elapsed() < PATIENCE, "waited in vain");
        }
    }

    /// Runs the loop until the person has seen something that ends with `end`; returns all that was seen.
    fn until_seen(&mut self, end: &str) -> String {
        let mut seen = Vec::new();
        self.until(|rig| {
            seen.extend(read_now(rig.person()));
            seen.ends_with(end.as_bytes()).then_some(())
        });
        String::from_utf8(seen).unwrap()
    }
}

fn copy(fd: &OwnedFd) -> OwnedFd {
    fd.try_clone().unwrap()
}

/// All that can be read without waiting.
fn read_now(mut from: &File) -> Vec<u8> {
    ioctl_fionbio(from, true).unwrap();
    let mut bytes = Vec::new();
    // WouldBlock, or EIO after a hang-up; what came before is in `bytes`.
    let _ = from.read_to_end(&mut bytes);
    bytes
}

fn modes(fd: impl AsFd) -> Termios {
    tcgetattr(fd).unwrap()
}

/// Termios has no equality.
fn shown(fd: impl AsFd) -> String {
    format!("{:?}", modes(fd))
}

fn set_modes(fd: impl AsFd, change: impl FnOnce(&mut Termios)) {
    let mut new = modes(&fd);
    change(&mut new);
    tcsetattr(&fd, OptionalActions::Now, &new).unwrap();
}

#[test]
fn the_inner_terminal_resembles_the_outer_one() {
    let rig = Rig::new(Stdio::Inherit, Stdin::Null, |outer| {
        set_modes(outer, |modes| {
            modes.input_modes.insert(InputModes::IUTF8);
            modes.special_codes[SpecialCodeIndex::VINTR] = 7;
        });
        [copy(outer), copy(outer), copy(outer)]
    });
    assert!(rig.foreground);
    let inner = modes(&rig.program);
    assert!(inner.input_modes.contains(InputModes::IUTF8));
    assert_eq!(inner.special_codes[SpecialCodeIndex::VINTR], 7);
    assert!(inner.local_modes.contains(LocalModes::ICANON | LocalModes::ECHO));
    assert!(inner.output_modes.contains(OutputModes::OPOST));
    assert_eq!(tcgetwinsize(&rig.program).unwrap().ws_col, 34);
    assert!(!modes(&rig.outer).local_modes.contains(LocalModes::ICANON));
}

#[test]
fn size_changes_are_passed_on() {
    let rig = Rig::interactive();
    tcsetwinsize(rig.person(), Winsize { ws_row: 5, ws_col: 6, ws_xpixel: 7, ws_ypixel: 8 }).unwrap();
    rig.streams.resize().unwrap();
    let size = tcgetwinsize(&rig.program).unwrap();
    assert_eq!((size.ws_row, size.ws_col, size.ws_xpixel, size.ws_ypixel), (5, 6, 7, 8));
}

#[test]
fn the_outer_terminal_gets_its_modes_back_and_nothing_typed_is_left() {
    let (person, outer) = open_pair();
    let before = shown(&outer);
    let caller = Caller { fds: [outer.as_fd(), outer.as_fd(), outer.as_fd()] };
    let (mut streams, _) = Streams::new(Stdio::Inherit, Stdin::Null, 0, caller).unwrap();
    assert_eq!(shown(&outer), before);
    let (master, _program) = open_pair();
    streams.attach_pty(master.into()).unwrap();
    assert_ne!(shown(&outer), before);
    // As a terminal answers a request of the program's.
    (&person).write_all(b"evil command\n").unwrap();
    streams.finish();
    assert_eq!(shown(&outer), before);
    ioctl_fionbio(&outer, true).unwrap();
    assert_eq!(rustix::io::read(&outer, &mut [0; 100]), Err(Errno::AGAIN));
}

#[test]
fn a_panic_gives_the_modes_back() {
    let (_person, outer) = open_pair();
    let before = shown(&outer);
    let result = std::panic::catch_unwind(|| {
        let caller = Caller { fds: [outer.as_fd(), outer.as_fd(), outer.as_fd()] };
        let (mut streams, _) = Streams::new(Stdio::Inherit, Stdin::Null, 0, caller).unwrap();
        let (master, _program) = open_pair();
        streams.attach_pty(master.into()).unwrap();
        assert_eq!(shown(&outer), before, "raw by now");
    });
    assert!(result.is_err());
    assert_eq!(shown(&outer), before);
}

#[test]
fn the_callers_descriptors_stay_blocking() {
    let rig = Rig::interactive();
    assert!(!fcntl_getfl(&rig.outer).unwrap().contains(OFlags::NONBLOCK));
}

#[test]
fn keys_and_output_pass() {
    let mut rig = Rig::interactive();
    rig.person().write_all(b"hello\r").unwrap();
    // Echoed by the inner terminal, with its translation of carriage return and line feed.
    assert_eq!(rig.until_seen("\n"), "hello\r\n");
    let mut line = [0; 10];
    let count = rig.program.read(&mut line).unwrap();
    assert_eq!(&line[..count], b"hello\n");
    rig.program.write_all(b"world\n").unwrap();
    assert_eq!(rig.until_seen("\n"), "world\r\n");
}

#[test]
fn no_byte_is_special_to_a_full_screen_program() {
    let mut rig = Rig::interactive();
    set_modes(&rig.program, Termios::make_raw);
    let all: Vec<u8> = (0..=255).collect();
    rig.person().write_all(&all).unwrap();
    let mut typed = Vec::new();
    rig.until(|rig| {
        typed.extend(read_now(&rig.program));
        (typed.len() == all.len()).then_some(())
    });
    assert_eq!(typed, all);
    rig.program.write_all(&all).unwrap();
    let mut seen = Vec::new();
    rig.until(|rig| {
        seen.extend(read_now(rig.person()));
        (seen.len() == all.len()).then_some(())
    });
    assert_eq!(seen, all);
}

#[test]
fn a_flood_of_output_does_not_starve_input() {
    let mut rig = Rig::interactive();
    set_modes(&rig.program, Termios::make_raw);
    let mut typed = Vec::new();
    let mut flooded = 0;
    rig.person().write_all(b"q").unwrap();
    rig.until(|rig| {
        ioctl_fionbio(&rig.program, true).unwrap();
        while (&rig.program).write(&[b'x'; 4096]).is_ok() {}
        flooded += read_now(rig.person()).len();
        typed.extend(read_now(&rig.program));
        (!typed.is_empty()).then_some(())
    });
    assert_eq!(typed, b"q");
}

#[test]
fn a_person_who_stops_reading_stops_the_program_and_loses_nothing() {
    let mut rig = Rig::interactive();
    set_modes(&rig.program, Termios::make_raw);
    ioctl_fionbio(&rig.program, true).unwrap();
    // Until nothing moves any more: terminals and buffers are full.
    let mut written: Vec<u8> = Vec::new();
    let mut idle = 0;
    while idle < 20 {
        let chunk: Vec<u8> =
            (0..1000_u32).map(|index| ((written.len() as u32 + index) % 251) as u8).collect();
        match rig.program.write(&chunk) {
            Ok(count) => {
                written.extend(&chunk[..count]);
                idle = 0;
            }
            Err(_) => idle += 1,
        }
        rig.turn();
        assert!(written.len() < 1_000_000, "nothing holds the program back");
    }
    // Keys still pass.
    rig.person().write_all(b"q").unwrap();
    assert_eq!(rig.until(|rig| Some(read_now(&rig.program)).filter(|keys| !keys.is_empty())), b"q");
    let mut seen = Vec::new();
    rig.until(|rig| {
        seen.extend(read_now(rig.person()));
        (seen.len() == written.len()).then_some(())
    });
    assert!(seen == written);
}

#[test]
fn a_program_that_does_not_read_holds_the_person_back() {
    let mut rig = Rig::interactive();
    set_modes(&rig.program, Termios::make_raw);
    let mut typed = 0;
    let mut idle = 0;
    while idle < 20 {
        match rig.person().write(&[b'k'; 1000]) {
            Ok(count) => (typed, idle) = (typed + count, 0),
            Err(_) => idle += 1,
        }
        rig.turn();
        assert!(typed < 1_000_000, "memory grows with what is typed");
    }
    // Output still passes.
    rig.program.write_all(b"still here").unwrap();
    rig.until_seen("still here");
    let mut keys = 0;
    rig.until(|rig| {
        keys += read_now(&rig.program).len();
        (keys == typed).then_some(())
    });
}

#[test]
fn the_last_line_arrives() {
    for length in [0, 1, 4095, 4096, 4097, 10_000] {
        let Rig { person, outer: _outer, mut streams, mut program, .. } = Rig::interactive();
        let person = person.unwrap();
        set_modes(&program, Termios::make_raw);
        ioctl_fionbio(&program, true).unwrap();
        let accepted = program.write(&vec![b'x'; length]).unwrap();
        let accepted = accepted + program.write(b"last").unwrap_or(0);
        drop(program);
        streams.exited();
        let mut seen = 0;
        let start = Instant::now();
        while !streams.is_done() {
            crate::io::streams::tests::turn(&mut streams);
            seen += read_now(&person).len();
            assert!(start.elapsed() < PATIENCE);
        }
        seen += read_now(&person).len();
        assert_eq!(seen, accepted);
    }
}

#[test]
fn a_program_may_close_and_reopen_its_terminal() {
    let (person, outer) = open_pair();
    ioctl_fionbio(&person, true).unwrap();
    let caller = Caller { fds: [outer.as_fd(), outer.as_fd(), outer.as_fd()] };
    let (mut streams, _) = Streams::new(Stdio::Inherit, Stdin::Null, 0, caller).unwrap();
    let (master, program) = open_pair();
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
    let keep = master.try_clone().unwrap();
    streams.attach_pty(master.into()).unwrap();
    drop(program);
    for _ in 0..10 {
        assert_eq!(crate::io::streams::tests::turn(&mut streams), Flow::Continue);
    }
    let mut program = File::from(ioctl_tiocgptpeer(&keep, flags).unwrap());
    program.write_all(b"back").unwrap();
    let mut seen = Vec::new();
    crate::io::streams::tests::turn_until(&mut streams, |_| {
        seen.extend(read_now(&person));
        seen == b"back"
    });
}

#[test]
fn a_terminal_that_somebody_keeps_open_can_be_given_up() {
    let mut rig = Rig::interactive();
    rig.program.write_all(b"so far").unwrap();
    rig.streams.exited();
    assert_eq!(rig.until_seen("so far"), "so far");
    assert!(!rig.streams.is_done());
    rig.streams.stop_reading();
    assert!(rig.streams.is_done());
}

#[test]
fn a_closed_window_hangs_up_inside() {
    let mut rig = Rig::interactive();
    rig.person = None;
    rig.until_hang_up();
    // As after a hang-up of any terminal (tty_ioctl(4)): end of file, and no more output.
    assert_eq!(rig.program.read(&mut [0; 1]).unwrap(), 0);
    assert_eq!(rig.program.write(b"x").unwrap_err().raw_os_error(), Some(Errno::IO.raw_os_error()));
    assert!(rig.streams.is_done());
}

#[test]
fn a_closed_pipe_hangs_up_inside() {
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    let mut rig = Rig::new(Stdio::Pty, Stdin::Null, |outer| [copy(outer), copy(&writer), copy(outer)]);
    drop((reader, writer));
    rig.program.write_all(b"into the void").unwrap();
    rig.until_hang_up();
    assert_eq!(rig.program.read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn a_full_pipe_holds_the_program_back_and_loses_nothing() {
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    let mut rig = Rig::new(Stdio::Pty, Stdin::Null, |outer| [copy(outer), copy(&writer), copy(outer)]);
    set_modes(&rig.program, Termios::make_raw);
    ioctl_fionbio(&rig.program, true).unwrap();
    let (mut written, mut idle) = (0, 0);
    while idle < 20 {
        match rig.program.write(&[b'x'; 1000]) {
            Ok(count) => (written, idle) = (written + count, 0),
            Err(_) => idle += 1,
        }
        rig.turn();
        assert!(written < 1_000_000, "nothing holds the program back");
    }
    // The program ends; what it wrote waits for the reader, while Ctrl-C works again.
    rig.streams.job_stopped(Signal::TTIN, None).unwrap();
    assert!(!modes(&rig.outer).local_modes.contains(LocalModes::ISIG));
    rig.streams.exited();
    assert!(modes(&rig.outer).local_modes.contains(LocalModes::ISIG));
    let reader = File::from(reader);
    let mut read = 0;
    rig.until(|_| {
        read += read_now(&reader).len();
        (read == written).then_some(())
    });
}

#[test]
fn input_that_is_no_terminal_is_typed_and_ended() {
    for (text, lines) in
        [("one\ntwo\n", vec!["one\n", "two\n"]), ("no newline", vec!["no newline"]), ("", vec![])]
    {
        let stdin = Stdin::Bytes(text.into());
        let mut rig = Rig::new(Stdio::Pty, stdin, |outer| [copy(outer), copy(outer), copy(outer)]);
        assert!(rig.foreground);
        // The outer terminal has no part in it.
        assert!(modes(&rig.outer).local_modes.contains(LocalModes::ICANON));
        let mut program = rig.program.try_clone().unwrap();
        let reader = std::thread::spawn(move || {
            let mut read = Vec::new();
            let mut line = [0; 100];
            loop {
                match program.read(&mut line).unwrap() {
                    0 => return read,
                    count => read.push(String::from_utf8(line[..count].to_vec()).unwrap()),
                }
            }
        });
        rig.until(|_| reader.is_finished().then_some(()));
        assert_eq!(reader.join().unwrap(), lines);
    }
}

#[test]
fn without_any_terminal_there_is_a_size() {
    let null = || OwnedFd::from(File::options().read(true).write(true).open("/dev/null").unwrap());
    let rig = Rig::new(Stdio::Pty, Stdin::Null, |_| [null(), null(), null()]);
    assert_eq!(tcgetwinsize(&rig.program).unwrap(), DEFAULT_SIZE);
}

/// Standard input is a pipe: the keyboard may be another program's.
fn in_a_pipeline() -> Rig {
    let (reader, _) = rustix::pipe::pipe().unwrap();
    Rig::new(Stdio::Inherit, Stdin::Null, |outer| [copy(&reader), copy(outer), copy(outer)])
}

#[test]
fn in_a_pipeline_the_keyboard_is_left_alone_until_it_is_asked_for() {
    let mut rig = in_a_pipeline();
    assert!(!rig.foreground);
    let before = shown(&rig.outer);
    rig.person().write_all(b"for another program\n").unwrap();
    // Both terminals process output, and one must not undo the other.
    let as_found = modes(&rig.program);
    rig.program.write_all(b"line\n").unwrap();
    assert!(rig.until_seen("line\r\n").ends_with("program\r\nline\r\n"));
    assert_eq!(read_now(&rig.program), b"");
    assert_eq!(shown(&rig.outer), before);
    let mut line = [0; 100];
    let count = rustix::io::read(&rig.outer, &mut line).unwrap();
    assert_eq!(&line[..count], b"for another program\n");

    let resumed = rig.streams.job_stopped(Signal::TTIN, None).unwrap();
    assert_eq!(resumed, Resume::Continue { foreground: true });
    // A program sets what it found, with a change.
    tcsetattr(&rig.program, OptionalActions::Now, &as_found).unwrap();
    rig.person().write_all(b"for the box\r").unwrap();
    assert_eq!(rig.until_seen("\n"), "for the box\r\n");
    let count = rig.program.read(&mut line).unwrap();
    assert_eq!(&line[..count], b"for the box\n");
}

#[test]
fn line_ends_stay_whole_in_long_output() {
    let mut rig = in_a_pipeline();
    let mut program = rig.program.try_clone().unwrap();
    // Of four bytes each in the terminal, which gives 4095 at a time.
    let writer = std::thread::spawn(move || program.write_all("yy\n".repeat(20_000).as_bytes()).unwrap());
    let mut seen = Vec::new();
    rig.until(|rig| {
        seen.extend(read_now(rig.person()));
        (seen.len() >= 80_000 && writer.is_finished()).then_some(())
    });
    assert_eq!(String::from_utf8(seen).unwrap(), "yy\r\n".repeat(20_000));
}

#[test]
fn output_to_another_terminal_is_relayed_apart() {
    let (other_person, other) = open_pair();
    ioctl_fionbio(&other_person, true).unwrap();
    let (_person, outer) = open_pair();
    let caller = Caller { fds: [outer.as_fd(), other.as_fd(), outer.as_fd()] };
    let (mut streams, child) = Streams::new(Stdio::Inherit, Stdin::Null, 0, caller).unwrap();
    let [crate::io::ChildFd::Terminal, crate::io::ChildFd::Descriptor(stdout), crate::io::ChildFd::Terminal] =
        child.fds
    else {
        panic!("not relayed")
    };
    File::from(stdout).write_all(b"there\n").unwrap();
    let mut seen = Vec::new();
    crate::io::streams::tests::turn_until(&mut streams, |_| {
        seen.extend(read_now(&other_person));
        seen == b"there\r\n"
    });
}

#[test]
fn going_on_after_a_stop_makes_the_terminal_raw_again() {
    let (_person, outer) = open_pair();
    let mut terminal = Terminal::new(outer.as_fd()).unwrap();
    let before = shown(&outer);
    assert!(terminal.enter_raw().unwrap());
    let raw = shown(&outer);
    terminal.suspend();
    assert_eq!(shown(&outer), before);
    // The shell has other modes in the meantime, which are the ones to be restored from now on.
    set_modes(&outer, |modes| modes.special_codes[SpecialCodeIndex::VINTR] = 7);
    let between = shown(&outer);
    terminal.resume();
    assert!(terminal.enter_raw().unwrap());
    assert_ne!(shown(&outer), before);
    assert_ne!(raw, before);
    drop(terminal);
    assert_eq!(shown(&outer), between);
}
