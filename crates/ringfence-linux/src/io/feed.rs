use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use ringfence_types::StdinStream;
use rustix::io::Errno;

use crate::sys;

/// Largest single write; a pipe holds 64 KiB by default (pipe(7)).
const CHUNK: usize = 64 * 1024;
/// The feeding thread has only a buffer on its stack, and what the caller's reader needs.
const STACK: usize = 256 * 1024;

/// Bytes on their way into the program's standard input.
#[derive(Debug)]
pub(crate) struct Feed {
    pipe: Option<OwnedFd>,
    bytes: Vec<u8>,
    sent: usize,
}

impl Feed {
    /// Feeds `bytes` into the writing end of a pipe, which must be non-blocking.
    pub(crate) fn new(pipe: OwnedFd, bytes: Vec<u8>) -> Self {
        let mut feed = Self { pipe: Some(pipe), bytes, sent: 0 };
        feed.close_if_sent();
        feed
    }

    /// The pipe, as long as there is something to write.
    pub(crate) fn pipe(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Writes what the pipe takes now. A program that doesn't read its input is no error.
    pub(crate) fn handle(&mut self) {
        let Some(pipe) = &self.pipe else { return };
        let rest = &self.bytes[self.sent..];
        match rustix::io::write(pipe, &rest[..rest.len().min(CHUNK)]) {
            Ok(count) => self.sent += count,
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.close(),
        }
        self.close_if_sent();
    }

    /// Closes the pipe and forgets what was not sent.
    pub(crate) fn close(&mut self) {
        self.pipe = None;
        self.bytes = Vec::new();
    }

    fn close_if_sent(&mut self) {
        if self.sent >= self.bytes.len() {
            self.close();
        }
    }
}

/// A reader that is copied into the program's standard input by a thread of its own, because it may block.
///
/// The thread ends at the reader's end or with the first write that nobody can read any more, which is the case
/// once the box's processes are dead. A reader that blocks for ever keeps it, but nothing waits for the thread.
#[derive(Debug)]
pub(crate) struct StreamFeed {
    failure: Arc<Mutex<Option<io::Error>>>,
}

impl StreamFeed {
    /// Starts the thread. `pipe` is the writing end of a pipe and must be blocking.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(crate) fn start(stream: StdinStream, pipe: OwnedFd) -> io::Result<Self> {
        let failure = Arc::new(Mutex::new(None));
        let result = Arc::clone(&failure);
        thread::Builder::new().name("ringfence-stdin".into()).stack_size(STACK).spawn(move || {
            // The host's signals are for the host's threads, and SIGPIPE would be the end of the host.
            if let Err(error) =
                sys::set_signal_mask(u64::MAX).map_err(io::Error::from).and_then(|_| copy(stream, pipe))
            {
                *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            }
        })?;
        Ok(Self { failure })
    }

    /// The reader's error that made the input end early, if there was one so far.
    pub(crate) fn failure(&self) -> Option<io::Error> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

fn copy(stream: StdinStream, pipe: OwnedFd) -> io::Result<()> {
    let mut reader = stream.into_inner();
    let mut pipe = File::from(pipe);
    let mut chunk = [0; CHUNK];
    loop {
        match reader.read(&mut chunk) {
            Ok(0) => return Ok(()),
            // Nobody reads it any more: not an error of the run.
            Ok(count) => {
                if pipe.write_all(&chunk[..count]).is_err() {
                    return Ok(());
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use rustix::event::PollFlags;
    use rustix::pipe::{PipeFlags, pipe, pipe_with};

    use super::*;
    use crate::io::PollSet;

    fn nonblocking_pipe() -> (OwnedFd, OwnedFd) {
        let (reader, writer) = pipe().unwrap();
        rustix::io::ioctl_fionbio(&writer, true).unwrap();
        (reader, writer)
    }

    #[test]
    fn a_hundred_megabytes_pass_while_nothing_blocks() {
        let bytes: Vec<u8> = (0..100_000_000_u32).map(|index| (index % 251) as u8).collect();
        let (reader, writer) = nonblocking_pipe();
        let mut feed = Feed::new(writer, bytes.clone());
        let reader = thread::spawn(move || {
            let mut read = Vec::new();
            File::from(reader).read_to_end(&mut read).unwrap();
            read
        });
        while let Some(pipe) = feed.pipe() {
            let mut set = PollSet::new();
            set.push((), pipe, PollFlags::OUT);
            set.wait(None).unwrap();
            feed.handle();
        }
        assert!(reader.join().unwrap() == bytes);
    }

    #[test]
    fn a_full_pipe_does_not_block() {
        let (_reader, writer) = nonblocking_pipe();
        let mut feed = Feed::new(writer, vec![0; 1 << 20]);
        for _ in 0..100 {
            feed.handle();
        }
        assert!(feed.pipe().is_some());
    }

    #[test]
    fn a_reader_that_is_gone_ends_the_feed() {
        let (reader, writer) = nonblocking_pipe();
        let mut feed = Feed::new(writer, vec![0; 10]);
        drop(reader);
        feed.handle();
        assert!(feed.pipe().is_none());
    }

    #[test]
    fn no_bytes_are_end_of_file_at_once() {
        let (reader, writer) = nonblocking_pipe();
        let feed = Feed::new(writer, Vec::new());
        assert!(feed.pipe().is_none());
        assert_eq!(rustix::io::read(&reader, &mut [0; 1]), Ok(0));
    }

    #[test]
    fn a_stream_is_copied_to_its_end() {
        let bytes = vec![7; 1_000_000];
        let (reader, writer) = pipe().unwrap();
        let feed = StreamFeed::start(StdinStream::new(io::Cursor::new(bytes.clone())), writer).unwrap();
        let mut read = Vec::new();
        File::from(reader).read_to_end(&mut read).unwrap();
        assert!(read == bytes);
        assert!(feed.failure().is_none());
    }

    /// Yields without end; tells when it is dropped, which is when the thread ends.
    struct Endless(#[allow(dead_code, reason = "only its drop counts")] mpsc::Sender<()>);

    impl Read for Endless {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            into.fill(b'x');
            Ok(into.len())
        }
    }

    #[test]
    fn the_thread_ends_with_its_reader() {
        let (ended, wait) = mpsc::channel();
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let feed = StreamFeed::start(StdinStream::new(Endless(ended)), writer).unwrap();
        assert_eq!(wait.recv_timeout(Duration::from_millis(50)), Err(mpsc::RecvTimeoutError::Timeout));
        drop(reader);
        assert_eq!(wait.recv_timeout(Duration::from_secs(60)), Err(mpsc::RecvTimeoutError::Disconnected));
        assert!(feed.failure().is_none());
    }

    struct Failing;

    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::InvalidData.into())
        }
    }

    #[test]
    fn an_error_of_the_stream_is_kept() {
        let (reader, writer) = pipe().unwrap();
        let feed = StreamFeed::start(StdinStream::new(Failing), writer).unwrap();
        assert_eq!(File::from(reader).read(&mut [0; 1]).unwrap(), 0);
        // The pipe is closed before the error is stored.
        let failure = (0..1000).find_map(|_| {
            thread::sleep(Duration::from_millis(1));
            feed.failure()
        });
        assert_eq!(failure.unwrap().kind(), io::ErrorKind::InvalidData);
    }
}
