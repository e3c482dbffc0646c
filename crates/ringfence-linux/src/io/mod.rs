//! The standard streams of a run, as its supervisor sees them.
//!
//! Everything here is driven by one poll(2) loop, which belongs to the supervisor. A part names the descriptors
//! that it waits for and has a step that never blocks, so neither a box that stops reading, nor one that floods
//! its output, nor a caller that goes away can stop the others.
//!
//! [`Streams`] is the whole: made before the launch from what the command asks for, it yields the child's three
//! descriptors and keeps the other ends. In the order of a run:
//!
//! 1. [`Signals::block`] (command line only), [`Streams::new`]: no thread, nothing changed on the terminal.
//! 2. The launch, with the [`ChildStdio`]; dropped in the supervisor afterwards.
//! 3. [`Streams::start`], and [`Streams::attach_pty`] when the box has opened its inner terminal.
//! 4. [`Streams::interest`], [`PollSet::wait`], [`Streams::handle`] until the tree is dead.
//! 5. [`Streams::exited`], and on with step 4 until [`Streams::is_done`]; [`Streams::stop_reading`] when
//!    [`Clock`] says that the drain took too long.
//! 6. [`Streams::finish`].
//!
//! # Terminals
//!
//! The box never has the caller's terminal, only an inner one of its own. Its session is led by PID 1, and the
//! program is a job in it, as if PID 1 were a shell. The job runs in the foreground while the keyboard is the
//! box's: from the start if standard input and output are the terminal and this process is in its foreground.
//! Otherwise (in a pipeline, in the background) it is started in the background of the inner terminal, where
//! the kernel stops it when it reads or configures that; then [`Streams::job_stopped`] takes the keyboard or stops
//! this process as the shell expects of a background job. So the keyboard stays with whoever uses it, be it the
//! pager behind us, and a line typed for the shell never ends up in a box.

mod buffer;
mod caller;
mod capture;
mod clock;
mod feed;
mod nonblocking;
mod poll;
mod pty;
mod relay;
mod signals;
mod streams;
mod terminal;

pub(crate) use caller::{Caller, memory_device};
pub(crate) use clock::Clock;
pub(crate) use poll::PollSet;
pub(crate) use signals::{Delivery, Signals};
pub(crate) use streams::{ChildFd, ChildStdio, Flow, Resume, Source, StreamError, Streams};
