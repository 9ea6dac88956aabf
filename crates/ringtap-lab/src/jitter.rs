//! How late a real-time thread wakes here: by cyclictest(8), the yardstick of real-time Linux, and by an engine on its timer.
//!
//! Owns cyclictest's command line and the reading of its histogram, and the stress beside it. What is demanded of the figures is
//! `checks`' business.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ringtap::{Error, Result};
use serde::Serialize;

/// Above the engines, as they are above everybody else.
const PRIORITY: u8 = 80;
/// Lateness from here on is not told apart, microseconds.
const MOST_US: usize = 10_000;

/// Quantiles of a distribution, microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Late {
    pub(crate) p50: usize,
    pub(crate) p99: usize,
    pub(crate) max: usize,
}

/// Runs cyclictest on `cpu` for so many periods.
pub(crate) fn cyclictest(cpu: usize, period: Duration, periods: u64) -> Result<Late> {
    let output = Command::new("cyclictest")
        .args(["--quiet", "--mlockall", "--threads=1", &format!("--histofall={MOST_US}")])
        .args([&format!("--priority={PRIORITY}"), &format!("--affinity={cpu}")])
        .args([&format!("--interval={}", period.as_micros()), &format!("--loops={periods}")])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .map_err(|error| Error::os("run", "cyclictest", &error))?;
    let said = String::from_utf8_lossy(&output.stdout);
    quantiles(&said).ok_or_else(|| {
        Error::failed(
            "read the histogram of",
            "cyclictest",
            said.lines().last().unwrap_or("it says nothing").to_owned(),
        )
    })
}

/// Lines of the histogram are a lateness in microseconds and how often it was seen; the others begin with a letter or `#`.
fn quantiles(said: &str) -> Option<Late> {
    let buckets = said.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        Some((words.next()?.parse::<usize>().ok()?, words.next()?.parse::<u64>().ok()?))
    });
    let buckets: Vec<(usize, u64)> = buckets.filter(|(_, count)| *count > 0).collect();
    let total: u64 = buckets.iter().map(|(_, count)| count).sum();
    // What lay beyond the histogram is in a line of its own; the greatest is in the summary.
    let max = said.lines().find_map(|line| line.strip_prefix("# Max Latencies:"))?.split_whitespace().next()?;
    let at = |share: f64| {
        let mut seen = 0;
        let reached = |(_, count): &&(usize, u64)| {
            seen += count;
            seen as f64 >= total as f64 * share
        };
        buckets.iter().find(reached).map_or(MOST_US, |(us, _)| *us)
    };
    (total > 0).then_some(Late { p50: at(0.5), p99: at(0.99), max: max.parse().ok()? })
}

/// Processes that fork, fault pages in and write, on every CPU, until it is dropped.
#[derive(Debug)]
pub(crate) struct Stress(Vec<Child>);

impl Stress {
    pub(crate) fn begin() -> Result<Self> {
        const LOOPS: [&str; 2] = [
            "while :; do /bin/busybox true; done",
            "while :; do dd if=/dev/zero of=/tmp/stress.$$ bs=64k count=64 2>/dev/null; rm -f /tmp/stress.$$; done",
        ];
        let mut this = Self(Vec::new());
        for text in LOOPS.into_iter().cycle().take(4) {
            let child = Command::new("sh").args(["-c", text]).stdin(Stdio::null()).stdout(Stdio::null()).spawn();
            this.0.push(child.map_err(|error| Error::os("start", "a process to disturb", &error))?);
        }
        Ok(this)
    }
}

impl Drop for Stress {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_read_from_cyclictests_histogram() {
        let said = "# Histogram\n000000 000000\n000003 000050\n000004 000049\n000090 000001\n# Total: 000000100\n\
                    # Min Latencies: 00003\n# Avg Latencies: 00004\n# Max Latencies: 00090\n# Histogram Overflows: 00000\n";
        assert_eq!(quantiles(said), Some(Late { p50: 3, p99: 4, max: 90 }));
        assert_eq!(quantiles("policy: fifo\n"), None);
    }
}
