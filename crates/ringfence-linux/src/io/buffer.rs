use std::os::fd::AsFd;

use rustix::io::{Errno, read, write};

/// Largest single write of text whose line ends are changed.
const LINES: usize = 4096;

/// What a step on a non-blocking descriptor came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Bytes went through.
    Moved,
    /// Nothing to be done now.
    Blocked,
    /// End of file, or the other side is gone.
    Ended,
}

/// Bytes on their way from one descriptor to another; its size is the back pressure.
#[derive(Debug)]
pub(crate) struct Buffer {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Buffer {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self { bytes: vec![0; capacity].into_boxed_slice(), start: 0, end: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Whether there is room for at least one more byte.
    pub(crate) fn has_room(&self) -> bool {
        self.end - self.start < self.bytes.len()
    }

    /// The byte that was put in last, if it is still here.
    pub(crate) fn last(&self) -> Option<u8> {
        self.bytes[self.start..self.end].last().copied()
    }

    pub(crate) fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
    }

    /// Puts in as much of `bytes` as there is room for and returns how much that was.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> usize {
        self.compact();
        let taken = bytes.len().min(self.bytes.len() - self.end);
        self.bytes[self.end..self.end + taken].copy_from_slice(&bytes[..taken]);
        self.end += taken;
        taken
    }

    /// One read(2) into the room that is left, of which there must be some.
    pub(crate) fn fill(&mut self, from: impl AsFd) -> Step {
        self.compact();
        match read(from, &mut self.bytes[self.end..]) {
            Ok(0) => Step::Ended,
            Ok(count) => {
                self.end += count;
                Step::Moved
            }
            Err(error) => failed(error),
        }
    }

    /// One write(2) of what is here, which must be something.
    pub(crate) fn drain(&mut self, to: impl AsFd) -> Step {
        match write(to, &self.bytes[self.start..self.end]) {
            Ok(count) => {
                self.start += count;
                Step::Moved
            }
            Err(error) => failed(error),
        }
    }

    /// Like [`Self::drain`] for a terminal that puts a carriage return before each line feed itself: leaves out the
    /// ones that are there.
    pub(crate) fn drain_to_line_discipline(&mut self, to: impl AsFd) -> Step {
        let source = &self.bytes[self.start..self.end];
        let kept = || (0..source.len()).filter(|at| !source[*at..].starts_with(b"\r\n"));
        let mut chunk = [0; LINES];
        let mut length = 0;
        for (to, at) in chunk.iter_mut().zip(kept()) {
            *to = source[at];
            length += 1;
        }
        match write(to, &chunk[..length]) {
            Ok(count) => {
                self.start += kept().nth(count).unwrap_or(source.len());
                Step::Moved
            }
            Err(error) => failed(error),
        }
    }

    fn compact(&mut self) {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
    }
}

/// Any error but "not now" ends a direction: EPIPE, ECONNRESET, a terminal that is gone (EIO), a full disk. The
/// box sees it as it would see a closed pipe.
fn failed(error: Errno) -> Step {
    match error {
        Errno::AGAIN | Errno::INTR => Step::Blocked,
        _ => Step::Ended,
    }
}

#[cfg(test)]
mod tests {
    use rustix::pipe::{PipeFlags, pipe_with};

    use super::*;

    #[test]
    fn bytes_pass_in_order_and_the_room_is_bounded() {
        let (reader, writer) = pipe_with(PipeFlags::NONBLOCK).unwrap();
        let mut buffer = Buffer::with_capacity(4);
        assert_eq!(buffer.push(b"abcdef"), 4);
        assert!(!buffer.has_room());
        assert_eq!(buffer.last(), Some(b'd'));
        assert_eq!(buffer.drain(&writer), Step::Moved);
        assert!(buffer.is_empty());
        assert_eq!(buffer.fill(&reader), Step::Moved);
        buffer.clear();
        assert_eq!(buffer.fill(&reader), Step::Blocked);
        drop(writer);
        assert_eq!(buffer.fill(&reader), Step::Ended);
    }

    #[test]
    fn a_reader_that_is_gone_ends_the_direction() {
        let (reader, writer) = pipe_with(PipeFlags::NONBLOCK).unwrap();
        drop(reader);
        let mut buffer = Buffer::with_capacity(4);
        buffer.push(b"x");
        assert_eq!(buffer.drain(&writer), Step::Ended);
    }
    #[test]
    fn a_line_discipline_gets_bare_line_feeds() {
        let (reader, writer) = pipe_with(PipeFlags::NONBLOCK).unwrap();
        let mut buffer = Buffer::with_capacity(100_000);
        let text = "a\r\n\r\nb\r\r\nc\rd\n".repeat(3000);
        assert_eq!(buffer.push(text.as_bytes()), text.len());
        let (mut read, mut chunk) = (Vec::new(), [0; 1000]);
        while !buffer.is_empty() {
            buffer.drain_to_line_discipline(&writer);
            while let Ok(count) = rustix::io::read(&reader, &mut chunk) {
                read.extend(&chunk[..count]);
            }
        }
        assert_eq!(String::from_utf8(read).unwrap(), text.replace("\r\n", "\n"));
    }

    #[test]
    fn a_partial_write_loses_no_text() {
        let (reader, writer) = pipe_with(PipeFlags::NONBLOCK).unwrap();
        rustix::pipe::fcntl_setpipe_size(&writer, 4096).unwrap();
        let room = 4096 - rustix::io::write(&writer, &[b'x'; 4000]).unwrap();
        let mut buffer = Buffer::with_capacity(1000);
        let text = "a\r\n".repeat(100);
        buffer.push(text.as_bytes());
        let mut read = Vec::new();
        while !buffer.is_empty() {
            if buffer.drain_to_line_discipline(&writer) == Step::Blocked {
                let mut chunk = [0; 5000];
                let count = rustix::io::read(&reader, &mut chunk).unwrap();
                read.extend(&chunk[..count]);
            }
        }
        assert!(room < 200);
        let mut chunk = [0; 5000];
        let count = rustix::io::read(&reader, &mut chunk).unwrap();
        read.extend(&chunk[..count]);
        assert_eq!(String::from_utf8(read).unwrap(), "x".repeat(4000) + &text.replace('\r', ""));
    }
}
