//! Peers that capture to a file: tcpdump, dumpcap and netsniff-ng.
//!
//! Owns their arguments and the meaning of what they say at their end. They write to /dev/null, or to memory when their
//! packets are to be numbered.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use ringtap::{Error, Result};

use super::program::{Program, ProgramSpec};
use super::recording::judge;
use super::{PeerKind, PeerOptions, PeerReport, Receiving, SNAPLEN};
use crate::folder::Folder;
use crate::testbed::Testbed;

/// How long one may take to be ready: on a fast interface netsniff-ng wants a ring of 2.4 GB, and a guest whose host has yet to
/// give it that memory needed more than ten seconds for it.
const READY: Duration = Duration::from_secs(60);
/// What they write, when numbered.
const FILE: &str = "packets.pcap";

/// Which of the three.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tool {
    Tcpdump,
    Dumpcap,
    NetsniffNg,
}

/// One of them at work.
pub(super) struct CaptureProgram {
    tool: Tool,
    program: Program,
    expected: u64,
    recording: Option<Folder>,
    note: Vec<String>,
}

/// What they say at their end; `received` includes `dropped`, though not all of them print it so.
#[derive(Debug, PartialEq, Eq)]
struct FinalWords {
    handled: u64,
    received: u64,
    dropped: u64,
}

impl Tool {
    fn of(kind: PeerKind) -> Self {
        match kind {
            PeerKind::Dumpcap => Self::Dumpcap,
            PeerKind::NetsniffNg => Self::NetsniffNg,
            _ => Self::Tcpdump,
        }
    }

    fn spec(self) -> ProgramSpec {
        let (program, package) = match self {
            Self::Tcpdump => ("tcpdump", "tcpdump"),
            Self::Dumpcap => ("dumpcap", "wireshark-common"),
            Self::NetsniffNg => ("netsniff-ng", "netsniff-ng"),
        };
        ProgramSpec { program, package, line_buffered: false }
    }

    /// What it says once it captures. netsniff-ng says it when its ring is in place.
    fn ready(self) -> &'static str {
        match self {
            Self::Tcpdump => "listening on",
            Self::Dumpcap => "File: ",
            Self::NetsniffNg => "Running!",
        }
    }

    fn arguments(self, interface: &str, file: PathBuf, options: &PeerOptions) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = match self {
            // -Z: it stays root, as it may not open the file otherwise.
            Self::Tcpdump => vec!["-n".into(), "-Z".into(), "root".into(), "-i".into(), interface.into()],
            // -P: pcap, as the others write.
            Self::Dumpcap => vec!["-q".into(), "-P".into(), "-i".into(), interface.into()],
            // -A and -Q: it leaves the machine's socket limits and interrupts alone.
            Self::NetsniffNg => vec!["-s".into(), "-A".into(), "-Q".into(), "--in".into(), interface.into()],
        };
        if options.numbered && self != Self::NetsniffNg {
            arguments.extend(["-s".into(), SNAPLEN.to_string().into()]);
        }
        if let Some(bytes) = options.buffer_bytes {
            let (flag, size) = match self {
                Self::Tcpdump => ("-B", bytes.div_ceil(1 << 10).to_string()),
                Self::Dumpcap => ("-B", bytes.div_ceil(1 << 20).to_string()),
                Self::NetsniffNg => ("-S", format!("{}KiB", bytes.div_ceil(1 << 10))),
            };
            arguments.extend([flag.into(), size.into()]);
        }
        arguments.extend([if self == Self::NetsniffNg { "--out" } else { "-w" }.into(), file.into()]);
        arguments
    }

    fn read(self, said: &str) -> Option<FinalWords> {
        let before = |what: &str| said.lines().find_map(|line| line.split_once(what)?.0.trim().parse::<u64>().ok());
        Some(match self {
            Self::Tcpdump => FinalWords {
                handled: before(" packets captured").or_else(|| before(" packet captured"))?,
                received: before(" packets received by filter").or_else(|| before(" packet received by filter"))?,
                dropped: before(" packets dropped by kernel").or_else(|| before(" packet dropped by kernel"))?,
            },
            Self::Dumpcap => {
                let after =
                    |what: &str| said.lines().find_map(|line| line.split_once(what).map(|(_, rest)| rest.trim()));
                // "Packets received/dropped on interface 'eth0': 120/3 (pcap:3/…"
                let (received, rest) =
                    after("Packets received/dropped on interface")?.split_once("': ")?.1.split_once('/')?;
                let dropped: u64 = rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
                FinalWords {
                    handled: after("Packets captured:")?.parse().ok()?,
                    received: received.parse::<u64>().ok()? + dropped,
                    dropped,
                }
            }
            Self::NetsniffNg => {
                let dropped = before("packets failed filter")?;
                FinalWords {
                    handled: before("packets incoming")?,
                    received: before("packets passed filter")? + dropped,
                    dropped,
                }
            }
        })
    }
}

pub(super) fn version(kind: PeerKind) -> Result<String> {
    let tool = Tool::of(kind);
    tool.spec().says(&["--version"], if tool == Tool::Dumpcap { "Dumpcap" } else { tool.spec().program })
}

pub(super) fn start(testbed: &Testbed, kind: PeerKind, options: &PeerOptions) -> Result<CaptureProgram> {
    let tool = Tool::of(kind);
    let recording = if options.numbered { Some(Folder::new(testbed)?) } else { None };
    let file = recording.as_ref().map_or_else(|| PathBuf::from("/dev/null"), |folder| folder.inside().join(FILE));
    let arguments = tool.arguments(testbed.receiver().interface(), file, options);
    let mut program = Program::start(testbed, tool.spec(), &[], &arguments, |_| {})?;
    program.wait_for(tool.ready(), READY)?;
    let mut note = Vec::new();
    if options.numbered {
        note.push(match tool {
            Tool::NetsniffNg => "writes whole packets to memory".to_owned(),
            _ => format!("writes the first {SNAPLEN} bytes of each packet to memory"),
        });
    }
    Ok(CaptureProgram { tool, program, expected: options.expected, recording, note })
}

impl Receiving for CaptureProgram {
    fn received(&mut self) -> Result<Option<u64>> {
        self.program.check_alive("ask")?;
        Ok(None)
    }

    fn settle(&mut self) -> Result<()> {
        // tcpdump's and netsniff-ng's ring hands a block that is not full over up to a second late.
        self.program.rest(Duration::from_millis(1200))
    }

    fn finish(mut self: Box<Self>, sent: u64) -> Result<PeerReport> {
        let memory_bytes = self.program.ring_bytes();
        let said = self.program.interrupt()?;
        let words = self.tool.read(&said).ok_or_else(|| {
            Error::failed("read what is said by", self.tool.spec().program, format!("no counts in {said:?}"))
        })?;
        let sequence = match self.recording {
            Some(folder) => Some(judge(&[folder.outside().join(FILE)], self.expected, sent, &mut self.note)?),
            None => None,
        };
        Ok(PeerReport {
            received: words.handled,
            sequence,
            claims_received: Some(words.received),
            claims_dropped: Some(words.dropped),
            memory_bytes,
            note: self.note,
            ..PeerReport::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn final_words_are_read() {
        let words = |handled, received, dropped| Some(FinalWords { handled, received, dropped });
        let tcpdump = "tcpdump: listening on rcv0, link-type EN10MB (Ethernet), snapshot length 262144 bytes\n\
                       7 packets captured\n10 packets received by filter\n3 packets dropped by kernel\n";
        assert_eq!(Tool::Tcpdump.read(tcpdump), words(7, 10, 3));
        assert_eq!(
            Tool::Tcpdump.read("1 packet captured\n1 packet received by filter\n0 packets dropped by kernel\n"),
            words(1, 1, 0)
        );
        let dumpcap = "Capturing on 'rcv0'\nFile: /dev/null\nPackets captured: 40\n\
                       Packets received/dropped on interface 'rcv0': 42/5 (pcap:5/dumpcap:0/flushed:0/ps_ifdrop:0) (89.4%)\n";
        assert_eq!(Tool::Dumpcap.read(dumpcap), words(40, 47, 5));
        let netsniff = "Running! Hang up with ^C!\n\n        4002  packets incoming (0 unread on exit)\n        \
                        3990  packets passed filter\n          12  packets failed filter (out of space)\n";
        assert_eq!(Tool::NetsniffNg.read(netsniff), words(4002, 4002, 12));
        for tool in [Tool::Tcpdump, Tool::Dumpcap, Tool::NetsniffNg] {
            assert_eq!(tool.read("no such device"), None);
        }
    }
}
