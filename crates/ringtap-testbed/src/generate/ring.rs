//! The generator without BPF: the same packets by the same schedule, made in user space and sent by a transmit ring.
//!
//! Owns the walk from schedule to packet on a thread of its own. Waiting and counting are `sender`'s. It needs no
//! more than CAP_NET_RAW and an old kernel, and reaches a fraction of the in-kernel generator's rates.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use ringtap::interface::Interface;
use ringtap::{Error, Result};

use super::GeneratorConfig;
use super::fill::FrameWriter;
use super::pace::Pace;
use super::report::GeneratorReport;
use super::sender::{Due, Manner, Sender, Shared};

/// Starts sending on `interface`; `config` was checked. `note` becomes the first warning of the report.
pub(super) fn start(
    config: &GeneratorConfig,
    interface: &Interface,
    note: Option<String>,
) -> Result<(Arc<Shared>, JoinHandle<Result<GeneratorReport>>)> {
    let manner = Manner {
        core: config.core,
        priority: config.priority,
        hold_ns: config.hold.as_nanos() as u64,
        max_late_ns: config.max_late.as_nanos() as u64,
    };
    let shared = Arc::new(Shared::default());
    let sender = Sender::open(interface, manner, shared.clone())?;
    let writer = FrameWriter::new(&config.frame, config.stream, config.first_seq);
    let pace = Pace::new(&config.profile, config.seed);
    let (limit, asked_pps) = (config.count.unwrap_or(u64::MAX), config.profile.mean_pps());
    let thread = thread::Builder::new()
        .name("generator".into())
        .spawn(move || {
            let mut report = run(sender, &writer, pace, limit, asked_pps);
            report.warnings.splice(0..0, note);
            Ok(report)
        })
        .map_err(|error| Error::os("start thread of", "the generator", &error))?;
    Ok((shared, thread))
}

fn run(mut sender: Sender, writer: &FrameWriter, mut pace: Pace, limit: u64, asked_pps: f64) -> GeneratorReport {
    let warnings = sender.place();
    let complete = loop {
        let sent = sender.sent();
        let Some(at_q16) = pace.due_q16().filter(|_| sent < limit) else { break true };
        let due = Due { at_q16, gap_q16: pace.gap_q16() };
        if !sender.send(due, |frame, now| writer.write(frame, sent, now)) {
            break false;
        }
        pace.advance();
    };
    sender.finish(asked_pps, complete, warnings)
}
