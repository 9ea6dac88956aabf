//! The other side of each ring: a kernel, or a card, in the hands of a test.
//!
//! The user's side is the one that captures, over memory of our own: descriptors are checked, frames go round and indices wrap as
//! they do on a real device, without one and without root. What writes here may lie: the rings have to bear it.
// The lies are for this crate's own tests.
#![cfg_attr(not(test), allow(dead_code))]

pub(crate) mod card;
pub(crate) mod index;
pub(crate) mod packet;
mod source;
mod xdp;

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;

use crate::sys::event::Event;

pub use card::CardDevice;
pub use packet::PacketKernel;
pub use source::RingSource;
pub use xdp::XdpKernel;
#[cfg(test)]
pub(crate) use xdp::{COOKIE, socket as xdp_socket, stamped};

/// The other end of a descriptor that stands for a socket of the kernel's: system calls on the one are datagrams at the other.
#[derive(Debug)]
pub(crate) struct Calls {
    /// `None` under Miri, which has no datagram sockets: there are no calls then.
    other: Option<UnixDatagram>,
}

impl Calls {
    /// # Panics
    /// There is no descriptor left.
    pub(crate) fn new() -> (OwnedFd, Self) {
        if cfg!(miri) {
            let (ours, _) = std::io::pipe().expect("a pipe");
            return (ours.into(), Self { other: None });
        }
        let (ours, other) = UnixDatagram::pair().expect("a pair of sockets");
        for end in [&ours, &other] {
            end.set_nonblocking(true).expect("a socket that does not block");
        }
        (ours.into(), Self { other: Some(other) })
    }

    /// Sends made since the last time: kicks.
    pub(crate) fn sends(&self) -> usize {
        let other = self.other.as_ref();
        std::iter::from_fn(|| other?.recv(&mut []).ok()).count()
    }

    /// Makes the socket readable; `false` where its queue is full.
    pub(crate) fn queue(&self, packet: &[u8]) -> bool {
        self.other.as_ref().is_some_and(|other| other.send(packet).is_ok())
    }
}

/// What is signalled when something has come.
fn arrival() -> Arc<Event> {
    Arc::new(Event::new().expect("an eventfd"))
}

/// Bytes of a packet that looks like no other near it, and like nothing at another place.
#[cfg(test)]
pub(crate) fn pattern(len: usize, number: u64) -> Vec<u8> {
    static NOISE: [u8; 16 << 10] = {
        let (mut noise, mut at, mut state) = ([0; 16 << 10], 0, 1u32);
        while at < noise.len() {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            noise[at] = (state >> 24) as u8;
            at += 1;
        }
        noise
    };
    let from = (number % 4096) as usize;
    NOISE[from..from + len].to_vec()
}
