//! Owns: integers of flows (`flowint`).
//! Does not: know their names. A flow's number never comes again, so what a flow has left is forgotten for others in time.

use super::bounded_map::BoundedMap;
use crate::fixed_vec::SpareVisitor;
use crate::rules::rule::{IntCommand, IntRule};

pub(crate) struct FlowInts {
    /// By flow and integer.
    table: BoundedMap<(u64, u16), u32>,
}

impl FlowInts {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { table: BoundedMap::new(capacity) }
    }

    pub(crate) fn show_spare(&mut self, to: &mut impl SpareVisitor) {
        self.table.show_spare(to);
    }

    /// Integers forgotten because the table was full.
    pub(crate) fn evicted(&self) -> u64 {
        self.table.evicted
    }

    /// Whether what a rule asks of an integer is so.
    pub(crate) fn check(&mut self, flow: u64, int: &IntRule) -> bool {
        let value = self.table.find(&(flow, int.number)).copied();
        match int.command {
            IntCommand::IsSet => value.is_some(),
            IntCommand::IsNotSet => value.is_none(),
            IntCommand::Compare(compare) => value.is_some_and(|value| compare.fits(value.into())),
            IntCommand::Set(_) | IntCommand::Add(_) | IntCommand::Subtract(_) => true,
        }
    }

    /// Does what a rule that matched wants done.
    pub(crate) fn apply(&mut self, flow: u64, int: &IntRule, now_ns: u64) {
        if int.is_test() {
            return;
        }
        let value = self.table.entry((flow, int.number), now_ns);
        *value = match int.command {
            IntCommand::Set(number) => number,
            IntCommand::Add(number) => value.saturating_add(number),
            IntCommand::Subtract(number) => value.saturating_sub(number),
            IntCommand::Compare(_) | IntCommand::IsSet | IntCommand::IsNotSet => *value,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::rule::Compare;

    #[test]
    fn counts_by_flow() {
        let mut ints = FlowInts::new(16);
        let int = |command| IntRule { number: 3, command };
        assert!(
            ints.check(1, &int(IntCommand::IsNotSet)) && !ints.check(1, &int(IntCommand::Compare(Compare::exactly(0))))
        );
        ints.apply(1, &int(IntCommand::Add(2)), 1);
        ints.apply(1, &int(IntCommand::Add(2)), 1);
        assert!(
            ints.check(1, &int(IntCommand::Compare(Compare::exactly(4)))) && !ints.check(2, &int(IntCommand::IsSet))
        );
        ints.apply(1, &int(IntCommand::Subtract(9)), 2);
        assert!(ints.check(1, &int(IntCommand::Compare(Compare::exactly(0)))));
        ints.apply(1, &int(IntCommand::Set(7)), 2);
        assert!(ints.check(1, &int(IntCommand::Compare(Compare::exactly(7)))));
    }
}
