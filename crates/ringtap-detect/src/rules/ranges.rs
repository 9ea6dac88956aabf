//! Owns: sets of whole numbers as sorted ranges: addresses (IPv4 mapped into IPv6, RFC 4291 §2.5.5.2) and ports.
//! Does not: read them; `network.rs` does.

use std::net::IpAddr;

/// A set of numbers as sorted, disjoint, inclusive ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ranges {
    list: Vec<(u128, u128)>,
}

impl Ranges {
    /// Every number from 0 to `max`.
    #[must_use]
    pub fn all(max: u128) -> Self {
        Self { list: vec![(0, max)] }
    }

    /// The numbers from `low` to `high`, both included.
    #[must_use]
    pub fn of(low: u128, high: u128) -> Self {
        Self { list: if low <= high { vec![(low, high)] } else { Vec::new() } }
    }

    /// Whether `value` is in the set.
    #[inline]
    #[must_use]
    pub fn contains(&self, value: u128) -> bool {
        if let [(low, high)] = self.list[..] {
            return low <= value && value <= high;
        }
        let after = self.list.partition_point(|&(low, _)| low <= value);
        after > 0 && value <= self.list[after - 1].1
    }

    /// Whether nothing is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether every number from 0 to `max` is in the set.
    #[must_use]
    pub fn is_all(&self, max: u128) -> bool {
        self.list == [(0, max)]
    }

    /// How many numbers are in the set, at most `u128::MAX`.
    #[must_use]
    pub fn count(&self) -> u128 {
        self.list.iter().fold(0u128, |sum, (low, high)| sum.saturating_add(high - low).saturating_add(1))
    }

    /// The ranges, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u128, u128)> {
        self.list.iter().copied()
    }

    /// What is in any of these sets.
    #[must_use]
    pub fn union<'r>(sets: impl IntoIterator<Item = &'r Self>) -> Self {
        let mut list: Vec<(u128, u128)> = sets.into_iter().flat_map(|set| set.iter()).collect();
        list.sort_unstable();
        let mut merged: Vec<(u128, u128)> = Vec::with_capacity(list.len());
        for (low, high) in list {
            match merged.last_mut() {
                Some(last) if low <= last.1.saturating_add(1) => last.1 = last.1.max(high),
                _ => merged.push((low, high)),
            }
        }
        Self { list: merged }
    }

    /// What is in this set and not in `other`.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let mut left = Vec::new();
        for &(low, high) in &self.list {
            let mut from = low;
            let mut open = true;
            for &(cut_low, cut_high) in &other.list {
                if cut_high < from || cut_low > high {
                    continue;
                }
                if cut_low > from {
                    left.push((from, cut_low - 1));
                }
                if cut_high >= high {
                    open = false;
                    break;
                }
                from = cut_high + 1;
            }
            if open {
                left.push((from, high));
            }
        }
        Self { list: left }
    }
}

/// The number that stands for an address: IPv4 as `::ffff:a.b.c.d`.
#[inline]
#[must_use]
pub fn address_number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => V4_PREFIX | u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    }
}

/// First number of the IPv4 addresses.
pub(crate) const V4_PREFIX: u128 = 0xffff << 32;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_plain_set(parts in proptest::collection::vec((0u8.., 0u8..), 0..6),
                                   cuts in proptest::collection::vec((0u8.., 0u8..), 0..6)) {
            let build = |list: &[(u8, u8)]| {
                let parts: Vec<Ranges> =
                    list.iter().map(|&(a, b)| Ranges::of(a.min(b).into(), a.max(b).into())).collect();
                Ranges::union(&parts)
            };
            let covers = |list: &[(u8, u8)], value: u8| list.iter().any(|&(a, b)| (a.min(b)..=a.max(b)).contains(&value));
            let (set, cut) = (build(&parts), build(&cuts));
            let left = set.without(&cut);
            let mut count = 0;
            for value in 0..=u8::MAX {
                prop_assert_eq!(set.contains(value.into()), covers(&parts, value));
                let expected = covers(&parts, value) && !covers(&cuts, value);
                prop_assert_eq!(left.contains(value.into()), expected);
                count += u128::from(expected);
            }
            prop_assert_eq!(left.count(), count);
        }
    }
}
