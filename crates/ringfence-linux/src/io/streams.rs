use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use ringfence_types::{Stdin, StdinStream, Stdio};
use rustix::event::PollFlags;
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Signal;

use super::caller::{Caller, Kind, same_file, same_terminal};
use super::capture::{Capture, Captured};
use super::feed::{Feed, StreamFeed};
use super::nonblocking::NonBlocking;
use super::pty::{PtyEnd, PtyInput, PtyRelay};
use super::relay::{End, Relay};
use super::signals::Signals;
use super::terminal::Terminal;
use crate::sys::Quiet;

const NAMES: [&str; 3] = ["standard input", "standard output", "standard error"];

/// Why a run's streams could not be set up or driven.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StreamError {
    /// No pipe for a captured, fed or relayed stream.
    #[error("cannot create a pipe")]
    Pipe(#[source] Errno),
    /// `/dev/null` in place of a stream that leads nowhere.
    #[error("cannot open /dev/null")]
    Null(#[source] Errno),
    /// A descriptor of the caller.
    #[error("cannot take up {stream}")]
    Caller {
        /// Which one.
        stream: &'static str,
        /// The system's answer.
        source: Errno,
    },
    /// The thread that reads a [`Stdin::Stream`].
    #[error("cannot start the thread that feeds standard input")]
    Thread(#[source] io::Error),
    /// The inner terminal, or the outer one on its behalf.
    #[error("cannot set up the inner terminal")]
    Terminal(#[source] Errno),
    /// Stopping and going on with the box.
    #[error("cannot stop this process")]
    Stop(#[source] Errno),
    /// Waiting for any of the descriptors.
    #[error("cannot wait for descriptors")]
    Poll(#[source] Errno),
    /// Blocking the signals of a broken pipe or a terminal.
    #[error("cannot block signals")]
    Signals(#[source] Errno),
}

/// One of the program's three descriptors, as the launcher has to set it up.
#[derive(Debug)]
pub(crate) enum ChildFd {
    /// To be duplicated as it is.
    Descriptor(OwnedFd),
    /// Standard output or error in a regular file: to be duplicated, and the file system rules must allow that
    /// file in the mode that it is open in.
    OutputFile(OwnedFd),
    /// Standard input from a regular file: to be opened anew, read-only, from a read-only mount, at the same
    /// position. Where that is impossible, `pipe` takes its place, and [`Streams::relay_stdin_file`] is called.
    InputFile {
        /// The caller's descriptor.
        file: OwnedFd,
        /// The reading end of a pipe.
        pipe: OwnedFd,
    },
    /// The inner terminal's slave.
    Terminal,
}

/// The program's standard input, output and error. The supervisor drops it once the launcher has its copy, or the
/// ends of files are never seen.
#[derive(Debug)]
pub(crate) struct ChildStdio {
    pub(crate) fds: [ChildFd; 3],
}

/// What of a [`Streams`] is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A captured stream, by its index in the [`Capture`].
    Capture(usize),
    /// The pipe into standard input.
    Feed,
    /// A relayed stream, by its number.
    Relay(usize, End),
    /// The inner terminal.
    Pty(PtyEnd),
}

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Nothing that concerns the supervisor.
    Continue,
    /// The caller's side of the terminal is gone and the inner one was closed: the program's process group is to
    /// get SIGHUP and SIGCONT.
    HungUp,
}

/// What becomes of a program that was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resume {
    /// It is to be continued.
    Continue {
        /// In the foreground of its terminal.
        foreground: bool,
    },
    /// It stays stopped until somebody continues it.
    Leave,
}

/// What is left of the streams after the run.
#[derive(Debug, Default)]
pub(crate) struct Finished {
    /// Captured standard output; empty if it was not captured.
    pub(crate) stdout: Captured,
    /// Captured standard error.
    pub(crate) stderr: Captured,
    /// A [`Stdin::Stream`] ended early with this error, and the program took it for the end of its input.
    pub(crate) stdin_error: Option<io::Error>,
}

#[derive(Debug)]
enum Input {
    None,
    Feed(Feed),
    /// Waits for [`Streams::start`].
    Stream(StdinStream, OwnedFd),
    Thread(StreamFeed),
}

/// The supervisor's side of a run's standard streams. See the module for the order of the calls.
#[derive(Debug)]
pub(crate) struct Streams {
    input: Input,
    capture: Option<Capture>,
    relays: [Option<Relay>; 3],
    /// Stands by in case that the file can't be reopened.
    file: Option<Relay>,
    pty: Option<PtyRelay>,
}

impl Streams {
    /// Prepares the streams. Starts no thread and changes nothing that the caller could notice, but for
    /// `O_NONBLOCK` on a socket of the caller's, which has it until this value is dropped.
    ///
    /// With captured output, the input is what `stdin` says; else [`Stdin::Null`] stands for the caller's own
    /// standard input. `budget` is the number of captured bytes to keep.
    ///
    /// # Errors
    /// When descriptors run out, or one of the caller's is refused by the system.
    pub(crate) fn new(
        stdio: Stdio,
        stdin: Stdin,
        budget: usize,
        caller: Caller<'_>,
    ) -> Result<(Self, ChildStdio), StreamError> {
        let mut streams =
            Self { input: Input::None, capture: None, relays: [None, None, None], file: None, pty: None };
        let fds = match stdio {
            Stdio::Capture => streams.capture(stdin, budget)?,
            Stdio::Inherit => streams.inherit(stdin, caller)?,
            Stdio::Pty => streams.terminal(stdin, caller)?,
        };
        Ok((streams, ChildStdio { fds }))
    }

    fn capture(&mut self, stdin: Stdin, budget: usize) -> Result<[ChildFd; 3], StreamError> {
        let input = match self.feed(stdin)? {
            Some(pipe) => pipe,
            None => null()?,
        };
        let ((stdout, child_stdout), (stderr, child_stderr)) = (pipe()?, pipe()?);
        for end in [&stdout, &stderr] {
            rustix::io::ioctl_fionbio(end, true).map_err(StreamError::Pipe)?;
        }
        self.capture = Some(Capture::new(budget, stdout, stderr));
        Ok([input, child_stdout, child_stderr].map(ChildFd::Descriptor))
    }

    /// The reading end of a pipe that is fed with `stdin`; `None` if that is null.
    fn feed(&mut self, stdin: Stdin) -> Result<Option<OwnedFd>, StreamError> {
        let (reader, input) = match stdin {
            Stdin::Null => return Ok(None),
            Stdin::Bytes(bytes) => {
                let (reader, writer) = pipe()?;
                rustix::io::ioctl_fionbio(&writer, true).map_err(StreamError::Pipe)?;
                (reader, Input::Feed(Feed::new(writer, bytes)))
            }
            Stdin::Stream(stream) => {
                let (reader, writer) = pipe()?;
                (reader, Input::Stream(stream, writer))
            }
        };
        self.input = input;
        Ok(Some(reader))
    }

    fn inherit(&mut self, stdin: Stdin, caller: Caller<'_>) -> Result<[ChildFd; 3], StreamError> {
        let fed = self.feed(stdin)?;
        let mut kinds = [0, 1, 2].map(|stream| Kind::of(caller.fds[stream], stream));
        if fed.is_some() {
            kinds[0] = Kind::Plain;
        }
        let outer = kinds.iter().position(|kind| *kind == Kind::Terminal);
        // One inner terminal stands for one outer one. Another gets the bytes that are meant for it, no more.
        for (kind, fd) in kinds.iter_mut().zip(caller.fds) {
            if *kind == Kind::Terminal && outer.is_some_and(|outer| !same_terminal(caller.fds[outer], fd)) {
                *kind = Kind::Opaque;
            }
        }
        if let Some(outer) = outer {
            let output =
                [1, 2, 0].into_iter().find(|stream| kinds[*stream] == Kind::Terminal).unwrap_or(outer);
            let eager = kinds[0] == Kind::Terminal && kinds[1] == Kind::Terminal;
            self.pty = Some(PtyRelay::new(
                Some(take_up(outer, caller, Terminal::new)?),
                PtyInput::Keyboard,
                take_up(output, caller, NonBlocking::shared)?,
                true,
                eager,
            ));
        }
        let input = match fed {
            Some(pipe) => ChildFd::Descriptor(pipe),
            None => self.hand_over(0, kinds[0], caller)?,
        };
        let output = self.hand_over(1, kinds[1], caller)?;
        let error = match &output {
            // One pipe for both keeps the order of what is written.
            ChildFd::Descriptor(pipe)
                if kinds[1..] == [Kind::Opaque, Kind::Opaque] && same_file(caller.fds[1], caller.fds[2]) =>
            {
                ChildFd::Descriptor(fcntl_dupfd_cloexec(pipe, 3).map_err(StreamError::Pipe)?)
            }
            _ => self.hand_over(2, kinds[2], caller)?,
        };
        Ok([input, output, error])
    }

    /// What the program gets for one of the caller's descriptors.
    fn hand_over(&mut self, stream: usize, kind: Kind, caller: Caller<'_>) -> Result<ChildFd, StreamError> {
        let copy = || take_up(stream, caller, |fd| fcntl_dupfd_cloexec(fd, 3));
        Ok(match kind {
            Kind::Terminal => ChildFd::Terminal,
            Kind::Plain => ChildFd::Descriptor(copy()?),
            Kind::Regular if stream == 0 => {
                let (pipe, relay) = relay(stream, caller)?;
                self.file = Some(relay);
                ChildFd::InputFile { file: copy()?, pipe }
            }
            Kind::Regular => ChildFd::OutputFile(copy()?),
            Kind::Opaque => {
                let (pipe, relay) = relay(stream, caller)?;
                self.relays[stream] = Some(relay);
                ChildFd::Descriptor(pipe)
            }
            Kind::Unusable => ChildFd::Descriptor(null()?),
        })
    }

    fn terminal(&mut self, stdin: Stdin, caller: Caller<'_>) -> Result<[ChildFd; 3], StreamError> {
        let kinds = [0, 1].map(|stream| Kind::of(caller.fds[stream], stream));
        let (input, keyboard) = match self.feed(stdin)? {
            Some(pipe) => (PtyInput::Typed(NonBlocking::own(pipe).map_err(StreamError::Pipe)?), false),
            None => match kinds[0] {
                Kind::Terminal => (PtyInput::Keyboard, true),
                Kind::Unusable => {
                    (PtyInput::Typed(NonBlocking::own(null()?).map_err(StreamError::Null)?), false)
                }
                _ => (PtyInput::Typed(take_up(0, caller, NonBlocking::shared)?), false),
            },
        };
        let outer = [(0, keyboard), (1, kinds[1] == Kind::Terminal)].into_iter().find(|(_, is_one)| *is_one);
        let outer = outer.map(|(stream, _)| stream);
        let output = match kinds[1] {
            Kind::Unusable => NonBlocking::own(null()?).map_err(StreamError::Null)?,
            _ => take_up(1, caller, NonBlocking::shared)?,
        };
        let output_is_terminal = outer.is_some_and(|outer| {
            kinds[1] == Kind::Terminal && same_terminal(caller.fds[outer], caller.fds[1])
        });
        let outer = outer.map(|stream| take_up(stream, caller, Terminal::new)).transpose()?;
        let eager = keyboard && output_is_terminal;
        self.pty = Some(PtyRelay::new(outer, input, output, output_is_terminal, eager));
        Ok([ChildFd::Terminal, ChildFd::Terminal, ChildFd::Terminal])
    }

    /// To be called after the launch: before it, no other thread may run.
    ///
    /// # Errors
    /// [`StreamError::Thread`].
    pub(crate) fn start(&mut self) -> Result<(), StreamError> {
        self.input = match std::mem::replace(&mut self.input, Input::None) {
            Input::Stream(stream, pipe) => {
                Input::Thread(StreamFeed::start(stream, pipe).map_err(StreamError::Thread)?)
            }
            other => other,
        };
        Ok(())
    }

    /// The box could not reopen the file that is its standard input: it is piped.
    pub(crate) fn relay_stdin_file(&mut self) {
        self.relays[0] = self.file.take();
    }

    /// Takes the master side of the box's terminal, which is unlocked and not yet in use. Copies the outer
    /// terminal's modes and size to it. The program must not start before; it starts in the foreground of its
    /// terminal if the answer is `true`, else in the background.
    ///
    /// # Errors
    /// [`StreamError::Terminal`].
    pub(crate) fn attach_pty(&mut self, master: OwnedFd) -> Result<bool, StreamError> {
        match &mut self.pty {
            Some(pty) => pty.attach(master).map_err(StreamError::Terminal),
            None => Err(StreamError::Terminal(Errno::NOTTY)),
        }
    }

    /// Names what the streams wait for now.
    pub(crate) fn interest<'a>(&'a self, push: &mut dyn FnMut(Source, BorrowedFd<'a>, PollFlags)) {
        if let Some(capture) = &self.capture {
            for stream in 0..2 {
                if let Some(pipe) = capture.pipe(stream) {
                    push(Source::Capture(stream), pipe, PollFlags::IN);
                }
            }
        }
        if let Input::Feed(feed) = &self.input
            && let Some(pipe) = feed.pipe()
        {
            push(Source::Feed, pipe, PollFlags::OUT);
        }
        for (stream, relay) in self.relays.iter().enumerate() {
            if let Some(relay) = relay {
                relay.interest(&mut |end, fd, events| push(Source::Relay(stream, end), fd, events));
            }
        }
        if let Some(pty) = &self.pty {
            pty.interest(&mut |end, fd, events| push(Source::Pty(end), fd, events));
        }
    }

    /// Does what can be done for a source that is ready; never blocks.
    ///
    /// # Errors
    /// [`StreamError::Terminal`], [`StreamError::Signals`].
    pub(crate) fn handle(&mut self, source: Source, ready: PollFlags) -> Result<Flow, StreamError> {
        if let Source::Capture(stream) = source {
            self.capture.iter_mut().for_each(|capture| capture.handle(stream));
            return Ok(Flow::Continue);
        }
        let _quiet = Quiet::new().map_err(StreamError::Signals)?;
        match source {
            Source::Capture(_) => {}
            Source::Feed => {
                if let Input::Feed(feed) = &mut self.input {
                    feed.handle();
                }
            }
            Source::Relay(stream, end) => {
                self.relays[stream].iter_mut().for_each(|relay| relay.handle(end, ready))
            }
            Source::Pty(end) => {
                if let Some(pty) = &mut self.pty
                    && pty.handle(end, ready).map_err(StreamError::Terminal)?
                {
                    return Ok(Flow::HungUp);
                }
            }
        }
        Ok(Flow::Continue)
    }

    /// The outer terminal has another size (SIGWINCH).
    ///
    /// # Errors
    /// [`StreamError::Terminal`].
    pub(crate) fn resize(&self) -> Result<(), StreamError> {
        self.pty.as_ref().map_or(Ok(()), PtyRelay::resize).map_err(StreamError::Terminal)
    }

    /// The program was stopped by `signal`: by a key, by itself, or because it wants the terminal. Gives it that, or
    /// stops this process likewise, with the caller's terminal as it was found, until it is continued.
    ///
    /// Only a command line at a terminal stops, or one that was itself asked to: a program must not be able to stop
    /// the clock of a host or of a script, or the script with it.
    ///
    /// # Errors
    /// [`StreamError::Terminal`], [`StreamError::Stop`].
    pub(crate) fn job_stopped(
        &mut self,
        signal: Signal,
        signals: Option<&mut Signals>,
    ) -> Result<Resume, StreamError> {
        let wants_terminal = matches!(signal, Signal::TTIN | Signal::TTOU);
        if let Some(pty) = self.pty.as_mut().filter(|_| wants_terminal)
            && pty.demand_keyboard().map_err(StreamError::Terminal)?
        {
            return Ok(Resume::Continue { foreground: true });
        }
        let interactive = self.pty.as_ref().is_some_and(PtyRelay::has_keyboard);
        let stopped = match signals {
            Some(signals) if interactive || signals.stop_received() => {
                self.pty.iter_mut().for_each(PtyRelay::suspend);
                self.relays.iter().flatten().for_each(|relay| relay.set_suspended(true));
                let whole_job = signal != Signal::STOP && !signals.stop_received();
                signals.stop(signal, whole_job).map_err(StreamError::Stop)?
            }
            _ if signal == Signal::STOP => return Ok(Resume::Leave),
            // As the kernel treats an orphaned process group.
            _ => false,
        };
        if let Some(pty) = self.pty.as_mut().filter(|_| wants_terminal && !stopped) {
            pty.give_up_keyboard();
        }
        Ok(Resume::Continue { foreground: self.continued()? })
    }

    /// This process goes on after a stop (SIGCONT), which may not have been its own doing. Returns whether the
    /// program is to be in the foreground of its terminal now.
    ///
    /// # Errors
    /// [`StreamError::Terminal`].
    pub(crate) fn continued(&mut self) -> Result<bool, StreamError> {
        self.relays.iter().flatten().for_each(|relay| relay.set_suspended(false));
        self.pty.as_mut().map_or(Ok(true), PtyRelay::resume).map_err(StreamError::Terminal)
    }

    /// The box is dead: its input ends, and its output ends with what is under way.
    pub(crate) fn exited(&mut self) {
        if let Input::Feed(feed) = &mut self.input {
            feed.close();
        }
        self.relays[0] = None;
        self.file = None;
        self.pty.iter_mut().for_each(PtyRelay::exited);
    }

    /// Reads nothing more from the box; what was read is still written.
    pub(crate) fn stop_reading(&mut self) {
        self.capture.iter_mut().for_each(Capture::close);
        self.relays.iter_mut().flatten().for_each(Relay::stop_reading);
        self.pty.iter_mut().for_each(PtyRelay::stop_reading);
    }

    /// Whether all output has arrived. Meaningful after [`Self::exited`].
    pub(crate) fn is_done(&self) -> bool {
        self.capture.as_ref().is_none_or(Capture::is_done)
            && self.relays.iter().flatten().all(Relay::is_done)
            && self.pty.as_ref().is_none_or(PtyRelay::is_done)
    }

    /// Closes everything, gives the caller's terminal back and returns what was captured.
    pub(crate) fn finish(self) -> Finished {
        let stdin_error = match &self.input {
            Input::Thread(thread) => thread.failure(),
            _ => None,
        };
        let (stdout, stderr) = self.capture.map(Capture::finish).unwrap_or_default();
        Finished { stdout, stderr, stdin_error }
    }
}

/// A pipe into the box or out of it, and the relay between it and the caller's descriptor.
fn relay(stream: usize, caller: Caller<'_>) -> Result<(OwnedFd, Relay), StreamError> {
    let (reader, writer) = pipe()?;
    let outer = take_up(stream, caller, NonBlocking::shared)?;
    let own = |end| NonBlocking::own(end).map_err(StreamError::Pipe);
    Ok(match stream {
        0 => (reader, Relay::new(outer, own(writer)?)),
        _ => (writer, Relay::new(own(reader)?, outer)),
    })
}

fn take_up<T>(
    stream: usize,
    caller: Caller<'_>,
    how: impl Fn(BorrowedFd<'_>) -> Result<T, Errno>,
) -> Result<T, StreamError> {
    how(caller.fds[stream]).map_err(|source| StreamError::Caller { stream: NAMES[stream], source })
}

fn pipe() -> Result<(OwnedFd, OwnedFd), StreamError> {
    pipe_with(PipeFlags::CLOEXEC).map_err(StreamError::Pipe)
}

fn null() -> Result<OwnedFd, StreamError> {
    rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(StreamError::Null)
}

#[cfg(test)]
pub(crate) mod tests;
