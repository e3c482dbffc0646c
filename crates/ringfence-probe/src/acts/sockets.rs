//! Acts on sockets and on the System V and POSIX objects of the IPC namespace.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixDatagram, UnixListener, UnixStream};
use std::time::Duration;

use serde_json::{Value, json};

use super::files::done;
use super::{Act, act};
use crate::args::{Args, Failure, Outcome};
use crate::sys::{Arg, call, sys};

pub(super) const ACTS: &[Act] = &[
    act("socket", "FAMILY TYPE PROTOCOL", |args| {
        done(sys!(libc::SYS_socket, family(args)?, kind(args)?, args.int(2)?))
    }),
    act("socketpair", "FAMILY TYPE PROTOCOL", |args| {
        done(sys!(libc::SYS_socketpair, family(args)?, kind(args)?, args.int(2)?, vec![0; 8]))
    }),
    act("tcp-connect", "ADDRESS PORT", |args| done(TcpStream::connect_timeout(&address(args)?, PATIENCE))),
    act("tcp-listen", "ADDRESS PORT", |args| done(TcpListener::bind(address(args)?))),
    act("udp-send", "ADDRESS PORT", udp_send),
    act("tcp-fast-open", "ADDRESS PORT", tcp_fast_open),
    act("loopback-echo", "v4|v6", loopback_echo),
    act("loopback-udp", "", loopback_udp),
    act("connect-abstract", "NAME", |args| done(UnixStream::connect_addr(&abstract_address(args)?))),
    act("send-abstract", "NAME", |args| {
        done(UnixDatagram::unbound()?.send_to_addr(b"x", &abstract_address(args)?))
    }),
    act("abstract-echo", "NAME", abstract_echo),
    act("pair-echo", "", pair_echo),
    act("interfaces", "", interfaces),
    act("shm-attach", "KEY", |args| done(sys!(libc::SYS_shmget, args.int(0)?, 0, 0))),
    act("mq-open", "NAME", |args| done(sys!(libc::SYS_mq_open, args.os(0)?, libc::O_RDONLY, 0, 0))),
];

const PATIENCE: Duration = Duration::from_secs(3);

fn family(args: &Args) -> Result<i64, Failure> {
    const AF_TIPC: i32 = 30;
    const AF_KCM: i32 = 41;
    const AF_SMC: i32 = 43;
    const AF_XDP: i32 = 44;
    Ok(i64::from(match args.text(0)? {
        "unix" => libc::AF_UNIX,
        "inet" => libc::AF_INET,
        "inet6" => libc::AF_INET6,
        "netlink" => libc::AF_NETLINK,
        "packet" => libc::AF_PACKET,
        "vsock" => libc::AF_VSOCK,
        "alg" => libc::AF_ALG,
        "bluetooth" => libc::AF_BLUETOOTH,
        "can" => libc::AF_CAN,
        "tipc" => AF_TIPC,
        "rds" => libc::AF_RDS,
        "kcm" => AF_KCM,
        "smc" => AF_SMC,
        "xdp" => AF_XDP,
        "key" => libc::AF_KEY,
        _ => return args.int(0),
    }))
}

fn kind(args: &Args) -> Result<i64, Failure> {
    Ok(i64::from(match args.text(1)? {
        "stream" => libc::SOCK_STREAM,
        "dgram" => libc::SOCK_DGRAM,
        "raw" => libc::SOCK_RAW,
        "seqpacket" => libc::SOCK_SEQPACKET,
        _ => return args.int(1),
    }))
}

fn address(args: &Args) -> Result<SocketAddr, Failure> {
    let ip = args.text(0)?.parse().map_err(|_| Failure::Usage)?;
    let port = args.text(1)?.parse().map_err(|_| Failure::Usage)?;
    Ok(SocketAddr::new(ip, port))
}

fn abstract_address(args: &Args) -> Result<UnixAddr, Failure> {
    Ok(UnixAddr::from_abstract_name(args.text(0)?)?)
}

/// The datagram is sent, and an answer of the receiver waited for: sending alone proves nothing.
fn udp_send(args: &Args) -> Outcome {
    let target = address(args)?;
    let local: SocketAddr =
        if target.is_ipv4() { (Ipv4Addr::UNSPECIFIED, 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() };
    let socket = UdpSocket::bind(local)?;
    socket.connect(target)?;
    socket.set_read_timeout(Some(Duration::from_millis(500)))?;
    socket.send(b"ping")?;
    let mut answer = [0; 16];
    let length = socket.recv(&mut answer)?;
    Ok(json!(String::from_utf8_lossy(&answer[..length])))
}

/// sendto(2) with `MSG_FASTOPEN`, which connects without connect(2).
fn tcp_fast_open(args: &Args) -> Outcome {
    let SocketAddr::V4(target) = address(args)? else { return Err(Failure::Usage) };
    let socket = sys!(libc::SYS_socket, libc::AF_INET, libc::SOCK_STREAM, 0)?;
    let mut name = Vec::from((libc::AF_INET as u16).to_ne_bytes());
    name.extend(target.port().to_be_bytes());
    name.extend(target.ip().octets());
    name.extend([0; 8]);
    done(sys!(libc::SYS_sendto, socket, b"ping".to_vec(), 4, libc::MSG_FASTOPEN, name, 16))
}

fn echo(mut ours: impl Write + Read, mut theirs: impl Write + Read) -> Outcome {
    ours.write_all(b"ping")?;
    let mut heard = [0; 4];
    theirs.read_exact(&mut heard)?;
    theirs.write_all(b"pong")?;
    ours.read_exact(&mut heard)?;
    Ok(json!(String::from_utf8_lossy(&heard)))
}

/// A server and a client on the box's own loopback.
fn loopback_echo(args: &Args) -> Outcome {
    let listener = match args.text(0)? {
        "v4" => TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?,
        "v6" => TcpListener::bind((Ipv6Addr::LOCALHOST, 0))?,
        _ => return Err(Failure::Usage),
    };
    let client = TcpStream::connect_timeout(&listener.local_addr()?, PATIENCE)?;
    echo(client, listener.accept()?.0)
}

fn loopback_udp(_: &Args) -> Outcome {
    let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    receiver.set_read_timeout(Some(PATIENCE))?;
    let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    sender.send_to(b"ping", receiver.local_addr()?)?;
    let mut heard = [0; 4];
    done(receiver.recv(&mut heard))
}

/// A server and a client on an abstract name of the box's own.
fn abstract_echo(args: &Args) -> Outcome {
    let name = abstract_address(args)?;
    let listener = UnixListener::bind_addr(&name)?;
    let client = UnixStream::connect_addr(&name)?;
    echo(client, listener.accept()?.0)
}

fn pair_echo(_: &Args) -> Outcome {
    let (ours, theirs) = UnixStream::pair()?;
    echo(ours, theirs)
}

/// Names of the network interfaces by a route query (rtnetlink(7), `RTM_GETLINK`).
fn interfaces(_: &Args) -> Outcome {
    const HEADER: usize = 16;
    const INFO: usize = 16;
    let socket = sys!(libc::SYS_socket, libc::AF_NETLINK, libc::SOCK_RAW, 0)?;
    let mut request = Vec::new();
    request.extend(((HEADER + INFO) as u32).to_ne_bytes());
    request.extend(libc::RTM_GETLINK.to_ne_bytes());
    request.extend(((libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16).to_ne_bytes());
    request.extend([0; 8 + INFO]);
    let length = request.len();
    sys!(libc::SYS_sendto, socket, request, length, 0, 0, 0)?;
    let mut receive = [
        Arg::from(socket),
        Arg::from(vec![0; 32768]),
        Arg::from(32768),
        Arg::Int(0),
        Arg::Int(0),
        Arg::Int(0),
    ];
    let length = call(libc::SYS_recvfrom, &mut receive)? as usize;
    let Arg::Bytes(answer) = &receive[1] else { return Err(Failure::Usage) };
    let mut names = Vec::new();
    let mut message = &answer[..length];
    while message.len() >= HEADER {
        let size = u32::from_ne_bytes([message[0], message[1], message[2], message[3]]) as usize;
        let kind = u16::from_ne_bytes([message[4], message[5]]);
        if kind != libc::RTM_NEWLINK || size < HEADER + INFO || size > message.len() {
            break;
        }
        names.extend(interface_name(&message[HEADER + INFO..size]));
        message = &message[size.next_multiple_of(4).min(message.len())..];
    }
    Ok(json!(names))
}

/// The `IFLA_IFNAME` attribute.
fn interface_name(mut attributes: &[u8]) -> Option<Value> {
    while attributes.len() >= 4 {
        let size = u16::from_ne_bytes([attributes[0], attributes[1]]) as usize;
        let kind = u16::from_ne_bytes([attributes[2], attributes[3]]);
        let value = attributes.get(4..size)?;
        if kind == libc::IFLA_IFNAME {
            return Some(json!(String::from_utf8_lossy(value).trim_end_matches('\0')));
        }
        attributes = attributes.get(size.next_multiple_of(4)..)?;
    }
    None
}
