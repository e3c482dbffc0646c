mod keys;

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use async_trait::async_trait;
use nix::unistd::{getpgrp, tcgetpgrp};
use ringfence_types::{Excess, UnixPath};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::OFlags;
use rustix::termios::{QueueSelector, tcflush};
use tokio::sync::{Mutex, oneshot};

use super::action::visible;
use super::{ApprovalAction, ApprovalOutcome, ApprovalRequester, ApprovalResponse, Occasion};

/// Answers that mean nothing before the question counts as refused.
const ATTEMPTS: usize = 3;
/// Bytes of an answer that are looked at.
const ANSWER: usize = 64;
/// Characters of a command line and of a directory that a question about a connection shows.
const CONTEXT: usize = 160;

/// Rows that a list of permissions may take, on a screen of [`COLUMNS`]: what has scrolled away nobody has read.
const ROWS: usize = 20;
/// Characters in a row, at least.
const COLUMNS: usize = 80;

/// Asks on the terminal: yes for this run, yes for the session, or no.
///
/// One question is on the screen at a time. A question about a connection comes while the command has the terminal, which
/// its supervisor lends ([`TerminalHolder`](super::TerminalHolder)): what is typed then belongs to the question, whatever
/// key it is. Where there is no terminal, or the process is not in its foreground,
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
        if rows(a) > ROWS {
            let count = a.excess.len();
            return unavailable(&format!("{count} permissions in one question are more than a screen shows"));
        }
        let _screen = self.screen.lock().await;
        match self.start(a) {
            // The thread always answers; it can only be gone if it panicked.
            Ok((answer, _cancel)) => {
                answer.await.unwrap_or_else(|_| unavailable("the terminal could not be read"))
            }
            Err(error) => unavailable(&format!("no terminal to ask on: {error}")),
        }
    }

    fn uses_terminal(&self) -> bool {
        true
    }
}

fn unavailable(reason: &str) -> ApprovalResponse {
    ApprovalResponse::new(ApprovalOutcome::Unavailable, "terminal").because(reason)
}

/// Ends the question when it is dropped, and waits until the terminal is as it was before.
struct Cancel {
    cancelled: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Cancel {
    fn drop(&mut self) {
        // The counter of an eventfd(2) that nobody reads fails only if it is about to overflow.
        let _ = rustix::io::write(&*self.cancelled, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // It has told whatever it had to tell.
            let _ = thread.join();
        }
    }
}

impl TerminalRequester {
    /// Puts the question on the screen and reads the answer on a thread of its own: a terminal can't be read
    /// asynchronously on every executor.
    fn start(&self, action: &ApprovalAction) -> io::Result<(oneshot::Receiver<ApprovalResponse>, Cancel)> {
        let mut options = OpenOptions::new();
        // A terminal whose output is held back must not hold back the end of the question.
        let flags = (OFlags::NOCTTY | OFlags::CLOEXEC | OFlags::NONBLOCK).bits().cast_signed();
        let terminal = options.read(true).write(true).custom_flags(flags).open(&self.path)?;
        if tcgetpgrp(&terminal)? != getpgrp() {
            return Err(io::Error::other("not in the foreground"));
        }
        let cancelled = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let mut cancel = Cancel { cancelled: Arc::clone(&cancelled), thread: None };
        let question = question(action);
        let running = action.occasion != Occasion::Start;
        let (send, answer) = oneshot::channel();
        let ask = move || {
            let terminal = Tty { terminal, cancelled };
            let response = if running { keys::ask(&terminal, &question) } else { ask(&terminal, &question) };
            // Nobody listens any more if the question was given up.
            let _ = send
                .send(response.unwrap_or_else(|error| unavailable(&format!("the terminal failed: {error}"))));
        };
        cancel.thread = Some(std::thread::Builder::new().name(String::from("ringfence-ask")).spawn(ask)?);
        Ok((answer, cancel))
    }
}

/// The terminal, as long as the question is wanted.
struct Tty {
    terminal: File,
    cancelled: Arc<OwnedFd>,
}

/// What there is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ready {
    Terminal,
    Nothing,
    /// The question was given up.
    Cancelled,
}

impl Tty {
    /// Waits until the terminal can be read or written, for ever without a limit.
    fn wait(&self, events: PollFlags, limit: Option<&Timespec>) -> io::Result<Ready> {
        loop {
            let mut fds = [
                PollFd::new(&self.terminal, events),
                PollFd::from_borrowed_fd(self.cancelled.as_fd(), PollFlags::IN),
            ];
            match poll(&mut fds, limit) {
                Ok(0) => return Ok(Ready::Nothing),
                Ok(_) if !fds[1].revents().is_empty() => return Ok(Ready::Cancelled),
                Ok(_) => return Ok(Ready::Terminal),
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Writes; what is cancelled while the terminal takes nothing is left out.
    fn write(&self, text: &str) -> io::Result<()> {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            match (&self.terminal).write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.wait(PollFlags::OUT, None)? == Ready::Cancelled {
                        return Ok(());
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads what is there: 0 bytes are the end of file, `None` is a false alarm.
    fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match (&self.terminal).read(buffer) {
            Ok(read) => Ok(Some(read)),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

fn question(action: &ApprovalAction) -> String {
    let cwd = visible(&UnixPath::from(action.cwd.as_path()).to_string());
    // What matters most stands beside the prompt, whatever scrolls away above.
    let mut last = String::new();
    let mut text = match &action.occasion {
        Occasion::Start => {
            format!("\nringfence: approval needed\n  command  {}\n  in       {cwd}\n", action.command_line())
        }
        Occasion::Connection { program } => {
            let by = program.as_ref().map(|program| format!(", wanted by {program}")).unwrap_or_default();
            let hosts: Vec<_> = action.excess.iter().map(host).collect();
            let text = format!(
                "ringfence: a connection needs approval\n  command  {}\n  in       {}\n",
                cut(&action.command_line()),
                cut(&cwd),
            );
            last = format!("  host     {}{by}\n", hosts.join(" "));
            text
        }
    };
    if action.occasion == Occasion::Start {
        for (n, excess) in action.excess.iter().enumerate() {
            let label = if n == 0 { "to" } else { "and" };
            text.push_str(&format!("  {label:<8} {}\n", visible(&excess.to_string())));
        }
    }
    if let Some(justification) = &action.justification {
        text.push_str(&format!("  because  {justification}\n"));
    }
    text + &last
}

/// Rows of the list of what is asked for.
fn rows(action: &ApprovalAction) -> usize {
    let of = |excess: &Excess| 1 + visible(&excess.to_string()).chars().count() / COLUMNS;
    action.excess.iter().map(of).sum()
}

fn host(excess: &Excess) -> String {
    match excess {
        Excess::Host(host) => host.to_string(),
        excess => visible(&excess.to_string()),
    }
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(CONTEXT) {
        Some((at, _)) => format!("{} ...", &line[..at]),
        None => line.to_owned(),
    }
}

const PROMPT: &str = "allow? [y] once  [s] for this session  [n] no: ";
const GIVEN_UP: &str = "\nringfence: no longer needed\n";

/// What an answer means; `None` if it means nothing.
fn meaning(line: &[u8]) -> Option<ApprovalOutcome> {
    match line.trim_ascii().to_ascii_lowercase().as_slice() {
        b"y" | b"yes" => Some(ApprovalOutcome::ApprovedOnce),
        b"s" | b"session" => Some(ApprovalOutcome::Approved),
        b"" | b"n" | b"no" => Some(ApprovalOutcome::Denied),
        _ => None,
    }
}

fn answer(outcome: ApprovalOutcome) -> ApprovalResponse {
    ApprovalResponse::new(outcome, "terminal")
}

/// Asks before the command starts: the terminal edits the line, and its keys for signals are the caller's.
fn ask(tty: &Tty, question: &str) -> io::Result<ApprovalResponse> {
    tty.write(question)?;
    for _ in 0..ATTEMPTS {
        // What was typed before the question could be read is no answer to it.
        tcflush(&tty.terminal, QueueSelector::IFlush)?;
        tty.write(PROMPT)?;
        let Some(line) = read_line(tty)? else {
            tty.write(GIVEN_UP)?;
            return Ok(answer(ApprovalOutcome::Timeout));
        };
        match meaning(&line) {
            Some(outcome) => return Ok(answer(outcome)),
            None => tty.write("answer y, s or n\n")?,
        }
    }
    Ok(answer(ApprovalOutcome::Denied))
}

/// One line, at most its first bytes; `None` if the question was given up. End of file is an empty line.
fn read_line(tty: &Tty) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    loop {
        if tty.wait(PollFlags::IN, None)? == Ready::Cancelled {
            return Ok(None);
        }
        let mut buffer = [0; ANSWER];
        let Some(n) = tty.read(&mut buffer)? else { continue };
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
    pub(super) fn terminal() -> (File, File) {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(OFlags::NOCTTY.bits().cast_signed());
        (ours.into(), options.open(name).unwrap())
    }

    pub(super) fn tty(terminal: File) -> Tty {
        Tty { terminal, cancelled: Arc::new(eventfd(0, EventfdFlags::CLOEXEC).unwrap()) }
    }

    /// Reads from our end until the prompt has been printed as often as asked.
    pub(super) fn shown(ours: &mut File, prompts: usize) -> String {
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
        let asking = std::thread::spawn(move || ask(&tty(theirs), "question\n").unwrap());
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
        let asking = std::thread::spawn(move || ask(&tty(theirs), "question\n").unwrap());
        shown(&mut ours, 1);
        ours.write_all(b"n\n").unwrap();
        assert_eq!(asking.join().unwrap().outcome, ApprovalOutcome::Denied);
    }

    #[test]
    fn a_question_that_is_given_up_is_taken_away() {
        let (mut ours, theirs) = terminal();
        let tty = tty(theirs);
        let mut cancel = Cancel { cancelled: Arc::clone(&tty.cancelled), thread: None };
        let (send, outcome) = std::sync::mpsc::channel();
        cancel.thread = Some(std::thread::spawn(move || {
            send.send(ask(&tty, "question\n").unwrap().outcome).unwrap();
        }));
        shown(&mut ours, 1);
        drop(cancel);
        assert_eq!(outcome.try_recv(), Ok(ApprovalOutcome::Timeout), "dropped, it has ended");
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

    #[tokio::test]
    async fn what_no_screen_shows_is_not_asked() {
        let reason = async |excess: Vec<Excess>| {
            let action = ApprovalAction::new(&SandboxCommand::new("s", "true"), PathBuf::from("/"), excess);
            let path = PathBuf::from("/nonexistent");
            let requester = TerminalRequester { path, screen: Mutex::const_new(()) };
            let response = requester.request_approval(&action).await;
            assert_eq!(response.outcome, ApprovalOutcome::Unavailable);
            response.reason.unwrap()
        };
        let paths =
            |count: usize| (0..count).map(|n| Excess::Read(format!("/d/{n}").as_str().into())).collect();
        assert!(reason(paths(ROWS)).await.starts_with("no terminal to ask on"), "it was about to ask");
        assert!(reason(paths(300)).await.starts_with("300 permissions"));
        let long = Excess::Read(format!("/{}", "d".repeat(ROWS * COLUMNS)).as_str().into());
        assert!(reason(vec![long]).await.starts_with("1 permissions"));
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

        let excess = vec![Excess::Host("api.example.com:443".parse().unwrap())];
        let mut action = ApprovalAction::new(&command, PathBuf::from("/w"), excess);
        action.args.push("x".repeat(1000).into());
        action.occasion = Occasion::Connection { program: Some("curl".to_owned()) };
        let shown = question(&action);
        assert!(
            shown.ends_with(
                "\n  because  the tests need it\n  host     api.example.com:443, wanted by curl\n"
            ),
            "{shown}"
        );
        assert!(shown.contains("x ...\n  in       /w\n"), "{shown}");
        // A screen of directories would push the rest away.
        action.cwd = PathBuf::from("/d".repeat(2000));
        assert!(question(&action).len() < 1000 && question(&action).contains("/d ...\n"));
        action.occasion = Occasion::Connection { program: None };
        assert!(question(&action).ends_with("\n  host     api.example.com:443\n"));
    }
}
