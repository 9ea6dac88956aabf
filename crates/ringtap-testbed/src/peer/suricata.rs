//! Suricata as a peer, on AF_PACKET and on AF_XDP, with one worker.
//!
//! Owns its configuration and the meaning of its counters. Its packets are written to memory when they are to be numbered.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use ringtap::{Error, Result};

use super::program::{Program, ProgramSpec};
use super::recording::judge;
use super::{PeerKind, PeerOptions, PeerReport, Receiving};
use crate::folder::{Folder, MEMORY};
use crate::testbed::Testbed;

const KNOWN: ProgramSpec = ProgramSpec { program: "suricata", package: "suricata", line_buffered: false };
/// Before it, there was no AF_XDP, and other names of counters.
const LEAST_VERSION: u32 = 7;
/// What it makes of a TPACKET_V3 frame at an MTU of 1500; its ring size is in such frames.
const FRAME_BYTES: u64 = 1616;
/// Its AF_XDP memory: twice 2048 descriptors of 4096 bytes; neither can be set.
const UMEM_BYTES: u64 = 2 * 2048 * 4096;
/// Compiling a large set of rules takes long.
const START_LIMIT: Duration = Duration::from_secs(120);
/// Beginning of the names of the files it writes packets to.
const PACKETS: &str = "packets.pcap";

pub(super) struct Suricata {
    kind: PeerKind,
    program: Program,
    options: PeerOptions,
    folder: Folder,
    note: Vec<String>,
}

pub(super) fn version() -> Result<String> {
    let line = KNOWN.says(&["-V"], "Suricata version ")?;
    let version = line.split_whitespace().nth(2).unwrap_or_default();
    let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
    if major.is_none_or(|major| major < LEAST_VERSION) {
        return Err(Error::failed("use", KNOWN.program, format!("{line} is older than {LEAST_VERSION}"))
            .way_out("scripts/setup test takes it from the backports of an older release"));
    }
    Ok(format!("Suricata {version}"))
}

pub(super) fn start(testbed: &Testbed, kind: PeerKind, options: &PeerOptions) -> Result<Suricata> {
    version()?;
    let interface = options.interface.as_deref().unwrap_or(testbed.receiver().interface());
    let folder = Folder::new(testbed)?;
    let write = |name: &str, text: &str| -> Result<PathBuf> {
        let path = folder.inside().join(name);
        fs::write(folder.outside().join(name), text)
            .map_err(|error| Error::os("write", path.display().to_string(), &error))?;
        Ok(path)
    };
    let yaml = write("suricata.yaml", &configuration(interface, folder.inside(), options))?;
    let rules = match &options.rules {
        Some(rules) => findable(testbed, rules)?,
        None => write("none.rules", "")?,
    };
    let mut note = Vec::new();
    let (capture, runmode) = match kind {
        // With "workers" it takes no more threads than the device's ethtool says it has receive queues (ETHTOOL_GRXRINGS),
        // and a veth says nothing. "single" does the same work on its one thread.
        PeerKind::SuricataAfXdp => {
            note.push("polls busily on AF_XDP, its default, and so uses its core whole".to_owned());
            if options.buffer_bytes.is_some() {
                note.push("the size of its AF_XDP rings can't be set".to_owned());
            }
            (format!("--af-xdp={interface}"), "single")
        }
        _ => (format!("--af-packet={interface}"), "workers"),
    };
    if options.numbered {
        note.push("writes whole packets to memory".to_owned());
    }
    let mut arguments: Vec<OsString> =
        ["-v", "--runmode", runmode, "-k", "none", &capture].map(OsString::from).to_vec();
    for (flag, path) in [("-c", yaml.as_path()), ("-S", rules.as_path()), ("-l", folder.inside())] {
        arguments.extend([flag.into(), path.into()]);
    }
    let around = options.syslog.as_deref().map(|socket| with_syslog(folder.inside(), socket)).unwrap_or_default();
    let mut program = Program::start(testbed, KNOWN, &around, &arguments, |_| {})?;
    program.wait_for("Engine started", START_LIMIT)?;
    // It goes on without rules that it can't read.
    note.extend(program.said().lines().filter(|line| line.contains("rules successfully loaded")).map(str::to_owned));
    Ok(Suricata { kind, program, options: options.clone(), folder, note })
}

/// Runs a program in a mount namespace of its own, where /dev has nothing but what it needs and `socket` as /dev/log, which is where
/// syslog(3) sends.
fn with_syslog(folder: &Path, socket: &Path) -> Vec<OsString> {
    const SCRIPT: &str = r#"set -e
mkdir -p "$1/dev/shm"; cd "$1/dev"; mount --bind /dev/shm shm
for name in null zero full random urandom; do : >"$name"; mount --bind "/dev/$name" "$name"; done
: >log; mount --bind "$2" log; cd /; mount --rbind "$1/dev" /dev; shift 2; exec "$@""#;
    let mut around: Vec<OsString> = ["unshare", "-m", "sh", "-c", SCRIPT, "sh"].map(OsString::from).to_vec();
    around.extend([folder.into(), socket.into()]);
    around
}

/// Where Suricata finds the rules. They are not copied, since rules may name files beside theirs.
fn findable(testbed: &Testbed, rules: &Path) -> Result<PathBuf> {
    let object = || rules.display().to_string();
    let is_elsewhere = || fs::canonicalize(rules).is_ok_and(|path| path.starts_with(MEMORY));
    match testbed.receiver().run(|| fs::canonicalize(rules))? {
        Ok(path) => Ok(path),
        Err(_) if is_elsewhere() => {
            Err(Error::usage("read rules", object(), format!("{MEMORY} is another one in the testbed"))
                .way_out("keep them elsewhere"))
        }
        Err(error) => Err(Error::os("read rules", object(), &error)),
    }
}

/// As small as it may be: one thread, counters, no other output. Offloads are left alone: without GRO a veth has no NAPI.
fn configuration(interface: &str, folder: &Path, options: &PeerOptions) -> String {
    let packets = if options.numbered {
        format!(
            "  - pcap-log: {{ enabled: yes, filename: {PACKETS}, mode: normal, limit: 64gb, use-stream-depth: no, \
             honor-pass-rules: no }}\n"
        )
    } else {
        String::new()
    };
    // What an operator has of it, as lines in memory; without rules there are none.
    let alarms = if options.syslog.is_some() {
        "  - syslog: { enabled: yes, facility: local5 }\n"
    } else if options.rules.is_some() {
        "  - eve-log: { enabled: yes, filetype: regular, filename: eve.json, types: [alert] }\n"
    } else {
        ""
    };
    let variables = match &options.home_net {
        None => "  address-groups: { HOME_NET: any, EXTERNAL_NET: any, HTTP_SERVERS: any, SMTP_SERVERS: any, \
                 SQL_SERVERS: any, DNS_SERVERS: any, TELNET_SERVERS: any }\n  port-groups: { HTTP_PORTS: any, \
                 SSH_PORTS: 22, SHELLCODE_PORTS: any, ORACLE_PORTS: 1521, FTP_PORTS: 21 }\n"
            .to_owned(),
        Some(home) => stock_variables(home),
    };
    let ring = options.buffer_bytes.map(|bytes| format!(", ring-size: {}", (bytes / FRAME_BYTES).max(1)));
    format!(
        "%YAML 1.1\n---\n\
         vars:\n{variables}\
         default-log-dir: {}\n\
         stats: {{ enabled: yes, interval: 8 }}\n\
         unix-command: {{ enabled: no }}\n\
         capture: {{ disable-offloading: false }}\n\
         outputs:\n  - stats: {{ enabled: yes, filename: stats.log, append: no, totals: yes, threads: no }}\n{alarms}{packets}\
         af-packet:\n  - {{ interface: {interface}, threads: 1, cluster-id: 99, cluster-type: cluster_flow, use-mmap: yes, \
         tpacket-v3: yes{} }}\n\
         af-xdp:\n  - {{ interface: {interface}, threads: 1 }}\n",
        folder.display(),
        ring.unwrap_or_default(),
    )
}

/// The variables as Suricata's packaged configuration has them, but for HOME_NET.
fn stock_variables(home: &str) -> String {
    let servers = [
        "HTTP_SERVERS",
        "SMTP_SERVERS",
        "SQL_SERVERS",
        "DNS_SERVERS",
        "TELNET_SERVERS",
        "DC_SERVERS",
        "DNP3_SERVER",
        "DNP3_CLIENT",
        "MODBUS_CLIENT",
        "MODBUS_SERVER",
        "ENIP_CLIENT",
        "ENIP_SERVER",
    ];
    let servers: String = servers.iter().map(|name| format!("    {name}: \"$HOME_NET\"\n")).collect();
    format!(
        "  address-groups:\n    HOME_NET: \"{home}\"\n    EXTERNAL_NET: \"!$HOME_NET\"\n{servers}    AIM_SERVERS: \
         \"$EXTERNAL_NET\"\n  port-groups: {{ HTTP_PORTS: \"80\", SHELLCODE_PORTS: \"!80\", ORACLE_PORTS: 1521, SSH_PORTS: \
         22, DNP3_PORTS: 20000, MODBUS_PORTS: 502, FILE_DATA_PORTS: \"[$HTTP_PORTS,110,143]\", FTP_PORTS: 21, \
         GENEVE_PORTS: 6081, VXLAN_PORTS: 4789, TEREDO_PORTS: 3544 }}\n"
    )
}

/// The last value of each counter; one that is 0 is not written.
fn counters(log: &str) -> HashMap<&str, u64> {
    log.lines()
        .filter_map(|line| {
            let mut cells = line.split('|').map(str::trim);
            Some((cells.next()?, cells.nth(1)?.parse().ok()?))
        })
        .collect()
}

impl Receiving for Suricata {
    fn received(&mut self) -> Result<Option<u64>> {
        self.program.check_alive("ask")?;
        Ok(None)
    }

    fn settle(&mut self) -> Result<()> {
        match self.kind {
            // It spins: its ring is empty long before.
            PeerKind::SuricataAfXdp => thread::sleep(Duration::from_millis(500)),
            _ => self.program.rest(Duration::from_millis(200))?,
        }
        self.program.check_alive("wait for")
    }

    fn finish(mut self: Box<Self>, sent: u64) -> Result<PeerReport> {
        let umem = if self.kind == PeerKind::SuricataAfXdp { UMEM_BYTES } else { 0 };
        let memory_bytes = self.program.ring_bytes().map(|rings| rings + umem);
        let resident_bytes = self.program.resident_bytes();
        self.program.interrupt()?;
        let path = self.folder.outside().join("stats.log");
        let log = fs::read_to_string(&path).map_err(|error| Error::os("read", path.display().to_string(), &error))?;
        let counters = counters(&log);
        if counters.is_empty() {
            return Err(Error::failed("read", path.display().to_string(), "no counters in it"));
        }
        let count = |name: &str| counters.get(name).copied().unwrap_or(0);
        let dropped = count("capture.kernel_drops");
        let came = match self.kind {
            PeerKind::SuricataAfXdp => count("capture.afxdp_packets") + dropped,
            // The kernel counts what it dropped among a packet socket's packets (PACKET_STATISTICS in packet(7)).
            _ => count("capture.kernel_packets"),
        };
        let sequence = if self.options.numbered {
            let files = files_of_packets(&self.folder.outside())?;
            Some(judge(&files, self.options.expected, sent, &mut self.note)?)
        } else {
            None
        };
        Ok(PeerReport {
            received: count("decoder.pkts"),
            sequence,
            claims_received: Some(came),
            claims_dropped: Some(dropped),
            memory_bytes,
            alarms: self.options.rules.as_ref().map(|_| count("detect.alert")),
            resident_bytes,
            note: self.note,
            ..PeerReport::default()
        })
    }
}

/// The files it wrote packets to; their names end with the time they were begun.
fn files_of_packets(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = |error| Error::os("list", folder.display().to_string(), &error);
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_name().to_string_lossy().starts_with(PACKETS) {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_counters_hold() {
        let log = "Date: 11/21/2026 -- 23:42:15 (uptime: 0d, 00h 00m 15s)\n---\n\
                   Counter                                       | TM Name                   | Value\n\
                   capture.kernel_packets                        | Total                     | 12\n\
                   ---\ncapture.kernel_packets                   | Total                     | 4010\n";
        let counters = counters(log);
        assert_eq!((counters.len(), counters["capture.kernel_packets"]), (1, 4010));
    }
}
