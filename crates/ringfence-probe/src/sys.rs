//! The one place where the probe talks to the kernel directly.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;

/// One argument of a system call.
#[derive(Debug)]
pub(crate) enum Arg {
    /// Passed by value.
    Int(i64),
    /// Passed as a pointer to a NUL-terminated string.
    Text(CString),
    /// Passed as a pointer to bytes that the kernel may read and write.
    Bytes(Vec<u8>),
}

impl Arg {
    fn register(&mut self) -> i64 {
        match self {
            Self::Int(value) => *value,
            Self::Text(text) => text.as_ptr() as i64,
            Self::Bytes(bytes) => bytes.as_mut_ptr() as i64,
        }
    }
}

macro_rules! from_int {
    ($($int:ty),*) => { $(impl From<$int> for Arg { fn from(value: $int) -> Self { Self::Int(value as i64) } })* };
}
from_int!(i32, i64, u32, u64, usize);

impl From<&OsStr> for Arg {
    /// An argument of this process holds no NUL, so nothing is cut.
    fn from(text: &OsStr) -> Self {
        Self::Text(CString::new(text.as_bytes()).unwrap_or_default())
    }
}

impl From<&str> for Arg {
    fn from(text: &str) -> Self {
        Self::from(OsStr::new(text))
    }
}

impl From<Vec<u8>> for Arg {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

/// Makes one system call. A negative return value becomes the error, as in syscall(2).
pub(crate) fn call(number: i64, args: &mut [Arg]) -> io::Result<i64> {
    let mut registers = [0; 6];
    for (register, arg) in registers.iter_mut().zip(args.iter_mut()) {
        *register = arg.register();
    }
    let [a, b, c, d, e, f] = registers;
    // SAFETY: pointers made by `Arg` refer to buffers that `args` keeps alive over the call. Calls that could
    // damage this process' memory are not made by any act with arguments that do so; a `syscall` act can, and
    // then only this single-threaded throw-away process is lost.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// `call`, with arguments converted.
macro_rules! sys {
    ($number:expr $(, $arg:expr)* $(,)?) => {
        $crate::sys::call($number, &mut [$($crate::sys::Arg::from($arg)),*])
    };
}
pub(crate) use sys;

/// A system call through the 32-bit entry of x86 (`int 0x80`), whose numbers are those of i386.
#[cfg(target_arch = "x86_64")]
pub(crate) fn i386(number: u32, args: [u32; 6]) -> io::Result<i64> {
    let result: i32;
    // SAFETY: the arguments are 32-bit values, so that no pointer into this process' memory, which lies above
    // 4 GiB, is among them. rbx and rbp, which the compiler keeps for itself, are restored; the entry clobbers
    // r8 to r11.
    unsafe {
        std::arch::asm!(
            "push rbx", "push rbp",
            "mov ebx, dword ptr [r12]", "mov ebp, dword ptr [r12 + 20]",
            "int 0x80",
            "pop rbp", "pop rbx",
            in("r12") args.as_ptr(),
            inlateout("eax") number as i32 => result,
            in("ecx") args[1], in("edx") args[2], in("esi") args[3], in("edi") args[4],
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
        );
    }
    if (-4095..0).contains(&result) { Err(io::Error::from_raw_os_error(-result)) } else { Ok(result.into()) }
}

/// There is no such entry on other architectures.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn i386(_: u32, _: [u32; 6]) -> io::Result<i64> {
    Err(io::Error::from_raw_os_error(libc::ENOSYS))
}

/// fork(2). The child runs `child` and exits with its status; the parent gets the child's id.
pub(crate) fn fork(flags: i32, child: impl FnOnce() -> i32) -> io::Result<i32> {
    let pid = sys!(libc::SYS_clone, i64::from(flags | libc::SIGCHLD), 0, 0, 0, 0)?;
    if pid == 0 {
        let status = child();
        std::process::exit(status);
    }
    Ok(pid as i32)
}

/// Waits for a child and returns its raw wait status.
pub(crate) fn wait(pid: i32) -> io::Result<i32> {
    let mut args = [Arg::from(pid), Arg::from(vec![0; 4]), Arg::Int(0), Arg::Int(0)];
    loop {
        match call(libc::SYS_wait4, &mut args) {
            Ok(_) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let Arg::Bytes(status) = &args[1] else { return Err(io::ErrorKind::InvalidData.into()) };
    Ok(i32::from_ne_bytes([status[0], status[1], status[2], status[3]]))
}
