//! Writes the seed corpus of the `wire` fuzz target: every packet of our samples, or of the given capture files, that has a
//! link type we parse, cut to 512 bytes, behind the byte that chooses its link type.
//!
//! From the repository's root:
//!
//! ```text
//! cargo run --manifest-path fuzz/Cargo.toml --example seed -- fuzz/corpus/wire [FOLDER-OF-CAPTURE-FILES]
//! cargo +nightly fuzz run wire -- -max_len=600 -max_total_time=120
//! ```

#[path = "../links.rs"]
mod links;

use std::error::Error;
use std::path::PathBuf;

use ringtap_samples::read;
use ringtap_wire::LinkType;

const MAX_LEN: usize = 512;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let Some(to) = arguments.next() else {
        return Err("usage: seed CORPUS-FOLDER [FOLDER-OF-CAPTURE-FILES]".into());
    };
    std::fs::create_dir_all(&to).map_err(|error| format!("{}: {error}", to.display()))?;
    let ours = tempfile::tempdir()?;
    let files = match arguments.next() {
        Some(from) => read::files(&from).map_err(|error| format!("{}: {error}", from.display()))?,
        None => ringtap_samples::write_all(ours.path())?,
    };
    let mut count = 0;
    for file in files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        for (number, packet) in read::packets(&file).0.into_iter().enumerate() {
            let choice = LinkType::from_number(packet.link)
                .and_then(|link| links::LINKS.iter().position(|&candidate| candidate == link));
            let Some(choice) = choice else { continue };
            let mut seed = vec![choice as u8];
            seed.extend(packet.data.iter().take(MAX_LEN));
            std::fs::write(to.join(format!("{name}-{number}")), seed)?;
            count += 1;
        }
    }
    println!("{count} packets in {}", to.display());
    Ok(())
}
