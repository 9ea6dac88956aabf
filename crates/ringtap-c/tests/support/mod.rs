//! What the tests of the C library share: where it is as its users would have it, C programs, and programs at work in a testbed.
#![allow(dead_code, unreachable_pub)] // Each test program uses a part.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use ringtap_testbed::{GeneratorConfig, Pattern, Profile, Testbed, TestbedConfig};

/// Longer than a busy machine takes for what is due at once.
const HANG: Duration = Duration::from_secs(60);

/// This crate's folder.
pub fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// What cargo has built for this test: beside the test program, or a folder above.
pub fn built(name: &str) -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let mut found = program.ancestors().skip(1).take(2).map(|folder| folder.join(name));
    found.find(|path| path.exists()).expect("cargo builds the library before its tests")
}

/// A folder with the shared library under the names that linkers and programs look for.
pub fn library() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    // Programs of other users look in here too.
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for name in ["libringtap.so.0", "libringtap.so"] {
        std::os::unix::fs::symlink(built("libringtap_c.so"), folder.path().join(name)).unwrap();
    }
    folder
}

/// Runs a program that must be there.
pub fn run(command: &mut Command) -> Output {
    let name = command.get_program().to_owned();
    command.output().unwrap_or_else(|error| panic!("did not run: {}: {error}", name.display()))
}

/// What it printed, if it succeeded.
pub fn output(command: &mut Command) -> String {
    let done = run(command);
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// Compiles a C program of this crate against the header and the library in `folder`, into it.
pub fn compile(source: &str, folder: &Path) -> PathBuf {
    let source = here().join(source);
    let program = folder.join(source.file_stem().unwrap());
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1", "-g"]);
    cc.arg("-I").arg(here().join("include")).arg("-I").arg(here().join("../ringtap-pcap/tests/c/support"));
    output(cc.arg(source).arg("-o").arg(&program).arg("-L").arg(folder).args(["-lringtap", "-lpthread"]));
    program
}

/// One testbed at a time: generators of several would fight for their core.
pub struct Bench {
    pub testbed: Testbed,
    _turn: MutexGuard<'static, ()>,
}

/// A testbed on which nothing is sent but what the test sends.
pub fn bench(name: &str) -> Bench {
    static TURN: Mutex<()> = Mutex::new(());
    assert!(nix::unistd::Uid::effective().is_root(), "did not run: {name}: it needs root");
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let config = TestbedConfig { ipv6: false, ..TestbedConfig::default() };
    let testbed = Testbed::new(config).unwrap_or_else(|error| panic!("{error}"));
    Bench { testbed, _turn: turn }
}

impl Bench {
    /// Sends so many numbered packets.
    pub fn send(&self, count: u64, pps: f64) {
        let profile = Profile::endless(Pattern::Constant { pps });
        let config = GeneratorConfig::for_testbed(&self.testbed, 64, profile).count(count);
        let report = self.testbed.generate(config).unwrap_or_else(|error| panic!("{error}")).join().unwrap();
        assert_eq!(report.stamped, count, "{report}");
    }

    /// Starts a program in the receiving host.
    pub fn start(&self, command: &mut Command) -> Work {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.testbed.receiver().run(|| command.spawn().unwrap()).unwrap();
        let (tell, lines) = mpsc::channel();
        for stream in
            [Box::new(child.stdout.take().unwrap()) as Box<dyn Read + Send>, Box::new(child.stderr.take().unwrap())]
        {
            let tell = tell.clone();
            thread::spawn(move || {
                let lines = BufReader::new(stream).lines().map_while(Result::ok);
                lines.for_each(|line| tell.send(line).unwrap_or_default());
            });
        }
        Work { input: child.stdin.take().unwrap(), child, lines, said: Vec::new() }
    }

    /// What an end of ours has to leave as it was: the XDP program, promiscuous mode, features of the device.
    pub fn settings(&self) -> [String; 2] {
        let interface = self.testbed.receiver().interface();
        let link = format!("ip -details link show {interface} | grep -o 'prog/xdp\\|promiscuity [0-9]*'");
        let features = format!(
            "ethtool -k {interface}; ethtool -x {interface} 2>&1; cd /sys/class/net/{interface}; cat flags napi_defer_hard_irqs gro_flush_timeout threaded"
        );
        [link, features].map(|script| {
            let said = self.testbed.receiver().run(|| run(Command::new("sh").args(["-c", &script]))).unwrap();
            String::from_utf8_lossy(&said.stdout).into_owned()
        })
    }
}

/// A program at work.
pub struct Work {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    said: Vec<String>,
}

impl Work {
    /// Waits until a line contains these words.
    pub fn await_words(&mut self, words: &str) {
        loop {
            let line = self.lines.recv_timeout(HANG);
            self.said.push(line.unwrap_or_else(|error| panic!("{error} before {words:?}: {:?}", self.said)));
            if self.said.last().is_some_and(|line| line.contains(words)) {
                return;
            }
        }
    }

    /// Has it go on from where it reads a letter.
    pub fn go_on(&mut self) {
        self.input.write_all(b"x").unwrap();
    }

    pub fn interrupt(&self) {
        let id = nix::unistd::Pid::from_raw(self.child.id() as i32);
        nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGINT).unwrap();
    }

    /// Waits for its end; all that it said, and its exit code.
    pub fn end(mut self) -> (String, Option<i32>) {
        drop(self.input);
        self.said.extend(self.lines.iter());
        let status = self.child.wait().unwrap();
        (self.said.join("\n") + "\n", status.code())
    }
}
