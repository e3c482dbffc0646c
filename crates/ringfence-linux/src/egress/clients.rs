//! Whose connection it is: found among the processes of the box, from outside, as far as `/proc` tells (proc(5)).

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::sys;

/// A table of sockets serves for so long: a command can make any number of questions of it.
const FRESH: Duration = Duration::from_millis(500);
/// Bytes of a table that are read. What lies beyond is unknown.
const TABLE: u64 = 4 << 20;
/// Processes, and descriptors of each, that are looked at.
const PROCESSES: usize = 4096;
const DESCRIPTORS: usize = 4096;

/// Numbers of sockets by their own end. 0 is that of a socket that no program has any more.
type Table = HashMap<SocketAddr, u64>;

/// The programs of one network namespace.
#[derive(Debug)]
pub(super) struct Clients {
    /// What `/proc/PID/ns/net` of its members leads to.
    namespace: PathBuf,
    table: Mutex<Option<(Instant, Option<Table>)>>,
}

impl Clients {
    /// Those of the namespace that a socket was made in.
    ///
    /// # Errors
    /// Those of ioctl(2), `SIOCGSKNS`: no rights over the namespace.
    pub(super) fn of(socket: impl AsFd) -> Result<Self, Errno> {
        let namespace = sys::network_namespace(socket.as_fd())?;
        let number = rustix::fs::fstat(&namespace)?.st_ino;
        Ok(Self { namespace: format!("net:[{number}]").into(), table: Mutex::default() })
    }

    /// The name of the program whose end of a connection this is.
    pub(super) fn program(&self, client: SocketAddr) -> Option<Vec<u8>> {
        let members = self.members();
        let table = table(members.first()?)?;
        let socket = table.get(&canonical(client)).copied().filter(|number| *number != 0)?;
        let link = PathBuf::from(format!("socket:[{socket}]"));
        let owner = members.iter().find(|process| has_descriptor(process, &link))?;
        let mut name = fs::read(owner.join("comm")).ok()?;
        name.pop_if(|last| *last == b'\n');
        Some(name)
    }

    /// Whether some program still has this end of a connection. What can't be found out counts as yes.
    pub(super) fn has(&self, client: SocketAddr) -> bool {
        let mut cached = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if cached.as_ref().is_none_or(|(read, _)| read.elapsed() > FRESH) {
            *cached = Some((Instant::now(), self.members().first().and_then(|member| table(member))));
        }
        match cached.as_ref().and_then(|(_, table)| table.as_ref()) {
            Some(table) => table.get(&canonical(client)).is_some_and(|number| *number != 0),
            None => true,
        }
    }

    /// Directories of the namespace's processes.
    fn members(&self) -> Vec<PathBuf> {
        let Ok(all) = fs::read_dir("/proc") else { return Vec::new() };
        let is_process =
            |path: &Path| path.file_name().is_some_and(|name| name.as_encoded_bytes()[0].is_ascii_digit());
        let is_member =
            |path: &Path| fs::read_link(path.join("ns/net")).is_ok_and(|link| link == self.namespace);
        all.flatten()
            .map(|entry| entry.path())
            .filter(|path| is_process(path) && is_member(path))
            .take(PROCESSES)
            .collect()
    }
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn has_descriptor(process: &Path, link: &Path) -> bool {
    let Ok(all) = fs::read_dir(process.join("fd")) else { return false };
    all.flatten().take(DESCRIPTORS).any(|entry| fs::read_link(entry.path()).is_ok_and(|to| to == link))
}

/// The TCP sockets of a process' network namespace; `None` if they can't all be read.
fn table(process: &Path) -> Option<Table> {
    let mut all = Table::new();
    for family in ["tcp", "tcp6"] {
        let text = match read(&process.join("net").join(family)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && family == "tcp6" => continue,
            text => text.ok()?,
        };
        all.extend(text.lines().skip(1).filter_map(row));
    }
    Some(all)
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let length = fs::File::open(path)?.take(TABLE).read_to_string(&mut text)?;
    if length as u64 == TABLE { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(text) }
}

/// A socket's own end and its number, from a line such as
/// `0: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000 1000 0 12345 …`.
fn row(line: &str) -> Option<(SocketAddr, u64)> {
    let mut fields = line.split_ascii_whitespace();
    let own = fields.nth(1)?;
    let number = fields.nth(7)?.parse().ok()?;
    let (address, port) = own.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    // Each 32 bits are in network order, written as a number of this machine.
    let words = |text: &str| -> Option<Vec<u8>> {
        let words = (0..text.len()).step_by(8).map(|at| u32::from_str_radix(text.get(at..at + 8)?, 16).ok());
        Some(words.collect::<Option<Vec<_>>>()?.into_iter().flat_map(u32::to_ne_bytes).collect())
    };
    let bytes = words(address)?;
    let address: IpAddr = match <[u8; 4]>::try_from(bytes.as_slice()) {
        Ok(v4) => Ipv4Addr::from(v4).into(),
        Err(_) => Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into(),
    };
    Some((canonical(SocketAddr::new(address, port)), number))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_row_gives_address_port_and_number() {
        let v4 = "   1: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 12345 1 0000000000000000 20 4 30 10 -1";
        let v6 = v4.replace("0100007F:1F90", "00000000000000000000000001000000:0050");
        let mapped = v4.replace("0100007F:1F90", "0000000000000000FFFF00000100007F:0050");
        #[cfg(target_endian = "little")]
        for (line, own) in [(v4, "127.0.0.1:8080"), (&v6, "[::1]:80"), (&mapped, "127.0.0.1:80")] {
            assert_eq!(row(line), Some((own.parse().unwrap(), 12345)), "{line}");
        }
        for line in ["", "1: x", "1: 0100007F 0 0", "1: 01:1 a b c d e f g"] {
            assert_eq!(row(line), None, "{line}");
        }
    }

    /// The test's own namespace stands for the box.
    #[test]
    fn the_program_behind_a_connection_is_found() {
        let own = fs::read_link("/proc/self/ns/net").unwrap();
        let clients = Clients { namespace: own, table: Mutex::default() };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, peer) = listener.accept().unwrap();
        let comm = fs::read_to_string("/proc/self/comm").unwrap();
        assert_eq!(clients.program(peer).unwrap(), comm.trim_end().as_bytes());
        assert!(clients.has(peer));
        drop(client);
        // Half-closed by a program that is gone.
        let gone = Clients { namespace: clients.namespace.clone(), table: Mutex::default() };
        assert!(!gone.has(peer));
        assert_eq!(gone.program(peer), None);
        drop(server);
        let unknown = Clients { namespace: "net:[1]".into(), table: Mutex::default() };
        assert!(unknown.has(peer));
    }
}
