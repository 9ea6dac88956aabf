//! libpcap beside Ringtap in the demo, with its defaults, as tcpdump runs it.
//!
//! Owns its loop; the plain UDP socket is the testbed's own peer.

use std::sync::atomic::Ordering;

use ringtap::sys::clock;
use ringtap::{Error, Result};
use ringtap_testbed::Testbed;
use ringtap_testbed::peer::{LOOK, Peer};
use ringtap_testbed::trial::TruthHandler;

/// Starts libpcap's own loop; it says what pcap_stats(3) says.
pub fn pcap(testbed: &Testbed, expected: u64) -> Result<Peer> {
    let interface = testbed.receiver().interface().to_owned();
    let failed = |error: pcap::Error| Error::failed("capture with libpcap on", interface.clone(), error);
    let mut capture = testbed.receiver().run(|| {
        let inactive = pcap::Capture::from_device(interface.as_str()).map_err(&failed)?;
        inactive.snaplen(262_144).promisc(true).timeout(LOOK.as_millis() as i32).open().map_err(&failed)
    })??;
    // With TPACKET_V3 the kernel hands no empty block over, so libpcap sleeps past its own timeout when nothing comes.
    let wake = capture.breakloop_handle();
    let peer = Peer::start(testbed, "libpcap", move |stop, received| {
        let mut handler = TruthHandler::new(expected);
        while !stop.load(Ordering::Acquire) {
            match capture.next_packet() {
                Ok(packet) => {
                    handler.see(packet.data, clock::monotonic_ns);
                    received.fetch_add(1, Ordering::Relaxed);
                }
                Err(pcap::Error::TimeoutExpired | pcap::Error::NoMorePackets) => {}
                Err(error) => return Err(Error::failed("capture with", "libpcap", error)),
            }
        }
        let says = capture.stats().ok().map(|stat| u64::from(stat.dropped) + u64::from(stat.if_dropped));
        Ok((handler, says))
    })?;
    Ok(peer.woken_by(move || wake.breakloop()))
}
