//! The transmit side of a queue.
//!
//! Owns whose a buffer is: DPDK's, ours from when it is lent until the device takes it, the device's from then on.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Port, Queue, RawPacket};

/// The transmit side of a queue: buffers of the port's, written and handed over.
pub(crate) struct Sender {
    port: Arc<Port>,
    number: u32,
    /// Written, in order, and not taken by the device yet.
    held: VecDeque<RawPacket>,
    /// Most of them.
    slots: usize,
    /// A buffer that nothing was written into after all.
    spare: Option<RawPacket>,
}

impl Queue {
    /// The transmit side, once: two would share what one thread has to itself. `slots` as in [`Request::send_slots`].
    pub(crate) fn sender(&mut self, slots: u32) -> Sender {
        let slots = slots as usize;
        let held = VecDeque::with_capacity(slots);
        Sender { port: Arc::clone(&self.port), number: self.number, held, slots, spare: None }
    }
}

impl Sender {
    /// Lends a buffer to `build`, which writes a packet and returns its length (0: none after all). The length queued; `None`: no room.
    pub(crate) fn send(&mut self, build: impl FnOnce(&mut [u8]) -> usize) -> Option<usize> {
        if self.held.len() == self.slots {
            return None;
        }
        let mut buffer = self.spare.take().or_else(|| self.free_buffer())?;
        let region = &self.port.region;
        let range = usize::try_from(buffer.offset).ok().zip(usize::try_from(buffer.len).ok());
        let Some((offset, room)) =
            range.filter(|(offset, room)| offset.checked_add(*room).is_some_and(|end| end <= region.len()))
        else {
            self.give_back(&buffer);
            return None;
        };
        // SAFETY: within the port's memory, which lives as long as the port; the buffer is ours alone until it is sent or given back, and
        // was written by DPDK before.
        let frame = unsafe { std::slice::from_raw_parts_mut(region.base().as_ptr().add(offset), room) };
        let len = build(frame).min(room);
        if len == 0 {
            self.spare = Some(buffer);
            return Some(0);
        }
        buffer.len = len as u32;
        self.held.push_back(buffer);
        Some(len)
    }

    /// Hands over what is held, as much as the device takes.
    pub(crate) fn kick(&mut self) {
        let (send, handle) = (self.port.eal.library.ringtap_dpdk_send, self.port.handle.as_ptr());
        let (first, rest) = self.held.as_slices();
        let mut taken = 0;
        for part in [first, rest] {
            // SAFETY: an open port, one of its queues, which `&mut self` keeps others from, and buffers of its that were written.
            let now = unsafe { send(handle, self.number, part.as_ptr(), part.len() as u32) } as usize;
            taken += now.min(part.len());
            if now < part.len() {
                break;
            }
        }
        self.held.drain(..taken);
    }

    /// Packets that are held for want of room at the device.
    pub(crate) fn held(&self) -> u32 {
        self.held.len() as u32
    }

    fn free_buffer(&self) -> Option<RawPacket> {
        let mut buffer = RawPacket::default();
        let library = &self.port.eal.library;
        // SAFETY: an open port, one of its queues, and a structure for the answer.
        let result = unsafe { (library.ringtap_dpdk_buffer)(self.port.handle.as_ptr(), self.number, &mut buffer) };
        (result == 0).then_some(buffer)
    }

    fn give_back(&self, buffer: &RawPacket) {
        // SAFETY: the token of a buffer that this port lent and that nobody else knows.
        unsafe { (self.port.eal.library.ringtap_dpdk_give_back)(self.port.handle.as_ptr(), &buffer.token, 1) };
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        let held = self.held.iter().chain(&self.spare);
        held.for_each(|buffer| self.give_back(buffer));
    }
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Sender").field("number", &self.number).field("held", &self.held.len()).finish_non_exhaustive()
    }
}
