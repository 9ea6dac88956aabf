//! Clients at work on the testbed's receiver: on which library, with what traffic, and what they printed.
//!
//! Nothing here waits for a set time: a client captures when it says so, or when it rests on what it opened; and it has told of
//! all that was sent when it has told of the last frame.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ringtap_samples::Sample;
use ringtap_samples::files::{Format, Order, file};
use ringtap_samples::frames::{Ends, ethernet, join};
use ringtap_testbed::generate::{Replay, ReplayPace};
use ringtap_testbed::{Host, RunningProgram, Testbed, TestbedConfig};

use super::our_folder;

/// Longest a client may take to start, or to tell of what came: more is a hang.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whose library.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Library {
    System,
    /// Ours, with this back end.
    Ours(&'static str),
}

/// A client at work on the receiving interface: arguments may name it as IF and a folder of its own as DIR.
pub struct Client<'a> {
    pub program: &'a str,
    pub arguments: &'a str,
    /// What it says when it captures; `None`: it says nothing, and is seen to rest.
    pub ready: Option<&'a str>,
    /// Which of the frames at the end of the traffic it tells of.
    pub last: Last,
}

/// The frames that follow all others, in this order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Last {
    /// A request of ARP.
    Arp,
    /// A segment that opens a connection and carries data.
    Segment,
    /// The client tells of none by itself: how far it is is asked otherwise.
    Untold,
}

impl Last {
    const ARP_SENDER: [u8; 4] = [198, 18, 77, 1];
    const SEGMENT_SENDER: &'static str = "198.18.77.77";
    const SEGMENT_MAC: [u8; 6] = [2, 0, 0, 0, 0x0e, 0x0d];

    fn frames() -> Vec<Vec<u8>> {
        const ANOTHER_HOST: [u8; 6] = [2, 0, 0, 0, 0x0e, 0x0e];
        let arp = join(&[
            &[0, 1, 8, 0, 6, 4, 0, 1],
            &[2, 0, 0, 0, 0x0e, 0x0c],
            &Self::ARP_SENDER,
            &[0; 6],
            &[198, 18, 77, 2],
        ]);
        let ends = Ends::new(Self::SEGMENT_SENDER, "198.18.77.78");
        let segment = ends.tcp([40_000, 40_001], [1, 0], 2, &[2, 4, 5, 0xb4], b"the last one");
        let mut frames = vec![ethernet(0x0806, &arp), ethernet(0x0800, &ends.packet(6, &segment))];
        for frame in &mut frames {
            frame[..6].copy_from_slice(&ANOTHER_HOST);
        }
        frames[1][6..12].copy_from_slice(&Self::SEGMENT_MAC);
        frames
    }

    /// Whether this, printed or written by a client, tells of it: by an address, as bytes or as text.
    fn is_told_in(self, written: &[u8]) -> bool {
        let has = |what: &[u8]| written.windows(what.len()).any(|window| window == what);
        let hex = |between: &str| Self::SEGMENT_MAC.map(|byte| format!("{byte:02x}")).join(between);
        match self {
            Self::Arp => has(Self::ARP_SENDER.map(|byte| byte.to_string()).join(".").as_bytes()),
            Self::Segment => {
                [Self::SEGMENT_SENDER.as_bytes(), &Self::SEGMENT_MAC, hex(":").as_bytes(), hex("").as_bytes()]
                    .into_iter()
                    .any(has)
            }
            Self::Untold => true,
        }
    }
}

/// How often the system's library is asked again.
const SYSTEM_AGAIN: u32 = 4;
/// The sample that tcpdump's filter `… (vlan and …)` tells apart: once `vlan` stands in a filter the system's library looks for the
/// tag in the kernel's metadata only, so its earlier terms still match tagged packets; ours has the tag in the packet.
const APART: [&str; 1] = ["vlan"];

fn write(folder: &Path, sample: &Sample) -> PathBuf {
    let path = folder.join(format!("{}.pcap", sample.name));
    std::fs::write(&path, file(sample, Format::Pcap(Order::Little))).unwrap();
    path
}

/// Files of Ethernet frames that clients of many kinds have something to say about.
fn traffic(folder: &Path) -> Vec<PathBuf> {
    let fit = |sample: &Sample| sample.link == 1 && !APART.contains(&sample.name.as_str());
    ringtap_samples::samples().iter().filter(|sample| fit(sample)).map(|sample| write(folder, sample)).collect()
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
    let once = || capture_once(traffic.clone(), client, library, &prepare, &conclude);
    let captured = match (once(), library) {
        // The block with the last frame may stay in the kernel beneath the system's library (seen with p0f on 6.18, not
        // explained). It is what ours is compared with, so it is asked again; ours is not.
        (Err(why), Library::System) => {
            eprintln!("once more: {why}");
            once()
        }
        (captured, _) => captured,
    };
    captured.unwrap_or_else(|why| panic!("{why}"))
}

/// One try; an error when the client does not tell of the last frame.
fn capture_once(
    mut traffic: Vec<PathBuf>,
    client: &Client<'_>,
    library: Library,
    prepare: impl Fn(&Testbed, &Path),
    conclude: impl Fn(&Testbed, &Path),
) -> Result<(String, tempfile::TempDir), String> {
    let testbed = bench(client.program);
    testbed.enable_receiver_napi().unwrap();
    // Nothing is on the wire but what is sent here: a kernel's own reports of multicast groups (MLD) come at any time.
    for host in [testbed.sender(), testbed.receiver()] {
        let switch = format!("/proc/sys/net/ipv6/conf/{}/disable_ipv6", host.interface());
        host.run(|| std::fs::write(switch, "1").ok()).unwrap();
    }
    thread::sleep(Duration::from_millis(50));
    let (folder, sent) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let last = Sample { name: "last".to_owned(), link: 1, packets: Last::frames() };
    traffic.push(write(sent.path(), &last));
    prepare(&testbed, folder.path());
    let mut work = Work::start(&testbed, client, library, folder.path());
    work.wait_until_it_captures(testbed.receiver(), client.ready);
    let replay = Replay::new(testbed.sender().interface(), traffic, ReplayPace::Constant(2000.0));
    let report = testbed.sender().run(|| replay.start().unwrap().join().unwrap()).unwrap();
    assert!(report.stamped > 500, "{report}");
    work.wait_until_it_told(client.last)?;
    conclude(&testbed, folder.path());
    Ok((work.end(testbed.receiver()), folder))
}

/// A client at work. What it prints is in its folder, beside what it writes there by itself.
struct Work<'a> {
    /// Program and library, for what is said of a failure.
    who: String,
    running: RunningProgram,
    folder: &'a Path,
    _libraries: tempfile::TempDir,
}

impl<'a> Work<'a> {
    fn start(testbed: &Testbed, client: &Client<'_>, library: Library, folder: &'a Path) -> Self {
        let missing = Command::new("which").arg(client.program).output().unwrap();
        assert!(missing.status.success(), "did not run: {}: the program is not there", client.program);
        let libraries = our_folder();
        let receiver = testbed.receiver();
        let mut command = receiver.command(client.program);
        let path = folder.display().to_string();
        let expand = |word: &str| word.replace("IF", receiver.interface()).replace("DIR", &path);
        command.args(client.arguments.split_whitespace().map(expand));
        let [printed, words] = ["printed", "words"].map(|name| File::create(folder.join(name)).unwrap());
        command.stdin(Stdio::null()).stdout(printed).stderr(words);
        if let Library::Ours(backend) = library {
            command.env("LD_LIBRARY_PATH", libraries.path()).env("RINGTAP_BACKEND", backend);
        }
        let who = format!("{} on {library:?}", client.program);
        Self { who, running: receiver.start(command).unwrap(), folder, _libraries: libraries }
    }

    fn read(&self, name: &str) -> String {
        String::from_utf8_lossy(&std::fs::read(self.folder.join(name)).unwrap()).into_owned()
    }

    /// Looks until `done`; a client that ends before or takes for ever has failed.
    fn wait_until(&mut self, what: &str, done: impl FnMut(&mut Self) -> bool) {
        self.looks_until(what, done).unwrap_or_else(|why| panic!("{why}"));
    }

    /// The same; an error when it takes for ever.
    fn looks_until(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> bool) -> Result<(), String> {
        let until = Instant::now() + PATIENCE;
        while !done(self) {
            let ended = self.running.child().try_wait().unwrap();
            let words = || self.read("words") + &self.read("printed");
            assert!(ended.is_none(), "{} ended before {what}: {}", self.who, words());
            if Instant::now() > until {
                return Err(format!("{}: not {what} after {PATIENCE:?}: {}", self.who, words()));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn wait_until_it_captures(&mut self, host: &Host, ready: Option<&str>) {
        let Some(ready) = ready else {
            self.wait_until("it listens", |_| listens(host));
            let mut before = None;
            return self.wait_until("it rests", |work| {
                thread::sleep(Duration::from_millis(100));
                let (asleep, now) = threads_of(work.running.child().id());
                before.replace(now).is_some_and(|before| asleep && now - before < 2_000_000)
            });
        };
        self.wait_until("it captures", |work| ["words", "printed"].iter().any(|name| work.read(name).contains(ready)));
    }

    fn wait_until_it_told(&mut self, last: Last) -> Result<(), String> {
        self.looks_until("it told of the last frame", |work| {
            let files = std::fs::read_dir(work.folder).unwrap().map(|entry| entry.unwrap().path());
            // One that is of a ring may be gone before it is read.
            files.filter(|path| path.is_file()).any(|path| last.is_told_in(&std::fs::read(path).unwrap_or_default()))
                || last == Last::Untold
        })
    }

    /// All it printed, the names of this run replaced.
    fn end(self, host: &Host) -> String {
        let Self { running, folder, .. } = self;
        running.interrupt().unwrap();
        let read = |name: &str| String::from_utf8_lossy(&std::fs::read(folder.join(name)).unwrap()).into_owned();
        let text = read("printed") + "\n--\n" + &read("words");
        text.replace(host.interface(), "IF").replace(&folder.display().to_string(), "DIR")
    }
}

/// Whether anybody has a packet socket or an XDP program on the host's interface.
fn listens(host: &Host) -> bool {
    let of_interface = |line: &str| {
        // packet(7)'s sockets: sk, RefCnt, Type, Proto, Iface, R, …; without a protocol nothing is received.
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields.get(4).is_some_and(|index| *index == host.link().index.to_string()) && fields[3] != "0000"
    };
    let looked = host.run(|| {
        let sockets = std::fs::read_to_string("/proc/thread-self/net/packet").unwrap();
        sockets.lines().any(of_interface)
            || ringtap::netlink::link_by_name(host.interface()).unwrap().xdp_program.is_some()
    });
    looked.unwrap()
}

/// Whether all threads of a process sleep, and the nanoseconds they have been on a CPU (proc_pid_stat(5),
/// Documentation/scheduler/sched-stats.rst).
fn threads_of(process: u32) -> (bool, u64) {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let read = |thread: &std::fs::DirEntry, name| std::fs::read_to_string(thread.path().join(name)).unwrap_or_default();
    threads.fold((true, 0), |(asleep, sum), thread| {
        let time = read(&thread, "schedstat").split(' ').next().and_then(|text| text.parse::<u64>().ok());
        (asleep && read(&thread, "stat").contains(") S "), sum + time.unwrap_or_default())
    })
}

/// `work` for each library, at the same time.
pub fn on_each<T: Send>(libraries: &[Library], work: impl Fn(Library) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let running: Vec<_> = libraries
            .iter()
            .map(|&library| {
                scope.spawn({
                    let work = &work;
                    move || work(library)
                })
            })
            .collect();
        running.into_iter().map(|one| one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
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
    capture: impl Fn(Library) -> String + Sync,
    client: &Client<'_>,
    backends: &[&'static str],
    least_lines: usize,
) {
    let libraries: Vec<Library> =
        [Library::System].into_iter().chain(backends.iter().map(|backend| Library::Ours(backend))).collect();
    let mut texts = on_each(&libraries, &capture).into_iter();
    let mut system = texts.next().unwrap();
    let ours: Vec<String> = texts.collect();
    // On a busy machine the system's library loses packets of these; it is what ours is compared with, so it is asked again.
    for _ in 0..SYSTEM_AGAIN {
        if ours.iter().all(|ours| printed(ours) == printed(&system)) {
            break;
        }
        system = capture(Library::System);
    }
    assert!(printed(&system).lines().count() >= least_lines, "{}: {system}", client.program);
    for (backend, ours) in backends.iter().zip(ours) {
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
