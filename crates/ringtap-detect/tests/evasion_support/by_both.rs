//! Hidden attacks, by us and by Suricata 7 with its packaged configuration: what not both judge as the receiver does must stand in
//! `evasions.txt`, which says who is right.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use ringtap_samples::evasions::Evasion;

use super::{START_NS, STEP_NS, found};

const TABLE: &str = include_str!("../evasions.txt");

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ringtap-evasions-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A pcap file with the times that our detector is told.
fn write_pcap<'f>(path: &Path, frames: impl Iterator<Item = &'f Vec<u8>>, step_ns: u64) {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let mut file = words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65535, 1]);
    for (index, frame) in frames.enumerate() {
        let micros = (START_NS + index as u64 * step_ns) / 1000;
        let len = frame.len() as u32;
        file.extend(words(&[(micros / 1_000_000) as u32, (micros % 1_000_000) as u32, len, len]));
        file.extend(frame);
    }
    std::fs::write(path, file).unwrap();
}

/// The sids that Suricata tells of these frames, each as often as it does.
pub fn sids_there<'f>(test: &str, rules: &str, frames: impl Iterator<Item = &'f Vec<u8>>, step_ns: u64) -> Vec<u32> {
    let folder = Folder::new(test);
    let (capture, file) = (folder.0.join("x.pcap"), folder.0.join("x.rules"));
    write_pcap(&capture, frames, step_ns);
    // Suricata leaves out lines that begin with a space.
    std::fs::write(&file, rules.lines().flat_map(|line| [line.trim(), "\n"]).collect::<String>()).unwrap();
    let run = |command: &mut Command| {
        command.output().unwrap_or_else(|error| panic!("did not run: {test}: suricata: {error}"))
    };
    let version = run(Command::new("suricata").arg("-V")).stdout;
    let version = String::from_utf8_lossy(&version);
    assert!(version.contains("version 7.0."), "did not run: {test}: it needs Suricata 7.0, this is {}", version.trim());
    let mut command = Command::new("suricata");
    command
        .args(["--runmode", "single", "-k", "all", "-r"])
        .arg(&capture)
        .arg("-S")
        .arg(&file)
        .arg("-l")
        .arg(&folder.0);
    let output = run(&mut command);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(folder.0.join("fast.log")).unwrap();
    // `[**] [1:SID:REV] message [**]`
    text.lines().filter_map(|line| line.split("[1:").nth(1)?.split(':').next()?.parse().ok()).collect()
}

/// Whether Suricata finds each case.
fn found_there(test: &str, cases: &[Evasion]) -> Vec<bool> {
    let rules: String = cases.iter().map(|case| case.rules.as_str()).collect();
    let sids: BTreeSet<u32> =
        sids_there(test, &rules, cases.iter().flat_map(|case| &case.frames), STEP_NS).into_iter().collect();
    cases.iter().map(|case| sids.contains(&case.sid)).collect()
}

/// Names in the table and who is right.
fn table() -> Vec<(&'static str, &'static str)> {
    let lines = TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| match line.split('|').map(str::trim).collect::<Vec<_>>()[..] {
            [name, who @ ("ringtap" | "suricata" | "nobody"), why] if !why.is_empty() => (name, who),
            _ => panic!("not a trick, who is right, and why: {line}"),
        })
        .collect()
}

/// Lines of the table by which these cases' disagreements are known. `names` are those by which a case may stand there.
pub fn compare(test: &str, cases: &[Evasion], names: impl Fn(&str) -> Vec<String>) -> BTreeSet<&'static str> {
    let (here, there) = (found(cases), found_there(test, cases));
    let count = |found: &[bool]| found.iter().filter(|found| **found).count();
    let delivered = cases.iter().filter(|case| case.delivered).count();
    println!(
        "{} cases, {delivered} delivered: {} found here, {} by Suricata",
        cases.len(),
        count(&here),
        count(&there)
    );
    let (table, mut used, mut new) = (table(), BTreeSet::new(), Vec::new());
    for ((case, here), there) in cases.iter().zip(here).zip(there) {
        let who = match (here == case.delivered, there == case.delivered) {
            (true, true) => continue,
            (true, false) => "ringtap",
            (false, true) => "suricata",
            (false, false) => "nobody",
        };
        let names = names(&case.name);
        match table.iter().find(|(name, right)| names.iter().any(|of| of == name) && *right == who) {
            Some(&(name, _)) => _ = used.insert(name),
            None => new.push(format!("{}: {who} is right", case.name)),
        }
    }
    assert!(new.is_empty(), "not in the table: {new:#?}");
    used
}

/// The lines of the table about mixed tricks, or about those by themselves.
pub fn expected(is_mixed: bool) -> BTreeSet<&'static str> {
    table().into_iter().map(|(name, _)| name).filter(|name| name.starts_with("mixed ") == is_mixed).collect()
}

/// The names by which a mixed case may stand there.
pub fn mixed_names(name: &str) -> Vec<String> {
    name.split(' ').skip(1).map(|trick| format!("mixed {trick}")).collect()
}
