//! Rules that can't match because no rule in use sets the bits they ask for.
//!
//! Owns that question; whether a rule can be used at all is decided where it is parsed.

use std::collections::HashSet;

use super::Rule;
use super::rule::{BitCommand, BitOwner, BitRule};

/// Those of `rules` that wait for bits (`flowbits:isset`, `hostbits`, `xbits`) that none of the others ever sets. A rule that
/// is itself one of them sets nothing.
pub fn idle<'r>(rules: impl Iterator<Item = &'r Rule>) -> Vec<&'r Rule> {
    let name = |owner: BitOwner, bit: u16| (owner == BitOwner::Flow, bit);
    let mut waiting: Vec<&Rule> = rules.collect();
    let mut set = HashSet::new();
    loop {
        let is_ready = |bits: &BitRule| {
            bits.command != BitCommand::IsSet || bits.bits.iter().any(|&bit| set.contains(&name(bits.owner, bit)))
        };
        let (ready, rest): (Vec<&Rule>, Vec<&Rule>) =
            waiting.into_iter().partition(|rule| rule.bits.iter().all(is_ready));
        if ready.is_empty() {
            return rest;
        }
        let writes = ready.iter().flat_map(|rule| &rule.bits);
        let writes = writes.filter(|bits| matches!(bits.command, BitCommand::Set | BitCommand::Toggle));
        set.extend(writes.flat_map(|bits| bits.bits.iter().map(move |&bit| name(bits.owner, bit))));
        waiting = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Classes, RuleSet, Variables};
    use super::idle;

    #[test]
    fn rules_wait_for_bits_that_only_idle_rules_set() {
        let rule = |bits: &str, sid: u32| format!("alert udp any any -> any any ({bits} sid:{sid};)\n");
        let text = [
            rule("flowbits:set,a;", 1),
            rule("flowbits:isset,a; flowbits:set,b;", 2),
            rule("flowbits:isset,b;", 3),
            rule("flowbits:isset,nobody|a;", 4),
            rule("flowbits:isset,nobody;", 5),
            rule("flowbits:isset,nobody; flowbits:set,c;", 6),
            rule("flowbits:isset,c;", 7),
            rule("flowbits:isnotset,nobody;", 8),
            rule("hostbits:isset,a,src;", 9),
        ]
        .concat();
        let mut set = RuleSet::default();
        set.add("t", text.as_bytes(), &Variables::default(), &Classes::default());
        assert_eq!(set.rejected, []);
        let sids: Vec<u32> = idle(set.rules.iter()).iter().map(|rule| rule.meta.sid).collect();
        assert_eq!(sids, [5, 6, 7, 9]);
    }
}
