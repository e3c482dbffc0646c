//! Asking while the command has the terminal. No key has a meaning to the system then: Ctrl-C at the question is an
//! answer to it and no signal to the command.

use std::io;

use rustix::event::{PollFlags, Timespec};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr,
    tcsetattr,
};

use super::{ATTEMPTS, GIVEN_UP, PROMPT, Ready, Tty, answer, meaning};
use crate::approval::{ApprovalOutcome, ApprovalResponse};

/// The keyboard has to be quiet for so long before the question takes an answer: whoever was typing to the command has
/// not read it yet.
const QUIET: Timespec = Timespec { tv_sec: 0, tv_nsec: 300_000_000 };
/// Characters of an answer.
const ANSWER: usize = 16;
/// Ends whatever the command has begun to send, and takes back what would hide or displace the question: scroll region,
/// origin, insert mode, no wrapping, a held screen, other colours. Then plain letters of the usual alphabet, in lines that
/// are added at the bottom of the screen (xterm's control sequences; ECMA-48).
const PLAIN: &str = "\u{18}\u{1b}\\\u{1b}[!p\u{1b}[?2026l\u{1b}[r\u{1b}[?6l\u{1b}[4l\u{1b}[?7h\
                     \u{1b}]104\u{7}\u{1b}]110\u{7}\u{1b}]111\u{7}\
                     \u{1b}[0m\u{f}\u{1b}(B\u{1b}[999;1H\r\n\u{1b}[J";
const CTRL_C: u8 = 3;
const CTRL_D: u8 = 4;
const BACKSPACE: u8 = 8;
const CTRL_BACKSLASH: u8 = 28;
const ESCAPE: u8 = 27;
const DELETE: u8 = 127;

/// Sets the modes for single keys, and gives back those from before when it is dropped.
struct Keys<'a> {
    tty: &'a Tty,
    saved: Termios,
}

impl<'a> Keys<'a> {
    fn new(tty: &'a Tty) -> io::Result<Self> {
        let saved = tcgetattr(&tty.terminal)?;
        let mut modes = saved.clone();
        modes.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN;
        modes.input_modes -= InputModes::IXON | InputModes::ICRNL | InputModes::INLCR | InputModes::IGNCR;
        modes.special_codes[SpecialCodeIndex::VMIN] = 1;
        modes.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(&tty.terminal, OptionalActions::Now, &modes)?;
        Ok(Self { tty, saved })
    }

    /// Throws away what is typed until nothing is typed. `false`: the question was given up.
    fn settle(&self) -> io::Result<bool> {
        loop {
            tcflush(&self.tty.terminal, QueueSelector::IFlush)?;
            match self.tty.wait(PollFlags::IN, Some(&QUIET))? {
                Ready::Terminal => {
                    // A terminal that is gone stays readable for ever.
                    if self.tty.read(&mut [0; 256])? == Some(0) {
                        return Ok(false);
                    }
                }
                Ready::Nothing => return Ok(true),
                Ready::Cancelled => return Ok(false),
            }
        }
    }

    /// One line, shown as it is typed; `None` if the question was given up. The keys that end things end it with
    /// nothing in it.
    fn line(&self) -> io::Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        loop {
            if self.tty.wait(PollFlags::IN, None)? == Ready::Cancelled {
                return Ok(None);
            }
            let mut buffer = [0; 1024];
            let keys = match self.tty.read(&mut buffer)? {
                Some(0) => return Ok(None),
                Some(read) => &buffer[..read],
                None => continue,
            };
            for (at, key) in keys.iter().enumerate() {
                match *key {
                    b'\r' | b'\n' => return Ok(Some(line)),
                    // What comes with an escape in front is no key for an answer: an arrow, the mouse, a terminal that
                    // answers the program.
                    ESCAPE if at + 1 < keys.len() => break,
                    CTRL_C | CTRL_D | CTRL_BACKSLASH | ESCAPE => return Ok(Some(Vec::new())),
                    BACKSPACE | DELETE => self.tty.write(line.pop().map_or("", |_| "\u{8} \u{8}"))?,
                    key @ b' '..=b'~' if line.len() < ANSWER => {
                        line.push(key);
                        self.tty.write(char::from(key).encode_utf8(&mut [0; 4]))?;
                    }
                    _ => {}
                }
            }
        }
    }
}

impl Drop for Keys<'_> {
    fn drop(&mut self) {
        // What was typed too much belongs to nobody. A terminal that is gone has no modes.
        let _ = tcsetattr(&self.tty.terminal, OptionalActions::Flush, &self.saved);
    }
}

/// Asks, in the middle of whatever the command has on the screen.
pub(super) fn ask(tty: &Tty, question: &str) -> io::Result<ApprovalResponse> {
    let keys = Keys::new(tty)?;
    tty.write(PLAIN)?;
    tty.write(question)?;
    for _ in 0..ATTEMPTS {
        let line = match keys.settle()? {
            true => {
                tty.write(PROMPT)?;
                keys.line()?
            }
            false => None,
        };
        let Some(line) = line else {
            tty.write(GIVEN_UP)?;
            return Ok(answer(ApprovalOutcome::Timeout));
        };
        tty.write("\n")?;
        match meaning(&line) {
            Some(outcome) => return Ok(answer(outcome)),
            None => tty.write("answer y, s or n\n")?,
        }
    }
    Ok(answer(ApprovalOutcome::Denied))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::thread::JoinHandle;

    use super::super::tests::{shown, terminal, tty};
    use super::*;

    fn asking(theirs: std::fs::File) -> JoinHandle<ApprovalOutcome> {
        std::thread::spawn(move || ask(&tty(theirs), "question\n").unwrap().outcome)
    }

    #[test]
    fn a_key_and_return_answer_and_keys_that_end_things_refuse() {
        for (keys, outcome) in [
            ("y\r", ApprovalOutcome::ApprovedOnce),
            ("x\u{7f}yes\n", ApprovalOutcome::ApprovedOnce),
            ("s\r", ApprovalOutcome::Approved),
            ("n\r", ApprovalOutcome::Denied),
            ("\r", ApprovalOutcome::Denied),
            ("y\u{3}", ApprovalOutcome::Denied),
            ("y\u{4}", ApprovalOutcome::Denied),
            ("y\u{1c}", ApprovalOutcome::Denied),
            ("\u{1b}", ApprovalOutcome::Denied),
        ] {
            let (mut ours, theirs) = terminal();
            let before = tcgetattr(&theirs).unwrap();
            let asking = asking(theirs.try_clone().unwrap());
            shown(&mut ours, 1);
            ours.write_all(keys.as_bytes()).unwrap();
            assert_eq!(asking.join().unwrap(), outcome, "{keys:?}");
            let after = tcgetattr(&theirs).unwrap();
            assert_eq!((before.local_modes, before.input_modes), (after.local_modes, after.input_modes));
        }
    }

    #[test]
    fn arrows_and_the_mouse_answer_nothing() {
        let (mut ours, theirs) = terminal();
        let asking = asking(theirs);
        shown(&mut ours, 1);
        ours.write_all(b"\x1b[<35;10;5M").unwrap();
        std::thread::sleep(std::time::Duration::from_millis(100));
        ours.write_all(b"y\r").unwrap();
        assert_eq!(asking.join().unwrap(), ApprovalOutcome::ApprovedOnce);
    }

    #[test]
    fn what_was_typed_before_the_prompt_is_no_answer() {
        let (mut ours, theirs) = terminal();
        ours.write_all(b"y\ny\n").unwrap();
        let asking = asking(theirs);
        shown(&mut ours, 1);
        ours.write_all(b"n\r").unwrap();
        assert_eq!(asking.join().unwrap(), ApprovalOutcome::Denied);
    }
}
