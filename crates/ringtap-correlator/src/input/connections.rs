//! Owns: the connections of one listener: how many there may be, and which gives way to a new one.
//! Does not: read them.
//!
//! When all places are taken, the connection goes that has been of no use for longest: one that never said anything that
//! was understood at once, any other after [`IDLE`]. So nobody keeps others out by staying silent, and a sender that has
//! nothing to say for hours stays while there is room. Where senders prove who they are, one address has few places for
//! connections that were of no use yet: its own go, and nobody else's.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Connections of one listener.
pub(super) const MOST: usize = 64;
/// One that was silent for so long gives way when all places are taken.
const IDLE: Duration = Duration::from_secs(30);

/// A stream that another thread can end.
pub(super) trait Stream: io::Read + AsFd + Send + Sized + 'static {
    /// The same stream, to end it by.
    fn same(&self) -> io::Result<Self>;
    /// Ends it: whoever reads it comes to its end.
    fn end(&self);
}

impl Stream for TcpStream {
    fn same(&self) -> io::Result<Self> {
        self.try_clone()
    }

    fn end(&self) {
        // One that is gone already is what was wanted.
        let _ = self.shutdown(Shutdown::Both);
    }
}

impl Stream for UnixStream {
    fn same(&self) -> io::Result<Self> {
        self.try_clone()
    }

    fn end(&self) {
        let _ = self.shutdown(Shutdown::Both);
    }
}

struct Open<S> {
    number: u64,
    /// Its other end.
    peer: String,
    stream: S,
    since: Instant,
    /// When it said something that was understood.
    understood: Option<Instant>,
}

struct All<S> {
    open: Vec<Open<S>>,
    next: u64,
}

/// The connections of one listener.
pub(super) struct Connections<S> {
    all: Mutex<All<S>>,
    /// Those of one peer that never said anything which was understood.
    most_useless: usize,
}

impl<S: Stream> Connections<S> {
    pub(super) fn new(most_useless: usize) -> Arc<Self> {
        Arc::new(Self { all: Mutex::new(All { open: Vec::new(), next: 0 }), most_useless })
    }

    /// A place for a connection; `None`: there is none, or the stream can't be held.
    pub(super) fn admit(self: &Arc<Self>, stream: &S, peer: &str, now: Instant) -> Option<Place<S>> {
        let stream = stream.same().ok()?;
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let is_own = |open: &&Open<S>| open.understood.is_none() && open.peer == peer;
        let has_many = all.open.iter().filter(is_own).count() >= self.most_useless;
        if has_many || all.open.len() >= MOST {
            let useless = |open: &Open<S>| match has_many {
                true => is_own(&open),
                false => open.understood.is_none_or(|last| now.duration_since(last) >= IDLE),
            };
            let given = all.open.iter().filter(|open| useless(open));
            let number = given.min_by_key(|open| open.understood.unwrap_or(open.since)).map(|open| open.number)?;
            let at = all.open.iter().position(|open| open.number == number)?;
            all.open.swap_remove(at).stream.end();
        }
        let number = all.next;
        all.next += 1;
        all.open.push(Open { number, peer: peer.to_owned(), stream, since: now, understood: None });
        Some(Place { all: Arc::clone(self), number })
    }
}

/// A connection's place; free again when it is dropped.
pub(super) struct Place<S: Stream> {
    all: Arc<Connections<S>>,
    number: u64,
}

impl<S: Stream> Place<S> {
    /// It said something that was understood.
    pub(super) fn understood(&self, now: Instant) {
        let mut all = self.all.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = all.open.iter_mut().find(|open| open.number == self.number) {
            open.understood = Some(now);
        }
    }
}

impl<S: Stream> Drop for Place<S> {
    fn drop(&mut self) {
        let mut all = self.all.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.open.retain(|open| open.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn who_is_of_no_use_gives_way() {
        let connections = Connections::new(MOST);
        let now = Instant::now();
        let (mut places, mut peers) = (Vec::new(), Vec::new());
        for number in 0..MOST as u64 {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let place = connections.admit(&ours, "a", now + Duration::from_millis(number)).unwrap();
            if number != 3 {
                place.understood(now + Duration::from_secs(1));
            }
            places.push(place);
            peers.push((ours, theirs));
        }
        let (next, _peer) = UnixStream::pair().unwrap();
        let last = connections.admit(&next, "b", now + Duration::from_secs(2)).unwrap();
        last.understood(now + Duration::from_secs(2));
        // Who never said anything is at its end.
        let (ours, _) = &mut peers[3];
        assert_eq!(ours.read(&mut [0; 1]).unwrap(), 0);
        assert!(connections.admit(&next, "b", now + Duration::from_secs(30)).is_none(), "all are of use");
        places[0].understood(now + Duration::from_secs(20));
        assert!(connections.admit(&next, "b", now + Duration::from_secs(31)).is_some());
        let (ours, _) = &mut peers[1];
        assert_eq!(ours.read(&mut [0; 1]).unwrap(), 0, "the first that was silent for long");
        drop(places);
        assert_eq!(connections.all.lock().unwrap().open.len(), 1);
    }

    #[test]
    fn one_peer_takes_nobody_else_s_place() {
        let connections = Connections::new(3);
        let now = Instant::now();
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let mut places = vec![connections.admit(&ours, "sensor", now).unwrap()];
        for number in 0..2 * MOST as u64 {
            let (ours, _theirs) = UnixStream::pair().unwrap();
            places.push(connections.admit(&ours, "stranger", now + Duration::from_millis(number)).unwrap());
        }
        let all = connections.all.lock().unwrap();
        assert_eq!((all.open.len(), all.open[0].peer.as_str()), (4, "sensor"));
    }
}
