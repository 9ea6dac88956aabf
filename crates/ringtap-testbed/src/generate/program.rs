//! The in-kernel generator, loaded: its maps as typed values, and single calls of the kernel's test run.
//!
//! Owns the layouts shared with bpf/generate.bpf.c (arrays of u64 in the order of its structs). Does not own the loop that
//! makes the calls (`run`) or the meaning of the numbers (`schedule`, `frame`, `report`).

use std::sync::{Arc, Mutex, PoisonError};

use aya::maps::{Array, MapData};
use aya::programs::{ProgramError, Xdp, XdpMode};
use aya::{Ebpf, EbpfLoader, TestRun, TestRunAttrs, TestRunOptions};
use ringtap::{Error, Result};

use super::frame::{FrameSpec, magic};
use super::report::LATENESS_BUCKETS;
use super::schedule::{Profile, exponential_factors};
use crate::host::run_inside;
use crate::namespace::Namespace;
use crate::tools;

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/generate.bpf.o"));

const CONFIG_FIELDS: usize = 24;
/// `header` in `struct config`: it follows the 16 plain fields.
const HEADER: std::ops::Range<usize> = 16..24;
const STATE_FIELDS: usize = 21;

/// What the program must know beside frame and profile.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) ifindex: u32,
    pub(crate) stream: u16,
    /// 0: no limit.
    pub(crate) limit: u64,
    pub(crate) batch: u32,
    pub(crate) hold_ns: u64,
    pub(crate) max_late_ns: u64,
    pub(crate) first_seq: u64,
    pub(crate) random_seed: u64,
}

/// `struct state` of the program, as last read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct State {
    pub(crate) sent: u64,
    pub(crate) next_q16: u64,
    pub(crate) base_ns: u64,
    pub(crate) last_ns: u64,
    pub(crate) first_ns: u64,
    pub(crate) gap_q16: u64,
    pub(crate) slipped_ns: u64,
    pub(crate) slips: u64,
    pub(crate) late_max_ns: u64,
    pub(crate) late: u64,
    pub(crate) runs: u64,
    pub(crate) done: bool,
    pub(crate) bytes: u64,
    pub(crate) first_due_q16: u64,
    pub(crate) last_due_q16: u64,
}

/// Maps that other threads may read and write while the program runs.
#[derive(Clone)]
pub(crate) struct Controls {
    state: Arc<Array<MapData, [u64; STATE_FIELDS]>>,
    lateness: Arc<Array<MapData, u64>>,
    stop: Arc<Mutex<Array<MapData, u64>>>,
}

impl std::fmt::Debug for Controls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Controls").finish_non_exhaustive()
    }
}

impl Controls {
    pub(crate) fn state(&self) -> Result<State> {
        let raw = self.state.get(&0, 0).map_err(|error| map_error("read", "STATE", error))?;
        // In the order of `struct state`; 5 segment, 6 its start, 7 burst position, 8 random, 15 held since, 20 lag: its own affair.
        Ok(State {
            sent: raw[0],
            next_q16: raw[1],
            base_ns: raw[2],
            last_ns: raw[3],
            first_ns: raw[4],
            gap_q16: raw[9],
            slipped_ns: raw[10],
            slips: raw[11],
            late_max_ns: raw[12],
            late: raw[13],
            runs: raw[14],
            done: raw[16] != 0,
            bytes: raw[17],
            first_due_q16: raw[18],
            last_due_q16: raw[19],
        })
    }

    pub(crate) fn lateness(&self) -> Result<Vec<u64>> {
        (0..LATENESS_BUCKETS as u32)
            .map(|bucket| self.lateness.get(&bucket, 0).map_err(|error| map_error("read", "LATENESS", error)))
            .collect()
    }

    pub(crate) fn stopped(&self) -> Result<bool> {
        let stop = self.stop.lock().unwrap_or_else(PoisonError::into_inner);
        stop.get(&0, 0).map(|value| value != 0).map_err(|error| map_error("read", "STOP", error))
    }

    pub(crate) fn stop(&self) -> Result<()> {
        self.set_stop(1)
    }

    fn set_stop(&self, value: u64) -> Result<()> {
        let mut stop = self.stop.lock().unwrap_or_else(PoisonError::into_inner);
        stop.set(0, value, 0).map_err(|error| map_error("write", "STOP", error))
    }
}

/// The loaded program with its tables filled.
pub(crate) struct GenerateProgram {
    bpf: Ebpf,
    controls: Controls,
    frame: Vec<u8>,
    batch: u32,
    /// Dropped last: the attachment is in `bpf`.
    _anchor: Anchor,
}

/// A device without traffic, in a network namespace of its own, that the program is attached to.
///
/// A test run enters the program into the kernel's XDP dispatcher and takes it out at its end, and each time waits for a
/// grace period of RCU: more than 20 ms of silence between two calls (bpf_prog_change_xdp in net/bpf/test_run.c and
/// kernel/bpf/dispatcher.c). A program that is attached somewhere is in the dispatcher already, and nothing waits.
struct Anchor {
    _namespace: Namespace,
}

impl Anchor {
    fn new(program: &mut Xdp) -> Result<Self> {
        let namespace = Namespace::new()?;
        run_inside(&namespace, || {
            tools::run("ip", "link add anchor0 type veth peer name anchor1")?;
            program.attach("anchor0", XdpMode::Driver).map_err(|error| {
                Error::failed("attach the generator's BPF program to", "its anchor device", chain(&error))
            })
        })??;
        Ok(Self { _namespace: namespace })
    }
}

impl GenerateProgram {
    pub(crate) fn load(frame: &FrameSpec, profile: &Profile, settings: &Settings) -> Result<Self> {
        let mut bpf = EbpfLoader::new().load(OBJECT).map_err(|error| {
            Error::failed("load", "the generator's BPF object", chain(&error))
                .way_out("Linux 5.18 or newer and CAP_BPF, CAP_NET_ADMIN are needed")
        })?;
        let bytes = frame.bytes();
        let sizes = frame.size_table();
        let mut config = [0; CONFIG_FIELDS];
        config[..HEADER.start].copy_from_slice(&[
            settings.ifindex.into(),
            settings.stream.into(),
            settings.limit,
            frame.stamp_offset() as u64,
            frame.ip_offset() as u64,
            if frame.source.is_ipv4() { 4 } else { 6 },
            settings.batch.into(),
            settings.hold_ns,
            settings.max_late_ns,
            sizes.len() as u64,
            frame.flows.into(),
            frame.source_port.into(),
            bytes.len() as u64,
            settings.first_seq,
            magic(),
            frame.destination_port.into(),
        ]);
        for (word, eight) in config[HEADER].iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_ne_bytes(*eight);
        }
        let mut state = [0; STATE_FIELDS];
        state[8] = settings.random_seed | 1;
        fill(&mut bpf, "CONFIG", &[config])?;
        fill(&mut bpf, "SIZE_TABLE", &sizes)?;
        fill(&mut bpf, "FACTOR_TABLE", &exponential_factors())?;
        let mut segments = profile.table();
        if profile.segments.last().is_some_and(|last| last.duration.is_some()) {
            // An endless silence ends the run.
            segments.push([4, 0, 0, 0, 0]);
        }
        fill(&mut bpf, "SEGMENT_TABLE", &segments)?;
        fill(&mut bpf, "STATE", &[state])?;
        let controls = Controls {
            state: Arc::new(take(&mut bpf, "STATE")?),
            lateness: Arc::new(take(&mut bpf, "LATENESS")?),
            stop: Arc::new(Mutex::new(take(&mut bpf, "STOP")?)),
        };
        program(&mut bpf)?.load().map_err(|error| {
            Error::failed("load", "the generator's BPF program", load_cause(&error))
                .way_out("Linux 5.18 or newer and CAP_BPF, CAP_NET_ADMIN are needed")
        })?;
        let anchor = Anchor::new(program(&mut bpf)?)?;
        Ok(Self { bpf, controls, frame: bytes, batch: settings.batch, _anchor: anchor })
    }

    pub(crate) fn controls(&self) -> &Controls {
        &self.controls
    }

    /// One batch that sends nothing, since the program is told to stop: shows whether the kernel can run it at all.
    pub(crate) fn probe(&mut self) -> Result<()> {
        self.controls.set_stop(1)?;
        self.run(self.batch)?;
        self.controls.set_stop(0)
    }

    /// Has the kernel run the program `runs` times, on the calling thread's CPU and in its network namespace. Ends early
    /// without an error when a signal arrives.
    pub(crate) fn run(&mut self, runs: u32) -> Result<()> {
        let options = TestRunOptions {
            data_in: Some(&self.frame),
            repeat: runs,
            attrs: TestRunAttrs::new().xdp_live_frames(self.batch),
            ..TestRunOptions::new()
        };
        match program(&mut self.bpf)?.test_run(options) {
            Ok(_) => Ok(()),
            Err(ProgramError::SyscallError(error)) if error.io_error.kind() == std::io::ErrorKind::Interrupted => {
                Ok(())
            }
            Err(error) => Err(Error::failed("run", "the generator's BPF program", chain(&error))
                .way_out("BPF_F_TEST_XDP_LIVE_FRAMES needs Linux 5.18 or newer")),
        }
    }
}

fn program(bpf: &mut Ebpf) -> Result<&mut Xdp> {
    let missing = || Error::failed("find", "program `generate` in the BPF object", "it is not there");
    bpf.program_mut("generate").ok_or_else(missing)?.try_into().map_err(|_| missing())
}

fn fill<V: aya::Pod>(bpf: &mut Ebpf, name: &str, values: &[V]) -> Result<()> {
    let map = bpf.map_mut(name).ok_or_else(|| Error::failed("find", format!("map {name}"), "it is not there"))?;
    let mut array: Array<_, V> = map.try_into().map_err(|error| map_error("open", name, error))?;
    for (index, value) in values.iter().enumerate() {
        array.set(index as u32, value, 0).map_err(|error| map_error("write", name, error))?;
    }
    Ok(())
}

fn take<V: aya::Pod>(bpf: &mut Ebpf, name: &str) -> Result<Array<MapData, V>> {
    let map = bpf.take_map(name).ok_or_else(|| Error::failed("find", format!("map {name}"), "it is not there"))?;
    map.try_into().map_err(|error| map_error("open", name, error))
}

fn map_error(operation: &str, name: &str, error: aya::maps::MapError) -> Error {
    Error::failed(operation, format!("map {name} of the generator"), chain(&error))
}

/// A refusal comes with the verifier's whole log; its verdict stands before the statistics at the end.
fn load_cause(error: &ProgramError) -> String {
    let ProgramError::LoadError { io_error, verifier_log } = error else { return chain(error) };
    let log = verifier_log.to_string();
    let verdict: Vec<&str> = log.lines().rev().take(5).collect();
    format!("{io_error}: {}", verdict.into_iter().rev().collect::<Vec<_>>().join(" | "))
}

/// aya keeps the system's answer in the sources of its errors.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}
