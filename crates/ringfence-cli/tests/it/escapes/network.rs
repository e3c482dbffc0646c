//! The host's network, its sockets by path and by abstract name, and socket families.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixDatagram, UnixListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use libc::{
    EACCES, EAFNOSUPPORT, ECONNREFUSED, ENETUNREACH, ENOENT, EPERM, EPROTONOSUPPORT, ESOCKTNOSUPPORT,
};
use ringfence_testkit::Fixture;
use serde_json::{Value, json};

use super::row::{Closed, Row, Setup, row};

const UNREACHABLE: Closed = Closed::Errno(&[ECONNREFUSED, ENETUNREACH]);
const NO_FAMILY: Closed = Closed::Errno(&[EAFNOSUPPORT]);
const NO_KIND: Closed = Closed::Errno(&[EAFNOSUPPORT, EPERM, EACCES, EPROTONOSUPPORT, ESOCKTNOSUPPORT]);
const CUT_OFF: Closed = Closed::Errno(&[ECONNREFUSED, ENOENT, EACCES, EPERM]);

/// A name that no other fixture has.
fn unique(what: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("ringfence-{what}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Servers on the host's loopback that answer.
fn servers(_: &Fixture) -> Setup {
    let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let tcp6 = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).expect("a port");
    let udp = Echo::start();
    let ports = [port(tcp.local_addr()), port(tcp6.local_addr()), udp.port];
    Setup::default()
        .keep(udp)
        .keep((tcp, tcp6))
        .name("{tcp}", ports[0])
        .name("{tcp6}", ports[1])
        .name("{udp}", ports[2])
}

fn port(address: std::io::Result<SocketAddr>) -> u16 {
    address.expect("a bound socket has an address").port()
}

/// Answers datagrams until it is dropped.
struct Echo {
    port: u16,
    stop: Arc<AtomicBool>,
}

impl Echo {
    fn start() -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        socket.set_read_timeout(Some(Duration::from_millis(20))).expect("a timeout");
        let stop = Arc::new(AtomicBool::new(false));
        let (port, stopped) = (port(socket.local_addr()), Arc::clone(&stop));
        std::thread::spawn(move || {
            let mut buffer = [0; 16];
            while !stopped.load(Ordering::Relaxed) {
                if let Ok((length, from)) = socket.recv_from(&mut buffer) {
                    let _ = socket.send_to(&buffer[..length], from);
                }
            }
        });
        Self { port, stop }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Sockets of the host's with names in the file system and abstract ones.
fn unix_sockets(fixture: &Fixture) -> Setup {
    let host = fixture.host();
    let stream = UnixListener::bind(host.join("service.sock")).expect("a socket");
    let datagram = UnixDatagram::bind(host.join("log.sock")).expect("a socket");
    let in_workspace = UnixListener::bind(fixture.ws().join("service.sock")).expect("a socket");
    fixture.caller().own(fixture.root());
    fixture.symlink("../host/service.sock", "ws/way-out.sock");
    let name = unique("abstract");
    let abstract_name = UnixAddr::from_abstract_name(&name).expect("a name");
    let abstract_stream = UnixListener::bind_addr(&abstract_name).expect("a socket");
    let datagram_name = unique("abstract-datagram");
    let address = UnixAddr::from_abstract_name(&datagram_name).expect("a name");
    let abstract_datagram = UnixDatagram::bind_addr(&address).expect("a socket");
    Setup::default()
        .keep((stream, datagram, in_workspace, abstract_stream, abstract_datagram))
        .name("{abstract}", name)
        .name("{abstract-datagram}", datagram_name)
}

/// A place to mount one of them at.
fn mounted_socket(fixture: &Fixture) -> Setup {
    fixture.write("host/mounted.sock", "");
    unix_sockets(fixture)
}

/// A shared memory segment and a message queue of the host's.
fn ipc(fixture: &Fixture) -> Setup {
    let key = i64::from(std::process::id()) << 8 | i64::from(COUNTER.fetch_add(1, Ordering::Relaxed) & 0xff);
    let key = (key & 0x7fff_ffff).to_string();
    let id = fixture.probe_outside(&["syscall", "shmget", &key, "4096", "0o1666"]).finish().allowed();
    let queue = unique("queue");
    let text = format!("str:{queue}");
    fixture.probe_outside(&["syscall", "mq_open", &text, "0o102", "0o666", "0"]).finish().allowed();
    let remove: Box<dyn Fn()> = {
        let (caller, probe) = (fixture.caller(), fixture.binaries().probe.clone());
        Box::new(move || {
            for words in [["shmctl", &id.to_string(), "0", "0"], ["mq_unlink", &text, "0", "0"]] {
                let removed = caller.command(&probe).arg("syscall").args(words).output();
                assert!(removed.is_ok_and(|output| output.status.success()));
            }
        })
    };
    Setup::default().keep(AtEnd(remove)).name("{key}", key).name("{queue}", queue)
}

static COUNTER: AtomicU32 = AtomicU32::new(1);

struct AtEnd(Box<dyn Fn()>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        (self.0)();
    }
}

const fn family(name: &'static str, act: &'static [&'static str]) -> Row {
    row(name, "2.5", act, NO_FAMILY).kernel_may_lack_it()
}

const fn raw(name: &'static str, act: &'static [&'static str]) -> Row {
    row(name, "2.5", act, NO_KIND).control_as_root()
}

const fn strict(name: &'static str, act: &'static [&'static str]) -> Row {
    row(name, "2.5", act, NO_FAMILY).flags(&["--mode", "strict", "--read", "{probe}"])
}

fn only_loopback(names: &Value) -> bool {
    *names == json!(["lo"])
}

pub(crate) const ROWS: &[Row] = &[
    row(
        "reach a server on the host's loopback",
        "2.2.7",
        &["tcp-connect", "127.0.0.1", "{tcp}"],
        UNREACHABLE,
    )
    .setup(servers),
    row(
        "reach a server on the host's IPv6 loopback",
        "2.2.7",
        &["tcp-connect", "::1", "{tcp6}"],
        UNREACHABLE,
    )
    .setup(servers),
    row("reach a server by fast open", "2.2.7", &["tcp-fast-open", "127.0.0.1", "{tcp}"], FAST_OPEN)
        .setup(servers),
    row("reach a datagram server on the host", "2.2.7", &["udp-send", "127.0.0.1", "{udp}"], UNREACHABLE)
        .setup(servers),
    row("reach a server from strict mode", "2.5", &["tcp-connect", "127.0.0.1", "{tcp}"], NO_FAMILY)
        .setup(servers)
        .flags(&["--mode", "strict", "--read", "{probe}"]),
    row("see the host's interfaces", "2.2.2", &["interfaces"], Closed::State(only_loopback)),
    row("connect to a socket by path", "2.3", &["connect-unix", "{host}/service.sock"], CUT_OFF)
        .setup(unix_sockets),
    row("connect to a socket through a symlink", "2.3", &["connect-unix", "{ws}/way-out.sock"], CUT_OFF)
        .setup(unix_sockets),
    row("connect to a socket through /proc/self/root", "2.3", SOCKET_BY_MAGIC, CUT_OFF).setup(unix_sockets),
    row(
        "connect to a mounted socket of another network",
        "2.3",
        &["connect-unix", "{host}/mounted.sock"],
        CUT_OFF,
    )
    .setup(mounted_socket)
    .prefix(MOUNTED),
    row("send to a datagram socket by path", "2.3", &["send-unix", "{host}/log.sock"], CUT_OFF)
        .setup(unix_sockets),
    row("connect to an abstract socket", "2.4", &["connect-abstract", "{abstract}"], CUT_OFF)
        .setup(unix_sockets),
    row("send to an abstract datagram socket", "2.4", &["send-abstract", "{abstract-datagram}"], CUT_OFF)
        .setup(unix_sockets),
    row("connect to an abstract socket over the host's network", "2.4", ABSTRACT, CUT_OFF)
        .setup(unix_sockets)
        .flags(&["--net", "all"]),
    row("attach the host's shared memory", "2.2.2", &["shm-attach", "{key}"], Closed::Errno(&[ENOENT]))
        .setup(ipc),
    row("open the host's message queue", "2.2.2", &["mq-open", "{queue}"], Closed::Errno(&[ENOENT, EACCES]))
        .setup(ipc),
    family("reach the hypervisor", &["socket", "vsock", "stream", "0"]),
    family("reach the hypervisor by datagram", &["socket", "vsock", "dgram", "0"]),
    family("reach the kernel's ciphers", &["socket", "alg", "seqpacket", "0"]),
    family("reach a field bus", &["socket", "can", "raw", "1"]),
    family("reach Bluetooth", &["socket", "bluetooth", "raw", "1"]),
    family("reach a cluster", &["socket", "tipc", "dgram", "0"]),
    family("reach reliable datagrams", &["socket", "rds", "seqpacket", "0"]),
    family("reach the connection multiplexer", &["socket", "kcm", "dgram", "0"]),
    family("reach shared memory communication", &["socket", "smc", "stream", "0"]),
    family("reach the key management", &["socket", "key", "raw", "2"]).control_as_root(),
    family("reach the express data path", &["socket", "xdp", "raw", "0"]).control_as_root(),
    family("reach the audit", &["socket", "netlink", "raw", "9"]),
    family("reach device events", &["socket", "netlink", "raw", "15"]),
    family("reach generic netlink", &["socket", "netlink", "raw", "16"]),
    family("reach the packet filter", &["socket", "netlink", "raw", "12"]),
    family("reach socket diagnosis", &["socket", "netlink", "raw", "4"]),
    family("pair of a foreign family", &["socketpair", "tipc", "dgram", "0"]),
    raw("raw packets", &["socket", "packet", "raw", "0"]),
    raw("cooked packets", &["socket", "packet", "dgram", "0"]),
    raw("raw ICMP", &["socket", "inet", "raw", "1"]),
    raw("raw IP", &["socket", "inet", "raw", "255"]),
    raw("raw IPv6", &["socket", "inet6", "raw", "58"]),
    raw("raw TCP, with flags in the type", &["socket", "inet", "0x80003", "6"]),
    raw("raw packets over the host's network", &["socket", "packet", "raw", "0"]).flags(&["--net", "all"]),
    strict("IP sockets in strict mode", &["socket", "inet", "stream", "0"]),
    strict("IP datagrams in strict mode", &["socket", "inet", "dgram", "0"]),
    strict("IPv6 sockets in strict mode", &["socket", "inet6", "stream", "0"]),
    strict("flags in the type in strict mode", &["socket", "inet", "0x80001", "0"]),
    strict("a family with high bits in strict mode", &["socket", "0x100000002", "stream", "0"]),
    strict("a server in strict mode", &["tcp-listen", "127.0.0.1", "0"]),
];

/// A refused fast open fails like connect(2), or is not known to the box's own loopback.
const FAST_OPEN: Closed = Closed::Errno(&[ECONNREFUSED, ENETUNREACH, EPERM, libc::EOPNOTSUPP]);
/// As an engine passes a socket of its host's on to a container: the list of the container's network lacks it.
const MOUNTED: &[&str] = &[
    "unshare",
    "-Urmn",
    "bash",
    "-c",
    "mount --bind {host}/service.sock {host}/mounted.sock && exec \"$@\"",
    "bash",
];
const SOCKET_BY_MAGIC: &[&str] = &["connect-unix", "/proc/self/root{host}/service.sock"];
const ABSTRACT: &[&str] = &["connect-abstract", "{abstract}"];
