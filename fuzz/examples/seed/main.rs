//! Writes the seeds of the fuzz targets, a folder each, from our own samples; the same files in each run.
//!
//! From the repository's root:
//!
//! ```text
//! cargo run --manifest-path fuzz/Cargo.toml --example seed -- fuzz/corpus
//! ```
//!
//! Owns which seeds there are. Does not: say how a target reads its input; each target's first lines do.

#[path = "../../links.rs"]
mod links;
#[path = "../../sigma.rs"]
mod sigma;

mod correlation;
mod detector;
mod pcap;
mod station;

use std::error::Error;
use std::path::{Path, PathBuf};

use ringtap_samples::Sample;
use ringtap_wire::LinkType;

/// All seeds together may take so many bytes: they are part of the repository.
const MAX_BYTES: usize = 200 << 10;

type Seeds = Vec<(String, Vec<u8>)>;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(to), None) = (arguments.next(), arguments.next()) else { return Err("usage: seed FOLDER".into()) };
    let samples = ringtap_samples::samples();
    let mut total = 0;
    for (target, seeds) in [
        ("wire", wire(&samples)),
        ("sensor", detector::packets(&samples)),
        ("reassembly", detector::pieces()),
        ("rules", detector::rules()),
        ("dns", detector::dns()),
        ("tls", detector::tls()),
        ("ssh", detector::ssh()),
        ("snmp", station::snmp()),
        ("syslog", station::syslog()),
        ("mib", station::mibs()),
        ("pcap", pcap::calls()),
        ("files", pcap::files()),
        ("sigma", correlation::rules()),
        ("automaton", correlation::automata()),
        ("step", correlation::steps()),
        ("datagram", correlation::messages()),
        ("eve", correlation::events()),
    ] {
        let bytes = write(&to.join(target), &seeds)?;
        println!("{target}: {} seeds, {bytes} bytes", seeds.len());
        total += bytes;
    }
    println!("{total} bytes in all");
    if total > MAX_BYTES { Err(format!("more than {MAX_BYTES} bytes").into()) } else { Ok(()) }
}

/// Makes the folder hold these files and no others.
fn write(folder: &Path, seeds: &Seeds) -> Result<usize, Box<dyn Error>> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    std::fs::create_dir_all(folder).map_err(failed)?;
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        std::fs::remove_file(entry.map_err(failed)?.path()).map_err(failed)?;
    }
    for (name, bytes) in seeds {
        std::fs::write(folder.join(name), bytes).map_err(failed)?;
    }
    Ok(seeds.iter().map(|(_, bytes)| bytes.len()).sum())
}

/// Two packets of each sample, behind the byte that chooses their link type.
fn wire(samples: &[Sample]) -> Seeds {
    const MAX_LEN: usize = 256;
    let mut seeds = Seeds::new();
    for sample in samples {
        let choice = LinkType::from_number(sample.link)
            .and_then(|link| links::LINKS.iter().position(|&candidate| candidate == link));
        let Some(choice) = choice else { continue };
        let middle = sample.packets.len() / 2;
        for number in [0, middle] {
            let Some(packet) = sample.packets.get(number) else { continue };
            let seed = std::iter::once(choice as u8).chain(packet.iter().copied().take(MAX_LEN)).collect();
            seeds.push((format!("{}-{number}", sample.name), seed));
        }
    }
    seeds.dedup_by(|a, b| a.0 == b.0);
    seeds
}
