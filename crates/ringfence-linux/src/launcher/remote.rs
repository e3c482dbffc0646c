//! The launcher as a process of its own, for hosts that are libraries' users: many threads, much memory.
//!
//! The host starts its own binary again (posix_spawn(3): the cost doesn't grow with its memory). What the new
//! process has to do comes over a socket that is its standard input: the request in a sealed memfd, and the
//! command's descriptors. Neither argv nor the environment carries any of it.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use ringfence_types::Step;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use rustix::process::{WaitId, WaitIdOptions};

use super::process::{BoxEnds, channels, errno, launch_with};
use super::report::{At, Reporter, StepResult};
use super::{Request, StdStreams};
use crate::sys;

/// The launcher's whole argv. It only says what the process is.
const NAME: &str = "ringfence-launcher";
const SEALS: SealFlags =
    SealFlags::SEAL.union(SealFlags::SHRINK).union(SealFlags::GROW).union(SealFlags::WRITE);
/// Request, set-up pipe, the three standard streams and the pipe for the first of them.
const DESCRIPTORS: usize = 6;

static INITIALISED: AtomicBool = AtomicBool::new(false);

/// Lets this binary serve as the launcher. To be called first thing in `main`, before any thread is started: in
/// a process that was started as the launcher it does not return.
pub fn init() {
    INITIALISED.store(true, Ordering::Relaxed);
    let mut arguments = std::env::args_os();
    if arguments.next().is_some_and(|name| name == NAME) && arguments.next().is_none() && is_our_socket() {
        serve();
    }
}

/// Whether this process's binary can serve as the launcher.
pub(crate) fn can_launch() -> bool {
    INITIALISED.load(Ordering::Relaxed)
}

fn is_our_socket() -> bool {
    rustix::net::sockopt::socket_type(rustix::stdio::stdin())
        .is_ok_and(|kind| kind == rustix::net::SocketType::SEQPACKET)
}

/// A launcher process, seen from the host.
#[derive(Debug)]
pub(crate) struct RemoteLauncher {
    pub(crate) child: Child,
    /// As in [`Launched`](super::Launched).
    pub(crate) control: OwnedFd,
    /// As in [`Launched`](super::Launched).
    pub(crate) set_up: OwnedFd,
}

impl RemoteLauncher {
    /// Starts `binary` (else this process's own) as the launcher of `request`.
    pub(crate) fn start(
        binary: Option<&PathBuf>,
        request: &Request,
        streams: &StdStreams,
    ) -> StepResult<Self> {
        let (control, set_up, ends) = channels()?;
        let plan = sealed(request)?;
        let mut child = Command::new(binary.map_or_else(|| PathBuf::from("/proc/self/exe"), Clone::clone))
            .arg0(NAME)
            .env_clear()
            .stdin(Stdio::from(ends.control))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(errno)
            .on(Step::Prepare, "the launcher")?;
        // A message has a fixed number of descriptors; one that stands for nothing is not looked at.
        let null = dev_null().on(Step::Prepare, "/dev/null")?;
        let [stdin, stdout, stderr] = streams.fds.each_ref().map(|fd| or(fd, &null));
        let fds = [plan.as_fd(), ends.set_up.as_fd(), stdin, stdout, stderr, or(&streams.input_pipe, &null)];
        if let Err(fault) = send(&control, &fds).on(Step::Prepare, "the launcher") {
            let _ = child.kill();
            let _ = child.wait();
            return Err(fault);
        }
        Ok(Self { child, control, set_up })
    }
}

fn or<'a>(stream: &'a Option<OwnedFd>, null: &'a OwnedFd) -> BorrowedFd<'a> {
    stream.as_ref().unwrap_or(null).as_fd()
}

fn dev_null() -> Result<OwnedFd, Errno> {
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC;
    rustix::fs::open("/dev/null", flags, rustix::fs::Mode::empty())
}

fn sealed(request: &Request) -> StepResult<OwnedFd> {
    let bytes = postcard::to_stdvec(request).map_err(|_| Errno::INVAL).on(Step::Prepare, "the plan")?;
    let memfd = rustix::fs::memfd_create(NAME, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
        .on(Step::Prepare, "the plan")?;
    let mut file = File::from(memfd);
    file.write_all(&bytes).map_err(errno).on(Step::Prepare, "the plan")?;
    rustix::fs::fcntl_add_seals(&file, SEALS).on(Step::Prepare, "the plan")?;
    Ok(file.into())
}

fn send(control: &OwnedFd, fds: &[BorrowedFd<'_>; DESCRIPTORS]) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(fds));
    rustix::net::sendmsg(control, &[IoSlice::new(&[0])], &mut ancillary, SendFlags::NOSIGNAL).map(drop)
}

/// The launcher process: starts the box, waits for it, ends.
fn serve() -> ! {
    let status = match receive() {
        Ok((request, streams, ends)) => {
            // The box's end of the pipe has to close when the program starts; this copy is for our own faults.
            let report = rustix::io::fcntl_dupfd_cloexec(&ends.set_up, 3);
            match launch_with(&request, streams, ends) {
                Ok(pidfd) => {
                    drop(report);
                    let ended = rustix::process::waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED);
                    i32::from(ended.is_err())
                }
                Err(fault) => {
                    if let Ok(pipe) = report {
                        Reporter::new(pipe).fault(fault);
                    }
                    1
                }
            }
        }
        Err(_) => 2,
    };
    sys::exit_now(status)
}

fn receive() -> io::Result<(Request, StdStreams, BoxEnds)> {
    let control = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    rustix::net::recvmsg(
        &control,
        &mut [IoSliceMut::new(&mut byte)],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    let fds: Vec<OwnedFd> = ancillary
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        })
        .flatten()
        .collect();
    let Ok([plan, set_up, stdin, stdout, stderr, input_pipe]) = <[OwnedFd; DESCRIPTORS]>::try_from(fds)
    else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    // Only the host can have made this; a plan that could still change is not taken.
    if !rustix::fs::fcntl_get_seals(&plan)?.contains(SEALS) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = Vec::new();
    let mut plan = File::from(plan);
    io::Seek::rewind(&mut plan)?;
    plan.read_to_end(&mut bytes)?;
    let request: Request = postcard::from_bytes(&bytes).map_err(|_| io::ErrorKind::InvalidData)?;
    // The socket must end with PID 1, not with this process.
    rustix::stdio::dup2_stdin(dev_null()?)?;
    let mut streams =
        StdStreams { fds: [Some(stdin), Some(stdout), Some(stderr)], input_pipe: Some(input_pipe) };
    for (stream, is_terminal) in streams.fds.iter_mut().zip(request.terminal) {
        if is_terminal {
            *stream = None;
        }
    }
    Ok((request, streams, BoxEnds { control, set_up }))
}
