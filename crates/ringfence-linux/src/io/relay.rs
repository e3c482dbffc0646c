use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::PollFlags;

use super::buffer::{Buffer, Step};
use super::nonblocking::NonBlocking;

/// Size of a pipe by default (pipe(7)).
const CAPACITY: usize = 64 * 1024;

/// Which end of a relay is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Source,
    Sink,
}

/// Copies one standard stream between the caller and the box, where the caller's descriptor is not handed over:
/// sockets, devices, files that can't be reopened.
///
/// The end of the source closes the sink once all is written. A sink that is gone closes the source, so the box
/// sees a closed pipe when the caller's side is closed, and the other way round.
#[derive(Debug)]
pub(crate) struct Relay {
    source: Option<NonBlocking>,
    sink: Option<NonBlocking>,
    buffer: Buffer,
}

impl Relay {
    pub(crate) fn new(source: NonBlocking, sink: NonBlocking) -> Self {
        Self { source: Some(source), sink: Some(sink), buffer: Buffer::with_capacity(CAPACITY) }
    }

    /// Names what this relay waits for.
    pub(crate) fn interest<'a>(&'a self, push: &mut dyn FnMut(End, BorrowedFd<'a>, PollFlags)) {
        if let Some(source) = self.source.as_ref().filter(|_| self.buffer.has_room()) {
            push(End::Source, source.as_fd(), PollFlags::IN);
        }
        if let Some(sink) = &self.sink {
            // Without anything to write too: the reader's end is then an error condition.
            let events = if self.buffer.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            push(End::Sink, sink.as_fd(), events);
        }
    }

    /// Moves what can be moved without waiting.
    pub(crate) fn handle(&mut self, end: End, ready: PollFlags) {
        if let Some(source) = self.source.as_ref().filter(|_| end == End::Source && self.buffer.has_room())
            && self.buffer.fill(source) == Step::Ended
        {
            self.source = None;
        }
        if let Some(sink) = &self.sink {
            let broken = if self.buffer.is_empty() {
                end == End::Sink && ready.intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL)
            } else {
                self.buffer.drain(sink) == Step::Ended
            };
            if broken {
                self.close();
            }
        }
        if self.source.is_none() && self.buffer.is_empty() {
            self.sink = None;
        }
    }

    /// Reads no more; what was read is still written.
    pub(crate) fn stop_reading(&mut self) {
        self.source = None;
        if self.buffer.is_empty() {
            self.sink = None;
        }
    }

    /// Closes both ends, whatever is under way.
    pub(crate) fn close(&mut self) {
        (self.source, self.sink) = (None, None);
        self.buffer.clear();
    }

    /// Whether all that came is written.
    pub(crate) fn is_done(&self) -> bool {
        self.sink.is_none()
    }

    /// Gives shared files their flags back before this process stops, or takes them again.
    pub(crate) fn set_suspended(&self, suspended: bool) {
        for end in self.source.iter().chain(&self.sink) {
            if suspended { end.suspend() } else { end.resume() }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::fd::OwnedFd;
    use std::thread;

    use rustix::pipe::pipe;

    use super::*;
    use crate::io::PollSet;

    fn relay() -> (OwnedFd, Relay, OwnedFd) {
        let ((source, writer), (reader, sink)) = (pipe().unwrap(), pipe().unwrap());
        (writer, Relay::new(NonBlocking::own(source).unwrap(), NonBlocking::own(sink).unwrap()), reader)
    }

    fn turn(relay: &mut Relay) {
        let mut set = PollSet::new();
        relay.interest(&mut |end, fd, events| set.push(end, fd, events));
        for (end, ready) in set.wait(None).unwrap() {
            relay.handle(end, ready);
        }
    }

    #[test]
    fn all_arrives_in_order_with_its_end() {
        let (writer, mut relay, reader) = relay();
        let bytes: Vec<u8> = (0..5_000_000_u32).map(|index| (index % 251) as u8).collect();
        let sent = bytes.clone();
        let sender = thread::spawn(move || File::from(writer).write_all(&sent).unwrap());
        let receiver = thread::spawn(move || {
            let mut received = Vec::new();
            File::from(reader).read_to_end(&mut received).unwrap();
            received
        });
        while !relay.is_done() {
            turn(&mut relay);
        }
        sender.join().unwrap();
        assert!(receiver.join().unwrap() == bytes);
    }

    #[test]
    fn a_reader_that_goes_away_closes_the_source() {
        let (writer, mut relay, reader) = relay();
        drop(reader);
        turn(&mut relay);
        assert!(relay.is_done());
        let error = rustix::io::write(&writer, b"x").unwrap_err();
        assert_eq!(error, rustix::io::Errno::PIPE);
    }

    #[test]
    fn a_reader_that_stops_does_not_grow_memory() {
        let (writer, mut relay, _reader) = relay();
        rustix::io::ioctl_fionbio(&writer, true).unwrap();
        let mut accepted = 0;
        while let Ok(count) = rustix::io::write(&writer, &[0; 4096]) {
            accepted += count;
            relay.handle(End::Source, PollFlags::IN);
        }
        // Two pipes and the buffer.
        assert_eq!(accepted, 3 * CAPACITY);
    }

    #[test]
    fn what_was_read_is_written_after_reading_stopped() {
        let (writer, mut relay, reader) = relay();
        rustix::io::write(&writer, b"last line\n").unwrap();
        assert_eq!(relay.buffer.fill(relay.source.as_ref().unwrap()), Step::Moved);
        relay.stop_reading();
        assert!(!relay.is_done());
        turn(&mut relay);
        assert!(relay.is_done());
        let mut received = String::new();
        File::from(reader).read_to_string(&mut received).unwrap();
        assert_eq!(received, "last line\n");
    }
}
