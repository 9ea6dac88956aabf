//! Transient load beside a receiver (\[1] §6.1.7): stress-ng(1) on the receiver's core.
//!
//! Owns the storms' names and the program that makes them.

use std::process::{Child, Command, Stdio};

use ringtap::{Error, Result};

/// A kind of trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storm {
    /// Writes and syncs of a file.
    Disk,
    /// Processes made and ended.
    Fork,
    /// Page faults.
    PageFault,
    /// Timer signals, 100,000 a second.
    Timer,
}

impl Storm {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Disk, Self::Fork, Self::PageFault, Self::Timer];

    /// Its name in samples.
    pub fn name(self) -> &'static str {
        match self {
            Self::Disk => "disk storm",
            Self::Fork => "fork storm",
            Self::PageFault => "page-fault storm",
            Self::Timer => "timer storm",
        }
    }

    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Disk => &["--hdd", "1", "--hdd-bytes", "32m", "--hdd-opts", "fsync"],
            Self::Fork => &["--fork", "2"],
            Self::PageFault => &["--fault", "2"],
            Self::Timer => &["--timer", "2", "--timer-freq", "100000"],
        }
    }

    /// Begins it on `core`; it ends when the returned value is dropped, and by itself after a minute.
    ///
    /// # Errors
    /// stress-ng can't be started.
    pub fn begin(self, core: usize) -> Result<Raging> {
        let folder = std::env::temp_dir();
        let child = Command::new("stress-ng")
            .args(["--quiet", "--timeout", "60", "--taskset", &core.to_string(), "--temp-path"])
            .arg(&folder)
            .args(self.arguments())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| absent(&error))?;
        // Its workers need a moment to be at full strength.
        std::thread::sleep(std::time::Duration::from_millis(300));
        Ok(Raging { child })
    }
}

/// A storm under way.
#[derive(Debug)]
pub struct Raging {
    child: Child,
}

impl Drop for Raging {
    fn drop(&mut self) {
        // SIGTERM has it end its workers and remove its files; it can only fail when it has ended.
        let _ = nix::sys::signal::kill(
            nix::unistd::Pid::from_raw(self.child.id() as i32),
            nix::sys::signal::Signal::SIGTERM,
        );
        let _ = self.child.wait();
    }
}

/// What is installed.
///
/// # Errors
/// It is not installed.
pub fn version() -> Result<String> {
    let output = Command::new("stress-ng").arg("--version").output().map_err(|error| absent(&error))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn absent(error: &std::io::Error) -> Error {
    Error::os("start", "stress-ng", error).way_out("apt-get install stress-ng")
}
