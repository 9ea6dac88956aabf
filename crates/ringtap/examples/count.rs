//! Counts the packets of an interface for a while, and says where each of them went.
//!
//!     cargo run --example count -- INTERFACE [SECONDS]

use std::process::ExitCode;
use std::time::Duration;

use ringtap::calibrate::{Calibration, Wishes};
use ringtap::{Handler, Ledger, Outbox, Packet, Receiver};

/// 99 of 100 packets are handled within this time of their arrival.
const MAX_LATENCY: Duration = Duration::from_millis(1);

/// Runs on the engine's thread, for each packet to its end: nothing here may block.
#[derive(Default)]
struct Count {
    packets: u64,
    bytes: u64,
}

impl Handler for Count {
    fn packet(&mut self, packet: &Packet<'_>, _outbox: &mut Outbox<'_>) {
        self.packets += 1;
        self.bytes += u64::from(packet.wire_len);
    }
}

fn count(interface: &str, time: Duration) -> ringtap::Result<(Count, Ledger)> {
    // What a wake-up costs here is measured at the first start, some four seconds. From that and the bound follow when a timer is
    // cheaper than interrupts, its period, and the ring.
    let cpu = ringtap::sched::allowed_cpus().last().copied().unwrap_or(0);
    let calibration = Calibration::load_or_measure(cpu, &mut |line| eprintln!("count: {line}"))?;
    let plan = calibration.plan(&Wishes { max_latency: MAX_LATENCY, ..Wishes::default() })?;
    let receiver = Receiver::open(plan.receiver(interface))?;
    // One engine, and so one handler, for each receive queue.
    let handlers = (0..receiver.source_count()).map(|_| Count::default()).collect();
    let running = receiver.start(handlers)?;
    for warning in running.warnings() {
        eprintln!("count: warning: {warning}");
    }
    // Until the time is over, or the interface is removed.
    running.stop_handle().wait(time);
    let outcome = running.finish()?;
    let mut all = Count::default();
    for engine in &outcome.engines {
        all.packets += engine.handler.packets;
        all.bytes += engine.handler.bytes;
    }
    Ok((all, outcome.ledger))
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let interface = arguments.next();
    let seconds = arguments.next().map_or(Ok(10), |text| text.parse());
    let (Some(interface), Ok(seconds), None) = (interface, seconds, arguments.next()) else {
        eprintln!("usage: count INTERFACE [SECONDS]");
        return ExitCode::from(2);
    };
    match count(&interface, Duration::from_secs(seconds)) {
        Ok((all, ledger)) => {
            println!("{} packets, {} bytes\n{ledger}", all.packets, all.bytes);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("count: {error}");
            ExitCode::FAILURE
        }
    }
}
