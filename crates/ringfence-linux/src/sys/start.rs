//! What is true only before `main`: the standard library opens `/dev/null` in the place of each standard descriptor
//! that the process was started without.

use std::sync::atomic::{AtomicU8, Ordering};

/// Bit n: descriptor n was closed when the process began.
static CLOSED: AtomicU8 = AtomicU8::new(0);

// SAFETY: the C library calls each function in this section once, on the only thread there is, before `main`. This
// one keeps to the C calling convention and needs nothing that is set up later.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE_CLOSED: extern "C" fn() = note_closed;

extern "C" fn note_closed() {
    for fd in 0..3 {
        // SAFETY: fcntl(2) with F_GETFD reads a flag of a descriptor that may or may not be open.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
            CLOSED.fetch_or(1 << fd, Ordering::Relaxed);
        }
    }
}

/// Whether this process was started with its standard output closed, whatever is open in its place now.
pub fn stdout_was_closed() -> bool {
    CLOSED.load(Ordering::Relaxed) & (1 << 1) != 0
}
