//! The supervisor: relays the command's streams, enforces the limits in time, and turns what the box reports
//! into a result. One poll(2) loop on one thread.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;

use ringfence_gate::{DriverError, DriverOutput};
use ringfence_types::{Connections, Denial, LayerReport, Step};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::process::Signal;

use crate::covers::Covers;
use crate::desk::{Change, Desk};
use crate::egress::Egress;
use crate::failure::{fault_error, proxy_errno, stream_error};
use crate::io::{Clock, Delivery, Flow, PollSet, Resume, Signals, Source, StreamError, Streams};
use crate::launcher::{Event, Fault, Order, SetUp, SetUpReader};
use crate::running::Running;

/// What the loop waits for.
#[derive(Clone, Copy, Debug)]
enum Token {
    SetUp,
    Control,
    Stream(Source),
    Signal,
    Cancel,
    /// Somebody wants the terminal for a question, or gives it back.
    Desk,
    /// The proxy, or what serves published ports, has ended.
    Proxy,
}

/// Everything that a run is supervised with.
#[derive(Debug)]
pub(crate) struct Supervision<'a> {
    pub(crate) running: &'a mut Running,
    pub(crate) streams: Streams,
    pub(crate) clock: Clock,
    /// What the box's mounts cover.
    pub(crate) covers: Covers,
    /// What serves the box's network, if it has one by host or port.
    pub(crate) egress: Option<Egress>,
    /// Where the terminal is lent.
    pub(crate) desk: Desk,
    /// The signal that stopped the job inside during a question.
    pub(crate) stop_due: Option<i32>,
    /// The command line's; a library leaves its host's signals alone.
    pub(crate) signals: Option<Signals>,
    /// Readable when the run is to be ended.
    pub(crate) cancel: Option<BorrowedFd<'a>>,
    pub(crate) program: PathBuf,
    pub(crate) writable: Vec<PathBuf>,
}

/// Why the loop ended.
#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    Exited(i32),
    Killed(i32),
    /// The box ended without saying how.
    Vanished,
    TimedOut,
    Cancelled,
    MountLost,
    /// A program outside took this path out of the place where it was covered.
    Uncovered(PathBuf),
    /// What serves the box's network has ended.
    ProxyLost,
}

impl End {
    /// What this is if the program has `started` or not. Without that no status is a program's own: the kernel's killer,
    /// short of memory, may have ended the process that was to become it.
    fn of_a_program(self, started: bool) -> Self {
        match self {
            Self::Exited(_) | Self::Killed(_) if !started => Self::Vanished,
            end => end,
        }
    }
}

#[derive(Debug, Default)]
struct Progress {
    reader: SetUpReader,
    set_up_over: bool,
    /// The layers have come, which is the last word of a set-up that did not fail.
    started: bool,
    layers: LayerReport,
    /// The first one: it is behind those that follow.
    fault: Option<Fault>,
}

impl Supervision<'_> {
    /// Runs the loop until no process of the command is left and all output has arrived.
    pub(crate) fn run(mut self) -> Result<DriverOutput, DriverError> {
        let mut progress = Progress::default();
        let end = match self.streams.start().and_then(|()| self.until_the_end(&mut progress)) {
            Ok(end) => end,
            Err(error) => {
                self.running.end();
                return Err(stream_error(error));
            }
        };
        match end {
            End::Exited(_) | End::Killed(_) => self.running.let_end(),
            End::MountLost | End::Vanished => self.running.wait(),
            End::TimedOut | End::Cancelled | End::Uncovered(_) | End::ProxyLost => self.running.end(),
        }
        // A question that is still open goes, and with it whatever holds back the program's output.
        let reached = self.egress.take().map(Egress::finish).unwrap_or_default();
        self.lend_terminal().map_err(stream_error)?;
        progress.read_rest(&mut self.running.set_up);
        let patience = matches!(end, End::Exited(_) | End::Killed(_));
        self.drain(patience).map_err(stream_error)?;
        self.conclude(end, progress, reached)
    }

    fn until_the_end(&mut self, progress: &mut Progress) -> Result<End, StreamError> {
        loop {
            for (token, ready) in self.poll(!progress.set_up_over)? {
                match token {
                    Token::SetUp => progress.read(&mut self.running.set_up),
                    Token::Stream(source) => self.stream(source, ready)?,
                    Token::Signal => self.pass_signals()?,
                    Token::Cancel => return Ok(End::Cancelled),
                    Token::Desk => {
                        self.lend_terminal()?;
                        if let Some(signal) = self.stop_due.take_if(|_| !self.desk.is_lent()) {
                            self.stopped(signal)?;
                        }
                    }
                    Token::Proxy => return Ok(End::ProxyLost),
                    Token::Control => {
                        if let Some(end) = self.receive(progress)? {
                            return Ok(end);
                        }
                    }
                }
            }
            if let Some(path) = self.covers.missing() {
                return Ok(End::Uncovered(path));
            }
            if self.clock.timed_out() {
                return Ok(End::TimedOut);
            }
        }
    }

    fn poll(&self, set_up: bool) -> Result<Vec<(Token, PollFlags)>, StreamError> {
        let mut set = PollSet::new();
        if set_up {
            set.push(Token::SetUp, self.running.set_up.as_fd(), PollFlags::IN);
        }
        set.push(Token::Control, self.running.control.as_fd(), PollFlags::IN);
        self.streams.interest(&mut |source, fd, events| {
            // What is typed while the box is set up waits for the program: a Ctrl-C that the inner terminal got before
            // the program is in its foreground would be nobody's.
            if !(set_up && source.is_typed()) {
                set.push(Token::Stream(source), fd, events);
            }
        });
        if let Some(signals) = &self.signals {
            set.push(Token::Signal, signals.as_fd(), PollFlags::IN);
        }
        if let Some(cancel) = self.cancel {
            set.push(Token::Cancel, cancel, PollFlags::IN);
        }
        if let Some(egress) = &self.egress {
            set.push(Token::Desk, self.desk.as_fd(), PollFlags::IN);
            egress.ended().for_each(|ended| set.push(Token::Proxy, ended, PollFlags::IN));
        }
        set.wait(self.covers.timeout(self.clock.poll_timeout())).map_err(StreamError::Poll)
    }

    fn stream(&mut self, source: Source, ready: PollFlags) -> Result<(), StreamError> {
        if self.streams.handle(source, ready)? == Flow::HungUp {
            self.order(Order::SignalGroup(Signal::HUP.as_raw()));
            self.order(Order::SignalGroup(Signal::CONT.as_raw()));
        }
        Ok(())
    }

    /// Lets go of the terminal for a question, or takes it up again after the last.
    fn lend_terminal(&mut self) -> Result<(), StreamError> {
        let Some(change) = self.desk.change() else { return Ok(()) };
        match change {
            Change::Lend => self.streams.lend_terminal(),
            Change::TakeBack => self.streams.take_back_terminal()?,
        }
        self.desk.done(change);
        Ok(())
    }

    fn pass_signals(&mut self) -> Result<(), StreamError> {
        while let Some(signal) = self.signals.as_mut().and_then(Signals::next) {
            match (Delivery::of(signal), signal) {
                (Delivery::Target, _) => self.order(Order::Signal(signal.as_raw())),
                (Delivery::Group, _) => self.order(Order::SignalGroup(signal.as_raw())),
                (Delivery::Own, Signal::WINCH) => self.streams.resize()?,
                (Delivery::Own, Signal::CONT) => {
                    let foreground = self.streams.continued()?;
                    self.order(Order::Continue { foreground });
                }
                (Delivery::Own, _) => {}
            }
        }
        Ok(())
    }

    /// A box that has ended needs no order; its end is on its way.
    fn order(&self, order: Order) {
        let _ = order.send(&self.running.control);
    }

    fn receive(&mut self, progress: &mut Progress) -> Result<Option<End>, StreamError> {
        match Event::receive(&self.running.control) {
            Ok(Some((Event::Exited(code), _))) => return Ok(Some(End::Exited(code))),
            Ok(Some((Event::Killed(signal), _))) => return Ok(Some(End::Killed(signal))),
            Ok(Some((Event::Terminal, Some(master)))) => {
                let foreground = self.streams.attach_pty(master)?;
                self.order(if foreground { Order::Go } else { Order::GoBackground });
            }
            Ok(Some((Event::Inlet(inlet), Some(socket)))) => {
                if let Some(egress) = &mut self.egress {
                    egress.add(inlet, socket);
                }
            }
            Ok(Some((Event::NetworkReady, _))) => return Ok(self.serve_network(progress)),
            Ok(Some((Event::MountLost, _))) => return Ok(Some(End::MountLost)),
            Ok(Some((Event::InputPiped, _))) => self.streams.relay_stdin_file(),
            Ok(Some((Event::Stopped(signal), _))) => self.stopped(signal)?,
            // PID 1 ended with an order of ours unread, of which the socket tells before it gives PID 1's last event.
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNRESET) => {}
            Ok(Some((Event::Terminal | Event::Inlet(_), None)) | None) | Err(_) => {
                return Ok(Some(End::Vanished));
            }
        }
        Ok(None)
    }

    /// Starts the proxy and lets PID 1 go on. The program does not start without it.
    fn serve_network(&mut self, progress: &mut Progress) -> Option<End> {
        match self.egress.as_mut().map(Egress::start) {
            Some(Ok(())) => {
                self.order(Order::Go);
                None
            }
            started => {
                let errno = match started {
                    Some(Err(error)) => proxy_errno(&error),
                    _ => Errno::INVAL,
                };
                progress.fail(Fault::new(Step::Loopback, errno, Some("the proxy".to_owned())));
                Some(End::Cancelled)
            }
        }
    }

    /// Stops with the job inside, if this is a command line that may.
    fn stopped(&mut self, signal: i32) -> Result<(), StreamError> {
        let Some(signal) = Signal::from_named_raw(signal) else { return Ok(()) };
        // A program that stops itself does not take an open question away from whoever reads it.
        if self.desk.is_lent() && !matches!(signal, Signal::TTIN | Signal::TTOU) {
            self.stop_due = Some(signal.as_raw());
            return Ok(());
        }
        if let Resume::Continue { foreground } = self.streams.job_stopped(signal, self.signals.as_mut())? {
            self.order(Order::Continue { foreground });
        }
        Ok(())
    }

    /// Reads what the dead box has left. With `patience` the caller may take its time to read that, as it could
    /// with the program itself, until a signal or a cancellation says otherwise.
    fn drain(&mut self, patience: bool) -> Result<(), StreamError> {
        self.streams.exited();
        self.clock.exited();
        while !self.streams.is_done() {
            if self.clock.drain_is_over() {
                self.streams.stop_reading();
                self.clock.drained();
                if !patience {
                    return Ok(());
                }
            }
            let mut set = PollSet::new();
            self.streams.interest(&mut |source, fd, events| set.push(Token::Stream(source), fd, events));
            if let Some(signals) = &self.signals {
                set.push(Token::Signal, signals.as_fd(), PollFlags::IN);
            }
            if let Some(cancel) = self.cancel {
                set.push(Token::Cancel, cancel, PollFlags::IN);
            }
            for (token, ready) in set.wait(self.clock.poll_timeout()).map_err(StreamError::Poll)? {
                match token {
                    Token::Stream(source) => {
                        self.streams.handle(source, ready)?;
                    }
                    Token::Signal if !self.is_told_to_end() => {}
                    _ => return Ok(()),
                }
            }
        }
        Ok(())
    }

    fn is_told_to_end(&mut self) -> bool {
        let ends = |signal: &Signal| Delivery::of(*signal) != Delivery::Own && *signal != Signal::TSTP;
        std::iter::from_fn(|| self.signals.as_mut().and_then(Signals::next)).any(|signal| ends(&signal))
    }

    fn conclude(
        self,
        end: End,
        progress: Progress,
        (denials, connections): (Vec<Denial>, Connections),
    ) -> Result<DriverOutput, DriverError> {
        let finished = self.streams.finish();
        if let Some(source) = finished.stdin_error {
            // The program took what it got for all of it, so its result can't be trusted.
            return Err(DriverError::Io {
                action: "read what the command's standard input is fed from",
                source,
            });
        }
        let mut output = DriverOutput {
            stdout: finished.stdout.bytes,
            stderr: finished.stderr.bytes,
            dropped_stdout: finished.stdout.dropped,
            dropped_stderr: finished.stderr.dropped,
            duration: self.clock.elapsed(),
            layers: progress.layers,
            writable: self.writable,
            denials,
            connections,
            ..DriverOutput::default()
        };
        if let Some(fault) = progress.fault {
            return Err(fault_error(fault, output.layers, self.program));
        }
        let violation = match end.of_a_program(progress.started) {
            End::Exited(code) => {
                output.exit_code = Some(code);
                return Ok(output);
            }
            End::Killed(signal) => {
                output.signal = Some(signal);
                return Ok(output);
            }
            End::TimedOut => return Err(DriverError::Timeout { output: Box::new(output) }),
            End::Cancelled => return Err(DriverError::Cancelled),
            End::MountLost => {
                "a program outside replaced or removed a protected path, which ended its protection"
                    .to_owned()
            }
            End::Uncovered(path) => format!(
                "a program outside moved the protected path {}, which ended its protection",
                path.display()
            ),
            End::ProxyLost => "the proxy failed, which left the box without its network".to_owned(),
            End::Vanished => {
                let source = io::Error::from(io::ErrorKind::UnexpectedEof);
                return Err(DriverError::Io { action: "learn how the box ended", source });
            }
        };
        Err(DriverError::Violation { reason: violation, output: Box::new(output) })
    }
}

impl Progress {
    fn read(&mut self, pipe: &mut File) {
        // An error ends the set-up like an end of file; the control socket tells what became of the box.
        self.set_up_over = self.reader.fill(pipe).unwrap_or(true);
        while let Some(message) = self.reader.next() {
            match message {
                SetUp::Layers(layers) => {
                    self.started = true;
                    layers
                        .into_iter()
                        .for_each(|layer| self.layers.record(layer.name, layer.status, layer.detail));
                }
                SetUp::Fault(fault) => self.fail(fault),
            }
        }
    }

    fn fail(&mut self, fault: Fault) {
        self.fault.get_or_insert(fault);
    }

    /// The writers are dead, so the end of the file is near.
    fn read_rest(&mut self, pipe: &mut File) {
        while !self.set_up_over {
            self.read(pipe);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Seek;

    use ringfence_types::{LayerName, LayerStatus};

    use super::*;

    #[test]
    fn only_a_program_that_has_started_has_a_status() {
        for end in [End::Exited(0), End::Killed(9)] {
            assert_eq!(end.clone().of_a_program(false), End::Vanished);
            assert_eq!(end.clone().of_a_program(true), end);
        }
        assert_eq!(End::TimedOut.of_a_program(false), End::TimedOut);
    }

    #[test]
    fn the_first_fault_is_the_cause() {
        let mut pipe = tempfile::tempfile().unwrap();
        let mut reporter = crate::launcher::Reporter::new(pipe.try_clone().unwrap().into());
        let mut empty = Progress::default();
        empty.read_rest(&mut pipe);
        assert!(!empty.started && empty.fault.is_none());

        reporter.layer(LayerName::UserNs, LayerStatus::Enforced, "");
        reporter.fault(Fault::new(Step::Landlock, Errno::NOENT, Some("/a".into())));
        reporter.fault(Fault::new(Step::Init, Errno::PIPE, Some("target".into())));
        pipe.rewind().unwrap();
        let mut progress = Progress::default();
        progress.read_rest(&mut pipe);
        assert!(progress.started && progress.layers.get(LayerName::UserNs).is_some());
        assert_eq!(progress.fault.map(|fault| fault.step), Some(Step::Landlock));
    }
}
