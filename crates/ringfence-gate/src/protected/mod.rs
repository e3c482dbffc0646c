//! What the box may not plant: paths that something outside would run or obey later.
//!
//! | when | what | by |
//! |---|---|---|
//! | before the run | [`search`] finds what exists; the policy makes it read-only and pins the way to it | the caller |
//! | during it | a mount that is lost changes the box's mount table, and the run ends | PID 1 of the box |
//! | when its tree is dead | [`final_look`] finds what is new and judges it by its content | the caller |
//! | then | [`quarantine`] moves away what would be executed; [`recover`] finishes that after a crash | the caller |
//!
//! # What happens during a run
//!
//! The kernel takes a mount away, in the box too, when a program outside removes what it lies on or renames
//! another file over that. PID 1 of the box polls `/proc/self/mountinfo`, sees it at once and ends the run as a
//! violation. A program outside that *moves* a protected path moves the mount with it, of which the table gives
//! no sign, and the old name is free. That, and names that appear where nothing was, is left to the look after.
//!
//! # What is looked at
//!
//! The directories below each writable root are kept in an index in the state directory. A directory is read
//! again if its inode number or its status change time differs. That time is the kernel's own; modification
//! times, which a program can set, count for nothing.
//!
//! - Before a run, if the last complete look is recent ([`Settings::recheck_seconds`]): the top directory of
//!   each root, and the git directories known, with everything git obeys in them. The cost does not depend on
//!   the size of the workspace. A repository that somebody else put deeper into it within that time is not
//!   protected in this run, and is looked at after it like all others.
//! - Before a run otherwise: every directory, within [`Settings::search_ms`]; what git itself names comes
//!   first. What was left is reported and makes the protection partial.
//! - After a run: every directory, without a limit.
//!
//! # What counts as new
//!
//! A file is new if its status changed during the run, or if it lies in a directory that may have come to its
//! place during the run: a renamed directory keeps the times of what is in it. In doubt it is new.

mod collect;
mod executes;
mod finding;
mod gitconfig;
mod gitindex;
mod index;
mod journal;
mod links;
mod look;
mod names;
mod pending;
mod quarantine;
mod repositories;
mod roots;
mod search;
mod settings;
mod stat;
mod survey;
mod walk;
mod worktree;

pub use finding::{Finding, FindingKind, Findings};
pub use look::final_look;
pub use pending::Pending;
pub use quarantine::{Moved, QuarantineError, Quarantined, quarantine, recover};
pub use search::{Found, ProtectedError, SearchReport, Snapshot, search};
pub use settings::{GitProtection, Settings, UserGit};
pub use worktree::{common_dir_grants, enclosing_git_dir, git_dir_around};
