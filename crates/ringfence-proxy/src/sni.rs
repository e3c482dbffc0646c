//! The server name of a TLS connection, read from its first message without opening it.

pub(crate) mod client_hello;

use std::io;
use std::sync::Arc;

use ringfence_types::{Host, SniCheck};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::admit::Admission;
use crate::event::Protocol;
use crate::policy::{Rule, Wanted};
use client_hello::Found;

/// Bytes of the first message: a full record and what lies around it.
const LIMIT: usize = 20 * 1024;

/// Compares the first message of a client with the host that was allowed.
///
/// What is not TLS passes, as does TLS without a server name. With an encrypted client hello (RFC 9849) the name in
/// the clear is not the host's own, so it passes and is told. An address stands for no certain name: there a name
/// passes that is not denied.
pub(crate) struct SniGate {
    pub(crate) admission: Arc<Admission>,
    pub(crate) connection: u64,
    pub(crate) protocol: Protocol,
    pub(crate) host: Host,
    pub(crate) port: u16,
}

/// Why a client's first bytes did not pass.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SniFault {
    #[error("the connection broke")]
    Io(#[from] io::Error),
    #[error("the TLS connection is for {0}")]
    Refused(String),
}

/// What is said of a first message.
enum Verdict {
    Passes,
    Told(String),
    Refused(String),
}

impl SniGate {
    /// Reads until the name is known; gives all that was read. `early` was read before.
    pub(crate) async fn inspect(self, stream: &TcpStream, early: Vec<u8>) -> Result<Vec<u8>, SniFault> {
        let mut bytes = early;
        if bytes.is_empty() {
            // A client that waits for the host to speak first may wait as long as the tunnel lives.
            stream.readable().await?;
        }
        let time = self.admission.limits.handshake;
        let found = match timeout(time, read(stream, &mut bytes)).await {
            Ok(found) => found?,
            Err(_) => Found::Malformed("took too long"),
        };
        match self.verdict(found) {
            Verdict::Passes => Ok(bytes),
            Verdict::Told(found) => {
                self.tell(found, true);
                Ok(bytes)
            }
            Verdict::Refused(found) => {
                let logged = self.admission.policy.sni == SniCheck::Log;
                self.tell(found.clone(), logged);
                if logged { Ok(bytes) } else { Err(SniFault::Refused(found)) }
            }
        }
    }

    fn verdict(&self, found: Found) -> Verdict {
        let (name, encrypted) = match found {
            Found::NotTls => return Verdict::Passes,
            Found::Incomplete => return Verdict::Refused("no complete client hello".to_owned()),
            Found::Malformed(what) => return Verdict::Refused(format!("a client hello that {what}")),
            Found::Hello { name: None, .. } => return Verdict::Passes,
            Found::Hello { name: Some(name), encrypted } => (name, encrypted),
        };
        let Ok(named) = name.parse::<Host>() else {
            return Verdict::Refused(format!("`{}`, which is no host name", name.escape_debug()));
        };
        let passes = match &self.host {
            Host::Name(_) => named == self.host,
            Host::Ip(_) => self.admission.policy.denied(&named, self.port).is_none(),
        };
        match (passes, encrypted) {
            (true, _) => Verdict::Passes,
            (false, true) => Verdict::Told(format!("{named}, with an encrypted client hello")),
            (false, false) => Verdict::Refused(named.to_string()),
        }
    }

    fn tell(&self, found: String, allowed: bool) {
        let wanted = Wanted { host: self.host.clone(), port: Some(self.port) };
        self.admission.tell(self.connection, self.protocol, wanted, Rule::ServerName { found }, allowed);
    }
}

async fn read(stream: &TcpStream, bytes: &mut Vec<u8>) -> io::Result<Found> {
    loop {
        match client_hello::find(bytes) {
            Found::Incomplete if bytes.len() >= LIMIT => return Ok(Found::Malformed("is too large")),
            Found::Incomplete => {}
            found => return Ok(found),
        }
        stream.readable().await?;
        bytes.reserve(2048);
        match stream.try_read_buf(bytes) {
            // Nothing at all was sent: the direction ends, which is for the tunnel to see.
            Ok(0) if bytes.is_empty() => return Ok(Found::NotTls),
            Ok(0) => return Ok(Found::Incomplete),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}
