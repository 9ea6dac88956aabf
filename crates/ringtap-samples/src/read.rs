//! Owns: reading the packets of capture files, however broken the files are.
//! Does not: know where the files are. A reader of its own, not the one under test.

use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use pcap_parser::{Block, PcapBlockOwned, PcapError, create_reader};

/// One captured packet.
pub struct Packet {
    /// `LINKTYPE_…` number.
    pub link: u32,
    /// What was captured of it.
    pub data: Vec<u8>,
}

/// The capture files in `folder`, sorted by name.
pub fn files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "pcap" || extension == "pcapng"));
    files.sort();
    Ok(files)
}

/// The packets of one file, as far as it can be read; and whether all of it could.
pub fn packets(path: &Path) -> (Vec<Packet>, bool) {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut packets = Vec::new();
    let Ok(mut reader) = create_reader(bytes.len() + (1 << 20), Cursor::new(bytes)) else {
        return (packets, false);
    };
    let mut links: Vec<u32> = Vec::new();
    let mut refilled = false;
    loop {
        match reader.next() {
            Ok((offset, block)) => {
                refilled = false;
                match block {
                    PcapBlockOwned::LegacyHeader(header) => links = vec![header.network.0 as u32 & 0xffff],
                    PcapBlockOwned::Legacy(packet) => {
                        let data = &packet.data[..packet.data.len().min(packet.caplen as usize)];
                        packets.push(Packet { link: links[0], data: data.to_vec() });
                    }
                    PcapBlockOwned::NG(Block::SectionHeader(_)) => links.clear(),
                    PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                        links.push(interface.linktype.0 as u32);
                    }
                    PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                        let data = &packet.data[..packet.data.len().min(packet.caplen as usize)];
                        if let Some(&link) = links.get(packet.if_id as usize) {
                            packets.push(Packet { link, data: data.to_vec() });
                        }
                    }
                    PcapBlockOwned::NG(_) => {}
                }
                reader.consume(offset);
            }
            Err(PcapError::Eof) => return (packets, true),
            Err(PcapError::Incomplete(_)) if !refilled => {
                refilled = true;
                if reader.refill().is_err() {
                    return (packets, false);
                }
            }
            Err(_) => return (packets, false),
        }
    }
}
