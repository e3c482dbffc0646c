//! What the box tells its supervisor.
//!
//! Two channels: a close-on-exec pipe that says how far the set-up came (its end of file is the start of the
//! program), and a socket that lives as long as PID 1 does.

use std::fs::File;
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ringfence_types::{Layer, LayerName, LayerStatus, Step};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use serde::{Deserialize, Serialize};

/// A failed step: what it worked on and the system's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fault {
    pub(crate) step: Step,
    pub(crate) errno: i32,
    pub(crate) subject: Option<String>,
    pub(crate) kind: FaultKind,
}

/// What a fault means for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FaultKind {
    /// The step failed.
    Failed,
    /// An approved path is no longer what was approved.
    Changed,
    /// The program is not there.
    NotFound,
    /// The program is there and can't be executed.
    NotExecutable,
    /// This layer is required and not fully in force.
    Required(LayerName, LayerStatus),
}

pub(crate) type StepResult<T> = Result<T, Fault>;

/// Attaches the step and what it worked on to a system error.
pub(crate) trait At<T> {
    fn at(self, step: Step) -> StepResult<T>;
    fn on(self, step: Step, subject: impl ToString) -> StepResult<T>;
}

impl<T, E: Into<Errno>> At<T> for Result<T, E> {
    fn at(self, step: Step) -> StepResult<T> {
        self.map_err(|error| Fault::new(step, error.into(), None))
    }

    fn on(self, step: Step, subject: impl ToString) -> StepResult<T> {
        self.map_err(|error| Fault::new(step, error.into(), Some(subject.to_string())))
    }
}

impl Fault {
    pub(crate) fn new(step: Step, errno: Errno, subject: Option<String>) -> Self {
        Self { step, errno: errno.raw_os_error(), subject, kind: FaultKind::Failed }
    }
}

/// One message of the set-up pipe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum SetUp {
    /// Statuses of layers, from return values and read-backs.
    Layers(Vec<Layer>),
    /// A step failed; nothing ran.
    Fault(Fault),
}

/// Collects layer statuses until the program starts, or reports why it did not.
#[derive(Debug)]
pub(crate) struct Reporter {
    pipe: File,
    layers: Vec<Layer>,
}

impl Reporter {
    pub(crate) fn new(pipe: OwnedFd) -> Self {
        Self { pipe: pipe.into(), layers: Vec::with_capacity(16) }
    }

    pub(crate) fn layer(&mut self, name: LayerName, status: LayerStatus, detail: impl Into<String>) {
        self.layers.push(Layer { name, status, detail: detail.into() });
    }

    /// Goes on with statuses that another process collected.
    pub(crate) fn resume(&mut self, layers: Vec<Layer>) {
        self.layers = layers;
    }

    /// Statuses so far.
    pub(crate) fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// Sends what was collected. The supervisor knows that the program started once the pipe closes.
    pub(crate) fn send_layers(&mut self) {
        let layers = std::mem::take(&mut self.layers);
        self.send(&SetUp::Layers(layers));
    }

    pub(crate) fn fault(&mut self, fault: Fault) {
        self.send_layers();
        self.send(&SetUp::Fault(fault));
    }

    /// A supervisor that is gone needs no report: its end ends the box.
    fn send(&mut self, message: &SetUp) {
        if let Ok(bytes) = postcard::to_stdvec(message) {
            let len = (bytes.len() as u32).to_le_bytes();
            let _ = self.pipe.write_all(&[&len[..], &bytes].concat());
        }
    }
}

/// Reads the set-up pipe as it fills.
#[derive(Debug, Default)]
pub(crate) struct SetUpReader {
    pending: Vec<u8>,
}

impl SetUpReader {
    /// Reads what is there. `Ok(true)` at the end of file.
    pub(crate) fn fill(&mut self, pipe: &mut impl Read) -> std::io::Result<bool> {
        let mut chunk = [0; 4096];
        let read = loop {
            match pipe.read(&mut chunk) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        self.pending.extend_from_slice(&chunk[..read]);
        Ok(read == 0)
    }

    /// Takes the next complete message.
    pub(crate) fn next(&mut self) -> Option<SetUp> {
        let len = u32::from_le_bytes(self.pending.get(..4)?.try_into().ok()?) as usize;
        let message = postcard::from_bytes(self.pending.get(4..4 + len)?).ok();
        self.pending.drain(..4 + len);
        message
    }
}

/// From PID 1 to the supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The master of the inner terminal comes with this message.
    Terminal,
    /// The target exited with this status, and no other process of the box is left.
    Exited(i32),
    /// A signal ended the target, and no other process of the box is left.
    Killed(i32),
    /// A signal stopped the target.
    Stopped(i32),
    /// A mount of the box is gone: a program outside replaced or removed what it covered. The tree is dead.
    MountLost,
    /// A socket of the box's namespace comes with this message, to be served from outside.
    Inlet(Inlet),
    /// There are no more of them. The supervisor answers when they are served.
    NetworkReady,
    /// The file that is standard input can't be opened anew: the target reads the pipe that came with it.
    InputPiped,
}

/// What comes in at a socket of the box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inlet {
    /// Clients of the proxy.
    Proxy,
    /// Connections to anywhere, redirected by the packet filter.
    Redirected,
    /// Connections to the socket's own port, at any address.
    Direct,
    /// Look-ups by UDP.
    DnsUdp,
    /// Look-ups by TCP.
    DnsTcp,
    /// Nothing: it is not connected yet, and can be to a server in the box.
    Connector,
}

impl Inlet {
    const ALL: [Self; 6] =
        [Self::Proxy, Self::Redirected, Self::Direct, Self::DnsUdp, Self::DnsTcp, Self::Connector];
}

/// From the supervisor to PID 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Go on: the id maps are written, or the inner terminal is set up and the target is in its foreground.
    Go,
    /// Go on: the inner terminal is set up, and the target is in its background.
    GoBackground,
    /// Continue the target after a stop, in the foreground of its terminal or in its background.
    Continue { foreground: bool },
    /// Send this signal to the target.
    Signal(i32),
    /// Send this signal to the target's process group.
    SignalGroup(i32),
}

const MESSAGE: usize = 8;

impl Event {
    fn encode(self) -> [u8; MESSAGE] {
        let (tag, value) = match self {
            Self::Terminal => (1, 0),
            Self::Exited(status) => (2, status),
            Self::Killed(signal) => (3, signal),
            Self::Stopped(signal) => (4, signal),
            Self::InputPiped => (5, 0),
            Self::MountLost => (6, 0),
            Self::Inlet(inlet) => (7, inlet as i32),
            Self::NetworkReady => (8, 0),
        };
        encode(tag, value)
    }

    fn decode(bytes: [u8; MESSAGE]) -> Option<Self> {
        let (tag, value) = decode(bytes);
        match tag {
            1 => Some(Self::Terminal),
            2 => Some(Self::Exited(value)),
            3 => Some(Self::Killed(value)),
            4 => Some(Self::Stopped(value)),
            5 => Some(Self::InputPiped),
            6 => Some(Self::MountLost),
            7 => Inlet::ALL.into_iter().find(|inlet| *inlet as i32 == value).map(Self::Inlet),
            8 => Some(Self::NetworkReady),
            _ => None,
        }
    }

    /// Sends the event, with a descriptor if it has one.
    pub(crate) fn send(self, socket: impl AsFd, fd: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
        send(socket, self.encode(), fd)
    }

    /// Receives an event. `Ok(None)`: PID 1 is gone.
    pub(crate) fn receive(socket: impl AsFd) -> Result<Option<(Self, Option<OwnedFd>)>, Errno> {
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [0; MESSAGE];
        let message = rustix::net::recvmsg(
            socket,
            &mut [IoSliceMut::new(&mut bytes)],
            &mut ancillary,
            RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT,
        )?;
        if message.bytes == 0 {
            return Ok(None);
        }
        let fd = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
            _ => None,
        });
        Self::decode(bytes).map(|event| Some((event, fd))).ok_or(Errno::BADMSG)
    }
}

impl Order {
    /// Sends the order; a box that is gone needs none.
    pub(crate) fn send(self, socket: impl AsFd) -> Result<(), Errno> {
        let (tag, value) = match self {
            Self::Go => (1, 0),
            Self::Signal(signal) => (2, signal),
            Self::SignalGroup(signal) => (3, signal),
            Self::GoBackground => (4, 0),
            Self::Continue { foreground } => (5, foreground.into()),
        };
        send(socket, encode(tag, value), None)
    }

    /// Receives an order. `Ok(None)`: the supervisor is gone.
    pub(crate) fn receive(socket: impl AsFd) -> Result<Option<Self>, Errno> {
        let mut bytes = [0; MESSAGE];
        let (read, _) = rustix::net::recv(socket, &mut bytes, RecvFlags::empty())?;
        if read == 0 {
            return Ok(None);
        }
        let (tag, value) = decode(bytes);
        match tag {
            1 => Ok(Some(Self::Go)),
            2 => Ok(Some(Self::Signal(value))),
            3 => Ok(Some(Self::SignalGroup(value))),
            4 => Ok(Some(Self::GoBackground)),
            5 => Ok(Some(Self::Continue { foreground: value != 0 })),
            _ => Err(Errno::BADMSG),
        }
    }
}

fn encode(tag: u32, value: i32) -> [u8; MESSAGE] {
    let mut bytes = [0; MESSAGE];
    bytes[..4].copy_from_slice(&tag.to_le_bytes());
    bytes[4..].copy_from_slice(&value.to_le_bytes());
    bytes
}

fn decode(bytes: [u8; MESSAGE]) -> (u32, i32) {
    let [a, b, c, d, e, f, g, h] = bytes;
    (u32::from_le_bytes([a, b, c, d]), i32::from_le_bytes([e, f, g, h]))
}

fn send(socket: impl AsFd, bytes: [u8; MESSAGE], fd: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let fds = fd.map(|fd| [fd]);
    if let Some(fds) = &fds {
        ancillary.push(SendAncillaryMessage::ScmRights(fds));
    }
    rustix::net::sendmsg(socket, &[IoSlice::new(&bytes)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_any_chunking() {
        let messages = [
            SetUp::Layers(vec![Layer {
                name: LayerName::Landlock,
                status: LayerStatus::Enforced,
                detail: "ABI 7".into(),
            }]),
            SetUp::Fault(Fault::new(Step::Mounts, Errno::NOENT, Some("/a".into()))),
        ];
        let mut bytes = Vec::new();
        for message in &messages {
            let body = postcard::to_stdvec(message).unwrap();
            bytes.extend((body.len() as u32).to_le_bytes());
            bytes.extend(body);
        }
        for size in [1, 3, bytes.len()] {
            let mut reader = SetUpReader::default();
            let mut seen = Vec::new();
            for mut chunk in bytes.chunks(size) {
                reader.fill(&mut chunk).unwrap();
                seen.extend(std::iter::from_fn(|| reader.next()));
            }
            assert_eq!(seen, messages);
        }
    }

    #[test]
    fn events_and_orders_come_back() {
        for event in [
            Event::Terminal,
            Event::Exited(42),
            Event::Killed(9),
            Event::Stopped(20),
            Event::InputPiped,
            Event::MountLost,
        ] {
            assert_eq!(Event::decode(event.encode()), Some(event));
        }
        assert_eq!(Event::decode([0; MESSAGE]), None);
    }
}
