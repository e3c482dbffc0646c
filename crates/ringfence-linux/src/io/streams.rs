use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use ringfence_types::StdinStream;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::process::Signal;

use super::capture::{Capture, Captured};
use super::feed::{Feed, StreamFeed};
use super::pty::{PtyEnd, PtyRelay};
use super::relay::{End, Relay};
use super::signals::Signals;
use crate::sys::Quiet;

mod setup;
#[cfg(test)]
pub(crate) mod tests;

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
    /// The thread that reads a [`Stdin::Stream`](ringfence_types::Stdin::Stream).
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
    /// To be duplicated as it is. Output in a regular file too: the file system rules allow that file in the mode that
    /// it is open in.
    Descriptor(OwnedFd),
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

impl Source {
    /// Whether it is input for the inner terminal.
    pub(crate) fn is_typed(self) -> bool {
        self == Self::Pty(PtyEnd::Input)
    }
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
    /// A [`Stdin::Stream`](ringfence_types::Stdin::Stream) ended early with this error, and the program took it for the end of its input.
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

    /// Lets go of the caller's terminal: its modes are those from before, and nothing is read from or written to it
    /// until it is taken back.
    pub(crate) fn lend_terminal(&mut self) {
        self.pty.iter_mut().for_each(PtyRelay::lend);
    }

    /// Takes the caller's terminal up again, and has the program draw its screen anew.
    ///
    /// # Errors
    /// [`StreamError::Terminal`].
    pub(crate) fn take_back_terminal(&mut self) -> Result<(), StreamError> {
        self.pty.as_mut().map_or(Ok(()), PtyRelay::take_back).map_err(StreamError::Terminal)
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
