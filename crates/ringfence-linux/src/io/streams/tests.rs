use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use ringfence_types::{Stdin, StdinStream, Stdio};
use rustix::event::Timespec;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::setup::{null, pipe};
use super::*;
use crate::io::{Caller, PollSet, Signals};

/// Long enough for any machine; passing tests don't wait for it.
const PATIENCE: Duration = Duration::from_secs(60);

/// One turn of the loop that a supervisor has.
pub(crate) fn turn(streams: &mut Streams) -> Flow {
    let mut set = PollSet::new();
    streams.interest(&mut |source, fd, events| set.push(source, fd, events));
    let wait = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
    for (source, ready) in set.wait(Some(wait)).unwrap() {
        if streams.handle(source, ready).unwrap() == Flow::HungUp {
            return Flow::HungUp;
        }
    }
    Flow::Continue
}

pub(crate) fn turn_until(streams: &mut Streams, mut done: impl FnMut(&Streams) -> bool) {
    let start = Instant::now();
    while !done(streams) {
        assert_eq!(turn(streams), Flow::Continue);
        assert!(start.elapsed() < PATIENCE, "waited in vain");
    }
}

fn nobody() -> OwnedFd {
    null().unwrap()
}

fn caller<'fd>(stdin: &'fd OwnedFd, stdout: &'fd OwnedFd, stderr: &'fd OwnedFd) -> Caller<'fd> {
    Caller { fds: [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()] }
}

fn descriptor(fd: ChildFd) -> File {
    match fd {
        ChildFd::Descriptor(fd) => File::from(fd),
        other => panic!("not a plain descriptor: {other:?}"),
    }
}

fn capture(stdin: Stdin, budget: usize) -> (Streams, [File; 3]) {
    let nobody = nobody();
    let caller = caller(&nobody, &nobody, &nobody);
    let (mut streams, child) = Streams::new(Stdio::Capture, stdin, budget, caller).unwrap();
    streams.start().unwrap();
    (streams, child.fds.map(descriptor))
}

#[test]
fn input_and_both_outputs_pass_at_the_same_time() {
    // Far more than all pipes hold, and the program reads and writes in turns: in sequence this would not end.
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|index| (index % 251) as u8).collect();
    let (mut streams, [mut stdin, mut stdout, mut stderr]) = capture(Stdin::Bytes(bytes.clone()), 10_000_000);
    let program = std::thread::spawn(move || {
        let mut chunk = [0; 10_000];
        loop {
            let count = stdin.read(&mut chunk).unwrap();
            if count == 0 {
                return;
            }
            stdout.write_all(&chunk[..count]).unwrap();
            stderr.write_all(&chunk[..count]).unwrap();
        }
    });
    turn_until(&mut streams, Streams::is_done);
    program.join().unwrap();
    let finished = streams.finish();
    assert!(finished.stdout.bytes == bytes);
    assert!(finished.stderr.bytes == bytes);
}

#[test]
fn a_program_that_ignores_its_input_is_no_error() {
    let (mut streams, [stdin, mut stdout, stderr]) = capture(Stdin::Bytes(vec![0; 10_000_000]), 100);
    stdout.write_all(b"done").unwrap();
    drop((stdin, stdout, stderr));
    turn_until(&mut streams, Streams::is_done);
    streams.exited();
    assert_eq!(streams.finish().stdout.bytes, b"done");
}

#[test]
fn a_stream_is_fed_by_its_own_thread() {
    let reader = std::io::Cursor::new(vec![b'x'; 1_000_000]);
    let (streams, [mut stdin, ..]) = capture(Stdin::Stream(StdinStream::new(reader)), 100);
    let mut read = Vec::new();
    stdin.read_to_end(&mut read).unwrap();
    assert_eq!(read.len(), 1_000_000);
    assert!(streams.finish().stdin_error.is_none());
}

#[test]
fn a_stream_that_never_yields_does_not_hold_up_the_end() {
    let (_keep_open, reader) = std::os::unix::net::UnixStream::pair().unwrap();
    let (mut streams, child) = capture(Stdin::Stream(StdinStream::new(reader)), 100);
    drop(child);
    turn_until(&mut streams, Streams::is_done);
    streams.exited();
    streams.finish();
}

#[test]
fn null_input_is_at_its_end() {
    let (_streams, [mut stdin, ..]) = capture(Stdin::Null, 100);
    assert_eq!(stdin.read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn a_pipe_that_somebody_keeps_open_can_be_given_up() {
    let (mut streams, [_stdin, stdout, stderr]) = capture(Stdin::Null, 100);
    (&stdout).write_all(b"so far").unwrap();
    drop(stderr);
    streams.exited();
    for _ in 0..10 {
        turn(&mut streams);
    }
    assert!(!streams.is_done());
    streams.stop_reading();
    assert!(streams.is_done());
    assert_eq!(streams.finish().stdout.bytes, b"so far");
}

#[test]
fn pipes_of_the_caller_are_handed_over() {
    let (reader, writer) = pipe().unwrap();
    let (streams, child) =
        Streams::new(Stdio::Inherit, Stdin::Null, 0, caller(&reader, &writer, &writer)).unwrap();
    let [mut stdin, mut stdout, mut stderr] = child.fds.map(descriptor);
    stdout.write_all(b"o").unwrap();
    stderr.write_all(b"e").unwrap();
    let mut read = [0; 2];
    stdin.read_exact(&mut read).unwrap();
    assert_eq!(&read, b"oe");
    // Nothing is left to do for the supervisor.
    streams.interest(&mut |source, _, _| panic!("waits for {source:?}"));
    assert!(streams.is_done());
}

#[test]
fn given_input_replaces_the_callers() {
    let (reader, writer) = pipe().unwrap();
    let stdin = Stdin::Bytes(b"given".to_vec());
    let (mut streams, child) =
        Streams::new(Stdio::Inherit, stdin, 0, caller(&reader, &writer, &writer)).unwrap();
    let [mut stdin, ..] = child.fds.map(descriptor);
    turn(&mut streams);
    let mut read = String::new();
    stdin.read_to_string(&mut read).unwrap();
    assert_eq!(read, "given");
}

#[test]
fn a_file_as_input_is_piped_only_if_it_must_be() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"skipped, read").unwrap();
    file.seek(std::io::SeekFrom::Start(9)).unwrap();
    let (stdin, nobody) = (OwnedFd::from(file.try_clone().unwrap()), nobody());
    let (mut streams, child) =
        Streams::new(Stdio::Inherit, Stdin::Null, 0, caller(&stdin, &nobody, &nobody)).unwrap();
    let [ChildFd::InputFile { pipe, .. }, ..] = child.fds else { panic!("not a file") };
    turn(&mut streams);
    assert_eq!(file.stream_position().unwrap(), 9);
    streams.relay_stdin_file();
    let mut read = String::new();
    let reader = std::thread::spawn(move || File::from(pipe).read_to_string(&mut read).map(|_| read));
    turn_until(&mut streams, |streams| streams.relays[0].as_ref().is_some_and(Relay::is_done));
    assert_eq!(reader.join().unwrap().unwrap(), "read");
}

#[test]
fn a_file_as_output_is_told_apart() {
    let file = OwnedFd::from(tempfile::tempfile().unwrap());
    let nobody = nobody();
    let (_, child) = Streams::new(Stdio::Inherit, Stdin::Null, 0, caller(&nobody, &file, &nobody)).unwrap();
    assert!(matches!(child.fds, [ChildFd::Descriptor(_), ChildFd::Descriptor(_), ChildFd::Descriptor(_)]));
}

#[test]
fn a_directory_as_input_does_not_get_into_the_box() {
    let directory = OwnedFd::from(File::open("/").unwrap());
    let nobody = nobody();
    let (mut streams, child) =
        Streams::new(Stdio::Inherit, Stdin::Null, 0, caller(&directory, &nobody, &nobody)).unwrap();
    let [mut stdin, ..] = child.fds.map(descriptor);
    turn(&mut streams);
    assert_eq!(stdin.read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn sockets_are_relayed_both_ways_and_keep_the_order_of_output() {
    let pair = || socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    let ((input, input_peer), (output, output_peer)) = (pair(), pair());
    let (mut streams, child) =
        Streams::new(Stdio::Inherit, Stdin::Null, 0, caller(&input, &output, &output)).unwrap();
    let [mut stdin, mut stdout, mut stderr] = child.fds.map(descriptor);

    File::from(input_peer).write_all(b"input").unwrap();
    let reader = std::thread::spawn(move || {
        let mut read = String::new();
        stdin.read_to_string(&mut read).map(|_| read)
    });
    for round in 0..100 {
        write!(stdout, "o{round} ").unwrap();
        write!(stderr, "e{round} ").unwrap();
    }
    drop((stdout, stderr));
    turn_until(&mut streams, |streams| streams.relays.iter().flatten().all(Relay::is_done));
    assert_eq!(reader.join().unwrap().unwrap(), "input");
    drop((streams, output));
    let mut written = String::new();
    File::from(output_peer).read_to_string(&mut written).unwrap();
    let expected: String = (0..100).map(|round| format!("o{round} e{round} ")).collect();
    assert_eq!(written, expected);
}

#[test]
fn a_socket_that_is_closed_is_a_broken_pipe_inside() {
    write_to_a_closed_socket(|mut stdout| {
        assert_eq!(stdout.write(b"x").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    });
}

fn write_to_a_closed_socket(check: impl FnOnce(File)) {
    let (output, peer) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    let nobody = nobody();
    let (mut streams, child) =
        Streams::new(Stdio::Inherit, Stdin::Null, 0, caller(&nobody, &output, &nobody)).unwrap();
    let [_, mut stdout, _] = child.fds.map(descriptor);
    drop(peer);
    stdout.write_all(b"into the void").unwrap();
    turn_until(&mut streams, Streams::is_done);
    check(stdout);
}

/// The Rust runtime ignores SIGPIPE, other hosts don't.
#[test]
fn a_host_that_dies_of_sigpipe_survives() {
    let test = concat!(module_path!(), "::with_sigpipe");
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test.split_once("::").unwrap().1, "--ignored", "--nocapture"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
}

#[test]
#[ignore = "a process of its own, started by another test"]
fn with_sigpipe() {
    crate::sys::default_sigpipe();
    a_program_that_ignores_its_input_is_no_error();
    write_to_a_closed_socket(drop);
    let endless = StdinStream::new(std::io::repeat(b'x'));
    let (mut streams, child) = capture(Stdin::Stream(endless), 100);
    drop(child);
    turn_until(&mut streams, Streams::is_done);
    // The thread that feeds the input meets the broken pipe at some time; give it that.
    std::thread::sleep(Duration::from_millis(200));
}

#[test]
fn a_host_is_not_stopped_by_its_program() {
    let (mut streams, _child) = capture(Stdin::Null, 0);
    for signal in [Signal::TSTP, Signal::TTIN, Signal::TTOU] {
        assert_eq!(streams.job_stopped(signal, None).unwrap(), Resume::Continue { foreground: true });
    }
    assert_eq!(streams.job_stopped(Signal::STOP, None).unwrap(), Resume::Leave);
}

#[test]
fn a_script_is_not_stopped_by_its_program_but_by_its_caller() {
    // If it were stopped, this would not end. Signals and masks of this test belong to a thread.
    std::thread::spawn(|| {
        let (mut streams, _child) = capture(Stdin::Null, 0);
        let mut signals = Signals::block().unwrap();
        let resumed = streams.job_stopped(Signal::TSTP, Some(&mut signals)).unwrap();
        assert_eq!(resumed, Resume::Continue { foreground: true });
        assert_eq!(streams.job_stopped(Signal::STOP, Some(&mut signals)).unwrap(), Resume::Leave);
        assert!(!signals.stop_received());
        crate::sys::signal_this_thread(Signal::TSTP).unwrap();
        assert_eq!(signals.next(), Some(Signal::TSTP));
        assert!(signals.stop_received());
    })
    .join()
    .unwrap();
}
