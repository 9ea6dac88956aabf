//! Owns: references to events: when, which, by whose clock; their order; and their bytes.
//! Does not: hold an event's fields.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cmp::Ordering;

use crate::bytes::{Damaged, Reader, Writer};
use crate::matcher::Filling;

/// Which event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// Sensor or input, by a number that stays the same on all hosts and after a restart.
    pub sensor: u64,
    /// Epoch of the sensor; for inputs that have none, a hash of the record.
    pub epoch: u64,
    /// Sequence in the epoch; for inputs that have none, which of equal records of one stamp.
    pub sequence: u64,
}

/// The clock that stamped an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Clock {
    /// Events with the same domain were stamped by one clock, and have no error towards each other.
    pub domain: u64,
    /// Greatest error towards true time, µs; `None` is unknown, and never used as a number.
    pub error_us: Option<u32>,
}

/// A reference to an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// Event time, ns.
    pub time_ns: i64,
    /// Which.
    pub identity: Identity,
    /// By whose clock.
    pub clock: Clock,
}

/// Identifies an incident: a hash of the rule's version, the key, and the match that opened it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IncidentId(pub [u8; 16]);

impl core::fmt::Display for IncidentId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        data_encoding::HEXLOWER.encode_display(&self.0).fmt(f)
    }
}

/// A counted value: itself where it is short, else its hash.
pub type Digest = [u8; 24];

/// Bytes of an entry without `via`.
pub(crate) const ENTRY_BYTES: u64 = 45;
/// Bytes that `via` adds.
pub(crate) const VIA_BYTES: u64 = 16;
/// Bytes of a counted value.
pub(crate) const VALUE_BYTES: u64 = 24;

impl Mark {
    pub(crate) fn write(&self, w: &mut Writer<'_>) {
        w.i64(self.time_ns);
        [self.identity.sensor, self.identity.epoch, self.identity.sequence].into_iter().for_each(|part| w.u64(part));
        w.u64(self.clock.domain);
        w.u32(self.clock.error_us.map_or(u32::MAX, |error| error.min(u32::MAX - 1)));
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, Damaged> {
        let time_ns = r.i64()?;
        let identity = Identity { sensor: r.u64()?, epoch: r.u64()?, sequence: r.u64()? };
        let (domain, error) = (r.u64()?, r.u32()?);
        let clock = Clock { domain, error_us: (error != u32::MAX).then_some(error) };
        Ok(Self { time_ns, identity, clock })
    }
}

/// An event in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub(crate) mark: Mark,
    /// The incident of the rule beneath, where it is a hit.
    pub(crate) via: Option<IncidentId>,
}

impl Entry {
    pub(crate) fn time(&self) -> i64 {
        self.mark.time_ns
    }

    pub(crate) fn write(&self, w: &mut Writer<'_>) {
        self.mark.write(w);
        w.option(self.via, |w, via| w.raw(&via.0));
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, Damaged> {
        Ok(Self { mark: Mark::read(r)?, via: r.option(Reader::array)?.map(IncidentId) })
    }
}

/// The order in which events are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Order {
    pub(crate) time: i64,
    /// Lowest step that the event fills: of two with one stamp the one of the earlier step comes first.
    pub(crate) place: u8,
    pub(crate) identity: Identity,
}

impl Order {
    pub(crate) fn write(&self, w: &mut Writer<'_>) {
        w.i64(self.time);
        w.u8(self.place);
        [self.identity.sensor, self.identity.epoch, self.identity.sequence].into_iter().for_each(|part| w.u64(part));
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, Damaged> {
        let (time, place) = (r.i64()?, r.u8()?);
        Ok(Self { time, place, identity: Identity { sensor: r.u64()?, epoch: r.u64()?, sequence: r.u64()? } })
    }
}

/// An event that waits for the watermark, or is being applied. Most wait at once of all that a state has, so what few
/// of them have is kept apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    mark: Mark,
    pub(crate) places: u32,
    /// `None` where all of it is empty.
    more: Option<Box<More>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct More {
    via: Option<IncidentId>,
    value: Option<Digest>,
    carry: Vec<u8>,
}

impl More {
    fn of(via: Option<IncidentId>, value: Option<Digest>, carry: &[u8]) -> Option<Box<Self>> {
        let is_plain = via.is_none() && value.is_none() && carry.is_empty();
        (!is_plain).then(|| Box::new(Self { via, value, carry: carry.into() }))
    }

    fn weight(more: Option<&Self>) -> usize {
        more.map_or(0, |more| size_of::<Self>() + more.carry.capacity())
    }
}

/// What one event is to one correlation, without the event's mark and its key: a [`Filling`] for hosts that keep it
/// themselves until the watermark has come, with what it is to other correlations of the same key.
#[derive(Clone, Debug)]
pub struct Fill {
    /// Number of the rule.
    pub rule: u16,
    /// The steps that the event fills, one bit each.
    pub places: u32,
    more: Option<Box<More>>,
}

impl Fill {
    /// Of this one.
    #[must_use]
    pub fn of(filling: &Filling) -> Self {
        let Filling { rule, places, via, value, carry, .. } = filling;
        Self { rule: *rule, places: *places, more: More::of(*via, *value, carry) }
    }

    /// Bytes of memory beside its own, near enough for a bound.
    #[must_use]
    pub fn weight(&self) -> usize {
        More::weight(self.more.as_deref())
    }

    pub(crate) fn waiting(self, mark: Mark) -> Waiting {
        Waiting { mark, places: self.places, more: self.more }
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        let parts = |it: &Self| (it.order(), it.places, it.mark.clock);
        parts(self).cmp(&parts(other)).then_with(|| self.more.cmp(&other.more))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// What a waiting event has apart at least, bytes, with the allocator's share of it and of its place.
const APART: usize = 64;

impl Waiting {
    /// Bytes of memory beside its own, near enough for a bound.
    pub(crate) fn apart(&self) -> usize {
        More::weight(self.more.as_deref()).max(APART)
    }

    pub(crate) fn write(&self, w: &mut Writer<'_>) {
        w.u32(self.places);
        self.entry().write(w);
        w.option(self.value(), |w, value| w.raw(&value));
        w.bytes(self.more.as_ref().map_or(&[], |more| &more.carry));
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, Damaged> {
        let (places, entry) = (r.u32()?, Entry::read(r)?);
        let value = r.option(Reader::array)?;
        Ok(Self::new(places, entry, value, r.bytes()?))
    }

    pub(crate) fn new(places: u32, entry: Entry, value: Option<Digest>, carry: &[u8]) -> Self {
        Self { mark: entry.mark, places, more: More::of(entry.via, value, carry) }
    }

    /// Of an event as the matcher gives it.
    pub(crate) fn of(event: &Filling) -> Self {
        Self { mark: event.mark, places: event.places, more: More::of(event.via, event.value, &event.carry) }
    }

    pub(crate) fn time(&self) -> i64 {
        self.mark.time_ns
    }

    pub(crate) fn order(&self) -> Order {
        let Mark { time_ns: time, identity, .. } = self.mark;
        Order { time, place: self.place(), identity }
    }

    /// The lowest step that it fills.
    pub(crate) fn place(&self) -> u8 {
        self.places.trailing_zeros() as u8
    }

    pub(crate) fn entry(&self) -> Entry {
        Entry { mark: self.mark, via: self.more.as_ref().and_then(|more| more.via) }
    }

    pub(crate) fn value(&self) -> Option<Digest> {
        self.more.as_ref()?.value
    }

    pub(crate) fn into_carry(self) -> Vec<u8> {
        self.more.map_or_else(Vec::new, |more| more.carry)
    }
}
