//! Bulk transfer without copying through user space: socket to pipe to socket, by splice(2).

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use tokio::io::Interest;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::{Progress, Pump};

/// Wanted size of the pipe (pipe(7), `F_SETPIPE_SZ`). A larger one costs the proxy less and the receiver more, which then
/// finds fewer of the bytes in the processor's cache.
const PIPE: usize = 256 * 1024;
/// A transfer that stands still for so long gives its pipe back.
const PAUSE: Duration = Duration::from_secs(1);
const FLAGS: SpliceFlags = SpliceFlags::MOVE.union(SpliceFlags::NONBLOCK);

/// Pipes of the process at one time, which bounds the memory of transfers whose receiver does not read. Further ones
/// copy through user space.
static PIPES: Semaphore = Semaphore::const_new(64);

/// Moves bytes until the sender ends or pauses. Without a pipe to be had it pauses at once.
pub(super) async fn run(pump: &Pump<'_>) -> io::Result<Progress> {
    let Ok(_place) = PIPES.try_acquire() else {
        return Ok(Progress::Paused);
    };
    let Ok((outlet, inlet)) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC) else {
        return Ok(Progress::Paused);
    };
    // The user's share of pipe memory may be used up; any size will do.
    let _ = fcntl_setpipe_size(&inlet, PIPE);
    loop {
        match timeout(PAUSE, pump.from.readable()).await {
            Ok(ready) => ready?,
            Err(_) => return Ok(Progress::Paused),
        }
        let fill = || Ok(splice(pump.from, None, &inlet, None, PIPE, FLAGS)?);
        match pump.from.try_io(Interest::READABLE, fill) {
            Ok(0) => return Ok(Progress::Ended),
            Ok(count) => drain(pump, &outlet, count).await?,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

/// Empties the pipe, which holds `left` bytes.
async fn drain(pump: &Pump<'_>, outlet: &OwnedFd, mut left: usize) -> io::Result<()> {
    while left > 0 {
        let empty = || Ok(splice(outlet, None, pump.to, None, left, FLAGS)?);
        match pump.to.try_io(Interest::WRITABLE, empty) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                pump.count(count);
                left -= count;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => pump.to.writable().await?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
