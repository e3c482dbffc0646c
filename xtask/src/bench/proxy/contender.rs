use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::bench::setup::Setup;
use crate::error::Error;
use crate::tools::describe;

/// A CONNECT proxy as people write it for Node.js.
const NODE: &str = "
const http = require('http'), net = require('net');
const server = http.createServer();
server.on('connect', (request, client, head) => {
  const [host, port] = request.url.split(':');
  const upstream = net.connect({ host, port, allowHalfOpen: true }, () => {
    client.write('HTTP/1.1 200 OK\\r\\n\\r\\n');
    upstream.write(head);
    upstream.pipe(client);
    client.pipe(upstream);
  });
  for (const [one, other] of [[client, upstream], [upstream, client]]) one.on('error', () => other.destroy());
});
server.listen(Number(process.argv[1]), '127.0.0.1');
";

/// Which proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Ringfence,
    Tinyproxy,
    Microsocks,
    Node,
}

/// A proxy that runs until this is dropped.
pub(super) struct Contender {
    kind: Kind,
    child: Child,
    address: SocketAddr,
}

impl Contender {
    /// Starts one that may connect to two ports of the loopback, and waits until it listens.
    pub(super) fn start(kind: Kind, setup: &Setup, targets: [u16; 2]) -> Result<Self, Error> {
        let port = free_port()?;
        let mut command = match kind {
            Kind::Ringfence => {
                let mut command = Command::new(&setup.ringfence);
                command.args(["proxy", "--listen", &format!("127.0.0.1:{port}")]);
                command.args(targets.map(|port| format!("--allow-loopback={port}")));
                command
            }
            Kind::Tinyproxy => {
                let config = setup.folder("tinyproxy")?.join("tinyproxy.conf");
                let text = format!(
                    "Port {port}\nListen 127.0.0.1\nMaxClients 20000\nTimeout 600\nLogLevel Critical\n\
                     ConnectPort {}\nConnectPort {}\n",
                    targets[0], targets[1]
                );
                fs::write(&config, text).map_err(|source| Error::Write { path: config.clone(), source })?;
                let mut command = Command::new("tinyproxy");
                command.arg("-d").arg("-c").arg(config);
                command
            }
            Kind::Microsocks => {
                let mut command = Command::new("microsocks");
                command.args(["-i", "127.0.0.1", "-p", &port.to_string()]);
                command
            }
            Kind::Node => {
                let mut command = Command::new("node");
                command.args(["-e", NODE, &port.to_string()]);
                command
            }
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|source| Error::Start { command: describe(&command), source })?;
        let contender = Self { kind, child, address: ([127, 0, 0, 1], port).into() };
        let deadline = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(contender.address).is_err() {
            if Instant::now() > deadline {
                let source = std::io::ErrorKind::TimedOut.into();
                return Err(Error::Start { command: describe(&command), source });
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(contender)
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) fn name(&self) -> &'static str {
        match self.kind {
            Kind::Ringfence => "ringfence proxy",
            Kind::Tinyproxy => "tinyproxy",
            Kind::Microsocks => "microsocks",
            Kind::Node => "JavaScript",
        }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn speaks_socks(&self) -> bool {
        self.kind == Kind::Microsocks
    }

    /// Tunnels at one time: some have a thread for each.
    pub(super) fn most_tunnels(&self) -> usize {
        match self.kind {
            Kind::Tinyproxy | Kind::Microsocks => 1000,
            Kind::Ringfence | Kind::Node => usize::MAX,
        }
    }

    /// User and system time of the process, its threads included, in units of 10 ms (proc_pid_stat(5)).
    pub(super) fn cpu_time(&self) -> Result<Duration, Error> {
        let path = PathBuf::from(format!("/proc/{}/stat", self.child.id()));
        let text = fs::read_to_string(&path).map_err(|source| Error::Read { path: path.clone(), source })?;
        let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
        match (ticks(11), ticks(12)) {
            (Some(user), Some(system)) => Ok(Duration::from_millis((user + system) * 10)),
            _ => Err(Error::Marker { path, marker: "utime" }),
        }
    }

    /// Private memory and a share of the rest (proc_pid_smaps(5)).
    pub(super) fn memory_kib(&self) -> Result<u64, Error> {
        crate::bench::concurrent::proportional_kib(self.child.id())
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> Result<u16, Error> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(Error::Network)?;
    Ok(listener.local_addr().map_err(Error::Network)?.port())
}

/// Descriptors that this process and those that it starts may have.
pub(super) fn file_limit() -> Result<u64, Error> {
    let path = PathBuf::from("/proc/self/limits");
    let file = fs::File::open(&path).map_err(|source| Error::Read { path: path.clone(), source })?;
    BufReader::new(file)
        .lines()
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("Max open files")?.split_whitespace().next()?.parse().ok())
        .ok_or(Error::Marker { path, marker: "Max open files" })
}
