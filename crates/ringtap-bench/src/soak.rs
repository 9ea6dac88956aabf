//! A very long run: no packet lost, or the exact place of each lost burst (\[1] §6: 10⁹ packets).

use ringtap::{Error, Result};
use ringtap_testbed::Topology;

use crate::bench::Bench;
use crate::catalogue::Receiver;
use crate::run::Request;

/// Sends `count` packets of 64 bytes at `pps` to the hybrid with a bound of 1 ms, topology nic, and keeps the sample.
/// `ring_slots`: another ring than the planned one, for machines that are paused longer than planned for.
///
/// # Errors
/// The receiver can't be run.
pub fn soak(bench: &mut Bench<'_>, count: u64, pps: f64, ring_slots: Option<u32>) -> Result<()> {
    let receiver: Receiver =
        bench.receivers.iter().find(|receiver| receiver.name == "hybrid 1ms").cloned().ok_or_else(|| {
            Error::usage("soak", "hybrid 1ms", "it is not among the receivers").way_out("leave --receivers out")
        })?;
    bench.say(format!("soak: {count} packets at {pps:.0} packets/s, {:.0} s", count as f64 / pps));
    let request = Request { ring_slots, ..Request::new("soak", &receiver, Topology::Nic, pps, count) };
    match bench.run(&request)? {
        Some(_) => Ok(()),
        None => Err(Error::failed("soak", &receiver.name, "it could not be run; the report says why")),
    }
}
