//! Intake and step of correlation for an engine that keeps states, clocks and timers itself, such as Flink: the host is
//! thin, and what rules mean is here alone.
//!
//! # The module's interface
//! The host asks for room with [`reserve`], writes a request there, calls a function, and reads the answer: its address and
//! length are the halves of what is returned. A request is parts, an answer frames ([`frames`]). One instance serves one
//! operator; it keeps versions of the configuration, promises of sensors and what they lost in its own memory, and the states
//! of keys that were used last; all else is the host's:
//!
//! | function | request | answer |
//! |---|---|---|
//! | [`configure`] | one configuration, as JSON | from when on it holds; notes; the names of all registered sensors |
//! | [`wait_for`] | names of sensors, those that this instance gets the records of | watermark, or that nobody is waited for |
//! | [`intake`] | sensor, what is kept of it if that is `given`, record | that what is kept is wanted; or keys that are to be kept by the host; events for rules; lines; missing times; watermark |
//! | [`step`] | key, what is kept of it if that is `given`, event or nothing | that what is kept is wanted; or timers; keys that are to be kept by the host; events for rules above; lines; or that the event is to be given again later |
//! | [`room`] | a secret of 16 bytes, before the first record or step | |
//! | [`keep`] | nothing | keys of which the host has not what they are now, before its checkpoint: called until it answers nothing |
//! | [`missing`] | a missing time of any intake | |
//! | [`snapshot`] | nothing | what this instance knows, for the host's checkpoint; the versions that are still needed |
//! | [`restore`] | what `snapshot` gave, of any instance | |
#![allow(unsafe_code)] // Names that a host calls can't be had without.

pub mod frames;
pub mod hot;
mod intake;
mod losses;
mod promises;
mod step;
mod versions;

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;

use ringtap_event::identity::Numbers;
use ringtap_sigma::{Matches, State};
use serde::{Deserialize, Serialize};

use frames::{Frames, Kind, part};
use hot::Hot;
use losses::Losses;
use promises::{Promises, Sensor};
use versions::Versions;

/// The watermark of a state that needs no timer.
const NEVER: i64 = i64::MAX;

/// All that one instance keeps.
#[derive(Default)]
pub struct Host {
    versions: Versions,
    promises: Promises,
    losses: Losses,
    /// Of an operator that takes records: stamps of senders that number nothing.
    stamps: Hot<Numbers>,
    /// Of one that runs rules.
    hot: Hot<State>,
    matches: Matches,
    /// The latest event time that was judged here, ns.
    judged_ns: Option<i64>,
}

/// What an instance knows, in the host's checkpoint.
#[derive(Serialize, Deserialize)]
struct Snapshot<'a> {
    sensors: Cow<'a, BTreeMap<String, Sensor>>,
    losses: Cow<'a, Losses>,
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
                let (from_ns, notes) = self.versions.add(request, levels)?;
                out.push(Kind::Version, &from_ns.to_le_bytes());
                let is_late = |judged: &i64| notes.is_some() && (i64::MIN + 1..=*judged).contains(&from_ns);
                let late = self.judged_ns.filter(is_late).map(|judged_ns| {
                    format!(
                        "a configuration holds from {from_ns} on and came after events of up to {judged_ns} had been \
                         judged by the rules before it: announce it earlier"
                    )
                });
                notes.iter().flatten().chain(&late).for_each(|note| out.push(Kind::Note, note.as_bytes()));
                self.versions.sensors().keys().for_each(|name| out.push(Kind::Sensor, name.as_bytes()));
            }
            Call::WaitFor => {
                let names = std::iter::from_fn(|| part(request)).map(std::str::from_utf8);
                let names: Vec<&str> =
                    names.collect::<Result<_, _>>().map_err(|error| format!("a sensor's name: {error}"))?;
                self.promises.wait_for(names.into_iter(), self.versions.sensors(), out);
                self.promises.tell(true, out);
            }
            Call::Intake { received_ns, is_given } => {
                let [sensor, stored, record] = parts(request)?;
                let sensor = std::str::from_utf8(sensor).map_err(|error| format!("a record's key: {error}"))?;
                self.intake(received_ns, sensor, is_given.then_some(stored), record, out);
            }
            Call::Step { watermark, is_given } => {
                let [key, stored, filling] = parts(request)?;
                self.step(watermark, key, is_given.then_some(stored), filling, out)?;
            }
            Call::Keep => {
                self.hot.keep(out);
                self.stamps.keep(out);
            }
            Call::Room { bytes } => {
                let secret = (&**request).try_into().map_err(|_| "room: expected a secret of 16 bytes".to_owned())?;
                if !self.hot.is_empty() || !self.stamps.is_empty() {
                    return Err("room: there are states already".into());
                }
                self.hot = Hot::new(bytes as usize, secret);
                self.stamps = Hot::new(bytes as usize, secret);
            }
            Call::Missing => self.losses.add(request)?,
            Call::Snapshot { watermark } => self.snapshot(watermark.max(self.promises.watermark()), out)?,
            Call::Restore => {
                let Snapshot { sensors, losses } =
                    serde_json::from_slice(request).map_err(|error| format!("the module's checkpoint: {error}"))?;
                self.promises.restore(sensors.into_owned());
                self.losses.restore(losses.into_owned());
            }
        }
        Ok(())
    }

    /// What is to be kept of it all; what this watermark makes needless is forgotten.
    fn snapshot(&mut self, watermark: i64, out: &mut Frames) -> Result<(), String> {
        self.versions.forget(watermark);
        self.losses.forget(watermark.saturating_sub(self.versions.horizon_ns()));
        let snapshot =
            Snapshot { sensors: Cow::Borrowed(self.promises.sensors()), losses: Cow::Borrowed(&self.losses) };
        let bytes = serde_json::to_vec(&snapshot).map_err(|error| format!("the module's checkpoint: {error}"))?;
        out.push(Kind::State, &bytes);
        self.versions.kept().for_each(|from_ns| out.push(Kind::Version, &from_ns.to_le_bytes()));
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
        /// The request has what is kept of the sensor.
        is_given: bool,
    },
    /// A key.
    Step {
        /// The watermark of the operator.
        watermark: i64,
        /// The request has what is kept of the key.
        is_given: bool,
    },
    /// The states that have changed, as bytes.
    Keep,
    /// How much memory may be taken for states that are kept decoded, instead of [`hot::MOST`].
    Room {
        /// So much.
        bytes: u32,
    },
    /// A time of which a sensor could not tell all.
    Missing,
    /// What it knows, as bytes.
    Snapshot {
        /// The watermark of the operator.
        watermark: i64,
    },
    /// It, back.
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
pub extern "C" fn intake(received_ns: i64, given: u32) -> u64 {
    answered(Call::Intake { received_ns, is_given: given != 0 })
}

/// [`Call::Step`].
#[unsafe(no_mangle)]
pub extern "C" fn step(watermark: i64, given: u32) -> u64 {
    answered(Call::Step { watermark, is_given: given != 0 })
}

/// [`Call::Room`].
#[unsafe(no_mangle)]
pub extern "C" fn room(bytes: u32) -> u64 {
    answered(Call::Room { bytes })
}

/// [`Call::Keep`].
#[unsafe(no_mangle)]
pub extern "C" fn keep() -> u64 {
    answered(Call::Keep)
}

/// [`Call::Missing`].
#[unsafe(no_mangle)]
pub extern "C" fn missing() -> u64 {
    answered(Call::Missing)
}

/// [`Call::Snapshot`].
#[unsafe(no_mangle)]
pub extern "C" fn snapshot(watermark: i64) -> u64 {
    answered(Call::Snapshot { watermark })
}

/// [`Call::Restore`].
#[unsafe(no_mangle)]
pub extern "C" fn restore() -> u64 {
    answered(Call::Restore)
}
