//! What ends a wait: the stop handle, a flag the engine reads every cycle with an eventfd(2) that wakes it when it sleeps, and
//! an eventfd(2) for one thing that happens.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::error::{Error, Result};

/// Ends an engine from any thread or from a signal handler's thread; pulled once, it stays pulled.
#[derive(Debug)]
pub struct Stop {
    handle: Arc<Handle>,
    /// Ends a wait without ending the engine.
    bell: Option<Arc<Event>>,
}

#[derive(Debug)]
struct Handle {
    pulled: AtomicBool,
    gone: AtomicBool,
    event: OwnedFd,
}

/// An eventfd(2): one thread (or the kernel) signals it, another waits until it is readable.
#[derive(Debug)]
pub struct Event {
    event: OwnedFd,
}

impl Event {
    /// One that nobody has signalled yet.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub fn new() -> Result<Self> {
        Ok(Self { event: eventfd()? })
    }

    /// Makes the descriptor readable.
    pub fn signal(&self) {
        signal(&self.event);
    }

    /// Makes it unreadable until it is signalled again; whether it was signalled.
    pub(crate) fn clear(&self) -> bool {
        let mut count = [0u8; 8];
        // SAFETY: eight writable bytes, as eventfd(2) asks; nothing to read (EAGAIN) means that nobody signalled.
        unsafe { libc::read(self.event.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) == count.len() as isize }
    }
}

impl AsRawFd for Event {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.event.as_raw_fd()
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

fn eventfd() -> Result<OwnedFd> {
    // SAFETY: plain system call, the result is checked and owned once.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if fd < 0 {
        return Err(Error::os("create", "eventfd", &io::Error::last_os_error())
            .way_out("raise the limit of open files (ulimit -n)"));
    }
    // SAFETY: fd is a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn signal(event: &OwnedFd) {
    let one = 1u64.to_ne_bytes();
    // SAFETY: eight readable bytes, as eventfd(2) asks; a full counter (EAGAIN) is readable already, which is the aim.
    unsafe { libc::write(event.as_raw_fd(), one.as_ptr().cast(), one.len()) };
}

/// What a wait on one descriptor and the stop handle ended with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PollEnd {
    /// The descriptor is readable, or a signal came.
    Readable,
    /// The limit passed.
    TimedOut,
    /// The stop handle was pulled.
    Stopped,
    /// POLLERR, POLLHUP or POLLNVAL: the device went away.
    Failed,
}

impl Stop {
    /// A handle nobody has pulled yet.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub fn new() -> Result<Self> {
        let handle = Handle { pulled: AtomicBool::new(false), gone: AtomicBool::new(false), event: eventfd()? };
        Ok(Self { handle: Arc::new(handle), bell: None })
    }

    /// The same handle for one engine, whose waits also end when `bell` is signalled.
    pub(crate) fn with_bell(&self, bell: Arc<Event>) -> Self {
        Self { handle: Arc::clone(&self.handle), bell: Some(bell) }
    }

    /// Ends every wait on this handle, now and later.
    pub fn pull(&self) {
        self.handle.pulled.store(true, Ordering::Release);
        signal(&self.handle.event);
    }

    /// Ends every wait because the device was removed.
    pub(crate) fn device_gone(&self) {
        self.handle.gone.store(true, Ordering::Release);
        self.pull();
    }

    /// Whether it was pulled because the device was removed.
    pub(crate) fn is_device_gone(&self) -> bool {
        self.handle.gone.load(Ordering::Acquire)
    }

    /// Whether it has been pulled.
    pub fn is_pulled(&self) -> bool {
        self.handle.pulled.load(Ordering::Acquire)
    }

    /// Waits until `fd` is readable, the handle is pulled or `limit` passed (poll(2); rounded up to nanoseconds by ppoll).
    pub fn wait_readable(&self, fd: BorrowedFd<'_>, limit: Option<Duration>) -> PollEnd {
        self.wait_either([Some(fd), None], limit)
    }

    /// As [`Stop::wait_readable`], until one of two descriptors is readable. It failed if one did and none is readable.
    pub(crate) fn wait_either(&self, of: [Option<BorrowedFd<'_>>; 2], limit: Option<Duration>) -> PollEnd {
        let [first, second] = of.map(|fd| fd.map_or(-1, |fd| fd.as_raw_fd()));
        let mut fds = [
            libc::pollfd { fd: first, events: libc::POLLIN, revents: 0 },
            libc::pollfd { fd: self.handle.event.as_raw_fd(), events: libc::POLLIN, revents: 0 },
            // A negative one is left out.
            libc::pollfd { fd: self.bell.as_ref().map_or(-1, |it| it.as_raw_fd()), events: libc::POLLIN, revents: 0 },
            libc::pollfd { fd: second, events: libc::POLLIN, revents: 0 },
        ];
        let timeout = limit.map(super::clock::timespec);
        let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: four valid pollfd structures and a timeout that is null or valid for the call.
        let ready = unsafe { libc::ppoll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout, std::ptr::null()) };
        if let Some(bell) = self.bell.as_ref().filter(|_| fds[2].revents != 0) {
            bell.clear();
        }
        let told = fds[0].revents | fds[3].revents;
        if fds[1].revents != 0 || self.is_pulled() {
            PollEnd::Stopped
        } else if ready == 0 {
            PollEnd::TimedOut
        } else if ready > 0 && told & libc::POLLIN == 0 && told != 0 {
            PollEnd::Failed
        } else {
            // Readable, or EINTR: the caller looks at the ring, which costs less than telling them apart.
            PollEnd::Readable
        }
    }

    /// Sleeps until the handle is pulled or `limit` passed; `true` when pulled.
    pub fn wait(&self, limit: Duration) -> bool {
        self.wait_readable(self.handle.event.as_fd(), Some(limit)) == PollEnd::Stopped || self.is_pulled()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pulled_handle_ends_a_wait_from_another_thread() {
        let stop = Arc::new(Stop::new().unwrap());
        let other = Arc::clone(&stop);
        let thread = std::thread::spawn(move || other.wait(Duration::from_secs(30)));
        stop.pull();
        assert!(thread.join().unwrap());
        assert!(stop.wait(Duration::ZERO), "stays pulled");
    }

    #[test]
    fn a_bell_ends_one_wait_and_no_engine() {
        let stop = Stop::new().unwrap();
        let (bell, never) = (Arc::new(Event::new().unwrap()), Event::new().unwrap());
        let belled = stop.with_bell(Arc::clone(&bell));
        bell.signal();
        assert_eq!(belled.wait_readable(never.as_fd(), Some(Duration::from_secs(30))), PollEnd::Readable);
        assert!(!belled.is_pulled() && !stop.is_pulled());
        assert_eq!(belled.wait_readable(never.as_fd(), Some(Duration::ZERO)), PollEnd::TimedOut, "rung once");
        stop.pull();
        assert_eq!(belled.wait_readable(never.as_fd(), None), PollEnd::Stopped);
    }

    #[test]
    fn a_limit_ends_the_wait() {
        let stop = Stop::new().unwrap();
        assert!(!stop.wait(Duration::from_millis(1)));
    }
}
