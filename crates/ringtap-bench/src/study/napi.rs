//! The kernel's budget and weight against throughput, loss, delay and core use, and the round trip of pings (\[3] §6).
//!
//! Topology nic with receive packet steering: all that softirqs do with a packet is done on the receiver's core, as a card's
//! interrupt would have it. Who reads sockets competes with them there.

use std::rc::Rc;

use ringtap::Result;
use ringtap_testbed::Topology;

use super::named;
use crate::bench::Bench;
use crate::book::Finding;
use crate::run::Request;
use crate::softirq::{self, Pings, Setting};

pub(super) fn study(bench: &mut Bench<'_>) -> Result<()> {
    if let Some(cause) = softirq::absent() {
        bench.miss("napi".to_owned(), cause);
        return Ok(());
    }
    let (scale, definitions) = (bench.scale.clone(), Rc::clone(&bench.definitions));
    let readers = named(bench, &definitions.napi.receivers);
    let ping = softirq::find_ping();
    if let Err(error) = &ping {
        bench.miss("round trips (nic)".to_owned(), error.to_string());
    }
    let mut round_trips = vec![Vec::new(); Setting::ALL.len() * Pings::ALL.len()];
    for round in 0..scale.rounds {
        for (at, setting) in Setting::ALL.into_iter().enumerate() {
            for &pps in &definitions.napi.rates {
                for receiver in &readers {
                    // A setting lasts for one run, so that a failure in between leaves none behind.
                    let benches = Rc::clone(&bench.benches);
                    let _in_force = setting.put(benches.of(Topology::Nic))?;
                    let request = Request::new("napi", receiver, Topology::Nic, pps, (pps * scale.seconds) as u64);
                    bench.run(&Request { round, beside: Some(setting.name()), ..request })?;
                }
            }
            if ping.is_ok() && !bench.is_stopped() {
                for (of, pings) in Pings::ALL.into_iter().enumerate() {
                    let benches = Rc::clone(&bench.benches);
                    let _in_force = setting.put(benches.of(Topology::Nic))?;
                    match pings.round_trip_us(benches.of(Topology::Nic)) {
                        Ok(us) => round_trips[at * Pings::ALL.len() + of].push(us),
                        Err(error) => {
                            bench.miss(format!("pings, {}, {}", pings.name, setting.name()), error.to_string())
                        }
                    }
                }
            }
        }
    }
    for (at, mut values) in round_trips.into_iter().enumerate().filter(|(_, values)| !values.is_empty()) {
        let (setting, pings) = (Setting::ALL[at / Pings::ALL.len()], Pings::ALL[at % Pings::ALL.len()]);
        let shown = values.clone();
        values.sort_by(f64::total_cmp);
        bench.find(Finding {
            study: "napi".to_owned(),
            receiver: format!("ping, {}", setting.name()),
            topology: Topology::Nic,
            quantity: format!("round_trip_us ({})", pings.name),
            value: values[values.len() / 2],
            values: shown,
            at_least: false,
            note: "mean of each run; the kernel answers on the receiver's core".to_owned(),
        })?;
    }
    Ok(())
}
