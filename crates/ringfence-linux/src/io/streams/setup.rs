//! How a run's streams are made from what the command asks for and from what the caller has.

use std::os::fd::{BorrowedFd, OwnedFd};

use ringfence_types::{Stdin, Stdio};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::pipe::{PipeFlags, pipe_with};

use super::{ChildFd, ChildStdio, Input, StreamError, Streams};
use crate::io::caller::{Caller, Kind, same_file, same_terminal};
use crate::io::capture::Capture;
use crate::io::feed::Feed;
use crate::io::nonblocking::NonBlocking;
use crate::io::pty::{PtyInput, PtyRelay};
use crate::io::relay::Relay;
use crate::io::terminal::Terminal;

const NAMES: [&str; 3] = ["standard input", "standard output", "standard error"];

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
            Kind::Regular if stream == 0 => {
                let (pipe, relay) = relay(stream, caller)?;
                self.file = Some(relay);
                ChildFd::InputFile { file: copy()?, pipe }
            }
            Kind::Plain | Kind::Regular => ChildFd::Descriptor(copy()?),
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

pub(super) fn pipe() -> Result<(OwnedFd, OwnedFd), StreamError> {
    pipe_with(PipeFlags::CLOEXEC).map_err(StreamError::Pipe)
}

pub(super) fn null() -> Result<OwnedFd, StreamError> {
    rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(StreamError::Null)
}
