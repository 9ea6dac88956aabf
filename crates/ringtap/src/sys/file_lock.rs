//! Locks on single bytes of a file that belong to an open file description (F_OFD_SETLK, fcntl_locking(2)).
//!
//! The kernel lifts one when the last descriptor of that description is closed, also by kill -9, and a process that was forked
//! shares it. Who holds the file open needs no right to take or to see one.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

fn byte_lock(kind: libc::c_int, byte: u64, count: u64) -> libc::flock {
    // SAFETY: all zeroes is a value of this structure of integers; an OFD lock wants l_pid to be 0.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = byte as libc::off_t;
    lock.l_len = count as libc::off_t;
    lock
}

fn call(file: &File, command: libc::c_int, lock: &mut libc::flock) -> io::Result<()> {
    // SAFETY: an open descriptor and a structure that is valid for reading and writing during the call.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), command, std::ptr::from_mut(lock)) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Takes the byte for this file description; `false` when another one has it.
///
/// # Errors
/// The file is not open for writing; the file system has no locks.
pub(crate) fn try_lock(file: &File, byte: u64) -> io::Result<bool> {
    match call(file, libc::F_OFD_SETLK, &mut byte_lock(libc::F_WRLCK, byte, 1)) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
        result => result.map(|()| true),
    }
}

/// Takes the byte together with others that do so, in place of one that this file description has for itself.
///
/// # Errors
/// Another one has it for itself; the file is not open for reading.
pub(crate) fn share(file: &File, byte: u64) -> io::Result<()> {
    call(file, libc::F_OFD_SETLK, &mut byte_lock(libc::F_RDLCK, byte, 1))
}

/// Gives the byte back.
pub(crate) fn unlock(file: &File, byte: u64) {
    let _ = call(file, libc::F_OFD_SETLK, &mut byte_lock(libc::F_UNLCK, byte, 1));
}

/// Whether another file description has one of `count` bytes (0: all from there on).
///
/// # Errors
/// The file system has no locks.
pub(crate) fn is_held_elsewhere(file: &File, byte: u64, count: u64) -> io::Result<bool> {
    let mut lock = byte_lock(libc::F_WRLCK, byte, count);
    call(file, libc::F_OFD_GETLK, &mut lock)?;
    Ok(lock.l_type != libc::F_UNLCK as libc::c_short)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_belongs_to_one_open_file_until_it_is_closed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let open = || File::options().create(true).truncate(false).read(true).write(true).open(&path).unwrap();
        let (one, other) = (open(), open());
        assert!(try_lock(&one, 7).unwrap());
        assert!(!try_lock(&other, 7).unwrap());
        assert!(try_lock(&other, 8).unwrap());
        assert!(is_held_elsewhere(&other, 7, 1).unwrap() && !is_held_elsewhere(&one, 7, 1).unwrap());
        let copy = one.try_clone().unwrap();
        drop(one);
        assert!(is_held_elsewhere(&other, 7, 1).unwrap(), "a copy of the descriptor is left");
        drop(copy);
        assert!(!is_held_elsewhere(&other, 7, 1).unwrap());
        assert!(!is_held_elsewhere(&other, 0, 0).unwrap() && is_held_elsewhere(&open(), 0, 0).unwrap());
    }
}
