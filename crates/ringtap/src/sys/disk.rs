//! What the kernel says of a file system, and the signal it has for files that may not grow.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Bytes that this process may still write on the file system of `path` (statvfs(3)); what is kept for root is not among them.
///
/// # Errors
/// No such path.
pub(crate) fn free_bytes(path: &Path) -> io::Result<u64> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: all zeroes is a valid structure of integers.
    let mut answer: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: a string, and a structure for the answer.
    if unsafe { libc::statvfs(path.as_ptr(), &mut answer) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(answer.f_bavail.saturating_mul(answer.f_frsize))
}

/// Has a write beyond the limit of file size (RLIMIT_FSIZE) fail with EFBIG instead of ending the process, unless the program
/// has a handler of its own for SIGXFSZ.
pub(crate) fn outlive_size_limit() {
    // SAFETY: all zeroes is a valid structure; sigaction(2) fills it, and ignoring a signal runs no code of ours.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGXFSZ, std::ptr::null(), &mut action) == 0 && action.sa_sigaction == libc::SIG_DFL {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        }
    }
}
