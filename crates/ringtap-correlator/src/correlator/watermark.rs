//! Owns: how far event time has come: every event up to it is here, as far as anybody can say.
//! Does not: look at a clock.

/// The watermark of inputs without heartbeats.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watermark {
    disorder_ns: i64,
    greatest_ns: Option<i64>,
    /// Where silence or lack of room has brought it.
    pushed_ns: i64,
    is_silent: bool,
}

impl Watermark {
    pub(super) fn new(disorder_ns: i64) -> Self {
        Self { disorder_ns, greatest_ns: None, pushed_ns: i64::MIN, is_silent: false }
    }

    pub(super) fn event(&mut self, time_ns: i64) {
        self.greatest_ns = Some(self.greatest_ns.map_or(time_ns, |greatest| greatest.max(time_ns)));
        self.is_silent = false;
    }

    pub(super) fn greatest_ns(&self) -> Option<i64> {
        self.greatest_ns
    }

    /// An event as old as the disorder allows is still in time.
    pub(super) fn now(&self) -> i64 {
        let by_events =
            self.greatest_ns.map_or(i64::MIN, |greatest| greatest.saturating_sub(self.disorder_ns).saturating_sub(1));
        by_events.max(self.pushed_ns)
    }

    pub(super) fn push(&mut self, to_ns: i64) {
        self.pushed_ns = self.pushed_ns.max(to_ns);
    }

    /// Where silence or lack of room has brought it.
    pub(super) fn pushed(&self) -> i64 {
        self.pushed_ns
    }

    /// Goes on by the clock; the event time since which there is silence, the first time.
    pub(super) fn silent_for(&mut self, elapsed_ns: i64) -> Option<i64> {
        let since = self.greatest_ns?;
        self.push(since.saturating_add(elapsed_ns).saturating_sub(self.disorder_ns));
        (!std::mem::replace(&mut self.is_silent, true)).then_some(since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_follows_the_events_and_in_silence_the_clock() {
        let mut watermark = Watermark::new(5);
        assert_eq!((watermark.now(), watermark.silent_for(100)), (i64::MIN, None));
        watermark.event(100);
        watermark.event(90);
        assert_eq!(watermark.now(), 94);
        assert_eq!((watermark.silent_for(10), watermark.silent_for(20), watermark.now()), (Some(100), None, 115));
        watermark.event(130);
        assert_eq!((watermark.now(), watermark.silent_for(1)), (124, Some(130)));
    }
}
