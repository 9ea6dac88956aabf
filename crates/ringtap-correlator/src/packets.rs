//! Owns: the packets of an incident's members, where recordings have them: which flows in which times, gathered from any
//! number of files into one pcapng.
//! Does not: parse packets or files; `ringtap-wire` and the core do.

use std::collections::{HashMap, HashSet};
use std::fs::{self, Metadata};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ringtap::record::{InterfaceInfo, pcapng};
use ringtap::source::file::{FileSource, Pace};
use ringtap::source::{Source as _, StampClock};
use ringtap::{Error, Result};
use ringtap_output::printable;
use ringtap_sigma::Value;
use ringtap_wire::{FlowKey, Layers, LinkType};

use crate::event::Event;
use crate::fields::Columns;

/// Bytes of packets that are put in order at once.
const MOST_BYTES: usize = 1 << 30;
/// Folders inside each other.
const MAX_DEPTH: usize = 16;
/// Files that have packets of an incident: what a pcapng names interfaces by.
const MOST_FILES: usize = 1 << 16;

/// A flow of a member, either way, and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Flow {
    /// Of the lower and of the higher address; `None`: any.
    ports: Option<(u16, u16)>,
    from_ns: i64,
    to_ns: i64,
}

/// Flows by their addresses, the lower one first.
#[derive(Debug, Default)]
pub struct Flows(HashMap<(IpAddr, IpAddr), Vec<Flow>>);

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Files that were read.
    pub files: usize,
    /// Packets that were written.
    pub packets: usize,
    /// What is to be said: files that could not be read whole.
    pub notes: Vec<String>,
}

/// What is to be written.
#[derive(Default)]
pub struct Gathered {
    /// Where it was found.
    pub found: Found,
    interfaces: Vec<InterfaceInfo>,
    kept: Vec<Kept>,
    /// Device and number of each file that was looked through.
    inputs: HashSet<(u64, u64)>,
}

impl Gathered {
    /// Whether this is one of the files that were looked through.
    #[must_use]
    pub fn is_input(&self, file: &Metadata) -> bool {
        self.inputs.contains(&same(file))
    }

    /// Writes it as one pcapng.
    ///
    /// # Errors
    /// `out` takes no more.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        write(&self.interfaces, &self.kept, out)
    }
}

/// What tells a file from all others, whatever its name.
fn same(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

/// A packet that was found.
struct Kept {
    stamp_ns: u64,
    interface: u16,
    wire_len: u32,
    data: Box<[u8]>,
}

impl Flows {
    /// The flows of these events, each from so long before its first event to so long after its last one, ns. An event without
    /// two addresses has none.
    pub fn of<'a>(events: impl Iterator<Item = &'a Event>, around_ns: i64) -> Self {
        let mut this = Self::default();
        let fields = ["src_ip", "dest_ip", "src_port", "dest_port"].map(str::to_owned);
        for event in events {
            let columns = Columns::new(&fields, event.format);
            let ends = columns.with_row(event, |row| {
                let address = |at: usize| match row.values[at] {
                    Value::Text(text) => text.parse::<IpAddr>().ok(),
                    _ => None,
                };
                let port = |at: usize| match row.values[at] {
                    Value::Integer(port) => u16::try_from(port).ok(),
                    Value::Text(text) => text.parse().ok(),
                    _ => None,
                };
                Some(((address(0)?, port(2)), (address(1)?, port(3))))
            });
            let Some((source, destination)) = ends else { continue };
            let (low, high) = if source <= destination { (source, destination) } else { (destination, source) };
            let ports = low.1.zip(high.1);
            let time = event.mark.time_ns;
            let flow = Flow { ports, from_ns: time.saturating_sub(around_ns), to_ns: time.saturating_add(around_ns) };
            let same = this.0.entry((low.0, high.0)).or_default();
            match same.iter_mut().find(|other| other.ports == ports) {
                Some(other) => {
                    (other.from_ns, other.to_ns) = (other.from_ns.min(flow.from_ns), other.to_ns.max(flow.to_ns));
                }
                None => same.push(flow),
            }
        }
        this
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a packet belongs to one of them: the innermost flow, or that which carries it. Fragments have no ports and belong
    /// to every flow of their hosts.
    fn have(&self, data: &[u8], link: LinkType, stamp_ns: i64) -> bool {
        let layers = Layers::parse(data, link);
        let keys = [FlowKey::inner(&layers, data), FlowKey::outer(&layers, data)];
        keys.into_iter().flatten().any(|(key, _)| {
            let ((a, b), (port_a, port_b)) = (key.addresses(), key.ports());
            let ((low, low_port), (high, high_port)) =
                if (a, port_a) <= (b, port_b) { ((a, port_a), (b, port_b)) } else { ((b, port_b), (a, port_a)) };
            let flows = self.0.get(&(low, high)).into_iter().flatten();
            flows.into_iter().any(|flow| {
                let is_in_time = (flow.from_ns..=flow.to_ns).contains(&stamp_ns);
                let ports = (low_port, high_port);
                is_in_time && (ports == (0, 0) || flow.ports.is_none_or(|wanted| wanted == ports))
            })
        })
    }

    /// Looks through all recordings below these folders, or these files, for what belongs to the flows, in the order of time,
    /// each packet with the file that it is of. Each file counts once, by whichever names it is reached.
    ///
    /// # Errors
    /// A folder can't be read, or there are too many packets to put in order.
    pub fn gather(&self, places: &[PathBuf]) -> Result<Gathered> {
        let (mut files, mut seen) = (Vec::new(), HashSet::new());
        for place in places {
            collect(place, 0, &mut seen, &mut files)?;
        }
        files.sort();
        let mut gathered = Gathered { inputs: seen, ..Gathered::default() };
        let Gathered { found, interfaces, kept, .. } = &mut gathered;
        let mut bytes = 0;
        for path in &files {
            let Ok(mut source) = FileSource::open(&[path], Pace::AsFast) else {
                found.notes.push(printable(&format!("{}: no recording", path.display())));
                continue;
            };
            found.files += 1;
            self.read(path, &mut source, kept, interfaces, &mut bytes)?;
            found.notes.extend(source.faults().iter().map(|fault| printable(&fault.to_string())));
            if source.other_link_type() > 0 {
                let other = source.other_link_type();
                found.notes.push(printable(&format!("{}: {other} packets of other link types", path.display())));
            }
        }
        kept.sort_by_key(|packet: &Kept| packet.stamp_ns);
        found.packets = kept.len();
        Ok(gathered)
    }

    fn read(
        &self,
        path: &Path,
        source: &mut FileSource,
        kept: &mut Vec<Kept>,
        interfaces: &mut Vec<InterfaceInfo>,
        bytes: &mut usize,
    ) -> Result<()> {
        let Some(number) = source.link_type() else { return Ok(()) };
        let Some(link) = LinkType::from_number(number.into()) else { return Ok(()) };
        let too_many = |cause: &str| {
            Error::failed("gather packets of", path.display().to_string(), cause)
                .way_out("name fewer recordings, or a shorter --around")
        };
        let mut interface = None;
        while !source.has_ended() {
            for packet in source.receive().iter() {
                let stamp_ns = i64::try_from(packet.arrival_ns).unwrap_or(i64::MAX);
                if !self.have(packet.data, link, stamp_ns) {
                    continue;
                }
                if interfaces.len() == MOST_FILES {
                    return Err(too_many("more than 65,536 files have some"));
                }
                *bytes += packet.data.len() + size_of::<Kept>();
                if *bytes > MOST_BYTES {
                    return Err(too_many("they are more than 1 GiB"));
                }
                let interface = *interface.get_or_insert_with(|| {
                    let name = path.display().to_string();
                    let info =
                        InterfaceInfo { link_type: number, ..InterfaceInfo::ethernet(name, StampClock::Realtime) };
                    interfaces.push(info);
                    interfaces.len() as u16 - 1
                });
                let (stamp_ns, wire_len, data) = (packet.arrival_ns, packet.wire_len, packet.data.into());
                kept.push(Kept { stamp_ns, interface, wire_len, data });
            }
        }
        Ok(())
    }
}

fn write(interfaces: &[InterfaceInfo], kept: &[Kept], out: &mut impl Write) -> io::Result<()> {
    let mut block = Vec::new();
    pcapng::section_header(&mut block, &pcapng::Section { application: Some("ringtap".into()), ..Default::default() });
    interfaces.iter().for_each(|interface| pcapng::interface_description(&mut block, interface));
    out.write_all(&block)?;
    for packet in kept {
        block.clear();
        let Kept { stamp_ns, interface, wire_len, data } = packet;
        pcapng::enhanced_packet(&mut block, *interface, *stamp_ns, *wire_len, (data, &[]));
        out.write_all(&block)?;
    }
    out.flush()
}

/// Files below a folder. `seen`: files and folders that were come by, so that none counts twice and links end.
fn collect(place: &Path, depth: usize, seen: &mut HashSet<(u64, u64)>, files: &mut Vec<PathBuf>) -> Result<()> {
    let failed = |error| Error::os("read recordings in", place.display().to_string(), &error);
    let metadata = place.metadata().map_err(failed)?;
    if !seen.insert(same(&metadata)) {
        return Ok(());
    }
    if !metadata.is_dir() {
        files.push(place.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(place).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_file() || path.is_dir() && depth < MAX_DEPTH {
            collect(&path, depth + 1, seen, files)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::parse::{Parser, Wanted};

    const SECOND: u64 = 1_000_000_000;

    /// An Ethernet frame with an empty UDP datagram.
    fn frame(source: [u8; 4], ports: (u16, u16), destination: [u8; 4]) -> Vec<u8> {
        let mut frame = vec![2; 12];
        frame.extend([8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0]);
        frame.extend(source);
        frame.extend(destination);
        frame.extend(ports.0.to_be_bytes());
        frame.extend(ports.1.to_be_bytes());
        frame.extend([0, 8, 0, 0]);
        frame
    }

    fn recording(path: &Path, packets: &[(u64, Vec<u8>)]) {
        let interface = [InterfaceInfo::ethernet("eth0", StampClock::Realtime)];
        let kept: Vec<Kept> = packets
            .iter()
            .map(|(second, data)| {
                let (wire_len, data) = (data.len() as u32, data.clone().into());
                Kept { stamp_ns: second * SECOND, interface: 0, wire_len, data }
            })
            .collect();
        write(&interface, &kept, &mut fs::File::create(path).unwrap()).unwrap();
    }

    #[test]
    fn the_packets_of_both_sensors_in_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b, c) = ([192, 0, 2, 1], [198, 51, 100, 2], [203, 0, 113, 3]);
        let wanted = frame(a, (1000, 53), b);
        fs::create_dir(folder.path().join("one")).unwrap();
        recording(
            &folder.path().join("one/x.pcapng"),
            &[
                (90, wanted.clone()),
                (100, wanted.clone()),
                (101, frame(a, (1001, 53), b)),
                (102, frame(a, (1000, 53), c)),
            ],
        );
        // The answer, seen by another sensor a little before.
        recording(&folder.path().join("y.pcapng"), &[(99, frame(b, (53, 1000), a)), (130, wanted)]);
        fs::write(folder.path().join("notes.txt"), "no recording").unwrap();
        let line = r#"{"timestamp":"1970-01-01T00:01:40Z","event_type":"alert","src_ip":"192.0.2.1","src_port":1000,"dest_ip":"198.51.100.2","dest_port":53}"#;
        let event = Parser::new(Wanted::Auto, "in").event(line.as_bytes()).unwrap();
        let flows = Flows::of([&event].into_iter(), 5 * SECOND as i64);
        let path = folder.path().join("out");
        // A link back, and a file that is named twice.
        std::os::unix::fs::symlink(folder.path(), folder.path().join("one/back")).unwrap();
        let gathered = flows.gather(&[folder.path().to_owned(), folder.path().join("y.pcapng")]).unwrap();
        gathered.write(&mut fs::File::create(&path).unwrap()).unwrap();
        let found = &gathered.found;
        let is_input = |path: &Path| gathered.is_input(&path.metadata().unwrap());
        assert!(is_input(&folder.path().join("one/../y.pcapng")) && !is_input(&path));
        assert_eq!((found.packets, found.files, found.notes.len()), (2, 2, 1), "{:?}", found.notes);
        let mut source = FileSource::open(&[&path], Pace::AsFast).unwrap();
        let mut stamps = Vec::new();
        while !source.has_ended() {
            stamps.extend(source.receive().iter().map(|packet| packet.arrival_ns / SECOND));
        }
        assert_eq!(stamps, [99, 100]);
        let without = Parser::new(Wanted::Auto, "in").event(br#"{"time":1,"src_ip":"192.0.2.1"}"#).unwrap();
        assert!(Flows::of([&without].into_iter(), 0).is_empty());
        assert!(flows.gather(&[folder.path().join("none")]).is_err());
    }
}
