//! Owns: the SYNs of both sides before they agree on a session: several may come, and which of them counts is said by the answer.
//! Does not: follow the session.

use ringtap_wire::tcp_flag;

use super::segment::{MAX_SHIFT, Segment, SegmentOptions};

/// SYNs kept of each side: the first one and the newest ones.
const KEPT: usize = 3;

/// A SYN.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Greeting {
    pub(super) isn: u32,
    /// The SYN that it answers.
    pub(super) partner: u32,
    pub(super) window: u16,
    /// Bytes that it carries and the answer may acknowledge.
    pub(super) carried: u16,
    /// Bytes of the SYN that it answers which it acknowledges.
    pub(super) taken: u32,
    pub(super) options: SegmentOptions,
}

/// Those of one side.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Greetings {
    kept: [Greeting; KEPT],
    count: u8,
    /// There were more than are kept.
    has_lost: bool,
}

impl Greeting {
    pub(super) fn new(segment: &Segment<'_>, partner: u32) -> Self {
        let carried = if segment.options.fast_open { segment.payload.len().min(u16::MAX.into()) as u16 } else { 0 };
        let taken = segment.acknowledgment.wrapping_sub(partner.wrapping_add(1));
        Self { isn: segment.sequence, partner, window: segment.window, carried, taken, options: segment.options }
    }
}

impl Greetings {
    pub(super) fn add(&mut self, new: Greeting) {
        let count = usize::from(self.count);
        // The same again: what it says now counts, as its sender may give up options.
        let same = |known: &&mut Greeting| known.isn == new.isn && known.partner == new.partner;
        if let Some(known) = self.kept[..count].iter_mut().find(same) {
            *known = new;
            return;
        }
        if count < KEPT {
            self.kept[count] = new;
            self.count += 1;
        } else {
            self.kept[1..].rotate_left(1);
            self.kept[KEPT - 1] = new;
            self.has_lost = true;
        }
    }

    /// The one that this number acknowledges, with some of what it carries or none.
    pub(super) fn acknowledged_by(&self, acknowledgment: u32) -> Option<&Greeting> {
        self.iter().find(|kept| acknowledgment.wrapping_sub(kept.isn.wrapping_add(1)) <= kept.carried.into())
    }

    /// The one that a SYN with ACK answers. Where some are not kept any more, one that fits none of those left tells the number
    /// of the one it answers, which takes the newest one's place.
    pub(super) fn answered_by(&mut self, answer: &Segment<'_>) -> Option<Greeting> {
        let known = self.acknowledged_by(answer.acknowledgment).copied();
        if known.is_some() || !self.has_lost {
            return known;
        }
        // Of its options only what the answer agrees to matters: the widest windows, stamps that are not compared.
        let options = SegmentOptions { scale: Some(MAX_SHIFT), ..SegmentOptions::default() };
        let isn = answer.acknowledgment.wrapping_sub(1);
        let lost = Greeting { isn, partner: 0, window: u16::MAX, carried: 0, taken: 0, options };
        self.kept[KEPT - 1] = lost;
        Some(lost)
    }

    pub(super) fn of(&self, isn: u32) -> Option<&Greeting> {
        self.iter().find(|kept| kept.isn == isn)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Greeting> {
        self.kept[..self.count.into()].iter()
    }

    pub(super) fn is_single(&self) -> bool {
        self.count == 1
    }
}

/// Whether this is a SYN that answers none.
pub(crate) fn is_opening(segment: &Segment<'_>) -> bool {
    segment.flags & (tcp_flag::SYN | tcp_flag::ACK) == tcp_flag::SYN
}
