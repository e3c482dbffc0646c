//! The launcher's two messages, which cross a socket with descriptors.

use std::fs::File;
use std::io::{IoSlice, IoSliceMut, Read, Seek, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};

use super::process::errno;
use super::{Foundation, Request, StdStreams};

const SEALS: SealFlags =
    SealFlags::SEAL.union(SealFlags::SHRINK).union(SealFlags::GROW).union(SealFlags::WRITE);
/// The most descriptors of one message.
const DESCRIPTORS: usize = 5;
/// A foundation is a list of mounts that are the same for every run: 2 KiB.
const FOUNDATION: usize = 64 << 10;

/// Sends what a box is begun with, and the pipe that it reports on.
pub(super) fn send_foundation(
    socket: &OwnedFd,
    foundation: &Foundation,
    set_up: BorrowedFd<'_>,
) -> Result<(), Errno> {
    let bytes = postcard::to_stdvec(foundation).map_err(|_| Errno::INVAL)?;
    send(socket, &bytes, &[set_up])
}

/// Receives what [`send_foundation`] sent.
pub(super) fn receive_foundation(socket: &OwnedFd) -> Result<(Foundation, OwnedFd), Errno> {
    let mut bytes = vec![0; FOUNDATION];
    let (length, fds) = receive(socket, &mut bytes)?;
    let foundation = postcard::from_bytes(&bytes[..length]).map_err(|_| Errno::BADMSG)?;
    let [set_up] = <[OwnedFd; 1]>::try_from(fds).map_err(|_| Errno::BADMSG)?;
    Ok((foundation, set_up))
}

/// Sends the plan in a sealed memfd, and the command's descriptors.
pub(super) fn send_request(socket: &OwnedFd, request: &Request, streams: &StdStreams) -> Result<(), Errno> {
    let plan = sealed(request)?;
    // A message has a fixed number of descriptors. In the place of one that is not there the plan goes once more, and
    // is not looked at.
    let [stdin, stdout, stderr] = streams.fds.each_ref().map(|fd| or(fd, &plan));
    send(socket, &[0], &[plan.as_fd(), stdin, stdout, stderr, or(&streams.input_pipe, &plan)])
}

/// Receives what [`send_request`] sent. `None`: the supervisor is gone.
pub(super) fn receive_request(socket: &OwnedFd) -> Result<Option<(Request, StdStreams)>, Errno> {
    let (length, fds) = receive(socket, &mut [0])?;
    if length == 0 {
        return Ok(None);
    }
    let [plan, stdin, stdout, stderr, input_pipe] =
        <[OwnedFd; DESCRIPTORS]>::try_from(fds).map_err(|_| Errno::BADMSG)?;
    // Only the supervisor can have made this; a plan that could still change is not taken.
    if !rustix::fs::fcntl_get_seals(&plan)?.contains(SEALS) {
        return Err(Errno::PERM);
    }
    let mut bytes = Vec::new();
    let mut plan = File::from(plan);
    plan.rewind().and_then(|()| plan.read_to_end(&mut bytes)).map_err(errno)?;
    let request: Request = postcard::from_bytes(&bytes).map_err(|_| Errno::BADMSG)?;
    let mut streams =
        StdStreams { fds: [Some(stdin), Some(stdout), Some(stderr)], input_pipe: Some(input_pipe) };
    for (stream, is_terminal) in streams.fds.iter_mut().zip(request.terminal) {
        if is_terminal {
            *stream = None;
        }
    }
    Ok(Some((request, streams)))
}

pub(super) fn dev_null() -> Result<OwnedFd, Errno> {
    rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
}

fn or<'a>(stream: &'a Option<OwnedFd>, other: &'a OwnedFd) -> BorrowedFd<'a> {
    stream.as_ref().unwrap_or(other).as_fd()
}

fn sealed(request: &Request) -> Result<OwnedFd, Errno> {
    let bytes = postcard::to_stdvec(request).map_err(|_| Errno::INVAL)?;
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut file = File::from(rustix::fs::memfd_create("plan", flags)?);
    file.write_all(&bytes).map_err(errno)?;
    rustix::fs::fcntl_add_seals(&file, SEALS)?;
    Ok(file.into())
}

fn send(socket: &OwnedFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Errno::NOBUFS);
    }
    rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL).map(drop)
}

/// Length of the message, and its descriptors. A message that does not fit is an error.
fn receive(socket: &OwnedFd, bytes: &mut [u8]) -> Result<(usize, Vec<OwnedFd>), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let message = loop {
        let mut into = [IoSliceMut::new(bytes)];
        match rustix::net::recvmsg(socket, &mut into, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            message => break message?,
        }
    };
    if message.flags.intersects(rustix::net::ReturnFlags::TRUNC | rustix::net::ReturnFlags::CTRUNC) {
        return Err(Errno::MSGSIZE);
    }
    let fds = ancillary
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        })
        .flatten()
        .collect();
    Ok((message.bytes, fds))
}
