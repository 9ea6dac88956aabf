//! Counts the packets of an interface for a while, and says where each of them went.
//!
//!     cargo run --example count -- INTERFACE [SECONDS]

use std::process::ExitCode;
use std::time::Duration;

use ringtap::{Handler, Hybrid, Ledger, Outbox, Packet, Policy, Receiver, ReceiverConfig};

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
    // Below 8,300 packets/s each packet wakes the thread, above that a timer does, every 0.5 ms. What suits a host is measured
    // there: `ringtap::calibrate`.
    let policy = Policy::Hybrid(Hybrid::new(8_300.0, 500_000));
    let receiver = Receiver::open(ReceiverConfig::new(interface, policy))?;
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
