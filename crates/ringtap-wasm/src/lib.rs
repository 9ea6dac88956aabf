//! Intake and step of correlation for an engine that keeps states, clocks and timers itself, such as Flink: the host is
//! thin, and what rules mean is here alone.
//!
//! # The module's interface
//! The host asks for room with [`reserve`], writes a request there, calls a function, and reads the answer: its address and
//! length are the halves of what is returned. A request is parts, an answer frames ([`frames`]). One instance serves one
//! operator; it keeps versions of the configuration and promises of sensors in its own memory, and all else is the host's:
//!
//! | function | request | answer |
//! |---|---|---|
//! | [`configure`] | one configuration, as JSON | notes; the names of all registered sensors |
//! | [`wait_for`] | names of sensors, those that this instance gets the records of | watermark, or that nobody is waited for |
//! | [`intake`] | sensor, what is kept of it, record | what is to be kept of it; events for rules; lines; watermark |
//! | [`step`] | key, what is kept of it, event or nothing | what is to be kept, with its timer; events for rules above; lines |
//! | [`snapshot`] | nothing | promises, for the host's checkpoint |
//! | [`restore`] | what `snapshot` gave, of any instance | |
#![allow(unsafe_code)] // Names that a host calls can't be had without.

pub mod frames;
mod intake;
mod promises;
mod step;
mod versions;

use std::cell::RefCell;

use ringtap_sigma::Matches;

use frames::{Frames, Kind, part};
use promises::Promises;
use versions::Versions;

/// The watermark of a state that needs no timer.
const NEVER: i64 = i64::MAX;

/// All that one instance keeps.
#[derive(Default)]
pub struct Host {
    versions: Versions,
    promises: Promises,
    matches: Matches,
}

impl Host {
    /// Carries a call out by its name.
    ///
    /// # Errors
    /// What can't be carried out says why.
    fn call(&mut self, call: Call, mut request: &[u8], out: &mut Frames) -> Result<(), String> {
        let request = &mut request;
        match call {
            Call::Configure { levels } => {
                for note in self.versions.add(request, levels)? {
                    out.push(Kind::Note, note.as_bytes());
                }
                self.versions.sensors().keys().for_each(|name| out.push(Kind::Sensor, name.as_bytes()));
            }
            Call::WaitFor => {
                let names = std::iter::from_fn(|| part(request)).map(std::str::from_utf8);
                let names: Vec<&str> =
                    names.collect::<Result<_, _>>().map_err(|error| format!("a sensor's name: {error}"))?;
                self.promises.wait_for(names.into_iter());
                self.promises.tell(true, out);
            }
            Call::Intake { received_ns } => {
                let [sensor, state, record] = parts(request)?;
                let sensor = std::str::from_utf8(sensor).map_err(|error| format!("a record's key: {error}"))?;
                self.intake(received_ns, sensor, state, record, out);
            }
            Call::Step { watermark } => {
                let [key, state, filling] = parts(request)?;
                self.step(watermark, key, state, filling, out)?;
            }
            Call::Snapshot => {
                let mut bytes = Vec::new();
                self.promises.snapshot(&mut bytes);
                out.push(Kind::State, &bytes);
            }
            Call::Restore => self.promises.restore(request)?,
        }
        Ok(())
    }

    /// Carries a call out; the answer says if it failed.
    pub fn answer(&mut self, call: Call, request: &[u8], out: &mut Frames) {
        out.clear();
        if let Err(why) = self.call(call, request, out) {
            out.clear();
            out.push(Kind::Failed, why.as_bytes());
        }
    }
}

fn parts<'a, const N: usize>(request: &mut &'a [u8]) -> Result<[&'a [u8]; N], String> {
    let mut parts = [&[][..]; N];
    for at in &mut parts {
        *at = part(request).ok_or("a request of another version of this module")?;
    }
    Ok(parts)
}

/// What a host asks for.
#[derive(Clone, Copy, Debug)]
pub enum Call {
    /// Adds a version of the configuration; a chain has at most so many levels.
    Configure {
        /// Operators, one above the other.
        levels: u8,
    },
    /// Says which sensors this instance has.
    WaitFor,
    /// A record.
    Intake {
        /// When the broker got it, nanoseconds since 1970.
        received_ns: i64,
    },
    /// A key.
    Step {
        /// The watermark of the operator.
        watermark: i64,
    },
    /// Promises as bytes.
    Snapshot,
    /// They, back.
    Restore,
}

#[derive(Default)]
struct Instance {
    host: Host,
    request: Vec<u8>,
    answer: Frames,
}

thread_local! {
    static INSTANCE: RefCell<Instance> = RefCell::default();
}

fn answered(call: Call) -> u64 {
    INSTANCE.with_borrow_mut(|Instance { host, request, answer }| {
        host.answer(call, request, answer);
        let bytes = answer.bytes();
        (bytes.as_ptr() as u64) << 32 | bytes.len() as u64
    })
}

/// Room for a request of so many bytes, until the next call.
#[unsafe(no_mangle)]
pub extern "C" fn reserve(len: u32) -> u32 {
    INSTANCE.with_borrow_mut(|instance| {
        instance.request.clear();
        instance.request.resize(len as usize, 0);
        instance.request.as_ptr() as u32
    })
}

/// [`Call::Configure`].
#[unsafe(no_mangle)]
pub extern "C" fn configure(levels: u32) -> u64 {
    answered(Call::Configure { levels: u8::try_from(levels).unwrap_or(u8::MAX) })
}

/// [`Call::WaitFor`].
#[unsafe(no_mangle)]
pub extern "C" fn wait_for() -> u64 {
    answered(Call::WaitFor)
}

/// [`Call::Intake`].
#[unsafe(no_mangle)]
pub extern "C" fn intake(received_ns: i64) -> u64 {
    answered(Call::Intake { received_ns })
}

/// [`Call::Step`].
#[unsafe(no_mangle)]
pub extern "C" fn step(watermark: i64) -> u64 {
    answered(Call::Step { watermark })
}

/// [`Call::Snapshot`].
#[unsafe(no_mangle)]
pub extern "C" fn snapshot() -> u64 {
    answered(Call::Snapshot)
}

/// [`Call::Restore`].
#[unsafe(no_mangle)]
pub extern "C" fn restore() -> u64 {
    answered(Call::Restore)
}
