//! Protected paths against repositories that git itself makes.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod look;
mod quarantine;
mod search;
mod support;
mod worktree;
