//! Real clients on our library and on the system's: the same traffic, the same output but for time stamps.

mod support;

use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use ringtap_testbed::generate::{Replay, ReplayPace};
use ringtap_testbed::{Testbed, TestbedConfig};
use support::{our_folder, run, shared};

/// Whose library.
#[derive(Clone, Copy, PartialEq)]
enum Library {
    System,
    /// Ours, with this back end.
    Ours(&'static str),
}

/// A client at work on the receiving interface: arguments may name it as IF and a folder of its own as DIR.
struct Client<'a> {
    program: &'a str,
    arguments: &'a str,
    /// How long it takes until it captures.
    start: Duration,
    /// How long it may take to print what it has.
    end: Duration,
}

/// Captures of Ethernet frames that clients of many kinds have something to say about.
fn traffic() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(shared("decode")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|kind| kind == "pcap"));
    files.sort();
    files.into_iter().step_by(2).collect()
}

fn bench(name: &str) -> Testbed {
    assert!(nix::unistd::Uid::effective().is_root(), "did not run: {name}: it needs root");
    Testbed::new(TestbedConfig::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// What the client printed, and its folder.
fn capture(client: &Client<'_>, library: Library) -> (String, tempfile::TempDir) {
    let testbed = bench(client.program);
    testbed.enable_receiver_napi().unwrap();
    let folder = tempfile::tempdir().unwrap();
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
    let replay = Replay::new(testbed.sender().interface(), traffic(), ReplayPace::Constant(2000.0));
    let report = testbed.sender().run(|| replay.start().unwrap().join().unwrap()).unwrap();
    assert!(report.stamped > 500, "{report}");
    thread::sleep(client.end);
    running.interrupt().unwrap();
    let mut text = std::fs::read_to_string(&words).unwrap();
    text = text.replace(receiver.interface(), "IF").replace(&path, "DIR");
    let bytes = std::fs::read(&printed).unwrap();
    (
        String::from_utf8_lossy(&bytes).replace(receiver.interface(), "IF").replace(&path, "DIR") + "\n--\n" + &text,
        folder,
    )
}

fn printed(text: &str) -> &str {
    text.split("\n--\n").next().unwrap()
}

/// The same standard output, line by line.
fn same_output(client: &Client<'_>, backends: &[&'static str], least_lines: usize) {
    let (system, _) = capture(client, Library::System);
    assert!(printed(&system).lines().count() >= least_lines, "{}: {system}", client.program);
    for &backend in backends {
        let (ours, _) = capture(client, Library::Ours(backend));
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

const QUICK: Duration = Duration::from_millis(1500);
const SLOW: Duration = Duration::from_secs(4);

#[test]
fn net_tcpdump_prints_the_same() {
    let arguments = "-t -nn -e -x -l -Q in -Z root -i IF";
    same_output(&Client { program: "tcpdump", arguments, start: QUICK, end: QUICK }, &["packet", "xdp"], 500);
    let arguments = "-t -nn -e -l -Q in -Z root -s 100 -i IF udp or arp or (vlan and ip)";
    same_output(&Client { program: "tcpdump", arguments, start: QUICK, end: QUICK }, &["packet", "xdp"], 100);
}

/// As tcpdump counts: everything that was sent, and nothing lost.
#[test]
fn net_tcpdump_writes_the_same_and_counts_all() {
    let client = Client { program: "tcpdump", arguments: "-Q in -Z root -w DIR/out -i IF", start: QUICK, end: QUICK };
    let mut files = Vec::new();
    for library in [Library::System, Library::Ours("packet"), Library::Ours("xdp")] {
        let (text, folder) = capture(&client, library);
        let read = run(Command::new("tcpdump").args(["-t", "-nn", "-e", "-xx", "-r"]).arg(folder.path().join("out")));
        let read = String::from_utf8_lossy(&read.stdout).into_owned();
        let count = |what: &str| -> u64 {
            text.lines()
                .find_map(|line| line.strip_suffix(what)?.trim().parse().ok())
                .unwrap_or_else(|| panic!("{text}"))
        };
        let captured = count("packets captured");
        assert_eq!(count("packets dropped by kernel"), 0, "{text}");
        if library != Library::System {
            assert_eq!(count("packets received by filter"), captured, "{text}");
        }
        files.push(read);
    }
    assert!(files[0].lines().count() > 500);
    assert!(files[0] == files[1], "packet ring");
    assert!(files[0] == files[2], "AF_XDP");
}

#[test]
fn net_dumpcap_writes_the_same() {
    let client = Client { program: "dumpcap", arguments: "-q -P -w DIR/out -i IF", start: QUICK, end: QUICK };
    let read = |library| {
        let (text, folder) = capture(&client, library);
        let out = folder.path().join("out");
        let read = run(Command::new("tcpdump").args(["-t", "-nn", "-e", "-xx", "-r"]).arg(out));
        assert!(read.status.success(), "{text}");
        String::from_utf8_lossy(&read.stdout).into_owned()
    };
    let system = read(Library::System);
    assert!(system.lines().count() > 500);
    // It gives up CAP_BPF before it opens anything, so AF_XDP is not to be had for it.
    assert!(system == read(Library::Ours("packet")));
}

#[test]
fn net_tshark_prints_the_same() {
    let arguments =
        "-l -n -i IF -T fields -e frame.number -e frame.len -e frame.protocols -e eth.src -e _ws.col.Protocol";
    same_output(&Client { program: "tshark", arguments, start: SLOW, end: SLOW }, &["packet"], 500);
}

#[test]
fn net_ngrep_prints_the_same() {
    let arguments = "-q -l -x -d IF";
    same_output(&Client { program: "ngrep", arguments, start: QUICK, end: QUICK }, &["packet", "xdp"], 100);
}

#[test]
fn net_p0f_prints_the_same() {
    same_output(&Client { program: "p0f", arguments: "-p -i IF", start: QUICK, end: QUICK }, &["packet", "xdp"], 20);
}

/// nmap sends by its own means and waits for the answers through libpcap.
#[test]
fn net_nmap_finds_the_same() {
    let testbed = bench("nmap");
    let target = testbed.sender().link().ipv4.to_string();
    let listener = testbed.sender().run(|| std::net::TcpListener::bind((testbed.sender().link().ipv4, 8080)).unwrap());
    let libraries = our_folder();
    let scan = |ours: bool| {
        let done = testbed.receiver().run(|| {
            let mut nmap = Command::new("nmap");
            nmap.args(["-n", "-sS", "-p", "8078-8082", "--send-eth", "--reason", &target]);
            if ours {
                nmap.env("LD_LIBRARY_PATH", libraries.path());
            }
            run(&mut nmap)
        });
        let done = done.unwrap();
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(done.status.success(), "{text} {}", String::from_utf8_lossy(&done.stderr));
        text.lines().filter(|line| line.contains("/tcp")).map(str::to_owned).collect::<Vec<_>>()
    };
    let system = scan(false);
    assert!(system.iter().any(|line| line.contains("8080/tcp open")), "{system:?}");
    assert_eq!(system, scan(true));
    drop(listener);
}
