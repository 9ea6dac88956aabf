//! The same place with Suricata: two of them behind the splitter, their alerts by syslog(3), joined by when they arrive.
//!
//! Owns the socket that stands for the syslog server.

use std::collections::BTreeMap;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use ringtap::{Error, Result, clock};
use ringtap_testbed::peer::{PeerKind, PeerOptions, PeerReport, RunningPeer};
use ringtap_testbed::{Folder, Testbed};
use serde_json::Value;

use super::chain::{Setting, Splitter, Times, write};
use super::plant::{self, pair_of, stage_of};
use super::wires::WireLosses;

/// Its packet ring: half a second at 148,000 packets/s, as in the study `sensor`.
const RING_BYTES: u64 = 128 << 20;

/// At work.
pub(crate) struct Suricatas {
    splitter: Splitter,
    peers: Vec<RunningPeer>,
    log: Log,
    folder: Folder,
}

/// What they leave.
pub(crate) struct Left {
    pub splitter: Value,
    pub times: Times,
    /// When the line of each stage arrived.
    pub arrived: Times,
    pub peers: Vec<PeerReport>,
    pub wires: WireLosses,
}

impl Suricatas {
    pub(crate) fn start(testbed: &Testbed, setting: &Setting<'_>) -> Result<Self> {
        let folder = Folder::new(testbed)?;
        let outputs = testbed.add_outputs(2)?;
        let rules = write(&folder, "staged.rules", &plant::sensor_rules())?;
        let log = Log::start(&folder)?;
        let start = |interface: &String| {
            let options = PeerOptions {
                buffer_bytes: Some(RING_BYTES),
                rules: Some(rules.clone().into()),
                interface: Some(interface.clone()),
                syslog: Some(folder.inside().join(Log::NAME)),
                ..PeerOptions::default()
            };
            RunningPeer::start(testbed, PeerKind::SuricataAfPacket, &options)
        };
        let peers = outputs.iter().map(|output| start(&output.sink)).collect::<Result<Vec<_>>>()?;
        let splitter = Splitter::start(testbed, setting, &folder, outputs)?;
        Ok(Self { splitter, peers, log, folder })
    }

    pub(crate) fn finish(mut self, testbed: &Testbed) -> Result<Left> {
        for peer in &mut self.peers {
            peer.settle()?;
        }
        let (times, splitter, wires) = self.splitter.finish(testbed, &self.folder)?;
        let peers = self.peers.into_iter().map(|peer| peer.finish(0)).collect::<Result<Vec<_>>>()?;
        Ok(Left { splitter, times, arrived: self.log.finish(), peers, wires })
    }
}

/// A syslog server that notes when each alert arrives.
struct Log {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Times>,
}

impl Log {
    const NAME: &'static str = "log";

    fn start(folder: &Folder) -> Result<Self> {
        let failed = |error| Error::os("make the socket of", "a syslog server", &error);
        let socket = UnixDatagram::bind(folder.outside().join(Self::NAME)).map_err(failed)?;
        socket.set_read_timeout(Some(Duration::from_millis(20))).map_err(failed)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let listen = move || {
            let (mut line, mut arrived) = ([0; 4096], BTreeMap::new());
            while !stopped.load(Ordering::Relaxed) {
                if let Ok(len) = socket.recv(&mut line) {
                    let now_ns = clock::realtime_ns();
                    let which = str::from_utf8(&line[..len]).ok().and_then(seen_in);
                    which.map(|which| arrived.entry(which).or_insert(now_ns));
                }
            }
            arrived
        };
        let builder = std::thread::Builder::new().name("staged-log".into());
        let thread = builder.spawn(listen).map_err(|error| Error::os("start thread", "staged-log", &error))?;
        Ok(Self { stop, thread })
    }

    fn finish(self) -> Times {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Pair and stage of a line such as `… suricata[1]: [1:9000001:1] staged scan … {UDP} 10.0.0.1:30000 -> 198.18.0.2:7001`.
fn seen_in(line: &str) -> Option<(u32, usize)> {
    let sid = line.split("[1:").nth(1)?.split(':').next()?.parse().ok()?;
    let address = line.split("} ").nth(1)?.split(':').next()?.parse().ok()?;
    Some((pair_of(address)?, stage_of(sid)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_syslog() {
        let line = "<173>Nov 24 15:00:00 suricata[7]: [1:9000002:1] staged exploit [Classification: (null)] [Priority: 3] \
                    {UDP} 10.0.1.2:30000 -> 198.18.0.2:7002\0";
        assert_eq!(seen_in(line), Some((258, 1)));
        assert_eq!(seen_in("<13>Nov 24 15:00:00 cron[7]: (root) CMD {x} [1:2"), None);
    }
}
