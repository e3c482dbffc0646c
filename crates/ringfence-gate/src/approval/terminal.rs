use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use ringfence_types::UnixPath;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::OFlags;
use rustix::termios::{QueueSelector, tcflush, tcgetpgrp};
use tokio::sync::{Mutex, oneshot};

use super::action::visible;
use super::{ApprovalAction, ApprovalOutcome, ApprovalRequester, ApprovalResponse};

/// Answers that mean nothing before the question counts as refused.
const ATTEMPTS: usize = 3;
/// Bytes of an answer that are looked at.
const ANSWER: usize = 64;

/// Asks on the terminal: yes for this run, yes for the session, or no.
///
/// One question is on the screen at a time. Where there is no terminal, or the process is not in its foreground,
/// the answer is `Unavailable` at once.
#[derive(Debug)]
pub struct TerminalRequester {
    path: PathBuf,
    screen: Mutex<()>,
}

impl Default for TerminalRequester {
    fn default() -> Self {
        Self::new()
    }
}

impl TerminalRequester {
    /// Asks on the controlling terminal, `/dev/tty`, wherever the standard streams lead.
    pub fn new() -> Self {
        Self { path: PathBuf::from("/dev/tty"), screen: Mutex::const_new(()) }
    }
}

#[async_trait]
impl ApprovalRequester for TerminalRequester {
    async fn request_approval(&self, a: &ApprovalAction) -> ApprovalResponse {
        let _screen = self.screen.lock().await;
        match self.start(a) {
            // The thread always answers; it can only be gone if it panicked.
            Ok((answer, _cancel)) => {
                answer.await.unwrap_or_else(|_| unavailable("the terminal could not be read"))
            }
            Err(error) => unavailable(&format!("no terminal to ask on: {error}")),
        }
    }
}

fn unavailable(reason: &str) -> ApprovalResponse {
    ApprovalResponse::new(ApprovalOutcome::Unavailable, "terminal").because(reason)
}

/// Ends the question when it is dropped.
struct Cancel(Arc<OwnedFd>);

impl Drop for Cancel {
    fn drop(&mut self) {
        // The counter of an eventfd(2) that nobody reads fails only if it is about to overflow.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }
}

impl TerminalRequester {
    /// Puts the question on the screen and reads the answer on a thread of its own: a terminal can't be read
    /// asynchronously on every executor.
    fn start(&self, action: &ApprovalAction) -> io::Result<(oneshot::Receiver<ApprovalResponse>, Cancel)> {
        let mut options = OpenOptions::new();
        let flags = (OFlags::NOCTTY | OFlags::CLOEXEC).bits().cast_signed();
        let terminal = options.read(true).write(true).custom_flags(flags).open(&self.path)?;
        if tcgetpgrp(&terminal)? != rustix::process::getpgrp() {
            return Err(io::Error::other("not in the foreground"));
        }
        let cancelled = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let cancel = Cancel(Arc::clone(&cancelled));
        let question = question(action);
        let (send, answer) = oneshot::channel();
        std::thread::Builder::new().name(String::from("ringfence-ask")).spawn(move || {
            let response = ask(&terminal, &cancelled, &question);
            // Nobody listens any more if the question was given up.
            let _ = send
                .send(response.unwrap_or_else(|error| unavailable(&format!("the terminal failed: {error}"))));
        })?;
        Ok((answer, cancel))
    }
}

fn question(action: &ApprovalAction) -> String {
    let cwd = visible(&UnixPath::from(action.cwd.as_path()).to_string());
    let mut text =
        format!("\nringfence: approval needed\n  command  {}\n  in       {cwd}\n", action.command_line());
    for (n, excess) in action.excess.iter().enumerate() {
        let label = if n == 0 { "to" } else { "and" };
        text.push_str(&format!("  {label:<8} {}\n", visible(&excess.to_string())));
    }
    if let Some(justification) = &action.justification {
        text.push_str(&format!("  because  {justification}\n"));
    }
    text
}

fn ask(terminal: &File, cancelled: &OwnedFd, question: &str) -> io::Result<ApprovalResponse> {
    let answer = |outcome| Ok(ApprovalResponse::new(outcome, "terminal"));
    let mut screen = terminal;
    screen.write_all(question.as_bytes())?;
    for _ in 0..ATTEMPTS {
        // What was typed before the question could be read is no answer to it.
        tcflush(terminal, QueueSelector::IFlush)?;
        screen.write_all(b"allow? [y] once  [s] for this session  [n] no: ")?;
        let Some(line) = read_line(terminal, cancelled)? else {
            screen.write_all(b"\nringfence: no longer needed\n")?;
            return answer(ApprovalOutcome::Timeout);
        };
        match line.trim_ascii().to_ascii_lowercase().as_slice() {
            b"y" | b"yes" => return answer(ApprovalOutcome::ApprovedOnce),
            b"s" | b"session" => return answer(ApprovalOutcome::Approved),
            b"" | b"n" | b"no" => return answer(ApprovalOutcome::Denied),
            _ => screen.write_all(b"answer y, s or n\n")?,
        }
    }
    answer(ApprovalOutcome::Denied)
}

/// One line, at most its first bytes; `None` if the question was given up. End of file is an empty line.
fn read_line(mut terminal: &File, cancelled: &OwnedFd) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    loop {
        let mut fds = [
            PollFd::new(&terminal, PollFlags::IN),
            PollFd::from_borrowed_fd(cancelled.as_fd(), PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(errno) => return Err(errno.into()),
        }
        if !fds[1].revents().is_empty() {
            return Ok(None);
        }
        let mut buffer = [0; ANSWER];
        let n = terminal.read(&mut buffer)?;
        line.extend_from_slice(&buffer[..n]);
        if n == 0 || line.contains(&b'\n') {
            return Ok(Some(line));
        }
        line.truncate(ANSWER);
    }
}
