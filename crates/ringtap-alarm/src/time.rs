//! Owns: times as texts, UTC to the microsecond.
//! Does not: know time zones.

/// Nanoseconds since 1970 as `YYYY-MM-DDTHH:MM:SS.ffffff` (RFC 3339 without its zone).
pub(crate) fn utc_micros(ns: u64) -> String {
    let basic = ringtap::record::utc(ns / 1_000_000_000);
    let part = |from: usize, to: usize| basic.get(from..to).unwrap_or_default();
    let (date, time) = ([part(0, 4), part(4, 6), part(6, 8)], [part(9, 11), part(11, 13), part(13, 15)]);
    format!("{}T{}.{:06}", date.join("-"), time.join(":"), ns / 1000 % 1_000_000)
}
