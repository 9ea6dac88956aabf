//! What /proc counts per CPU: time by state, interrupts by line, soft interrupts by kind.
//!
//! Owns reading and taking apart /proc/stat, /proc/interrupts and /proc/softirqs (proc(5)). Does not own what is made of it.

use std::collections::BTreeMap;
use std::fs;

/// Times of one CPU in ticks of 10 ms (USER_HZ), and context switches of all CPUs together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Ticks {
    pub(super) idle: u64,
    pub(super) steal: u64,
    pub(super) context_switches: Option<u64>,
}

pub(super) fn ticks(cpu: usize) -> Option<Ticks> {
    parse_ticks(&fs::read_to_string("/proc/stat").ok()?, cpu)
}

pub(super) fn interrupts(cpu: usize) -> Option<BTreeMap<String, u64>> {
    parse_table(&fs::read_to_string("/proc/interrupts").ok()?, cpu)
}

pub(super) fn softirqs(cpu: usize) -> Option<BTreeMap<String, u64>> {
    parse_table(&fs::read_to_string("/proc/softirqs").ok()?, cpu)
}

/// Counts that grew, by how much.
pub(super) fn growth(
    before: Option<&BTreeMap<String, u64>>,
    after: Option<&BTreeMap<String, u64>>,
) -> Option<BTreeMap<String, u64>> {
    let (before, after) = before.zip(after)?;
    let grown = |(name, count): (&String, &u64)| {
        let delta = count.saturating_sub(before.get(name).copied().unwrap_or(0));
        (delta > 0).then(|| (name.clone(), delta))
    };
    Some(after.iter().filter_map(grown).collect())
}

fn parse_ticks(text: &str, cpu: usize) -> Option<Ticks> {
    let name = format!("cpu{cpu}");
    let mut found = None;
    let mut context_switches = None;
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some(word) if word == name => {
                let times: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
                // user nice system idle iowait irq softirq steal …; a CPU that waits for a disk is idle too.
                found = Some((times.get(3)? + times.get(4)?, times.get(7).copied()?));
            }
            Some("ctxt") => context_switches = words.next().and_then(|word| word.parse().ok()),
            _ => {}
        }
    }
    let (idle, steal) = found?;
    Some(Ticks { idle, steal, context_switches })
}

/// The column of `cpu` in a table whose head names the CPUs; lines that count only one number for all are left out.
fn parse_table(text: &str, cpu: usize) -> Option<BTreeMap<String, u64>> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next()?.split_whitespace().collect();
    let column = names.iter().position(|name| *name == format!("CPU{cpu}"))?;
    let mut counts = BTreeMap::new();
    for line in lines {
        let Some((label, rest)) = line.split_once(':') else { continue };
        let words: Vec<&str> = rest.split_whitespace().collect();
        let Some(numbers) = words.get(..names.len()) else { continue };
        let Ok(count) = numbers[column].parse() else { continue };
        let label = label.trim();
        // A numbered line is told by its device, the last word: "36 virtio1-req.0".
        let name = match words.last() {
            Some(device) if label.parse::<u32>().is_ok() && words.len() > names.len() => format!("{label} {device}"),
            _ => label.to_owned(),
        };
        counts.insert(name, count);
    }
    Some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_the_right_cpu() {
        let text = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu1 1 2 3 40 5 6 7 8 0 0\ncpu10 1 1 1 1 1 1 1 1 1 1\nctxt 77\n";
        assert_eq!(parse_ticks(text, 1), Some(Ticks { idle: 45, steal: 8, context_switches: Some(77) }));
        assert_eq!(parse_ticks(text, 2), None);
    }

    #[test]
    fn tables_by_cpu_with_gaps_and_short_lines() {
        let text = "           CPU0       CPU2\n 36:   1   68039  PCI-MSIX 1-edge  virtio1-req.0\nLOC:  5  6  Local timer\nERR:  0\n";
        let table = parse_table(text, 2).unwrap();
        assert_eq!(table.into_iter().collect::<Vec<_>>(), [("36 virtio1-req.0".into(), 68039), ("LOC".into(), 6)]);
        assert_eq!(parse_table(text, 1), None);
        let softirqs = "                    CPU0       CPU1\n      NET_RX:       5179       5134\n";
        assert_eq!(parse_table(softirqs, 1).unwrap()["NET_RX"], 5134);
    }

    #[test]
    fn only_growth_is_shown() {
        let table = |pairs: &[(&str, u64)]| pairs.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        let (before, after): (BTreeMap<_, _>, BTreeMap<_, _>) =
            (table(&[("a", 1), ("b", 2)]), table(&[("a", 4), ("b", 2), ("c", 1)]));
        assert_eq!(growth(Some(&before), Some(&after)), Some(table(&[("a", 3), ("c", 1)])));
        assert_eq!(growth(None, Some(&after)), None);
    }
}
