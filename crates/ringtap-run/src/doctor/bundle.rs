//! A file for a bug report: what the doctor found, and what the kernel counts, as a tar archive.
//!
//! Owns what is in it. Nothing in it is a packet, an address, a key or a password: of the kernel's command line, which may hold some, only
//! words that are known go in; of a configuration what `ringtap config show` tells.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use ringtap::{Error, Result};
use tar::{Builder, EntryType, Header};

/// What the kernel tells of itself and counts, without anybody's addresses.
const FILES: [&str; 8] = [
    "/etc/os-release",
    "/proc/interrupts",
    "/proc/meminfo",
    "/proc/net/dev",
    "/proc/net/softnet_stat",
    "/proc/softirqs",
    "/proc/stat",
    "/proc/version",
];
/// Those of [`FILES`] that are versions.
const VERSIONS: [&str; 2] = ["/etc/os-release", "/proc/version"];
/// Most bytes of each: interrupts of hundreds of CPUs are some hundred KiB.
const MOST: u64 = 4 << 20;
/// Words of the kernel's command line about CPUs and clocks.
const WORDS: [&str; 12] = [
    "isolcpus=",
    "nohz_full=",
    "rcu_nocbs=",
    "irqaffinity=",
    "tsc=",
    "clocksource=",
    "intel_idle.max_cstate=",
    "processor.max_cstate=",
    "intel_pstate=",
    "mitigations=",
    "hugepages=",
    "preempt=",
];

/// Writes the archive; `texts` are names and contents of what others add. The file is for its owner's eyes.
///
/// # Errors
/// There is a file of that name, or it can't be written.
pub fn write(path: &Path, texts: &[(&str, String)]) -> Result<()> {
    let failed = |error: io::Error| {
        Error::os("write the bundle", path.display().to_string(), &error).way_out("name a new file where you may write")
    };
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
    let mut archive = Builder::new(file);
    for (name, text) in texts {
        add(&mut archive, name, without_addresses(text).as_bytes()).map_err(failed)?;
    }
    for file in FILES {
        // One that this kernel has not is not in it.
        if let Ok(text) = read(file) {
            let text = String::from_utf8_lossy(&text);
            // Numbers of releases have four parts, too, and there are no addresses.
            let text = if VERSIONS.contains(&file) { text.into_owned() } else { without_addresses(&text) };
            add(&mut archive, file.trim_start_matches('/'), text.as_bytes()).map_err(failed)?;
        }
    }
    let line = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    add(&mut archive, "proc/cmdline", known_words(&line).as_bytes()).map_err(failed)?;
    archive.into_inner().and_then(|mut file| file.flush()).map_err(failed)
}

fn read(path: &str) -> io::Result<Vec<u8>> {
    use io::Read;
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(MOST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn add(archive: &mut Builder<fs::File>, name: &str, bytes: &[u8]) -> io::Result<()> {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o600);
    header.set_size(bytes.len() as u64);
    archive.append_data(&mut header, format!("ringtap-doctor/{name}"), bytes)
}

/// A text without addresses of IP and Ethernet, whoever's they are.
fn without_addresses(text: &str) -> String {
    let is_part = |letter: char| letter.is_ascii_hexdigit() || letter == ':' || letter == '.';
    let (mut out, mut word) = (String::with_capacity(text.len()), String::new());
    for letter in text.chars().chain(['\n']) {
        if is_part(letter) {
            word.push(letter);
            continue;
        }
        // A colon may be in front, as in `udp:192.0.2.1:514`, and a full stop or colon behind.
        let front = if word.starts_with("::") { 0 } else { word.len() - word.trim_start_matches(['.', ':']).len() };
        let bare = word[front..].trim_end_matches(['.', ':']);
        let bare = if word.ends_with("::") { &word[front..] } else { bare };
        if is_address(bare) || (bare.len() == 12 && ends_as_a_name_by_address(&out)) {
            out.push_str(&word[..front]);
            out.push_str("ADDRESS");
            out.push_str(&word[front + bare.len()..]);
        } else {
            out.push_str(&word);
        }
        word.clear();
        out.push(letter);
    }
    out.pop();
    out
}

/// systemd names a card without a place in the host by its address: enx…, wlx…, wwx…, ibx… (systemd.net-naming-scheme(7)).
fn ends_as_a_name_by_address(text: &str) -> bool {
    ["enx", "wlx", "wwx", "ibx", "slx"].iter().any(|kind| text.ends_with(kind))
}

fn is_address(word: &str) -> bool {
    let is_octet = |part: &str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let parts = word.split(':').count();
    // `::` alone and 0.0.0.0 are nobody's.
    let is_of_ethernet = parts == 6 && word.split(':').all(is_octet);
    let without_port = word.rsplit_once(':').map_or(word, |(address, _)| address);
    let of_ip = word.parse::<IpAddr>().ok().or_else(|| without_port.parse::<std::net::Ipv4Addr>().ok().map(IpAddr::V4));
    is_of_ethernet || of_ip.is_some_and(|address| !address.is_unspecified() && !address.is_loopback())
}

/// Of the kernel's command line what is about CPUs and clocks.
fn known_words(line: &str) -> String {
    let known = line.split_whitespace().filter(|word| WORDS.iter().any(|known| word.starts_with(known)));
    known.map(|word| format!("{word}\n")).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn addresses_are_left_out() {
        for (text, told) in [
            (
                "used by host  has the host's address 192.0.2.7, and 198.51.100.9.",
                "used by host  has the host's address ADDRESS, and ADDRESS.",
            ),
            ("fe80::44a5:4ff:fe41:dca9: copied", "ADDRESS: copied"),
            ("listens at 192.0.2.1:162 and [2001:db8::1]:162", "listens at ADDRESS and [ADDRESS]:162"),
            ("beside its own 02:00:00:00:00:01", "beside its own ADDRESS"),
            ("enx001122aabbcc: 17 3, enxa", "enxADDRESS: 17 3, enxa"),
            ("wlx001122aabbcc: 17 3", "wlxADDRESS: 17 3"),
            ("to = 'udp:192.0.2.1:514', tcp:[2001:db8::1]:5171", "to = 'udp:ADDRESS', tcp:[ADDRESS]:5171"),
            ("known = [\"203.0.113.0/24\"]", "known = [\"ADDRESS/24\"]"),
            (
                "Linux 6.18.44, 12:30:01, 0.0.0.0, [::]:162, 127.0.0.1, 1.5 MiB, face, add:",
                "Linux 6.18.44, 12:30:01, 0.0.0.0, [::]:162, 127.0.0.1, 1.5 MiB, face, add:",
            ),
        ] {
            assert_eq!(without_addresses(text), told);
        }
    }

    #[test]
    fn the_bundle_is_an_archive_without_other_words_of_the_kernel() {
        assert_eq!(known_words("root=x luks.key=s3cret isolcpus=2-3 tsc=reliable"), "isolcpus=2-3\ntsc=reliable\n");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b.tar");
        write(&path, &[("findings.txt", "all is well".to_owned())]).unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        let mut archive = tar::Archive::new(fs::File::open(&path).unwrap());
        let mut names = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let name = entry.path().unwrap().display().to_string();
            if name.ends_with("findings.txt") {
                let mut text = String::new();
                entry.read_to_string(&mut text).unwrap();
                assert_eq!(text, "all is well");
            }
            names.push(name);
        }
        for name in
            ["ringtap-doctor/findings.txt", "ringtap-doctor/proc/net/softnet_stat", "ringtap-doctor/proc/cmdline"]
        {
            assert!(names.iter().any(|found| found == name), "{name} in {names:?}");
        }
        let error = write(&path, &[]).unwrap_err().to_string();
        assert!(error.contains("b.tar") && error.contains("new file"), "{error}");
    }
}
