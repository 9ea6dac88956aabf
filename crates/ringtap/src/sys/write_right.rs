//! Writing to files with the rights a process had when it opened them, after it gave these up.
//!
//! A file of sysfs asks for CAP_NET_ADMIN at each write(2), whoever opened it. An io_uring instance remembers the credentials of
//! its maker (IORING_REGISTER_PERSONALITY). Ours is restricted, before it is enabled, to writing to the files that were
//! given (IORING_REGISTER_RESTRICTIONS), so that nothing else can be done with it by whoever gets hold of the process later.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

use io_uring::register::Restriction;
use io_uring::squeue::Flags;
use io_uring::{IoUring, opcode, types};

/// How long a write is tried again that the kernel interrupts.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long to wait in between.
const PAUSE: Duration = Duration::from_millis(2);

/// The right to write to some files, which outlives privileges, a change of the root directory, and fork(2).
pub struct WriteRight {
    ring: IoUring,
    personality: u16,
}

impl std::fmt::Debug for WriteRight {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteRight").field("personality", &self.personality).finish_non_exhaustive()
    }
}

impl WriteRight {
    /// For these files, which may be closed afterwards, with the calling thread's credentials.
    ///
    /// # Errors
    /// The kernel has no io_uring (5.10 or later) for this process: `kernel.io_uring_disabled`, a seccomp filter.
    pub fn new(files: &[BorrowedFd<'_>]) -> io::Result<Self> {
        let ring = IoUring::builder().setup_r_disabled().build(1)?;
        let submitter = ring.submitter();
        let personality = submitter.register_personality()?;
        submitter.register_files(&files.iter().map(AsRawFd::as_raw_fd).collect::<Vec<_>>())?;
        let fixed = Flags::FIXED_FILE.bits();
        submitter.register_restrictions(&mut [
            Restriction::sqe_op(opcode::Write::CODE),
            Restriction::sqe_flags_allowed(fixed),
            Restriction::sqe_flags_required(fixed),
        ])?;
        submitter.register_enable_rings()?;
        Ok(Self { ring, personality })
    }

    /// Writes at the beginning of the file that was given as number `file`; waits while the kernel's network lock is taken, at most
    /// 5 s.
    ///
    /// # Errors
    /// The kernel's, such as ENODEV when the interface is gone.
    pub fn write(&mut self, file: u32, text: &str) -> io::Result<()> {
        // A file of sysfs only tries to get that lock, and has the system call begun anew (restart_syscall); io_uring says EINTR.
        again_while_interrupted(PATIENCE, || self.write_once(file, text))
    }

    fn write_once(&mut self, file: u32, text: &str) -> io::Result<()> {
        // The kernel reads it until the completion is there: given away until then.
        let bytes = Box::leak(Box::<[u8]>::from(text.as_bytes()));
        let entry = opcode::Write::new(types::Fixed(file), bytes.as_ptr(), bytes.len() as u32).offset(0).build();
        // SAFETY: the bytes are valid until they are taken back, after the completion.
        unsafe { self.ring.submission().push(&entry.personality(self.personality)) }
            .map_err(|_| io::Error::other("an earlier write was not taken"))?;
        let result = loop {
            let entered = self.ring.submit_and_wait(1);
            if let Some(completion) = self.ring.completion().next() {
                break completion.result();
            }
            entered
                .map(drop)
                .or_else(|error| if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) })?;
        };
        // SAFETY: leaked above, and the kernel is done with it.
        drop(unsafe { Box::from_raw(std::ptr::from_mut(bytes)) });
        if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) }
    }
}

fn again_while_interrupted(patience: Duration, mut write: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    let since = Instant::now();
    loop {
        match write() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted && since.elapsed() < patience => {
                std::thread::sleep(PAUSE);
            }
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_write_is_tried_again_while_the_lock_is_taken() {
        let outcome = |patience, interrupted: u32, errno| {
            let mut writes = 0;
            let result = again_while_interrupted(patience, || {
                writes += 1;
                let errno = if writes <= interrupted { libc::EINTR } else { errno };
                if errno == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(errno)) }
            });
            (writes, result.err().and_then(|error| error.raw_os_error()))
        };
        assert_eq!(outcome(PATIENCE, 3, 0), (4, None));
        assert_eq!(outcome(PATIENCE, 1, libc::ENODEV), (2, Some(libc::ENODEV)));
        assert_eq!(outcome(Duration::ZERO, u32::MAX, 0), (1, Some(libc::EINTR)), "not for ever");
    }

    #[test]
    fn named_files_are_written_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["one", "two"].map(|name| folder.path().join(name));
        let files = paths.each_ref().map(|path| File::create(path).unwrap());
        let mut right = WriteRight::new(&[files[0].as_fd(), files[1].as_fd()])
            .unwrap_or_else(|error| panic!("did not run: named_files_are_written: io_uring is not to be had: {error}"));
        let other = files[1].as_raw_fd();
        drop(files);
        right.write(1, "second").unwrap();
        right.write(0, "first").unwrap();
        assert_eq!(paths.map(|path| std::fs::read_to_string(path).unwrap()), ["first", "second"]);
        assert!(right.write(2, "third").is_err(), "no such file");
        assert!(right.ring.submitter().register_personality().is_err(), "nothing more can be registered");
        // A descriptor of the process is not a file that was given; neither may anything be read.
        let mut buffer = [0; 4];
        let plain = opcode::Write::new(types::Fd(other), buffer.as_ptr(), 4).build();
        let read = opcode::Read::new(types::Fixed(0), buffer.as_mut_ptr(), 4).build();
        for entry in [plain, read] {
            // SAFETY: the buffer outlives the completion, which is waited for.
            unsafe { right.ring.submission().push(&entry) }.unwrap();
            right.ring.submit_and_wait(1).unwrap();
            assert_eq!(right.ring.completion().next().unwrap().result(), -libc::EACCES);
        }
    }
}
