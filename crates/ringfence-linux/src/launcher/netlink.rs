//! The few requests to the kernel's network that a box needs (netlink(7)): an address and local routes
//! (rtnetlink(7)), and a table of nftables that redirects what would leave the box.
//!
//! Numbers are those of `<linux/rtnetlink.h>`, `<linux/netfilter/nfnetlink.h>` and
//! `<linux/netfilter/nf_tables.h>`, which are part of the kernel's interface.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, socket_with};

const REQUEST: u16 = 0x1;
const ACK: u16 = 0x4;
const EXCLUSIVE: u16 = 0x200;
const CREATE: u16 = 0x400;
const APPEND: u16 = 0x800;
const NESTED: u16 = 0x8000;
/// `NLMSG_ERROR`, which with number 0 is an acknowledgement.
const ERROR: u16 = 2;

/// The loopback interface is the first of its namespace.
const LOOPBACK: u32 = 1;
const INET: u8 = 2;
const INET6: u8 = 10;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// `NFPROTO_INET`: IPv4 and IPv6 in one table.
const BOTH_FAMILIES: u8 = 1;
/// `NFNL_SUBSYS_NFTABLES`
const NFTABLES: u16 = 10;

/// Gives the loopback interface one more address.
pub(super) fn add_address(address: Ipv4Addr, prefix: u8) -> Result<(), Errno> {
    const NEW_ADDRESS: u16 = 20;
    const HOST_SCOPE: u8 = 254;
    let mut message = Message::new(NEW_ADDRESS, REQUEST | ACK | CREATE | EXCLUSIVE);
    message.put(&[INET, prefix, 0, HOST_SCOPE]);
    message.put(&LOOPBACK.to_ne_bytes());
    // IFA_ADDRESS, IFA_LOCAL
    message.attribute(1, &address.octets());
    message.attribute(2, &address.octets());
    transact(None, &message.finish())
}

/// Makes every address of a family one of this namespace's own.
pub(super) fn everything_is_local(family: AddressFamily) -> Result<(), Errno> {
    const NEW_ROUTE: u16 = 24;
    const LOCAL_TABLE: u8 = 255;
    const BOOT: u8 = 3;
    const LOCAL: u8 = 2;
    let (family, scope) = if family == AddressFamily::INET6 { (INET6, 0) } else { (INET, 254) };
    let mut message = Message::new(NEW_ROUTE, REQUEST | ACK | CREATE | EXCLUSIVE);
    // A route for prefix length 0, the whole of the family.
    message.put(&[family, 0, 0, 0, LOCAL_TABLE, BOOT, scope, LOCAL]);
    message.put(&0_u32.to_ne_bytes());
    // RTA_OIF
    message.attribute(4, &LOOPBACK.to_ne_bytes());
    transact(None, &message.finish())
}

/// Redirects connections that would leave the box to one port, and look-ups to another, at the loopback address of
/// their family. Connections to loopback addresses stay as they are.
pub(super) fn redirect(connections: u16, lookups: u16) -> Result<(), Errno> {
    const NEW_TABLE: u16 = 0;
    const NEW_CHAIN: u16 = 3;
    const BATCH_BEGIN: u16 = 0x10;
    const BATCH_END: u16 = 0x11;
    let table = b"ringfence\0";
    let chain = b"output\0";
    let mut batch = filter_message(BATCH_BEGIN, REQUEST, 0, NFTABLES).finish();

    let mut message = filter_message(NFTABLES << 8 | NEW_TABLE, REQUEST | CREATE, BOTH_FAMILIES, 0);
    message.attribute(1, table);
    batch.extend(message.finish());

    let mut message = filter_message(NFTABLES << 8 | NEW_CHAIN, REQUEST | CREATE, BOTH_FAMILIES, 0);
    message.attribute(1, table);
    message.attribute(3, chain);
    message.nest(4, |hook| {
        // NF_INET_LOCAL_OUT, NF_IP_PRI_NAT_DST
        hook.attribute(1, &3_u32.to_be_bytes());
        hook.attribute(2, &(-100_i32).to_be_bytes());
    });
    message.attribute(7, b"nat\0");
    batch.extend(message.finish());

    let loopbacks = [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()];
    let rules = loopbacks.map(|own| [(own, TCP, None, connections), (own, UDP, Some(53), lookups)]);
    let rules = rules.as_flattened();
    for (number, (own, protocol, port, to)) in rules.iter().enumerate() {
        // One answer to all is enough, as they are put in force together.
        let ack = if number + 1 == rules.len() { ACK } else { 0 };
        batch.extend(rule(table, chain, ack, *own, *protocol, *port, *to));
    }
    batch.extend(filter_message(BATCH_END, REQUEST, 0, NFTABLES).finish());
    transact(Some(netlink::NETFILTER), &batch)
}

/// One rule: packets of this family and protocol, not to the family's loopback, and to `port` if one is given.
fn rule(
    table: &[u8],
    chain: &[u8],
    ack: u16,
    loopback: IpAddr,
    protocol: u8,
    port: Option<u16>,
    to: u16,
) -> Vec<u8> {
    const NEW_RULE: u16 = 6;
    const META_FAMILY: u32 = 15;
    const META_PROTOCOL: u32 = 16;
    const NETWORK_HEADER: u32 = 1;
    const TRANSPORT_HEADER: u32 = 2;
    let flags = REQUEST | CREATE | APPEND | ack;
    let mut message = filter_message(NFTABLES << 8 | NEW_RULE, flags, BOTH_FAMILIES, 0);
    message.attribute(1, table);
    message.attribute(2, chain);
    message.nest(4, |rule| {
        let (family, offset, prefix) = match loopback {
            // 127.0.0.0/8
            IpAddr::V4(ip) => (INET, 16, ip.octets()[..1].to_vec()),
            IpAddr::V6(ip) => (INET6, 24, ip.octets().to_vec()),
        };
        rule.meta(META_FAMILY);
        rule.compare(true, &[family]);
        rule.payload(NETWORK_HEADER, offset, prefix.len());
        rule.compare(false, &prefix);
        rule.meta(META_PROTOCOL);
        rule.compare(true, &[protocol]);
        if let Some(port) = port {
            rule.payload(TRANSPORT_HEADER, 2, size_of::<u16>());
            rule.compare(true, &port.to_be_bytes());
        }
        rule.redirect(to);
    });
    message.finish()
}

/// A message with `struct nfgenmsg` in front.
fn filter_message(kind: u16, flags: u16, family: u8, resource: u16) -> Message {
    let mut message = Message::new(kind, flags);
    message.put(&[family, 0]);
    message.put(&resource.to_be_bytes());
    message
}

/// A message that is being written: `struct nlmsghdr`, then a fixed part, then attributes.
struct Message(Vec<u8>);

impl Message {
    fn new(kind: u16, flags: u16) -> Self {
        let mut message = Self(vec![0; 16]);
        message.0[4..6].copy_from_slice(&kind.to_ne_bytes());
        message.0[6..8].copy_from_slice(&flags.to_ne_bytes());
        message
    }

    fn put(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn attribute(&mut self, kind: u16, value: &[u8]) {
        let start = self.0.len();
        self.put(&[0; 2]);
        self.put(&kind.to_ne_bytes());
        self.put(value);
        self.close(start);
    }

    fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) {
        let start = self.0.len();
        self.put(&[0; 2]);
        self.put(&(kind | NESTED).to_ne_bytes());
        fill(self);
        self.close(start);
    }

    /// Writes an attribute's length and pads it to four bytes.
    fn close(&mut self, start: usize) {
        let length = (self.0.len() - start) as u16;
        self.0[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    fn expression(&mut self, name: &[u8], fill: impl FnOnce(&mut Self)) {
        self.nest(1, |element| {
            element.attribute(1, name);
            element.nest(2, fill);
        });
    }

    /// Loads a property of the packet into register 1, the only one in use.
    fn meta(&mut self, key: u32) {
        self.expression(b"meta\0", |data| {
            data.attribute(1, &1_u32.to_be_bytes());
            data.attribute(2, &key.to_be_bytes());
        });
    }

    fn payload(&mut self, base: u32, offset: u32, length: usize) {
        self.expression(b"payload\0", |data| {
            for (kind, value) in (1..).zip([1, base, offset, length as u32]) {
                data.attribute(kind, &value.to_be_bytes());
            }
        });
    }

    fn compare(&mut self, equal: bool, value: &[u8]) {
        self.expression(b"cmp\0", |data| {
            data.attribute(1, &1_u32.to_be_bytes());
            data.attribute(2, &u32::from(!equal).to_be_bytes());
            data.nest(3, |data| data.attribute(1, value));
        });
    }

    fn redirect(&mut self, port: u16) {
        const PORT_IS_GIVEN: u32 = 2;
        self.expression(b"immediate\0", |data| {
            data.attribute(1, &1_u32.to_be_bytes());
            data.nest(2, |data| data.attribute(1, &port.to_be_bytes()));
        });
        self.expression(b"redir\0", |data| {
            for (kind, value) in (1..).zip([1, 1, PORT_IS_GIVEN]) {
                data.attribute(kind, &value.to_be_bytes());
            }
        });
    }

    fn finish(mut self) -> Vec<u8> {
        let length = (self.0.len() as u32).to_ne_bytes();
        self.0[..4].copy_from_slice(&length);
        self.0
    }
}

/// Sends requests and takes the kernel's answer, which is there when they are sent. `None` is `NETLINK_ROUTE`.
fn transact(protocol: Option<Protocol>, requests: &[u8]) -> Result<(), Errno> {
    let socket: OwnedFd =
        socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
    let kernel = SocketAddrNetlink::new(0, 0);
    rustix::net::sendto(&socket, requests, SendFlags::empty(), &kernel)?;
    let mut answer = [0; 4096];
    let (length, _) = rustix::net::recv(&socket, &mut answer, RecvFlags::DONTWAIT)?;
    outcome(&answer[..length])
}

/// What the first message of an answer says.
fn outcome(answer: &[u8]) -> Result<(), Errno> {
    let field = |at: usize| answer.get(at..at + 4)?.try_into().ok();
    let kind = field(4).map(|[a, b, ..]: [u8; 4]| u16::from_ne_bytes([a, b]));
    match (kind, field(16).map(i32::from_ne_bytes)) {
        (Some(ERROR), Some(0)) => Ok(()),
        (Some(ERROR), Some(number)) => Err(Errno::from_raw_os_error(number.wrapping_neg())),
        _ => Err(Errno::BADMSG),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_have_their_length_and_are_padded() {
        let mut message = Message::new(3, REQUEST);
        message.nest(4, |inner| inner.attribute(1, b"abcde"));
        let bytes = message.finish();
        assert_eq!(bytes.len(), 16 + 4 + 12);
        assert_eq!(bytes[..4], 32_u32.to_ne_bytes());
        assert_eq!(bytes[16..18], 16_u16.to_ne_bytes());
        assert_eq!(bytes[18..20], (4 | NESTED).to_ne_bytes());
        assert_eq!(bytes[20..22], 9_u16.to_ne_bytes(), "the padding does not count");
        assert_eq!(&bytes[24..], b"abcde\0\0\0");
    }

    #[test]
    fn an_answer_is_an_error_number_or_none() {
        let answer = |number: i32| {
            let mut bytes = Message::new(ERROR, 0).finish();
            bytes.extend(number.to_ne_bytes());
            bytes
        };
        assert_eq!(outcome(&answer(0)), Ok(()));
        assert_eq!(outcome(&answer(-1)), Err(Errno::PERM));
        assert_eq!(outcome(&answer(0)[..18]), Err(Errno::BADMSG));
        assert_eq!(outcome(&[]), Err(Errno::BADMSG));
    }
}
