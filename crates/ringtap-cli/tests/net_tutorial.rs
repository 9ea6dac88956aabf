//! The tutorial's commands, as a reader would give them: the `sh` blocks of a chapter in one shell, in a network namespace of its own,
//! and after each the lines of the `text` block that follows it, in their order.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What the shell says between two blocks.
const MARK: &str = "===== next block";
/// A chapter takes seconds; the first one may have to measure the machine.
const LIMIT: Duration = Duration::from_secs(120);

/// A block of commands, and what is to be seen of what they say: lines, where `…` stands for anything.
#[derive(Default)]
struct Block {
    commands: String,
    expected: Vec<String>,
}

/// The blocks of one chapter. Those in other languages are for eyes only.
fn blocks(chapter: &Path) -> Vec<Block> {
    let text = std::fs::read_to_string(chapter).unwrap();
    let mut blocks: Vec<Block> = Vec::new();
    let mut language: Option<String> = None;
    for line in text.lines() {
        match (&language, line.strip_prefix("```")) {
            (None, Some(name)) => {
                language = Some(name.to_owned());
                if name == "sh" {
                    blocks.push(Block::default());
                }
            }
            (Some(_), Some(_)) => language = None,
            (Some(name), None) if name == "sh" => {
                let block = blocks.last_mut().unwrap();
                block.commands.push_str(line);
                block.commands.push('\n');
            }
            (Some(name), None) if name == "text" => {
                let block = blocks.last_mut().expect("what is seen follows commands");
                block.expected.push(line.to_owned());
            }
            _ => {}
        }
    }
    assert!(language.is_none(), "{}: a block without an end", chapter.display());
    blocks
}

/// Whether a line has the parts of an expected one, in their order.
fn fits(line: &str, expected: &str) -> bool {
    let mut rest = line;
    expected.split('…').all(|part| rest.find(part).map(|at| rest = &rest[at + part.len()..]).is_some())
}

/// One reader at a time: real-time threads of one would starve the other.
static READER: Mutex<()> = Mutex::new(());

/// A network namespace with a name, which goes with it.
struct Namespace {
    name: String,
    _reader: MutexGuard<'static, ()>,
}

impl Namespace {
    fn new(test: &str) -> Self {
        assert!(nix::unistd::geteuid().is_root(), "did not run: {test}: it needs root");
        let reader = READER.lock().unwrap_or_else(PoisonError::into_inner);
        let name = format!("rtbook{}", std::process::id());
        let added = Command::new("ip").args(["netns", "add", &name]).status();
        assert!(added.is_ok_and(|status| status.success()), "did not run: {test}: ip netns add {name}");
        Self { name, _reader: reader }
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "delete", &self.name]).status();
    }
}

/// Ringtap's libpcap as cargo builds it, for the chapter that runs programs on it: with the tests of its crate, or by itself.
fn pcap_library() -> Option<PathBuf> {
    let program = std::env::current_exe().unwrap();
    program
        .ancestors()
        .skip(1)
        .take(2)
        .map(|folder| folder.join("libringtap_pcap.so"))
        .find(|library| library.is_file())
}

fn follow(test: &str, chapter: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tutorial");
    let (place, chapter) = (blocks(&folder.join("README.md")), blocks(&folder.join(chapter)));
    assert!(!chapter.is_empty());
    let namespace = Namespace::new(test);
    let work = tempfile::tempdir().unwrap();
    let mut script = String::from("set -eu -o pipefail\n");
    place.iter().for_each(|block| script.push_str(&block.commands));
    for block in &chapter {
        script.push_str(&format!("echo '{MARK}'\n{}", block.commands));
    }
    std::fs::write(work.path().join(".script"), script).unwrap();
    let said = work.path().join(".said");
    let output = std::fs::File::create(&said).unwrap();
    let ringtap = PathBuf::from(env!("CARGO_BIN_EXE_ringtap"));
    let path = format!("{}:{}", ringtap.parent().unwrap().display(), std::env::var("PATH").unwrap());
    // Ends with the namespace's last program; a process group, so that none is left behind.
    let mut shell = Command::new("setsid")
        .args(["--wait", "timeout", "-k", "5", &LIMIT.as_secs().to_string()])
        .args(["ip", "netns", "exec", &namespace.name, "bash", ".script"])
        .current_dir(work.path())
        .env("PATH", path)
        .env("MIBS", "")
        .envs(pcap_library().map(|library| ("RINGTAP_PCAP_LIBRARY", library)))
        .stdin(Stdio::null())
        .stdout(output.try_clone().unwrap())
        .stderr(output)
        .spawn()
        .unwrap_or_else(|error| panic!("did not run: {test}: setsid: {error}"));
    let began = Instant::now();
    let status = shell.wait().unwrap();
    let said = std::fs::read_to_string(&said).unwrap();
    assert!(status.success(), "{status} after {:?}: {said}", began.elapsed());
    let parts: Vec<&str> = said.split(MARK).skip(1).collect();
    assert_eq!(parts.len(), chapter.len(), "{said}");
    for (block, part) in chapter.iter().zip(parts) {
        let mut lines = part.lines();
        for expected in &block.expected {
            let seen = lines.any(|line| fits(line, expected));
            assert!(seen, "`{expected}` is not in, or not in its place in, what this said:\n{}{part}", block.commands);
        }
    }
}

#[test]
fn net_tutorial_a_first_capture() {
    follow("net_tutorial_a_first_capture", "first-capture.md");
}

#[test]
fn net_tutorial_find_loss() {
    follow("net_tutorial_find_loss", "find-loss.md");
}

#[test]
fn net_tutorial_other_programs() {
    assert!(
        pcap_library().is_some(),
        "did not run: net_tutorial_other_programs: it needs libringtap_pcap.so: cargo build -p ringtap-pcap"
    );
    follow("net_tutorial_other_programs", "other-programs.md");
}

#[test]
fn net_tutorial_find_an_attack() {
    follow("net_tutorial_find_an_attack", "find-an-attack.md");
}

#[test]
fn net_tutorial_a_storm_of_traps() {
    follow("net_tutorial_a_storm_of_traps", "trap-storm.md");
}

#[test]
fn net_tutorial_correlate() {
    follow("net_tutorial_correlate", "correlate.md");
}

#[test]
fn net_tutorial_rules() {
    follow("net_tutorial_rules", "rules.md");
}

#[test]
fn net_tutorial_silence_an_alarm() {
    follow("net_tutorial_silence_an_alarm", "silence.md");
}

#[test]
fn net_tutorial_watch() {
    follow("net_tutorial_watch", "watch.md");
}

#[test]
fn net_tutorial_report_a_bug() {
    follow("net_tutorial_report_a_bug", "report-a-bug.md");
}

#[test]
fn net_tutorial_every_chapter_is_followed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tutorial");
    let this = include_str!("net_tutorial.rs");
    for chapter in std::fs::read_dir(folder).unwrap() {
        let name = chapter.unwrap().file_name().into_string().unwrap();
        assert!(name == "README.md" || this.contains(&format!("\"{name}\")")), "no test follows {name}");
    }
}

#[test]
fn net_tutorial_one_liners() {
    follow("net_tutorial_one_liners", "one-liners.md");
}
