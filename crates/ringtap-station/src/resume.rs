//! What a station knows of SNMP engines when it starts again: their clocks, and the messages of the last moments.
//!
//! Owns how both are read back from the store, so that what was recorded on the wire before a restart is not taken after it.

use ringtap::Result;
use ringtap_snmp::message::{Message, parse};
use ringtap_snmp::usm::Usm;

use crate::store::{Kind, Store};

/// Messages of so long before the last one are read again: an engine's clock has gone on since.
const MOMENTS_NS: u64 = 10_000_000_000;
/// Messages read again at most, and at a time.
const MOST: u64 = 200_000;
const PAGE: u64 = 2000;

/// Tells `usm` what the store has. `now_ns` is monotonic.
///
/// # Errors
/// The store can't be read.
pub(crate) fn resume(usm: &mut Usm, store: &Store, now_ns: u64) -> Result<()> {
    let last = store.last_id()?;
    let mut first = last + 1;
    let mut newest_ns = None;
    // Backwards, page by page; gaps are where retention was.
    while first > 1 && last + 1 - first < MOST {
        let from = first.saturating_sub(PAGE).max(1);
        let page = store.notifications(from, first - from)?;
        let newest_ns = *newest_ns.get_or_insert_with(|| page.last().map_or(0, |row| row.at_ns));
        for row in page.iter().filter(|row| row.kind == Kind::V3) {
            if let Ok(Message::V3(message)) = parse(&row.raw) {
                usm.resume_message(&message, now_ns);
            }
        }
        first = from;
        if page.first().is_none_or(|row| row.at_ns.saturating_add(MOMENTS_NS) < newest_ns) {
            break;
        }
    }
    for (clock, notification) in store.clocks()? {
        usm.resume(&clock, notification >= first, now_ns);
    }
    Ok(())
}
