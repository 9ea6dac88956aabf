//! Packets and capture files for tests: made here, so that the tests need nothing beside the repository.
//!
//! Owns the samples ([`samples`]), damaged ones ([`damaged`]), capture files of all of them ([`write_all`]), a reader of such
//! files ([`read`]), and where the conformance suite's third-party data is ([`conformance`]). Does not: say what is right about
//! them. That is for each test's oracle, which is never this crate.

pub mod apps;
pub mod conformance;
pub mod evasions;
pub mod files;
pub mod frames;
pub mod read;
pub mod rules;
pub mod snmp;

mod links;
mod networks;
mod sessions;

use frames::Random;

/// Packets of one kind.
#[derive(Clone, Debug)]
pub struct Sample {
    /// What is in them; a file's name without its end.
    pub name: String,
    /// `LINKTYPE_…` number.
    pub link: u32,
    /// Whole packets.
    pub packets: Vec<Vec<u8>>,
}

impl Sample {
    fn new(name: &str, link: u32, packets: Vec<Vec<u8>>) -> Self {
        Self { name: name.to_owned(), link, packets }
    }

    fn ethernet(name: &str, packets: Vec<Vec<u8>>) -> Self {
        Self::new(name, 1, packets)
    }
}

/// Well-formed packets of every protocol that Ringtap decodes, and of others that pass through it.
#[must_use]
pub fn samples() -> Vec<Sample> {
    let mut samples = links::samples();
    samples.extend(networks::samples());
    samples.extend(sessions::samples());
    samples
}

/// What [`samples`] has, each packet three times with a few bytes changed near its front, once cut, and once with bytes after
/// its end. The same in each run.
#[must_use]
pub fn damaged() -> Vec<Sample> {
    let mut random = Random::new(0x5eed_0f5a_3b1e);
    let mut damage = |packet: &[u8], kind: usize| {
        let mut packet = packet.to_vec();
        match kind {
            0..=2 => {
                for _ in 0..1 + random.below(4) {
                    let at = random.below(packet.len().min(100));
                    packet[at] = random.byte();
                }
            }
            3 => packet.truncate(1 + random.below(packet.len())),
            _ => {
                let more = 1 + random.below(20);
                packet.extend((0..more).map(|_| random.byte()));
            }
        }
        packet
    };
    let mut samples = samples();
    for sample in &mut samples {
        sample.name.push_str("-damaged");
        let packets = sample.packets.iter().flat_map(|packet| (0..5).map(move |kind| (packet, kind)));
        sample.packets = packets.map(|(packet, kind)| damage(packet, kind)).collect();
    }
    samples
}

/// The packets of one sample.
///
/// # Panics
///
/// Where there is none of that name.
#[must_use]
pub fn sample(name: &str) -> Sample {
    samples().into_iter().find(|sample| sample.name == name).unwrap_or_else(|| panic!("there is no sample {name}"))
}

/// Writes capture files of all samples, well-formed and damaged, in all formats there are in turn, and returns their paths,
/// sorted by name.
///
/// # Errors
///
/// What the file system says.
pub fn write_all(folder: &std::path::Path) -> std::io::Result<Vec<std::path::PathBuf>> {
    let mut paths = Vec::new();
    for (index, sample) in samples().into_iter().chain(damaged()).enumerate() {
        let format = match sample.link {
            // libpcap takes a second interface of LINKTYPE_RAW for one of another link type.
            101 => files::Format::Pcap(files::Order::Little),
            _ => files::Format::ALL[index % files::Format::ALL.len()],
        };
        let path = folder.join(format!("{}.{}", sample.name, format.extension()));
        std::fs::write(&path, files::file(&sample, format))?;
        paths.push(path);
    }
    paths.sort();
    Ok(paths)
}
