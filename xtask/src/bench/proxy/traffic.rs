use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use super::contender::Contender;

const BLOCK: usize = 256 * 1024;

/// A server on the loopback: the first eight bytes of a connection say how many it gets back.
/// Another port holds its connections open and does nothing.
pub(super) struct Server {
    port: u16,
    holding: u16,
}

impl Server {
    pub(super) fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                std::thread::spawn(move || serve(stream));
            }
        });
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let holding = listener.local_addr()?.port();
        std::thread::spawn(move || {
            let _held: Vec<_> = listener.incoming().flatten().collect();
        });
        Ok(Self { port, holding })
    }

    /// The port that holds.
    pub(super) fn holding(&self) -> u16 {
        self.holding
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Fetches so many bytes.
    pub(super) fn download(&self, proxy: Option<&Contender>, bytes: u64) -> io::Result<()> {
        let mut stream = open(proxy, self.port)?;
        stream.write_all(&bytes.to_be_bytes())?;
        let mut buffer = vec![0; BLOCK];
        let mut left = bytes;
        while left > 0 {
            match stream.read(&mut buffer)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => left -= count as u64,
            }
        }
        Ok(())
    }

    /// Connects and fetches one byte.
    pub(super) fn ping(&self, proxy: Option<&Contender>) -> io::Result<()> {
        self.download(proxy, 1)
    }
}

fn serve(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut wanted = [0; 8];
    stream.read_exact(&mut wanted)?;
    let mut left = u64::from_be_bytes(wanted);
    let block = vec![7; BLOCK.min(usize::try_from(left).unwrap_or(BLOCK))];
    while left > 0 {
        let count = block.len().min(usize::try_from(left).unwrap_or(BLOCK));
        stream.write_all(&block[..count])?;
        left -= count as u64;
    }
    Ok(())
}

/// A connection to a port of the loopback, through a proxy or without one.
pub(super) fn open(proxy: Option<&Contender>, port: u16) -> io::Result<TcpStream> {
    let Some(proxy) = proxy else {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        return Ok(stream);
    };
    let mut stream = TcpStream::connect(proxy.address())?;
    stream.set_nodelay(true)?;
    if proxy.speaks_socks() {
        stream.write_all(&[5, 1, 0])?;
        stream.read_exact(&mut [0; 2])?;
        let [high, low] = port.to_be_bytes();
        stream.write_all(&[5, 1, 0, 1, 127, 0, 0, 1, high, low])?;
        let mut reply = [0; 10];
        stream.read_exact(&mut reply)?;
        return if reply[1] == 0 { Ok(stream) } else { Err(io::ErrorKind::ConnectionRefused.into()) };
    }
    write!(stream, "CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n")?;
    let mut head = Vec::new();
    let mut buffer = [0; 1024];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => head.extend_from_slice(&buffer[..count]),
        }
    }
    if head.get(9..12) == Some(b"200") { Ok(stream) } else { Err(io::ErrorKind::ConnectionRefused.into()) }
}
