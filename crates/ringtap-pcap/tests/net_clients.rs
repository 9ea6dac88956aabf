//! Real clients on our library and on the system's: the same traffic, the same output but for time stamps.

mod support;

use std::path::Path;
use std::process::Command;

use ringtap_testbed::Testbed;
use support::clients::{Client, Last, Library, bench, capture, capture_with, on_each, printed, same_output};
use support::{our_folder, run};

/// What clients say when filter, files and all are there.
const TCPDUMP: Option<&str> = Some("listening on");
const DUMPCAP: Option<&str> = Some("File: ");
const TSHARK: Option<&str> = Some("Capture started");
const P0F: Option<&str> = Some("Entered main event loop");

#[test]
fn net_tcpdump_prints_the_same() {
    let arguments = "-t -nn -e -x -l -Q in -Z root -i IF";
    let client = Client { program: "tcpdump", arguments, ready: TCPDUMP, last: Last::Segment };
    same_output(&client, &["packet", "xdp"], 500);
    let arguments = "-t -nn -e -l -Q in -Z root -s 100 -i IF udp or arp or (vlan and ip)";
    let client = Client { arguments, last: Last::Arp, ..client };
    same_output(&client, &["packet", "xdp"], 100);
}

/// As tcpdump counts: everything that was sent, and nothing lost.
#[test]
fn net_tcpdump_writes_the_same_and_counts_all() {
    let arguments = "-U -Q in -Z root -w DIR/out -i IF";
    let client = Client { program: "tcpdump", arguments, ready: TCPDUMP, last: Last::Segment };
    let files = on_each(&[Library::System, Library::Ours("packet"), Library::Ours("xdp")], |library| {
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
        read
    });
    assert!(files[0].lines().count() > 500);
    assert!(files[0] == files[1], "packet ring");
    assert!(files[0] == files[2], "AF_XDP");
}

#[test]
fn net_dumpcap_writes_the_same() {
    let arguments = "-q -P -w DIR/out -i IF";
    let client = Client { program: "dumpcap", arguments, ready: DUMPCAP, last: Last::Segment };
    let files = on_each(&[Library::System, Library::Ours("packet")], |library| {
        let (text, folder) = capture(&client, library);
        let out = folder.path().join("out");
        let read = run(Command::new("tcpdump").args(["-t", "-nn", "-e", "-xx", "-r"]).arg(out));
        assert!(read.status.success(), "{text}");
        String::from_utf8_lossy(&read.stdout).into_owned()
    });
    assert!(files[0].lines().count() > 500);
    assert!(files[0] == files[1]);
}

/// A ring of files: each is closed and the next one begun while packets come, and the same three are left.
#[test]
fn net_dumpcap_keeps_the_same_ring_of_files() {
    let arguments = "-q -P -b files:3 -b filesize:16 -w DIR/out -i IF";
    let client = Client { program: "dumpcap", arguments, ready: DUMPCAP, last: Last::Segment };
    let rings = on_each(&[Library::System, Library::Ours("packet")], |library| {
        let (text, folder) = capture(&client, library);
        let mut files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| path.file_name().unwrap().to_string_lossy().starts_with("out_"));
        files.sort();
        assert_eq!(files.len(), 3, "{text}");
        let read = |path: &std::path::PathBuf| {
            let done = run(Command::new("tcpdump").args(["-t", "-nn", "-e", "-xx", "-r"]).arg(path));
            assert!(done.status.success(), "{text}");
            String::from_utf8_lossy(&done.stdout).into_owned()
        };
        files.iter().map(read).collect::<Vec<_>>()
    });
    assert!(rings[0].iter().all(|file| file.lines().count() > 5));
    assert!(rings[0] == rings[1]);
}

/// It gives up all rights of root's but two before it captures, whoever started it, and then AF_XDP can't be had.
#[test]
fn net_dumpcap_without_the_rights_for_af_xdp_says_so_also_under_tshark() {
    let libraries = our_folder();
    let testbed = bench("dumpcap without rights");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("out.pcapng");
    for program in ["dumpcap", "tshark"] {
        let work = || {
            let mut client = Command::new("timeout");
            client.args(["30", program, "-c", "1", "-i", testbed.receiver().interface(), "-w", file.to_str().unwrap()]);
            client.env("LD_LIBRARY_PATH", libraries.path()).env("RINGTAP_BACKEND", "xdp");
            client.output().unwrap_or_else(|error| panic!("did not run: {program}: {error}"))
        };
        let output = testbed.receiver().run(work).unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{program}: {said}");
        for part in ["root, but without CAP_BPF and CAP_NET_ADMIN", "backend packet"] {
            assert!(said.contains(part), "{program}: {said}");
        }
    }
}

/// It cancels the thread that captures for it, and joins it.
#[test]
fn net_iftop_ends_as_it_should() {
    let libraries = our_folder();
    on_each(&[Library::System, Library::Ours("packet"), Library::Ours("xdp"), Library::Ours("system")], |library| {
        let testbed = bench("iftop");
        testbed.enable_receiver_napi().unwrap();
        let target = testbed.receiver().link().ipv4.to_string();
        // It counts its seconds by the packets that come.
        let mut ping = testbed.sender().command("ping");
        ping.args(["-q", "-c", "60", "-i", "0.2", &target]).stdout(std::process::Stdio::null());
        let pinging = testbed.sender().start(ping).unwrap();
        let work = || {
            let mut iftop = Command::new("timeout");
            iftop.args(["30", "iftop", "-t", "-s", "3", "-n", "-N", "-i", testbed.receiver().interface()]);
            if let Library::Ours(backend) = library {
                iftop.env("LD_LIBRARY_PATH", libraries.path()).env("RINGTAP_BACKEND", backend);
            }
            run(&mut iftop)
        };
        let done = testbed.receiver().run(work).unwrap();
        drop(pinging);
        let (text, said) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert_ne!(done.status.code(), Some(127), "did not run: iftop: the program is not there");
        assert!(done.status.success() && text.contains("Cumulative"), "{}: {text} {said}", done.status);
    });
}

#[test]
fn net_scapy_shows_the_same() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/sniff.py");
    let has_it = run(Command::new(PYTHON).args(["-c", "import scapy"]));
    assert!(has_it.status.success(), "did not run: scapy: {PYTHON} does not have it");
    let arguments = format!("{script} IF");
    let client = Client { program: PYTHON, arguments: &arguments, ready: Some("capturing"), last: Last::Segment };
    same_output(&client, &["packet"], 500);
}

/// gopacket reads in one thread, and another one asks for the counters.
#[test]
fn net_gopacket_prints_the_same() {
    const SOURCES: &str = "/usr/share/gocode";
    let is_there = |what: &str| Path::new(SOURCES).join("src/github.com/google").join(what).exists();
    assert!(is_there("gopacket"), "did not run: gopacket: {SOURCES} does not have it");
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("gopacket");
    let mut build = Command::new("go");
    build.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/go/gopacket"));
    // The distribution's package is in the old layout, which needs no network.
    build.envs([("GO111MODULE", "off"), ("GOPATH", SOURCES), ("GOFLAGS", ""), ("CGO_ENABLED", "1")]);
    // Beside what cargo has built: Go's own libraries take a minute of CPU the first time.
    build.env("GOCACHE", Path::new(env!("CARGO_TARGET_TMPDIR")).join("go"));
    let built = run(build.args(["build", "-o"]).arg(&program).arg("."));
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let program = program.to_str().unwrap();
    let client = Client { program, arguments: "IF", ready: Some("capturing"), last: Last::Segment };
    same_output(&client, &["packet", "xdp"], 500);
}

/// The distribution's, for which its package is made.
const PYTHON: &str = "/usr/bin/python3";

/// An ordinary user with what AF_XDP needs: dumpcap as root gives up CAP_BPF before it opens anything.
const AS_USER: &str = "--reuid 65534 --regid 65534 --clear-groups --inh-caps +net_raw,+net_admin,+bpf,+perfmon,+ipc_lock \
                       --ambient-caps +net_raw,+net_admin,+bpf,+perfmon,+ipc_lock";

#[test]
fn net_dumpcap_and_tshark_have_af_xdp_as_an_ordinary_user() {
    use std::os::unix::fs::PermissionsExt;
    const TEST: &str = "net_dumpcap_and_tshark_have_af_xdp_as_an_ordinary_user";
    let library = support::our_library();
    let mut reads = Command::new("setpriv");
    reads.args(AS_USER.split_whitespace()).args(["test", "-r"]).arg(&library);
    assert!(run(&mut reads).status.success(), "did not run: {TEST}: no other user may read {}", library.display());
    let open = |_: &Testbed, folder: &Path| {
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    };
    let attached = |testbed: &Testbed, wanted: bool| {
        let host = testbed.receiver();
        let link = host.run(|| ringtap::netlink::link_by_name(host.interface()).unwrap()).unwrap();
        assert_eq!(link.xdp_program.is_some(), wanted, "{link:?}");
    };
    let on = |client: &Client<'_>, library: Library| {
        capture_with(client, library, open, |testbed, _| attached(testbed, library != Library::System))
    };
    let arguments = format!("{AS_USER} dumpcap -q -P -w DIR/out -i IF");
    let client = Client { program: "setpriv", arguments: &arguments, ready: DUMPCAP, last: Last::Segment };
    let libraries = [Library::System, Library::Ours("xdp")];
    let files = on_each(&libraries, |library| {
        let (text, folder) = on(&client, library);
        let read = run(Command::new("tcpdump").args(["-t", "-nn", "-e", "-xx", "-r"]).arg(folder.path().join("out")));
        assert!(read.status.success(), "{text}");
        String::from_utf8_lossy(&read.stdout).into_owned()
    });
    assert!(files[0].lines().count() > 500);
    assert!(files[0] == files[1], "dumpcap");
    // Where it can't read the settings in its home, tshark crashes on some packets.
    let arguments = format!("{AS_USER} env HOME=DIR tshark {FIELDS}");
    let client = Client { program: "setpriv", arguments: &arguments, ready: TSHARK, last: Last::Segment };
    let texts = on_each(&libraries, |library| on(&client, library).0);
    assert!(printed(&texts[0]).lines().count() > 500, "{}", texts[0]);
    assert!(printed(&texts[0]) == printed(&texts[1]), "tshark: {}", texts[1]);
}

/// What root's dumpcap can't have it is told, with the cause and the way out.
#[test]
fn net_dumpcap_as_root_is_told_why_it_cannot_have_af_xdp() {
    let testbed = bench("net_dumpcap_as_root_is_told_why_it_cannot_have_af_xdp");
    let libraries = our_folder();
    let name = testbed.receiver().interface();
    // A file of its own: where it can't capture, dumpcap removes what it was to write.
    let folder = tempfile::tempdir().unwrap();
    let work = || {
        let mut dumpcap = Command::new("dumpcap");
        dumpcap.args(["-q", "-a", "duration:1", "-i", name, "-w"]).arg(folder.path().join("out"));
        run(dumpcap.env("LD_LIBRARY_PATH", libraries.path()).env("RINGTAP_BACKEND", "xdp"))
    };
    let done = testbed.receiver().run(work).unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(!done.status.success() && said.contains(name), "{said}");
    assert!(said.contains("CAP_BPF") && said.contains("backend packet"), "{said}");
}

const FIELDS: &str =
    "-l -n -i IF -T fields -e frame.number -e frame.len -e frame.protocols -e eth.src -e _ws.col.Protocol";

#[test]
fn net_tshark_prints_the_same() {
    let client = Client { program: "tshark", arguments: FIELDS, ready: TSHARK, last: Last::Segment };
    same_output(&client, &["packet"], 500);
}

#[test]
fn net_ngrep_prints_the_same() {
    let arguments = "-q -l -x -d IF";
    let client = Client { program: "ngrep", arguments, ready: None, last: Last::Segment };
    same_output(&client, &["packet", "xdp"], 100);
}

#[test]
fn net_p0f_prints_the_same() {
    let client = Client { program: "p0f", arguments: "-p -i IF", ready: P0F, last: Last::Segment };
    same_output(&client, &["packet", "xdp"], 20);
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
