//! Owns: whether all that has come to the sockets so far was handed over: nobody is silent whose words wait there.
//! Does not: read, or know what is said.
//!
//! What comes is in a socket, then in the hands of the thread that reads it, then in the channel. A thread says that it has
//! something before it takes it, and that it has nothing when it waits again. So whoever looks in this order misses nothing.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Everything that is listened to.
#[derive(Clone, Default)]
pub(super) struct Ears(Arc<Mutex<Vec<Ear>>>);

struct Ear {
    socket: OwnedFd,
    has_something: Arc<AtomicBool>,
}

/// The end of the thread that reads one of them; it is listened to until this is dropped.
pub(super) struct Hearing {
    ears: Ears,
    has_something: Arc<AtomicBool>,
}

impl Ears {
    /// Adds a socket.
    pub(super) fn add(&self, socket: &impl AsFd) -> io::Result<Hearing> {
        let has_something = Arc::new(AtomicBool::new(true));
        let ear = Ear { socket: socket.as_fd().try_clone_to_owned()?, has_something: Arc::clone(&has_something) };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(ear);
        Ok(Hearing { ears: self.clone(), has_something })
    }

    /// Whether nothing waits in a socket or with the thread that reads it.
    pub(super) fn are_empty(&self) -> bool {
        let ears = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sockets: Vec<PollFd<'_>> = ears.iter().map(|ear| readable(ear.socket.as_fd())).collect();
        let waiting = poll(&mut sockets, PollTimeout::ZERO);
        waiting == Ok(0) && !ears.iter().any(|ear| ear.has_something.load(Ordering::SeqCst))
    }
}

fn readable(socket: BorrowedFd<'_>) -> PollFd<'_> {
    PollFd::new(socket, PollFlags::POLLIN)
}

impl Hearing {
    /// All that was taken is handed over: waits until there is more.
    pub(super) fn wait(&self, socket: &impl AsFd) {
        self.has_something.store(false, Ordering::SeqCst);
        // Whatever ends it, the read that follows says why.
        let _ = poll(&mut [readable(socket.as_fd())], PollTimeout::NONE);
        self.has_something.store(true, Ordering::SeqCst);
    }
}

impl Drop for Hearing {
    fn drop(&mut self) {
        let mut ears = self.ears.0.lock().unwrap_or_else(PoisonError::into_inner);
        ears.retain(|ear| !Arc::ptr_eq(&ear.has_something, &self.has_something));
    }
}

/// A stream that is heard: what was read of it is handed over before more is.
pub(super) struct Heard<S> {
    pub(super) stream: S,
    pub(super) hearing: Hearing,
}

impl<S: Read + AsFd> Read for Heard<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.hearing.wait(&self.stream);
        self.stream.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_waits_is_in_the_socket_or_in_a_hand() {
        let ears = Ears::default();
        assert!(ears.are_empty());
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut heard = Heard { hearing: ears.add(&ours).unwrap(), stream: ours };
        assert!(!ears.are_empty(), "nobody says yet that it has nothing");
        let waits = |empty: bool| {
            let mut looks = 0;
            while ears.are_empty() != empty && looks < 2000 {
                std::thread::sleep(Duration::from_millis(5));
                looks += 1;
            }
            assert!(looks < 2000);
        };
        let (go, goes) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            // Twice a word: it has it until it asks for the next.
            for _ in 0..2 {
                assert_eq!(heard.read(&mut [0; 8]).unwrap(), 1);
                goes.recv().unwrap();
            }
            heard.read(&mut [0; 8]).unwrap()
        });
        for _ in 0..2 {
            waits(true);
            theirs.write_all(b"x").unwrap();
            // Whether in the socket or in the thread's hand.
            assert!((0..1000).all(|_| !ears.are_empty()));
            go.send(()).unwrap();
        }
        waits(true);
        drop(theirs);
        assert_eq!(thread.join().unwrap(), 0);
        assert!(ears.are_empty() && ears.0.lock().unwrap().is_empty());
    }
}
