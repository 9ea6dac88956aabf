//! A process beside ours that keeps the right to put a device's settings back ([`crate::settings`]) after ours gave it up.
//!
//! It is forked before there is any thread, has a session of its own and one capability (CAP_NET_ADMIN), and sleeps until our process
//! ends in whatever way, says that it is done, or that it is done with one of its devices. Then it puts back what dead users noted. The
//! notes are all it knows.
//! Not for libraries beneath other programs, which count their children.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::privileges::{self, CAP_NET_ADMIN, Confinement};

/// How long our end waits for the keeper's: a driver may restart its card for a change, and another process may hold the note.
const PATIENCE: Duration = Duration::from_secs(15);

/// What our process says: that a device is done with, and that all are.
const ONE: u8 = b'.';
const ALL: u8 = b'!';

/// The pipe to this process's keeper.
static TO_KEEPER: Mutex<Option<OwnedFd>> = Mutex::new(None);

/// Has the keeper, if there is one, put back now what users that are gone left on devices.
pub(crate) fn put_back_now() {
    if let Some(pipe) = &*TO_KEEPER.lock().unwrap_or_else(PoisonError::into_inner) {
        say(pipe, ONE);
    }
}

fn say(pipe: &OwnedFd, what: u8) {
    // SAFETY: one readable byte; a keeper that is gone gives EPIPE, as Rust's programs ignore SIGPIPE.
    unsafe { libc::write(pipe.as_raw_fd(), (&raw const what).cast(), 1) };
}

/// The keeper's process; dropping it has the settings of receivers that are gone put back, and waits for that.
#[derive(Debug)]
pub struct Keeper {
    process: libc::pid_t,
}

impl Keeper {
    /// Starts the process; `None` where we have no right to change settings in the first place.
    ///
    /// # Errors
    /// This process has threads already; fork(2) or pipe(2) fails.
    pub fn start() -> io::Result<Option<Self>> {
        if privileges::effective() & CAP_NET_ADMIN == 0 {
            return Ok(None);
        }
        if std::fs::read_dir("/proc/self/task")?.count() != 1 {
            return Err(io::Error::other("threads are running already"));
        }
        let mut pipe = [-1; 2];
        // SAFETY: room for two descriptors, which are owned once.
        if unsafe { libc::pipe2(pipe.as_mut_ptr(), libc::O_CLOEXEC) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: fresh descriptors that nobody else owns.
        let (reading, writing) = unsafe { (OwnedFd::from_raw_fd(pipe[0]), OwnedFd::from_raw_fd(pipe[1])) };
        // SAFETY: a descriptor of this process itself (Linux 5.3), to learn when all of its threads and files are gone; owned once.
        let ours = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0) } as RawFd;
        if ours < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: as above.
        let ours = unsafe { OwnedFd::from_raw_fd(ours) };
        // SAFETY: there is only this thread, so no lock is held by another in the child.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                drop(writing);
                let code = std::panic::catch_unwind(|| keep(&reading, &ours)).unwrap_or(2);
                // SAFETY: ends the child without the parent's exit handlers.
                unsafe { libc::_exit(code) }
            }
            process => {
                *TO_KEEPER.lock().unwrap_or_else(PoisonError::into_inner) = Some(writing);
                Ok(Some(Self { process }))
            }
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if let Some(pipe) = TO_KEEPER.lock().unwrap_or_else(PoisonError::into_inner).take() {
            say(&pipe, ALL);
        }
        let since = Instant::now();
        let mut status = 0;
        let is_done = loop {
            // SAFETY: the status is writable; our own child.
            match unsafe { libc::waitpid(self.process, &raw mut status, libc::WNOHANG) } {
                0 if since.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(1)),
                // It was stopped; when it goes on, it does its work.
                0 => break false,
                -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
                _ => break status == 0,
            }
        };
        if !is_done {
            eprintln!(
                "ringtap: warning: not every setting of the device could be put back: what is left is noted in /run/ringtap, and the next start tries again"
            );
        }
    }
}

/// The child's life; its exit code.
fn keep(pipe: &OwnedFd, parent: &OwnedFd) -> i32 {
    leave_the_terminal(&[pipe.as_raw_fd(), parent.as_raw_fd()]);
    let confined = privileges::confine_this_thread(&Confinement { keep: CAP_NET_ADMIN, user: None, landlock: None });
    if confined.is_err() {
        return 3;
    }
    let is_done = loop {
        let mut byte = 0u8;
        // SAFETY: one writable byte. All signals that can be are ignored, so nothing interrupts it.
        match unsafe { libc::read(pipe.as_raw_fd(), (&raw mut byte).cast(), 1) } {
            // What fails is tried again in the end.
            1 if byte == ONE => drop(crate::settings::put_back_leftovers()),
            read => break read == 1,
        }
    };
    if !is_done {
        // Its files, and the locks on them, are gone when the whole process is.
        let mut end = libc::pollfd { fd: parent.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one structure, valid during the call.
        while unsafe { libc::poll(&raw mut end, 1, -1) } < 0 {}
    }
    i32::from(!crate::settings::put_back_leftovers().is_empty())
}

/// Nothing that is meant for the parent reaches the child: no signal, no end of a pipe that it would hold open.
fn leave_the_terminal(keep: &[RawFd]) {
    // SAFETY: system calls of a process with one thread and without destructors to come; descriptors are closed that nobody uses here.
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, c"ringtap-keeper".as_ptr());
        for signal in 1..32 {
            libc::signal(signal, libc::SIG_IGN);
        }
        let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        for standard in 0..3 {
            libc::dup2(nothing, standard);
        }
        let mut first = 3;
        let mut kept = keep.to_vec();
        kept.sort_unstable();
        for fd in kept {
            if fd > first {
                libc::syscall(libc::SYS_close_range, first, fd - 1, 0);
            }
            first = fd + 1;
        }
        libc::syscall(libc::SYS_close_range, first, libc::c_int::MAX, 0);
    }
}
