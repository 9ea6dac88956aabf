//! Records the packets of an interface into a file for a while; `.pcap`, `.pcapng`, and both with `.zst`.
//!
//!     cargo run --example record -- INTERFACE FILE [SECONDS]

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use ringtap::calibrate::{Calibration, Wishes};
use ringtap::record::{InterfaceInfo, RecordConfig, RecordSummary, Recorder, SpoolProducer};
use ringtap::source::StampClock;
use ringtap::{Cause, Error, Handler, Ledger, Outbox, Packet, Receiver};

/// Copies packets into a spool, from which the recorder's own thread writes: the engine's thread never waits for the disk.
struct Record {
    spool: SpoolProducer,
}

impl Handler for Record {
    fn packet(&mut self, packet: &Packet<'_>, _outbox: &mut Outbox<'_>) {
        // A packet that finds the spool full is counted there.
        self.spool.push(0, packet.arrival_ns, packet.wire_len, packet.data);
    }

    fn cycle_end(&mut self, _outbox: &mut Outbox<'_>) {
        self.spool.wake();
    }
}

fn record(interface: &str, file: &Path, time: Duration) -> ringtap::Result<(RecordSummary, Ledger)> {
    // Measured once, some four seconds: `count` tells more.
    let cpu = ringtap::sched::allowed_cpus().last().copied().unwrap_or(0);
    let calibration = Calibration::load_or_measure(cpu, &mut |line| eprintln!("record: {line}"))?;
    let receiver = Receiver::open(calibration.plan(&Wishes::default())?.receiver(interface))?;
    let Some(link_type) = receiver.link_type() else {
        return Err(Error::failed("record", interface, "capture files know no link type for its frames"));
    };
    let stamps = receiver.stamp_clock().unwrap_or(StampClock::Realtime);
    let info = InterfaceInfo { link_type, ..InterfaceInfo::ethernet(interface, stamps) };
    let config = RecordConfig { spools: receiver.source_count(), ..RecordConfig::new(file) };
    let (recorder, spools) = Recorder::start(config, vec![info])?;
    let running = receiver.start(spools.into_iter().map(|spool| Record { spool }).collect())?;
    for warning in running.warnings() {
        eprintln!("record: warning: {warning}");
    }
    running.stop_handle().wait(time);
    // First the engines, then the file: it has what was in the rings.
    let mut ledger = running.finish()?.ledger;
    let summary = recorder.finish(Vec::new())?;
    ledger.undeliver(Cause::SlowOutput, summary.lost.spool_packets);
    ledger.undeliver(Cause::OutputFailed, summary.lost.output_packets);
    Ok((summary, ledger))
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (interface, file) = (arguments.next(), arguments.next());
    let seconds = arguments.next().map_or(Ok(10), |text| text.parse());
    let (Some(interface), Some(file), Ok(seconds), None) = (interface, file, seconds, arguments.next()) else {
        eprintln!("usage: record INTERFACE FILE [SECONDS]");
        return ExitCode::from(2);
    };
    match record(&interface, Path::new(&file), Duration::from_secs(seconds)) {
        Ok((summary, ledger)) => {
            println!("{} packets in {file}, {} bytes\n{ledger}", summary.packets, summary.bytes);
            match summary.error {
                None => ExitCode::SUCCESS,
                Some(error) => {
                    eprintln!("record: {error}");
                    ExitCode::FAILURE
                }
            }
        }
        Err(error) => {
            eprintln!("record: {error}");
            ExitCode::FAILURE
        }
    }
}
