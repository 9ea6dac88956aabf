//! Owns: the count of what rules are not used for, by option.
//! Does not: print.

use std::collections::BTreeMap;

use super::{Reason, Rejected};

/// How much of a rule set is used, and why the rest is not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Rules in use.
    pub used: usize,
    /// Rules that use something not supported: option (with the form, where only that) and number, most frequent first.
    pub unsupported: Vec<(String, usize)>,
    /// Rules that are broken: option and number.
    pub broken: Vec<(String, usize)>,
}

impl Coverage {
    /// Counts.
    #[must_use]
    pub fn of(rejected: &[Rejected], used: usize) -> Self {
        let (mut unsupported, mut broken) = (BTreeMap::new(), BTreeMap::new());
        for rejected in rejected {
            match &rejected.reason {
                Reason::Unsupported { option, detail } if detail.is_empty() => {
                    *unsupported.entry(option.clone()).or_insert(0) += 1;
                }
                Reason::Unsupported { option, detail } => {
                    *unsupported.entry(format!("{option} ({detail})")).or_insert(0) += 1;
                }
                Reason::Broken { option, .. } => {
                    let option = if option.is_empty() { "the rule itself" } else { option };
                    *broken.entry(option.to_owned()).or_insert(0) += 1;
                }
            }
        }
        let sorted = |counts: BTreeMap<String, usize>| {
            let mut list: Vec<_> = counts.into_iter().collect();
            list.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
            list
        };
        Self { used, unsupported: sorted(unsupported), broken: sorted(broken) }
    }

    /// Rules not in use.
    #[must_use]
    pub fn left_out(&self) -> usize {
        self.unsupported.iter().chain(&self.broken).map(|(_, count)| count).sum()
    }
}
