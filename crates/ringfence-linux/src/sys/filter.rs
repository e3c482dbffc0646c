use rustix::io::Errno;

use super::checked;

/// One instruction of classic BPF (`struct sock_filter`).
pub(crate) type Instruction = libc::sock_filter;

/// Installs a seccomp filter for this thread (seccomp(2), `SECCOMP_SET_MODE_FILTER`).
///
/// An empty filter is refused: the kernel would refuse it too, but a caller must never take it for success.
pub(crate) fn install_filter(program: &mut [Instruction]) -> Result<(), Errno> {
    let len = u16::try_from(program.len()).ok().filter(|len| *len > 0).ok_or(Errno::INVAL)?;
    let program = libc::sock_fprog { len, filter: program.as_mut_ptr() };
    // SAFETY: `program` describes an array of `len` instructions that outlives the call; the kernel copies it.
    checked(unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program)
    })?;
    Ok(())
}

/// The running kernel's Landlock ABI (landlock_create_ruleset(2), `LANDLOCK_CREATE_RULESET_VERSION`); 0 if it
/// has none.
pub(crate) fn landlock_abi() -> u32 {
    const VERSION: u32 = 1;
    // SAFETY: with the version flag the kernel takes a null pointer and size 0, and only returns a number.
    let version = checked(unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<libc::c_void>(), 0, VERSION)
    });
    version.ok().and_then(|version| u32::try_from(version).ok()).unwrap_or(0)
}
