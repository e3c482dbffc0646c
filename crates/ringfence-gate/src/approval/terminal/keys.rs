//! Asking while the command has the terminal. No key has a meaning to the system then: Ctrl-C at the question is an
//! answer to it and no signal to the command.

mod parser;

use std::io;

use rustix::event::{PollFlags, Timespec};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr,
    tcsetattr,
};

use super::{ATTEMPTS, GIVEN_UP, PROMPT, Ready, Tty, answer, meaning};
use crate::approval::{ApprovalOutcome, ApprovalResponse};
use parser::{Key, Keyboard};

/// The keyboard has to be quiet for so long before the question takes an answer: whoever was typing to the command, or was
/// about to because it asked for something, has not read the question yet.
const QUIET: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// An escape that nothing follows for so long is the key.
const ESCAPE_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Characters of an answer.
const ANSWER: usize = 16;
/// Ends whatever the command has begun to send, and takes back what would hide or displace the question. Then plain
/// letters of the usual alphabet, in lines that are added at the bottom of the screen (xterm's control sequences; ECMA-48;
/// console_codes(4) for `OSC R`). Terminals pass over what they don't know.
const PLAIN: &str = concat!(
    "\u{18}\u{1b}\\",                                                // what is not complete
    "\u{1b}<",                        // VT52 mode, which knows nothing of the rest
    "\u{1b}[4i\u{1b}[0$}\u{1b}[?64h", // to the printer, to the status line, to another page
    "\u{1b}[!p\u{1b}[?2026l",         // soft reset; a held screen
    "\u{1b}[?69l\u{1b}[r\u{1b}[?6l",  // margins, scroll region, origin
    "\u{1b}[2l\u{1b}[4l\u{1b}[?7h",   // locked keyboard, insert mode, no wrapping
    "\u{1b}]R\u{1b}\\\u{1b}]104\u{7}\u{1b}]110\u{7}\u{1b}]111\u{7}", // colours
    "\u{1b}[0m\u{f}\u{1b}(B",         // attributes, alphabets
    "\u{1b}[999;1H\r\n\u{1b}[J",
);

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
        let mut keyboard = Keyboard::default();
        let mut line = Vec::new();
        loop {
            let limit = keyboard.ends_in_escape().then_some(&ESCAPE_TIME);
            match self.tty.wait(PollFlags::IN, limit)? {
                Ready::Terminal => {}
                Ready::Nothing => return Ok(Some(Vec::new())),
                Ready::Cancelled => return Ok(None),
            }
            let mut buffer = [0; 1024];
            let bytes = match self.tty.read(&mut buffer)? {
                Some(0) => return Ok(None),
                Some(read) => &buffer[..read],
                None => continue,
            };
            for key in keyboard.keys(bytes) {
                match key {
                    Key::Enter => return Ok(Some(line)),
                    Key::End => return Ok(Some(Vec::new())),
                    Key::Back => self.tty.write(line.pop().map_or("", |_| "\u{8} \u{8}"))?,
                    Key::Letter(letter) if line.len() < ANSWER => {
                        line.push(letter);
                        self.tty.write(char::from(letter).encode_utf8(&mut [0; 4]))?;
                    }
                    Key::Letter(_) => {}
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
    fn what_a_terminal_reports_answers_nothing() {
        for reported in [
            // Each in pieces, as a slow line delivers it.
            &["\x1b[<35;10;5M"][..],
            &["\x1b", "[<35;1", "0;5M"],
            // X10's mouse: the second `y` is a column.
            &["\x1b[M ", "yy"],
            &["\x1b[200~y\ry\r", "y\r\x1b[201~"],
            &["\x1b]52;c;eQ==\x1b\\", "\x1b]ly\x1b\\", "\x1b[?62;4c\x1b[?y", "\x1bP1$ry\x1b\\"],
        ] {
            let (mut ours, theirs) = terminal();
            let asking = asking(theirs);
            shown(&mut ours, 1);
            for part in reported {
                ours.write_all(part.as_bytes()).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(30));
            }
            assert!(!asking.is_finished(), "{reported:?}");
            ours.write_all(b"y\r").unwrap();
            assert_eq!(asking.join().unwrap(), ApprovalOutcome::ApprovedOnce, "{reported:?}");
        }
    }

    #[test]
    fn what_hides_a_question_is_taken_back_before_it() {
        let (mut ours, theirs) = terminal();
        let asking = asking(theirs);
        let shown = shown(&mut ours, 1);
        let before = &shown[..shown.find("question").unwrap()];
        for (hides, shows) in [
            ("\u{1b}]0;title without an end", "\u{18}\u{1b}\\"),
            ("\u{1b}[?2l", "\u{1b}<"),
            ("\u{1b}[5i", "\u{1b}[4i"),
            ("\u{1b}[1$}", "\u{1b}[0$}"),
            ("\u{1b}[?64l", "\u{1b}[?64h"),
            ("\u{1b}[?2026h", "\u{1b}[?2026l"),
            ("\u{1b}[?69h\u{1b}[1;2s", "\u{1b}[?69l"),
            ("\u{1b}[1;2r", "\u{1b}[r"),
            ("\u{1b}[2h", "\u{1b}[2l"),
            ("\u{1b}[8m", "\u{1b}[0m"),
            ("\u{e}", "\u{f}"),
            ("\u{1b}(0", "\u{1b}(B"),
            ("\u{1b}]P7000000", "\u{1b}]R"),
            ("\u{1b}]10;#000000\u{7}", "\u{1b}]110\u{7}"),
        ] {
            assert!(before.contains(shows), "{hides:?}");
        }
        ours.write_all(b"\r").unwrap();
        asking.join().unwrap();
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
