//! The receivers: how each is configured at its best, where it writes, and what has come out of it.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ringtap::{Error, Result};
use ringtap_alarm::model::Alarm;
use ringtap_testbed::{RunningProgram, Testbed};
use ringtap_trap::store::Store;
use ringtap_trap::storm::form::engine_id;
use serde_json::Value;

use super::Programs;
use super::load::{ENGINES, Load, USER, number_in_row, numbers_in_text};

/// Receive buffer asked for by everybody, bytes.
const BUFFER: u64 = 64 << 20;
/// Longest until a receiver is ready.
const PATIENCE: Duration = Duration::from_secs(20);

/// Who receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receiver {
    /// `ringtap trap -i IF --backend xdp`.
    RingtapXdp,
    /// `ringtap trap --listen`.
    RingtapSocket,
    /// snmptrapd(8) to a file.
    SnmptrapdFile,
    /// snmptrapd(8) with a traphandle that appends to a file: tee(1), the least a handler can be.
    SnmptrapdHandler,
    /// Telegraf's snmp_trap to a file.
    Telegraf,
    /// rsyslogd(8) to a file.
    Rsyslog,
    /// syslog-ng(8) to a file.
    SyslogNg,
}

impl Receiver {
    /// All.
    pub const ALL: [Self; 7] = [
        Self::RingtapXdp,
        Self::RingtapSocket,
        Self::SnmptrapdFile,
        Self::SnmptrapdHandler,
        Self::Telegraf,
        Self::Rsyslog,
        Self::SyslogNg,
    ];

    /// By its name on the command line.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|receiver| receiver.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::RingtapXdp => "ringtap-xdp",
            Self::RingtapSocket => "ringtap-socket",
            Self::SnmptrapdFile => "snmptrapd-file",
            Self::SnmptrapdHandler => "snmptrapd-handler",
            Self::Telegraf => "telegraf",
            Self::Rsyslog => "rsyslog",
            Self::SyslogNg => "syslog-ng",
        }
    }

    /// Whether it understands such messages.
    pub fn takes(self, load: Load) -> bool {
        match self {
            Self::RingtapXdp | Self::RingtapSocket => true,
            Self::SnmptrapdFile | Self::SnmptrapdHandler | Self::Telegraf => load != Load::Syslog,
            Self::Rsyslog | Self::SyslogNg => load == Load::Syslog,
        }
    }

    /// Ours.
    pub fn is_ringtap(self) -> bool {
        matches!(self, Self::RingtapXdp | Self::RingtapSocket)
    }
}

/// What came out of a receiver.
pub struct Outcome {
    /// Numbers of messages, in order.
    pub numbers: Vec<u64>,
    /// Ringtap's account at its end.
    pub said: Value,
    /// Ringtap's alarms.
    pub alarms: Vec<Alarm>,
}

/// A receiver at work.
pub struct Running {
    receiver: Receiver,
    load: Load,
    program: RunningProgram,
    output: PathBuf,
    /// Ringtap's latest word, and how many notifications it had stored then.
    said: Arc<(Mutex<Value>, AtomicU64)>,
}

impl Running {
    /// Starts it on the receiver's core; returns when it listens.
    pub fn start(
        testbed: &Testbed,
        programs: &Programs,
        receiver: Receiver,
        load: Load,
        folder: &Path,
    ) -> Result<Self> {
        let output = folder.join("out");
        File::create(&output).map_err(|error| Error::os("make", output.display().to_string(), &error))?;
        let words = words(testbed, programs, receiver, load, folder, &output)?;
        let mut command = testbed.receiver().command("taskset");
        command.args(["-c", &testbed.config().receiver_core.to_string()]).args(words);
        command.env("SNMP_PERSISTENT_DIR", folder).env("SNMPCONFPATH", folder).env("MIBS", "");
        if let (Receiver::SyslogNg, Some(unpacked)) = (receiver, &programs.syslog_ng) {
            let libraries = ["usr/lib/syslog-ng", "usr/lib/x86_64-linux-gnu"].map(|part| unpacked.join(part));
            let paths: Vec<_> = libraries.iter().map(|path| path.display().to_string()).collect();
            command.env("LD_LIBRARY_PATH", paths.join(":"));
        }
        let log = File::create(folder.join("log")).map_err(|error| Error::os("make", "the log", &error))?;
        command.stdin(Stdio::null()).stderr(log);
        command.stdout(if receiver.is_ringtap() { Stdio::piped() } else { Stdio::null() });
        let mut program = testbed.receiver().start(command)?;
        let said = Arc::new((Mutex::new(Value::Null), AtomicU64::new(0)));
        if let Some(stdout) = program.child().stdout.take() {
            let said = Arc::clone(&said);
            std::thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(std::io::Result::ok) {
                    let Ok(value) = serde_json::from_str::<Value>(&line) else { continue };
                    said.1.store(value["stored"].as_u64().unwrap_or(0), Ordering::Relaxed);
                    *said.0.lock().expect("nothing panics with it") = value;
                }
            });
        }
        let mut this = Self { receiver, load, program, output, said };
        this.wait_until_ready(testbed, folder)?;
        Ok(this)
    }

    fn wait_until_ready(&mut self, testbed: &Testbed, folder: &Path) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            let ended = self.program.child().try_wait().ok().flatten();
            if ended.is_some() || Instant::now() > until {
                let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
                return Err(Error::failed("start", self.receiver.name(), format!("{ended:?}: {log}")));
            }
            let port = format!(":{:04X} ", self.load.port());
            let bound = testbed.receiver().run(|| {
                ["udp", "udp6"].iter().any(|name| {
                    fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default().contains(&port)
                })
            })?;
            if bound && (!self.receiver.is_ringtap() || has_thread(self.program.child().id(), "ringtap-station")) {
                // What a program does between binding and reading.
                std::thread::sleep(Duration::from_millis(300));
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// How far it is: notifications in the store, or bytes of the file.
    pub fn progress(&self) -> u64 {
        if self.receiver.is_ringtap() {
            self.said.1.load(Ordering::Relaxed)
        } else {
            self.output.metadata().map_or(0, |data| data.len())
        }
    }

    /// SIGTERM, as rsyslogd does not hear Ctrl-C.
    fn end(&mut self) -> Result<()> {
        let name = self.receiver.name();
        let child = self.program.child();
        let pid = nix::unistd::Pid::from_raw(child.id() as i32);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM)
            .map_err(|errno| Error::os("end", name, &errno.into()))?;
        let until = Instant::now() + PATIENCE;
        while child.try_wait().map_err(|error| Error::os("wait for", name, &error))?.is_none() {
            if Instant::now() > until {
                return Err(Error::failed("end", name, "it goes on"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Ends it, and reads what came out.
    pub fn finish(mut self, folder: &Path) -> Result<Outcome> {
        let (receiver, load) = (self.receiver, self.load);
        self.end()?;
        if !receiver.is_ringtap() {
            let text = fs::read(&self.output).map_err(|error| Error::os("read", "what came out", &error))?;
            return Ok(Outcome { numbers: numbers_in_text(&text, load), said: Value::Null, alarms: Vec::new() });
        }
        // The reader of the pipe is at its end when the program is.
        std::thread::sleep(Duration::from_millis(50));
        let store = Store::open(&folder.join("store"))?;
        let mut numbers = Vec::new();
        let mut from = 0;
        loop {
            let rows = store.notifications(from, 10_000)?;
            let Some(last) = rows.last() else { break };
            from = last.id + 1;
            numbers.extend(rows.iter().filter_map(|row| number_in_row(&row.raw, row.decrypted.as_deref(), load)));
        }
        let said = self.said.0.lock().expect("nothing panics with it").clone();
        Ok(Outcome { numbers, said, alarms: store.alarms()? })
    }
}

fn has_thread(pid: u32, name: &str) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads
        .map(|thread| fs::read_to_string(thread.path().join("comm")).unwrap_or_default())
        .any(|comm| comm.trim() == name)
}

fn write(path: &Path, text: &str) -> Result<String> {
    let name = path.display().to_string();
    let open = fs::OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(path);
    open.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| Error::os("write", &name, &error))?;
    Ok(name)
}

/// The command line, after the configuration was written.
fn words(
    testbed: &Testbed,
    programs: &Programs,
    receiver: Receiver,
    load: Load,
    folder: &Path,
    output: &Path,
) -> Result<Vec<String>> {
    let output = output.display();
    let [user, auth, privacy] = USER;
    let line = match receiver {
        Receiver::RingtapXdp | Receiver::RingtapSocket => {
            let configuration = write(
                &folder.join("ringtap.toml"),
                &format!(
                    "[[trap.user]]\nname = \"{user}\"\nauth = \"SHA\"\nauth-password = \"{auth}\"\nprivacy = \"AES\"\nprivacy-password = \"{privacy}\"\n"
                ),
            )?;
            let what = if load == Load::Syslog { "--syslog" } else { "--listen" };
            let ring = if receiver == Receiver::RingtapXdp {
                format!("-i {} --backend xdp", testbed.receiver().interface())
            } else {
                String::new()
            };
            format!(
                "{} trap {ring} {what} 0.0.0.0:{} --store {} --config {configuration} --buffer {BUFFER} --spool {BUFFER} --json --stats 100ms",
                programs.ringtap.display(),
                load.port(),
                folder.join("store").display()
            )
        }
        Receiver::SnmptrapdFile | Receiver::SnmptrapdHandler => {
            let mut text = format!("disableAuthorization yes\nformat2 %b %v\\n\n[snmp] serverRecvBuf {BUFFER}\n");
            if load == Load::V3 {
                for node in 0..ENGINES {
                    let id: String = engine_id(node).iter().map(|byte| format!("{byte:02x}")).collect();
                    text += &format!("[snmptrapd] createUser -e 0x{id} {user} SHA {auth} AES {privacy}\n");
                }
            }
            let mut log = format!("-Lf {output}");
            if receiver == Receiver::SnmptrapdHandler {
                text += &format!(
                    "[snmptrapd] traphandle default /usr/bin/tee -a {output}\n[snmptrapd] doNotLogTraps yes\n"
                );
                "-Le".clone_into(&mut log);
            }
            let configuration = write(&folder.join("trapd.conf"), &text)?;
            format!("snmptrapd -f -n -C -c {configuration} {log} -On -p {}/pid udp:162", folder.display())
        }
        Receiver::Telegraf => {
            let Some(telegraf) = &programs.telegraf else {
                return Err(Error::usage("start", "telegraf", "say where it is with --telegraf"));
            };
            let version = match load {
                Load::V3 => format!(
                    "version = \"3\"\nsec_name = \"{user}\"\nsec_level = \"authPriv\"\nauth_protocol = \"SHA\"\nauth_password = \"{auth}\"\npriv_protocol = \"AES\"\npriv_password = \"{privacy}\"\n"
                ),
                _ => "version = \"2c\"\n".to_owned(),
            };
            let mibs = folder.join("mibs");
            fs::create_dir(&mibs).map_err(|error| Error::os("make", "the folder of MIBs", &error))?;
            let configuration = write(
                &folder.join("telegraf.conf"),
                &format!(
                    "[agent]\nomit_hostname = true\nsnmp_translator = \"gosmi\"\nmetric_batch_size = 10000\nmetric_buffer_limit = 2000000\nflush_interval = \"200ms\"\nquiet = true\n[[inputs.snmp_trap]]\nservice_address = \"udp://0.0.0.0:162\"\npath = [\"{}\"]\n{version}[[outputs.file]]\nfiles = [\"{output}\"]\ndata_format = \"influx\"\n",
                    programs.mibs.as_deref().unwrap_or(&mibs).display()
                ),
            )?;
            format!("{} --config {configuration}", telegraf.display())
        }
        Receiver::Rsyslog => {
            let configuration = write(
                &folder.join("rsyslog.conf"),
                &format!(
                    "global(workDirectory=\"{0}\" net.enableDNS=\"off\")\nmain_queue(queue.type=\"FixedArray\" queue.size=\"1000000\" queue.dequeueBatchSize=\"4096\")\nmodule(load=\"imudp\" batchSize=\"128\")\ninput(type=\"imudp\" port=\"514\" rcvbufSize=\"64m\")\naction(type=\"omfile\" file=\"{output}\" ioBufferSize=\"256k\")\n",
                    folder.display()
                ),
            )?;
            format!("rsyslogd -n -x -f {configuration} -i {}/pid", folder.display())
        }
        Receiver::SyslogNg => {
            let configuration = write(
                &folder.join("syslog-ng.conf"),
                &format!(
                    "@version: 3.35\noptions {{ flush-lines(1000); use-dns(no); keep-hostname(yes); stats-freq(0); log-fifo-size(2000000); }};\nsource s {{ network(transport(\"udp\") port(514) so-rcvbuf({BUFFER}) log-fetch-limit(1000)); }};\ndestination d {{ file(\"{output}\"); }};\nlog {{ source(s); destination(d); }};\n"
                ),
            )?;
            let (program, modules) = match &programs.syslog_ng {
                Some(unpacked) => (
                    unpacked.join("usr/sbin/syslog-ng").display().to_string(),
                    format!("--module-path={}", unpacked.join("usr/lib/syslog-ng/3.38").display()),
                ),
                None => ("syslog-ng".to_owned(), String::new()),
            };
            let at = folder.display();
            format!("{program} -F --no-caps {modules} -f {configuration} -p {at}/pid -c {at}/ctl -R {at}/persist")
        }
    };
    Ok(line.split_whitespace().map(str::to_owned).collect())
}
