//! Packets that did not fit their frame of a packet ring, fetched whole from the socket's own queue by a call each
//! (PACKET_COPY_THRESH, packet(7)).
//!
//! Owns that queue's order: which packet of it belongs to which frame. Both sides go by the order of arrival, so a packet that
//! could not be fetched has to be taken off before the next one. The ring and its frames are packet_ring's.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::memory::Region;
use super::packet_ring::VLAN_TAG_BYTES;
use super::setsockopt;

const PACKET_COPY_THRESH: libc::c_int = 7;
/// The longest packet there is: GSO_MAX_SIZE of linux/netdevice.h (BIG TCP), with headers in front.
pub(super) const LONGEST_PACKET: usize = (512 << 10) + 4096;
/// Memory for the fetched packets of a burst: 31 of 64 KiB, or 3 of the longest. A burst ends where there is no more.
pub(crate) const POOL_BYTES: usize = 2 << 20;
/// Kernel memory that such packets may take until they are fetched: as much as the ring, but not less or more than this.
const QUEUE_BYTES: (u64, u64) = (32 << 20, 256 << 20);
/// An error of the socket (ENETDOWN) is told by the first call that comes, and the packet stays.
const TRIES: usize = 4;

/// What a look for a frame's packet came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fetch {
    /// It is at this offset of the region, with room for a VLAN tag in front.
    Whole(usize),
    /// It can't be had: there is what the frame holds of it.
    Missing,
    /// The burst's memory is used up. Nothing was taken.
    NoRoom,
}

/// The queue of one socket, and our own memory behind its ring.
#[derive(Debug)]
pub(super) struct Oversize {
    /// Where in the region our memory begins.
    pool: usize,
    used: usize,
    /// Packets at the queue's head whose frames have been given out without them.
    behind: u64,
}

impl Oversize {
    /// Has the kernel queue such packets, for a ring of `ring_bytes`, behind which [`POOL_BYTES`] are ours.
    pub(super) fn enable(fd: BorrowedFd<'_>, ring_bytes: u64) -> io::Result<()> {
        setsockopt(fd, libc::SOL_PACKET, PACKET_COPY_THRESH, &1i32)?;
        // The kernel doubles the number. FORCE needs CAP_NET_ADMIN; with less memory more packets come cut.
        let half = (ring_bytes.clamp(QUEUE_BYTES.0, QUEUE_BYTES.1) / 2) as i32;
        setsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &half)
            .or_else(|_| setsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, &half))
    }

    pub(super) fn new(pool: usize) -> Self {
        Self { pool, used: 0, behind: 0 }
    }

    /// The packets of the last burst are no longer used.
    pub(super) fn begin_burst(&mut self) {
        self.used = 0;
    }

    /// Fetches the packet of `len` bytes whose beginning is in its frame: `head`.
    ///
    /// # Safety
    /// The region ends with the [`POOL_BYTES`] from `pool` on, and nothing refers to those since [`Oversize::begin_burst`] but
    /// the packets returned.
    pub(super) unsafe fn fetch(&mut self, fd: BorrowedFd<'_>, region: &Region, len: usize, head: &[u8]) -> Fetch {
        let need = (VLAN_TAG_BYTES + len).next_multiple_of(64);
        if self.used > 0 && self.used + need > POOL_BYTES {
            return Fetch::NoRoom;
        }
        let start = self.pool + self.used + VLAN_TAG_BYTES;
        let room = POOL_BYTES - self.used - VLAN_TAG_BYTES;
        // SAFETY: by contract; this part of the pool has not been given out since the burst began.
        let memory = unsafe { std::slice::from_raw_parts_mut(region.base().as_ptr().add(start), room) };
        let found = self.take(len, head, memory, |buffer| receive(fd, buffer));
        if found {
            self.used += need;
            Fetch::Whole(start)
        } else {
            Fetch::Missing
        }
    }

    /// Takes packets off the queue by `receive` until the one of `len` bytes that begins with `head` is in `memory`.
    fn take(
        &mut self,
        len: usize,
        head: &[u8],
        memory: &mut [u8],
        mut receive: impl FnMut(&mut [u8]) -> io::Result<usize>,
    ) -> bool {
        // The packet itself is behind those that were left.
        self.behind += 1;
        let mut tries = 0;
        while self.behind > 0 && tries < TRIES {
            match receive(memory) {
                Ok(got) => {
                    self.behind -= 1;
                    tries = 0;
                    let is_ours = got == len && memory.get(..len).is_some_and(|bytes| bytes.starts_with(head));
                    if self.behind == 0 && is_ours {
                        return true;
                    }
                }
                // There is nothing that could be in the next one's way.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.behind = 0,
                Err(_) => tries += 1,
            }
        }
        false
    }
}

/// The next packet of the queue; its length, even where that exceeds the buffer.
fn receive(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the buffer is writable for its length.
    let got = unsafe {
        libc::recv(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_DONTWAIT | libc::MSG_TRUNC)
    };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// A queue that fails as told, and packets of 100 bytes that begin with their number.
    struct Queue {
        packets: VecDeque<u8>,
        failures: usize,
    }

    impl Queue {
        fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.failures > 0 {
                self.failures -= 1;
                return Err(io::Error::from_raw_os_error(libc::ENETDOWN));
            }
            let number = self.packets.pop_front().ok_or(io::ErrorKind::WouldBlock)?;
            buffer[..100].fill(number);
            Ok(100)
        }
    }

    fn take(oversize: &mut Oversize, queue: &mut Queue, head: &[u8]) -> Option<u8> {
        let mut memory = [0; 128];
        oversize.take(100, head, &mut memory, |buffer| queue.receive(buffer)).then(|| memory[99])
    }

    #[test]
    fn an_error_of_the_socket_leaves_each_packet_its_bytes() {
        let mut oversize = Oversize::new(0);
        let mut queue = Queue { packets: (1..=3).collect(), failures: 1 };
        for number in 1..=3 {
            assert_eq!(take(&mut oversize, &mut queue, &[]), Some(number));
        }
    }

    #[test]
    fn a_packet_that_could_not_be_fetched_is_not_the_next_ones() {
        let mut oversize = Oversize::new(0);
        // No head tells them apart: the order alone has to.
        let mut queue = Queue { packets: (1..=4).collect(), failures: 2 * TRIES };
        let taken: Vec<_> = (1..=4).map(|_| take(&mut oversize, &mut queue, &[])).collect();
        assert_eq!(taken, [None, None, Some(3), Some(4)]);
    }

    #[test]
    fn a_packet_that_does_not_begin_as_its_frame_is_not_given_out() {
        let mut oversize = Oversize::new(0);
        let mut queue = Queue { packets: [1, 3].into(), failures: 0 };
        assert_eq!(take(&mut oversize, &mut queue, &[1, 1]), Some(1));
        assert_eq!(take(&mut oversize, &mut queue, &[2, 2]), None);
        assert_eq!(take(&mut oversize, &mut queue, &[3, 3]), None, "there is no other");
        queue.packets.push_back(4);
        assert_eq!(take(&mut oversize, &mut queue, &[4, 4]), Some(4), "nothing is left behind");
    }
}
