//! Noticing that a client goes away while its connection is held.

use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::sleep;

/// Between two looks. What the client has sent must stay unread, so its end can't be read either.
const LOOK: Duration = Duration::from_millis(100);
/// A client that has ended its sending is looked for less and less often.
const RARELY: Duration = Duration::from_secs(5);

/// What a client has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only Linux tells without reading"))]
enum Hangup {
    Nothing,
    /// It sends no more, and may still read (half-close).
    Sending,
    Everything,
}

/// Returns when the client of a connection has gone. One that has only ended its sending counts as gone if
/// `still_there` says so.
pub(crate) async fn gone(stream: &TcpStream, mut still_there: impl FnMut() -> bool) {
    let mut pause = LOOK;
    loop {
        sleep(pause).await;
        match hangup(stream) {
            Hangup::Nothing => {}
            Hangup::Everything => return,
            Hangup::Sending if still_there() => pause = (pause * 2).min(RARELY),
            Hangup::Sending => return,
        }
    }
}

#[cfg(target_os = "linux")]
fn hangup(stream: &TcpStream) -> Hangup {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let mut fds = [PollFd::new(stream, PollFlags::RDHUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    if poll(&mut fds, Some(&now)).is_err() {
        return Hangup::Nothing;
    }
    match fds[0].revents() {
        ended if ended.intersects(PollFlags::HUP | PollFlags::ERR) => Hangup::Everything,
        ended if ended.contains(PollFlags::RDHUP) => Hangup::Sending,
        _ => Hangup::Nothing,
    }
}

/// Here a client that goes away is noticed when it gets its answer.
#[cfg(not(target_os = "linux"))]
fn hangup(_stream: &TcpStream) -> Hangup {
    Hangup::Nothing
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;

    use super::*;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (client, listener.accept().await.unwrap().0)
    }

    #[tokio::test]
    async fn what_is_unread_does_not_hide_the_end() {
        let (mut client, server) = pair().await;
        client.write_all(b"hello").await.unwrap();
        assert_eq!(hangup(&server), Hangup::Nothing);
        drop(client);
        gone(&server, || false).await;
        assert_eq!(hangup(&server), Hangup::Sending);
    }

    #[tokio::test]
    async fn half_a_close_is_a_question_and_a_reset_is_none() {
        let (mut client, server) = pair().await;
        client.shutdown().await.unwrap();
        let mut looks = 0;
        gone(&server, || {
            looks += 1;
            looks < 3
        })
        .await;
        assert_eq!(looks, 3);
        client.set_zero_linger().unwrap();
        drop(client);
        gone(&server, || true).await;
    }
}
