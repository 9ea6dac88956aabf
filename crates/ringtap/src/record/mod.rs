//! Writing captures to disk, off the engine's thread.
//!
//! A packet's way: engine thread → [`SpoolProducer::push`] → spool → writer thread → file. Owns what a recording is asked
//! to be and what it says of itself when it ends. The engine's thread never touches the disk: it copies into memory that
//! was set aside at the start, and counts what did not fit.
//!
//! A file is synced to the disk when it is finished: by rotation, by [`Recorder::reopen`], at the end, not in between.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::error::{Error, Result};
use crate::source::StampClock;

mod clients;
mod compress;
mod destination;
mod output;
pub mod pcap;
pub mod pcapng;
mod recent;
mod spool;
mod sync;
mod writer;

pub use clients::ClientCounts;
pub use destination::{file_name, utc};
pub use recent::{Recent, RecentCounts, RecentPacket};
pub use spool::SpoolProducer;
pub use writer::Recorder;

/// Bytes of one spool unless told otherwise: 0.7 s of 64-byte packets at 1 Mpps.
pub const DEFAULT_SPOOL_BYTES: usize = 64 << 20;

/// Fewest bytes of a spool: below, a single large packet of a wire might not fit. A merged one that is longer than the spool is lost
/// in it, and counted.
pub const LEAST_SPOOL_BYTES: usize = 64 << 10;

/// Most bytes of a packet that readers accept: libpcap and Wireshark take what has more for a damaged file.
pub const LONGEST_READABLE: usize = 262_144;

/// Levels of compression: the ones above take more memory to read than readers allow.
pub const LEVELS: RangeInclusive<i32> = 1..=19;

/// The level unless told otherwise.
pub const DEFAULT_LEVEL: i32 = 3;

/// The path without its `.zst`, and whether it had one.
fn without_zst(path: &Path) -> (PathBuf, bool) {
    match path.extension() {
        Some(extension) if extension == "zst" => (path.with_extension(""), true),
        _ => (path.to_owned(), false),
    }
}

/// Where packets are written to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A file, or the pattern for the names of several when it is rotated. Opening a named pipe waits for its reader.
    File(PathBuf),
    /// Standard output.
    Stdout,
    /// Nowhere: clients of [`RecordConfig::serve`] alone get packets.
    Clients,
}

/// File format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Blocks with interfaces, statistics and comments.
    #[default]
    Pcapng,
    /// Classic, with nanosecond stamps; one link type only, no counts, no comments.
    Pcap,
}

impl Format {
    /// File name extension for this format.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Pcapng => "pcapng",
            Self::Pcap => "pcap",
        }
    }
}

/// When to begin a new file, and how many to keep. Files are named by [`file_name`] as soon as one of the limits is set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rotation {
    /// Begin a new file before this one exceeds so many bytes, as they are in the file, compressed or not; its closing
    /// statistics come on top.
    pub size: Option<u64>,
    /// Begin a new file with the first packet that arrived so long after the first one in this file.
    pub time: Option<Duration>,
    /// Keep so many files, the one being written included: the oldest of this recording is deleted first.
    pub keep: Option<usize>,
}

impl Rotation {
    /// Whether there will be more than one file.
    pub fn is_on(&self) -> bool {
        self.size.is_some() || self.time.is_some()
    }
}

/// What to record into.
#[derive(Debug, Clone)]
pub struct RecordConfig {
    /// File or standard output.
    pub target: Target,
    /// Format of every file.
    pub format: Format,
    /// Level of compression by zstd, one of [`LEVELS`]; `None`: not compressed. Each file is one frame, complete after each
    /// write where it is a regular file, at the end elsewhere.
    pub compress: Option<i32>,
    /// When to begin a new file.
    pub rotation: Rotation,
    /// Leave so many bytes of the file system free: the oldest files of a recording that keeps a number of them go first,
    /// else writing ends.
    pub min_free: Option<u64>,
    /// How many engine threads push packets: each gets a spool of its own.
    pub spools: usize,
    /// Bytes of each spool; at least [`LEAST_SPOOL_BYTES`].
    pub spool_bytes: usize,
    /// Hand every packet to the system by itself, for readers that cannot wait 0.1 s; costs a system call each.
    pub flush_each: bool,
    /// A comment on the whole file (pcapng only).
    pub comment: Option<String>,
    /// Program that records, with its version.
    pub application: String,
    /// CPU the writer thread is bound to, to keep it off the engine's.
    pub cpu: Option<usize>,
    /// Also serve packets to TCP clients at this address, each a pcap stream of its own with nanosecond stamps. At most 16 clients, for
    /// each of which 16 MiB may wait; one link type only. Whoever reaches the address sees the packets.
    pub serve: Option<SocketAddr>,
}

impl RecordConfig {
    /// A recording into `path` with one spool and without rotation; `-` is standard output. A path that ends in `.pcap` is
    /// written in that format, one that ends in `.zst` is compressed.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let (inner, is_zst) = without_zst(&path);
        let format = match inner.extension() {
            Some(extension) if extension == "pcap" => Format::Pcap,
            _ => Format::Pcapng,
        };
        Self {
            target: if path.as_os_str() == "-" { Target::Stdout } else { Target::File(path) },
            format,
            compress: is_zst.then_some(DEFAULT_LEVEL),
            rotation: Rotation::default(),
            min_free: None,
            spools: 1,
            spool_bytes: DEFAULT_SPOOL_BYTES,
            flush_each: false,
            comment: None,
            application: concat!("ringtap ", env!("CARGO_PKG_VERSION")).to_owned(),
            cpu: None,
            serve: None,
        }
    }

    /// Packets to TCP clients at `address`, and into no file.
    pub fn to_clients(address: SocketAddr) -> Self {
        Self { target: Target::Clients, format: Format::Pcap, serve: Some(address), ..Self::new("") }
    }

    /// Refuses to write into a file that is one of those that are read, which would empty it.
    ///
    /// # Errors
    /// It is one of them.
    pub fn spare(&self, inputs: &[PathBuf]) -> Result<()> {
        use std::os::unix::fs::MetadataExt;
        let identity = |path: &Path| path.metadata().ok().map(|metadata| (metadata.dev(), metadata.ino()));
        let Target::File(output) = &self.target else { return Ok(()) };
        if identity(output).is_some_and(|output| inputs.iter().any(|input| identity(input) == Some(output))) {
            let cause = "it is being read";
            return Err(Error::usage("record into", output.display().to_string(), cause).way_out("name another file"));
        }
        Ok(())
    }

    /// Refuses what makes no sense, before anything is created.
    fn check(&self, interfaces: &[InterfaceInfo]) -> Result<()> {
        let object = match &self.target {
            Target::File(path) => path.display().to_string(),
            Target::Stdout => "standard output".to_owned(),
            Target::Clients => "streams to clients".to_owned(),
        };
        let refuse =
            |cause: String, way_out: &str| Err(Error::usage("record into", object.clone(), cause).way_out(way_out));
        if self.spools == 0 || interfaces.is_empty() {
            return refuse("no engine thread or no interface to record".to_owned(), "give at least one of each");
        }
        if interfaces.len() > usize::from(u16::MAX) {
            return refuse(format!("{} interfaces are too many", interfaces.len()), "record at most 65535");
        }
        if self.spool_bytes < LEAST_SPOOL_BYTES {
            let cause = format!("a spool of {} bytes holds no large packet", self.spool_bytes);
            return refuse(cause, "give it at least 64 KiB");
        }
        if let Some(level) = self.compress.filter(|level| !LEVELS.contains(level)) {
            return refuse(format!("there is no level {level} of compression"), "choose one of 1 to 19");
        }
        if self.rotation.size == Some(0) || self.rotation.time == Some(Duration::ZERO) {
            return refuse("a new file after nothing".to_owned(), "rotate after more than 0 bytes and 0 s");
        }
        if self.rotation.keep == Some(0) {
            return refuse("no file would be kept".to_owned(), "keep at least one");
        }
        if self.rotation.keep.is_some() && !self.rotation.is_on() {
            return refuse("a number of files to keep without rotation".to_owned(), "also rotate by size or time");
        }
        let is_file = matches!(self.target, Target::File(_));
        if self.min_free.is_some() && !is_file {
            return refuse("a file system to keep free needs a file on it".to_owned(), "name a file");
        }
        if self.rotation.is_on() && !is_file {
            return refuse("rotation needs files".to_owned(), "name a file, or leave rotation out");
        }
        if (self.format == Format::Pcap || self.serve.is_some())
            && interfaces.iter().any(|interface| interface.link_type != interfaces[0].link_type)
        {
            let way_out = "use pcapng, or capture interfaces of one kind";
            return refuse("pcap holds one link type only".to_owned(), way_out);
        }
        Ok(())
    }
}

/// An interface packets come from. Its place in the list given to [`Recorder::start`] is its number.
#[derive(Debug, Clone)]
pub struct InterfaceInfo {
    /// Name as the system has it.
    pub name: String,
    /// What the user calls it, or what it is.
    pub description: Option<String>,
    /// Capture filter in libpcap's syntax.
    pub filter: Option<String>,
    /// Most bytes recorded of a packet; 0 for no limit.
    pub snaplen: u32,
    /// LINKTYPE_ value: 1 is Ethernet.
    pub link_type: u16,
    /// Clock of the arrival stamps that are pushed.
    pub stamp_clock: StampClock,
}

impl InterfaceInfo {
    /// An Ethernet interface without limit to a packet's length.
    pub fn ethernet(name: impl Into<String>, stamp_clock: StampClock) -> Self {
        Self { name: name.into(), description: None, filter: None, snaplen: 0, link_type: 1, stamp_clock }
    }
}

/// An interface's counts since the recording began, for the statistics block. `None`: unknown, and left out.
#[derive(Debug, Clone, Default)]
pub struct FinalCounts {
    /// Number of the interface.
    pub interface: u16,
    /// Packets the interface received.
    pub received: Option<u64>,
    /// Packets the interface dropped for want of resources.
    pub dropped_by_interface: Option<u64>,
    /// Packets the filter let through.
    pub accepted_by_filter: Option<u64>,
    /// Packets the system dropped before they reached us.
    pub dropped_by_system: Option<u64>,
    /// Packets delivered to the user.
    pub delivered: Option<u64>,
    /// The ledger as text, for a comment.
    pub ledger: Option<String>,
}

/// What could not be recorded, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// Ledger cause `slow_output`: packets that found their spool full.
    pub spool_packets: u64,
    /// Captured bytes of these.
    pub spool_bytes: u64,
    /// Ledger cause `output_failed`: packets that could not be written.
    pub output_packets: u64,
    /// Captured bytes of these.
    pub output_bytes: u64,
}

impl Lost {
    /// Packets lost for either cause.
    pub fn packets(&self) -> u64 {
        self.spool_packets + self.output_packets
    }
}

/// What became of a recording.
#[derive(Debug, Clone, Serialize)]
pub struct RecordSummary {
    /// Files there are now, oldest first; empty for standard output.
    pub files: Vec<PathBuf>,
    /// Files deleted because enough newer ones were there, or to leave space free.
    pub deleted: u64,
    /// Packets written, those in deleted files included.
    pub packets: u64,
    /// Bytes written, headers and deleted files included.
    pub bytes: u64,
    /// The same before compression; equal to `bytes` where there was none.
    pub plain_bytes: u64,
    /// What was not written.
    pub lost: Lost,
    /// Clients, where packets were served to some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients: Option<ClientCounts>,
    /// Why writing ended early, or what else went wrong first.
    #[serde(serialize_with = "as_text")]
    pub error: Option<Error>,
}

fn as_text<S: Serializer>(error: &Option<Error>, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    error.as_ref().map(Error::to_string).serialize(serializer)
}
