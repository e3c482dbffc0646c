//! The client's side of SOCKS version 5 (RFC 1928, RFC 1929).

use std::io;
use std::net::IpAddr;

use ringfence_types::Host;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::UpstreamFault;
use crate::socks::{CONNECT, Code, NO_AUTHENTICATION, USER_AND_PASSWORD, VERSION};

/// User and password in the form in which they are sent.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Login(Vec<u8>);

/// What went wrong.
#[derive(Debug)]
pub(super) enum Fault {
    Io(io::Error),
    Reply,
    Login,
    Code(u8),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Fault {
    pub(super) fn of(self, proxy: &Host) -> UpstreamFault {
        let proxy = proxy.clone();
        match self {
            Self::Io(error) => UpstreamFault::Io(proxy, error),
            Self::Reply => UpstreamFault::Reply(proxy),
            Self::Login => UpstreamFault::Login(proxy),
            Self::Code(code) => UpstreamFault::Code(proxy, code),
        }
    }
}

impl Login {
    /// Each has at most 255 bytes.
    pub(super) fn new(user: Vec<u8>, password: Vec<u8>) -> Option<Self> {
        let (user_length, password_length) =
            (u8::try_from(user.len()).ok()?, u8::try_from(password.len()).ok()?);
        let mut message = vec![1, user_length];
        message.extend(user);
        message.push(password_length);
        message.extend(password);
        Some(Self(message))
    }
}

/// Asks for a connection. Not a byte of what comes through it is read.
pub(super) async fn ask<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    login: Option<&Login>,
    target: &Host,
    port: u16,
) -> Result<(), Fault> {
    let methods: &[u8] =
        if login.is_some() { &[NO_AUTHENTICATION, USER_AND_PASSWORD] } else { &[NO_AUTHENTICATION] };
    stream.write_all(&[&[VERSION, if login.is_some() { 2 } else { 1 }], methods].concat()).await?;
    let mut chosen = [0; 2];
    stream.read_exact(&mut chosen).await?;
    match (chosen, login) {
        ([VERSION, NO_AUTHENTICATION], _) => {}
        ([VERSION, USER_AND_PASSWORD], Some(Login(message))) => {
            stream.write_all(message).await?;
            let mut verdict = [0; 2];
            stream.read_exact(&mut verdict).await?;
            if verdict[1] != 0 {
                return Err(Fault::Login);
            }
        }
        ([VERSION, _], _) => return Err(Fault::Login),
        _ => return Err(Fault::Reply),
    }
    let mut request = vec![VERSION, CONNECT, 0];
    match target {
        Host::Ip(IpAddr::V4(ip)) => request.extend([&[1][..], &ip.octets()].concat()),
        Host::Ip(IpAddr::V6(ip)) => request.extend([&[4][..], &ip.octets()].concat()),
        Host::Name(name) => {
            // A name has at most 253 bytes.
            request.extend([3, u8::try_from(name.len()).map_err(|_| Fault::Reply)?]);
            request.extend(name.as_bytes());
        }
    }
    request.extend(port.to_be_bytes());
    stream.write_all(&request).await?;
    let mut reply = [0; 4];
    stream.read_exact(&mut reply).await?;
    if reply[0] != VERSION {
        return Err(Fault::Reply);
    }
    if reply[1] != Code::Succeeded as u8 {
        return Err(Fault::Code(reply[1]));
    }
    let length = match reply[3] {
        1 => 4,
        4 => 16,
        3 => usize::from(stream.read_u8().await?),
        _ => return Err(Fault::Reply),
    };
    stream.read_exact(&mut vec![0; length + 2]).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a proxy that says `answers` is sent, and the outcome with what it left unread.
    async fn talk(answers: &[u8], login: Option<&Login>, target: &str) -> (Vec<u8>, Result<Vec<u8>, Fault>) {
        let (near, far) = tokio::io::duplex(4096);
        let (mut from_far, mut to_far) = tokio::io::split(near);
        let (mut from_near, mut to_near) = tokio::io::split(far);
        to_near.write_all(answers).await.unwrap();
        to_near.shutdown().await.unwrap();
        let mut stream = tokio::io::join(&mut from_far, &mut to_far);
        let result = ask(&mut stream, login, &target.parse().unwrap(), 443).await;
        let mut left = Vec::new();
        from_far.read_to_end(&mut left).await.unwrap();
        to_far.shutdown().await.unwrap();
        let mut sent = Vec::new();
        from_near.read_to_end(&mut sent).await.unwrap();
        (sent, result.map(|()| left))
    }

    #[tokio::test]
    async fn each_kind_of_target_is_asked_for() {
        let answers = [&[5, 0, 5, 0, 0, 1, 9, 9, 9, 9, 0, 1][..], b"early"].concat();
        for (target, address) in [
            ("a.com", [&[3, 5][..], b"a.com"].concat()),
            ("9.8.7.6", vec![1, 9, 8, 7, 6]),
            ("[::1]", [&[4][..], &std::net::Ipv6Addr::LOCALHOST.octets()].concat()),
        ] {
            let (sent, left) = talk(&answers, None, target).await;
            assert_eq!(sent, [&[5, 1, 0, 5, 1, 0][..], &address, &[1, 187]].concat(), "{target}");
            assert_eq!(left.unwrap(), b"early");
        }
        let named = [&[5, 0, 5, 0, 0, 3, 2][..], b"xy", &[0, 1], b"early"].concat();
        assert_eq!(talk(&named, None, "a.com").await.1.unwrap(), b"early");
    }

    #[tokio::test]
    async fn a_login_is_sent_when_asked_for() {
        let login = Login::new(b"user".to_vec(), b"pw".to_vec()).unwrap();
        let good = [5, 2, 1, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        let (sent, result) = talk(&good, Some(&login), "9.8.7.6").await;
        assert_eq!(&sent[..13], &[&[5, 2, 0, 2, 1, 4][..], b"user", &[2], b"pw"].concat()[..]);
        assert!(result.is_ok());
        assert!(matches!(talk(&[5, 2, 1, 1], Some(&login), "a.com").await.1, Err(Fault::Login)));
        assert!(matches!(talk(&[5, 2], None, "a.com").await.1, Err(Fault::Login)));
        assert!(matches!(talk(&[5, 0xff], Some(&login), "a.com").await.1, Err(Fault::Login)));
        assert!(Login::new(vec![b'u'; 256], Vec::new()).is_none());
    }

    #[tokio::test]
    async fn refusals_and_nonsense_are_told() {
        for (answers, expected) in [
            (&[5, 0, 5, 2, 0, 1][..], "Code(2)"),
            (b"HTTP/1.1 400", "Reply"),
            (&[5, 0, 4, 0, 0, 1], "Reply"),
            (&[5, 0, 5, 0, 0, 9], "Reply"),
        ] {
            let (_, result) = talk(answers, None, "a.com").await;
            assert_eq!(format!("{:?}", result.unwrap_err()), expected, "{answers:?}");
        }
        let whole = [5, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for cut in 0..whole.len() {
            assert!(matches!(talk(&whole[..cut], None, "a.com").await.1, Err(Fault::Io(_))), "{cut}");
        }
    }
}
