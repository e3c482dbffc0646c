//! Connecting to addresses that were checked.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// "Connection Attempt Delay" of RFC 8305, section 5.
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// Addresses that are tried at most.
const ATTEMPTS: usize = 16;
/// Idle time before the kernel looks whether the other side is still there.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// Connects to the first address that answers: the families take turns, each attempt starts when the one before it
/// failed or has taken 250 ms (RFC 8305).
///
/// # Errors
/// That of the first attempt which failed.
pub(crate) async fn connect(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut waiting = alternate(addresses).into_iter().take(ATTEMPTS);
    let mut attempts = JoinSet::new();
    let mut first_error = None;
    let Some(first) = waiting.next() else {
        return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, "no address"));
    };
    // The common case needs no task of its own.
    if addresses.len() == 1 {
        return prepared(TcpStream::connect(first).await?);
    }
    attempts.spawn(TcpStream::connect(first));
    let mut next_start = Instant::now() + ATTEMPT_DELAY;
    loop {
        let next = tokio::select! {
            biased;
            Some(result) = attempts.join_next() => match result {
                Ok(Ok(stream)) => return prepared(stream),
                Ok(Err(error)) => {
                    first_error.get_or_insert(error);
                    waiting.next()
                }
                Err(error) => {
                    first_error.get_or_insert(io::Error::other(error));
                    waiting.next()
                }
            },
            () = sleep_until(next_start), if waiting.len() > 0 => waiting.next(),
        };
        if let Some(address) = next {
            attempts.spawn(TcpStream::connect(address));
            next_start = Instant::now() + ATTEMPT_DELAY;
        } else if attempts.is_empty() {
            return Err(first_error.unwrap_or_else(|| io::ErrorKind::AddrNotAvailable.into()));
        }
    }
}

/// What passes is sent at once, and a side that vanished is noticed.
fn prepared(stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE))?;
    Ok(stream)
}

/// The families in turns, beginning with that of the first address; the order within each stays.
fn alternate(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let v6_first = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (mut first, mut second): (Vec<_>, Vec<_>) =
        addresses.iter().copied().partition(|a| a.is_ipv6() == v6_first);
    let mut mixed = Vec::with_capacity(addresses.len());
    first.reverse();
    second.reverse();
    while let Some(address) = first.pop() {
        mixed.push(address);
        mixed.extend(second.pop());
    }
    second.reverse();
    mixed.extend(second);
    mixed
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    fn addresses(list: &[&str]) -> Vec<SocketAddr> {
        list.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn families_take_turns() {
        let mixed = alternate(&addresses(&["[::1]:1", "[::1]:2", "[::1]:3", "1.1.1.1:1"]));
        assert_eq!(mixed, addresses(&["[::1]:1", "1.1.1.1:1", "[::1]:2", "[::1]:3"]));
        let mixed = alternate(&addresses(&["1.1.1.1:1", "[::1]:1", "[::1]:2", "[::1]:3"]));
        assert_eq!(mixed, addresses(&["1.1.1.1:1", "[::1]:1", "[::1]:2", "[::1]:3"]));
        assert_eq!(alternate(&[]), []);
    }

    #[tokio::test]
    async fn a_dead_address_does_not_keep_from_the_next() {
        let dead = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let dead_address = dead.local_addr().unwrap();
        drop(dead);
        let live = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let live_address = live.local_addr().unwrap();
        let stream = connect(&[dead_address, live_address]).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), live_address);
        let error = connect(&[dead_address, dead_address]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert!(connect(&[]).await.is_err());
    }
}
