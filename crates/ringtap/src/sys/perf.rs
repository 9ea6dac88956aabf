//! Hardware counters of one CPU (perf_event_open(2)): unhalted cycles, the steadiest measure of core use where the machine
//! has counters, and last-level cache misses.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::FromRawFd;

use crate::error::{Error, Result};

/// What a [`HardwareCounter`] counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Cycles the CPU was not halted.
    Cycles,
    /// Misses of the last-level cache.
    CacheMisses,
}

impl Event {
    fn name(self) -> &'static str {
        match self {
            Self::Cycles => "cycle",
            Self::CacheMisses => "cache miss",
        }
    }

    /// PERF_COUNT_HW_… of linux/perf_event.h.
    fn config(self) -> u64 {
        match self {
            Self::Cycles => 0,
            Self::CacheMisses => 3,
        }
    }
}

/// Counts an event on a CPU, in user, kernel and interrupt context, of all programs.
#[derive(Debug)]
pub struct HardwareCounter {
    counter: File,
}

/// The head of struct perf_event_attr up to PERF_ATTR_SIZE_VER1 (72 bytes), all that a plain hardware counter needs.
#[repr(C)]
#[derive(Default)]
struct PerfEventAttr {
    kind: u32,
    size: u32,
    config: u64,
    sample: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
    config2: u64,
}

/// PERF_FLAG_FD_CLOEXEC of linux/perf_event.h, which the libc crate lacks.
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;

impl HardwareCounter {
    /// Starts counting on `cpu`.
    ///
    /// # Errors
    /// No hardware counters (virtual machines often have none), no such CPU, or perf_event_paranoid forbids it.
    pub fn open(cpu: usize, event: Event) -> Result<Self> {
        // PERF_TYPE_HARDWARE is 0.
        let size = size_of::<PerfEventAttr>() as u32;
        let attr = PerfEventAttr { size, config: event.config(), ..Default::default() };
        // SAFETY: `attr` is valid for reading and says its own size; pid −1 and a CPU ask for a CPU-wide counter.
        let fd = unsafe {
            libc::syscall(libc::SYS_perf_event_open, &raw const attr, -1, cpu as libc::c_int, -1, PERF_FLAG_FD_CLOEXEC)
        };
        if fd < 0 {
            let object = format!("{} counter of CPU {cpu}", event.name());
            return Err(Error::os("open", object, &io::Error::last_os_error())
                .way_out("virtual machines often have none; core use is taken from idle time instead"));
        }
        // SAFETY: a fresh descriptor that nobody else owns.
        let mut this = Self { counter: unsafe { File::from_raw_fd(fd as i32) } };
        this.read().map_err(|error| Error::os("read", format!("{} counter of CPU {cpu}", event.name()), &error))?;
        Ok(this)
    }

    /// Events counted since it was opened.
    ///
    /// # Errors
    /// The counter could not be scheduled on the CPU (end of file).
    pub fn read(&mut self) -> io::Result<u64> {
        let mut value = [0; 8];
        self.counter.read_exact(&mut value)?;
        Ok(u64::from_ne_bytes(value))
    }
}
