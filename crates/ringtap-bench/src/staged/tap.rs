//! Alarms on their way into the correlator, with the kernel's time of each, and how far the sensors' heartbeats say they are.
//!
//! Owns the thread that listens beside the correlator. It takes nothing from it, and believes what the sensors' keys prove.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use ringtap::source::packet::{Fanout, PacketRingConfig, PacketSource};
use ringtap::{Error, Result, Source, netlink};
use ringtap_datagram::datagram::Sealed;
use ringtap_datagram::{Key, Message};
use ringtap_testbed::Host;

use super::plant::{STAGES, pair_of, stage_of};

/// Ethernet, IPv4 without options, UDP.
const PAYLOAD: usize = 42;

/// One alarm of a planted packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TappedAlarm {
    pub pair: u32,
    pub stage: usize,
    /// Arrival of the packet at the sensor, nanoseconds since 1970, as the others.
    pub time_ns: u64,
    /// The alarm was built.
    pub built_ns: u64,
    /// It arrived at the correlator's interface.
    pub arrived_ns: u64,
}

/// How far each sensor says it is, nanoseconds since 1970.
type Horizons = Arc<[AtomicU64; STAGES.len()]>;

/// At work.
pub(crate) struct Tap {
    stop: Arc<AtomicBool>,
    horizons: Horizons,
    thread: JoinHandle<Vec<TappedAlarm>>,
}

impl Tap {
    /// Listens at the correlator's end of the alarms' wire.
    pub(crate) fn start(host: &Host, interface: &str, key: Key) -> Result<Self> {
        let link = host.run(|| netlink::link_by_name(interface))?;
        let config = PacketRingConfig {
            ifindex: link.map_err(|error| Error::os("listen at", interface, &error))?.index,
            interface: interface.to_owned(),
            ring_slots: 1 << 15,
            transmit_slots: 0,
            frame_size: 512,
            fetch_oversize: false,
            incoming_only: true,
            filter: None,
        };
        let (mut source, _, _) = host.run(|| PacketSource::open(&config, Fanout::None))??;
        let stop = Arc::new(AtomicBool::new(false));
        let horizons = Horizons::default();
        let (stopped, told) = (Arc::clone(&stop), Arc::clone(&horizons));
        let listen = move || {
            let mut alarms = Vec::new();
            loop {
                let is_last = stopped.load(Ordering::Relaxed);
                let burst = source.receive();
                alarms.extend(burst.iter().filter_map(|packet| alarm(packet.data, packet.arrival_ns, &key, &told)));
                if burst.is_empty() {
                    if is_last {
                        return alarms;
                    }
                    drop(burst);
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        };
        let builder = std::thread::Builder::new().name("staged-tap".into());
        let thread = builder.spawn(listen).map_err(|error| Error::os("start thread", "staged-tap", &error))?;
        Ok(Self { stop, horizons, thread })
    }

    /// The time up to which no alarm will follow of any sensor, as they have promised; nanoseconds since 1970.
    pub(crate) fn certain_ns(&self) -> u64 {
        self.horizons.iter().map(|horizon| horizon.load(Ordering::Relaxed)).min().unwrap_or(0)
    }

    /// What came.
    pub(crate) fn finish(self) -> Vec<TappedAlarm> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn alarm(frame: &[u8], arrived_ns: u64, key: &Key, horizons: &Horizons) -> Option<TappedAlarm> {
    let len = usize::from(u16::from_be_bytes(frame.get(PAYLOAD - 4..PAYLOAD - 2)?.try_into().ok()?)).checked_sub(8)?;
    let sealed = Sealed::parse(frame.get(PAYLOAD..PAYLOAD + len)?).ok()?;
    match sealed.open(key).ok()? {
        Message::Alert(alert) => Some(TappedAlarm {
            pair: pair_of(alert.ends?.source)?,
            stage: stage_of(alert.rule.sid.into())?,
            time_ns: alert.time_ns,
            built_ns: alert.built_ns,
            arrived_ns,
        }),
        Message::Heartbeat(beat) => {
            let sensor = STAGES.iter().position(|stage| stage.sensor == beat.origin.sensor.as_str())?;
            horizons[sensor].fetch_max(beat.horizon_ns, Ordering::Relaxed);
            None
        }
    }
}
