//! The command line in the guest: the sensor and the station beside a host that uses the card, and recordings while the
//! wall clock is set.
//!
//! Owns the programs it starts and the files they write, all in /tmp.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ringtap::source::Source;
use ringtap::source::file::{FileSource, Pace};
use ringtap::{Error, Result};
use ringtap_testbed::Stamp;
use serde_json::Value;

use crate::cell::{Cell, RECEIVER, Traffic};
use crate::host_use::{ADDRESSES, FAR, FAR_HOST, PINGS, address_of, beside, ip, pings};
use crate::outcome::Outcome;

const PROGRAM: &str = "/bin/ringtap";
/// Calibration and an emulated CPU take their time.
const PATIENCE: Duration = Duration::from_secs(120);
const TRAPS: u64 = 20;

/// A subcommand that runs until it is told to end.
struct Started {
    child: Child,
    name: &'static str,
}

impl Started {
    /// Starts it, and waits until `ready` stands in what it says.
    fn begin(name: &'static str, arguments: &str, ready: &str) -> Result<Self> {
        let to_file = |what| {
            let path = format!("/tmp/{name}.{what}");
            File::create(&path).map_err(|error| Error::os("create", path, &error))
        };
        let mut command = Command::new(PROGRAM);
        command.arg(name).args(arguments.split(' ')).stdin(Stdio::null());
        command.stdout(to_file("out")?).stderr(to_file("err")?);
        let mut this = Self { child: command.spawn().map_err(|error| Error::os("run", PROGRAM, &error))?, name };
        let since = Instant::now();
        while !this.said("err").contains(ready) {
            if this.child.try_wait().is_ok_and(|ended| ended.is_some()) || since.elapsed() > PATIENCE {
                return Err(this.failed(format!("it did not say '{ready}'")));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(this)
    }

    fn said(&self, what: &str) -> String {
        std::fs::read_to_string(format!("/tmp/{}.{what}", self.name)).unwrap_or_default()
    }

    fn failed(&self, cause: String) -> Error {
        Error::failed("run", format!("ringtap {}", self.name), cause + ": " + &self.said("err").replace('\n', "; "))
    }

    /// Ends it as Ctrl-C does; returns the last line of its standard output, its summary.
    fn end(mut self) -> Result<Value> {
        let id = self.child.id().to_string();
        let ended = Command::new("/bin/busybox").args(["kill", "-INT", &id]).status().and_then(|_| self.child.wait());
        match ended {
            Ok(status) if status.success() => {}
            Ok(status) => return Err(self.failed(status.to_string())),
            Err(error) => return Err(Error::os("end", self.name, &error)),
        }
        let out = self.said("out");
        let last = out.lines().last().unwrap_or_default();
        serde_json::from_str(last).map_err(|error| self.failed(format!("{error} in '{last}'")))
    }
}

impl Drop for Started {
    /// Nothing goes on beside the next check.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sensor and station see what comes, both at once, and the host goes on answering, whatever uses the card.
pub(crate) fn beside_the_host(_cell: &Cell) -> Result<Outcome> {
    let (mut wrong, mut seen) = (Vec::new(), Vec::new());
    for kind in ["vlan", "ipvlan", "bridge", "vrf", "team", "bond"] {
        match beside(kind, both_see).map_err(|error| format!("{kind}: {error}")) {
            Ok(Some(())) => seen.push(kind),
            Ok(None) => {}
            Err(error) => wrong.push(error),
        }
    }
    if wrong.is_empty() && seen.is_empty() {
        return Ok(Outcome::absent("this kernel makes no such device"));
    }
    Ok(Outcome::of(&wrong, format!("pings answered, alerts and traps seen beside: {}", seen.join(", "))))
}

/// One alert for each ping, which the host answers, and every trap stored once.
fn both_see(near: &str) -> Result<()> {
    let mac = address_of(near)?;
    let (rules, eve) = ("/tmp/ping.rules", "/tmp/eve.json");
    let rule = "alert icmp any any -> any any (msg:\"ping\"; itype:8; sid:1;)\n";
    std::fs::write(rules, rule).map_err(|error| Error::os("write", rules, &error))?;
    let _ = std::fs::remove_file(eve);
    let sensor = format!("-i {RECEIVER} -S {rules} --eve {eve} --events alert --json");
    let sensor = Started::begin("sensor", &sensor, &format!("watching {RECEIVER} (packet)"))?;
    let _ = std::fs::remove_dir_all("/tmp/station");
    let station = format!("-i {RECEIVER} --store /tmp/station --listen 0.0.0.0:162 --json");
    let station = Started::begin("trap", &station, "receiving")?;
    pings()?;
    let [_, to] = ADDRESSES;
    ip(&format!(
        "netns exec {FAR_HOST} {PROGRAM} generate -i {FAR} --yes-really --traps core-router-fails --count {TRAPS} --rate 200 \
         --to {to} --to-mac {mac}"
    ))?;
    pings()?;
    let summary = station.end()?;
    if summary["stored"].as_u64() != Some(TRAPS) {
        return Err(Error::failed("receive traps on", RECEIVER, format!("not {TRAPS} stored: {summary}")));
    }
    sensor.end()?;
    let alerts = std::fs::read_to_string(eve).map_err(|error| Error::os("read", eve, &error))?;
    match alerts.lines().filter(|line| line.contains("\"signature_id\":1}")).count() {
        count if count == 2 * PINGS => Ok(()),
        count => Err(Error::failed("watch", RECEIVER, format!("{count} alerts for {} pings", 2 * PINGS))),
    }
}

/// Somebody sets the wall clock twice while packets are recorded: latencies know nothing of it, every packet is in the file in
/// the order of arrival, and its stamps jump no more than twice.
pub(crate) fn clock_is_set(cell: &Cell) -> Result<Outcome> {
    let mut wrong = Vec::new();
    let mut said = Vec::new();
    for backend in ["xdp", "packet"] {
        let (faults, worst_us) = recorded_beside_steps(cell, backend)?;
        wrong.extend(faults.into_iter().map(|fault| format!("{backend}: {fault}")));
        said.push(format!("{backend} {worst_us:.0} µs at worst"));
    }
    Ok(Outcome::of(&wrong, format!("an hour ahead, two hours back: {}", said.join(", "))))
}

/// What is wrong, and the greatest latency.
fn recorded_beside_steps(cell: &Cell, backend: &str) -> Result<(Vec<String>, f64)> {
    const HOUR: i64 = 3600;
    let traffic = Traffic::new(1000.0, 4000);
    let path = "/tmp/steps.pcapng";
    let waiting = "--max-latency 20ms --period 2ms --threshold 1500 --ring 2048 --cpu 1";
    let arguments = format!("-i {RECEIVER} --backend {backend} {waiting} -w {path} --json udp");
    let capture = Started::begin("capture", &arguments, "capturing from")?;
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| cell.send(traffic));
        for step in [HOUR, -2 * HOUR] {
            std::thread::sleep(Duration::from_millis(1300));
            set_clock(step)?;
        }
        sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    // What is on its way arrives.
    std::thread::sleep(Duration::from_secs(1));
    let summary = capture.end()?;
    set_clock(HOUR)?;
    let latency = &summary["latency_us"];
    let worst_us = latency["max"].as_f64().unwrap_or(f64::INFINITY);
    let mut wrong = file_faults(Path::new(path), traffic.count)?;
    if latency["count"].as_u64().unwrap_or(0) == 0 || worst_us > 10e6 {
        wrong.push(format!("a step entered the latencies: {latency}"));
    }
    if summary["total"]["unaccounted"] != 0 {
        wrong.push(format!("the ledger does not add up: {}", summary["total"]));
    }
    Ok((wrong, worst_us))
}

/// Sets the wall clock by so many seconds.
fn set_clock(seconds: i64) -> Result<()> {
    let target = ringtap::clock::realtime_ns() as i64 / 1_000_000_000 + seconds;
    let status =
        Command::new("/bin/busybox").args(["date", "-s", &format!("@{target}")]).stdout(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Error::failed("set", "the clock", status)),
        Err(error) => Err(Error::os("set", "the clock", &error)),
    }
}

/// All packets of a recording, in the order in which they were sent, with two jumps of their stamps.
fn file_faults(path: &Path, count: u64) -> Result<Vec<String>> {
    const JUMP_NS: u64 = 60_000_000_000;
    let mut source = FileSource::open(&[path], Pace::AsFast)?;
    let (mut next, mut last_ns, mut jumps, mut wrong) = (0, None, 0, Vec::new());
    while !source.has_ended() {
        for packet in source.receive().iter() {
            let Some(stamp) = Stamp::from_frame(packet.data) else { continue };
            if stamp.seq != next && wrong.is_empty() {
                wrong.push(format!("packet {} stands where {next} was to be", stamp.seq));
            }
            next = stamp.seq + 1;
            jumps += usize::from(last_ns.is_some_and(|last: u64| packet.arrival_ns.abs_diff(last) > JUMP_NS));
            last_ns = Some(packet.arrival_ns);
        }
    }
    if next != count {
        wrong.push(format!("the recording ends with packet {next} of {count}"));
    }
    if jumps != 2 {
        wrong.push(format!("its stamps jump {jumps} times"));
    }
    Ok(wrong)
}
