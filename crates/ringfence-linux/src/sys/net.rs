use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::checked;

/// Bytes of a TCP socket that the other side has not acknowledged (tcp(7), `SIOCOUTQ`).
pub(crate) fn unsent_bytes(socket: &OwnedFd) -> Result<i32, Errno> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: SIOCOUTQ, which has the number of TIOCOUTQ, writes an int, which outlives the call.
    checked(unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) }.into())?;
    Ok(bytes)
}

/// The network namespace that a socket was made in (`SIOCGSKNS` of `<linux/sockios.h>`); for who has rights over it.
pub(crate) fn network_namespace(socket: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    const SIOCGSKNS: u32 = 0x894c;
    // SAFETY: SIOCGSKNS takes no argument.
    let fd = checked(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCGSKNS as _) }.into())?;
    // SAFETY: the call has made this descriptor, and nobody else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Brings up the loopback interface of this network namespace (netdevice(7), `SIOCSIFFLAGS`).
pub(crate) fn loopback_up() -> Result<(), Errno> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: an all-zero ifreq is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: SIOCSIFFLAGS reads an ifreq, which outlives the call.
    checked(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) }.into())?;
    Ok(())
}
