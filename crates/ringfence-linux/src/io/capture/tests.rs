use std::os::fd::AsFd;

use proptest::prelude::*;
use rustix::pipe::{PipeFlags, pipe_with};

use super::*;

/// What is kept, computed with everything at hand.
fn model(own: &[u8], other: usize, budget: usize) -> Captured {
    let limit = if own.len() + other <= budget {
        own.len()
    } else if other <= budget / 2 {
        budget - other
    } else {
        budget / 2
    };
    if own.len() <= limit {
        return Captured { bytes: own.to_vec(), dropped: 0, cut: own.len() };
    }
    let head = limit * 2 / 5;
    let (mut head, mut tail) = (&own[..head], &own[own.len() - (limit - head)..]);
    if let Some(length) =
        (1..=3.min(head.len())).find(|length| can_be_completed(&head[head.len() - length..]))
    {
        head = &head[..head.len() - length];
    }
    let orphans = tail.iter().take_while(|byte| (0x80..0xc0).contains(*byte)).count();
    if orphans <= 3 {
        tail = &tail[orphans..];
    }
    Captured {
        bytes: [head, tail].concat(),
        dropped: (own.len() - head.len() - tail.len()) as u64,
        cut: head.len(),
    }
}

/// Whether bytes can be put behind `start` so that it becomes one character.
fn can_be_completed(start: &[u8]) -> bool {
    [0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf].iter().any(|next| {
        [&[][..], &[0x80], &[0x80, 0x80]].iter().any(|rest| {
            let bytes = [start, &[*next], rest].concat();
            std::str::from_utf8(&bytes).is_ok_and(|text| text.chars().count() == 1)
        })
    })
}

/// Feeds both streams chunk by chunk, as [`Capture::handle`] does.
fn stream(writes: &[(bool, Vec<u8>)], budget: usize) -> (Captured, Captured) {
    let mut kept = [HeadTail::new(budget), HeadTail::new(budget)];
    for (to_stderr, bytes) in writes {
        let [stdout, stderr] = &mut kept;
        let (own, other) = if *to_stderr { (stderr, stdout) } else { (stdout, stderr) };
        other.set_limit(limit(budget, own.total + bytes.len() as u64));
        own.push(bytes);
        assert!(own.held() + other.held() <= budget);
        for stream in [own, other] {
            assert_eq!(stream.held() as u64, stream.total.min(stream.limit as u64));
            assert!(
                stream.head.capacity() + stream.tail.capacity() <= stream.limit * 5 / 4 + FIRST_ALLOCATION
            );
        }
    }
    let [stdout, stderr] = kept;
    (stdout.finish(), stderr.finish())
}

fn joined(writes: &[(bool, Vec<u8>)], to_stderr: bool) -> Vec<u8> {
    writes.iter().filter(|(stream, _)| *stream == to_stderr).flat_map(|(_, bytes)| bytes.clone()).collect()
}

proptest! {
    #[test]
    fn what_is_kept_equals_the_model(
        writes in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..40)), 0..40),
        budget in 0..400_usize,
    ) {
        let (stdout, stderr) = stream(&writes, budget);
        let (all_stdout, all_stderr) = (joined(&writes, false), joined(&writes, true));
        prop_assert_eq!(stdout, model(&all_stdout, all_stderr.len(), budget));
        prop_assert_eq!(stderr, model(&all_stderr, all_stdout.len(), budget));
    }

    #[test]
    fn text_stays_text(
        writes in prop::collection::vec((any::<bool>(), "\\PC{0,30}"), 0..30),
        budget in 0..200_usize,
    ) {
        let writes: Vec<_> = writes.into_iter().map(|(stream, text)| (stream, text.into_bytes())).collect();
        let (stdout, stderr) = stream(&writes, budget);
        prop_assert!(String::from_utf8(stdout.bytes).is_ok());
        prop_assert!(String::from_utf8(stderr.bytes).is_ok());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn large_streams_stay_within_their_memory(
        writes in prop::collection::vec((any::<bool>(), 0..200_000_usize), 0..40),
    ) {
        let writes: Vec<_> = writes.into_iter().map(|(stream, length)| (stream, vec![b'x'; length])).collect();
        let (stdout, stderr) = stream(&writes, 1 << 20);
        let (all_stdout, all_stderr) = (joined(&writes, false).len(), joined(&writes, true).len());
        prop_assert_eq!(stdout.bytes.len() as u64 + stdout.dropped, all_stdout as u64);
        prop_assert_eq!(stderr.bytes.len() as u64 + stderr.dropped, all_stderr as u64);
    }
}

#[test]
fn a_character_is_dropped_whole() {
    // Budget 12, stderr silent: head 4 bytes, tail 8. Both cuts fall into a three-byte character.
    let (stdout, _) = stream(&[(false, "abc€………………".as_bytes().to_vec())], 12);
    assert_eq!(String::from_utf8(stdout.bytes).unwrap(), "abc……");
    assert_eq!(stdout.cut, 3);
    assert_eq!(stdout.dropped, "€……………".len() as u64 - 3);
}

#[test]
fn one_stream_takes_what_the_other_leaves() {
    let (stdout, stderr) = stream(&[(false, vec![b'o'; 2000]), (true, vec![b'e'; 10])], 1000);
    assert_eq!((stdout.bytes.len(), stdout.dropped), (990, 1010));
    assert_eq!((stderr.bytes.len(), stderr.dropped), (10, 0));
}

#[test]
fn both_floods_get_half() {
    let flood = |stream| (stream, vec![b'x'; 700]);
    let (stdout, stderr) = stream(&[flood(false), flood(true), flood(false)], 1000);
    assert_eq!((stdout.bytes.len(), stdout.dropped), (500, 900));
    assert_eq!((stderr.bytes.len(), stderr.dropped), (500, 200));
}

#[test]
fn pipes_are_drained_whatever_is_kept() {
    let (stdout, mut writer) = pipe_with(PipeFlags::NONBLOCK).unwrap();
    let (stderr, stderr_writer) = pipe_with(PipeFlags::NONBLOCK).unwrap();
    let mut capture = Capture::new(10, stdout, stderr);
    let mut written = 0_u64;
    for _ in 0..100 {
        // As full as it goes; if the pipe were not drained, later rounds would write nothing.
        let round = rustix::io::write(&mut writer, &[b'x'; 200_000]).unwrap();
        assert!(round > 0);
        written += round as u64;
        while rustix::io::ioctl_fionread(capture.pipe(0).unwrap().as_fd()).unwrap() > 0 {
            capture.handle(0);
        }
    }
    drop((writer, stderr_writer));
    capture.handle(0);
    assert!(!capture.is_done());
    capture.handle(1);
    assert!(capture.is_done());
    let (stdout, stderr) = capture.finish();
    assert_eq!(stdout, Captured { bytes: b"xxxxxxxxxx".to_vec(), dropped: written - 10, cut: 4 });
    assert_eq!(stderr, Captured::default());
}
