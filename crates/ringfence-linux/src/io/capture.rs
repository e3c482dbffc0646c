use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

/// Size of one read(2); that of a pipe by default (pipe(7)).
const CHUNK: usize = 64 * 1024;
/// Smallest allocation for a stream that has output at all.
const FIRST_ALLOCATION: usize = 4 * 1024;

/// One stream's output within its part of the budget.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Captured {
    /// What was kept, head and tail joined.
    pub(crate) bytes: Vec<u8>,
    /// Number of bytes that are missing between head and tail.
    pub(crate) dropped: u64,
    /// Where in `bytes` they are missing; its length if none are.
    pub(crate) cut: usize,
}

/// Standard output and error on their way into memory. Both pipes are always drained, whatever is kept.
#[derive(Debug)]
pub(crate) struct Capture {
    budget: usize,
    pipes: [Option<OwnedFd>; 2],
    kept: [HeadTail; 2],
    chunk: Box<[u8]>,
}

impl Capture {
    /// Captures from the reading ends of two pipes, which must be non-blocking. `budget` is in bytes, for both
    /// streams together: each may have half, and what one leaves of its half the other may take.
    pub(crate) fn new(budget: usize, stdout: OwnedFd, stderr: OwnedFd) -> Self {
        Self {
            budget,
            pipes: [Some(stdout), Some(stderr)],
            kept: [HeadTail::new(budget), HeadTail::new(budget)],
            chunk: vec![0; CHUNK].into_boxed_slice(),
        }
    }

    /// The stream's pipe (0: output, 1: error), if it is still open.
    pub(crate) fn pipe(&self, stream: usize) -> Option<BorrowedFd<'_>> {
        self.pipes[stream].as_ref().map(AsFd::as_fd)
    }

    /// Takes one chunk out of the stream's pipe.
    pub(crate) fn handle(&mut self, stream: usize) {
        let Some(pipe) = &self.pipes[stream] else { return };
        match rustix::io::read(pipe, &mut self.chunk[..]) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            Ok(0) | Err(_) => self.pipes[stream] = None,
            Ok(count) => {
                let [stdout, stderr] = &mut self.kept;
                let (own, other) = if stream == 0 { (stdout, stderr) } else { (stderr, stdout) };
                // The other one gives way first, so that both never hold more than the budget.
                other.set_limit(limit(self.budget, own.total + count as u64));
                own.push(&self.chunk[..count]);
            }
        }
    }

    /// Whether both pipes are at their end.
    pub(crate) fn is_done(&self) -> bool {
        self.pipes.iter().all(Option::is_none)
    }

    /// Closes the pipes, whatever they still hold.
    pub(crate) fn close(&mut self) {
        self.pipes = [None, None];
    }

    /// What was kept of output and error.
    pub(crate) fn finish(self) -> (Captured, Captured) {
        let [stdout, stderr] = self.kept;
        (stdout.finish(), stderr.finish())
    }
}

/// How much a stream may keep when the other one has written `other` bytes.
fn limit(budget: usize, other: u64) -> usize {
    let left = budget - usize::try_from(other).unwrap_or(budget).min(budget);
    left.max(budget / 2)
}

/// The first and the last bytes of a stream, in the ratio of 2 to 3, within a limit that may shrink on the way.
///
/// The result depends on the bytes and on the last limit alone, not on how they came. Memory is bounded by the
/// limit; a byte costs constant time on average.
#[derive(Debug)]
struct HeadTail {
    limit: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    /// Bytes seen. The invariant: as many of them are held as the limit allows.
    total: u64,
}

impl HeadTail {
    fn new(limit: usize) -> Self {
        Self { limit, head: Vec::new(), tail: VecDeque::new(), total: 0 }
    }

    fn held(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    fn head_limit(&self) -> usize {
        self.limit / 5 * 2 + self.limit % 5 * 2 / 5
    }

    fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = self.head_limit().saturating_sub(self.head.len());
        let (head, tail) = bytes.split_at(if self.tail.is_empty() { room.min(bytes.len()) } else { 0 });
        let capacity = grown(self.head.capacity(), self.head.len() + head.len(), self.head_limit());
        self.head.reserve_exact(capacity - self.head.len());
        self.head.extend_from_slice(head);
        self.make_room(tail.len());
        let tail_limit = self.limit - self.head.len();
        let tail = &tail[tail.len().saturating_sub(tail_limit)..];
        let capacity = grown(self.tail.capacity(), self.tail.len() + tail.len(), tail_limit);
        self.tail.reserve_exact(capacity - self.tail.len());
        self.tail.extend(tail);
        self.release();
    }

    /// Lowers the limit; one that is higher than the present one changes nothing.
    fn set_limit(&mut self, limit: usize) {
        if limit >= self.limit {
            return;
        }
        self.limit = limit;
        self.make_room(0);
        self.release();
    }

    /// Gives memory back that was allocated under a higher limit, when that is worth the copy.
    fn release(&mut self) {
        if self.head.capacity() + self.tail.capacity() > self.limit + self.limit / 4 + FIRST_ALLOCATION {
            self.head.shrink_to_fit();
            self.tail.shrink_to_fit();
        }
    }

    /// Drops from the middle until `more` bytes fit, or, if they are more than a tail holds, until it is empty.
    fn make_room(&mut self, more: usize) {
        if self.held() + more <= self.limit {
            return;
        }
        // The head was perhaps filled under a higher limit; what is beyond its share now belongs to the tail.
        let head = self.head_limit().min(self.head.len());
        let beyond = self.head.len() - head;
        let room = (self.limit - head).saturating_sub(more);
        let excess = beyond + self.tail.len() - room.min(beyond + self.tail.len());
        if excess < beyond {
            self.head[head + excess..].iter().rev().for_each(|byte| self.tail.push_front(*byte));
        } else {
            self.tail.drain(..excess - beyond);
        }
        self.head.truncate(head);
    }

    fn finish(self) -> Captured {
        let held = self.held() as u64;
        let (mut bytes, mut tail) = (self.head, self.tail);
        let mut dropped = self.total - held;
        if dropped > 0 {
            let (before, after) = (incomplete_end(&bytes), orphaned_start(&tail));
            bytes.truncate(bytes.len() - before);
            tail.drain(..after);
            dropped += (before + after) as u64;
        }
        let cut = if dropped > 0 { bytes.len() } else { bytes.len() + tail.len() };
        bytes.reserve_exact(tail.len());
        bytes.extend(tail);
        Captured { bytes, dropped, cut }
    }
}

/// The capacity for `needed` bytes: the present one if it is enough, else double, but not above the limit.
fn grown(capacity: usize, needed: usize, limit: usize) -> usize {
    if needed <= capacity { capacity } else { (capacity * 2).max(FIRST_ALLOCATION).min(limit).max(needed) }
}

/// Length of the UTF-8 sequence (RFC 3629) at the end of `bytes` that was cut off before its last byte, else 0.
fn incomplete_end(bytes: &[u8]) -> usize {
    let is_start = |length: &usize| {
        let end = std::str::from_utf8(&bytes[bytes.len() - length..]);
        end.is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
    };
    (1..=bytes.len().min(3)).find(is_start).unwrap_or(0)
}

/// Number of bytes at the start that continue a UTF-8 sequence which was cut off; 0 where it can't be one.
fn orphaned_start(bytes: &VecDeque<u8>) -> usize {
    let length = bytes.iter().take(4).take_while(|byte| **byte & 0xc0 == 0x80).count();
    if length < 4 { length } else { 0 }
}

#[cfg(test)]
mod tests;
