//! Waiting in the caller's thread, and the descriptor a client can wait on itself.
//!
//! Owns the eventfd that pcap_breakloop writes to, and the epoll instance behind pcap_get_selectable_fd: it is readable when the
//! pacer would look. By interrupt it follows the rings' sockets; by timer it follows a timerfd and leaves the sockets alone,
//! so that a client in select(2) sleeps as long as one in pcap_loop would. What there is to read is `live`'s business.

use std::cell::{Cell, OnceCell};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use ringtap::clock;
use ringtap::steer::MOST_QUEUES;

use crate::unwind;

/// What the client's descriptor is set to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Readable when a packet comes.
    Interrupt,
    /// Readable from this instant on (CLOCK_MONOTONIC, ns).
    At(u64),
    /// Readable: packets are there.
    Now,
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// The limit passed.
    TimedOut,
    /// A ring may hold something, or a signal came.
    Look,
    /// pcap_breakloop rang: now, or for a call that took its word before it rang.
    Rung,
    /// Some interface changed.
    Link,
    /// The socket of this source has an error.
    Failed(usize),
}

/// The eventfd of pcap_breakloop, the client's descriptor, and all that is waited on.
pub struct Waiting {
    breaks: OwnedFd,
    sockets: Vec<Arc<OwnedFd>>,
    descriptor: OnceCell<Option<Descriptor>>,
}

struct Descriptor {
    epoll: OwnedFd,
    timer: OwnedFd,
    signal: Cell<Signal>,
}

impl Waiting {
    /// Waits on these sockets.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub fn new(sockets: Vec<Arc<OwnedFd>>) -> io::Result<Self> {
        // SAFETY: plain system call, the result is checked and owned once.
        let breaks = owned(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        Ok(Self { breaks, sockets, descriptor: OnceCell::new() })
    }

    /// Ends a wait, now or the next one. Safe in a signal handler: one system call, not by way of write(3), where a cancelled
    /// thread would end, and errno stays what it was.
    pub fn ring(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: eight readable bytes, as eventfd(2) asks; a full counter is readable already, which is the aim. errno is the
        // thread's own.
        unsafe {
            let errno = *libc::__errno_location();
            libc::syscall(libc::SYS_write, self.breaks.as_raw_fd(), one.as_ptr(), one.len());
            *libc::__errno_location() = errno;
        }
    }

    /// Takes the ringing back.
    pub fn quiet(&self) {
        let mut count = [0u8; 8];
        // SAFETY: eight writable bytes; nothing to read is what is wanted.
        unsafe { libc::read(self.breaks.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }

    /// Sleeps until a socket, the eventfd or `events` is readable or `limit_ns` (CLOCK_MONOTONIC) has come; `with_sockets` false
    /// leaves the sockets out. The thread may be cancelled here: plain data only (`unwind`).
    pub fn sleep(&self, events: RawFd, with_sockets: bool, limit_ns: Option<u64>) -> Woken {
        const FIXED: usize = 2;
        // AF_XDP's queues, and the packet ring beside them.
        const MOST: usize = FIXED + MOST_QUEUES as usize + 1;
        let mut polled = [libc::pollfd { fd: -1, events: libc::POLLIN, revents: 0 }; MOST];
        polled[0].fd = self.breaks.as_raw_fd();
        polled[1].fd = events;
        let mut count = FIXED;
        if with_sockets {
            for (entry, socket) in polled[FIXED..].iter_mut().zip(&self.sockets) {
                entry.fd = socket.as_raw_fd();
                count += 1;
            }
        }
        let timeout = limit_ns.map(|limit_ns| unwind::timespec_of(limit_ns.saturating_sub(clock::monotonic_ns())));
        match unwind::sleep_on(&mut polled[..count], timeout.as_ref()) {
            0 => Woken::TimedOut,
            1.. if polled[1].revents != 0 => Woken::Link,
            1.. if polled[0].revents != 0 => Woken::Rung,
            1.. => {
                let failed = polled[FIXED..count].iter().position(|e| e.revents != 0 && e.revents & libc::POLLIN == 0);
                failed.map_or(Woken::Look, Woken::Failed)
            }
            // EINTR: a signal's handler may have called pcap_breakloop.
            _ => Woken::Look,
        }
    }

    /// The client's descriptor, made when it is first asked for; `None` when no descriptor is left.
    pub fn descriptor(&self, events: RawFd) -> Option<i32> {
        let made = self.descriptor.get_or_init(|| Descriptor::new(&self.sockets, events).ok());
        made.as_ref().map(|descriptor| descriptor.epoll.as_raw_fd())
    }

    /// Whether the client has asked for the descriptor.
    pub fn has_descriptor(&self) -> bool {
        matches!(self.descriptor.get(), Some(Some(_)))
    }

    /// Whether the descriptor's promise has come true without an interrupt: the client was told to come and look.
    pub fn has_called(&self) -> bool {
        match self.descriptor.get().and_then(Option::as_ref).map(|descriptor| descriptor.signal.get()) {
            Some(Signal::Now) => true,
            Some(Signal::At(instant_ns)) => clock::monotonic_ns() >= instant_ns,
            Some(Signal::Interrupt) | None => false,
        }
    }

    /// Sets what makes the descriptor readable; nothing is done where it is so already.
    pub fn signal(&self, signal: Signal) {
        let Some(Some(descriptor)) = self.descriptor.get() else { return };
        let before = descriptor.signal.replace(signal);
        if before == signal {
            return;
        }
        let interrupt = signal == Signal::Interrupt;
        if interrupt != (before == Signal::Interrupt) {
            let wanted = if interrupt { libc::EPOLLIN as u32 } else { 0 };
            for socket in &self.sockets {
                descriptor.watch(libc::EPOLL_CTL_MOD, socket.as_raw_fd(), wanted);
            }
        }
        descriptor.set_timer(match signal {
            Signal::Interrupt => 0,
            Signal::At(instant_ns) => instant_ns.max(1),
            Signal::Now => 1,
        });
    }
}

impl Descriptor {
    fn new(sockets: &[Arc<OwnedFd>], events: RawFd) -> io::Result<Self> {
        // SAFETY: plain system calls, the results are checked and owned once.
        let (epoll, timer) = unsafe {
            (
                owned(libc::epoll_create1(libc::EPOLL_CLOEXEC))?,
                owned(libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC | libc::TFD_NONBLOCK))?,
            )
        };
        let this = Self { epoll, timer, signal: Cell::new(Signal::Now) };
        for fd in [this.timer.as_raw_fd(), events] {
            this.watch(libc::EPOLL_CTL_ADD, fd, libc::EPOLLIN as u32);
        }
        for socket in sockets {
            this.watch(libc::EPOLL_CTL_ADD, socket.as_raw_fd(), 0);
        }
        // The client looks once, and the pacer decides about the rest.
        this.set_timer(1);
        Ok(this)
    }

    fn watch(&self, operation: libc::c_int, fd: libc::c_int, events: u32) {
        let mut event = libc::epoll_event { events, u64: 0 };
        // SAFETY: a valid event; both descriptors are open as long as this value.
        unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), operation, fd, &mut event) };
    }

    /// Readable from `instant_ns` on; 0 disarms. Setting it takes an expiry back (timerfd_create(2)).
    fn set_timer(&self, instant_ns: u64) {
        let setting =
            libc::itimerspec { it_interval: unwind::timespec_of(0), it_value: unwind::timespec_of(instant_ns) };
        // SAFETY: a valid setting; the old one is not asked for.
        unsafe {
            libc::timerfd_settime(self.timer.as_raw_fd(), libc::TFD_TIMER_ABSTIME, &setting, std::ptr::null_mut());
        }
    }
}

fn owned(raw: libc::c_int) -> io::Result<OwnedFd> {
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event() -> Arc<OwnedFd> {
        // SAFETY: plain system call, owned once.
        Arc::new(owned(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK) }).unwrap())
    }

    fn set(fd: &OwnedFd) {
        // SAFETY: eight readable bytes.
        unsafe { libc::write(fd.as_raw_fd(), 1u64.to_ne_bytes().as_ptr().cast(), 8) };
    }

    fn readable(fd: i32) -> bool {
        let mut entry = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid entry.
        unsafe { libc::poll(&mut entry, 1, 0) == 1 }
    }

    #[test]
    fn the_descriptor_is_readable_when_the_pacer_would_look() {
        let (socket, events) = (event(), event());
        let waiting = Waiting::new(vec![Arc::clone(&socket)]).unwrap();
        assert!(!waiting.has_descriptor());
        let fd = waiting.descriptor(events.as_raw_fd()).unwrap();
        assert!(readable(fd) && waiting.has_called(), "a first look");
        waiting.signal(Signal::Interrupt);
        assert!(!readable(fd));
        set(&socket);
        assert!(readable(fd) && !waiting.has_called(), "by interrupt the socket tells");
        let soon = clock::monotonic_ns() + 20_000_000;
        waiting.signal(Signal::At(soon));
        assert!(!readable(fd), "on the timer the socket is left alone");
        clock::sleep_until(soon + 5_000_000);
        assert!(readable(fd) && waiting.has_called());
        waiting.signal(Signal::At(clock::monotonic_ns() + 1_000_000_000));
        assert!(!readable(fd), "set anew, it is silent again");
        waiting.signal(Signal::Now);
        assert!(readable(fd));
    }

    #[test]
    fn breakloop_link_and_limit_end_a_sleep() {
        let (socket, events) = (event(), event());
        let waiting = Waiting::new(vec![Arc::clone(&socket)]).unwrap();
        let soon = || Some(clock::monotonic_ns() + 1_000_000);
        assert_eq!(waiting.sleep(events.as_raw_fd(), true, soon()), Woken::TimedOut);
        waiting.ring();
        assert_eq!(waiting.sleep(events.as_raw_fd(), true, None), Woken::Rung);
        waiting.quiet();
        assert_eq!(waiting.sleep(events.as_raw_fd(), true, soon()), Woken::TimedOut, "it wakes once");
        set(&socket);
        assert_eq!(waiting.sleep(events.as_raw_fd(), false, soon()), Woken::TimedOut, "sockets left out");
        assert_eq!(waiting.sleep(events.as_raw_fd(), true, None), Woken::Look);
        set(&events);
        assert_eq!(waiting.sleep(events.as_raw_fd(), true, None), Woken::Link);
    }

    #[test]
    fn a_packet_of_any_queue_ends_a_sleep() {
        let (sockets, events) = ((0..200).map(|_| event()).collect::<Vec<_>>(), event());
        let waiting = Waiting::new(sockets.clone()).unwrap();
        set(&sockets[199]);
        let limit = Some(clock::monotonic_ns() + 1_000_000_000);
        assert_eq!(waiting.sleep(events.as_raw_fd(), true, limit), Woken::Look);
    }
}
