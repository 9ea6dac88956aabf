//! How many Reports a station sends: their receivers may be victims whose addresses somebody else put into the question.
//!
//! Owns the rates: one for all, and one for each network, IPv4 by /24 and IPv6 by /64. A sender that is answered no more asks again, as
//! informs are repeated.

use std::net::IpAddr;

use super::Refused;
use crate::rate::{Bucket, Buckets, Rate};

/// Reports per second and at once to one network: two per sender that begins (discovery, time).
const SOURCE: Rate = Rate { per_second: 20, burst: 100 };
/// Reports per second and at once to all.
const ALL: Rate = Rate { per_second: 2000, burst: 4000 };
/// Buckets of sources.
const BUCKETS: usize = 4096;

/// The buckets.
#[derive(Debug)]
pub(crate) struct ReportLimit {
    all: Bucket,
    sources: Buckets,
    withheld: u64,
}

impl Default for ReportLimit {
    fn default() -> Self {
        Self { all: Bucket::default(), sources: Buckets::new(BUCKETS), withheld: 0 }
    }
}

impl ReportLimit {
    /// Reports that were due and not sent.
    pub(crate) fn withheld(&self) -> u64 {
        self.withheld
    }

    /// The refusal, without its Report when too many went that way of late.
    pub(crate) fn apply(&mut self, refused: Refused, source: IpAddr, now_ns: u64) -> Refused {
        if refused.report.is_none() || self.allows(source, now_ns) {
            return refused;
        }
        self.withheld += 1;
        Refused { report: None, ..refused }
    }

    /// Whether a Report may go to `source` now; it then counts as sent. `now_ns` is monotonic.
    fn allows(&mut self, source: IpAddr, now_ns: u64) -> bool {
        let bucket = self.sources.of(network(source));
        let allowed = bucket.has(SOURCE, now_ns) && self.all.has(ALL, now_ns);
        if allowed {
            bucket.take(SOURCE);
            self.all.take(ALL);
        }
        allowed
    }
}

fn network(source: IpAddr) -> (u8, u64) {
    match source.to_canonical() {
        IpAddr::V4(address) => (4, u64::from(u32::from(address) >> 8)),
        IpAddr::V6(address) => (6, (u128::from(address) >> 64) as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn allowed(limit: &mut ReportLimit, source: &str, now_ns: u64, tries: usize) -> usize {
        (0..tries).filter(|_| limit.allows(source.parse().unwrap(), now_ns)).count()
    }

    /// One whose key gives these networks buckets of their own: one key in 4096 does not.
    fn with_buckets_apart(sources: [&str; 2]) -> ReportLimit {
        loop {
            let mut limit = ReportLimit::default();
            let [one, other] =
                sources.map(|source| std::ptr::from_mut(limit.sources.of(network(source.parse().unwrap()))));
            if one != other {
                return limit;
            }
        }
    }

    #[test]
    fn a_network_gets_a_burst_and_then_a_trickle_and_the_others_are_served() {
        let mut limit = with_buckets_apart(["192.0.2.1", "2001:db8::1"]);
        assert_eq!(allowed(&mut limit, "192.0.2.1", S, 1000), 100);
        assert_eq!(allowed(&mut limit, "192.0.2.200", S, 1000), 0, "the same network");
        assert_eq!(allowed(&mut limit, "::ffff:192.0.2.200", S, 1000), 0, "written otherwise");
        assert_eq!(allowed(&mut limit, "2001:db8::1", S, 1000), 100);
        assert_eq!(allowed(&mut limit, "2001:db8::2:1", S, 1000), 0);
        assert_eq!(allowed(&mut limit, "192.0.2.1", 2 * S, 1000), 20);
        assert_eq!(allowed(&mut limit, "192.0.2.1", 1000 * S, 1000), 100, "never more than the burst");
        assert_eq!(allowed(&mut limit, "192.0.2.1", S, 1), 0, "a clock that goes back gives nothing");
    }

    #[test]
    fn all_networks_together_are_limited_too() {
        let mut limit = ReportLimit::default();
        let sent: usize = (0..10_000u32)
            .map(|network| {
                let address = std::net::Ipv4Addr::from(0x0b00_0000 + (network << 8)).to_string();
                allowed(&mut limit, &address, S, 3)
            })
            .sum();
        assert_eq!(sent, 4000);
    }
}
