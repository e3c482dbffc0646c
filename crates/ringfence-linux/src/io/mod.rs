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

pub(crate) use caller::Caller;
pub(crate) use clock::Clock;
pub(crate) use poll::PollSet;
pub(crate) use signals::{Delivery, Signals};
pub(crate) use streams::{ChildFd, ChildStdio, Flow, Resume, Source, StreamError, Streams};
