use std::ffi::{CStr, CString};
use std::ptr;

use rustix::io::Errno;

/// execve(2). Returns only on failure.
pub(crate) fn execve(path: &CStr, argv: &[CString], env: &[CString]) -> Errno {
    let pointers = |list: &[CString]| -> Vec<*const libc::c_char> {
        list.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
    };
    let (argv, env) = (pointers(argv), pointers(env));
    // SAFETY: `path` is NUL-terminated; both arrays are null-terminated and point to strings that outlive the
    // call.
    unsafe { libc::execve(path.as_ptr(), argv.as_ptr(), env.as_ptr()) };
    // SAFETY: `__errno_location` returns a valid pointer to this thread's errno.
    Errno::from_raw_os_error(unsafe { *libc::__errno_location() })
}
