//! How rings of several queues share memory that was planned for the whole device.
//!
//! Owns the share of each queue and what is said of the sum before it is taken.

use crate::error::{Error, Result};
use crate::interface::Interface;
use crate::receiver::ReceiverConfig;
use crate::sys::available::available_memory_bytes;

const LEAST_SLOTS: u32 = 1024;

/// The slots of one of several rings: its share where the number was planned, else the number as it was told.
pub(super) fn slots_of_each(config: &ReceiverConfig, slots: u32, queues: usize) -> u32 {
    if config.packed_slots.is_some() { share_of(slots, queues) } else { slots }
}

/// A planned ring holds what comes at the peak rate of the device. Flows do not spread evenly, so each queue has twice its share,
/// and not less than [`LEAST_SLOTS`].
fn share_of(planned: u32, queues: usize) -> u32 {
    let twice = u64::from(planned) * 2 / queues.max(1) as u64;
    let share = 1u64 << twice.max(1).ilog2();
    (share as u32).max(LEAST_SLOTS).min(planned)
}

/// The rings of one device before they are opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rings {
    pub(crate) queues: usize,
    pub(crate) slots: u32,
    pub(crate) frame_size: u32,
}

impl Rings {
    pub(crate) fn bytes(self) -> u64 {
        self.queues as u64 * u64::from(self.slots) * u64::from(self.frame_size)
    }
}

/// Says what the rings of several queues take, before they take it.
///
/// # Errors
/// It is more than there is.
pub(super) fn tell_memory(config: &ReceiverConfig, interface: &Interface, rings: Rings) -> Result<()> {
    let Rings { queues, slots, .. } = rings;
    if queues < 2 {
        return Ok(());
    }
    let what = format!("{queues} rings of {slots} slots");
    refuse_more_than_there_is(&interface.name, &what, rings.bytes(), SMALLER_RINGS)?;
    (config.tell)(&format!("{}: {what}, {} MiB in all", interface.name, rings.bytes().div_ceil(1 << 20)));
    Ok(())
}

/// The way out where rings take too much.
pub(crate) const SMALLER_RINGS: &str = "use fewer --queues or a smaller --ring";

/// # Errors
/// So many bytes are more than there are.
pub(crate) fn refuse_more_than_there_is(object: &str, what: &str, bytes: u64, way_out: &'static str) -> Result<()> {
    let available = available_memory_bytes().unwrap_or(u64::MAX);
    if bytes <= available {
        return Ok(());
    }
    let cause = format!("{what} take {} MiB, {} MiB are available", bytes.div_ceil(1 << 20), available >> 20);
    Err(Error::failed("open rings on", object, cause).way_out(way_out))
}

#[cfg(test)]
mod tests {
    use super::share_of;

    #[test]
    fn queues_share_a_planned_ring() {
        assert_eq!(share_of(65536, 1), 65536);
        assert_eq!(share_of(65536, 2), 65536);
        for queues in 3..300 {
            let share = share_of(65536, queues);
            assert!(share.is_power_of_two() && share >= 1024);
            let total = u64::from(share) * queues as u64;
            assert!(total <= 2 * 65536 || share == 1024, "{queues}: {total}");
            assert!(total >= 65536, "{queues}: {total}");
        }
        assert_eq!(share_of(256, 32), 256, "a small ring is no larger for it");
        assert_eq!(share_of(64, 0), 64);
    }
}
