//! The look-up service of transparent mode: an allowed name gets an address that stands for it, any other name does
//! not exist. Nothing is asked of the host's resolver here.

pub(crate) mod names;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str;
use std::sync::Arc;
use std::time::Duration;

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA, PTR};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
use ringfence_types::Host;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use crate::admit::Admission;
use crate::event::Protocol;
use crate::policy::{Rule, Wanted};
use names::{Names as _, SyntheticNames};

/// Seconds that an answer may be kept. The address stands for the name as long as the run lives; a name that was
/// refused may be approved at any time.
const TTL: u32 = 60;
/// Bytes of a query.
const QUERY_LIMIT: usize = 4096;
/// Bytes of an answer that we could receive by UDP (DNS flag day 2020).
const PAYLOAD: u16 = 1232;
/// For the next query on a TCP connection (RFC 7766, section 6.2.3).
const TCP_IDLE: Duration = Duration::from_secs(10);
/// After an error of the socket that concerns one client only.
const PAUSE: Duration = Duration::from_millis(5);

/// Answers look-ups of one run.
pub(crate) struct DnsService {
    pub(crate) admission: Arc<Admission>,
    pub(crate) names: Arc<SyntheticNames>,
}

impl DnsService {
    /// Answers datagrams for ever.
    pub(crate) async fn serve_udp(&self, socket: UdpSocket) {
        let mut buffer = vec![0; QUERY_LIMIT];
        loop {
            let Ok((length, client)) = socket.recv_from(&mut buffer).await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            if let Some(answer) = self.answer(&buffer[..length]) {
                // A client that can't be answered asks again.
                let _ = socket.send_to(&answer, client).await;
            }
        }
    }

    /// Answers the queries of one connection, each with its length in front (RFC 1035, section 4.2.2).
    pub(crate) async fn serve_tcp(&self, mut stream: TcpStream) -> io::Result<()> {
        loop {
            let Ok(length) = timeout(TCP_IDLE, stream.read_u16()).await else { return Ok(()) };
            let length = usize::from(length?);
            if length > QUERY_LIMIT {
                return Ok(());
            }
            let mut query = vec![0; length];
            let Ok(read) = timeout(TCP_IDLE, stream.read_exact(&mut query)).await else { return Ok(()) };
            read?;
            let Some(answer) = self.answer(&query) else { return Ok(()) };
            let length = u16::try_from(answer.len()).map_err(io::Error::other)?;
            stream.write_all(&[&length.to_be_bytes(), answer.as_slice()].concat()).await?;
        }
    }

    /// The answer to a message; none to what is no query at all.
    pub(crate) fn answer(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let [id_high, id_low, flags, ..] = *bytes else { return None };
        let is_response = flags & 0x80 != 0;
        if bytes.len() < 12 || is_response {
            return None;
        }
        let id = u16::from_be_bytes([id_high, id_low]);
        let answer = match Message::from_vec(bytes) {
            Ok(query) => self.answer_query(&query),
            Err(_) => Message::error_msg(id, OpCode::Query, ResponseCode::FormErr),
        };
        answer.to_vec().ok()
    }

    fn answer_query(&self, query: &Message) -> Message {
        let mut answer = Message::new(query.metadata.id, MessageType::Response, query.metadata.op_code);
        answer.metadata.recursion_desired = query.metadata.recursion_desired;
        answer.metadata.recursion_available = true;
        if query.edns.is_some() {
            let mut edns = Edns::new();
            edns.set_max_payload(PAYLOAD);
            answer.set_edns(edns);
        }
        let (code, records) = match query.queries.as_slice() {
            _ if query.metadata.op_code != OpCode::Query => (ResponseCode::NotImp, Vec::new()),
            [question] => {
                answer.add_query(question.clone());
                self.look_up(question)
            }
            _ => (ResponseCode::FormErr, Vec::new()),
        };
        answer.metadata.response_code = code;
        answer.add_answers(records);
        answer
    }

    fn look_up(&self, question: &Query) -> (ResponseCode, Vec<Record>) {
        if question.query_class() != DNSClass::IN {
            return (ResponseCode::Refused, Vec::new());
        }
        let record = |data| Record::from_rdata(question.name().clone(), TTL, data);
        if let Ok(net) = question.name().parse_arpa_name() {
            return match self
                .names
                .host(net.addr())
                .and_then(|host| Name::from_ascii(format!("{host}.")).ok())
            {
                Some(name) if question.query_type() == RecordType::PTR => {
                    (ResponseCode::NoError, vec![record(RData::PTR(PTR(name)))])
                }
                Some(_) => (ResponseCode::NoError, Vec::new()),
                None => (ResponseCode::NXDomain, Vec::new()),
            };
        }
        let Some(host) = host_of(question.name()) else { return (ResponseCode::NXDomain, Vec::new()) };
        let Some((v4, v6)) = self.addresses(&host) else {
            return (self.refusal(host), Vec::new());
        };
        let records = match question.query_type() {
            RecordType::A => vec![record(RData::A(A(v4)))],
            RecordType::AAAA => vec![record(RData::AAAA(AAAA(v6)))],
            // The name exists, and has nothing else: no alias, no text, no parameters of a service.
            _ => Vec::new(),
        };
        (ResponseCode::NoError, records)
    }

    fn addresses(&self, host: &Host) -> Option<(Ipv4Addr, Ipv6Addr)> {
        match host {
            // Inside, this is the box itself.
            _ if host.is_localhost() => Some((Ipv4Addr::LOCALHOST, Ipv6Addr::LOCALHOST)),
            Host::Name(name) if self.may(host) => self.names.addresses(name),
            _ => None,
        }
    }

    fn may(&self, host: &Host) -> bool {
        self.admission.policy.may_look_up(host, self.admission.questions.is_some())
    }

    /// Why there is no address: the name is refused, which is told, or the run has looked up too many.
    fn refusal(&self, host: Host) -> ResponseCode {
        if self.may(&host) {
            return ResponseCode::ServFail;
        }
        let rule = self.admission.policy.denied_on_every_port(&host).unwrap_or(Rule::NotListed);
        self.admission.tell(0, Protocol::Dns, Wanted { host, port: None }, rule, false);
        ResponseCode::NXDomain
    }
}

/// The host that a name in a question means; none if its labels hold what no host name has, a dot for instance.
fn host_of(name: &Name) -> Option<Host> {
    let good = |label: &[u8]| label.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    let labels: Option<Vec<&str>> =
        name.iter().map(|label| str::from_utf8(label).ok().filter(|text| good(text.as_bytes()))).collect();
    match labels?.join(".").parse() {
        Ok(Host::Name(name)) => Some(Host::Name(name)),
        Ok(Host::Ip(_)) | Err(_) => None,
    }
}

/// Whether a connection may go to this address because it stands for a name, or is an address of its own right.
pub(crate) fn destination(names: &dyn names::Names, address: IpAddr) -> Option<Host> {
    match names.host(address) {
        Some(host) => Some(host),
        None if names.is_synthetic(address) => None,
        None => Some(Host::Ip(address)),
    }
}

#[cfg(test)]
mod tests;
