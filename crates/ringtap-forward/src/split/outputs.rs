//! The outputs: what each name means, whether packets may go there, and a way there for each engine.
//!
//! Owns what is refused. Does not: see loops (`loops`), send (`port`).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::PathBuf;
use std::time::Duration;

use ringtap::interface::Interface;
use ringtap::record::{InterfaceInfo, RecordConfig, Recorder, Target};
use ringtap::transmit::TransmitRing;
use ringtap::{Error, Result};
use ringtap_run::signals::Signals;

use super::rule::MOST;
use crate::loops;
use crate::port::{Way, packet_ring};

/// What standard output is called.
pub(crate) const STDOUT: &str = "-";
/// Ethernet header with a VLAN tag, bytes.
const HEADER: u32 = 18;
/// Largest frame of an AF_XDP socket, bytes: a page.
const LARGEST_XDP: u32 = 4096;

/// How frames are sent on interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutBackend {
    /// AF_XDP where the interface has a queue for each engine that nobody else has, else a packet ring.
    Auto,
    /// AF_XDP.
    Xdp,
    /// A packet socket's ring.
    Packet,
}

/// Whether an output of this name is a file, a pipe or standard output; any other is an interface.
pub fn names_file(name: &str) -> bool {
    name == STDOUT || name.contains('/') || [".pcapng", ".pcap", ".zst"].iter().any(|ending| name.ends_with(ending))
}

/// An output.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    /// As it was named.
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Interface(Box<Interface>),
    File(PathBuf),
}

impl Output {
    fn find(name: &str) -> Result<Self> {
        let kind = if names_file(name) {
            Kind::File(PathBuf::from(name))
        } else {
            Kind::Interface(Box::new(Interface::find_up(name)?))
        };
        Ok(Self { name: name.to_owned(), kind })
    }

    pub(crate) fn interface(&self) -> Option<&Interface> {
        match &self.kind {
            Kind::Interface(interface) => Some(interface),
            Kind::File(_) => None,
        }
    }

    pub(crate) fn file(&self) -> Option<&PathBuf> {
        match &self.kind {
            Kind::File(path) if self.name != STDOUT => Some(path),
            _ => None,
        }
    }

    /// Whether both are one, under whatever name.
    fn is(&self, other: &Self) -> bool {
        match (&self.kind, &other.kind) {
            (Kind::Interface(a), Kind::Interface(b)) => a.index == b.index,
            (Kind::File(a), Kind::File(b)) => {
                let whole = |path: &PathBuf| path.canonicalize().or_else(|_| std::path::absolute(path)).ok();
                a == b || whole(a).is_some_and(|a| whole(b) == Some(a))
            }
            _ => false,
        }
    }
}

/// The outputs of these names, for packets of `input`.
///
/// # Errors
/// None or too many are named, one of them twice, one does not exist or is down, or packets would come back.
pub(crate) fn find(names: &[String], input: &Interface) -> Result<Vec<Output>> {
    if names.is_empty() || names.len() > MOST {
        return Err(Error::usage("send to", "--out", format!("{} outputs", names.len()))
            .way_out(format!("name 1 to {MOST}: --out IF, or --out FILE.pcapng")));
    }
    let mut outputs: Vec<Output> = Vec::new();
    for name in names {
        let output = Output::find(name)?;
        if let Some(earlier) = outputs.iter().find(|earlier| earlier.is(&output)) {
            let cause = format!("it is an output already, as {:?}", earlier.name);
            return Err(Error::usage("send to", name, cause).way_out("name each output once"));
        }
        if let Some(interface) = output.interface() {
            refuse_loop(name, interface, input)?;
        }
        outputs.push(output);
    }
    Ok(outputs)
}

/// # Errors
/// What is sent there would come back, or is no Ethernet.
fn refuse_loop(name: &str, output: &Interface, input: &Interface) -> Result<()> {
    if !output.ethernet {
        return Err(Error::usage("send to", name, "its frames are no Ethernet frames")
            .way_out("name an Ethernet interface, or a file"));
    }
    loops::refuse(name, output, input, "the input ")
}

/// Waits until each pipe has a reader, for without one opening it to write blocks; the ends returned, kept until then, see to that.
///
/// # Errors
/// One can't be opened, or the end was asked for first.
pub(crate) fn await_readers(outputs: &[Output], signals: &Signals) -> Result<Vec<File>> {
    const LOOK: Duration = Duration::from_millis(50);
    let is_pipe = |path: &PathBuf| path.metadata().is_ok_and(|it| it.file_type().is_fifo());
    let mut ends = Vec::new();
    for output in outputs {
        let Some(path) = output.file().filter(|path| is_pipe(path)) else { continue };
        let mut way = OpenOptions::new();
        way.write(true).custom_flags(nix::libc::O_NONBLOCK);
        let has_no_reader = |error: &io::Error| error.raw_os_error() == Some(nix::libc::ENXIO);
        let mut end = way.open(path);
        while end.as_ref().is_err_and(has_no_reader) {
            if signals.is_end_asked() || signals.take_hangup() {
                return Err(Error::failed("send to", &output.name, "nobody reads the pipe, and the end was asked for")
                    .way_out("start its reader"));
            }
            signals.rest(LOOK);
            end = way.open(path);
        }
        ends.push(end.map_err(|error| Error::os("open", &output.name, &error))?);
    }
    Ok(ends)
}

/// An output, opened.
pub(crate) struct Opened {
    /// One for each engine.
    pub(crate) ways: Vec<Way>,
    /// `xdp`, `packet` or `file`.
    pub(crate) backend: &'static str,
    /// What writes, where it is a file.
    pub(crate) recorder: Option<Recorder>,
}

/// How outputs are opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    pub(crate) backend: OutBackend,
    pub(crate) slots: u32,
    pub(crate) spool_bytes: usize,
    /// How many engines send there.
    pub(crate) engines: usize,
}

/// Opens an output; `source` is what a file says of the packets. What is done otherwise than wished is added to `notes`.
///
/// # Errors
/// It can't be opened.
pub(crate) fn open(output: &Output, manner: Manner, source: &InterfaceInfo, notes: &mut Vec<String>) -> Result<Opened> {
    match &output.kind {
        Kind::File(path) => {
            let config =
                RecordConfig { spools: manner.engines, spool_bytes: manner.spool_bytes, ..RecordConfig::new(path) };
            debug_assert!(output.name != STDOUT || config.target == Target::Stdout);
            let (recorder, spools) = Recorder::start(config, vec![source.clone()])?;
            let ways = spools.into_iter().map(Way::Spool).collect();
            Ok(Opened { ways, backend: "file", recorder: Some(recorder) })
        }
        Kind::Interface(interface) => {
            let (rings, backend) = open_rings(interface, manner, notes)?;
            let ways = rings.into_iter().map(Way::Ring).collect();
            Ok(Opened { ways, backend, recorder: None })
        }
    }
}

fn open_rings(
    interface: &Interface,
    manner: Manner,
    notes: &mut Vec<String>,
) -> Result<(Vec<TransmitRing>, &'static str)> {
    let by_xdp = || Ok((open_xdp(interface, manner)?, "xdp"));
    let by_packet = || Ok((open_packet(interface, manner)?, "packet"));
    match manner.backend {
        OutBackend::Xdp => by_xdp(),
        OutBackend::Packet => by_packet(),
        OutBackend::Auto => by_xdp().or_else(|error: Error| {
            notes.push(format!("{error} — {} is sent to by packet rings", interface.name));
            by_packet()
        }),
    }
}

fn open_xdp(interface: &Interface, manner: Manner) -> Result<Vec<TransmitRing>> {
    let Manner { slots, engines, .. } = manner;
    let refuse =
        |cause: String, way_out: &str| Err(Error::failed("send by AF_XDP on", &interface.name, cause).way_out(way_out));
    let longest = interface.mtu.saturating_add(HEADER);
    if longest > LARGEST_XDP {
        return refuse(format!("an MTU of {} does not fit a frame", interface.mtu), "use --out-backend packet");
    }
    let queues = interface.transmit_queues();
    if engines > queues as usize {
        let cause = format!("it has {queues} transmit queues for {engines} engines");
        return refuse(cause, "use --out-backend packet, or fewer --queues");
    }
    let frame_size = if longest > 2048 { LARGEST_XDP } else { 2048 };
    (0..engines as u32)
        .map(|queue| TransmitRing::open_xdp(&interface.name, interface.index, queue, slots, frame_size))
        .collect()
}

fn open_packet(interface: &Interface, manner: Manner) -> Result<Vec<TransmitRing>> {
    (0..manner.engines).map(|_| packet_ring(interface, manner.slots)).collect()
}
