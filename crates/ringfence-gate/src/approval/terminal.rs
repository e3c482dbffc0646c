use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use nix::unistd::{getpgrp, tcgetpgrp};
use ringfence_types::UnixPath;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::OFlags;
use rustix::termios::{QueueSelector, tcflush};
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
        if tcgetpgrp(&terminal)? != getpgrp() {
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
        // A terminal whose modes another program has left raw sends a carriage return.
        if n == 0 || line.contains(&b'\n') || line.contains(&b'\r') {
            return Ok(Some(line));
        }
        line.truncate(ANSWER);
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use ringfence_types::{Excess, SandboxCommand};
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    use super::*;

    /// Both ends of a pseudo-terminal: ours, and the one that a program would have.
    fn terminal() -> (File, File) {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(OFlags::NOCTTY.bits().cast_signed());
        (ours.into(), options.open(name).unwrap())
    }

    /// Reads from our end until the prompt has been printed as often as asked.
    fn shown(ours: &mut File, prompts: usize) -> String {
        let mut screen = Vec::new();
        loop {
            let text = String::from_utf8_lossy(&screen).into_owned();
            if text.matches("[n] no: ").count() >= prompts {
                return text;
            }
            let mut buffer = [0; 1024];
            let n = ours.read(&mut buffer).unwrap();
            screen.extend_from_slice(&buffer[..n]);
        }
    }

    /// Answers each prompt with one of `keys`.
    fn answered(keys: &[&str]) -> ApprovalOutcome {
        let (mut ours, theirs) = terminal();
        let cancelled = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let asking = std::thread::spawn(move || ask(&theirs, &cancelled, "question\n").unwrap());
        for key in keys {
            shown(&mut ours, 1);
            ours.write_all(key.as_bytes()).unwrap();
        }
        asking.join().unwrap().outcome
    }

    #[test]
    fn one_key_and_return_answer() {
        for (keys, outcome) in [
            ("y\n", ApprovalOutcome::ApprovedOnce),
            (" YES \n", ApprovalOutcome::ApprovedOnce),
            ("s\n", ApprovalOutcome::Approved),
            ("n\n", ApprovalOutcome::Denied),
            ("\n", ApprovalOutcome::Denied),
            ("\u{4}", ApprovalOutcome::Denied),
        ] {
            assert_eq!(answered(&[keys]), outcome, "{keys:?}");
        }
    }

    #[test]
    fn what_is_no_answer_is_asked_again_and_then_refused() {
        assert_eq!(answered(&["what\n", "y\n"]), ApprovalOutcome::ApprovedOnce);
        assert_eq!(answered(&["1\n", "yy\n", "a\n"]), ApprovalOutcome::Denied, "always is not offered");
    }

    #[test]
    fn what_was_typed_before_the_question_is_no_answer() {
        let (mut ours, theirs) = terminal();
        ours.write_all(b"y\ny\ny\n").unwrap();
        let cancelled = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let asking = std::thread::spawn(move || ask(&theirs, &cancelled, "question\n").unwrap());
        shown(&mut ours, 1);
        ours.write_all(b"n\n").unwrap();
        assert_eq!(asking.join().unwrap().outcome, ApprovalOutcome::Denied);
    }

    #[test]
    fn a_question_that_is_given_up_is_taken_away() {
        let (mut ours, theirs) = terminal();
        let cancelled = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).unwrap());
        let cancel = Cancel(Arc::clone(&cancelled));
        let asking = std::thread::spawn(move || ask(&theirs, &cancelled, "question\n").unwrap());
        shown(&mut ours, 1);
        drop(cancel);
        assert_eq!(asking.join().unwrap().outcome, ApprovalOutcome::Timeout);
    }

    #[tokio::test]
    async fn without_a_terminal_of_our_own_nobody_can_be_asked() {
        let action =
            ApprovalAction::new(&SandboxCommand::new("s", "true"), PathBuf::from("/"), vec![Excess::Spawn]);
        for path in ["/dev/null", "/nonexistent"] {
            let requester = TerminalRequester { path: PathBuf::from(path), screen: Mutex::const_new(()) };
            let response = requester.request_approval(&action);
            let response = tokio::time::timeout(Duration::from_secs(60), response).await.unwrap();
            assert_eq!(response.outcome, ApprovalOutcome::Unavailable);
            assert!(response.reason.unwrap().starts_with("no terminal to ask on"));
        }
    }

    #[test]
    fn the_question_shows_everything() {
        let mut command = SandboxCommand::new("s", "curl").args(["-o", "a b"]);
        command.justification = Some(String::from("the tests\nneed it"));
        let excess = vec![Excess::Write("/d/\u{202e}x".into()), Excess::AllNetwork];
        let expected = concat!(
            "\nringfence: approval needed\n  command  curl -o 'a b'\n  in       /w\n",
            "  to       read and write /d/\\u{202e}x\n  and      the host's whole network\n",
            "  because  the tests need it\n",
        );
        assert_eq!(question(&ApprovalAction::new(&command, PathBuf::from("/w"), excess)), expected);
    }
}
