//! What to do against loss: a line for each cause that has one.
//!
//! Owns the texts. What was lost and why is counted elsewhere.

use ringtap::ledger::{Cause, Ledger};

use crate::object::Facts;
use crate::summary::{CpuUse, by_cpu};
use ringtap_run::units::{shown_rate, shown_size};

/// Above this share of its core, percent, an engine has no time to spare.
const BUSY_PERCENT: f64 = 90.0;

/// Share of what was offered, in words; nothing where that is unknown.
pub(crate) fn share(count: u64, ledger: &Ledger) -> String {
    match ledger.offered {
        Some(offered) if offered > 0 => format!(" ({:.3} %)", count as f64 * 100.0 / offered as f64),
        _ => String::new(),
    }
}

/// What would help, one line for each cause of loss.
pub(crate) fn advice(ledger: &Ledger, facts: &Facts, cpus: &[CpuUse], asked: Asked) -> Vec<String> {
    let is_lost = |(cause, count): (&Cause, &Option<u64>)| count.is_some_and(|count| count > 0).then_some(*cause);
    let causes: Vec<Cause> = ledger.drops.iter().filter_map(is_lost).collect();
    let is_busy = by_cpu(cpus).iter().any(|(cpu, _)| cpu.engine_percent > BUSY_PERCENT);
    let slots = facts.sources.iter().map(|source| source.ring_slots as u64).max().unwrap_or(0);
    let name = if facts.interfaces.len() > 1 { "IF" } else { &facts.object };
    let mut lines: Vec<String> = causes
        .iter()
        .filter_map(|cause| {
            Some(match cause {
                Cause::Nic => format!("the card had no free descriptor: see `ethtool -g {name}`, then `ethtool -G {name} rx N` for more"),
                Cause::DriverQueue => "lost between driver and ring, where the kernel's NAPI was late: leave it a core that the engine does not use (--cpu), or --napi-pacing off".to_owned(),
                Cause::Softnet => "a backlog of the kernel was full: raise net.core.netdev_max_backlog (sysctl)".to_owned(),
                Cause::NoSocket => "packets came on queues that nobody reads: --queues all".to_owned(),
                Cause::RingFull | Cause::FillRingEmpty if is_busy => {
                    "the ring ran over because the engine's core was busy: more queues, each with a core (--queues, --cpu), a cheaper filter, or a shorter --snaplen".to_owned()
                }
                Cause::RingFull | Cause::FillRingEmpty => format!(
                    "the ring ran over: more than its {slots} slots (--ring), or a --peak-rate above the one that came (it was {}); and a core of its own (--cpu)",
                    shown_rate(asked.peak_pps)
                ),
                Cause::Oversize => "packets were longer than a frame: a larger --frame-size, or --backend packet".to_owned(),
                Cause::SlowOutput => format!(
                    "the disk was too slow for a spool of {}: a larger --spool, a faster disk, or a shorter --snaplen",
                    shown_size(asked.spool_bytes)
                ),
                Cause::OutputFailed => "writing failed: free some space, and see the error".to_owned(),
                _ => return None,
            })
        })
        .collect();
    lines.dedup();
    lines
}

/// What the user asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) peak_pps: f64,
    pub(crate) spool_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            object: "eth1".to_owned(),
            interfaces: vec!["eth1".to_owned()],
            policy: None,
            max_latency: None,
            sources: Vec::new(),
            filter: None,
        }
    }

    #[test]
    fn each_loss_has_its_share_and_its_line() {
        let asked = Asked { peak_pps: 1.5e6, spool_bytes: 64 << 20 };
        let mut ledger = Ledger { offered: Some(1_000_000), delivered: 607_890, ..Ledger::default() };
        assert!(advice(&ledger, &facts(), &[], asked).is_empty());
        ledger.drop(Cause::RingFull, Some(392_110));
        ledger.drop(Cause::SlowOutput, Some(0));
        ledger.drop(Cause::Nic, None);
        ledger.drop(Cause::LeftAtLimit, Some(3));
        assert_eq!(share(392_110, &ledger), " (39.211 %)");
        let lines = advice(&ledger, &facts(), &[], asked);
        assert!(matches!(&lines[..], [one] if one.contains("--ring") && one.contains("--peak-rate")), "{lines:?}");
        let busy = CpuUse { cpu: Some(1), engine_percent: 99.0, steal_percent: None };
        let lines = advice(&ledger, &facts(), &[busy], asked);
        assert!(lines[0].contains("--queues"), "{lines:?}");
        ledger.drop(Cause::SlowOutput, Some(1));
        assert!(advice(&ledger, &facts(), &[], asked)[1].contains("--spool"));
    }
}
