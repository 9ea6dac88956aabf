//! `ringtap plan --from`: what a benchmark of this host says about a rate, receiver by receiver.
//!
//! Owns the table and the object; the sums are `cost_model`'s.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use ringtap::Result;
use ringtap_run::units::{shown_rate, shown_size};
use serde_json::{Value, json};

use crate::bench::load;
use crate::book::Topology;
use crate::cost_model::{Estimate, HostModel, Ring};

/// What every receiver of a benchmark would need.
#[derive(Debug)]
pub struct Advice {
    host: String,
    command: String,
    pps: f64,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    receiver: String,
    topology: Topology,
    core_use: Estimate,
    capacity: Option<Estimate>,
    ring: Option<Ring>,
}

impl Advice {
    /// For `pps` packets per second, from the benchmark in `folder`.
    ///
    /// # Errors
    /// No benchmark there, one that no model fits, or a rate that is not a positive number.
    pub fn read(folder: &Path, pps: f64) -> Result<Self> {
        let book = load(folder)?;
        let model = HostModel::from_book(&book)?;
        let row = |(receiver, topology): (&str, Topology)| -> Result<Row> {
            Ok(Row {
                receiver: receiver.to_owned(),
                topology,
                core_use: model.core_use(receiver, topology, pps)?,
                capacity: model.no_loss_capacity(receiver, topology).ok(),
                ring: model.ring(receiver, topology, pps).ok(),
            })
        };
        let rows = model.receivers().map(row).collect::<Result<_>>()?;
        Ok(Self { host: book.environment.host, command: book.environment.command, pps, rows })
    }

    /// For machines: one object.
    pub fn to_json(&self) -> Value {
        let row = |row: &Row| {
            json!({
                "receiver": row.receiver, "topology": row.topology, "rate_pps": self.pps,
                "core_use": row.core_use, "no_loss_capacity": row.capacity, "ring": row.ring,
            })
        };
        json!({ "host": self.host, "receivers": self.rows.iter().map(row).collect::<Vec<_>>() })
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = format!("core use at {}", shown_rate(self.pps));
        writeln!(f, "measured on {}: {}\n", self.host, self.command)?;
        writeln!(f, "{:<31} {:<5} {rate:>22} {:>15} {:>8} {:>10}", "receiver", "", "no loss up to", "slots", "memory")?;
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
        for Row { receiver, topology, core_use, capacity, ring } in &self.rows {
            writeln!(
                f,
                "{receiver:<31} {:<5} {:>22} {:>15} {:>8} {:>10}",
                if *topology == Topology::Nic { "nic" } else { "host" },
                format!("{:.1} % ({:.1}–{:.1})", core_use.value, core_use.low, core_use.high),
                or_dash(capacity.as_ref().map(|capacity| shown_rate(capacity.value))),
                or_dash(ring.as_ref().map(|ring| format!("{:.0}", ring.slots.value))),
                or_dash(ring.as_ref().and_then(|ring| Some(shown_size(ring.bytes.as_ref()?.value as u64)))),
            )?;
            let estimates = [Some(core_use), capacity.as_ref(), ring.as_ref().map(|ring| &ring.slots)];
            let doubts: BTreeSet<&String> = estimates.into_iter().flatten().flat_map(|it| &it.doubts).collect();
            doubts.iter().try_for_each(|doubt| writeln!(f, "    doubt: {doubt}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_says_what_each_receiver_needs() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benchmarks/record/2026-11-23-bench");
        let advice = Advice::read(&folder, 148e3).unwrap();
        let text = advice.to_string();
        assert!(text.contains("core use at 148 kpps") && text.contains("hybrid 1ms"), "{text}");
        assert_eq!(advice.to_json()["receivers"].as_array().unwrap().len(), advice.rows.len());
        assert!(Advice::read(&folder, f64::NAN).is_err());
    }
}
