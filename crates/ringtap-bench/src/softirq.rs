//! How much the kernel's receive softirq does at a time, and where (\[3] §6.1).
//!
//! Owns the settings of a study and that they are put back. Receive packet steering hands the packets to the receiver's core,
//! where net_rx_action() takes up to `dev_weight` from a queue at a time and up to `netdev_budget` in all before it lets others run.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use ringtap::{Error, Result};
use ringtap_testbed::{Host, Testbed};

/// Where what the whole machine has of its settings is.
const SETTINGS: &str = "/proc/sys/net/core";

/// Why the settings can't be had here, if they can't: other network namespaces than the machine's first have not got them.
pub fn absent() -> Option<String> {
    let path = Path::new(SETTINGS).join("netdev_budget");
    let cause = format!("{} is not there: run it in the machine's first network namespace", path.display());
    (!path.exists()).then_some(cause)
}

/// Budget and weight, packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    budget: u32,
    weight: u32,
}

impl Setting {
    /// The source's three budgets, and the kernel's default of today. A weight above the budget would hide it.
    pub const ALL: [Self; 4] = [
        Self { budget: 300, weight: 64 },
        Self { budget: 64, weight: 64 },
        Self { budget: 6, weight: 6 },
        Self { budget: 2, weight: 2 },
    ];

    /// Its name in samples.
    pub fn name(self) -> String {
        format!("budget {}, weight {}", self.budget, self.weight)
    }

    /// In force, on the receiver's core, until the returned value is dropped. The two settings are the whole machine's.
    ///
    /// # Errors
    /// They can't be written.
    pub fn put(self, testbed: &Testbed) -> Result<InForce<'_>> {
        let mut this = InForce { before: Vec::new(), receiver: testbed.receiver(), steering: steering(testbed) };
        for (name, value) in [("netdev_budget", self.budget), ("dev_weight", self.weight)] {
            let path = format!("{SETTINGS}/{name}");
            let before = fs::read_to_string(&path).map_err(|error| Error::os("read", &path, &error))?;
            write(&path, &value.to_string())?;
            this.before.push((path, before));
        }
        let mask = format!("{:x}", 1u64 << testbed.config().receiver_core);
        this.receiver.run(|| write(&this.steering, &mask))??;
        Ok(this)
    }
}

/// Puts back what was before when it is dropped.
#[derive(Debug)]
pub struct InForce<'t> {
    before: Vec<(String, String)>,
    receiver: &'t Host,
    steering: String,
}

impl Drop for InForce<'_> {
    fn drop(&mut self) {
        // What can't be written now could not be written before, and then it was not changed.
        for (path, value) in &self.before {
            let _ = write(path, value.trim());
        }
        let _ = self.receiver.run(|| write(&self.steering, "0"));
    }
}

fn steering(testbed: &Testbed) -> String {
    format!("/sys/class/net/{}/queues/rx-0/rps_cpus", testbed.receiver().interface())
}

fn write(path: &str, value: &str) -> Result<()> {
    fs::write(Path::new(path), value).map_err(|error| Error::os("write", format!("{value} to {path}"), &error))
}

/// How ping(8) sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pings {
    /// Name in findings.
    pub name: &'static str,
    arguments: &'static [&'static str],
}

impl Pings {
    /// Slowly, fast, and each as soon as the last is answered.
    pub const ALL: [Self; 3] = [
        Self { name: "100 per s", arguments: &["-i", "0.01", "-c", "100"] },
        Self { name: "1000 per s", arguments: &["-i", "0.001", "-c", "1000"] },
        Self { name: "flood", arguments: &["-f", "-c", "20000"] },
    ];

    /// Mean round trip between the testbed's two hosts, microseconds; the kernel answers.
    ///
    /// # Errors
    /// ping is not there, or some were not answered.
    pub fn round_trip_us(self, testbed: &Testbed) -> Result<f64> {
        let mut ping = Command::new("taskset");
        ping.args(["-c", &testbed.config().generator_core.to_string(), "ping", "-n", "-q", "-w", "20"])
            .args(self.arguments)
            .arg(testbed.receiver().link().ipv4.to_string())
            .env("LC_ALL", "C")
            .stdin(Stdio::null());
        let output = testbed
            .sender()
            .run(|| ping.output())?
            .map_err(|error| Error::os("run", "ping", &error).way_out("install it: apt-get install iputils-ping"))?;
        let said = String::from_utf8_lossy(&output.stdout);
        mean_us(&said).ok_or_else(|| {
            let cause = said.lines().find(|line| line.contains("packet loss")).unwrap_or("no summary").to_owned();
            Error::failed("read the summary of", "ping", cause)
        })
    }
}

/// Mean of `rtt min/avg/max/mdev = 0.010/0.020/0.030/0.001 ms`, when nothing was lost.
fn mean_us(said: &str) -> Option<f64> {
    said.contains(" 0% packet loss").then_some(())?;
    let line = said.lines().find(|line| line.starts_with("rtt "))?;
    let mean_ms: f64 = line.split('=').nth(1)?.split('/').nth(1)?.parse().ok()?;
    Some(mean_ms * 1e3)
}

/// Whether ping is installed.
///
/// # Errors
/// It is not.
pub fn find_ping() -> Result<()> {
    let found = Command::new("ping").arg("-V").stdin(Stdio::null()).stdout(Stdio::null()).status();
    found.map(|_| ()).map_err(|error| Error::os("run", "ping", &error).way_out("apt-get install iputils-ping"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_read_from_the_summary_of_a_run_without_loss() {
        let said = "--- 10.0.0.2 ping statistics ---\n100 packets transmitted, 100 received, 0% packet loss, time 999ms\n\
                    rtt min/avg/max/mdev = 0.009/0.021/0.055/0.006 ms, ipg/ewma 10.0/0.02 ms\n";
        assert_eq!(mean_us(said), Some(21.0));
        assert_eq!(mean_us(&said.replace(" 0%", " 10%")), None);
        assert_eq!(mean_us(""), None);
    }
}
