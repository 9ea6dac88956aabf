//! Clients at work on the testbed's receiver: on which library, with what traffic, and what they printed.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use ringtap_samples::Sample;
use ringtap_samples::files::{Format, Order, file};
use ringtap_testbed::generate::{Replay, ReplayPace};
use ringtap_testbed::{Testbed, TestbedConfig};

use super::our_folder;

pub const QUICK: Duration = Duration::from_millis(1500);
pub const SLOW: Duration = Duration::from_secs(4);

/// Whose library.
#[derive(Clone, Copy, PartialEq)]
pub enum Library {
    System,
    /// Ours, with this back end.
    Ours(&'static str),
}

/// A client at work on the receiving interface: arguments may name it as IF and a folder of its own as DIR.
pub struct Client<'a> {
    pub program: &'a str,
    pub arguments: &'a str,
    /// How long it takes until it captures.
    pub start: Duration,
    /// How long it may take to print what it has.
    pub end: Duration,
}

/// Samples of which clients printed other things on our library: tcpdump with a filter of VLAN-tagged datagrams, softflowd of
/// fragments and ICMP. Why is not known yet.
const APART: [&str; 5] = ["vlan", "ipv4-fragments", "ipv6-fragments", "icmp", "big"];

/// Files of Ethernet frames that clients of many kinds have something to say about.
fn traffic(folder: &Path) -> Vec<PathBuf> {
    let write = |sample: Sample| {
        let path = folder.join(format!("{}.pcap", sample.name));
        std::fs::write(&path, file(&sample, Format::Pcap(Order::Little))).unwrap();
        path
    };
    let fit = |sample: &Sample| sample.link == 1 && !APART.contains(&sample.name.as_str());
    ringtap_samples::samples().into_iter().filter(fit).map(write).collect()
}

pub fn bench(name: &str) -> Testbed {
    assert!(nix::unistd::Uid::effective().is_root(), "did not run: {name}: it needs root");
    Testbed::new(TestbedConfig::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// What the client printed, and its folder.
pub fn capture(client: &Client<'_>, library: Library) -> (String, tempfile::TempDir) {
    capture_with(client, library, |_, _| {}, |_, _| {})
}

/// The same with what is to be done before it starts, and before it ends.
pub fn capture_with(
    client: &Client<'_>,
    library: Library,
    prepare: impl Fn(&Testbed, &Path),
    conclude: impl Fn(&Testbed, &Path),
) -> (String, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    capture_of(traffic(folder.path()), client, library, prepare, conclude)
}

/// The same of the frames in these files.
pub fn capture_of(
    traffic: Vec<PathBuf>,
    client: &Client<'_>,
    library: Library,
    prepare: impl Fn(&Testbed, &Path),
    conclude: impl Fn(&Testbed, &Path),
) -> (String, tempfile::TempDir) {
    let testbed = bench(client.program);
    testbed.enable_receiver_napi().unwrap();
    let folder = tempfile::tempdir().unwrap();
    prepare(&testbed, folder.path());
    let libraries = our_folder();
    let printed = folder.path().join("printed");
    let words = folder.path().join("words");
    let receiver = testbed.receiver();
    let mut command = receiver.command(client.program);
    let path = folder.path().display().to_string();
    let expand = |word: &str| word.replace("IF", receiver.interface()).replace("DIR", &path);
    command.args(client.arguments.split_whitespace().map(expand));
    command.stdin(Stdio::null()).stdout(File::create(&printed).unwrap()).stderr(File::create(&words).unwrap());
    if let Library::Ours(backend) = library {
        command.env("LD_LIBRARY_PATH", libraries.path()).env("RINGTAP_BACKEND", backend);
    }
    let missing = Command::new("which").arg(client.program).output().unwrap();
    assert!(missing.status.success(), "did not run: {}: the program is not there", client.program);
    let mut running = receiver.start(command).unwrap();
    thread::sleep(client.start);
    let ended = running.child().try_wait().unwrap();
    assert!(ended.is_none(), "{} ended: {}", client.program, std::fs::read_to_string(&words).unwrap());
    let replay = Replay::new(testbed.sender().interface(), traffic, ReplayPace::Constant(2000.0));
    let report = testbed.sender().run(|| replay.start().unwrap().join().unwrap()).unwrap();
    assert!(report.stamped > 500, "{report}");
    thread::sleep(client.end);
    conclude(&testbed, folder.path());
    running.interrupt().unwrap();
    let mut text = std::fs::read_to_string(&words).unwrap();
    text = text.replace(receiver.interface(), "IF").replace(&path, "DIR");
    let bytes = std::fs::read(&printed).unwrap();
    (
        String::from_utf8_lossy(&bytes).replace(receiver.interface(), "IF").replace(&path, "DIR") + "\n--\n" + &text,
        folder,
    )
}

pub fn printed(text: &str) -> &str {
    text.split("\n--\n").next().unwrap()
}

/// The same standard output, line by line.
pub fn same_output(client: &Client<'_>, backends: &[&'static str], least_lines: usize) {
    same_output_of(|library| capture(client, library).0, client, backends, least_lines);
}

/// The same of what `capture` gives.
pub fn same_output_of(
    capture: impl Fn(Library) -> String,
    client: &Client<'_>,
    backends: &[&'static str],
    least_lines: usize,
) {
    let system = capture(Library::System);
    assert!(printed(&system).lines().count() >= least_lines, "{}: {system}", client.program);
    for &backend in backends {
        let ours = capture(Library::Ours(backend));
        let differs = printed(&system).lines().zip(printed(&ours).lines()).find(|(theirs, ours)| theirs != ours);
        assert!(
            printed(&ours) == printed(&system),
            "{} on {backend}: {} lines, by the system's library {}; first difference {differs:?}; {}",
            client.program,
            printed(&ours).lines().count(),
            printed(&system).lines().count(),
            ours.split("\n--\n").nth(1).unwrap_or_default()
        );
    }
}
